"""Grouping of the rows of each transaction, for platforms that commit objects in transactions.

One idea: an object of a transaction is done when the server answered the vote on it. Consecutive rows of a session that
ended at one instant were therefore committed in one transaction. The program submitted all of them without waiting, so
all are due when the first was, and follow it. This module puts rows into that order before any other analysis, so that
sessions, versions and turns are found in the order of the replay.

All rows go through a file. Memory contains some 40 bytes for each row, more than for a trace that is compiled in its
own order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.replay.compile.history import ROW, Records
from archiver.engine.work.replay.compile.numbering import Numbers
from archiver.traces.format import ROW_GROUP_ROWS

_PLACE_BITS = 31
_PLACES = (1 << _PLACE_BITS) - 1


def brought_together(batches: Iterable[Records], file: BinaryIO) -> Iterator[Records]:
    """Yield the same rows in replay order; rows of one transaction have one due time and one number.

    Input rows have a number in ``transaction``, shared by rows that ended at one instant of one session; 0 means none.
    ``file`` is an empty file for temporary use.
    """
    count = 0
    for rows in batches:
        file.write(rows.tobytes())
        count += len(rows)
    if not count:
        return
    assert count <= _PLACES, "more rows than places"
    file.flush()
    rows = np.memmap(file, dtype=ROW, mode="r", shape=(count,))
    places = _places_of_firsts(rows)
    _leave_where_order_matters(rows, places)
    order = np.argsort(places, kind="stable")
    sizes = np.bincount(places, minlength=count).astype(np.int32)
    for first in range(0, count, ROW_GROUP_ROWS):
        here = order[first : first + ROW_GROUP_ROWS]
        firsts = places[here]
        chosen = np.array(rows[here])
        chosen["due_ns"] = rows["due_ns"][firsts]
        chosen["transaction"] = np.where(sizes[firsts] > 1, firsts + 1, 0)
        yield chosen


def _places_of_firsts(rows: Records) -> Numbers:
    """Return for each row the position of the first row of its transaction; its own position outside transactions."""
    count = len(rows)
    at = _sorted_with_places(rows["session"]) & _PLACES  # sorted, the rows of a session are adjacent
    transactions = rows["transaction"][at]
    begins = np.ones(count, dtype=bool)
    # Any other operation of the session ends a transaction, so rows of a session never overtake each other. A number
    # belongs to one session alone.
    begins[1:] = (transactions[1:] != transactions[:-1]) | (transactions[1:] == 0)
    places = np.empty(count, dtype=np.int64)
    places[at] = at[np.maximum.accumulate(np.where(begins, np.arange(count), 0))]
    return places


def _leave_where_order_matters(rows: Records, places: Numbers) -> None:
    """Leave rows in place that would otherwise overtake another session's operation on their object.

    An example is a retrieve of the old version while the new version is sent, but not yet committed.
    """
    # Keys combined with positions; a copy uses its source as well. Keys are below 0 if there is none.
    about = np.concatenate([_sorted_with_places(rows[name]) for name in ("key", "source")])
    about = about[about >= 0]
    about.sort()
    while True:
        # Later rows of a key must not move before earlier ones. The key occupies the bits above all positions.
        moved = (about & ~_PLACES) | places[about & _PLACES]
        passing = about[moved < np.maximum.accumulate(moved)] & _PLACES
        if not len(passing):
            return
        places[passing] = passing  # this may allow others to move


def _sorted_with_places(values: NDArray[np.int64]) -> Numbers:
    """Return values and their positions, both in one number, sorted by value and then by position."""
    combined: Numbers = values << _PLACE_BITS | np.arange(len(values))
    combined.sort()
    return combined
