"""The tested configuration as its owner discloses it: hardware, media, capacity, network, firmware, dates, price.

Archiver cannot read these facts from a platform, and without them a number is not comparable. The user gives them in a
TOML file. Archiver stores them with the run and shows them with every result. Missing facts are shown as not disclosed.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from archiver.values.errors import UsageError
from archiver.values.typed import typed
from results.document.table import Cell, Column, Table, TableSpec
from results.prices.prices import key_and_reason
from results.recorded.database import StoredRun
from results.recorded.run import RecordedRun

NOT_DISCLOSED = "not disclosed"


class Disclosure(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The tested configuration of one platform. TB are 10^12 bytes. None: not disclosed."""

    system: str | None = None  # vendor and model
    nodes: int | None = None
    processors: str | None = None
    memory: str | None = None
    cache: str | None = None
    media: str | None = None  # kind, number and size of disks and tapes
    raid: str | None = None  # RAID level, copies, or erasure code
    raw_tb: float | None = None
    usable_tb: float | None = None
    used_tb: float | None = None  # stored when the run began
    network: str | None = None
    firmware: str | None = None  # versions of firmware and software
    hardware_available: date | None = None
    software_available: date | None = None
    list_price: float | None = None
    currency: str | None = None
    price_date: date | None = None
    notes: str | None = None

    @property
    def usable_bytes(self) -> int | None:
        return None if self.usable_tb is None else round(self.usable_tb * 1e12)

    @property
    def document(self) -> dict[str, Any]:
        """The disclosed facts as plain JSON values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in found.items() if value is not None}


_LABELS = {
    "system": "system",
    "nodes": "nodes",
    "processors": "processors",
    "memory": "memory",
    "cache": "cache",
    "media": "media",
    "raid": "RAID or erasure code",
    "raw_tb": "raw capacity (TB)",
    "usable_tb": "usable capacity (TB)",
    "used_tb": "used when the run began (TB)",
    "network": "network",
    "firmware": "firmware and software",
    "hardware_available": "hardware available from",
    "software_available": "software available from",
    "list_price": "list price",
    "currency": "currency",
    "price_date": "date of the price",
    "notes": "notes",
}


def read_disclosure(path: Path) -> Disclosure:
    """Return the configuration in a TOML file. Raises UsageError naming the file, the key and the remedy."""
    try:
        found = typed(tomllib.loads(path.read_text(encoding="utf-8")), Disclosure)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        keys = ", ".join(Disclosure.__struct_fields__)
        raise UsageError(f"{path}: {key_and_reason(str(error))}; the keys are {keys}") from error
    except (ValueError, RecursionError) as error:  # RecursionError: too deeply nested
        raise UsageError(f"{path}: not TOML: {error}") from error
    for wrong in _wrong(found):
        raise UsageError(f"{path}: {wrong}")
    return found


def disclosed(run: StoredRun) -> Disclosure | None:
    """Return the configuration that was disclosed with a run, or None."""
    given = json.loads(run.request).get("disclosure") if run.request is not None else None
    return None if given is None else typed(given, Disclosure)


def disclosure_tables(recorded: RecordedRun) -> list[Table]:
    """Return the configuration of a run in one table. Returns no table for a run that measured nothing."""
    run = recorded.run
    return [disclosure_table({run.platform.name: disclosed(run)})] if recorded.phases_finished and run.request else []


def disclosure_table(platforms: Mapping[str, Disclosure | None]) -> Table:
    """Return the configuration of each platform in a column of its own. If none is disclosed, one row says so."""
    facts = {name: {} if each is None else each.document for name, each in platforms.items()}
    shown = [key for key in _LABELS if key != "notes" or any(key in each for each in facts.values())]
    if not any(facts.values()):
        rows = [("all of it", dict.fromkeys(facts, NOT_DISCLOSED))]
    else:
        rows = [(_LABELS[key], {name: _text(each.get(key)) for name, each in facts.items()}) for key in shown]
    return TableSpec(
        "disclosure",
        "Tested configuration, as disclosed",
        (
            Column("fact", of=lambda row: row[0], label=True),
            *(Column(name, of=_of(name), words=True) for name in facts),
        ),
        "From the file of archiver run --disclose; Archiver did not check it. TB are 10^12 bytes.",
    ).table(rows)


def _of(name: str) -> Any:
    return lambda row: Cell(row[1][name])


def _text(value: Any) -> str:
    if value is None:
        return NOT_DISCLOSED
    return f"{value:,.10g}" if isinstance(value, int | float) else str(value)


def _wrong(found: Disclosure) -> Iterator[str]:
    for key in Disclosure.__struct_fields__:
        value = getattr(found, key)
        if isinstance(value, str) and not value.strip():
            yield f"{key}: the value is empty; write a value or remove the key"
        if (
            isinstance(value, int | float)
            and not (math.isfinite(value) and value > 0)
            and (key, value) != ("used_tb", 0)
        ):
            yield f"{key}: {value:g} is not possible; write a number above 0"
    for key, least, most in (
        ("usable_tb", found.usable_tb, found.raw_tb),
        ("used_tb", found.used_tb, found.usable_tb),
    ):
        if least is not None and most is not None and least > most:
            of = "raw_tb" if key == "usable_tb" else "usable_tb"
            yield f"{key}: {least:g} is more than {of}, {most:g}"
    if found.list_price is not None and found.currency is None:
        yield 'currency: a list price needs a currency, such as currency = "EUR"'
