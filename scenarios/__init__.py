"""Scenarios: the files that users write, and the code that reads, checks and expands them into phases."""
