"""Segments: the append-only files that hold every object's bytes.

One idea: a record describes itself. It has a header, bucket and key, then the object's bytes, so a segment can be read
without the catalogue. But only the catalogue decides which records count. Bytes beyond the length that the catalogue
has for a file were never acknowledged; the store cuts them off when it opens.

    segments/00000001.seg:  header | bucket | key | content     header | bucket | key | content     ...

The writer appends records until a segment is full. An object above `LARGE_BYTES`, or a transaction whose objects are
larger together, gets a segment of its own, which is written while the bytes arrive. There the header of each record is
written after its content. So a file that does not begin with a header is an upload that never ended.

`commit` in the header is the number of the catalogue's commit that makes the record count. For a transaction in a
segment of its own it is the earliest commit that the transaction may be part of. At most one commit is under way at a
time: a record of a later commit than the catalogue's next one proves that the catalogue has lost commits.

One write has at most 2 MiB: larger ones cost four times the CPU per byte on a virtual machine.
"""

from __future__ import annotations

import itertools
import os
import struct
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from awscrt import checksums

from archiver.values.errors import Damaged

from ..rules.refusals import WriteFailed
from .digests import BLOCK_BYTES, Buffer
from .written import Written

LARGE_BYTES = 8 << 20  # larger objects and transactions are written, and larger objects sent, piece by piece

# magic, layout version, bucket length, key length (bytes of UTF-8), CRC32C of the block CRCs, content length,
# sequence number of the version, commit, CRC32C of bucket and key, CRC32C of the header up to here.
_HEADER = struct.Struct("<4sHHIIQQQII")
_FIXED = struct.Struct("<4sHHIIQQQI")  # the same without its last field
_CRC = struct.Struct("<I")
_MAGIC = b"AWS1"  # archiver WORM segment, layout 1
_LAYOUT = 1
# More than S3's longest bucket and key (63 + 1024) and TSM's longest names (64 + 1024 + 1024 + 256).
_NAMES_BYTES_MAX = 4096
_BUFFERS_MAX = 1000  # in one write; IOV_MAX is 1024 on Linux
# In one write. For more bytes at once the kernel takes its page cache from large free ranges of memory. On a virtual
# machine whose host takes back such ranges, the write costs four times as much CPU time.
_WRITE_BYTES_MAX = 2 << 20
OPEN_FILES_MAX = 256  # open for reading
_SYNC_EVERY_BYTES = 64 << 20  # keeps the last sync of a large object short


class SegmentLocation(NamedTuple):
    """The place of an object's first byte, after the header of its record."""

    segment: int
    offset: int


class RecordHeader(NamedTuple):
    """The header of a record. `bucket` is empty for an object that a TSM client archived."""

    bucket: bytes
    key: bytes
    sequence: int
    commit: int
    content_bytes: int
    content_crc: int

    def encode(self) -> bytes:
        bucket, key, sequence, commit, content_bytes, content_crc = self
        names = bucket + key
        fixed = _FIXED.pack(
            _MAGIC, _LAYOUT, len(bucket), len(key), content_crc, content_bytes,
            sequence, commit, checksums.crc32c(names),
        )  # fmt: skip
        return fixed + _CRC.pack(checksums.crc32c(fixed)) + names

    @staticmethod
    def length(names_bytes: int) -> int:
        """Return the bytes of a header whose bucket and key have `names_bytes` together."""
        return _HEADER.size + names_bytes

    @property
    def header_bytes(self) -> int:
        return _HEADER.size + len(self.bucket) + len(self.key)

    @classmethod
    def decode(cls, data: bytes) -> RecordHeader | None:
        """Return the header at the start of `data`, or None if no complete and undamaged header is there."""
        if len(data) < _HEADER.size:
            return None
        magic, layout, bucket_bytes, key_bytes, content_crc, size, sequence, commit, names_crc, crc = (
            _HEADER.unpack_from(data)
        )
        names = data[_HEADER.size : _HEADER.size + bucket_bytes + key_bytes]
        if magic != _MAGIC or layout != _LAYOUT or checksums.crc32c(data[: _HEADER.size - 4]) != crc:
            return None
        if len(names) != bucket_bytes + key_bytes or checksums.crc32c(names) != names_crc:
            return None
        return cls(names[:bucket_bytes], names[bucket_bytes:], sequence, commit, size, content_crc)


class SegmentFile:
    """One open segment. The file closes when its last reader releases it, so it may be deleted while it is read."""

    def __init__(self, path: Path, flags: int, written: Written) -> None:
        self.path = path
        self._written = written
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        # Clients read objects one by one. Readahead would fill the page cache with neighbours that no client requested,
        # and a later cold read of these would not be cold.
        os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)

    def write(self, buffers: Sequence[Buffer], offset: int) -> int:
        """Write all buffers at `offset`, also after partial writes. Return the end offset."""
        start = offset
        try:
            for rest in _batches(buffers):
                while rest:
                    written = os.pwritev(self.fd, rest, offset)
                    offset += written
                    while rest and written >= len(rest[0]):
                        written -= len(rest.pop(0))
                    if written:
                        rest[0] = memoryview(rest[0])[written:]
        finally:
            self._written.add(offset - start, 0)
        return offset

    def sync(self) -> None:
        """Make the written bytes durable. Raises OSError."""
        os.fdatasync(self.fd)
        self._written.add(0, 1)

    def header_at(self, offset: int) -> RecordHeader | None:
        """Return the header of the record that begins at `offset`, or None if no undamaged header does."""
        return RecordHeader.decode(os.pread(self.fd, _HEADER.size + _NAMES_BYTES_MAX, offset))

    def read_cached(self, buffer: bytearray, offset: int) -> bool:
        """Fill `buffer` if the page cache has all of those bytes; return whether it did. Never waits for the disk."""
        try:
            return os.preadv(self.fd, [buffer], offset, os.RWF_NOWAIT) == len(buffer)
        except OSError:
            return False  # not in memory, or unreadable, which `read` reports

    def read(self, buffer: bytearray, offset: int) -> None:
        """Fill `buffer`, waiting for the disk. Raises Damaged if the file ends too early or cannot be read."""
        view = memoryview(buffer)
        while view:
            try:
                count = os.preadv(self.fd, [view], offset)
            except OSError as failed:
                raise Damaged(f"{self.path} cannot be read at byte {offset}: {failed.strerror}") from failed
            if count == 0:
                raise Damaged(f"{self.path} ends at byte {offset}, before the end of the object that is stored there")
            view, offset = view[count:], offset + count


def _batches(buffers: Sequence[Buffer]) -> Iterator[list[Buffer]]:
    """Yield the buffers in lists that one write takes."""
    batch: list[Buffer] = []
    batch_bytes = 0
    for buffer in buffers:
        if batch and (len(batch) == _BUFFERS_MAX or batch_bytes + len(buffer) > _WRITE_BYTES_MAX):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(buffer)
        batch_bytes += len(buffer)
    yield batch


class Segments:
    """The folder of segments: opens them for reading, and creates and removes them for the writer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written = Written()
        folder.mkdir(mode=0o700, exist_ok=True)
        self._open: dict[int, SegmentFile] = {}
        self._open_lock = threading.Lock()  # held while a file is added or removed
        self._next_number = itertools.count(max(self.numbers(), default=0) + 1)

    def path(self, number: int) -> Path:
        return self.folder / f"{number:08d}.seg"

    def numbers(self) -> list[int]:
        """Return the numbers of the existing segment files, ascending."""
        return sorted(int(path.stem) for path in self.folder.glob("*.seg") if path.stem.isdecimal())

    def file(self, number: int) -> SegmentFile:
        """Return a segment, open for reading. Any thread may call this. Raises Damaged if it cannot be opened."""
        opened = self._open.get(number)
        if opened is None:
            try:
                opened = SegmentFile(self.path(number), os.O_RDONLY, self.written)
            except OSError as failed:
                raise Damaged(f"segment {self.path(number)} cannot be opened: {failed.strerror}") from failed
            with self._open_lock:
                while len(self._open) >= OPEN_FILES_MAX:
                    del self._open[next(iter(self._open))]
                self._open[number] = opened
            if not os.fstat(opened.fd).st_nlink:  # deleted meanwhile: an open file would keep its disk space
                self._release(number)
        return opened

    def create(self) -> tuple[int, SegmentFile]:
        """Create a segment and return its number and file; its name in the folder is durable."""
        number = next(self._next_number)
        created = SegmentFile(self.path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, self.written)
        sync_folder(self.folder)
        self.written.add(0, 1)
        return number, created

    def reopen(self, number: int) -> SegmentFile:
        """Open a segment to append to it again."""
        return SegmentFile(self.path(number), os.O_RDWR, self.written)

    def remove(self, number: int) -> None:
        """Delete a segment without live objects; current readers can finish."""
        self.path(number).unlink(missing_ok=True)
        self._release(number)

    def close(self) -> None:
        """Release all open files; current readers can finish."""
        with self._open_lock:
            self._open = {}

    def _release(self, number: int) -> None:
        with self._open_lock:
            released = self._open.pop(number, None)
        del released  # closes the file, without the lock: that may take long if the file is deleted

    def records_from(self, number: int, offset: int) -> Iterator[RecordHeader]:
        """Yield the undamaged record headers from `offset` on, up to the first bytes that are not one."""
        file = self.file(number)
        while (header := file.header_at(offset)) is not None:
            yield header
            offset += header.header_bytes + header.content_bytes


class OwnSegment:
    """A segment for one large object or transaction, written while its bytes arrive. Its calls block."""

    def __init__(self, number: int, file: SegmentFile, start: int) -> None:
        self.number = number
        self.file = file
        self._end = start
        self._synced = 0

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Append the pieces. Raises WriteFailed, as `sync` does."""
        self._write(pieces, self._end)
        self._end += sum(map(len, pieces))
        if self._end - self._synced > _SYNC_EVERY_BYTES:
            self.sync()

    def sync(self) -> None:
        try:
            self.file.sync()
        except OSError as failed:
            raise WriteFailed(f"{self.file.path} cannot be written: {failed}") from failed
        self._synced = self._end

    def _write(self, pieces: Sequence[Buffer], offset: int) -> None:
        try:
            self.file.write(pieces, offset)
        except OSError as failed:
            raise WriteFailed(f"{self.file.path} cannot be written: {failed}") from failed


class LargeContent(OwnSegment):
    """An object above LARGE_BYTES that is written to a segment of its own."""

    def __init__(self, number: int, file: SegmentFile, bucket: str, key: str) -> None:
        self.content_offset = RecordHeader.length(len(bucket.encode()) + len(key.encode()))
        super().__init__(number, file, self.content_offset)

    @property
    def content_bytes(self) -> int:
        return self._end - self.content_offset


class LargeTransaction(OwnSegment):
    """The objects of a transaction above LARGE_BYTES, written one after another to a segment of their own.

    `commit` is the earliest commit that the transaction may be part of.
    """

    def __init__(self, number: int, file: SegmentFile, commit: int) -> None:
        super().__init__(number, file, 0)
        self._commit = commit
        self._start = 0  # of the record under way

    def begin(self, key: bytes) -> None:
        """Begin the next object. `end` writes its header."""
        self._start = self._end
        self._end += RecordHeader.length(len(key))

    def end(self, key: bytes, sequence: int, block_crcs: bytes) -> SegmentLocation:
        """End the object: write its header and return where its content is."""
        content = self._start + RecordHeader.length(len(key))
        crc = checksums.crc32c(block_crcs)
        header = RecordHeader(b"", key, sequence, self._commit, self._end - content, crc)
        self._write([header.encode()], self._start)
        return SegmentLocation(self.number, content)


def sync_folder(folder: Path) -> None:
    """Make the directory entries of a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def block_span(start: int, length: int, size: int) -> tuple[int, int]:
    """Return start and end of the whole blocks that cover a range of an object of `size` bytes."""
    first = start // BLOCK_BYTES * BLOCK_BYTES
    return first, min(size, -(-(start + length) // BLOCK_BYTES) * BLOCK_BYTES)
