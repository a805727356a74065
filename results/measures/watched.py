"""The data of a run besides its results: phases, intervals, samples of the server's sources, and histograms.

A curve is the usage between one sample and the next. Usage during a gap between samples is unknown, so a curve breaks
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import NamedTuple

from results.measures.requests import RequestCount, request_counts
from results.measures.stored_times import NO_TIMES, StoredTimes, stored_times
from results.recorded.database import PhaseTimes, WorkloadInterval
from results.recorded.resources import SILENCE_SECONDS_MAX, Timeline
from results.recorded.run import RecordedRun


class Curve(NamedTuple):
    """A rate over time. Each value applies from the previous moment to its own; NaN marks a gap between samples."""

    seconds: list[float]  # since the first phase's start
    values: list[float]  # per second


@dataclass(frozen=True, slots=True)
class Watched:
    """One run over its time, with its sampled server; without samples if no source reported any."""

    phases: Sequence[PhaseTimes] = ()
    sweeps: Mapping[int, str] = field(default_factory=dict)  # position of a phase -> its sweep: archive-parallel ...
    timelines: Mapping[str, Timeline] = field(default_factory=dict)  # by source
    client: Timeline = field(default_factory=Timeline)  # samples of the client's host, if it is another host
    requests: Sequence[RequestCount] = ()
    shares_host: bool = False  # the server shares the client's host
    disk_roles: Mapping[str, str] = field(default_factory=dict)  # device -> object, catalogue ...
    link_speed_bytes_per_second: float | None = None  # as configured by the user
    intervals: Mapping[int, Sequence[WorkloadInterval]] = field(default_factory=dict)  # by position of the phase
    interval_ns: int = 1
    unsteady: frozenset[int] = frozenset()  # positions of phases with an unsteady rate
    times: StoredTimes = NO_TIMES  # to merge the times of repetitions

    @property
    def span_ns(self) -> tuple[int, int]:
        """Return the time from the first phase's start to the last one's end."""
        return self.phases[0].start_ns, max(phase.end_ns for phase in self.phases)

    def sources(self, quantity: str) -> dict[str, Timeline]:
        """Return the sources that report a quantity."""
        if not self.phases:
            return {}
        return {name: each for name, each in self.timelines.items() if each.last(quantity, self.span_ns[1])}

    def curves(self, timeline: Timeline, *quantities: str) -> dict[str, Curve]:
        """Return the rate over the run of each item, summed over the given counters."""
        steps = self._steps(timeline, *quantities)
        items = dict.fromkeys(item for _, _, rates in steps for item in rates)
        return {item: _curve([(begun, ended, rates.get(item)) for begun, ended, rates in steps]) for item in items}

    def curve(self, timeline: Timeline, fold: Callable[[Iterable[float]], float], *quantities: str) -> Curve:
        """Return the rate of all items folded into one step by step: their sum or their maximum."""
        steps = self._steps(timeline, *quantities)
        return _curve([(begun, ended, fold(rates.values()) if rates else None) for begun, ended, rates in steps])

    def _steps(self, timeline: Timeline, *quantities: str) -> list[tuple[float, float, dict[str, float]]]:
        """Return start and end in seconds and the rates of each step. The rates are empty during a gap."""
        from_ns, to_ns = self.span_ns
        found = []
        for steps in zip(*(timeline.series(each, from_ns, to_ns) for each in quantities), strict=True):
            rates: dict[str, float] = {}
            begun_ns, ended_ns = steps[0][:2]
            if ended_ns - begun_ns <= SILENCE_SECONDS_MAX * 1e9:
                for step in steps:
                    for item, value in step.values.items():
                        rates[item] = rates.get(item, 0.0) + value
            found.append(((begun_ns - from_ns) / 1e9, (ended_ns - from_ns) / 1e9, rates))
        return found


NOTHING_WATCHED = Watched()


def watched(recorded: RecordedRun) -> Watched:
    """Return the phases, intervals and server samples of a run's database."""
    run = recorded.run
    timelines = recorded.timelines
    results = [*recorded.results, *recorded.drift_checks]
    return Watched(
        phases=recorded.phase_times,
        sweeps={result.position: result.phase for result in results},
        timelines=timelines,
        client=recorded.client_timeline,
        requests=request_counts(recorded, timelines),
        shares_host=run.shared_host,
        disk_roles=run.settings.get("disk_roles", {}),
        link_speed_bytes_per_second=run.settings.get("link_speed_bytes_per_second"),
        intervals=recorded.intervals,
        interval_ns=run.interval_ns,
        unsteady=frozenset(each.position for each in results if each.unsteady is not None),
        times=stored_times(recorded),
    )


def _curve(steps: Sequence[tuple[float, float, float | None]]) -> Curve:
    """Return the curve of these steps.

    A step at the beginning or after a gap gets an extra point at its start, or it would be invisible.
    """
    seconds: list[float] = []
    values: list[float] = []
    silent = True
    for begun, ended, value in steps:
        if silent and value is not None:
            seconds.append(begun)
            values.append(value)
        seconds.append(ended)
        values.append(nan if value is None else value)
        silent = value is None
    return Curve(seconds, values)
