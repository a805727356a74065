"""Verdicts: criteria, the search for the largest scale, and rejudging of recorded runs."""
