"""kill -9 under load, repeatedly on one store: no acknowledged change is lost, no partial change is visible.

Each client owns its keys and makes one change at a time. So after a kill the expected contents are known, except for
the one unfinished change of each client, which has happened completely or not at all.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from backends.embedded import process
from backends.embedded.core import commits
from backends.embedded.core.changes import uploads
from backends.embedded.core.changes.objects import Delete, DeleteMany
from backends.embedded.core.rules.refusals import Locked
from backends.embedded.core.store import Store
from tests.support import forks
from tests.support.waiting import SECONDS_MAX

MIB = 1 << 20
CLIENTS = 4
ROUNDS, ROUNDS_LONG = 6, 20  # on one store; the long run has ten more stores
UNTIL = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
BLOCK_BYTES = 4093  # a prime, so that content read at a wrong offset differs


def small_segments() -> None:
    """Let a store begin a segment after each MiB, and take parts of any size."""
    commits.ROLL_BYTES = 1 << 20
    uploads.PART_BYTES_MIN = 0


@dataclass(frozen=True)
class Held:
    """A version as it was acknowledged. `tag` determines its content."""

    key: str
    tag: str
    size: int
    mode: str | None = None
    until: datetime | None = None
    hold: bool | None = None
    cuts: tuple[int, ...] = ()  # the ends of its parts, if it was uploaded in parts

    @property
    def content(self) -> bytes:
        block = random.Random(self.tag).randbytes(min(self.size, BLOCK_BYTES))
        return (block * (self.size // BLOCK_BYTES + 1))[: self.size]

    @property
    def pieces(self) -> list[bytes]:
        content = self.content
        return [content[start:end] for start, end in itertools.pairwise((0, *self.cuts))]

    @property
    def etag(self) -> str:
        if not self.cuts:
            return hashlib.md5(self.content).hexdigest()
        md5s = b"".join(hashlib.md5(piece).digest() for piece in self.pieces)
        return f"{hashlib.md5(md5s).hexdigest()}-{len(self.cuts)}"

    @property
    def may_go(self) -> bool:
        """Whether a delete with bypass removes it."""
        return not self.hold and self.mode != "COMPLIANCE"


@dataclass
class Upload:
    """An open multipart upload: the version that it will become, and the number of acknowledged parts."""

    id: str
    becomes: Held
    parts: int = 0
    aborting: bool = False


@dataclass
class Client:
    """The record of one client: its versions, its deleted versions, and its change in progress."""

    number: int
    chance: random.Random
    s3: Any = None
    held: dict[str, Held] = field(default_factory=dict)
    deleted: set[tuple[str, str]] = field(default_factory=set)
    new: Held | None = None  # being put: its version id is not known yet
    changing: tuple[str, Held | None] | None = None  # a version, and what it becomes (None: deleted)
    puts: int = 0
    upload: Upload | None = None
    uploads_continued: int = 0  # after a kill

    def work(self, answered: Callable[[], None]) -> None:
        """Make one change after another until the store is gone."""
        try:
            while True:
                self._change()
                answered()
        except BotoCoreError:
            return

    def _change(self) -> None:
        names = list(self.held)
        kinds = ["put", "upload", "delete", "extend", "hold"]
        kind = self.chance.choices(kinds, [5, 5, 4, 1, 1])[0] if names else "put"
        if kind == "upload":
            self._upload()
            return
        if kind == "put":
            self._put()
            return
        version_id = self.chance.choice(names)
        version = self.held[version_id]
        named = {"Bucket": "b-1", "Key": version.key, "VersionId": version_id}
        if kind == "delete":
            self._delete(named, version)
        elif kind == "extend" and version.until is not None:
            later = version.until + timedelta(minutes=1)
            self.changing = version_id, replace(version, until=later)
            self.s3.put_object_retention(**named, Retention={"Mode": version.mode, "RetainUntilDate": later})
        elif kind == "hold":
            self.changing = version_id, replace(version, hold=not version.hold)
            self.s3.put_object_legal_hold(**named, LegalHold={"Status": "OFF" if version.hold else "ON"})
        self._changed()

    def _put(self) -> None:
        self.puts += 1
        size = self.chance.choices([self.chance.randrange(20_000), MIB, 9 * MIB], [30, 4, 1])[0]
        new = Held(f"{self.number}/{self.puts % 7}", f"{self.number} {self.puts}", size)
        lock: dict[str, Any] = {}
        mode = self.chance.choices([None, "GOVERNANCE", "COMPLIANCE"], [4, 4, 1])[0]
        if mode is not None and (size < MIB or mode == "GOVERNANCE"):  # undeletable versions stay small
            new = replace(new, mode=mode, until=UNTIL)
            lock = {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": UNTIL}
        self.new = new
        answer = self.s3.put_object(Bucket="b-1", Key=new.key, Body=new.content, **lock)
        self.held[answer["VersionId"]] = new
        self.new = None

    def _upload(self) -> None:
        """Take the next step of the open upload, or start one. A kill does not end an upload."""
        upload = self.upload
        if upload is None:
            self.puts += 1
            cuts = tuple(sorted(self.chance.sample(range(1, 20_000), 3)))
            key, tag = f"{self.number}/{self.puts % 7}", f"{self.number} {self.puts}"
            becomes = Held(key, tag, cuts[-1], "GOVERNANCE", UNTIL, cuts=cuts)
            answer = self.s3.create_multipart_upload(
                Bucket="b-1", Key=key, ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=UNTIL
            )
            self.upload = Upload(answer["UploadId"], becomes)
            return
        named = {"Bucket": "b-1", "Key": upload.becomes.key, "UploadId": upload.id}
        pieces = upload.becomes.pieces
        if upload.parts < len(pieces):
            self.s3.upload_part(**named, PartNumber=upload.parts + 1, Body=pieces[upload.parts])
            upload.parts += 1
        elif upload.aborting or self.chance.random() < 0.2:
            upload.aborting = True
            self.s3.abort_multipart_upload(**named)
            self.upload = None
        else:
            self.new = upload.becomes
            md5s = [hashlib.md5(piece).hexdigest() for piece in pieces]
            parts = [{"PartNumber": number, "ETag": md5} for number, md5 in enumerate(md5s, 1)]
            answer = self.s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})
            self.held[answer["VersionId"]] = upload.becomes
            self.new = self.upload = None

    async def settle_upload(self, store: Store) -> None:
        """Check after a kill that every acknowledged part exists, unless the upload itself has ended."""
        upload = self.upload
        if upload is None:
            return
        number = store.queries.upload_number(upload.id)
        parts = store.queries.uploads.parts(number)
        if store.queries.uploads.find(number) is None:
            assert upload.aborting or self.new is upload.becomes
            assert not upload.aborting or not parts
            self.upload = None
            return
        contents = [bytes(await store._read_one(part, 0, part.size)) for part in parts]
        assert len(parts) in (upload.parts, upload.parts + 1)  # or one more, not acknowledged
        assert contents == upload.becomes.pieces[: len(parts)]
        self.uploads_continued += 1

    def _delete(self, named: dict[str, Any], version: Held) -> None:
        if version.may_go:
            self.changing = named["VersionId"], None
            self.s3.delete_object(**named, BypassGovernanceRetention=True)
        else:
            with pytest.raises(ClientError, match="AccessDenied"):
                self.s3.delete_object(**named, BypassGovernanceRetention=True)

    def _changed(self) -> None:
        """Record that the change in progress was acknowledged."""
        if self.changing is not None:
            version_id, becomes = self.changing
            before = self.held.pop(version_id)
            if becomes is None:
                self.deleted.add((before.key, version_id))
            else:
                self.held[version_id] = becomes
            self.changing = None

    def settle(self, found: dict[str, Held]) -> None:
        """Compare the client's versions in the store with the expected ones after a kill.

        An unacknowledged change may have happened. The record then contains it.
        """
        if self.changing is not None and found.get(self.changing[0]) == self.changing[1]:
            self._changed()
        elif self.new is not None:
            self.held |= {each: self.new for each in found if each not in self.held}
        self.changing = self.new = None
        assert found == self.held


async def read_everything(folder: Path, clients: list[Client]) -> tuple[dict[int, dict[str, Held]], dict[str, int]]:
    """Open a killed store again, compare all contents, and try to delete the locked versions.

    Returns the versions by client, and the segment of each version.
    """
    segments = {}
    found: dict[int, dict[str, Held]] = {client.number: {} for client in clients}
    store = Store.open(folder, free_bytes=lambda: 0)  # without free space nothing moves
    try:
        locked = []
        for version in store.queries.scan(store.bucket("b-1"), "", None, None):
            version_id = store.queries.version_id(version)
            client = clients[int(version.key.partition("/")[0])]
            known = client.held.get(version_id) or client.new
            assert known is not None, f"{version.key} {version_id} was never put, or was deleted"
            content = bytes(await store.read(version, 0, version.size)) if version.size else b""
            assert content == known.content
            assert version.etag == known.etag
            until = None if version.until_ms is None else datetime.fromtimestamp(version.until_ms / 1000, UTC)
            hold = None if version.legal_hold is None else bool(version.legal_hold)
            held = Held(version.key, known.tag, version.size, version.mode, until, hold, known.cuts)
            found[client.number][version_id] = held
            if version.upload is None:
                segments[version_id] = version.segment
            if not held.may_go:
                locked.append(Delete("b-1", version.key, version_id, bypass=True))
        if locked:
            assert {type(answer).__base__ for answer in await store.change(DeleteMany(locked))} == {Locked}
        for client in clients:
            await client.settle_upload(store)
            for key, version_id in client.deleted:
                assert store.queries.by_id(store.bucket("b-1"), key, version_id) is None
    finally:
        store.close()
    return found, segments


@pytest.mark.parametrize("place", ["with its data", "apart"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 11))])
def test_kill_under_load_loses_nothing_acknowledged(
    data_dir: Path, connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, seed: int, place: str
) -> None:
    """The catalogue is in the data folder or apart. The second case has fewer rounds, to save time."""
    rounds = ROUNDS_LONG if seed else ROUNDS if place == "with its data" else ROUNDS // 2
    monkeypatch.setattr(process, "_start_program", partial(forks.ForkedStore, prepare=small_segments))
    chance = random.Random(seed)
    clients = [Client(number, random.Random(f"{seed} {number}")) for number in range(CLIENTS)]
    catalogue_dir = data_dir.with_name("catalogue") if place == "apart" else None
    with process.start(data_dir, catalogue_dir=catalogue_dir) as store:
        connect(store).create_bucket(Bucket="b-1", ObjectLockEnabledForBucket=True)
    moved = 0
    before: dict[str, int] = {}
    for _ in range(rounds):
        store = process.start(data_dir)
        for client in clients:
            client.s3 = connect(store)
        _load_until_killed(store, clients, answers=chance.randrange(5, 150), seconds=chance.random() / 50)
        found, after = asyncio.run(read_everything(data_dir, clients))
        for client in clients:
            client.settle(found[client.number])
        moved += sum(1 for version in before.keys() & after.keys() if before[version] != after[version])
        before = after
    assert sum(len(client.deleted) for client in clients) > rounds
    if rounds >= ROUNDS:
        assert sum(client.uploads_continued for client in clients) > rounds / 2
        assert moved > rounds / 2, "compaction was to be under way too"


def _load_until_killed(store: process.StoreProcess, clients: list[Client], answers: int, seconds: float) -> None:
    """Run the clients and kill the store so many answers, and so many seconds more, after they began."""
    count = 0
    enough = threading.Event()
    faults: list[BaseException] = []

    def answered() -> None:
        nonlocal count
        count += 1
        if count >= answers:
            enough.set()

    def work(client: Client) -> None:
        try:
            client.work(answered)
        except BaseException as fault:  # noqa: BLE001 - raised below, in the test's own thread
            faults.append(fault)
            enough.set()

    threads = [threading.Thread(target=work, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    assert enough.wait(SECONDS_MAX)
    threading.Event().wait(seconds)
    store.kill()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
