"""Traces: files of the operations that clients requested of an object store; captured, imported, changed, described."""
