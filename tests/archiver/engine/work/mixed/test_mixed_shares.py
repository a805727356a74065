"""Test how clients, new objects, arrivals and data sets of concurrent workloads are assigned to workers."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.engine.numbers import ANY_TIME, Kept, LockedTimes, ObjectNumbers
from archiver.engine.work.mixed.arrivals import due_times
from archiver.engine.work.mixed.shares import share_mixes
from archiver.engine.worker.assignment import WorkerShare
from scenarios.model import Phase, Workload, archived_max
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Aside, Mix, OperationName, Transaction
from tests.support.examples import share_of

MAIL = Sizes.of([(512, 0.5), (4096, 0.25), (70_000, 0.25)])


def workload(
    name: str,
    *operations: OperationName,
    data: str = "d",
    clients: int = 4,
    fill: int | None = None,
    objects: int | None = None,
    bytes_max: int | None = None,
    arrivals: Arrivals | None = None,
    aside: Aside | None = None,
    retain_for_seconds: float | None = None,
) -> Workload:
    mix = Mix(
        tuple(Transaction((operation,), 1) for operation in operations),
        data,
        MAIL,
        fill=fill,
        objects=objects,
        bytes_max=bytes_max,
        arrivals=arrivals,
        aside=aside,
        planned_seconds=None if fill or objects else 2.0,
    )
    return Workload(name, mix, clients, retain_for_seconds=retain_for_seconds)


def phase(*workloads: Workload, position: int = 1) -> Phase:
    return Phase("p", position, 1, workloads)


def new_of(shares: list[WorkerShare]) -> list[int]:
    """Return all numbers assigned for archiving, in all workers."""
    return [n for s in shares for m in s.mixes for new in (m.new, m.aside) for n in new.numbers.tolist()]


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("clients", [1, 2, 3, 4, 7])
def test_every_client_and_every_new_object_goes_to_one_worker(workers: int, clients: int) -> None:
    log = Aside("log", "log", Sizes.constant(99), 0.3)
    one = phase(
        workload("a", "archive", clients=clients, objects=103),
        workload("b", "archive", "retrieve", data="e", bytes_max=900_000, aside=log),
        workload("c", "archive", data="f", clients=3, objects=50),
    )
    numbers = ObjectNumbers(7, first=1000)
    shares = share_mixes(one, numbers, ANY_TIME, workers)
    assert len(shares) == min(workers, max(clients, 4))
    here = [client for share in shares for mix in share.mixes for client in mix.clients]
    assert sorted(here) == list(range(clients + 4 + 3))
    by_workload = Counter[int]()
    for share in shares:
        by_workload.update({mix.workload: len(mix.clients) for mix in share.mixes})
        for mix in share.mixes:
            assert mix.clients  # a worker without clients of a workload has no part of it
    assert by_workload == {0: clients, 1: 4, 2: 3}
    new = new_of(shares)
    assert sorted(new) == list(range(1000, numbers.next))  # each number once, and none is wasted
    assert len(new) <= archived_max([one])[0]
    sizes = sum(int(part.sizes.sum()) for s in shares for m in s.mixes for part in (m.new, m.aside))
    assert sizes <= archived_max([one])[1]
    spread = [len(mix.clients) for share in shares for mix in share.mixes if mix.workload == 0]
    assert max(spread) - min(spread) <= 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_new_objects_go_to_workers_in_proportion_to_their_clients(workers: int) -> None:
    shares = share_mixes(phase(workload("a", "archive", clients=5, objects=500)), ObjectNumbers(7), ANY_TIME, workers)
    for share in shares:
        (mix,) = share.mixes
        assert len(mix.new.numbers) == 100 * len(mix.clients)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("kind", ["constant", "poisson"])
def test_each_arrival_of_a_schedule_goes_to_exactly_one_worker(workers: int, kind: str) -> None:
    arrivals = Arrivals("constant" if kind == "constant" else "poisson", 500.0)
    (whole,) = share_mixes(phase(workload("a", "retrieve", arrivals=arrivals)), ObjectNumbers(7), ANY_TIME, 1)
    shares = share_mixes(phase(workload("a", "retrieve", arrivals=arrivals)), ObjectNumbers(7), ANY_TIME, workers)

    def due(share: WorkerShare) -> list[int]:
        (mix,) = share.mixes
        return [int(due_ns) for due_ns in due_times(arrivals, 2.0, mix.arrivals_seed, mix.part, mix.parts)]

    together = [moment for share in shares for moment in due(share)]
    assert sorted(together) == due(whole)
    assert len(together) == pytest.approx(1000, rel=0.2)
    seeds = [mix.seed for share in shares for mix in share.mixes]
    assert len(set(seeds)) == len(seeds)  # equal seeds would select the same objects


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_changed_data_sets_are_divided_and_read_only_ones_shared(workers: int) -> None:
    numbers = ObjectNumbers(7)
    numbers.keep(Kept(512, 0, 99, data="d"))
    numbers.keep(Kept(4096, 100, 120, data="d"))
    numbers.keep(Kept(512, 200, 259, data="e"))
    one = phase(
        workload("mail", "retrieve", "delete-marker"),
        workload("check", "retrieve"),  # a second workload on the same objects
        workload("web", "retrieve", data="e", clients=3),
    )
    shares = share_mixes(one, numbers, ANY_TIME, workers)
    divided = [share.data["d"].numbers.tolist() for share in shares]
    assert sorted(n for part in divided for n in part) == list(range(121))
    assert max(map(len, divided)) - min(map(len, divided)) <= 1
    for share in shares:
        assert share.data["d"].sizes.tolist() == [512 if n < 100 else 4096 for n in share.data["d"].numbers.tolist()]
        assert share.data["e"].numbers.tolist() == list(range(200, 260))
        assert {mix.workload for mix in share.mixes} == {0, 1, 2}  # workloads that share objects are in the same worker


def test_workers_without_clients_get_no_part_of_the_data_set() -> None:
    numbers = ObjectNumbers(7)
    numbers.keep(Kept(512, 0, 99, data="d"))
    one = phase(workload("a", "delete-marker", clients=1), workload("b", "archive", data="e", objects=9))
    shares = share_mixes(one, numbers, ANY_TIME, 3)
    assert [len(share.data["d"].numbers) for share in shares if "d" in share.data] == [100]


def test_fill_archives_only_the_missing_objects_of_a_data_set() -> None:
    numbers = ObjectNumbers(7)
    one = phase(workload("a", "archive", fill=100))
    assert len(new_of(share_mixes(one, numbers, ANY_TIME, 2))) == 100
    numbers.keep(Kept(512, 0, 59, data="d"))
    numbers.keep(Kept(512, 60, 99, data="another"))
    assert len(new_of(share_mixes(one, numbers, ANY_TIME, 2))) == 40
    numbers.change("delete", 512, 0, 9)
    numbers.change("delete-marker", 512, 10, 14)
    assert len(new_of(share_mixes(one, numbers, ANY_TIME, 2))) == 55
    numbers.keep(Kept(4096, 500, 600, data="d"))
    assert new_of(share_mixes(one, numbers, ANY_TIME, 2)) == []


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 5), st.booleans()), min_size=2, max_size=5))
@settings(max_examples=share_of(50))
def test_no_number_is_used_by_two_phases(phases: list[tuple[int, int, bool]]) -> None:
    numbers, used = ObjectNumbers(7), list[int]()
    for position, (objects, clients, aside) in enumerate(phases, 1):
        log = Aside("log", "log", Sizes.constant(9), 0.5) if aside else None
        one = phase(
            workload("a", "archive", objects=objects or None, bytes_max=None if objects else 50_000, clients=clients),
            workload("b", "archive", "new-version", data="e", bytes_max=200_000, aside=log),
            position=position,
        )
        first = numbers.next
        used += new_of(share_mixes(one, numbers, ANY_TIME, 2))
        assert numbers.next - first <= one.archived_max()[0]  # the ledger has this bound, and a resumed run skips it
    assert len(used) == len(set(used)) == numbers.next


def test_data_set_members_reflect_the_changes_of_earlier_phases() -> None:
    times = LockedTimes(begins=1000.0, ends=1100.0, extended_to=1400.0)
    numbers = ObjectNumbers(7)
    numbers.keep(Kept(512, 0, 9, 900.0, 950.0, "d"))
    numbers.keep(Kept(4096, 10, 19, 1200.0, 1300.0, "d"))
    numbers.keep(Kept(512, 20, 29, 1200.0, 1300.0, "other"))
    for operation, size_bytes, first, last in (
        ("delete", 512, 0, 1), ("hold", 512, 2, 3), ("extend", 512, 4, 4), ("delete-marker", 4096, 10, 11),
        ("new-version", 4096, 12, 12), ("new-version", 4096, 12, 13), ("hold", 4096, 14, 15),
    ):  # fmt: skip
        numbers.change(operation, size_bytes, first, last)
    members = numbers.members("d", times)
    assert members.numbers.tolist() == [*range(2, 10), *range(12, 20)]
    assert members.numbers[members.expired].tolist() == [5, 6, 7, 8, 9]
    assert members.numbers[members.locked].tolist() == list(range(12, 20))
    assert members.numbers[members.held].tolist() == [2, 3, 14, 15]
    assert members.versions == {12: 3, 13: 2}
    part = members.part(slice(1, None, 2))
    assert part.numbers.tolist() == [3, 5, 7, 9, 13, 15, 17, 19]
    assert part.versions == {13: 2}
    assert numbers.counts() == {"d": 16, "other": 10}


def test_single_clients_of_equal_workloads_are_spread_over_workers() -> None:
    """Otherwise all tiles of one client would be in one process."""
    one = phase(
        *(workload(f"scan {i}", "retrieve", data=f"d{i}", clients=1) for i in range(4)), workload("w", "archive")
    )
    shares = share_mixes(one, ObjectNumbers(7), ANY_TIME, 2)
    mine = [sum(mix.workload < 4 for mix in share.mixes) for share in shares]
    assert mine == [2, 2]


def test_assigned_objects_of_one_size_have_adjacent_numbers() -> None:
    (share,) = share_mixes(phase(workload("a", "archive", objects=400)), ObjectNumbers(7), ANY_TIME, 1)
    (mix,) = share.mixes
    order = np.argsort(mix.new.numbers)
    breaks = sum(a != b for a, b in pairwise(mix.new.sizes[order].tolist()))
    assert breaks == 2
    assert mix.new.numbers.tolist() != sorted(mix.new.numbers.tolist())
