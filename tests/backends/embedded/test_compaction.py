"""Compaction frees the space of deleted objects, and a crash at any point of it loses no object."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import Damaged
from backends.embedded.core import commits, compaction
from backends.embedded.core.changes.archives import ArchiveTransaction, Event, NewArchive, RegisterSpace
from backends.embedded.core.changes.objects import CreateBucket, Delete, DeleteBucket
from backends.embedded.core.files.segments import RecordHeader
from backends.embedded.core.rules.locks import Mode, VersionLock, VersionRetention
from backends.embedded.core.rules.refusals import Locked, NoSuchKey
from backends.embedded.core.store import Store
from backends.embedded.core.tables.archives import Archive, Space
from backends.embedded.core.tables.catalogue import VersionRow
from backends.embedded.tsm import incoming as tsm_incoming
from backends.embedded.tsm.incoming import Flow, Incoming
from tests.backends.embedded.core_calls import PLENTY, CopyFolder, Disk, content_of, put

ROLL_BYTES = 4000
OBJECT_BYTES = 700
LOCK = VersionLock(VersionRetention(Mode.COMPLIANCE, 2_000_000_000_000 + 86_400_000), legal_hold=True)


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "ROLL_BYTES", ROLL_BYTES)
    monkeypatch.setattr(compaction, "_STEP_RECORDS", 3)  # several steps for each segment


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "segments").iterdir())


def versions(store: Store) -> dict[str, VersionRow]:
    return {each.key: each for each in store.queries.scan(store.bucket("b"), "", None, None)}


def facts(version: VersionRow) -> VersionRow:
    """Return a version without its location, the only thing that a move may change."""
    return version._replace(segment=0, offset=0)


async def fill(store: Store, count: int) -> dict[str, bytes]:
    """Store objects, some empty and some locked. Returns their contents."""
    contents = {f"{i:03d}": os.urandom(0 if i % 7 == 3 else OBJECT_BYTES) for i in range(count)}
    for key, content in contents.items():
        await store.put(put(key, content, LOCK if int(key) % 4 == 0 else None))
    return contents


async def delete(store: Store, contents: dict[str, bytes], keys: list[str]) -> None:
    for key in keys:
        await store.change(Delete("b", key, store.queries.version_id(versions(store)[key]), bypass=False))
        del contents[key]


async def until(store: Store, condition: Callable[[], bool]) -> None:
    """Commit groups until the condition is true. A step of compaction follows each group."""
    for _ in range(1000):
        if condition():
            return
        await store.change(Delete("b", "none", "0" * 32, bypass=False))
    raise AssertionError("compaction did not get there")


async def test_a_mostly_dead_segment_is_rewritten(core: Store, data_dir: Path) -> None:
    contents = await fill(core, 48)
    before = {key: facts(version) for key, version in versions(core).items()}
    sealed = files(data_dir)[:-1]
    assert len(sealed) >= 6
    held = core.statistics()
    await delete(core, contents, [key for key in contents if int(key) % 4])
    await until(core, lambda: not set(sealed) & set(files(data_dir)))
    assert core.statistics().segment_bytes < held.segment_bytes / 2
    assert core.statistics().bytes_moved >= len(contents) * OBJECT_BYTES / 2
    assert {key: facts(version) for key, version in versions(core).items()} == {key: before[key] for key in contents}
    for key, content in contents.items():
        assert await content_of(core, key) == content
        with pytest.raises(Locked):
            await core.change(Delete("b", key, core.queries.version_id(versions(core)[key]), bypass=True))


async def test_a_mostly_live_segment_is_not_rewritten(core: Store, data_dir: Path) -> None:
    contents = await fill(core, 48)
    before = files(data_dir)
    await delete(core, contents, [key for key in contents if int(key) % 4 == 1])
    for _ in range(20):
        await core.put(put("more", b""))
    assert set(before) <= set(files(data_dir))
    assert core.statistics().bytes_moved == 0


async def test_segment_of_empty_objects_is_not_rewritten(core: Store, data_dir: Path) -> None:
    """Their records are headers only. Counted by content bytes, their segments would always look dead."""
    for i in range(200):
        await core.put(put(f"{i}", b""))
    before = files(data_dir)
    assert len(before) > 2
    for _ in range(20):
        await core.change(Delete("b", "none", "0" * 32, bypass=False))
    assert files(data_dir) == before


async def test_crash_at_any_point_of_compaction_loses_nothing(
    core: Store, disk: Disk, data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copy the folder before and after every call that changes the disk: the state that a kill would leave."""
    contents = await fill(core, 40)
    disk.free = 0  # no moves yet
    gone = [key for key in contents if int(key) % 4]
    await delete(core, contents, gone)
    expected = {key: facts(version) for key, version in versions(core).items()}
    sealed = files(data_dir)[:-1]
    copies: list[Path] = []

    def snapshot() -> None:
        copies.append(tmp_path / f"crash-{len(copies)}")
        shutil.copytree(data_dir, copies[-1])

    def around(patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        call = getattr(owner, name)

        def observed(*arguments: Any) -> Any:
            snapshot()
            answer = call(*arguments)
            snapshot()
            return answer

        patch.setattr(owner, name, observed)

    with monkeypatch.context() as patch:
        for owner, name in (
            (os, "pwritev"),
            (os, "fdatasync"),
            (core._catalogue, "commit"),
            (core._segments, "remove"),
        ):
            around(patch, owner, name)
        disk.free = PLENTY
        await until(core, lambda: not set(sealed) & set(files(data_dir)))

    assert len(copies) >= 50
    for copy in copies:
        store = Store.open(copy, free_bytes=lambda: 0)
        try:
            assert {key: facts(version) for key, version in versions(store).items()} == expected
            for key, content in contents.items():
                assert await content_of(store, key) == content
        finally:
            store.close()


async def test_a_read_that_began_before_a_move_continues(core: Store, data_dir: Path) -> None:
    contents = await fill(core, 48)
    looked_up = versions(core)
    under_way = core.read_blocks(looked_up["000"], 0, OBJECT_BYTES)
    await delete(core, contents, [key for key in contents if int(key) % 4])
    sealed = {f"{version.segment:08d}.seg" for key, version in looked_up.items() if key < "040"}
    await until(core, lambda: not sealed & set(files(data_dir)))
    core._segments._open.clear()  # Close the old files.
    assert b"".join([bytes(block) async for block in under_way]) == contents["000"]
    assert bytes(await core.read(looked_up["004"], 0, OBJECT_BYTES)) == contents["004"]
    with pytest.raises(NoSuchKey):  # deleted between look-up and read: missing, not damaged
        await core.read(looked_up["001"], 0, OBJECT_BYTES)


@pytest.mark.parametrize("where", ["content", "header"])
async def test_a_damaged_record_is_reported_and_not_moved(
    core: Store, disk: Disk, data_dir: Path, where: str, said: list[str]
) -> None:
    contents = await fill(core, 48)
    disk.free = 0
    await delete(core, contents, [key for key in contents if int(key) % 4])
    damaged = versions(core)["004"]
    path = data_dir / "segments" / f"{damaged.segment:08d}.seg"
    with path.open("r+b") as file:
        file.seek(damaged.offset + (10 if where == "content" else -10))
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 1]))
    disk.free = PLENTY
    others = set(files(data_dir)[:-1]) - {path.name}
    await until(core, lambda: not others & set(files(data_dir)) and bool(said))
    assert f"{path.name} keeps the disk space of its deleted objects" in said[-1]
    assert where == "header" or f"object '004' in {path}, byte {damaged.offset}, is damaged" in said[0]
    now = versions(core)["004"]
    assert (now.segment, now.offset) == (damaged.segment, damaged.offset)
    assert path.name in files(data_dir)
    for key, content in contents.items():
        if key != "004" or where == "header":
            assert await content_of(core, key) == content
    if where == "content":
        with pytest.raises(Damaged, match="object '004' is damaged"):
            await content_of(core, "004")


async def test_a_failed_move_fails_no_other_change(
    core: Store, disk: Disk, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    contents = await fill(core, 48)
    disk.free = 0
    await delete(core, contents, [key for key in contents if int(key) % 4])

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "pwritev", full)
        disk.free = PLENTY
        await until(core, lambda: core.statistics().groups_failed > 0)
        await core.change(Delete("b", "none", "0" * 32, bypass=False))
    for key, content in contents.items():
        assert await content_of(core, key) == content
    # How many segments are tried before the disk is writable again depends on timing. Each is named once.
    assert len(set(said)) == len(said) >= 1
    for words in said:
        assert "keeps the disk space of its deleted objects" in words
        assert "No space left on device" in words


async def test_a_mostly_dead_active_segment_is_closed(core: Store, data_dir: Path) -> None:
    stored = [await core.put(put(f"{i}", bytes(900))) for i in range(4)]
    assert len(files(data_dir)) == 1
    for i in (0, 1, 2):
        await core.change(Delete("b", f"{i}", stored[i].version_id, bypass=False))
    await until(core, lambda: core.statistics().segment_bytes < 2000)
    assert len(files(data_dir)) == 1
    assert await content_of(core, "3") == bytes(900)


async def test_bucket_recreated_under_the_same_name_survives_compaction(core: Store, data_dir: Path) -> None:
    contents = await fill(core, 8)
    for _ in range(2):
        await core.change(CreateBucket("again", object_lock=True))
        stored = await core.put(put("k", bytes(OBJECT_BYTES), bucket="again"))
        await core.change(Delete("again", "k", stored.version_id, bypass=False))
        await core.change(DeleteBucket("again"))
    await core.change(CreateBucket("again", object_lock=True))
    await core.put(put("k", b"new", bucket="again"))
    await delete(core, contents, [key for key in contents if int(key) % 4])
    await until(core, lambda: core.statistics().segment_bytes < 2 * ROLL_BYTES)
    version = core.queries.object(core.bucket("again"), "k", None)
    assert bytes(await core.read(version, 0, version.size)) == b"new"


async def test_restarted_store_appends_to_its_last_segment(data_dir: Path) -> None:
    for number in range(12):
        store = Store.open(data_dir)
        if not number:
            await store.change(CreateBucket("b", object_lock=True))
        await store.put(put(f"{number}", bytes(600)))
        store.close()
    assert len(files(data_dir)) == 2
    store = Store.open(data_dir)
    assert [await content_of(store, f"{number}") for number in range(12)] == [bytes(600)] * 12
    store.close()


async def test_a_large_objects_segment_is_not_appended_to(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a segment must be freed as a whole, and never be moved in one step."""
    monkeypatch.setattr(commits, "LARGE_BYTES", 500)
    store = Store.open(data_dir)
    await store.change(CreateBucket("b", object_lock=True))
    content = await store.begin_large("b", "large")
    await asyncio.to_thread(content.write, [bytes(600)])
    large = put("large", bytes(600))
    large.content = content
    await store.put(large)
    store.close()
    store = Store.open(data_dir)
    await store.put(put("small", b"small"))
    assert len(files(data_dir)) == 2
    store.close()


# Archives, which are stored in the same segments.


async def archive(store: Store, contents: dict[str, bytes], *, large: bool = False) -> None:
    """Commit one transaction as the TSM server does. Its objects may be deleted at once."""
    space, _ = await store.change(RegisterSpace(Space(0, "N", b"/fs", b"", 0, 0, b"", 0)))
    names = {each.name: number for number, each in store.management_classes.items()}
    incoming = Incoming(store, "N", b"", Flow(lambda: None, lambda: None, lambda code: None))
    for name, content in contents.items():
        incoming.begin(NewArchive(space.id, names["NONE"], 1, 0, b"", 0, b"/d", name.encode(), b"", b""))
        incoming.data(memoryview(content))
        incoming.end()
    assert (incoming._spool is not None) is large
    assert await incoming.commit() == 0


def archives(store: Store) -> dict[str, Archive]:
    found: dict[str, Archive] = {}
    for space in store.spaces:
        found |= {row.ll.decode(): row for row in store.queries.archives.of_space(space, (b"", b""), (b"\xff", b""))}
    return found


async def archived(store: Store) -> dict[str, bytes]:
    return {name: bytes(await store.read(row, 0, row.size)) for name, row in archives(store).items()}


def apart_from_place(rows: dict[str, Archive]) -> dict[str, Archive]:
    return {name: row._replace(segment=0, offset=0) for name, row in rows.items()}


async def test_archives_and_versions_are_moved_out_of_the_same_segments(
    core: Store, data_dir: Path, tmp_path: Path
) -> None:
    contents: dict[str, bytes] = {}
    kept: dict[str, bytes] = {}
    for first in range(0, 48, 4):
        more = {
            f"{number:03d}": os.urandom(0 if number % 7 == 3 else OBJECT_BYTES) for number in range(first, first + 4)
        }
        await archive(core, more)
        kept |= more
        for key, content in more.items():
            await core.put(put(key, content[::-1]))
            contents[key] = content[::-1]
    before, statistics = archives(core), core.statistics()
    assert {row.segment for row in before.values()} & {version.segment for version in versions(core).values()}
    sealed = files(data_dir)[:-1]
    committed = core._catalogue.state.commits
    held = [before[name].id for name in list(kept)[::8]]
    await core.change(ArchiveTransaction("N", b"", event=Event.HOLD, event_ids=held))
    before = archives(core)
    gone = [name for name in kept if int(name) % 4]
    await core.change(ArchiveTransaction("N", b"", deletes=[before[name].id for name in gone]))
    await delete(core, contents, gone)
    for name in gone:
        del kept[name], before[name]
    await until(core, lambda: not set(sealed) & set(files(data_dir)))
    for name, row in archives(core).items():
        if (row.segment, row.offset) != (
            before[name].segment,
            before[name].offset,
        ):  # A moved record names the commit that moved it.
            record = core._segments.file(row.segment).header_at(row.offset - RecordHeader.length(len("N/fs/d") + 6))
            assert record is not None
            assert record.key == b"N\0/fs\0/d\0" + name.encode()
            assert record.commit > committed
    after = core.statistics()
    assert after.bytes_moved >= sum(map(len, kept.values()))
    assert after.segment_bytes < statistics.segment_bytes / 2
    assert (after.objects, after.bytes) == (2 * len(kept), 2 * sum(map(len, kept.values())))
    await core.change(CopyFolder(data_dir, tmp_path / "copy"))
    reopened = Store.open(tmp_path / "copy")
    for store in (core, reopened):
        assert apart_from_place(archives(store)) == apart_from_place(before)
        assert await archived(store) == kept
        assert {key: await content_of(store, key) for key in contents} == contents
        for number in held:
            with pytest.raises(Locked):
                await store.change(ArchiveTransaction("N", b"", deletes=[number]))
    reopened.close()


async def test_a_read_follows_an_archive_that_is_moved(core: Store, data_dir: Path) -> None:
    contents = {f"{number:03d}": os.urandom(OBJECT_BYTES) for number in range(48)}
    for name, content in contents.items():
        await archive(core, {name: content})
    looked_up = archives(core)
    under_way = core.read_blocks(looked_up["000"], 0, OBJECT_BYTES)
    deletes = [row.id for name, row in looked_up.items() if int(name) % 4]
    await core.change(ArchiveTransaction("N", b"", deletes=deletes))
    sealed = {f"{row.segment:08d}.seg" for name, row in looked_up.items() if name < "040"}
    await until(core, lambda: not sealed & set(files(data_dir)))
    core._segments._open.clear()
    assert b"".join([bytes(block) async for block in under_way]) == contents["000"]
    assert bytes(await core.read(looked_up["004"], 0, OBJECT_BYTES)) == contents["004"]
    with pytest.raises(NoSuchKey):
        await core.read(looked_up["001"], 0, OBJECT_BYTES)


async def test_a_damaged_archive_is_not_moved(core: Store, disk: Disk, data_dir: Path, said: list[str]) -> None:
    for number in range(48):
        await archive(core, {f"{number:03d}": os.urandom(OBJECT_BYTES)})
    disk.free = 0
    rows = archives(core)
    await core.change(ArchiveTransaction("N", b"", deletes=[row.id for name, row in rows.items() if int(name) % 4]))
    damaged = rows["004"]
    path = data_dir / "segments" / f"{damaged.segment:08d}.seg"
    data = bytearray(path.read_bytes())
    data[damaged.offset + 10] ^= 1
    path.write_bytes(data)
    disk.free = PLENTY
    others = {f"{row.segment:08d}.seg" for row in rows.values()} - {path.name, files(data_dir)[-1]}
    await until(core, lambda: not others & set(files(data_dir)) and len(said) >= 2)
    assert f"object '/d004' in {path}, byte {damaged.offset}, is damaged" in said[0]
    assert archives(core)["004"] == damaged
    with pytest.raises(Damaged, match="object '/d004' is damaged"):
        await core.read(damaged, 0, damaged.size)


@pytest.mark.parametrize("gone", [(0, 1, 2), (3,), (4, 5), (0, 3, 4), (1, 2, 3, 4)])
async def test_a_move_from_a_large_transaction_is_bounded(
    core: Store, data_dir: Path, monkeypatch: pytest.MonkeyPatch, gone: tuple[int, ...]
) -> None:
    """A move keeps a whole object in memory, so a huge object must never be moved."""
    monkeypatch.setattr(tsm_incoming, "LARGE_BYTES", 1000)
    monkeypatch.setattr(tsm_incoming, "_SEGMENT_BYTES_MAX", 2000)
    sizes = (500, 1600, 30_000, 40_000, 1200, 1300)
    contents = {f"{number}": os.urandom(size) for number, size in enumerate(sizes)}
    await archive(core, contents, large=True)
    before = archives(core)
    await core.change(ArchiveTransaction("N", b"", deletes=[before[f"{number}"].id for number in gone]))
    dead = {number: use for number, use in core._catalogue.segments.items() if use.live_record_bytes < use.dead_bytes}
    for use in dead.values():
        assert use.live_record_bytes < 2000 + 1600 + 500
    await until(core, lambda: not core._catalogue.sparse_segments - {max(core._catalogue.segments)})
    assert await archived(core) == {name: content for name, content in contents.items() if int(name) not in gone}
    for name, row in archives(core).items():
        assert row.size < 30_000 or row.segment == before[name].segment
