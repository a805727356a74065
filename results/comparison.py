"""Platforms compared: the ratio of their rates cell by cell and over all cells, with what chance alone would do.

One idea: repetition k of one platform and repetition k of another are a pair, measured one beside the other, and only
their ratio counts. A verdict needs three pairs or more and holds for the whole matrix at once: of the cells called
faster or slower, at most 5% are called so by chance. What cannot be judged is shown, and says why.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Literal, get_args

from archiver.errors import ResultsError, UsageError
from results.database import RunDatabase
from results.doubts import doubts, drifts
from results.likeness import differences
from results.matrix import CellKey, MatrixCell, matrix_cells, parallel_cells, temperature
from results.model import Result
from results.statistics import (
    PAIRS_MIN,
    REPETITIONS_MAX,
    PairedRatio,
    benjamini_hochberg,
    paired_ratio,
    pairs_needed,
)

Verdict = Literal["faster", "slower", "no difference shown", "no verdict"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

FALSE_DISCOVERY_RATE = 0.05
WORTH_SHOWING_SHARE = 0.05  # the difference for which repetitions are reckoned where none was shown
NOT_INTERLEAVED = "not interleaved: drift between the runs is part of every difference"


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
    """Other / first, from pairs of repetitions; above 1 the other is faster."""

    ratio: float | None  # geometric mean over the pairs; None: no pair has two rates above zero
    low: float | None
    high: float | None
    p: float | None  # None: not tested
    adjusted_p: float | None  # over all cells of the comparison with the first; of the whole, p itself
    pairs: int
    verdict: Verdict
    because: str = ""  # there is no verdict
    needed: Needed | None = None
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return f"{self.verdict} ({self.because})" if self.because else self.verdict


@dataclass(frozen=True, slots=True)
class ComparedCell:
    """One cell on every side that measured it, and the ratio of each further side to the first."""

    key: CellKey
    measured: tuple[MatrixCell | None, ...]
    ratios: tuple[Ratio | None, ...]


@dataclass(frozen=True, slots=True)
class Overall:
    """One side against the first, over the whole matrix."""

    ratio: Ratio  # pairs are the mean over cells: they are independent of each other, cells are not
    cells: int  # that count in it
    cells_in_common: int
    verdicts: Mapping[Verdict, int]
    marks: tuple[str, ...]  # in what the two are not alike


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


def compare_runs(runs: Sequence[MeasuredRun]) -> Comparison:
    """Compare platforms; the first run's is the base.

    Runs of one platform and protocol are taken together, their repetitions numbered on; where there is no other
    platform, each run stands for itself. Raises UsageError for fewer than two runs, or one named twice; ResultsError
    where they have nothing in common, or are too unlike for a ratio to mean anything.
    """
    twice = [name for name, count in Counter(run.id for run in runs).items() if count > 1]
    if twice:
        raise UsageError(f"run {twice[0]} is named twice; name each run once")
    if len(runs) < 2:
        raise UsageError("one run alone compares with nothing; name two runs or more")
    sides = _sides(runs)
    first = sides[0]
    interleaved = _interleaved(sides)
    columns, overall = [], []
    for other in sides[1:]:
        marks = [] if interleaved else [NOT_INTERLEAVED]
        marks += [*_unlike(first, other), *_unmatched(first, other)]
        evidence = _evidence(first, other)
        ratios = _ratios(evidence)
        columns.append(ratios)
        overall.append(_overall(evidence, ratios, marks))
    keys = [key for key in first.cells if any(key in ratios for ratios in columns)]
    cells = tuple(
        ComparedCell(key, tuple(side.cells.get(key) for side in sides), tuple(ratios.get(key) for ratios in columns))
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


def _unlike(first: Side, other: Side) -> list[str]:
    """What to mark; raises ResultsError where two runs are too unlike."""
    marks = differences(first.runs[0].row, other.runs[0].row, (first.label, other.label))
    for side in (first, other):
        for run in side.runs[1:]:
            marks += differences(side.runs[0].row, run.row, (side.runs[0].id, run.id), pooled=True)
    return marks


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


def _evidence(first: Side, other: Side) -> dict[CellKey, _Evidence]:
    """The pairs of every cell that both measured."""
    found = {
        key: _pairs(cell, other.cells[key], _temperature_notes(first, other, key))
        for key, cell in first.cells.items()
        if key in other.cells
    }
    if not found:
        raise ResultsError(
            f"{first.label} and {other.label} have no cell in common (operation, object size, objects per session and"
            " clients); measure the same scenario on both"
        )
    return found


def _pairs(ours: MatrixCell, theirs: MatrixCell, notes: tuple[str, ...]) -> _Evidence:
    beside = {result.repetition: result for result in theirs.repetitions}
    pairs = {r.repetition: (r, beside[r.repetition]) for r in ours.repetitions if r.repetition in beside}
    both = [result for pair in pairs.values() for result in pair]
    reasons = (
        ("no pair", not pairs),
        ("errors", any(result.errors for result in both)),
        ("limited by the client", any(result.limited_by == "client" for result in both)),
        ("limited by the machine", any(result.limited_by == "host cpu" for result in both)),
        ("a rate of zero", any(not result.objects_per_second for result in both)),
    )
    unfit = next((reason for reason, applies in reasons if applies), "")
    if any(not result.objects_per_second for result in both):
        return _Evidence({}, len(pairs), unfit, notes)
    logs = {
        number: math.log(their.objects_per_second / our.objects_per_second) for number, (our, their) in pairs.items()
    }
    return _Evidence(logs, len(pairs), unfit, notes)


def _temperature_notes(first: Side, other: Side, key: CellKey) -> tuple[str, ...]:
    """Where the retrieved data came from, unless it is known and the same."""
    if key.operation != "retrieve":
        return ()
    ours, theirs = temperature([first.cells[key]]), temperature([other.cells[key]])
    if ours == theirs and ours in ("cold", "warm"):
        return ()
    return (f"retrieved data: {ours} on {first.label}, {theirs} on {other.label}",)


def _ratios(evidence: Mapping[CellKey, _Evidence]) -> dict[CellKey, Ratio]:
    """Every cell judged, over all of them together."""
    estimates = {key: paired_ratio(list(each.log_ratios.values())) for key, each in evidence.items() if each.log_ratios}
    p_values = {key: found.p for key, found in estimates.items() if found.p is not None and not evidence[key].unfit}
    adjusted = dict(zip(p_values, benjamini_hochberg(list(p_values.values())), strict=True))
    return {key: _judged(each, estimates.get(key), adjusted.get(key)) for key, each in evidence.items()}


def _judged(evidence: _Evidence, estimated: PairedRatio | None, adjusted_p: float | None) -> Ratio:
    """The verdict, by rule."""
    if estimated is None:
        return Ratio(None, None, None, None, None, evidence.pairs, "no verdict", evidence.unfit, None, evidence.notes)
    verdict, because, needed = _verdict(evidence.unfit, estimated, adjusted_p)
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
    )


def _verdict(unfit: str, estimated: PairedRatio, adjusted_p: float | None) -> tuple[Verdict, str, Needed | None]:
    """The verdict, why there is none, and the repetitions needed."""
    if unfit:
        return "no verdict", unfit, None
    if adjusted_p is None or estimated.pairs < PAIRS_MIN:
        return "no verdict", "1 pair" if estimated.pairs == 1 else f"{estimated.pairs} pairs", _needed(estimated)
    if adjusted_p >= FALSE_DISCOVERY_RATE:
        return "no difference shown", "", _needed(estimated)
    return "faster" if estimated.ratio > 1 else "slower", "", _needed(estimated, seen=True)


def _needed(estimated: PairedRatio, *, seen: bool = False) -> Needed | None:
    """For the difference seen, or one worth showing; None where one pair shows no spread."""
    if estimated.spread is None:
        return None
    ratio = estimated.ratio if seen else 1 + WORTH_SHOWING_SHARE
    return Needed(pairs_needed(estimated.spread, math.log(ratio)), (ratio - 1) * 100, seen)


def _overall(evidence: Mapping[CellKey, _Evidence], ratios: Mapping[CellKey, Ratio], marks: Sequence[str]) -> Overall:
    """The geometric mean over the cells that say something, of the pairs that all of these have."""
    fit = [each.log_ratios for each in evidence.values() if not each.unfit]
    numbers = sorted(set[int].intersection(*(set(logs) for logs in fit))) if fit else []
    means = [fmean(logs[number] for logs in fit) for number in numbers]
    estimated = paired_ratio(means) if means else None
    unfit = "" if means else "no cell to judge by" if not fit else "no pair that all cells have"
    warm = [key for key, each in evidence.items() if each.notes]
    if warm:
        retrieves = sum(key.operation == "retrieve" for key in evidence)
        marks = [*marks, f"cache temperature differs or is unknown in {len(warm)} of {retrieves} retrieve cells"]
    return Overall(
        ratio=_judged(_Evidence({}, len(numbers), unfit), estimated, estimated.p if estimated else None),
        cells=len(fit),
        cells_in_common=len(evidence),
        verdicts=Counter(ratio.verdict for ratio in ratios.values()),
        marks=tuple(dict.fromkeys(marks)),
    )


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """The JSON of a comparison: rates are medians, ratios other / first; null is what there is not.

    As everywhere: fields may be added, never renamed.
    """
    labels = [side.label for side in comparison.sides]
    return {
        "first": labels[0],
        "interleaved": comparison.interleaved,
        "confidence_percent": 95,
        "false_discovery_rate": FALSE_DISCOVERY_RATE,
        "platforms": [_side_document(side) for side in comparison.sides],
        "cells": [
            {
                **cell.key._asdict(),
                "rates": [
                    _rate_document(label, measured)
                    for label, measured in zip(labels, cell.measured, strict=True)
                    if measured is not None
                ],
                "ratios": [
                    _ratio_document(label, ratio)
                    for label, ratio in zip(labels[1:], cell.ratios, strict=True)
                    if ratio is not None
                ],
            }
            for cell in comparison.cells
        ],
        "overall": [
            {
                **_ratio_document(label, overall.ratio),
                "cells": overall.cells,
                "cells_in_common": overall.cells_in_common,
                **{verdict.replace(" ", "_"): overall.verdicts[verdict] for verdict in VERDICTS},
                "marks": list(overall.marks),
            }
            for label, overall in zip(labels[1:], comparison.overall, strict=True)
        ],
    }


def _side_document(side: Side) -> dict[str, Any]:
    platform = side.runs[0].row["platform"]
    return {
        "label": side.label,
        "platform": platform["name"],
        "protocol": platform["protocol"],
        "version": platform.get("version"),
        "durability": platform.get("durability"),
        "shared_host": bool(side.runs[0].row["shared_host"]),
        "repetitions": side.repetitions,
        "runs": [
            {"run": run.id, "comparison": run.row.get("comparison"), "doubts": list(run.doubts)} for run in side.runs
        ],
    }


def _rate_document(label: str, cell: MatrixCell) -> dict[str, Any]:
    return {
        "platform": label,
        "objects_per_second": cell.objects_per_second,
        "megabytes_per_second": cell.megabytes_per_second,
        "repetitions": len(cell.repetitions),
        "notes": list(cell.doubts),
    }


def _ratio_document(label: str, ratio: Ratio) -> dict[str, Any]:
    needed = ratio.needed
    return {
        "platform": label,
        "ratio": ratio.ratio,
        "low": ratio.low,
        "high": ratio.high,
        "p": ratio.p,
        "adjusted_p": ratio.adjusted_p,
        "verdict": ratio.verdict,
        "no_verdict_because": ratio.because or None,
        "pairs": ratio.pairs,
        "needed_repetitions": needed.repetitions if needed else None,
        "needed_repetitions_more_than": REPETITIONS_MAX if needed and needed.repetitions is None else None,
        "needed_for_difference_percent": needed.difference_percent if needed else None,
        "notes": list(ratio.notes),
    }
