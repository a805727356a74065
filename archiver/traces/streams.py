"""Assignment of streams and sessions to operations of logs that have only addresses.

One idea: the operations of a stream never overlap. An operation that begins during another one of the same client
therefore belongs to another stream of that client. A connection, if the log has it, stays with one stream and is one
session. Without connections a pause ends a stream's session.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

SESSION_GAP_NS = 10 * 10**9  # a pause that ends a session, or frees the stream of a connection


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
    busy: list[tuple[int, int]] = field(default_factory=list)  # heap of (busy until, place), may be outdated
    free: list[int] = field(default_factory=list)  # heap of places
    streams: list[_Stream] = field(default_factory=list)
    by_connection: dict[int, int] = field(default_factory=dict)
    latest: tuple[int, int | None, int | None] | None = None
    latest_place: int = 0


class Streams:
    """Assignment of stream and session numbers in order of time. ``grain_ns`` is the resolution of the log's times."""

    def __init__(self, grain_ns: int = 0) -> None:
        self._grain_ns = grain_ns
        self._clients: dict[int, _Client] = {}
        self._count = 0

    def of(self, client: int, connection: int | None, due_ns: int, done_ns: int | None) -> tuple[int, int]:
        """Return the number of the stream, and of the session within it."""
        own = self._clients.setdefault(client, _Client())
        this = (due_ns, done_ns, connection)
        if this == own.latest:  # several operations of one request
            stream = own.streams[own.latest_place]
            return stream.number, stream.session
        while own.busy and own.busy[0][0] <= due_ns:
            self._release(own, heapq.heappop(own.busy)[1], due_ns)
        place = own.by_connection.get(connection) if connection is not None else None
        is_new = place is None
        if place is None:
            place = heapq.heappop(own.free) if own.free else self._new_stream(own)
        stream = own.streams[place]
        stream.is_free = False
        ended_ns = max(done_ns if done_ns is not None else due_ns, due_ns)
        if connection is not None:
            own.by_connection[connection] = place
            until_ns = ended_ns + SESSION_GAP_NS
            stream.session += is_new
        else:
            until_ns = max(ended_ns - self._grain_ns, due_ns)
            stream.session += stream.session < 0 or due_ns - stream.quiet_since_ns > SESSION_GAP_NS
        stream.connection = connection
        stream.quiet_since_ns = max(ended_ns, stream.quiet_since_ns)
        if until_ns > stream.busy_until_ns:
            stream.busy_until_ns = until_ns
        heapq.heappush(own.busy, (stream.busy_until_ns, place))
        own.latest, own.latest_place = this, place
        return stream.number, stream.session

    def _new_stream(self, own: _Client) -> int:
        own.streams.append(_Stream(self._count))
        self._count += 1
        return len(own.streams) - 1

    @staticmethod
    def _release(own: _Client, place: int, now_ns: int) -> None:
        stream = own.streams[place]
        if stream.busy_until_ns > now_ns or stream.is_free:
            return  # it was used again meanwhile, or is free already
        if stream.connection is not None:
            own.by_connection.pop(stream.connection, None)
            stream.connection = None
        stream.is_free = True
        heapq.heappush(own.free, place)
