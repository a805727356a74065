"""Capture of the traffic between S3 clients and their store as a trace."""
