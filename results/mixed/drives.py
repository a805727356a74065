"""Rates per drive, compared with the guidelines for planning storage and with ESG's measurements.

The user states the number of drives. All applications share them, so each rate is only a part of a drive's load.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from results.document.table import Column, Table, TableSpec
from results.mixed.published import Guideline, guidelines
from results.mixed.tiles import DATABASE_LARGE, DATABASE_SMALL, EMAIL, Scale, total


def drives_table(scales: Sequence[Scale], drives: int) -> Table:
    """Return for each number of tiles: rates per drive, the guideline per disk, and ESG's rates."""
    known = guidelines()
    lines = (
        (EMAIL, "operations/s", known.email),
        (DATABASE_SMALL, "operations/s", known.database_small),
        (DATABASE_LARGE, "MB/s", known.database_large),
    )
    rows = [
        _DriveRate(scale.tiles, application, unit, guideline, rate, drives)
        for scale in scales
        for application, unit, guideline in lines
        if (rate := total(scale.throughput(tile, application) for tile in scale.numbers)) is not None
    ]
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
        " disks behind a cache. All applications share the drives: each rate is only a part of their load.",
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
