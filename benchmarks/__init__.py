"""Reproducible measurements of Archiver's own speed: `python -m benchmarks NAME --json`.

One idea: a benchmark is a ``Benchmark`` value (``benchmarks/benchmark.py``), and docs/benchmarks.md quotes its results.
The tests run a small version of every benchmark.
"""
