"""Calls of the API that Ctrl-C ends: made in a thread of their own, while the main thread only waits.

One idea: the library waits for its server in C, where Python hears no signal until it returns; a server that has gone
silent would make a command that nobody can end.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


def interruptible(work: Callable[_Given, _Value]) -> Callable[_Given, _Value]:
    """Have ``work`` done by a thread that does not outlive the process; after Ctrl-C nobody waits for it any more."""

    @functools.wraps(work)
    def waiting(*arguments: _Given.args, **named: _Given.kwargs) -> _Value:
        finished: Future[_Value] = Future()
        # Waited for in C: a Ctrl-C that came in the middle of a Future's own waiting could break its lock.
        told: SimpleQueue[None] = SimpleQueue()

        def body() -> None:
            try:
                finished.set_result(work(*arguments, **named))
            except BaseException as error:  # noqa: BLE001 - whatever it was, it is the caller's
                finished.set_exception(error)
            told.put(None)

        threading.Thread(target=body, name=f"tsm-{work.__name__}", daemon=True).start()
        told.get()
        return finished.result()

    return waiting
