"""Commands that show and compare results: report, compare, plan, bundle."""
