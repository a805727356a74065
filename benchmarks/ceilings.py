"""The client's ceilings per core, as `archiver doctor` measures them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from archiver.doctor import CLIENTS, OBJECTS_PER_SESSION, ceilings
from archiver.sizes import format_size

SECONDS, SECONDS_SMALL = 5.0, 0.25


def measure(*, small: bool) -> dict[str, Any]:
    """Objects/s of one worker on one core, per limit (engine, wire), operation and size."""
    found = [
        {"limit": ceiling.limit, **asdict(ceiling.result)} for ceiling in ceilings(SECONDS_SMALL if small else SECONDS)
    ]
    return {
        "unit": "objects per second of one worker on one core",
        "clients": CLIENTS,
        "objects_per_session": OBJECTS_PER_SESSION,
        "ceilings": found,
    }


def text(document: dict[str, Any]) -> str:
    """The same as a table."""
    lines = [
        f"{document['unit']}, {document['clients']} clients, {document['objects_per_session']} objects per session"
    ]
    lines += [
        f"  {c['limit']:<8}{c['operation']:<10}{format_size(c['object_bytes']):>6}{c['objects_per_second']:>12,.0f}"
        for c in document["ceilings"]
    ]
    return "\n".join(lines)
