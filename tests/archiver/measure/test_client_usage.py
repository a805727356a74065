"""Test the usage of the client's own host in a phase: links, memory and swap."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from archiver.measure.bottleneck import judge
from archiver.measure.client_usage import STANDSTILL_SECONDS, client_usage, incomplete
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.merging import Window
from archiver.measure.reports import Carried, CpuSample, PhaseReport
from archiver.values.errors import UsageError
from archiver.watch.choosing import WatchedPlatform, WatchOptions, watch_sources
from archiver.watch.sampler import ResourceSampler
from results.recorded.database import RunDatabase
from results.recorded.model import ClientUsage
from results.recorded.resources import Reading, Timeline
from tests.archiver.measure.sampled import SECONDS, TO_NS, between
from tests.support.commands import archiver

WINDOW = Window(0, TO_NS, None, None, True, TO_NS / 1e9)
GB = 1e9


def host(*, sent: float, swapped: float = 0.0, used: float = 1 * GB) -> Timeline:
    """Return a timeline of the client's host: bytes sent and swapped in, and used memory of 16 GB at the end."""
    before: Reading = {
        "network_send_bytes": {"eth0": 0.0, "lo": 0.0},
        "network_receive_bytes": {"eth0": 0.0, "lo": 0.0},
        "network_speed_bytes_per_second": {"eth0": 125e6},
        "memory_used_bytes": {"": 1 * GB},
        "memory_total_bytes": {"": 16 * GB},
        "swap_in_bytes": {"": 5.0},
        "swap_out_bytes": {"": 7.0},
    }
    after = {
        **before,
        "network_send_bytes": {"eth0": sent, "lo": 99 * GB},
        "memory_used_bytes": {"": used},
        "swap_in_bytes": {"": 5.0 + swapped},
    }
    return between(before, after)


def usage(timeline: Timeline | None, *, shares_host: bool = False) -> ClientUsage:
    return client_usage((), WINDOW, 0, timeline, shares_host=shares_host)


def worker_report(on_core: float, waiting: float, late_ms: list[float]) -> PhaseReport:
    """Return the report of a worker with these CPU seconds of ten, and timers with these delays."""
    lateness = Histogram()
    lateness.add(part_of(np.array([each * 1e6 for each in late_ms], dtype=np.int64)))
    samples = [CpuSample(0, 1.0, 2.0), CpuSample(TO_NS, 1.0 + on_core, 2.0 + waiting)]
    return PhaseReport(TO_NS, samples, lateness, None)


def test_object_time_share_is_worker_time_over_closed_loop_client_time() -> None:
    reports = [worker_report(2.0, 1.0, []), worker_report(0.5, 0.5, [])]
    found = client_usage(reports, WINDOW, 1000, closed_loop_clients=4)
    assert found.object_time_share == pytest.approx(4.0 / (4 * SECONDS))
    assert client_usage(reports, WINDOW, 1000).object_time_share is None  # open-loop sessions do not wait for clients
    assert client_usage(reports, WINDOW, 0, closed_loop_clients=4).object_time_share is None


def test_late_share_needs_enough_timer_samples() -> None:
    assert client_usage([worker_report(1.0, 0.0, [25.0] * 99)], WINDOW, 1).late_share is None
    late = client_usage([worker_report(1.0, 0.0, [25.0] * 15 + [1.0] * 85)], WINDOW, 1)
    assert late.late_share == pytest.approx(0.15)


def limit(found: ClientUsage) -> tuple[str | None, str]:
    verdict = judge(found, None, shares_host=False)
    return verdict.limited_by, verdict.utilisations[0].by


def test_full_link_of_client_host_makes_the_client_the_limit() -> None:
    full, half = usage(host(sent=SECONDS * 120e6)), usage(host(sent=SECONDS * 60e6))
    (link,) = full.links
    assert link.interface == "eth0"
    assert link.send_megabytes_per_second == pytest.approx(120)
    assert limit(full) == ("client", "its network eth0")
    assert limit(half)[0] is None


def test_swapping_client_is_the_limit_and_its_memory_is_reported() -> None:
    found = usage(host(sent=0, swapped=SECONDS * 2e6, used=15.5 * GB))
    assert found.swap_in_megabytes_per_second == pytest.approx(2)
    assert found.swap_out_megabytes_per_second == 0
    assert found.memory_available_bytes == pytest.approx(0.5 * GB)
    assert limit(found) == ("client", "its memory: it swapped")


def test_links_of_a_shared_host_are_not_counted_for_the_client() -> None:
    found = usage(host(sent=SECONDS * 120e6, swapped=SECONDS * 2e6), shares_host=True)
    assert found.links == ()
    assert limit(found) == ("client", "its memory: it swapped")


def test_client_host_without_samples_is_not_the_limit() -> None:
    for found in (usage(None), usage(Timeline())):
        assert (found.links, found.memory_available_bytes, found.swap_in_megabytes_per_second) == ((), None, None)
        assert limit(found)[0] is None


def watched(*, shares_host: bool, client_is_here: bool = True) -> list[str]:
    platform = WatchedPlatform((), False, shares_host, None, None, client_is_here=client_is_here)
    return [source.name for source in watch_sources(WatchOptions(), platform)]


def test_shared_host_is_sampled_once() -> None:
    assert watched(shares_host=True) == ["local"]
    assert watched(shares_host=False) == ["client"]
    assert watched(shares_host=False, client_is_here=False) == []  # cluster workers run on other hosts
    with pytest.raises(UsageError, match="the platform is not on this machine"):
        watch_sources(WatchOptions(("local",)), WatchedPlatform((), False, False, None, None))


def test_samples_of_client_host_are_not_server_samples() -> None:
    sampler = ResourceSampler(watch_sources(WatchOptions(), WatchedPlatform((), False, False, None, None)))
    sampler.start()
    sampler.stop()
    assert sampler.timelines() == {}
    assert len(sampler.client_timeline()) == 2


def test_run_without_local_platform_stores_client_host_samples(home: Path, tmp_path: Path) -> None:
    """The null backend runs on no machine."""
    done = archiver(
        "run", "dr550", "--quick", "--backend", "null", "--set", "object_sizes=8KiB", "--set", "clients=1",
        "--set", "objects_per_session=25", "--set", "stop.seconds_min=300ms", "--set", "stop.seconds_max=300ms",
        "--tables", "all",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "nothing: the platform is not on this machine" in done.stdout
    (path,) = home.glob("runs/*/run.db")
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT DISTINCT source FROM sample").fetchall() == [("client",)]
    database = RunDatabase.open(path)
    try:
        assert database.timelines() == {}
        results = database.results()
    finally:
        database.close()
    assert all(result.server is None for result in results)
    assert all(result.client.memory_available_bytes for result in results)
    shown = archiver("report", str(path.parent), "--format", "csv", "--out", str(tmp_path / "out"))
    assert shown.returncode == 0, shown.stderr
    table = (tmp_path / "out" / "tables" / "server-resources.csv").read_text()
    assert ",client,memory_used_bytes," in table


@pytest.mark.parametrize(
    ("used", "waited", "reason"),
    [
        (0.1, 0.1, "a worker did not run for 25 s: the client's processes or its machine were suspended"),
        (24.0, 0.0, None),  # busy
        (0.0, 24.0, None),  # without a core, which counts as busy
    ],
)
def test_worker_that_did_not_run_makes_its_phase_incomplete(used: float, waited: float, reason: str | None) -> None:
    gap_ns = int((STANDSTILL_SECONDS + 20) * 1e9)
    samples = [CpuSample(0, 1.0, 2.0), CpuSample(250_000_000, 1.1, 2.0)]
    samples.append(CpuSample(250_000_000 + gap_ns, 1.1 + used, 2.0 + waited))
    still = PhaseReport(TO_NS, samples, Histogram(), None)
    assert incomplete(Carried([worker_report(1.0, 8.9, []), still], {}, {}, {})) == reason
