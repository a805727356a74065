"""Compaction: rewrite sparse segments to free the disk space of deleted objects.

One idea: moving an object is a change like any other. A step copies a few live records from the sparsest segment to the
end of the active one, in a group commit of its own. A segment that has lost its last object is deleted, as always. So
after a crash at any moment every object is at the one place that the catalogue has, and compaction keeps no state.

A damaged record is never copied. It stays in its segment, the store reports it, and the segment stays too.
"""

from __future__ import annotations

from collections.abc import Callable

from archiver.values.errors import Damaged

from .changes.objects import ChangeGroup
from .files.digests import first_damaged_block
from .files.segments import SegmentLocation, Segments
from .tables.catalogue import Catalogue

# Waiting clients wait for one step in addition to their own group. That takes a few milliseconds, and longer if the
# last record of the step is large: a record is copied as a whole, through memory.
_STEP_BYTES = 4 << 20
_STEP_RECORDS = 1000


class Compaction:
    """Rewrites one segment at a time, in the writer's thread."""

    def __init__(self, catalogue: Catalogue, segments: Segments, say: Callable[[str], None]) -> None:
        self.bytes_moved = 0
        self._catalogue = catalogue
        self._segments = segments
        self._say = say
        self._source: int | None = None
        self._position = 0
        self._left_alone: set[int] = set()  # until the store opens again

    def choose(self, active: int | None) -> int | None:
        """Keep the current segment or choose the one with the fewest live bytes. Return those bytes; None: no
        segment.
        """
        catalogue = self._catalogue
        candidates = catalogue.sparse_segments - self._left_alone - {active}
        if self._source not in candidates:
            self._source = min(candidates, key=lambda each: catalogue.segments[each].live_record_bytes, default=None)
            self._position = 0
        return None if self._source is None else catalogue.segments[self._source].live_record_bytes

    def step(self, group: ChangeGroup) -> None:
        """Copy the next live records of the chosen segment."""
        source = self._source
        assert source is not None
        end = self._catalogue.segments[source].length
        stop_at = self.bytes_moved + _STEP_BYTES
        try:
            for _ in range(_STEP_RECORDS):
                if self._position >= end or self.bytes_moved >= stop_at:
                    break
                self._next_record(group, source)
        except Damaged as damage:
            self.leave_alone(str(damage))
            return
        if self._position >= end and source not in self._catalogue.empty_segments:
            self.leave_alone("it has damaged objects")

    def leave_alone(self, why: str) -> None:
        """Give up the current segment. Its objects stay there and stay readable."""
        if self._source is not None:
            self._say(f"segment {self._segments.path(self._source)} keeps the disk space of its deleted objects: {why}")
            self._left_alone.add(self._source)

    def _next_record(self, group: ChangeGroup, source: int) -> None:
        file = self._segments.file(source)
        record = file.header_at(self._position)
        if record is None:
            raise Damaged(f"the record at byte {self._position} is damaged")
        offset = self._position + record.header_bytes
        self._position = offset + record.content_bytes
        found = self._catalogue.living(record, SegmentLocation(source, offset))
        if found is None:
            return
        content = bytearray(found.size)
        try:
            file.read(content, offset)
            damaged = first_damaged_block(content, found.block_crcs, 0) is not None
        except Damaged:
            damaged = True
        if damaged:
            self._say(f"object {found.key!r} in {file.path}, byte {offset}, is damaged; it is not moved")
            return
        record = record._replace(commit=group.commit)
        self._catalogue.move(found, record, group.place(record, [content]))
        self.bytes_moved += found.size
