"""The results of a finished run in Prometheus' text format, for node_exporter's textfile collector.

Labels name the platform, the scenario and the parameters of a workload, not the run: a run that is repeated every night
continues the same series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from results.recorded.database import StoredRun
from results.recorded.model import Result
from results.recorded.run import RecordedRun

_LABELS = ("platform", "scenario", "phase", "workload", "operation", "object_bytes", "objects_per_session", "clients")
_QUANTILES = {"0.5": "p50", "0.9": "p90", "0.99": "p99", "0.999": "p99_9"}
_GAUGES: tuple[tuple[str, str, Callable[[Result], float]], ...] = (
    ("archiver_result_objects_per_second", "Objects per second.", lambda result: result.objects_per_second),
    ("archiver_result_bytes_per_second", "Bytes per second.", lambda result: result.megabytes_per_second * 1e6),
    ("archiver_result_errors", "Operations that failed, in no rate.", lambda result: result.errors),
    ("archiver_result_retries", "Failed attempts that were sent again.", lambda result: result.retries),
    ("archiver_result_measured_seconds", "Seconds of the rate.", lambda result: result.seconds),
    (
        "archiver_result_settled",
        "1 if the rate was known as precisely as required.",
        lambda result: float(result.settled),
    ),
    (
        "archiver_result_limited_by_client",
        "1 if the client, or the CPU of the host that it shares with the server, limited the rate.",
        lambda result: float(result.limited_by in ("client", "host cpu")),
    ),
)


def prometheus_text(recorded: RecordedRun) -> str:
    """Return one gauge for each number of each result. Of repetitions the last counts."""
    registry = CollectorRegistry()
    registry.register(_RunResults(recorded.run, recorded.results))
    return generate_latest(registry).decode()


class _RunResults(Collector):
    def __init__(self, run: StoredRun, results: Sequence[Result]) -> None:
        self._run = run
        self._results = {self._labels(result): result for result in results}

    def _labels(self, result: Result) -> tuple[str, ...]:
        numbers = (result.object_bytes, result.objects_per_session, result.clients)
        names = (self._run.platform.name, self._run.scenario, result.phase, result.workload, result.operation)
        return (*names, *map(str, numbers))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield _single("archiver_run_started_timestamp_seconds", "Start of the run.", self._run.started_at, self._run)
        passed = float(self._run.verdict in ("pass", "none"))
        yield _single("archiver_run_passed", "1 if the run finished and missed no criterion.", passed, self._run)
        for name, text, value in _GAUGES:
            family = GaugeMetricFamily(name, text, labels=_LABELS)
            for labels, result in self._results.items():
                family.add_metric(labels, value(result))
            yield family
        times = GaugeMetricFamily(
            "archiver_result_object_service_seconds",
            "Quantiles of the service time of objects.",
            labels=(*_LABELS, "quantile"),
        )
        for labels, result in self._results.items():
            if result.object_service_ms is not None:
                for quantile, field in _QUANTILES.items():
                    times.add_metric((*labels, quantile), getattr(result.object_service_ms, field) / 1e3)
        yield times


def _single(name: str, text: str, value: float, run: StoredRun) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=("platform", "scenario"))
    family.add_metric((run.platform.name, run.scenario), value)
    return family
