"""Interruption of a command by Ctrl-C, SIGTERM or SIGHUP.

One idea: each signal raises KeyboardInterrupt in the main thread, so a command ends in the same way for all three; only
the exit status names the signal. The command itself ends the processes that it started, and these ignore the signals.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# A second signal within this time is a repetition: timeout(1) sends SIGTERM twice, a closing terminal SIGHUP twice.
REPEATED_SECONDS = 1.0

_ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
_is_put_off = False
_waiting: list[int] = []
_received: int | None = None  # the first signal of the command


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def signal_of(interrupted: KeyboardInterrupt) -> signal.Signals:
    """Return the signal that interrupted the command."""
    return signal.Signals(interrupted.number) if isinstance(interrupted, Terminated) else signal.SIGINT


def exit_status(number: signal.Signals) -> int:
    """Return the exit status of a command that a signal ended, by the convention of shells."""
    return 128 + number


def words(number: signal.Signals) -> str:
    """Return a description of the interruption."""
    return "interrupted" if number is signal.SIGINT else f"interrupted by {number.name}"


@contextmanager
def heard() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, and Terminated on SIGTERM and SIGHUP.

    Every further SIGINT raises again. A second SIGTERM or SIGHUP, more than a second later, ends the process at once.

    A signal that was ignored before stays ignored, for nohup(1). Call this in the main thread.
    """
    global _received
    first_at: float | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        _raise_or_wait(number)

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal first_at
        if number == signal.SIGHUP:
            _discard_output()
        if first_at is None:
            first_at = time.monotonic()
            _raise_or_wait(number)
        elif time.monotonic() - first_at >= REPEATED_SECONDS:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    before = {
        number: signal.signal(number, interrupt if number == signal.SIGINT else terminate)
        for number in _ALL
        if signal.getsignal(number) in _DEFAULTS
    }
    try:
        yield
    finally:
        _received = None
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_lost() -> None:
    """Raise the exception of a received signal again, because it may have been lost.

    Python discards an exception that a signal raises in a finalizer or in a callback of a weak reference. Modules in C
    may discard one that is raised while they load.
    """
    if _received is not None:
        raise _exception(_received)


@contextmanager
def put_off() -> Iterator[None]:
    """Defer the signals that ``heard`` handles: KeyboardInterrupt or Terminated is raised at the end of the block.

    A second SIGINT takes effect at once.
    """
    global _is_put_off
    _is_put_off = True
    try:
        yield
    finally:
        _is_put_off = False
        if _waiting:
            number = _waiting.pop()
            _waiting.clear()
            raise _exception(number)


def _raise_or_wait(number: int) -> None:
    """Raise the exception of a signal, or let the first such signal wait for the end of ``put_off``."""
    global _received
    _received = _received or number
    if _is_put_off and number not in _waiting:
        _waiting.append(number)
        return
    raise _exception(number)


def _exception(number: int) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


@contextmanager
def held_back() -> Iterator[None]:
    """Block these signals in processes that are started in the block, until each of them calls ``ignore``."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore() -> None:
    """Ignore these signals in this process.

    They reach all processes of a terminal or service, and the command ends this process itself.
    """
    for number in _ALL:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ALL)


def _discard_output() -> None:
    """Discard further output if the terminal is gone, because every write to it would fail."""
    for descriptor in (1, 2):
        try:
            is_device = stat.S_ISCHR(os.fstat(descriptor).st_mode)
        except OSError:  # the stream is closed
            continue
        if is_device and not os.isatty(descriptor):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
