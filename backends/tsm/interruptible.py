"""Calls of the API that Ctrl-C ends: made in a thread of their own, while the main thread only waits.

One idea: the library waits for its server in C, where Python hears no signal until it returns; a server that has gone
silent would make a command that nobody can end.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


def interruptible(work: Callable[_Given, _Value]) -> Callable[_Given, _Value]:
    """Have ``work`` done by a thread that does not outlive the process; after Ctrl-C nobody waits for it any more."""

    @functools.wraps(work)
    def waiting(*arguments: _Given.args, **named: _Given.kwargs) -> _Value:
        done: Future[_Value] = Future()

        def body() -> None:
            try:
                done.set_result(work(*arguments, **named))
            except BaseException as error:  # noqa: BLE001 - whatever it was, it is the caller's
                done.set_exception(error)

        threading.Thread(target=body, name=f"tsm-{work.__name__}", daemon=True).start()
        return done.result()

    return waiting
