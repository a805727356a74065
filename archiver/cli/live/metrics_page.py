"""A run in progress as a page of metrics for Prometheus, on loopback only.

A scrape reads the meter. Labels are names from the scenario and the command line (operation, platform). A run of a
thousand phases therefore makes no more series than a run of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from archiver.cli.live.meter import LAST_SECONDS, SERVICE_BOUNDS_SECONDS, Meter, Totals
from archiver.values.errors import UsageError
from archiver.web.live_state import LiveFigures

HOST = "127.0.0.1"
_LATELY = f"in the last {LAST_SECONDS:.0f} s"
_LABELS = ("platform", "operation")


@contextmanager
def metrics_page(meter: Meter, port: int) -> Iterator[str]:
    """Serve the meter until the block ends; yield the page's address.

    Raises UsageError if the port is not available.
    """
    registry = CollectorRegistry()
    registry.register(_RunCollector(meter))
    try:
        server, thread = start_http_server(port, HOST, registry)
    except OSError as error:
        raise UsageError(
            f"--metrics-port {port}: cannot listen on {HOST}:{port} ({error.strerror}); choose another port"
        ) from error
    try:
        yield f"http://{HOST}:{port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _RunCollector(Collector):
    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        moment = self._meter.now()
        for name, text, field in (
            ("archiver_objects", "Objects of successful operations, including warm-up.", "objects"),
            ("archiver_bytes", "Bytes of these objects.", "bytes"),
            ("archiver_errors", "Operations that failed.", "errors"),
            ("archiver_retries", "Failed attempts that were sent again.", "retries"),
        ):
            counter = CounterMetricFamily(name, text, labels=_LABELS)
            for labels, totals in moment.totals.items():
                counter.add_metric(labels, getattr(totals, field))
            yield counter
        yield _service_times(moment.totals)
        yield _gauge("archiver_phases", "Phases of the run, on each platform.", moment.phases)
        yield _gauge("archiver_run_seconds", "Seconds since the first phase began.", moment.seconds)
        yield _gauge(
            "archiver_run_left_seconds", "Estimate of the seconds left, from the phases so far.", moment.seconds_left
        )
        if moment.current is not None:
            yield from _of_phase(moment.current)


def _service_times(totals: Mapping[tuple[str, str], Totals]) -> HistogramMetricFamily:
    """Return the service times of all objects so far, from which any rate and quantile can be computed."""
    family = HistogramMetricFamily(
        "archiver_object_service_seconds", "Time from an object's request to its answer.", labels=_LABELS
    )
    bounds = [*map(str, SERVICE_BOUNDS_SECONDS), "+Inf"]
    for labels, each in totals.items():
        buckets = zip(bounds, accumulate(each.service_counts), strict=True)
        family.add_metric(labels, list(buckets), each.service.total_ns / 1e9)
    return family


def _of_phase(figures: LiveFigures) -> Iterator[GaugeMetricFamily]:
    """Yield the metrics of the current phase, without unknown values."""
    for name, text, value, unit in (
        ("archiver_phase", "Number of the current phase, from 1.", figures.position, 1),
        ("archiver_phase_clients", "Its clients.", figures.clients, 1),
        ("archiver_objects_per_second", f"Objects per second {_LATELY}.", figures.objects_per_second, 1),
        ("archiver_bytes_per_second", f"Bytes per second {_LATELY}.", figures.megabytes_per_second, 1e6),
        (
            "archiver_object_service_p50_seconds",
            f"Median time from an object's request to its answer {_LATELY}.",
            figures.p50_milliseconds,
            1e-3,
        ),
        (
            "archiver_object_service_p99_seconds",
            f"99th percentile of this time {_LATELY}.",
            figures.p99_milliseconds,
            1e-3,
        ),
        (
            "archiver_server_cpu_cores",
            f"Cores that the server's processes used {_LATELY}.",
            figures.server_cpu_percent,
            1e-2,
        ),
        (
            "archiver_server_host_cpu_ratio",
            f"Share of all cores of the server's host that were busy {_LATELY}.",
            figures.host_cpu_percent,
            1e-2,
        ),
        (
            "archiver_server_disk_busy_ratio",
            f"Share of the time that the busiest of the data's disks had a request {_LATELY}.",
            figures.disk_busy_percent,
            1e-2,
        ),
    ):
        yield _gauge(name, text, None if value is None else value * unit, figures.platform)


def _gauge(name: str, text: str, value: float | None, platform: str | None = None) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=("platform",) if platform is not None else ())
    if value is not None:
        family.add_metric((platform,) if platform is not None else (), value)
    return family
