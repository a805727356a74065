"""The TSM server of the embedded store.

`server` accepts sessions, `session` is the state of one. `frames` parses and builds the messages of the protocol, which
docs/reference/tsm-protocol.md defines byte by byte.
"""
