"""Traces as columns of numbers, with everything that is known about an operation before it is due."""
