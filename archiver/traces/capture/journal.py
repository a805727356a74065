"""The journal of a capture: rows in the order in which operations ended, until they become a trace.

One idea: a trace is sorted by start times, and a Parquet file cannot be read before its last byte is written. But rows
come when operations end, and a process may be killed at any moment. The capture therefore appends rows to a file of
complete lines four times a second. The capture writes the trace from this file at its end, or a later command does. A
kill loses the rows not yet appended and at most half a line, which the reader leaves out and reports.

Rows are sorted in runs that fit into memory, and the runs are then merged.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import IO

import msgspec

from archiver.traces.format import Origin, Trace, TracedOperation, TraceInfo, TraceWriter
from archiver.values.errors import ArchiverError, UsageError, other_version
from archiver.values.typed import typed_json

VERSION = 1
_RUN_ROWS = 100_000  # about 100 MB
_due = attrgetter("due_ns")
_decoder = msgspec.json.Decoder(TracedOperation)


class Beginning(msgspec.Struct):
    """The first line of a journal."""

    archiver_capture_journal: int  # version
    began_at_ns: int  # since the epoch
    upstream: str


def journal_path(trace: Path) -> Path:
    """Return the path of a trace's journal."""
    return trace.with_name(trace.name + ".journal")


class Journal:
    """A journal that a capture writes. It is locked while open, so that no command treats it as abandoned."""

    def __init__(self, path: Path, beginning: Beginning) -> None:
        """Create the journal. Raises UsageError if the file exists already or cannot be created."""
        self.path = path
        self._encoder = msgspec.json.Encoder()
        self._waiting = bytearray()
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            raise UsageError(
                f"{path} exists already: another capture is writing it, or a capture was killed; if it was killed, "
                f"make its trace with: archiver capture --recover {path.with_suffix('')}"
            ) from None
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._append(beginning)
        self.flush()

    def write(self, row: TracedOperation) -> None:
        """Take a row; the next ``flush`` writes it to the file."""
        self._append(row)

    def _append(self, line: TracedOperation | Beginning) -> None:
        self._encoder.encode_into(line, self._waiting, -1)
        self._waiting += b"\n"

    def flush(self) -> None:
        """Append the waiting rows. Raises ArchiverError if that fails; the rest of the file stays readable."""
        while self._waiting:
            try:
                written = os.write(self._file, self._waiting)
            except OSError as error:
                raise ArchiverError(f"{self.path}: cannot be written any more: {error.strerror}") from error
            del self._waiting[:written]

    def close(self) -> None:
        """Close the file. Rows that were not flushed are lost."""
        os.close(self._file)


class LeftJournal:
    """A journal whose capture has ended."""

    def __init__(self, path: Path) -> None:
        """Open the journal. Raises UsageError if it does not exist, is still being written, or is not a journal."""
        self.path = path
        self.half_lines = 0  # truncated lines at the end, found while reading
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path}: not a capture's journal: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.close()
            raise UsageError(f"{path}: a capture is still writing it; end that with Ctrl-C") from None
        try:
            self.beginning = typed_json(self._file.readline(), Beginning)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._file.close()
            raise UsageError(f"{path}: not a capture's journal: {error}") from None
        if self.beginning.archiver_capture_journal != VERSION:
            self._file.close()
            raise UsageError(other_version(path, self.beginning.archiver_capture_journal, VERSION))

    def rows(self) -> Iterator[TracedOperation]:
        """Yield every complete row in the order in which operations ended. Raises ArchiverError for a damaged line."""
        for number, line in enumerate(self._file, start=2):
            if not line.endswith(b"\n"):
                self.half_lines += 1
                return
            try:
                yield _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise ArchiverError(f"{self.path}, line {number}: damaged: {error}") from None

    def make_trace(self, path: Path, *, overwrite: bool = False) -> TraceInfo:
        """Write the trace, sorted by start times, and delete the journal.

        Raises UsageError if the trace cannot be written, and ArchiverError for a damaged journal, which is then kept.
        """
        origin = Origin("capture", self.beginning.upstream)
        began_at_ns = self.beginning.began_at_ns
        with TraceWriter(path, began_at_ns, [origin], overwrite=overwrite) as writer, ExitStack() as runs:
            for row in _sorted(self.rows(), path.parent, runs):
                writer.add(row)
        self.path.unlink()
        return Trace.open(path).info

    def close(self) -> None:
        self._file.close()


def _sorted(rows: Iterable[TracedOperation], folder: Path, runs: ExitStack) -> Iterator[TracedOperation]:
    """Yield the rows in stable order of due time. Runs that do not fit into memory are in unnamed files."""
    rows = iter(rows)
    files: list[IO[bytes]] = []
    while True:
        run = sorted(islice(rows, _RUN_ROWS), key=_due)
        if len(run) < _RUN_ROWS:
            break
        files.append(runs.enter_context(tempfile.TemporaryFile(dir=folder)))  # noqa: SIM115 - closed by `runs`
        files[-1].writelines(msgspec.json.encode(row) + b"\n" for row in run)
        files[-1].seek(0)
    return merge(*(map(_decoder.decode, file) for file in files), run, key=_due)
