"""The audits of a run: what each found, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archiver.values.sizes import format_instant
from results.table import Cell, Column, Table


def audits_table(audits: Sequence[Mapping[str, Any]]) -> Table:
    """One row for each audit, in the order in which they were made."""
    columns = (
        Column("started", label=True),
        Column("objects"),
        Column("sample of"),
        Column("objects/s"),
        Column("findings", words=True),
        Column("at most bad, 95%", "objects"),
    )
    return Table("audits", "Audits: objects read again and compared", columns, tuple(map(_row, audits)))


def _row(audit: Mapping[str, Any]) -> tuple[Cell, ...]:
    sampled = audit["sample_seed"] is not None
    population = audit["population_objects"]
    bound = next((each["bad_objects_max"] for each in audit["bounds"] if each["confidence_percent"] == 95), None)
    return (
        Cell(format_instant(audit["started_at"])),
        _number(audit["objects"]),
        _number(population) if sampled else Cell("all"),
        Cell(f"{audit['objects_per_second']:,.0f}", audit["objects_per_second"]),
        Cell(_findings(audit), notes=tuple(audit["remarks"])),
        Cell("–") if bound is None else _number(bound),
    )


def _findings(audit: Mapping[str, Any]) -> str:
    words = [f"{count:,} {kind}" for kind, count in audit["counts"].items()]
    words += [f"broken off: {audit['broken_off']}"] if audit["broken_off"] else []
    passed_over = sum(each["objects_max"] for each in audit["passed_over"])
    words += [f"up to {passed_over:,} not audited"] if passed_over else []
    return "; ".join(words) or "none"


def _number(value: int) -> Cell:
    return Cell(f"{value:,}", float(value))
