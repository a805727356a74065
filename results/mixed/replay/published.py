"""The results on block storage that two IOmark test reports published, for comparison with an object store.

The numbers are of virtual machines on block storage. The module reads them from ``reference/mixed_workload.json`` and
never alters them. No table computes a ratio to them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from results.reference import published_data

CLONE, MIGRATION = "clone and deploy", "storage migration"


@dataclass(frozen=True, slots=True)
class PublishedReport:
    """One published report. None: the report does not contain the value."""

    system: str
    source: str
    version: str  # version of the rules
    sets: int
    applications: int  # number of virtual machines
    mean_ms: float
    read_mean_ms: float
    write_mean_ms: float
    percent_within_20_ms: float | None
    clones: int  # number in the hour of the test
    migrations: int
    score: float
    currency: str
    price: float
    price_per_application: float  # as printed
    mean_ms_by_application: Mapping[str, float]
    price_lines: tuple[tuple[str, float, float], ...]  # item, quantity, amount of the line

    @property
    def name(self) -> str:
        """The name in every table: the source and its kind of storage."""
        return f"published: {self.system}, block storage"


@cache
def published_reports() -> tuple[PublishedReport, ...]:
    """Return the reports of December 2015 and of March 2014."""
    return tuple(_report(each) for each in _data()["reports"])


@cache
def minimum_per_hour() -> Mapping[str, float]:
    """Return the minimum numbers of infrastructure operations per hour by kind: 6 and 3."""
    clone, migration = (each["minimum_per_hour"] for each in _data()["infrastructure_operations"])
    return {CLONE: clone, MIGRATION: migration}


@cache
def minima_asked_from_sets() -> Mapping[str, int]:
    """Return the smallest number of sets for which each version of the rules requires the minima, if it says so."""
    criteria = _data()["criteria"]
    return {name: each["for_sets_at_least"] for name, each in criteria.items() if "for_sets_at_least" in each}


def infrastructure_score(clones_per_hour: float, migrations_per_hour: float) -> float:
    """Return sqrt((clones - 6)^2 + (migrations - 3)^2).

    No published rule defines this formula. It is inferred: it reproduces both published scores.
    """
    least = minimum_per_hour()
    return math.hypot(clones_per_hour - least[CLONE], migrations_per_hour - least[MIGRATION])


def _report(data: Mapping[str, Any]) -> PublishedReport:
    return PublishedReport(
        system=data["system"],
        source=data["source"],
        version=data["version"],
        sets=data["application_sets"],
        applications=data["virtual_machines"],
        mean_ms=data["mean_ms"],
        read_mean_ms=data["read_mean_ms"],
        write_mean_ms=data["write_mean_ms"],
        percent_within_20_ms=data.get("percent_within_20_ms"),
        clones=data["clone_and_deploy"],
        migrations=data["storage_migrations"],
        score=data["hypervisor_score"],
        currency="USD",
        price=data["price_usd"],
        price_per_application=data["usd_per_vm"],
        mean_ms_by_application=data["mean_ms_by_application"],
        price_lines=tuple((item, quantity, amount) for item, quantity, amount in data["price_table"]),
    )


def _data() -> dict[str, Any]:
    data: dict[str, Any] = published_data("mixed_workload")["iomark_vm"]
    return data
