"""Test where workers poll busily, what CPU time it costs, and what the run reports about it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from archiver.engine.plan import polls_busily
from archiver.engine.request import Poll
from archiver.engine.worker import polling
from archiver.machine.cores import Cores
from archiver.values.errors import UsageError
from tests.support.commands import archiver
from tests.support.runs import TINY

FOUR = Cores([9000, 9001, 9002, 9003], [])  # unknown numbers count as separate physical cores
TWO_OF_FOUR = Cores([9002, 9003], [9000, 9001])
SHARED = Cores([9000], [])


@pytest.mark.parametrize(
    ("poll", "workers", "cores", "shares_host", "is_cluster", "expected"),
    [
        ("auto", 3, FOUR, False, False, True),
        ("auto", 4, FOUR, False, False, False),  # no core is left for the coordinator
        ("auto", 1, TWO_OF_FOUR, True, False, False),
        ("auto", 1, FOUR, False, True, False),
        ("busy", 4, FOUR, False, False, True),
        ("busy", 2, TWO_OF_FOUR, True, False, True),
        ("busy", 9, FOUR, False, True, True),
        ("sleep", 1, FOUR, False, False, False),
    ],
)
def test_auto_polling_is_busy_only_with_spare_unshared_cores(
    poll: Poll, workers: int, cores: Cores, shares_host: bool, is_cluster: bool, expected: bool
) -> None:
    assert polls_busily(poll, workers, cores, shares_host=shares_host, is_cluster=is_cluster) is expected


@pytest.mark.parametrize(
    ("workers", "cores", "shares_host", "words"),
    [
        (5, FOUR, False, "each of 5 worker.* the workers have 4; leave"),
        (3, TWO_OF_FOUR, True, "each of 3 worker.* the workers have 2; leave"),
        (1, SHARED, True, "each of 1 worker.* the workers have 1, which the platform shares; leave"),
    ],
)
def test_busy_polling_without_a_core_for_each_worker_is_refused(
    workers: int, cores: Cores, shares_host: bool, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        polls_busily("busy", workers, cores, shares_host=shares_host, is_cluster=False)


async def test_passes_that_find_nothing_are_idle_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty pass takes 2 s of the test's clock. A pass of 7 s is idle, and one of 9 s is not."""
    passes = [*(2.0 for _ in range(200)), 7.0, 9.0]
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += passes.pop(0) if passes else 0.0
        return now

    monkeypatch.setattr(polling, "time", SimpleNamespace(monotonic=clock))
    busy = polling.BusyPolling()
    await busy.begin()
    begun_at, idle_before = now, busy.idle_seconds
    for _ in range(len(passes)):
        await asyncio.sleep(0)
    busy.end()
    assert busy.idle_seconds - idle_before == now - begun_at - 9.0


async def test_idle_time_does_not_grow_after_polling_ends() -> None:
    busy = polling.BusyPolling()
    await busy.begin()
    busy.end()
    await asyncio.sleep(0)
    idle_seconds = busy.idle_seconds
    for _ in range(10):
        await asyncio.sleep(0)
    assert busy.idle_seconds == idle_seconds > 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a core for the platform, and one for the worker")
def test_run_with_busy_polling_reports_it_and_excludes_idle_cpu_time(home: Path) -> None:
    done = archiver("run", "dr550", *TINY, "--poll", "busy", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["settings"]["poll"] == "busy"
    assert all(each["client"]["cpu_percent"] < 70 for each in found["results"])
    archiver("report", found["run"], "--format", "html")
    assert "polling busily" in (home / "runs" / found["run"] / "report" / "report.html").read_text()


def test_tsm_backend_refuses_poll_option(home: Path) -> None:
    done = archiver("run", "dr550", *TINY, "--backend", "tsm", "--poll", "busy")
    assert done.returncode == 2
    assert "--poll" in done.stderr
