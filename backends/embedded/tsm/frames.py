"""The frames of the TSM protocol as bytes: parsing and building, as docs/reference/tsm-protocol.md defines them.

One idea: parsing is a pure function that returns complete values or raises Malformed. Nothing here waits, stores or
decides. So a test can parse any input without a server.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from ..core.changes.archives import NewArchive
from ..core.rules.policy import ManagementClass, days
from ..core.tables.archives import AccessRule, Archive, Space

PROTOCOL_VERSION = 1
HEADER_BYTES = 8
BODY_BYTES_MAX = (1 << 20) + 8192
WHOLE_BYTES_MAX = 600 << 10  # of a frame without object data, which is parsed in one piece
OBJECT_HEAD_BYTES_MAX = 3200  # more than an object's longest texts together
GET_OBJECTS_MAX = 4080
LAST = 1  # flag: the object ends with this frame
NONCE_BYTES = 16
MAC_BYTES = 32
NEVER_MS = (1 << 64) - 1

NODE_BYTES_MAX = OWNER_BYTES_MAX = 64
APPLICATION_BYTES_MAX = 16
SPACE_BYTES_MAX = HL_BYTES_MAX = 1024
LL_BYTES_MAX = 256
DESCRIPTION_BYTES_MAX = 255
INFO_BYTES_MAX = 1500
MESSAGE_BYTES_MAX = 1024


class FrameKind(IntEnum):
    """Frame types. The server sends those from 0x80 on."""

    HELLO = 0x01
    PROOF = 0x02
    PING = 0x10
    FIND_SPACE = 0x11
    REGISTER_SPACE = 0x12
    UPDATE_SPACE = 0x13
    DELETE_SPACE = 0x14
    CHANGE_PASSWORD = 0x15
    LOG = 0x16
    UPDATE_OBJECT = 0x17
    READ_FROM = 0x18
    SET_ACCESS = 0x19
    DELETE_ACCESS = 0x1A
    OBJECT = 0x20
    DATA = 0x21
    DELETE = 0x22
    EVENT = 0x23
    END_TRANSACTION = 0x24
    QUERY_ARCHIVES = 0x30
    QUERY_SPACES = 0x31
    STOP = 0x32
    QUERY_ACCESS = 0x33
    GET = 0x40
    BYE = 0x50
    CHALLENGE = 0x81
    WELCOME = 0x82
    REFUSED = 0x8F
    DATE = 0x90
    ANSWER = 0x91
    VOTE = 0x92
    WILL_ABORT = 0x93
    ARCHIVES = 0xB0
    STREAM_END = 0xB1
    SPACES = 0xB2
    RULES = 0xB3
    OBJECT_HEAD = 0xC0
    OBJECT_DATA = 0xC1
    OBJECT_FAILED = 0xC2


class Malformed(Exception):
    """The bytes do not follow the protocol."""


_HEADER = struct.Struct("<IBBH")
_OBJECT = struct.Struct("<IHBBQ")
_ROW = struct.Struct("<QQQQQIQQHBBBB")
_NUMBERS = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I"), 8: struct.Struct("<Q")}


def parse_header(data: bytearray, at: int) -> tuple[int, int, int]:
    """Return body length, type and flags of the frame that begins at `at`. Raises Malformed."""
    length, kind, flags, zero = _HEADER.unpack_from(data, at)
    if zero or length > BODY_BYTES_MAX:
        raise Malformed
    return length, kind, flags


class Fields:
    """A reader of the fields of one complete body, from start to end. Raises Malformed."""

    def __init__(self, body: memoryview) -> None:
        self._body = body
        self._at = 0

    def number(self, width_bytes: int) -> int:
        at = self._at
        self._at += width_bytes
        try:
            return int(_NUMBERS[width_bytes].unpack_from(self._body, at)[0])
        except struct.error:
            raise Malformed from None

    def zero(self, width_bytes: int) -> None:
        if self.number(width_bytes):
            raise Malformed

    def raw(self, count: int) -> bytes:
        part = bytes(self._body[self._at : self._at + count])
        self._at += count
        if len(part) != count:
            raise Malformed
        return part

    def text(self, most: int) -> bytes:
        length = self.number(2)
        if length > most:
            raise Malformed
        return self.raw(length)

    def end(self) -> None:
        if self._at != len(self._body):
            raise Malformed


@dataclass(frozen=True, slots=True)
class Hello:
    version: int
    enables_protection: bool
    nonce: bytes
    node: bytes
    owner: bytes
    application: bytes


def parse_hello(body: memoryview) -> Hello:
    fields = Fields(body)
    if fields.raw(4) != b"ATSM":
        raise Malformed
    version, flags = fields.number(2), fields.number(2)
    if version != PROTOCOL_VERSION:
        # The following fields are undefined in another version.
        return Hello(version, False, b"", b"", b"", b"")
    if flags > 1:
        raise Malformed
    hello = Hello(
        version, bool(flags), fields.raw(NONCE_BYTES), fields.text(NODE_BYTES_MAX), fields.text(OWNER_BYTES_MAX),
        fields.text(APPLICATION_BYTES_MAX),
    )  # fmt: skip
    fields.end()
    return hello


@dataclass(frozen=True, slots=True)
class SpaceFields:
    name: bytes
    type: bytes
    occupancy: int
    capacity: int
    info: bytes


def parse_space(fields: Fields) -> SpaceFields:
    parsed = SpaceFields(
        fields.text(SPACE_BYTES_MAX), fields.text(32), signed(fields.number(8)), signed(fields.number(8)),
        fields.text(480),
    )  # fmt: skip
    fields.end()
    return parsed


def parse_name(body: memoryview, most: int = SPACE_BYTES_MAX) -> bytes:
    fields = Fields(body)
    name = fields.text(most)
    fields.end()
    return name


@dataclass(frozen=True, slots=True)
class PasswordChange:
    mac: bytes
    salt: bytes
    iterations: int
    masked_key: bytes


def parse_password_change(body: memoryview) -> PasswordChange:
    fields = Fields(body)
    change = PasswordChange(
        fields.raw(MAC_BYTES), fields.raw(NONCE_BYTES), fields.number(4), fields.raw(MAC_BYTES)
    )  # fmt: skip
    fields.end()
    return change


@dataclass(frozen=True, slots=True)
class ObjectUpdate:
    space: int
    mask: int
    number: int
    estimate: int
    type: int
    hl: bytes
    ll: bytes
    owner: bytes
    description: bytes
    info: bytes


def parse_object_update(body: memoryview) -> ObjectUpdate:
    fields = Fields(body)
    update = ObjectUpdate(
        fields.number(4), fields.number(4), object_number(fields), signed(fields.number(8)), fields.number(1),
        fields.text(HL_BYTES_MAX), fields.text(LL_BYTES_MAX), fields.text(OWNER_BYTES_MAX),
        fields.text(DESCRIPTION_BYTES_MAX), fields.text(INFO_BYTES_MAX),
    )  # fmt: skip
    fields.end()
    return update


@dataclass(frozen=True, slots=True)
class AccessFields:
    """A new access rule: the objects that it opens and its readers. All fields but the space are patterns."""

    space: int
    hl: bytes
    ll: bytes
    node: bytes
    owner: bytes


def parse_access(body: memoryview) -> AccessFields:
    fields = Fields(body)
    parsed = AccessFields(
        fields.number(4), fields.text(HL_BYTES_MAX), fields.text(LL_BYTES_MAX), fields.text(NODE_BYTES_MAX),
        fields.text(OWNER_BYTES_MAX),
    )  # fmt: skip
    fields.end()
    if not parsed.node or not parsed.owner or not parsed.hl + parsed.ll:
        raise Malformed
    return parsed


def parse_source(body: memoryview) -> tuple[bytes, bytes]:
    """Parse node and owner of a READ_FROM frame; empty: the session's node, all owners."""
    fields = Fields(body)
    node, owner = fields.text(NODE_BYTES_MAX), fields.text(OWNER_BYTES_MAX)
    fields.end()
    return node, owner


_TEXTS_MAX = (HL_BYTES_MAX, LL_BYTES_MAX, OWNER_BYTES_MAX, DESCRIPTION_BYTES_MAX, INFO_BYTES_MAX)


def parse_object(data: bytearray, at: int, end: int) -> tuple[NewArchive, int]:
    """Parse the head of an OBJECT frame; the rest of its body may not have arrived yet.

    Return the object, whose class is the index of the class, and where its data begins.
    """
    # This runs for every object, so it does not use the slower Fields.
    try:
        space, class_index, kind, attributes, estimate = _OBJECT.unpack_from(data, at)
        at += _OBJECT.size
        texts = []
        for most in _TEXTS_MAX:
            length = data[at] | data[at + 1] << 8
            at += 2
            if length > most:
                raise Malformed
            texts.append(bytes(data[at : at + length]) if length else b"")
            at += length
    except (struct.error, IndexError):
        raise Malformed from None
    if at > end or kind not in (1, 2) or attributes > 1:
        raise Malformed
    hl, ll, owner, description, info = texts
    estimate = signed(estimate)
    return NewArchive(space, class_index, kind, attributes, owner, estimate, hl, ll, description, info), at


def parse_ids(body: memoryview) -> tuple[int, Sequence[int]]:
    """Parse type and ids of an EVENT frame."""
    fields = Fields(body)
    kind = fields.number(1)
    fields.zero(1)
    fields.zero(2)
    count = fields.number(4)
    if kind > 2 or count * 8 != len(body) - 8:
        raise Malformed
    return kind, [object_number(fields) for _ in range(count)]


def parse_number(body: memoryview, width_bytes: int) -> int:
    fields = Fields(body)
    number = fields.number(width_bytes)
    fields.end()
    return number


def object_number(fields: Fields) -> int:
    """Read an object's id. An id above the catalogue's range becomes -1, which names no object."""
    number = fields.number(8)
    return number if number < 1 << 63 else -1


@dataclass(frozen=True, slots=True)
class ArchiveQuery:
    space: int
    type: int
    archived_from: int
    archived_to: int
    expires_from: int
    expires_to: int
    hl: bytes
    ll: bytes
    owner: bytes
    description: bytes


def parse_archive_query(body: memoryview) -> ArchiveQuery:
    fields = Fields(body)
    space, kind = fields.number(4), fields.number(1)
    fields.zero(1)
    fields.zero(2)
    query = ArchiveQuery(
        space, kind, fields.number(8), fields.number(8), fields.number(8), fields.number(8),
        fields.text(HL_BYTES_MAX), fields.text(LL_BYTES_MAX), fields.text(OWNER_BYTES_MAX),
        fields.text(DESCRIPTION_BYTES_MAX),
    )  # fmt: skip
    fields.end()
    if kind not in (1, 2, 0xFE, 0xFF):
        raise Malformed
    return query


@dataclass(frozen=True, slots=True)
class Wanted:
    """One entry of a GET. `length` 0: up to the end of the object."""

    number: int
    offset: int
    length: int


def parse_get(body: memoryview) -> list[Wanted]:
    fields = Fields(body)
    count = fields.number(4)
    if not 1 <= count <= GET_OBJECTS_MAX or count * 24 != len(body) - 4:
        raise Malformed
    return [Wanted(object_number(fields), fields.number(8), fields.number(8)) for _ in range(count)]


def signed(number: int) -> int:
    """Return the signed number with the same 64 bits, as the catalogue stores it."""
    return number if number < 1 << 63 else number - (1 << 64)


# Frames that the server sends.


def frame(kind: FrameKind, body: bytes = b"") -> bytes:
    return _HEADER.pack(len(body), kind, 0, 0) + body


def frame_header(kind: FrameKind, body_bytes: int) -> bytes:
    """Return the header of a frame whose body is sent separately."""
    return _HEADER.pack(body_bytes, kind, 0, 0)


def text(value: bytes) -> bytes:
    return struct.pack("<H", len(value)) + value


def refused(code: int) -> bytes:
    return frame(FrameKind.REFUSED, struct.pack("<h", code))


def answer(code: int, value: int = 0) -> bytes:
    return frame(FrameKind.ANSWER, struct.pack("<hHQ", code, 0, value))


def vote(reason: int) -> bytes:
    return frame(FrameKind.VOTE, struct.pack("<H", reason))


def will_abort(reason: int) -> bytes:
    return frame(FrameKind.WILL_ABORT, struct.pack("<H", reason))


def stream_end(code: int) -> bytes:
    return frame(FrameKind.STREAM_END, struct.pack("<h", code))


def date(now_ms: int) -> bytes:
    return frame(FrameKind.DATE, struct.pack("<Q", now_ms))


def challenge(nonce: bytes, salt: bytes, iterations: int) -> bytes:
    return frame(FrameKind.CHALLENGE, nonce + salt + struct.pack("<I", iterations))


@dataclass(frozen=True, slots=True)
class Welcome:
    """The WELCOME frame: the server's attributes for a client that has signed on."""

    proof: bytes
    now_ms: int
    local_offset_seconds: int
    version: tuple[int, int, int, int]
    objects_per_transaction_max: int
    bytes_per_transaction_max: int
    is_protected: bool
    is_expired: bool  # the node's password
    backup_grace_days: int
    archive_grace_days: int
    server_name: bytes
    server_type: bytes
    domain: bytes
    policy_set: bytes
    activated_ms: int
    default_class: int
    classes: Sequence[ManagementClass]

    def encode(self) -> bytes:
        parts = [
            self.proof,
            struct.pack(
                "<Qi4HHQIHH", self.now_ms, self.local_offset_seconds, *self.version,
                self.objects_per_transaction_max, self.bytes_per_transaction_max,
                self.is_protected | self.is_expired << 1,
                self.backup_grace_days, self.archive_grace_days,
            ),
            text(self.server_name), text(self.server_type), text(self.domain), text(self.policy_set),
            struct.pack("<QHH", self.activated_ms, self.default_class, len(self.classes)),
        ]  # fmt: skip
        for each in self.classes:
            event = each.retinit == "event"
            retver, retmin = days(each.retver_seconds), days(each.retmin_seconds)
            parts += [
                text(each.name.encode()), text(each.description.encode()[:255]),
                struct.pack("<BBHH", 1, event, retver, retmin), text(b"EMBEDDED"),
            ]  # fmt: skip
        return frame(FrameKind.WELCOME, b"".join(parts))


def archive_row(archive: Archive, kept_by: ManagementClass, class_index: int) -> bytes:
    """Return one row of an ARCHIVES frame."""
    expires_ms = kept_by.expires_ms(archive.archived_ms, archive.event_ms)
    started = kept_by.retinit == "creation" or archive.event_ms is not None
    fixed = _ROW.pack(
        archive.id, archive.archived_ms, NEVER_MS if expires_ms is None else expires_ms,
        archive.estimate % (1 << 64), archive.size, 0, archive.segment, archive.offset, class_index, archive.type,
        1 if started else 2, 2 if archive.held else 1, 1 if archive.attributes & 1 else 2,
    )  # fmt: skip
    texts = (archive.hl, archive.ll, archive.owner, archive.description, archive.info)
    return fixed + b"".join(map(text, texts))


def space_row(space: Space) -> bytes:
    """Return one row of a SPACES frame."""
    numbers = struct.pack("<QQ", space.occupancy % (1 << 64), space.capacity % (1 << 64))
    return (
        text(space.name) + text(space.type) + numbers + text(space.info) + struct.pack("<Q", space.archived_ms)
    )  # fmt: skip


def rule_row(rule: AccessRule, space: Space) -> bytes:
    """Return one row of a RULES frame."""
    texts = (space.name, rule.hl, rule.ll, rule.node, rule.owner)
    return struct.pack("<I", rule.id) + b"".join(map(text, texts))


def rows_frame(kind: FrameKind, rows: Sequence[bytes]) -> bytes:
    return frame(kind, struct.pack("<H", len(rows)) + b"".join(rows))


def object_head(index: int, code: int, length: int, data_bytes: int = 0) -> bytes:
    """Return header and head of an OBJECT_HEAD frame; `data_bytes` of the object follow in the same body."""
    return frame_header(FrameKind.OBJECT_HEAD, 16 + data_bytes) + struct.pack("<IhHQ", index, code, 0, length)


def object_failed(code: int) -> bytes:
    return frame(FrameKind.OBJECT_FAILED, struct.pack("<h", code))
