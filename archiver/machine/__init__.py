"""This machine: cores, caches, folders, signals, and its description in a run's record."""
