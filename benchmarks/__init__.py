"""What we claim about our own speed, reproducible: `python -m benchmarks NAME --json`.

One idea: a claim is a ratio of two things measured side by side, in interleaved rounds of one run, because absolute
times on a shared machine say little. The test suite runs every benchmark small, so none of them rots.
"""
