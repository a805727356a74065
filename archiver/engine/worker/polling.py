"""Busy polling: an event loop polls the kernel continuously instead of sleeping until an answer comes.

One idea: a callback that makes itself due again leaves the loop no time to sleep. A worker that polls busily uses its
core all the time. Passes of the loop that find nothing to do are measured, and do not count as usage of the client. A
loop that sleeps sees an answer some tens of microseconds late. Polling is the default only where it takes no CPU time
from others: the platform is elsewhere, and each worker has a core of its own.
"""

from __future__ import annotations

import asyncio
import time

_PASSES = 64  # passes of an empty loop that are measured before polling begins
_IDLE_TIMES = (
    4  # an idle pass takes at most this many times as long as the shortest; one with an answer takes at least 15 times
)


class BusyPolling:
    """Busy polling of the running event loop, from ``begin`` to ``end``."""

    def __init__(self) -> None:
        self.idle_seconds = 0.0  # spent on a core in passes that found nothing to do
        self._idle_pass_seconds_max = 0.0
        self._has_ended = False

    async def begin(self) -> None:
        """Measure an empty pass of the loop, and poll from now on."""
        shortest = float("inf")
        for _ in range(_PASSES):
            before = time.monotonic()
            await asyncio.sleep(0)
            shortest = min(shortest, time.monotonic() - before)
        self._idle_pass_seconds_max = _IDLE_TIMES * shortest
        self._poll(asyncio.get_running_loop(), time.monotonic())

    def end(self) -> None:
        """Let the loop sleep again."""
        self._has_ended = True

    def _poll(self, loop: asyncio.AbstractEventLoop, before: float) -> None:
        now = time.monotonic()
        if now - before < self._idle_pass_seconds_max:
            self.idle_seconds += now - before
        if not self._has_ended:
            loop.call_soon(self._poll, loop, now)
