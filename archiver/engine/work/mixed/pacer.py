"""Calls at due times, which keep the schedules of an open loop in one worker process.

One idea: one heap has the next due time of each schedule. One timer of the kernel (timerfd) is set to the earliest, and
wakes the event loop like any socket. The loop's own timers use a clock of whole milliseconds, which bunches sessions at
2,000 sessions a second. A timerfd uses nanoseconds.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from itertools import count

from archiver.values.errors import RunFailed

# The pacer waits actively for due times this near. Setting the timer and waking up took 20 to 25 microseconds on a
# virtual machine, whose timer is the hypervisor's.
GRAIN_NS = 20_000
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME; timerfd_create(2) takes the flags of open(2)


class _Moment(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    """struct itimerspec. 0 nanoseconds in ``at`` stop the timer."""

    _fields_ = (("every", _Moment), ("at", _Moment))


# Python has no timerfd before 3.13.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.timerfd_settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class _Schedule:
    rest: Iterator[int]  # due times after the one in the heap
    arrive: Callable[[int], None]
    done: Callable[[], None]


class Pacer:
    """Calls at due times in the event loop ``loop``: any number of schedules, one timer.

    Raises RunFailed if the process can open no timer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            problem = os.strerror(ctypes.get_errno())
            raise RunFailed(f"the schedule of an open loop needs a timer: {problem}; raise the limit of open files")
        self._setting = _Setting()
        self._set_ns = 0  # current setting of the timer; 0: stopped
        self._order = count()  # orders schedules with the same due time, so that the heap never compares schedules
        self._heap: list[tuple[int, int, _Schedule]] = []
        loop.add_reader(self._timer, self._wake)

    def start(self, due_ns: Iterable[int], arrive: Callable[[int], None], done: Callable[[], None]) -> None:
        """Call ``arrive`` with each of ``due_ns`` when it is due, never before, and ``done`` once after the last.

        ``due_ns`` are CLOCK_MONOTONIC nanoseconds that never fall. The pacer reads one due time ahead. For an empty
        schedule it calls only ``done``.

        The event loop makes both calls, never this function. They must neither block nor raise. Calls that are due at
        the same time follow the order in which the schedules were started.
        """
        rest = iter(due_ns)
        first = next(rest, None)
        if first is None:
            self._loop.call_soon(self._end, done)
            return
        heappush(self._heap, (first, next(self._order), _Schedule(rest, arrive, done)))
        if not self._set_ns or first < self._set_ns:
            self._set_timer(max(first, 1))

    def close(self) -> None:
        """Make no further calls, and close the timer."""
        self._heap.clear()
        if self._timer >= 0:
            self._loop.remove_reader(self._timer)
            os.close(self._timer)
            self._timer = -1

    def _wake(self) -> None:
        """Make all calls that are due.

        Calls that become due meanwhile wait for the next turn of the loop. A schedule beyond the client's ceiling
        therefore leaves time for its sessions.
        """
        heap, now = self._heap, time.monotonic_ns
        now_ns = now()
        until_ns = now_ns + GRAIN_NS
        while heap and heap[0][0] <= until_ns:
            due_ns, order, schedule = heap[0]
            while now_ns < due_ns:
                now_ns = now()
            following = next(schedule.rest, None)
            if following is None:
                heappop(heap)
                schedule.arrive(due_ns)
                self._end(schedule.done)
            else:
                heapreplace(heap, (following, order, schedule))
                schedule.arrive(due_ns)
        if not heap:
            self._set_timer(0)
        elif heap[0][0] > now():
            self._set_timer(heap[0][0])
        # Otherwise the setting remains: a timer that has fired wakes the loop again in its next turn.

    def _end(self, done: Callable[[], None]) -> None:
        if self._timer >= 0:
            done()

    def _set_timer(self, due_ns: int) -> None:
        """Set the timer to ``due_ns``; 0 stops it. A time in the past fires at once.

        Setting the timer also clears its expiration count, so no read is needed.
        """
        if self._timer < 0:
            return  # a call closed it
        self._set_ns = due_ns
        at = self._setting.at
        at.seconds, at.nanoseconds = divmod(due_ns, 10**9)
        failed = _libc.timerfd_settime(self._timer, _ABSOLUTE, ctypes.addressof(self._setting), None)
        assert not failed, os.strerror(ctypes.get_errno())
