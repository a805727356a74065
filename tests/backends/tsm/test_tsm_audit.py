"""Audits against a real store: only objects that exist, are intact and are locked as requested pass."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archiver.values.content import Content
from archiver.values.record import TSM_ERROR, Operation, Recorder, Status
from archiver.values.retention import Retention, RetentionMode
from backends.base import CloserLook, ExpectedLock, VersionedBackend
from backends.embedded import process
from backends.tsm import TsmBackend
from backends.tsm.library.api import ArchivedObject
from backends.tsm.library.codes import Code
from backends.tsm.lock import DAY_SECONDS, LockRule
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
    rows_of,
)

AUDIT, OPEN, CLOSE = Operation.AUDIT, Operation.OPEN, Operation.CLOSE
OTHER_CONTENT = Content("another-run", 8, 1 << 20)
STANDARD = Retention(RetentionMode.CLASS, 300.0, management_class="STANDARD")
HELD = Retention(RetentionMode.CLASS, 300.0, legal_hold=True, management_class="STANDARD")
_runs = itertools.count()


@pytest.fixture(scope="module")
def server(shim: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with process.start(tmp_path_factory.mktemp("tsm") / "store") as store, reached(store, shim) as server:
        yield server


def prepared(server: Server, management_class: str = "STANDARD") -> TsmBackend:
    return server.prepared(f"run-audit-{next(_runs)}", management_class=management_class)[0]


def locked(backend: TsmBackend, first: int, last: int, retention: Retention = STANDARD, **dates: float) -> ExpectedLock:
    """The expected lock of objects archived now. ``dates``: seconds from now to its earliest and its latest end."""
    now = backend.server_now
    between = {"earliest": 240.0, "latest": 360.0, **dates}
    return ExpectedLock(first, last, retention, now + between["earliest"], now + between["latest"])


def audit(backend: TsmBackend, *numbers: int, expected: list[ExpectedLock], verify: str = "all") -> Recorder:
    plane = data_plane(backend.worker_setting(), reads=numbers, expected=expected, verify=verify)
    return record_of_sessions(plane, batch(AUDIT, *numbers))


def statuses(record: Recorder) -> dict[int, int]:
    return {row.number: row.status for row in of(AUDIT, rows_of(record))}


def act(backend: TsmBackend, operation: Operation, *numbers: int) -> None:
    """Perform an operation on objects without the auditor's knowledge."""
    record = record_of_sessions(data_plane(backend.worker_setting(), reads=numbers), batch(operation, *numbers))
    assert record.errors == {}


def test_intact_locked_objects_pass_audit(server: Server) -> None:
    backend = prepared(server)
    archived(backend, *range(5))
    record = audit(backend, 3, 1, 4, 0, 2, expected=[locked(backend, 0, 4)])
    rows = rows_of(record)
    assert record.errors == {}
    assert [row.operation for row in rows] == [OPEN, *[AUDIT] * 5, CLOSE]
    assert [row.number for row in of(AUDIT, rows)] == [0, 1, 2, 3, 4]  # in restore order
    assert {(row.status, row.bytes) for row in of(AUDIT, rows)} == {(Status.OK, SIZE)}
    assert all(row.due_ns <= row.sent_ns < row.first_byte_ns < row.done_ns for row in of(AUDIT, rows))


@pytest.mark.parametrize("verify", ["all", "sample", "none"])
def test_audit_compares_every_byte_in_each_verify_mode(server: Server, verify: str) -> None:
    backend = prepared(server)
    plane = data_plane(backend.worker_setting(), content=OTHER_CONTENT)
    assert record_of_sessions(plane, archives(1)).errors == {}
    archived(backend, 2)
    record = audit(backend, 1, 2, expected=[locked(backend, 1, 2)], verify=verify)
    assert statuses(record) == {1: Status.DAMAGED, 2: Status.OK}
    (error,) = record.errors.values()
    assert (error.operation, error.reason, error.count) == ("audit", "damaged", 1)
    assert error.object_name.endswith("/000000000001")


def test_audit_reports_missing_object_known_or_not(server: Server) -> None:
    backend = prepared(server, "NONE")
    archived(backend, 1, 2)
    none = Retention(RetentionMode.CLASS, 0.0, management_class="NONE")
    plane = data_plane(
        backend.worker_setting(), reads=(1, 2, 3), expected=[locked(backend, 1, 3, none, earliest=-9.0, latest=9.0)]
    )
    act(backend, Operation.DELETE, 1)  # after the auditor has seen it
    found = statuses(record_of_sessions(plane, batch(AUDIT, 1, 2, 3)))
    no_match = TSM_ERROR + Code.ABORT_NO_MATCH
    assert found == {1: no_match, 2: Status.OK, 3: no_match}


def test_audit_reports_missing_hold_but_not_extra_hold(server: Server) -> None:
    backend = prepared(server)
    archived(backend, 1, 2)
    act(backend, Operation.HOLD, 2)
    record = audit(backend, 1, 2, expected=[locked(backend, 1, 2, HELD)])
    assert statuses(record) == {1: Status.UNLOCKED, 2: Status.OK}
    (error,) = record.errors.values()
    assert (error.reason, error.message) == ("unlocked", "the requested hold is missing")
    record = audit(backend, 1, 2, expected=[locked(backend, 1, 2)])
    assert statuses(record) == {1: Status.OK, 2: Status.OK}  # a hold that was placed later is no problem


@pytest.mark.parametrize(
    ("dates", "status", "reason"),
    [
        ({"earliest": 400.0, "latest": 500.0}, Status.WEAKER, "weaker"),
        ({"earliest": 100.0, "latest": 200.0}, Status.LONGER, "longer"),
    ],
)
def test_audit_reports_retain_until_date_out_of_range(
    server: Server, dates: dict[str, Any], status: Status, reason: str
) -> None:
    backend = prepared(server)
    archived(backend, 1)
    record = audit(backend, 1, expected=[locked(backend, 1, 1, **dates)])
    (row,) = of(AUDIT, rows_of(record))
    assert (row.status, row.bytes) == (status, 0)
    assert [error.reason for error in record.errors.values()] == [reason]


def test_audit_reports_damage_before_wrong_lock(server: Server) -> None:
    backend = prepared(server)
    assert record_of_sessions(data_plane(backend.worker_setting(), content=OTHER_CONTENT), archives(1)).errors == {}
    assert statuses(audit(backend, 1, expected=[locked(backend, 1, 1, HELD)])) == {1: Status.DAMAGED}


def test_every_object_is_compared_with_its_own_expected_lock(server: Server) -> None:
    backend = prepared(server)
    archived(backend, *range(10))
    late: dict[str, Any] = {"earliest": 400.0, "latest": 500.0}
    expected = [
        locked(backend, 0, 2),
        locked(backend, 4, 4, **late),
        locked(backend, 6, 7),
        locked(backend, 8, 9, HELD),
    ]
    wrong = {
        number: status for number, status in statuses(audit(backend, *range(10), expected=expected)).items() if status
    }
    assert wrong == {4: Status.WEAKER, 8: Status.UNLOCKED, 9: Status.UNLOCKED}


def test_audit_after_deletion_of_first_archive_reports_later_one_damaged(server: Server) -> None:
    backend = prepared(server, "NONE")
    archived(backend, 1)
    other = data_plane(backend.worker_setting(), content=OTHER_CONTENT)
    assert record_of_sessions(other, archives(1)).errors == {}
    assert statuses(audit(backend, 1, expected=[])) == {1: Status.OK}
    act(backend, Operation.DELETE, 1)  # which is the first
    assert statuses(audit(backend, 1, expected=[])) == {1: Status.DAMAGED}


def test_audit_without_known_ids_finds_the_same(server: Server) -> None:
    backend = prepared(server)
    archived(backend, 1, 2)
    other = data_plane(backend.worker_setting(), expected=[locked(backend, 1, 3)])
    other._index.clear()
    assert statuses(record_of_sessions(other, batch(AUDIT, 3, 1, 2))) == {1: 0, 2: 0, 3: TSM_ERROR + 2}


def test_audit_time_includes_query(server: Server) -> None:
    backend = prepared(server)
    archived(backend, 1)
    plane = data_plane(backend.worker_setting(), reads=(1,))
    functions = plane._library.functions
    begin, began_ns = functions.dsmBeginQuery, list[int]()

    def note(*arguments: object) -> int:
        began_ns.append(time.monotonic_ns())
        return int(begin(*arguments))

    functions.dsmBeginQuery = note
    (row,) = of(AUDIT, rows_of(record_of_sessions(plane, batch(AUDIT, 1))))
    assert row.sent_ns <= began_ns[0] < row.first_byte_ns


# A closer look, by the coordinator.


def test_closer_look_describes_every_archive_of_a_name(server: Server) -> None:
    backend = prepared(server)
    assert isinstance(backend, VersionedBackend)
    expected = locked(backend, 1, 1)
    assert backend.look_closer(1, SIZE, CONTENT, expected) == CloserLook("the server has no object of that name")
    archived(backend, 1)
    other = data_plane(backend.worker_setting(), content=OTHER_CONTENT)
    assert record_of_sessions(other, archives(1)).errors == {}
    first, second = backend.look_closer(1, SIZE, CONTENT, expected).words.split(". ")
    assert first.endswith(": intact; kept as requested")
    assert second.endswith(": the bytes are not those that were archived; kept as requested")
    held = locked(backend, 1, 1, HELD)
    assert "intact; the requested hold is missing" in backend.look_closer(1, SIZE, CONTENT, held).words
    assert backend.unseen_locks(1) is None


def test_present_lists_archived_objects_in_number_range(server: Server) -> None:
    backend = prepared(server)
    archived(backend, 3, 998, 999, 1000, 2001, 2002)
    assert list(backend.present(0, 5000)) == [3, 998, 999, 1000, 2001, 2002]
    assert list(backend.present(998, 2001)) == [998, 999, 1000, 2001]
    assert list(backend.present(2003, 9000)) == []
    assert backend.object_name(998).endswith("/000000/000000000998")


# The rule for reading a lock.

NOW = 1_800_000_000


def kept(expires: int | None = NOW + 300, *, held: bool = False, by: str = "STANDARD") -> ArchivedObject:
    return ArchivedObject(b"/run", b"/1", 1, 1, SIZE, by, NOW, expires, held)


@pytest.mark.parametrize(
    ("found", "asked", "status"),
    [
        (kept(), STANDARD, None),
        (kept(held=True), HELD, None),
        (kept(), HELD, Status.UNLOCKED),
        (kept(held=True), STANDARD, None),
        (kept(None), STANDARD, Status.LONGER),
        (kept(NOW + 299), STANDARD, Status.WEAKER),
        (kept(NOW + 311), STANDARD, Status.LONGER),
        (kept(by="SHORT"), STANDARD, Status.WEAKER),  # another class decides from now on
        (kept(NOW + 10, by="SHORT"), STANDARD, Status.WEAKER),
        (kept(NOW + DAY_SECONDS, by="LONG"), STANDARD, Status.LONGER),
        (kept(NOW + 10, held=True), STANDARD, Status.WEAKER),  # a hold can be released
        (kept(by="SHORT"), Retention(RetentionMode.CLASS), None),  # no class was requested
    ],
)
def test_lock_rule_reports_unlocked_weaker_or_longer_lock(
    found: ArchivedObject, asked: Retention, status: Status | None
) -> None:
    rule = LockRule(0, frozenset({"STANDARD", "SHORT", "LONG"}))
    problem = rule.problem(found, asked, NOW + 300, NOW + 310)
    assert (problem.status if problem else None) is status


@pytest.mark.parametrize(
    ("expires", "status"),
    [
        (NOW + 1, Status.WEAKER),
        (NOW + DAY_SECONDS - 3601, Status.WEAKER),
        (NOW + DAY_SECONDS - 3600, None),  # summer time may begin or end before
        (NOW + DAY_SECONDS + 3600, None),
        (NOW + DAY_SECONDS + 3601, Status.LONGER),
    ],
)
@pytest.mark.parametrize("zone_seconds", [0, -18_000, 19_800])
def test_lock_dates_are_local_and_compared_to_the_hour(expires: int, status: Status | None, zone_seconds: int) -> None:
    problem = LockRule(zone_seconds).problem(
        kept(expires + zone_seconds), STANDARD, NOW + DAY_SECONDS, NOW + DAY_SECONDS
    )
    assert (problem.status if problem else None) is status
