"""The setting of the TSM data plane, which the coordinator sends to its workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from backends.tsm.lock import LockRule

OBJECTS_PER_GROUP = 1000  # share a high-level name; one query finds them all
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class TsmWorkerSetting:
    """All that a worker needs to use the server. It is sent to workers only, and never stored or printed."""

    library: str
    configuration: Path | None  # folder of private option files
    options: str
    node: str | None
    password: str | None = field(repr=False)
    space: str
    prefix: str
    management_class: str | None  # None: the default class
    objects_per_transaction: int
    attributes_version: int  # of ObjAttr
    lock_rule: LockRule = field(default_factory=LockRule)


def high_level(prefix: str, number: int) -> str:
    """Return the high-level name of object ``number``."""
    return f"/{prefix}/{number // OBJECTS_PER_GROUP:06d}"


def low_level(number: int) -> str:
    """Return the low-level name of object ``number``."""
    return f"/{number:0{_DIGITS}d}"


def number_of(space: str, prefix: str, full_name: tuple[bytes, bytes, bytes]) -> int | None:
    """Return the number of the object with this file space, high-level and low-level name.

    None if it is in another file space, or its name is not one that the run of this prefix gives.
    """
    digits = full_name[2].removeprefix(b"/")
    number = int(digits) if len(digits) == _DIGITS and digits.isdigit() else None
    if number is None or full_name != tuple(
        name.encode() for name in (space, high_level(prefix, number), low_level(number))
    ):
        return None
    return number


def object_name(space: str, prefix: str, number: int) -> str:
    """Return the full name of object ``number``, for messages."""
    return space + high_level(prefix, number) + low_level(number)
