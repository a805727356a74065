"""The operation log: every row of a run, one Parquet file per worker and phase, in the form that a replay reads.

One idea: a file is finished when its phase is, so a run that is killed keeps the log of every finished phase. Rows are
written in columns, as they are folded; the log costs nothing where it is not asked for.

It is a trace (``archiver.traces.format`` has the columns), except that its rows come as they are folded: `archiver
trace merge` makes one trace of a run's files. Its keys are objects' names without their prefix. Nothing is known of
where in an object a range began, nor of what a copy was made of.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from archiver.errors import UsageError
from archiver.folding import Population
from archiver.record import Operation, Recorder, Status
from archiver.retention import Retention
from archiver.traces.format import CODES, MODES, SCHEMA, Origin, TraceWriter, words

KIND = "operation-log"
_WITHOUT_SIZE = (Operation.OPEN, Operation.CLOSE)
_LOCKED = (Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY)  # what is locked as it is written
_CODES = np.array([CODES[operation.label] for operation in Operation], dtype=np.int8)
_TIMES = ("due_ns", "sent_ns", "first_byte_ns", "done_ns")


class OpLog:
    """The open log of one worker in one phase."""

    def __init__(self, path: Path, run_id: str = "") -> None:
        """Raises UsageError where the file cannot be made."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--op-log {path.parent}: cannot be written: {error}") from error
        # Rows have CLOCK_MONOTONIC times; one instant on both clocks keeps their differences exact.
        self._began_ns, self._began_at_ns = time.monotonic_ns(), time.time_ns()
        # A phase that is carried out again, after the run broke off in it, is logged again.
        self._writer = TraceWriter(path, self._began_at_ns, [Origin(KIND, run_id)], overwrite=True)
        self._sessions: dict[int, int] = {}

    def write(self, client: int, record: Recorder, population: Population, retention: Retention | None = None) -> None:
        """Log the rows that are about to be folded; ``retention`` is what archived objects are locked with."""
        first, used = record.folded, record.used
        if first == used:
            return
        columns = {
            name: np.frombuffer(getattr(record, name), dtype=np.dtype(typecode))[first:used]
            for name, typecode in Recorder.COLUMNS
        }
        operation = columns["operation"]
        ends = operation == Operation.SESSION
        has_key = operation >= Operation.LOCK
        is_range = (operation == Operation.RANGE_RETRIEVE) & (columns["status"] == Status.OK)
        sessions = self._sessions.get(client, 0) + np.cumsum(ends) - ends
        self._sessions[client] = self._sessions.get(client, 0) + int(ends.sum())
        sizes = np.where(has_key, population.sizes_of(columns["number"]), columns["bytes"])
        known = {
            **{name: columns[name] - self._began_ns for name in _TIMES},
            "operation": words("operation", _CODES[operation]),
            "key": [
                f"{number:012d}" if is_object else None
                for number, is_object in zip(columns["number"].tolist(), has_key.tolist(), strict=True)
            ],
            "size_bytes": pa.array(sizes, mask=np.isin(operation, _WITHOUT_SIZE)),
            "length": pa.array(columns["bytes"], mask=~is_range),
            "client": np.full(used - first, client, dtype=np.int32),
            "session": sessions,
            **{name: columns[name] for name in ("endpoint", "status", "attempts")},
        }
        if retention is not None:
            known |= self._locks(retention, np.isin(operation, _LOCKED), columns["sent_ns"])
        unknown = pa.nulls(used - first)
        self._writer.write(
            pa.record_batch(
                [pa.array(known[f.name], f.type) if f.name in known else unknown.cast(f.type) for f in SCHEMA],
                schema=SCHEMA,
            )
        )

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()

    def _locks(
        self, retention: Retention, locked: NDArray[np.bool_], sent_ns: NDArray[np.int64]
    ) -> dict[str, pa.Array]:
        """The columns of retention, for the rows that archived something."""
        rows = len(locked)
        found = {
            "retention_mode": words(
                "retention_mode", pa.array(np.full(rows, MODES.index(retention.mode), dtype=np.int8), mask=~locked)
            )
        }
        if retention.retain_until is not None:
            sent = (self._began_at_ns + sent_ns - self._began_ns) / 1e9
            found["retain_for_seconds"] = pa.array(np.maximum(retention.retain_until - sent, 0.0), mask=~locked)
        elif retention.retain_for_seconds is not None:
            found["retain_for_seconds"] = pa.array(np.full(rows, float(retention.retain_for_seconds)), mask=~locked)
        if retention.legal_hold:
            found["legal_hold"] = pa.array(np.ones(rows, dtype=bool), mask=~locked)
        return found
