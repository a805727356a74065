"""Test the host as a source: its counters follow the work done, and no byte is counted twice."""

from __future__ import annotations

import os
import socket
import time
from collections import namedtuple
from pathlib import Path
from typing import Any

import psutil
import pytest

from archiver.machine.description import disks_under
from archiver.watch.host import READS_PER_SPEED, HostSource
from archiver.watch.source import WatchError
from results.recorded.resources import QUANTITIES

CoreTimes = namedtuple("CoreTimes", "user nice system idle iowait irq softirq steal guest guest_nice")
Disk = namedtuple("Disk", "read_count write_count read_bytes write_bytes read_time write_time busy_time")
Link = namedtuple("Link", "speed")
Traffic = namedtuple("Traffic", "bytes_sent bytes_recv")

BUSY = Disk(1, 2, 512, 1024, 3000, 4000, 5000)
IDLE = Disk(0, 0, 0, 0, 0, 0, 0)


def show_disks(monkeypatch: pytest.MonkeyPatch, disks: dict[str, Disk] | None) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", lambda **_: disks)


def test_host_reading_uses_known_quantities_and_has_every_core() -> None:
    reading = HostSource().read()
    assert set(reading) <= set(QUANTITIES)
    cores = {str(core) for core in range(len(psutil.cpu_times(percpu=True)))}
    for quantity in ("user", "system", "iowait", "steal", "idle"):
        assert set(reading[f"cpu_{quantity}_seconds"]) == cores
    assert reading["memory_total_bytes"][""] == psutil.virtual_memory().total
    assert 0 < reading["memory_used_bytes"][""] < reading["memory_total_bytes"][""]


def test_swapped_bytes_are_counted_in_whole_pages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr("archiver.watch.host._VMSTAT", vmstat)
    vmstat.write_text("nr_free_pages 17\npswpin 3\npswpout 5\n")
    page = os.sysconf("SC_PAGE_SIZE")
    reading = HostSource().read()
    assert (reading["swap_in_bytes"], reading["swap_out_bytes"]) == ({"": 3 * page}, {"": 5 * page})
    vmstat.write_text("nr_free_pages 17\n")  # kernel without swap
    assert "swap_in_bytes" not in HostSource().read()
    vmstat.unlink()
    assert "swap_in_bytes" not in HostSource().read()


def test_cpu_work_appears_in_core_times() -> None:
    source = HostSource()

    def busy_seconds() -> float:
        reading = source.read()
        return sum(sum(reading[f"cpu_{quantity}_seconds"].values()) for quantity in ("user", "system", "steal"))

    before, done = busy_seconds(), time.process_time() + 0.3
    while time.process_time() < done:
        pass
    assert busy_seconds() - before > 0.1  # the kernel may sample at ticks, so the count is inexact


def test_user_includes_nice_and_guests_once_and_system_the_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    times = CoreTimes(
        user=10, nice=2, system=3, idle=100, iowait=7, irq=0.5, softirq=0.25, steal=4, guest=6, guest_nice=1
    )
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: [times])
    reading = HostSource().read()
    assert reading["cpu_user_seconds"] == {"0": 12}
    assert reading["cpu_system_seconds"] == {"0": 3.75}
    assert reading["cpu_iowait_seconds"] == {"0": 7}
    assert reading["cpu_steal_seconds"] == {"0": 4}
    assert reading["cpu_idle_seconds"] == {"0": 100}


def test_iowait_never_decreases_even_if_the_kernel_corrects_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = iter([5.0, 4.9, 5.1])
    monkeypatch.setattr(psutil, "cpu_times", lambda **_: [CoreTimes(1, 0, 1, 1, next(seen), 0, 0, 0, 0, 0)])
    source = HostSource()
    assert [source.read()["cpu_iowait_seconds"]["0"] for _ in range(3)] == [5.0, 5.0, 5.1]


def test_disk_writes_appear_in_the_item_of_their_disk(tmp_path: Path) -> None:
    source = HostSource()
    before = source.read()
    devices = disks_under(tmp_path)
    if not devices:
        pytest.skip(f"{tmp_path} is on no disk")
    with (tmp_path / "file").open("wb") as file:
        file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    after = source.read()
    for quantity, least in (("disk_write_bytes", 1 << 20), ("disk_writes", 1), ("disk_request_seconds", 0)):
        assert sum(after[quantity][disk] - before[quantity][disk] for disk in devices) >= least


def test_loopback_traffic_appears_in_its_interface() -> None:
    source = HostSource()
    before = source.read()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as sender:
        receiver, _ = listener.accept()
        with receiver:
            for _ in range(16):
                sender.sendall(b"x" * 65536)
                receiver.recv(65536, socket.MSG_WAITALL)
    after = source.read()
    for quantity in ("network_receive_bytes", "network_send_bytes"):
        assert after[quantity]["lo"] - before[quantity]["lo"] >= 1 << 20


def test_disk_times_are_in_seconds_and_amounts_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    show_disks(monkeypatch, {"sda": BUSY})
    reading = HostSource().read()
    found = {quantity: values["sda"] for quantity, values in reading.items() if quantity.startswith("disk_")}
    assert found == {
        "disk_busy_seconds": 5.0, "disk_read_bytes": 512, "disk_write_bytes": 1024,
        "disk_reads": 1, "disk_writes": 2, "disk_request_seconds": 7.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "devices"),
    [
        ("sda sda1 sda2 sdb sdb15", "sda sdb"),
        ("nvme0n1 nvme0n1p1 nvme0n1p12 nvme0n11 nvme10n1", "nvme0n1 nvme0n11 nvme10n1"),
        ("mmcblk0 mmcblk0p1 mmcblk0boot0", "mmcblk0 mmcblk0boot0"),
        ("xvda1 xvda2", "xvda1 xvda2"),  # whole disk not listed
        ("vda loop0 ram1 zram0 fd0 sr0", "vda"),
        ("sda dm-0 dm-12 md0 md127 md127p1 md_home bcache0", "sda"),
        ("nvme0n1 nvme0c0n1 nvme0c1n1", "nvme0n1"),  # paths to nvme0n1
        ("nbd1 nbd10 nbd1p1", "nbd1 nbd10"),
    ],
)
def test_disks_are_reported_without_partitions_stacked_devices_and_paths(
    monkeypatch: pytest.MonkeyPatch, listed: str, devices: str
) -> None:
    for disk in (BUSY, IDLE):
        show_disks(monkeypatch, dict.fromkeys(listed.split(), disk))
        assert list(HostSource().read()["disk_read_bytes"]) == devices.split()


def test_disk_path_is_reported_if_only_the_path_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    show_disks(monkeypatch, {"nvme0n1": IDLE, "nvme0c0n1": BUSY})
    assert HostSource().read()["disk_read_bytes"]["nvme0c0n1"] == 512


def test_removed_disk_or_interface_is_not_in_the_next_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    traffic = {"lo": Traffic(1, 1), "eth1": Traffic(2, 2)}
    monkeypatch.setattr(psutil, "net_io_counters", lambda **_: dict(traffic))
    monkeypatch.setattr(psutil, "net_if_stats", lambda: {"lo": Link(0), "eth1": Link(10_000)})
    show_disks(monkeypatch, {"sda": BUSY, "sdb": BUSY})
    source = HostSource()
    assert source.read()["network_speed_bytes_per_second"] == {"eth1": 1.25e9}
    del traffic["eth1"]
    show_disks(monkeypatch, {"sda": BUSY})
    reading = source.read()
    assert list(reading["disk_reads"]) == ["sda"]
    assert list(reading["network_send_bytes"]) == ["lo"]
    assert reading["network_speed_bytes_per_second"] == {}


def _no_disks(**_: Any) -> None:
    raise NotImplementedError("/proc/diskstats nor /sys/block are available on this system")


@pytest.mark.parametrize("counters", [lambda **_: None, lambda **_: {}, _no_disks])
def test_host_without_disk_counters_is_read(monkeypatch: pytest.MonkeyPatch, counters: Any) -> None:
    monkeypatch.setattr(psutil, "disk_io_counters", counters)
    monkeypatch.setattr(psutil, "net_io_counters", lambda **_: None)
    reading = HostSource().read()
    assert reading["disk_busy_seconds"] == {}
    assert reading["network_send_bytes"] == {}
    assert reading["cpu_user_seconds"]


def test_link_speeds_are_read_only_at_every_nth_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def speeds() -> dict[str, Link]:
        asked.append(1)
        return {"lo": Link(8 * len(asked))}

    monkeypatch.setattr(psutil, "net_if_stats", speeds)
    source = HostSource()
    told = [source.read()["network_speed_bytes_per_second"]["lo"] for _ in range(READS_PER_SPEED + 1)]
    assert told == [1e6] * READS_PER_SPEED + [2e6]


def test_unreadable_host_is_reported_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**_: Any) -> None:
        raise PermissionError(13, "Permission denied", "/proc/stat")

    monkeypatch.setattr(psutil, "cpu_times", refused)
    with pytest.raises(WatchError, match=r"local: .*Permission denied: '/proc/stat'"):
        HostSource().read()
