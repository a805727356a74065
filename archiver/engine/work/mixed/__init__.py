"""Workloads that run together, each with its own mix of operations."""
