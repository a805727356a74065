"""Test how object numbers are assigned and how the reports of scripted workers become one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.engine.coordinator import ClientCeiling, Coordinator, Fill, PhaseOutcome, RunSetting
from archiver.engine.numbers import Kept, ObjectNumbers
from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.contract import OnReport, Start
from archiver.measure import merging
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.reports import (
    INTERVAL_NS,
    Carried,
    Change,
    CpuSample,
    IntervalReport,
    PartOfPhase,
    PhaseReport,
    StageReport,
    Tally,
    TallyKey,
)
from archiver.values.record import ErrorKind
from archiver.values.retention import Retention
from archiver.watch.sampler import ResourceSampler
from results.recorded.model import Ceiling, Result
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Aside, Mix, OperationName, Transaction
from scenarios.work.sessions import InWindow, Sessions, StopRule, UntilPrecise

WHOLE_SESSIONS = UntilPrecise(
    seconds_min=2.0, seconds_max=10.0, bytes_max=10_000, precision=0.05, sessions_min=3, warm_up_sessions=1
)
WINDOW = InWindow(seconds=2.0, client_bytes_max=20_000, warm_up_seconds=0.5)
SETTING = RunSetting(
    run_id="run-1", content_seed=7, backend="null", backend_setting=None, retention=Retention(), verify="all",
    session_kind="opened", session_open="head-bucket", checksum="crc32c", payload_signing=False,
)  # fmt: skip
Script = Callable[[Sequence[Assignment], int, OnReport], list[PhaseReport]]


def phase(*, clients: int = 4, operation: OperationName = "archive", object_bytes: int = 1000) -> Phase:
    stop: StopRule = WINDOW if clients > 1 else WHOLE_SESSIONS
    return Phase(operation, 1, 1, (Workload(operation, Sessions(operation, object_bytes, stop), clients, 5),))


def report_of(tallies: dict[tuple[int, PartOfPhase], Tally], errors: Sequence[ErrorKind] = ()) -> IntervalReport:
    return IntervalReport({TallyKey(i, 0, part): t for (i, part), t in tallies.items()}, [], list(errors))


def ends(
    start_ns: int,
    from_interval: float,
    to_interval: float,
    *,
    settled: bool = True,
    stages: tuple[StageReport, ...] = (),
    **more: Any,
) -> PhaseReport:
    """Return the last report of a worker, in intervals of its phase.

    ``stages``: its workloads; without them it has one.
    """
    values: dict[str, Any] = {
        "ended_ns": start_ns + int(to_interval * INTERVAL_NS),
        # An eighth of a core, and the same time waiting for one, from the start until after the measured time.
        "cpu": [CpuSample(start_ns, 1.0, 5.0), CpuSample(start_ns + 80 * 10**9, 11.0, 15.0)],
        "lateness": Histogram(),
        "gave_up": None,
        **more,
    }
    ended_ns = values["ended_ns"]
    only = stage(start_ns, 0, from_interval, to_interval, ended_ns=ended_ns, ended_early=not settled)
    return PhaseReport(stages=stages or (only,), **values)


def stage(start_ns: int, workload: int, from_interval: float, to_interval: float, **more: Any) -> StageReport:
    """Return the report of a workload in one worker, in intervals of its phase."""
    edges = (start_ns + int(from_interval * INTERVAL_NS), start_ns + int(to_interval * INTERVAL_NS))
    values: dict[str, Any] = {"ended_ns": edges[1], "ended_early": False, "client_ns": edges[1] - edges[0], **more}
    return StageReport(workload, *edges, **values)


@dataclass
class ScriptedWorkers:
    """Workers that report what the script returns, on the clock that the coordinator starts."""

    script: Script
    count: int = 2
    is_local: bool = True
    assignments: list[Assignment] = field(default_factory=list)

    def __len__(self) -> int:
        return self.count

    def run(self, assignments: Sequence[Assignment], start: Start, on_report: OnReport) -> Carried:
        self.assignments = list(assignments)
        return Carried(self.script(assignments, start(20_000_000), on_report))

    def close(self) -> None:
        pass


def carry_out(
    one: Phase, script: Script, *, workers: int = 2, numbers: ObjectNumbers | None = None
) -> tuple[PhaseOutcome, list[IntervalReport], list[Assignment]]:
    scripted, seen = ScriptedWorkers(script, workers), list[IntervalReport]()
    coordinator = Coordinator(SETTING, scripted, ResourceSampler([]))
    outcome = coordinator.run_phase(one, numbers or ObjectNumbers(7), {}, seen.append, Fill(123, 45))
    return outcome, seen, scripted.assignments


# ---- object numbers


@given(st.lists(st.integers(0, 1000), max_size=20))
def test_fresh_numbers_never_repeat(counts: list[int]) -> None:
    numbers = ObjectNumbers(7)
    given_out = [n for count in counts for n in range(*numbers.fresh(count))]
    assert len(given_out) == sum(counts) == len(set(given_out))


ranges = st.lists(st.tuples(st.integers(1, 20), st.integers(0, 9)), max_size=10)  # (length, gap before)


@given(ranges, ranges, st.integers(0, 300), st.integers(0, 2**62), st.integers(1, 200))
def test_sample_has_only_archived_objects_each_at_most_once(
    mine: list[tuple[int, int]], other: list[tuple[int, int]], count: int, seed: int, position: int
) -> None:
    numbers, archived, at = ObjectNumbers(seed), list[int](), 0
    for size, lengths in ((8192, mine), (65536, other)):
        for length, gap in lengths:
            first = at + gap
            at = first + length
            numbers.keep(Kept(size, first, at - 1))
            archived += range(first, at) if size == 8192 else ()
    sample = numbers.sample(8192, count, position).tolist()
    assert len(sample) == min(count, len(archived)) == len(set(sample))
    assert set(sample) <= set(archived)
    assert sample == numbers.sample(8192, count, position).tolist()  # the same seed gives the same order


def test_sample_order_is_random_and_depends_on_seed_and_phase() -> None:
    def sample(seed: int, position: int) -> list[int]:
        numbers = ObjectNumbers(seed)
        numbers.keep(Kept(8192, 0, 499))
        numbers.keep(Kept(8192, 1000, 1499))
        return [int(n) for n in numbers.sample(8192, 1000, position)]

    first = sample(7, 1)
    assert first == sample(7, 1)
    assert first != sample(7, 2)
    assert first != sample(8, 1)
    assert first != sorted(first)
    assert sorted(first) == [*range(500), *range(1000, 1500)]
    assert np.count_nonzero(np.diff(first) == 1) < 20  # neighbours rarely follow each other


# ---- shares


@pytest.mark.parametrize(("workers", "clients", "spread"), [(1, 4, [4]), (2, 3, [2, 1]), (4, 2, [1, 1]), (8, 1, [1])])
def test_clients_are_spread_over_the_workers(workers: int, clients: int, spread: list[int]) -> None:
    _, _, assignments = carry_out(phase(clients=clients), lambda *_: [], workers=workers)
    assert [len(a.clients) for a in assignments] == spread
    assert sorted(c.client for a in assignments for c in a.clients) == list(range(clients))


@pytest.mark.parametrize("clients", [1, 2, 4])
def test_every_client_archives_distinct_numbers_within_the_bound(clients: int) -> None:
    one = phase(clients=clients)
    _, _, assignments = carry_out(one, lambda *_: [])
    shares = [c.numbers for a in assignments for c in a.clients]
    all_numbers = [n for share in shares for n in range(*share)]
    assert len(all_numbers) == len(set(all_numbers)) == one.archived_max()[0]


def test_every_client_retrieves_distinct_archived_objects() -> None:
    numbers = ObjectNumbers(7)
    numbers.keep(Kept(1000, 100, 149))
    numbers.keep(Kept(2000, 0, 99))
    _, _, assignments = carry_out(phase(operation="retrieve"), lambda *_: [], numbers=numbers)
    shares = [[int(n) for n in c.numbers] for a in assignments for c in a.clients]
    assert [len(share) for share in shares] == [12, 12, 12, 12]  # 50 is not divisible by 4
    flat = [n for share in shares for n in share]
    assert len(set(flat)) == 48
    assert set(flat) <= set(range(100, 150))


# ---- results


def several_clients(_: Sequence[Assignment], start_ns: int, tell: OnReport) -> list[PhaseReport]:
    """Report two workers with two clients each, measured in intervals 2 to 9."""
    for objects in (10, 30):
        tell(report_of({
            (1, "warm-up"): Tally(sessions=1, objects=7, bytes=7000, attempts=7),
            (2, "measured"): Tally(sessions=2, objects=objects, bytes=objects * 1000, attempts=objects + 1),
            (9, "measured"): Tally(sessions=1, objects=5, bytes=5000, attempts=5),
            (10, "drain"): Tally(sessions=1, objects=100, bytes=100_000, attempts=100),
        }))  # fmt: skip
    return [two_clients(start_ns, 2, 10), two_clients(start_ns, 2, 10)]


def two_clients(start_ns: int, from_interval: float, to_interval: float, **more: Any) -> PhaseReport:
    """Return the last report of a worker whose two clients were measured between these intervals."""
    both_ns = int(2 * (to_interval - from_interval) * INTERVAL_NS)
    ended_ns = more.pop("ended_ns", start_ns + int(to_interval * INTERVAL_NS))
    only = stage(start_ns, 0, from_interval, to_interval, client_ns=both_ns, ended_ns=ended_ns, **more)
    return ends(start_ns, from_interval, to_interval, stages=(only,))


def test_rate_of_several_clients_excludes_work_after_measured_time() -> None:
    """Fault F11: work after the measured time of a client counts neither as work nor as time."""
    outcome, _, _ = carry_out(phase(), several_clients)
    (result,) = outcome.results
    assert result.seconds == pytest.approx(8 * INTERVAL_NS / 1e9)
    assert (result.sessions, result.objects, result.bytes, result.attempts) == (6, 50, 50_000, 52)
    assert result.objects_per_second == pytest.approx(25.0)
    assert result.megabytes_per_second == pytest.approx(0.025)
    assert result.mebibytes_per_second == pytest.approx(25_000 / 2**20)
    assert (result.warm_up_objects, result.drained_objects, result.errors) == (14, 200, 0)
    # Most intervals have no ended session: the rate is uneven rather than moving, so it is hardly known at all.
    assert result.steadiness == "steady"
    assert result.rate_half_width is not None
    assert result.rate_half_width > 1
    assert (result.store_bytes_before, result.archived_bytes_before) == (123, 45)


def test_intervals_are_marked_warm_up_measured_or_drain() -> None:
    outcome, _, _ = carry_out(phase(), several_clients)
    assert [(row.interval, row.part, row.objects) for row in outcome.intervals] == [
        (1, "warm-up", 14), (2, "measured", 40), (9, "measured", 10), (10, "drain", 200),
    ]  # fmt: skip


def test_every_worker_report_is_passed_on() -> None:
    _, seen, _ = carry_out(phase(), several_clients)
    assert len(seen) == 2


def test_errors_outside_the_measured_time_are_counted() -> None:
    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(
            report_of(
                {(0, "warm-up"): Tally(errors=2), (3, "measured"): Tally(errors=3), (50, "drain"): Tally(errors=4)}
            )
        )
        return [ends(start_ns, 2, 10)]

    (result,) = carry_out(phase(), script)[0].results
    assert (result.errors, result.objects, result.objects_per_second) == (9, 0, 0.0)


def test_clients_are_weighted_by_their_measured_time() -> None:
    """Two clients do 10 objects a second for 2 s, and two others do 30 for 0.5 s."""

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(report_of({(2, "measured"): Tally(objects=2 * 20 + 2 * 15)}))
        return [two_clients(start_ns, 2, 10), two_clients(start_ns, 3, 5, ended_early=True)]

    (result,) = carry_out(phase(), script)[0].results
    assert result.seconds == pytest.approx((2 * 2.0 + 2 * 0.5) / 4)
    assert result.objects_per_second == pytest.approx(4 * 70 / 5.0)
    assert not result.settled


def sessions_of(milliseconds: Sequence[float], count: int) -> dict[tuple[int, PartOfPhase], Tally]:
    """Return the tallies of intervals 2 and on. In each, ``count`` sessions end that took this time."""
    tallies: dict[tuple[int, PartOfPhase], Tally] = {}
    for interval, each in enumerate(milliseconds, 2):
        histogram = Histogram()
        histogram.add(part_of(np.full(count, each * 1e6, dtype=np.int64)))
        tallies[interval, "measured"] = Tally(count, count, histograms={"session_service": histogram})
    return tallies


@pytest.mark.parametrize(
    ("milliseconds", "settled"),
    [
        ([200] * 10, True),
        ([199, 201] * 5, True),
        ([150, 250] * 5, False),  # not precise within 5%
        ([180] * 5 + [220] * 5, False),  # a change in the middle: the batch means are not independent
        ([2000] * 10, False),  # a session takes nearly as long as the measured time
    ],
)
def test_several_clients_are_settled_if_their_mean_session_time_is_precise(
    milliseconds: list[float], settled: bool
) -> None:
    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(report_of(sessions_of(milliseconds, 8)))
        return [two_clients(start_ns, 2, 12), two_clients(start_ns, 2, 12)]

    (result,) = carry_out(phase(), script)[0].results
    assert result.settled is settled
    assert (result.session_half_width is not None and result.session_half_width <= 0.05) is settled


def test_shares_exhausted_in_warm_up_give_result_over_the_whole_phase() -> None:
    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(report_of({(0, "warm-up"): Tally(objects=10), (1, "warm-up"): Tally(objects=10)}))
        ended_ns = start_ns + int(1.75 * INTERVAL_NS)
        return [
            two_clients(start_ns, 2, 2, ended_ns=start_ns + INTERVAL_NS),
            two_clients(start_ns, 2, 2, ended_ns=ended_ns),
        ]

    (result,) = carry_out(phase(), script)[0].results
    assert (result.objects, result.warm_up_objects, result.settled) == (20, 0, False)
    # Measured from the start to the end of the last client, not to the end of its interval.
    assert result.seconds == pytest.approx(1.75 * INTERVAL_NS / 1e9)
    assert result.objects_per_second == pytest.approx(20 / 0.4375)


def test_one_client_is_measured_from_first_open_to_last_close() -> None:
    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(
            report_of(
                {
                    (0, "warm-up"): Tally(objects=5),
                    (0, "measured"): Tally(objects=5),
                    (9, "measured"): Tally(objects=15),
                }
            )
        )
        return [ends(start_ns, 0.4, 10.4, settled=False)]

    (result,) = carry_out(phase(clients=1), script)[0].results
    assert (result.objects, result.warm_up_objects, result.drained_objects, result.settled) == (20, 5, 0, False)
    assert result.seconds == pytest.approx(2.5)
    assert result.objects_per_second == pytest.approx(8.0)


@pytest.mark.parametrize("clients", [1, 4])
def test_phase_without_measured_work_has_zero_rate(clients: int) -> None:
    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(report_of({(0, "warm-up"): Tally(errors=3)}))
        never_measured = StageReport(0, 0, 0, 0, ended_early=True)
        problem = "3 sessions in a row completed no object"
        return [PhaseReport(0, [CpuSample(0, 0.0, 0.0)], Histogram(), problem, (never_measured,))]

    outcome, _, _ = carry_out(phase(clients=clients), script)
    (result,) = outcome.results
    assert (result.objects, result.objects_per_second, result.errors, result.settled) == (0, 0.0, 3, False)
    assert outcome.gave_up == "3 sessions in a row completed no object"


def test_percentiles_cover_all_workers_in_measured_time() -> None:
    def tally(milliseconds: int, count: int) -> Tally:
        values = np.full(count, milliseconds * 10**6, dtype=np.int64)
        histogram = Histogram()
        histogram.add(part_of(values))
        return Tally(objects=count, histograms={"object_service": histogram})

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(report_of({(1, "warm-up"): tally(9000, 500), (3, "measured"): tally(1, 98)}))
        tell(report_of({(4, "measured"): tally(100, 2), (20, "drain"): tally(9000, 500)}))
        return [ends(start_ns, 2, 10), ends(start_ns, 2, 10)]

    outcome, _, _ = carry_out(phase(), script)
    latency = outcome.results[0].object_service_ms
    assert latency is not None
    assert latency.count == 100
    assert latency.p90 == pytest.approx(1, rel=1e-3)
    assert latency.p99 == pytest.approx(100, rel=1e-3)
    assert latency.max == 100
    assert [(row.quantity, row.total_ns) for row in outcome.histograms] == [("object_service", 298 * 10**6)]


def test_archived_ranges_of_all_workers_are_joined() -> None:
    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        for ranges in (((5, 9), (20, 20)), ((0, 4), (30, 31)), ((21, 25),)):
            tell(IntervalReport({}, [Change(0, "archive", 1000, first, last) for first, last in ranges], []))
        return [ends(start_ns, 2, 10)]

    outcome, _, _ = carry_out(phase(), script)
    assert outcome.archived == [(1000, 0, 9, "", 0), (1000, 20, 25, "", 0), (1000, 30, 31, "", 0)]
    assert [each.objects for each in outcome.archived] == [10, 6, 2]


def test_errors_of_one_kind_are_summed_with_the_first_message() -> None:
    def error(operation: str, reason: str, count: int, message: str, unknown: int = 0) -> ErrorKind:
        return ErrorKind(operation, reason, count, message, "req-1", "object-1", unknown)

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(report_of({}, [error("archive", "403 AccessDenied", 2, "first")]))
        tell(
            report_of(
                {}, [error("archive", "403 AccessDenied", 3, "second"), error("archive", "read timeout", 1, "", 1)]
            )
        )
        tell(report_of({}, [error("open", "connect failed", 4, "refused")]))
        return [ends(start_ns, 2, 10)]

    outcome, _, _ = carry_out(phase(), script)
    assert [(e.operation, e.reason, e.count, e.message) for e in outcome.errors] == [
        ("archive", "403 AccessDenied", 5, "first"),
        ("archive", "read timeout", 1, ""),
        ("open", "connect failed", 4, "refused"),
    ]
    assert outcome.results[0].first_errors == tuple(outcome.errors)
    assert outcome.unknown_objects() == 1  # after a timeout the object may exist; after a refusal it does not


def test_unknown_objects_are_counted_from_backend_and_not_from_reason() -> None:
    def error(operation: str, reason: str, count: int, unknown: int) -> ErrorKind:
        return ErrorKind(operation, reason, count, "", "", "", unknown)

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell(report_of({}, [error("archive", "-50 TCPIP_FAILURE", 7, 5), error("archive", "2 NO_MATCH", 3, 0)]))
        tell(report_of({}, [error("archive", "-50 TCPIP_FAILURE", 2, 2), error("retrieve", "-50 X", 9, 9)]))
        return [ends(start_ns, 2, 10)]

    assert carry_out(phase(), script)[0].unknown_objects() == 7


@pytest.mark.parametrize(
    ("operation", "limit", "objects_per_session", "together"),
    [("archive", None, 5, None), ("archive", 2, 5, 2), ("archive", 4096, 5, 5), ("retrieve", 4096, 5, None)],
)
def test_result_has_number_of_objects_per_transaction(
    operation: OperationName, limit: int | None, objects_per_session: int, together: int | None
) -> None:
    setting = replace(SETTING, objects_per_transaction_max=limit)
    scripted = ScriptedWorkers(lambda *_: [])
    coordinator = Coordinator(setting, scripted, ResourceSampler([]))
    outcome = coordinator.run_phase(phase(operation=operation), ObjectNumbers(7), {}, lambda _: None, Fill(0, 0))
    assert outcome.phase.workloads[0].objects_per_session == objects_per_session
    assert outcome.results[0].objects_per_transaction == together


@pytest.mark.parametrize(("operation", "temperature"), [("archive", None), ("retrieve", "unknown")])
def test_cache_state_of_retrieve_is_unknown_at_first(operation: OperationName, temperature: str | None) -> None:
    outcome, _, _ = carry_out(phase(operation=operation), lambda *_: [])
    assert outcome.results[0].temperature == temperature


def test_client_cpu_time_is_summed_over_all_workers() -> None:
    outcome, _, _ = carry_out(phase(), several_clients)
    client = outcome.results[0].client
    assert client.cpu_percent == pytest.approx(25.0)  # two workers
    assert client.busiest_worker_percent == pytest.approx(25.0)  # one worker, on a core and waiting for one
    assert client.cpu_microseconds_per_object == pytest.approx(10_000)


def test_ceiling_is_set_only_in_result_of_its_workload() -> None:
    one = mixed_phase(
        mix_of("retrieve", planned_seconds=2.0), mix_of("retrieve", "e", planned_seconds=2.0), mix_of("archive")
    )

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        tell_all(tell, {(workload, 3): Tally(sessions=1, objects=10, bytes=100) for workload in range(3)})
        return [ends(start_ns, 0, 8, stages=tuple(stage(start_ns, workload, 0, 8) for workload in range(3)))]

    def results(**ceilings: ClientCeiling) -> list[Result]:
        coordinator = Coordinator(SETTING, ScriptedWorkers(script), ResourceSampler([]))
        return coordinator.run_phase(one, ObjectNumbers(7), {}, lambda _: None, Fill(), 0.0, ceilings).results

    before = results()
    after = results(w0=ClientCeiling("null sessions", 20.0), w1=ClientCeiling("null sessions", 0.0))
    assert [result.ceiling for result in before] == [None] * 3
    assert [result.ceiling for result in after] == [Ceiling("null sessions", 20.0, 0.25), None, None]
    assert [replace(result, ceiling=None) for result in after] == before


# ---- concurrent workloads, each in its own time


def mixed_phase(*mixes: Mix) -> Phase:
    workloads = tuple(Workload(f"w{index}", mix, clients=2, application=f"w{index}") for index, mix in enumerate(mixes))
    return Phase("mix", 1, 1, workloads, scale=3.0, scale_name="tiles")


def mix_of(operation: OperationName, data: str = "d", **more: Any) -> Mix:
    return Mix((Transaction((operation,), 1),), data, Sizes.constant(1000), **more)


def tell_all(tell: OnReport, tallies: dict[tuple[int, int], Tally]) -> None:
    """Report tallies by (workload, interval)."""
    tell(IntervalReport({TallyKey(interval, w, "measured"): tally for (w, interval), tally in tallies.items()}, [], []))


def times_of(milliseconds: int, count: int = 1) -> dict[str, Histogram]:
    histogram = Histogram()
    histogram.add(part_of(np.full(count, milliseconds * 10**6, dtype=np.int64)))
    return {"session": histogram, "object": histogram}


@pytest.fixture(params=[merging.PACK_AT, 1], ids=["kept as they are", "packed"])
def packed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing the tallies of long phases must not change any result."""
    monkeypatch.setattr(merging, "PACK_AT", request.param)


@pytest.mark.usefixtures("packed")
def test_each_workload_is_measured_in_its_own_time() -> None:
    one = mixed_phase(
        mix_of("archive", objects=50),
        mix_of("retrieve", planned_seconds=2.0),
        mix_of("retrieve", "e", planned_seconds=1.0),
    )

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        for workload in range(3):
            tell_all(tell, {(workload, interval): Tally(sessions=1, objects=10) for interval in range(10)})
        first = (stage(start_ns, 0, 0.5, 9.5), stage(start_ns, 1, 2, 8), stage(start_ns, 2, 4, 8))
        other = (stage(start_ns, 0, 0.5, 7.5), stage(start_ns, 1, 2.5, 8), stage(start_ns, 2, 4, 6.5, ended_early=True))
        return [ends(start_ns, 0, 10, stages=first), ends(start_ns, 0, 10, stages=other)]

    outcome, _, _ = carry_out(one, script)
    all_it_took, window, ended_early = outcome.results
    # Without a time limit: all work, from the begin of the first worker to the end of the last.
    assert all_it_took.objects == 100
    assert all_it_took.seconds == pytest.approx(9 * 0.25)
    # With a time limit: whole intervals that all workers measured.
    assert (window.objects, window.warm_up_objects, window.drained_objects) == (50, 30, 20)
    assert window.seconds == pytest.approx(1.25)
    assert window.begins_seconds == pytest.approx(0.75)
    # With an archive limit: until the first worker used up its limit.
    assert (ended_early.objects, ended_early.ended_early) == (20, True)
    assert ended_early.seconds == pytest.approx(0.5)
    assert not window.ended_early
    assert {result.scale for result in outcome.results} == {3.0}
    assert {result.steadiness for result in outcome.results} == {""}
    assert [(r.interval, r.part) for r in outcome.intervals if r.workload == "w2" and 2 < r.interval < 7] == [
        (3, "warm-up"), (4, "measured"), (5, "measured"), (6, "drain"),
    ]  # fmt: skip
    assert outcome.times.measured_from_ns == outcome.times.start_ns + INTERVAL_NS // 2


@pytest.mark.usefixtures("packed")
def test_late_open_loop_work_counts_in_latency_but_not_in_rates() -> None:
    """Otherwise a stall at the end would not show in any result."""
    arrivals = Arrivals("constant", 10.0)
    one = mixed_phase(
        mix_of("retrieve", planned_seconds=1.0, arrivals=arrivals), mix_of("retrieve", planned_seconds=1.0)
    )

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        for workload in range(2):
            tell_all(tell, {
                (workload, 1): Tally(sessions=8, objects=8, bytes=80, attempts=8, histograms=times_of(1, 8)),
                (workload, 9): Tally(
                    sessions=2, objects=2, bytes=20, attempts=2, errors=1, missed_deadlines=2,
                    histograms=times_of(2000, 2)
                ),
            })  # fmt: skip
        stages = (
            stage(start_ns, 0, 0, 4, due=10, started=9, waited=2, dropped=1, backlog_max=2),
            stage(start_ns, 1, 0, 4),
        )
        return [ends(start_ns, 0, 10, stages=stages)]

    open_loop, closed_loop = carry_out(one, script, workers=1)[0].results
    for result, count, missed in ((open_loop, 10, 2), (closed_loop, 8, 0)):
        assert (result.sessions, result.objects, result.drained_objects) == (8, 8, 2)
        assert result.objects_per_second == pytest.approx(8.0)
        assert result.session_ms is not None
        assert result.session_ms.count == count
        assert result.missed_deadlines == missed
        assert result.errors == 1
    assert open_loop.session_ms is not None
    assert open_loop.session_ms.p99 == pytest.approx(2000, rel=1e-3)
    offered = open_loop.offered
    assert offered is not None
    assert (offered.sessions, offered.started, offered.waited, offered.dropped, offered.backlog_max) == (10, 9, 2, 1, 2)
    assert offered.sessions_per_second == pytest.approx(10.0)
    assert open_loop.offered_per_second == pytest.approx(10.0)
    assert open_loop.achieved_per_second == pytest.approx(8.0)  # sessions
    assert closed_loop.offered is None


def test_offered_counts_of_workers_are_summed() -> None:
    one = mixed_phase(mix_of("retrieve", planned_seconds=1.0, arrivals=Arrivals("constant", 10.0)))

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        return [
            ends(start_ns, 0, 4, stages=(
                stage(start_ns, 0, 0, 4, due=10, started=8, waited=3, dropped=2, backlog_max=peak, steps_left_out=1),
            ))
            for peak in (2, 5)
        ]  # fmt: skip

    (result,) = carry_out(one, script)[0].results
    assert result.offered is not None
    assert (result.offered.sessions, result.offered.started, result.offered.dropped) == (20, 16, 4)
    assert (result.offered.waited, result.offered.backlog_max) == (6, 5)
    assert result.steps_left_out == 2


def test_archived_ranges_have_their_data_set_and_workload() -> None:
    aside = Aside("log", "logs", Sizes.constant(9), 1.0)
    one = mixed_phase(
        mix_of("archive", "mail", planned_seconds=1.0, bytes_max=10**6, aside=aside), mix_of("archive", "web")
    )

    def script(_: object, start_ns: int, tell: OnReport) -> list[PhaseReport]:
        for changed in (
            [Change(0, "archive", 1000, 0, 4), Change(1, "archive", 1000, 20, 29), Change(0, "delete", 1000, 2, 3)],
            [Change(0, "archive", 1000, 5, 9), Change(0, "archive", 9, 10, 12, True), Change(0, "copy", 7, 15, 16)],
        ):
            tell(IntervalReport({}, changed, []))
        return [ends(start_ns, 0, 4, stages=(stage(start_ns, 0, 0, 4), stage(start_ns, 1, 0, 4)))]

    outcome, _, _ = carry_out(one, script)
    assert outcome.archived == [(9, 10, 12, "logs", 0), (1000, 0, 9, "mail", 0), (1000, 20, 29, "web", 1)]
    assert outcome.changed == [("delete", 1000, 2, 3), ("copy", 7, 15, 16)]
    assert outcome.copied([0]) == (2, 14)
    assert outcome.copied([1]) == (0, 0)
