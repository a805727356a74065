"""The platforms that conformance checks can run on: over S3, and over TSM."""
