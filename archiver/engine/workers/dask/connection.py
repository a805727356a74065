"""The connection to a Dask scheduler: it sorts workers' messages by phase, and tolerates workers that are gone.

One idea: a cluster may lose any part at any moment. This module therefore catches Dask's exceptions, and returns None
for a worker or scheduler that is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

from distributed import Client

from archiver.engine.workers.dask.channel import TOPIC

_T = TypeVar("_T")
# Exceptions of Dask for a peer that is gone or is ending.
GONE = (OSError, TimeoutError, ValueError, KeyError, RuntimeError, asyncio.CancelledError)


class Connection:
    """One client of a scheduler."""

    def __init__(self, client: Client, address: str) -> None:
        self.client = client
        self.address = address
        self._inboxes: dict[str, SimpleQueue[tuple[int, bytes]]] = {}
        client.subscribe_topic(TOPIC, self._take)

    @contextmanager
    def inbox(self, phase: str) -> Iterator[SimpleQueue[tuple[int, bytes]]]:
        """Yield a queue of the messages of one phase's workers, as (worker, encoded message)."""
        inbox = self._inboxes[phase] = SimpleQueue()
        try:
            yield inbox
        finally:
            del self._inboxes[phase]

    def ask(self, address: str, function: Callable[..., _T], *arguments: Any) -> _T | None:
        """Return the result of a function in a worker's process, next to its tasks; None if the worker is gone."""
        try:
            answers = self.client.run(function, *arguments, workers=[address], on_error="ignore")
        except GONE:
            return None
        answer: _T | None = (answers or {}).get(address)
        return answer

    def addresses(self) -> set[str] | None:
        """Return the addresses of the scheduler's workers; None if the scheduler is gone."""
        if self.client.status != "running":
            return None
        try:
            return set(self.client.nthreads())
        except GONE:
            return None

    def _take(self, event: tuple[float, Any]) -> None:
        """Handle an event of the topic. Other runs on the same cluster use the same topic."""
        phase, worker, data = event[1]
        inbox = self._inboxes.get(phase)
        if inbox is not None:
            inbox.put((worker, data))
