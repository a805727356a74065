"""Comparison of platforms: ratios of rates and latencies by cell and over all cells, with tests against chance.

Workloads that ran at the same time are compared one by one. Repetition k of one platform and repetition k of another
are a pair, measured one after the other, and only their ratio counts. A verdict needs three pairs or more and applies
to the whole matrix at once: of the cells called better or worse, at most 5% are expected to be false. Cells without a
verdict are shown with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, get_args

from archiver.values.errors import ResultsError, UsageError
from results.comparison.likeness import Likeness, likeness, refuse_named_twice
from results.comparison.ratios import Evidence, Ratio, Verdict, judged_as_a_whole, judged_together, paired
from results.comparison.whole_phase import whole_phase_units
from results.measures.doubts import doubts, drifts
from results.measures.metrics import CELL_MEASURES, MEASURES, OBJECT_TIMES, RATE, Measure
from results.measures.phases import phases_of
from results.measures.quality import CLIENT_SHARE_MAX
from results.measures.stored_times import NO_TIMES, StoredTimes, stored_times
from results.measures.units import (
    Unit,
    UnitKey,
    all_cells,
    joined,
    phase_units,
    workload_units,
)
from results.prices.disclosure import Disclosure, disclosed
from results.recorded.database import StoredRun
from results.recorded.model import CheckRecord, Result
from results.recorded.run import RecordedRun
from results.report.mixed_contents import WorkloadsShown, mixed_run
from results.report.summary import RunSummary, summary
from results.worm.findings import CheckCatalogue, catalogue_of

NOT_INTERLEAVED = "not interleaved: drift between the runs is part of every difference"
OTHER_OBJECT_TIMES = "the protocols define an object's time differently"
CONNECTIONS_ALIKE = 1.05  # ratio of connections per session; counts of a few seconds differ by chance
Kind = Literal["cell", "workload"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_BY_NAME = {measure.name: measure for measure in MEASURES}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """The parts of a run's database that a comparison needs."""

    row: StoredRun
    results: Sequence[Result]
    doubts: Sequence[str] = ()
    mixed: WorkloadsShown | None = None  # its workloads that ran at the same time
    checks: Sequence[CheckRecord] = ()  # its conformance checks
    summary: RunSummary | None = None
    times: StoredTimes = NO_TIMES  # to merge the times of repetitions

    @classmethod
    def read(cls, recorded: RecordedRun) -> MeasuredRun:
        """Read a run from its database.

        The warnings omit drift, because pairs cancel it out. If the pairs were not interleaved, the comparison reports
        that.
        """
        drifting = tuple(f"{drift}" for drift in drifts(recorded))
        kept = [doubt for doubt in doubts(recorded) if not doubt.startswith(drifting)]
        results = recorded.results
        found = summary(recorded, kept) if results else None
        return cls(recorded.run, results, kept, mixed_run(recorded), recorded.checks, found, stored_times(recorded))

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def catalogue(self) -> CheckCatalogue | None:
        return catalogue_of(self.row)

    @property
    def platform(self) -> tuple[str, str, str]:
        return platform_of(self.row)


@dataclass(frozen=True, slots=True)
class Side:
    """One platform of a comparison: its runs in the order of their starts, with repetitions numbered consecutively."""

    label: str
    runs: tuple[MeasuredRun, ...]
    units: Mapping[UnitKey, Unit]

    @property
    def protocol(self) -> str:
        return self.runs[0].row.platform.protocol

    @property
    def disclosure(self) -> Disclosure | None:
        """The tested configuration, as the first run that has one discloses it."""
        return next(filter(None, (disclosed(run.row) for run in self.runs)), None)

    @property
    def repetitions(self) -> int:
        return max((len(unit.samples) for unit in self.units.values()), default=0)


CLIENT_TAKES = (
    "the client takes more than 10% of an object's time on one of the two platforms: the table of differences shows the"
    " ratio without the client"
)


@dataclass(frozen=True, slots=True)
class ComparedUnit:
    """One unit on every side that measured it, and the ratios of each further side to the first."""

    key: UnitKey
    measured: tuple[Unit | None, ...]
    ratios: Mapping[str, tuple[Ratio | None, ...]]  # by the measure's name, the most significant first

    @property
    def first(self) -> Unit:
        unit = self.measured[0]
        assert unit is not None
        return unit

    @property
    def main_measure(self) -> Measure:
        """The rate that represents the unit: MB/s of large objects, objects/s of small ones and of cells."""
        return self.first.measures[0]

    def ratio(self, measure: Measure, index: int) -> Ratio | None:
        """Return the ratio of the further side at this index. Returns None if one of the two did not measure it."""
        return self.ratios[measure.name][index] if measure.name in self.ratios else None

    def ratio_without_client(self, index: int) -> float | None:
        """Return the ratio of the rates without the client's time; None if its share of an object's time is unknown.

        In a closed loop the client's time for an object adds to the platform's. Equal client time therefore makes the
        ratio closer to 1. Without a client share s, a rate would be at most 1 / (1 - s) times as high.
        """
        one, other = self.measured[0], self.measured[index + 1]
        if one is None or other is None or not one.objects_per_second:
            return None
        share, other_share = one.client_share, other.client_share
        if share is None or other_share is None or max(share, other_share) >= 1:
            return None
        return other.objects_per_second / one.objects_per_second * (1 - share) / (1 - other_share)


@dataclass(frozen=True, slots=True)
class Overall:
    """The ratio of one side to the first over the whole matrix, or over all workloads if there is no matrix."""

    ratio: Ratio  # pairs are the mean over cells: pairs are independent of each other, cells are not
    cells: int  # cells included in it
    cells_in_common: int
    verdicts: Mapping[Verdict, int]
    marks: tuple[str, ...]  # differences between the conditions of the two
    latencies: Mapping[str, Ratio]  # by the measure's name, over the cells with that measure
    forced: tuple[str, ...]  # reasons against comparing the two; if any, they have no verdicts
    of: Kind  # kind of its cells


@dataclass(frozen=True, slots=True)
class Comparison:
    """The sides, the first of which is the base of every ratio. Everything else is in their order."""

    sides: tuple[Side, ...]
    interleaved: bool
    units: tuple[ComparedUnit, ...]
    overall: tuple[Overall, ...]  # for the second side and each further one

    @property
    def cells(self) -> tuple[ComparedUnit, ...]:
        return tuple(unit for unit in self.units if unit.key.is_cell)

    @property
    def workloads(self) -> tuple[ComparedUnit, ...]:
        return tuple(unit for unit in self.units if not unit.key.is_cell)

    def is_one_protocol(self, index: int) -> bool:
        """Return whether the further side at this index has the protocol of the first."""
        return self.sides[index + 1].protocol == self.sides[0].protocol

    def pair(self, index: int) -> str:
        """Return ``other / first`` for the entry of ``overall`` at this index."""
        return f"{self.sides[index + 1].label} / {self.sides[0].label}"

    @property
    def forced(self) -> tuple[str, ...]:
        """The reasons against this comparison that ``force`` overrode; empty without any."""
        return tuple(dict.fromkeys(reason for overall in self.overall for reason in overall.forced))

    @property
    def scale_name(self) -> str:
        """Return the scale of the workloads: tiles; empty if there is none."""
        names = [run.mixed.scale_name for side in self.sides for run in side.runs if run.mixed]
        return next(filter(None, names), "")


def platform_of(row: StoredRun) -> tuple[str, str, str]:
    """Return name, protocol and address of a run's platform.

    The address is empty if Archiver started the platform, because its port changes.
    """
    platform = row.platform
    started = row.settings.get("platform_started")
    return platform.name, platform.protocol, "" if started else ", ".join(platform.endpoints)


def compare_runs(runs: Sequence[MeasuredRun], *, force: bool = False) -> Comparison:
    """Compare platforms; the first run's platform is the base.

    Runs of one platform and protocol are combined, with consecutive repetitions. If there is no other platform, each
    run is a separate side. ``force`` compares runs that are too different, with marks and without verdicts. Raises
    UsageError for fewer than two runs, or a run named twice. Raises ResultsError if the runs have nothing in common,
    or, naming every reason, if they are too different for a meaningful ratio.
    """
    refuse_named_twice(run.id for run in runs)
    if len(runs) < 2:
        raise UsageError("a comparison needs two runs or more; name at least two")
    sides = _sides(runs)
    first = sides[0]
    interleaved = is_interleaved(sides)
    unlike = [_unlike(first, other) for other in sides[1:]]
    if not force:
        _refuse([alike for each in unlike for alike in each])
    columns, overall = [], []
    for other, found in zip(sides[1:], unlike, strict=True):
        marks = [] if interleaved else [NOT_INTERLEAVED]
        marks += [*(mark for alike in found for mark in alike.marks), *_unmatched(first, other)]
        forced = tuple(reason for alike in found for reason in alike.refusals)
        evidence = _evidence(first, other)
        if not any(evidence.values()):
            raise ResultsError(_nothing_in_common(first, other))
        columns.append(_judged(evidence, forced))
        marks += [*_temperature_marks(first, other), *_connection_marks(first, other)]
        overall.append(_overall(evidence, columns[-1][RATE.name], marks, forced))
    return Comparison(sides, interleaved, _compared(sides, columns), tuple(overall))


def _judged(
    evidence: Mapping[str, Mapping[UnitKey, Evidence]], forced: tuple[str, ...]
) -> dict[str, dict[UnitKey, Ratio]]:
    """Judge cells separately from workloads, and single numbers of clients separately from both.

    There may be many numbers of clients, and reports show only the best. Measures of one unit that differ in opposite
    directions have a note.
    """
    found: dict[str, dict[UnitKey, Ratio]] = {}
    for name, each in evidence.items():
        families: dict[tuple[bool, bool], dict[UnitKey, Evidence]] = {}
        for key, pairs in each.items():
            families.setdefault((key.is_cell, key.clients > 0), {})[key] = pairs
        judged = [judged_together(family, _BY_NAME[name], forced=bool(forced)) for family in families.values()]
        found[name] = {key: ratio for family in judged for key, ratio in family.items()}
    return {
        name: {key: replace(ratio, notes=(*ratio.notes, *_contradiction(found, key))) for key, ratio in each.items()}
        for name, each in found.items()
    }


def _contradiction(found: Mapping[str, Mapping[UnitKey, Ratio]], key: UnitKey) -> tuple[str, ...]:
    """Return which measures of a unit are better and which are worse, if it has both."""
    verdicts = {_BY_NAME[name].words: each[key].verdict for name, each in found.items() if key in each}
    better, worse = (
        ", ".join(words for words, given in verdicts.items() if given == verdict) for verdict in ("better", "worse")
    )
    return (f"better in {better}, worse in {worse}",) if better and worse else ()


def _compared(
    sides: Sequence[Side], columns: Sequence[Mapping[str, Mapping[UnitKey, Ratio]]]
) -> tuple[ComparedUnit, ...]:
    found = []
    for key, unit in sides[0].units.items():
        names = dict.fromkeys(measure.name for measure in (*unit.measures, *MEASURES))
        ratios = {name: tuple(column[name].get(key) for column in columns) for name in names}
        measured = {name: each for name, each in ratios.items() if any(each)}
        if measured:
            found.append(ComparedUnit(key, tuple(side.units.get(key) for side in sides), measured))
    return tuple(found)


def _sides(runs: Sequence[MeasuredRun]) -> tuple[Side, ...]:
    """Return the runs by platform, in the order of the arguments.

    Labels contain the parts that distinguish the platforms.
    """
    weights = next((run.mixed.weights for run in runs if run.mixed), None)  # the same weights for all scores
    groups: dict[tuple[str, str, str], list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(run.platform, []).append(run)
    if len(groups) == 1:
        return tuple(side_of(run.id, [run], weights) for run in runs)
    return tuple(side_of(_label(platform, list(groups)), group, weights) for platform, group in groups.items())


def _label(platform: tuple[str, str, str], others: Sequence[tuple[str, str, str]]) -> str:
    """Return the name, extended as far as necessary to distinguish it from the others."""
    name, protocol, address = platform
    same = [other for other in others if other[0] == name]
    if len(same) == 1:
        return name
    if len({other[1] for other in same}) == len(same):
        return protocol if len(same) == len(others) else f"{name} through {protocol}"
    paths = _paths(platform)
    if 0 not in map(_paths, same) and len({_paths(other) for other in same}) == len(same):
        return f"{name} by {paths} path{'' if paths == 1 else 's'}"
    return f"{name} at {address or 'this machine'}"


def _paths(platform: tuple[str, str, str]) -> int:
    """Return the number of endpoints of the platform; 0 if Archiver started it."""
    address = platform[2]
    return len(address.split(", ")) if address else 0


def side_of(label: str, runs: Iterable[MeasuredRun], weights: Mapping[str, float] | None = None) -> Side:
    """Return these runs of one platform as a side. Raises ResultsError for a run without results."""
    in_order = sorted(runs, key=lambda run: (run.row.started_at, run.id))
    swept: list[Unit] = []
    side_by_side: list[Unit] = []
    before = 0
    for run in in_order:
        if not run.results:
            why = (
                "only conformance checks: compare it with other conformance runs" if run.checks else "no phase finished"
            )
            raise ResultsError(f"run {run.id} has no results: {why}; leave it out")
        swept += [_numbered_on(cell, before) for cell in all_cells(run.results).values()]
        phases = sorted(
            phases_of(run.results, run.mixed.criteria if run.mixed else ()), key=lambda phase: phase.scale or 0.0
        )
        for phase in phases:
            side_by_side += [_numbered_on(unit, before) for unit in phase_units(phase)]
            if run.mixed:
                side_by_side += [
                    _numbered_on(unit, before) for unit in whole_phase_units(phase, run.mixed, run.row, weights)
                ]
        # Use the planned numbers. Repetitions missing from an interrupted run then do not shift the pairs of others.
        before += max([run.row.repetitions, *(phase.repetition for phase in phases)])
    return Side(label, tuple(in_order), dict(sorted(joined(swept).items())) | workload_units(side_by_side))


def _numbered_on(unit: Unit, before: int) -> Unit:
    return replace(unit, samples=tuple(replace(each, repetition=before + each.repetition) for each in unit.samples))


def _unlike(first: Side, other: Side) -> list[Likeness]:
    """Return the differences between the two sides, and between the runs of each."""
    found = [likeness(first.runs[0].row, other.runs[0].row, (first.label, other.label))]
    for side in (first, other):
        one = side.runs[0]
        found += [likeness(one.row, run.row, (one.id, run.id), pooled=True) for run in side.runs[1:]]
    return found


def _refuse(found: Sequence[Likeness]) -> None:
    """Raise ResultsError with every reason against comparing these runs, and the remedy."""
    reasons = list(dict.fromkeys(reason for alike in found for reason in alike.refusals))
    if reasons:
        options = dict.fromkeys(option for alike in found for option in alike.options)
        raise ResultsError(
            f"{'; '.join(reasons)}; measure one of them again with the same {', '.join(options)}, or show their ratios"
            " without verdicts with archiver compare --force"
        )


def _unmatched(first: Side, other: Side) -> list[str]:
    """Return the cells and workloads that only one of the two measured."""
    return [
        f"{count} {what}{'s' if count > 1 else ''} measured on {side.label} only"
        for side, another in ((first, other), (other, first))
        for what in KINDS
        if (count := sum(_is(what, key) for key in side.units.keys() - another.units.keys()))
    ]


def _nothing_in_common(first: Side, other: Side) -> str:
    if not all(key.is_cell for side in (first, other) for key in side.units):
        what = "no workload in common (phase, scale and name)"
    else:
        what = "no cell in common (operation, object size, objects per session and clients)"
    return f"{first.label} and {other.label} have {what}; measure the same scenario on both"


def is_interleaved(sides: Sequence[Side]) -> bool:
    """Return whether every pair was interleaved.

    Run by run, the sides share their comparison's id; or they took turns: the k-th runs of all sides began before any
    (k+1)-th did, and none of these runs has several repetitions.
    """
    ids = {tuple(run.row.comparison for run in side.runs) for side in sides}
    if len(ids) == 1 and None not in ids.pop():
        return True
    runs = [[run.row for run in side.runs] for side in sides]
    if not runs or len(runs[0]) < 2 or any(len(own) != len(runs[0]) for own in runs):
        return False
    turns = list(zip(*runs, strict=True))
    return all(row.repetitions == 1 for turn in turns for row in turn) and all(
        max(row.started_at for row in one) < min(row.started_at for row in following)
        for one, following in pairwise(turns)
    )


def _evidence(first: Side, other: Side) -> dict[str, dict[UnitKey, Evidence]]:
    """Return the pairs of every unit that both measured, by the measure's name, for all measures of either side.

    Times of objects are not comparable between two protocols: an S3 object is a request with its own acknowledgement, a
    TSM object waits for the transaction that it shares with others.
    """
    unlike = OBJECT_TIMES if first.protocol != other.protocol else frozenset()
    common = [(unit, other.units[key]) for key, unit in first.units.items() if key in other.units]
    notes = {ours.key: _notes((first.label, ours), (other.label, theirs)) for ours, theirs in common}
    return {
        measure.name: {
            ours.key: paired(
                ours.samples,
                theirs.samples,
                measure,
                notes[ours.key],
                unfit=OTHER_OBJECT_TIMES if measure in unlike else "",
            )
            for ours, theirs in common
            if measure in (*ours.measures, *theirs.measures)
        }
        for measure in MEASURES
    }


def _notes(ours: tuple[str, Unit], theirs: tuple[str, Unit]) -> tuple[str, ...]:
    """Return the warnings of both sides about a ratio. Each has a label and the side's value."""
    (label, one), (other_label, other) = ours, theirs
    found = []
    if one.key.is_cell and not _is_same_temperature(one, other):
        found.append(f"retrieved data: {one.temperature} on {label}, {other.temperature} on {other_label}")
    found += [
        f"on {name} this workload, or one that ran at the same time, reached its limit of archived data too early"
        for name, unit in (ours, theirs)
        if unit.ended_early
    ]
    if max(one.client_share or 0.0, other.client_share or 0.0) > CLIENT_SHARE_MAX:
        found.append(CLIENT_TAKES)
    if not _is_same_connections(one, other):
        found.append(
            f"connections per session: {one.connections:.4g} on {label}, {other.connections:.4g} on {other_label}"
        )
    return tuple(found)


def _is_same_temperature(one: Unit, other: Unit) -> bool:
    """Return whether neither retrieved anything, or both have the same known cache state."""
    return one.temperature is None or (one.temperature == other.temperature and one.temperature in ("cold", "warm"))


def _is_same_connections(one: Unit, other: Unit) -> bool:
    """Return whether neither platform closed connections more often, so that reconnecting cost both the same."""
    fewer, more = sorted((one.connections, other.connections))
    return more <= CONNECTIONS_ALIKE * fewer


def _temperature_marks(first: Side, other: Side) -> list[str]:
    """Return the marks for all cells at once, and for all workloads."""
    retrieved = {what: [pair for pair in _pairs(first, other, what) if pair[0].temperature] for what in KINDS}
    words = {"cell": "retrieve cells", "workload": "workloads that retrieve"}
    return [
        f"cache state differs or is unknown in {unlike} of {len(pairs)} {words[what]}"
        for what, pairs in retrieved.items()
        if (unlike := sum(not _is_same_temperature(*pair) for pair in pairs))
    ]


def _connection_marks(first: Side, other: Side) -> list[str]:
    """Return the marks for all cells at once, and for all workloads."""
    measured = {what: _pairs(first, other, what) for what in KINDS}
    return [
        f"connections per session differ in {unlike} of {len(pairs)} {what}s"
        for what, pairs in measured.items()
        if (unlike := sum(not _is_same_connections(*pair) for pair in pairs))
    ]


def _pairs(first: Side, other: Side, kind: Kind) -> list[tuple[Unit, Unit]]:
    """Return the cells, or the whole workloads, that both measured."""
    return [(unit, other.units[key]) for key, unit in first.units.items() if _is(kind, key) and key in other.units]


def _is(kind: Kind, key: UnitKey) -> bool:
    return key.is_cell if kind == "cell" else key.is_workload


def _overall(
    evidence: Mapping[str, Mapping[UnitKey, Evidence]],
    ratios: Mapping[UnitKey, Ratio],
    marks: Sequence[str],
    forced: tuple[str, ...],
) -> Overall:
    """Return the result over the cells, or over the workloads if there are no cells."""
    kind: Kind = "cell" if any(key.is_cell for key in evidence[RATE.name]) else "workload"
    chosen = {
        measure.name: {key: each for key, each in evidence[measure.name].items() if _is(kind, key)}
        for measure in CELL_MEASURES
    }
    rates = chosen[RATE.name]
    wholes = {name: judged_as_a_whole(each, _BY_NAME[name], forced=bool(forced)) for name, each in chosen.items()}
    return Overall(
        ratio=wholes.pop(RATE.name),
        cells=sum(not each.unfit for each in rates.values()),
        cells_in_common=len(rates),
        verdicts=Counter(ratios[key].verdict for key in rates),
        marks=tuple(dict.fromkeys(marks)),
        latencies=wholes,
        forced=tuple(dict.fromkeys(forced)),
        of=kind,
    )
