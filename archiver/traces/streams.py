"""Streams and sessions of operations whose log only tells addresses.

One idea: a stream is what follows each other, so an operation that begins while another of the same client is under way
belongs to another stream of that client. A connection, where the log tells it, stays with one stream and is one
session; without one a stream's session ends with a silence.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

SESSION_GAP_NS = 10 * 10**9  # a silence that ends a session, or frees what a connection held


@dataclass(slots=True)
class _Stream:
    number: int
    session: int = -1
    connection: int | None = None
    busy_until_ns: int = 0
    quiet_since_ns: int = 0
    is_free: bool = False


@dataclass(slots=True)
class _Client:
    busy: list[tuple[int, int]] = field(default_factory=list)  # heap of (busy until, place), perhaps outdated
    free: list[int] = field(default_factory=list)  # heap of places
    streams: list[_Stream] = field(default_factory=list)
    by_connection: dict[int, int] = field(default_factory=dict)
    latest: tuple[int, int | None, int | None] | None = None
    latest_place: int = 0


class Streams:
    """Numbers operations, which come in order of time. ``grain_ns`` is how exactly the log knows it."""

    def __init__(self, grain_ns: int = 0) -> None:
        self._grain_ns = grain_ns
        self._clients: dict[int, _Client] = {}
        self._count = 0

    def of(self, client: int, connection: int | None, due_ns: int, done_ns: int | None) -> tuple[int, int]:
        """The stream's number, and the session's within it."""
        mine = self._clients.setdefault(client, _Client())
        this = (due_ns, done_ns, connection)
        if this == mine.latest:  # several operations of one request
            stream = mine.streams[mine.latest_place]
            return stream.number, stream.session
        while mine.busy and mine.busy[0][0] <= due_ns:
            self._let_go(mine, heapq.heappop(mine.busy)[1], due_ns)
        place = mine.by_connection.get(connection) if connection is not None else None
        is_new = place is None
        if place is None:
            place = heapq.heappop(mine.free) if mine.free else self._added(mine)
        stream = mine.streams[place]
        stream.is_free = False
        ended_ns = max(done_ns if done_ns is not None else due_ns, due_ns)
        if connection is not None:
            mine.by_connection[connection] = place
            until_ns = ended_ns + SESSION_GAP_NS
            stream.session += is_new
        else:
            until_ns = max(ended_ns - self._grain_ns, due_ns)
            stream.session += stream.session < 0 or due_ns - stream.quiet_since_ns > SESSION_GAP_NS
        stream.connection = connection
        stream.quiet_since_ns = max(ended_ns, stream.quiet_since_ns)
        if until_ns > stream.busy_until_ns:
            stream.busy_until_ns = until_ns
        heapq.heappush(mine.busy, (stream.busy_until_ns, place))
        mine.latest, mine.latest_place = this, place
        return stream.number, stream.session

    def _added(self, mine: _Client) -> int:
        mine.streams.append(_Stream(self._count))
        self._count += 1
        return len(mine.streams) - 1

    @staticmethod
    def _let_go(mine: _Client, place: int, now_ns: int) -> None:
        stream = mine.streams[place]
        if stream.busy_until_ns > now_ns or stream.is_free:
            return  # it was used again since, or is free already
        if stream.connection is not None:
            mine.by_connection.pop(stream.connection, None)
            stream.connection = None
        stream.is_free = True
        heapq.heappush(mine.free, place)
