"""Workers that share a core let each other begin: each yields the core after the first passes of its event loop.

The kernel lets a process keep its core for several milliseconds. With more workers than cores, the last of them would
begin late.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

ALONE_NS = 5_000_000  # a core that no other process takes for this long is not shared
TAKEN_NS = 20_000  # a longer yield means that another process used the core


async def share_core(
    until_ns: int,
    clock_ns: Callable[[], int] = time.monotonic_ns,
    yield_core: Callable[[], None] = os.sched_yield,
) -> None:
    """Yield the core after each pass of the event loop, until this instant or until no other process takes the core.

    ``clock_ns`` is CLOCK_MONOTONIC. The kernel lets a busy process keep its core for several milliseconds, so the last
    of many processes that wake at one instant would otherwise begin hundreds of milliseconds after the first.
    """
    now_ns = taken_ns = clock_ns()
    while now_ns < until_ns and now_ns - taken_ns < ALONE_NS:
        yield_core()
        back_ns = clock_ns()
        if back_ns - now_ns > TAKEN_NS:
            taken_ns = back_ns
        await asyncio.sleep(0)
        now_ns = clock_ns()
