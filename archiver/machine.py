"""What machine this is: recorded with every run, because a number without its machine means nothing."""

from __future__ import annotations

import os
import platform
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

import archiver

_PACKAGES = ("uvloop", "httptools", "aiohttp", "awscrt", "boto3", "numpy", "hdrhistogram")


def describe() -> dict[str, Any]:
    """Processor, memory, kernel and versions of this host, as plain JSON values."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "missing"
    return {
        "host": socket.gethostname(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "cores_usable": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "archiver": archiver.__version__,
        "packages": packages,
    }


def block_device(path: Path) -> str | None:
    """The name of the block device that holds ``path``, as /proc/diskstats has it; None where there is none."""
    number = os.stat(path).st_dev
    link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return link.resolve().name if link.exists() else None


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
