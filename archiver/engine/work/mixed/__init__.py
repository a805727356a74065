"""Concurrent workloads, each with its own mix of operations."""
