"""This machine: cores, caches, folders, signals, and its description in the record of a run."""
