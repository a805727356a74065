"""The audits of a run and their results, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from archiver.values.sizes import format_instant
from results.document.table import Cell, Column, Table, TableSpec


def audits_table(audits: Sequence[Mapping[str, Any]]) -> Table:
    """Return one row for each audit, in the order of the audits."""
    return _AUDITS.table(audits)


def _population(audit: Mapping[str, Any]) -> float | str:
    return "all" if audit["sample_seed"] is None else float(audit["population_objects"])


def _findings(audit: Mapping[str, Any]) -> Cell:
    words = [f"{count:,} {kind}" for kind, count in audit["counts"].items()]
    words += [f"broken off: {audit['broken_off']}"] if audit["broken_off"] else []
    passed_over = sum(each["objects_max"] for each in audit["passed_over"])
    words += [f"up to {passed_over:,} not audited"] if passed_over else []
    return Cell("; ".join(words) or "none", notes=tuple(audit["remarks"]))


def _bad_max(audit: Mapping[str, Any]) -> float | None:
    return next((float(each["bad_objects_max"]) for each in audit["bounds"] if each["confidence_percent"] == 95), None)


_AUDITS = TableSpec(
    "audits",
    "Audits: objects read again and compared",
    (
        Column("started", of=lambda audit: format_instant(audit["started_at"]), label=True),
        Column("objects", of=lambda audit: float(audit["objects"])),
        Column("sample of", of=_population),
        Column("objects/s", of=lambda audit: audit["objects_per_second"]),
        Column("findings", of=_findings, words=True),
        Column("at most bad, 95%", "objects", _bad_max),
    ),
)
