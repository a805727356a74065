"""A catalogue on another disk: a store finds it again, refuses another store's, and never starts with an empty one."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from archiver.values.errors import ArchiverError, PlatformError, StoreError, UsageError
from backends.embedded import process
from backends.embedded.core import commits, placement
from backends.embedded.core.changes.objects import CreateBucket
from backends.embedded.core.files.owner_file import write_for_owner
from backends.embedded.core.placement import Place
from backends.embedded.core.rules.refusals import StoreFull, WriteFailed
from backends.embedded.core.store import Store
from backends.embedded.core.tables.catalogue import Catalogue
from tests.backends.embedded.core_calls import PLENTY, content_of, put


@pytest.fixture
def catalogue_dir(tmp_path: Path) -> Path:
    return tmp_path / "other-disk" / "catalogue"


def fill(folder: Path, catalogue_dir: Path | None) -> None:
    """Create a store with one object, and close it."""

    async def made() -> None:
        store = Store.open(folder, catalogue_dir=catalogue_dir)
        await store.change(CreateBucket("b", object_lock=True))
        await store.put(put("k", folder.name.encode()))
        store.close()

    asyncio.run(made())


def has_its_object(folder: Path, catalogue_dir: Path | None = None) -> bool:
    async def look() -> bytes:
        store = Store.open(folder, catalogue_dir=catalogue_dir)
        try:
            return await content_of(store, "k")
        finally:
            store.close()

    return asyncio.run(look()) == folder.name.encode()


def contents(*folders: Path) -> dict[Path, bytes]:
    """Return the content of every file except locks, which change whenever a store is opened."""
    return {
        path: path.read_bytes()
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


@pytest.fixture
def apart(data_dir: Path, catalogue_dir: Path) -> Path:
    """The folder of a stopped store whose catalogue is elsewhere."""
    fill(data_dir, catalogue_dir)
    return data_dir


def test_catalogue_and_segments_can_be_in_separate_folders(
    data_dir: Path, catalogue_dir: Path, connect: Callable[..., Any]
) -> None:
    with process.start(data_dir, catalogue_dir=catalogue_dir) as store:
        assert store.catalogue_dir == catalogue_dir
        connect(store).create_bucket(Bucket="b-1")
        connect(store).put_object(Bucket="b-1", Key="k", Body=b"x")
        assert {path.name for path in catalogue_dir.iterdir()} >= {"catalogue.db", "catalogue.db-wal"}
        assert [path for path in data_dir.rglob("*") if path.name.startswith("catalogue.db")] == []
        assert [path.suffix for path in store.data_files()] == [".seg"]
        store.kill()
    for option in (None, catalogue_dir):
        with process.start(data_dir, catalogue_dir=option) as store:
            assert store.catalogue_dir == catalogue_dir
            assert connect(store).get_object(Bucket="b-1", Key="k")["Body"].read() == b"x"


def test_store_with_its_catalogue_in_the_data_folder_reports_that_folder(data_dir: Path) -> None:
    with process.start(data_dir) as store:
        assert store.catalogue_dir == data_dir
    assert not (data_dir / "catalogue.json").exists()
    with process.start(data_dir, catalogue_dir=data_dir) as store:  # the same folder
        assert store.catalogue_dir == data_dir


def test_catalogue_folder_and_placement_files_are_private_to_their_owner(apart: Path, catalogue_dir: Path) -> None:
    assert catalogue_dir.stat().st_mode & 0o077 == 0
    for path in (apart / "catalogue.json", catalogue_dir / "store.json"):
        assert path.stat().st_mode & 0o077 == 0


def test_catalogue_is_found_by_link_or_relative_path(
    apart: Path, catalogue_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(catalogue_dir)
    assert has_its_object(apart, tmp_path / "link")
    monkeypatch.chdir(tmp_path)
    assert has_its_object(apart, catalogue_dir.relative_to(tmp_path))


def test_catalogue_with_a_relative_path_is_found_from_another_directory(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(data_dir, Path("somewhere"))
    monkeypatch.chdir("/")
    assert has_its_object(data_dir)


def refused(kind: type[ArchiverError], words: str, folder: Path, catalogue_dir: Path | None = None) -> None:
    with pytest.raises(kind, match=words):
        Store.open(folder, catalogue_dir=catalogue_dir)


def test_different_catalogue_folder_is_refused_with_the_recorded_one(
    apart: Path, catalogue_dir: Path, tmp_path: Path
) -> None:
    for wrong in (tmp_path / "wrong", apart):
        refused(UsageError, f"is in {catalogue_dir} and cannot be moved; leave the option out", apart, wrong)
    assert not (tmp_path / "wrong").exists()
    assert has_its_object(apart)


@pytest.mark.parametrize("gone", ["disk", "unmounted", "file"])
@pytest.mark.parametrize("option", [False, True])
def test_missing_catalogue_is_refused_and_not_recreated(
    apart: Path, catalogue_dir: Path, tmp_path: Path, gone: str, option: bool
) -> None:
    away = tmp_path / "away"
    what = catalogue_dir / "catalogue.db" if gone == "file" else catalogue_dir
    what.rename(away)
    if gone == "unmounted":
        catalogue_dir.mkdir()
    before = contents(tmp_path)
    missing = f"is missing: {catalogue_dir / 'catalogue.db'} is not there; attach its disk"
    for _ in range(2):
        refused(StoreError, missing, apart, catalogue_dir if option else None)
    assert contents(tmp_path) == before
    if gone == "unmounted":
        assert list(catalogue_dir.iterdir()) == []
        catalogue_dir.rmdir()
    away.rename(what)
    assert has_its_object(apart)


def test_data_folder_without_its_placement_file_is_refused(apart: Path, catalogue_dir: Path) -> None:
    (apart / "catalogue.json").unlink()
    refused(UsageError, "with its catalogue in that folder, and it cannot be moved", apart, catalogue_dir)
    for _ in range(2):
        refused(StoreError, "catalogue is missing|has lost writes", apart)


@pytest.mark.parametrize("text", ["", "{}", '{"catalogue_dir": 1, "store_id": "x", "ready": true}', "\xff"])
def test_damaged_placement_file_is_named(apart: Path, text: str) -> None:
    (apart / "catalogue.json").write_bytes(text.encode("latin-1"))
    refused(StoreError, r"catalogue\.json does not say where a catalogue belongs; restore it from a copy", apart)


@pytest.mark.parametrize("theirs", ["catalogue apart", "its data, catalogue apart", "data with its catalogue"])
def test_a_folder_of_another_store_is_refused_and_untouched(data_dir: Path, tmp_path: Path, theirs: str) -> None:
    other, other_catalogue = tmp_path / "other", tmp_path / "other-catalogue"
    fill(other, None if theirs == "data with its catalogue" else other_catalogue)
    before = contents(other, *([other_catalogue] if other_catalogue.exists() else []))
    wanted, words = {
        "catalogue apart": (other_catalogue, f"it is the catalogue of the store in {other}"),
        "its data, catalogue apart": (other, "it is the data folder of another store"),
        "data with its catalogue": (other, "it is the data folder of another store"),
    }[theirs]
    refused(UsageError, f"--catalogue-dir {wanted}: {words}", data_dir, wanted)
    assert contents(other, *([other_catalogue] if other_catalogue.exists() else [])) == before
    assert has_its_object(other)
    fill(data_dir, None)  # The attempt left no record.
    assert has_its_object(data_dir)


def test_catalogue_of_another_store_is_refused_and_left_unchanged(
    apart: Path, catalogue_dir: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "other", tmp_path / "other-catalogue")
    (catalogue_dir / "catalogue.db").rename(tmp_path / "own.db")
    shutil.copy(tmp_path / "other-catalogue" / "catalogue.db", catalogue_dir / "catalogue.db")
    before = (catalogue_dir / "catalogue.db").read_bytes()
    refused(StoreError, r"catalogue\.db is the catalogue of another store", apart)
    assert (catalogue_dir / "catalogue.db").read_bytes() == before
    (tmp_path / "own.db").rename(catalogue_dir / "catalogue.db")
    assert has_its_object(apart)


def test_outdated_copy_of_the_own_catalogue_is_refused(apart: Path, catalogue_dir: Path) -> None:
    older = (catalogue_dir / "catalogue.db").read_bytes()

    async def more() -> None:
        store = Store.open(apart)
        await store.put(put("more"))
        store.close()

    asyncio.run(more())
    (catalogue_dir / "catalogue.db").write_bytes(older)
    refused(StoreError, "it has lost writes", apart)


def test_catalogue_in_the_data_folder_cannot_be_moved(data_dir: Path, catalogue_dir: Path) -> None:
    fill(data_dir, None)
    refused(UsageError, "was made with its catalogue in that folder, and it cannot be moved", data_dir, catalogue_dir)
    assert not catalogue_dir.exists()
    assert has_its_object(data_dir)


def test_catalogue_folder_is_refused_as_data_folder(apart: Path, catalogue_dir: Path) -> None:
    refused(UsageError, f"is only the catalogue of a store; its data folder was {apart}", catalogue_dir)
    assert has_its_object(apart)


def test_a_catalogue_in_use_is_refused(data_dir: Path, catalogue_dir: Path, tmp_path: Path) -> None:
    store = Store.open(data_dir, catalogue_dir=catalogue_dir)
    in_use = re.escape(f"in {catalogue_dir} is already open (process {os.getpid()})")
    refused(StoreError, in_use, tmp_path / "second", catalogue_dir)
    refused(StoreError, in_use, catalogue_dir)
    store.close()
    fill(tmp_path / "second", None)  # The attempt left no record.
    assert has_its_object(tmp_path / "second")


class Crash(BaseException):
    """Simulates the end of the process."""


@pytest.mark.parametrize("at", ["remembering", "owner", "catalogue", "ready"])
@pytest.mark.parametrize("option", [False, True])
def test_a_crash_while_a_store_is_made_loses_nothing(
    data_dir: Path, catalogue_dir: Path, monkeypatch: pytest.MonkeyPatch, at: str, option: bool
) -> None:
    def crash(*_: object, **__: object) -> None:
        raise Crash

    with monkeypatch.context() as patch:
        if at in ("remembering", "owner"):
            write, count = write_for_owner, 0 if at == "remembering" else 1

            def write_so_many(path: Path, document: dict[str, Any]) -> None:
                nonlocal count
                if not count:
                    raise Crash
                count -= 1
                write(path, document)

            patch.setattr(placement, "write_for_owner", write_so_many)
        elif at == "catalogue":
            patch.setattr(Catalogue, "_define", crash)
        else:
            patch.setattr(Place, "confirm", crash)
        with pytest.raises(Crash):
            Store.open(data_dir, catalogue_dir=catalogue_dir)
    fill(data_dir, catalogue_dir if option or at == "remembering" else None)
    assert has_its_object(data_dir)
    assert (catalogue_dir / "catalogue.db").exists()
    assert not (data_dir / "catalogue.db").exists()


def test_placement_files_are_synced_in_order_when_a_store_is_created(
    data_dir: Path, catalogue_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    Store.open(data_dir, catalogue_dir=catalogue_dir).close()
    memory, owner = data_dir / "catalogue.json.new", catalogue_dir / "store.json.new"
    assert synced == [catalogue_dir.parent, memory, data_dir, owner, catalogue_dir, memory, data_dir]


async def test_full_data_or_catalogue_disk_refuses_writes(
    data_dir: Path, catalogue_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {data_dir: PLENTY, catalogue_dir: PLENTY}
    monkeypatch.setattr(commits, "free_bytes", free.__getitem__)
    store = Store.open(data_dir, catalogue_dir=catalogue_dir, say=lambda _: None)
    await store.change(CreateBucket("b", object_lock=True))
    for full in free:
        free[full] = commits.RESERVE_BYTES - 1
        with pytest.raises(StoreFull, match=f"disk full: {full} has"):
            await store.put(put("k"))
        assert store.statistics().free_bytes == commits.RESERVE_BYTES - 1
        free[full] = PLENTY
    await store.put(put("k"))
    store.close()


async def test_a_catalogue_that_cannot_be_written_is_named(
    data_dir: Path, catalogue_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(data_dir, catalogue_dir=catalogue_dir, say=lambda _: None)
    await store.change(CreateBucket("b", object_lock=True))

    def fail(self: Catalogue, now_ms: int) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(Catalogue, "commit", fail)
        with pytest.raises(WriteFailed, match=f"{catalogue_dir} cannot be written: disk I/O error"):
            await store.put(put("k"))
    await store.put(put("k"))
    store.close()


def test_process_reports_the_catalogue_error_of_the_store(apart: Path, tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"did not start: --catalogue-dir .*cannot be moved"):
        process.start(apart, catalogue_dir=tmp_path / "wrong")
    (tmp_path / "file").touch()
    with pytest.raises(PlatformError, match=r"cannot be opened: .*File exists"):
        process.start(tmp_path / "new", catalogue_dir=tmp_path / "file")


def test_lock_refuses_deletion_with_a_separate_catalogue(
    data_dir: Path, catalogue_dir: Path, connect: Callable[..., Any], until: Any
) -> None:
    """Locks are stored in the catalogue."""
    lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": until}
    with process.start(data_dir, catalogue_dir=catalogue_dir) as store:
        connect(store).create_bucket(Bucket="b-1", ObjectLockEnabledForBucket=True)
        version_id = connect(store).put_object(Bucket="b-1", Key="k", Body=b"x", **lock)["VersionId"]
        store.kill()
    with process.start(data_dir) as store, pytest.raises(ClientError, match="AccessDenied"):
        connect(store).delete_object(Bucket="b-1", Key="k", VersionId=version_id, BypassGovernanceRetention=True)
