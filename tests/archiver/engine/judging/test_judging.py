"""Test criteria that are judged at the end of a phase and while it runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.engine.judging.criteria import Watch, judge, measure
from archiver.measure.histogram import Histogram, part_of
from archiver.measure.reports import INTERVAL_NS, IntervalReport, PartTally, Tally, TallyKey
from archiver.values.metrics import METRICS, STATISTICS
from results.measures.metrics import MEASURED_METRICS
from results.recorded.model import (
    Ceiling,
    ClientUsage,
    CriterionResult,
    InfrastructureResult,
    Latency,
    Offered,
    PartResult,
    Replayed,
    Result,
)
from scenarios.criteria import read_criterion
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.notation.units import SizeBytes
from scenarios.work.infrastructure import InfrastructureTable, infrastructure
from scenarios.work.mix import Arrivals, Aside, Mix, Transaction
from scenarios.work.replay import Replay
from tests.support.examples import share_of

LOG = Aside("log", "logs", Sizes.constant(5700), 0.227)
# Measured from second 2 to 42 of the phase: intervals 8 to 167.
MAIL = Mix(
    (Transaction(("retrieve",), 0.6), Transaction(("archive",), 0.4)), "mail", Sizes.constant(8192), aside=LOG,
    starts_seconds=1.0, planned_warm_up_seconds=1.0, planned_seconds=41.0, bytes_max=1 << 30,
)  # fmt: skip
CAMERA = Mix(
    (Transaction(("archive",), 1.0),), "film", Sizes.constant(1 << 20),
    arrivals=Arrivals("constant", 2.0), deadline_seconds=1.0, planned_seconds=40.0,
)  # fmt: skip
NIGHT = Mix((Transaction(("archive",), 1.0),), "mail", Sizes.constant(8192), objects=1000)


def times(milliseconds: float, count: int = 1000) -> Latency:
    return Latency(count, *(milliseconds * factor for factor in (1, 0.9, 1.1, 2, 5, 8, 10)))


def phase_of(*workloads: Workload, is_load: bool = False, measures_ceiling: bool = False) -> Phase:
    return Phase(
        "tiles", 7, 1, workloads, scale=2, scale_name="tiles", is_load=is_load, measures_ceiling=measures_ceiling
    )


def workload(application: str, mix: Mix, copy: int | None = None) -> Workload:
    name = f"tile {copy} {application}" if copy is not None else application
    return Workload(name, mix, clients=4, application=application, copy=copy)


def result(name: str, **changes: Any) -> Result:
    plain: dict[str, Any] = {
        "phase": "tiles", "workload": name, "operation": "mixed", "object_bytes": 8192, "objects_per_session": 1,
        "clients": 4, "repetition": 1, "position": 7, "session_kind": "opened", "session_open": "none",
        "temperature": None, "checksum": "crc64nvme", "payload_signing": False, "retention_mode": "GOVERNANCE",
        "legal_hold": False, "verified": "all", "sessions": 500, "objects": 1000, "bytes": 8_192_000, "attempts": 1000,
        "errors": 0, "refusals": 0, "seconds": 40.0, "warm_up_objects": 0, "drained_objects": 0,
        "store_bytes_before": None, "archived_bytes_before": 0, "objects_per_second": 25.0,
        "megabytes_per_second": 0.2048, "mebibytes_per_second": 0.195, "session_service_ms": times(3),
        "session_ms": times(4), "session_open_ms": None, "session_close_ms": None,
        "object_service_ms": times(1), "object_ms": times(2), "first_byte_ms": times(0.5), "server": None,
        "client": ClientUsage(35.0, 20.0, 100.0, 0.7), "limited_by": None, "settled": True, "unsteady": None,
    }  # fmt: skip
    return Result(**plain | changes)


def part(name: str, **changes: Any) -> PartResult:
    return replace(PartResult(name, name, 227, 2270, 227, 1, 3, 5.7, 0.1, times(6), times(7), times(8)), **changes)


REPLAY = Replay("mail.parquet", None, None, 0, 1.0, 0.0, 0.01, None, 1.0)
CLONES = infrastructure(
    InfrastructureTable(kind="clone and deploy", capacity=SizeBytes(10 << 20), minimum_per_hour=6.0), "", 1.0, 60.0
)
OFFERED = Offered(80, 2.0, 78, 6, 4, 6, times(0.2, count=70))
RECORDED = result(
    "camera", sessions=76, parts=(), offered=OFFERED, session_start_ms=times(9), deadline_seconds=1.0,
    missed_deadlines=2, ceiling=Ceiling("null", 100.0, 0.25),
    replayed=Replayed(
        "mail", "capture", "ab", False, 1.0, 4, 1000, 1000, 10, (), 0, 1.0, 39.0, 40.0, 40.25, times(0.2), 10.0, ""
    ),
    infrastructure=InfrastructureResult("clone and deploy", 7, 0, 3600.0, 6.0, 300.0, 10, 1000, ()),
)  # fmt: skip


def measured(text: str, of: Result = RECORDED, operation: str | None = None) -> float | None:
    return measure(read_criterion(text, operation=operation), of)


def test_every_scenario_metric_can_be_measured() -> None:
    assert set(METRICS) == MEASURED_METRICS
    for name, metric in METRICS.items():
        left = f"{name}.mean" if metric.has_statistics else name
        assert measured(f"{left} >= 0") is not None


@pytest.mark.parametrize(
    ("left", "value"),
    [
        ("object_ms.mean", 2), ("object_service_ms.mean", 1), ("first_byte_ms.mean", 0.5), ("session_ms.mean", 4),
        ("session_service_ms.mean", 3), ("session_start_ms.mean", 9), ("lateness_ms.mean", 0.2), ("errors", 0),
        ("missed_deadlines", 2), ("objects_per_second", 25), ("sessions_per_second", 1.9),
        ("megabytes_per_second", 0.2048), ("achieved_over_offered", 0.95), ("dropped", 4), ("waited_share", 0.125),
        ("seconds", 40), ("share_of_ceiling", 0.25), ("client_cpu_percent", 35), ("replay_margin_seconds", 0.25),
        ("infrastructure_ratio", 7 / 6),
    ],
)  # fmt: skip
def test_each_metric_has_its_expected_value(left: str, value: float) -> None:
    assert measured(f"{left} >= 0") == pytest.approx(value)


def test_criterion_statistics_are_taken_from_the_latency() -> None:
    values = [measured(f"object_ms.{statistic} >= 0") for statistic in STATISTICS]
    assert values == pytest.approx([2, 1.8, 2.2, 4, 10, 16, 20])


def test_closed_loop_lateness_is_taken_from_client_usage() -> None:
    assert measured("lateness_ms.p99 <= 2", result("e-mail")) == 0.7


def test_part_has_separate_values_and_single_part_equals_workload() -> None:
    mail = result("e-mail", parts=(part("archive"), part("log", objects=100, errors=4)))
    assert measured("object_ms.mean <= 5", mail, "log") == 7
    assert measured("errors == 0", mail, "log") == 4
    assert measured("objects_per_second > 0", mail, "log") == 5.7
    assert measured("object_ms.mean <= 5", mail, "retrieve") is None  # no retrieve was done
    assert measured("object_ms.mean <= 5", result("scan"), "retrieve") == 2


NOTHING = result(
    "camera", sessions=0, objects=0, attempts=0, objects_per_second=0.0, megabytes_per_second=0.0,
    **dict.fromkeys(("session_service_ms", "session_ms", "object_service_ms", "object_ms")),
    first_byte_ms=None, offered=Offered(0, 0.0, 0, 0, 0, 0, None), deadline_seconds=1.0,
    ceiling=Ceiling("null", 100.0, 0.0),
)  # fmt: skip


@pytest.mark.parametrize("name", METRICS)
def test_unmeasured_metric_has_no_value_and_fails_its_criterion(name: str) -> None:
    left = f"{name}.mean" if METRICS[name].has_statistics else name
    camera = workload("camera", CAMERA)
    if METRICS[name].needs == "replay":
        camera = replace(camera, work=REPLAY)
    if METRICS[name].needs == "infrastructure":
        camera = replace(camera, work=CLONES)
    phase = phase_of(camera, measures_ceiling=True)
    (judged,) = judge([read_criterion(f"{left} <= 1e9")], phase, [NOTHING])
    assert (judged.measured, judged.passed) == (None, False)


def test_failures_are_judged_if_no_object_was_done() -> None:
    assert measured("errors == 0", replace(NOTHING, errors=3)) == 3
    assert measured("missed_deadlines == 0", replace(NOTHING, missed_deadlines=3)) == 3
    assert measured("achieved_over_offered >= 0.99", replace(NOTHING, offered=OFFERED)) == 0
    assert measured("waited_share <= 0.1", replace(NOTHING, offered=replace(OFFERED, lateness_ms=None))) == 1


def test_every_workload_matched_by_a_criterion_is_judged_separately() -> None:
    phase = phase_of(workload("e-mail", MAIL, 1), workload("e-mail", MAIL, 2), workload("camera", CAMERA))
    results = [
        result("tile 1 e-mail", object_ms=times(20)),
        result("tile 2 e-mail", object_ms=times(20.1)),
        RECORDED,
    ]
    criteria = [
        read_criterion("object_ms.mean <= 20", workload="e-mail"),
        read_criterion("errors == 0"),
        read_criterion("achieved_over_offered >= 0.99"),
    ]
    judged = judge(criteria, phase, results)
    assert [(each.name, each.workload, each.passed) for each in judged] == [
        ("object_ms.mean <= 20", "tile 1 e-mail", True),
        ("object_ms.mean <= 20", "tile 2 e-mail", False),
        ("errors == 0", "tile 1 e-mail", True),
        ("errors == 0", "tile 2 e-mail", True),
        ("errors == 0", "camera", True),
        ("achieved_over_offered >= 0.99", "camera", False),
    ]
    assert judged[1] == CriterionResult("object_ms.mean <= 20", "tile 2 e-mail", 7, 20, 20.1, False, 2)
    assert judge(criteria, replace(phase, is_load=True), results) == []


def test_criterion_that_aborted_a_phase_keeps_its_result() -> None:
    phase = phase_of(workload("camera", CAMERA))
    broken = CriterionResult("object_ms.mean <= 1", "camera", 7, 1, 44.0, False, 2, aborted=True)
    criteria = [read_criterion("object_ms.mean <= 1", abort=True), read_criterion("errors == 0")]
    judged = judge(criteria, phase, [RECORDED], broken)
    assert judged[0] is broken
    assert [each.passed for each in judged] == [False, True]


# Judged while the phase runs


def histogram(milliseconds: float, count: int) -> Histogram:
    merged = Histogram()
    merged.add(part_of(np.full(count, round(milliseconds * 1e6), dtype=np.int64)))
    return merged


def tally(count: int, milliseconds: float, **changes: Any) -> Tally:
    return Tally(count, count, count, count, histograms={"object": histogram(milliseconds, count)}, **changes)


def report(intervals: dict[int, Tally], warm_up: bool = False, index: int = 0) -> IntervalReport:
    return IntervalReport(
        {TallyKey(at, index, "warm-up" if warm_up else "measured"): each for at, each in intervals.items()}, [], []
    )


def watch(text: str, *workloads: Workload, operation: str | None = None) -> Watch:
    criterion = read_criterion(text, operation=operation, abort=True)
    return Watch([criterion], phase_of(*(workloads or (workload("e-mail", MAIL),))))


def broken_at(watching: Watch, each: Tally, intervals: range) -> tuple[int, CriterionResult] | None:
    """Return the interval in which the watch is broken, if every interval has the same tally."""
    for interval in intervals:
        watching.take(report({interval: each}))
        broken = watching.broken()
        if broken is not None:
            return interval, broken
    return None


def test_error_breaks_criterion_at_once_in_warm_up_and_after_end() -> None:
    for interval, warm_up in ((5, True), (8, False), (170, False)):
        watching = watch("errors == 0")
        watching.take(report({interval: tally(3, 1.0)}, warm_up))
        assert watching.broken() is None
        watching.take(report({interval: tally(3, 1.0, errors=2)}, warm_up))
        assert watching.broken() == CriterionResult("errors == 0", "e-mail", 7, 0, 2, False, 2, aborted=True)


def test_first_broken_criterion_is_kept_while_the_phase_ends() -> None:
    criteria = [read_criterion(text, abort=True) for text in ("object_ms.max <= 20", "errors == 0")]
    watching = Watch(criteria, phase_of(workload("e-mail", MAIL)))
    watching.take(report({8: tally(3, 1.0, errors=1)}))
    first = watching.broken()
    watching.take(report({9: tally(3, 900.0, errors=5)}))
    assert watching.broken() == first == CriterionResult("errors == 0", "e-mail", 7, 0, 1, False, 2, aborted=True)


def test_criterion_without_abort_does_not_end_the_phase() -> None:
    watching = Watch([read_criterion("errors == 0")], phase_of(workload("e-mail", MAIL)))
    watching.take(report({8: tally(3, 1.0, errors=2)}))
    assert watching.broken() is None


def test_abort_criterion_does_not_end_a_load_phase() -> None:
    watching = Watch([read_criterion("errors == 0", abort=True)], phase_of(workload("e-mail", MAIL), is_load=True))
    watching.take(report({8: tally(3, 1.0, errors=2)}))
    assert watching.broken() is None


def test_missed_deadlines_and_maximum_break_at_once_except_in_warm_up() -> None:
    for text in ("missed_deadlines <= 1", "object_ms.max < 500"):
        watching = watch(text, workload("camera", CAMERA))
        late = tally(2, 500.0, missed_deadlines=2)
        watching.take(report({0: late}, warm_up=True))
        assert watching.broken() is None
        watching.take(report({1: late}))
        assert watching.broken() is not None


def test_late_objects_after_measured_time_count_only_in_open_loop() -> None:
    late = tally(1, 900.0)
    closed, open_loop = watch("object_ms.max <= 500"), watch("object_ms.max <= 500", workload("camera", CAMERA))
    for watching in (closed, open_loop):
        watching.take(report({168: late}))
    assert closed.broken() is None
    assert open_loop.broken() is not None
    closed.take(report({167: late}))
    assert closed.broken() is not None


def test_criterion_on_a_part_watches_only_that_part() -> None:
    watching = watch("object_ms.max <= 5", operation="log")
    watching.take(report({8: tally(9, 50.0, parts={"retrieve": PartTally("retrieve", 9, errors=1)})}))
    assert watching.broken() is None
    log = PartTally("archive", 9, histograms={"object": histogram(6.0, 9)})
    watching.take(report({9: tally(9, 50.0, parts={"log": log})}))
    broken = watching.broken()
    assert broken is not None
    assert (broken.name, broken.measured) == ("object_ms.max <= 5 (log)", 6.0)


def test_broken_criterion_names_its_workload() -> None:
    watching = watch("errors == 0", workload("e-mail", MAIL, 1), workload("e-mail", MAIL, 2))
    watching.take(report({8: tally(3, 1.0, errors=1)}, index=1))
    broken = watching.broken()
    assert broken is not None
    assert broken.workload == "tile 2 e-mail"


@pytest.mark.parametrize(
    ("text", "milliseconds", "seconds"),
    [
        ("object_ms.mean <= 20", 200.0, 5),  # 4 s, a tenth of the time, is too early
        ("object_ms.mean <= 20", 80.0, 10),
        ("object_ms.mean <= 20", 40.0, 20),
        ("object_ms.mean <= 20", 20.0, None),
        ("object_ms.mean < 20", 20.0, None),
        ("object_ms.p70 <= 20", 21.0, 12),  # 30% of all objects are above
        ("object_ms.p50 <= 20", 21.0, 20),
        ("object_ms.p99 <= 20", 1000.0, 5),
        ("object_ms.p70 <= 20", 20.0, None),
        ("object_ms.mean >= 20", 1.0, None),  # lower limits are judged only at the end
        ("session_ms.mean <= 20", 200.0, None),  # no session times were reported
    ],
)
def test_mean_or_percentile_breaks_once_it_can_no_longer_recover(
    text: str, milliseconds: float, seconds: float | None
) -> None:
    found = broken_at(watch(text), tally(20, milliseconds), range(8, 168))
    if seconds is None:
        assert found is None
    else:
        assert found is not None
        interval, broken = found
        assert broken.measured == pytest.approx(milliseconds, rel=1e-3)
        assert interval - 8 == pytest.approx(seconds * 1e9 / INTERVAL_NS, abs=1)


def test_mean_is_not_judged_below_100_objects() -> None:
    assert broken_at(watch("object_ms.mean <= 20"), tally(1, 1000.0), range(8, 107)) is None  # 99 objects
    found = broken_at(watch("object_ms.mean <= 20"), tally(1, 1000.0), range(8, 168))
    assert found is not None
    assert found[0] == 107


def test_without_known_end_only_growing_metrics_can_break() -> None:
    night = workload("mail", NIGHT)
    assert broken_at(watch("object_ms.mean <= 20", night), tally(20, 5000.0), range(400)) is None
    assert broken_at(watch("object_ms.max <= 20", night), tally(20, 5000.0), range(400)) is not None
    # A window of 30 s is exceeded when objects end over a longer time.
    found = broken_at(watch("seconds <= 30", night), tally(20, 1.0), range(3, 400))
    assert found is not None
    assert found[0] == 3 + 30 * 4 + 2
    assert found[1].measured == pytest.approx(30.25)
    assert broken_at(watch("seconds <= 30"), tally(20, 1.0), range(8, 168)) is None  # the workload has a fixed time


def test_workload_after_one_of_unknown_length_is_watched_only_for_errors() -> None:
    later = workload("check", replace(MAIL, waits_for="mail"))
    assert broken_at(watch("object_ms.max <= 20", workload("mail", NIGHT), later), tally(1, 9.0), range(400)) is None
    for text, breaks in (("object_ms.max <= 20", False), ("errors == 0", True)):
        watching = watch(text, workload("mail", NIGHT), later)
        watching.take(report({50: tally(3, 1000.0, errors=1)}, index=1))
        assert (watching.broken() is not None) == breaks


@settings(max_examples=share_of(40))
@given(
    st.lists(st.floats(min_value=0.1, max_value=400), min_size=40, max_size=40),
    st.sampled_from(STATISTICS),
    st.floats(min_value=0.05, max_value=100),
)
def test_criterion_broken_under_even_load_is_missed_at_the_end(
    milliseconds: list[float], statistic: str, limit: float
) -> None:
    criterion = read_criterion(f"object_ms.{statistic} <= {limit}", abort=True)
    watching = Watch([criterion], phase_of(workload("e-mail", MAIL)))
    merged = Histogram()
    broke = False
    for interval, each in zip(range(8, 168, 4), milliseconds, strict=True):
        merged.add(histogram(each, 20).part())
        watching.take(report({interval: tally(20, each)}))
        broke = broke or watching.broken() is not None
    latency = merged.latency()
    assert latency is not None
    assert not (broke and criterion.holds(getattr(latency, statistic)))
