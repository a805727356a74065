"""Management classes: the retention periods of archived objects.

One idea: objects are archived under the promise of a class, so a class may become stricter and never weaker. Everything
here is a value or a pure function of values and instants (milliseconds since the epoch). A stricter class also applies
to what is archived already. Nothing expires by itself. Periods of seconds exist for tests; the API reports them in
days, rounded up.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from archiver.values.databases import open_database
from archiver.values.errors import UsageError
from archiver.values.sizes import format_duration, parse_duration

from .refusals import ArchiveHeld, ArchiveRetained

DEFAULT_CLASS = "STANDARD"
DAYS_MAX = 30_000
_DAY_SECONDS = 86_400
_NAME = re.compile(r"[A-Z0-9_.+&-]{1,30}")
_KEYS = ("retver", "retinit", "retmin")


@dataclass(frozen=True, slots=True)
class ManagementClass:
    """One class and its archive copy group. `retver_seconds` None: no limit."""

    name: str
    retinit: str  # creation or event
    retver_seconds: int | None
    retmin_seconds: int = 0

    def expires_ms(self, archived_ms: int, event_ms: int | None) -> int | None:
        """Return when an object expires. None: never, or its retention event has not happened yet."""
        if self.retver_seconds is None:
            return None
        if self.retinit == "creation":
            return archived_ms + self.retver_seconds * 1000
        if event_ms is None:
            return None
        return max(archived_ms + self.retmin_seconds * 1000, event_ms + self.retver_seconds * 1000)

    @property
    def description(self) -> str:
        """The text that a query of the classes shows."""
        length = "no limit" if self.retver_seconds is None else format_duration(self.retver_seconds)
        if self.retinit == "creation":
            return f"kept from archiving on: {length}"
        return f"kept until an event and then {length}, at least {format_duration(self.retmin_seconds)}"


# The classes of a new store. Periods are seconds and minutes because test objects must be deletable soon.
BUILT_IN = (
    ManagementClass(DEFAULT_CLASS, "creation", 300),
    ManagementClass("SHORT", "creation", 10),
    ManagementClass("NONE", "creation", 0),
    ManagementClass("EVENT", "event", 0, 300),
)


def days(seconds: int | None) -> int:
    """Return a period as the protocol sends it: whole days, rounded up; 65535 for no limit."""
    return 65_535 if seconds is None else -(-seconds // _DAY_SECONDS)


def parse_request(text: str) -> ManagementClass:
    """Parse a class from `NAME:retver=30d[,retinit=event,retmin=10d]`. Raises UsageError."""
    name, colon, rest = text.partition(":")
    name = name.upper()
    pairs = [pair.partition("=") for pair in rest.split(",")] if colon else []
    given = {key.strip().lower(): value.strip().lower() for key, _, value in pairs}
    shape = "write NAME:retver=DURATION|nolimit[,retinit=creation|event][,retmin=DURATION]"
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"--management-class {text!r}: a name has 1 to 30 letters, digits or _ - . + &; {shape}")
    if len(given) != len(pairs) or not given.keys() <= set(_KEYS) or "retver" not in given:
        raise UsageError(f"--management-class {text!r}: {shape}")
    retinit = given.get("retinit", "creation")
    if retinit not in ("creation", "event"):
        raise UsageError(f"--management-class {text!r}: retinit is creation or event")
    if retinit == "creation" and "retmin" in given:
        raise UsageError(f"--management-class {text!r}: retmin belongs to retinit=event")
    if retinit == "event" and given["retver"] == "nolimit":
        raise UsageError(f"--management-class {text!r}: with retinit=event, retver must have an end")
    retver = None if given["retver"] == "nolimit" else _seconds(text, given["retver"])
    return ManagementClass(name, retinit, retver, _seconds(text, given["retmin"]) if "retmin" in given else 0)


def _seconds(text: str, value: str) -> int:
    try:
        seconds = parse_duration(value) if value != "0" else 0.0
    except ValueError as wrong:
        raise UsageError(f"--management-class {text!r}: {wrong}") from None
    if seconds != int(seconds) or seconds > DAYS_MAX * _DAY_SECONDS:
        raise UsageError(f"--management-class {text!r}: a length has whole seconds, at most {DAYS_MAX} days")
    return int(seconds)


def tightened(current: ManagementClass, wanted: ManagementClass) -> ManagementClass:
    """Return `wanted` if it keeps every object at least as long as `current` does. Raises UsageError otherwise."""
    weaker = None
    if wanted.retinit != current.retinit:
        weaker = f"retinit is {current.retinit} and cannot change"
    elif wanted.retver_seconds is not None and (
        current.retver_seconds is None or wanted.retver_seconds < current.retver_seconds
    ):
        weaker = f"retver is {_length(current.retver_seconds)} and can only grow"
    elif wanted.retmin_seconds < current.retmin_seconds:
        weaker = f"retmin is {_length(current.retmin_seconds)} and can only grow"
    if weaker is not None:
        raise UsageError(f"management class {current.name}: {weaker}; objects may have been archived under it")
    return wanted


def _length(seconds: int | None) -> str:
    return "nolimit" if seconds is None else format_duration(seconds)


def check_delete(kept_by: ManagementClass, archived_ms: int, event_ms: int | None, held: bool, now_ms: int) -> None:
    """Return if an archived object may be deleted at `now_ms`; no caller may bypass. Raises ArchiveHeld,
    ArchiveRetained.
    """
    if held:
        raise ArchiveHeld
    expires_ms = kept_by.expires_ms(archived_ms, event_ms)
    if expires_ms is None or now_ms < expires_ms:
        raise ArchiveRetained(expires_ms)


def load(folder: Path) -> Mapping[str, ManagementClass]:
    """Return the classes of an existing store by name. The store may be running."""
    path = (folder / "catalogue.db").resolve()
    with closing(open_database(path, "ro")) as connection:
        return {each.name: each for each in rows(connection)}


def rows(connection: sqlite3.Connection) -> Iterable[ManagementClass]:
    columns = "name, retinit, retver_seconds, retmin_seconds"
    return [
        ManagementClass(*row) for row in connection.execute(f"SELECT {columns} FROM management_classes ORDER BY id")
    ]
