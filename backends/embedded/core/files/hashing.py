"""Hashing of long bodies in threads.

One idea: bodies that wait for a thread are hashed together, because that is faster than one after another. While a
thread hashes, the next group collects, as changes do while the writer commits.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from functools import partial

from . import md5
from .digests import Buffer, Digests, update_together

_THREADS_MAX = max(1, len(os.sched_getaffinity(0)) // 2)  # more would take the event loop's core and make small groups

_Waiting = tuple[Digests, Sequence[Buffer], asyncio.Future[None]]


class Hashing:
    """The threads that hash, and the bodies that wait for them."""

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._threads = 0  # that hash now

    async def update(self, digests: Digests, pieces: Sequence[Buffer]) -> None:
        """Update the digests with the next pieces of their object."""
        hashed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((digests, pieces, hashed))
        self._hash_next()
        await hashed

    def _hash_next(self) -> None:
        if not self._waiting or self._threads == _THREADS_MAX:
            return
        group, self._waiting = self._waiting[: md5.LANES], self._waiting[md5.LANES :]
        self._threads += 1
        updates = [(digests, pieces) for digests, pieces, _ in group]
        hashing = asyncio.get_running_loop().run_in_executor(None, update_together, updates)
        hashing.add_done_callback(partial(self._end, group))

    def _end(self, group: Sequence[_Waiting], hashing: asyncio.Future[None]) -> None:
        self._threads -= 1
        self._hash_next()
        failure = hashing.exception()
        for *_, hashed in group:
            if hashed.done():  # cancelled
                continue
            if failure is None:
                hashed.set_result(None)
            else:
                hashed.set_exception(failure)
