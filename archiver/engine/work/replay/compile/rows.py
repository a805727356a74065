"""The rows of a trace that can be replayed, as numbers, and the reasons for which others are left out.

One idea: this module judges each row by itself: its operation, its success, and whether its key is known. The modules
``transactions`` and ``history`` handle dependencies between rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from archiver.engine.work.replay.compile.history import ROW, Flags, Records
from archiver.engine.work.replay.compile.numbering import Numbering, Numbers, paired
from archiver.traces.format import CODES, Trace, known, numbers_of
from archiver.traces.seen import hashes_of
from archiver.traces.summary import NEEDS, WRITES
from archiver.values.record import Operation

LIST = "list: nothing to compare it with"
OTHER = "other: it has no counterpart"
EVENT_HOLD = "event-hold, event-release: there is no consent to event holds"
FAILED = "failed in the trace"
NO_KEY = "without a key"
NO_SOURCE = "copy: its source is not known"

_COLUMNS = (
    "due_ns", "operation", "key", "source", "size_bytes", "offset", "length", "client", "session", "status",
)  # fmt: skip
_ON_OBJECTS = [CODES[label] for label in (NEEDS | WRITES) - {"lock"}]  # a lock is a part of its archive
# Operations in transactions, by API call: an archive stays an archive, even if its name already exists.
_IN_TRANSACTIONS = (
    (Operation.ARCHIVE, Operation.NEW_VERSION), (Operation.HOLD,), (Operation.RELEASE,), (Operation.DELETE,)
)  # fmt: skip
_BYTES_MAX = 1 << 60  # larger values are limited, so that sums do not overflow


class RowReader:
    """Reader of the rows of one trace as numbers."""

    def __init__(self, trace: Trace, *, commits: bool = False) -> None:
        """Read a trace.

        ``commits``: report which rows may have been committed in one transaction.
        """
        self.keys = Numbering()
        self.left_out: Counter[str] = Counter()
        self._trace = trace
        self._columns = (*_COLUMNS, "done_ns") if commits else _COLUMNS
        self._sessions = Numbering()
        self._transactions = Numbering()

    def batches(self) -> Iterator[Records]:
        """Yield rows that may be replayed, as ROW.

        Raises UsageError for a file that is no trace, and for rows out of order.
        """
        for batch in self._trace.batches(self._columns, must_rise=True):
            yield self._rows_of(batch)

    def _rows_of(self, batch: pa.RecordBatch) -> Records:
        codes = numbers_of(batch, "operation")  # codes of archiver.values.record, and list and other
        is_good = numbers_of(batch, "status") == 0
        opens = (codes == Operation.OPEN) & is_good
        here = self._chosen(batch, codes, is_good)
        chosen = np.flatnonzero(here | opens)
        rows = np.zeros(len(chosen), dtype=ROW)
        for name in ("due_ns", "client"):
            rows[name] = numbers_of(batch, name)[chosen]
        for name in ("size_bytes", "offset", "length"):
            rows[name] = np.minimum(numbers_of(batch, name, unknown=-1)[chosen], _BYTES_MAX)
        rows["session"] = self._sessions.of(
            paired(rows["client"].astype(np.int64), numbers_of(batch, "session")[chosen])
        )
        rows["operation"] = np.where(codes == Operation.AUDIT, Operation.RETRIEVE, codes)[chosen]
        rows["kept"] = True
        rows["key"] = rows["source"] = rows["content"] = -1
        rows["size_bytes"][opens[chosen]] = 0
        self._number_keys(batch, rows, chosen)
        if "done_ns" in self._columns:
            self._number_transactions(batch, rows, chosen)
        return rows

    def _chosen(self, batch: pa.RecordBatch, codes: Numbers, is_good: Flags) -> Flags:
        """Return which rows are operations on objects that can be replayed; count the reasons for the others."""
        on_event_holds = np.isin(codes, (Operation.EVENT_HOLD, Operation.EVENT_RELEASE))
        left = np.isin(codes, [*_ON_OBJECTS, CODES["list"], CODES["other"]]) | on_event_holds
        for reason, why in (
            (LIST, codes == CODES["list"]),
            (OTHER, codes == CODES["other"]),
            (EVENT_HOLD, on_event_holds),
            (FAILED, ~is_good),
            (NO_KEY, ~known(batch, "key")),
            (NO_SOURCE, (codes == Operation.COPY) & ~known(batch, "source")),
        ):
            self.left_out[reason] += int((left & why).sum())
            left &= ~why
        return left

    def _number_keys(self, batch: pa.RecordBatch, rows: Records, chosen: Numbers) -> None:
        """Fill in the numbers of keys and sources by first appearance; a source comes before its copy."""
        keyed = np.flatnonzero(rows["operation"] != Operation.OPEN)
        hashes = hashes_of(batch.column("key"))[chosen[keyed]]
        copies = np.flatnonzero(rows["operation"][keyed] == Operation.COPY)
        if not len(copies):
            rows["key"][keyed] = self.keys.of(hashes)
            return
        sources = hashes_of(batch.column("source"))[chosen[keyed[copies]]]
        numbers = self.keys.of(np.insert(hashes, copies, sources))
        of_source = copies + np.arange(len(copies))
        rows["source"][keyed[copies]] = numbers[of_source]
        rows["key"][keyed] = np.delete(numbers, of_source)

    def _number_transactions(self, batch: pa.RecordBatch, rows: Records, chosen: Numbers) -> None:
        """Number from 1 the sets of rows of one kind that ended at one instant of a session."""
        done_ns, is_known = numbers_of(batch, "done_ns")[chosen], known(batch, "done_ns")[chosen]
        for kind, operations in enumerate(_IN_TRANSACTIONS):
            here = np.flatnonzero(np.isin(rows["operation"], operations) & is_known)
            ends = paired(rows["session"][here] * len(_IN_TRANSACTIONS) + kind, done_ns[here])
            rows["transaction"][here] = self._transactions.of(ends) + 1
