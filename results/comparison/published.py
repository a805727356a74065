"""ESG Lab's published comparisons of systems under mixed work, shown below the measured ones.

The ratios are of block storage. The module reads them from ``reference/mixed_workload.json``. The rows of the tables
name their source.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from results.reference import published_data


@dataclass(frozen=True, slots=True)
class PublishedPercent:
    """Candidate as percent of baseline, by measured quantity."""

    source: str
    baseline: str
    candidate: str
    percents: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PublishedTiering:
    """A system with a faster tier compared with the same system without it."""

    source: str
    baseline: str
    candidate: str
    mixed_io_ratio: float
    percent_faster: Mapping[str, float]  # response times, by application


@cache
def fewer_paths() -> PublishedPercent:
    """Return Table 5 of the report on the DS5020: half the number of host paths."""
    data = published_data("mixed_workload")["ds5020"]
    study = data["path_comparison_table_5"]
    percents = study["candidate_percent_of_baseline"]
    return PublishedPercent(
        data["source"],
        study["baseline"],
        study["candidate"],
        {
            "throughput from disk": percents["throughput_from_disk"],
            "operations from cache": percents["iops_from_cache"],
            "random reads from disk": percents["random_reads_from_disk"],
            "mixed workload, 16 virtual machines": percents["mixed_workload_16_vms"],
        },
    )


@cache
def faster_tier() -> PublishedTiering:
    """Return the report on the V7000: some flash drives added to the disks."""
    data = published_data("mixed_workload")["storwize_v7000"]
    study = data["tiering_comparison"]
    return PublishedTiering(
        data["source"],
        study["baseline"],
        study["candidate"],
        study["mixed_io_ratio"],
        {
            "e-mail": study["email_response_time_percent_faster"],
            "database": study["oltp_response_time_percent_faster"],
        },
    )
