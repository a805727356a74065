"""Criteria in scenarios: valid ones, invalid ones with their error messages, and the workloads they apply to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import ScenarioError
from archiver.values.metrics import METRICS, OPERATORS, STATISTICS
from scenarios.criteria import check_names, metrics_table, read_criterion
from scenarios.model import Workload
from scenarios.notation.distribution import Sizes
from scenarios.work.mix import Arrivals, Aside, Mix, Transaction
from scenarios.work.sessions import AllObjects, Sessions


@dataclass(frozen=True)
class Together:
    """A phase with the fields that criteria use."""

    workloads: tuple[Workload, ...]
    is_load: bool = False
    measures_ceiling: bool = False


LOG = Aside("log", "logs", Sizes.constant(5700), 0.227)
MAIL = Mix(
    (Transaction(("retrieve", "new-version"), 0.3), Transaction(("archive",), 0.4)),
    "mail",
    Sizes.constant(8192),
    aside=LOG,
)
CAMERA = Mix(
    (Transaction(("archive",), 1.0),), "film", Sizes.constant(1 << 20),
    arrivals=Arrivals("constant", 2.0), deadline_seconds=1.0,
)  # fmt: skip


def workload(application: str, mix: Mix, copy: int | None = None) -> Workload:
    name = f"tile {copy} {application}" if copy is not None else application
    return Workload(name, mix, 4, application=application, copy=copy)


PHASE = Together((workload("e-mail", MAIL, 1), workload("e-mail", MAIL, 2), workload("camera", CAMERA)))


def refused(text: str, operation: str | None = None, where: str = "") -> str:
    with pytest.raises(ScenarioError) as caught:
        read_criterion(text, operation=operation, where=where)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "metric", "statistic", "operator", "limit"),
    [
        ("object_ms.mean <= 20", "object_ms", "mean", "<=", 20),
        ("object_ms.p70 <= 20", "object_ms", "p70", "<=", 20),
        ("errors == 0", "errors", None, "==", 0),
        ("achieved_over_offered >= 0.99", "achieved_over_offered", None, ">=", 0.99),
        ("  session_start_ms.p99_9<1e3 ", "session_start_ms", "p99_9", "<", 1000),
        ("objects_per_second>400.5", "objects_per_second", None, ">", 400.5),
    ],
)
def test_criterion_is_parsed_into_its_parts(
    text: str, metric: str, statistic: str | None, operator: str, limit: float
) -> None:
    read = read_criterion(text, workload="e-mail", abort=True)
    assert (read.metric, read.statistic, read.operator, read.limit) == (metric, statistic, operator, limit)
    assert (read.text, read.name, read.workload, read.abort) == (text.strip(), text.strip(), "e-mail", True)


def test_criterion_name_includes_its_operation() -> None:
    assert read_criterion("object_ms.mean <= 5", operation="log").name == "object_ms.mean <= 5 (log)"


@given(
    st.sampled_from(sorted(METRICS)), st.sampled_from(STATISTICS), st.sampled_from(sorted(OPERATORS)),
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(("", " ", "  ")),
)  # fmt: skip
def test_every_valid_criterion_can_be_read(
    metric: str, statistic: str, operator: str, limit: float, space: str
) -> None:
    left = f"{metric}.{statistic}" if METRICS[metric].has_statistics else metric
    read = read_criterion(f"{left}{space}{operator}{space}{limit!r}")
    assert (read.metric, read.operator, read.limit) == (metric, operator, limit)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "object_mss.mean <= 20",
            "there is no metric 'object_mss'; did you mean 'object_ms'? known here: achieved_over",
        ),
        ("zebra <= 20", "there is no metric 'zebra'; known here: achieved_over_offered, client_cpu_percent"),
        ("object_ms <= 20", "object_ms needs a statistic; write one of object_ms.mean, object_ms.p50"),
        ("object_ms.p95 <= 20", "object_ms has no 'p95'; write one of object_ms.mean"),
        ("object_ms.p99.9 <= 20", "object_ms has no 'p99.9'"),
        ("object_ms. <= 20", "object_ms has no ''"),
        ("errors.max == 0", "errors is a single number; leave '.max' out"),
        ("errors != 0", "'!=' is not a comparison; write one of <= < >= > =="),
        ("errors = 0", "'=' is not a comparison"),
        ("errors => 0", "'=>' is not a comparison"),
        ("errors == none", "the limit 'none' is not a number: write only the number"),
        ("errors ==", "the limit '' is not a number"),
        ("object_ms.mean <= 20ms", "the limit '20ms' is not a number: write only the number; it is in ms"),
        ("object_ms.mean <= nan", "a limit of nan decides nothing: write a finite number; it is in ms"),
        ("megabytes_per_second >= -inf", "a limit of -inf decides nothing: write a finite number; it is in MB/s"),
        ("object_ms.mean <= 1e999", "a limit of 1e999 decides nothing"),
        ("object_ms.mean", "write it as metric, operator, limit: object_ms.mean <= 20 or errors == 0"),
        ("", "write it as metric, operator, limit"),
        ("<= 20", "write it as metric, operator, limit"),
    ],
)
def test_invalid_criterion_is_refused_with_alternatives(text: str, said: str) -> None:
    message = refused(text, where="tiles.toml")
    assert message.startswith(f"tiles.toml: criterion {text!r}: ")
    assert said in message


def test_operation_is_refused_for_metric_of_whole_workloads() -> None:
    message = refused("session_ms.mean <= 20", operation="retrieve")
    assert "session_ms is measured for whole workloads only: leave out operation, or limit one of object_ms" in message


@pytest.mark.parametrize(
    ("operator", "below", "at", "above", "exceeded_at", "exceeded_above"),
    [
        ("<=", True, True, False, False, True),
        ("<", True, False, False, True, True),
        (">=", False, True, True, False, False),
        (">", False, False, True, False, False),
        ("==", False, True, False, False, True),
    ],
)
def test_operators_decide_when_criterion_is_met_or_exceeded(
    operator: str, below: bool, at: bool, above: bool, exceeded_at: bool, exceeded_above: bool
) -> None:
    criterion = read_criterion(f"errors {operator} 3")
    assert [criterion.holds(value) for value in (2, 3, 4)] == [below, at, above]
    assert [criterion.is_exceeded(value) for value in (2, 3, 4)] == [False, exceeded_at, exceeded_above]


def test_unmeasured_value_meets_no_criterion() -> None:
    assert not any(read_criterion(f"errors {operator} 0").holds(None) for operator in OPERATORS)
    assert not any(read_criterion(f"seconds {operator} 5").holds(math.nan) for operator in OPERATORS)


def test_criterion_without_workload_applies_to_all_with_metric_except_load() -> None:
    def speaks_of(text: str, phase: Together = PHASE, **who: Any) -> list[str]:
        criterion = read_criterion(text, **who)
        return [each.name for each in phase.workloads if criterion.speaks_of(phase, each)]

    tiles, camera = ["tile 1 e-mail", "tile 2 e-mail"], ["camera"]
    assert speaks_of("errors == 0") == tiles + camera
    assert speaks_of("errors == 0", Together(PHASE.workloads, is_load=True)) == []
    assert speaks_of("errors == 0", workload="e-mail") == tiles
    assert speaks_of("errors == 0", workload="tile 2 e-mail") == tiles[1:]
    assert speaks_of("object_ms.mean <= 5", operation="log") == tiles
    assert speaks_of("object_ms.mean <= 5", operation="archive") == tiles + camera
    assert speaks_of("achieved_over_offered >= 0.99") == camera
    assert speaks_of("missed_deadlines == 0") == camera
    assert speaks_of("lateness_ms.p99 <= 2") == tiles + camera  # the client measures it in closed loops, too
    assert speaks_of("lateness_ms.mean <= 2") == camera
    assert speaks_of("share_of_ceiling <= 0.7") == []
    assert speaks_of("share_of_ceiling <= 0.7", Together(PHASE.workloads, measures_ceiling=True)) == tiles + camera


@pytest.mark.parametrize(
    ("text", "workload_name", "operation", "said"),
    [
        ("errors == 0", "email", None, "no workload 'email' is measured; did you mean 'e-mail'? known here: camera"),
        ("object_ms.mean <= 5", "e-mail", "logs", "no operation 'logs' of 'e-mail'; did you mean 'log'? known here"),
        ("object_ms.mean <= 5", "camera", "retrieve", "no operation 'retrieve' of 'camera'; known here: archive"),
        ("object_ms.mean <= 5", None, "scan", "no operation 'scan' of any workload; known here: archive, log, new-"),
        ("dropped == 0", "e-mail", None, "not measured for 'e-mail': only a workload with a schedule (arrivals)"),
        ("lateness_ms.mean <= 2", "e-mail", None, "not measured for 'e-mail': only a workload with a schedule"),
        ("missed_deadlines == 0", "e-mail", None, "not measured for 'e-mail': only a workload with a deadline"),
        ("share_of_ceiling <= 0.7", None, None, "not measured for any workload: only a phase that measures"),
    ],
)  # fmt: skip
def test_criterion_that_applies_to_no_workload_is_refused(
    text: str, workload_name: str | None, operation: str | None, said: str
) -> None:
    criterion = read_criterion(text, workload=workload_name, operation=operation)
    with pytest.raises(ScenarioError) as caught:
        check_names([criterion], [PHASE], "tiles.toml")
    assert str(caught.value).startswith(f"tiles.toml: criterion {text!r}: ")
    assert said in str(caught.value)


def test_criterion_on_load_only_workload_is_refused() -> None:
    load = Together((workload("filling", CAMERA),), is_load=True)
    with pytest.raises(ScenarioError, match="no workload 'filling' is measured"):
        check_names([read_criterion("errors == 0", workload="filling")], [load, PHASE])


def test_criteria_that_apply_in_some_phase_are_accepted() -> None:
    criteria = [
        read_criterion("errors == 0"),
        read_criterion("object_ms.mean <= 5", workload="e-mail", operation="log"),
        read_criterion("missed_deadlines == 0"),
        read_criterion("objects_per_second >= 1", workload="tile 2 e-mail"),
    ]
    check_names(criteria, [Together((workload("other", CAMERA),)), PHASE])


def test_part_names_are_operations_and_aside_of_workload() -> None:
    assert Sessions("retrieve", 8192, AllObjects()).part_names == {"retrieve"}
    assert MAIL.part_names == {"retrieve", "new-version", "archive", "log"}


def test_metrics_table_has_every_metric_with_unit() -> None:
    *rows, blank, statistics = metrics_table().splitlines()
    assert [row.split("`")[1].removesuffix(".*") for row in rows[2:]] == list(METRICS)
    assert "| `object_ms.*` | ms | response time of an object" in metrics_table()
    assert all(row.count("|") == 5 for row in rows)
    assert (blank, statistics) == ("", "`*` is one of mean, p50, p70, p90, p99, p99_9, max.")
