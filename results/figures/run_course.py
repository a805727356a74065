"""Figure 19: rate, response time and errors over the time of a run, and the server's processor.

The database has the counts and the 50th and 99th percentile of the response times for every 250 ms. Percentiles cannot
be added up, so a bin that covers several intervals or workloads shows the highest of them. The figure includes warm-up
and drain; the rates of the tables exclude them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from math import ceil, nan
from typing import NamedTuple

from matplotlib.figure import Figure

from results.document.drawing import COLOURS
from results.figures.phases import Caption
from results.figures.timelines import DrawnCurve, TimelinePanel, draw_timelines
from results.measures.watched import Curve, Watched
from results.recorded.database import PhaseTimes, WorkloadInterval

RUN_COURSE = "figure-19-run-course"
_PHASES_MAX = 8  # with a figure of their own
_BINS_MAX = 800  # over the width of the panel


class _Bin(NamedTuple):
    """The objects of all workloads that ended within some intervals."""

    begins: float  # seconds since the first phase began
    ends: float
    objects: int
    errors: int
    response_p50_ms: float  # the highest of its intervals and workloads; NaN: no object ended
    response_p99_ms: float


def build_course_figures(watched: Watched, caption: Caption) -> dict[str, Figure]:
    """Return the figure of the run, then one of each phase of its scenario, by the stems of their file names.

    A run of one phase, or of very many, has the first only. Empty if no phase has intervals.
    """
    whole = _course_figure(watched, caption, "The run")
    names = list(dict.fromkeys(_scenario_phase(watched, phase) for phase in watched.phases))
    figures = {RUN_COURSE: whole} if whole is not None else {}
    for place, name in enumerate(names if 1 < len(names) <= _PHASES_MAX else (), 1):
        own = [phase for phase in watched.phases if _scenario_phase(watched, phase) == name]
        figure = _course_figure(replace(watched, phases=own), caption, f"Phase {name}")
        if figure is not None:
            figures[f"{RUN_COURSE}-{place}"] = figure
    return figures


def _scenario_phase(watched: Watched, phase: PhaseTimes) -> str:
    """Return the phase of the scenario that a measured phase belongs to: archive-parallel."""
    return watched.sweeps.get(phase.position, phase.label)


def _course_figure(watched: Watched, caption: Caption, subject: str) -> Figure | None:
    """Return the figure of these phases; None if none has intervals."""
    phases = [(phase, list(_bins(watched, phase))) for phase in watched.phases]
    if not any(bins for _, bins in phases):
        return None

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
                DrawnCurve("p99 response", curve(lambda each: each.response_p99_ms), COLOURS[1]),
                DrawnCurve("p50 response", curve(lambda each: each.response_p50_ms), COLOURS[0]),
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
    interval_seconds = watched.interval_ns / 1e9
    facts = [
        f"all workloads, bins of {bin_seconds:g} s, including warm-up and drain",
        f"p50 and p99: the highest in each bin of one workload's values per {interval_seconds:g} s",
    ]
    if watched.unsteady:
        facts.append("triangles: phases whose rate was unsteady")
    figure = draw_timelines(f"{subject} over its time: rate and response time", panels, watched, caption, facts)
    _mark_unsteady(figure, watched)
    return figure


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
            _highest_ms(row.response_p50_ns for row in group),
            _highest_ms(row.response_p99_ns for row in group),
        )


def _highest_ms(percentiles_ns: Iterable[int | None]) -> float:
    """Return the highest percentile; NaN if none is known."""
    return max((each / 1e6 for each in percentiles_ns if each is not None), default=nan)


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
