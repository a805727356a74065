"""Test the batches of a mix: exact shares, write limits, and only requests for existing objects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.engine.numbers import ObjectNumbers
from archiver.engine.work.mixed.batches import BatchSource
from archiver.engine.work.mixed.data_set import DataSet
from archiver.engine.work.mixed.shares import mix_of
from archiver.engine.worker.assignment import MixAssignment, NewObjects
from archiver.values.record import Operation, Recorder, Status
from backends.base import Batch
from scenarios.model import Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Aside, Keys, Mix, OperationName, Transaction
from tests.archiver.engine.work.mixed.members_of import members
from tests.support.examples import share_of

PAGES = Sizes.of([(1000, 0.25), (2000, 0.5), (5000, 0.25)])
EMAIL = (
    Transaction(("retrieve", "archive"), 40),
    Transaction(("retrieve", "delete"), 30),
    Transaction(("retrieve", "new-version"), 5),
    Transaction(("retrieve",), 25),
)
FIRST_NEW = 10_000


def workload(
    *transactions: Transaction,
    sizes: Sizes = PAGES,
    objects_per_session: int = 1,
    aside: Aside | None = None,
    keys: Keys = "uniform",
    range_bytes: int | None = None,
    clients: int = 1,
) -> Workload:
    mix = Mix(transactions, "d", sizes, keys=keys, aside=aside, planned_seconds=1.0, range_bytes=range_bytes)
    return Workload("w", mix, clients, objects_per_session)


def only(operation: OperationName) -> Transaction:
    return Transaction((operation,), 1)


@dataclass
class Table:
    """A source of batches, its data set, and a platform that carries out every request."""

    one: Workload
    new: int = 0
    beside: int = 0
    data: DataSet = field(default_factory=lambda: DataSet(members(100, sizes=(1000, 2000, 5000)), is_changed=True))
    has_markers: bool = True
    seed: int = 3
    record: Recorder = field(default_factory=lambda: Recorder(10_000))

    def __post_init__(self) -> None:
        numbers = ObjectNumbers(self.seed, FIRST_NEW)
        mix = mix_of(self.one)
        own = NewObjects(*numbers.new_objects(mix.sizes, self.new, 1, 0))
        aside = NewObjects(*numbers.new_objects(mix.aside.sizes if mix.aside else mix.sizes, self.beside, 1, 1))
        assignment = MixAssignment(0, tuple(range(5, 5 + self.one.clients)), own, aside, self.seed, self.seed, 0, 1)
        self.batch_source = BatchSource(self.one, assignment, self.data, has_markers=self.has_markers, grows=True)

    def batch(self, client: int = 5) -> Batch | None:
        return self.batch_source.batch(client, None)

    def settle(self, batch: Batch, *failed: int) -> None:
        """Record a batch as done, except the operations at these places."""
        record = self.record
        record.folded = record.used
        record.clear()
        for place, (operation, number) in enumerate(zip(batch.operation, batch.number, strict=True)):
            record.row(operation, number, 0, 0, 0, 0, 0, Status.CONNECTION_LOST if place in failed else Status.OK)
        self.batch_source.settle(batch, record, 0)

    def sessions(self, count: int = 10**6) -> list[Batch]:
        """Carry out up to this number of sessions, one after another."""
        batches = list[Batch]()
        while len(batches) < count and (batch := self.batch()) is not None:
            self.settle(batch)
            batches.append(batch)
        return batches


def operations(batches: list[Batch]) -> Counter[str]:
    return Counter(Operation(operation).label for batch in batches for operation in batch.operation)


# ---- shares


@pytest.mark.parametrize("objects_per_session", [1, 7, 20])
def test_transactions_occur_in_exact_shares(objects_per_session: int) -> None:
    rounds = 7  # 20 items each
    table = Table(workload(*EMAIL, objects_per_session=objects_per_session), new=1000)
    batches = table.sessions(rounds * 20 // objects_per_session)
    assert operations(batches) == {
        "retrieve": rounds * 20, "archive": rounds * 8, "delete-marker": rounds * 6, "new-version": rounds * 1,
    }  # fmt: skip
    assert all(sum(op is Operation.RETRIEVE for op in batch.operation) == objects_per_session for batch in batches)


def test_transactions_are_shuffled_and_their_steps_stay_together() -> None:
    table = Table(workload(*EMAIL), new=1000)
    kinds = [tuple(Operation(op).label for op in batch.operation) for batch in table.sessions(100)]
    assert {kind[0] for kind in kinds} == {"retrieve"}
    rounds = [kinds[at : at + 20] for at in range(0, 100, 20)]
    assert all(Counter(round_items) == Counter(rounds[0]) for round_items in rounds)
    assert len({tuple(round_items) for round_items in rounds}) == 5


def test_sizes_have_exact_shares_and_adjacent_numbers() -> None:
    table = Table(workload(only("archive")), new=400)
    batches = table.sessions()
    assert Counter(batch.size_bytes[0] for batch in batches) == {1000: 100, 2000: 200, 5000: 100}
    for place in range(0, 400, 4):
        assert sorted(batch.size_bytes[0] for batch in batches[place : place + 4]) == [1000, 2000, 2000, 5000]
    for size in (1000, 2000, 5000):
        numbers = [batch.number[0] for batch in batches if batch.size_bytes[0] == size]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))  # so that few ranges describe all objects
    assert sorted(batch.number[0] for batch in batches) == list(range(FIRST_NEW, FIRST_NEW + 400))


@pytest.mark.parametrize(("per_operation", "beside"), [(0.227, 454), (1.0, 2000), (2.5, 5000), (0.001, 2)])
def test_side_objects_have_the_given_number_per_operation(per_operation: float, beside: int) -> None:
    aside = Aside("log", "log", Sizes.constant(5667), per_operation)
    table = Table(workload(only("retrieve"), aside=aside), beside=10**4)
    done = operations(table.sessions(2000))
    assert done["retrieve"] == 2000
    assert abs(done["archive"] - beside) <= 1


def test_side_objects_are_never_read_by_the_workload() -> None:
    aside = Aside("log", "log", Sizes.constant(5667), 1.0)
    table = Table(workload(Transaction(("archive", "retrieve"), 1), aside=aside), new=300, beside=600)
    batches = table.sessions()
    assert operations(batches)["archive"] == 900
    assert 5667 not in table.data.sizes
    read = [n for b in batches for op, n in zip(b.operation, b.number, strict=True) if op is Operation.RETRIEVE]
    assert max(read) > FIRST_NEW  # objects that it archived are read, too
    assert max(read) < FIRST_NEW + 300


def test_batch_is_never_longer_than_batch_max() -> None:
    aside = Aside("log", "log", Sizes.constant(5667), 0.8)
    table = Table(workload(*EMAIL, objects_per_session=13, aside=aside), new=5000, beside=5000)
    assert max(len(batch) for batch in table.sessions(400)) <= table.batch_source.batch_max


# ---- write limits


@pytest.mark.parametrize("new", [0, 1, 9, 100])
def test_batches_end_when_archive_limit_is_used_up(new: int) -> None:
    table = Table(workload(only("archive"), objects_per_session=4), new=new)
    batches = table.sessions()
    assert operations(batches) == ({"archive": new} if new else {})
    assert [len(batch) for batch in batches[:-1]] == [4] * (len(batches) - 1)
    assert table.batch() is None


@given(
    st.integers(0, 120),
    st.lists(st.sampled_from([100, 3000, 20_000]), min_size=1, max_size=60),
    st.sampled_from(["archive", "copy", "retrieve"]),
    st.integers(1, 9),
)
@settings(max_examples=share_of(60))
def test_written_objects_and_bytes_stay_within_the_limit_with_new_versions(
    new: int, there: list[int], beside_it: OperationName, objects_per_session: int
) -> None:
    """A new version is as large as its object, regardless of the sizes of the mix."""
    one = workload(only("new-version"), only(beside_it), objects_per_session=objects_per_session)
    table = Table(one, new=new, data=DataSet(members(len(there), sizes=tuple(there)), is_changed=True))
    written = [
        size
        for batch in table.sessions(2000)
        for operation, size in zip(batch.operation, batch.size_bytes, strict=True)
        if operation is not Operation.RETRIEVE
    ]
    assert len(written) <= new
    assert sum(written) <= PAGES.bytes_max(new)


def test_new_versions_of_constant_size_use_up_the_limit_exactly() -> None:
    data = DataSet(members(50, sizes=(8192,)), is_changed=True)
    table = Table(workload(only("new-version"), only("archive"), sizes=Sizes.constant(8192)), new=60, data=data)
    assert operations(table.sessions()) == {"new-version": 30, "archive": 30}


# ---- choice of objects


def test_failed_archive_is_never_read_and_unknown_versions_are_skipped() -> None:
    table = Table(workload(Transaction(("new-version", "archive", "retrieve"), 1)), new=400)
    unknown, known = set[int](), Counter[int]()
    for turn in range(60):
        batch = table.batch()
        assert batch is not None
        replaced, archived, read = batch.number
        assert not {replaced, read} & unknown
        assert read != replaced
        assert batch.version is not None
        assert batch.version[2] == known[read] + 1
        assert batch.version[0] == known[replaced] + 2
        if turn % 2:
            table.settle(batch, 0, 1)
            unknown |= {replaced, archived}
        else:
            table.settle(batch)
            known[replaced] += 1
    assert max(known) >= FIRST_NEW or len(known) > 20


@given(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=40), st.integers(1, 5), st.integers(0, 5))
def test_concurrent_sessions_never_share_an_object_that_one_changes(
    failures: list[list[int]], at_once: int, seed: int
) -> None:
    events = Transaction(("event-hold",), 10), Transaction(("event-release",), 10)
    one = workload(
        *EMAIL, *events, Transaction(("hold",), 10), Transaction(("release",), 10), Transaction(("extend",), 5)
    )
    data = DataSet(members(30, expired=8, locked=15, held=3, sizes=(1000, 2000, 5000)), is_changed=True)
    table = Table(one, new=60, data=data, seed=seed)
    under_way: list[Batch] = []
    gone = set[int]()
    for failed in failures:
        batch = table.batch()
        if batch is None:
            break
        mine = dict(zip(batch.number, batch.operation, strict=True))
        assert not gone & set(mine)
        for other in under_way:
            for number, operation in zip(other.number, other.operation, strict=True):
                if number in mine:
                    assert operation is mine[number] is Operation.RETRIEVE
        under_way.append(batch)
        if len(under_way) >= at_once:
            done = under_way.pop(0)
            for number, operation in zip(done.number, done.operation, strict=True):
                if operation in (Operation.DELETE, Operation.DELETE_MARKER):
                    gone.add(number)
            table.settle(done, *failed)


def test_session_does_not_read_objects_that_it_changes() -> None:
    table = Table(workload(*EMAIL, objects_per_session=40), new=1000, data=DataSet(members(60), is_changed=True))
    for _ in range(5):
        batch = table.batch()
        assert batch is not None
        by_operation: dict[bool, list[int]] = {True: [], False: []}
        for operation, number in zip(batch.operation, batch.number, strict=True):
            by_operation[operation is Operation.RETRIEVE].append(number)
        changed = by_operation[False]
        assert len(set(changed)) == len(changed)
        assert not set(changed) & set(by_operation[True])
        table.settle(batch)


def test_delete_removes_expired_objects_first_and_then_places_markers() -> None:
    table = Table(workload(only("delete")), data=DataSet(members(20, expired=6), is_changed=True))
    batches = table.sessions(12)
    assert operations(batches[:6]) == {"delete": 6}
    assert operations(batches[6:]) == {"delete-marker": 6}
    assert sorted(batch.number[0] for batch in batches[:6]) == list(range(100, 106))
    assert len({batch.number[0] for batch in batches}) == 12


def test_without_delete_markers_deletion_needs_an_expired_object() -> None:
    data = DataSet(members(20, expired=3), is_changed=True)
    table = Table(workload(only("delete"), only("retrieve")), data=data, has_markers=False)
    batches = table.sessions(50)
    done = operations(batches)
    assert len(batches) == 50  # a skipped step does not end the workload
    assert done == {"delete": 3, "retrieve": 47}
    assert table.batch_source.steps_left_out in (43, 44, 45)  # each round has one delete and one retrieve


def test_delete_only_workload_ends_after_expired_objects() -> None:
    table = Table(workload(only("delete")), data=DataSet(members(20, expired=3), is_changed=True), has_markers=False)
    assert operations(table.sessions(50)) == {"delete": 3}
    assert table.batch() is None


def test_refused_delete_is_tried_only_on_locked_objects() -> None:
    data = DataSet(members(40, expired=10, locked=10), is_changed=True)
    table = Table(workload(only("refused-delete"), only("retrieve")), data=data)
    batches = table.sessions(400)
    tried = {b.number[0] for b in batches if b.operation[0] is Operation.REFUSED_DELETE}
    assert tried == set(range(130, 140))


def test_event_hold_is_placed_once_and_released_afterwards() -> None:
    data = DataSet(members(20, locked=20), is_changed=True)
    table = Table(workload(only("event-hold"), only("event-release")), data=data)
    done = [(batch.operation[0], batch.number[0]) for batch in table.sessions(39)]
    placed = [number for operation, number in done if operation is Operation.EVENT_HOLD]
    assert len(placed) == len(set(placed)) > 10
    for at, (operation, number) in enumerate(done):
        if operation is Operation.EVENT_RELEASE:
            assert done.index((Operation.EVENT_HOLD, number)) < at
    assert Operation.EVENT_RELEASE in {operation for operation, _ in done}


def test_no_event_hold_is_placed_on_a_later_version() -> None:
    data = DataSet(members(3, locked=3), is_changed=True)
    table = Table(workload(only("event-hold"), only("retrieve")), data=data)
    data.versions.update({100: 2, 101: 2})
    placed = {b.number[0] for b in table.sessions(20) if b.operation[0] is Operation.EVENT_HOLD}
    assert placed == {102}


def test_object_with_failed_event_hold_is_not_released() -> None:
    data = DataSet(members(1, locked=1), is_changed=True)
    table = Table(workload(only("event-hold")), data=data)
    batch = table.batch()
    assert batch is not None
    table.settle(batch, 0)
    assert data.event_held() is None
    assert len(data) == 1


@pytest.mark.parametrize("operation", ["hold", "release", "event-hold", "event-release", "refused-delete", "extend"])
def test_operation_without_suitable_object_is_skipped_and_counted(operation: OperationName) -> None:
    table = Table(workload(only(operation), only("retrieve")))
    assert operations(table.sessions(20)) == {"retrieve": 20}
    assert table.batch_source.steps_left_out > 0


def test_copy_source_has_the_same_size_and_no_pending_change() -> None:
    table = Table(workload(only("copy"), only("new-version")), new=200)
    sizes = dict(zip(table.data.numbers, table.data.sizes, strict=True))
    batch, copies = table.batch(), 0
    while batch is not None:
        before = dict(table.data.versions)
        if batch.operation[0] is Operation.COPY:
            copies += 1
            assert batch.source is not None
            assert sizes[batch.source[0]] == batch.size_bytes[0]
            assert batch.number[0] >= FIRST_NEW
            # A copy has the content and the version of its source.
            assert (batch.version[0] if batch.version else 1) == before.get(batch.source[0], 1)
        table.settle(batch)
        batch = table.batch()
    assert copies + table.batch_source.steps_left_out >= 90
    assert copies > 50
    assert not set(table.data.numbers) - set(sizes)  # copies are not members of the data set


def test_ranges_are_within_their_objects_and_cover_them() -> None:
    data = DataSet(members(3, sizes=(1000, 4096, 10_000)), is_changed=False)
    table = Table(workload(only("range-retrieve"), range_bytes=4096), data=data)
    seen: dict[int, set[tuple[int, int]]] = {}
    for batch in table.sessions(400):
        assert batch.range is not None
        seen.setdefault(batch.size_bytes[0], set()).add(batch.range[0])
    assert seen == {1000: {(0, 1000)}, 4096: {(0, 4096)}, 10_000: {(0, 4096), (4096, 4096), (8192, 1808)}}


# ---- keys


def test_sequential_clients_start_at_different_places() -> None:
    table = Table(
        workload(only("retrieve"), keys="sequential", clients=4), data=DataSet(members(100), is_changed=False)
    )
    read = {}
    for client in (5, 6, 7, 8):
        batches = [table.batch(client) for _ in range(30)]
        read[client] = [batch.number[0] for batch in batches if batch is not None]
    assert read == {5 + i: list(range(100 + 25 * i, 130 + 25 * i)) for i in range(3)} | {
        8: [*range(175, 200), *range(100, 105)]
    }


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("keys", ["sequential", "each-once"])
def test_workers_sharing_a_data_set_read_different_parts(keys: Keys, parts: int) -> None:
    one = workload(only("retrieve"), keys=keys, clients=2)
    none = NewObjects(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    first = list[int]()
    for part in range(parts):
        mine = MixAssignment(0, (2 * part, 2 * part + 1), none, none, part, 1, part, parts)
        data = DataSet(members(120), is_changed=False)
        batch_source = BatchSource(one, mine, data, has_markers=True, grows=False, is_shared=True)
        for client in mine.clients:
            for _ in range(120 // (2 * parts)):
                batch = batch_source.batch(client, None)
                assert batch is not None
                first += batch.number
    assert sorted(first) == list(range(100, 220))


def test_same_seed_gives_the_same_batches() -> None:
    drawn = [
        [(b.operation, b.number, b.version) for b in Table(workload(*EMAIL), new=500, seed=seed).sessions(200)]
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_batch_carries_retention_part_size_and_due_time_of_its_workload() -> None:
    one = workload(only("archive"))
    one = replace(one, retain_for_seconds=2.0, work=replace(mix_of(one), part_bytes=5 << 20))
    batch = Table(one, new=1).batch_source.batch(5, 77)
    assert batch is not None
    assert (batch.retain_for_seconds, batch.part_bytes, batch.due_ns) == (2.0, 5 << 20, 77)
    assert (batch.version, batch.range, batch.source) == (None, None, None)


def test_objects_given_back_are_archived_again_after_all_others() -> None:
    table = Table(workload(only("archive")), new=4)
    tried = list[int]()
    while (batch := table.batch()) is not None:
        tried += batch.number
        if len(tried) == 2:
            table.batch_source.give_back(batch, [0])
    assert len(tried) == 5
    assert tried[-1] == tried[1]


def test_workload_without_an_end_in_time_tries_each_object_once() -> None:
    endless = Workload("w", Mix((only("archive"),), "d", PAGES, objects=3), 1, 1)
    table = Table(endless, new=3)
    tried = list[int]()
    while (batch := table.batch()) is not None:
        tried += batch.number
        table.batch_source.give_back(batch, [0])
    assert len(tried) == 3
