"""Raw S3 requests of the conformance checks, and the evidence that they record."""
