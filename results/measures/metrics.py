"""The quantities that are compared and tabulated, each under one name.

A Measure reads one number from a Result or from a part of one. Copies of a workload (tiles) run at the same time: their
rates add up, and the worst of their times counts. For means, the mean over all objects counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from archiver.values.metrics import read_metric
from results.recorded.model import Latency, PartResult, Result, ServerUsage

P99_OBJECTS_MIN = 100  # the 99th percentile of fewer objects is their maximum

Measured = Result | PartResult
_Value = Latency | float | None


class Amounts(NamedTuple):
    """How much a number rests on: the smallest amounts of the results that it comes from."""

    seconds_min: float  # measured time
    sessions_min: int  # sessions completed within it
    objects_min: int


def amounts(results: Sequence[Result]) -> Amounts:
    """Return the smallest measured seconds, sessions and objects of these results; zeros if there are none."""
    return Amounts(
        min((result.seconds for result in results), default=0.0),
        min((result.sessions for result in results), default=0),
        min((result.objects for result in results), default=0),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """A quantity. Each quantity has one Measure object. ``of`` returns None if the quantity was not measured."""

    name: str  # name in JSON and conditions, with its unit
    words: str
    of: Callable[[Measured], float | None]
    more_is_better: bool = False
    objects_min: int = 1  # minimum number of objects for a meaningful value

    def over(self, copies: Sequence[Measured]) -> float | None:
        """Return the value over copies that ran at the same time. Returns None for a rate that one copy lacks."""
        values = [value for each in copies if (value := self.of(each)) is not None]
        if not values or (self.more_is_better and len(values) < len(copies)):
            return None
        if self.more_is_better:
            return sum(values)
        return pooled_mean_ms(copies) if self is RESPONSE else max(values)


def pooled_mean_ms(measured: Iterable[Measured | None]) -> float | None:
    """Return the mean response time over all objects of these results."""
    found = [each.object_ms for each in measured if each and each.object_ms]
    count = sum(latency.count for latency in found)
    return sum(latency.mean * latency.count for latency in found) / count if count else None


def mean_over(
    results: Iterable[Result], of: Callable[[Result], float | None], weight: Callable[[Result], float]
) -> float | None:
    """Return the mean of a value over the results that have it, weighted; None if none has it.

    ``weight``: ``objects_of`` for a value per object, ``bytes_of`` per byte, ``seconds_of`` for a share of time.
    """
    known = [(weight(result), value) for result in results if (value := of(result)) is not None]
    total = sum(each for each, _ in known)
    return sum(each * value for each, value in known) / total if total else None


def server_mean(
    results: Iterable[Result], of: Callable[[ServerUsage], float | None], weight: Callable[[Result], float]
) -> float | None:
    """Return ``mean_over`` of a value of the server, over the results whose server was sampled."""
    return mean_over(results, lambda result: None if result.server is None else of(result.server), weight)


def objects_of(result: Result) -> int:
    return result.objects


def bytes_of(result: Result) -> int:
    return result.bytes


def seconds_of(result: Result) -> float:
    return result.seconds


def value_of(metric: str, statistic: str | None, measured: Measured) -> float | None:
    """Return the value of a metric (``archiver.values.metrics``) in its unit; None if it was not measured.

    ``statistic`` is one of STATISTICS for a distribution of times. Parts have only the metrics that are of parts.
    """
    if metric in _OF_PARTS:
        value = _OF_PARTS[metric](measured)
    else:
        value = _OF_WORKLOADS[metric](measured) if isinstance(measured, Result) else None
    return float(getattr(value, statistic or "")) if isinstance(value, Latency) else value


def _statistic(name: str, words: str, objects_min: int = 1) -> Measure:
    """Return the measure of a metric's statistic, such as ``object_ms.p99``."""
    metric, statistic = read_metric(name)
    return Measure(name, words, lambda measured: value_of(metric, statistic, measured), objects_min=objects_min)


def _megabytes(measured: Measured) -> float | None:
    """Return MB/s, or None for an operation that moves no bytes."""
    return measured.megabytes_per_second if measured.bytes or not measured.objects else None


def _sessions(measured: Measured) -> float | None:
    """Return sessions/s of an open loop. In a closed loop, sessions/s follow from objects/s."""
    return measured.achieved_per_second if isinstance(measured, Result) and measured.offered is not None else None


def _lateness(result: Result) -> _Value:
    if result.replayed is not None:
        return result.replayed.lateness_ms
    return result.offered.lateness_ms if result.offered is not None else result.client.lateness_p99_ms


def _found_no_client(result: Result) -> int:
    """Return the sessions that were due while every client was busy. The others have a measured scheduling delay."""
    offered = result.offered
    if offered is None:
        return 0
    return offered.sessions - (offered.lateness_ms.count if offered.lateness_ms is not None else 0)


def _per_session_due(result: Result, sessions: int) -> float | None:
    offered = result.offered
    return sessions / offered.sessions if offered is not None and offered.sessions else None


_OF_PARTS: dict[str, Callable[[Result | PartResult], _Value]] = {
    "object_ms": lambda part: part.object_ms,
    "object_service_ms": lambda part: part.object_service_ms,
    "first_byte_ms": lambda part: part.first_byte_ms,
    "errors": lambda part: part.errors if part.attempts or part.errors else None,
    "missed_deadlines": lambda part: part.missed_deadlines if part.objects or part.missed_deadlines else None,
    "objects_per_second": lambda part: part.objects_per_second if part.objects else None,
    "megabytes_per_second": lambda part: part.megabytes_per_second if part.objects else None,
}
_OF_WORKLOADS: dict[str, Callable[[Result], _Value]] = {
    "session_ms": lambda result: result.session_ms,
    "session_service_ms": lambda result: result.session_service_ms,
    "session_start_ms": lambda result: result.session_start_ms,
    "lateness_ms": _lateness,
    "sessions_per_second": lambda result: result.sessions / result.seconds if result.sessions else None,
    "achieved_over_offered": lambda result: _per_session_due(result, result.sessions),
    "dropped": lambda result: result.offered.dropped if result.offered and result.offered.sessions else None,
    "waited_share": lambda result: _per_session_due(result, _found_no_client(result)),
    "seconds": lambda result: result.seconds if result.objects else None,
    "share_of_ceiling": lambda result: result.ceiling.share if result.ceiling and result.objects else None,
    "replay_margin_seconds": lambda result: result.replayed.margin_seconds if result.replayed else None,
    "infrastructure_ratio": lambda result: result.infrastructure.ratio if result.infrastructure else None,
    "client_cpu_percent": lambda result: result.client.cpu_percent if result.objects else None,
}
MEASURED_METRICS = frozenset((*_OF_PARTS, *_OF_WORKLOADS))

RATE = Measure("objects_per_second", "objects/s", lambda measured: measured.objects_per_second, more_is_better=True)
MEGABYTE_RATE = Measure("megabytes_per_second", "MB/s", _megabytes, more_is_better=True)
SESSION_RATE = Measure("sessions_per_second", "sessions/s", _sessions, more_is_better=True)
RESPONSE = _statistic("object_ms.mean", "mean response")
P50 = _statistic("object_service_ms.p50", "p50 service")
P99 = _statistic("object_service_ms.p99", "p99 service", P99_OBJECTS_MIN)
RESPONSE_P99 = _statistic("object_ms.p99", "p99 response", P99_OBJECTS_MIN)
SESSION = _statistic("session_service_ms.mean", "mean session")
SCORE = Measure("score", "score", lambda _: None, more_is_better=True)  # of all workloads of a phase, not of one
LATENCIES = (RESPONSE, P50, P99)
WORKLOAD_MEASURES = (RATE, MEGABYTE_RATE, SESSION_RATE, *LATENCIES, RESPONSE_P99)
OBJECT_TIMES = frozenset((*LATENCIES, RESPONSE_P99))  # defined by the protocol: a request, or a part of a transaction
CELL_LATENCIES = (SESSION, *LATENCIES)  # the sessions of a cell have the same objects, whatever the protocol
CELL_MEASURES = (RATE, *CELL_LATENCIES)  # the objects of a cell have one size, so MB/s follow from objects/s
MEASURES = (*WORKLOAD_MEASURES, SESSION, SCORE)
