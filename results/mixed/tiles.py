"""The results of a tile run, grouped as tiles: every tile in each trial of a number of tiles.

A tile is the results of one copy of each workload in one phase. A value that was not measured is None. A total over
tiles is None if the value of one tile is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low

from results.mixed.published import small_latency_limit_ms
from results.model import PartResult, Result

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
    """One tile in one trial. Database results are by the number of outstanding requests, ascending."""

    number: int
    email: Result | None
    email_check: Result | None
    database_small: tuple[Result, ...]
    database_large: tuple[Result, ...]
    web: Result | None
    scan: Result | None

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
class TileTrial:
    """One phase in which this number of tiles ran at the same time."""

    scale: float
    position: int
    tiles: tuple[Tile, ...]
    results: tuple[Result, ...]  # of all workloads of the phase


@dataclass(frozen=True, slots=True)
class Scale:
    """All trials of one number of tiles, in the order in which they ran."""

    tiles: float
    trials: tuple[TileTrial, ...]

    @property
    def numbers(self) -> list[int]:
        """The numbers of the tiles, from 1."""
        return sorted({tile.number for trial in self.trials for tile in trial.tiles})

    def all_of(self, number: int) -> list[Tile]:
        """Return one tile in every trial."""
        return [tile for trial in self.trials for tile in trial.tiles if tile.number == number]

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


def tile_scales(results: Sequence[Result]) -> list[Scale]:
    """Return the measurements of tiles, the fewest tiles first; empty if a run had none. Data loading is excluded."""
    of_phase: dict[int, list[Result]] = {}
    for result in results:
        if result.copy is not None and result.application in (*APPLICATIONS, EMAIL_CHECK) and not result.is_load:
            of_phase.setdefault(result.position, []).append(result)
    trials = [
        _trial(position, of_phase[position], [result for result in results if result.position == position])
        for position in sorted(of_phase)
    ]
    scales = sorted({trial.scale for trial in trials})
    return [Scale(scale, tuple(trial for trial in trials if trial.scale == scale)) for scale in scales]


def part_of(result: Result | None, name: str) -> PartResult | None:
    """Return a workload's part by its name."""
    return next((part for part in result.parts if part.name == name), None) if result else None


def mean_ms(measured: Result | PartResult | None) -> float | None:
    """Return the mean response time of its objects."""
    return measured.object_response_ms.mean if measured and measured.object_response_ms else None


def total(values: Iterable[float | None]) -> float | None:
    """Return the sum. Returns None if a value is missing or there are none."""
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None


def _trial(position: int, results: Sequence[Result], whole: Sequence[Result]) -> TileTrial:
    numbers = sorted({_number(result) for result in results})
    scale = next((result.scale for result in results if result.scale is not None), float(len(numbers)))
    return TileTrial(scale, position, tuple(_tile(number, results) for number in numbers), tuple(whole))


def _tile(number: int, results: Sequence[Result]) -> Tile:
    own = [result for result in results if _number(result) == number]

    def only(application: str) -> Result | None:
        return next((result for result in own if result.application == application), None)

    def points(application: str) -> tuple[Result, ...]:
        found = [result for result in own if result.application == application]
        return tuple(sorted(found, key=lambda result: result.clients))

    return Tile(
        number,
        only(EMAIL),
        only(EMAIL_CHECK),
        points(DATABASE_SMALL),
        points(DATABASE_LARGE),
        only(WEB),
        only(SCAN),
    )


def _number(result: Result) -> int:
    return result.copy if result.copy is not None else 1
