"""Stop a store for some seconds at a counted request, not at a time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from itertools import count

from tests.support.servers.fault_proxy import Message, asks_for


def stall(pid: int, method: str, nth: int, seconds: float) -> Callable[[Message], None]:
    """Return a function that stops the store's process at the n-th request of a method for an object of a run.

    The proxy calls the function before it passes a request on. It selects no fault of the proxy.
    """
    requests, is_counted = count(1), asks_for(method)

    def choose(message: Message) -> None:
        if is_counted(message) and next(requests) == nth:
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                os.kill(pid, signal.SIGCONT)

    return choose
