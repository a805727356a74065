"""Calls in threads of their own, for callers that must not wait for as long as a call may take."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

_Value = TypeVar("_Value")


def in_thread(name: str, call: Callable[[], _Value]) -> tuple[Future[_Value], SimpleQueue[None]]:
    """Start a call in a daemon thread. Return its result, and a queue that gets one element when the call has ended.

    The main thread waits for the queue, which waits in C. If a signal raised an exception during the wait for a Future,
    the Future could stay locked.
    """
    result: Future[_Value] = Future()
    ended: SimpleQueue[None] = SimpleQueue()

    def body() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller gets any exception
            result.set_exception(error)
        ended.put(None)

    Thread(target=body, name=name, daemon=True).start()
    return result, ended
