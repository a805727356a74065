"""Interruption of a command by Ctrl-C, SIGTERM or SIGHUP.

One idea: each signal raises KeyboardInterrupt in the main thread, so a command ends in the same way for all three; only
the exit status names the signal. The command itself ends the processes that it started, and these ignore the signals.

An exception that a signal raises at any place may leave a lock of Python's library locked for ever, or half a message
in a pipe, and Python discards one that is raised in a finalizer or in a callback from C. So a run defers the signals.
It calls ``check`` where it waits, and ``interruptible`` for what may take long.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from queue import Empty
from types import FrameType
from typing import ParamSpec, TypeVar

from archiver.values.threads import in_thread

# A second signal within this time is a repetition: timeout(1) sends SIGTERM twice, a closing terminal SIGHUP twice.
REPEATED_SECONDS = 1.0
CHECK_SECONDS = 0.1  # between two checks of what waits

_ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DEFAULTS = (signal.SIG_DFL, signal.default_int_handler)
_deferrals = 0  # blocks of ``deferred`` that are being executed, one within another
_received: int | None = None  # the first signal of the command
_deferred: set[int] = set()  # signals of the command that were deferred once
_waiting: int | None = None  # the first deferred signal that has not raised its exception

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM or SIGHUP."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def signal_of(interrupted: KeyboardInterrupt) -> signal.Signals:
    """Return the signal that interrupted the command."""
    if isinstance(interrupted, Terminated):
        return signal.Signals(interrupted.number)
    return signal.Signals(_received or signal.SIGINT)  # SQLite discards the exception of a signal during a query


def exit_status(number: signal.Signals) -> int:
    """Return the exit status of a command that a signal ended, by the convention of shells."""
    return 128 + number


def words(number: signal.Signals) -> str:
    """Return a description of the interruption."""
    return "interrupted" if number is signal.SIGINT else f"interrupted by {number.name}"


@contextmanager
def handled() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGINT, and Terminated on SIGTERM and SIGHUP.

    Every further SIGINT raises again. A second SIGTERM or SIGHUP, more than a second later, ends the process at once.

    A signal that was ignored before stays ignored, for nohup(1). Call this in the main thread.
    """
    global _received, _waiting
    first_at: float | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        _raise_or_defer(number)

    def terminate(number: int, frame: FrameType | None) -> None:
        nonlocal first_at
        if number == signal.SIGHUP:
            _discard_output()
        if first_at is None:
            first_at = time.monotonic()
            _raise_or_defer(number)
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
        _received = _waiting = None
        _deferred.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def deferred() -> Iterator[None]:
    """Defer the signals that ``handled`` handles to the next ``check``, or else to the end of the outermost block.

    A second SIGINT raises at once. Call this in the main thread.
    """
    global _deferrals, _waiting
    _deferrals += 1
    try:
        yield
    finally:
        _deferrals -= 1
        if _waiting is not None and not _deferrals:
            number, _waiting = _waiting, None
            raise _exception(number)


def check() -> None:
    """Raise the exception of the command's first signal if one was received, even if its exception was lost before."""
    global _waiting
    if _received is not None:
        _waiting = None
        raise _exception(_received)


def interruptible(call: Callable[_Given, _Value], *arguments: _Given.args, **named: _Given.kwargs) -> _Value:
    """Return what the call returns, or raise what it raises. It runs in a thread of its own.

    Raises KeyboardInterrupt if a signal comes first. The call then goes on, and its result is discarded.
    """
    result, ended = in_thread("interruptible", partial(call, *arguments, **named))
    while True:
        check()
        try:
            ended.get(timeout=CHECK_SECONDS)
        except Empty:
            continue
        return result.result()


def _raise_or_defer(number: int) -> None:
    global _received, _waiting
    _received = _received or number
    if _deferrals and number not in _deferred:
        _deferred.add(number)
        _waiting = _waiting or number
        return
    raise _exception(number)


def _exception(number: int) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated(number)


@contextmanager
def blocked() -> Iterator[None]:
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
