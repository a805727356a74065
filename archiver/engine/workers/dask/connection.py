"""The connection to a Dask scheduler: what workers say is sorted by phase, and who is asked may be gone.

One idea: nothing of Dask raises beyond here but as a word of ours, since a cluster may lose any part at any moment.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

from distributed import Client

from archiver.engine.workers.dask.channel import TOPIC, Said

_T = TypeVar("_T")
# What Dask raises where the other end is gone, or going.
GONE = (OSError, TimeoutError, ValueError, KeyError, RuntimeError, asyncio.CancelledError)


class Connection:
    """One client of a scheduler."""

    def __init__(self, client: Client, address: str) -> None:
        self.client = client
        self.address = address
        self._inboxes: dict[str, SimpleQueue[tuple[int, Said]]] = {}
        client.subscribe_topic(TOPIC, self._take)

    @contextmanager
    def inbox(self, phase: str) -> Iterator[SimpleQueue[tuple[int, Said]]]:
        """What the workers of one phase say, as (worker, said)."""
        inbox = self._inboxes[phase] = SimpleQueue()
        try:
            yield inbox
        finally:
            del self._inboxes[phase]

    def ask(self, address: str, function: Callable[..., _T], *arguments: Any) -> _T | None:
        """What a function returns in the process of a worker, beside its tasks; None where that is gone."""
        try:
            answers = self.client.run(function, *arguments, workers=[address], on_error="ignore")
        except GONE:
            return None
        answer: _T | None = (answers or {}).get(address)
        return answer

    def there(self) -> set[str] | None:
        """The addresses of the workers that the scheduler has; None where it is gone itself."""
        if self.client.status != "running":
            return None
        try:
            return set(self.client.nthreads())
        except GONE:
            return None

    def _take(self, event: tuple[float, Any]) -> None:
        """An event of the topic; other runs on the same cluster have theirs there, too."""
        phase, worker, data = event[1]
        inbox = self._inboxes.get(phase)
        if inbox is not None:
            inbox.put((worker, pickle.loads(data)))
