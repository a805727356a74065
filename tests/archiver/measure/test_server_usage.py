"""Test the server's usage in a phase: best source for each figure, right machine and right disks."""

from __future__ import annotations

import pytest

from archiver.measure.server_usage import ServerView, WorkDone, read_bytes, server_usage, usage_throughout
from results.recorded.model import ServerUsage
from results.recorded.resources import SampleRow, Timeline
from tests.archiver.measure.sampled import SECONDS, TO_NS, between

WORK = WorkDone(objects=1000, archived_bytes=8_192_000, retrieved_bytes=0)


def host(busy: tuple[float, ...], **more: dict[str, float]) -> Timeline:
    """Return a timeline with cores busy for these seconds of ten, half in the kernel, and idle otherwise."""
    cores = {str(core): seconds for core, seconds in enumerate(busy)}
    after: dict[str, dict[str, float]] = {
        "cpu_user_seconds": {core: seconds / 2 for core, seconds in cores.items()},
        "cpu_system_seconds": {core: seconds / 2 for core, seconds in cores.items()},
        "cpu_iowait_seconds": dict.fromkeys(cores, 0.0),
        "cpu_steal_seconds": dict.fromkeys(cores, 0.0),
        "cpu_idle_seconds": {core: SECONDS - seconds for core, seconds in cores.items()},
        **more,
    }
    return between({quantity: dict.fromkeys(items, 0.0) for quantity, items in after.items()}, after)


def process(cpu_seconds: float, threads: tuple[float, ...] = (), cores: float = 2.0) -> Timeline:
    named = {f"7/{n}": seconds for n, seconds in enumerate(threads)}
    return between(
        {"process_cpu_seconds": {"": 0.0}, "thread_cpu_seconds": dict.fromkeys(named, 0.0),
         "process_cpu_limit_cores": {"": cores}},
        {"process_cpu_seconds": {"": cpu_seconds}, "thread_cpu_seconds": named,
         "process_cpu_limit_cores": {"": cores}},
    )  # fmt: skip


def usage(view: ServerView | None = None, work: WorkDone = WORK, **sources: Timeline) -> ServerUsage:
    found = server_usage(sources, view or ServerView(), work, 0, TO_NS)
    assert found is not None
    return found


def test_server_cpu_usage_has_total_core_thread_and_limit() -> None:
    found = usage(local=host((9.0, 2.0)), pid=process(8.0, threads=(7.5, 0.5)))
    assert found.cpu_percent == pytest.approx(80)
    assert found.cpu_limit_percent == pytest.approx(200)
    assert found.busiest_thread_percent == pytest.approx(75)
    assert found.busiest_core_percent == pytest.approx(90)
    assert found.host_cpu_percent == pytest.approx(55)
    assert found.cpu_milliseconds_per_object == pytest.approx(8.0)
    assert found.overlap == 1.0


def test_thread_time_waiting_for_a_core_counts_as_busy() -> None:
    waiting = between(
        {"thread_cpu_seconds": {"7/0": 0.0, "7/1": 0.0}, "thread_wait_seconds": {"7/1": 0.0}},
        {"thread_cpu_seconds": {"7/0": 5.0, "7/1": 4.0}, "thread_wait_seconds": {"7/1": 5.5}},
    )
    assert usage(pid=waiting).busiest_thread_percent == pytest.approx(95)


def test_busiest_core_excludes_cores_of_the_client() -> None:
    shared = ServerView(shares_host=True, client_cores=(1,))
    found = usage(shared, local=host((3.0, 10.0)), pid=process(2.0))
    assert found.busiest_core_percent == pytest.approx(30)
    alone = ServerView(shares_host=True, client_cores=(0, 1))  # no core is left for the server alone
    assert usage(alone, local=host((3.0, 10.0))).busiest_core_percent == pytest.approx(100)


def test_host_cpu_time_per_object_needs_a_remote_client() -> None:
    assert usage(node=host((4.0, 4.0))).cpu_milliseconds_per_object == pytest.approx(8.0)
    shared = ServerView(shares_host=True)
    assert usage(shared, local=host((4.0, 4.0))).cpu_milliseconds_per_object is None


def test_disk_usage_has_role_queue_await_and_share_of_speed() -> None:
    local = host(
        (1.0,),
        disk_busy_seconds={"sda": 9.0, "sdb": 1.0, "sdc": 8.0},
        disk_read_bytes={"sda": 0.0, "sdb": 0.0, "sdc": 5e6},
        disk_write_bytes={"sda": 16_384_000.0, "sdb": 819_200.0, "sdc": 7e6},
        disk_reads={"sda": 0.0, "sdb": 0.0, "sdc": 10.0},
        disk_writes={"sda": 1000.0, "sdb": 100.0, "sdc": 10.0},
        disk_request_seconds={"sda": 20.0, "sdb": 0.5, "sdc": 1.0},
    )
    view = ServerView(disk_roles={"sda": "object", "sdb": "catalogue"}, disk_speeds={"sda": 10e6})
    found = usage(view, local=local)
    by_device = {disk.device: disk for disk in found.disks}
    assert by_device["sda"].role == "object"
    assert by_device["sda"].queue == pytest.approx(2.0)
    assert by_device["sda"].await_ms == pytest.approx(20.0)
    assert by_device["sda"].share_of_speed == pytest.approx(0.16384)
    assert by_device["sdb"].share_of_speed is None
    # sdc has no role in the store, so it is listed but not counted.
    assert found.disk_busy_percent == pytest.approx(90)
    assert (found.disk_read_bytes, found.disk_write_bytes) == (0, 17_203_200)
    assert found.write_amplification == pytest.approx(2.1)
    everything = usage(ServerView(), local=local)  # without roles all disks are counted
    assert everything.disk_write_bytes == 24_203_200


def test_cache_share_is_the_served_part_not_read_from_devices() -> None:
    disks = {"disk_busy_seconds": {"vda": 1.0}, "disk_read_bytes": {"vda": 2e6}, "disk_write_bytes": {"vda": 0.0}}
    view = ServerView(disk_roles={"vda": "object"})
    assert usage(view, WorkDone(10, 0, 8_000_000), local=host((1.0,), **disks)).cache_share == pytest.approx(0.75)
    assert (
        usage(view, WorkDone(10, 0, 1_000_000), local=host((1.0,), **disks)).cache_share == 0.0
    )  # readahead read more than was served
    assert usage(view, WorkDone(10, 8_000_000, 0), local=host((1.0,), **disks)).cache_share is None


def test_loopback_counts_for_local_client_and_other_links_for_remote() -> None:
    local = host(
        (1.0,),
        network_send_bytes={"lo": 50e6, "eth0": 20e6},
        network_receive_bytes={"lo": 50e6, "eth0": 529.2e6},
        network_speed_bytes_per_second={"eth0": 100e6},
    )
    remote = usage(local=local)
    (link,) = remote.links
    assert link.interface == "eth0"
    assert link.speed_megabytes_per_second == pytest.approx(100)
    assert link.receive_megabytes_per_second == pytest.approx(52.92)
    assert remote.network_megabytes_per_second == pytest.approx(54.92)
    here = usage(ServerView(shares_host=True, link_speed_bytes_per_second=10e6), local=local)
    (link,) = here.links
    assert link.interface == "lo"
    assert link.speed_megabytes_per_second == pytest.approx(10)
    assert here.network_megabytes_per_second == pytest.approx(5)  # counted once: loopback receives what it sends
    assert here.network_bytes_per_byte == pytest.approx(50e6 / 8_192_000)


def test_usage_of_several_hosts_is_combined_and_devices_are_distinguished() -> None:
    disks = {"disk_busy_seconds": {"sda": 5.0}, "disk_read_bytes": {"sda": 0.0}, "disk_write_bytes": {"sda": 1e6}}
    found = usage(one=host((1.0, 1.0), **disks), two=host((9.0, 9.0), **disks))
    assert found.host_cpu_percent == pytest.approx(50)
    assert found.busiest_core_percent == pytest.approx(90)
    assert [disk.device for disk in found.disks] == ["sda", "sda of host 2"]
    assert found.disk_write_bytes == 2_000_000


def test_source_not_covering_the_phase_is_ignored() -> None:
    short = Timeline([SampleRow("late", 0.0, TO_NS // 2, {"process_cpu_seconds": {"": 1.0}})])
    assert server_usage({"late": short}, ServerView(), WORK, 0, TO_NS) is None
    assert usage(local=host((1.0,)), late=short).cpu_percent is None


def test_usage_throughout_covers_the_time_common_to_all_sources() -> None:
    counts = ((0.25, 0.0), (0.5, 1.0), (0.75, 4.0))  # a window of 5 s
    late = Timeline(SampleRow("pid:7", 0.0, int(TO_NS * at), {"process_cpu_seconds": {"": n}}) for at, n in counts)
    found = usage_throughout({"local": host((5.0,)), "pid:7": late, "silent": Timeline()}, ServerView())
    assert found is not None
    assert found.cpu_percent == pytest.approx(80)
    assert found.host_cpu_percent == pytest.approx(50)
    assert usage_throughout({"silent": Timeline()}, ServerView()) is None
    once = Timeline([SampleRow("once", 0.0, TO_NS, {"process_cpu_seconds": {"": 1.0}})])
    assert usage_throughout({"once": once}, ServerView()) is None


def test_store_counters_are_kept_by_part() -> None:
    counted = between(
        {"store_syncs": {"catalogue": 5.0, "segments": 5.0}, "store_written_bytes": {"segments": 0.0}},
        {"store_syncs": {"catalogue": 15.0, "segments": 25.0}, "store_written_bytes": {"segments": 9e6}},
    )
    found = usage(embedded=counted)
    assert found.store_syncs == {"catalogue": pytest.approx(10), "segments": pytest.approx(20)}
    assert found.store_written_bytes == {"segments": pytest.approx(9e6)}


def test_device_reads_are_known_only_for_disks_with_a_known_role() -> None:
    disks = {"disk_busy_seconds": {"vda": 1.0}, "disk_read_bytes": {"vda": 2e6}, "disk_write_bytes": {"vda": 0.0}}
    lines = {"local": host((1.0,), **disks)}
    assert read_bytes(lines, ServerView(disk_roles={"vda": "object"}), 0, TO_NS) == 2_000_000
    assert read_bytes(lines, ServerView(), 0, TO_NS) is None
    assert read_bytes({}, ServerView(disk_roles={"vda": "object"}), 0, TO_NS) is None
