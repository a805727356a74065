"""What a trace committed together, brought together: for platforms that commit objects in transactions.

One idea: an object of a transaction is done when the vote on it was answered, so what follows each other in a session
and ended at one instant was committed together. All of it is due when the first was, since the program handed it over
without waiting for anything in between, and follows it. So it is brought into that order before anything else is known
of the trace, and sessions, versions and whose turn it is are found in the order in which a replay goes.

All rows go through a file, and memory holds some 40 bytes for each: more than for a trace that is read as it stands.
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
    """The same rows in the order of a replay, in which rows of one transaction have one due time and one number.

    They come with a number in ``transaction`` that only those share which ended at one instant of one session; 0: it
    was none. ``file`` is empty, and holds them meanwhile.
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
    """Of each row the place of the first of its transaction; its own where it is in none."""
    count = len(rows)
    at = _sorted_with_places(rows["session"]) & _PLACES  # a session's rows are neighbours there
    transactions = rows["transaction"][at]
    begins = np.ones(count, dtype=bool)
    # Whatever else a session did in between ends it, so nothing of a session passes anything else of it. A number is of
    # one session alone.
    begins[1:] = (transactions[1:] != transactions[:-1]) | (transactions[1:] == 0)
    places = np.empty(count, dtype=np.int64)
    places[at] = at[np.maximum.accumulate(np.where(begins, np.arange(count), 0))]
    return places


def _leave_where_order_matters(rows: Records, places: Numbers) -> None:
    """Leave rows where they are that would pass what another session asked of their object meanwhile.

    As where another retrieves the old version while the new one is sent, but not yet committed.
    """
    # Keys behind their places; a copy is about its source as well. Keys are below 0 where there is none.
    about = np.concatenate([_sorted_with_places(rows[name]) for name in ("key", "source")])
    about = about[about >= 0]
    about.sort()
    while True:
        # Later rows of a key must not come to lie before earlier ones. A key stands above all its places.
        moved = (about & ~_PLACES) | places[about & _PLACES]
        passing = about[moved < np.maximum.accumulate(moved)] & _PLACES
        if not len(passing):
            return
        places[passing] = passing  # which may let others pass


def _sorted_with_places(values: NDArray[np.int64]) -> Numbers:
    """Values and the places where they stand, both in one number, by value and then by place."""
    together: Numbers = values << _PLACE_BITS | np.arange(len(values))
    together.sort()
    return together
