"""Durability of archived objects: kills, damage and silent sessions."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backends.embedded import process
from backends.embedded.core.rules.refusals import WriteFailed
from backends.embedded.core.store import Store
from backends.embedded.core.tables import catalogue as catalogue_module
from backends.embedded.core.tables.catalogue import Catalogue
from backends.embedded.process import StoreProcess
from tests.backends.embedded.core_calls import put
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.tsm_client import (
    DATA,
    END_TRANSACTION,
    GET,
    HOLD,
    OBJECT,
    Client,
    Ended,
    frame,
    get_body,
    object_body,
    objects,
)
from tests.support.waiting import SECONDS_MAX

MIB = 1 << 20


def content(name: bytes, size: int) -> bytes:
    return random.Random(name).randbytes(size)


def sign_on(store: StoreProcess) -> Client:
    client = Client(store.tsm_host, store.tsm_port)
    assert store.node_password is not None
    client.sign_on(store.node.encode(), store.node_password)
    return client


def test_a_kill_during_a_transaction_keeps_only_the_previous_ones(data_dir: Path) -> None:
    store = process.start(data_dir)
    with sign_on(store) as small, sign_on(store) as large:
        space = small.space()
        for size in (100, 20 * MIB):
            assert small.archive(space, b"/%d" % size, content(b"%d" % size, size)) == 0
        before = small.query(space)
        segments = store.data_files()
        for client, size in ((small, 1000), (large, 15 * MIB)):
            client.send_object(space, b"/lost", content(b"x", size))
            client.ping()  # The server has received it.
            client.send(OBJECT, object_body(space, b"/d", b"/lost-too") + bytes(100))
        store.kill()
        for client in (small, large):
            with pytest.raises(Ended) as ended:
                client.expect(0x92)
            assert ended.value.code is None
    with process.start(data_dir) as store, sign_on(store) as client:
        assert client.query(space) == before
        assert [each.content for each in client.get(*(row.id for row in before))] == [
            content(b"%d" % size, size) for size in (100, 20 * MIB)
        ]
        assert store.data_files() == segments
        assert client.archive(space, b"/after", b"after") == 0
        assert client.query(space, ll=b"/after")[0].id not in {row.id for row in before}


class Archiver:
    """A client that archives transactions until the store is gone, and records which ones were committed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.chance = random.Random(number)
        self.committed: dict[bytes, int] = {}  # sizes
        self.under_way: dict[bytes, int] = {}
        self.count = 0

    def work(self, store: StoreProcess, answered: Callable[[], None]) -> None:
        try:
            with sign_on(store) as client:
                space = client.space()
                while True:
                    self.under_way = {self._name(): self._size() for _ in range(self.chance.randrange(1, 20))}
                    for name, size in self.under_way.items():
                        client.send_object(space, name, content(name, size))
                    assert client.vote() == 0
                    self.committed |= self.under_way
                    self.under_way = {}
                    answered()
        except (Ended, ConnectionError):
            return

    def _name(self) -> bytes:
        self.count += 1
        return b"/%d-%d" % (self.number, self.count)

    def _size(self) -> int:
        return self.chance.choices([self.chance.randrange(20_000), MIB, 9 * MIB], [50, 4, 1])[0]

    def settle(self, found: dict[bytes, int]) -> None:
        """Check after a kill that all committed transactions exist, and that the unanswered one is whole or absent."""
        expected = self.committed | self.under_way if self.under_way.keys() & found.keys() else self.committed
        assert found == expected
        self.committed, self.under_way = dict(found), {}


async def everything(folder: Path) -> dict[bytes, int]:
    """Open a killed store again and compare all contents. Returns names and sizes."""
    store = Store.open(folder, free_bytes=lambda: 0)
    try:
        found = {}
        for space in store.spaces:
            for row in store.queries.archives.of_space(space, (b"", b""), (b"\xff", b"")):
                assert row.ll not in found
                assert bytes(await store.read(row, 0, row.size)) == content(row.ll, row.size)
                found[row.ll] = row.size
        known = {store._segments.path(number) for number in store._catalogue.segments}
        assert set((folder / "segments").iterdir()) == known
        return found
    finally:
        store.close()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 11))])
def test_kill_under_load_keeps_each_transaction_whole(data_dir: Path, seed: int) -> None:
    chance = random.Random(seed)
    archivers = [Archiver(number) for number in range(3)]
    for _ in range(3):
        store = process.start(data_dir)
        answers, enough = [0], threading.Event()
        wanted = chance.randrange(3, 40)

        def answered(answers: list[int] = answers, enough: threading.Event = enough, wanted: int = wanted) -> None:
            answers[0] += 1
            if answers[0] >= wanted:
                enough.set()

        threads = [threading.Thread(target=each.work, args=(store, answered)) for each in archivers]
        for thread in threads:
            thread.start()
        assert enough.wait(SECONDS_MAX)
        store.kill()
        for thread in threads:
            thread.join()
        found = asyncio.run(everything(data_dir))
        for archiver in archivers:
            mine = {name: size for name, size in found.items() if name.startswith(b"/%d-" % archiver.number)}
            archiver.settle(mine)
    assert sum(len(archiver.committed) for archiver in archivers) > 50


# Damage.


def flip_byte(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def test_damage_is_reported_for_the_damaged_object_only(data_dir: Path) -> None:
    with RunningTsmServer(data_dir) as tsm_server, tsm_server.sign_on() as client:
        space = client.space()
        sizes = [5000, 5001, 300_000, 3 * MIB, 0, 12 * MIB]
        for size in sizes:
            assert client.archive(space, b"/%09d" % size, content(b"%d" % size, size)) == 0
        rows = {row.size: row for row in client.query(space)}
        places = [tsm_server.call(_place(tsm_server, rows[size].id)) for size in (5001, 300_000, 3 * MIB, 12 * MIB)]
        for (path, offset), within in zip(places, (2500, 299_999, 2 * MIB + 5, 7), strict=True):
            flip_byte(path, offset + within)
        client.send(GET, get_body([(rows[size].id, 0, 0) for size in sizes]))
        frames, code = client.stream()
        assert code == 0
        got = dict(zip(sizes, objects(frames), strict=True))
        assert [(each.code, each.failed) for each in got.values()] == [
            (0, 0),
            (14, 0),
            (0, 14),
            (0, 14),
            (0, 0),
            (0, 14),
        ]
        for size in (5000, 0):
            assert got[size].content == content(b"%d" % size, size)
        assert got[3 * MIB].content == content(b"%d" % (3 * MIB), 3 * MIB)[: 2 * MIB]  # The bytes before it are intact.
        assert got[5001].content == got[300_000].content == got[12 * MIB].content == b""
        # Only the requested bytes are checked.
        number = rows[3 * MIB].id
        assert client.get((number, 0, 2 * MIB))[0].content == content(b"%d" % (3 * MIB), 3 * MIB)[: 2 * MIB]
        assert client.get((number, 2 * MIB, 1)) == [(14, b"", 0)]
        assert client.event(HOLD, number) == 0


async def _place(tsm_server: RunningTsmServer, number: int) -> tuple[Path, int]:
    row = tsm_server.store.queries.archives.find([number])[number]
    return tsm_server.store._segments.path(row.segment), row.offset


# Silence.

IDLE, SILENT = 900.0, 60.0


def leave_silent(tsm_server: RunningTsmServer, seconds: float) -> None:
    """Make the only session silent for so many more seconds, and let the server check."""

    def look() -> None:
        tsm_server.session.heard_at -= seconds
        tsm_server.server.drop_silent()

    tsm_server.do(look)


def is_dropped(tsm_server: RunningTsmServer) -> bool:
    return tsm_server.do(lambda: not tsm_server.server._sessions or tsm_server.session._transport.is_closing())


@pytest.mark.parametrize(
    ("doing", "limit"),
    [("nothing", IDLE), ("connected", SILENT), ("challenged", SILENT), ("in a transaction", SILENT),
     ("in an object", SILENT), ("after a transaction", IDLE), ("in a stream", SILENT), ("after a stream", IDLE)],
)  # fmt: skip
def test_a_session_that_is_silent_for_too_long_is_dropped(data_dir: Path, doing: str, limit: float) -> None:
    with RunningTsmServer(data_dir, idle_seconds_max=IDLE, silent_seconds_max=SILENT) as tsm_server:
        with tsm_server.sign_on() as client:
            space = client.space()
            assert client.archive(space, b"/o", bytes(MIB)) == 0
            (row,) = client.query(space)
        tsm_server.settled(sessions=0)
        with tsm_server.connect() as client:
            if doing == "challenged":
                client.challenge(b"ARCHIVER")
            elif doing != "connected":
                client.sign_on(b"ARCHIVER", tsm_server.password())
            if doing == "in an object":
                client.send(OBJECT, object_body(space, b"/d", b"/never") + b"x")
            elif "transaction" in doing:
                client.send_object(space, b"/never" if "in" in doing else b"/new")
                client.ping()
                if "after" in doing:
                    assert client.vote() == 0
            elif "stream" in doing:
                client.send(GET, get_body([(row.id, 0, 0)] * (4000 if "in" in doing else 1)))
                if "after" in doing:
                    client.stream()
                else:
                    tsm_server.call(
                        tsm_server.until(
                            lambda: len(tsm_server.server._sessions) == 1 and tsm_server.session._stream is not None
                        )
                    )
                    tsm_server.call(tsm_server.until(lambda: not tsm_server.session._may_write.is_set()))
            tsm_server.call(tsm_server.until(lambda: len(tsm_server.server._sessions) == 1))
            if doing == "in an object":
                tsm_server.call(tsm_server.until(lambda: tsm_server.session._incoming is not None))
            leave_silent(tsm_server, limit - 30)
            assert not is_dropped(tsm_server)
            leave_silent(tsm_server, 31)
            tsm_server.settled(sessions=0)
        with tsm_server.sign_on() as client:
            assert b"/never" not in {each.ll for each in client.query(space)}


def test_a_session_that_sends_again_is_not_silent(tsm_server: RunningTsmServer, tsm: Client) -> None:
    for _ in range(3):
        leave_silent(tsm_server, IDLE - 30)
        assert tsm.ping()


# The commit that a large transaction names on the disk, while other commits succeed and fail.


class _Observed:
    """A connection that calls a function before each statement."""

    def __init__(self, connection: sqlite3.Connection, before: Callable[[str], None]) -> None:
        self._connection = connection
        self._before = before

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        self._before(statement)
        return self._connection.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


async def test_large_transaction_begun_during_a_commit_names_that_commit(
    core: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a power loss undid that commit, a later number would wrongly prove that the catalogue lost two commits."""
    named: list[int] = []

    def before(statement: str) -> None:
        if statement == "COMMIT":
            named.append(core.begin_large_transaction()._commit)

    committed = core._catalogue.state.commits
    monkeypatch.setattr(core._catalogue, "_connection", _Observed(core._catalogue._connection, before))
    await core.put(put("k"))
    assert named == [committed + 1]


async def test_a_number_taken_during_a_failed_commit_is_not_reused(
    core: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = [core.take_sequence() for _ in range(10)]
    load_bucket = catalogue_module._bucket

    def observed(row: Any) -> Any:
        taken.extend(core.take_sequence() for _ in range(5))
        return load_bucket(row)

    def failing(self: Catalogue, now_ms: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(catalogue_module, "_bucket", observed)
        broken.setattr(Catalogue, "commit", failing)
        with pytest.raises(WriteFailed):
            await core.put(put("k"))
    taken.append(core.take_sequence())
    assert len(taken) > 11
    assert len(set(taken)) == len(taken)


def test_unanswered_votes_are_whole_or_nothing(data_dir: Path) -> None:
    """The store is killed while it processes many transactions of one connection."""
    store = process.start(data_dir)
    with sign_on(store) as client:
        space = client.space()
        for number in range(200):
            pair = b"".join(
                frame(OBJECT, object_body(space, b"/d", b"/%d-%d" % (number, part))) + frame(DATA, b"x" * 500, 1)
                for part in range(2)
            )
            client.send_bytes(pair + frame(END_TRANSACTION, b"\1"))
        answered = sum(client.voted() == 0 for _ in range(20))
        store.kill()
        answered += sum(1 for each in client.receive_all() if each.kind == 0x92)
    with process.start(data_dir) as store, sign_on(store) as client:
        names = [row.ll for row in client.query(space)]
        count = len(names) // 2
        assert answered <= count <= 200
        assert set(names) == {b"/%d-%d" % (number, part) for number in range(count) for part in range(2)}
