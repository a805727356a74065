"""What the later rounds of conformance checks need: a background load, and a restart after kill -9."""
