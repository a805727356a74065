"""Calls at due times: what keeps the schedules of an open loop, in one worker process.

One idea: one heap of the next due time of each schedule, and one timer of the kernel (timerfd) set to the earliest,
which wakes the event loop like any socket. The loop's own timers go by its clock of whole milliseconds, which bunches
what is due at 2,000 sessions a second; a timerfd goes by nanoseconds.
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

# What is due within so little is waited for on the spot: setting the timer and being woken by it took 20 to 25
# microseconds on a virtual machine, whose timer is the hypervisor's.
GRAIN_NS = 20_000
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME; timerfd_create(2) takes the flags of open(2)


class _Moment(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    """struct itimerspec: 0 nanoseconds at ``at`` is a timer that is not set."""

    _fields_ = (("every", _Moment), ("at", _Moment))


# Python has no timerfd before 3.13.
_libc = ctypes.CDLL(None, use_errno=True)
_libc.timerfd_settime.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


@dataclass(frozen=True, slots=True)
class _Schedule:
    rest: Iterator[int]  # the due times after the one in the heap
    arrive: Callable[[int], None]
    done: Callable[[], None]


class Pacer:
    """Calls at due times in the event loop ``loop``: any number of schedules, one timer.

    Raises RunFailed where the process can open no timer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            problem = os.strerror(ctypes.get_errno())
            raise RunFailed(f"the schedule of an open loop needs a timer: {problem}; raise the limit of open files")
        self._setting = _Setting()
        self._set_ns = 0  # what the timer is set to; 0: it is not
        self._order = count()  # of schedules with the same due time, and so that a heap never compares schedules
        self._heap: list[tuple[int, int, _Schedule]] = []
        loop.add_reader(self._timer, self._wake)

    def start(self, due_ns: Iterable[int], arrive: Callable[[int], None], done: Callable[[], None]) -> None:
        """Call ``arrive`` with each of ``due_ns`` (CLOCK_MONOTONIC nanoseconds, never falling) as soon as it is due and
        never before, and ``done`` once after the last; of an empty schedule, ``done`` alone. One time is asked for
        ahead.

        Both are called in the event loop, never from here, and must neither block nor raise. What is due at the same
        time comes in the order in which the schedules were started.
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
        """Call nothing any more, and give the timer back."""
        self._heap.clear()
        if self._timer >= 0:
            self._loop.remove_reader(self._timer)
            os.close(self._timer)
            self._timer = -1

    def _wake(self) -> None:
        """Call all that is due. What falls due meanwhile waits for the next turn of the loop, so that a schedule beyond
        what the client can do leaves time for its sessions."""
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
        # Else it stays as it is: a timer that has fired wakes the loop again in its next turn.

    def _end(self, done: Callable[[], None]) -> None:
        if self._timer >= 0:
            done()

    def _set_timer(self, due_ns: int) -> None:
        """Set the timer to ``due_ns``, where 0 stops it. What is past fires at once. It also forgets that it has fired,
        so that nothing need be read."""
        if self._timer < 0:
            return  # closed by a call just made
        self._set_ns = due_ns
        at = self._setting.at
        at.seconds, at.nanoseconds = divmod(due_ns, 10**9)
        failed = _libc.timerfd_settime(self._timer, _ABSOLUTE, ctypes.addressof(self._setting), None)
        assert not failed, os.strerror(ctypes.get_errno())
