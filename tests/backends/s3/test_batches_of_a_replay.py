"""Sessions of a replayed trace: several batches in one session, objects with the content of others, versions created in
the same phase, and copies from another bucket.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archiver.values.content import Checksum
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, Lock, Retention
from backends.base import Batch, ExpectedLock, PhaseSetting
from backends.s3 import data_plane
from backends.s3.data_plane import S3DataPlane
from tests.backends.s3.s3_sessions import CONTENT, RETENTION, SIZE, Row, archives, in_loop, rows_of, worker_setting
from tests.backends.s3.scripted_answers import NOT_FOUND, OK, content_reply, errors_of
from tests.support.servers import real
from tests.support.servers.scripted import ScriptedServer, close, read, replies, send, serve

Scripted = Callable[..., ScriptedServer]
ARCHIVE, RETRIEVE, COPY, DELETE, REFUSED_DELETE, NEW_VERSION, AUDIT, RANGE_RETRIEVE = (
    Operation.ARCHIVE, Operation.RETRIEVE, Operation.COPY, Operation.DELETE, Operation.REFUSED_DELETE,
    Operation.NEW_VERSION, Operation.AUDIT, Operation.RANGE_RETRIEVE,
)  # fmt: skip
PART = 5 << 20


def plane_for(
    url: str,
    *operations: Operation,
    deletes: Sequence[int] = (),
    sizes: Sequence[int] = (SIZE,),
    verify: str = "all",
    expected: Sequence[ExpectedLock] = (),
    **changes: Any,
) -> S3DataPlane:
    setting = worker_setting(url, **changes)
    plane = S3DataPlane(setting)
    content = CONTENT.reaching(max(sizes))
    plane.set_phase(
        PhaseSetting(
            content, {None: DateMaker(setting.retention, 4e9)}, verify, tuple(sizes),
            deletes=[np.array(deletes, dtype=np.int64)], operations=frozenset(operations), expected=expected,
            checksums=frozenset((None, *Checksum)),
        )
    )  # fmt: skip
    return plane


def one(operation: Operation, number: int, size_bytes: int = SIZE, **changes: Any) -> Batch:
    return Batch((operation,), (number,), (size_bytes,), **changes)


def in_one_session(plane: S3DataPlane, *batches: Batch, pauses: float = 0.0) -> tuple[Recorder, list[bool]]:
    """Perform these batches in one session.

    Returns the rows, and whether the session was open before each batch and after the last.
    """
    record = Recorder(300)
    was_open: list[bool] = []

    async def work() -> None:
        session = plane.session(0)
        assert not session.is_open
        assert await session.open(record, 1)
        for batch in batches:
            await asyncio.sleep(pauses)
            was_open.append(session.is_open)
            await session.perform(batch, record)
        was_open.append(session.is_open)
        await session.close(record)
        assert not session.is_open
        await plane.end_phase()

    in_loop(work)
    return record, was_open


def objects_of(record: Recorder) -> list[Row]:
    return [row for row in rows_of(record) if row.operation >= Operation.LOCK]


def statuses_of(record: Recorder) -> list[tuple[int, int]]:
    return [(row.number, row.status) for row in objects_of(record)]


# ---- one session, several batches


def test_session_performs_batches_in_turn_with_their_due_times(scripted: Scripted) -> None:
    server = scripted([serve(lambda request: content_reply(int(request.target[-12:])))])
    plane = plane_for(server.url, RETRIEVE)
    record, was_open = in_one_session(plane, *(one(RETRIEVE, number, due_ns=1000 + number) for number in range(1, 6)))
    rows = objects_of(record)
    assert [(row.number, row.status, row.due_ns) for row in rows] == [(n, 0, 1000 + n) for n in range(1, 6)]
    assert was_open == [True] * 6
    assert server.connections == 1


@pytest.mark.parametrize("says_so", [True, False])
def test_connection_closed_between_batches_fails_the_next_with_a_row(scripted: Scripted, says_so: bool) -> None:
    headers = (b"Connection: close",) if says_so else ()
    server = scripted([read, send(content_reply(1, *headers)), close])
    plane = plane_for(server.url, RETRIEVE, on_close="stop")
    batches = (one(RETRIEVE, 1), one(RETRIEVE, 2), one(RETRIEVE, 3))
    record, was_open = in_one_session(plane, *batches, pauses=0.05)
    assert statuses_of(record) == [(1, 0), (2, Status.CONNECTION_LOST), (3, Status.CONNECTION_LOST)]
    assert was_open == [True, False, False, False]
    assert errors_of(record) == [("retrieve", "connection lost", 2)]
    assert len(server.requests) == 1


def test_connection_lost_during_a_request_fails_object_and_ends_session(scripted: Scripted) -> None:
    server = scripted([*replies(content_reply(1)), read, close])
    record, was_open = in_one_session(plane_for(server.url, RETRIEVE), one(RETRIEVE, 1), one(RETRIEVE, 2))
    assert statuses_of(record) == [(1, 0), (2, Status.CONNECTION_LOST)]
    assert was_open == [True, True, False]


def test_refusal_keeps_the_session_open(scripted: Scripted) -> None:
    server = scripted(replies(NOT_FOUND, content_reply(2)))
    record, was_open = in_one_session(plane_for(server.url, RETRIEVE), one(RETRIEVE, 1), one(RETRIEVE, 2))
    assert statuses_of(record) == [(1, 404), (2, 0)]
    assert was_open == [True, True, True]


# ---- expected content


@pytest.mark.parametrize("operation", [RETRIEVE, RANGE_RETRIEVE])
def test_copy_is_compared_with_the_content_of_its_source(scripted: Scripted, operation: Operation) -> None:
    part = (SIZE - 100, 100)
    body = CONTENT.whole(7, SIZE, 3)
    answer = content_reply(7, body=body)
    if operation is RANGE_RETRIEVE:
        body = body[part[0] : sum(part)]
        span = b"bytes %d-%d/%d" % (part[0], SIZE - 1, SIZE)
        answer = b"HTTP/1.1 206 Partial\r\nContent-Range: %b\r\nContent-Length: %d\r\n\r\n%b" % (span, len(body), body)
    server = scripted(replies(answer, answer, answer))
    own: dict[str, Any] = {"range": [part]} if operation is RANGE_RETRIEVE else {}
    batches = [
        one(operation, 9, version=[3], content=[7], **own),
        one(operation, 9, version=[3], **own),
        one(operation, 9, content=[7], **own),
    ]
    record, _ = in_one_session(plane_for(server.url, operation), *batches)
    assert [row.status for row in objects_of(record)] == [0, Status.DAMAGED, Status.DAMAGED]


def test_audit_compares_every_byte_even_with_verify_none(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda _: content_reply(7))])
    expected = [ExpectedLock(0, 100, Retention().locked_by(Lock.NONE), None, None)]
    plane = plane_for(server.url, AUDIT, verify="none", expected=expected)
    record, _ = in_one_session(plane, one(AUDIT, 9, content=[7]), one(AUDIT, 9), one(RETRIEVE, 9))
    assert [row.status for row in objects_of(record)] == [0, Status.DAMAGED, 0]


# ---- versions created in the same phase


VERSIONED = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nETag: e\r\nx-amz-version-id: v/%d\r\n\r\n"
DELETED = b"HTTP/1.1 204 No Content\r\n\r\n"


def test_deletions_name_the_versions_of_archive_answers_newest_first(scripted: Scripted) -> None:
    server = scripted(replies(*(VERSIONED % version for version in (1, 2, 3)), DELETED, DELETED, DELETED))
    plane = plane_for(server.url, ARCHIVE, NEW_VERSION, DELETE)
    unlocked = Batch(
        [ARCHIVE, NEW_VERSION, NEW_VERSION, *[DELETE] * 4], [5] * 7, [SIZE] * 7, lock=Lock.NONE,
        version=[1, 2, 3, 1, 1, 1, 1],
    )  # fmt: skip
    record, _ = in_one_session(plane, unlocked)
    assert [row.status for row in objects_of(record)] == [0, 0, 0, 0, 0, 0, Status.INCOMPLETE]
    assert [request.target for request in server.requests[3:]] == [
        f"/bucket-1/run/000000000005?versionId=v%2F{version}" for version in (3, 2, 1)
    ]


def test_refused_delete_names_the_first_version(scripted: Scripted) -> None:
    denied = b"<Error><Code>AccessDenied</Code></Error>"
    refused = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%b" % (len(denied), denied)
    server = scripted(replies(VERSIONED % 1, VERSIONED % 2, refused))
    plane = plane_for(server.url, ARCHIVE, NEW_VERSION, REFUSED_DELETE)
    record, _ = in_one_session(plane, Batch([ARCHIVE, NEW_VERSION, REFUSED_DELETE], [5] * 3, [SIZE] * 3))
    assert [row.status for row in objects_of(record)] == [0, 0, 0]
    assert server.requests[2].target.endswith("?versionId=v%2F1")


def test_a_deletion_that_fails_may_be_tried_again(scripted: Scripted) -> None:
    server = scripted(replies(VERSIONED % 1, NOT_FOUND, DELETED))
    plane = plane_for(server.url, ARCHIVE, DELETE)
    record, _ = in_one_session(plane, Batch([ARCHIVE, DELETE, DELETE], [5] * 3, [SIZE] * 3, lock=Lock.NONE))
    assert [row.status for row in objects_of(record)] == [0, 404, 0]


def test_locked_versions_are_remembered_only_for_refused_deletes(scripted: Scripted) -> None:
    server = scripted(then=[serve(lambda _: VERSIONED % 1)])
    for operations, known in (((ARCHIVE, DELETE), 0), ((ARCHIVE, REFUSED_DELETE), 1), ((ARCHIVE,), 0)):
        plane = plane_for(server.url, *operations)
        in_one_session(plane, archives(5))
        assert len(plane._versions) == known


# ---- more sizes than checksums are kept for


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("checksum", ["crc32c", "md5"])
def test_requests_are_identical_with_and_without_kept_checksums(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch, checksum: str, signs: bool
) -> None:
    server = scripted(then=[serve(lambda _: OK)])
    sizes = [1, 40, 64, 65, 5000, SIZE]
    monkeypatch.setattr(data_plane, "now_seconds", lambda: 1_790_000_000.0)
    sent: list[list[tuple[str, bytes]]] = []
    for most in (len(sizes), len(sizes) - 1):
        monkeypatch.setattr(data_plane, "CHECKSUM_SIZES_MAX", most)
        plane = plane_for(server.url, ARCHIVE, sizes=sizes, checksum=checksum, payload_signing=signs)
        before = len(server.requests)
        record, _ = in_one_session(plane, Batch([ARCHIVE] * len(sizes), range(70, 70 + len(sizes)), sizes))
        assert record.errors == {}
        sent.append([(request.head.decode(), request.body) for request in server.requests[before:]])
        assert bool(plane._checksums) == (most == len(sizes))  # not kept for too many sizes
    assert sent[0] == sent[1]
    assert len(sent[0]) == len(sizes)


# ---- real stores


def bucket_of(client: Any, name: str) -> str:
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


@contextmanager
def two_buckets(client: Any) -> Iterator[tuple[str, str]]:
    stamp = time.time_ns()
    names = bucket_of(client, f"from-{stamp}"), bucket_of(client, f"to-{stamp}")
    try:
        yield names
    finally:
        for name in names:
            for row in client.list_object_versions(Bucket=name).get("Versions", []):
                key = {"Bucket": name, "Key": row["Key"], "VersionId": row["VersionId"]}
                client.put_object_legal_hold(**key, LegalHold={"Status": "OFF"})
                client.delete_object(**key, BypassGovernanceRetention=True)
            client.delete_bucket(Bucket=name)


def go_through_a_replay(client: Any, url: str, access_key: str, secret_key: str) -> None:
    """Check that copies across buckets are locked and whole, and that versions of the same phase can be deleted."""
    with two_buckets(client) as (source, target):
        keys: dict[str, Any] = {"access_key": access_key, "secret_key": secret_key, "retention": RETENTION}
        there = plane_for(url, ARCHIVE, bucket=source, prefix="old/", **keys)
        record, _ = in_one_session(there, archives(1, 2))
        assert record.errors == {}
        now = time.time()
        held = RETENTION.locked_by(Lock.HEADER_AND_HOLD)
        expected = [ExpectedLock(11, 11, RETENTION, now + 250, 4e9), ExpectedLock(12, 12, held, now + 250, 4e9)]
        here = plane_for(
            url, COPY, AUDIT, expected=expected, bucket=target, prefix="new/", source_bucket=source,
            source_prefix="old/", **keys,
        )  # fmt: skip
        record, _ = in_one_session(
            here, one(COPY, 11, source=[1]), one(COPY, 12, source=[2], lock=Lock.HEADER_AND_HOLD),
            one(AUDIT, 11, content=[1]), one(AUDIT, 12, content=[2]),
        )  # fmt: skip
        assert record.errors == {}
        assert [row.status for row in objects_of(record)] == [0] * 4
        head = client.head_object(Bucket=target, Key="new/000000000012")
        assert (head["ObjectLockMode"], head["ObjectLockLegalHoldStatus"]) == ("GOVERNANCE", "ON")
        wrong, _ = in_one_session(here, one(AUDIT, 11), one(AUDIT, 11, content=[2]), one(AUDIT, 12, content=[2]))
        assert [row.status for row in objects_of(wrong)] == [Status.DAMAGED, Status.DAMAGED, 0]

        large = 2 * PART + 1000
        made = plane_for(url, ARCHIVE, NEW_VERSION, COPY, DELETE, sizes=(SIZE, large), bucket=source, **keys)
        unlocked = Lock.NONE
        record, _ = in_one_session(
            made,
            one(ARCHIVE, 1, lock=unlocked), one(NEW_VERSION, 1, lock=unlocked, version=[2]),
            one(COPY, 2, source=[1], lock=unlocked), one(RETRIEVE, 2, content=[1], version=[2]),
            one(ARCHIVE, 3, large, lock=unlocked, part_bytes=PART),
            *(one(DELETE, number, lock=unlocked) for number in (1, 1, 2, 3)),
        )  # fmt: skip
        assert record.errors == {}
        listed = client.list_object_versions(Bucket=source, Prefix="run/")
        assert listed.get("Versions", []) == []
        assert listed.get("DeleteMarkers", []) == []


def test_embedded_store_performs_the_operations_of_a_replay(store: Any, s3: Any) -> None:
    go_through_a_replay(s3, store.endpoint, store.access_key, store.secret_key)


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_real_platform_performs_the_operations_of_a_replay(tmp_path: Path, name: str) -> None:
    with real.real_server(name, tmp_path) as server:
        access = server.access
        go_through_a_replay(real.client_of(server), server.endpoint, access.access_key, access.secret_key)
