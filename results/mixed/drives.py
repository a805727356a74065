"""Rates per drive, compared with the guidelines for planning storage and with ESG's measurements.

The user states the number of drives. If all applications share them, each rate is only a part of a drive's load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from results.mixed.published import Guideline, guidelines
from results.mixed.tiles import DATABASE_LARGE, DATABASE_SMALL, EMAIL, Scale, total
from results.table import Column, Table, TableSpec


@dataclass(frozen=True, slots=True)
class Drives:
    """Numbers of drives by application."""

    email: int
    database: int
    shared: bool = False  # all applications share the drives

    @classmethod
    def for_all(cls, count: int) -> Drives:
        """Return the same drives for all applications."""
        return cls(count, count, shared=True)

    def of(self, application: str) -> int:
        return self.email if application == EMAIL else self.database


def drives_table(scales: Sequence[Scale], drives: Drives) -> Table:
    """Return for each number of tiles: rates per drive, the guideline per disk, and ESG's rates."""
    known = guidelines()
    lines = (
        (EMAIL, "operations/s", known.email),
        (DATABASE_SMALL, "operations/s", known.database_small),
        (DATABASE_LARGE, "MB/s", known.database_large),
    )
    rows = [
        _DriveRate(scale.tiles, application, unit, guideline, rate, drives.of(application))
        for scale in scales
        for application, unit, guideline in lines
        if (rate := total(scale.throughput(tile, application) for tile in scale.numbers)) is not None
    ]
    shared = " All applications share the drives: each rate is only a part of their load." if drives.shared else ""
    return TableSpec(
        name="tiles-drives",
        title="Rates per drive",
        columns=(
            Column("tiles", of=lambda row: row.tiles, label=True),
            Column("application", of=lambda row: row.application, label=True),
            Column("unit", of=lambda row: row.unit, label=True),
            Column("all tiles", of=lambda row: row.rate),
            Column("drives", of=lambda row: row.drives),
            Column("per drive", of=lambda row: row.per_drive, digits=1),
            Column("guideline", "per disk", lambda row: row.guideline.per_disk),
            Column("of the guideline", "times", lambda row: row.per_drive / row.guideline.per_disk, 2),
            Column("ESG: DS5020", "per drive", lambda row: row.guideline.measured_per_drive),
        ),
        caption="The user gave the number of drives with the run. The guidelines are for operations on blocks of"
        f" magnetic disks. ESG measured such operations too, on {known.email.drives} and {known.database_small.drives}"
        f" disks behind a cache.{shared}",
    ).table(rows)


class _DriveRate(NamedTuple):
    """The rate of one application on its drives."""

    tiles: float
    application: str
    unit: str
    guideline: Guideline
    rate: float
    drives: int

    @property
    def per_drive(self) -> float:
        return self.rate / self.drives
