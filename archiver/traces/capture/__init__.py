"""Captures the traffic between S3 clients and their store: reads the bytes and writes a trace."""
