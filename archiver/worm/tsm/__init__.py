"""TSM conformance checks: recorded API calls, and what a check works with."""
