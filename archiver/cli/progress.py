"""Progress of a run on stderr: a live line on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from archiver.assignment import IntervalReport
from archiver.coordinator import PhaseOutcome
from scenarios.model import Phase, Scenario


class Progress:
    """Phase, objects per second so far, time left."""

    def __init__(self, scenario: Scenario, platforms: int, *, enabled: bool) -> None:
        console = Console(stderr=True)
        self._console = console
        self._platforms = platforms
        self._live = enabled and sys.stderr.isatty()
        self._bar = RichProgress(
            TextColumn("{task.description:<42}"),
            TextColumn("{task.fields[rate]:>14}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("phases,"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
            transient=True,
            disable=not self._live,
        )
        self._task = self._bar.add_task(scenario.title, total=len(scenario.phases) * platforms, rate="")
        self._objects = 0
        self._since = time.monotonic()

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def phase_started(self, phase: Phase, platform: str) -> None:
        self._objects = 0
        self._since = time.monotonic()
        label = phase.label if self._platforms == 1 else f"{platform}: {phase.label}"
        self._bar.update(self._task, description=label, rate="")

    def reported(self, report: IntervalReport) -> None:
        self._objects += sum(tally.objects for tally in report.tallies.values())
        seconds = time.monotonic() - self._since
        if seconds > 0:
            self._bar.update(self._task, rate=f"{self._objects / seconds:,.0f} objects/s")

    def phase_finished(self, outcome: PhaseOutcome) -> None:
        self._bar.advance(self._task)

    def source_failed(self, problem: str) -> None:
        self._console.print(f"archiver: {problem}", style="yellow", soft_wrap=True, highlight=False, markup=False)
