"""The index of a run's objects: the id and the restore order of each.

The API does not return the id of an object that it archives, so applications query it and keep it. The ids of objects
that exist before the measurement are queried then, a thousand names with one query. The id of an object archived later
is queried by name in the session that first needs it; no row includes the time of that query.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from backends.tsm.library.api import ArchivedObject
from backends.tsm.setting import number_of

_VERSION = b"content version "  # description of a later archive of a name; the first has none


class IndexEntry(NamedTuple):
    """The values needed to retrieve an archived object."""

    restore_order: int
    id: int


class Target(NamedTuple):
    """One object of a batch, as a client's thread gets it."""

    number: int
    size_bytes: int
    version: int = 1  # of its content
    extent: tuple[int, int] | None = None  # offset and length of a part; None: the whole object
    id: int = 0  # 0: not archived yet
    restore_order: int = 0
    content: int | None = None  # number of the object whose content it has; None: its own


# By object number and content version. Several threads add entries, each with one assignment.
Index = dict[tuple[int, int], IndexEntry]


def description(version: int) -> bytes | None:
    """Return the description that distinguishes this content version from others of the same name."""
    return None if version == 1 else _VERSION + b"%d" % version


def version_of(found: ArchivedObject) -> int:
    """Return the content version in an object's description; 1 if there is none."""
    number = found.description.removeprefix(_VERSION)
    return int(number) if number != found.description and number.isdigit() else 1


def archived_at(one: ArchivedObject) -> tuple[int, int]:
    """Return the sort key for the order in which objects were archived."""
    return one.archived, one.id


def number_in(found: ArchivedObject, space: str, prefix: str) -> int | None:
    """Return the number of an object; None if its name is not one of the run with this file space and prefix."""
    return number_of(space, prefix, (found.space, found.high_level, found.low_level))


def firsts(found: Iterable[ArchivedObject], space: str, prefix: str) -> dict[tuple[int, int], ArchivedObject]:
    """Return a run's objects by number and content version, without those that have names of others.

    An application may have archived another object under the same name; the oldest is ours.
    """
    # The oldest comes last and replaces the others.
    ordered = sorted(found, key=archived_at, reverse=True)
    numbered = ((number_in(one, space, prefix), one) for one in ordered)
    return {(number, version_of(one)): one for number, one in numbered if number is not None}


def learn(index: Index, found: Iterable[ArchivedObject], space: str, prefix: str) -> None:
    """Add a run's objects that a query found to the index."""
    for key, one in firsts(found, space, prefix).items():
        index[key] = IndexEntry(one.restore_order, one.id)
