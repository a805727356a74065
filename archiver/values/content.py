"""Object content: the bytes of object number N, today and years later.

One idea: content is a window of one random pool, followed by a 64-byte last block that names run, object number and
content version. This has five effects. No two objects of 64 bytes or more are equal; a smaller object is only the tail
of that block. Run id and seed alone reproduce every object. A checksum continues from the cached state of the window. A
retrieved object is checked by a memory comparison. A later version of an object differs only in the four digits of that
block that count versions (below 23 bytes in nothing at all).

The pool is SHAKE-256 over a fixed text and the run's seed. This generator is standardised, so a database read years
later gives the same bytes. WINDOWS and the odd WINDOW_STRIDE_BYTES are part of that definition and never change.
Windows repeat every WINDOWS objects. A platform that deduplicates would find them, and results report that.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum

LAST_BLOCK_BYTES = 64
WINDOWS = 64
WINDOW_STRIDE_BYTES = 4099
VERSIONS_MAX = 9999
GENERATOR = "shake-256/window-64x4099/1"
_SIZES_MAX = 1024  # sizes with cached views of all windows
_LABEL_BYTES = 23  # end of a last block: version, space, number


class Checksum(StrEnum):
    """Checksums sent with an object, so that the platform can verify it."""

    CRC32C = "crc32c"
    CRC64NVME = "crc64nvme"
    MD5 = "md5"
    NONE = "none"


class Content:
    """The content of every object of one run, up to ``object_bytes_max`` bytes each."""

    def __init__(self, run_id: str, seed: int, object_bytes_max: int) -> None:
        self.run_id = run_id
        self.seed = seed
        self.object_bytes_max = object_bytes_max
        pool_bytes = object_bytes_max + WINDOWS * WINDOW_STRIDE_BYTES
        self.pool = hashlib.shake_256(f"archiver content {seed}".encode()).digest(pool_bytes)
        self._view = memoryview(self.pool)
        self._windows: dict[int, list[memoryview]] = {}
        self._block_head = f"archiver {run_id:<30.30} v".encode()
        self._first_block_head = self._block_head + b"0001 "  # of version 1, which almost every object has

    def window_start(self, number: int) -> int:
        """Return the position in the pool at which the content of object ``number`` starts."""
        return (number % WINDOWS) * WINDOW_STRIDE_BYTES

    def window(self, number: int, size_bytes: int) -> memoryview:
        """Return object ``number`` of ``size_bytes`` without its last block, as a view of the pool."""
        windows = self._windows.get(size_bytes)
        if windows is None:
            length = max(0, size_bytes - LAST_BLOCK_BYTES)
            assert length + WINDOWS * WINDOW_STRIDE_BYTES <= len(self.pool), "larger than object_bytes_max"
            if len(self._windows) >= _SIZES_MAX:
                start = self.window_start(number)
                return self._view[start : start + length]
            starts = range(0, WINDOWS * WINDOW_STRIDE_BYTES, WINDOW_STRIDE_BYTES)
            windows = self._windows[size_bytes] = [self._view[start : start + length] for start in starts]
        return windows[number % WINDOWS]

    def last_block(self, number: int, size_bytes: int, version: int = 1) -> bytes:
        """Return the last 64 bytes of the object, or all of a smaller object, whose tail has the number.

        ``version`` is the content version, from 1 to ``VERSIONS_MAX``.
        """
        head = self._first_block_head
        if version != 1:
            assert version <= VERSIONS_MAX, "the last block counts versions in four digits"
            head = self._block_head + b"%04d " % version
        block = head + b"%018d" % number
        return block if size_bytes >= LAST_BLOCK_BYTES else block[LAST_BLOCK_BYTES - size_bytes :]

    def whole(self, number: int, size_bytes: int, version: int = 1) -> bytes:
        """Return the whole content of one object."""
        return bytes(self.window(number, size_bytes)) + self.last_block(number, size_bytes, version)

    def named_in(self, end: bytes) -> tuple[int, int] | None:
        """Return number and version in the end of an object (its last 64 bytes, or all of a smaller one).

        Returns None if it is not an object of this run, or too small.
        """
        version, number = end[-_LABEL_BYTES : -_LABEL_BYTES + 4], end[-18:]
        if len(end) < _LABEL_BYTES or not (version.isdigit() and number.isdigit()):
            return None
        named = int(number), int(version)
        return named if self.last_block(named[0], len(end), named[1]) == end else None

    def reaching(self, size_bytes: int) -> Content:
        """Return the same content for objects of up to ``size_bytes``."""
        return self if size_bytes <= self.object_bytes_max else Content(self.run_id, self.seed, size_bytes)


class ContentCheck:
    """Comparison of a retrieved object's bytes with the archived content, chunk by chunk, without collecting them.

    Feed the chunks in order; ``finish()`` returns whether length and every byte are right. ``part`` is the (offset,
    length) of the part that will be fed; None: the whole object.
    """

    __slots__ = (
        "_content",
        "_good",
        "_last_block",
        "_offset",
        "_window_bytes",
        "received_bytes",
        "size_bytes",
    )

    def __init__(
        self,
        content: Content,
        number: int,
        size_bytes: int,
        version: int = 1,
        part: tuple[int, int] | None = None,
    ) -> None:
        window_bytes = max(0, size_bytes - LAST_BLOCK_BYTES)
        last_block = content.last_block(number, size_bytes, version)
        self._content = content
        self._offset = content.window_start(number)
        if part is not None:
            # Treat a part as an object: first its part of the window, then its part of the last block.
            offset, length = part
            last_block = last_block[max(0, offset - window_bytes) : max(0, offset + length - window_bytes)]
            self._offset += offset
            window_bytes, size_bytes = max(0, min(window_bytes - offset, length)), length
        self._window_bytes = window_bytes
        self._last_block = last_block
        self._good = True
        self.size_bytes = size_bytes  # expected
        self.received_bytes = 0

    def feed(self, chunk: bytes | memoryview) -> None:
        position = self.received_bytes
        self.received_bytes = position + len(chunk)
        in_window = self._window_bytes - position
        if in_window >= len(chunk):
            # bytes.startswith(view, offset) compares in place: 25-32 us per MiB, where comparing two
            # memoryviews takes 2,100 us.
            if not self._content.pool.startswith(chunk, self._offset + position):
                self._good = False
            return
        if in_window > 0:
            if not self._content.pool.startswith(chunk[:in_window], self._offset + position):
                self._good = False
            chunk = chunk[in_window:]
            position += in_window
        if not self._last_block.startswith(chunk, position - self._window_bytes):
            self._good = False

    def finish(self) -> bool:
        """Return whether exactly the archived bytes were fed."""
        return self._good and self.received_bytes == self.size_bytes


class LengthCheck:
    """Count of the bytes of one retrieved object, if its content is not verified."""

    __slots__ = ("received_bytes", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.received_bytes = 0

    def feed(self, chunk: bytes | memoryview) -> None:
        self.received_bytes += len(chunk)

    def finish(self) -> bool:
        return self.received_bytes == self.size_bytes
