"""Mixed batches against a real store: new archives of a name, ranges, heads, and objects archived in the same phase."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import uvloop

from archiver.values.content import Content
from archiver.values.record import TSM_ERROR, Operation, Recorder, Status
from backends.base import Batch, ExpectedLock
from backends.embedded import process
from backends.tsm import TsmBackend
from backends.tsm.data_plane import TsmDataPlane
from backends.tsm.index import description, firsts, version_of
from backends.tsm.library.api import ArchivedObject
from backends.tsm.library.codes import Code
from tests.backends.tsm.tsm_sessions import (
    CONTENT,
    SIZE,
    Server,
    archived,
    archives,
    batch,
    data_plane,
    of,
    reached,
    record_of_sessions,
    retrieves,
    rows_of,
)

ARCHIVE, RETRIEVE, RANGE_RETRIEVE, NEW_VERSION, HEAD, QUERY, AUDIT = (
    Operation.ARCHIVE, Operation.RETRIEVE, Operation.RANGE_RETRIEVE, Operation.NEW_VERSION, Operation.HEAD,
    Operation.QUERY, Operation.AUDIT,
)  # fmt: skip
HOLD, RELEASE, DELETE, REFUSED_DELETE, TRANSACTION = (
    Operation.HOLD, Operation.RELEASE, Operation.DELETE, Operation.REFUSED_DELETE, Operation.TRANSACTION,
)  # fmt: skip
LOCKED, EXPIRED = "STANDARD", "NONE"  # classes with retention periods of five minutes and of zero
NO_MATCH = TSM_ERROR + Code.ABORT_NO_MATCH
OTHER_CONTENT = Content("another-run", 8, 1 << 20)
_runs = itertools.count()


@pytest.fixture(scope="module")
def server(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with process.start(tmp_path_factory.mktemp("tsm") / "store") as store, reached(store, shim) as server:
        yield server


def with_objects(server: Server, count: int, management_class: str = EXPIRED) -> TsmBackend:
    """A backend with a separate location and objects 0, 1, ..."""
    backend, _ = server.prepared(f"run-mixed-{next(_runs)}", management_class=management_class)
    if count:
        archived(backend, *range(count))
    return backend


def perform(backend: TsmBackend, *batches: Batch, reads: Sequence[int] = ()) -> Recorder:
    return record_of_sessions(data_plane(backend.worker_setting(), reads=tuple(reads)), *batches)


def versions(operation: Operation, *pairs: tuple[int, int]) -> Batch:
    """One operation on these objects, each with its content version."""
    one = batch(operation, *(number for number, _ in pairs))
    one.version = [version for _, version in pairs]
    return one


def parts(number: int, size_bytes: int, *ranges: tuple[int, int]) -> Batch:
    """Ranges of one object."""
    one = batch(RANGE_RETRIEVE, *[number] * len(ranges), size_bytes=size_bytes)
    one.range = ranges
    return one


def outcomes(record: Recorder) -> list[tuple[int, int, int, int]]:
    """Return operation, number, status and bytes of each object."""
    rows = [row for row in rows_of(record) if row.operation >= ARCHIVE]
    return [(row.operation, row.number, row.status, row.bytes) for row in rows]


def watched(plane: TsmDataPlane, call: str) -> list[int]:
    """Record the time of each later call of this API function."""
    functions, began_ns = plane._library.functions, list[int]()
    original: Callable[..., int] = getattr(functions, call)

    def note(*arguments: object) -> int:
        began_ns.append(time.monotonic_ns())
        return original(*arguments)

    setattr(functions, call, note)
    return began_ns


def on_server(backend: TsmBackend) -> list[tuple[int, int]]:
    """Return number and content version of each object on the server."""
    location = backend._located()
    with backend._session("look") as session:
        found = session.archives(location.bucket, f"/{location.prefix}/*")
        return sorted(firsts(found, location.bucket, location.prefix))


# New archives of a name.


def test_first_and_later_archives_of_a_name_are_retrieved(server: Server) -> None:
    backend = with_objects(server, 2)
    record = perform(backend, versions(NEW_VERSION, (0, 2), (1, 2)), versions(NEW_VERSION, (1, 3)))
    assert record.errors == {}
    assert outcomes(record) == [(NEW_VERSION, number, Status.OK, SIZE) for number in (0, 1, 1)]
    assert [row.bytes for row in of(TRANSACTION, rows_of(record))] == [2 * SIZE, SIZE]
    wanted = [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)]
    assert on_server(backend) == wanted
    record = perform(backend, versions(RETRIEVE, *wanted), retrieves(0, 1), reads=(0, 1))
    assert record.errors == {}
    assert outcomes(record) == [(RETRIEVE, number, Status.OK, SIZE) for number in (0, 1, 0, 1, 1, 0, 1)]


def test_unarchived_content_version_is_no_match(server: Server) -> None:
    record = perform(with_objects(server, 1), versions(RETRIEVE, (0, 2), (0, 1)), reads=(0,))
    assert outcomes(record) == [(RETRIEVE, 0, NO_MATCH, 0), (RETRIEVE, 0, Status.OK, SIZE)]


def test_content_not_matching_its_version_is_damaged(server: Server) -> None:
    backend = with_objects(server, 1)
    plane = data_plane(backend.worker_setting(), content=OTHER_CONTENT)
    assert record_of_sessions(plane, versions(NEW_VERSION, (0, 2))).errors == {}
    assert outcomes(perform(backend, versions(RETRIEVE, (0, 2)))) == [(RETRIEVE, 0, Status.DAMAGED, 0)]


def test_content_of_another_version_is_damaged(server: Server) -> None:
    backend = with_objects(server, 1)
    plane = data_plane(backend.worker_setting(), reads=(0,))
    plane._index[0, 2] = plane._index[0, 1]  # as if the server had returned the old object
    assert outcomes(record_of_sessions(plane, versions(RETRIEVE, (0, 2)))) == [(RETRIEVE, 0, Status.DAMAGED, 0)]


def test_audit_checks_first_archive_despite_later_ones(server: Server) -> None:
    backend = with_objects(server, 1, LOCKED)
    assert perform(backend, versions(NEW_VERSION, (0, 2))).errors == {}
    assert outcomes(perform(backend, batch(AUDIT, 0))) == [(AUDIT, 0, Status.OK, SIZE)]


def test_audit_does_not_accept_later_archive_for_deleted_first(server: Server) -> None:
    backend = with_objects(server, 1)
    perform(backend, versions(NEW_VERSION, (0, 2)), batch(DELETE, 0))
    assert on_server(backend) == [(0, 2)]
    assert outcomes(perform(backend, batch(AUDIT, 0))) == [(AUDIT, 0, NO_MATCH, 0)]
    assert list(backend.present(0, 9)) == []


def test_closer_look_lists_later_archive_with_its_content_version(server: Server) -> None:
    backend = with_objects(server, 1, LOCKED)
    perform(backend, versions(NEW_VERSION, (0, 2)))
    now = backend.server_now
    expected = ExpectedLock(0, 0, server.retention(backend), now + 240, now + 360)
    first, second = backend.look_closer(0, SIZE, CONTENT, expected).words.split(". ")
    assert first.endswith(": intact; kept as requested")
    assert second.endswith(" as content version 2: intact")


def test_operation_on_one_version_leaves_others_unchanged(server: Server) -> None:
    backend = with_objects(server, 2)
    record = perform(
        backend,
        versions(NEW_VERSION, (0, 2), (1, 2)),
        versions(HOLD, (0, 2)),
        versions(REFUSED_DELETE, (0, 2)),
        versions(DELETE, (0, 1), (1, 2)),
    )
    assert record.errors == {}
    assert on_server(backend) == [(0, 2), (1, 1)]


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (b"", 1),
        (b"content version 2", 2),
        (b"content version 10", 10),
        (b"content version", 1),
        (b"content version x", 1),
    ],
)
def test_archive_description_gives_content_version(said: bytes, version: int) -> None:
    one = ArchivedObject(b"/run/000000", b"/000000000007", 1, 1, SIZE, "STANDARD", 0, None, False, said, b"/fs")
    assert version_of(one) == version
    assert firsts([one], "/fs", "run") == {(7, version): one}
    assert description(version) == (said if version > 1 else None)


# Ranges of objects, and heads.


@pytest.mark.parametrize("size_bytes", [64, SIZE, 1 << 20])
def test_range_is_compared_at_its_offset(server: Server, size_bytes: int) -> None:
    backend = with_objects(server, 0)
    perform(backend, archives(70, size_bytes=size_bytes))
    ends = [(0, 1), (0, size_bytes), (size_bytes - 1, 1), (size_bytes // 2, size_bytes // 2), (size_bytes - 64, 40)]
    record = perform(backend, parts(70, size_bytes, *ends))
    assert record.errors == {}
    assert outcomes(record) == [(RANGE_RETRIEVE, 70, Status.OK, length) for _, length in ends]
    rows = of(RANGE_RETRIEVE, rows_of(record))
    assert all(row.due_ns <= row.sent_ns <= row.first_byte_ns <= row.done_ns for row in rows)


def test_range_with_other_content_is_damaged(server: Server) -> None:
    backend = with_objects(server, 1)
    ranges = [(0, 4096), (SIZE - 4096, 4096)]
    other = data_plane(backend.worker_setting(), content=OTHER_CONTENT)
    record = record_of_sessions(other, parts(0, SIZE, *ranges))
    assert outcomes(record) == [(RANGE_RETRIEVE, 0, Status.DAMAGED, 0)] * 2
    one = parts(0, SIZE, *ranges)
    one.version = [2, 2]
    plane = data_plane(backend.worker_setting())
    plane._index[0, 2] = plane._index[0, 1]
    # The versions differ in the last block only.
    assert [row[2] for row in outcomes(record_of_sessions(plane, one))] == [Status.OK, Status.DAMAGED]


def test_range_beyond_object_end_is_refused_and_next_succeeds(server: Server) -> None:
    record = perform(with_objects(server, 1), parts(0, SIZE, (SIZE - 10, 20), (5, 10)))
    refused = TSM_ERROR + Code.ABORT_INVALID_LENGTH
    assert outcomes(record) == [(RANGE_RETRIEVE, 0, refused, 0), (RANGE_RETRIEVE, 0, Status.OK, 10)]


def test_head_with_wrong_object_size_is_damaged(server: Server) -> None:
    backend = with_objects(server, 2)
    perform(backend, archives(5, size_bytes=100))
    wanted = Batch([HEAD] * 4, [0, 1, 5, 9], [SIZE, SIZE + 1, 100, SIZE])
    record = perform(backend, wanted)
    assert outcomes(record) == [
        (HEAD, 0, Status.OK, 0), (HEAD, 1, Status.DAMAGED, 0), (HEAD, 5, Status.OK, 0), (HEAD, 9, NO_MATCH, 0),
    ]  # fmt: skip
    assert record.errors[HEAD, "damaged"].message == "the server reports 8,192 bytes, not 8,193"
    rows = of(HEAD, rows_of(record))
    assert all(row.due_ns <= row.sent_ns < row.first_byte_ns <= row.done_ns for row in rows)


# Objects archived in the same phase.


def two_clients(plane: TsmDataPlane, first: Batch, second: Batch) -> tuple[Recorder, Recorder]:
    """Run a session of one client, and then, in the same phase, one of another client."""
    records = Recorder(1000), Recorder(1000)

    async def work() -> None:
        for client, (its, record) in enumerate(zip((first, second), records, strict=True)):
            session = plane.session(client)
            assert await session.open(record, 1)
            await session.perform(its, record)
            await session.close(record)
        await plane.end_phase()

    uvloop.run(work())
    return records


def test_client_retrieves_archives_of_another_client_in_same_phase(server: Server) -> None:
    backend = with_objects(server, 1)
    plane = data_plane(backend.worker_setting(), reads=(0,), clients=(0, 1))
    wrote = Batch([ARCHIVE, NEW_VERSION], [1, 0], [SIZE] * 2, version=[1, 2])
    reads = Batch([RETRIEVE] * 3, [1, 0, 1], [SIZE] * 3, version=[1, 2, 1])
    for record in two_clients(plane, wrote, reads):
        assert record.errors == {}
    later = data_plane(backend.worker_setting(), reads=(0, 1))
    asked = watched(later, "dsmBeginQuery")
    assert record_of_sessions(later, reads).errors == {}
    assert asked == []  # The worker knows them from the previous phase.


def test_id_is_queried_once_and_the_query_is_not_measured(server: Server) -> None:
    backend = with_objects(server, 2)
    plane = data_plane(backend.worker_setting())
    plane._index.clear()
    asked = watched(plane, "dsmBeginQuery")
    record = record_of_sessions(plane, retrieves(0, 1, 0, 1), Batch([HOLD, DELETE], [0, 1], [SIZE] * 2))
    assert record.errors == {}
    assert len(asked) == 2
    assert of(RETRIEVE, rows_of(record))[0].due_ns > asked[-1]


@pytest.mark.parametrize("operation", [RETRIEVE, HOLD, DELETE])
def test_a_connection_lost_while_an_id_is_looked_up_ends_the_session(server: Server, operation: Operation) -> None:
    plane = data_plane(with_objects(server, 3).worker_setting(), reads=(0,))
    del plane._index[1, 1], plane._index[2, 1]
    plane._library.functions.dsmBeginQuery = lambda *_: Code.TCPIP_FAILURE
    record = record_of_sessions(plane, batch(operation, 0, 1, 2))
    assert outcomes(record) == [(operation, 1, Status.CONNECTION_LOST, 0)]


def test_stopping_phase_queries_no_ids(server: Server) -> None:
    plane = data_plane(with_objects(server, 1).worker_setting())
    plane._index.clear()
    asked = watched(plane, "dsmBeginQuery")
    plane._stopping.set()
    assert outcomes(record_of_sessions(plane, retrieves(0))) == []
    assert asked == []


# Mixed batches.


def test_one_batch_may_mix_all_operations(server: Server) -> None:
    backend = with_objects(server, 6)
    steps = [
        (RETRIEVE, 0, 1), (ARCHIVE, 10, 1), (ARCHIVE, 11, 1), (RETRIEVE, 10, 1), (DELETE, 1, 1), (RETRIEVE, 2, 1),
        (NEW_VERSION, 3, 2), (ARCHIVE, 12, 1), (RETRIEVE, 3, 2), (RANGE_RETRIEVE, 3, 2), (HEAD, 3, 2), (QUERY, 4, 1),
        (HOLD, 4, 1), (REFUSED_DELETE, 4, 1), (RELEASE, 4, 1), (DELETE, 4, 1), (DELETE, 5, 1),
    ]  # fmt: skip
    operations, numbers, content_versions = zip(*steps, strict=True)
    mixed = Batch(
        operations, numbers, [SIZE] * len(steps), due_ns=7, version=content_versions, range=[(100, 200)] * len(steps)
    )
    plane = data_plane(backend.worker_setting(), reads=tuple(range(6)))
    record = record_of_sessions(plane, mixed)
    assert record.errors == {}
    good = {RETRIEVE: SIZE, ARCHIVE: SIZE, NEW_VERSION: SIZE, RANGE_RETRIEVE: 200}
    assert outcomes(record) == [
        (operation, number, Status.OK, good.get(operation, 0)) for operation, number, _ in steps
    ]
    # Each transaction has one kind of operation. A new version is sent like any object.
    assert [row.bytes for row in of(TRANSACTION, rows_of(record))] == [2 * SIZE, 0, 2 * SIZE, 0, 0, 0, 0]
    assert on_server(backend) == [(0, 1), (2, 1), (3, 1), (3, 2), (10, 1), (11, 1), (12, 1)]
    rows = [row for row in rows_of(record) if row.operation >= ARCHIVE]
    assert rows[0].due_ns == 7  # the scheduled time; each later object is due when the previous one is done
    assert all(later.due_ns > earlier.sent_ns for earlier, later in itertools.pairwise(rows))
    assert set(operations) <= set(backend.capabilities.operations)


def test_a_refused_deletion_fails_alone(server: Server) -> None:
    backend = with_objects(server, 3, LOCKED)
    mixed = Batch(
        [RETRIEVE, DELETE, ARCHIVE, NEW_VERSION, RETRIEVE], [0, 1, 3, 2, 1], [SIZE] * 5, version=[1, 1, 1, 2, 1]
    )
    record = perform(backend, mixed, reads=(0, 1, 2))
    refused = TSM_ERROR + Code.ABORT_DELETE_NOT_ALLOWED
    assert [row[2] for row in outcomes(record)] == [0, refused, 0, 0, 0]
    assert [row.status for row in of(TRANSACTION, rows_of(record))] == [refused, 0]  # archives share a transaction
    assert [(error.operation, error.count) for error in record.errors.values()] == [("delete", 1)]
    assert on_server(backend) == [(0, 1), (1, 1), (2, 1), (2, 2), (3, 1)]


@pytest.mark.parametrize("operation", [ARCHIVE, NEW_VERSION, RETRIEVE, RANGE_RETRIEVE, HEAD, QUERY, DELETE])
def test_first_object_of_batch_is_due_at_scheduled_time(server: Server, operation: Operation) -> None:
    backend = with_objects(server, 4)
    mixed = batch(operation, 1, 2)
    mixed.due_ns, mixed.version, mixed.range = 5, [2, 2] if operation is NEW_VERSION else None, [(0, 10)] * 2
    first, second = of(operation, rows_of(perform(backend, mixed, reads=(1, 2))))
    assert first.due_ns == 5
    assert second.due_ns >= first.sent_ns


def test_cleanup_removes_all_archives_of_a_name(server: Server) -> None:
    backend, location = server.prepared(f"run-mixed-{next(_runs)}", management_class=EXPIRED)
    archived(backend, *range(5))
    perform(backend, versions(NEW_VERSION, (0, 2), (1, 2)), versions(NEW_VERSION, (0, 3)), batch(DELETE, 0, 4))
    report = server.backend().remove(location, range(10), bypass_governance=False, release_holds=False)
    assert (report.objects_removed, report.objects_left, report.bucket_removed) == (6, 0, True)
    assert report.bytes_removed == 6 * SIZE
