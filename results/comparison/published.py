"""ESG Lab's published comparisons of systems under mixed work, as ratios, for a look next to the measured ones.

They are of block storage. The module reads them from ``reference/mixed_workload.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from results.comparison.ratio_cells import ratio_number
from results.document.table import Column, Table, TableSpec
from results.reference import published_data


class _PublishedRatio(NamedTuple):
    candidate: str
    baseline: str
    what: str
    ratio: float  # candidate / baseline
    source: str


def published_table() -> Table:
    """Return the published ratios of rates and of response times, one per row."""
    return TableSpec(
        "published",
        "Published by ESG Lab for block storage, not measured by these runs",
        (
            Column("candidate", of=lambda row: row.candidate, label=True),
            Column("baseline", of=lambda row: row.baseline, label=True),
            Column("measure", of=lambda row: row.what, label=True),
            Column("ratio", of=lambda row: ratio_number(row.ratio)),
            Column("source", of=lambda row: row.source, words=True),
        ),
        "Ratio: candidate / baseline. The studies print rates as percent or times, and response times as percent"
        " faster: 33% faster is a ratio of 0.67.",
    ).table(_ratios())


def _ratios() -> Iterator[_PublishedRatio]:
    data = published_data("mixed_workload")
    paths, tier = data["ds5020"], data["storwize_v7000"]
    study = paths["path_comparison_table_5"]
    for name, what in (
        ("throughput_from_disk", "throughput from disk"),
        ("iops_from_cache", "operations from cache"),
        ("random_reads_from_disk", "random reads from disk"),
        ("mixed_workload_16_vms", "mixed workload, 16 virtual machines"),
    ):
        ratio = study["candidate_percent_of_baseline"][name] / 100
        yield _PublishedRatio(study["candidate"], study["baseline"], what, ratio, f"{paths['source']}, Table 5")
    study = tier["tiering_comparison"]
    sides = (study["candidate"], study["baseline"])
    yield _PublishedRatio(*sides, "mixed I/O", study["mixed_io_ratio"], tier["source"])
    for name, what in (("email", "e-mail response time"), ("oltp", "database response time")):
        ratio = 1 - study[f"{name}_response_time_percent_faster"] / 100
        yield _PublishedRatio(*sides, what, ratio, tier["source"])
