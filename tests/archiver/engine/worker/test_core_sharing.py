"""Test how long a worker yields a shared core: while others use it, and for a bounded time."""

from __future__ import annotations

import asyncio

from archiver.engine.worker.core_sharing import ALONE_NS, TAKEN_NS, share_core


class Core:
    """A core that other processes use for the same time after each yield, and its clock."""

    def __init__(self, others_ns: int) -> None:
        self._others_ns = others_ns
        self.now_ns = 0
        self.yields = 0

    def give_up(self) -> None:
        self.yields += 1
        self.now_ns += self._others_ns

    async def share(self, until_ns: int) -> int:
        """Share the core until an instant; return the passes of another task meanwhile."""
        passes = 0

        async def work() -> None:
            nonlocal passes
            while True:
                passes += 1
                await asyncio.sleep(0)

        worker = asyncio.create_task(work())
        await share_core(until_ns, lambda: self.now_ns, self.give_up)
        worker.cancel()
        return passes


def test_core_used_by_others_is_yielded_in_every_pass() -> None:
    core = Core(others_ns=TAKEN_NS + 1)
    passes = asyncio.run(core.share(20 * (TAKEN_NS + 1)))
    assert (core.yields, core.now_ns) == (20, 20 * (TAKEN_NS + 1))
    assert passes == 20


def test_core_unused_by_others_is_yielded_for_a_bounded_time() -> None:
    core = Core(others_ns=ALONE_NS // 250)
    asyncio.run(core.share(1_000_000_000))
    assert (core.yields, core.now_ns) == (250, ALONE_NS)


def test_core_is_not_yielded_after_the_given_time() -> None:
    core = Core(others_ns=1_000_000)
    asyncio.run(core.share(0))
    assert core.yields == 0
