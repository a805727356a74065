"""State of a store at every row of a trace: its objects, their content and size, and what is hidden or locked.

One idea: every use of a key observes the latest previous write of that key. The uses of a batch are therefore sorted by
key and by order, and NumPy finds the observed write of all uses at once. The state after a batch is one record for each
key. A copy observes its source as it was at that row, and later uses observe the copy. Pointer doubling resolves such
chains.

An unknown size is recorded as -1 - 2 key if the object must exist before the trace begins, and as -2 - 2 key for
everything that the trace archives under that key without a size. These sizes are filled in after the last row.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from archiver.engine.work.replay.compile.growing import GrowingArrays
from archiver.engine.work.replay.compile.numbering import Numbers
from archiver.values.content import VERSIONS_MAX
from archiver.values.record import Operation

Flags = NDArray[np.bool_]
Records = NDArray[np.void]

HIDDEN = "its object was hidden before"
WAS_LOCKED = "delete: the trace locked its object before (held, extended or refused), and so does a replay"
USED_LATER = "delete: its object is used later, so the trace deleted an older version"

# One row during compilation. Keys are numbers; -1: none.
ROW = np.dtype(
    [
        ("due_ns", np.int64),  # as in the trace
        ("key", np.int64),
        ("source", np.int64),  # source key of a copy
        ("content", np.int64),  # key whose content is written or expected
        ("size_bytes", np.int64),  # of that content; when read from the trace: as the row reports, -1: unknown
        ("offset", np.int64),  # -1: none
        ("length", np.int64),  # -1: none
        ("session", np.int64),
        ("client", np.int32),
        ("transaction", np.int32),  # 0: none, or unknown
        ("version", np.int16),  # version of that content
        ("operation", np.int8),  # of archiver.values.record
        ("first", np.bool_),  # a write under a name that does not exist
        ("unlocked", np.bool_),  # a write of an object that is deleted later
        ("kept", np.bool_),  # false: left out by the backward pass
    ],
    align=True,
)
_KEY = np.dtype(
    [
        ("content", np.int64),
        ("size_bytes", np.int64),
        ("first_bytes", np.int64),  # size of its first version
        ("writes", np.int32),  # versions, a prepared one included
        ("rows", np.int32),  # rows about this key
        ("changes", np.int32),  # rows that change it
        ("version", np.int16),
        ("origin", np.int8),
        ("next", np.int8),  # next operation on the key, for the backward pass
        ("hidden", np.bool_),
        ("tried", np.bool_),  # since its latest write, a delete was refused or the date was extended
        ("held", np.bool_),
        ("doomed", np.bool_),  # deleted before the next write, for the backward pass
    ],
    align=True,
)
# The code calls take() on records instead of indexing: NumPy then takes a tenth of the time.
_UNUSED, PREPARED, WRITTEN = range(3)  # origins
_NOTHING, _WRITE, _USE = range(3)  # next
_WRITES = (Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY)
_CHANGES = (*_WRITES, Operation.EXTEND, Operation.HOLD, Operation.RELEASE, Operation.DELETE, Operation.DELETE_MARKER)
_PLACE_BITS = 20  # position of a use within its batch; two uses for each row


class _Uses:
    """The uses of keys in some rows, by key and then in order. A row uses first its source, and then its key."""

    def __init__(self, rows: Records) -> None:
        assert len(rows) < 1 << (_PLACE_BITS - 1), "more rows than places"
        keyed, copies = np.flatnonzero(rows["key"] >= 0), np.flatnonzero(rows["source"] >= 0)
        # Key and position in one number: sorting these takes a third of the time of sorting by two columns.
        positions = np.concatenate(
            [rows["key"][keyed] << _PLACE_BITS | 2 * keyed + 1, rows["source"][copies] << _PLACE_BITS | 2 * copies]
        )
        positions.sort()
        self.keys: Numbers = positions >> _PLACE_BITS
        place = positions & ((1 << _PLACE_BITS) - 1)
        self.rows: Numbers = place >> 1
        self.of_key: Flags = (place & 1).astype(bool)
        self.operations = np.where(self.of_key, rows["operation"][self.rows], Operation.RETRIEVE)
        self.writes: Flags = np.isin(self.operations, _WRITES)
        count = len(self.keys)
        self.places = np.arange(count)
        begins = np.ones(count, dtype=bool)
        begins[1:] = self.keys[1:] != self.keys[:-1]
        self.begins: Flags = begins  # the first use of its key
        self.firsts = np.flatnonzero(begins)
        self.lasts = np.append(self.firsts[1:], count)[: len(self.firsts)] - 1
        self.latest_write = self.latest(self.writes)
        segment = self.latest(begins)
        self.carries: Flags = self.latest_write < segment  # it observes the state after an earlier batch
        self.since = np.maximum(self.latest_write, segment)

    def latest(self, where: Flags) -> Numbers:
        """Return for each use the position of the latest use in ``where`` up to and including itself.

        If its key has none, this is the position of another key, or -1.
        """
        found: Numbers = np.maximum.accumulate(np.where(where, self.places, -1))
        return found

    def since_write(self, where: Flags, carried: Flags) -> Flags:
        """Return whether its key had a use in ``where`` since the latest previous write, itself included.

        ``carried``: whether the key had one in earlier batches.
        """
        found: Flags = (self.latest(where) >= self.since) | (self.carries & carried)
        return found

    def counted(self, where: Flags) -> Numbers:
        """Return for each use the number of earlier uses in ``where`` of its key, in this batch."""
        before: Numbers = np.cumsum(where) - where
        found: Numbers = before - before[self.firsts][np.cumsum(self.begins) - 1]
        return found


def _reported_bytes(rows: Records) -> Numbers:
    """Return the object sizes that rows report, including the end of a range; -1 if a row reports none."""
    ends = np.where(rows["length"] >= 0, np.maximum(rows["offset"], 0) + rows["length"], -1)
    found: Numbers = np.maximum(rows["size_bytes"], ends)
    return found


class History:
    """The state of all keys of a trace, updated batch by batch."""

    def __init__(self, arrays: GrowingArrays) -> None:
        self._known_bytes = arrays.of(np.int64)
        self._known_keys = arrays.of(_KEY)
        self.count = 0  # of keys
        self.left_out: Counter[str] = Counter()
        self.has_deletes = False
        self.deletes_left_out = 0  # in the backward pass
        self._written_bytes_max = 0

    @property
    def _keys(self) -> Records:
        return self._known_keys.values

    @property
    def _reported_bytes(self) -> Numbers:
        """For each unknown size, the largest size that rows report, plus 1; 0 if none does."""
        return self._known_bytes.values

    def follow(self, rows: Records, count: int) -> Records:
        """Return the rows that can be replayed, with the content that each uses. Keys are below ``count``."""
        self.count = count
        self._known_keys.reach(count)
        self._known_bytes.reach(2 * count)
        rows, uses = self._possible(rows)
        if not len(uses.keys):
            return rows
        keys = self._keys.take(uses.keys)
        firsts = uses.keys[uses.firsts]
        # The first use of a key shows whether the key exists before the trace. Until the first write, it has its first
        # version.
        new = keys["origin"][uses.firsts] == _UNUSED
        origins = np.where(uses.writes[uses.firsts], WRITTEN, PREPARED)[new]
        made = firsts[new]
        self._keys["origin"][made], self._keys["writes"][made] = origins, origins == PREPARED
        self._keys["content"][made], self._keys["version"][made] = made, 1
        self._keys["size_bytes"][made] = -1 - 2 * made
        writes = uses.counted(uses.writes) + self._keys["writes"][uses.keys]
        reported = _reported_bytes(rows)[uses.rows]
        sizes = self._resolve(rows, uses, writes)
        unknown = (sizes < 0) & ~uses.writes
        np.maximum.at(self._reported_bytes, -1 - sizes[unknown], reported[unknown] + 1)
        self._remember(rows, uses, writes)
        self.has_deletes = self.has_deletes or bool((uses.operations == Operation.DELETE).any())
        return rows

    def look_back(self, rows: Records) -> bool:
        """Decide which deletes of these rows are replayed, and which writes must not be locked.

        Call this with the batches from the last to the first. Returns True if a row was changed.
        """
        uses = _Uses(rows)
        if not len(uses.keys):
            return False
        keys = self._keys.take(uses.keys)
        kinds = np.where(uses.writes, _WRITE, _USE)
        following = np.empty(len(kinds), dtype=np.int64)
        following[:-1] = kinds[1:]
        following[uses.lasts] = keys["next"][uses.lasts]
        deletes = uses.operations == Operation.DELETE
        kept = deletes & (following != _USE)
        self._leave_out_used(rows, uses, deletes & ~kept)
        # A delete removes the previous write. For the last group of a key, a later batch decides.
        groups = np.flatnonzero(uses.writes | uses.begins)
        ends = kept.copy()
        ends[uses.lasts] |= keys["doomed"][uses.lasts]
        doomed = np.logical_or.reduceat(ends, groups)
        is_write = uses.writes[groups]
        rows["unlocked"][uses.rows[groups[is_write]]] = doomed[is_write]
        firsts = uses.keys[uses.firsts]
        self._keys["doomed"][firsts] = (doomed & ~is_write)[uses.begins[groups]]
        self._keys["next"][firsts] = kinds[uses.firsts]
        return bool((deletes & ~kept).any() or (doomed & is_write).any())

    def keys_of(self, origin: int) -> Numbers:
        """Return the keys of objects that are prepared (PREPARED) or first written (WRITTEN), ordered by first row."""
        return np.flatnonzero(self._keys["origin"][: self.count] == origin)

    def fill_sizes(self, default_bytes: int) -> None:
        """Fill in unknown sizes: the mean of known sizes of prepared objects, or ``default_bytes`` if none is known."""
        keys = self._keys[: self.count]
        is_prepared = keys["origin"] == PREPARED
        prepared = self._reported_bytes[: 2 * self.count : 2][is_prepared]
        known = prepared[prepared > 0] - 1
        mean = round(float(known.mean())) if len(known) else default_bytes
        self._reported_bytes[self._reported_bytes == 0] = mean + 1
        first = np.where(is_prepared, -1 - 2 * np.arange(len(keys)), keys["first_bytes"])
        keys["first_bytes"] = self.sizes(first)

    def sizes(self, sizes: Numbers) -> Numbers:
        """Return sizes in bytes, with unknown sizes filled in."""
        unknown = np.flatnonzero(sizes < 0)
        filled = sizes.copy()
        filled[unknown] = self._reported_bytes[-1 - sizes[unknown]] - 1
        return filled

    def largest_bytes(self) -> int:
        """Return the size of the largest prepared or written object."""
        return max(self._written_bytes_max, int(self._reported_bytes.max(initial=0)) - 1)

    def first_sizes(self, keys: Numbers) -> Numbers:
        """Return the size of the first version of each key, after sizes are filled in."""
        found: Numbers = self._keys["first_bytes"][keys]
        return found

    def doomed(self, keys: Numbers) -> Flags:
        """Return which prepared objects are deleted before they are overwritten."""
        found: Flags = self._keys["doomed"][keys]
        return found

    def ordered(self) -> Flags:
        """Return for every key whether a row changes it and more than one row uses it."""
        keys = self._keys[: self.count]
        found: Flags = (keys["changes"] > 0) & (keys["rows"] > 1)
        return found

    def changes_prepared(self) -> bool:
        """Return whether a row changes a prepared object."""
        keys = self._keys[: self.count]
        return bool(((keys["changes"] > 0) & (keys["origin"] == PREPARED)).any())

    def _possible(self, rows: Records) -> tuple[Records, _Uses]:
        """Drop rows on hidden objects, and deletes of locked objects. Repeat, because a dropped copy may hide more."""
        while True:
            uses = _Uses(rows)
            keys = self._keys.take(uses.keys)
            markers = uses.operations == Operation.DELETE_MARKER
            hidden = uses.since_write(markers, keys["hidden"])
            if markers.any():  # a marker is not hidden by itself
                earlier = np.append(-1, uses.latest(markers)[:-1])
                hidden &= ~markers | (earlier >= uses.since) | (uses.carries & keys["hidden"])
            hidden &= ~uses.writes
            locked = (uses.operations == Operation.DELETE) & ~hidden
            if locked.any():
                locked &= self._tried(uses) | self._held(uses)
            gone_hidden, gone_locked = np.unique(uses.rows[hidden]), uses.rows[locked]
            if not len(gone_hidden) and not len(gone_locked):
                return rows, uses
            self.left_out[HIDDEN] += len(gone_hidden)
            self.left_out[WAS_LOCKED] += len(gone_locked)
            left = np.ones(len(rows), dtype=bool)
            left[gone_hidden] = left[gone_locked] = False
            rows = rows.take(np.flatnonzero(left))

    def _tried(self, uses: _Uses) -> Flags:
        evidence = np.isin(uses.operations, (Operation.REFUSED_DELETE, Operation.EXTEND))
        return uses.since_write(evidence, self._keys["tried"][uses.keys])

    def _held(self, uses: _Uses) -> Flags:
        holds, releases = uses.operations == Operation.HOLD, uses.operations == Operation.RELEASE
        here = uses.since_write(holds | releases, np.zeros(len(uses.keys), dtype=bool))
        held: Flags = np.where(
            here, uses.latest(holds) > uses.latest(releases), uses.carries & self._keys["held"][uses.keys]
        )
        return held

    def _resolve(self, rows: Records, uses: _Uses, writes: Numbers) -> Numbers:
        """Fill in the content that each row uses, and return the sizes of all uses."""
        keys = self._keys.take(uses.keys)
        archives = uses.writes & (uses.operations != Operation.COPY)
        stated = rows["size_bytes"][uses.rows]
        content = np.where(archives, uses.keys, keys["content"])
        version = np.where(archives, writes % VERSIONS_MAX + 1, keys["version"]).astype(np.int16)
        size = np.where(archives, np.where(stated >= 0, stated, -2 - 2 * uses.keys), keys["size_bytes"])
        sees = self._seen_by(rows, uses)
        content, version, size = content[sees], version[sees], size[sees]
        own = uses.of_key
        rows_own = uses.rows[own]
        rows["content"][rows_own], rows["version"][rows_own], rows["size_bytes"][rows_own] = (
            content[own],
            version[own],
            size[own],
        )
        first = uses.writes & (writes == 0)
        rows["first"][uses.rows[first]] = True
        rows["operation"][uses.rows[archives]] = np.where(first, Operation.ARCHIVE, Operation.NEW_VERSION)[archives]
        self._keys["first_bytes"][uses.keys[first]] = size[first]
        firsts = uses.keys[uses.firsts]
        for name, values in (("content", content), ("version", version), ("size_bytes", size)):
            self._keys[name][firsts] = values[uses.lasts]
        self._written_bytes_max = max(self._written_bytes_max, int(stated[archives].max(initial=0)))
        return size

    def _seen_by(self, rows: Records, uses: _Uses) -> Numbers:
        """Return for each use the position of the use that determines its content.

        That is an archive, or the first use of a state from an earlier batch.
        """
        sees = np.where(uses.carries, uses.places, uses.latest_write)
        copies = np.flatnonzero(uses.of_key & (uses.operations == Operation.COPY))
        if not len(copies):
            return sees
        of_source = np.full(len(rows), -1, dtype=np.int64)
        of_source[uses.rows[~uses.of_key]] = np.flatnonzero(~uses.of_key)
        sees[copies] = of_source[uses.rows[copies]]
        while (sees[sees] != sees).any():
            sees = sees[sees]
        return sees

    def _remember(self, rows: Records, uses: _Uses, writes: Numbers) -> None:
        """Record the state of each key after this batch."""
        keys, lasts = uses.keys[uses.firsts], uses.lasts
        before = self._keys.take(uses.keys)
        hidden = uses.since_write(uses.operations == Operation.DELETE_MARKER, before["hidden"])
        tried, held = self._tried(uses), self._held(uses)
        self._keys["hidden"][keys], self._keys["tried"][keys] = hidden[lasts], tried[lasts]
        self._keys["held"][keys] = held[lasts]
        self._keys["writes"][keys] = (writes + uses.writes)[lasts]
        repeated = ~uses.of_key & (rows["key"][uses.rows] == uses.keys)  # a copy onto itself is one row
        changes = uses.of_key & np.isin(uses.operations, _CHANGES)
        self._keys["rows"][keys] += np.add.reduceat((~repeated).astype(np.int32), uses.firsts)
        self._keys["changes"][keys] += np.add.reduceat(changes.astype(np.int32), uses.firsts)

    def _leave_out_used(self, rows: Records, uses: _Uses, out: Flags) -> None:
        rows["kept"][uses.rows[out]] = False
        self.left_out[USED_LATER] += int(out.sum())
        self.deletes_left_out += int(out.sum())
        np.subtract.at(self._keys["rows"], uses.keys[out], 1)
        np.subtract.at(self._keys["changes"], uses.keys[out], 1)
