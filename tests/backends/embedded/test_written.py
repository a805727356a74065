"""The store's counters of written bytes and syncs equal the kernel's."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import StoreError
from backends.embedded.core.changes.objects import CreateBucket, Delete
from backends.embedded.core.files import written
from backends.embedded.core.files.segments import LARGE_BYTES
from backends.embedded.core.store import Store
from backends.embedded.core.tables import catalogue
from tests.backends.embedded.core_calls import CopyFolder, put

MARK_BYTES = 21  # the number of the last commit, written with each commit


class Counts:
    """Changes since this was made, of the store's counters and of the kernel's counter for the writer thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before = self._now()

    def _now(self) -> dict[str, int]:
        store = self._store
        parts = store.written
        return {
            "commits": store.statistics().commits,
            "kernel_bytes": thread_bytes(store._writer._thread.native_id),
            "index_bytes": (store.folder / "catalogue.db-shm").stat().st_size // 4096,  # one for each page added
            **{f"{name}_bytes": part.bytes for name, part in parts.items()},
            **{f"{name}_syncs": part.syncs for name, part in parts.items()},
        }

    def since(self) -> dict[str, int]:
        return {name: value - self._before[name] for name, value in self._now().items()}


def thread_bytes(thread: int | None) -> int:
    """Return the bytes that the thread passed to system calls that write."""
    path = Path(f"/proc/self/task/{thread}/io")
    if not path.exists():
        pytest.skip("this kernel does not count what threads write")
    return int(dict(line.split(": ") for line in path.read_text().splitlines())["wchar"])


def is_exact(counts: dict[str, int]) -> bool:
    neither = MARK_BYTES * counts["commits"] + counts["index_bytes"]
    return counts["kernel_bytes"] == counts["catalogue_bytes"] + counts["segments_bytes"] + neither


@pytest.fixture
def quick_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoint the log often. A test must request this fixture before `core`."""
    monkeypatch.setattr(catalogue, "CHECKPOINT_PAGES", 100)


async def commit_often(core: Store, times: int) -> None:
    for number in range(times):
        await asyncio.gather(*(core.put(put(f"{number % 7} {each} {'k' * 500}", bytes(50))) for each in range(20)))


async def test_every_byte_is_counted_once(quick_checkpoints: None, core: Store) -> None:
    await core.put(put("first"))
    counts = Counts(core)
    await commit_often(core, 60)
    await core.change(Delete("b", f"0 0 {'k' * 500}", None, bypass=False))
    found = counts.since()
    assert found["catalogue_syncs"] > found["commits"] + 6, "the log was to be carried over"
    assert is_exact(found), found


async def test_bytes_are_counted_once_while_a_reader_prevents_a_log_restart(
    quick_checkpoints: None, core: Store
) -> None:
    """A checkpoint then stops early, and the log grows beyond two blocks of its index."""
    await commit_often(core, 5)
    counts = Counts(core)
    reader = core.queries.scan(core.bucket("b"), "", None, None)
    assert isinstance(reader, Generator)
    next(reader)
    await commit_often(core, 30)
    reader.close()
    later = core.queries.scan(core.bucket("b"), "", None, None)
    assert isinstance(later, Generator)
    next(later)
    await commit_often(core, 180)
    log_bytes = (core.folder / "catalogue.db-wal").stat().st_size
    assert log_bytes > 8300 * 4120, "the log was to be longer than two blocks of its index"
    later.close()
    await commit_often(core, 5)
    assert is_exact(counts.since()), counts.since()


async def test_small_commits_sync_twice_each(core: Store) -> None:
    await core.put(put("first"))
    counts = Counts(core)
    for number in range(10):
        await core.put(put(f"{number}"))
    found = counts.since()
    assert (found["commits"], found["segments_syncs"], found["catalogue_syncs"]) == (10, 10, 10)


async def test_catalogue_change_does_not_count_for_the_segments(core: Store) -> None:
    counts = Counts(core)
    await core.change(CreateBucket("another", object_lock=False))
    found = counts.since()
    assert (found["segments_bytes"], found["segments_syncs"], found["catalogue_syncs"]) == (0, 0, 1)
    assert found["catalogue_bytes"] >= 4096


async def test_segment_counters_equal_file_sizes_and_sync_calls(core: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def noted(call: Callable[[int], None]) -> Any:
        def counted(descriptor: int) -> None:
            nonlocal asked
            asked += 1
            call(descriptor)

        return counted

    monkeypatch.setattr(os, "fdatasync", noted(os.fdatasync))
    monkeypatch.setattr(os, "fsync", noted(os.fsync))
    await asyncio.gather(*(core.put(put(f"{number}", bytes(number * 1000))) for number in range(50)))
    large = await core.begin_large("b", "large")
    await asyncio.to_thread(large.write, [bytes(LARGE_BYTES)])
    await asyncio.to_thread(large.sync)
    whole = put("large", bytes(LARGE_BYTES))
    whole.content = large
    await core.put(whole)
    segments = core.written["segments"]
    assert segments.bytes == sum(path.stat().st_size for path in (core.folder / "segments").iterdir())
    assert segments.syncs == asked > 4


@pytest.mark.parametrize("ends", ["closed", "cut off"])
async def test_counts_begin_when_the_store_opens(core: Store, data_dir: Path, tmp_path: Path, ends: str) -> None:
    """Also with a log that was left behind, which the first commit may find and restart."""
    await commit_often(core, 3)
    copy = tmp_path / "copy"
    await core.change(CopyFolder(data_dir, copy))
    if ends == "closed":
        Store.open(copy).close()
    again = Store.open(copy)
    try:
        assert {(part.bytes, part.syncs) for part in again.written.values()} == {(0, 0)}
        counts = Counts(again)
        await commit_often(again, 3)
        assert is_exact(counts.since()), counts.since()
    finally:
        again.close()


def test_an_index_of_another_version_is_refused(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "_INDEX_VERSION", 1)
    with pytest.raises(StoreError, match="has version 3007000, this program knows 1"):
        Store.open(data_dir)
