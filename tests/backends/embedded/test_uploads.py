"""Parts in segments and catalogue: durable, moved, freed, and completed atomically."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from archiver.values.errors import Damaged
from backends.embedded.core import commits, compaction
from backends.embedded.core.changes import uploads
from backends.embedded.core.changes.objects import CreateBucket, Delete, DeleteBucket
from backends.embedded.core.changes.uploads import AbortUpload, BeginUpload, CompleteUpload
from backends.embedded.core.files.segments import LARGE_BYTES
from backends.embedded.core.rules.locks import Mode, VersionLock, VersionRetention
from backends.embedded.core.rules.refusals import Locked, NoSuchKey, NoSuchUpload, StoreFull, WriteFailed
from backends.embedded.core.store import Store
from backends.embedded.core.tables.catalogue import Catalogue
from tests.backends.embedded.core_calls import Disk, content_of, put
from tests.backends.embedded.upload_calls import begun, completed, listed, part

PIECES = [os.urandom(700), b"", os.urandom(1300), b"last"]
WHOLE = b"".join(PIECES)
FAR_MS = 4_000_000_000_000


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "PART_BYTES_MIN", 0)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "segments").iterdir())


def places(store: Store, upload: int) -> list[tuple[int, int]]:
    return [(each.segment, each.offset) for each in store.queries.uploads.parts(upload)]


async def until(store: Store, condition: Callable[[], bool]) -> None:
    """Commit groups until the condition is true. A step of compaction follows each group."""
    for _ in range(1000):
        if condition():
            return
        await store.change(Delete("b", "none", "0" * 32, bypass=False))
    raise AssertionError("compaction did not get there")


@pytest.mark.parametrize(("start", "length"), [(0, 0), (0, 1), (699, 2), (700, 1300), (5, 1998), (1999, 5), (0, 2004)])
async def test_any_range_across_parts_is_read(core: Store, start: int, length: int) -> None:
    await completed(core, await begun(core, PIECES), PIECES)
    version = core.queries.object(core.bucket("b"), "k", None)
    assert bytes(await core.read(version, start, length)) == WHOLE[start : start + length]
    blocks = [bytes(block) async for block in core.read_blocks(version, start, length)]
    assert b"".join(blocks) == WHOLE[start : start + length]


async def test_an_upload_continues_after_a_restart(data_dir: Path) -> None:
    store = Store.open(data_dir)
    await store.change(CreateBucket("b", object_lock=True))
    lock = VersionLock(VersionRetention(Mode.COMPLIANCE, FAR_MS), legal_hold=True)
    upload = await begun(store, PIECES[:3], lock=lock)
    store.close()
    store = Store.open(data_dir)
    await store.put_part(part(upload, 4, PIECES[3]))
    done = await completed(store, upload, PIECES)
    store.close()
    store = Store.open(data_dir)
    try:
        assert await content_of(store, "k") == WHOLE
        assert store.queries.object(store.bucket("b"), "k", None).lock == lock
        with pytest.raises(Locked):
            await store.change(Delete("b", "k", done.stored.version_id, bypass=True))
        with pytest.raises(NoSuchUpload):
            await store.put_part(part(upload, 5, b"too late"))
    finally:
        store.close()


@pytest.mark.parametrize("ending", ["abort", "bucket", "delete", "replace"])
async def test_the_space_of_parts_is_freed(core: Store, data_dir: Path, ending: str) -> None:
    """Also that of large parts, which have separate segments."""
    await core.change(CreateBucket("c", object_lock=False))
    large = os.urandom(LARGE_BYTES + 1)
    upload = await core.change(BeginUpload("c", "k"))
    for number in (1, 2):
        content = await core.begin_large("c", "k")
        content.write([large])
        content.sync()
        sent = part(upload, number, large, bucket="c")
        sent.content = content
        await core.put_part(sent)
    await core.put_part(part(upload, 3, b"small", bucket="c"))
    assert core.statistics().bytes == 2 * len(large) + 5
    assert len(files(data_dir)) == 3
    pieces = [large, large, b"small"]
    if ending == "abort":
        await core.change(AbortUpload("c", "k", upload))
    elif ending == "bucket":
        await core.change(DeleteBucket("c"))
    else:
        await core.change(CompleteUpload("c", "k", upload, listed(pieces)))
        if ending == "delete":
            await core.change(Delete("c", "k", "null", bypass=False))
        else:
            await core.put(put("k", b"", bucket="c"))
    assert core.statistics().bytes == 0
    assert core.queries.uploads.parts(upload) == []
    assert len(files(data_dir)) == 1  # the one that is appended to


async def test_the_space_of_replaced_and_unlisted_parts_is_freed(core: Store) -> None:
    upload = await begun(core, [b"first", b"second", b"third"])
    await core.put_part(part(upload, 1, b"1st"))
    assert core.statistics().bytes == len(b"1stsecondthird")
    pieces = listed([b"1st", b"second", b"third"])
    await core.change(CompleteUpload("b", "k", upload, [pieces[0], pieces[2]]))
    assert core.statistics().bytes == len(b"1stthird")
    assert await content_of(core, "k") == b"1stthird"


@pytest.mark.parametrize("when", ["unfinished", "completed"])
async def test_parts_are_moved_like_objects(
    core: Store, data_dir: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr(commits, "ROLL_BYTES", 4000)
    monkeypatch.setattr(compaction, "_STEP_RECORDS", 3)
    kept, dropped = await begun(core, PIECES, key="k"), await begun(core, [os.urandom(3000)], key="other")
    if when == "completed":
        await completed(core, kept, PIECES)
    await core.put(put("next", os.urandom(5000)))  # Now nothing is appended to the first segment.
    before = places(core, kept)
    await core.change(AbortUpload("b", "other", dropped))
    await until(core, lambda: files(data_dir)[0] != "00000001.seg")
    after = places(core, kept)
    assert all(one != other for one, other in zip(before, after, strict=True))
    if when == "unfinished":
        await completed(core, kept, PIECES)
    assert await content_of(core, "k") == WHOLE


async def test_a_read_follows_a_part_that_is_moved(
    core: Store, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "ROLL_BYTES", 4000)
    dropped = await begun(core, [os.urandom(3000)], key="other")
    await completed(core, await begun(core, PIECES), PIECES)
    version = core.queries.object(core.bucket("b"), "k", None)
    spans = core._part_spans(version, 0, version.size)  # the start of a read
    await core.put(put("next", os.urandom(5000)))
    await core.change(AbortUpload("b", "other", dropped))
    await until(core, lambda: files(data_dir)[0] != "00000001.seg")
    assert b"".join([bytes(await core._read_one(*span)) for span in spans]) == WHOLE


async def test_an_object_deleted_during_a_read_is_missing(core: Store) -> None:
    done = await completed(core, await begun(core, PIECES), PIECES)
    version = core.queries.object(core.bucket("b"), "k", None)
    await core.change(Delete("b", "k", done.stored.version_id, bypass=False))
    with pytest.raises(NoSuchKey):
        await core.read(version, 0, version.size)


async def test_a_damaged_part_is_named_and_the_others_are_read(core: Store, data_dir: Path) -> None:
    upload = await begun(core, PIECES)
    await completed(core, upload, PIECES)
    segment, offset = places(core, upload)[2]
    with (data_dir / "segments" / f"{segment:08d}.seg").open("r+b") as file:
        file.seek(offset)
        file.write(b"\0\0\0\0")
    version = core.queries.object(core.bucket("b"), "k", None)
    assert bytes(await core.read(version, 0, 700)) == PIECES[0]
    with pytest.raises(Damaged, match=f"part 3 of upload {upload}.* is damaged"):
        await core.read(version, 0, version.size)


async def test_a_missing_segment_of_parts_is_found_at_start(data_dir: Path) -> None:
    store = Store.open(data_dir)
    await store.change(CreateBucket("b", object_lock=True))
    await begun(store, PIECES)
    store.close()
    (data_dir / "segments" / "00000001.seg").unlink()
    with pytest.raises(Damaged, match="4 objects are lost"):
        Store.open(data_dir)


async def test_a_completion_whose_commit_fails_has_no_effect(core: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """No version is stored, and the unlisted part stays."""
    upload = await begun(core, PIECES)
    before = core.queries.uploads.parts(upload)
    held = core.statistics()

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as broken:
        broken.setattr(Catalogue, "commit", fail)
        with pytest.raises(WriteFailed):
            await completed(core, upload, PIECES[:3])
    assert core.queries.uploads.parts(upload) == before
    assert core.queries.latest(core.bucket("b"), "k") is None
    assert (core.statistics().objects, core.statistics().bytes) == (held.objects, held.bytes)
    await completed(core, upload, PIECES)
    assert await content_of(core, "k") == WHOLE


async def test_a_full_disk_refuses_parts_but_completes_and_aborts(core: Store, disk: Disk) -> None:
    one, other = await begun(core, PIECES), await begun(core, PIECES)
    disk.free = 0
    with pytest.raises(StoreFull):
        await core.put_part(part(one, 5, b"more"))
    with pytest.raises(StoreFull):
        await core.change(BeginUpload("b", "k"))
    await core.change(AbortUpload("b", "k", other))
    await completed(core, one, PIECES)
    assert await content_of(core, "k") == WHOLE


async def test_a_refused_large_part_leaves_no_segment(core: Store, data_dir: Path) -> None:
    upload = await core.change(BeginUpload("b", "k"))
    await core.change(AbortUpload("b", "k", upload))
    before = files(data_dir)
    data = os.urandom(LARGE_BYTES + 1)
    sent = part(upload, 1, data)
    sent.content = content = await core.begin_large("b", "k")
    content.write([data])
    with pytest.raises(NoSuchUpload):
        await core.put_part(sent)
    assert files(data_dir) == before
