"""Replay of traces, with concurrent infrastructure operations."""
