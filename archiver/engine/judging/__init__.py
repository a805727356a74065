"""Verdicts: criteria, the search for the largest scale, and recorded runs judged again."""
