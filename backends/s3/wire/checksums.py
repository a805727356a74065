"""Checksums of archived objects, each continued from the cached state of the content's window.

One idea: an object is a window of the pool plus a 64-byte last block (archiver/values/content.py). So the checksum of
the window is computed once, before the clock starts, and an object costs only its last block, without combining code.
If there are too many sizes for the cache, each object's checksum is computed with its request.
"""

from __future__ import annotations

import hashlib
from binascii import b2a_base64
from collections.abc import Callable
from typing import Any, Protocol

from awscrt import checksums as crt

from archiver.values.content import WINDOWS, Content

EAGER_BYTES_MAX = 4 << 20
HEADER = {"crc32c": "x-amz-checksum-crc32c", "crc64nvme": "x-amz-checksum-crc64nvme", "md5": "content-md5"}

_CRC: dict[str, tuple[Callable[..., int], int]] = {"crc32c": (crt.crc32c, 4), "crc64nvme": (crt.crc64nvme, 8)}
_DIGEST: dict[str, Callable[..., Any]] = {
    "md5": lambda data: hashlib.md5(data, usedforsecurity=False),
    "sha256": hashlib.sha256,
}


class Checksums(Protocol):
    """Checksums of one algorithm for objects of one size, or for the same part of each."""

    def base64(self, number: int, last_block: bytes) -> bytes:
        """Return the value of a checksum header."""

    def hex(self, number: int, last_block: bytes) -> bytes:
        """Return the value of x-amz-content-sha256."""


class PlainChecksums:
    """Checksums without a cache: each is computed from all bytes of its object, at memory speed."""

    def __init__(self, algorithm: str, content: Content, size_bytes: int, part: tuple[int, int] | None = None) -> None:
        self._algorithm = algorithm
        self._content = content
        self._size_bytes = size_bytes
        self._part = part or (0, size_bytes)

    def base64(self, number: int, last_block: bytes) -> bytes:
        return b2a_base64(self._raw(number, last_block), newline=False)

    def hex(self, number: int, last_block: bytes) -> bytes:
        return self._raw(number, last_block).hex().encode()

    def _raw(self, number: int, last_block: bytes) -> bytes:
        offset, length = self._part
        window = self._content.window(number, self._size_bytes)[offset : offset + length]
        if self._algorithm in _CRC:
            function, width = _CRC[self._algorithm]
            return function(last_block, function(window)).to_bytes(width, "big")
        digest = _DIGEST[self._algorithm](window)
        digest.update(last_block)
        value: bytes = digest.digest()
        return value


class WindowChecksums:
    """Checksums of one algorithm for objects of one content and one size, or for the same part of each.

    Arguments: ``part`` the (offset, length) of that part; None: the whole object.
    """

    def __init__(self, algorithm: str, content: Content, size_bytes: int, part: tuple[int, int] | None = None) -> None:
        offset, length = part or (0, size_bytes)
        windows = [content.window(index, size_bytes)[offset : offset + length] for index in range(WINDOWS)]
        # Large windows are computed on first use, or a phase would begin late: their transfer takes long anyway.
        is_eager = length <= EAGER_BYTES_MAX
        if algorithm in _CRC:
            function, width = _CRC[algorithm]
            crc_states: list[int | None] = [function(window) if is_eager else None for window in windows]

            def crc(number: int, last_block: bytes) -> bytes:
                index = number % WINDOWS
                state = crc_states[index]
                if state is None:
                    state = crc_states[index] = function(windows[index])
                return function(last_block, state).to_bytes(width, "big")

            self._raw = crc
        else:
            constructor = _DIGEST[algorithm]
            digest_states = [constructor(window) if is_eager else None for window in windows]

            def digest(number: int, last_block: bytes) -> bytes:
                index = number % WINDOWS
                state = digest_states[index]
                if state is None:
                    state = digest_states[index] = constructor(windows[index])
                state = state.copy()
                state.update(last_block)
                value: bytes = state.digest()
                return value

            self._raw = digest

    def base64(self, number: int, last_block: bytes) -> bytes:
        """Return the value of a checksum header."""
        return b2a_base64(self._raw(number, last_block), newline=False)

    def hex(self, number: int, last_block: bytes) -> bytes:
        """Return the value of x-amz-content-sha256."""
        return self._raw(number, last_block).hex().encode()
