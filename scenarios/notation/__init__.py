"""How a scenario file writes sizes, durations and distributions."""
