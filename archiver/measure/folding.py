"""Folding of rows into counts and histograms, in bulk.

One idea: a row belongs to the interval in which it ended. Rates, percentiles and the time line are sums over intervals.
The grouping of rows, their client and their order therefore do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from archiver.measure.histogram import Histogram, parts_of
from archiver.measure.reports import INTERVAL_NS, Change, PartOfPhase, PartTally, Tally, TallyKey
from archiver.values.record import PLATFORM_ERROR, Delays, Operation, Recorder, Status

_Column = NDArray[np.int64]
_HAS_ROWS = np.isin(
    list(Operation), (Operation.SESSION, Operation.TRANSACTION, Operation.LOCK)
)  # they contain rows of their own
_CHANGES = (
    Operation.ARCHIVE, Operation.EXTEND, Operation.HOLD, Operation.RELEASE, Operation.DELETE, Operation.DELETE_MARKER,
    Operation.NEW_VERSION, Operation.COPY, Operation.EVENT_HOLD, Operation.EVENT_RELEASE,
)  # fmt: skip
_WRITTEN = (Operation.ARCHIVE, Operation.NEW_VERSION)  # the bytes of these rows are the object's
_MADE = (Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY)
_QUANTITIES: dict[int, tuple[tuple[str, str, str], ...]] = {
    Operation.SESSION: (("session_service", "sent_ns", "done_ns"), ("session", "due_ns", "done_ns")),
    Operation.OPEN: (("session_open", "sent_ns", "done_ns"),),
    Operation.CLOSE: (("session_close", "sent_ns", "done_ns"),),
    Operation.LOCK: (("lock", "sent_ns", "done_ns"),),
    Operation.TRANSACTION: (
        ("transaction_send", "sent_ns", "first_byte_ns"), ("transaction_commit", "first_byte_ns", "done_ns"),
    ),
}  # fmt: skip
_OBJECT_QUANTITIES = (
    ("object_service", "sent_ns", "done_ns"),
    ("object", "due_ns", "done_ns"),
    ("first_byte", "sent_ns", "first_byte_ns"),
)
_PARTS: tuple[PartOfPhase, ...] = ("warm-up", "measured", "drain")
_DELAYS = tuple(field.name for field in fields(Delays))


@dataclass(frozen=True, slots=True)
class Population:
    """The objects of a workload whose rows are folded: their sizes, and the objects of its aside."""

    numbers: NDArray[np.int64]  # ascending
    sizes: NDArray[np.int64]
    aside: tuple[int, int] = (0, 0)  # first number, last + 1
    aside_name: str = ""
    in_parts: bool = False  # several kinds of operation are counted separately
    versions_differ: bool = False  # another version of an object may have another size

    @classmethod
    def of_size(cls, object_bytes: int) -> Population:
        """Return a population of any numbers with one size."""
        return cls(np.zeros(1, dtype=np.int64), np.array([object_bytes], dtype=np.int64))

    def sizes_of(self, numbers: _Column) -> _Column:
        return self.sizes[np.searchsorted(self.numbers, numbers, side="right") - 1]


@dataclass(frozen=True, slots=True)
class TracePopulation:
    """The objects of a trace: two ranges of numbers. One column has the sizes of both."""

    prepared: int  # first number of the objects that exist before the trace
    prepared_objects: int
    written: int  # first number of the objects that the trace archives
    sizes: NDArray[np.int64]  # sizes of both ranges, one after the other
    aside: tuple[int, int] = (0, 0)
    aside_name: str = ""
    in_parts: bool = True
    versions_differ: bool = True

    def sizes_of(self, numbers: _Column) -> _Column:
        """Return the sizes of first versions; any value for numbers that are not objects (rows of a session)."""
        is_prepared = (numbers >= self.prepared) & (numbers < self.prepared + self.prepared_objects)
        places = np.where(is_prepared, numbers - self.prepared, numbers - self.written + self.prepared_objects)
        found: _Column = self.sizes[np.clip(places, 0, len(self.sizes) - 1)]
        return found


@dataclass(frozen=True, slots=True)
class Folding:
    """Facts about a workload that folding needs."""

    workload: int
    population: Population | TracePopulation
    start_ns: int  # start of the phase
    deadline_ns: int | None = None
    is_open_loop: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """A copy of rows of several clients, one client after the other."""

    columns: dict[str, _Column]
    from_ns: _Column  # by row: measured time of its client
    to_ns: _Column


def take(records: Sequence[Recorder], measured: Sequence[tuple[int, int]]) -> Rows | None:
    """Copy the rows not yet folded, and mark them as folded; None if there are none.

    ``measured`` bounds the measured time of each record's client, CLOCK_MONOTONIC nanoseconds.
    """
    edges = [each for each, record in zip(measured, records, strict=True) if record.folded < record.used]
    new = [record for record in records if record.folded < record.used]
    if not new:
        return None
    columns = {
        name: np.frombuffer(b"".join([memoryview(getattr(each, name))[each.folded : each.used] for each in new]), code)
        for name, code in Recorder.COLUMNS
    }
    columns |= delays_of(new)
    from_ns, to_ns = np.repeat(np.array(edges, dtype=np.int64), [each.used - each.folded for each in new], axis=0).T
    for record in new:
        record.folded = record.used
    return Rows(columns, from_ns, to_ns)


def fold(rows: Rows, how: Folding, tallies: dict[TallyKey, Tally]) -> list[Change]:
    """Add rows of one workload to ``tallies``; return ranges of changed objects.

    Rows that ended before the measured time of their client are warm-up, and rows that ended after it are drain. A call
    takes 1 to 2 ms for a few rows or for thousands, so callers pass the rows of all clients in one call.
    """
    columns = rows.columns
    operation, done_ns = columns["operation"], columns["done_ns"]
    good = columns["status"] == Status.OK
    interval = (done_ns - how.start_ns) // INTERVAL_NS
    part = np.where(done_ns < rows.from_ns, 0, np.where(done_ns > rows.to_ns, 2, 1))
    keys, tally_of = np.unique(3 * interval + part, return_inverse=True)
    into = [tallies.setdefault(TallyKey(key // 3, how.workload, _PARTS[key % 3]), Tally()) for key in keys.tolist()]
    _count(into, tally_of, columns, good, how)
    _take_times(into, tally_of, columns, good, how)
    if how.population.in_parts:
        for index, tally in enumerate(into):
            _add_parts(tally, columns, (tally_of == index) & (operation >= Operation.ARCHIVE), good, how)
    return _changes(operation, columns["number"], columns["bytes"], good, how)


def last_archived(rows: Rows) -> dict[int, tuple[int, int]]:
    """Return (end in ns, object number) of the last object that was archived or copied, by endpoint."""
    columns = rows.columns
    made = np.flatnonzero(np.isin(columns["operation"], _MADE) & (columns["status"] == Status.OK))
    if not len(made):
        return {}
    ended_ns, endpoints = columns["done_ns"][made], columns["endpoint"][made]
    last = [made[np.argmax(np.where(endpoints == each, ended_ns, -1))] for each in np.unique(endpoints)]
    return {int(columns["endpoint"][row]): (int(columns["done_ns"][row]), int(columns["number"][row])) for row in last}


def delays_of(new: Sequence[Recorder]) -> dict[str, _Column]:
    """Return the delays of rows not yet folded, as columns by the names of Delays; empty if there are none."""
    found: dict[int, Delays] = {}  # by position among all new rows
    rows = 0
    for record in new:
        found |= {rows + at - record.folded: each for at, each in record.delays.items() if at >= record.folded}
        rows += record.used - record.folded
    if not found:
        return {}
    columns = {name: np.zeros(rows, dtype=np.int64) for name in _DELAYS}
    for name, column in columns.items():
        column[list(found)] = [getattr(each, name) for each in found.values()]
    return columns


def _count(
    into: Sequence[Tally], tally_of: _Column, columns: dict[str, _Column], good: NDArray[np.bool_], how: Folding
) -> None:
    operation, status, attempts = columns["operation"], columns["status"], columns["attempts"]
    is_object, is_session = operation >= Operation.ARCHIVE, operation == Operation.SESSION
    objects = is_object & good
    # Requests that the platform answered with an error: the final answer, and the answers before retries.
    refused = is_object * (attempts - 1 + (status >= PLATFORM_ERROR))
    # A failed session, transaction or lock failed in its opening or its objects, which have their own rows. Only a
    # session that ended between objects is an error by itself.
    failed = ~good & (~_HAS_ROWS[operation] | (is_session & (status == Status.INCOMPLETE)))
    missed = (
        objects & (columns["done_ns"] - columns["due_ns"] > how.deadline_ns) if how.deadline_ns is not None else None
    )
    for index, tally in enumerate(into):
        here = tally_of == index
        tally.sessions += int((here & is_session & good).sum())
        tally.objects += int((here & objects).sum())
        tally.bytes += int(columns["bytes"][here & objects].sum())
        tally.attempts += int(attempts[here & is_object].sum())
        tally.refusals += int(refused[here].sum())
        tally.errors += int((here & failed).sum())
        if missed is not None:
            tally.missed_deadlines += int((here & missed).sum())
        if "reconnects" in columns:
            tally.reconnects += int(columns["reconnects"][here & is_object].sum())
            tally.requests_before_close += int(columns["answered"][here & is_object].sum())


def _take_times(
    into: Sequence[Tally], tally_of: _Column, columns: dict[str, _Column], good: NDArray[np.bool_], how: Folding
) -> None:
    operation = columns["operation"]
    kinds: list[tuple[str, NDArray[np.bool_], _Column]] = []
    for code in np.unique(operation[operation < Operation.ARCHIVE]).tolist():
        is_code = operation == code
        times = [(quantity, is_code & good, since, until) for quantity, since, until in _QUANTITIES.get(code, ())]
        if code == Operation.SESSION and how.is_open_loop:
            times.append(("session_start", is_code, "due_ns", "sent_ns"))
        kinds += [(quantity, rows, columns[until] - columns[since]) for quantity, rows, since, until in times]
    objects = (operation >= Operation.ARCHIVE) & good
    kinds += [(quantity, objects & has, values) for quantity, has, values in _object_times(columns)]
    values = [each[rows] for _, rows, each in kinds]
    groups = [tally_of[rows] * len(kinds) + kind for kind, (_, rows, _) in enumerate(kinds)]
    parts = iter(parts_of(np.concatenate(values), np.concatenate(groups), len(into) * len(kinds)))
    for tally in into:
        for (quantity, *_), part in zip(kinds, parts, strict=False):
            if len(part.indices):
                tally.histograms.setdefault(quantity, Histogram()).add(part)


def _object_times(columns: dict[str, _Column]) -> list[tuple[str, NDArray[np.bool_], _Column]]:
    """Return the quantities of objects: name, the rows that have it, and the values of all rows."""
    every = np.ones(len(columns["number"]), dtype=np.bool_)
    found = [(quantity, every, columns[until] - columns[since]) for quantity, since, until in _OBJECT_QUANTITIES]
    if "retry_ns" in columns:
        retry_ns = columns["retry_ns"]
        found.append(("attempt", retry_ns > 0, columns["done_ns"] - columns["sent_ns"] - retry_ns))
        found.append(("reconnect", columns["reconnects"] > 0, columns["reconnect_ns"]))
    return found


def _add_parts(
    tally: Tally, columns: dict[str, _Column], here: NDArray[np.bool_], good: NDArray[np.bool_], how: Folding
) -> None:
    """Count each kind of object operation separately."""
    first, end = how.population.aside
    in_aside = (columns["number"] >= first) & (columns["number"] < end)
    counted: list[tuple[PartTally, _Column]] = []
    for code in np.unique(columns["operation"][here]).tolist():
        label = Operation(code).label
        of_code = here & (columns["operation"] == code)
        for is_aside in (False, True):
            rows = of_code & (in_aside == is_aside)
            if not rows.any():
                continue
            part = tally.parts.setdefault(how.population.aside_name if is_aside else label, PartTally(label))
            objects = rows & good
            part.objects += int(objects.sum())
            part.bytes += int(columns["bytes"][objects].sum())
            part.attempts += int(columns["attempts"][rows].sum())
            part.errors += int((rows & ~good).sum())
            part.missed_deadlines += _missed(columns, objects, how)
            counted.append((part, np.flatnonzero(objects)))
    _time_parts(counted, columns)


def _time_parts(counted: Sequence[tuple[PartTally, _Column]], columns: dict[str, _Column]) -> None:
    """Compute all groups in one call: many small groups take about as long as one large one."""
    if not counted:
        return
    timed = [
        (quantity, part, values[rows[has[rows]]])
        for quantity, has, values in _object_times(columns)
        for part, rows in counted
    ]
    group = np.repeat(np.arange(len(timed)), [len(values) for _, _, values in timed])
    parts = parts_of(np.concatenate([values for _, _, values in timed]), group, len(timed))
    for (quantity, part, values), found in zip(timed, parts, strict=True):
        if len(values):
            part.histograms.setdefault(quantity, Histogram()).add(found)


def _missed(columns: dict[str, _Column], objects: NDArray[np.bool_], how: Folding) -> int:
    if how.deadline_ns is None:
        return 0
    return int((columns["done_ns"][objects] - columns["due_ns"][objects] > how.deadline_ns).sum())


def _changes(
    operation: _Column, numbers: _Column, moved: _Column, good: NDArray[np.bool_], how: Folding
) -> list[Change]:
    """Return each operation's numbers as ranges of one size."""
    first, end = how.population.aside
    changes = []
    for code in _CHANGES:
        rows = np.flatnonzero((operation == code) & good)
        if not len(rows):
            continue
        rows = rows[np.argsort(numbers[rows], kind="stable")]
        changed = numbers[rows]
        written = how.population.versions_differ and code in _WRITTEN
        sizes = moved[rows] if written else how.population.sizes_of(changed)
        in_aside = (changed >= first) & (changed < end)
        breaks = np.flatnonzero((np.diff(changed) != 1) | (np.diff(sizes) != 0) | (np.diff(in_aside) != 0)) + 1
        starts, ends = np.concatenate(([0], breaks)), np.concatenate((breaks, [len(changed)])) - 1
        label = code.label
        ranges = (sizes[starts], changed[starts], changed[ends], in_aside[starts])
        changes += [
            Change(how.workload, label, *each) for each in zip(*(column.tolist() for column in ranges), strict=True)
        ]
    return changes
