"""Traces: what was asked of an object store and when, as a file: captured, made from logs, changed, described."""
