"""The S3 server of the embedded store.

`server` maps each call to the function that handles it. `requests` reads and verifies requests, `calls` handles them.
"""
