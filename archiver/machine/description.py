"""Description of this machine for the record of a run: a result is meaningless without its machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from archiver.machine.cores import cores_here
from archiver.values import version

_PACKAGES = ("uvloop", "httptools", "aiohttp", "awscrt", "boto3", "numpy", "hdrhistogram")


def describe() -> dict[str, Any]:
    """Return processor, memory, kernel and versions of this host as plain JSON values."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            packages[name] = "missing"
    return {
        "host": socket.gethostname(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores_usable": len(cores_here(shares_host=False).workers),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "archiver": version.VERSION,
        "packages": packages,
    }


def disks_under(path: Path) -> tuple[str, ...]:
    """Return the disks that store ``path``, named as in /proc/diskstats: whole disks below partitions, LVM and RAID."""
    number = os.stat(path).st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return tuple(sorted(_whole_disks(device.resolve()))) if device.exists() else ()


def disk_roles(folders: Mapping[str, Path]) -> dict[str, str]:
    """Return the roles of each device; a device with several roles has all their names. ``folders`` are by role."""
    roles: dict[str, list[str]] = {}
    for role, folder in folders.items():
        for device in disks_under(folder):
            roles.setdefault(device, []).append(role)
    return {device: " and ".join(names) for device, names in roles.items()}


def _whole_disks(device: Path) -> set[str]:
    if (device / "partition").exists():
        return _whole_disks(device.parent)
    slaves = list((device / "slaves").glob("*"))
    return {disk for slave in slaves for disk in _whole_disks(slave.resolve())} if slaves else {device.name}


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
