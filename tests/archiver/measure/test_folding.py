"""Test how rows become counts: each row once, in its interval; failures never count as throughput."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.engine.worker.stopping import NO_END_NS
from archiver.measure import folding
from archiver.measure.folding import Folding, Population, take
from archiver.measure.reports import INTERVAL_NS, Change, Tally, TallyKey
from archiver.values.record import TSM_ERROR, Delays, Operation, Recorder, Status

START_NS = 1_000_000_000
MS = 1_000_000
ARCHIVE, RETRIEVE, OPEN, CLOSE, SESSION, TRANSACTION = (
    Operation.ARCHIVE, Operation.RETRIEVE, Operation.OPEN, Operation.CLOSE, Operation.SESSION, Operation.TRANSACTION,
)  # fmt: skip
Tallies = dict[TallyKey, Tally]
ALL = [(0, NO_END_NS)]
FROM_700_MS = [(START_NS + 700 * MS, NO_END_NS)]


def fold(records: list[Recorder], how: Folding, measured: list[tuple[int, int]], tallies: Tallies) -> list[Change]:
    """Fold the new rows of these records; return the changes."""
    rows = take(records, measured)
    return folding.fold(rows, how, tallies) if rows is not None else []


def write(
    record: Recorder,
    operation: Operation,
    done_ms: float,
    *,
    number: int = 0,
    took_ms: float = 2,
    late_ms: float = 0,
    first_byte_ms: float = 1,
    size_bytes: int = 0,
    status: int = Status.OK,
    attempts: int = 1,
) -> None:
    """Write a row that ended ``done_ms`` after the phase's start."""
    done_ns = START_NS + int(done_ms * MS)
    sent_ns = done_ns - int(took_ms * MS)
    record.row(
        operation, number, sent_ns - int(late_ms * MS), sent_ns, sent_ns + int(first_byte_ms * MS), done_ns,
        size_bytes, status, attempts,
    )  # fmt: skip


def plain(workload: int = 0) -> Folding:
    """Return a folding of objects that all have one size."""
    return Folding(workload, Population.of_size(3), START_NS)


def folded(record: Recorder, warm_up_ns: int = 0, workload: int = 0) -> tuple[Tallies, list[tuple[int, int]]]:
    tallies: Tallies = {}
    changes = fold([record], plain(workload), [(warm_up_ns, NO_END_NS)], tallies)
    assert {each.workload for each in changes} <= {workload}
    return tallies, [(each.first, each.last) for each in changes if each.operation == "archive"]


def whole(tallies: Tallies) -> Tally:
    total = Tally()
    for tally in tallies.values():
        total.add(tally)
    return total


def test_only_objects_that_were_sent_again_have_the_time_of_an_attempt() -> None:
    """An object's service time includes its failed attempts."""
    record = Recorder(16)
    write(record, ARCHIVE, 5, number=1, took_ms=2)
    record.folded = record.used
    for number, took_ms, status in ((2, 1002, 0), (3, 2, 0), (4, 502, 503)):
        write(record, ARCHIVE, 2000, number=number, took_ms=took_ms, status=status, attempts=2 if took_ms > 2 else 1)
    record.delays |= {0: Delays(retry_ns=MS), 1: Delays(retry_ns=1000 * MS), 3: Delays(retry_ns=500 * MS)}
    population = Population(np.array([0]), np.array([3]), in_parts=True)
    tallies: Tallies = {}
    fold([Recorder(1), record], Folding(0, population, START_NS), ALL * 2, tallies)
    (tally,) = tallies.values()
    for each in (tally, tally.parts["archive"]):
        assert {name: (hist.count, hist.total_ns) for name, hist in each.histograms.items()} == {
            "object_service": (2, 1004 * MS), "object": (2, 1004 * MS), "first_byte": (2, 2 * MS),
            "attempt": (1, 2 * MS),
        }  # fmt: skip
    record.clear()
    assert not record.delays


def test_reconnects_are_counted_with_the_objects_that_waited() -> None:
    record = Recorder(16)
    for number, operation in ((1, Operation.LOCK), (1, ARCHIVE), (2, ARCHIVE), (3, ARCHIVE)):
        write(record, operation, 10, number=number)
    in_lock = Delays(reconnect_ns=2 * MS, reconnects=1, answered=7)
    record.delays |= {0: in_lock, 1: in_lock, 3: Delays(reconnect_ns=4 * MS, reconnects=2, answered=12)}
    tallies, _ = folded(record)
    tally = whole(tallies)
    assert (tally.reconnects, tally.requests_before_close) == (3, 19)  # reconnects of a lock count for its object
    assert (tally.histograms["reconnect"].count, tally.histograms["reconnect"].total_ns) == (2, 6 * MS)
    assert "attempt" not in tally.histograms


def test_session_of_three_objects_is_counted_and_timed() -> None:
    record = Recorder(16)
    write(record, OPEN, 10, took_ms=5)
    for number in (7, 8, 9):
        write(record, ARCHIVE, 10 + number, number=number, size_bytes=100)
    write(record, CLOSE, 20, took_ms=1)
    write(record, SESSION, 20, took_ms=15, size_bytes=300)
    tallies, archived = folded(record, workload=3)
    assert list(tallies) == [TallyKey(0, 3, "measured")]
    tally = tallies[TallyKey(0, 3, "measured")]
    assert (tally.sessions, tally.objects, tally.bytes, tally.attempts, tally.errors) == (1, 3, 300, 3, 0)
    assert archived == [(7, 9)]
    assert {name: histogram.count for name, histogram in tally.histograms.items()} == {
        "session_service": 1, "session": 1, "session_open": 1, "session_close": 1,
        "object_service": 3, "object": 3, "first_byte": 3,
    }  # fmt: skip
    assert tally.histograms["session_open"].total_ns == 5 * MS
    assert tally.histograms["session_close"].total_ns == 1 * MS
    assert tally.histograms["session_service"].total_ns == 15 * MS
    assert tally.histograms["first_byte"].total_ns == 3 * MS


@pytest.mark.parametrize("operation", [ARCHIVE, RETRIEVE])
@pytest.mark.parametrize("status", [403, 503, TSM_ERROR + 11, *(s for s in Status if s is not Status.OK)])
def test_a_failed_object_is_an_error_and_an_attempt_and_nothing_else(operation: Operation, status: int) -> None:
    """Fault F1: every PUT is denied, but a rate of 4 objects/s is reported."""
    record = Recorder(8)
    write(record, operation, 10, number=1, size_bytes=8192, status=status, attempts=3)
    write(record, SESSION, 11, size_bytes=8192, status=status)
    tallies, archived = folded(record)
    tally = whole(tallies)
    assert (tally.sessions, tally.objects, tally.bytes) == (0, 0, 0)
    assert (tally.attempts, tally.errors) == (3, 1 + (status == Status.INCOMPLETE))
    assert archived == []
    assert tally.histograms == {}


@pytest.mark.parametrize(
    ("rows", "errors"),
    [
        ([(OPEN, Status.CONNECT_FAILED), (SESSION, Status.CONNECT_FAILED)], 1),
        ([(OPEN, Status.OK), (ARCHIVE, 503), (ARCHIVE, 503), (CLOSE, Status.OK), (SESSION, 503)], 2),
        ([(OPEN, Status.OK), (ARCHIVE, Status.OK), (SESSION, Status.INCOMPLETE)], 1),  # ended between two objects
        ([(OPEN, Status.OK), (ARCHIVE, Status.OK), (CLOSE, Status.CONNECTION_LOST), (SESSION, Status.OK)], 1),
        ([(OPEN, Status.OK), (ARCHIVE, Status.OK), (CLOSE, Status.OK), (SESSION, Status.OK)], 0),
        ([(ARCHIVE, TSM_ERROR + 11), (ARCHIVE, TSM_ERROR + 11), (TRANSACTION, TSM_ERROR + 11)], 2),  # one for each
    ],
)
def test_each_failure_is_counted_once(rows: list[tuple[Operation, int]], errors: int) -> None:
    record = Recorder(8)
    for operation, status in rows:
        write(record, operation, 10, status=status)
    tallies, _ = folded(record)
    assert whole(tallies).errors == errors


def test_transaction_send_and_commit_are_timed_separately_and_count_no_object() -> None:
    record = Recorder(8)
    for number in (1, 2):
        write(record, ARCHIVE, 50, number=number, took_ms=40, size_bytes=100)
    write(record, TRANSACTION, 50, took_ms=45, first_byte_ms=30, size_bytes=200)
    tally = whole(folded(record)[0])
    assert (tally.objects, tally.bytes, tally.attempts, tally.errors, tally.sessions) == (2, 200, 2, 0, 0)
    assert tally.histograms["transaction_send"].total_ns == 30 * MS
    assert tally.histograms["transaction_commit"].total_ns == 15 * MS


def test_failed_transaction_has_no_commit_time() -> None:
    record = Recorder(8)
    write(record, TRANSACTION, 50, took_ms=45, first_byte_ms=30, status=TSM_ERROR + 248)
    assert whole(folded(record)[0]).histograms == {}


def test_refusals_count_only_error_codes_of_the_platform() -> None:
    record = Recorder(8)
    for status in (Status.CONNECTION_LOST, 503, TSM_ERROR + 1):
        write(record, ARCHIVE, 10, status=status)
    assert whole(folded(record)[0]).refusals == 2


def test_row_counts_in_the_interval_in_which_it_ended() -> None:
    record = Recorder(8)
    grain_ms = INTERVAL_NS // MS
    for number, done_ms in enumerate([0, grain_ms - 0.000001, grain_ms, 4 * grain_ms + 1]):
        write(record, RETRIEVE, done_ms, number=number, took_ms=grain_ms, size_bytes=1)
    tallies, _ = folded(record)
    assert {key.interval: tally.objects for key, tally in tallies.items()} == {0: 2, 1: 1, 4: 1}


def test_rows_that_ended_before_the_measured_time_are_warm_up() -> None:
    record = Recorder(8)
    for done_ms in (1, 5, 6, 7):
        write(record, ARCHIVE, done_ms, number=int(done_ms), size_bytes=1)
    tallies, archived = folded(record, warm_up_ns=START_NS + 6 * MS)
    assert {key: tally.objects for key, tally in tallies.items()} == {(0, 0, "warm-up"): 2, (0, 0, "measured"): 2}
    assert archived == [(1, 1), (5, 7)]  # warm-up objects are archived and locked, too


def test_each_client_has_a_separate_measured_time() -> None:
    records = [Recorder(8), Recorder(1), Recorder(8)]
    for record in (records[0], records[2]):
        for done_ms in (1, 2, 3, 4):
            write(record, ARCHIVE, done_ms, number=done_ms)
    tallies: Tallies = {}
    measured = [(START_NS + 2 * MS, START_NS + 3 * MS), (0, 0), (START_NS + 4 * MS, NO_END_NS)]
    fold(records, plain(), measured, tallies)
    assert {key.part: tally.objects for key, tally in tallies.items()} == {"warm-up": 4, "measured": 3, "drain": 1}


def test_everything_is_warm_up_until_the_measured_time_has_begun() -> None:
    record = Recorder(8)
    write(record, ARCHIVE, 10_000, number=1)
    tallies, _ = folded(record, warm_up_ns=NO_END_NS)
    assert [key.part for key in tallies] == ["warm-up"]


def test_response_time_counts_from_the_due_time() -> None:
    """Fault F4: a clock that starts after the wait hides the queueing delay of an overloaded server."""
    record = Recorder(8)
    write(record, ARCHIVE, 100, number=1, took_ms=2, late_ms=50)
    write(record, SESSION, 100, took_ms=4, late_ms=60)
    histograms = whole(folded(record)[0]).histograms
    assert histograms["object_service"].total_ns == 2 * MS
    assert histograms["object"].total_ns == 52 * MS
    assert histograms["session_service"].total_ns == 4 * MS
    assert histograms["session"].total_ns == 64 * MS


@pytest.mark.parametrize(
    ("rows", "ranges"),
    [
        ([], []),
        ([(4, 0)], [(4, 4)]),
        ([(4, 0), (5, 0), (6, 0)], [(4, 6)]),
        ([(4, 0), (5, 503), (6, 0)], [(4, 4), (6, 6)]),  # the failed object is not in a range
        ([(4, 0), (5, 0), (9, 0), (10, 0), (20, 0)], [(4, 5), (9, 10), (20, 20)]),
        ([(0, 503), (1, 503)], []),
    ],
)
def test_archived_ranges_exclude_failed_objects(rows: list[tuple[int, int]], ranges: list[tuple[int, int]]) -> None:
    record = Recorder(8)
    write(record, OPEN, 1)
    for number, status in rows:
        write(record, ARCHIVE, 2, number=number, status=status)
    assert folded(record)[1] == ranges


def test_retrieved_objects_are_not_reported_as_archived() -> None:
    record = Recorder(2)
    write(record, RETRIEVE, 2, number=5)
    assert fold([record], plain(), ALL, {}) == []


def test_folding_twice_counts_no_row_twice() -> None:
    record = Recorder(8)
    tallies: Tallies = {}
    for done_ms in (1, 2):
        write(record, ARCHIVE, done_ms, number=done_ms, size_bytes=10)
        assert fold([record], plain(), ALL, tallies) == [Change(0, "archive", 3, done_ms, done_ms)]
        assert fold([record], plain(), ALL, tallies) == []
    record.clear()
    assert fold([record], plain(), ALL, tallies) == []
    assert whole(tallies).objects == 2
    assert whole(tallies).histograms["object_service"].count == 2


def test_recorder_with_unfolded_rows_cannot_be_cleared() -> None:
    record = Recorder(8)
    write(record, ARCHIVE, 1)
    with pytest.raises(AssertionError):
        record.clear()


rows = st.lists(
    st.tuples(
        st.sampled_from(list(Operation)),
        st.integers(0, 2000),  # done_ms
        st.integers(0, 500),  # took_ms
        st.integers(0, 100),  # late_ms
        st.sampled_from([Status.OK, Status.OK, Status.OK, Status.INCOMPLETE, Status.DAMAGED, 503]),
    ),
    max_size=40,
)


def sums_of(tallies: Tallies) -> object:
    """Return tallies as plain values that can be compared."""
    return {
        key: (t.sessions, t.objects, t.bytes, t.attempts, t.errors, t.refusals,
              {name: (h.part().indices.tolist(), h.part().counts.tolist(), h.total_ns, h.max_ns)
               for name, h in t.histograms.items()})
        for key, t in tallies.items()
    }  # fmt: skip


def fold_in_groups(
    given_rows: list[tuple[Operation, int, int, int, int]], cuts: list[int]
) -> tuple[object, list[tuple[str, int]]]:
    """Return the sums and changes after folding the rows in groups, one for each client."""
    tallies: Tallies = {}
    changes: list[Change] = []
    for first, last in pairwise(sorted({0, len(given_rows), *cuts})):
        record = Recorder(64)
        for number, (operation, done_ms, took_ms, late_ms, status) in enumerate(given_rows[first:last], first):
            write(
                record, operation, done_ms, number=number, took_ms=took_ms, late_ms=late_ms, size_bytes=3, status=status
            )
            if (first + number) % 3 == 0:
                changes += fold([record], plain(), FROM_700_MS, tallies)
        changes += fold([record], plain(), FROM_700_MS, tallies)
    changed = sorted((each.operation, n) for each in changes for n in range(each.first, each.last + 1))
    return sums_of(tallies), changed


@given(rows, st.lists(st.integers(0, 40), max_size=6))
def test_any_grouping_of_rows_gives_the_same_sums(
    given_rows: list[tuple[Operation, int, int, int, int]], cuts: list[int]
) -> None:
    cuts = [cut for cut in cuts if cut <= len(given_rows)]
    assert fold_in_groups(given_rows, cuts) == fold_in_groups(given_rows, [])


@given(rows, st.lists(st.integers(0, 40), max_size=6))
def test_clients_folded_at_once_give_the_same_sums(
    given_rows: list[tuple[Operation, int, int, int, int]], cuts: list[int]
) -> None:
    tallies: Tallies = {}
    records = []
    for first, last in pairwise(sorted({0, len(given_rows), *(cut for cut in cuts if cut <= len(given_rows))})):
        records.append(Recorder(64))
        for number, (operation, done_ms, took_ms, late_ms, status) in enumerate(given_rows[first:last], first):
            write(records[-1], operation, done_ms, number=number, took_ms=took_ms, late_ms=late_ms, size_bytes=3,
                  status=status)  # fmt: skip
    changes = fold(records, plain(), FROM_700_MS * len(records), tallies)
    changed = sorted((each.operation, n) for each in changes for n in range(each.first, each.last + 1))
    assert (sums_of(tallies), changed) == fold_in_groups(given_rows, [])
    assert fold(records, plain(), FROM_700_MS * len(records), tallies) == []


@given(rows)
def test_response_time_is_never_below_service_time(given_rows: list[tuple[Operation, int, int, int, int]]) -> None:
    record = Recorder(64)
    for operation, done_ms, took_ms, late_ms, status in given_rows:
        write(record, operation, done_ms, took_ms=took_ms, late_ms=late_ms, status=status)
    histograms = whole(folded(record)[0]).histograms
    for population in ("object", "session"):
        if f"{population}_service" in histograms:
            service, response = histograms[f"{population}_service"], histograms[population]
            assert service.count == response.count
            assert service.total_ns <= response.total_ns
            assert service.max_ns <= response.max_ns


# ---- concurrent workloads


def mixed(*, deadline_ms: int | None = None, is_open_loop: bool = False, in_parts: bool = True) -> Folding:
    """Return a folding with objects 0-9 of 100 bytes, 10-19 of 900 bytes, and logs 20-29 of 5 bytes as side objects."""
    numbers = np.arange(30, dtype=np.int64)
    sizes = np.repeat(np.array([100, 900, 5], dtype=np.int64), 10)
    deadline_ns = deadline_ms * MS if deadline_ms is not None else None
    population = Population(numbers, sizes, (20, 30), "log", in_parts)
    return Folding(0, population, START_NS, deadline_ns, is_open_loop)


def test_operations_are_counted_by_kind_and_log_objects_separately() -> None:
    record = Recorder(16)
    write(record, OPEN, 1)
    write(record, ARCHIVE, 2, number=10, size_bytes=900, took_ms=3)
    write(record, ARCHIVE, 3, number=11, size_bytes=900, status=503, attempts=4)
    write(record, ARCHIVE, 4, number=20, size_bytes=5, took_ms=1)
    write(record, RETRIEVE, 5, number=3, size_bytes=100, took_ms=7)
    write(record, Operation.DELETE_MARKER, 6, number=3)
    write(record, SESSION, 6, size_bytes=1005)
    tallies: Tallies = {}
    fold([record], mixed(), ALL, tallies)
    tally = whole(tallies)
    counts = {
        name: (part.operation, part.objects, part.bytes, part.attempts, part.errors)
        for name, part in tally.parts.items()
    }
    assert counts == {
        "archive": ("archive", 1, 900, 5, 1),
        "log": ("archive", 1, 5, 1, 0),
        "retrieve": ("retrieve", 1, 100, 1, 0),
        "delete-marker": ("delete-marker", 1, 0, 1, 0),
    }
    assert tally.parts["archive"].histograms["object_service"].total_ns == 3 * MS
    assert tally.parts["log"].histograms["object_service"].total_ns == 1 * MS
    assert tally.parts["retrieve"].histograms["object_service"].total_ns == 7 * MS
    assert sum(part.objects for part in tally.parts.values()) == tally.objects
    assert sum(part.bytes for part in tally.parts.values()) == tally.bytes
    assert sum(part.attempts for part in tally.parts.values()) == tally.attempts


def test_workload_with_one_operation_has_no_parts() -> None:
    record = Recorder(4)
    write(record, RETRIEVE, 5, number=3, size_bytes=100)
    tallies: Tallies = {}
    fold([record], mixed(in_parts=False), ALL, tallies)
    assert whole(tallies).parts == {}


def test_change_ranges_have_one_size_and_one_operation() -> None:
    record = Recorder(32)
    for number in (12, 9, 8, 10, 19, 20, 21):
        write(record, ARCHIVE, 5, number=number)
    for number in (5, 4, 7):
        write(record, Operation.NEW_VERSION, 6, number=number, size_bytes=100)
    write(record, Operation.NEW_VERSION, 6, number=6, size_bytes=100, status=503)
    write(record, RETRIEVE, 6, number=1)
    assert fold([record], mixed(), ALL, {}) == [
        Change(0, "archive", 100, 8, 9),
        Change(0, "archive", 900, 10, 10),
        Change(0, "archive", 900, 12, 12),
        Change(0, "archive", 900, 19, 19),
        Change(0, "archive", 5, 20, 21, True),
        Change(0, "new-version", 100, 4, 5),
        Change(0, "new-version", 100, 7, 7),
    ]


def test_missed_deadline_is_counted_from_the_due_time() -> None:
    record = Recorder(8)
    write(record, RETRIEVE, 100, number=1, took_ms=2, late_ms=7)
    write(record, RETRIEVE, 100, number=2, took_ms=2, late_ms=8)
    write(record, RETRIEVE, 100, number=3, took_ms=2, late_ms=9)
    write(record, RETRIEVE, 100, number=4, took_ms=2, late_ms=90, status=503)  # an error does not also count as late
    write(record, SESSION, 100, took_ms=2, late_ms=90)
    tallies: Tallies = {}
    fold([record], mixed(deadline_ms=10), ALL, tallies)
    assert whole(tallies).missed_deadlines == whole(tallies).parts["retrieve"].missed_deadlines == 1


@pytest.mark.parametrize("is_open_loop", [True, False])
def test_session_start_delay_is_recorded_in_open_loop_also_for_failures(is_open_loop: bool) -> None:
    record = Recorder(8)
    write(record, SESSION, 100, took_ms=2, late_ms=30)
    write(record, SESSION, 100, took_ms=2, late_ms=50, status=Status.CONNECT_FAILED)
    tallies: Tallies = {}
    fold([record], mixed(is_open_loop=is_open_loop), ALL, tallies)
    start = whole(tallies).histograms.get("session_start")
    assert (start.count, start.total_ns) == (2, 80 * MS) if start is not None else not is_open_loop
