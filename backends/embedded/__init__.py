"""The embedded WORM store: one core that keeps objects and locks, and the doors through which it speaks.

`store` is the core's face and knows no protocol; `s3_door` is the first door. `process` starts the store as a
process of its own, which is how every command and test uses it.
"""
