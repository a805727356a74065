"""The watch source ``minio``: MinIO's counters of its requests and of its process.

One idea: each server counts only its own requests, so the source reads every server and adds the counters. It refuses
an address that different servers answer in turn, because counters would jump back and forth.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from archiver.watch.prometheus import Names, builtin, metrics_of, read_by, read_names
from archiver.watch.source import Source, WatchError
from backends.exposition import Labels, MetricsAddress, ScrapeError, Series
from backends.s3.endpoints import expand
from results.recorded.resources import Reading

# The second form writes operations in lower case; other items are unchanged.
_OPERATIONS = {
    name.lower(): name
    for name in (
        "DeleteBucket", "DeleteMultipleObjects", "DeleteObject", "GetBucketObjectLockConfig", "GetObject",
        "GetObjectLegalHold", "GetObjectRetention", "HeadBucket", "HeadObject", "ListBuckets", "ListObjectVersions",
        "ListObjectsV1", "ListObjectsV2", "PutBucket", "PutBucketObjectLockConfig", "PutObject", "PutObjectLegalHold",
        "PutObjectRetention",
    )
}  # fmt: skip
_IO_READ = "minio_system_process_io_rchar_bytes"  # present if the process could read its I/O counters
_NAMES_SERVER = "minio_s3_requests_incoming_total"  # the second form has the server's name here from the start


class _MetricsForm(NamedTuple):
    """One form of MinIO's metrics."""

    names: Names
    paths: tuple[str, ...]
    counts_late_seconds: float  # maximum age of its request counters


class MinioSource(Source):
    """The servers of one MinIO, by their S3 endpoints."""

    name = "minio"

    def __init__(
        self,
        endpoints: str | Sequence[str],
        token: str | None = None,
        *,
        ca_bundle: str | None = None,
        insecure: bool = False,
    ) -> None:
        """``endpoints`` has one URL per server; ``http://node{1...4}:9000`` is four. Raises UsageError."""
        given = (endpoints,) if isinstance(endpoints, str) else endpoints
        self._endpoints = tuple(url for endpoint in given for url in expand(endpoint))
        self._token, self._ca_bundle, self._insecure = token, ca_bundle, insecure
        self._forms = (
            _MetricsForm(
                read_names(builtin("minio_v3")),
                ("/minio/metrics/v3/system/process", "/minio/metrics/v3/api/requests"),
                0.0,
            ),
            _MetricsForm(read_names(builtin("minio_v2")), ("/minio/v2/metrics/node",), 10.0),
        )
        self._form: _MetricsForm | None = None  # set at the first read
        self._pages: dict[str, list[MetricsAddress]] = {}  # endpoint -> its pages
        self._servers: dict[str, str] = {}  # endpoint -> the server that answered there first

    @property
    def counts_late_seconds(self) -> float:
        """Return the maximum age of request counters; known after the first read."""
        return self._form.counts_late_seconds if self._form is not None else 0.0

    def read(self) -> Reading:
        try:
            if self._form is None:
                self._form, self._pages = self._found()
            return self._read(self._form)
        except ScrapeError as error:
            raise WatchError(f"{self.name}: {error}") from error

    def _found(self) -> tuple[_MetricsForm, dict[str, list[MetricsAddress]]]:
        """Return the newest form of metrics that the first server offers, and all its pages. Raises ScrapeError."""
        for form in self._forms:
            pages = {
                endpoint: [
                    MetricsAddress(
                        endpoint + path,
                        self._token,
                        ca_bundle=self._ca_bundle,
                        insecure=self._insecure,
                        direct=True,  # like all requests to the platform
                    )
                    for path in form.paths
                ]
                for endpoint in self._endpoints
            }
            try:
                pages[self._endpoints[0]][0].scrape(metrics_of(form.names))
                return form, pages
            except ScrapeError as error:
                # MinIO answers 403 for a missing page and for a missing token. The older form decides which it is.
                if error.status not in (401, 403, 404) or form is self._forms[-1]:
                    raise
        raise AssertionError("the last form returns or raises")

    def _read(self, form: _MetricsForm) -> Reading:
        wanted = metrics_of(form.names) | {_IO_READ, _NAMES_SERVER}
        series_of: dict[str, Series] = {}
        for endpoint, pages in self._pages.items():
            series = _joined([page.scrape(wanted) for page in pages])
            series_of[self._server(endpoint, series)] = series  # a server with several addresses counts once
        series = _joined(series_of.values())
        reading = read_by(form.names, series)
        if "process_cpu_seconds" not in reading:
            raise WatchError(
                f"{self.name}: {self._endpoints[0]} has metrics, but none of MinIO's process; check that it is MinIO"
            )
        if _IO_READ in series:
            # The third form leaves out zeros. Without this, only later growth of these two would be visible.
            for quantity in ("process_read_bytes", "process_write_bytes"):
                reading.setdefault(quantity, {"": 0.0})
        return {
            quantity: {_item(quantity, item): value for item, value in values.items()}
            for quantity, values in reading.items()
        }

    def _server(self, endpoint: str, series: Series) -> str:
        """Return the name of the server at an endpoint. Raises WatchError if it changes."""
        answered = {labels["server"] for rows in series.values() for labels, _ in rows if "server" in labels}
        if endpoint in self._servers:
            answered.add(self._servers[endpoint])
        if len(answered) > 1:
            raise WatchError(
                f"{self.name}: several servers answer at {endpoint} ({', '.join(sorted(answered))}), as behind a load "
                "balancer, and each counts only its own requests; name each server with --endpoint"
            )
        return self._servers.setdefault(endpoint, next(iter(answered), endpoint))


def _joined(pages: Iterable[Series]) -> Series:
    joined: dict[str, list[tuple[Labels, float]]] = {}
    for page in pages:
        for name, rows in page.items():
            joined.setdefault(name, []).extend(rows)
    return joined


def _item(quantity: str, item: str) -> str:
    """Convert an item to the third form: its spelling of operations, and seconds as a plain number."""
    if quantity == "first_byte_requests":
        operation, _, seconds = item.rpartition(" ")
        return f"{_OPERATIONS.get(operation, operation)} {float(seconds):g}"
    return _OPERATIONS.get(item, item)
