"""This host's cores, memory, swap, disks and network interfaces, from psutil.

One idea: every byte counts once. Partitions, mapped devices and arrays are left out, because the disks below them count
the same bytes. Values that the kernel may decrease are turned into counters here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from archiver.watch.source import Source, WatchError
from results.recorded.resources import LOCAL, Reading

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_VMSTAT = Path("/proc/vmstat")
READS_PER_SPEED = 10  # link speeds rarely change, and reading them takes as long as all other values

_NO_DEVICE = re.compile(r"(loop|ram|zram|fd|sr)\d+")
_ABOVE_DEVICES = re.compile(r"(dm-|md_?|bcache)\w+")
# sda1 of sda; nvme0n1p1 of nvme0n1; nvme0c1n1, a path to nvme0n1.
_PARTS = (re.compile(r"(.*\D)\d+"), re.compile(r"(.*\d)p\d+"), re.compile(r"(nvme\d+)c\d+(n\d+)"))


class HostSource(Source):
    """This host, as the host of the server or of the client."""

    def __init__(self, name: str = LOCAL) -> None:
        self.name = name
        self._reads = 0
        self._cpu: dict[str, dict[str, float]] = {}
        self._speeds: dict[str, float] = {}

    def read(self) -> Reading:
        try:
            reading = {**self._cpu_seconds(), **_memory(), **_swap(), **_disks(), **self._networks()}
        except OSError as failed:
            raise WatchError(
                f"{self.name}: this host's counters cannot be read ({failed}); correct that, or do not watch it"
            ) from failed
        self._reads += 1
        return reading

    def _cpu_seconds(self) -> dict[str, dict[str, float]]:
        """Return CPU seconds of each core. The kernel's user and nice include guest time.

        The result never falls, although the kernel's values do: "iowait [...] value may decrease" and idle with it
        (proc.rst). A counter that falls would look like a restarted one.
        """
        for core, times in enumerate(psutil.cpu_times(percpu=True)):
            for quantity, seconds in (
                ("cpu_user_seconds", times.user + times.nice),
                ("cpu_system_seconds", times.system + times.irq + times.softirq),
                ("cpu_iowait_seconds", times.iowait),
                ("cpu_steal_seconds", times.steal),
                ("cpu_idle_seconds", times.idle),
            ):
                cores = self._cpu.setdefault(quantity, {})
                cores[str(core)] = max(seconds, cores.get(str(core), 0.0))
        return {quantity: dict(cores) for quantity, cores in self._cpu.items()}

    def _networks(self) -> dict[str, dict[str, float]]:
        networks = psutil.net_io_counters(pernic=True, nowrap=False) or {}
        if self._reads % READS_PER_SPEED == 0:
            # In Mbit/s; 0 means unknown.
            self._speeds = {
                name: link.speed * 1e6 / 8 for name, link in psutil.net_if_stats().items() if link.speed > 0
            }
        return {
            "network_receive_bytes": {name: network.bytes_recv for name, network in networks.items()},
            "network_send_bytes": {name: network.bytes_sent for name, network in networks.items()},
            "network_speed_bytes_per_second": {name: speed for name, speed in self._speeds.items() if name in networks},
        }


def _memory() -> dict[str, dict[str, float]]:
    memory = psutil.virtual_memory()
    return {
        "memory_used_bytes": {"": memory.total - memory.available},
        "memory_total_bytes": {"": memory.total},
    }


def _swap() -> dict[str, dict[str, float]]:
    """Return swap traffic in whole pages, as the kernel counts (psutil assumes 4 KiB). Some containers show none."""
    try:
        counts = dict(line.split(" ", 1) for line in _VMSTAT.read_text().splitlines())
        pages = {"swap_in_bytes": int(counts["pswpin"]), "swap_out_bytes": int(counts["pswpout"])}
    except (OSError, KeyError, ValueError):
        return {}
    return {quantity: {"": count * _PAGE_BYTES} for quantity, count in pages.items()}


def _disks() -> dict[str, dict[str, float]]:
    try:
        # Kernel counters as they are: the code that computes differences handles a counter that fell.
        listed: Mapping[str, Any] = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
    except (NotImplementedError, PermissionError):  # some containers show no disks
        listed = {}
    disks = {name: disk for name, disk in listed.items() if _is_device(name, listed)}
    return {
        "disk_busy_seconds": {name: disk.busy_time / 1000 for name, disk in disks.items()},
        "disk_read_bytes": {name: disk.read_bytes for name, disk in disks.items()},
        "disk_write_bytes": {name: disk.write_bytes for name, disk in disks.items()},
        "disk_reads": {name: disk.read_count for name, disk in disks.items()},
        "disk_writes": {name: disk.write_count for name, disk in disks.items()},
        "disk_request_seconds": {name: (disk.read_time + disk.write_time) / 1000 for name, disk in disks.items()},
    }


def _is_device(name: str, listed: Mapping[str, Any]) -> bool:
    """Return whether a name of /proc/diskstats is a disk whose bytes are counted under no other name."""
    if _NO_DEVICE.fullmatch(name) or _ABOVE_DEVICES.fullmatch(name):
        return False
    for pattern in _PARTS:
        part = pattern.fullmatch(name)
        whole = listed.get("".join(part.groups())) if part else None
        # Before Linux 6.4 the traffic of a path to an NVMe disk is counted only on the path.
        if whole is not None and (_has_counted(whole) or not _has_counted(listed[name])):
            return False
    return True


def _has_counted(disk: Any) -> bool:
    return bool(disk.read_count or disk.write_count)
