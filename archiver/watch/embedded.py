"""The watch source ``embedded``: what the embedded store counts of itself.

One idea: its counts are a page of Prometheus metrics like any other's, so embedded.toml beside this module says all.
"""

from __future__ import annotations

from archiver.watch.prometheus import PrometheusSource, builtin


class EmbeddedSource(PrometheusSource):
    """One embedded store, by its S3 endpoint."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"{endpoint}/-/metrics", builtin("embedded"))
        self.name = "embedded"
