"""Test that the pacer calls every arrival once, in order and never early, with one timer for all schedules."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Awaitable, Callable

import numpy as np
import pytest
import uvloop
from numpy.typing import NDArray

from archiver.engine.work.mixed.pacer import GRAIN_NS, Pacer
from archiver.values.errors import RunFailed

MILLISECOND_NS = 10**6
PATIENCE_SECONDS = 20.0  # time limit of a test that waits

Steps = Callable[[Pacer], Awaitable[None]]


def with_pacer(steps: Steps) -> None:
    """Run ``steps`` with a pacer in the event loop of workers. An exception in a callback fails the test."""
    raised: list[object] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: raised.append(context))
        pacer = Pacer(loop)
        try:
            await asyncio.wait_for(steps(pacer), PATIENCE_SECONDS)
        finally:
            pacer.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    assert not raised


def array(due_ns: list[int]) -> NDArray[np.int64]:
    return np.array(due_ns, dtype=np.int64)


class Calls:
    """The calls of a pacer: (schedule, due, now) of each arrival, and the schedules that are done."""

    def __init__(self) -> None:
        self.arrivals: list[tuple[int, int, int]] = []
        self.done: list[tuple[int, int]] = []  # schedule, total arrivals at that time
        self._changed = asyncio.Event()

    def start(self, pacer: Pacer, schedule: int, due_ns: NDArray[np.int64]) -> None:
        pacer.start(
            due_ns.data,
            lambda due: self.arrivals.append((schedule, due, time.monotonic_ns())),
            lambda: self._is_done(schedule),
        )

    def _is_done(self, schedule: int) -> None:
        self.done.append((schedule, len(self.arrivals)))
        self._changed.set()

    async def until_done(self, schedules: int) -> None:
        while len(self.done) < schedules:
            await self._changed.wait()
            self._changed.clear()

    def due(self, schedule: int | None = None) -> list[int]:
        return [due for which, due, _ in self.arrivals if schedule is None or which == schedule]


def test_every_due_time_arrives_once_in_order_and_never_early() -> None:
    async def steps(pacer: Pacer) -> None:
        calls = Calls()
        # Gaps from zero to milliseconds: below, near and above the timer's grain.
        gaps = np.random.default_rng(1).choice([0, 1, GRAIN_NS // 2, GRAIN_NS + 1, 100_000, 2 * MILLISECOND_NS], 300)
        due_ns = time.monotonic_ns() + MILLISECOND_NS + np.cumsum(gaps)
        calls.start(pacer, 0, due_ns)
        assert not calls.arrivals
        await calls.until_done(1)
        assert calls.due() == due_ns.tolist()
        assert all(type(due) is int and now >= due for _, due, now in calls.arrivals)
        assert calls.done == [(0, 300)]

    with_pacer(steps)


def test_thousands_of_schedules_share_one_timer_and_arrive_in_due_order() -> None:
    async def steps(pacer: Pacer) -> None:
        calls, schedules = Calls(), 3000
        descriptors = len(os.listdir("/proc/self/fd"))
        whole = time.monotonic_ns() + np.sort(np.random.default_rng(2).integers(0, 300 * MILLISECOND_NS, 5 * schedules))
        for schedule in range(schedules):
            calls.start(pacer, schedule, whole[schedule::schedules])
        assert len(os.listdir("/proc/self/fd")) == descriptors
        await calls.until_done(schedules)
        assert calls.due() == whole.tolist()
        assert sorted(schedule for schedule, _ in calls.done) == list(range(schedules))
        for schedule in (0, 1234, schedules - 1):
            assert calls.due(schedule) == whole[schedule::schedules].tolist()

    with_pacer(steps)


def test_arrivals_at_the_same_time_come_in_start_order() -> None:
    async def steps(pacer: Pacer) -> None:
        calls, moment = Calls(), time.monotonic_ns() + 5 * MILLISECOND_NS
        for schedule in (2, 0, 1):
            calls.start(pacer, schedule, array([moment, moment]))
        await calls.until_done(3)
        assert [schedule for schedule, _, _ in calls.arrivals] == [2, 2, 0, 0, 1, 1]

    with_pacer(steps)


def test_schedule_started_later_but_due_earlier_comes_first() -> None:
    async def steps(pacer: Pacer) -> None:
        calls, now = Calls(), time.monotonic_ns()
        calls.start(pacer, 0, array([now + 3600 * 10**9]))
        calls.start(pacer, 1, array([now + 2 * MILLISECOND_NS, now + 4 * MILLISECOND_NS]))
        await calls.until_done(1)
        assert calls.done == [(1, 2)]
        # After the others are done, the timer still runs for the remaining schedule.
        calls.start(pacer, 2, array([time.monotonic_ns() + MILLISECOND_NS]))
        await calls.until_done(2)
        assert calls.done[1] == (2, 3)

    with_pacer(steps)


def test_idle_pacer_continues_with_the_next_schedule() -> None:
    async def steps(pacer: Pacer) -> None:
        calls = Calls()
        for schedule in range(3):
            calls.start(pacer, schedule, array([time.monotonic_ns() + MILLISECOND_NS]))
            await calls.until_done(schedule + 1)
            await asyncio.sleep(0.002)  # the loop runs while nothing is due
        assert [schedule for schedule, _, _ in calls.arrivals] == [0, 1, 2]

    with_pacer(steps)


@pytest.mark.parametrize("from_done", [False, True])
def test_one_schedule_can_start_another(from_done: bool) -> None:
    async def steps(pacer: Pacer) -> None:
        calls = Calls()
        due_ns = array([time.monotonic_ns() + 2 * MILLISECOND_NS])
        past_ns = due_ns - MILLISECOND_NS  # overdue when it is started

        def start() -> None:
            calls.start(pacer, 1, past_ns)

        pacer.start(due_ns, lambda due: None if from_done else start(), lambda: start() if from_done else None)
        calls.start(pacer, 0, due_ns + 5 * MILLISECOND_NS)
        await calls.until_done(2)
        assert calls.due() == [*past_ns.tolist(), *(due_ns + 5 * MILLISECOND_NS).tolist()]

    with_pacer(steps)


@pytest.mark.parametrize("long_ago", [10**9, 1, 0])
def test_overdue_arrivals_are_called_from_the_loop_and_not_from_start(long_ago: int) -> None:
    async def steps(pacer: Pacer) -> None:
        calls = Calls()
        calls.start(pacer, 0, array([long_ago, long_ago]))
        assert not calls.arrivals, "nothing is called from start itself"
        await calls.until_done(1)
        assert calls.due() == [long_ago, long_ago]

    with_pacer(steps)


def test_empty_schedule_is_reported_done_from_the_loop() -> None:
    async def steps(pacer: Pacer) -> None:
        calls = Calls()
        calls.start(pacer, 0, array([]))
        assert not calls.done
        await calls.until_done(1)
        assert calls.done == [(0, 0)]

    with_pacer(steps)


def test_one_wake_up_calls_all_overdue_arrivals_after_a_stall() -> None:
    async def steps(pacer: Pacer) -> None:
        calls, turns = Calls(), 0
        due_ns = time.monotonic_ns() + np.arange(200) * 50_000
        calls.start(pacer, 0, due_ns)
        while time.monotonic_ns() <= due_ns[-1]:  # the event loop is blocked
            pass

        def turn() -> None:
            nonlocal turns
            turns += 1
            if not calls.done:
                asyncio.get_running_loop().call_soon(turn)

        turn()
        await calls.until_done(1)
        assert calls.due() == due_ns.tolist()
        assert turns <= 5

    with_pacer(steps)


def test_overloaded_schedule_yields_to_the_event_loop() -> None:
    async def steps(pacer: Pacer) -> None:
        loop, arrivals, began_ns = asyncio.get_running_loop(), 0, 0
        finished = loop.create_future()
        not_yet_due: list[int] = []  # arrivals called too early within one turn

        def arrive(due: int) -> None:
            nonlocal arrivals, began_ns
            arrivals += 1
            began_ns = began_ns or time.monotonic_ns()
            if due > began_ns + GRAIN_NS:
                not_yet_due.append(due)
            while time.monotonic_ns() < due + 200_000:  # longer than the gap to the next arrival
                pass

        def turn() -> None:
            nonlocal began_ns
            began_ns = 0
            if not finished.done():
                loop.call_soon(turn)

        pacer.start((time.monotonic_ns() + np.arange(300) * 100_000).data, arrive, lambda: finished.set_result(None))
        turn()
        await finished
        assert arrivals == 300
        assert not not_yet_due

    with_pacer(steps)


def test_closed_pacer_calls_nothing_and_releases_its_timer() -> None:
    async def steps(pacer: Pacer) -> None:
        descriptors = len(os.listdir("/proc/self/fd"))
        calls, other = Calls(), Pacer(asyncio.get_running_loop())
        now = time.monotonic_ns()
        calls.start(other, 0, array([now, now + 5 * MILLISECOND_NS]))
        calls.start(other, 1, array([]))
        other.close()
        other.close()
        assert len(os.listdir("/proc/self/fd")) == descriptors
        calls.start(pacer, 2, array([now + 10 * MILLISECOND_NS]))
        await calls.until_done(1)
        assert [schedule for schedule, _, _ in calls.arrivals] == [2]
        assert calls.done == [(2, 1)]

    with_pacer(steps)


def test_pacer_can_be_closed_from_its_own_callback() -> None:
    async def steps(pacer: Pacer) -> None:
        calls, closing = Calls(), Pacer(asyncio.get_running_loop())
        arrived: list[int] = []

        def arrive(due: int) -> None:
            arrived.append(due)
            closing.close()

        now = time.monotonic_ns()
        closing.start(array([now]), arrive, lambda: arrived.append(-1))
        closing.start(array([now, now]), arrive, lambda: arrived.append(-1))
        calls.start(pacer, 0, array([now + 5 * MILLISECOND_NS]))
        await calls.until_done(1)
        assert arrived == [now]

    with_pacer(steps)


def test_pacer_wakes_only_when_an_arrival_is_due() -> None:
    """The pacer does not poll: it wakes only when an arrival is due."""

    class Counting(Pacer):
        wakes = 0

        def _wake(self) -> None:
            self.wakes += 1
            super()._wake()

    async def main() -> None:
        pacer, calls = Counting(asyncio.get_running_loop()), Calls()
        due_ns = time.monotonic_ns() + (1 + np.arange(4)) * 25 * MILLISECOND_NS
        calls.start(pacer, 0, due_ns)
        await calls.until_done(1)
        await asyncio.sleep(0.02)
        pacer.close()
        assert calls.due() == due_ns.tolist()
        assert 1 <= pacer.wakes <= 4

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_open_file_limit_is_named_when_no_timer_can_be_opened() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def steps(pacer: Pacer) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(RunFailed, match="limit of open files"):
                Pacer(asyncio.get_running_loop())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with_pacer(steps)
