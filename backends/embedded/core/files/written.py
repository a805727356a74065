"""Counters of the bytes that the store has written and the syncs it has made since it opened.

The catalogue and the segments are counted separately. One idea: bytes are counted where they are passed to the system,
and syncs where they are called. Segments count both themselves. SQLite writes the catalogue and reports nothing; after
each commit its work is computed from the index of its write-ahead log.
"""

from __future__ import annotations

import os
import struct
import threading
from array import array
from pathlib import Path

from archiver.values.errors import StoreError

_LOG_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24

# The log's index, the file with the suffix -shm: https://sqlite.org/walformat.html, section 2.1.
_INDEX_VERSION = 3007000
# Version, bytes of a page, frames, salts, frames that were checkpointed.
_HEAD = struct.Struct("=I 10x H I 12x 8s 56x I")
_HEAD_BYTES = 136
_BLOCK_BYTES = 32768  # the page number of each frame, then a hash table over them
_NUMBERS_BYTES = 16384  # in the first block with the head


class Written:
    """Bytes and syncs of one part of the store. Any thread may add; a commit makes a few additions."""

    __slots__ = ("_adding", "bytes", "syncs")

    def __init__(self) -> None:
        self.bytes = 0
        self.syncs = 0
        self._adding = threading.Lock()

    def add(self, size_bytes: int, syncs: int) -> None:
        with self._adding:
            self.bytes += size_bytes
            self.syncs += syncs


class LogWatch:
    """Counts what SQLite writes for a catalogue in WAL mode with `synchronous = FULL`.

    A commit appends a frame (a header and a page) for each page that it changed, and syncs the log once. The first
    commit of a restarted log also writes and syncs the log's header. A checkpoint syncs the log and writes each page of
    the frames not yet checkpointed once into the catalogue. It syncs the catalogue if it reached the end of the log.

    The result equals what the kernel counts for the writing thread, to the byte, with two exceptions. A group that
    changes more pages than SQLite's cache of 2 MB holds may write a page to the log twice; only one write is counted.
    Writes of a failed group are not counted. The index, which is shared memory, and the mark of the last commit, 21
    bytes each time, belong to neither part.
    """

    def __init__(self, catalogue: Path, written: Written) -> None:
        """Watch the log of an open catalogue from its next commit on. Earlier writes are not counted."""
        # Closing any descriptor of this file releases the locks that SQLite has on it, so it stays open.
        self._index = os.open(f"{catalogue}-shm", os.O_RDONLY | os.O_CLOEXEC)
        self._written = written
        version, _, self._frames, self._salts, self._carried_over = self._head()
        if version != _INDEX_VERSION:
            raise StoreError(
                f"the index of {catalogue}'s log has version {version}, this program knows {_INDEX_VERSION};"
                " run it with an older SQLite"
            )

    def close(self) -> None:
        """Close the index. Every connection to the catalogue must be closed before."""
        os.close(self._index)

    def committed(self) -> None:
        """Count the one commit since the last call, and the checkpoint that it may have triggered."""
        _, page_bytes, frames, salts, carried_over = self._head()
        size_bytes, syncs = 0, 1
        if salts != self._salts:
            self._salts, self._frames, self._carried_over = salts, 0, 0
            size_bytes, syncs = _LOG_HEADER_BYTES, 2
        size_bytes += (frames - self._frames) * (_FRAME_HEADER_BYTES + page_bytes)
        if carried_over > self._carried_over:
            pages = self._page_numbers(frames)
            # A page that changed again after the checkpointed frames is written with its last frame, later.
            size_bytes += page_bytes * len(set(pages[self._carried_over : carried_over]) - set(pages[carried_over:]))
            syncs += 2 if carried_over == frames else 1
        self._frames, self._carried_over = frames, carried_over
        self._written.add(size_bytes, syncs)

    def _head(self) -> tuple[int, int, int, bytes, int]:
        head: tuple[int, int, int, bytes, int] = _HEAD.unpack(os.pread(self._index, _HEAD.size, 0))
        return head

    def _page_numbers(self, frames: int) -> array[int]:
        """Return the page number of each frame of the log."""
        numbers = array("I", os.pread(self._index, _NUMBERS_BYTES - _HEAD_BYTES, _HEAD_BYTES))
        start = _BLOCK_BYTES
        while len(numbers) < frames:
            numbers.frombytes(os.pread(self._index, _NUMBERS_BYTES, start))
            start += _BLOCK_BYTES
        return numbers[:frames]
