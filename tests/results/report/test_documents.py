"""The folder of report documents: its contents, its links, and that it is reproducible."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from archiver.values.errors import ResultsError
from archiver.values.typed import undamaged
from results.document.table import ROWS_SHOWN_MAX
from results.recorded.model import Result
from results.recorded.run import RecordedRun
from results.report.documents import write_csv, write_documents
from tests.results.watched_run import phase_record, ten_seconds, two_phases

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]


@pytest.fixture
def one_phase(make_run: MakeRun, make_result: MakeResult) -> RecordedRun:
    return make_run([phase_record(1, make_result(), 1, 4)])


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_report_has_warnings_and_links_and_is_reproducible(
    tmp_path: Path, full_run: list[Result], make_run: MakeRun
) -> None:
    phases = [phase_record(each.position, each, each.position, each.position + 0.5) for each in full_run]
    recorded = make_run(phases)
    for name in ("one", "two"):
        paths = write_documents(tmp_path / name, recorded, None)
        assert paths[0] == tmp_path / name / "report.md"
    one = contents(tmp_path / "one")
    assert one == contents(tmp_path / "two")
    assert {"report.md", "results.json", "tables/cells.csv", "figures/figure-5-parallel-clients-250.png"} <= one.keys()
    assert not any(str(tmp_path).encode() in content for content in one.values())
    report = one["report.md"].decode()
    assert report.startswith("# DR550 on minio\n\nminio archives ")
    assert "\n\n## Errors and doubts\n\n" in report
    assert "| lock | GOVERNANCE for 5m |" in report
    assert set(re.findall(r"\]\(((?:figures|tables)/[^)]+)\)", report)) == {name for name in one if "/" in name}
    figure, table = report.index("figure-4-"), report.index("### Retrieve: MB/s")
    assert report.index("### Retrieve: objects/s") < figure < table


def test_report_includes_server_samples_and_figures_in_order(
    tmp_path: Path, make_run: MakeRun, make_result: MakeResult
) -> None:
    recorded = make_run(two_phases(make_result(), make_result("retrieve", position=2)), ten_seconds())
    write_documents(tmp_path / "one", recorded, None)
    one = contents(tmp_path / "one")
    assert {"tables/server-resources.csv", "tables/requests.csv", "figures/figure-6-server-cpu.svg"} <= one.keys()
    report = one["report.md"].decode()
    assert set(re.findall(r"\]\(((?:figures|tables)/[^)]+)\)", report)) == {name for name in one if "/" in name}
    places = [
        report.index(text)
        for text in (
            "figure-6-server-cpu.svg",
            "figure-8-object-disks",
            "figure-16-network",
            "### What limits",
            "### Resource usage",
        )
    ]
    assert places == sorted(places)
    assert "| 1 | archive 8192 x 25 | local | cpu_user_seconds | 0 | % |" in report


def test_long_server_resource_table_is_only_linked(tmp_path: Path, make_run: MakeRun, make_result: MakeResult) -> None:
    phases = [phase_record(n, make_result(position=n), 1 + 0.5 * n, 1.5 + 0.5 * n) for n in range(1, 13)]
    recorded = make_run(phases, ten_seconds())
    write_documents(tmp_path, recorded, None)
    lines = (tmp_path / "tables" / "server-resources.csv").read_text().splitlines()
    assert len(lines) > ROWS_SHOWN_MAX
    report = (tmp_path / "report.md").read_text()
    assert f"[{len(lines) - 1:,} rows as CSV](tables/server-resources.csv)" in report
    assert "cpu_user_seconds" not in report
    assert "### Server resources, phase by phase\n\nDuring the measured time of each phase" in report


def test_results_json_has_run_document_with_results(tmp_path: Path, one_phase: RecordedRun) -> None:
    write_documents(tmp_path, one_phase, None)
    saved = json.loads((tmp_path / "results.json").read_text())
    assert saved.keys() >= {
        "run",
        "scenario",
        "backend",
        "platform",
        "hosts",
        "results",
        "criteria",
        "verdict",
    }
    assert [undamaged(Result, entry) for entry in saved["results"]] == one_phase.results


def test_figure_caption_states_not_capacity_only_on_shared_machine(tmp_path: Path, one_phase: RecordedRun) -> None:
    for shared in (True, False):
        folder = tmp_path / str(shared)
        write_documents(folder, replace(one_phase, run=replace(one_phase.run, shared_host=shared)), None)
        svg = (folder / "figures" / "figure-1-archive-objects-per-second.svg").read_text()
        assert ("not capacity" in svg) == shared


def test_report_of_run_without_finished_phase_states_no_results(tmp_path: Path, make_run: MakeRun) -> None:
    recorded = make_run([])
    write_documents(tmp_path, recorded, None)
    report = (tmp_path / "report.md").read_text()
    assert "No phase finished, so nothing was measured." in report
    with pytest.raises(ResultsError, match=r"run-1 has no results: no phase finished"):
        write_csv(tmp_path / "tables only", recorded, None)
    assert not (tmp_path / "tables only").exists()


def test_csv_tables_alone_equal_those_of_full_report_folder(tmp_path: Path, one_phase: RecordedRun) -> None:
    write_documents(tmp_path / "whole", one_phase, None)
    paths = write_csv(tmp_path / "csv", one_phase, None)
    whole = {name: text for name, text in contents(tmp_path / "whole").items() if name.startswith("tables/")}
    assert contents(tmp_path / "csv") == whole
    assert len(paths) == len(whole) > 3


def test_unwritable_folder_is_named_in_error(tmp_path: Path, one_phase: RecordedRun) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultsError, match=r"cannot write .*file.*another folder"):
        write_documents(tmp_path / "file", one_phase, None)
