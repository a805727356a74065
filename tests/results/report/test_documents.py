"""The folder of report documents: its contents, its links, and that it is reproducible."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import ResultsError
from archiver.values.typed import undamaged
from results.measures.watched import watched
from results.recorded.model import Result
from results.recorded.run import RecordedRun
from results.report.contents import ROWS_SHOWN_MAX
from results.report.contract import run_document
from results.report.documents import write_csv, write_documents
from tests.results.watched_run import phase_record, ten_seconds, two_phases

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]
FACTS = {"Command": "archiver run dr550 | tee log", "Objects locked until": "2026-11-21T18:05:00Z"}
DOUBTS = ["archive drifted by 7%: repeat on a quiet machine"]


def document(results: Sequence[Result]) -> dict[str, Any]:
    names = {
        "run": "run-7",
        "scenario": "dr550",
        "backend": "s3",
        "platform": {"name": "embedded"},
        "hosts": [],
    }
    return run_document(names, results)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_report_has_facts_warnings_and_links_and_is_reproducible(tmp_path: Path, full_run: list[Result]) -> None:
    for name in ("one", "two"):
        paths = write_documents(tmp_path / name, document(full_run), facts=FACTS, doubts=DOUBTS)
        assert paths[0] == tmp_path / name / "report.md"
    one = contents(tmp_path / "one")
    assert one == contents(tmp_path / "two")
    assert len(one) == len(paths) == 2 + 13 + 8 * 2
    assert not any(str(tmp_path).encode() in content for content in one.values())
    report = one["report.md"].decode()
    assert report.startswith(
        "# dr550 on embedded: run run-7\n\n"
        "| | |\n| :--- | :--- |\n"
        "| Command | archiver run dr550 \\| tee log |\n"
        "| Objects locked until | 2026-11-21T18:05:00Z |\n\n"
        "## Warnings\n\n- archive drifted by 7%: repeat on a quiet machine\n\n"
    )
    assert set(re.findall(r"\]\(([^)]+)\)", report)) == {name for name in one if "/" in name}
    figure, table = report.index("figure-4-"), report.index("### Retrieve: MB/s")
    assert report.index("### Retrieve: objects/s") < figure < table


def test_report_includes_server_samples_and_figures_in_order(
    tmp_path: Path, make_run: MakeRun, make_result: MakeResult
) -> None:
    recorded = make_run(two_phases(make_result(), make_result("retrieve", position=2)), ten_seconds())
    for name in ("one", "two"):
        seen = watched(recorded)
        write_documents(tmp_path / name, document(recorded.results), facts={}, watched=seen)
    one = contents(tmp_path / "one")
    assert one == contents(tmp_path / "two")
    assert {"tables/server-resources.csv", "tables/requests.csv", "figures/figure-6-server-cpu.svg"} <= one.keys()
    report = one["report.md"].decode()
    assert set(re.findall(r"\]\(([^)]+)\)", report)) == {name for name in one if "/" in name}
    places = [
        report.index(text)
        for text in (
            "figure-6-server-cpu.svg",
            "figure-8-object-disks",
            "figure-16-network",
            "### Resource usage",
            "### What limits",
        )
    ]
    assert places == sorted(places)
    assert "| 1 | archive 8192 x 25 | local | cpu_user_seconds | 0 | % |" in report


def test_long_server_resource_table_is_only_linked(tmp_path: Path, make_run: MakeRun, make_result: MakeResult) -> None:
    phases = [phase_record(n, make_result(position=n), 1 + 0.5 * n, 1.5 + 0.5 * n) for n in range(1, 13)]
    recorded = make_run(phases, ten_seconds())
    write_documents(tmp_path, document(recorded.results), facts={}, watched=watched(recorded))
    lines = (tmp_path / "tables" / "server-resources.csv").read_text().splitlines()
    assert len(lines) > ROWS_SHOWN_MAX
    report = (tmp_path / "report.md").read_text()
    assert f"[{len(lines) - 1:,} rows as CSV](tables/server-resources.csv)" in report
    assert "cpu_user_seconds" not in report
    assert "### Server resources, phase by phase\n\nDuring the measured time of each phase" in report


def test_results_json_has_run_document_with_results(tmp_path: Path, make_result: MakeResult) -> None:
    write_documents(tmp_path, document([make_result()]), facts={})
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
    assert [undamaged(Result, entry) for entry in saved["results"]] == [make_result()]


def test_figure_caption_states_not_capacity_only_on_shared_machine(tmp_path: Path, make_result: MakeResult) -> None:
    for shared in (True, False):
        folder = tmp_path / str(shared)
        write_documents(folder, document([make_result()]), facts={}, shares_machine=shared)
        svg = (folder / "figures" / "figure-1-archive-objects-per-second.svg").read_text()
        assert ("not capacity" in svg) == shared


def test_report_of_run_without_finished_phase_states_no_results(tmp_path: Path) -> None:
    write_documents(tmp_path, document([]), facts=FACTS, doubts=["the run ended early"])
    assert sorted(contents(tmp_path)) == ["report.md", "results.json"]
    report = (tmp_path / "report.md").read_text()
    assert "- the run ended early" in report
    assert report.endswith("## Results\n\nNo phase finished, so there are no results.\n")
    with pytest.raises(ResultsError, match=r"run-7 has no results: no phase finished"):
        write_csv(tmp_path / "tables only", document([]))
    assert not (tmp_path / "tables only").exists()


def test_csv_tables_alone_equal_those_of_full_report_folder(tmp_path: Path, make_result: MakeResult) -> None:
    write_documents(tmp_path / "whole", document([make_result()]), facts={})
    paths = write_csv(tmp_path / "csv", document([make_result()]))
    whole = {name: text for name, text in contents(tmp_path / "whole").items() if name.startswith("tables/")}
    assert contents(tmp_path / "csv") == whole
    assert len(paths) == len(whole) > 3


def test_unwritable_folder_is_named_in_error(tmp_path: Path, make_result: MakeResult) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultsError, match=r"cannot write .*file.*another folder"):
        write_documents(tmp_path / "file", document([make_result()]), facts={})
