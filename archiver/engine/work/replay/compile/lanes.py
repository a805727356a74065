"""Lanes: sequences of operations in a replay. A client's sessions take as few lanes as their overlaps allow.

One idea: a session extends from its first to its last row. After one pass over all rows, a client's sessions are
intervals. Each interval takes the client's lowest free lane. Lanes that share an object whose order matters are in one
group, since only one worker can keep that order.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.replay.compile.growing import GrowingArrays
from archiver.engine.work.replay.compile.numbering import Numbers

# A server closes a connection that is idle for some seconds (nginx after 75, Apache after 5, many balancers in
# between). Requests of a client after a longer silence therefore use a new connection.
SILENCE_SECONDS = 5
_PLACE_BITS = 20
_SESSION = np.dtype([("part", np.int64), ("ns", np.int64)])  # number of its latest part, plus 1; time of its last use
_PART = np.dtype([("first_row", np.int64), ("last_row", np.int64), ("client", np.int32)], align=True)


class SessionsOfLanes:
    """The sessions of a trace. A session that is silent for long is continued by a new part."""

    def __init__(self, silence_ns: float, arrays: GrowingArrays) -> None:
        self._silence_ns = silence_ns
        self._known = arrays.of(_SESSION)
        self._parts = arrays.of(_PART)
        self._rows = self._count = 0

    def add(self, due_ns: Numbers, clients: Numbers, sessions: Numbers, opens: NDArray[np.bool_]) -> Numbers:
        """Return the part that each of these rows belongs to.

        Rows come in order. A row that opens a session begins a part.
        """
        count = len(due_ns)
        assert count < 1 << _PLACE_BITS, "more rows than places"
        if not count:
            return np.zeros(0, dtype=np.int64)
        reached = int(sessions.max()) + 1
        self._known.reach(reached)
        latest, latest_ns = self._known.values["part"], self._known.values["ns"]
        combined = np.sort(sessions << _PLACE_BITS | np.arange(count))
        place, of = combined & ((1 << _PLACE_BITS) - 1), combined >> _PLACE_BITS
        due = due_ns[place]
        begins = np.ones(count, dtype=bool)
        begins[1:] = of[1:] != of[:-1]
        before_ns = np.where(begins, latest_ns[of], np.append(0, due[:-1]))
        new = (due - before_ns > self._silence_ns) | opens[place] | (begins & (latest[of] == 0))
        parts = np.zeros(count, dtype=np.int64)
        numbers = np.empty(count, dtype=np.int64)  # numbers of new parts, in the order of their first rows
        is_new = np.zeros(count, dtype=bool)
        is_new[place] = new
        numbers[is_new] = np.arange(self._count, self._count + int(new.sum()))
        latest_new = np.maximum.accumulate(np.where(new, np.arange(count), -1))
        first_of = np.maximum.accumulate(np.where(begins, np.arange(count), 0))
        parts[place] = np.where(latest_new >= first_of, numbers[place[latest_new]], latest[of] - 1)
        latest[of], latest_ns[of] = parts[place] + 1, due  # for a repeated position the last value counts
        self._extend(is_new, clients)
        self._parts.values["last_row"][parts] = np.arange(self._rows, self._rows + count)
        self._rows += count
        return parts

    @property
    def last_rows(self) -> Numbers:
        """Return the last row of each part."""
        found: Numbers = self._parts.values["last_row"][: self._count]
        return found

    def streams(self) -> NDArray[np.int32]:
        """Return the lane number of each part. Lanes are numbered by first appearance."""
        parts = self._parts.values[: self._count]
        clients = parts["client"].astype(np.int64)
        lanes = _lanes(clients, parts["first_row"], parts["last_row"])
        _, firsts, where = np.unique(clients << 32 | lanes, return_index=True, return_inverse=True)
        numbers = np.empty(len(firsts), dtype=np.int32)
        numbers[np.argsort(firsts)] = np.arange(len(firsts), dtype=np.int32)
        found: NDArray[np.int32] = numbers[where]
        return found

    def _extend(self, is_new: NDArray[np.bool_], clients: Numbers) -> None:
        first, self._count = self._count, self._count + int(is_new.sum())
        self._parts.reach(self._count)
        parts = self._parts.values[first : self._count]
        parts["client"], parts["first_row"] = clients[is_new], self._rows + np.flatnonzero(is_new)


def _lanes(clients: Numbers, first_rows: Numbers, last_rows: Numbers) -> Numbers:
    """Return for each session its client's lowest lane that is free when it begins. First rows are ascending."""
    lanes = np.zeros(len(clients), dtype=np.int64)
    order = np.argsort(clients, kind="stable")
    first, last, of = first_rows[order], last_rows[order], clients[order]
    changes = np.ones(len(of), dtype=bool)
    changes[1:] = of[1:] != of[:-1]
    # The latest row of all previous sessions of its client. A decision is needed only if that row is after the
    # session's own first row. Otherwise no session overlaps, and the lane is 0.
    beyond = int(last_rows.max(initial=0)) + 1
    latest = np.maximum.accumulate(last + np.cumsum(changes) * beyond) - np.cumsum(changes) * beyond
    overlaps_none = changes | (np.append(-1, latest[:-1]) < first)
    overlapping = ~overlaps_none | np.append(~overlaps_none[1:], False)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for place in np.flatnonzero(overlapping).tolist():
        if overlaps_none[place]:
            busy, free = [], []
        begins = int(first[place])
        while busy and busy[0][0] < begins:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (int(last[place]), lane))
        lanes[order[place]] = lane
    return lanes


class Groups:
    """Groups of streams that share objects whose order matters."""

    def __init__(self, streams: int, objects: int) -> None:
        self._roots = np.arange(streams, dtype=np.int32)  # for each stream, the lowest of its group
        self._first = np.full(objects, -1, dtype=np.int32)  # for each object, the first stream that uses it

    def meet(self, objects: Numbers, streams: NDArray[np.int32]) -> None:
        """Record that each of these streams uses the object at the same position in ``objects``."""
        _, where = np.unique(objects, return_index=True)
        new = where[self._first[objects[where]] < 0]
        self._first[objects[new]] = streams[new]
        roots_before, roots_now = self._roots[self._first[objects]], self._roots[streams]
        apart = roots_before != roots_now
        for pair in np.unique(roots_before[apart].astype(np.int64) << 32 | roots_now[apart]).tolist():
            one, other = self._root(pair >> 32), self._root(pair & 0xFFFFFFFF)
            self._roots[max(one, other)] = min(one, other)
        while (self._roots[self._roots] != self._roots).any():
            self._roots = self._roots[self._roots]

    def numbers(self) -> NDArray[np.int32]:
        """Return for each stream its group, numbered from 0 in the order of the lowest streams."""
        return np.unique(self._roots, return_inverse=True)[1].astype(np.int32)

    def _root(self, stream: int) -> int:
        roots = self._roots
        while roots[stream] != stream:
            roots[stream] = roots[roots[stream]]
            stream = int(roots[stream])
        return stream
