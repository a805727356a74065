"""A compiled trace: columns of plain numbers in a folder, which every worker maps into its memory.

One idea: a row is a dozen numbers, one in each of as many NumPy files. However long a trace is, a worker holds what it
is just reading; and a set of the scenario only adds an offset to some of the numbers.
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
    """A compiled trace; one row per operation that is replayed, in the order in which they are due.

    Objects are numbers: first what must be there before, then what the trace makes, each by size and then as they
    first appear. Arrays are mapped and cannot be written.
    """

    facts: TraceFacts
    due_ns: NDArray[np.int64]  # after the first row
    operation: NDArray[
        np.int8
    ]  # archiver.values.record.Operation; OPEN: a session begins and there is nothing else to do
    stream: NDArray[np.int32]  # lane: operations that follow each other
    ends_session: NDArray[np.bool_]  # the last row of its session
    object: NDArray[np.int64]  # -1 of OPEN
    size_bytes: NDArray[np.int64]  # of what is written, or of the object as it is
    version: NDArray[np.int16]  # of the content that is written or expected
    content: NDArray[np.int64]  # the object whose content that is
    source: NDArray[np.int64]  # object that is copied; -1: none is
    offset: NDArray[np.int64]  # of a range
    length: NDArray[np.int64]  # of a range, never 0; of what is written, of a part, 0: it is sent whole
    ordered: NDArray[np.bool_]  # about an object that the trace changes and uses more than once
    unlocked: NDArray[np.bool_]  # writes what the trace deletes
    with_previous: NDArray[np.bool_]  # is committed with the row before it: of its stream, and due at one time with it
    sizes: NDArray[np.int64]  # of each object, its first version
    groups: NDArray[np.int32]  # of each stream; those that meet at ordered objects are in one
    prepared_unlocked: NDArray[np.int64]  # objects that must be there, and are deleted; they rise

    @classmethod
    def open(cls, folder: Path) -> CompiledTrace:
        """Map what ``compile_trace`` has written. Raises UsageError where that is not there, or not whole."""
        arrays = [field.name for field in fields(cls) if field.name != "facts"]
        try:
            facts = _facts_of(json.loads((folder / _FACTS).read_text()))
            return cls(facts, **{name: np.load(_array(folder, name), mmap_mode="r") for name in arrays})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(f"{folder}: holds no compiled trace, or not all of it: {error}") from error

    def batches_max(self) -> dict[int, int]:
        """Of each stream that commits several objects together, of how many at most."""
        if not self.with_previous.any():
            return {}
        firsts = np.flatnonzero(~self.with_previous)
        counts = np.diff(firsts, append=len(self.with_previous))
        most = np.ones(len(self.groups), dtype=np.int64)
        np.maximum.at(most, self.stream[firsts], counts)
        return {stream: int(most[stream]) for stream in np.flatnonzero(most > 1).tolist()}


class ColumnFile:
    """An array on its way into a file, a part at a time."""

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
    """Write an array that is in memory as a whole."""
    np.save(_array(folder, name), values)


def write_facts(folder: Path, facts: TraceFacts) -> None:
    """Write what is known of the trace: the last thing, since it says that the rest is there."""
    (folder / _FACTS).write_text(json.dumps(asdict(facts)))


def discard_facts(folder: Path) -> None:
    """Let what a folder holds be no compiled trace any more."""
    (folder / _FACTS).unlink(missing_ok=True)


def _facts_of(document: dict[str, Any]) -> TraceFacts:
    told: dict[str, Any] = {field.name: document[field.name] for field in fields(TraceFacts)}
    for name, value in told.items():
        if isinstance(value, list):  # of pairs
            told[name] = tuple(tuple(pair) for pair in value)
    return TraceFacts(**told)


def _array(folder: Path, name: str) -> Path:
    return folder / f"{name}.npy"
