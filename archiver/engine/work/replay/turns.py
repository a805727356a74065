"""Order of operations on an object that a trace changes.

One idea: operations on one object take turns in the trace's order if one of the two changes it. A platform that is
slower than the captured one therefore never gets a request for an object that is not written yet. An operation waits
only for earlier operations of the trace, so no deadlock is possible.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence


class Turn:
    """The position of one operation in the queues of its objects."""

    __slots__ = ("_ahead", "_followers", "_places", "_waiter", "ready_ns")

    def __init__(self, places: Sequence[tuple[int, bool]]) -> None:
        self._places = list(places)  # (object number, whether it is changed)
        self._ahead = 0
        self._followers: list[Turn] = []
        self._waiter: asyncio.Future[None] | None = None
        self.ready_ns = 0  # when the last operation ahead ended; 0: none was ever ahead

    @property
    def is_mine(self) -> bool:
        return not self._ahead

    async def wait(self) -> None:
        """Wait until no operation is ahead."""
        if not self.is_mine:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _one_less(self) -> None:
        self._ahead -= 1
        if self.is_mine:
            self.ready_ns = time.monotonic_ns()
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)


class Turns:
    """The operations that use each object, or wait for it."""

    def __init__(self) -> None:
        self._at: dict[int, list[Turn]] = {}

    def take(self, *places: tuple[int, bool], turn: Turn | None = None) -> Turn:
        """Return a turn at each of these objects, behind all earlier ones.

        ``turn``: a turn that no operation waits for yet; it is extended to these objects, and never waits for itself.
        """
        if turn is None:
            turn = Turn(places)
        else:
            turn._places += places
        for number, changes in places:
            of_object = self._at.setdefault(number, [])
            for other in of_object:
                if other is turn:
                    continue  # a copy onto itself, or a transaction that writes one object twice
                if changes or (number, True) in other._places:
                    other._followers.append(turn)
                    turn._ahead += 1
            of_object.append(turn)
        return turn

    def done(self, turn: Turn) -> None:
        """End this turn and let the next ones proceed."""
        for number, _ in turn._places:
            of_object = self._at[number]
            of_object.remove(turn)
            if not of_object:
                del self._at[number]
        for follower in turn._followers:
            follower._one_less()
