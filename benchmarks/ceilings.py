"""The client's ceilings per core, as `archiver doctor` measures them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from archiver.engine.doctor import CLIENTS, OBJECTS_PER_SESSION, ceilings
from archiver.values.sizes import format_size
from benchmarks.tables import Table, labelled, plain

TITLE = "The client's ceilings per core"
SECONDS = 5.0
SMALL = 0.05, 5  # seconds, objects per session


def measure(*, small: bool) -> dict[str, Any]:
    """Objects/s of one worker on one core, per limit (engine, wire), operation and size."""
    seconds, objects_per_session = SMALL if small else (SECONDS, OBJECTS_PER_SESSION)
    found = [{"limit": ceiling.limit, **asdict(ceiling.result)} for ceiling in ceilings(seconds, objects_per_session)]
    return {
        "unit": "objects per second of one worker on one core",
        "clients": CLIENTS,
        "objects_per_session": objects_per_session,
        "ceilings": found,
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """Engine and wire, by operation and size."""
    rows = (
        plain(c["limit"], c["operation"], format_size(c["object_bytes"]), f"{c['objects_per_second']:,.0f}")
        for c in document["ceilings"]
    )
    title = f"{document['clients']} clients, {document['objects_per_session']} objects per session"
    return [Table("ceilings", title, labelled(("limit", "operation", "object size"), "objects/s"), tuple(rows))]


def notes(document: dict[str, Any]) -> list[str]:
    return []
