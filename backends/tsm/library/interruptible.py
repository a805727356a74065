"""Calls of the API that Ctrl-C ends: another thread makes them while the main thread waits.

The library waits for its server in C, and Python handles no signal until the call returns. So Ctrl-C could not end a
command whose server does not answer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from archiver.values.threads import in_thread

_Given = ParamSpec("_Given")
_Value = TypeVar("_Value")


def interruptible(work: Callable[_Given, _Value]) -> Callable[_Given, _Value]:
    """Run ``work`` in a daemon thread and wait for it. An exception that a signal raises ends the wait."""

    @functools.wraps(work)
    def waiting(*arguments: _Given.args, **named: _Given.kwargs) -> _Value:
        result, ended = in_thread(f"tsm-{work.__name__}", functools.partial(work, *arguments, **named))
        ended.get()
        return result.result()

    return waiting
