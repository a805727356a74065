"""The watch source ``embedded``: counters of the embedded store.

One idea: the store has an ordinary page of Prometheus metrics, so embedded.toml next to this module is the whole
source.
"""

from __future__ import annotations

from archiver.watch.prometheus import PrometheusSource, builtin


class EmbeddedSource(PrometheusSource):
    """One embedded store, by its S3 endpoint."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(f"{endpoint}/-/metrics", builtin("embedded"))
        self.name = "embedded"
