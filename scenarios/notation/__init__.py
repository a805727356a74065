"""Notation of sizes, durations and distributions in scenario files."""
