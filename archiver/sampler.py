"""Asks every source of server resource usage once a second and at every phase's edges, on the run's clock.

One idea: each source has a thread of its own, so that a slow one delays no other; one that fails is reported once, left
out at the edges, and asked again until it answers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from archiver.watch.source import Source, WatchError
from results.resources import SampleRow, Timeline

PERIOD_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Why a source could not be read, the first time."""

    source: str
    at: float  # epoch seconds
    problem: str


class ResourceSampler:
    """Keeps the samples of several sources."""

    def __init__(self, sources: Sequence[Source], period_seconds: float = PERIOD_SECONDS) -> None:
        self._period_seconds = period_seconds
        self._watched = [_Watched(source) for source in sources]
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(each,), name=f"watch {each.source.name}", daemon=True)
            for each in self._watched
        ]

    def start(self) -> None:
        """Take the first sample of every source, then one a second."""
        for each in self._watched:
            each.take()
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Take a last sample, late enough for every source to have counted everything, and end."""
        late_seconds = max((each.source.counts_late_seconds for each in self._watched if not each.failing), default=0.0)
        self._stop.set()
        for thread in self._threads:
            thread.join()
        time.sleep(late_seconds)
        self.take()

    def take(self) -> None:
        """Take one sample now, of every source that answered when it was last asked."""
        for each in self._watched:
            if not each.failing:
                each.take()

    def timelines(self) -> dict[str, Timeline]:
        """Everything seen so far, by source."""
        return {each.source.name: Timeline(each.samples()) for each in self._watched}

    def take_unstored(self) -> list[SampleRow]:
        """Samples not handed out before, for the database."""
        return [sample for each in self._watched for sample in each.take_unstored()]

    def take_problems(self) -> list[SourceProblem]:
        """Problems not handed out before: at most one of each source."""
        return [problem for each in self._watched if (problem := each.take_problem())]

    def _run(self, each: _Watched) -> None:
        while not self._stop.wait(self._period_seconds):
            each.take()


@dataclass(slots=True)
class _Watched:
    """One source and what it has said."""

    source: Source
    failing: bool = False
    _samples: list[SampleRow] = field(default_factory=list)
    _stored: int = 0
    _problem: SourceProblem | None = None
    _problem_told: bool = False
    _asking: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> None:
        with self._asking:
            before_ns = time.monotonic_ns()
            try:
                reading = self.source.read()
            except WatchError as failed:
                self.failing = True
                self._problem = self._problem or SourceProblem(self.source.name, time.time(), str(failed))
                return
            # What was read lay between the two instants: the middle errs least.
            at_ns = (before_ns + time.monotonic_ns()) // 2
            at = time.time() - (time.monotonic_ns() - at_ns) / 1e9
            self.failing = False
            self._samples.append(SampleRow(self.source.name, at, at_ns, reading))

    def samples(self) -> list[SampleRow]:
        with self._asking:
            return list(self._samples)

    def take_unstored(self) -> list[SampleRow]:
        with self._asking:
            fresh = self._samples[self._stored :]
            self._stored = len(self._samples)
            return fresh

    def take_problem(self) -> SourceProblem | None:
        with self._asking:
            told, self._problem_told = self._problem_told, self._problem is not None
            return None if told else self._problem
