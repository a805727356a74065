"""A blocking client of the TSM server's protocol, written from the protocol's description and not from the server.

It sends any frame that a test requests, wrong ones too, and returns the answer.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

from tests.support.waiting import SECONDS_MAX

HELLO, PROOF = 0x01, 0x02
PING, FIND_SPACE, REGISTER_SPACE, UPDATE_SPACE, DELETE_SPACE = 0x10, 0x11, 0x12, 0x13, 0x14
CHANGE_PASSWORD, LOG, UPDATE_OBJECT = 0x15, 0x16, 0x17
READ_FROM, SET_ACCESS, DELETE_ACCESS, QUERY_ACCESS, RULES = 0x18, 0x19, 0x1A, 0x33, 0xB3
OBJECT, DATA, DELETE, EVENT, END_TRANSACTION = 0x20, 0x21, 0x22, 0x23, 0x24
QUERY_ARCHIVES, QUERY_SPACES, STOP, GET, BYE = 0x30, 0x31, 0x32, 0x40, 0x50
CHALLENGE, WELCOME, REFUSED = 0x81, 0x82, 0x8F
DATE, ANSWER, VOTE, WILL_ABORT = 0x90, 0x91, 0x92, 0x93
ARCHIVES, STREAM_END, SPACES, OBJECT_HEAD, OBJECT_DATA, OBJECT_FAILED = 0xB0, 0xB1, 0xB2, 0xC0, 0xC1, 0xC2
REQUESTS = (
    HELLO, PROOF, PING, FIND_SPACE, REGISTER_SPACE, UPDATE_SPACE, DELETE_SPACE, CHANGE_PASSWORD, LOG, UPDATE_OBJECT,
    READ_FROM, SET_ACCESS, DELETE_ACCESS, OBJECT, DATA, DELETE, EVENT, END_TRANSACTION, QUERY_ARCHIVES, QUERY_SPACES,
    STOP, QUERY_ACCESS, GET, BYE,
)  # fmt: skip

ACTIVATE, HOLD, RELEASE = 0, 1, 2
FILE, DIRECTORY, ANY_TYPE = 1, 2, 0xFE
LAST = 1
NEVER = (1 << 64) - 1
_DATA_BYTES = 1 << 20

_HEADER = struct.Struct("<IBBH")
_ROW = struct.Struct("<QQQQQIQQHBBBB")


class Ended(Exception):
    """The server closed the connection. `code`: the code of its REFUSED frame, or None if it sent none."""

    def __init__(self, code: int | None) -> None:
        super().__init__(code)
        self.code = code


class Frame(NamedTuple):
    kind: int
    body: bytes


class Row(NamedTuple):
    """One object of a query's answer."""

    id: int
    archived_ms: int
    expires_ms: int
    estimate: int
    size: int
    restore_order: tuple[int, int, int]
    class_index: int
    type: int
    initiated: int
    held: int
    compressed: int
    hl: bytes
    ll: bytes
    owner: bytes
    description: bytes
    info: bytes


class SpaceRow(NamedTuple):
    name: bytes
    type: bytes
    occupancy: int
    capacity: int
    info: bytes
    archived_ms: int


class RuleRow(NamedTuple):
    number: int
    space: bytes
    hl: bytes
    ll: bytes
    node: bytes
    owner: bytes


class Class(NamedTuple):
    name: str
    description: str
    has_archive: int
    retinit: int
    retver_days: int
    retmin_days: int
    destination: str


class Got(NamedTuple):
    """An object of a get. `failed`: the code with which it ended early."""

    code: int
    content: bytes
    failed: int = 0


@dataclass(frozen=True)
class Welcome:
    now_ms: int
    local_offset_seconds: int
    version: tuple[int, ...]  # four
    objects_max: int
    bytes_max: int
    flags: int
    grace_days: tuple[int, ...]  # two
    texts: tuple[str, ...]  # four
    activated_ms: int
    default_class: int
    classes: list[Class]


class Fields:
    """Parses a body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def unpack(self, layout: str) -> tuple[int, ...]:
        values = struct.unpack_from("<" + layout, self._body, self._at)
        self._at += struct.calcsize("<" + layout)
        return values

    def raw(self, count: int) -> bytes:
        part = self._body[self._at : self._at + count]
        assert len(part) == count
        self._at += count
        return part

    def text(self) -> bytes:
        return self.raw(self.unpack("H")[0])

    def rest(self) -> bytes:
        return self._body[self._at :]

    def end(self) -> None:
        assert not self.rest()


def frame(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    return _HEADER.pack(len(body), kind, flags, 0) + body


def text(value: bytes) -> bytes:
    return struct.pack("<H", len(value)) + value


def key_of(password: str, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.upper().encode(), salt, iterations, 32)


def mac(key: bytes, purpose: str, about: bytes) -> bytes:
    return hmac.new(key, b"archiver-tsm " + purpose.encode() + about, "sha256").digest()


def hello(
    node: bytes,
    owner: bytes = b"",
    *,
    nonce: bytes = bytes(16),
    version: int = 1,
    flags: int = 1,
    magic: bytes = b"ATSM",
) -> bytes:
    return magic + struct.pack("<HH", version, flags) + nonce + text(node) + text(owner) + text(b"tests")


def object_body(
    space: int, hl: bytes, ll: bytes, *, class_index: int = 0, kind: int = FILE, attributes: int = 0, estimate: int = 0,
    owner: bytes = b"", description: bytes = b"", info: bytes = b"",
) -> bytes:  # fmt: skip
    """Return the body of an OBJECT frame, up to where its first data begins."""
    texts = b"".join(map(text, (hl, ll, owner, description, info)))
    return struct.pack("<IHBBQ", space, class_index, kind, attributes, estimate) + texts


def event_body(kind: int, ids: Sequence[int]) -> bytes:
    return struct.pack("<BBHI", kind, 0, 0, len(ids)) + struct.pack(f"<{len(ids)}Q", *ids)


def query_body(
    space: int, hl: bytes = b"*", ll: bytes = b"*", *, kind: int = ANY_TYPE, archived: tuple[int, int] = (0, NEVER),
    expires: tuple[int, int] = (0, NEVER), owner: bytes = b"", description: bytes = b"",
) -> bytes:  # fmt: skip
    texts = b"".join(map(text, (hl, ll, owner, description)))
    return struct.pack("<IBBHQQQQ", space, kind, 0, 0, *archived, *expires) + texts


def get_body(wanted: Sequence[tuple[int, int, int]]) -> bytes:
    return struct.pack("<I", len(wanted)) + b"".join(struct.pack("<QQQ", *each) for each in wanted)


class Client:
    """One connection. Leaving the `with` block closes it without a BYE frame."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=SECONDS_MAX)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._input = self._socket.makefile("rb", 1 << 16)
        self.key = self.nonces = self.node = b""
        self.welcome: Welcome | None = None
        self.warnings: list[int] = []  # reasons of WILL_ABORT

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._input.close()
        self._socket.close()

    def reset(self) -> None:
        """Reset the connection, as a process does that is killed with unread data."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    # Frames.

    def send(self, kind: int, body: bytes = b"", flags: int = 0) -> None:
        self.send_bytes(frame(kind, body, flags))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def finish_sending(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def receive(self) -> Frame | None:
        """Return the next frame, or None at the end of the connection."""
        try:
            header = self._input.read(_HEADER.size)
            if not header:
                return None
            length, kind, flags, zero = _HEADER.unpack(header)
            assert (flags, zero) == (0, 0)
            assert length <= (1 << 20) + 8192
            body = self._input.read(length)
        except ConnectionError:
            return None
        assert len(body) == length
        return Frame(kind, body)

    def receive_all(self) -> list[Frame]:
        """Return every frame up to the end of the connection."""
        return list(iter(self.receive, None))

    def expect(self, *kinds: int) -> Frame:
        """Return the next frame of one of these kinds. Raises Ended if the session ends instead."""
        while True:
            received = self.receive()
            if received is None:
                raise Ended(None)
            if received.kind == REFUSED:
                (code,) = struct.unpack("<h", received.body)
                assert self.receive() is None, "REFUSED is the last frame"
                raise Ended(code)
            if received.kind == WILL_ABORT and WILL_ABORT not in kinds:
                self.warnings += struct.unpack("<H", received.body)
                continue
            assert received.kind in kinds, received
            return received

    def ended(self) -> int | None:
        """Return the code with which the session ends now."""
        received = self.receive()
        if received is None:
            return None
        assert received.kind == REFUSED, received
        assert self.receive() is None
        return int(struct.unpack("<h", received.body)[0])

    # Signing on.

    def challenge(self, node: bytes, owner: bytes = b"") -> tuple[bytes, int]:
        """Send HELLO. Returns salt and iterations of the answer."""
        nonce = os.urandom(16)
        self.node = node
        self.send(HELLO, hello(node, owner, nonce=nonce))
        fields = Fields(self.expect(CHALLENGE).body)
        self.nonces = nonce + fields.raw(16)
        salt, (iterations,) = fields.raw(16), fields.unpack("I")
        fields.end()
        return salt, iterations

    def sign_on(self, node: bytes, password: str, owner: bytes = b"") -> Welcome:
        salt, iterations = self.challenge(node, owner)
        self.key = key_of(password, salt, iterations)
        self.send(PROOF, mac(self.key, "client", self.nonces + node))
        fields = Fields(self.expect(WELCOME).body)
        assert fields.raw(32) == mac(self.key, "server", self.nonces + node)
        now_ms, offset = fields.unpack("Qi")
        version = fields.unpack("4H")
        objects_max, bytes_max, flags = fields.unpack("HQI")
        grace = fields.unpack("HH")
        texts = tuple(fields.text().decode() for _ in range(4))
        activated_ms, default_class, count = fields.unpack("QHH")
        classes = []
        for _ in range(count):
            name, description = fields.text().decode(), fields.text().decode()
            has_archive, retinit, retver_days, retmin_days = fields.unpack("BBHH")
            destination = fields.text().decode()
            classes.append(Class(name, description, has_archive, retinit, retver_days, retmin_days, destination))
        fields.end()
        self.welcome = Welcome(
            now_ms, offset, version, objects_max, bytes_max, flags, grace, texts, activated_ms, default_class, classes
        )
        return self.welcome

    def change_password(self, old: bytes, new: str, *, salt: bytes = bytes(16), iterations: int = 1) -> int:
        """`old` is the key of the old password."""
        key = key_of(new, salt, max(1, iterations))
        about = self.nonces + self.node + salt
        masked = bytes(a ^ b for a, b in zip(key, mac(old, "mask", about), strict=True))
        seal = mac(old, "change", about + struct.pack("<I", iterations) + masked)
        return self.ask(CHANGE_PASSWORD, seal + salt + struct.pack("<I", iterations) + masked)[0]

    # Requests with one answer.

    def ask(self, kind: int, body: bytes = b"") -> tuple[int, int]:
        """Send a request. Returns code and value of the answer."""
        self.send(kind, body)
        code, zero, value = struct.unpack("<hHQ", self.expect(ANSWER).body)
        assert zero == 0
        return code, value

    def ping(self) -> int:
        self.send(PING)
        return int(struct.unpack("<Q", self.expect(DATE).body)[0])

    def find_space(self, name: bytes) -> tuple[int, int]:
        return self.ask(FIND_SPACE, text(name))

    def register_space(
        self, name: bytes, kind: bytes = b"type", occupancy: int = 0, capacity: int = 0, info: bytes = b""
    ) -> tuple[int, int]:
        numbers = struct.pack("<QQ", occupancy, capacity)
        return self.ask(REGISTER_SPACE, text(name) + text(kind) + numbers + text(info))

    def space(self, name: bytes = b"/fs") -> int:
        """Return the number of a file space, which is created if it is missing."""
        return self.register_space(name)[1]

    def update_space(
        self, mask: int, name: bytes, kind: bytes = b"", occupancy: int = 0, capacity: int = 0, info: bytes = b""
    ) -> int:
        numbers = struct.pack("<QQ", occupancy, capacity)
        return self.ask(UPDATE_SPACE, struct.pack("<I", mask) + text(name) + text(kind) + numbers + text(info))[0]

    def delete_space(self, name: bytes) -> tuple[int, int]:
        return self.ask(DELETE_SPACE, text(name))

    def update_object(
        self, space: int, mask: int, *, number: int = 0, estimate: int = 0, kind: int = FILE, hl: bytes = b"",
        ll: bytes = b"", owner: bytes = b"", description: bytes = b"", info: bytes = b"",
    ) -> int:  # fmt: skip
        texts = b"".join(map(text, (hl, ll, owner, description, info)))
        return self.ask(UPDATE_OBJECT, struct.pack("<IIQQB", space, mask, number, estimate, kind) + texts)[0]

    # Other nodes and owners.

    def read_from(self, node: bytes = b"", owner: bytes = b"") -> int:
        return self.ask(READ_FROM, text(node) + text(owner))[0]

    def set_access(
        self, space: int, node: bytes, owner: bytes = b"*", *, hl: bytes = b"*", ll: bytes = b"*"
    ) -> tuple[int, int]:
        return self.ask(SET_ACCESS, struct.pack("<I", space) + b"".join(map(text, (hl, ll, node, owner))))

    def delete_access(self, number: int) -> int:
        return self.ask(DELETE_ACCESS, struct.pack("<I", number))[0]

    def rules(self) -> list[RuleRow]:
        self.send(QUERY_ACCESS)
        frames, code = self.stream()
        rows = [row for each in frames for row in rule_rows(each)]
        assert code == (0 if rows else 2)
        return rows

    # Transactions.

    def class_index(self, name: str) -> int:
        assert self.welcome is not None
        return [each.name for each in self.welcome.classes].index(name)

    def send_object(self, space: int, ll: bytes, content: bytes = b"", *, hl: bytes = b"/d", **said: Any) -> None:
        """Send one whole object: as much as fits with its head, the rest in DATA frames."""
        head = object_body(space, hl, ll, **said)
        pieces = [content[at : at + _DATA_BYTES] for at in range(0, len(content), _DATA_BYTES)] or [b""]
        self.send(OBJECT, head + pieces[0], LAST if len(pieces) == 1 else 0)
        for piece in pieces[1:]:
            self.send(DATA, piece, LAST if piece is pieces[-1] else 0)

    def send_delete(self, number: int) -> None:
        self.send(DELETE, struct.pack("<Q", number))

    def vote(self, *, commit: bool = True) -> int:
        """End the transaction. Returns 0, or the reason why nothing happened."""
        self.send(END_TRANSACTION, b"\1" if commit else b"\2")
        return self.voted()

    def voted(self) -> int:
        return int(struct.unpack("<H", self.expect(VOTE).body)[0])

    def archive(self, space: int, ll: bytes, content: bytes = b"", **said: Any) -> int:
        """Archive one object in a separate transaction."""
        self.send_object(space, ll, content, **said)
        return self.vote()

    def delete(self, *numbers: int) -> int:
        for number in numbers:
            self.send_delete(number)
        return self.vote()

    def event(self, kind: int, *numbers: int) -> int:
        self.send(EVENT, event_body(kind, numbers))
        return self.vote()

    # Streams.

    def stream(self) -> tuple[list[Frame], int]:
        """Return the frames up to the end of a stream, and its code."""
        frames = []
        while (
            received := self.expect(ARCHIVES, SPACES, RULES, OBJECT_HEAD, OBJECT_DATA, OBJECT_FAILED, STREAM_END)
        ).kind != STREAM_END:
            frames.append(received)
        return frames, int(struct.unpack("<h", received.body)[0])

    def query_answer(self) -> tuple[list[Row], int]:
        frames, code = self.stream()
        return [row for each in frames for row in archive_rows(each)], code

    def query(self, space: int, hl: bytes = b"*", ll: bytes = b"*", **said: Any) -> list[Row]:
        """Return all matching rows. Checks that code 2 means an empty result."""
        self.send(QUERY_ARCHIVES, query_body(space, hl, ll, **said))
        rows, code = self.query_answer()
        assert code == (0 if rows else 2)
        return rows

    def query_spaces(self, pattern: bytes = b"*") -> list[SpaceRow]:
        self.send(QUERY_SPACES, text(pattern))
        frames, code = self.stream()
        rows = [row for each in frames for row in space_rows(each)]
        assert code == (0 if rows else 2)
        return rows

    def get(self, *wanted: int | tuple[int, int, int]) -> list[Got]:
        """Objects by id, or by id, offset and length."""
        self.send(GET, get_body([(each, 0, 0) if isinstance(each, int) else each for each in wanted]))
        frames, code = self.stream()
        assert code == 0
        got = objects(frames)
        assert len(got) == len(wanted)
        return got


def archive_rows(received: Frame) -> list[Row]:
    assert received.kind == ARCHIVES
    fields = Fields(received.body)
    rows = []
    for _ in range(fields.unpack("H")[0]):
        number, archived, expires, estimate, size, top, high, low, *bytes_ = _ROW.unpack(fields.raw(_ROW.size))
        texts = [fields.text() for _ in range(5)]
        rows.append(Row(number, archived, expires, estimate, size, (top, high, low), *bytes_, *texts))
    fields.end()
    return rows


def space_rows(received: Frame) -> list[SpaceRow]:
    assert received.kind == SPACES
    fields = Fields(received.body)
    rows = []
    for _ in range(fields.unpack("H")[0]):
        name, kind = fields.text(), fields.text()
        occupancy, capacity = fields.unpack("QQ")
        info = fields.text()
        rows.append(SpaceRow(name, kind, occupancy, capacity, info, *fields.unpack("Q")))
    fields.end()
    return rows


def rule_rows(received: Frame) -> list[RuleRow]:
    assert received.kind == RULES
    fields = Fields(received.body)
    rows = []
    for _ in range(fields.unpack("H")[0]):
        (number,) = fields.unpack("I")
        rows.append(RuleRow(number, *(fields.text() for _ in range(5))))
    fields.end()
    return rows


def objects(frames: Sequence[Frame]) -> list[Got]:
    """Return the objects of a get, in the order of its list."""
    codes: list[tuple[int, int]] = []  # at the head, and at an early end
    contents: list[bytearray] = []
    left = 0
    for kind, body in frames:
        if kind == OBJECT_FAILED:
            codes[-1] = codes[-1][0], struct.unpack("<h", body)[0]
            left = 0
            continue
        if kind == OBJECT_HEAD:
            assert left == 0
            fields = Fields(body)
            index, code, zero, left = fields.unpack("IhHQ")
            assert (index, zero) == (len(codes), 0)
            codes.append((code, 0))
            contents.append(bytearray())
            body = fields.rest()
        assert len(body) <= left
        left -= len(body)
        contents[-1] += body
    assert left == 0
    return [Got(code, bytes(content), failed) for (code, failed), content in zip(codes, contents, strict=True)]
