"""Tables of one run."""
