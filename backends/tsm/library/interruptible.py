"""Calls of the API that Ctrl-C ends: another thread makes them while the main thread waits.

The library waits for its server in C, and Python handles no signal until the call returns. So Ctrl-C could not end a
command whose server does not answer.
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
    """Run ``work`` in a daemon thread and wait for it. After Ctrl-C the caller no longer waits."""

    @functools.wraps(work)
    def waiting(*arguments: _Given.args, **named: _Given.kwargs) -> _Value:
        finished: Future[_Value] = Future()
        # A SimpleQueue waits in C: Ctrl-C during the wait of a Future could break the lock of the Future.
        done: SimpleQueue[None] = SimpleQueue()

        def body() -> None:
            try:
                finished.set_result(work(*arguments, **named))
            except BaseException as error:  # noqa: BLE001 - the caller gets any exception
                finished.set_exception(error)
            done.put(None)

        threading.Thread(target=body, name=f"tsm-{work.__name__}", daemon=True).start()
        done.get()
        return finished.result()

    return waiting
