"""The S3 Object Lock backend: boto3 for what happens once per run, our own wire path for what happens per object."""

from backends.s3.backend import S3Backend, S3Options

__all__ = ["S3Backend", "S3Options"]
