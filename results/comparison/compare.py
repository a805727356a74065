"""Platforms compared: the ratio of their rates and of their latencies, cell by cell and over all cells, with what
chance alone would do.

One idea: repetition k of one platform and repetition k of another are a pair, measured one beside the other, and only
their ratio counts. A verdict needs three pairs or more and holds for the whole matrix at once: of the cells called
better or worse, at most 5% are called so by chance. What cannot be judged is shown, and says why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, Literal, get_args

from archiver.errors import ResultsError, UsageError
from results.comparison.likeness import Likeness, likeness
from results.comparison.power import detectable
from results.database import RunDatabase
from results.doubts import doubts, drifts
from results.matrix import CellKey, MatrixCell, matrix_cells, parallel_cells, temperature
from results.model import Latency, Result
from results.statistics import (
    PAIRS_MIN,
    REPETITIONS_MAX,
    PairedRatio,
    benjamini_hochberg,
    paired_ratio,
    pairs_needed,
)

Verdict = Literal["better", "worse", "no difference shown", "no verdict"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

FALSE_DISCOVERY_RATE = 0.05
WORTH_SHOWING_SHARE = 0.05  # the difference for which repetitions are reckoned where none was shown
LEVEL = 0.05  # of a test that stands alone, as that of the whole does
P99_OBJECTS_MIN = 100  # of fewer the 99th percentile is the maximum
NOT_INTERLEAVED = "not interleaved: drift between the runs is part of every difference"
UNLIKE = "unlike runs"


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity of a result that is compared; None where it was not measured."""

    name: str  # in JSON and conditions, with its unit
    words: str
    of: Callable[[Result], float | None]
    more_is_better: bool = False
    objects_min: int = 1  # with fewer in a result it says nothing

    def median(self, cell: MatrixCell) -> float | None:
        """Over the repetitions that have it."""
        values = [value for result in cell.repetitions if (value := self.of(result)) is not None]
        return median(values) if values else None


def _latency(field: str, statistic: str) -> Callable[[Result], float | None]:
    def read(result: Result) -> float | None:
        latency: Latency | None = getattr(result, field)
        return None if latency is None else getattr(latency, statistic)

    return read


RATE = Measure("objects_per_second", "objects/s", lambda result: result.objects_per_second, more_is_better=True)
RESPONSE = Measure("object_response_ms_mean", "mean response", _latency("object_response_ms", "mean"))
P50 = Measure("object_service_ms_p50", "p50 service", _latency("object_service_ms", "p50"))
P99 = Measure("object_service_ms_p99", "p99 service", _latency("object_service_ms", "p99"), objects_min=P99_OBJECTS_MIN)
LATENCIES = (RESPONSE, P50, P99)
_BY_NAME = {measure.name: measure for measure in (RATE, *LATENCIES)}
_LOGARITHM_MAX = 100.0  # a spread without bounds detects nothing; JSON has no word for infinity


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """What a comparison needs of a run's database."""

    row: Mapping[str, Any]
    results: Sequence[Result]
    doubts: Sequence[str] = ()

    @classmethod
    def read(cls, database: RunDatabase) -> MeasuredRun:
        """The run as its database has it. Its drift is left out of the doubts: pairs are there so that it does not
        matter, and where they were not interleaved the comparison says so."""
        drifting = tuple(f"{drift}" for drift in drifts(database))
        kept = [doubt for doubt in doubts(database) if not doubt.startswith(drifting)]
        return cls(database.run(), database.results(), kept)

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def platform(self) -> tuple[str, str, str]:
        """Name, protocol and, unless Archiver started it (on another port each time), address."""
        platform = self.row["platform"]
        started = self.row["settings"].get("platform_started")
        return platform["name"], platform["protocol"], "" if started else ", ".join(platform.get("endpoints", ()))


@dataclass(frozen=True, slots=True)
class Side:
    """One platform of a comparison: its runs in the order in which they started, their repetitions numbered on."""

    label: str
    runs: tuple[MeasuredRun, ...]
    cells: Mapping[CellKey, MatrixCell]

    @property
    def repetitions(self) -> int:
        return max(len(cell.repetitions) for cell in self.cells.values())


@dataclass(frozen=True, slots=True)
class Needed:
    """With how many repetitions a 95% interval of the spread seen would exclude ratio 1, were this the difference."""

    repetitions: int | None  # None: more than REPETITIONS_MAX
    difference_percent: float
    seen: bool  # the difference is the one seen; else one of 5%, since none was shown

    def __str__(self) -> str:
        return f"more than {REPETITIONS_MAX}" if self.repetitions is None else f"{self.repetitions}"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Other / first, from pairs of repetitions; above 1 the other has the higher rate, or the longer latency."""

    ratio: float | None  # geometric mean over the pairs; None: no pair has two rates above zero
    low: float | None
    high: float | None
    p: float | None  # None: not tested
    adjusted_p: float | None  # over all cells of one measure and side; of the whole, p itself
    pairs: int
    verdict: Verdict
    because: str = ""  # there is no verdict
    needed: Needed | None = None
    notes: tuple[str, ...] = ()
    detectable_percent: float | None = None  # a true difference as large is called one in four cases of five

    @property
    def words(self) -> str:
        return f"{self.verdict} ({self.because})" if self.because else self.verdict


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One cell on every side that measured it, and the ratios of each further side to the first."""

    key: CellKey
    measured: tuple[MatrixCell | None, ...]
    ratios: tuple[Ratio | None, ...]  # of the rates
    latencies: Mapping[str, tuple[Ratio | None, ...]]  # by the measure's name


@dataclass(frozen=True, slots=True)
class Overall:
    """One side against the first, over the whole matrix."""

    ratio: Ratio  # pairs are the mean over cells: they are independent of each other, cells are not
    cells: int  # that count in it
    cells_in_common: int
    verdicts: Mapping[Verdict, int]
    marks: tuple[str, ...]  # in what the two are not alike
    latencies: Mapping[str, Ratio]  # by the measure's name, over the cells that have it
    forced: tuple[str, ...]  # why the two would have been refused; nothing of them has a verdict

    def ratio_of(self, measure: Measure) -> Ratio:
        return self.ratio if measure is RATE else self.latencies[measure.name]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The sides, the first of which is the base of every ratio; all else in their order."""

    sides: tuple[Side, ...]
    interleaved: bool
    cells: tuple[ComparedCell, ...]
    overall: tuple[Overall, ...]  # of the second side and each further one

    def pair(self, index: int) -> str:
        """``other / first`` for the entry of ``overall`` at this index."""
        return f"{self.sides[index + 1].label} / {self.sides[0].label}"

    @property
    def forced(self) -> tuple[str, ...]:
        """Why this comparison would have been refused; empty where nothing was forced."""
        return tuple(dict.fromkeys(reason for overall in self.overall for reason in overall.forced))


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
    columns, overall = [], []
    for other, found in zip(sides[1:], unlike, strict=True):
        marks = [] if interleaved else [NOT_INTERLEAVED]
        marks += [*(mark for alike in found for mark in alike.marks), *_unmatched(first, other)]
        forced = tuple(reason for alike in found for reason in alike.refusals)
        evidence = {measure.name: _evidence(first, other, measure) for measure in (RATE, *LATENCIES)}
        columns.append({name: _ratios(each, _BY_NAME[name], forced=bool(forced)) for name, each in evidence.items()})
        overall.append(_overall(evidence, columns[-1][RATE.name], marks, forced))
    keys = [key for key in first.cells if any(key in column[RATE.name] for column in columns)]
    cells = tuple(
        ComparedCell(
            key,
            tuple(side.cells.get(key) for side in sides),
            tuple(column[RATE.name].get(key) for column in columns),
            {measure.name: tuple(column[measure.name].get(key) for column in columns) for measure in LATENCIES},
        )
        for key in keys
    )
    return Comparison(sides, interleaved, cells, tuple(overall))


def _sides(runs: Sequence[MeasuredRun]) -> tuple[Side, ...]:
    """Runs by platform in the order in which platforms were named; labelled by what tells them apart."""
    groups: dict[tuple[str, str, str], list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(run.platform, []).append(run)
    if len(groups) == 1:
        return tuple(_side(run.id, [run]) for run in runs)
    return tuple(_side(_label(platform, list(groups)), group) for platform, group in groups.items())


def _label(platform: tuple[str, str, str], others: Sequence[tuple[str, str, str]]) -> str:
    """The name, or as much more as tells it from the others."""
    name, protocol, address = platform
    same = [other for other in others if other[0] == name]
    if len(same) == 1:
        return name
    if len({other[1] for other in same}) == len(same):
        return protocol if len(same) == len(others) else f"{name} through {protocol}"
    return f"{name} at {address or 'this machine'}"


def _side(label: str, runs: Iterable[MeasuredRun]) -> Side:
    in_order = sorted(runs, key=lambda run: (run.row["started_at"], run.id))
    repetitions: dict[CellKey, list[Result]] = {}
    before = 0
    for run in in_order:
        if not run.results:
            raise ResultsError(f"run {run.id} holds no results: no phase finished; leave it out")
        for key, cell in {**parallel_cells(run.results), **matrix_cells(run.results)}.items():
            numbered = [replace(result, repetition=before + result.repetition) for result in cell.repetitions]
            repetitions.setdefault(key, []).extend(numbered)
        before += run.row["repetitions"]  # as planned: what a run that broke off lacks, moves no other's pair
    cells = {key: MatrixCell(key, tuple(repetitions[key])) for key in sorted(repetitions)}
    return Side(label, tuple(in_order), cells)


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
    """Cells that only one of them measured."""
    lone = {side.label: side.cells.keys() - another.cells.keys() for side, another in ((first, other), (other, first))}
    return [
        f"{len(keys)} cell{'s' if len(keys) > 1 else ''} measured on {label} only"
        for label, keys in lone.items()
        if keys
    ]


def _interleaved(sides: Sequence[Side]) -> bool:
    """Whether every pair was measured side by side: run by run, the sides share their comparison's id."""
    ids = {tuple(run.row.get("comparison") for run in side.runs) for side in sides}
    return len(ids) == 1 and None not in ids.pop()


@dataclass(frozen=True, slots=True)
class _Evidence:
    """The pairs of one cell."""

    log_ratios: Mapping[int, float]  # by repetition; empty where no ratio can be made
    pairs: int
    unfit: str  # why it says nothing of the platforms; empty where it does
    notes: tuple[str, ...] = ()
    retrieves: bool = False


def _evidence(first: Side, other: Side, measure: Measure) -> dict[CellKey, _Evidence]:
    """The pairs of every cell that both measured."""
    found = {
        key: _pairs(cell, other.cells[key], measure, _temperature_notes(first, other, key))
        for key, cell in first.cells.items()
        if key in other.cells
    }
    if not found:
        raise ResultsError(
            f"{first.label} and {other.label} have no cell in common (operation, object size, objects per session and"
            " clients); measure the same scenario on both"
        )
    return found


def _pairs(ours: MatrixCell, theirs: MatrixCell, measure: Measure, notes: tuple[str, ...]) -> _Evidence:
    beside = {result.repetition: result for result in theirs.repetitions}
    pairs = {r.repetition: (r, beside[r.repetition]) for r in ours.repetitions if r.repetition in beside}
    both = [result for pair in pairs.values() for result in pair]
    values = {number: (measure.of(our), measure.of(their)) for number, (our, their) in pairs.items()}
    logs = {number: math.log(their / our) for number, (our, their) in values.items() if our and their}
    unmeasured = "a rate of zero" if measure is RATE else f"no {measure.words} time measured"
    reasons = (
        ("no pair", not pairs),
        ("errors", any(result.errors for result in both)),
        (unmeasured, len(logs) < len(pairs)),
        ("limited by the client", any(result.limited_by == "client" for result in both)),
        ("limited by the machine", any(result.limited_by == "host cpu" for result in both)),
        (f"fewer than {measure.objects_min} objects", any(result.objects < measure.objects_min for result in both)),
    )
    unfit = next((reason for reason, applies in reasons if applies), "")
    return _Evidence(logs if len(logs) == len(pairs) else {}, len(pairs), unfit, notes, _retrieves(ours))


def _temperature_notes(first: Side, other: Side, key: CellKey) -> tuple[str, ...]:
    """Where the retrieved data came from, unless it is known and the same."""
    if not _retrieves(first.cells[key]):
        return ()
    ours, theirs = temperature([first.cells[key]]), temperature([other.cells[key]])
    if ours == theirs and ours in ("cold", "warm"):
        return ()
    return (f"retrieved data: {ours} on {first.label}, {theirs} on {other.label}",)


def _retrieves(cell: MatrixCell) -> bool:
    return cell.repetitions[0].operation == "retrieve"


def _ratios(evidence: Mapping[CellKey, _Evidence], measure: Measure, *, forced: bool) -> dict[CellKey, Ratio]:
    """Every cell judged, over all of them together."""
    if forced:
        evidence = {key: replace(each, unfit=each.unfit or UNLIKE) for key, each in evidence.items()}
    estimates = {key: paired_ratio(list(each.log_ratios.values())) for key, each in evidence.items() if each.log_ratios}
    p_values = {key: found.p for key, found in estimates.items() if found.p is not None and not evidence[key].unfit}
    adjusted = dict(zip(p_values, benjamini_hochberg(list(p_values.values())), strict=True))
    levels = _levels(adjusted)
    return {
        key: _judged(each, estimates.get(key), adjusted.get(key), levels.get(key), measure)
        for key, each in evidence.items()
    }


def _levels(adjusted: Mapping[CellKey, float]) -> dict[CellKey, float]:
    """The p value that a cell had to stay below to be called different, the other cells being as they are."""
    called = [key for key, p in adjusted.items() if p < FALSE_DISCOVERY_RATE]
    share = FALSE_DISCOVERY_RATE / len(adjusted) if adjusted else 0.0
    return {key: share * (len(called) if key in called else len(called) + 1) for key in adjusted}


def _judged(
    evidence: _Evidence, estimated: PairedRatio | None, adjusted_p: float | None, level: float | None, measure: Measure
) -> Ratio:
    """The verdict, by rule."""
    if estimated is None:
        return Ratio(None, None, None, None, None, evidence.pairs, "no verdict", evidence.unfit, None, evidence.notes)
    verdict, because, needed = _verdict(evidence.unfit, estimated, adjusted_p, measure)
    return Ratio(
        ratio=estimated.ratio,
        low=estimated.low,
        high=estimated.high,
        p=estimated.p if adjusted_p is not None else None,
        adjusted_p=adjusted_p,
        pairs=estimated.pairs,
        verdict=verdict,
        because=because,
        needed=needed,
        notes=evidence.notes,
        detectable_percent=_detectable_percent(estimated, level),
    )


def _verdict(
    unfit: str, estimated: PairedRatio, adjusted_p: float | None, measure: Measure
) -> tuple[Verdict, str, Needed | None]:
    """The verdict, why there is none, and the repetitions needed."""
    if unfit:
        return "no verdict", unfit, None
    if adjusted_p is None or estimated.pairs < PAIRS_MIN:
        return "no verdict", "1 pair" if estimated.pairs == 1 else f"{estimated.pairs} pairs", _needed(estimated)
    if adjusted_p >= FALSE_DISCOVERY_RATE:
        return "no difference shown", "", _needed(estimated)
    return "better" if (estimated.ratio > 1) == measure.more_is_better else "worse", "", _needed(estimated, seen=True)


def _needed(estimated: PairedRatio, *, seen: bool = False) -> Needed | None:
    """For the difference seen, or one worth showing; None where one pair shows no spread."""
    if estimated.spread is None:
        return None
    ratio = estimated.ratio if seen else 1 + WORTH_SHOWING_SHARE
    return Needed(pairs_needed(estimated.spread, math.log(ratio)), (ratio - 1) * 100, seen)


def _detectable_percent(estimated: PairedRatio, level: float | None) -> float | None:
    """The smallest true difference that these pairs show at this level with a power of 80%, were the spread seen the
    true one; as the higher rate or latency in percent of the lower. None where nothing was tested."""
    if level is None or estimated.spread is None:
        return None
    errors = detectable(estimated.pairs, level)
    return math.expm1(min(errors * estimated.spread / math.sqrt(estimated.pairs), _LOGARITHM_MAX)) * 100


def _overall(
    evidence: Mapping[str, Mapping[CellKey, _Evidence]],
    ratios: Mapping[CellKey, Ratio],
    marks: Sequence[str],
    forced: tuple[str, ...],
) -> Overall:
    rates = evidence[RATE.name]
    warm = [key for key, each in rates.items() if each.notes]
    if warm:
        retrieves = sum(each.retrieves for each in rates.values())
        marks = [*marks, f"cache temperature differs or is unknown in {len(warm)} of {retrieves} retrieve cells"]
    wholes = {name: _whole(each, _BY_NAME[name], forced=bool(forced)) for name, each in evidence.items()}
    return Overall(
        ratio=wholes.pop(RATE.name),
        cells=sum(not each.unfit for each in rates.values()),
        cells_in_common=len(rates),
        verdicts=Counter(ratio.verdict for ratio in ratios.values()),
        marks=tuple(dict.fromkeys(marks)),
        latencies=wholes,
        forced=tuple(dict.fromkeys(forced)),
    )


def _whole(evidence: Mapping[CellKey, _Evidence], measure: Measure, *, forced: bool) -> Ratio:
    """The geometric mean over the cells that say something, of the pairs that all of these have."""
    fit = [each.log_ratios for each in evidence.values() if not each.unfit]
    numbers = sorted(set[int].intersection(*(set(logs) for logs in fit))) if fit else []
    means = [fmean(logs[number] for logs in fit) for number in numbers]
    if not means:
        unfit = "no pair that all cells have" if fit else "no cell to judge by"
        return _judged(_Evidence({}, 0, unfit), None, None, None, measure)
    estimated = paired_ratio(means)
    if forced:
        return _judged(_Evidence({}, len(means), UNLIKE), estimated, None, None, measure)
    level = None if estimated.p is None else LEVEL
    return _judged(_Evidence({}, len(means), ""), estimated, estimated.p, level, measure)
