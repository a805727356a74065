"""Comparison of runs: ratios of pairs, verdicts, detectable differences, forms and gate."""
