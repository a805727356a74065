"""The cards of a scorecard: one for each platform, with its runs and the points that they measured.

A card takes its numbers from the cells of its runs, as a comparison does, and its verdicts from its latest conformance
run. Runs belong together if they recorded the same platform, version, protocol and address.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from archiver.values.errors import ResultsError, UsageError
from archiver.values.platform import PlatformProfile
from archiver.values.sizes import format_size
from results.comparison.compare import MeasuredRun, Side, is_interleaved, platform_of, side_of
from results.comparison.conformance import ConformanceRun
from results.comparison.likeness import likeness, refuse_named_twice
from results.measures.units import Unit, UnitKey, fastest
from results.recorded.database import StoredRun
from results.recorded.run import RecordedRun
from results.tables.lock_cost import VariantCost, variant_costs

ScoredRun = MeasuredRun | ConformanceRun
Acknowledgement = Literal["on disk", "in memory", "unknown"]


class Point(NamedTuple):
    """An operation at one object size and number of clients."""

    operation: str
    object_bytes: int
    clients: int

    def __str__(self) -> str:
        return f"{self.operation} {format_size(self.object_bytes)}, {self.clients} client{'s' * (self.clients > 1)}"


POINTS = tuple(
    Point(operation, object_bytes, clients)
    for operation in ("archive", "retrieve")
    for object_bytes in (8 << 10, 1 << 20)
    for clients in (1, 16)
)


@dataclass(frozen=True, slots=True)
class Card:
    """One platform of a scorecard."""

    label: str
    side: Side | None  # of the runs that measured; None: there is none
    conformance: ConformanceRun | None  # the latest; None: there is none
    points: Mapping[Point, Unit]  # of locked objects; without the points that were not measured

    @property
    def rows(self) -> list[StoredRun]:
        """The rows of the runs that it uses. There is at least one."""
        checked = [self.conformance.row] if self.conformance is not None else []
        return [*([run.row for run in self.side.runs] if self.side is not None else []), *checked]

    @property
    def profile(self) -> PlatformProfile:
        return self.rows[0].platform

    @property
    def acknowledges(self) -> Acknowledgement:
        """Where an object is at least when the platform acknowledges it, as far as that is recorded."""
        words = self.profile.durability
        return "in memory" if words.startswith("none") else "unknown" if words == "unknown" else "on disk"

    @property
    def is_started_here(self) -> bool:
        """Return whether Archiver started the platform for its runs."""
        return bool(self.rows[0].settings.get("platform_started"))

    @property
    def lock_costs(self) -> list[VariantCost]:
        """The costs of ways of locking compared with no lock."""
        runs = self.side.runs if self.side is not None else ()
        costs = [cost for run in runs for cost in variant_costs(run.results)]
        return [cost for cost in costs if cost.rate is not None and cost.baseline.first.lock == "none"]


@dataclass(frozen=True, slots=True)
class Scorecard:
    """Cards in the order in which their platforms were named."""

    cards: tuple[Card, ...]
    is_interleaved: bool  # the platforms took turns, cell by cell
    differences: tuple[str, ...]  # of the conditions of their runs, each with both values


def scored_run(recorded: RecordedRun) -> ScoredRun:
    """Read a run that measured, or a conformance run. Raises ResultsError if it is neither."""
    if recorded.results:
        return MeasuredRun.read(recorded)
    if recorded.checks:
        return ConformanceRun.read(recorded)
    raise ResultsError(f"run {recorded.run.id} has neither results nor conformance checks; leave it out")


def scorecard_of(runs: Sequence[ScoredRun]) -> Scorecard:
    """Return the scorecard of these runs. Raises UsageError for a run named twice, or for none."""
    refuse_named_twice(run.id for run in runs)
    if not runs:
        raise UsageError("a scorecard needs a run; name one, or a platform to measure with --platform")
    groups: dict[tuple[str, ...], list[ScoredRun]] = {}
    for run in runs:
        groups.setdefault((*platform_of(run.row), run.row.platform.version or ""), []).append(run)
    labels = {platform: _label(platform, list(groups)) for platform in groups}
    sides = {platform: _side(labels[platform], group) for platform, group in groups.items()}
    points = _points([side.units if side is not None else {} for side in sides.values()])
    cards = tuple(
        Card(labels[platform], sides[platform], _latest_checks(group), found)
        for (platform, group), found in zip(groups.items(), points, strict=True)
    )
    measured = [side for side in sides.values() if side is not None]
    return Scorecard(cards, is_interleaved(measured), _differences(measured))


def _label(platform: tuple[str, ...], others: Sequence[tuple[str, ...]]) -> str:
    """Return the name, with the version, address or protocol that distinguishes the platform from the others."""
    name, protocol, address, version = platform
    same = [other for other in others if other[0] == name]
    label = name
    for place, words in ((3, version), (2, f"at {address}" if address else ""), (1, f"through {protocol}")):
        if words and len({other[place] for other in same}) > 1:
            label = f"{label} {words}"
    return label


def _side(label: str, group: Sequence[ScoredRun]) -> Side | None:
    measured = [run for run in group if isinstance(run, MeasuredRun)]
    return side_of(label, measured) if measured else None


def _latest_checks(group: Sequence[ScoredRun]) -> ConformanceRun | None:
    checked = [run for run in group if isinstance(run, ConformanceRun)]
    return max(checked, key=lambda run: (run.row.started_at, run.id), default=None)


def _differences(sides: Sequence[Side]) -> tuple[str, ...]:
    """Return the differences between the conditions of the first platform and those of each further one."""
    rows = [(side.label, side.runs[0].row) for side in sides]
    found = [likeness(rows[0][1], row, (rows[0][0], label)) for label, row in rows[1:]]
    return tuple(dict.fromkeys(mark for each in found for mark in each.marks))


def _points(platforms: Sequence[Mapping[UnitKey, Unit]]) -> list[dict[Point, Unit]]:
    """Return the measured points of each platform.

    If a point has several cells (by objects per session), every platform shows the same cell if it measured it.
    """
    found: list[dict[Point, Unit]] = [{} for _ in platforms]
    for point in POINTS:
        cells = [{key: unit for key, unit in units.items() if _is_at(point, unit)} for units in platforms]
        measured = [own for own in cells if own]
        common = set.intersection(*map(set, measured)) if measured else set()
        shared = fastest([measured[0][key] for key in sorted(common)], _objects_per_second).key if common else None
        for own, points in zip(cells, found, strict=True):
            if own:
                points[point] = own[shared] if shared is not None else fastest(list(own.values()), _objects_per_second)
    return found


def _objects_per_second(cell: Unit) -> float:
    return cell.objects_per_second


def _is_at(point: Point, unit: Unit) -> bool:
    """Return whether a cell measured this point, of locked objects and not as one of several variants."""
    key, first = unit.key, unit.first
    is_locked = point.operation != "archive" or first.retention_mode != "none"
    is_cell = key.is_cell and not first.variant and is_locked
    return is_cell and (first.operation, key.object_bytes, key.clients) == point
