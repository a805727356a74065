"""Runs side by side: ratios of pairs, verdicts, what could have been shown, forms and gate."""
