"""Make a trace from another one: a part of it, a faster one, or one with other sizes.

One idea: a change is a function from batch to batch. The new trace names the change, so that readers can tell it from a
recorded trace.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from archiver.traces.format import (
    CODES,
    OPERATIONS,
    Trace,
    TraceInfo,
    TraceWriter,
    known,
    numbers_of,
    replaced,
)
from archiver.values.errors import UsageError

_TIMES = ("due_ns", "sent_ns", "first_byte_ns", "done_ns")
LARGEST_FACTOR = 1e6  # maximum factor of sizes and speeds; a larger one is a mistake


@dataclass(frozen=True, slots=True)
class TraceSelection:
    """The part of a trace to keep. None: all."""

    from_seconds: float | None = None  # after the trace began
    to_seconds: float | None = None  # exclusive
    clients: Collection[int] | None = None
    operations: Collection[str] | None = None

    def check(self) -> None:
        """Raise UsageError for impossible values."""
        if self.from_seconds is not None and self.to_seconds is not None and self.from_seconds >= self.to_seconds:
            raise UsageError(f"--from {self.from_seconds:g}s is not before --to {self.to_seconds:g}s")
        for label in self.operations or ():
            if label not in CODES:
                raise UsageError(
                    f"--operations {label}: there is no operation of that name; choose from {', '.join(OPERATIONS)}"
                )

    def words(self) -> str:
        """Describe the selection in words."""
        changes = [
            f"from {self.from_seconds:g} s" if self.from_seconds is not None else "",
            f"to {self.to_seconds:g} s" if self.to_seconds is not None else "",
            f"{len(self.clients):,} clients" if self.clients is not None else "",
            ", ".join(sorted(self.operations)) if self.operations is not None else "",
        ]
        return "; ".join(each for each in changes if each) or "all of it"


def cut(out: Path, path: Path, part: TraceSelection, *, overwrite: bool = False) -> TraceInfo:
    """Write a part of a trace that begins at ``from_seconds``. Raises UsageError, also if no rows are left."""
    part.check()
    from_ns = round((part.from_seconds or 0.0) * 1e9)
    to_ns = round(part.to_seconds * 1e9) if part.to_seconds is not None else None
    clients = None if part.clients is None else np.array(sorted(part.clients), dtype=np.int64)
    codes = None if part.operations is None else [CODES[label] for label in part.operations]

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        due_ns = numbers_of(batch, "due_ns")
        keep = due_ns >= from_ns
        if to_ns is not None:
            keep &= due_ns < to_ns
        if clients is not None:
            keep &= np.isin(numbers_of(batch, "client"), clients)
        if codes is not None:
            keep &= np.isin(numbers_of(batch, "operation"), codes)
        kept = batch.filter(pa.array(keep))
        return replaced(kept, {name: pc.subtract(kept.column(name), from_ns) for name in _TIMES}) if from_ns else kept

    trace = Trace.open(path)
    info = replace(
        trace.info,
        began_at_ns=trace.info.began_at_ns + from_ns,
        changes=(*trace.info.changes, f"cut: {part.words()}"),
    )
    return rewrite(out, trace, info, change, overwrite=overwrite)


def scale(out: Path, path: Path, *, speed: float = 1.0, sizes: float = 1.0, overwrite: bool = False) -> TraceInfo:
    """Write a trace whose operations are due ``speed`` times as fast, with objects ``sizes`` times as large.

    Service times stay as recorded: they move with the due times. Sizes are rounded down, but at least one byte remains;
    a range stays within its object. Raises UsageError.
    """
    for name, factor in (("--speed", speed), ("--sizes", sizes)):
        if not 1 / LARGEST_FACTOR <= factor <= LARGEST_FACTOR:
            raise UsageError(
                f"{name} {factor:g}: a factor must be between {1 / LARGEST_FACTOR:g} and {LARGEST_FACTOR:g}"
            )

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = _sizes(batch, sizes) if sizes != 1 else {}
        if speed != 1:
            due_ns = numbers_of(batch, "due_ns")
            earlier_ns = pa.array(due_ns - np.floor(due_ns / speed).astype(np.int64))
            columns |= {name: pc.subtract(batch.column(name), earlier_ns) for name in _TIMES}
        return replaced(batch, columns)

    trace = Trace.open(path)
    words = f"scaled: speed {speed:g}, sizes {sizes:g}"
    info = replace(trace.info, changes=(*trace.info.changes, words))
    return rewrite(out, trace, info, change, overwrite=overwrite)


def _sizes(batch: pa.RecordBatch, factor: float) -> dict[str, pa.Array]:
    size, offset, length = (numbers_of(batch, name) for name in ("size_bytes", "offset", "length"))
    new_size, end = _times(size, factor, least=1), _times(offset + length, factor, least=1)
    new_offset = _times(offset, factor, least=0)
    new_offset = np.where(length > 0, np.minimum(new_offset, end - 1), new_offset)
    new_offset = np.where(offset < size, np.minimum(new_offset, new_size - 1), new_offset)  # it began within
    columns = {"size_bytes": new_size, "offset": new_offset, "length": np.where(length > 0, end - new_offset, 0)}
    return {name: pa.array(values, mask=~known(batch, name)) for name, values in columns.items()}


def _times(sizes: NDArray[np.int64], factor: float, *, least: int) -> NDArray[np.int64]:
    """Multiply and round down; the result is at least ``least`` if the size is not 0."""
    scaled = np.floor(sizes * factor).astype(np.int64)
    found: NDArray[np.int64] = np.where(sizes > 0, np.maximum(scaled, least), 0)
    return found


def rewrite(
    out: Path, trace: Trace, info: TraceInfo, change: Callable[[pa.RecordBatch], pa.RecordBatch], *, overwrite: bool
) -> TraceInfo:
    """Write the changed batches as a trace with the metadata ``info``. Raises UsageError."""
    with TraceWriter(
        out, info.began_at_ns, info.origins, changes=info.changes, anonymised=info.anonymised, overwrite=overwrite
    ) as writer:
        rows = 0
        for batch in trace.batches():
            changed = change(batch)
            rows += changed.num_rows
            writer.write(changed)
        if trace.info.operations and not rows:
            raise UsageError(
                f"{trace.path}: it has no operation in that part; `archiver trace info` shows its contents"
            )
        return writer.close()
