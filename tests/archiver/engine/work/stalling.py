"""A store that answers nothing for some seconds, from a request that is counted and not from a time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from itertools import count

from tests.support.servers.fault_proxy import Message, asks_for


def stall(pid: int, method: str, nth: int, seconds: float) -> Callable[[Message], None]:
    """Stop the process of a store at the n-th request of a method about an object of a run.

    The result chooses no fault of a proxy: it is called before the proxy passes a request on.
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
