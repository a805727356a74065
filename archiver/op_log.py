"""The operation log: every row of a run, one Parquet file per worker and phase, in the form that a replay reads.

One idea: a file is finished when its phase is, so a run that is killed keeps the log of every finished phase. Rows are
written in columns, as they are folded; the log costs nothing where it is not asked for.

Version 1. Columns, one row per operation; times are nanoseconds since the epoch:

    due_ns, sent_ns, first_byte_ns, done_ns   when it was due, sent, first answered, done
    operation     archive, retrieve; open, close, session (from the first to the last instant of a session);
                  transaction (sent: it began; first byte: its vote was sent; done: that was answered)
    key           the object's name without its prefix; empty for what is no object
    size_bytes    of the object asked for; 0 for open and close; for a session or transaction, its good bytes
    client, session   numbers from 0; sessions count within their client and phase
    endpoint      number of the endpoint in the order given
    status        0: good; 1 to 99: archiver.record.Status; from 300 on the platform's: HTTP's, or 10,000 + TSM's code
    attempts      requests sent for it
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from archiver.errors import UsageError
from archiver.record import Operation, Recorder

VERSION = 1
SCHEMA = pa.schema(
    [
        ("due_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("first_byte_ns", pa.int64()),
        ("done_ns", pa.int64()),
        ("operation", pa.dictionary(pa.int8(), pa.string())),
        ("key", pa.string()),
        ("size_bytes", pa.int64()),
        ("client", pa.int32()),
        ("session", pa.int64()),
        ("endpoint", pa.int16()),
        ("status", pa.int16()),
        ("attempts", pa.int16()),
    ],
    metadata={"archiver_op_log_version": str(VERSION)},
)
_OPERATIONS = pa.array([operation.label for operation in Operation])


class OpLog:
    """The open log of one worker in one phase."""

    def __init__(self, path: Path) -> None:
        """Raises UsageError where the file cannot be made."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(path, SCHEMA, compression="zstd")
        except OSError as error:
            raise UsageError(f"--op-log {path.parent}: cannot be written: {error}") from error
        # Rows have CLOCK_MONOTONIC times; one offset for the whole file keeps their differences exact.
        self._epoch_offset_ns = time.time_ns() - time.monotonic_ns()
        self._sessions: dict[int, int] = {}

    def write(self, client: int, record: Recorder, object_bytes: int) -> None:
        """Log the rows that are about to be folded."""
        first, used = record.folded, record.used
        if first == used:
            return
        columns = {
            name: np.frombuffer(getattr(record, name), dtype=np.dtype(typecode))[first:used]
            for name, typecode in Recorder.COLUMNS
        }
        operation = columns["operation"]
        ends = operation == Operation.SESSION
        is_object = operation >= Operation.ARCHIVE
        sessions = self._sessions.get(client, 0) + np.cumsum(ends) - ends
        self._sessions[client] = self._sessions.get(client, 0) + int(ends.sum())
        sizes = np.where(is_object, object_bytes, columns["bytes"])
        numbers = columns["number"].tolist()
        keys = [f"{number:012d}" if good else "" for number, good in zip(numbers, is_object.tolist(), strict=True)]
        self._writer.write_batch(
            pa.record_batch(
                [
                    *(
                        columns[name] + self._epoch_offset_ns
                        for name in ("due_ns", "sent_ns", "first_byte_ns", "done_ns")
                    ),
                    pa.DictionaryArray.from_arrays(operation.astype(np.int8), _OPERATIONS),
                    keys,
                    sizes,
                    np.full(used - first, client, dtype=np.int32),
                    sessions,
                    columns["endpoint"],
                    columns["status"],
                    columns["attempts"],
                ],
                schema=SCHEMA,
            )
        )

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()
