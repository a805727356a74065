"""The embedded WORM store: a core that keeps objects and locks, and the servers through which clients reach it.

The packages, from the bottom up: `core` is the store and knows no protocol; `s3` and `tsm` are its S3 server and its
TSM server; `server` runs both in one process. `process` starts that process, which is how commands and tests use the
store. Versions and archives are in the same segments, but in rows of different tables. So neither server can reach the
other's objects.
"""
