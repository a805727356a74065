"""Import of journals of programs that use this project's TSM library as a trace.

One idea: when a program retrieves, deletes or holds an object, the library has at most its id. Names come from
queries, perhaps of another session, process or day. A journal therefore keeps both, and the import, which has all
journals, assigns names to ids. Other lines of a journal are rows as ``archiver capture`` writes them. They have times
since the epoch, the process as client and a unique session number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from archiver.traces.format import CODES, MODES, Origin, Trace, TracedOperation, TraceInfo, TraceWriter, rows_of
from archiver.traces.importing import NOT_UTF_8, TOO_LONG, ImportReport, lines_of, nothing_in
from archiver.traces.merging import in_order, spill_folder
from archiver.values.errors import UsageError
from archiver.values.record import Operation, Status

KIND = "tsm"
VERSION = 1
_NO_ROW = "is not a line of a TSM program's journal, or is truncated or damaged"
_ENDS = {"client": 2**31, "endpoint": 2**15, "status": 2**15, "attempts": 2**15}  # exclusive upper limits of columns
_Line = TypeVar("_Line")


class _Session(msgspec.Struct):
    """The first line of a session."""

    archiver_tsm_trace: int  # version
    session: int
    process: int
    node: str
    owner: str
    server: str  # address:port


class _Name(msgspec.Struct):
    """A line with an object that a query returned."""

    id: int
    session: int
    size_bytes: int
    key: str


_row = msgspec.json.Decoder(TracedOperation).decode
_session = msgspec.json.Decoder(_Session).decode
_name = msgspec.json.Decoder(_Name).decode


def import_journals(out: Path, paths: Sequence[Path], *, strict: bool = False, overwrite: bool = False) -> ImportReport:
    """Write the trace of the journals of one or more programs.

    ``strict``: the first line that is left out or remarked on is an error. Raises UsageError.
    """
    reading = _TsmLogReading(strict)
    origins = [Origin(KIND, path.name) for path in paths]
    with spill_folder(out) as folder, TraceWriter(out, 0, origins, overwrite=overwrite) as writer:
        with TraceWriter(folder / "lines", 0, origins) as lines:
            for path in paths:
                for row in reading.rows(path):
                    lines.add(row)
            if not lines.close().operations:
                raise nothing_in(paths, KIND, reading.report)
        reading.learn_names(paths)
        began_at_ns: int | None = None
        for batch in in_order(Trace.open(folder / "lines"), folder):
            for row in rows_of(batch):
                if began_at_ns is None:
                    began_at_ns = row.due_ns
                    writer.begin_at(began_at_ns)
                writer.add(reading.finished(row, began_at_ns))
        reading.report.info = writer.close()
    return reading.report


class _TsmLogReading:
    """Conversion of lines to rows."""

    def __init__(self, strict: bool) -> None:
        self.report = ImportReport(TraceInfo(0), strict=strict)
        self._sessions: dict[int, _Session] = {}
        self._references: set[tuple[str, int]] = set()  # server and id of objects used by id
        self._names: dict[tuple[str, int], _Name] = {}
        self._clients: dict[tuple[str, str, int], int] = {}
        self._numbers: dict[int, tuple[int, int]] = {}  # by session: its client, and its number within the client
        self._session_counts: list[int] = []  # by client

    def rows(self, path: Path) -> Iterator[TracedOperation]:
        """Yield every row unchanged."""
        for number, raw in lines_of(path):
            self.report.lines += 1
            where = f"{path.name}:{number}"
            if raw is None:
                self.report.leave_out(TOO_LONG, where)
                continue
            if not raw.strip():
                continue
            try:
                row = self._take(raw, where)
            except (msgspec.DecodeError, ValueError):
                self.report.leave_out(_NO_ROW, where)
                continue
            if row is not None:
                yield row

    def _take(self, raw: bytes, where: str) -> TracedOperation | None:
        """Return the line's row, or None if it has no row. Raises ValueError for an invalid line."""
        if raw.startswith(b'{"id"'):
            self._decoded(_name, raw, where)
            return None
        if raw.startswith(b"{"):
            session = self._decoded(_session, raw, where)
            if session.archiver_tsm_trace != VERSION:
                raise UsageError(f"{where}: its version is {session.archiver_tsm_trace}, not {VERSION}")
            self._sessions[session.session] = session
            return None
        row = _checked(self._decoded(_row, raw, where))
        if (reference := self._reference_of(row)) is not None:
            self._references.add(reference)
        return row

    def _decoded(self, decode: Callable[[bytes], _Line], raw: bytes, where: str) -> _Line:
        try:
            return decode(raw)
        except UnicodeDecodeError:
            self.report.remark(NOT_UTF_8, where)
            return decode(_escaped(raw))

    def _reference_of(self, row: TracedOperation) -> tuple[str, int] | None:
        """Return server and id of a row without a name; None if the row has one."""
        if row.key is None or not row.key.startswith("#"):  # names begin with the / of a file space
            return None
        session = self._sessions.get(row.session)
        return (session.server if session else "", int(row.key[1:]))

    def learn_names(self, paths: Sequence[Path]) -> None:
        """Find the names of objects that were used by id, in all journals."""
        for path in paths if self._references else ():
            for _, raw in lines_of(path):
                if raw is None or not raw.startswith(b'{"id"'):
                    continue
                try:
                    name = _name(_escaped(raw))
                except msgspec.DecodeError:
                    continue  # this line was left out before
                session = self._sessions.get(name.session)
                reference = (session.server if session else "", name.id)
                if reference in self._references:
                    self._names[reference] = name

    def finished(self, row: TracedOperation, began_at_ns: int) -> TracedOperation:
        """Return the row with times since the trace began, its object's name, and its client and session numbers."""
        client, session = self._numbers.get(row.session) or self._numbered(row)
        key, size_bytes = row.key, row.size_bytes
        reference = self._reference_of(row)
        name = self._names.get(reference) if reference else None
        if name is not None:
            key = name.key
            if row.operation == Operation.RANGE_RETRIEVE.label and row.status == Status.OK:
                size_bytes = name.size_bytes
        sent_ns, first_byte_ns, done_ns = (
            None if at is None else at - began_at_ns for at in (row.sent_ns, row.first_byte_ns, row.done_ns)
        )
        return row._replace(
            due_ns=row.due_ns - began_at_ns,
            sent_ns=sent_ns,
            first_byte_ns=first_byte_ns,
            done_ns=done_ns,
            key=key,
            size_bytes=size_bytes,
            client=client,
            session=session,
        )

    def _numbered(self, row: TracedOperation) -> tuple[int, int]:
        session = self._sessions.get(row.session)
        identity = (session.node, session.owner, row.client) if session else ("", "", row.client)
        client = self._clients.setdefault(identity, len(self._clients))
        if client == len(self._session_counts):
            self._session_counts.append(0)
        self._numbers[row.session] = (client, self._session_counts[client])
        self._session_counts[client] += 1
        return self._numbers[row.session]


def _checked(row: TracedOperation) -> TracedOperation:
    """Return the row. Raises ValueError for an impossible one, such as two lines joined when a process was killed."""
    if row.operation not in CODES or not (row.retention_mode is None or row.retention_mode in MODES):
        raise ValueError
    for name, value in zip(row._fields, row, strict=True):
        if isinstance(value, int | float) and not 0 <= value < _ENDS.get(name, 2**63):
            raise ValueError
    if row.key is not None and row.key.startswith("#") and not row.key[1:].isdecimal():
        raise ValueError
    return row


def _escaped(raw: bytes) -> bytes:
    r"""Replace bytes in a line's strings that are not UTF-8 by \xNN."""
    text = raw.decode(errors="surrogateescape")
    return re.sub("[\udc80-\udcff]", _hexadecimal, text).encode()


def _hexadecimal(found: re.Match[str]) -> str:
    return f"\\\\x{ord(found[0]) - 0xDC00:02x}"
