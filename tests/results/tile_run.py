"""Synthetic results of a tile run: every workload, criteria, and the intervals of a phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from results.measures.phases import phases_of
from results.mixed.tiles import Scale, tile_scales
from results.recorded.database import WorkloadInterval
from results.recorded.model import ClientUsage, CriterionResult, Latency, PartResult, Result

INTERVAL_NS = 250_000_000
MakeResult = Callable[..., Result]


def latency(mean: float, count: int = 1000) -> Latency:
    """Return a latency of ``count`` equal times, in ms."""
    return Latency(count, mean, mean, mean, mean, mean, mean, mean)


def part(name: str, rate: float, mean: float | None = 5.0, size: int = 8192, operation: str = "") -> PartResult:
    """Return the result of one operation of a workload, measured for 100 s. ``rate`` per second, ``mean`` in ms."""
    objects = round(rate * 100)
    times = latency(mean, objects) if mean is not None else None
    return PartResult(
        name, operation or name, objects, objects * size, objects, 0, 0, rate, rate * size / 1e6, times, times, None
    )


def email_parts(
    rate: float, retrieve_ms: float | None = 14.0, log_ms: float | None = 3.0, page: int = 8192
) -> tuple[PartResult, ...]:
    """Return the parts of an e-mail workload: 57% retrieves, as in Jetstress, and the separate log."""
    shares = {"archive": 0.2, "delete": 0.08, "delete-marker": 0.07, "new-version": 0.08, "retrieve": 0.57}
    parts = [
        part(name, rate * share, retrieve_ms if name == "retrieve" else 6.0, page) for name, share in shares.items()
    ]
    return (*parts, part("log", rate * 0.227, log_ms, 5667, "archive"))


class TileRun:
    """A maker of results of tiles. The defaults are the values of ESG's DS5020 with 4 tiles."""

    def __init__(self, make_result: MakeResult) -> None:
        self._make = make_result

    def email(self, tile: int = 1, rate: float = 1233.0, retrieve_ms: float | None = 14.0, log_ms: float | None = 3.0,
              page: int = 8192, **given: Any) -> Result:  # fmt: skip
        parts = email_parts(rate, retrieve_ms, log_ms, page)
        return self.one("e-mail", tile, "mixed", **{"parts": parts, "clients": 32, "object_bytes": page, **given})

    def database(
        self, tile: int, small: dict[int, tuple[float, float]], large: dict[int, float], **given: Any
    ) -> list[Result]:
        """Return the points of a database by outstanding requests: (small operations/s, mean ms), and large MB/s."""
        points = [
            self.one("database small", tile, "mixed", clients=count, objects_per_second=rate,
                     object_ms=latency(mean), workload=f"tile {tile} database small {count}", **given)
            for count, (rate, mean) in small.items()
        ]  # fmt: skip
        return points + [
            self.one("database large", tile, "mixed", clients=count, objects_per_second=rate * 1e6 / 2**20,
                     object_bytes=2**20, workload=f"tile {tile} database large {count}", **given)
            for count, rate in large.items()
        ]  # fmt: skip

    def web(self, tile: int = 1, rate: float = 846.0, **given: Any) -> Result:
        return self.one(
            "web", tile, "retrieve", **{"objects_per_second": rate, "object_bytes": 16036, "clients": 16, **given}
        )

    def scan(self, tile: int = 1, mebibytes: float = 96.0, **given: Any) -> Result:
        return self.one(
            "scan", tile, "retrieve", **{"objects_per_second": mebibytes * 4, "object_bytes": 262144, **given}
        )

    def tile(self, tile: int = 1, rate: float = 1233.0, **given: Any) -> list[Result]:
        """Return the results of all five workloads of a tile, each with the fields ``given``."""
        small = {1: (180.0, 5.42), 5: (600.0, 8.3), 25: (882.0, 28.3)}
        return [
            self.email(tile, rate, **given),
            *self.database(tile, small, {1: 40.0, 9: 108.0, 10: 107.0}, **given),
            self.web(tile, **given),
            self.scan(tile, **given),
        ]  # fmt: skip

    def one(self, application: str, tile: int, operation: str, **given: Any) -> Result:
        """Return the result of one workload of a tile."""
        named = {
            "workload": f"tile {tile} {application}",
            "application": application,
            "copy": tile,
            "phase": "tiles",
            "seconds": 100.0,
        }
        return self._make(operation, **{**named, "scale": 1.0, "position": 1, "begins_seconds": 0.0, **given})


def criterion(
    workload: str, name: str, limit: float, measured: float | None, passed: bool, **given: Any
) -> CriterionResult:
    return CriterionResult(**{"name": name, "workload": workload, "position": 1, "limit": limit, "measured": measured,
                              "passed": passed, "scale": 1.0, **given})  # fmt: skip


def scales_of(results: Sequence[Result], criteria: Sequence[CriterionResult] = ()) -> list[Scale]:
    """Return the measurements of tiles in these results, with these criteria of their run."""
    return tile_scales(phases_of(results, criteria))


def held(results: Sequence[Result]) -> list[CriterionResult]:
    """Return a met criterion "errors == 0" for every workload."""
    return [
        criterion(result.workload, "errors == 0", 0, 0, True, position=result.position, scale=result.scale)
        for result in results
    ]


def steps(
    workload: str, levels: Sequence[tuple[float, float, float, float]], size: int = 8192
) -> Iterator[WorkloadInterval]:
    """Yield the intervals of a workload from levels of (from s, to s, objects/s, mean ms)."""
    seconds = INTERVAL_NS / 1e9
    for begins, ends, rate, mean in levels:
        for interval in range(round(begins / seconds), round(ends / seconds)):
            objects = round(rate * (interval + 1) * seconds) - round(rate * interval * seconds)
            total = round(objects * mean * 1e6)
            yield WorkloadInterval(workload, interval, objects, objects * size, 0, total, round(mean * 1e6))


def busy_client(percent: float, lateness: float = 0.4) -> ClientUsage:
    return ClientUsage(percent, percent / 2, 40.0, lateness)
