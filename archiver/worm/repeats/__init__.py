"""Repeats conformance checks under load and after kill -9."""
