"""Scenarios: the files people write, and the code that reads, checks and expands them into phases."""
