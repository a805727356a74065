"""Run execution: the plan, the phases, and the measured results of every phase."""
