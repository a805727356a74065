"""One session of the TSM server: which frames it accepts in each state, and how it answers them.

One idea: bytes stay where they arrived. An object's data stays in the receive buffer until the writer has written it to
the disk; the session copies heads only. The session parses until it must wait, for a vote or a file space. While it
waits, the client's next bytes wait in the buffer.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Protocol, cast

from archiver.values.errors import StoreError

from ..core.changes.access import DeleteAccess, SetAccess
from ..core.changes.archives import DeleteSpace, Event, RegisterSpace, UpdateObject, UpdateSpace
from ..core.files.buffers import ReceiveBuffers
from ..core.files.digests import Buffer
from ..core.rules.refusals import NothingArchived
from ..core.store import Store
from ..core.tables.archives import AccessRule, Space
from . import codes, frames, streams
from .access import Caller, ReadSource, may_read_any, seen_space
from .frames import HEADER_BYTES, LAST, Fields, FrameKind, Malformed
from .incoming import Flow, Incoming
from .nodes import ITERATIONS_MAX, Node, Nodes, mac
from .streams import StreamFailed

_ROOM_BYTES_MIN = 64 << 10
_WRITE_BYTES_MAX = 1 << 20
_UNREAD_BYTES_MAX = 8 << 20  # more than any stream sends ahead

# The masks of dsmUpdateFS and dsmUpdateObj.
_SPACE_TYPE, _SPACE_INFO, _SPACE_OCCUPANCY, _SPACE_CAPACITY = 0x02, 0x04, 0x20, 0x40
_OBJECT_OWNER, _OBJECT_INFO, _OBJECT_DESCRIPTION = 0x01, 0x02, 0x04


class SessionHost(Protocol):
    """The part of TsmServer that a session uses."""

    store: Store
    nodes: Nodes
    buffers: ReceiveBuffers
    requests: Counter[tuple[str, int]]
    objects_max: int

    def joined(self, session: ServerSession) -> bool:
        """Add a session. Return whether the limit of sessions allows it."""

    def left(self, session: ServerSession) -> None:
        """Remove an ended session."""

    def is_expired(self, node: Node) -> bool:
        """Return whether the node's password has expired."""

    def welcome(self, proof: bytes, *, is_expired: bool) -> frames.Welcome:
        """Return the answer to a client that has signed on."""

    def say(self, words: str) -> None:
        """Write a message for the store's operator."""

    def spawn(self, work: Awaitable[None]) -> None:
        """Run a task that may outlive the session."""


class ServerSession(asyncio.BufferedProtocol):
    """The server's side of one connection."""

    def __init__(self, server: SessionHost) -> None:
        self._server = server
        self._store = server.store
        self._requests = server.requests
        self._classes = list(server.store.management_classes)  # class numbers by the index that clients use
        self._loop = asyncio.get_running_loop()
        self.heard_at = self._loop.time()
        self._buffer = server.buffers.take()
        self._view = memoryview(self._buffer)
        self._start = self._end = 0  # of the received bytes that are not parsed yet
        self._data_left = 0  # of the current frame
        self._ends_object = False
        self._expects: tuple[FrameKind, ...] = (FrameKind.HELLO,)
        self._ready: tuple[FrameKind, ...] = ()  # what it expects outside transactions and streams
        self._hello: frames.Hello | None = None
        self._node: Node | None = None
        self._nonces = b""
        self._incoming: Incoming | None = None
        self._busy = False  # it waits for the store before it continues parsing
        self._is_last = False  # it closes after the current work
        self._stream: asyncio.Task[None] | None = None
        self._stops_stream = False
        self._reading_paused = 0  # the number of reasons to pause
        self._may_write = asyncio.Event()
        self._may_write.set()

    # The connection.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        connection = self._transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport.set_write_buffer_limits(high=_WRITE_BYTES_MAX)
        if not self._server.joined(self):
            self._refuse(codes.REJECT_NO_RESOURCES)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.left(self)
        self._buffer, self._view = bytearray(), memoryview(b"")  # another session may take the buffer
        self._start = self._end = 0
        self._may_write.set()
        if self._stream is not None:
            self._stream.cancel()
        incoming, self._incoming = self._incoming, None
        if incoming is not None and not self._busy:  # a running vote cleans up itself if it fails
            self._count_transaction(incoming, codes.ABORT_BY_CLIENT)
            self._server.spawn(incoming.abandon())

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    @property
    def is_inside_something(self) -> bool:
        """Whether it is signing on or has an open transaction or stream; then the shorter time limit applies."""
        return self._incoming is not None or self._stream is not None or self._node is None

    @property
    def is_waiting_for_the_store(self) -> bool:
        return self._busy or (self._incoming is not None and self._reading_paused > 0)

    def drop(self) -> None:
        """Abort the connection of a silent client."""
        self._transport.abort()

    def finish(self) -> None:
        """Close the session after its current work is done and answered."""
        self._is_last = True
        if not self._busy:
            self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        if len(self._buffer) - self._end < _ROOM_BYTES_MIN:
            self._turn_over()
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        self.heard_at = self._loop.time()
        self._parse()

    def eof_received(self) -> None:
        return None

    def _turn_over(self) -> None:
        """Continue in a new buffer. The old one stays in memory while objects are in it."""
        if self._incoming is not None:
            self._incoming.turned_over(len(self._buffer))
        rest = self._view[self._start : self._end]
        buffer = self._server.buffers.take()
        buffer[: len(rest)] = rest
        self._buffer, self._view = buffer, memoryview(buffer)
        self._start, self._end = 0, len(rest)

    def _pause_reading(self) -> None:
        self._reading_paused += 1
        if self._reading_paused == 1:
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._reading_paused -= 1
        if not self._reading_paused and not self._transport.is_closing():
            self._transport.resume_reading()

    def _send(self, data: Buffer) -> None:
        if self._transport.is_closing():
            return
        self._transport.write(data)
        if self._transport.get_write_buffer_size() > _UNREAD_BYTES_MAX:
            self.drop()  # the client sends requests and does not read answers

    def _answer(self, kind: FrameKind, code: int, frame: Buffer) -> None:
        """Answer a request of this kind. It is counted before the client has the answer."""
        self._count(kind, code)
        self._send(frame)

    def _count(self, kind: FrameKind, code: int, count: int = 1) -> None:
        if count:
            self._requests[_OPERATIONS[kind], code] += count

    def _count_transaction(self, incoming: Incoming, code: int) -> None:
        """Count the operations of an ended transaction with its code, object by object."""
        self._count(FrameKind.OBJECT, code, incoming.objects)
        self._count(FrameKind.DELETE, code, incoming.deletes)
        self._count(FrameKind.EVENT, code, incoming.events)

    def _refuse_malformed(self) -> None:
        self._requests[_MALFORMED, codes.COMM_PROTOCOL_ERROR] += 1
        self._refuse(codes.COMM_PROTOCOL_ERROR)

    def _refuse(self, code: int, kind: FrameKind | None = None) -> None:
        """Refuse and close the session. `kind`: of the refused request, to count it."""
        if kind is not None:
            self._count(kind, code)
        self._expects = ()
        self._send(frames.refused(code))
        self._transport.close()

    # Frames.

    def _parse(self) -> None:
        try:
            while not self._busy and not self._transport.is_closing() and self._step():
                pass
        except Malformed:
            self._refuse_malformed()

    def _step(self) -> bool:
        """Parse the next frame, or the received part of an object's data. Return False if more bytes must arrive
        first.
        """
        available = self._end - self._start
        if self._data_left:
            if not available:
                return False
            self._take_data(min(available, self._data_left))
            return True
        if available < HEADER_BYTES:
            return False
        length, kind, flags = frames.parse_header(self._buffer, self._start)
        if kind not in self._expects or flags & ~LAST or (flags and kind not in (FrameKind.OBJECT, FrameKind.DATA)):
            raise Malformed
        if kind == FrameKind.OBJECT:
            return self._object(length, flags, available)
        if kind == FrameKind.DATA:
            self._start += HEADER_BYTES
            self._data(length, flags)
            return True
        if length > frames.WHOLE_BYTES_MAX:
            raise Malformed
        if available < HEADER_BYTES + length:
            return False
        at = self._start + HEADER_BYTES
        self._start = at + length
        self._handlers[FrameKind(kind)](self, self._view[at : at + length])
        return True

    def _object(self, length: int, flags: int, available: int) -> bool:
        if available < HEADER_BYTES + min(length, frames.OBJECT_HEAD_BYTES_MAX):
            return False
        at = self._start + HEADER_BYTES
        new, data_at = frames.parse_object(self._buffer, at, at + length)
        if new.class_id >= len(self._classes):
            raise Malformed
        new.class_id = self._classes[new.class_id]
        incoming = self._incoming or self._transaction()
        incoming.begin(new)
        self._expects = _IN_OBJECT
        self._start = data_at
        self._data(at + length - data_at, flags)
        return True

    def _data(self, length: int, flags: int) -> None:
        """Begin the object data of one frame."""
        self._data_left = length
        self._ends_object = bool(flags & LAST)
        self._take_data(min(self._end - self._start, length))

    def _take_data(self, count: int) -> None:
        incoming = self._incoming
        assert incoming is not None
        if count:
            incoming.data(self._view[self._start : self._start + count])
            self._start += count
            self._data_left -= count
        if self._ends_object and not self._data_left:
            self._ends_object = False
            incoming.end()
            self._expects = _IN_TRANSACTION

    def _transaction(self) -> Incoming:
        """Return the current transaction; its first frame creates it."""
        if self._incoming is None:
            assert self._hello is not None
            assert self._node is not None
            flow = Flow(self._pause_reading, self._resume_reading, self._say_lost)
            self._incoming = Incoming(self._store, self._node.name, self._hello.owner, flow, self._server.objects_max)
            self._expects = _IN_TRANSACTION
        return self._incoming

    def _say_lost(self, code: int) -> None:
        self._send(frames.will_abort(code))

    def _wait_for(self, work: Awaitable[None]) -> None:
        """Do not parse further frames until `work` is done."""
        self._busy = True
        self._pause_reading()

        async def wait() -> None:
            try:
                await work
            except Malformed:
                self._refuse_malformed()
            finally:
                self._busy = False
                self.heard_at = self._loop.time()
                if self._is_last:
                    self._transport.close()
                self._resume_reading()
            self._parse()

        self._server.spawn(wait())

    # Signing on.

    def _on_hello(self, body: memoryview) -> None:
        hello = frames.parse_hello(body)
        if hello.version != frames.PROTOCOL_VERSION:
            is_older = hello.version < frames.PROTOCOL_VERSION
            code = codes.REJECT_CLIENT_DOWNLEVEL if is_older else codes.REJECT_SERVER_DOWNLEVEL
            self._refuse(code, FrameKind.HELLO)
            return
        node = self._server.nodes.get(hello.node)
        if node is None:
            self._refuse(codes.REJECT_ID_UNKNOWN, FrameKind.HELLO)
            return
        if not hello.enables_protection:
            self._refuse(codes.CLIENT_NOT_ARCHRETPROT, FrameKind.HELLO)
            return
        nonce = secrets.token_bytes(frames.NONCE_BYTES)
        self._hello, self._candidate = hello, node
        self._nonces = hello.nonce + nonce
        self._expects = (FrameKind.PROOF,)
        self._answer(FrameKind.HELLO, 0, frames.challenge(nonce, node.salt, node.iterations))

    def _on_proof(self, body: memoryview) -> None:
        assert self._hello is not None
        node, about = self._candidate, self._nonces + self._hello.node
        if not hmac.compare_digest(bytes(body), mac(node.key, "client", about)):
            self._refuse(codes.AUTH_FAILURE, FrameKind.PROOF)
            return
        self._node = node
        self._caller = Caller(node.name, self._hello.owner)
        is_expired = self._server.is_expired(node)
        self._expects = self._ready = _EXPIRED if is_expired else _READY
        welcome = self._server.welcome(mac(node.key, "server", about), is_expired=is_expired)
        self._answer(FrameKind.PROOF, 0, welcome.encode())

    def _on_change_password(self, body: memoryview) -> None:
        assert self._node is not None
        assert self._hello is not None
        change = frames.parse_password_change(body)
        if not 1 <= change.iterations <= ITERATIONS_MAX:
            raise Malformed
        about = self._nonces + self._hello.node + change.salt
        node = (
            self._server.nodes.get(self._hello.node) or self._node
        )  # read again: another session may have changed the password
        sealed = about + change.iterations.to_bytes(4, "little") + change.masked_key
        if not hmac.compare_digest(change.mac, mac(node.key, "change", sealed)):
            self._answer_code(FrameKind.CHANGE_PASSWORD, codes.BAD_VERIFIER)
            return
        mask = mac(node.key, "mask", about)
        key = bytes(left ^ right for left, right in zip(change.masked_key, mask, strict=True))
        try:
            now_ms = self._store.clock.now_ms()
            self._server.nodes.change_key(node.name, change.salt, change.iterations, key, now_ms=now_ms)
        except StoreError as failed:
            self._answer_code(FrameKind.CHANGE_PASSWORD, codes.reason(failed))
            return
        if self._ready == _EXPIRED:
            self._expects = self._ready = _READY
        self._answer_code(FrameKind.CHANGE_PASSWORD, 0)

    # Requests with one answer.

    def _answer_code(self, kind: FrameKind, code: int, value: int = 0) -> None:
        self._answer(kind, code, frames.answer(code, value))

    def _on_ping(self, body: memoryview) -> None:
        Fields(body).end()
        self._answer(FrameKind.PING, 0, frames.date(self._store.clock.now_ms()))

    def _on_log(self, body: memoryview) -> None:
        assert self._node is not None
        fields = Fields(body)
        severity = fields.number(1)
        message = fields.text(frames.MESSAGE_BYTES_MAX).decode("utf-8", "replace")
        fields.end()
        printable = "".join(each if each.isprintable() else " " for each in message)
        self._server.say(f"node {self._node.name} reports (severity {severity}): {printable}")
        self._answer_code(FrameKind.LOG, 0)

    def _on_find_space(self, body: memoryview) -> None:
        space = seen_space(self._store, self._caller, frames.parse_name(body))
        if space is not None:
            self._answer_code(FrameKind.FIND_SPACE, 0, space.id)
            return
        known = may_read_any(self._store, self._caller)
        self._answer_code(FrameKind.FIND_SPACE, codes.FS_NOT_REGISTERED if known else codes.NO_AUTHORIZATION)

    def _on_register_space(self, body: memoryview) -> None:
        parsed = frames.parse_space(Fields(body))
        if not parsed.name.startswith(b"/"):
            raise Malformed
        new_space = Space(
            0, self._caller.node, parsed.name, parsed.type, parsed.occupancy, parsed.capacity, parsed.info, 0
        )

        async def register() -> tuple[int, int]:
            space, known = await self._store.change(RegisterSpace(new_space))
            return codes.FS_ALREADY_REGED if known else 0, space.id

        self._wait_for(self._answer_with(FrameKind.REGISTER_SPACE, register))

    def _on_update_space(self, body: memoryview) -> None:
        fields = Fields(body)
        mask = fields.number(4)
        parsed = frames.parse_space(fields)
        change = UpdateSpace(
            self._caller.node, parsed.name,
            parsed.type if mask & _SPACE_TYPE else None,
            parsed.occupancy if mask & _SPACE_OCCUPANCY else None,
            parsed.capacity if mask & _SPACE_CAPACITY else None,
            parsed.info if mask & _SPACE_INFO else None,
        )  # fmt: skip

        async def update() -> tuple[int, int]:
            await self._store.change(change)
            return 0, 0

        self._wait_for(self._answer_with(FrameKind.UPDATE_SPACE, update, codes.FS_NOT_REGISTERED))

    def _on_delete_space(self, body: memoryview) -> None:
        name = frames.parse_name(body)

        async def delete() -> tuple[int, int]:
            return 0, await self._store.change(DeleteSpace(self._caller.node, self._caller.owner, name))

        self._wait_for(self._answer_with(FrameKind.DELETE_SPACE, delete, codes.FSNAME_NOTFOUND))

    def _on_update_object(self, body: memoryview) -> None:
        parsed = frames.parse_object_update(body)
        change = UpdateObject(
            self._caller.node, self._caller.owner, parsed.space, parsed.number, parsed.hl, parsed.ll,
            parsed.owner if parsed.mask & _OBJECT_OWNER else None,
            parsed.info if parsed.mask & _OBJECT_INFO else None,
            parsed.estimate if parsed.mask & _OBJECT_INFO else None,
            parsed.description if parsed.mask & _OBJECT_DESCRIPTION else None,
        )  # fmt: skip

        async def update() -> tuple[int, int]:
            await self._store.change(change)
            return 0, 0

        self._wait_for(self._answer_with(FrameKind.UPDATE_OBJECT, update))

    # Other nodes and owners.

    def _on_read_from(self, body: memoryview) -> None:
        node, owner = frames.parse_source(body)
        source = node.decode("ascii", "replace").upper() or self._caller.node
        self._caller = Caller(self._caller.node, self._caller.owner, ReadSource(source, owner))
        self._expects = self._ready = _READING
        self._answer_code(FrameKind.READ_FROM, 0)

    def _on_set_access(self, body: memoryview) -> None:
        parsed = frames.parse_access(body)
        caller, store = self._caller, self._store
        rule = AccessRule(0, parsed.space, parsed.hl, parsed.ll, caller.owner, parsed.node.upper(), parsed.owner)

        async def set_access() -> tuple[int, int]:
            space = store.spaces.get(rule.space)
            is_own = space is not None and space.node == caller.node
            if is_own and not await streams.has_archives(store, caller, rule.space, rule.hl, rule.ll):
                raise NothingArchived
            return 0, await store.change(SetAccess(caller.node, rule))

        self._wait_for(self._answer_with(FrameKind.SET_ACCESS, set_access, codes.FSNAME_NOTFOUND))

    def _on_delete_access(self, body: memoryview) -> None:
        change = DeleteAccess(self._caller.node, self._caller.owner, frames.parse_number(body, 4))

        async def delete() -> tuple[int, int]:
            await self._store.change(change)
            return 0, 0

        self._wait_for(self._answer_with(FrameKind.DELETE_ACCESS, delete))

    def _on_query_access(self, body: memoryview) -> None:
        Fields(body).end()
        self._begin_stream(streams.rules(self._store, self._caller), FrameKind.QUERY_ACCESS)

    async def _answer_with(
        self, kind: FrameKind, work: Callable[[], Awaitable[tuple[int, int]]], no_space: int = codes.NO_MATCH
    ) -> None:
        """Answer code and value of `work`, or the code of its refusal. `no_space`: the code for a missing file
        space.
        """
        try:
            code, value = await work()
        except StoreError as refusal:
            code, value = codes.reason(refusal), 0
            if code == codes.NO_SPACE:
                code = no_space
        self._answer_code(kind, code, value)

    # Transactions.

    def _on_delete(self, body: memoryview) -> None:
        fields = Fields(body)
        number = frames.object_number(fields)
        fields.end()
        self._transaction().delete(number)

    def _on_event(self, body: memoryview) -> None:
        kind, ids = frames.parse_ids(body)
        incoming = self._transaction()
        if incoming.transaction.event is not None:
            raise Malformed
        incoming.event(Event(kind), ids)

    def _on_end_transaction(self, body: memoryview) -> None:
        vote = frames.parse_number(body, 1)
        incoming = self._incoming
        if vote not in (1, 2) or (vote == 1 and incoming is not None and incoming.in_object):
            raise Malformed

        async def end() -> None:
            reason = 0 if vote == 1 else codes.ABORT_BY_CLIENT
            if incoming is not None:
                if vote == 1:
                    reason = await incoming.commit()
                else:
                    await incoming.abandon()
                self._count_transaction(incoming, reason)
            self._incoming = None
            self._expects = self._ready
            self._answer(FrameKind.END_TRANSACTION, reason, frames.vote(reason))

        self._wait_for(end())

    # Streams.

    def _on_query_archives(self, body: memoryview) -> None:
        query = frames.parse_archive_query(body)
        self._begin_stream(streams.archives(self._store, self._caller, query), FrameKind.QUERY_ARCHIVES)

    def _on_query_spaces(self, body: memoryview) -> None:
        pieces = streams.spaces(self._store, self._caller, frames.parse_name(body))
        self._begin_stream(pieces, FrameKind.QUERY_SPACES)

    def _on_get(self, body: memoryview) -> None:
        wanted = frames.parse_get(body)
        served = partial(self._count, FrameKind.GET)
        self._begin_stream(streams.objects(self._store, self._caller, wanted, served), None)

    def _on_stop(self, body: memoryview) -> None:
        Fields(body).end()
        self._stops_stream = self._stream is not None

    def _begin_stream(self, pieces: AsyncIterator[Buffer], kind: FrameKind | None) -> None:
        """Begin a stream. `kind`: of the request, to count it at the end; None if each object is counted instead."""
        self._stops_stream = False
        self._expects = _IN_STREAM
        self._stream = self._loop.create_task(self._run_stream(pieces, kind))

    async def _run_stream(self, pieces: AsyncIterator[Buffer], kind: FrameKind | None) -> None:
        code = codes.ABORT_BY_CLIENT  # unless the stream completes
        try:
            async for piece in pieces:
                if self._stops_stream or self._transport.is_closing():
                    break
                self._send(piece)
                if not self._may_write.is_set():
                    await self._may_write.wait()
                self.heard_at = self._loop.time()
            code = 0
        except StreamFailed as failed:
            code = failed.code
        finally:
            if kind is not None:
                self._count(kind, code)
        self._stream = None
        self._expects = self._ready
        self._send(frames.stream_end(code))

    def _on_bye(self, body: memoryview) -> None:
        Fields(body).end()
        self._expects = ()
        self._transport.close()

    _handlers: dict[FrameKind, Callable[[ServerSession, memoryview], None]] = {  # noqa: RUF012 - never changed
        FrameKind.HELLO: _on_hello,
        FrameKind.PROOF: _on_proof,
        FrameKind.PING: _on_ping,
        FrameKind.FIND_SPACE: _on_find_space,
        FrameKind.REGISTER_SPACE: _on_register_space,
        FrameKind.UPDATE_SPACE: _on_update_space,
        FrameKind.DELETE_SPACE: _on_delete_space,
        FrameKind.CHANGE_PASSWORD: _on_change_password,
        FrameKind.LOG: _on_log,
        FrameKind.UPDATE_OBJECT: _on_update_object,
        FrameKind.READ_FROM: _on_read_from,
        FrameKind.SET_ACCESS: _on_set_access,
        FrameKind.DELETE_ACCESS: _on_delete_access,
        FrameKind.QUERY_ACCESS: _on_query_access,
        FrameKind.DELETE: _on_delete,
        FrameKind.EVENT: _on_event,
        FrameKind.END_TRANSACTION: _on_end_transaction,
        FrameKind.QUERY_ARCHIVES: _on_query_archives,
        FrameKind.QUERY_SPACES: _on_query_spaces,
        FrameKind.STOP: _on_stop,
        FrameKind.GET: _on_get,
        FrameKind.BYE: _on_bye,
    }


# The names of counted operations. OBJECT, DELETE, EVENT and GET count objects, the others answered frames.
_OPERATIONS = {kind: f"TSM {kind.name}" for kind in FrameKind}
_MALFORMED = "TSM malformed"
_IN_TRANSACTION = (
    FrameKind.OBJECT,
    FrameKind.DELETE,
    FrameKind.EVENT,
    FrameKind.END_TRANSACTION,
    FrameKind.PING,
    FrameKind.BYE,
)
_IN_OBJECT = (FrameKind.DATA, FrameKind.END_TRANSACTION, FrameKind.BYE)
_IN_STREAM = (FrameKind.STOP, FrameKind.PING, FrameKind.BYE)
_READY = (
    FrameKind.OBJECT, FrameKind.DELETE, FrameKind.EVENT, FrameKind.END_TRANSACTION, FrameKind.PING,
    FrameKind.FIND_SPACE, FrameKind.REGISTER_SPACE, FrameKind.UPDATE_SPACE, FrameKind.DELETE_SPACE,
    FrameKind.CHANGE_PASSWORD, FrameKind.LOG, FrameKind.UPDATE_OBJECT, FrameKind.QUERY_ARCHIVES,
    FrameKind.QUERY_SPACES, FrameKind.GET, FrameKind.STOP, FrameKind.BYE, FrameKind.READ_FROM, FrameKind.SET_ACCESS,
    FrameKind.DELETE_ACCESS, FrameKind.QUERY_ACCESS,
)  # fmt: skip
_EXPIRED = (FrameKind.CHANGE_PASSWORD, FrameKind.BYE)
# For a session that reads from another node or owner: nothing that changes more than its own node's password.
_READING = (
    FrameKind.PING, FrameKind.FIND_SPACE, FrameKind.CHANGE_PASSWORD, FrameKind.LOG, FrameKind.QUERY_ARCHIVES,
    FrameKind.QUERY_SPACES, FrameKind.GET, FrameKind.QUERY_ACCESS, FrameKind.STOP, FrameKind.BYE,
)  # fmt: skip
