"""TSM sessions against a real store, through our library: the objects on the server, and the recorded rows."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from archiver.values.content import Content
from archiver.values.record import TSM_ERROR, Operation, Recorder, Status
from backends.base import Batch
from backends.embedded import process
from backends.tsm.library.api import ApiSession
from backends.tsm.library.codes import Code
from backends.tsm.setting import TsmWorkerSetting, high_level
from tests.backends.tsm.tsm_sessions import (
    SIZE,
    Server,
    archives,
    batch,
    data_plane,
    of,
    reached,
    record_of_sessions,
    retrieves,
    rows_of,
)

OPEN, CLOSE, ARCHIVE, RETRIEVE, TRANSACTION = (
    Operation.OPEN, Operation.CLOSE, Operation.ARCHIVE, Operation.RETRIEVE, Operation.TRANSACTION,
)  # fmt: skip


@pytest.fixture(scope="module")
def server(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with process.start(tmp_path_factory.mktemp("tsm") / "store") as store, reached(store, shim) as server:
        yield server


@pytest.fixture
def own_server(shim: Path, tmp_path: Path) -> Iterator[Server]:
    """A server that the test may kill."""
    with process.start(tmp_path / "store") as store, reached(store, shim) as server:
        yield server


@pytest.fixture
def setting(server: Server, request: pytest.FixtureRequest) -> TsmWorkerSetting:
    """A setting with a file space and names for one test."""
    return server.prepared(run_id=f"run-{abs(hash(request.node.nodeid))}")[0].worker_setting()


def held_by(server: Server, setting: TsmWorkerSetting) -> list[int]:
    """Return the numbers of the objects that the server lists."""
    backend = server.backend()
    with backend._session("look") as session:
        return sorted(int(one.low_level[1:]) for one in session.archives(setting.space, f"/{setting.prefix}/*"))


def test_a_session_signs_on_commits_once_and_ends(server: Server, setting: TsmWorkerSetting) -> None:
    record = record_of_sessions(data_plane(setting), archives(*range(20)))
    rows = rows_of(record)
    assert record.errors == {}
    assert [row.operation for row in rows] == [OPEN, *[ARCHIVE] * 20, TRANSACTION, CLOSE]
    assert {row.status for row in rows} == {Status.OK}
    assert [(row.number, row.bytes) for row in of(ARCHIVE, rows)] == [(number, SIZE) for number in range(20)]
    assert held_by(server, setting) == list(range(20))


def test_an_object_is_done_when_its_transactions_vote_is_answered(setting: TsmWorkerSetting) -> None:
    rows = rows_of(record_of_sessions(data_plane(setting), archives(*range(10))))
    (transaction,) = of(TRANSACTION, rows)
    objects = of(ARCHIVE, rows)
    assert {row.done_ns for row in objects} == {row.first_byte_ns for row in objects} == {transaction.done_ns}
    assert transaction.bytes == 10 * SIZE
    assert transaction.sent_ns <= objects[0].sent_ns
    assert objects[-1].sent_ns < transaction.first_byte_ns < transaction.done_ns
    assert all(row.due_ns <= row.sent_ns <= row.first_byte_ns <= row.done_ns for row in rows)
    assert all(later.due_ns >= earlier.sent_ns for earlier, later in itertools.pairwise(objects))


@pytest.mark.parametrize(("limit", "transactions"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5])])
def test_transactions_contain_requested_number_of_objects(
    server: Server, request: pytest.FixtureRequest, limit: int, transactions: list[int]
) -> None:
    backend, _ = server.prepared(f"run-{abs(hash(request.node.nodeid))}", objects_per_transaction=limit)
    setting = backend.worker_setting()
    rows = rows_of(record_of_sessions(data_plane(setting), archives(*range(5))))
    assert [row.bytes // SIZE for row in of(TRANSACTION, rows)] == transactions
    ends = [row.done_ns for row in of(TRANSACTION, rows)]
    assert [sum(row.done_ns == end for row in of(ARCHIVE, rows)) for end in ends] == transactions
    assert held_by(server, setting) == list(range(5))


@pytest.mark.parametrize("size_bytes", [1, 63, 64, SIZE, 1 << 20])
def test_archived_objects_are_retrieved(setting: TsmWorkerSetting, size_bytes: int) -> None:
    record_of_sessions(data_plane(setting), archives(5, 1004, 7, size_bytes=size_bytes))
    plane = data_plane(setting, reads=(1004, 5, 7))
    record = record_of_sessions(plane, retrieves(1004, 5, 7, size_bytes=size_bytes))
    rows = rows_of(record)
    assert record.errors == {}
    assert [row.operation for row in rows] == [OPEN, *[RETRIEVE] * 3, CLOSE]
    assert sorted(row.number for row in of(RETRIEVE, rows)) == [5, 7, 1004]
    assert {(row.status, row.bytes) for row in of(RETRIEVE, rows)} == {(Status.OK, size_bytes)}
    assert all(row.due_ns <= row.sent_ns <= row.first_byte_ns <= row.done_ns for row in rows)


def test_objects_are_retrieved_in_restore_order(setting: TsmWorkerSetting) -> None:
    record_of_sessions(data_plane(setting), archives(*range(50)))
    order = [number * 7 % 50 for number in range(50)]
    rows = rows_of(record_of_sessions(data_plane(setting, reads=tuple(order)), retrieves(*order)))
    assert [row.number for row in of(RETRIEVE, rows)] == list(range(50))  # the order in which the store keeps them


def test_known_ids_are_queried_once_and_new_ids_are_found(
    setting: TsmWorkerSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_of_sessions(data_plane(setting), archives(1, 2))
    assert record_of_sessions(data_plane(setting, reads=(1, 2)), retrieves(1, 2)).errors == {}
    with monkeypatch.context() as without_queries:
        without_queries.delattr(ApiSession, "archives")
        data_plane(setting, reads=(1, 2))
    record_of_sessions(data_plane(setting), archives(3, 4001))
    record = record_of_sessions(data_plane(setting, reads=(4001, 2, 3)), retrieves(4001, 2, 3))
    assert record.errors == {}


def test_object_ids_are_not_shared_between_servers(server: Server, own_server: Server) -> None:
    for order, one in (((0, 1), server), ((1, 0), own_server)):
        plane = data_plane(one.prepared()[0].worker_setting(), reads=order)
        record = record_of_sessions(plane, *(archives(number) for number in order), retrieves(*order))
        assert record.errors == {}


def test_missing_object_is_no_match_and_others_are_retrieved(setting: TsmWorkerSetting) -> None:
    record_of_sessions(data_plane(setting), archives(1, 2))
    record = record_of_sessions(data_plane(setting, reads=(1, 2, 99)), retrieves(1, 99, 2))
    assert {row.number: row.status for row in of(RETRIEVE, rows_of(record))} == {1: 0, 2: 0, 99: TSM_ERROR + 2}
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.count) == ("retrieve", "2 ABORT_NO_MATCH", 1)
    assert error.object_name == f"{setting.space}{high_level(setting.prefix, 99)}/{99:012d}"


@pytest.mark.parametrize(("verify", "status"), [("all", Status.DAMAGED), ("none", Status.OK)])
def test_retrieve_of_other_content_is_damaged_if_verified(
    setting: TsmWorkerSetting, verify: str, status: Status
) -> None:
    record_of_sessions(data_plane(setting), archives(1))
    other = Content("another-run", 8, 1 << 20)
    plane = data_plane(setting, reads=(1,), verify=verify, content=other)
    (row,) = of(RETRIEVE, rows_of(record_of_sessions(plane, retrieves(1))))
    assert (row.status, row.bytes) == (status, SIZE if status == Status.OK else 0)


def test_archiving_and_retrieving_may_alternate_in_a_session(setting: TsmWorkerSetting) -> None:
    record_of_sessions(data_plane(setting), archives(1, 2))
    batch = Batch([RETRIEVE, ARCHIVE, ARCHIVE, RETRIEVE], [1, 3, 4, 2], [SIZE] * 4)
    rows = rows_of(record_of_sessions(data_plane(setting, reads=(1, 2)), batch))
    assert [row.operation for row in rows[1:-1]] == [RETRIEVE, ARCHIVE, ARCHIVE, TRANSACTION, RETRIEVE]


def test_clients_have_separate_concurrent_sessions(server: Server, setting: TsmWorkerSetting) -> None:
    plane = data_plane(setting, clients=(0, 1, 2))
    records = [Recorder(1000) for _ in range(3)]
    all_open = asyncio.Barrier(3)

    async def client(number: int) -> None:
        session = plane.session(number)
        assert await session.open(records[number], 1)
        await all_open.wait()
        await session.perform(archives(*range(number * 100, number * 100 + 50)), records[number])
        await session.close(records[number])

    async def work() -> None:
        async with asyncio.timeout(60):
            await asyncio.gather(*(client(number) for number in range(3)))
            await plane.end_phase()

    uvloop.run(work())
    assert [record.errors for record in records] == [{}, {}, {}]
    assert held_by(server, setting) == [number for first in (0, 100, 200) for number in range(first, first + 50)]


def test_failed_transaction_fails_its_object_with_the_reason(server: Server, setting: TsmWorkerSetting) -> None:
    plane = data_plane(setting)
    functions = plane._library.functions
    first = functions.dsmEndSendObj
    functions.dsmEndSendObj = lambda handle: first(handle) or Code.INVALID_OBJNAME  # after the first object
    record = record_of_sessions(plane, archives(1))
    rows = rows_of(record)
    assert [(row.operation, row.status, row.bytes) for row in rows] == [
        (OPEN, 0, 0), (ARCHIVE, TSM_ERROR + 2017, 0), (TRANSACTION, TSM_ERROR + 2017, 0), (CLOSE, 0, 0),
    ]  # fmt: skip
    (error,) = record.errors.values()
    assert (error.reason, error.count, error.outcomes_unknown) == ("2017 INVALID_OBJNAME", 1, 0)
    assert held_by(server, setting) == []


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"password": "wrong"}, TSM_ERROR + 137, "137 AUTH_FAILURE"),
        ({"node": "NOBODY"}, TSM_ERROR + 53, "53 REJECT_ID_UNKNOWN"),
    ],
)
def test_refused_session_reports_reason_and_has_no_close_row(
    server: Server, setting: TsmWorkerSetting, change: dict[str, Any], status: int, reason: str
) -> None:
    record = record_of_sessions(data_plane(replace(setting, **change)), archives(1))
    assert [(row.operation, row.status) for row in rows_of(record)] == [(OPEN, status)]
    (error,) = record.errors.values()
    assert (error.operation, error.reason) == ("open", reason)


def test_killed_server_fails_every_session_open(own_server: Server) -> None:
    setting = own_server.prepared()[0].worker_setting()
    plane = data_plane(setting)
    own_server.store.kill()
    rows = rows_of(record_of_sessions(plane, archives(1), archives(2)))
    assert [(row.operation, row.status) for row in rows] == [(OPEN, Status.CONNECT_FAILED)] * 2


def test_server_crash_before_the_vote_stores_nothing_of_the_transaction(own_server: Server) -> None:
    setting = own_server.prepared()[0].worker_setting()
    plane = data_plane(setting)
    functions = plane._library.functions
    send, sent = functions.dsmSendObj, list[int]()

    def die_at_the_third(*arguments: object) -> int:
        sent.append(1)
        if len(sent) == 3:
            own_server.store.kill()
        return int(send(*arguments))

    functions.dsmSendObj = die_at_the_third
    record = record_of_sessions(plane, archives(*range(200), size_bytes=1 << 20))
    rows = rows_of(record)
    assert {row.status for row in of(ARCHIVE, rows)} == {Status.CONNECTION_LOST}
    assert [row.status for row in of(TRANSACTION, rows)] == [Status.CONNECTION_LOST]
    (error,) = record.errors.values()
    assert error.count == len(of(ARCHIVE, rows)) >= 3
    assert error.outcomes_unknown == 0
    with process.start(own_server.store.data_dir) as again, reached(again, own_server.library) as server:
        assert held_by(server, setting) == []


def test_server_crash_at_vote_leaves_transaction_outcome_unknown(own_server: Server) -> None:
    plane = data_plane(own_server.prepared()[0].worker_setting())
    functions = plane._library.functions
    end = functions.dsmEndTxn

    def die_first(*arguments: object) -> int:
        own_server.store.kill()
        return int(end(*arguments))

    functions.dsmEndTxn = die_first
    record = record_of_sessions(plane, archives(1, 2))
    assert [row.status for row in of(ARCHIVE, rows_of(record))] == [Status.CONNECTION_LOST] * 2
    (error,) = record.errors.values()
    assert (error.count, error.outcomes_unknown) == (2, 2)


def test_one_session_performs_several_batches_until_its_server_is_gone(own_server: Server) -> None:
    plane, record = data_plane(own_server.prepared()[0].worker_setting()), Recorder(100)
    was_open = []

    async def work() -> None:
        session = plane.session(0)
        assert not session.is_open
        assert await session.open(record, 1)
        for number in (1, 2):
            archive = archives(number)
            archive.due_ns = 1000 + number
            await session.perform(archive, record)
            was_open.append(session.is_open)
        await session.perform(retrieves(1), record)
        own_server.store.kill()
        for number in (3, 4):
            await session.perform(archives(number), record)
            was_open.append(session.is_open)
        await session.close(record)
        await plane.end_phase()

    uvloop.run(work())
    assert was_open == [True, True, False, False]
    rows = rows_of(record)
    assert [(row.number, row.status, row.due_ns) for row in of(ARCHIVE, rows)][:2] == [(1, 0, 1001), (2, 0, 1002)]
    assert [(row.number, row.status) for row in of(ARCHIVE, rows)][2:] == [
        (3, Status.CONNECTION_LOST), (4, Status.CONNECTION_LOST),
    ]  # fmt: skip
    assert [row.status for row in of(TRANSACTION, rows)][:2] == [0, 0]
    assert [row.status for row in of(Operation.RETRIEVE, rows)] == [0]


def test_read_data_is_compared_with_expected_content(server: Server, setting: TsmWorkerSetting) -> None:
    own, others, audited = retrieves(1, 2), retrieves(1, 2), batch(Operation.AUDIT, 1, 2)
    own.content, others.content, audited.content = [1, 2], [1, 1], [2, 2]
    record = record_of_sessions(data_plane(setting), archives(1, 2), own, others, audited)
    read = [(row.operation, row.number, row.status) for row in rows_of(record) if row.operation > ARCHIVE]
    assert read == [
        (Operation.RETRIEVE, 1, 0), (Operation.RETRIEVE, 2, 0), (Operation.RETRIEVE, 1, 0),
        (Operation.RETRIEVE, 2, Status.DAMAGED), (Operation.AUDIT, 1, Status.DAMAGED), (Operation.AUDIT, 2, 0),
    ]  # fmt: skip


def test_cancelled_phase_aborts_transaction_and_ends_threads(server: Server, setting: TsmWorkerSetting) -> None:
    plane = data_plane(setting)
    functions = plane._library.functions
    send, begun, go_on = functions.dsmSendObj, threading.Event(), threading.Event()

    def pause_at_the_first(*arguments: object) -> int:
        begun.set()
        assert go_on.wait(60)
        return int(send(*arguments))

    functions.dsmSendObj = pause_at_the_first

    async def work() -> None:
        record = Recorder(1000)
        session = plane.session(0)
        assert await session.open(record, 1)
        performing = asyncio.create_task(session.perform(archives(*range(100)), record))
        await asyncio.to_thread(begun.wait, 60)
        performing.cancel()
        ending = asyncio.create_task(plane.end_phase())
        await asyncio.sleep(0)  # The stop has been requested by now.
        go_on.set()
        await ending
        with pytest.raises(asyncio.CancelledError):
            await performing

    uvloop.run(work())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("tsm-client")]
    assert held_by(server, setting) == []


def test_password_is_not_in_setting_repr(server: Server, setting: TsmWorkerSetting) -> None:
    assert setting.password
    assert setting.password not in repr(setting)
    assert setting.password not in repr(server.options())
