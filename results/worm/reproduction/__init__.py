"""Scripts that show a finding of a conformance run again, made of its evidence."""
