"""An outage: the platform completes nothing for any client of a worker.

One idea: while any client completes an object, the platform works and is measured at full speed. Once every client has
failed several times in a row, the clients pause before they try again, so that no platform is hammered that is down. If
it does not return, the phase ends. Numbers of objects that surely do not exist are used again after all others. Those
of unknown outcome are not, so never more objects are locked than announced.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from archiver.values.clock import now_seconds
from archiver.values.record import Recorder, Status, quoted
from archiver.values.sizes import format_instant

FAILED_SESSIONS_MAX = 3  # sessions of each client without an object, in a row over all clients, before clients pause
PAUSE_SECONDS_FIRST = 0.1
PAUSE_SECONDS_MAX = 1.0
OUTAGE_SECONDS_MAX = 5.0  # for a platform that completed objects in this phase; others get no time to return
_SILENT = frozenset(
    (
        Status.CONNECT_FAILED,
        Status.CONNECT_TIMEOUT,
        Status.TLS_FAILED,
        Status.READ_TIMEOUT,
        Status.CONNECTION_LOST,
        Status.TOO_SLOW,
    )
)


@dataclass(slots=True)
class SessionTimes:
    """Time that one client spent in sessions, with the pauses after them."""

    all_ns: int = 0
    failed_ns: int = 0  # of sessions without an object


class Outage:
    """The sessions of a worker since any of its clients last completed an object."""

    def __init__(self, finish: Callable[[], None]) -> None:
        """``finish``: let no client of the worker begin another session."""
        self.clients = 1  # of the worker
        self.ended_because: str | None = None  # why the worker finished; None: it did not, the platform may return
        self._finish = finish
        self._any_object = False
        self._failed = 0
        self._began_ns = 0  # of the first failed session

    async def session_ended(self, record: Recorder, times: SessionTimes, objects: int, began_ns: int) -> None:
        """Take the latest session of a client; pause, or finish, if the platform completes nothing for any client.

        A client that found no local port, or had nothing to do, says nothing about the platform.
        """
        took_ns = time.monotonic_ns() - began_ns
        times.all_ns += took_ns
        if objects:
            self._any_object = True
            self._failed = 0
            return
        status = record.status[record.used - 1]
        if status in (Status.OK, Status.NO_LOCAL_PORT):
            return
        times.failed_ns += took_ns
        if self.ended_because is not None:
            return
        if not self._failed:
            self._began_ns = began_ns
        self._failed += 1
        rounds = self._failed // self.clients
        if rounds < FAILED_SESSIONS_MAX:
            return
        lasted_seconds = (time.monotonic_ns() - self._began_ns) / 1e9
        if not self._any_object or lasted_seconds >= OUTAGE_SECONDS_MAX:
            at = format_instant(now_seconds() - lasted_seconds)
            what = f"stopped answering at {at}" if status in _SILENT else f"completed nothing from {at} on"
            last = record.last_error
            why = f": {quoted(last.reason, last.message)}" if last is not None else ""
            self.ended_because = f"the platform {what}{why}"
            self._finish()
        else:
            pause_seconds = min(PAUSE_SECONDS_MAX, PAUSE_SECONDS_FIRST * 2.0 ** (rounds - FAILED_SESSIONS_MAX))
            times.all_ns += int(pause_seconds * 1e9)
            times.failed_ns += int(pause_seconds * 1e9)
            await asyncio.sleep(pause_seconds)
