"""Scripts that reproduce a finding of a conformance run, generated from its evidence."""
