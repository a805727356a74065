"""A capture: what passes between S3 clients and their store, read from the bytes and written as a trace."""
