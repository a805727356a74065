"""The quantities that are compared and tabulated, each under one name.

A Measure reads one number from a Result or from a part of one. Copies of a workload (tiles) run at the same time: their
rates add up, and the worst of their times counts. For means, the mean over all objects counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from results.recorded.model import Latency, PartResult, Result, ServerUsage

P99_OBJECTS_MIN = 100  # the 99th percentile of fewer objects is their maximum

Measured = Result | PartResult


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
    found = [each.object_response_ms for each in measured if each and each.object_response_ms]
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


def _latency(field: str, statistic: str) -> Callable[[Measured], float | None]:
    def read(measured: Measured) -> float | None:
        latency: Latency | None = getattr(measured, field, None)  # parts have no sessions
        return None if latency is None else getattr(latency, statistic)

    return read


def _megabytes(measured: Measured) -> float | None:
    """Return MB/s, or None for an operation that moves no bytes."""
    return measured.megabytes_per_second if measured.bytes or not measured.objects else None


def _sessions(measured: Measured) -> float | None:
    """Return sessions/s of an open loop. In a closed loop, sessions/s follow from objects/s."""
    return measured.achieved_per_second if isinstance(measured, Result) and measured.offered is not None else None


RATE = Measure("objects_per_second", "objects/s", lambda measured: measured.objects_per_second, more_is_better=True)
MEGABYTE_RATE = Measure("megabytes_per_second", "MB/s", _megabytes, more_is_better=True)
SESSION_RATE = Measure("sessions_per_second", "sessions/s", _sessions, more_is_better=True)
RESPONSE = Measure("object_response_ms_mean", "mean response", _latency("object_response_ms", "mean"))
P50 = Measure("object_service_ms_p50", "p50 service", _latency("object_service_ms", "p50"))
P99 = Measure("object_service_ms_p99", "p99 service", _latency("object_service_ms", "p99"), objects_min=P99_OBJECTS_MIN)
RESPONSE_P99 = Measure(
    "object_response_ms_p99", "p99 response", _latency("object_response_ms", "p99"), objects_min=P99_OBJECTS_MIN
)
SESSION = Measure("session_service_ms_mean", "mean session", _latency("session_service_ms", "mean"))
SCORE = Measure("score", "score", lambda _: None, more_is_better=True)  # of all workloads of a phase, not of one
LATENCIES = (RESPONSE, P50, P99)
WORKLOAD_MEASURES = (RATE, MEGABYTE_RATE, SESSION_RATE, *LATENCIES, RESPONSE_P99)
OBJECT_TIMES = frozenset((*LATENCIES, RESPONSE_P99))  # defined by the protocol: a request, or a part of a transaction
CELL_LATENCIES = (SESSION, *LATENCIES)  # the sessions of a cell have the same objects, whatever the protocol
CELL_MEASURES = (RATE, *CELL_LATENCIES)  # the objects of a cell have one size, so MB/s follow from objects/s
MEASURES = (*WORKLOAD_MEASURES, SESSION, SCORE)
