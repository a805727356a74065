"""The verdict of a run: when it fails, when it is void, and the verdict of a search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from results.measures.verdict import (
    phases_verdict,
    unmeasured_because,
    verdict,
    void_because,
    void_positions,
    worst_first,
)
from results.recorded.model import (
    CriterionResult,
    FirstError,
    InfrastructureResult,
    Offered,
    PartResult,
    Result,
    SearchOutcome,
    SearchStep,
)
from tests.results.conftest import MakeResult

MET = CriterionResult("errors == 0", "archive", 1, 0.0, 0.0, True)
MISSED = CriterionResult("errors == 0", "archive", 2, 0.0, 3.0, False)
LOST = InfrastructureResult("storage migration", 1, 0, 10.0, 1.0, 5.0, 10, 100, ("an object has no hold",))


@pytest.mark.parametrize(
    ("criteria", "is_judged", "expected"),
    [([], False, "none"), ([], True, "pass"), ([MET], True, "pass"), ([MET, MISSED], True, "fail")],
)
def test_verdict_follows_from_criteria(
    make_result: MakeResult, criteria: list[CriterionResult], is_judged: bool, expected: str
) -> None:
    assert verdict([make_result()], criteria, None, is_judged=is_judged) == expected


@pytest.mark.parametrize("changes", [{"incomplete": "a worker was lost"}, {"infrastructure": LOST}])
def test_lost_worker_or_content_fails_run_without_criteria(make_result: MakeResult, changes: dict[str, Any]) -> None:
    assert verdict([make_result(), make_result(**changes)], [], None, is_judged=False) == "fail"


@pytest.mark.parametrize(
    ("limited_by", "expected"),
    [("client", "void"), ("host cpu", "void"), ("shared cpu", "fail"), ("server cpu", "fail"), (None, "fail")],
)
def test_a_criterion_missed_while_the_client_was_the_limit_is_void(
    make_result: MakeResult, limited_by: str | None, expected: str
) -> None:
    """All workloads of a phase share the client, so the limit of one makes all of them void."""
    results = [make_result(position=2), make_result(position=2, limited_by=limited_by)]
    assert verdict(results, [MET, MISSED], None, is_judged=True) == expected
    assert phases_verdict(results, [MISSED]) == expected


@pytest.mark.parametrize(
    ("own", "expected"), [(0, "fail"), (2, "fail"), (3, "void")], ids=["the platform's", "some", "all the client's"]
)
def test_errors_of_the_platform_fail_a_run_that_the_client_limited(
    make_result: MakeResult, own: int, expected: str
) -> None:
    kinds = [("no local port free", own), ("503 SlowDown", 3 - own)]
    failing = make_result(
        position=2,
        errors=3,
        limited_by="client",
        first_errors=tuple(FirstError("archive", reason, count, "", "", "") for reason, count in kinds if count),
    )
    failing = replace(failing, client=replace(failing.client, sessions_without_port=own))
    criteria = [MISSED, replace(MISSED, name="object_ms.p99 <= 5")]
    assert verdict([failing], criteria, None, is_judged=True) == expected
    assert bool(void_because(failing, [failing], criteria)) is (expected == "void")


def test_a_criterion_met_although_the_client_was_the_limit_stays_met(make_result: MakeResult) -> None:
    results = [make_result(position=1, limited_by="client")]
    assert verdict(results, [MET], None, is_judged=True) == "pass"
    assert void_because(results[0], results, [MET]) == ""


def test_one_valid_phase_that_missed_a_criterion_fails_the_run(make_result: MakeResult) -> None:
    results = [make_result(position=2, limited_by="client"), make_result(position=3)]
    missed = [MISSED, replace(MISSED, position=3)]
    assert void_positions(results, missed) == {2}
    assert verdict(results, missed, None, is_judged=True) == "fail"


def test_lost_content_fails_run_even_if_client_limited(make_result: MakeResult) -> None:
    results = [make_result(position=2, limited_by="client", infrastructure=LOST)]
    assert verdict(results, [MISSED], None, is_judged=True) == "fail"


@pytest.mark.parametrize(("largest", "expected"), [(None, "void"), (1, "pass")])
def test_search_ended_by_void_step_is_void_unless_a_scale_passed(largest: int | None, expected: str) -> None:
    steps = (SearchStep(2, (2,), passed=False, void="client limit reached at tiles 2"),)
    search = SearchOutcome("tiles", steps, largest, None, 1, "", "client limit reached at tiles 2")
    assert verdict([], [], search, is_judged=True) == expected


def test_void_result_makes_run_void_despite_missed_criteria(make_result: MakeResult) -> None:
    results = [make_result(), without_port(make_result())]
    assert verdict(results, [MISSED], None, is_judged=True) == "void"


@pytest.mark.parametrize(("largest", "expected"), [(None, "fail"), (2, "pass")])
def test_search_passes_if_a_scale_met_its_criteria(make_result: MakeResult, largest: int | None, expected: str) -> None:
    search = SearchOutcome("tiles", (), largest, 4, 3, "", "the edge was found")
    assert verdict([without_port(make_result())], [MET, MISSED], search, is_judged=True) == expected


def without_port(result: Result) -> Result:
    """Return the result with a client that had no free local port for one session."""
    return replace(result, client=replace(result.client, sessions_without_port=1))


LOG = PartResult("log", "archive", 0, 0, 3, 3, 0, 0.0, 0.0, None, None, None)


@pytest.mark.parametrize(
    ("name", "changes", "because"),
    [
        ("object_ms.p99 <= 5", {"objects": 0, "errors": 1234, "drained_objects": 7},
         "no object was done in the measured 0.5 s; done later: 7, failed: 1,234"),
        ("object_ms.p99 <= 5 (log)", {"parts": (LOG,)}, "no object of log was done in the measured 0.5 s; failed: 3"),
        ("object_ms.p99 <= 5 (read)", {"parts": (replace(LOG, name="read", objects=4), LOG)}, ""),
        ("session_ms.p99 <= 5", {"sessions": 0}, "no session was done in the measured 0.5 s"),
        ("waited_share <= 0.1", {"objects": 0, "sessions": 0, "offered": Offered(0, 2.0, 0, 0, 0, 0, None)},
         "no session was due in the measured 0.5 s"),
        ("first_byte_ms.p99 <= 5", {}, ""),
    ],
)  # fmt: skip
def test_criterion_without_measured_value_has_a_reason(
    make_result: MakeResult, name: str, changes: dict[str, Any], because: str
) -> None:
    unmeasured = CriterionResult(name, "archive", 2, 5.0, None, False)
    results = [make_result(workload="archive"), make_result(workload="archive", position=2, seconds=0.5, **changes)]
    assert unmeasured_because(unmeasured, results) == because
    assert unmeasured_because(replace(unmeasured, measured=9.0), results) == ""
    assert unmeasured_because(replace(unmeasured, workload=""), results) == ""


def test_unmeasured_then_most_exceeded_then_nearest_criterion_is_worst() -> None:
    def judged(name: str, limit: float, measured: float | None, passed: bool) -> CriterionResult:
        return CriterionResult(name, "", 1, limit, measured, passed)

    in_order = [
        judged("seconds <= 9", 9.0, None, False),
        judged("object_ms.p99 <= 20", 20.0, 90.0, False),
        judged("objects_per_second >= 100", 100.0, 50.0, False),
        judged("errors == 0", 0.0, 3.0, False),
        judged("object_ms.mean <= 20", 20.0, 19.0, True),
        judged("objects_per_second >= 100", 100.0, 150.0, True),
        judged("errors == 0", 0.0, 0.0, True),
    ]
    assert sorted(set(in_order), key=worst_first) == in_order
