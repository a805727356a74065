"""Test that the cache state is computed from bytes that the device read and bytes that were served."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from archiver.machine import caches


@pytest.mark.parametrize(
    ("device_read_bytes", "served_bytes", "temperature"),
    [
        (None, 1000, "unknown"),  # device reads are not known
        (0, 0, "unknown"),  # no bytes were served
        (1000, 0, "unknown"),
        (1000, 1000, "cold"),
        (5000, 1000, "cold"),  # with read-ahead
        (900, 1000, "cold"),
        (899, 1000, "unknown"),
        (101, 1000, "unknown"),
        (100, 1000, "warm"),
        (0, 1000, "warm"),
    ],
)
def test_cache_temperature_follows_from_device_reads_and_served_bytes(
    device_read_bytes: int | None, served_bytes: int, temperature: str
) -> None:
    assert caches.temperature(device_read_bytes, served_bytes) == temperature


def test_dropping_caches_writes_dirty_pages_back_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, calls = tmp_path / "segment", list[str]()
    path.write_bytes(b"x" * 10_000)
    real = os.posix_fadvise

    def noting(descriptor: int, *advice: int) -> None:
        calls.append(f"dropped {advice}")
        real(descriptor, *advice)

    monkeypatch.setattr(os, "sync", lambda: calls.append("written back"))
    monkeypatch.setattr(os, "posix_fadvise", noting)
    caches.drop([path])
    assert calls == ["written back", f"dropped {(0, 0, os.POSIX_FADV_DONTNEED)}"]  # dirty pages cannot be dropped
    assert path.read_bytes() == b"x" * 10_000


def test_removed_segment_is_skipped_when_caches_are_dropped(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_bytes(b"x")
    caches.drop([tmp_path / "gone", kept])
    assert kept.exists()
