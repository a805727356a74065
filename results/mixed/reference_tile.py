"""The reference tile: stored results of one tile on a named platform and machine, the unit of all scores.

``reference/tile.json`` has the five throughputs of a real run, medians over its trials of a single tile, with their
full origin. VMmark's scores are over a reference server in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from results.mixed.tiles import DATABASE_LARGE, DATABASE_SMALL, EMAIL, SCAN, WEB
from results.reference import published_data

_KEYS: Mapping[str, str] = {
    EMAIL: "email_operations_per_second",
    DATABASE_SMALL: "database_small_operations_per_second",
    DATABASE_LARGE: "database_large_megabytes_per_second",
    WEB: "web_operations_per_second",
    SCAN: "scan_megabytes_per_second",
}


@dataclass(frozen=True, slots=True)
class ReferenceTile:
    """Throughputs of one tile by application, MB/s for large operations and the scan, and their origin."""

    name: str
    platform: str
    machine: str
    date: str
    archiver_version: str
    throughputs: Mapping[str, float]

    @property
    def described(self) -> str:
        """Return a description for captions."""
        return f"{self.name}: {self.platform} on {self.machine}, {self.date}, Archiver {self.archiver_version}"


@cache
def stored_reference() -> ReferenceTile:
    """Return the reference that comes with Archiver."""
    data = published_data("tile")
    throughputs = {application: data["throughputs"][key] for application, key in _KEYS.items()}
    return ReferenceTile(**{**data, "throughputs": throughputs})
