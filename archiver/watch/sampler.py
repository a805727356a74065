"""Asks every source of server resource usage once a second and at every phase's edges, on the run's clock.

One idea: each source has a thread of its own, which alone asks it. Whoever wants a sample now says so and waits a
moment; so a slow source delays nobody, and one that fails is reported once, left out at the edges, and asked again
until it answers.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from archiver.machine import interruption
from archiver.watch.source import Source, WatchError
from results.resources import CLIENT, LOCAL, SampleRow, Timeline

PERIOD_SECONDS = 1.0
EDGE_SECONDS_MAX = 0.25  # that a phase waits for its edges to be sampled
LAST_SECONDS_MAX = 5.0  # that a run waits for its last sample
KEPT_SECONDS = 60.0  # that a sample stays known beyond being stored: what a phase began with, or used lately


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """Why a source could not be read, the first time."""

    source: str
    at: float  # epoch seconds
    problem: str


class ResourceSampler:
    """Keeps the samples of several sources: the server's, and the client's host where that is another."""

    def __init__(self, sources: Sequence[Source], period_seconds: float = PERIOD_SECONDS) -> None:
        self._watched = [_WatchedSource(source, period_seconds) for source in sources]

    def start(self) -> None:
        """Take the first sample of every source, then one each period."""
        with interruption.put_off():  # a run that is interrupted here stops them all
            for each in self._watched:
                each.thread.start()
        self._take(LAST_SECONDS_MAX)

    def stop(self) -> None:
        """Take a last sample, late enough for every source to have counted everything, and end."""
        time.sleep(max((each.counts_late_seconds for each in self._watched), default=0.0))
        self._take(LAST_SECONDS_MAX)
        for each in self._watched:
            each.end()

    def take(self) -> None:
        """Take one sample now, of every source that answered when it was last asked and answers soon."""
        self._take(EDGE_SECONDS_MAX)

    def timelines(self, since_ns: int = 0) -> dict[str, Timeline]:
        """Everything seen of the server since an instant of the run's clock, by source; what was stored is forgotten in
        time."""
        return {
            each.source.name: Timeline(each.samples(since_ns)) for each in self._watched if each.source.name != CLIENT
        }

    def client_timeline(self) -> Timeline:
        """Everything seen of the client's host, which may be the server's too; empty where it is not watched."""
        seen = (each.samples(0) for each in self._watched if each.source.name in (CLIENT, LOCAL))
        return Timeline(next(seen, ()))

    def take_unstored(self) -> list[SampleRow]:
        """Samples not handed out before, for the database; a run of days does not keep them here, too."""
        return [sample for each in self._watched for sample in each.take_unstored()]

    def take_problems(self) -> list[SourceProblem]:
        """Problems not handed out before: at most one of each source."""
        return [problem for each in self._watched if (problem := each.take_problem())]

    def _take(self, seconds_max: float) -> None:
        deadline = time.monotonic() + seconds_max
        tickets = [(each, each.ask()) for each in self._watched if not each.failing]
        for each, ticket in tickets:
            each.wait_for(ticket, deadline)


@dataclass(slots=True)
class _WatchedSource:
    """One source, its thread, and what it has said."""

    source: Source
    period_seconds: float
    failing: bool = False
    thread: threading.Thread = field(init=False)
    _asked: int = 0  # how often somebody wanted a sample
    _answered: int = 0  # up to which of these there is one, or a failure
    _ended: bool = False
    _samples: list[SampleRow] = field(default_factory=list)
    _stored: int = 0
    _problem: SourceProblem | None = None
    _problem_told: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name=f"watch {self.source.name}", daemon=True)

    @property
    def counts_late_seconds(self) -> float:
        return 0.0 if self.failing else self.source.counts_late_seconds

    def ask(self) -> int:
        """Want a sample now; the number to wait for it by."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            return self._asked

    def wait_for(self, ticket: int, deadline: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._answered >= ticket, max(0.0, deadline - time.monotonic()))

    def end(self) -> None:
        """Let the thread go; one that is in the middle of asking goes with the process."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self.thread.ident is not None:  # else the run was interrupted before it began to watch
            self.thread.join(EDGE_SECONDS_MAX)

    def samples(self, since_ns: int) -> list[SampleRow]:
        with self._changed:
            return self._samples[bisect_left(self._samples, since_ns, key=lambda sample: sample.monotonic_ns) :]

    def take_unstored(self) -> list[SampleRow]:
        with self._changed:
            fresh = self._samples[self._stored :]
            if self._samples:
                oldest_ns = self._samples[-1].monotonic_ns - int(KEPT_SECONDS * 1e9)
                del self._samples[: bisect_left(self._samples, oldest_ns, key=lambda sample: sample.monotonic_ns)]
            self._stored = len(self._samples)
            return fresh

    def take_problem(self) -> SourceProblem | None:
        with self._changed:
            told, self._problem_told = self._problem_told, self._problem is not None
            return None if told else self._problem

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._asked > self._answered, self.period_seconds)
                if self._ended:
                    return
                ticket = self._asked
            found = self._read()
            with self._changed:
                self.failing = isinstance(found, SourceProblem)
                if isinstance(found, SourceProblem):
                    self._problem = self._problem or found
                else:
                    self._samples.append(found)
                self._answered = ticket
                self._changed.notify_all()

    def _read(self) -> SampleRow | SourceProblem:
        before_ns = time.monotonic_ns()
        try:
            reading = self.source.read()
        except WatchError as failed:
            return SourceProblem(self.source.name, time.time(), str(failed))
        except Exception as unforeseen:  # noqa: BLE001 - whatever a server says, it must not end a run
            problem = f"{self.source.name}: what came cannot be understood ({type(unforeseen).__name__}: {unforeseen})"
            return SourceProblem(self.source.name, time.time(), problem)
        # What was read lay between the two instants: the middle errs least.
        at_ns = (before_ns + time.monotonic_ns()) // 2
        at = time.time() - (time.monotonic_ns() - at_ns) / 1e9
        return SampleRow(self.source.name, at, at_ns, reading)
