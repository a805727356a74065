"""How an S3 request arrives: connection, request line and headers, signature, body."""
