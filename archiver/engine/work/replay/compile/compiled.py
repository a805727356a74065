"""A compiled trace: columns of plain numbers in a folder, which every worker maps into its memory.

One idea: a row is a dozen numbers, each in a NumPy file of its own. For a trace of any length, a worker keeps only the
rows in memory that it is reading. A set of the scenario adds an offset to some of the numbers.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archiver.values.errors import UsageError
from scenarios.work.replay import TraceFacts

_FACTS = "facts.json"
COLUMNS = {
    "due_ns": np.int64,
    "operation": np.int8,
    "stream": np.int32,
    "ends_session": np.bool_,
    "object": np.int64,
    "size_bytes": np.int64,
    "version": np.int16,
    "content": np.int64,
    "source": np.int64,
    "offset": np.int64,
    "length": np.int64,
    "ordered": np.bool_,
    "unlocked": np.bool_,
    "with_previous": np.bool_,
}


@dataclass(frozen=True, slots=True)
class CompiledTrace:
    """A compiled trace: one row per replayed operation, in order of due times.

    Objects are numbers. Prepared objects come first, then the objects that the trace makes; each group is ordered by
    size and then by first use. The arrays are mapped read-only.
    """

    facts: TraceFacts
    due_ns: NDArray[np.int64]  # after the first row
    operation: NDArray[np.int8]  # archiver.values.record.Operation; OPEN: a session begins without an operation
    stream: NDArray[np.int32]  # lane: consecutive operations
    ends_session: NDArray[np.bool_]  # the last row of its session
    object: NDArray[np.int64]  # -1 for OPEN
    size_bytes: NDArray[np.int64]  # of the written object, or of the current object
    version: NDArray[np.int16]  # version of the written or expected content
    content: NDArray[np.int64]  # the object that determines that content
    source: NDArray[np.int64]  # object that is copied; -1: none
    offset: NDArray[np.int64]  # of a range
    length: NDArray[np.int64]  # length of a range, never 0; part size of a written object, 0: sent whole
    ordered: NDArray[np.bool_]  # the trace changes this object and uses it more than once
    unlocked: NDArray[np.bool_]  # writes an object that the trace deletes
    with_previous: NDArray[np.bool_]  # committed with the previous row, which has the same stream and due time
    sizes: NDArray[np.int64]  # size of the first version of each object
    groups: NDArray[np.int32]  # group of each stream; streams that share an ordered object are in one group
    prepared_unlocked: NDArray[np.int64]  # prepared objects that the trace deletes; ascending

    @classmethod
    def open(cls, folder: Path) -> CompiledTrace:
        """Map the output of ``compile_trace``. Raises UsageError if it is missing or incomplete."""
        arrays = [field.name for field in fields(cls) if field.name != "facts"]
        try:
            facts = _facts_of(json.loads((folder / _FACTS).read_text()))
            return cls(facts, **{name: np.load(_array(folder, name), mmap_mode="r") for name in arrays})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{folder}: has no complete compiled trace: {error}") from error

    def batches_max(self) -> dict[int, int]:
        """Return the largest transaction, in objects, of each stream that commits several objects at once."""
        if not self.with_previous.any():
            return {}
        firsts = np.flatnonzero(~self.with_previous)
        counts = np.diff(firsts, append=len(self.with_previous))
        most = np.ones(len(self.groups), dtype=np.int64)
        np.maximum.at(most, self.stream[firsts], counts)
        return {stream: int(most[stream]) for stream in np.flatnonzero(most > 1).tolist()}


class ColumnFile:
    """An array that is written to a file part by part."""

    def __init__(self, folder: Path, name: str, dtype: Any, count: int) -> None:
        self._dtype = np.dtype(dtype)
        self._left = count
        self._file = _array(folder, name).open("wb")
        description = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": description, "fortran_order": False, "shape": (count,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def __enter__(self) -> ColumnFile:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._file.close()
        assert kind is not None or not self._left, "fewer rows than were announced"

    def add(self, values: NDArray[Any]) -> None:
        self._left -= len(values)
        self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)


def write_array(folder: Path, name: str, values: NDArray[Any]) -> None:
    """Write an array that is completely in memory."""
    np.save(_array(folder, name), values)


def write_facts(folder: Path, facts: TraceFacts) -> None:
    """Write the facts of the trace last, because they mark the compiled trace as complete."""
    (folder / _FACTS).write_text(json.dumps(asdict(facts)))


def discard_facts(folder: Path) -> None:
    """Remove the facts, so that the folder no longer counts as a compiled trace."""
    (folder / _FACTS).unlink(missing_ok=True)


def _facts_of(document: dict[str, Any]) -> TraceFacts:
    values: dict[str, Any] = {field.name: document[field.name] for field in fields(TraceFacts)}
    for name, value in values.items():
        if isinstance(value, list):  # of pairs
            values[name] = tuple(tuple(pair) for pair in value)
    return TraceFacts(**values)


def _array(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"
