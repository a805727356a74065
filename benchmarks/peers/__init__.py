"""Clients that others measure S3 stores with, and Archiver next to them."""
