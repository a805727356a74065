"""Traces as columns of numbers, with everything that is known of an operation before it is due."""
