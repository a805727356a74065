"""Cold reads: getting a store's files out of this host's memory, and telling afterwards whether they were.

One idea: whether data came from a disk is not believed but counted: bytes the device read against bytes served. Only
the store's own files are dropped (posix_fadvise); emptying the whole host's cache would punish everything else that
runs on it, and the device's counter shows that it is not needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

COLD_SHARE = 0.9
WARM_SHARE = 0.1


def drop(paths: Iterable[Path]) -> None:
    """Write back and forget the cached pages of these files."""
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            continue  # a segment that was removed meanwhile
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def temperature(device_read_bytes: int | None, served_bytes: int) -> str:
    """``cold`` where at least nine tenths came from the device, ``warm`` where at most one tenth did, else unknown."""
    if device_read_bytes is None or not served_bytes:
        return "unknown"
    share = device_read_bytes / served_bytes
    if share >= COLD_SHARE:
        return "cold"
    return "warm" if share <= WARM_SHARE else "unknown"
