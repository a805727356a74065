"""`archiver report` of a replay: Markdown, CSV, JSON and HTML, each with the verdict and its required remarks."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from archiver.cli.answers.report import report
from archiver.cli.output import print_run
from results.recorded.database import StoredRun
from results.recorded.run import read_run
from results.report.contract import run_document
from results.report.index import write_index
from results.report.key_figures import findings, verdict
from results.report.summary import summary
from tests.results.mixed.replay.replayed_sets import ReplayedSets, beside, criterion
from tests.results.watched_run import RECORD

TIMES = {"retrieve": [2.0, 4.0], "archive": [10.0, 30.0]}
MARK = "capacity ratio not held (2% of the full capacity)"
PRICES = 'currency = "USD"\n[[part]]\nitem = "array"\nquantity = 1\nlist_price = 7520\nsupport_years = 3\n'


def written(sets: ReplayedSets, *, void: str = "", count: int = 2, verdict: str = "pass") -> Path:
    """Return the folder of a run of ``count`` sets with 2% of the full capacity."""
    results = sets.sets(count, TIMES, what={"capacity_scale": 0.02, "void": void})
    results += [
        sets.infrastructure(each) for each in (beside("clone and deploy", 7, 6), beside("storage migration", 5, 3))
    ]
    database = sets.database(results, [criterion("object_ms.p70 <= 20 (all)", 20, 10.0, True)], verdict)
    return database.path.parent


def made(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(report, [str(folder), "--out", str(folder / "out"), *arguments])


def rows(folder: Path, name: str) -> list[list[str]]:
    return list(csv.reader((folder / "out" / "tables" / f"{name}.csv").read_text().splitlines()))


def test_markdown_report_begins_with_verdict_and_has_all_sections(sets: ReplayedSets) -> None:
    folder = written(sets)
    assert made(folder).exit_code == 0
    text = (folder / "out" / "report.md").read_text()
    assert text.index("met 1 of 1 criteria") < text.index("## ") < text.index(f"| verdict | pass; {MARK} |")
    titles = [
        "Identifiers", "Traces that were replayed", "Replay: summary", "Replay: passing detail",
        "Configuration and connectivity", "What the traces are", "Replay: responses by application",
        "Replay: infrastructure operations next to the applications", "Replay: every application of every set",
        "Published values: mean response by application", "Method",
    ]  # fmt: skip
    assert [line[4:] for line in text.splitlines() if line.startswith("### ") and line[4:] in titles] == titles
    assert "figures/figure-15-response-share.svg" in text
    assert (folder / "out" / "figures" / "figure-15-response-share.png").stat().st_size > 10_000
    first = text.index("### Replay: responses by application")
    assert text.rindex("figure-15-response-share.png", 0, first) < first


def test_report_of_many_sets_links_to_csv_rows(sets: ReplayedSets) -> None:
    folder = written(sets, count=13)
    assert made(folder).exit_code == 0
    assert "[104 rows as CSV](tables/replay-sets.csv)" in (folder / "out" / "report.md").read_text()
    assert len(rows(folder, "replay-sets")) == 1 + 104
    assert made(folder, "--format", "html").exit_code == 0
    page = (folder / "out" / "report.html").read_text()
    assert "104 rows, in tables/replay-sets.csv" in page
    assert 'id="table-replay-sets"' not in page


def test_prices_appear_in_every_format_with_tables(sets: ReplayedSets, tmp_path: Path) -> None:
    folder, prices = written(sets), tmp_path / "prices.toml"
    prices.write_text(PRICES)
    assert made(folder, "--format", "csv", "--prices", str(prices)).exit_code == 0
    assert ["price per application", "USD", "470", "470", "461.89"] in [
        row[:5] for row in rows(folder, "replay-summary")
    ]
    assert rows(folder, "prices")[1][:4] == ["array", "1", "7520", "7520"]
    assert made(folder, "--prices", str(prices)).exit_code == 0
    text = (folder / "out" / "report.md").read_text()
    assert text.index("### What the traces are") < text.index("### Priced configuration: 1 platform, 3 years")
    assert made(folder, "--format", "html", "--prices", str(prices)).exit_code == 0
    page = (folder / "out" / "report.html").read_text()
    assert page.count("Priced configuration: 1 platform, 3 years</h3>") == 1
    refused = made(folder, "--format", "json", "--prices", str(prices))
    assert refused.exit_code
    assert "choose another format" in str(refused.exception)


def test_replay_of_single_trace_cannot_be_priced(sets: ReplayedSets, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    database = sets.database([sets.application("mail.parquet", None, TIMES)])
    refused = made(database.path.parent, "--format", "html", "--prices", str(tmp_path / "prices.toml"))
    assert "replayed one trace and no application sets" in str(refused.exception)
    assert made(database.path.parent).exit_code == 0


def test_html_page_has_sections_verdict_and_figure(sets: ReplayedSets) -> None:
    folder = written(sets)
    assert made(folder, "--format", "html").exit_code == 0
    page = (folder / "out" / "report.html").read_text()
    sections = ["replay", "replay-passed", "replay-connected", "replay-detail", "replay-how", "course"]
    places = [page.index(f'<section id="{name}"') for name in sections]
    assert places == sorted(places)
    assert f"passed; {MARK}: its one phase is in these numbers" in page
    assert page.count('id="figure-15-response-share"') == 1
    assert page.count('id="table-replay-summary"') == 1


def test_json_document_has_result_and_required_remarks(sets: ReplayedSets) -> None:
    folder = written(sets)
    text = CliRunner().invoke(report, [str(folder), "--format", "json"]).stdout
    found = json.loads(text)["replay"]
    assert (found["sets"], found["applications"], found["verdict"]) == (2.0, 16, f"pass; {MARK}")
    assert found["capacity_ratio_held"] is False
    assert (found["mean_ms"], found["read_mean_ms"], found["write_mean_ms"]) == (11.5, 3.0, 20.0)
    assert (found["limit_ms"], found["share_within_limit"]) == (20.0, 0.75)
    assert found["infrastructure_per_hour"] == {"clone and deploy": 7.0, "storage migration": 5.0}


def test_void_verdict_is_reported_first(sets: ReplayedSets, capsys: pytest.CaptureFixture[str]) -> None:
    results = sets.sets(1, TIMES, what={"void": "late by 40 ms"})
    database = sets.database(results, [criterion("object_ms.p70 <= 20 (all)", 20, 1.0, True)], "void")
    print_run(read_run(database.path))
    printed = capsys.readouterr().out
    answer = " ".join(printed.split("\n\n")[1].split())
    assert answer.startswith("This run proves nothing about minio: VOID: set 1 ")
    assert "late by 40 ms" in answer
    assert run_document(read_run(database.path))["verdict"] == "void"
    run, measured = database.run(), database.results()
    found = findings(run, measured, [], [], database.criteria())
    assert (found[0].state, found[0].about, found[0].text[:5]) == ("bad", "Replay", "VOID:")
    assert verdict(run, measured, []) == ("bad", "VOID")
    assert [each.state for each in found if each.about == "Criteria"] == ["care"]
    told = summary(read_run(database.path), [])
    assert told.answer.startswith(f"This run proves nothing about {run.platform.name}: VOID: set 1 ")
    assert (told.state, told.verdict[:4]) == ("bad", "VOID")


def test_terminal_output_has_only_short_tables(sets: ReplayedSets, capsys: pytest.CaptureFixture[str]) -> None:
    results = sets.sets(2, TIMES, what={"capacity_scale": 0.02})
    print_run(read_run(sets.database(results).path))
    printed = capsys.readouterr().out
    for title in ("Replay: summary", "Replay: passing detail", "Replay: responses by application"):
        assert printed.count(f"\n{title}\n") == 1
    for title in ("Identifiers", "Method", "Replay: every application of every set", "Traces that were replayed"):
        assert f"\n{title}\n" not in printed
    assert " ".join(printed.split()).count("capacity ratio not held (2%") >= 2


def test_index_of_runs_shows_verdict_with_capacity_mark(sets: ReplayedSets, tmp_path: Path) -> None:
    folder = written(sets)
    page, runs = write_index(folder, tmp_path / "index")
    assert runs == 1
    assert f"passed; {MARK}" in page.read_text()


def test_pass_with_reduced_capacity_has_state_care(sets: ReplayedSets) -> None:
    run = StoredRun(**RECORD, verdict="pass")
    assert verdict(run, sets.sets(1, TIMES), []) == ("good", "passed")
    assert verdict(run, sets.sets(1, TIMES, what={"capacity_scale": 0.02}), []) == ("care", f"passed; {MARK}")


def test_void_verdict_takes_precedence_over_errors(sets: ReplayedSets) -> None:
    failed = [sets.application("mail", 1, TIMES, what={"void": "late"}, errors=3)]
    assert verdict(StoredRun(**RECORD, verdict="void"), failed, []) == ("bad", "VOID")
