"""Conformance checks over the TSM client API: calls and cases."""
