"""The S3 protocol as bytes: requests, signatures, replies, and the session with its socket."""
