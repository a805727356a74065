"""Test `archiver report`: it makes every format from the database, and the same bytes every time."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from archiver.worm.catalogue import catalogue
from results.recorded.database import FILE_NAME, VERSION, RunDatabase, RunRecord
from tests.results.watched_run import RECORD
from tests.support.commands import archiver
from tests.support.runs import TINY


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a run of which the tests only make reports, and the document that it printed."""
    home = tmp_path_factory.mktemp("reported")
    done = archiver("run", "dr550", *TINY, "--json", ARCHIVER_HOME=str(home))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    return home / "runs" / document["run"], document


def test_reports_of_the_same_run_are_byte_identical(run: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    for folder in ("one", "two"):
        made = archiver("report", str(run[0]), "--out", str(tmp_path / folder))
        assert made.returncode == 0, made.stderr
    names = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert Path("report.md") in names
    assert Path("figures/figure-1-archive-objects-per-second.png") in names
    assert Path("figures/figure-6-server-cpu.png") in names
    assert Path("tables/server-resources.csv") in names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_requests_counted_by_server_are_shown_with_requests_sent(run: tuple[Path, dict[str, Any]]) -> None:
    folder, document = run
    shown = archiver("report", str(folder), "--format", "text", "--tables", "all")
    assert shown.returncode == 0, shown.stderr
    for title in ("Resource usage", "What limits", "Per object", "Requests: counted by the server, sent by the client"):
        assert shown.stdout.count(f"\n{title}\n") == 1
    requests = document["requests"]
    sent = {each["operation"]: each["sent"] for each in requests if each["sent"]}
    assert {"PutObject", "GetObject", "HeadBucket"} <= sent.keys()
    assert {each["operation"]: each["counted"] for each in requests if each["sent"]} == sent


def test_every_report_format_shows_the_same_run_and_prints_its_path(
    run: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    recorded, document = str(run[0]), run[1]
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n[[part]]\nitem = "a node"\nquantity = 2\nlist_price = 500\n')
    made = archiver("report", recorded, "--format", "html", "--out", str(tmp_path / "page"), "--prices", str(prices))
    assert made.stdout == f"{tmp_path}/page/report.html: 1 file\n", made.stderr
    assert [path.name for path in (tmp_path / "page").iterdir()] == ["report.html"]
    text = (tmp_path / "page" / "report.html").read_text()
    assert all(words in text for words in ("a node", "1,000.00"))
    assert all(f'id="figure-{number}-' in text for number in (1, 2, 3, 4, 6, 7, 8))
    assert all(f'<tr id="cell-{place}"' in text for place in range(1, 3))
    assert archiver("report", recorded, "--format", "csv", "--out", str(tmp_path / "csv")).returncode == 0
    assert {path.suffix for path in (tmp_path / "csv").rglob("*") if path.is_file()} == {".csv"}
    printed = archiver("report", recorded, "--format", "json")
    assert json.loads(printed.stdout) == document
    assert archiver("report", recorded, "--format", "json", "--out", str(tmp_path / "json")).returncode == 0
    assert (tmp_path / "json" / "results.json").read_text() == printed.stdout
    refused = archiver("report", recorded, "--prices", str(prices))
    assert (refused.returncode, "only the page has a section on price" in refused.stderr) == (2, True)
    indexed = archiver("report", "--index", str(run[0].parent))
    assert indexed.stdout == f"{run[0].parent}/index.html: 1 run\n", indexed.stderr
    assert document["run"] in (run[0].parent / "index.html").read_text()


def test_a_conformance_run_has_a_report_in_every_format(home: Path, tmp_path: Path) -> None:
    assert archiver("worm", "--check", "DEL-02").returncode == 0
    for form, name in (("html", "report.html"), ("markdown", "report.md"), ("csv", "tables/requirements.csv")):
        made = archiver("report", "latest", "--format", form, "--out", str(tmp_path))
        assert made.returncode == 0, made.stderr
        assert "17a-4(f)(2)(i)(B)" in (tmp_path / name).read_text()
    assert f"a record, in 1 of {len(catalogue())} checks." in (tmp_path / "report.html").read_text()
    document = json.loads(archiver("report", "latest", "--format", "json").stdout)
    assert document["checks"][0]["id"] == "DEL-02"
    assert document["violations"] == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "name one run, as in `archiver report latest`, or a folder of runs with --index DIR"),
        (["latest", "--index", "."], 2, "name one run"),
        (["latest"], 1, "has no runs yet; make one with: archiver run dr550 --quick"),
        (["nosuch", "--format", "html"], 2, "name its id, its folder, or `latest`"),
        (
            ["latest", "--format", "html", "--out", "a/b.html"],
            2,
            "--out names a folder, and report.html goes into it; give a",
        ),
        (["latest", "--format", "pdf"], 2, "'pdf' is not one of"),
        (["--index", "nosuch"], 2, "does not exist"),
        (["--index", "."], 1, "there is no run under it"),
        (["empty"], 1, "is no results database of Archiver"),
        (["torn", "--format", "html"], 1, "torn"),
        (["damaged", "--format", "html"], 1, "its tables are not those of a results database"),
        (
            ["newer", "--format", "csv"],
            1,
            f"has format version 99, and this Archiver reads only {VERSION}; use the Archiver that wrote it",
        ),
    ],
)
def test_bad_report_command_gets_one_clear_message(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], status: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if words and words[0] in ("empty", "torn", "damaged", "newer"):
        _spoil(Path(words[0]))
    done = archiver("report", *words)
    assert done.returncode == status, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("archiver: ") + done.stderr.count("Error: ") == 1


def _spoil(folder: Path) -> None:
    """Create a run whose database is empty, truncated, damaged, or of a newer version."""
    database = RunDatabase.create(folder / FILE_NAME, RunRecord(**RECORD))
    database.close()
    with sqlite3.connect(folder / FILE_NAME) as db:
        if folder.name == "newer":
            db.execute("PRAGMA user_version = 99")
        if folder.name == "damaged":
            db.execute("DROP TABLE result")
    db.close()
    content = (folder / FILE_NAME).read_bytes()
    if folder.name in ("empty", "torn"):
        (folder / FILE_NAME).write_bytes(content[: len(content) // 2] if folder.name == "torn" else b"")


def test_module_and_script_are_the_same_command() -> None:
    script = subprocess.run(
        [Path(sys.executable).with_name("archiver"), "--version"], capture_output=True, text=True, check=True
    )
    assert archiver("--version").stdout == script.stdout
