"""Test the verdict on stores with a known limit, through the engine, its samplers and real sockets."""

from __future__ import annotations

import os
import time

import pytest

from archiver.engine.coordinator import Coordinator, Fill, RunSetting
from archiver.engine.numbers import ObjectNumbers
from archiver.engine.workers.processes import WorkerProcesses
from archiver.measure.server_usage import ServerView
from archiver.values.retention import DateMaker, Retention
from archiver.watch.host import HostSource
from archiver.watch.process import ProcessSource
from archiver.watch.sampler import ResourceSampler
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from results.recorded.model import Result
from scenarios.model import Phase, Workload
from scenarios.work.sessions import InWindow, Sessions, StopRule, UntilPrecise
from tests.support.servers.stand_in_store import stand_in_store

SECONDS = 1.5
TRIES = 5  # on a busy machine the client or the host may be the limit, and the verdict says so
SLOW_LINK = 10e6


def measure(endpoint: str, pid: int, object_bytes: int, clients: int, link_speed: float | None) -> Result:
    """Archive for a while with one worker, watching the store and this host."""
    core = sorted(os.sched_getaffinity(0))[-1]
    view = ServerView(shares_host=True, client_cores=(core,), link_speed_bytes_per_second=link_speed)
    setting = RunSetting(
        run_id="verdict",
        content_seed=1,
        backend="s3",
        backend_setting=S3Backend(
            S3Options(endpoints=(endpoint,), credentials=Credentials("any", "any", None))
        ).setting_for("bucket", "prefix/", Retention()),
        retention=Retention(),
        verify="none",
        session_kind="opened",
        session_open="head-bucket",
        checksum="crc32c",
        payload_signing=False,
        server=view,
    )
    bytes_max = 20_000 * object_bytes
    stop: StopRule = UntilPrecise(SECONDS, SECONDS, bytes_max, precision=0.0, warm_up_sessions=1)
    if clients > 1:
        stop = InWindow(SECONDS, bytes_max // clients, warm_up_seconds=0.25)
    workload = Workload("archive", Sessions("archive", object_bytes, stop), clients, objects_per_session=10)
    phase = Phase("verdict", 1, 1, (workload,))
    sampler = ResourceSampler([HostSource(), ProcessSource.of_pid(pid)], 0.25)
    workers = WorkerProcesses(1, [core])
    try:
        sampler.start()
        dates: dict[float | None, DateMaker] = {None: DateMaker(Retention(), time.time() + 7200)}
        coordinator = Coordinator(setting, workers, sampler)
        return coordinator.run_phase(phase, ObjectNumbers(1), dates, lambda _: None, Fill()).results[0]
    finally:
        workers.close()
        sampler.stop()


@pytest.mark.parametrize(
    ("weakness", "object_bytes", "clients", "link_speed", "limit"),
    [
        ({"wait_seconds": 0.01}, 8192, 1, None, None),  # one client on a store that only waits: no resource limits
        ({"compute_seconds": 0.002}, 8192, 16, None, "server cpu"),  # one thread, although the host has more cores
        ({"bytes_per_second": SLOW_LINK}, 1 << 18, 4, SLOW_LINK, "network"),
    ],
    ids=["waits", "computes", "slow link"],
)
def test_verdict_names_the_known_limit(
    weakness: dict[str, float], object_bytes: int, clients: int, link_speed: float | None, limit: str | None
) -> None:
    with stand_in_store(**weakness) as (endpoint, pid):
        for _ in range(TRIES):
            result = measure(endpoint, pid, object_bytes, clients, link_speed)
            is_spoilt = result.limited_by in ("client", "host cpu") or any(
                word in (result.confidence or "") for word in ("stolen", "between the samples")
            )
            if not is_spoilt and (result.limited_by is not None or limit is None):
                break
        if is_spoilt:
            pytest.skip(f"this machine is too busy: {result.limited_by}, {result.confidence}")
    assert result.errors == 0
    assert result.objects > 0
    assert result.limited_by == limit, result.utilisations
    assert result.confidence == "medium: client and server share this host"
    if limit is None:
        assert max(each.share for each in result.utilisations) < 0.9
