"""Lanes: what follows each other in a replay. The sessions of a client, in as few lines as their overlaps allow.

One idea: a session lies between its first and its last row, so when all rows were seen once, a client's sessions are
intervals. Each goes into the client's lowest lane that is free by then. Lanes that meet at an object whose order
matters are in one group, since only one worker can keep that order.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.replay.compile.growing import GrowingArrays
from archiver.engine.work.replay.compile.numbering import Numbers

# A server ends a connection that is idle for some seconds (nginx after 75, Apache after 5, many balancers in between),
# so what a client asks for after a longer silence is asked for on a new one.
SILENCE_SECONDS = 5
_PLACE_BITS = 20
_SESSION = np.dtype([("part", np.int64), ("ns", np.int64)])  # its latest part, plus 1, and when that was used last
_PART = np.dtype([("first_row", np.int64), ("last_row", np.int64), ("client", np.int32)], align=True)


class SessionsOfLanes:
    """The sessions of a trace; one that is silent for long is continued by another."""

    def __init__(self, silence_ns: float, arrays: GrowingArrays) -> None:
        self._silence_ns = silence_ns
        self._known = arrays.of(_SESSION)
        self._parts = arrays.of(_PART)
        self._rows = self._count = 0

    def add(self, due_ns: Numbers, clients: Numbers, sessions: Numbers, opens: NDArray[np.bool_]) -> Numbers:
        """The part that each of these rows belongs to; rows come in order. A row that opens a session begins one."""
        count = len(due_ns)
        assert count < 1 << _PLACE_BITS, "more rows than places"
        if not count:
            return np.zeros(0, dtype=np.int64)
        reached = int(sessions.max()) + 1
        self._known.reach(reached)
        latest, latest_ns = self._known.values["part"], self._known.values["ns"]
        together = np.sort(sessions << _PLACE_BITS | np.arange(count))
        place, of = together & ((1 << _PLACE_BITS) - 1), together >> _PLACE_BITS
        due = due_ns[place]
        begins = np.ones(count, dtype=bool)
        begins[1:] = of[1:] != of[:-1]
        before_ns = np.where(begins, latest_ns[of], np.append(0, due[:-1]))
        new = (due - before_ns > self._silence_ns) | opens[place] | (begins & (latest[of] == 0))
        parts = np.zeros(count, dtype=np.int64)
        numbers = np.empty(count, dtype=np.int64)  # of new ones, in the order of their first rows
        is_new = np.zeros(count, dtype=bool)
        is_new[place] = new
        numbers[is_new] = np.arange(self._count, self._count + int(new.sum()))
        latest_new = np.maximum.accumulate(np.where(new, np.arange(count), -1))
        first_of = np.maximum.accumulate(np.where(begins, np.arange(count), 0))
        parts[place] = np.where(latest_new >= first_of, numbers[place[latest_new]], latest[of] - 1)
        latest[of], latest_ns[of] = parts[place] + 1, due  # of places that are written twice the last counts
        self._extend(is_new, clients)
        self._parts.values["last_row"][parts] = np.arange(self._rows, self._rows + count)
        self._rows += count
        return parts

    @property
    def last_rows(self) -> Numbers:
        """Of each part the last row."""
        found: Numbers = self._parts.values["last_row"][: self._count]
        return found

    def streams(self) -> NDArray[np.int32]:
        """Of each part the number of its lane; lanes are numbered as they first appear."""
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
    """Of each session the lowest lane of its client that is free when it begins; first rows rise."""
    lanes = np.zeros(len(clients), dtype=np.int64)
    order = np.argsort(clients, kind="stable")
    first, last, of = first_rows[order], last_rows[order], clients[order]
    changes = np.ones(len(of), dtype=bool)
    changes[1:] = of[1:] != of[:-1]
    # The latest row of all sessions of its client before it. Only where that is later than its own first is there
    # anything to decide; all else is alone, in lane 0.
    beyond = int(last_rows.max(initial=0)) + 1
    latest = np.maximum.accumulate(last + np.cumsum(changes) * beyond) - np.cumsum(changes) * beyond
    alone = changes | (np.append(-1, latest[:-1]) < first)
    together = ~alone | np.append(~alone[1:], False)
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for place in np.flatnonzero(together).tolist():
        if alone[place]:
            busy, free = [], []
        begins = int(first[place])
        while busy and busy[0][0] < begins:
            heappush(free, heappop(busy)[1])
        lane = heappop(free) if free else len(busy)
        heappush(busy, (int(last[place]), lane))
        lanes[order[place]] = lane
    return lanes


class Groups:
    """Streams that meet at objects whose order matters."""

    def __init__(self, streams: int, objects: int) -> None:
        self._roots = np.arange(streams, dtype=np.int32)  # of each stream the lowest of its group
        self._first = np.full(objects, -1, dtype=np.int32)  # of each object the first stream at it

    def meet(self, objects: Numbers, streams: NDArray[np.int32]) -> None:
        """Each of these streams is at the object beside it."""
        _, where = np.unique(objects, return_index=True)
        new = where[self._first[objects[where]] < 0]
        self._first[objects[new]] = streams[new]
        ours, theirs = self._roots[self._first[objects]], self._roots[streams]
        apart = ours != theirs
        for pair in np.unique(ours[apart].astype(np.int64) << 32 | theirs[apart]).tolist():
            one, other = self._root(pair >> 32), self._root(pair & 0xFFFFFFFF)
            self._roots[max(one, other)] = min(one, other)
        while (self._roots[self._roots] != self._roots).any():
            self._roots = self._roots[self._roots]

    def numbers(self) -> NDArray[np.int32]:
        """Of each stream its group, numbered from 0 in the order of their lowest streams."""
        return np.unique(self._roots, return_inverse=True)[1].astype(np.int32)

    def _root(self, stream: int) -> int:
        roots = self._roots
        while roots[stream] != stream:
            roots[stream] = roots[roots[stream]]
            stream = int(roots[stream])
        return stream
