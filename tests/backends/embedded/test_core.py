"""The core without protocol and process: group commit, failing writes, free space, and what a reader sees."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import Damaged, StoreError
from backends.embedded.core import commits
from backends.embedded.core.changes.objects import CreateBucket, Delete, SetLegalHold, SetRetention, WriteCondition
from backends.embedded.core.files.segments import SegmentFile
from backends.embedded.core.rules.locks import Mode, VersionLock, VersionRetention
from backends.embedded.core.rules.refusals import Locked, NoSuchKey, Refusal, StoreFull, WriteFailed
from backends.embedded.core.store import Store
from tests.backends.embedded.core_calls import PLENTY, Disk, content_of, put


async def test_waiting_changes_share_their_commits(core: Store) -> None:
    await core.put(put("first"))  # creates the segment
    before = core.statistics()
    await asyncio.gather(*(core.put(put(f"{i}", b"%d" % i)) for i in range(200)))
    after = core.statistics()
    assert after.objects_written - before.objects_written == 200
    # The first may be committed alone. All others wait for it and share commits.
    assert after.commits - before.commits <= 20
    assert after.syncs - before.syncs == 2 * (after.commits - before.commits)
    assert [await content_of(core, f"{i}") for i in range(200)] == [b"%d" % i for i in range(200)]


async def test_clients_that_answer_in_turn_do_not_fall_into_two_halves(
    core: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that waited during a commit is committed with the next change of the client whose commit it was."""
    monkeypatch.setattr(commits, "_GATHERING_SHARE", 1e6)  # as if commits took minutes; the group never waits for long
    sync, is_syncing, go_on = SegmentFile.sync, threading.Event(), threading.Event()

    def pause_at_the_first(file: SegmentFile) -> None:
        sync(file)
        is_syncing.set()
        assert go_on.wait(60)

    monkeypatch.setattr(SegmentFile, "sync", pause_at_the_first)
    before = core.statistics().commits
    first = asyncio.ensure_future(core.put(put("first")))
    await asyncio.to_thread(is_syncing.wait, 60)
    other = asyncio.ensure_future(core.put(put("other")))
    await asyncio.sleep(0)  # it has been submitted by now
    go_on.set()
    await first
    await asyncio.gather(core.put(put("second")), other)
    assert core.statistics().commits - before == 2


async def test_only_one_of_a_racing_delete_and_legal_hold_succeeds(core: Store) -> None:
    for round_number in range(20):
        stored = await core.put(put("k"))
        delete = Delete("b", "k", stored.version_id, bypass=False)
        hold = SetLegalHold("b", "k", stored.version_id, on=True)
        calls = [core.change(delete), core.change(hold)]
        if round_number % 2:
            calls.reverse()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert len([each for each in outcomes if isinstance(each, Refusal)]) == 1


async def test_refused_change_does_not_affect_its_group(core: Store) -> None:
    outcomes = await asyncio.gather(
        core.put(put("good")),
        core.put(put("bad", lock=VersionLock(VersionRetention(Mode.GOVERNANCE, 1)))),
        core.put(put("also good")),
        return_exceptions=True,
    )
    assert [isinstance(each, Refusal) for each in outcomes] == [False, True, False]
    assert await content_of(core, "good") == await content_of(core, "also good") == b"content"


async def test_changes_of_one_group_see_each_other(core: Store) -> None:
    """Ten concurrent changes wait for the first and share a group. Each must see the effects of the previous ones."""
    puts = [put("once") for _ in range(10)]
    for each in puts:
        each.condition = WriteCondition(only_if_absent=True)
    outcomes = await asyncio.gather(*(core.put(each) for each in puts), return_exceptions=True)
    assert sorted(type(each).__name__ for each in outcomes) == ["AlreadyExists"] * 9 + ["ChangeResult"]

    await core.change(CreateBucket("unversioned", object_lock=False))
    puts = [put("replaced", b"%d" % number) for number in range(10)]
    for each in puts:
        each.bucket = "unversioned"
    await asyncio.gather(*(core.put(each) for each in puts))
    versions = list(core.queries.scan(core.bucket("unversioned"), "", None, None))
    assert [bytes(await core.read(each, 0, each.size)) for each in versions] == [b"9"]


async def test_a_nearly_full_disk_refuses_writes_but_not_reads_and_deletes(
    core: Store, disk: Disk, said: list[str]
) -> None:
    stored = await core.put(put("k"))
    disk.free = commits.RESERVE_BYTES - 1
    with pytest.raises(StoreFull, match=r"disk full: .* keeps 268\.4 MB in reserve"):
        await core.put(put("more"))
    with pytest.raises(StoreFull):
        await core.begin_large("b", "large")
    assert [words.partition(":")[0] for words in said] == ["writes are refused from now on"]  # once, not each time
    assert await content_of(core, "k") == b"content"
    await core.change(Delete("b", "k", stored.version_id, bypass=False))
    disk.free = PLENTY
    await core.put(put("more"))
    assert said[1:] == ["writes are accepted again"]


@pytest.mark.parametrize("call", ["pwritev", "fdatasync"])
async def test_a_failed_write_fails_its_group_and_leaves_nothing_visible(
    core: Store, monkeypatch: pytest.MonkeyPatch, call: str, data_dir: Path
) -> None:
    await core.put(put("before"))

    def fail(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, call, fail)
        outcomes = await asyncio.gather(*(core.put(put(f"lost {i}")) for i in range(5)), return_exceptions=True)
        assert {type(each) for each in outcomes} == {WriteFailed}
        assert "No space left on device" in str(outcomes[0])
        assert str(data_dir) in str(outcomes[0])
        assert await content_of(core, "before") == b"content"
    await core.put(put("after"))
    assert core.statistics().objects == 2
    for i in range(5):
        with pytest.raises(NoSuchKey):
            await content_of(core, f"lost {i}")


async def test_a_catalogue_that_cannot_commit_fails_the_group(core: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core._catalogue, "commit", _no_space)
    with pytest.raises(WriteFailed):
        await core.put(put("lost"))
    monkeypatch.undo()
    await core.put(put("kept", b"kept"))
    assert await content_of(core, "kept") == b"kept"
    with pytest.raises(NoSuchKey):
        await content_of(core, "lost")


def _no_space(*_: Any) -> None:
    raise OSError(28, "No space left on device")


async def test_internal_error_is_answered_and_stops_the_writer(core: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("threading.excepthook", lambda _: None)
    monkeypatch.setattr(core._catalogue, "add_version", broken)
    with pytest.raises(StoreError, match="writer has stopped"):
        await core.put(put("k"))
    with pytest.raises(StoreError, match="writer has stopped"):
        await core.put(put("k"))


async def test_a_segment_without_live_objects_is_deleted(
    core: Store, monkeypatch: pytest.MonkeyPatch, data_dir: Path
) -> None:
    monkeypatch.setattr(commits, "ROLL_BYTES", 1000)
    stored = [await core.put(put(f"{i}", bytes(600))) for i in range(6)]
    files = sorted((data_dir / "segments").iterdir())
    assert len(files) == 3
    for i in (0, 1, 2):
        await core.change(Delete("b", f"{i}", stored[i].version_id, bypass=False))
    assert sorted((data_dir / "segments").iterdir()) == files[1:]  # the second still has object 3
    assert await content_of(core, "3") == bytes(600)
    for i in (3, 4, 5):
        await core.change(Delete("b", f"{i}", stored[i].version_id, bypass=False))
    held = core.statistics()
    assert (held.objects, held.bytes) == (0, 0)
    assert sorted((data_dir / "segments").iterdir()) == []


async def test_an_abandoned_large_upload_leaves_nothing(core: Store, data_dir: Path) -> None:
    content = await core.begin_large("b", "k")
    content.write([bytes(1000)])
    await core.abandon(content)
    assert list((data_dir / "segments").iterdir()) == []


async def test_host_clock_set_back_does_not_change_a_lock(data_dir: Path) -> None:
    opened = Store.open(data_dir, wall_seconds=lambda: 2_000_000_000.0)
    await opened.change(CreateBucket("b", object_lock=True))
    lock = VersionLock(VersionRetention(Mode.COMPLIANCE, 2_000_000_060_000))
    stored = await opened.put(put("k", lock=lock))
    opened.close()
    for wall, refused in ((1_000_000_000.0, True), (2_000_000_059.0, True), (2_000_000_060.0, False)):
        opened = Store.open(data_dir, wall_seconds=partial(float, wall))
        try:
            assert opened.clock.now_ms() >= 2_000_000_000_000
            delete = opened.change(Delete("b", "k", stored.version_id, bypass=True))
            if refused:
                with pytest.raises(Locked):
                    await delete
            else:
                await delete
        finally:
            opened.close()


async def test_an_expired_lock_may_be_replaced(data_dir: Path) -> None:
    opened = Store.open(data_dir, wall_seconds=lambda: 2_000_000_000.0)
    await opened.change(CreateBucket("b", object_lock=True))
    await opened.put(put("k", lock=VersionLock(VersionRetention(Mode.COMPLIANCE, 2_000_000_060_000))))
    opened.close()
    opened = Store.open(data_dir, wall_seconds=lambda: 2_000_000_100.0)
    weaker = VersionRetention(Mode.GOVERNANCE, 2_000_000_200_000)
    await opened.change(SetRetention("b", "k", None, weaker, bypass=False))
    assert opened.queries.object(opened.bucket("b"), "k", None).retention == weaker
    opened.close()


async def test_uncached_read_returns_the_same_bytes(core: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await core.put(put("k", b"cold"))
    monkeypatch.setattr("backends.embedded.core.files.segments.SegmentFile.read_cached", lambda *_: False)
    assert await content_of(core, "k") == b"cold"


async def test_a_damaged_block_damages_only_ranges_that_touch_it(core: Store, data_dir: Path) -> None:
    content = os.urandom(3 << 20)
    await core.put(put("k", content))
    version = core.queries.object(core.bucket("b"), "k", None)
    with (data_dir / "segments" / "00000001.seg").open("r+b") as file:
        file.seek(version.offset + (1 << 20) + 5)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    assert await core.read(version, 0, 1 << 20) == content[: 1 << 20]
    assert await core.read(version, 2 << 20, 10) == content[2 << 20 :][:10]
    for start, length in ((0, 3 << 20), ((1 << 20) - 1, 2), (1 << 20, 1)):
        with pytest.raises(Damaged, match=r"object 'k' is damaged: its bytes from 1048576 on .*00000001\.seg"):
            await core.read(version, start, length)


async def test_only_one_process_can_open_a_store(core: Store, data_dir: Path) -> None:
    with pytest.raises(StoreError, match=rf"already open \(process {os.getpid()}\); stop that one"):
        Store.open(data_dir)
