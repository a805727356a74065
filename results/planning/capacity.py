"""Comparison of the capacity exercises (mail and video) with a plan for the same load.

The planner uses rates that the same run measured without other load. The load of the plan is the load that the run
then carried out. The difference is therefore the plan's error: the effects that it ignores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from archiver.values.errors import ArchiverError
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, number
from results.measures.phases import MeasuredPhase, phases_of
from results.measures.ranges import Range
from results.planning.loads import LoadCourse, MailLoad, PlannedLoad, PlanRequest, RetrieveLoad, VideoLoad
from results.planning.measured_rates import RATES_PHASE, exercise_surface
from results.planning.plan import CapacityPlan, Retrieval, make_plan
from results.planning.rate_surface import MixedTrial, PlannedRate, RateSurface, clients_text
from results.planning.sizing import Archiving
from results.recorded.model import CriterionResult, Result

NIGHT, DISCOVERY, SINGLE = "nightly archive", "discovery", "single retrieval"
CAMERAS, PLAYBACK, EDITORS = "camera streams", "playback", "editors"

_COURSE = LoadCourse(years=1, headroom_share=0.0)
_ALIKE = 1.01  # sizes with a smaller ratio count as one size


@dataclass(frozen=True, slots=True)
class _Edge:
    """The scale that an exercise reached: the largest below every failure, or the smallest if all failed."""

    scale: float
    held: bool
    bound: str = ""  # why the scale is only a bound of the edge

    @property
    def largest(self) -> float | None:
        return self.scale if self.held else None


@dataclass(frozen=True, slots=True)
class _Answer:
    """A plan's answer and the rate that it uses, or the reason for its absence."""

    clients: int
    planned: Range | None
    rates: tuple[PlannedRate, ...] = ()
    refusal: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        beyond = [warning for rate in self.rates if rate.beyond > _ALIKE for warning in rate.warnings]
        doubts = [doubt for rate in self.rates for cell in rate.cells for doubt in cell.doubts]
        return tuple(dict.fromkeys([*beyond, *doubts, *([self.refusal] if self.refusal else [])]))


def capacity_tables(
    results: Sequence[Result],
    criteria: Sequence[CriterionResult] = (),
    surface: RateSurface | None = None,
) -> list[Table]:
    """Return a table of measured and planned values for each exercise in these results; empty if there are none.

    ``surface`` has the rates for the plan. The default is the rates that the run measured in its phase ``rates``. A
    search measures these again in every step, close in time to the values that they predict.
    """
    trials = _trials(results, criteria, surface)
    return [] if trials is None else [_table(trials.kind, list(trials.lines()), trials)]


def mixed_trials(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> tuple[MixedTrial, ...]:
    """Return the archived load of the exercise in these results, and the plan for it, for each number of clients."""
    trials = _trials(results, criteria, None)
    if trials is None:
        return ()
    return tuple(
        MixedTrial(
            line.what, line.answer.clients, line.answer.planned.value, line.measured, trials.others, bool(line.bound)
        )
        for line in trials.lines()
        if line.is_edge and line.measured and line.answer.planned is not None and line.answer.planned.value
    )


def _trials(
    results: Sequence[Result], criteria: Sequence[CriterionResult], surface: RateSurface | None
) -> _Trials | None:
    """Return the trials of an exercise at its deciding scale. Returns None without trials or without rates to plan."""
    phases = phases_of(results, criteria)
    exercise = [
        phase
        for phase in phases
        if phase.scale is not None and any(result.application in (NIGHT, CAMERAS) for result in phase.results)
    ]
    if surface is None:
        surface = exercise_surface(results, source=f"the phase {RATES_PHASE!r} of this run")
    if not exercise or surface is None:
        return None
    void = {phase.position for phase in phases if phase.void}
    missed = [
        each.scale for each in criteria if each.scale is not None and not each.passed and each.position not in void
    ]
    edge = _edge(exercise, missed)
    is_mail = any(result.application == NIGHT for result in exercise[0].results)
    at_edge = [phase for phase in exercise if phase.scale == edge.scale]
    return _Trials("mail" if is_mail else "video", at_edge, criteria, edge, surface)


@dataclass(frozen=True, slots=True)
class _Trials:
    """All phases of the exercise at the deciding scale, and the rates to plan with."""

    kind: Literal["mail", "video"]
    phases: Sequence[MeasuredPhase]
    criteria: Sequence[CriterionResult]  # of the run
    edge: _Edge
    surface: RateSurface

    def lines(self) -> Iterator[_CapacityLine]:
        return _mail_lines(self) if self.kind == "mail" else _video_lines(self)

    @property
    def others(self) -> str:
        """The names of the loads next to the archived one; empty if there are none."""
        names = dict.fromkeys(result.application for phase in self.phases for result in phase.results)
        return " and ".join(name for name in names if name not in (NIGHT, CAMERAS))

    def of(self, application: str, *, whole: bool = False) -> list[Result]:
        """Return the results of an application. ``whole``: without phases that a criterion ended."""
        return [
            result
            for phase in self.phases
            if not (whole and any(each.aborted for each in phase.criteria))
            for result in phase.results
            if result.application == application and result.objects
        ]

    def limit(self, application: str, metric: str) -> float | None:
        """Return the scenario's limit."""
        names = {result.workload for result in self.of(application)}
        return next((c.limit for c in self.criteria if c.workload in names and c.name.startswith(f"{metric} <")), None)


@dataclass(frozen=True, slots=True)
class _CapacityLine:
    what: str
    decimals: int
    measured: float | None
    answer: _Answer
    bound: str = ""  # why there is no measured number, or only a lower bound, for which no difference is computed
    is_edge: bool = False  # the largest load that passed


def _mail_lines(trials: _Trials) -> Iterator[_CapacityLine]:
    nights = trials.of(NIGHT)
    if not nights:
        return
    night, users = nights[0], int(trials.edge.scale)
    window = trials.limit(NIGHT, "seconds")
    wanted = next((result.objects_per_session for result in trials.of(DISCOVERY)), 1)

    load = MailLoad(
        users=users,
        messages=night.objects_per_session,
        mean_bytes=night.object_bytes,
        window_seconds=window if window is not None else night.seconds,
        discovery_messages=wanted,
    )
    if window is not None:
        for answer in _archiving_answers(trials, load, lambda found: found.units_max):
            yield _CapacityLine(
                f"users in {window:g} s", 0, trials.edge.largest, answer, trials.edge.bound, is_edge=True
            )
    seconds = [result.seconds for result in trials.of(NIGHT, whole=True)]
    for answer in _archiving_answers(trials, load, lambda found: found.seconds):
        yield _CapacityLine(f"a night of {users:,} users (s)", 2, median(seconds) if seconds else None, answer)
    yield _CapacityLine(
        "one message back (ms)", 1, _mean_ms(trials.of(SINGLE)), _retrieval_answer(trials, load, lambda p: p.single)
    )
    answer = _retrieval_answer(trials, load, lambda p: p.retrieval)
    yield _CapacityLine(f"{wanted} messages of a user back (ms)", 1, _mean_ms(trials.of(DISCOVERY)), answer)


def _video_lines(trials: _Trials) -> Iterator[_CapacityLine]:
    shifts = trials.of(CAMERAS)
    if not shifts:
        return
    shift, cameras = shifts[0], int(trials.edge.scale)
    due = median(result.offered_per_second or 0.0 for result in shifts) * shift.objects_per_session

    load = VideoLoad(
        cameras=cameras,
        bytes_per_second=due * shift.object_bytes / cameras,
        objects_per_session=shift.objects_per_session,
    )
    for answer in _archiving_answers(trials, load, lambda found: found.units_max):
        yield _CapacityLine("cameras", 0, trials.edge.largest, answer, trials.edge.bound, is_edge=True)
    yield _CapacityLine(
        "one chunk back (ms)", 1, _mean_ms(trials.of(PLAYBACK)), _retrieval_answer(trials, load, lambda p: p.single)
    )
    films = trials.of(EDITORS)
    if films:
        what = f"{films[0].clients} films of {films[0].objects_per_session} chunks at once (ms)"
        for answer in _film_answers(trials.surface, films[0]):
            yield _CapacityLine(what, 1, _mean_ms(films), answer)


def _archiving_answers(trials: _Trials, load: PlannedLoad, of: Callable[[Archiving], Range]) -> Iterator[_Answer]:
    """Yield the plan's answers on archiving, for each number of clients with known rates."""
    for clients in trials.surface.clients("archive"):
        try:
            found = _plan(trials, load, clients).archiving
            assert found is not None
            yield _Answer(clients, of(found), found.rates)
        except ArchiverError as error:
            yield _Answer(clients, None, refusal=str(error))


def _retrieval_answer(trials: _Trials, load: PlannedLoad, of: Callable[[CapacityPlan], Retrieval | None]) -> _Answer:
    """Return the milliseconds of a retrieval session by one client."""
    try:
        made = _plan(trials, load)
    except ArchiverError as error:
        return _Answer(1, None, refusal=str(error))
    found = of(made)
    if found is None:
        return _Answer(1, None, refusal="; ".join(made.unanswered))
    return _Answer(found.clients, found.seconds_alone.times(1000), tuple(rate for _, rate in found.parts))


def _plan(trials: _Trials, load: PlannedLoad, clients: int | None = None) -> CapacityPlan:
    return make_plan(trials.surface, PlanRequest(load=load, course=_COURSE, clients=clients))


def _film_answers(surface: RateSurface, film: Result) -> Iterator[_Answer]:
    """Yield the answers for consecutive films and, if overlap was measured, for overlapping films."""
    size, count = film.objects_per_session * film.object_bytes, film.objects_per_session
    try:
        load = RetrieveLoad(size_bytes=size, parallel=film.clients, objects_per_session=count)
        found = make_plan(surface, PlanRequest(load=load)).retrieval
    except ArchiverError as error:
        yield _Answer(1, None, refusal=str(error))
        return
    assert found is not None
    one_after_another = found.seconds_alone.times(film.clients * 1000 / found.clients)
    yield _Answer(found.clients, one_after_another, tuple(rate for _, rate in found.parts))
    if found.overlapping is not None:
        yield _Answer(found.overlapping.clients, found.seconds.times(1000), (found.overlapping,))


def _edge(phases: Sequence[MeasuredPhase], missed: Sequence[float]) -> _Edge:
    """Return the edge as a search finds it: a scale fails if one of its phases failed, or a smaller scale failed.

    A scale with only void phases neither passed nor failed. ``missed``: scales at which a valid phase failed.
    """
    scales = sorted({phase.scale for phase in phases if phase.scale is not None})
    valid = {phase.scale for phase in phases if not phase.void}
    failed = min(missed, default=None)
    below = [scale for scale in scales if failed is None or scale < failed]
    held = [scale for scale in below if scale in valid]
    if not held:
        what = "failed" if scales[0] in valid else "was void: the platform was not the limit"
        return _Edge(scales[0], False, f"{scales[0]:,.0f}, the fewest tried, {what}; other values are from there")
    if held[-1] < below[-1]:
        return _Edge(held[-1], True, f"at least: the client was the limit at {below[-1]:,.0f}")
    if failed is not None:
        return _Edge(held[-1], True)
    return _Edge(held[-1], True, f"at least: {held[-1]:,.0f}, the most tried, passed")


def _table(kind: str, lines: Sequence[_CapacityLine], trials: _Trials) -> Table:
    return TableSpec(
        name=f"{kind}-measured-against-planned",
        title=f"Measured against planned: {kind}",
        columns=(
            Column("what", of=lambda line: line.what, label=True),
            Column("planned with", of=lambda line: clients_text(line.answer.clients), label=True),
            Column("measured", of=lambda line: number(line.measured, line.decimals, tuple(filter(None, [line.bound])))),
            Column("planned", of=_planned),
            Column("range", of=lambda line: _range(line.answer.planned, line.decimals)),
            Column("difference", "%", _difference),
        ),
        caption=_caption(kind, trials),
    ).table(lines)


def _planned(line: _CapacityLine) -> Cell:
    planned = line.answer.planned
    return number(planned.value if planned is not None else None, line.decimals, line.answer.notes)


def _difference(line: _CapacityLine) -> Cell:
    planned, measured = line.answer.planned, line.measured
    if planned is None or not planned.value or measured is None or line.bound:
        return Cell(NOT_MEASURED)
    difference = (measured / planned.value - 1) * 100
    return Cell(f"{difference:+,.0f}", difference)


def _range(planned: Range | None, decimals: int) -> Cell:
    if planned is None or planned.low is None or planned.high is None:
        return Cell(NOT_MEASURED)
    return Cell(f"{planned.low:,.{decimals}f} to {planned.high:,.{decimals}f}")


def _caption(kind: str, trials: _Trials) -> str:
    """Return the caption: the method of the comparison, and the differences that the plan ignores."""
    archive = trials.of(NIGHT if kind == "mail" else CAMERAS)
    reasons = []
    if archive:
        first = archive[0]
        reasons.append(f"{first.application} had up to {first.clients} sessions at once, the plan only its clients")
        if "sizes of" in first.sizes:
            reasons.append(f"it archived {first.sizes}, the plan assumes that all objects have the mean size")
    if trials.others:
        reasons.append(f"{trials.others} ran at the same time, the plan ignores other work")
    count = len({result.position for result in archive})
    return (
        f"Measured with {trials.edge.scale:,.0f} {'users' if kind == 'mail' else 'cameras'}, "
        f"{count} trial{'s' if count != 1 else ''}. Planned by the method of `archiver plan`, with the rates of "
        f"{trials.surface.source}. Difference: measured / planned - 1. A retrieval is the mean time of a session from "
        f"when it was due. Reasons for differences: {'; '.join(reasons)}."
    )


def _mean_ms(results: Sequence[Result]) -> float | None:
    """Return the milliseconds of a session from its due time, over all trials."""
    known = [result.session_ms for result in results if result.session_ms is not None]
    count = sum(latency.count for latency in known)
    return sum(latency.mean * latency.count for latency in known) / count if count else None
