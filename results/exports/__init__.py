"""A run in the formats of other programs: HdrHistogram logs, JUnit, and Prometheus' text format."""
