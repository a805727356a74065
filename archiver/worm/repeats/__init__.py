"""Conformance checks repeated: in rounds, under load, and after kill -9."""
