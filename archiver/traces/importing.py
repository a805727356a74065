"""Import of servers' logs as a trace.

One idea: the order of lines is not reliable. The import therefore writes all lines to a trace as they come, sorts it
like any other trace, and assigns streams and sessions when the order is known. No line is lost silently: a request
without a counterpart becomes an operation `other`. A line without a request is counted by reason, with the numbers of
the first lines.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import unquote

from archiver.traces.capture.calls import OTHER, CapturedCall, PartialRequest, read_call
from archiver.traces.capture.framing import Unreadable
from archiver.traces.format import Origin, Trace, TracedOperation, TraceInfo, TraceWriter, rows_of
from archiver.traces.logs import LogEntry, LogReader, Refused, reader_of
from archiver.traces.merging import in_order, spill_folder
from archiver.traces.streams import Streams
from archiver.values.errors import UsageError
from archiver.values.record import Operation, Status

KINDS = ("aws", "minio", "nginx", "haproxy")
LINE_BYTES_MAX = 1 << 20  # longer lines are not log lines; S3 keys and user agents are far shorter
LINES_QUOTED = 5  # quoted lines per reason
STATUS_MAX = 999
_GZIP = b"\x1f\x8b"
_TOO_LONG = f"is longer than {LINE_BYTES_MAX:,} bytes, or its file is damaged from here on"
_NOT_UTF_8 = "is not UTF-8; the other bytes are kept escaped"
_NOT_UNDERSTOOD = "has a request that is not understood; kept as `other`"
_HOLD_OR_RELEASE = "does not say whether a hold was set or lifted; kept as `other`"
_LIST_OF_DELETIONS = "does not say which objects were deleted; kept as `other`"


@dataclass(slots=True)
class Reason:
    """Lines that have the same problem."""

    lines: int = 0
    first: list[str] = field(default_factory=list)  # such as access.log:17


@dataclass(slots=True)
class ImportReport:
    """Counts of the lines of some logs, and the trace made from them."""

    info: TraceInfo
    lines: int = 0
    left_out: dict[str, Reason] = field(default_factory=dict)
    remarks: dict[str, Reason] = field(default_factory=dict)  # about lines that are in the trace
    whole_seconds: bool = False  # the log has no finer times
    strict: bool = False  # the first line with a problem is an error

    @property
    def lines_left_out(self) -> int:
        return sum(reason.lines for reason in self.left_out.values())

    def leave_out(self, reason: str, where: str) -> None:
        """Count a line that is not in the trace. Raises UsageError if the import is strict."""
        self._note(self.left_out, reason, where)

    def remark(self, reason: str, where: str) -> None:
        """Count a line that is in the trace in changed form. Raises UsageError if the import is strict."""
        self._note(self.remarks, reason, where)

    def _note(self, reasons: dict[str, Reason], reason: str, where: str) -> None:
        if self.strict:
            raise UsageError(f"{where}: {reason}; without --strict it is counted")
        noted = reasons.setdefault(reason, Reason())
        noted.lines += 1
        if len(noted.first) < LINES_QUOTED:
            noted.first.append(where)


def import_logs(
    out: Path,
    paths: Sequence[Path],
    kind: str,
    *,
    pattern: str | None = None,
    strict: bool = False,
    overwrite: bool = False,
) -> ImportReport:
    """Write the trace of logs of one kind, plain or compressed with gzip.

    ``strict``: the first line that is left out or remarked on is an error. Raises UsageError.
    """
    reading = _LogReading(reader_of(kind, pattern), strict)
    origins = [Origin(kind, path.name) for path in paths]
    with spill_folder(out) as folder, TraceWriter(out, 0, origins, overwrite=overwrite) as writer:
        with TraceWriter(folder / "lines", 0, origins) as lines:
            for path in paths:
                for operation in reading.operations(path):
                    lines.add(operation)
            for operation in reading.unfinished():
                lines.add(operation)
            if not lines.close().operations:
                raise _nothing_in(paths, kind, reading.report)
        streams = Streams(10**9 if reading.report.whole_seconds else 0)
        began_at_ns: int | None = None
        for batch in in_order(Trace.open(folder / "lines"), folder):
            for row in rows_of(batch):
                if began_at_ns is None:
                    began_at_ns = row.due_ns
                    writer.begin_at(began_at_ns)
                writer.add(_numbered(row, began_at_ns, streams))
        reading.report.info = writer.close()
    return reading.report


@dataclass(slots=True)
class _LoggedUpload:
    """A multipart upload, which becomes the one operation that a replay repeats."""

    begun: TracedOperation
    sizes: dict[int, int | None] = field(default_factory=dict)  # of its parts, by number
    source: str | None = None

    def whole(self, end: TracedOperation, object_bytes: int | None) -> TracedOperation:
        """Return the row of the whole upload until ``end``; its ``length`` is the part size."""
        parts = [self.sizes[number] for number in sorted(self.sizes)]
        known = [size for size in parts if size is not None]
        whole = sum(known) if parts and len(known) == len(parts) else None
        return self.begun._replace(
            operation=(Operation.COPY if self.source else Operation.ARCHIVE).label,
            source=self.source,
            size_bytes=object_bytes if object_bytes is not None else whole,
            length=parts[0] if parts else None,
            first_byte_ns=end.first_byte_ns,
            done_ns=end.done_ns,
            status=end.status,
        )

    def broken_off(self) -> TracedOperation:
        """Return the row of an upload without an end."""
        return self.begun._replace(operation=OTHER, size_bytes=sum(size or 0 for size in self.sizes.values()))


class _LogReading:
    """Conversion of lines to rows. A client is an address with a credential, and a session is a connection."""

    def __init__(self, read: LogReader, strict: bool) -> None:
        self.report = ImportReport(TraceInfo(0), strict=strict)
        self._read = read
        self._clients: dict[tuple[str, str], int] = {}
        self._created: dict[str, _LoggedUpload] = {}  # by key, because a log does not have the upload id of a creation
        self._uploads: dict[tuple[str, str], _LoggedUpload] = {}

    def operations(self, path: Path) -> Iterator[TracedOperation]:
        """Yield every request of a log as a row, with times since the epoch."""
        for number, raw in _lines_in(path):
            self.report.lines += 1
            where = f"{path.name}:{number}"
            if raw is None:
                self.report.leave_out(_TOO_LONG, where)
                continue
            line = self._decoded(raw, where)
            if not line.strip():
                continue
            try:
                entry = self._read(line)
                if not -1 <= entry.status <= STATUS_MAX:
                    raise Refused("has an impossible status")
            except Refused as refused:
                self.report.leave_out(str(refused), where)
                continue
            self.report.whole_seconds |= entry.whole_seconds
            yield from self._rows(entry, where)

    def unfinished(self) -> Iterator[TracedOperation]:
        """Yield uploads that no line completed."""
        for upload in (*self._created.values(), *self._uploads.values()):
            yield upload.broken_off()

    def _decoded(self, raw: bytes, where: str) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.report.remark(_NOT_UTF_8, where)
            return raw.decode(errors="backslashreplace")

    def _rows(self, entry: LogEntry, where: str) -> Iterator[TracedOperation]:
        call = self._call_of(entry, where)
        status = _status_of(entry.status)
        row = TracedOperation(
            entry.began_ns,
            entry.began_ns,
            entry.first_byte_ns,
            entry.done_ns,
            call.operation,
            call.key or None,
            call.source,
            offset=call.offset,
            length=call.length,
            retention_mode=call.retention_mode,
            retain_for_seconds=_retain_for(call, entry),
            legal_hold=call.legal_hold,
            client=self._clients.setdefault((entry.address, entry.credential), len(self._clients)),
            session=hash((entry.address, entry.connection)) & (2**63 - 1) if entry.connection else 0,
            status=status,
        )
        if entry.label is not None:
            yield row._replace(operation=entry.label, size_bytes=entry.object_bytes)
        elif call.part is PartialRequest.DELETE_LIST:
            yield from self._deletions(entry, row, where)
        elif call.part is not None:
            yield from self._upload(entry, call, row)
        elif call.operation == Operation.HOLD.label:
            self.report.remark(_HOLD_OR_RELEASE, where)
            yield row._replace(operation=OTHER)
        else:
            yield _sized(row, entry, call)

    def _call_of(self, entry: LogEntry, where: str) -> CapturedCall:
        lines = [b"%b %b HTTP/1.1" % (entry.method, entry.target)]
        lines += [b"%b: %b" % (name, b" ".join(value.split())) for name, value in entry.headers.items()]
        if entry.method and entry.target:
            try:
                return read_call(b"\r\n".join(lines), ())[0]
            except Unreadable:
                pass
        if entry.label is None:
            self.report.remark(_NOT_UNDERSTOOD, where)
        return CapturedCall(b"", OTHER, unquote(entry.target.decode("latin-1")).strip("/"))

    def _deletions(self, entry: LogEntry, row: TracedOperation, where: str) -> Iterator[TracedOperation]:
        if not entry.deleted:
            self.report.remark(_LIST_OF_DELETIONS, where)
            yield row
        for each in entry.deleted:
            label = Operation.DELETE if each.has_version else Operation.DELETE_MARKER
            yield row._replace(operation=label.label, key=each.name)

    def _upload(self, entry: LogEntry, call: CapturedCall, row: TracedOperation) -> Iterator[TracedOperation]:
        if call.part is PartialRequest.CREATE:
            if call.key in self._created:
                yield self._created[call.key].broken_off()
            self._created[call.key] = _LoggedUpload(row)
            return
        upload = (
            self._uploads.get((call.key, call.upload_id)) or self._created.pop(call.key, None) or _LoggedUpload(row)
        )
        self._uploads[call.key, call.upload_id] = upload
        if call.part is PartialRequest.PART:
            if row.status == Status.OK:
                size = call.size_bytes if call.source or call.size_bytes is not None else entry.received_bytes
                upload.sizes[call.part_number] = size if size is not None else entry.object_bytes
                upload.source = call.source or upload.source
        elif call.part is PartialRequest.ABORT:
            del self._uploads[call.key, call.upload_id]
            yield upload.broken_off()
        elif row.status == Status.OK:
            del self._uploads[call.key, call.upload_id]
            yield upload.whole(row, entry.object_bytes)


def _retain_for(call: CapturedCall, entry: LogEntry) -> float | None:
    return None if call.retain_until is None else max(0.0, call.retain_until - entry.began_ns / 1e9)


def _sized(row: TracedOperation, entry: LogEntry, call: CapturedCall) -> TracedOperation:
    """Return the row with the size of its object, or of the transfer, and with the range."""
    good = row.status == Status.OK
    if row.operation in (Operation.RETRIEVE.label, Operation.RANGE_RETRIEVE.label) and good:
        if entry.status == 206:
            length = row.length if row.length is not None else entry.sent_bytes
            size = entry.object_bytes if entry.object_bytes is not None else length
            return row._replace(operation=Operation.RANGE_RETRIEVE.label, length=length, size_bytes=size)
        size = entry.object_bytes if entry.object_bytes is not None else entry.sent_bytes
        return row._replace(operation=Operation.RETRIEVE.label, offset=None, length=None, size_bytes=size)
    if row.operation == Operation.ARCHIVE.label:
        sizes = (entry.object_bytes, call.size_bytes, entry.received_bytes)
        return row._replace(size_bytes=next((size for size in sizes if size is not None), None))
    if row.operation in ("list", OTHER):
        return row._replace(size_bytes=(entry.sent_bytes or 0) + (entry.received_bytes or 0))
    return row._replace(size_bytes=entry.object_bytes)


def _status_of(status: int) -> int:
    """Return the status of a row: 2xx is good, below 200 the connection was lost."""
    if 200 <= status < 300:
        return Status.OK
    return status if status >= 300 else Status.CONNECTION_LOST


def _numbered(row: TracedOperation, began_at_ns: int, streams: Streams) -> TracedOperation:
    """Return the row with times since the trace began and with its stream and session numbers."""
    client, session = streams.of(row.client, row.session or None, row.due_ns, row.done_ns)
    due_ns = row.due_ns - began_at_ns
    first_byte_ns, done_ns = (None if at is None else at - began_at_ns for at in (row.first_byte_ns, row.done_ns))
    return row._replace(
        due_ns=due_ns, sent_ns=due_ns, first_byte_ns=first_byte_ns, done_ns=done_ns, client=client, session=session
    )


def _lines_in(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield numbered lines without line ends; None for a line that is too long, and where the file is damaged."""
    number = 0
    try:
        with _opened(path) as file:
            while line := file.readline(LINE_BYTES_MAX + 1):
                number += 1
                if len(line) > LINE_BYTES_MAX and not line.endswith(b"\n"):
                    while (rest := file.readline(LINE_BYTES_MAX)) and not rest.endswith(b"\n"):
                        pass
                    yield number, None
                else:
                    yield number, line.rstrip(b"\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error):  # the compressed file is truncated or damaged
        yield number + 1, None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    with path.open("rb") as file:
        is_compressed = file.read(len(_GZIP)) == _GZIP
    return gzip.open(path) if is_compressed else path.open("rb")


def _nothing_in(paths: Sequence[Path], kind: str, report: ImportReport) -> UsageError:
    """Return the error for logs without any request."""
    names = ", ".join(str(path) for path in paths)
    if not report.left_out:
        return UsageError(f"{names}: the log has no lines")
    reason, noted = next(iter(report.left_out.items()))
    return UsageError(f"{names}: no request of --kind {kind} in {report.lines:,} lines; {noted.first[0]} {reason}")
