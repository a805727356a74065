"""Clients that other projects measure S3 stores with, for comparisons with Archiver."""
