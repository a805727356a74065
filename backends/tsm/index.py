"""The index of what a run archived: by which id, and in which order, each of its objects is asked for again.

One idea: the API tells nobody the id of what it archives, so applications query it and keep it. What is there before
the clock starts is looked up then, a thousand names with one query; what is archived later is looked up by its name, in
the session that first asks for it, and in none of its rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from backends.tsm.api import ArchivedObject

_VERSION = b"content version "  # what a later archive of a name says of itself; the first says nothing


class Known(NamedTuple):
    """By what an archived object is asked for again."""

    restore_order: int
    id: int


class Target(NamedTuple):
    """One object of a batch, as a client's thread is told of it."""

    number: int
    size_bytes: int
    version: int = 1  # of its content
    extent: tuple[int, int] | None = None  # offset and length, where a part of it is meant
    id: int = 0  # where it is archived already
    restore_order: int = 0
    content: int | None = None  # number of the object whose content it has; None: its own


# By object number and content version. Entries come from several threads, each with a single assignment.
Index = dict[tuple[int, int], Known]


def description(version: int) -> bytes | None:
    """By what an archive of this content version is told from the others of its name."""
    return None if version == 1 else _VERSION + b"%d" % version


def version_of(found: ArchivedObject) -> int:
    """The content version that an archive says it has: the first where it says nothing."""
    said = found.description.removeprefix(_VERSION)
    return int(said) if said != found.description and said.isdigit() else 1


def archived_at(one: ArchivedObject) -> tuple[int, int]:
    """By what objects are sorted in the order in which they were archived."""
    return one.archived, one.id


def firsts(found: Iterable[ArchivedObject]) -> dict[tuple[int, int], ArchivedObject]:
    """The objects by number and content version, those whose names are no numbers left out.

    An application may have archived another object under the same name; the first is ours.
    """
    # What is put down last stays.
    ordered = sorted(found, key=archived_at, reverse=True)
    return {(int(one.low_level[1:]), version_of(one)): one for one in ordered if one.low_level[1:].isdigit()}


def learn(index: Index, found: Iterable[ArchivedObject]) -> None:
    """Put down what a query found."""
    for key, one in firsts(found).items():
        index[key] = Known(one.restore_order, one.id)
