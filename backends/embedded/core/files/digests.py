"""Digests of an object's bytes, computed while the bytes arrive.

One idea: the store cuts every object into blocks of 1 MiB and keeps the CRC32C of each block in the catalogue. A read
of a range checks the blocks that it touches before it returns a byte of them. So the check costs no more than the read
and needs no second kind of digest. An object of at most one block has one CRC: that of the whole object.
"""

from __future__ import annotations

import hashlib
import zlib
from array import array
from collections.abc import Callable, Sequence
from itertools import zip_longest

from awscrt import checksums

from . import md5
from .md5 import Running

BLOCK_BYTES = 1 << 20

_GIL_BYTES_MAX = 2047
_SMALL_BYTES_MAX = 64 << 10

Buffer = md5.Buffer


class _Crc:
    """A CRC with the interface of `hashlib`; `digest` is big-endian, as S3 sends it."""

    def __init__(self, step: Callable[[Buffer, int], int], width_bytes: int) -> None:
        self._step = step
        self._width_bytes = width_bytes
        self._value = 0

    def update(self, data: Buffer, /) -> None:
        self._value = self._step(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(self._width_bytes, "big")


# The checksum kinds that a client may send, by their S3 names.
CHECKSUM_KINDS: dict[str, Callable[[], Running]] = {
    "crc32": lambda: _Crc(zlib.crc32, 4),
    "crc32c": lambda: _Crc(checksums.crc32c, 4),
    "crc64nvme": lambda: _Crc(checksums.crc64nvme, 8),
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
}


# Functions of two adjoining pieces' CRCs and the second piece's length; each returns the CRC of both pieces together.
_COMBINE: dict[str, Callable[[int, int, int], int]] = {
    "crc32": checksums.combine_crc32,
    "crc32c": checksums.combine_crc32c,
    "crc64nvme": checksums.combine_crc64nvme,
}
COMBINED_KINDS = frozenset(_COMBINE)


def combined(kind: str, values: Sequence[bytes], sizes: Sequence[int]) -> bytes:
    """Return the checksum of the joined pieces from the checksums of the pieces; `kind` is one of `COMBINED_KINDS`."""
    whole = 0
    for value, size in zip(values, sizes, strict=True):
        whole = _COMBINE[kind](whole, int.from_bytes(value, "big"), size)
    return whole.to_bytes(len(values[0]), "big")


def of_digests(kind: str, values: Sequence[bytes]) -> bytes:
    """Return the digest of the pieces' digests."""
    running = CHECKSUM_KINDS[kind]()
    running.update(b"".join(values))
    return running.digest()


class BlockCrcs:
    """The CRC32C of each block of an object; `update` takes the object's bytes in order."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._crcs: list[int] = []
        self._crc = 0
        self._room = BLOCK_BYTES

    def update(self, data: Buffer) -> None:
        self.size_bytes += len(data)
        if len(data) < self._room:
            self._crc = checksums.crc32c(data, self._crc)
            self._room -= len(data)
            return
        rest = memoryview(data)
        while len(rest) >= self._room:
            self._crcs.append(checksums.crc32c(rest[: self._room], self._crc))
            rest = rest[self._room :]
            self._crc, self._room = 0, BLOCK_BYTES
        self._crc = checksums.crc32c(rest, 0)
        self._room -= len(rest)

    def whole(self) -> int:
        """Return the CRC32C of all bytes."""
        whole = 0
        for crc, size in (*((crc, BLOCK_BYTES) for crc in self._crcs), (self._crc, BLOCK_BYTES - self._room)):
            whole = _COMBINE["crc32c"](whole, crc, size)
        return whole

    def all(self) -> bytes:
        """Return one unsigned 32-bit little-endian CRC32C per block; empty for an empty object."""
        crcs = array("I", self._crcs)
        if self._room < BLOCK_BYTES:
            crcs.append(self._crc)
        return crcs.tobytes()


class Digests:
    """MD5 (the ETag), block CRCs and the requested kinds of an object; `update` takes the object's bytes in order.

    The CRC32C of the whole object is computed from those of its blocks.
    """

    def __init__(self, kinds: tuple[str, ...] = (), *, is_long: bool = False) -> None:
        """`is_long`: threads hash the object, by `update_together`."""
        self._md5: Running = md5.start() if is_long else hashlib.md5(usedforsecurity=False)
        self._crcs = BlockCrcs()
        self._others = {kind: CHECKSUM_KINDS[kind]() for kind in kinds if kind != "crc32c"}

    @property
    def size_bytes(self) -> int:
        return self._crcs.size_bytes

    def update(self, data: Buffer) -> None:
        # hashlib releases the GIL from 2048 bytes on, and awscrt from 5121. For a small object, getting the GIL back
        # from the busy writer thread costs several times as much as the hashing.
        piece_bytes = _GIL_BYTES_MAX if len(data) <= _SMALL_BYTES_MAX else len(data)
        view = memoryview(data)
        for start in range(0, len(view), piece_bytes):
            piece = view[start : start + piece_bytes]
            self._md5.update(piece)
            self._update_others(piece)

    def _update_others(self, data: Buffer) -> None:
        for other in self._others.values():
            other.update(data)
        self._crcs.update(data)

    def md5(self) -> bytes:
        return self._md5.digest()

    def of_kind(self, kind: str) -> bytes:
        return self._crcs.whole().to_bytes(4, "big") if kind == "crc32c" else self._others[kind].digest()

    def block_crcs(self) -> bytes:
        """Return one unsigned 32-bit little-endian CRC32C per block; empty for an empty object."""
        return self._crcs.all()


def update_together(updates: Sequence[tuple[Digests, Sequence[Buffer]]]) -> None:
    """Update each of these different digests with the next pieces of its object."""
    for nth_pieces in zip_longest(*(pieces for _, pieces in updates)):
        nth = [(each, piece) for (each, _), piece in zip(updates, nth_pieces, strict=True) if piece is not None]
        md5.update_together([(each._md5, piece) for each, piece in nth])
        for each, piece in nth:
            each._update_others(piece)


def first_damaged_block(data: Buffer, crcs: bytes, first_block: int) -> int | None:
    """Return the first block whose bytes do not match their CRC, or None. `data` begins with `first_block`."""
    expected = memoryview(crcs).cast("I")
    view = memoryview(data)
    for index, start in enumerate(range(0, len(view), BLOCK_BYTES), first_block):
        if checksums.crc32c(view[start : start + BLOCK_BYTES], 0) != expected[index]:
            return index
    return None
