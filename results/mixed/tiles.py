"""The results of a tile run, grouped as tiles: every tile in each trial of a number of tiles.

A tile is the results of one copy of each workload in one phase. A value that was not measured is None. A total over
tiles is None if the value of one tile is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median_low

from results.measures.phases import MeasuredPhase
from results.mixed.published import small_latency_limit_ms
from results.recorded.model import PartResult, Result

EMAIL = "e-mail"
EMAIL_CHECK = "e-mail check"
DATABASE_SMALL = "database small"
DATABASE_LARGE = "database large"
WEB = "web"
SCAN = "scan"
APPLICATIONS = (
    EMAIL,
    DATABASE_SMALL,
    DATABASE_LARGE,
    WEB,
    SCAN,
)  # each does its own work and counts in a score
RETRIEVE = "retrieve"
LOG = "log"  # the part of e-mail without database operations


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile in one phase."""

    number: int
    phase: MeasuredPhase
    results: tuple[Result, ...]

    @property
    def email(self) -> Result | None:
        return self._only(EMAIL)

    @property
    def email_check(self) -> Result | None:
        return self._only(EMAIL_CHECK)

    @property
    def database_small(self) -> list[Result]:
        """The points by the number of outstanding requests, ascending."""
        return self._points(DATABASE_SMALL)

    @property
    def database_large(self) -> list[Result]:
        """The points by the number of outstanding requests, ascending."""
        return self._points(DATABASE_LARGE)

    @property
    def web(self) -> Result | None:
        return self._only(WEB)

    @property
    def scan(self) -> Result | None:
        return self._only(SCAN)

    def _only(self, application: str) -> Result | None:
        return next((result for result in self.results if result.application == application), None)

    def _points(self, application: str) -> list[Result]:
        found = (result for result in self.results if result.application == application)
        return sorted(found, key=lambda result: result.clients)

    @property
    def email_rate(self) -> float | None:
        """Database operations per second: all e-mail operations except the log."""
        if self.email is None:
            return None
        return sum(part.objects_per_second for part in self.email.parts if part.name != LOG)

    @property
    def small_best(self) -> Result | None:
        """The point with the most small operations per second."""
        return max(self.database_small, key=lambda point: point.objects_per_second, default=None)

    @property
    def small_quickest(self) -> Result | None:
        """The point with the lowest mean response time."""
        timed = [point for point in self.database_small if mean_ms(point) is not None]
        return min(timed, key=lambda point: mean_ms(point) or 0.0, default=None)

    @property
    def small_within_limit(self) -> Result | None:
        """Of the points whose mean meets the guideline's limit, the one with the most operations per second."""
        limit = small_latency_limit_ms()
        held = [point for point in self.database_small if (mean := mean_ms(point)) is not None and mean <= limit]
        return max(held, key=lambda point: point.objects_per_second, default=None)

    @property
    def large_best(self) -> Result | None:
        """The point with the most MB/s of large operations."""
        return max(self.database_large, key=lambda point: point.megabytes_per_second, default=None)

    @property
    def throughputs(self) -> dict[str, float | None]:
        """Return the inputs of a score by application: operations/s, but MB/s of large operations and of the scan."""
        small, large = self.small_best, self.large_best
        return {
            EMAIL: self.email_rate,
            DATABASE_SMALL: small.objects_per_second if small else None,
            DATABASE_LARGE: large.megabytes_per_second if large else None,
            WEB: self.web.objects_per_second if self.web else None,
            SCAN: self.scan.megabytes_per_second if self.scan else None,
        }


@dataclass(frozen=True, slots=True)
class Scale:
    """All trials of one number of tiles: the phases in which they ran at the same time, in order, and their tiles."""

    tiles: float
    trials: tuple[MeasuredPhase, ...]
    all_tiles: tuple[Tile, ...]  # every tile in every trial

    @property
    def numbers(self) -> list[int]:
        """The numbers of the tiles, from 1."""
        return sorted({tile.number for tile in self.all_tiles})

    def all_of(self, number: int) -> list[Tile]:
        """Return one tile in every trial."""
        return [tile for tile in self.all_tiles if tile.number == number]

    def middle(self, number: int, of: Callable[[Tile], float | None]) -> float | None:
        """Return the median of a tile's quantity over trials.

        For an even number of trials it is the lower middle value, so it is always a measured value.
        """
        values = [value for tile in self.all_of(number) if (value := of(tile)) is not None]
        return median_low(values) if values else None

    def throughput(self, number: int, application: str) -> float | None:
        """Return the median of a tile's throughput over trials."""
        return self.middle(number, lambda tile: tile.throughputs[application])

    def middle_point(
        self, number: int, of: Callable[[Tile], Result | None], by: Callable[[Result], float | None]
    ) -> Result | None:
        """Return the result with the median over trials, so that all its values were measured together."""
        found = sorted((r for tile in self.all_of(number) if (r := of(tile))), key=lambda result: by(result) or 0.0)
        return found[(len(found) - 1) // 2] if found else None


def tile_scales(phases: Iterable[MeasuredPhase]) -> list[Scale]:
    """Return the measurements of tiles, the fewest tiles first; empty if a run had none."""
    scales: dict[float, list[tuple[MeasuredPhase, list[Tile]]]] = {}
    for phase in phases:
        tiles: dict[int, list[Result]] = {}
        for result in phase.results:
            if result.copy is not None and result.application in (*APPLICATIONS, EMAIL_CHECK):
                tiles.setdefault(result.copy, []).append(result)
        if tiles:
            scale = phase.scale if phase.scale is not None else float(len(tiles))
            found = [Tile(number, phase, tuple(own)) for number, own in sorted(tiles.items())]
            scales.setdefault(scale, []).append((phase, found))
    return [
        Scale(scale, tuple(phase for phase, _ in trials), tuple(tile for _, tiles in trials for tile in tiles))
        for scale, trials in sorted(scales.items())
    ]


def part_of(result: Result | None, name: str) -> PartResult | None:
    """Return a workload's part by its name."""
    return next((part for part in result.parts if part.name == name), None) if result else None


def mean_ms(measured: Result | PartResult | None) -> float | None:
    """Return the mean response time of its objects."""
    return measured.object_ms.mean if measured and measured.object_ms else None


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum. Returns None if a value is missing or there are none."""
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None
