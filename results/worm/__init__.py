"""Conformance runs: findings, and their report."""
