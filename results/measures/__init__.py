"""What the numbers of a run are: units, phases, metrics, statistics, verdicts, and doubts about them."""
