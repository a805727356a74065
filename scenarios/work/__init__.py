"""The kinds of work of a workload, behind one interface (`base`)."""
