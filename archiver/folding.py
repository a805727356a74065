"""From rows to counts and histograms, in bulk.

One idea: a row belongs to the interval in which it ended. Everything after this (rates, percentiles, the time line)
is made of sums over intervals, so it does not matter how rows were grouped, by which client, or in which order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from archiver.assignment import INTERVAL_NS, Tally, TallyKey
from archiver.histogram import Histogram, part_of
from archiver.record import PLATFORM_ERROR, Operation, Recorder, Status

_Column = NDArray[np.int64]
_PARTS = (Operation.SESSION, Operation.TRANSACTION, Operation.LOCK)  # of what has rows of its own
_CHANGES = (Operation.ARCHIVE, Operation.EXTEND, Operation.HOLD, Operation.RELEASE, Operation.DELETE)


def fold(
    record: Recorder, workload: int, start_ns: int, warm_up_ns: int, tallies: dict[TallyKey, Tally]
) -> list[tuple[int, int]]:
    """Add the rows not folded before to ``tallies``; returns the ranges of object numbers that were changed: archived,
    extended, held, released or deleted.

    Rows that ended before ``warm_up_ns`` are warm-up.
    """
    first, used = record.folded, record.used
    if first == used:
        return []
    record.folded = used
    columns = {
        name: np.frombuffer(getattr(record, name), dtype=np.dtype(typecode))[first:used]
        for name, typecode in Recorder.COLUMNS
    }
    operation, status, done_ns = columns["operation"], columns["status"], columns["done_ns"]
    interval = (done_ns - start_ns) // INTERVAL_NS
    good = status == Status.OK
    changed = _ranges(columns["number"][np.isin(operation, _CHANGES) & good])
    warm_up = done_ns < warm_up_ns
    for index, is_warm_up in sorted(set(zip(interval.tolist(), warm_up.tolist(), strict=True))):
        tally = tallies.setdefault(TallyKey(index, workload, is_warm_up), Tally())
        _add(tally, columns, (interval == index) & (warm_up == is_warm_up), good)
    return changed


def _add(tally: Tally, columns: dict[str, _Column], here: NDArray[np.bool_], good: NDArray[np.bool_]) -> None:
    operation = columns["operation"]
    is_object = operation >= Operation.ARCHIVE
    objects = here & is_object & good
    sessions = here & (operation == Operation.SESSION) & good
    tally.sessions += int(sessions.sum())
    tally.objects += int(objects.sum())
    tally.bytes += int(columns["bytes"][objects].sum())
    tally.attempts += int(columns["attempts"][here & is_object].sum())
    # Requests that the platform answered with an error: the final answer, and those before it that were retried.
    refused = here & is_object & (columns["status"] >= PLATFORM_ERROR)
    tally.refusals += int((columns["attempts"][here & is_object] - 1).sum()) + int(refused.sum())
    # A session, a transaction or a lock that failed did so in its opening or its objects, which have rows of their own;
    # only a session that was cut short between objects is an error by itself.
    failed = here & ~good & ~np.isin(operation, _PARTS)
    cut_short = here & (operation == Operation.SESSION) & (columns["status"] == Status.INCOMPLETE)
    tally.errors += int(failed.sum()) + int(cut_short.sum())
    opened = here & good & (operation == Operation.OPEN)
    closed = here & good & (operation == Operation.CLOSE)
    committed = here & good & (operation == Operation.TRANSACTION)
    locked = here & good & (operation == Operation.LOCK)
    for quantity, rows, since, until in (
        ("session_service", sessions, "sent_ns", "done_ns"),
        ("session_response", sessions, "due_ns", "done_ns"),
        ("session_open", opened, "sent_ns", "done_ns"),
        ("session_close", closed, "sent_ns", "done_ns"),
        ("object_service", objects, "sent_ns", "done_ns"),
        ("object_response", objects, "due_ns", "done_ns"),
        ("first_byte", objects, "sent_ns", "first_byte_ns"),
        ("lock", locked, "sent_ns", "done_ns"),
        ("transaction_send", committed, "sent_ns", "first_byte_ns"),
        ("transaction_commit", committed, "first_byte_ns", "done_ns"),
    ):
        values = columns[until][rows] - columns[since][rows]
        if len(values):
            tally.histograms.setdefault(quantity, Histogram()).add(part_of(values))


def _ranges(numbers: _Column) -> list[tuple[int, int]]:
    """Rising numbers as (first, last) ranges."""
    if not len(numbers):
        return []
    breaks = np.flatnonzero(np.diff(numbers) != 1)
    firsts = numbers[np.concatenate(([0], breaks + 1))]
    lasts = numbers[np.concatenate((breaks, [len(numbers) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))
