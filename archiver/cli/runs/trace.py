"""``archiver trace``: inspect traces, make them from logs or models, and transform them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from archiver.cli.parameters import DURATION
from archiver.traces.anonymising import anonymise
from archiver.traces.changing import TraceSelection, cut, scale
from archiver.traces.format import Trace, TracedOperation, TraceInfo
from archiver.traces.generating import generate
from archiver.traces.importing import KINDS, Reason, import_logs
from archiver.traces.merging import merge, sort
from archiver.traces.summary import KindSummary, Summary, summarise
from archiver.values.errors import UsageError
from archiver.values.sizes import format_bytes, format_instant
from archiver.values.visible import visible_line
from results.document.files import json_text
from results.document.table import NOT_MEASURED, Cell, Column, Table
from results.document.text import render_text
from scenarios.reading.reader import scenario_text
from scenarios.work.application_model import model_of

_WIDTH = 132
_Command = TypeVar("_Command", bound=Callable[..., Any])
_FILE = click.Path(dir_okay=False, path_type=Path)


def _out_and_file(command: _Command) -> _Command:
    """Add the arguments of a command that transforms a trace."""
    for parameter in (_overwrite, click.argument("file", type=_FILE), click.argument("out", type=_FILE)):
        command = parameter(command)
    return command


def _overwrite(command: _Command) -> _Command:
    option: Callable[[_Command], _Command] = click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
    return option(command)


@click.group()
def trace() -> None:
    """Make, inspect and change traces.

    A trace is a file of the operations that were sent to a store, and when.

    \b
    Example:
        archiver trace --help
    """


@trace.command("info")
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with all numbers.")
def info_command(files: Sequence[Path], as_json: bool) -> None:
    """Print statistics of traces.

    Prints operations by kind, sizes, streams, rates, and the objects that FILE reads but never writes.

    \b
    Example:
        archiver trace info day.parquet
    """
    summaries = [(file, summarise(file)) for file in files]
    if as_json:
        click.echo(json_text({"traces": [_document(file, summary) for file, summary in summaries]}), nl=False)
        return
    for file, summary in summaries:
        click.echo(render_text(_table(file, summary), _WIDTH), nl=False)
        for line in _sentences(summary):
            click.echo(line)


@trace.command("head")
@click.argument("file", type=_FILE)
@click.option("--rows", "-n", type=click.IntRange(1), default=10, show_default=True, help="Number of operations.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document with all columns.")
def head_command(file: Path, rows: int, as_json: bool) -> None:
    """Print the first operations of FILE.

    \b
    Example:
        archiver trace head day.parquet
    """
    opened = Trace.open(file)
    found = list(islice(opened.operations(), rows))
    if as_json:
        click.echo(json_text({"operations": [row._asdict() for row in found]}), nl=False)
        return
    click.echo(render_text(_head(file, found), _WIDTH), nl=False)


@trace.command("merge")
@click.argument("out", type=_FILE)
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@_overwrite
def merge_command(out: Path, files: Sequence[Path], overwrite: bool) -> None:
    """Merge traces into one, in order of time.

    Every stream of every FILE gets a new number. The command also makes one trace of the files of `archiver run
    --op-log`.

    \b
    Example:
        archiver trace merge week.parquet day.parquet other.parquet
    """
    _tell(out, merge(out, files, overwrite=overwrite))


@trace.command("sort")
@_out_and_file
def sort_command(out: Path, file: Path, overwrite: bool) -> None:
    """Sort a trace by time.

    \b
    Example:
        archiver trace sort sorted.parquet day.parquet
    """
    _tell(out, sort(out, file, overwrite=overwrite))


@trace.command("cut")
@_out_and_file
@click.option(
    "--from",
    "from_seconds",
    type=DURATION,
    help="Leave out operations that are due before this time after FILE began, for example 90s or 1h.",
)
@click.option("--to", "to_seconds", type=DURATION, help="Leave out operations that are due at this time or later.")
@click.option("--clients", metavar="N,N-N...", help="Keep only these streams.")
@click.option("--operations", metavar="NAME,...", help="Keep only these operations, for example archive,retrieve.")
def cut_command(
    out: Path,
    file: Path,
    overwrite: bool,
    from_seconds: float | None,
    to_seconds: float | None,
    clients: str | None,
    operations: str | None,
) -> None:
    """Write a part of FILE.

    OUT begins at --from.

    \b
    Example:
        archiver trace cut part.parquet day.parquet --operations archive,retrieve
    """
    part = TraceSelection(
        from_seconds,
        to_seconds,
        None if clients is None else _numbers(clients),
        None if operations is None else {name.strip() for name in operations.split(",")},
    )
    _tell(out, cut(out, file, part, overwrite=overwrite))


@trace.command("scale")
@_out_and_file
@click.option("--speed", type=float, default=1.0, show_default=True, help="Factor of the speed.")
@click.option("--sizes", type=float, default=1.0, show_default=True, help="Factor of the object sizes.")
def scale_command(out: Path, file: Path, overwrite: bool, speed: float, sizes: float) -> None:
    """Change the speed or the object sizes of a trace.

    --speed changes only when operations are due. How long each one took stays as recorded.

    \b
    Example:
        archiver trace scale twice.parquet day.parquet --speed 2
    """
    _tell(out, scale(out, file, speed=speed, sizes=sizes, overwrite=overwrite))


@trace.command("anonymise")
@_out_and_file
@click.option(
    "--key-file", type=_FILE, required=True, help="File with the secret: at least 16 bytes, readable only by its owner."
)
def anonymise_command(out: Path, file: Path, overwrite: bool, key_file: Path) -> None:
    """Replace the object names of a trace by hashes.

    \b
    Example:
        archiver trace anonymise public.parquet day.parquet --key-file trace.key

    Make a secret with (umask 077; head -c 32 /dev/urandom > trace.key). It is neither stored nor shown. Traces that
    were made with the same secret have the same names. Lengths and extensions of names are removed. The depth of
    folders, the number of objects in each, sizes, times and retention remain visible.
    """
    _tell(out, anonymise(out, file, key_file, overwrite=overwrite))


@trace.command("import")
@click.argument("logs", nargs=-1, required=True, type=_FILE, metavar="LOG...")
@click.argument("out", type=_FILE)
@click.option("--kind", type=click.Choice(KINDS), required=True, help="Program that wrote the logs.")
@click.option(
    "--pattern", metavar="REGEX", help="nginx, haproxy: expression that matches a line  [default: the usual format]"
)
@click.option("--strict", is_flag=True, help="Stop at the first line that cannot be read or kept completely.")
@_overwrite
def import_command(
    logs: Sequence[Path], out: Path, kind: str, pattern: str | None, strict: bool, overwrite: bool
) -> None:
    """Make a trace from access logs.

    Reads logs of Amazon S3, MinIO (audit log), nginx and HAProxy.

    \b
    Example:
        archiver trace import --kind nginx access.log web.parquet

    Lines may be in any order, and logs may be compressed with gzip. Lines that are not requests are left out, counted
    and reported. A request without a matching operation becomes the operation `other`. REGEX matches a whole line and
    has groups (?P<time>...), (?P<status>...), (?P<request>...) and others. docs/traces.md lists them, and has log
    formats with everything that a trace can hold.
    """
    report = import_logs(out, logs, kind, pattern=pattern, strict=strict, overwrite=overwrite)
    for reason, noted in report.left_out.items():
        click.echo(f"left out: {_noted(noted)}: {reason}", err=True)
    for reason, noted in report.remarks.items():
        click.echo(f"kept: {_noted(noted)}: {reason}", err=True)
    if report.whole_seconds:
        click.echo("the log has whole seconds: operations of one second are due at once, in the log's order", err=True)
    _tell(out, report.info, f" of {_count(report.lines, 'line')}, {report.lines_left_out:,} left out")


@trace.command("generate")
@click.argument("out", type=_FILE)
@click.option(
    "--scenario", required=True, metavar="FILE|NAME", help="Scenario with the model, in a [[phase.replay]] table."
)
@click.option("--application", required=True, metavar="NAME", help="Name of the application in that table.")
@click.option(
    "--seconds", type=DURATION, help="Duration of the trace, for example 20s or 1h  [default: the phase's seconds]"
)
@click.option(
    "--capacity-scale",
    type=float,
    default=1.0,
    show_default=True,
    help="Share of the application's capacity that exists beforehand.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the random choices.")
@_overwrite
def generate_command(
    out: Path,
    scenario: str,
    application: str,
    seconds: float | None,
    capacity_scale: float,
    seed: int,
    overwrite: bool,
) -> None:
    """Write the trace of an application model.

    \b
    Example:
        archiver trace generate mail.parquet --scenario application-sets --application "mail server" --seconds 20s

    The trace records that it comes from a model and is no recording. docs/application-sets.md describes the models.
    """
    where, text = scenario_text(scenario)
    model, phase_seconds, capacity_bytes = model_of(text, where, application)
    seconds = phase_seconds if seconds is None else seconds
    if seconds is None:
        raise UsageError(f"{where}: the phase of {application!r} has no duration; give --seconds")
    if not 0 < capacity_scale <= 1:
        raise UsageError(f"--capacity-scale {capacity_scale:g}: write a share above 0 and up to 1")
    info = generate(
        out,
        model,
        name=application,
        seconds=seconds,
        lies_there_bytes=math.ceil(capacity_bytes * capacity_scale),
        seed=seed,
        overwrite=overwrite,
    )
    _tell(out, info)


def _noted(noted: Reason) -> str:
    more = ", ..." if noted.lines > len(noted.first) else ""
    return f"{_count(noted.lines, 'line')} ({', '.join(noted.first)}{more})"


def _numbers(text: str) -> set[int]:
    """Return the numbers of ``0,3,5-9``."""
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UsageError(f"--clients {text}: {part.strip()!r} is no number of a stream; write 0,3,5-9")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _tell(out: Path, info: TraceInfo, more: str = "") -> None:
    operations, streams = _count(info.operations, "operation"), _count(info.streams, "stream")
    click.echo(f"{out}: {operations}{more}, {streams}")
    if not info.rises:
        click.echo(f"it is not in order of time; before a replay: archiver trace sort OUT {out}", err=True)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _table(file: Path, summary: Summary) -> Table:
    sizes = ("smallest", "median", "99%", "largest")
    columns = (
        Column("operation", label=True), Column("operations"), Column("failed"), Column("transferred"),
        *(Column(name, "size") for name in sizes), Column("of unknown size"),
    )  # fmt: skip
    return Table(
        "trace",
        f"Trace {file}",
        columns,
        tuple(_row(name, kind) for name, kind in sorted(summary.kinds.items(), key=lambda each: -each[1].operations)),
        f"sha256 {summary.sha256}",
    )


def _row(name: str, kind: KindSummary) -> tuple[Cell, ...]:
    return (
        Cell(name),
        Cell(f"{kind.operations:,}", kind.operations),
        Cell(f"{kind.failed:,}", kind.failed),
        Cell(format_bytes(kind.bytes), kind.bytes),
        *(_size(kind.size(percent)) for percent in (0, 50, 99, 100)),
        Cell(f"{kind.unknown_sizes:,}", kind.unknown_sizes),
    )


def _size(size_bytes: int | None) -> Cell:
    return Cell(NOT_MEASURED) if size_bytes is None else Cell(format_bytes(size_bytes), size_bytes)


def _sentences(summary: Summary) -> list[str]:
    info, rate = summary.info, summary.operations_per_second
    share = summary.read_share()
    origins = dict.fromkeys(f"{origin.kind} {origin.name}".strip() for origin in info.origins)
    lines = [
        f"from {', '.join(origins) or 'unknown'}; began {format_instant(info.began_at_ns / 1e9)}"
        + ("; keys are anonymised" if info.anonymised else ""),
        *(f"changed: {change}" for change in info.changes),
        f"{_count(summary.operations, 'operation')} on objects in {summary.seconds:,.3f} s"
        + (f", {rate:,.2f}/s" if rate is not None else "")
        + (f"; {share:.0%} reads, {1 - share:.0%} writes" if share is not None else ""),
        f"{_count(summary.streams, 'stream')}, {_count(summary.sessions, 'session')}",
        f"objects that it needs but did not write before: {summary.unwritten:,}",
    ]
    if not summary.rises:
        lines.append("not in order of time; archiver trace sort OUT FILE")
    return lines


def _document(file: Path, summary: Summary) -> dict[str, Any]:
    info = summary.info
    return {
        "file": str(file),
        "sha256": summary.sha256,
        "began_at_epoch_ns": info.began_at_ns,
        "origins": [asdict(origin) for origin in info.origins],
        "changes": list(info.changes),
        "anonymised": info.anonymised,
        "rows": info.operations,
        "operations": summary.operations,
        "seconds": summary.seconds,
        "operations_per_second": summary.operations_per_second,
        "read_share": summary.read_share(),
        "streams": summary.streams,
        "sessions": summary.sessions,
        "rises": summary.rises,
        "unwritten_objects": summary.unwritten,
        "kinds": {
            name: {
                "operations": kind.operations,
                "failed": kind.failed,
                "transferred_bytes": kind.bytes,
                "unknown_sizes": kind.unknown_sizes,
                **{f"size_bytes_p{percent}": kind.size(percent) for percent in (0, 50, 99, 100)},
            }
            for name, kind in sorted(summary.kinds.items())
        },
    }


def _head(file: Path, rows: Sequence[TracedOperation]) -> Table:
    columns = (
        Column("due", "s"), Column("stream"), Column("session"), Column("operation", words=True),
        Column("key", words=True), Column("size", "bytes"), Column("range", words=True), Column("took", "ms"),
        Column("status"),
    )  # fmt: skip
    return Table("head", f"First operations of {file}", columns, tuple(_head_row(row) for row in rows))


def _head_row(row: TracedOperation) -> tuple[Cell, ...]:
    took_ns = None if row.done_ns is None or row.sent_ns is None else row.done_ns - row.sent_ns
    known_range = "" if row.offset is None and row.length is None else f"{_or_dash(row.offset)}+{_or_dash(row.length)}"
    return (
        Cell(f"{row.due_ns / 1e9:.6f}"),
        Cell(str(row.client)),
        Cell(str(row.session)),
        Cell(row.operation),
        Cell(visible_line(row.key or "")),
        Cell(_or_dash(row.size_bytes)),
        Cell(known_range),
        Cell(NOT_MEASURED if took_ns is None else f"{took_ns / 1e6:.3f}"),
        Cell(str(row.status)),
    )


def _or_dash(number: int | None) -> str:
    return NOT_MEASURED if number is None else f"{number:,}"
