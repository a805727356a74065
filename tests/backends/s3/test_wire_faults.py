"""S3 sessions over a faulty connection: the recorded reasons, the counts, and the objects that the store has.

A real store is behind the proxy, so the objects that the client counts as archived can be compared with the store's.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from archiver.values.content import Content
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, Retention
from backends.base import Batch, PhaseSetting, RunPlan
from backends.embedded import process as embedded
from backends.s3 import S3Backend, S3Options
from backends.s3.control import Credentials
from backends.s3.data_plane import S3DataPlane
from backends.s3.wire.session import UNLIKE_IDS_MIN
from tests.backends.s3.s3_sessions import in_loop, one_session, record_of_sessions, rows_of
from tests.support.servers import fault_proxy as wire
from tests.support.servers.fault_proxy import (
    Fault,
    FaultProxy,
    Message,
    Nth,
    all_but_the_last_byte,
    asks_for,
    half_the_body,
    half_the_head,
    nothing_of,
)

SIZE = 8192
GOOD = UNLIKE_IDS_MIN + 1  # objects before the fault
OBJECTS = GOOD + 3
LATE = 3.0  # seconds; the read timeout of tests in which the answer is missing or too slow
PATIENT = 60.0
CONTENT = Content("wire-faults", 7, 4 << 20)
ARCHIVE, RETRIEVE, HEAD = Operation.ARCHIVE, Operation.RETRIEVE, Operation.HEAD
METHOD = {ARCHIVE: "PUT", RETRIEVE: "GET", HEAD: "HEAD"}
ALL = (ARCHIVE, RETRIEVE, HEAD)


@dataclass(frozen=True, slots=True)
class Place:
    """A prefix in a bucket of the store, and the workers' way to it."""

    backend: S3Backend
    prefix: str

    def plane(self, proxy: FaultProxy, read_timeout_seconds: float, *, keep_sessions_open: bool = False) -> S3DataPlane:
        setting = replace(
            self.backend.worker_setting(),
            endpoints=(proxy.url,),
            prefix=self.prefix,
            read_timeout_seconds=read_timeout_seconds,
            keep_sessions_open=keep_sessions_open,
        )
        plane = S3DataPlane(setting)
        plane.set_phase(PhaseSetting(CONTENT, {None: DateMaker(setting.retention, time.time() + 7200)}, "all", (SIZE,)))
        return plane

    def held(self) -> int:
        """Return how many objects the store has."""
        bucket = self.backend.worker_setting().bucket
        return sum(1 for _ in self.backend._control.versions(bucket, self.prefix, "", f"{self.prefix}9"))

    @property
    def port(self) -> int:
        return int(self.backend.options.endpoints[0].rpartition(":")[2])


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Backend]:
    with embedded.start(tmp_path_factory.mktemp("faults") / "store") as store:
        keys = Credentials(store.access_key, store.secret_key, None)
        made = S3Backend(S3Options(endpoints=(store.endpoint,), credentials=keys, region="us-east-1"))
        made.locate(RunPlan("faults", Retention()))
        made.prepare()
        yield made


_numbers = itertools.count()


@pytest.fixture
def place(backend: S3Backend) -> Place:
    """A place for one test."""
    return Place(backend, f"test-{next(_numbers)}/")


@pytest.fixture(scope="module")
def filled(backend: S3Backend) -> Place:
    """A place with all objects, which tests only read."""
    found = Place(backend, "filled/")
    with FaultProxy(found.port) as proxy:
        record = record_of_sessions(found.plane(proxy, PATIENT), batch(ARCHIVE))
    assert record.errors == {}
    return found


def batch(operation: Operation, first: int = 0, objects: int = OBJECTS, size_bytes: int = SIZE) -> Batch:
    return Batch([operation] * objects, range(first, first + objects), [size_bytes] * objects)


def without_a_length(message: Message) -> bytes:
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def a_lie_that_agrees_with_itself(message: Message) -> bytes:
    """Change the body, and send another checksum and another ETag with it."""
    head, body = message.data[: message.head_bytes], bytearray(message.data[message.head_bytes :])
    body[100] ^= 0x80
    head = head.replace(b"ETag: ", b'ETag: "00000000000000000000000000000000"\r\nx-was: ')
    return head.replace(b"\r\n", b"\r\nx-amz-checksum-crc32c: AAAAAA==\r\n", 1) + body


def length_plus(count: int) -> Callable[[Message], bytes]:
    return wire.header(b"content-length", lambda value: b"%d" % (int(value) + count))


def digit_of_the_status(message: Message) -> int:
    return 9


def digit_of_the_version(message: Message) -> int:
    return 3


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CHUNK = b"10000\r\n" + bytes(0x10000) + b"\r\n"
OTHER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nx-amz-request-id: nobodys\r\n\r\n"
LOST, CUT, SILENT, SLOW = "connection lost", "truncated", "read timeout", "too slow"
ODD, DAMAGED, ANOTHERS = "protocol error", "damaged", "another's answer"
GOES_ON = (DAMAGED, "300")

# The fault of the answer, its recorded reason by operation, and whether the client must wait for a timeout.
FAULTS: dict[str, tuple[Fault, dict[Operation, str], bool]] = {
    "reset instead of an answer": (wire.reset(nothing_of), dict.fromkeys(ALL, LOST), False),
    "reset in the head": (wire.reset(half_the_head), dict.fromkeys(ALL, LOST), False),
    "reset in the body": (wire.reset(half_the_body), {RETRIEVE: LOST}, False),
    "end instead of an answer": (wire.truncate(nothing_of), dict.fromkeys(ALL, LOST), False),
    "end in the head": (wire.truncate(half_the_head), dict.fromkeys(ALL, CUT), False),
    "end in the body": (wire.truncate(half_the_body), {RETRIEVE: CUT}, False),
    "end before the last byte": (wire.truncate(all_but_the_last_byte), dict.fromkeys(ALL, CUT), False),
    "silence": (wire.silence(nothing_of), dict.fromkeys(ALL, SILENT), True),
    "silence in the head": (wire.silence(half_the_head), {RETRIEVE: SILENT}, True),
    "silence in the body": (wire.silence(half_the_body), {RETRIEVE: SILENT}, True),
    "a dripping head": (wire.drip(nothing_of, LATE / 10), dict.fromkeys(ALL, SLOW), True),
    "a dripping body": (wire.drip(half_the_body, LATE / 10), {RETRIEVE: SLOW}, True),
    "wrong bytes": (wire.flip(half_the_body), {RETRIEVE: DAMAGED}, False),
    "wrong bytes that agree with each other": (
        wire.changed(a_lie_that_agrees_with_itself), {RETRIEVE: DAMAGED}, False,
    ),
    "a wrong status": (wire.flip(digit_of_the_status), dict.fromkeys(ALL, "300"), False),
    "a wrong word in the head": (wire.flip(digit_of_the_version), dict.fromkeys(ALL, ODD), False),
    "garbage": (wire.changed(lambda _: b"\x00\xffgarbage\r\n\r\n" * 9), dict.fromkeys(ALL, ODD), False),
    "a length that is too short": (wire.changed(length_plus(-1)), {RETRIEVE: ODD, HEAD: DAMAGED}, False),
    "a length that is too long": (wire.changed(length_plus(1)), {RETRIEVE: SILENT}, True),
    "a length beyond everything": (
        wire.changed(length_plus(10**15)), {ARCHIVE: ODD, RETRIEVE: ODD, HEAD: DAMAGED}, False,
    ),
    "an answer twice at once": (wire.twice_at_once(), dict.fromkeys(ALL, ODD), False),
    "bytes that nobody asked for": (wire.followed_by(OTHER), dict.fromkeys(ALL, ODD), False),
    "100 Continue without end": (
        wire.without_end(CONTINUE, CONTINUE * 100), dict.fromkeys(ALL, ODD), False,
    ),
    "a body without end": (
        wire.without_end(without_a_length(Message(0, b"", 0)), CHUNK), {ARCHIVE: ODD, RETRIEVE: ODD}, False,
    ),
}  # fmt: skip
CASES = [(name, operation) for name, (_, reasons, _) in FAULTS.items() for operation in reasons]
# The quick tests play every fault once, and only one of each kind that waits for a timeout.
_IN_TURN = {(name, list(reasons)[at % len(reasons)]) for at, (name, (_, reasons, _)) in enumerate(FAULTS.items())}
QUICK = {("silence", ARCHIVE), ("a dripping body", RETRIEVE)} | {case for case in _IN_TURN if not FAULTS[case[0]][2]}


def quick(operation: Operation, at: int) -> list[pytest.MarkDecorator]:
    """Return no mark for one operation in turn, and the mark `long` for the others."""
    return [] if operation is ALL[at % len(ALL)] else [pytest.mark.long]


def play(place: Place, operation: Operation, read_timeout_seconds: float, **chosen: Any) -> Recorder:
    with FaultProxy(place.port, **chosen) as proxy:
        return record_of_sessions(place.plane(proxy, read_timeout_seconds), batch(operation))


def expect(record: Recorder, operation: Operation, reason: str) -> None:
    """Check that exactly one object failed, under its reason.

    The objects before it are good. Those after it are good if the answer was whole, and are not tried otherwise.
    """
    rows = [row for row in rows_of(record) if row.operation == operation]
    moved = 0 if operation is HEAD else SIZE
    assert [row.bytes for row in rows if row.status == Status.OK] == [moved] * (len(rows) - 1)
    assert [(row.number, row.bytes) for row in rows if row.status != Status.OK] == [(GOOD, 0)]
    assert len(rows) == (OBJECTS if reason in GOES_ON else GOOD + 1)
    (error,) = (error for error in record.errors.values() if error.operation == operation.label)
    assert (error.reason, error.count) == (reason, 1)
    assert error.message
    assert error.object_name.endswith(f"{GOOD:012d}")


@pytest.mark.parametrize(
    ("fault", "operation"),
    [
        pytest.param(
            name,
            operation,
            id=f"{name}-{operation.label}",
            marks=[] if (name, operation) in QUICK else [pytest.mark.long],
        )
        for name, operation in CASES
    ],
)
def test_answer_fault_is_counted_by_reason_and_excluded_from_throughput(
    place: Place, filled: Place, fault: str, operation: Operation
) -> None:
    what, reasons, waits = FAULTS[fault]
    used = place if operation is ARCHIVE else filled
    chosen = Nth(what, asks_for(METHOD[operation]), first=GOOD + 1)
    record = play(used, operation, LATE if waits else PATIENT, answers=chosen)
    assert chosen.played == 1
    expect(record, operation, reasons[operation])
    if operation is ARCHIVE:  # The store has the object, but its answer was lost.
        unknown = sum(error.outcomes_unknown for error in record.errors.values())
        assert unknown == 1
        assert used.held() == len([row for row in rows_of(record) if row.operation == ARCHIVE])


@pytest.mark.parametrize(
    ("fault", "reason", "operation"),
    [
        pytest.param(fault, reason, operation, id=f"{name}-{operation.label}", marks=marks or quick(operation, 0))
        for name, fault, reason, marks in (
            ("reset", wire.reset(nothing_of), LOST, []),
            ("end", wire.truncate(nothing_of), LOST, []),
            ("silence", wire.silence(nothing_of), SILENT, [pytest.mark.long]),
        )
        for operation in ALL
    ],
)
def test_lost_request_is_counted_and_leaves_archive_outcome_unknown(
    place: Place, filled: Place, operation: Operation, fault: Fault, reason: str
) -> None:
    used = place if operation is ARCHIVE else filled
    chosen = Nth(fault, asks_for(METHOD[operation]), first=GOOD + 1)
    record = play(used, operation, LATE if reason == SILENT else PATIENT, asks=chosen)
    expect(record, operation, reason)
    if operation is ARCHIVE:
        assert used.held() == GOOD
        assert sum(error.outcomes_unknown for error in record.errors.values()) == 1


@pytest.mark.parametrize("operation", ALL, ids=lambda operation: operation.label)
def test_duplicate_answer_is_not_accepted_for_later_requests(place: Place, filled: Place, operation: Operation) -> None:
    """After the duplicate, every answer is that of the previous request, and every one has status 200."""
    used = place if operation is ARCHIVE else filled
    record = play(used, operation, PATIENT, answers=wire.Shifted(asks_for(METHOD[operation]), first=GOOD))
    expect(record, operation, ANOTHERS)
    if operation is ARCHIVE:
        assert used.held() == GOOD + sum(error.outcomes_unknown for error in record.errors.values())


def test_duplicate_answer_without_ids_is_detected_by_checksum(place: Place) -> None:
    class Anonymous(wire.Shifted):
        def __call__(self, message: Message) -> Fault | None:
            one_id = wire.header(b"x-amz-request-id", lambda _: b"0")(message)
            chosen = super().__call__(replace(message, data=one_id))
            return chosen or wire.changed(lambda _: one_id)

    record = play(place, ARCHIVE, PATIENT, answers=Anonymous(asks_for("PUT"), first=GOOD))
    expect(record, ARCHIVE, ANOTHERS)
    assert place.held() == GOOD + 1


@pytest.mark.parametrize(("operation", "reason"), [(ARCHIVE, ANOTHERS), (RETRIEVE, DAMAGED)])
def test_swapped_answers_are_rejected(place: Place, filled: Place, operation: Operation, reason: str) -> None:
    used = place if operation is ARCHIVE else filled
    record = Recorder(100)
    with FaultProxy(used.port, answers=wire.Swapped(asks_for(METHOD[operation]))) as proxy:
        plane = used.plane(proxy, PATIENT)

        async def work() -> None:
            await asyncio.gather(*(one_session(plane, batch(operation, first, 3), record, first) for first in (0, 6)))

        in_loop(work)
    (error,) = (error for error in record.errors.values() if error.operation == operation.label)
    assert (error.reason, error.count) == (reason, 2)
    good = [row for row in rows_of(record) if row.operation == operation and row.status == Status.OK]
    assert sum(row.bytes for row in good) == len(good) * SIZE
    if operation is ARCHIVE:
        assert used.held() == len(good) + error.outcomes_unknown


@pytest.mark.parametrize(
    ("fault", "operation"),
    [
        pytest.param(fault, operation, id=f"{name}-{operation.label}", marks=quick(operation, at))
        for at, (name, fault) in enumerate(
            {
                "delay": wire.delay(0.05),
                "100 Continue": wire.preceded_by(CONTINUE * 3),
                "a late last byte": wire.drip(all_but_the_last_byte, 0.05),
            }.items()
        )
        for operation in ALL
    ],
)
def test_late_answer_or_100_continue_is_accepted(
    place: Place, filled: Place, operation: Operation, fault: Fault
) -> None:
    used = place if operation is ARCHIVE else filled
    record = play(used, operation, PATIENT, answers=Nth(fault, asks_for(METHOD[operation]), first=2, every=3))
    assert record.errors == {}
    assert [row.status for row in rows_of(record) if row.operation == operation] == [Status.OK] * OBJECTS


def test_delay_in_both_directions_adds_to_the_service_time(filled: Place) -> None:
    with FaultProxy(filled.port, delay_seconds=0.02) as proxy:
        record = record_of_sessions(filled.plane(proxy, PATIENT), batch(RETRIEVE, 0, 3))
    assert record.errors == {}
    times = [row.done_ns - row.sent_ns for row in rows_of(record) if row.operation == RETRIEVE]
    assert min(times) >= 40_000_000


def test_surplus_bytes_on_kept_connection_do_not_answer_next_session(filled: Place) -> None:
    fault = Nth(wire.twice(0.05), asks_for("GET"), first=3)
    with FaultProxy(filled.port, answers=fault) as proxy:
        plane = filled.plane(proxy, PATIENT, keep_sessions_open=True)
        record = Recorder(100)

        async def work() -> None:
            await one_session(plane, batch(RETRIEVE, 0, 3), record)
            while plane.session(0).is_open:  # noqa: ASYNC110 - until the surplus answer has come
                await asyncio.sleep(0.01)
            await one_session(plane, batch(RETRIEVE, 3, 3), record)
            await plane.end_phase()

        in_loop(work)
    assert [row.number for row in rows_of(record) if row.operation == RETRIEVE and not row.status] == [*range(6)]
    assert fault.played == 1
    assert proxy.connections == 2
