"""The runs in a folder and the state of each: running, killed, ended, or not readable.

The lock of a run's results, which the kernel releases, shows whether the run's process is alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from threading import Lock
from time import time_ns

from archiver.engine.resumption import not_resumable
from results.measures.doubts import doubts
from results.recorded.database import FILE_NAME, StoredRun, is_under_way
from results.recorded.run import opened
from results.report.index import ListedRun, listed_run
from results.report.key_figures import KeyFigures

_Fingerprint = tuple[tuple[int, int], ...]
_SETTLED_NS = 5 * 10**9  # a transaction takes less time from its first byte to its end


class RunState(StrEnum):
    """State of a run."""

    RUNNING = "running"
    KILLED = "killed"  # its process ended without recording the end of the run
    ENDED = "ended"
    UNREADABLE = "cannot be read"


@dataclass(frozen=True, slots=True)
class ShownRun:
    """One run of the list."""

    id: str  # name of its folder
    folder: Path
    state: RunState
    figures: KeyFigures | None  # with ``words`` as their verdict; None: not readable
    problem: str  # why it cannot be read
    fingerprint: _Fingerprint  # changes with the database

    @property
    def database(self) -> Path:
        return self.folder / FILE_NAME

    @property
    def colour(self) -> str:
        """Return the state of the figures, which colours them; empty for a run in progress, which has no verdict."""
        return "" if self.figures is None or self.state is RunState.RUNNING else self.figures.state

    @property
    def words(self) -> str:
        """Return the verdict of a run that has ended; otherwise its state."""
        if self.state is RunState.ENDED and self.figures is not None:
            return self.figures.verdict
        return self.state.value


@dataclass(frozen=True, slots=True)
class RunDetails:
    """The record of one run, and its warnings."""

    row: StoredRun
    finished: int  # phases
    warnings: tuple[str, ...]

    @property
    def is_resumable(self) -> bool:
        """Whether `archiver resume` can continue the run."""
        return not_resumable(self.row) is None


class RunList:
    """The runs in one folder. A database is read again only after a change. All methods are thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()  # one reader at a time, so that no database is read twice
        self._read: dict[Path, tuple[_Fingerprint, ListedRun]] = {}

    def runs(self) -> Mapping[str, ShownRun]:
        """Return every run by its id, the latest first. Runs that cannot be read come last."""
        with self._lock:
            found = [self._shown(path) for path in self._paths().values()]
        found.sort(key=lambda run: (run.figures is None, -run.figures.started_at if run.figures else 0.0, run.id))
        return {run.id: run for run in found}

    def run(self, name: str) -> ShownRun | None:
        """Return one run; None if the folder has no such run."""
        path = self._paths().get(name)  # never make a path from a request's text
        return None if path is None else self._shown(path)

    def names(self) -> list[str]:
        """Return the ids of all runs, the latest first, without reading the runs."""
        return sorted(self._paths(), reverse=True)

    def _paths(self) -> dict[str, Path]:
        return {path.parent.name: path for path in self._folder.glob(f"*/{FILE_NAME}")}

    def _shown(self, path: Path) -> ShownRun:
        # Check this before the database is read: a process that has ended by now has recorded its end, or never will.
        writer_is_alive = is_under_way(path)
        fingerprint = _fingerprint(path)
        kept = self._read.get(path)
        if kept is None or kept[0] != fingerprint:
            kept = self._read[path] = fingerprint, listed_run(path)
        _, listed = kept
        figures = listed.figures
        if figures is None:
            state = RunState.UNREADABLE
        elif figures.has_ended:
            state = RunState.ENDED
        else:
            state = RunState.RUNNING if writer_is_alive else RunState.KILLED
        if figures is not None and state is not RunState.ENDED:
            figures = replace(figures, verdict=state.value)
        return ShownRun(path.parent.name, path.parent, state, figures, listed.problem, fingerprint)


def run_details(path: Path) -> RunDetails:
    """Return the record of a run. Raises ResultsError."""
    with opened(path) as recorded:
        return RunDetails(recorded.run, recorded.phases_finished, tuple(doubts(recorded)))


def _fingerprint(path: Path) -> _Fingerprint:
    """Return size and time of the last change of a database and of its write-ahead log.

    A transaction is in the file before readers see it. The fingerprint of a file that changed less than 5 s ago
    therefore never repeats, so that nothing read before the transaction stays cached after it.
    """
    found = []
    for each in (path, path.with_name(f"{path.name}-wal")):
        try:
            status = each.stat()
        except FileNotFoundError:
            found.append((0, 0))
        else:
            found.append((status.st_size, status.st_mtime_ns))
    now = time_ns()
    if now - max(changed for _, changed in found) < _SETTLED_NS:
        found.append((0, now))
    return tuple(found)
