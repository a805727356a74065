"""Rates per drive, beside the guidelines that storage was planned with and what ESG measured.

One idea: the drives are what the user says they are. Where all applications share them, each rate is only its part of
what a drive did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from results.mixed.published import Guideline, guidelines
from results.mixed.tiles import DATABASE_LARGE, DATABASE_SMALL, EMAIL, Scale, total
from results.table import Cell, Column, Table, label_columns, number


@dataclass(frozen=True, slots=True)
class Drives:
    """How many drives held whose data."""

    email: int
    database: int
    shared: bool = False  # by all applications

    @classmethod
    def for_all(cls, count: int) -> Drives:
        """All applications on the same drives."""
        return cls(count, count, shared=True)

    def of(self, application: str) -> int:
        return self.email if application == EMAIL else self.database


def drives_table(scales: Sequence[Scale], drives: Drives) -> Table:
    """For each number of tiles: rates per drive, the guideline per disk, and ESG's."""
    rows = []
    known = guidelines()
    lines: tuple[tuple[str, str, Guideline], ...] = (
        (EMAIL, "operations/s", known.email),
        (DATABASE_SMALL, "operations/s", known.database_small),
        (DATABASE_LARGE, "MB/s", known.database_large),
    )
    for scale in scales:
        for application, unit, guideline in lines:
            rate = total(scale.throughput(tile, application) for tile in scale.numbers)
            if rate is None:
                continue
            per_drive = rate / drives.of(application)
            rows.append(
                (
                    number(scale.tiles, 0),
                    Cell(application),
                    Cell(unit),
                    number(rate, 0),
                    number(drives.of(application), 0),
                    number(per_drive, 1),
                    number(guideline.per_disk, 0),
                    number(per_drive / guideline.per_disk, 2),
                    number(guideline.measured_per_drive, 0),
                )
            )
    shared = " All applications share the drives: each rate is a part of what they did." if drives.shared else ""
    return Table(
        name="tiles-drives",
        title="Rates per drive",
        columns=(
            *label_columns("tiles", "application", "unit"),
            Column("all tiles"),
            Column("drives"),
            Column("per drive"),
            Column("guideline", "per disk"),
            Column("of the guideline", "times"),
            Column("ESG: DS5020", "per drive"),
        ),
        rows=tuple(rows),
        caption="Drives are as given with the run. The guidelines are for operations on blocks of magnetic disks, and"
        f" so is what ESG measured, on {known.email.drives} and {known.database_small.drives} of them with a cache in"
        f" front.{shared}",
    )
