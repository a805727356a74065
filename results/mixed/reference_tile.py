"""The reference tile: stored results of one tile on a named platform and machine, the unit of all scores.

It is a document of a real run, with its five throughputs and their full origin. Any run of one tile can become another
reference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from archiver.values.errors import ResultsError, UsageError
from results.mixed.tiles import APPLICATIONS, DATABASE_LARGE, DATABASE_SMALL, EMAIL, SCAN, WEB, Scale
from results.model import CriterionResult

_STORED = ("reference", "tile.json")
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


class _Throughputs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    email_operations_per_second: float
    database_small_operations_per_second: float
    database_large_megabytes_per_second: float
    web_operations_per_second: float
    scan_megabytes_per_second: float


class _Document(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    platform: str
    machine: str
    date: str
    archiver_version: str
    throughputs: _Throughputs


def stored_reference() -> ReferenceTile:
    """Return the reference that is included with Archiver. Raises UsageError if it is missing or damaged."""
    file = resources.files("results").joinpath(*_STORED)
    try:
        text = file.read_bytes()
    except OSError as error:
        raise UsageError(f"no reference tile comes with this Archiver ({error}); name one with --reference") from error
    return _read(text, "/".join(_STORED))


def read_reference(path: Path) -> ReferenceTile:
    """Return the reference in a file. Raises UsageError naming the file, the key and the remedy."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}; name a reference tile's file") from error
    return _read(text, str(path))


def reference_document(
    scales: Sequence[Scale],
    criteria: Sequence[CriterionResult],
    *,
    name: str,
    platform: str,
    machine: str,
    date: str,
    archiver_version: str,
) -> dict[str, Any]:
    """Return the document of a reference, from the trials of a single tile in a run: medians over the trials.

    Raises ResultsError if the run measured no single tile or lacks an application. It also raises ResultsError if a
    criterion failed or none was judged, because such a run cannot be a reference.
    """
    alone = next((scale for scale in scales if scale.tiles == 1), None)
    if alone is None:
        raise ResultsError("this run measured no tile alone; a reference is one tile: run the tiles from 1 on")
    positions = {trial.position for trial in alone.trials}
    judged = [criterion for criterion in criteria if criterion.position in positions]
    failed = sorted({criterion.name for criterion in judged if not criterion.passed})
    if failed or not judged:
        why = f"its criteria failed: {', '.join(failed)}" if failed else "no pass criterion was judged"
        raise ResultsError(f"this run's single tile is no reference: {why}")
    (number,) = alone.numbers
    throughputs = {key: alone.throughput(number, of) for of, key in _KEYS.items()}
    missing = [of for of, key in _KEYS.items() if not throughputs[key]]
    if missing:
        raise ResultsError(
            f"this run's single tile has no throughput of {', '.join(missing)}; a reference has all five"
        )
    return {
        "name": name,
        "platform": platform,
        "machine": machine,
        "date": date,
        "archiver_version": archiver_version,
        "throughputs": throughputs,
    }


def _read(text: bytes, path: str) -> ReferenceTile:
    try:
        document = msgspec.json.decode(text, type=_Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: no reference tile: {error}") from error
    throughputs = {of: float(getattr(document.throughputs, _KEYS[of])) for of in APPLICATIONS}
    for of, rate in throughputs.items():
        if not math.isfinite(rate) or rate <= 0:
            raise UsageError(f"{path}: throughputs.{_KEYS[of]}: {rate:g} is no throughput; write a number above 0")
    return ReferenceTile(
        document.name,
        document.platform,
        document.machine,
        document.date,
        document.archiver_version,
        throughputs,
    )
