"""The highest rates in ESG Lab's two reports on tiles: of sequential reads alone, and of all workloads together.

These are another owner's numbers, for block storage. The module reads them from ``mixed_workload.json`` and never
alters them. No table computes a ratio to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from results.reference import published_data


@dataclass(frozen=True, slots=True)
class PublishedPeaks:
    """The rates of one report; None: not printed. GB/s are as printed: the reports do not say 10^9 or 2^30 bytes."""

    name: str
    source: str
    tiles: int  # of the mixed workload
    reads: str  # the load of the sequential reads, as printed
    reads_gigabytes_per_second: float
    reads_from_cache_percent: float | None
    mixed_gigabytes_per_second: float
    operations_per_second_peak: float
    operations_per_second_steady: float | None


@cache
def published_peaks() -> tuple[PublishedPeaks, ...]:
    """Return the reports on the DS5020 of May 2010 and on the Storwize V7000 of February 2011."""
    data = published_data("mixed_workload")
    ds5020, v7000 = data["ds5020"], data["storwize_v7000"]
    iops = ds5020["iops_four_tiles"]
    reads = ds5020["characterization"]["workload"], f"{v7000['characterization']['streams']} streams"
    return (
        _peaks("ESG: DS5020", ds5020, len(ds5020["database"]["table_3"]), reads[0], (iops["peak"], iops["steady"])),
        _peaks("ESG: V7000", v7000, v7000["tiles"], reads[1], (v7000["iops_four_tiles_peak"], None)),
    )


def whose(studies: Sequence[PublishedPeaks]) -> str:
    """Return the sentence about the rows of these studies; empty without any."""
    names = " and ".join(f"{study.name} ({study.source.rpartition(', ')[2]})" for study in studies)
    return f" Not measured here: {names}, published by ESG Lab, of block storage." if studies else ""


def _peaks(
    name: str, study: Mapping[str, Any], tiles: int, reads: str, operations: tuple[float, float | None]
) -> PublishedPeaks:
    return PublishedPeaks(
        name=name,
        source=study["source"],
        tiles=tiles,
        reads=reads,
        reads_gigabytes_per_second=study["characterization"]["peak_gigabytes_per_second"],
        reads_from_cache_percent=study["characterization"].get("served_from_cache_percent"),
        mixed_gigabytes_per_second=study["mixed_peak_gigabytes_per_second"],
        operations_per_second_peak=operations[0],
        operations_per_second_steady=operations[1],
    )
