"""Figure 19: rate, response time and errors over the time of a run, and the server's processor.

The database has counts, and the sum and the maximum of the response times, of every 250 ms. Percentiles need a
histogram, which it has for each phase. Warm-up and drain are included; the rates of the tables exclude them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, nan
from typing import NamedTuple

from matplotlib.figure import Figure

from results.database import PhaseTimes, WorkloadInterval
from results.figures.phases import COLOURS, GREY, Caption
from results.figures.timelines import DrawnCurve, TimelinePanel, draw_timelines
from results.tables.watched import Curve, Watched

RUN_COURSE = "figure-19-run-course"
_BINS_MAX = 800  # over the width of the panel


class _Bin(NamedTuple):
    """The objects of all workloads that ended within some intervals."""

    begins: float  # seconds since the first phase began
    ends: float
    objects: int
    errors: int
    response_mean_ms: float  # NaN: no object ended
    response_max_ms: float


def build_course_figure(watched: Watched, caption: Caption) -> dict[str, Figure]:
    """Return the figure by the stem of its file name; empty if no phase has intervals."""
    phases = [(phase, list(_bins(watched, phase))) for phase in watched.phases]
    if not any(bins for _, bins in phases):
        return {}

    def curve(of: Callable[[_Bin], float]) -> Curve:
        return _joined([[(each.begins, each.ends, of(each)) for each in bins] for _, bins in phases])

    panels = [
        TimelinePanel(
            "objects per second (log)",
            [DrawnCurve("objects/s", curve(lambda each: each.objects / (each.ends - each.begins)), COLOURS[0])],
            height=1.2,
            is_log=True,
        ),
        TimelinePanel(
            "response, ms (log)",
            [
                DrawnCurve("p99 response of the phase", _of_phases(watched, "p99"), COLOURS[1], 1.6),
                DrawnCurve("p50 response of the phase", _of_phases(watched, "p50"), COLOURS[2], 1.6),
                DrawnCurve("mean response", curve(lambda each: each.response_mean_ms), COLOURS[0]),
                DrawnCurve("maximum response", curve(lambda each: each.response_max_ms), GREY, 0.6),
            ],
            height=1.4,
            is_log=True,
        ),
    ]
    if any(each.errors for _, bins in phases for each in bins):
        errors = curve(lambda each: each.errors / (each.ends - each.begins))
        panels.append(TimelinePanel("errors per second", [DrawnCurve("errors/s", errors, COLOURS[1])], height=0.6))
    for timeline in list(watched.sources("process_cpu_seconds").values())[:1]:
        cpu = watched.curve(timeline, sum, "process_cpu_seconds")
        percent = Curve(cpu.seconds, [100 * value for value in cpu.values])
        drawn = DrawnCurve("server CPU: the store's processes", percent, COLOURS[3])
        panels.append(TimelinePanel("server CPU, %", [drawn], height=0.6))
    bin_seconds = _intervals_per_bin(watched) * watched.interval_ns / 1e9
    facts = [f"all workloads, means and maxima of {bin_seconds:g} s, warm-up and drain included"]
    if watched.unsteady:
        facts.append("triangles: phases whose rate was unsteady")
    figure = draw_timelines("The run over its time: rate and response time", panels, watched, caption, facts)
    _mark_unsteady(figure, watched)
    return {RUN_COURSE: figure}


def _intervals_per_bin(watched: Watched) -> int:
    from_ns, to_ns = watched.span_ns
    return ceil((to_ns - from_ns) / watched.interval_ns / _BINS_MAX)


def _bins(watched: Watched, phase: PhaseTimes) -> Iterator[_Bin]:
    """Yield the bins of a phase. A bin without a row is one in which no object ended.

    The phase ends within its last interval, so that interval belongs to the bin before it.
    """
    rows = watched.intervals.get(phase.position, ())
    if not rows:
        return
    size_ns = _intervals_per_bin(watched) * watched.interval_ns
    last = max(0, max(row.interval for row in rows) * watched.interval_ns // size_ns - 1)
    groups: dict[int, list[WorkloadInterval]] = {}
    for row in rows:
        groups.setdefault(min(last, row.interval * watched.interval_ns // size_ns), []).append(row)
    first_ns = phase.start_ns - watched.span_ns[0]
    for place in range(last + 1):
        group = groups.get(place, [])
        objects = sum(row.objects for row in group)
        ends_ns = phase.end_ns - phase.start_ns if place == last else (place + 1) * size_ns
        yield _Bin(
            (first_ns + place * size_ns) / 1e9,
            (first_ns + ends_ns) / 1e9,
            objects,
            sum(row.errors for row in group),
            sum(row.response_total_ns for row in group) / objects / 1e6 if objects else nan,
            max(row.response_max_ns for row in group) / 1e6 if objects else nan,
        )


def _of_phases(watched: Watched, percentile: str) -> Curve:
    """Return a level for each phase with one workload."""
    start_ns = watched.span_ns[0]
    return _joined(
        [
            [((phase.start_ns - start_ns) / 1e9, (phase.end_ns - start_ns) / 1e9, getattr(found, percentile))]
            for phase in watched.phases
            if (found := watched.responses.get(phase.position)) is not None
        ]
    )


def _joined(phases: list[list[tuple[float, float, float]]]) -> Curve:
    """Return steps (begins, ends, value), with a gap before each phase."""
    seconds: list[float] = []
    values: list[float] = []
    for steps in phases:
        if steps:
            seconds += [steps[0][0], steps[0][0], *(ends for _, ends, _ in steps)]
            values += [nan, steps[0][2], *(value for _, _, value in steps)]
    return Curve(seconds, values)


def _mark_unsteady(figure: Figure, watched: Watched) -> None:
    """Draw a triangle at the top of the rates of each unsteady phase."""
    rates = figure.axes[0]
    start_ns, end_ns = watched.span_ns
    per_ns = rates.get_xlim()[1] / (end_ns - start_ns)
    middles = [
        ((phase.start_ns + phase.end_ns) / 2 - start_ns) * per_ns
        for phase in watched.phases
        if phase.position in watched.unsteady
    ]
    top = rates.get_xaxis_transform()
    rates.plot(middles, [0.97] * len(middles), "v", color="#000000", markersize=5, transform=top)
