"""Test a phase that this process carries out itself."""

from __future__ import annotations

import time

from archiver.engine.numbers import ANY_TIME, Kept, ObjectNumbers
from archiver.engine.work.mixed.shares import share_mixes
from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.in_process import InProcessChannel, carry_out
from archiver.measure.reports import PhaseReport
from archiver.values.retention import DateMaker, Retention
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Mix, Transaction

EACH_ONCE = Mix((Transaction(("retrieve",), 1.0),), "pages", Sizes.constant(8192), keys="each-once")


def read_all(objects: int, clients: int) -> tuple[InProcessChannel, PhaseReport]:
    numbers = ObjectNumbers(seed=1)
    first, end = numbers.fresh(objects)
    if objects:
        numbers.keep(Kept(8192, first, end - 1, data="pages"))
    phase = Phase("read", 1, 1, (Workload("read", EACH_ONCE, clients, objects_per_session=5),))
    (share,) = share_mixes(phase, numbers, ANY_TIME, 1)
    dates: dict[float | None, DateMaker] = {None: DateMaker(Retention(), time.time() + 60)}
    return carry_out(Assignment("null", 1, "null", None, phase, (), dates, "none", mixes=share.mixes, data=share.data))


def test_in_process_phase_counts_sessions_and_objects() -> None:
    counted, report = read_all(objects=10, clients=1)
    assert (counted.sessions, counted.objects, counted.problems) == (2, 10, [])
    assert report.gave_up is None


def test_phase_with_more_clients_than_sessions_does_not_give_up() -> None:
    counted, report = read_all(objects=10, clients=8)
    assert counted.objects == 10
    assert report.gave_up is None


def test_phase_without_objects_to_read_gives_up() -> None:
    counted, report = read_all(objects=0, clients=2)
    assert counted.objects == 0
    assert report.gave_up == "data set 'pages' has no object for it"
