"""Runs: the plan, the phases, and what every phase measured."""
