"""Holds, releases, queries and deletions against a real store: the state of the server, and the engine's counts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from archiver.engine.worker.stopping import NO_END_NS
from archiver.measure.folding import Folding, Population, fold, take
from archiver.measure.reports import Tally, TallyKey
from archiver.values.record import TSM_ERROR, Operation, Recorder, Status
from backends.embedded import process
from backends.tsm import TsmBackend
from backends.tsm.data_plane import TsmDataPlane
from backends.tsm.library.api import ArchivedObject
from backends.tsm.library.codes import Code
from tests.backends.tsm.tsm_sessions import (
    SIZE,
    Row,
    Server,
    archived,
    batch,
    data_plane,
    of,
    reached,
    record_of_sessions,
    rows_of,
)

OPEN, CLOSE, TRANSACTION = Operation.OPEN, Operation.CLOSE, Operation.TRANSACTION
HOLD, RELEASE, QUERY, DELETE, REFUSED_DELETE, AUDIT = (
    Operation.HOLD, Operation.RELEASE, Operation.QUERY, Operation.DELETE, Operation.REFUSED_DELETE, Operation.AUDIT,
)  # fmt: skip
LOCKED, EXPIRED = "STANDARD", "NONE"  # classes with retention periods of five minutes and of zero
_runs = itertools.count()


@pytest.fixture(scope="module")
def server(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with process.start(tmp_path_factory.mktemp("tsm") / "store") as store, reached(store, shim) as server:
        yield server


def with_objects(server: Server, count: int, management_class: str = LOCKED, limit: int | None = None) -> TsmBackend:
    """A backend with a separate location and objects 0, 1, ..."""
    name = f"run-life-{next(_runs)}"
    backend, _ = server.prepared(name, management_class=management_class, objects_per_transaction=limit)
    archived(backend, *range(count))
    return backend


def plane_of(backend: TsmBackend, *numbers: int) -> TsmDataPlane:
    return data_plane(backend.worker_setting(), reads=numbers)


def perform(backend: TsmBackend, operation: Operation, *numbers: int) -> Recorder:
    return record_of_sessions(plane_of(backend, *numbers), batch(operation, *numbers))


def on_server(backend: TsmBackend) -> dict[int, ArchivedObject]:
    """Return the objects on the server, by number."""
    location = backend._located()
    with backend._session("look") as session:
        found = session.archives(location.bucket, f"/{location.prefix}/*")
        return {int(one.low_level[1:]): one for one in found}


def held(backend: TsmBackend) -> list[int]:
    return sorted(number for number, one in on_server(backend).items() if one.held)


def transactions(rows: list[Row]) -> list[tuple[int, int]]:
    """Return status and number of objects of each transaction."""
    found, objects = [], 0
    for row in rows:
        if row.operation == TRANSACTION:
            found.append((row.status, objects))
            objects = 0
        elif row.operation > TRANSACTION:
            objects += 1
    return found


def seen(record: Recorder) -> tuple[int, int, int, list[tuple[int, int]]]:
    """Return what the engine counts: objects, their bytes, errors, and the ranges of changed objects."""
    tallies: dict[TallyKey, Tally] = {}
    rows = take([record], [(0, NO_END_NS)])
    changed = [] if rows is None else fold(rows, Folding(0, Population.of_size(SIZE), 0), tallies)
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    return total.objects, total.bytes, total.errors, [(change.first, change.last) for change in changed]


# Holds and releases.


@pytest.mark.parametrize(("limit", "sizes"), [(None, [5]), (2, [2, 2, 1]), (1, [1] * 5)])
def test_objects_are_held_in_transactions_up_to_limit(server: Server, limit: int | None, sizes: list[int]) -> None:
    backend = with_objects(server, 6, limit=limit)
    record = perform(backend, HOLD, 0, 1, 2, 3, 4)
    rows = rows_of(record)
    assert (rows[0].operation, rows[-1].operation) == (OPEN, CLOSE)
    assert transactions(rows) == [(Status.OK, size) for size in sizes]
    assert [row.number for row in of(HOLD, rows)] == [0, 1, 2, 3, 4]
    assert held(backend) == [0, 1, 2, 3, 4]
    assert seen(record) == (5, 0, 0, [(0, 4)])  # no bytes were moved


def test_an_object_is_held_when_its_transactions_vote_is_answered(server: Server) -> None:
    rows = rows_of(perform(with_objects(server, 3), HOLD, 0, 1, 2))
    (transaction,) = of(TRANSACTION, rows)
    assert {row.done_ns for row in of(HOLD, rows)} == {transaction.done_ns}
    assert transaction.sent_ns <= of(HOLD, rows)[0].sent_ns < transaction.first_byte_ns < transaction.done_ns
    assert all(row.due_ns <= row.sent_ns <= row.first_byte_ns <= row.done_ns for row in rows)


def test_released_objects_are_no_longer_held(server: Server) -> None:
    backend = with_objects(server, 4)
    perform(backend, HOLD, 0, 1, 2, 3)
    record = perform(backend, RELEASE, 1, 2)
    assert held(backend) == [0, 3]
    assert seen(record) == (2, 0, 0, [(1, 2)])


def test_already_held_object_fails_only_its_own_transaction(server: Server) -> None:
    backend = with_objects(server, 4, limit=2)
    perform(backend, HOLD, 1)
    record = perform(backend, HOLD, 0, 1, 2, 3)
    refused = TSM_ERROR + Code.ABORT_OBJECT_ALREADY_HELD
    assert transactions(rows_of(record)) == [(refused, 2), (Status.OK, 2)]
    assert [row.status for row in of(HOLD, rows_of(record))] == [refused, refused, 0, 0]
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.count) == ("hold", "250 ABORT_OBJECT_ALREADY_HELD", 2)
    assert held(backend) == [1, 2, 3]
    assert seen(record) == (2, 0, 2, [(2, 3)])


def test_release_without_hold_fails(server: Server) -> None:
    backend = with_objects(server, 1)
    (row,) = of(RELEASE, rows_of(perform(backend, RELEASE, 0)))
    assert row.status > TSM_ERROR


# Queries.


def test_query_batch_queries_objects_one_by_one(server: Server) -> None:
    backend = with_objects(server, 3)
    record = perform(backend, QUERY, 2, 0, 1)
    rows = rows_of(record)
    assert [row.operation for row in rows] == [OPEN, QUERY, QUERY, QUERY, CLOSE]
    assert [(row.number, row.status) for row in of(QUERY, rows)] == [(2, 0), (0, 0), (1, 0)]
    assert all(row.due_ns <= row.sent_ns < row.first_byte_ns <= row.done_ns for row in of(QUERY, rows))
    assert seen(record) == (3, 0, 0, [])


def test_query_for_missing_object_fails_and_next_succeeds(server: Server) -> None:
    record = perform(with_objects(server, 2), QUERY, 0, 7, 1)
    assert [row.status for row in of(QUERY, rows_of(record))] == [0, TSM_ERROR + Code.ABORT_NO_MATCH, 0]
    (error,) = record.errors.values()
    assert (error.operation, error.reason) == ("query", "2 ABORT_NO_MATCH")
    assert error.object_name.endswith("/000000000007")


# Deletions that must be refused.


def test_refused_deletion_succeeds_in_a_transaction_per_object(server: Server) -> None:
    backend = with_objects(server, 4)
    record = perform(backend, REFUSED_DELETE, 0, 1, 2, 3)
    rows = rows_of(record)
    assert record.errors == {}
    assert transactions(rows) == [(Status.OK, 1)] * 4
    assert {row.status for row in of(REFUSED_DELETE, rows)} == {Status.OK}
    assert all(row.due_ns <= row.sent_ns <= row.first_byte_ns <= row.done_ns for row in rows)
    assert sorted(on_server(backend)) == [0, 1, 2, 3]
    assert seen(record) == (4, 0, 0, [])


def test_hold_prevents_deletion_of_expired_objects(server: Server) -> None:
    backend = with_objects(server, 2, EXPIRED)
    perform(backend, HOLD, 0, 1)
    record = perform(backend, REFUSED_DELETE, 0, 1)
    assert seen(record)[:3] == (2, 0, 0)
    assert sorted(on_server(backend)) == [0, 1]


def test_deletion_of_a_held_object_is_detected(server: Server) -> None:
    backend = with_objects(server, 3, EXPIRED)
    perform(backend, HOLD, 0, 1, 2)
    perform(backend, RELEASE, 1)  # as if the server had lost the hold
    record = perform(backend, REFUSED_DELETE, 0, 1, 2)
    rows = of(REFUSED_DELETE, rows_of(record))
    assert [row.status for row in rows] == [Status.OK, Status.DELETED_LOCKED, Status.OK]
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.count) == ("refused-delete", "deleted what was locked", 1)
    assert error.object_name.endswith("/000000000001")
    assert sorted(on_server(backend)) == [0, 2]
    assert seen(record) == (2, 0, 1, [])


def test_refused_delete_succeeds_when_delete_call_itself_refuses(server: Server) -> None:
    backend = with_objects(server, 2)
    plane = plane_of(backend, 0, 1)
    plane._library.functions.dsmDeleteObj = lambda *_: Code.ABORT_DELETE_NOT_ALLOWED
    assert seen(record_of_sessions(plane, batch(REFUSED_DELETE, 0, 1)))[:3] == (2, 0, 0)


def test_refused_delete_fails_on_other_refusal_reason(server: Server) -> None:
    """Refusals for missing authority or for a missing object prove nothing about locks."""
    backend = with_objects(server, 2, EXPIRED)
    plane = plane_of(backend, 0, 1)
    plane._library.functions.dsmDeleteObj = lambda *_: Code.ABORT_NODE_NOT_AUTHORIZED
    rows = rows_of(record_of_sessions(plane, batch(REFUSED_DELETE, 0, 1)))
    assert {row.status for row in of(REFUSED_DELETE, rows)} == {TSM_ERROR + Code.ABORT_NODE_NOT_AUTHORIZED}
    perform(backend, DELETE, 0)
    rows = rows_of(perform(backend, REFUSED_DELETE, 0))
    assert [row.status for row in of(REFUSED_DELETE, rows)] == [TSM_ERROR + Code.ABORT_NO_MATCH]


# Deletions.


@pytest.mark.parametrize(("limit", "sizes"), [(None, [5]), (2, [2, 2, 1])])
def test_expired_objects_are_deleted_in_transactions_up_to_limit(
    server: Server, limit: int | None, sizes: list[int]
) -> None:
    backend = with_objects(server, 6, EXPIRED, limit=limit)
    record = perform(backend, DELETE, 0, 1, 2, 3, 4)
    rows = rows_of(record)
    assert transactions(rows) == [(Status.OK, size) for size in sizes]
    ends = {row.done_ns for row in of(TRANSACTION, rows)}
    assert {row.done_ns for row in of(DELETE, rows)} == ends
    assert all(later.due_ns >= earlier.sent_ns for earlier, later in itertools.pairwise(of(DELETE, rows)))
    assert sorted(on_server(backend)) == [5]
    assert seen(record) == (5, 0, 0, [(0, 4)])


def test_undeletable_object_fails_only_its_own_transaction(server: Server) -> None:
    backend = with_objects(server, 4, EXPIRED, limit=2)
    perform(backend, HOLD, 1)
    record = perform(backend, DELETE, 0, 1, 2, 3)
    refused = TSM_ERROR + Code.ABORT_DELETE_NOT_ALLOWED
    assert transactions(rows_of(record)) == [(refused, 2), (Status.OK, 2)]
    assert sorted(on_server(backend)) == [0, 1]
    assert seen(record) == (2, 0, 2, [(2, 3)])


def test_nothing_is_deleted_before_its_expiry(server: Server) -> None:
    backend = with_objects(server, 2)
    record = perform(backend, DELETE, 0, 1)
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.count) == ("delete", "248 ABORT_DELETE_NOT_ALLOWED", 2)
    assert sorted(on_server(backend)) == [0, 1]


# Failures of all operations.


@pytest.mark.parametrize("operation", [HOLD, RELEASE, DELETE, REFUSED_DELETE])
def test_object_without_known_id_is_reported_as_no_match(server: Server, operation: Operation) -> None:
    backend = with_objects(server, 0)
    record = perform(backend, operation, 9)
    assert [(row.operation, row.status) for row in rows_of(record)[1:-1]] == [(operation, TSM_ERROR + 2)]
    (error,) = record.errors.values()
    assert (error.operation, error.reason) == (operation.label, "2 ABORT_NO_MATCH")


@pytest.mark.parametrize(
    ("operation", "call"),
    [
        (HOLD, "dsmRetentionEvent"),
        (RELEASE, "dsmRetentionEvent"),
        (DELETE, "dsmDeleteObj"),
        (REFUSED_DELETE, "dsmDeleteObj"),
        (QUERY, "dsmGetNextQObj"),
        (QUERY, "dsmBeginQuery"),
        (AUDIT, "dsmBeginQuery"),
        (AUDIT, "dsmGetObj"),
    ],
)
def test_a_connection_that_is_lost_ends_the_session(server: Server, operation: Operation, call: str) -> None:
    plane = plane_of(with_objects(server, 3, limit=1), 0, 1, 2)
    setattr(plane._library.functions, call, lambda *_: Code.TCPIP_FAILURE)
    rows = rows_of(record_of_sessions(plane, batch(operation, 0, 1, 2)))
    assert [(row.number, row.status, row.bytes) for row in of(operation, rows)] == [(0, Status.CONNECTION_LOST, 0)]


@pytest.mark.parametrize("operation", [HOLD, RELEASE, DELETE, REFUSED_DELETE])
def test_vote_without_an_answer_has_an_unknown_outcome(server: Server, operation: Operation) -> None:
    plane = plane_of(with_objects(server, 1), 0)
    plane._library.functions.dsmEndTxn = lambda *_: Code.TCPIP_FAILURE
    record = record_of_sessions(plane, batch(operation, 0))
    (error,) = record.errors.values()
    assert (error.operation, error.count, error.outcomes_unknown) == (operation.label, 1, 1)


@pytest.mark.parametrize("operation", [HOLD, RELEASE, DELETE, REFUSED_DELETE])
def test_a_transaction_that_cannot_begin_ends_the_session(server: Server, operation: Operation) -> None:
    plane = plane_of(with_objects(server, 3), 0, 1, 2)
    plane._library.functions.dsmBeginTxn = lambda *_: Code.ABORT_NODE_NOT_AUTHORIZED
    rows = rows_of(record_of_sessions(plane, batch(operation, 0, 1, 2)))
    assert [(row.number, row.status) for row in of(operation, rows)] == [(0, TSM_ERROR + 36)]


@pytest.mark.parametrize("operation", [HOLD, RELEASE, QUERY, DELETE, REFUSED_DELETE, AUDIT])
def test_stopping_phase_begins_no_operation(server: Server, operation: Operation) -> None:
    backend = with_objects(server, 2, EXPIRED)
    plane = plane_of(backend, 0, 1)
    plane._stopping.set()
    rows = rows_of(record_of_sessions(plane, batch(operation, 0, 1)))
    assert [row.operation for row in rows] == [OPEN, CLOSE]
    assert sorted(on_server(backend)) == [0, 1]
    assert held(backend) == []


def test_operations_may_alternate_in_a_session(server: Server) -> None:
    backend = with_objects(server, 2, EXPIRED)
    record = record_of_sessions(
        plane_of(backend, 0, 1),
        batch(HOLD, 0),
        batch(REFUSED_DELETE, 0),
        batch(RELEASE, 0),
        batch(DELETE, 0),
        batch(QUERY, 0, 1),
    )
    objects = [(row.operation, row.status) for row in rows_of(record) if row.operation > TRANSACTION]
    assert objects == [(HOLD, 0), (REFUSED_DELETE, 0), (RELEASE, 0), (DELETE, 0), (QUERY, TSM_ERROR + 2), (QUERY, 0)]
    assert record.errors[QUERY, "2 ABORT_NO_MATCH"].count == 1
