"""The S3 protocol as bytes: requests, signatures, replies, and the one session that owns the socket."""
