"""The S3 Object Lock backend: boto3 for calls made once per run, our own wire path for calls made per object."""

from backends.s3.backend import S3Backend, S3Options
from backends.s3.setting import S3Request

__all__ = ["S3Backend", "S3Options", "S3Request"]
