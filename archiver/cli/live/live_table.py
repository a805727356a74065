"""A run on a terminal: current and recent phases as a small table, and the last minute as a sparkline.

Each table shows one moment of the run in the current width of the terminal. A narrow terminal omits the least important
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.table import Table
from rich.text import Text

from archiver.cli.live.meter import Moment
from archiver.values.sizes import format_clock, format_milliseconds, format_percent, format_rate
from archiver.web.live_state import LiveFigures

_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class LiveTable:
    """One moment of a run, for display by rich."""

    moment: Moment

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        when = _line(_when(self.moment))
        failures = [words for platform in self.moment.tried if (words := _failures(self.moment, platform))]
        if failures:
            when = Text.assemble(
                (f"{'; '.join(failures)} so far, ", "bold red"), when, no_wrap=True, overflow="ellipsis"
            )
        history = self.moment.objects_by_second
        drawn = [] if options.ascii_only or not history else [_line(_history(history, width))]
        yield Group(_line(_where(self.moment)), when, _table(self.moment, width), *drawn)


def plain_line(moment: Moment) -> str | None:
    """Return one line for the current phase or, before it has values, for the previous one.

    Returns None before both.
    """
    figures = moment.current
    if (figures is None or figures.objects_per_second is None) and moment.finished:
        figures = moment.finished[-1]
    if figures is None or figures.objects_per_second is None or figures.megabytes_per_second is None:
        return None
    words = [
        f"{format_rate(figures.objects_per_second)} objects/s",
        f"{figures.megabytes_per_second:,.1f} MB/s",
        *([f"p99 {format_milliseconds(figures.p99_milliseconds)} ms"] if figures.p99_milliseconds is not None else []),
        _failures(moment, figures.platform) or _errors(0),
        *_cpu_words(figures),
    ]
    return f"{_phase_number(figures, moment)} {figures.label}: {', '.join(words)}"


def _where(moment: Moment) -> str:
    shown = moment.current or (moment.finished[-1] if moment.finished else None)
    return moment.title if shown is None else f"{_phase_number(shown, moment)} {shown.label}"


def _phase_number(figures: LiveFigures, moment: Moment) -> str:
    where = f" on {figures.platform}," if moment.platforms > 1 else ""
    return f"phase {figures.position}/{moment.phases}{where}"


def _when(moment: Moment) -> str:
    left = "" if moment.seconds_left is None else f", about {format_clock(moment.seconds_left)} left"
    return f"{format_clock(moment.seconds)} gone{left}"


def _line(text: str) -> Text:
    return Text(text, no_wrap=True, overflow="ellipsis")


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    width: int
    from_width: int  # minimum width of the terminal for this column
    cell: Callable[[LiveFigures], str]


_COLUMNS = (
    _Column("\nclients", 7, 66, lambda figures: f"{figures.clients:,}"),
    _Column("objects\n/s", 7, 0, lambda figures: format_rate(figures.objects_per_second)),
    _Column("\nMB/s", 7, 42, lambda figures: format_rate(figures.megabytes_per_second)),
    _Column("p50\n(ms)", 6, 72, lambda figures: format_milliseconds(figures.p50_milliseconds)),
    _Column("p99\n(ms)", 6, 34, lambda figures: format_milliseconds(figures.p99_milliseconds)),
    _Column("\nerrors", 6, 50, lambda figures: f"{figures.errors:,}"),
    _Column("server\ncpu", 6, 58, lambda figures: format_percent(figures.server_cpu_percent)),
    _Column("host\ncpu", 6, 58, lambda figures: format_percent(figures.host_cpu_percent)),
    _Column("disk\nbusy", 4, 78, lambda figures: format_percent(figures.disk_busy_percent)),
)


def _table(moment: Moment, width: int) -> Table:
    rows = [*moment.finished, *([moment.current] if moment.current is not None else [])]
    several = moment.platforms > 1
    # Show the host's processors if the CPU of the server's processes is unknown. The platform's name needs the space of
    # the clients, which the first line also shows.
    hidden = {
        "host\ncpu" if any(row.server_cpu_percent is not None for row in rows) else "server\ncpu",
        *(["\nclients"] if several else []),
    }
    columns = [column for column in _COLUMNS if width >= column.from_width and column.head not in hidden]
    table = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False, header_style="dim")
    # Only this column may be truncated, because a truncated number would be another number.
    table.add_column("\nphase", max_width=44 if several else 30)
    for column in columns:
        table.add_column(column.head, justify="right", no_wrap=True, min_width=column.width)
    for row in rows:
        style = "" if row is moment.current else "dim"
        table.add_row(_line(_name(row, several)), *(column.cell(row) for column in columns), style=style)
    return table


def _name(figures: LiveFigures, several: bool) -> str:
    return figures.name + (f", {figures.platform}" if several else "")


def _history(counts: Sequence[int], width: int) -> str:
    caption = f" objects/s, up to {max(counts):,}"
    latest = counts[-max(1, width - len(caption)) :]
    return f"{sparkline(latest)} objects/s, up to {max(latest):,}"


def sparkline(values: Sequence[float]) -> str:
    """Return one character per value, from zero to the maximum."""
    greatest = max(values, default=0)
    return "".join(_BARS[round(value / greatest * (len(_BARS) - 1))] if greatest else _BARS[0] for value in values)


def _cpu_words(figures: LiveFigures) -> list[str]:
    for name, percent in (("server", figures.server_cpu_percent), ("host", figures.host_cpu_percent)):
        if percent is not None:
            return [f"{name} cpu {format_percent(percent)}"]
    return []


def _failures(moment: Moment, platform: str) -> str:
    """Return the errors and retries on a platform so far, named if there are several; empty if there are none."""
    errors, retries = moment.failures_on(platform)
    if not errors and not retries:
        return ""
    again = f", {retries:,} retried" if retries else ""
    where = f" on {platform}" if moment.platforms > 1 else ""
    return f"{_errors(errors)}{again}{where}"


def _errors(count: int) -> str:
    return f"{count:,} error{'' if count == 1 else 's'}"
