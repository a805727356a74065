"""A run exported to the formats of other programs, read back by their libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from prometheus_client.parser import text_string_to_metric_families

from archiver.cli.answers.report import report
from results.recorded.database import RunDatabase
from results.recorded.model import CriterionResult, Result
from results.recorded.run import read_run
from results.report.hdr_log import HIGHEST_NS, hdr_log
from results.report.junit import junit_xml
from results.report.prometheus import prometheus_text
from tests.results.conftest import MakeRun
from tests.results.report.reported_runs import CHECK, HOSTILE, whole_run
from tests.results.watched_run import phase_record

MakeResult = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, make_result: MakeResult) -> Iterator[RunDatabase]:
    database = whole_run(tmp_path / "run.db", make_result)
    yield database
    database.close()


def test_hdr_log_is_read_back_by_its_library(run: RunDatabase, tmp_path: Path) -> None:
    """Each phase recorded times of 1, 2 and 2 ms, and of 50 ms times its number of clients."""
    path = tmp_path / "run.hlog"
    path.write_text(hdr_log(read_run(run.path)))
    reader = HistogramLogReader(str(path), HdrHistogram(1, HIGHEST_NS, 3))
    read = []
    while (histogram := reader.get_next_interval_histogram()) is not None:
        read.append(histogram)
    reader.input_file.close()
    assert reader.get_start_time_sec() == pytest.approx(run.phases()[0].started_at, abs=0.001)
    results = run.results()
    assert [each.get_total_count() for each in read] == [4] * len(results)
    for result, histogram, phase in zip(results, read, run.phases(), strict=True):
        assert histogram.get_value_at_percentile(50) / 1e6 == pytest.approx(2.0, rel=0.001)
        assert histogram.get_max_value() / 1e6 == pytest.approx(50.0 * result.clients, rel=0.001)
        assert histogram.get_tag() == f"{phase.label.replace(',', ';')}; object_service"


def test_junit_xml_has_failed_phases_and_failed_checks(run: RunDatabase) -> None:
    root = ElementTree.fromstring(junit_xml(read_run(run.path)))
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {"phases", f"worm.{CHECK.family}"}
    assert (suites["phases"].get("tests"), suites["phases"].get("failures")) == ("11", "8")
    failure = suites["phases"].find("testcase/failure")
    assert failure is not None
    assert failure.get("message") == f"2 operations failed; the first: 403 AccessDenied: {HOSTILE}"
    found = suites[f"worm.{CHECK.family}"].find("testcase/failure")
    assert found is not None
    assert (found.get("type"), found.get("message")) == ("S1", "the record is gone")


def test_junit_xml_has_criteria_with_measured_values_and_void_phases(
    make_run: MakeRun, make_result: MakeResult
) -> None:
    criteria = [
        CriterionResult("object_ms.mean <= 20", "web", 1, 20.0, 31.5, passed=False),
        CriterionResult("object_ms.p99 <= 50", "web", 1, 50.0, None, passed=False),
        CriterionResult("sessions_per_second >= 9", "archive", 1, 9.0, None, passed=False),
        CriterionResult("errors == 0", "", 1, 0.0, 0.0, passed=True),
    ]
    result = make_result(workload="archive", seconds=2.0, sessions=0, incomplete="worker 2 was lost")
    phase = replace(phase_record(1, result, 0.0, 1.0), criteria=criteria)
    root = ElementTree.fromstring(junit_xml(make_run([phase])))
    messages = [case.get("message") for case in root.findall("testsuite[@name='criteria']/testcase/failure")]
    assert messages == [
        "measured 31.5, the limit is 20",
        "nothing was measured, the limit is 50",
        "nothing was measured, because no session was done in the measured 2 s, the limit is 9",
    ]
    (failed,) = root.findall("testsuite[@name='phases']/testcase/failure")
    assert failed.get("message") == "incomplete: worker 2 was lost"


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({}, ("", "failure")),
        ({"limited_by": "client"}, ("error", "error")),
        ({"limited_by": "client", "incomplete": "worker 2 was lost"}, ("failure", "error")),
        ({"limited_by": "server cpu"}, ("", "failure")),
    ],
)
def test_junit_agrees_with_the_verdict_on_a_missed_criterion(
    make_run: MakeRun, make_result: MakeResult, fields: dict[str, Any], kinds: tuple[str, str]
) -> None:
    """A criterion that was missed because the client was the limit proves nothing about the platform."""
    missed = CriterionResult("object_ms.mean <= 20", "web", 1, 20.0, 31.5, passed=False)
    record = phase_record(1, make_result(errors=0, first_errors=(), **fields), 0.0, 1.0)
    root = ElementTree.fromstring(junit_xml(make_run([replace(record, criteria=[missed])])))
    found = tuple(next((child.tag for child in case), "") for case in root.iter("testcase"))
    assert found == kinds


def test_prometheus_reads_each_result_once(run: RunDatabase) -> None:
    families = {family.name: family for family in text_string_to_metric_families(prometheus_text(read_run(run.path)))}
    rates = {sample.labels["clients"]: sample for sample in families["archiver_result_objects_per_second"].samples}
    four = next(result for result in run.results() if result.clients == 4)
    assert rates["4"].value == pytest.approx(four.objects_per_second)
    assert rates["4"].labels["platform"] == HOSTILE
    times = families["archiver_result_object_service_seconds"].samples
    assert len(times) == 4 * len(run.results())
    assert {sample.labels["quantile"] for sample in times} == {"0.5", "0.9", "0.99", "0.999"}
    assert four.object_service_ms is not None
    (p99,) = [each for each in times if each.labels["clients"] == "4" and each.labels["quantile"] == "0.99"]
    assert p99.value == pytest.approx(four.object_service_ms.p99 / 1e3)


@pytest.mark.parametrize(
    ("form", "name"), [("junit", "junit.xml"), ("hlog", "latencies.hlog"), ("prometheus", "archiver.prom")]
)
def test_report_writes_one_file_of_each_format(run: RunDatabase, tmp_path: Path, form: str, name: str) -> None:
    done = CliRunner().invoke(report, [str(run.path), "--format", form, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert [path.name for path in (tmp_path / "out").iterdir()] == [name]
    assert name in done.output
