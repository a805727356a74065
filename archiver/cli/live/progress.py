"""Progress of a run on stderr: a live table on a terminal, elsewhere a line at increasing intervals.

The run reports events and continues. A separate thread renders the display once a second.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.live import Live

from archiver.cli.live.console import console
from archiver.cli.live.live_table import LiveTable, plain_line
from archiver.cli.live.meter import Meter
from archiver.engine.coordinator import PhaseOutcome
from archiver.engine.run import ServerLately
from archiver.measure.reports import IntervalReport
from scenarios.model import Phase, Scenario

TABLES_PER_SECOND = 1.0  # the same interval as workers' reports
LINE_SECONDS_MIN = 5.0
LINE_SHARE = 0.02  # of the elapsed time: a day makes about 350 lines


class Progress:
    """Shows a run within a ``with`` block. ``meter`` has the shown values, for other displays."""

    def __init__(
        self, scenario: Scenario, platforms: int, *, enabled: bool, budget_seconds: float | None = None
    ) -> None:
        self.meter = Meter(scenario, platforms, budget_seconds)
        self._console = console()
        self._shown: _Table | _Lines | None = None
        if enabled:
            on_terminal = sys.stderr.isatty() and not self._console.is_dumb_terminal
            self._shown = (_Table if on_terminal else _Lines)(self.meter, self._console)

    def __enter__(self) -> Progress:
        if self._shown is not None:
            self._shown.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown.stop()

    def phase_started(self, phase: Phase, platform: str, server_lately: ServerLately) -> None:
        self.meter.phase_started(phase, platform, server_lately)

    def reported(self, report: IntervalReport) -> None:
        self.meter.reported(report)

    def phase_finished(self, outcome: PhaseOutcome) -> None:
        self.meter.phase_finished(outcome)

    def warned(self, warning: str) -> None:
        self.meter.warned(warning)
        self._console.print(f"archiver: {warning}", style="yellow", soft_wrap=True, highlight=False, markup=False)


def line_pause_seconds(seconds_gone: float) -> float:
    """Return the pause before the next line."""
    return max(LINE_SECONDS_MIN, LINE_SHARE * seconds_gone)


class _Table(Live):
    """A table that disappears at the end of the run."""

    def __init__(self, meter: Meter, console: Console) -> None:
        super().__init__(
            get_renderable=lambda: LiveTable(meter.now()),
            console=console,
            refresh_per_second=TABLES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,  # its replacement carries out escape sequences
        )


class _Lines:
    """Lines with pauses that grow with the run's duration, so that they fill no log."""

    def __init__(self, meter: Meter, console: Console) -> None:
        self._meter = meter
        self._console = console
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress lines", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(line_pause_seconds(time.monotonic() - began)):
            line = plain_line(self._meter.now())
            if line is not None:
                self._console.print(line, soft_wrap=True, highlight=False, markup=False)
