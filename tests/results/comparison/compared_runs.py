"""Synthetic runs to compare, with the rates that a test names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from results.comparison.compare import MeasuredRun
from results.recorded.database import StoredRun
from results.recorded.model import Result
from tests.results.watched_run import PLATFORM, RECORD

MakeResult = Callable[..., Result]
MakeRun = Callable[..., MeasuredRun]
CELL = ("archive", 8192, 25)


def measured_run(
    make_result: MakeResult,
    platform: str = "minio",
    rates: Iterable[float] | Mapping[tuple[str, int, int], Iterable[float]] = (500.0,),
    *,
    id: str = "",
    protocol: str = "s3",
    started_at: float = 1.0,
    comparison: str | None = "together",
    settings: dict[str, Any] | None = None,
    doubts: tuple[str, ...] = (),
    **overrides: Any,
) -> MeasuredRun:
    """Return a run of a platform.

    ``rates``: objects per second of archive 8 KiB x 25, one for each repetition; or such rates by cell.
    """
    cells = {key: list(each) for key, each in (rates if isinstance(rates, Mapping) else {CELL: rates}).items()}
    results = [
        make_result(*key, rate, **{"repetition": number, "position": number, **overrides})
        for key, each in cells.items()
        for number, rate in enumerate(each, start=1)
    ]
    values = {
        **RECORD,
        "id": id or f"run-{platform}-{protocol}",
        "started_at": started_at,
        "repetitions": max(map(len, cells.values()), default=1),
        "scenario": "dr550",
        "scenario_json": "{}",
        "backend": protocol,
        "content_kind": "shake-256",
        "workers": 1,
        "shared_host": True,
        "comparison": comparison,
        "platform": replace(PLATFORM, name=platform, protocol=protocol, version="1", durability="fsync", tls=False),
        "settings": settings or {},
        "host": {},
    }
    return MeasuredRun(StoredRun(**values), results, doubts)
