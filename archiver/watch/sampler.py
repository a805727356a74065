"""Sampling of every source of server resource usage, once a second and at the start and end of every phase.

One idea: each source has its own thread, and no other thread reads it. A caller that needs a sample requests it and
waits only for a limited time, so a slow source does not delay it for long. A source that fails is reported once, left
out at phase edges, and read again until it answers.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from archiver.machine import interruption
from archiver.values.clock import now_seconds
from archiver.watch.source import Source, WatchError
from results.recorded.resources import CLIENT, LOCAL, SampleRow, SourceProblem, Timeline

PERIOD_SECONDS = 1.0
EDGE_SECONDS_MAX = 0.25  # maximum time that a phase waits for the samples of its edges
LAST_SECONDS_MAX = 5.0  # maximum time that a run waits for its last sample
KEPT_SECONDS = 60.0  # time that a stored sample stays in memory


class ResourceSampler:
    """Samples of several sources: of the server, and of the client's host if it is another one."""

    def __init__(self, sources: Sequence[Source], period_seconds: float = PERIOD_SECONDS) -> None:
        self._watched = [_WatchedSource(source, period_seconds) for source in sources]

    def start(self) -> None:
        """Take the first sample of every source, then one each period."""
        with interruption.deferred():  # an interruption must stop all threads
            for each in self._watched:
                each.thread.start()
            self._take(LAST_SECONDS_MAX)

    def stop(self) -> None:
        """Take a last sample, late enough for every source to have counted everything, and stop."""
        time.sleep(max((each.counts_late_seconds for each in self._watched), default=0.0))
        self._take(LAST_SECONDS_MAX)
        for each in self._watched:
            each.end()

    def take(self) -> None:
        """Take one sample now of every source that works. Do not wait for a slow one."""
        self._take(EDGE_SECONDS_MAX)

    def timelines(self, since_ns: int = 0) -> dict[str, Timeline]:
        """Return the server's samples since an instant of the run's clock, by source.

        Stored samples are dropped after KEPT_SECONDS.
        """
        return {
            each.source.name: Timeline(each.samples(since_ns)) for each in self._watched if each.source.name != CLIENT
        }

    def client_timeline(self) -> Timeline:
        """Return the samples of the client's host, which the server may share; empty if it is not watched."""
        seen = (each.samples(0) for each in self._watched if each.source.name in (CLIENT, LOCAL))
        return Timeline(next(seen, ()))

    def take_unstored(self) -> list[SampleRow]:
        """Return samples that were not returned before, for the database, so that memory does not grow."""
        return [sample for each in self._watched for sample in each.take_unstored()]

    def take_problems(self) -> list[SourceProblem]:
        """Return problems that were not returned before: at most one for each source."""
        return [problem for each in self._watched if (problem := each.take_problem())]

    def _take(self, seconds_max: float) -> None:
        deadline = time.monotonic() + seconds_max
        tickets = [(each, each.ask()) for each in self._watched if not each.failing]
        for each, ticket in tickets:
            each.wait_for(ticket, deadline)


@dataclass(slots=True)
class _WatchedSource:
    """One source, its thread and its samples."""

    source: Source
    period_seconds: float
    failing: bool = False
    thread: threading.Thread = field(init=False)
    _requested: int = 0  # number of requests for a sample
    _answered: int = 0  # number of the last request that has a sample or a failure
    _ended: bool = False
    _samples: list[SampleRow] = field(default_factory=list)
    _stored: int = 0
    _problem: SourceProblem | None = None
    _problem_reported: bool = False
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name=f"watch {self.source.name}", daemon=True)

    @property
    def counts_late_seconds(self) -> float:
        return 0.0 if self.failing else self.source.counts_late_seconds

    def ask(self) -> int:
        """Request a sample now; return the number of the request, to wait for it."""
        with self._changed:
            self._requested += 1
            self._changed.notify_all()
            return self._requested

    def wait_for(self, ticket: int, deadline: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._answered >= ticket, max(0.0, deadline - time.monotonic()))

    def end(self) -> None:
        """Stop the thread. A thread that is reading a source ends with the process."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self.thread.ident is not None:  # None: the run was interrupted before the thread started
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
            was_reported, self._problem_reported = self._problem_reported, self._problem is not None
            return None if was_reported else self._problem

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or self._requested > self._answered, self.period_seconds)
                if self._ended:
                    return
                ticket = self._requested
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
            return SourceProblem(self.source.name, now_seconds(), str(failed))
        except Exception as unforeseen:  # noqa: BLE001 - no answer of a server may end a run
            problem = f"{self.source.name}: the answer cannot be understood ({type(unforeseen).__name__}: {unforeseen})"
            return SourceProblem(self.source.name, now_seconds(), problem)
        # The values are from between the two instants; the middle has the smallest error.
        at_ns = (before_ns + time.monotonic_ns()) // 2
        at = now_seconds() - (time.monotonic_ns() - at_ns) / 1e9
        return SampleRow(self.source.name, at, at_ns, reading)
