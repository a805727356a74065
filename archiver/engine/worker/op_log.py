"""The operation log: every row of a run, one Parquet file per worker and phase, in the format that a replay reads.

One idea: a file is finished with its phase, so a killed run keeps the log of every finished phase. Rows are written in
columns when they are folded. Without an operation log there is no cost.

The log is a trace (``archiver.traces.format`` has the columns), but its rows are in the order of folding. ``archiver
trace merge`` makes one trace of a run's files. Its keys are object names without their prefix. The log does not record
the offset of a range or the source of a copy. It has columns of its own for delays of an operation, which readers of
traces ignore.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from archiver.measure.folding import Population, TracePopulation, delays_of
from archiver.traces.format import CODES, MODES, SCHEMA, Origin, TraceWriter, words
from archiver.values.errors import UsageError
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import Retention
from backends.base import MOVES_WHOLE

KIND = "operation-log"
_WITHOUT_SIZE = (Operation.OPEN, Operation.CLOSE)
_LOCKED = (Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY)  # operations that write with a lock
_CODES = np.array([CODES[operation.label] for operation in Operation], dtype=np.int8)
_TIMES = ("due_ns", "sent_ns", "first_byte_ns", "done_ns")
_OWN_COLUMNS = (("attempt_ms", pa.float64()), ("reconnect_ms", pa.float64()))

BATCH_ROWS = 2048  # making the columns takes 1 to 2 ms, for a few rows or for this many


@dataclass(slots=True)
class _Waiting:
    """Rows of one workload that are not in the file yet."""

    population: Population | TracePopulation
    retention: Retention | None
    columns: list[dict[str, NDArray[Any]]] = field(default_factory=list)
    rows: int = 0


class OpLog:
    """The open log of one worker in one phase."""

    def __init__(self, path: Path, run_id: str = "") -> None:
        """Open the log. Raises UsageError if the file cannot be made."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--op-log {path.parent}: cannot be written: {error}") from error
        # Rows have CLOCK_MONOTONIC times. One instant on both clocks keeps their differences exact.
        self._began_ns, self._began_at_ns = time.monotonic_ns(), time.time_ns()
        # The writer overwrites the log of a broken phase, because the repeated phase is logged again.
        self._schema = pa.schema([*SCHEMA, *_OWN_COLUMNS])
        self._writer = TraceWriter(
            path, self._began_at_ns, [Origin(KIND, run_id)], overwrite=True, own_columns=_OWN_COLUMNS
        )
        self._sessions: dict[int, int] = {}
        self._waiting: dict[tuple[int, Retention | None], _Waiting] = {}

    def write(
        self,
        records: Sequence[tuple[int, Recorder]],
        population: Population | TracePopulation,
        retention: Retention | None = None,
    ) -> None:
        """Log rows before they are folded, of clients (number, rows) of one workload.

        ``retention`` is the lock of archived objects. The log writes rows of all clients in batches of some thousands.
        A batch takes 1 to 2 ms for any number of rows, and delays sessions that are due meanwhile.
        """
        new = [(client, record) for client, record in records if record.folded < record.used]
        if not new:
            return
        columns: dict[str, NDArray[Any]] = {
            name: np.frombuffer(
                b"".join(memoryview(getattr(each, name))[each.folded : each.used] for _, each in new), code
            )
            for name, code in Recorder.COLUMNS
        }
        columns |= _own_columns(columns, delays_of([record for _, record in new]))
        counts = np.array([record.used - record.folded for _, record in new])
        firsts = np.cumsum(counts, dtype=np.int64) - counts
        ends = columns["operation"] == Operation.SESSION
        ended = np.cumsum(ends) - ends
        clients = [client for client, _ in new]
        before = np.array([self._sessions.get(client, 0) for client in clients])
        after = before + np.add.reduceat(ends.astype(np.int64), firsts)
        self._sessions.update(zip(clients, after.tolist(), strict=True))
        columns["client"] = np.repeat(np.array(clients, dtype=np.int32), counts)
        columns["session"] = ended + np.repeat(before - ended[firsts], counts)
        waiting = self._waiting.setdefault((id(population), retention), _Waiting(population, retention))
        waiting.columns.append(columns)
        waiting.rows += len(ends)
        if waiting.rows >= BATCH_ROWS:
            self._write(waiting)

    def close(self) -> None:
        """Finish the file."""
        for waiting in self._waiting.values():
            if waiting.rows:
                self._write(waiting)
        self._writer.close()

    def _write(self, waiting: _Waiting) -> None:
        population, retention, rows = waiting.population, waiting.retention, waiting.rows
        columns = {name: np.concatenate([each[name] for each in waiting.columns]) for name in waiting.columns[0]}
        waiting.columns, waiting.rows = [], 0
        operation = columns["operation"]
        has_key = operation >= Operation.LOCK
        is_range = (operation == Operation.RANGE_RETRIEVE) & (columns["status"] == Status.OK)
        # The row of a moved object reports its size, even if a later version has another size.
        moved_whole = (
            population.versions_differ & np.isin(operation, tuple(MOVES_WHOLE)) & (columns["status"] == Status.OK)
        )
        sizes = np.where(has_key & ~moved_whole, population.sizes_of(columns["number"]), columns["bytes"])
        known = {
            **{name: columns[name] - self._began_ns for name in _TIMES},
            "operation": words("operation", _CODES[operation]),
            "key": pc.utf8_lpad(pa.array(columns["number"], mask=~has_key).cast(pa.string()), 12, padding="0"),
            "size_bytes": pa.array(sizes, mask=np.isin(operation, _WITHOUT_SIZE)),
            "length": pa.array(columns["bytes"], mask=~is_range),
            "client": columns["client"],
            "session": columns["session"],
            **{name: columns[name] for name in ("endpoint", "status", "attempts")},
            **{name: pa.array(columns[name], from_pandas=True) for name, _ in _OWN_COLUMNS},  # NaN becomes null
        }
        if retention is not None:
            known |= self._locks(retention, np.isin(operation, _LOCKED), columns["sent_ns"])
        unknown = pa.nulls(rows)
        self._writer.write(
            pa.record_batch(
                [pa.array(known[f.name], f.type) if f.name in known else unknown.cast(f.type) for f in self._schema],
                schema=self._schema,
            )
        )

    def _locks(
        self, retention: Retention, locked: NDArray[np.bool_], sent_ns: NDArray[np.int64]
    ) -> dict[str, pa.Array]:
        """Return the columns of retention for rows that archived something."""
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


def _own_columns(
    columns: Mapping[str, NDArray[Any]], delays: Mapping[str, NDArray[np.int64]]
) -> dict[str, NDArray[Any]]:
    """Return the delays of operations in milliseconds; NaN if there was none."""
    if not delays:
        nothing = np.full(len(columns["number"]), np.nan)
        return {name: nothing for name, _ in _OWN_COLUMNS}
    retry_ns = delays["retry_ns"]
    attempt_ns = columns["done_ns"] - columns["sent_ns"] - retry_ns
    return {
        "attempt_ms": np.where(retry_ns > 0, attempt_ns / 1e6, np.nan),
        "reconnect_ms": np.where(delays["reconnects"] > 0, delays["reconnect_ns"] / 1e6, np.nan),
    }
