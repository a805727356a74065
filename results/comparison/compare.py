"""Platforms compared: the ratio of their rates and of their latencies, cell by cell and over all cells, with what
chance alone would do; and workload by workload, where several ran side by side.

One idea: repetition k of one platform and repetition k of another are a pair, measured one beside the other, and only
their ratio counts. A verdict needs three pairs or more and holds for the whole matrix at once: of the cells called
better or worse, at most 5% are called so by chance. What cannot be judged is shown, and says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from archiver.values.errors import ResultsError, UsageError
from results.comparison.likeness import Likeness, likeness
from results.comparison.ratios import (
    LATENCIES,
    RATE,
    Evidence,
    Key,
    Measure,
    Ratio,
    Sample,
    Verdict,
    judged_as_a_whole,
    judged_together,
    paired,
)
from results.comparison.units import MEASURES, Unit, UnitKey, units
from results.database import RunDatabase, StoredRun
from results.doubts import doubts, drifts
from results.matrix import (
    CellKey,
    MatrixCell,
    connections_per_session,
    matrix_cells,
    parallel_cells,
    temperature,
)
from results.model import Result
from results.report.mixed_contents import MixedRun, mixed_run

NOT_INTERLEAVED = "not interleaved: drift between the runs is part of every difference"
CONNECTIONS_ALIKE = 1.05  # times as many connections per session; counts of some seconds differ by chance
_CELL_MEASURES = (RATE, *LATENCIES)
_BY_NAME = {measure.name: measure for measure in (*_CELL_MEASURES, *MEASURES)}


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What a comparison needs of a run's database."""

    row: StoredRun
    results: Sequence[Result]
    doubts: Sequence[str] = ()
    mixed: MixedRun | None = None  # its workloads that ran side by side

    @classmethod
    def read(cls, database: RunDatabase) -> MeasuredRun:
        """The run as its database has it. Its drift is left out of the doubts: pairs are there so that it does not
        matter, and where they were not interleaved the comparison says so."""
        drifting = tuple(f"{drift}" for drift in drifts(database))
        kept = [doubt for doubt in doubts(database) if not doubt.startswith(drifting)]
        return cls(database.run(), database.results(), kept, mixed_run(database))

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def platform(self) -> tuple[str, str, str]:
        """Name, protocol and, unless Archiver started it (on another port each time), address."""
        platform = self.row.platform
        started = self.row.settings.get("platform_started")
        return platform.name, platform.protocol, "" if started else ", ".join(platform.endpoints)


@dataclass(frozen=True, slots=True)
class Side:
    """One platform of a comparison: its runs in the order in which they started, their repetitions numbered on."""

    label: str
    runs: tuple[MeasuredRun, ...]
    cells: Mapping[CellKey, MatrixCell]
    units: Mapping[UnitKey, Unit]

    @property
    def repetitions(self) -> int:
        counts = [len(cell.repetitions) for cell in self.cells.values()]
        return max([*counts, *(len(unit.samples) for unit in self.units.values())], default=0)


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One cell on every side that measured it, and the ratios of each further side to the first."""

    key: CellKey
    measured: tuple[MatrixCell | None, ...]
    ratios: tuple[Ratio | None, ...]  # of the rates
    latencies: Mapping[str, tuple[Ratio | None, ...]]  # by the measure's name


@dataclass(frozen=True, slots=True)
class ComparedUnit:
    """One workload among others, likewise."""

    key: UnitKey
    measured: tuple[Unit | None, ...]
    ratios: Mapping[str, tuple[Ratio | None, ...]]  # by the measure's name; what says most of it first

    @property
    def first(self) -> Unit:
        unit = self.measured[0]
        assert unit is not None
        return unit

    @property
    def telling(self) -> Measure:
        """The rate by which it is known: MB/s of large objects, objects/s of small ones."""
        return self.first.measures[0]


@dataclass(frozen=True, slots=True)
class Overall:
    """One side against the first, over the whole matrix; or over all workloads, where there is no matrix."""

    ratio: Ratio  # pairs are the mean over cells: they are independent of each other, cells are not
    cells: int  # that count in it
    cells_in_common: int
    verdicts: Mapping[Verdict, int]
    marks: tuple[str, ...]  # in what the two are not alike
    latencies: Mapping[str, Ratio]  # by the measure's name, over the cells that have it
    forced: tuple[str, ...]  # why the two would have been refused; nothing of them has a verdict
    of: str  # what its cells are: cell, workload

    def ratio_of(self, measure: Measure) -> Ratio:
        return self.ratio if measure is RATE else self.latencies[measure.name]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The sides, the first of which is the base of every ratio; all else in their order."""

    sides: tuple[Side, ...]
    interleaved: bool
    cells: tuple[ComparedCell, ...]
    units: tuple[ComparedUnit, ...]
    overall: tuple[Overall, ...]  # of the second side and each further one

    def pair(self, index: int) -> str:
        """``other / first`` for the entry of ``overall`` at this index."""
        return f"{self.sides[index + 1].label} / {self.sides[0].label}"

    @property
    def forced(self) -> tuple[str, ...]:
        """Why this comparison would have been refused; empty where nothing was forced."""
        return tuple(dict.fromkeys(reason for overall in self.overall for reason in overall.forced))

    @property
    def scale_name(self) -> str:
        """What workloads were scaled by: tiles; empty where by nothing."""
        names = [run.mixed.scale_name for side in self.sides for run in side.runs if run.mixed]
        return next(filter(None, names), "")


def median_of(measure: Measure, cell: MatrixCell) -> float | None:
    """Of a cell's repetitions that have it."""
    values = [value for result in cell.repetitions if (value := measure.of(result)) is not None]
    return median(values) if values else None


def compare_runs(runs: Sequence[MeasuredRun], *, force: bool = False) -> Comparison:
    """Compare platforms; the first run's is the base.

    Runs of one platform and protocol are taken together, their repetitions numbered on; where there is no other
    platform, each run stands for itself. ``force``: runs that are too unlike are compared all the same, marked and
    without verdicts. Raises UsageError for fewer than two runs, or one named twice; ResultsError where they have
    nothing in common, or, naming every reason, where they are too unlike for a ratio to mean anything.
    """
    twice = [name for name, count in Counter(run.id for run in runs).items() if count > 1]
    if twice:
        raise UsageError(f"run {twice[0]} is named twice; name each run once")
    if len(runs) < 2:
        raise UsageError("one run alone compares with nothing; name two runs or more")
    sides = _sides(runs)
    first = sides[0]
    interleaved = _interleaved(sides)
    unlike = [_unlike(first, other) for other in sides[1:]]
    if not force:
        _refuse([alike for each in unlike for alike in each])
    columns, unit_columns, overall = [], [], []
    for other, found in zip(sides[1:], unlike, strict=True):
        marks = [] if interleaved else [NOT_INTERLEAVED]
        marks += [*(mark for alike in found for mark in alike.marks), *_unmatched(first, other)]
        forced = tuple(reason for alike in found for reason in alike.refusals)
        cells, of_units = _cell_evidence(first, other), _unit_evidence(first, other)
        if not any(cells.values()) and not any(of_units.values()):
            raise ResultsError(_nothing_in_common(first, other))
        columns.append(_judged_cells(cells, forced))
        unit_columns.append(_judged_units(of_units, forced))
        marks += [*_temperature_marks(first, other), *_connection_marks(first, other)]
        if any(cells.values()):
            overall.append(_overall(cells, columns[-1][RATE.name], marks, forced, "cell"))
        else:
            whole = {name: {key: each for key, each in of_units[name].items() if key.is_workload} for name in cells}
            overall.append(_overall(whole, unit_columns[-1][RATE.name], marks, forced, "workload"))
    return Comparison(
        sides, interleaved, _compared_cells(sides, columns), _compared_units(sides, unit_columns), tuple(overall)
    )


def _judged_cells(
    evidence: Mapping[str, Mapping[CellKey, Evidence]], forced: tuple[str, ...]
) -> dict[str, dict[CellKey, Ratio]]:
    return {name: judged_together(each, _BY_NAME[name], forced=bool(forced)) for name, each in evidence.items()}


def _judged_units(
    evidence: Mapping[str, Mapping[UnitKey, Evidence]], forced: tuple[str, ...]
) -> dict[str, dict[UnitKey, Ratio]]:
    """Each number of clients apart: there may be many of them, and it is the best that is told."""
    found: dict[str, dict[UnitKey, Ratio]] = {}
    for name, each in evidence.items():
        points = {key: pairs for key, pairs in each.items() if key.clients is not None}
        others = {key: pairs for key, pairs in each.items() if key.clients is None}
        found[name] = {
            **judged_together(others, _BY_NAME[name], forced=bool(forced)),
            **judged_together(points, _BY_NAME[name], forced=bool(forced)),
        }
    return found


def _compared_cells(
    sides: Sequence[Side], columns: Sequence[Mapping[str, Mapping[CellKey, Ratio]]]
) -> tuple[ComparedCell, ...]:
    keys = [key for key in sides[0].cells if any(key in column[RATE.name] for column in columns)]
    return tuple(
        ComparedCell(
            key,
            tuple(side.cells.get(key) for side in sides),
            tuple(column[RATE.name].get(key) for column in columns),
            {measure.name: tuple(column[measure.name].get(key) for column in columns) for measure in LATENCIES},
        )
        for key in keys
    )


def _compared_units(
    sides: Sequence[Side], columns: Sequence[Mapping[str, Mapping[UnitKey, Ratio]]]
) -> tuple[ComparedUnit, ...]:
    found = []
    for key, unit in sides[0].units.items():
        names = [
            measure.name for measure in (*unit.measures, *(each for each in MEASURES if each not in unit.measures))
        ]
        ratios = {name: tuple(column[name].get(key) for column in columns) for name in names}
        measured = {name: each for name, each in ratios.items() if any(each)}
        if measured:
            found.append(ComparedUnit(key, tuple(side.units.get(key) for side in sides), measured))
    return tuple(found)


def _sides(runs: Sequence[MeasuredRun]) -> tuple[Side, ...]:
    """Runs by platform in the order in which platforms were named; labelled by what tells them apart."""
    weights = next((run.mixed.weights for run in runs if run.mixed), None)  # one measure for all scores
    groups: dict[tuple[str, str, str], list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(run.platform, []).append(run)
    if len(groups) == 1:
        return tuple(_side(run.id, [run], weights) for run in runs)
    return tuple(_side(_label(platform, list(groups)), group, weights) for platform, group in groups.items())


def _label(platform: tuple[str, str, str], others: Sequence[tuple[str, str, str]]) -> str:
    """The name, or as much more as tells it from the others."""
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
    """How many endpoints it was reached by; 0: Archiver started it."""
    address = platform[2]
    return len(address.split(", ")) if address else 0


def _side(label: str, runs: Iterable[MeasuredRun], weights: Mapping[str, float] | None) -> Side:
    in_order = sorted(runs, key=lambda run: (run.row.started_at, run.id))
    repetitions: dict[CellKey, list[Result]] = {}
    before = 0
    for run in in_order:
        if not run.results:
            raise ResultsError(f"run {run.id} holds no results: no phase finished; leave it out")
        for key, cell in {**parallel_cells(run.results), **matrix_cells(run.results)}.items():
            numbered = [replace(result, repetition=before + result.repetition) for result in cell.repetitions]
            repetitions.setdefault(key, []).extend(numbered)
        before += run.row.repetitions  # as planned: what a run that broke off lacks, moves no other's pair
    cells = {key: MatrixCell(key, tuple(repetitions[key])) for key in sorted(repetitions)}
    return Side(label, tuple(in_order), cells, units([(run.mixed, run.row) for run in in_order], weights))


def _unlike(first: Side, other: Side) -> list[Likeness]:
    """In what the two differ, and the runs of either among themselves."""
    found = [likeness(first.runs[0].row, other.runs[0].row, (first.label, other.label))]
    for side in (first, other):
        one = side.runs[0]
        found += [likeness(one.row, run.row, (one.id, run.id), pooled=True) for run in side.runs[1:]]
    return found


def _refuse(found: Sequence[Likeness]) -> None:
    """Raise ResultsError with every reason for which these runs do not compare, and the remedy."""
    reasons = list(dict.fromkeys(reason for alike in found for reason in alike.refusals))
    if reasons:
        options = dict.fromkeys(option for alike in found for option in alike.options)
        raise ResultsError(
            f"{'; '.join(reasons)}; measure one of them again with the same {', '.join(options)}, or see their ratios"
            " without verdicts with archiver compare --force"
        )


def _unmatched(first: Side, other: Side) -> list[str]:
    """Cells and workloads that only one of them measured."""
    found = []
    for side, another in ((first, other), (other, first)):
        lone = {"cell": len(side.cells.keys() - another.cells.keys())}
        lone["workload"] = sum(key.is_workload for key in side.units.keys() - another.units.keys())
        found += [
            f"{count} {what}{'s' if count > 1 else ''} measured on {side.label} only"
            for what, count in lone.items()
            if count
        ]
    return found


def _nothing_in_common(first: Side, other: Side) -> str:
    if first.units or other.units:
        what = "no workload in common (phase, scale and name)"
    else:
        what = "no cell in common (operation, object size, objects per session and clients)"
    return f"{first.label} and {other.label} have {what}; measure the same scenario on both"


def _interleaved(sides: Sequence[Side]) -> bool:
    """Whether every pair was measured side by side: run by run, the sides share their comparison's id."""
    ids = {tuple(run.row.comparison for run in side.runs) for side in sides}
    return len(ids) == 1 and None not in ids.pop()


def _cell_evidence(first: Side, other: Side) -> dict[str, dict[CellKey, Evidence]]:
    """The pairs of every cell that both measured, by the measure's name."""
    common = [key for key in first.cells if key in other.cells]
    return {
        measure.name: {
            key: paired(
                _samples(first.cells[key]),
                _samples(other.cells[key]),
                measure,
                (*_temperature_notes(first, other, key), *_cell_connection_notes(first, other, key)),
            )
            for key in common
        }
        for measure in _CELL_MEASURES
    }


def _unit_evidence(first: Side, other: Side) -> dict[str, dict[UnitKey, Evidence]]:
    """The same of every unit, in what was measured of it on either."""
    common = [(key, unit, other.units[key]) for key, unit in first.units.items() if key in other.units]
    return {
        measure.name: {
            key: paired(
                ours.samples,
                theirs.samples,
                measure,
                (
                    *_early_notes((first.label, ours), (other.label, theirs)),
                    *_connection_notes((first.label, ours.connections), (other.label, theirs.connections)),
                ),
            )
            for key, ours, theirs in common
            if measure in (*ours.measures, *theirs.measures)
        }
        for measure in MEASURES
    }


def _early_notes(*units_of: tuple[str, Unit]) -> tuple[str, ...]:
    return tuple(
        f"on {label} it used up what it may archive before its time was over, or a workload beside it did"
        for label, unit in units_of
        if unit.ended_early
    )


def _samples(cell: MatrixCell) -> list[Sample]:
    return [Sample.of(result, _CELL_MEASURES) for result in cell.repetitions]


def _temperature_notes(first: Side, other: Side, key: CellKey) -> tuple[str, ...]:
    """Where the retrieved data came from, unless it is known and the same."""
    if not _retrieves(first.cells[key]):
        return ()
    ours, theirs = temperature([first.cells[key]]), temperature([other.cells[key]])
    if _is_alike(ours, theirs):
        return ()
    return (f"retrieved data: {ours} on {first.label}, {theirs} on {other.label}",)


def _temperature_marks(first: Side, other: Side) -> list[str]:
    """For all cells at once, and for all workloads."""
    cells = [key for key, cell in first.cells.items() if key in other.cells and _retrieves(cell)]
    unlike = sum(bool(_temperature_notes(first, other, key)) for key in cells)
    marks = [f"cache temperature differs or is unknown in {unlike} of {len(cells)} retrieve cells"] if unlike else []
    workloads = [
        (unit.temperature, other.units[key].temperature)
        for key, unit in first.units.items()
        if key.is_workload and key in other.units and unit.temperature
    ]
    unlike = sum(not _is_alike(*pair) for pair in workloads)
    if unlike:
        marks.append(f"cache temperature differs or is unknown in {unlike} of {len(workloads)} workloads that retrieve")
    return marks


def _connection_notes(ours: tuple[str, float], theirs: tuple[str, float]) -> tuple[str, ...]:
    """Where one of them ended connections more often than the other, so that its objects paid for others. Each is a
    label and its connections per session."""
    (label, count), (other_label, other_count) = ours, theirs
    if max(count, other_count) <= CONNECTIONS_ALIKE * min(count, other_count):
        return ()
    return (f"connections per session: {count:.4g} on {label}, {other_count:.4g} on {other_label}",)


def _cell_connection_notes(first: Side, other: Side, key: CellKey) -> tuple[str, ...]:
    ours, theirs = ((side.label, connections_per_session(side.cells[key].repetitions)) for side in (first, other))
    return _connection_notes(ours, theirs)


def _connection_marks(first: Side, other: Side) -> list[str]:
    """For all cells at once, and for all workloads."""
    cells = [
        (connections_per_session(cell.repetitions), connections_per_session(other.cells[key].repetitions))
        for key, cell in first.cells.items()
        if key in other.cells
    ]
    workloads = [
        (unit.connections, other.units[key].connections)
        for key, unit in first.units.items()
        if key.is_workload and key in other.units
    ]
    return [
        f"connections per session differ in {unlike} of {len(pairs)} {what}"
        for what, pairs in (("cells", cells), ("workloads", workloads))
        if (unlike := sum(bool(_connection_notes(("", ours), ("", theirs))) for ours, theirs in pairs))
    ]


def _is_alike(ours: str | None, theirs: str | None) -> bool:
    return ours == theirs and ours in ("cold", "warm")


def _retrieves(cell: MatrixCell) -> bool:
    return cell.repetitions[0].operation == "retrieve"


def _overall(
    evidence: Mapping[str, Mapping[Key, Evidence]],
    ratios: Mapping[Key, Ratio],
    marks: Sequence[str],
    forced: tuple[str, ...],
    of: str,
) -> Overall:
    rates = evidence[RATE.name]
    wholes = {name: judged_as_a_whole(each, _BY_NAME[name], forced=bool(forced)) for name, each in evidence.items()}
    return Overall(
        ratio=wholes.pop(RATE.name),
        cells=sum(not each.unfit for each in rates.values()),
        cells_in_common=len(rates),
        verdicts=Counter(ratios[key].verdict for key in rates),
        marks=tuple(dict.fromkeys(marks)),
        latencies=wholes,
        forced=tuple(dict.fromkeys(forced)),
        of=of,
    )
