"""A phase on a Dask worker: messages from the coordinator and reports to it, both through the scheduler.

One idea: the task of a phase reads a mailbox in its process. The coordinator fills it through the worker's own event
loop, next to the task. A worker therefore needs only the connection to its scheduler. A worker that receives nothing
from the coordinator for ``SILENCE_SECONDS_MAX`` stops loading the platform.
"""

from __future__ import annotations

import pickle
import time
import traceback
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from distributed import get_worker
from distributed.worker import Worker

from archiver.engine.work.worker import run_phase
from archiver.engine.worker.assignment import Assignment
from archiver.measure.reports import IntervalReport, PhaseReport
from archiver.values.errors import ArchiverError

TOPIC = "archiver"  # of events: Dask keeps the last thousand of a topic, so all runs share one
SILENCE_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Begun:
    """Message: a worker has begun its part of a phase."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Message: a worker is prepared and waits for the start."""


@dataclass(frozen=True, slots=True)
class Crashed:
    """Message: a worker failed."""

    text: str


@dataclass(frozen=True, slots=True)
class Start:
    """All workers begin at this instant of the worker's own clock."""

    start_ns: int


@dataclass(frozen=True, slots=True)
class Alive:
    """Sign of life from the coordinator."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Begin no further session."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop at once."""


Word = Start | Alive | Finish | Stop
WorkerMessage = Begun | Ready | Crashed | IntervalReport | PhaseReport


class Sealed:
    """An assignment in transit. Dask logs the arguments of failed tasks, and an assignment may contain secrets."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment

    def __repr__(self) -> str:
        return "<assignment>"


@dataclass(slots=True)
class _Mailbox:
    words: SimpleQueue[Word] = field(default_factory=SimpleQueue)
    heard_at: float = field(default_factory=time.monotonic)

    def is_silent(self) -> bool:
        return time.monotonic() - self.heard_at > SILENCE_SECONDS_MAX


_mailboxes: dict[str, _Mailbox] = {}  # of this process, by phase and worker


def deliver(name: str, word: Word) -> int:
    """Put a message into a mailbox of this process, if it still exists.

    Returns this process's clock (CLOCK_MONOTONIC, nanoseconds).
    """
    mailbox = _mailboxes.get(name)
    if mailbox is not None:
        mailbox.heard_at = time.monotonic()
        mailbox.words.put(word)
    return time.monotonic_ns()


def mailbox_name(phase: str, worker: int) -> str:
    return f"{phase}/{worker}"


def encoded(phase: str, worker: int, message: WorkerMessage) -> tuple[str, int, bytes]:
    """Return the content of an event."""
    return phase, worker, pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)


def carry_out(phase: str, worker: int, sealed: Sealed) -> None:
    """Carry out one worker's part of a phase as a task. Failures are reported like every other message."""
    name = mailbox_name(phase, worker)
    mailbox = _mailboxes[name] = _Mailbox()
    channel = DaskChannel(get_worker(), phase, worker, mailbox)
    try:
        channel.say(Begun())
        channel.say(run_phase(sealed.assignment, channel))
    except ArchiverError as error:  # its message says what happened and what to do
        channel.say(Crashed(str(error)))
    except Exception:  # noqa: BLE001 - the coordinator must receive every failure
        channel.say(Crashed(f"a worker failed:\n{traceback.format_exc(limit=-4)}"))
    finally:
        del _mailboxes[name]


class DaskChannel:
    """The worker's end of the channel."""

    def __init__(self, dask: Worker, phase: str, worker: int, mailbox: _Mailbox) -> None:
        self._dask = dask
        self._phase = phase
        self._worker = worker
        self._mailbox = mailbox
        self._stopping = False
        self._finishing = False

    def say(self, message: WorkerMessage) -> None:
        self._dask.log_event(TOPIC, encoded(self._phase, self._worker, message))

    def wait_for_start(self) -> int:
        self.say(Ready())
        while not self._stopping:
            try:
                word = self._mailbox.words.get(timeout=1.0)
            except Empty:
                self._stopping = self._mailbox.is_silent()
                continue
            if isinstance(word, Start):
                return word.start_ns
            self._take(word)
        return 0

    def report(self, report: IntervalReport) -> None:
        self.say(report)

    def should_stop(self) -> bool:
        while not self._mailbox.words.empty():
            self._take(self._mailbox.words.get())
        if self._mailbox.is_silent():
            self._stopping = True
        return self._stopping

    def should_finish(self) -> bool:
        self.should_stop()
        return self._finishing

    def _take(self, word: Word) -> None:
        self._stopping = self._stopping or isinstance(word, Stop)
        self._finishing = self._finishing or isinstance(word, Finish)
