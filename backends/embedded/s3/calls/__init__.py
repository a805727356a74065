"""What S3 calls do: one module per family of calls."""
