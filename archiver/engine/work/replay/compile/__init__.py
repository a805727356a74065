"""Traces as columns of numbers: what is known of every operation before it is due."""
