"""Test `archiver compare` on real runs: the comparison on the terminal, as JSON and in a folder."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from archiver.worm.catalogue import catalogue
from tests.support.commands import archiver
from tests.support.runs import TINY


def run_id(*arguments: str) -> str:
    done = archiver("run", "dr550", *TINY, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["run"])


def test_tsm_and_s3_runs_on_one_store_are_compared(home: Path, tmp_path: Path) -> None:
    through_tsm, through_s3 = run_id("--backend", "tsm"), run_id()
    done = archiver("compare", through_tsm, "latest", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "tsm and s3 compared" in done.stdout
    assert "s3 archives " in done.stdout
    assert "as fast as tsm at 8KiB x " in done.stdout
    for words in ("no verdict (", "not interleaved", "protocol differs", through_s3):
        assert words in " ".join(done.stdout.split()), words
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "comparison.csv", "comparison.json", "comparison.md", "comparison.png", "comparison.svg",
    ]  # fmt: skip
    asked = archiver("compare", str(home / "runs" / through_tsm), through_s3, "--json")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout == (tmp_path / "out" / "comparison.json").read_text()
    document = json.loads(asked.stdout)
    assert [platform["label"] for platform in document["platforms"]] == ["tsm", "s3"]
    assert {cell["operation"] for cell in document["cells"]} == {"archive", "retrieve"}
    for cell in document["cells"]:
        ours, theirs = (rate["objects_per_second"] for rate in cell["rates"])
        assert cell["ratios"][0]["ratio"] == pytest.approx(theirs / ours)


def test_html_comparison_is_one_page_with_both_protocols(home: Path, tmp_path: Path) -> None:
    through_tsm, through_s3 = run_id("--backend", "tsm"), run_id()
    done = archiver("compare", through_s3, through_tsm, "--format", "html")
    assert done.returncode == 0, done.stderr
    page = home / "runs" / through_tsm / "report" / "comparison.html"
    assert done.stdout.splitlines()[-1] == f"{page}: 1 file"
    assert "s3 and tsm compared" in page.read_text()
    assert [path.name for path in page.parent.iterdir()] == ["comparison.html"]


def test_conformance_runs_are_compared_only_with_conformance_runs(home: Path, tmp_path: Path) -> None:
    runs = []
    for check in ("DEL-01", "DEL-02"):
        assert archiver("worm", "--check", check).returncode == 0
        runs.append(max((home / "runs").iterdir(), key=lambda path: path.stat().st_mtime).name)
    done = archiver("compare", *runs, "--format", "html", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    verdict = "refused every request that could lose, alter or unlock a record"
    sentence = f"{runs[0]} {verdict}, in 1 of {len(catalogue())} checks."
    assert sentence in done.stdout
    assert "Checks that differ between platforms" in (tmp_path / "comparison.html").read_text()
    assert "Checks that differ between platforms" in done.stdout
    without = archiver("compare", *runs, "--tables", "none")
    assert f"in 1 of {len(catalogue())} checks." in without.stdout
    assert "Checks that differ between platforms" not in without.stdout
    rates = run_id("--backend", "null")
    for arguments, status, words in (
        ((runs[0], rates), 1, "only conformance checks: compare it with other conformance runs"),
        ((*runs, "--fail-if", "*.errors > 0"), 2, "--fail-if is about rates"),
    ):
        refused = archiver("compare", *arguments)
        assert (refused.returncode, refused.stdout) == (status, "")
        assert words in refused.stderr


def copy_as(home: Path, run: str, copy: str, **changed: dict[str, str]) -> None:
    """Copy a run under another id and change some keys of its own row."""
    shutil.copytree(home / "runs" / run, home / "runs" / copy)
    with closing(sqlite3.connect(home / "runs" / copy / "run.db")) as database, database:
        for column, keys in changed.items():
            for key, value in keys.items():
                database.execute(f"UPDATE run SET {column} = json_set({column}, ?, ?)", (f"$.{key}", value))
        database.execute("UPDATE run SET id = ?", (copy,))


def test_invalid_comparison_is_refused_with_its_exit_status(home: Path) -> None:
    run = run_id("--backend", "null")
    copy_as(home, run, "unchecked", platform={"name": "other"}, settings={"verify": "none"})
    (home / "runs" / "half" / "run.db").parent.mkdir()
    (home / "runs" / "half" / "run.db").write_bytes((home / "runs" / run / "run.db").read_bytes()[:3000])
    no_cell = "archive.9KiB.2.objects_per_second < 0.9"
    for arguments, status, words in (
        ((run, "unchecked"), 1, "verification of retrieved objects differs (null: all; other: none)"),
        ((run,), 2, "needs two runs or more"),
        ((run, "no-such-run"), 2, "no such run"),
        ((run, "half"), 1, "half"),
        ((run, "unchecked", "--fail-if", "slow"), 2, "'slow': it is not a condition; write NAME.QUANTITY"),
        ((run, "unchecked", "--force", "--fail-if", no_cell), 2, "null has no cell or workload 'archive.9KiB.2' with "),
    ):
        done = archiver("compare", *arguments)
        assert (done.returncode, done.stdout) == (status, "")
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_fail_if_sets_exit_status_and_force_marks_comparison(home: Path) -> None:
    run = run_id("--backend", "null")
    copy_as(home, run, "unchecked", platform={"name": "other"}, settings={"verify": "none"})
    copy_as(home, run, "other", platform={"name": "other"})
    equal, slower = "archive.8KiB.2.objects_per_second < 0.9", "*.*.*.objects_per_second > 0.9"
    passed = archiver("compare", run, "other", "--fail-if", equal)
    assert passed.returncode == 0, passed.stderr
    assert "null and other compared" in passed.stdout
    assert f"passes: {equal}: other, archive.8KiB.2: 1.000" in " ".join(passed.stdout.split())
    failed = archiver("compare", run, "other", "--fail-if", equal, "--fail-if", slower, "--json")
    assert failed.returncode == 1
    judged = json.loads(failed.stdout)["fail_if"]
    assert [(each["condition"], each["operation"], each["value"], each["fails"]) for each in judged] == [
        (equal, "archive", 1.0, False), (slower, "archive", 1.0, True), (slower, "retrieve", 1.0, True),
    ]  # fmt: skip
    assert failed.stderr.count("fails: ") == 2
    forced = archiver("compare", run, "unchecked", "--force", "--tables", "all")
    assert forced.returncode == 0, forced.stderr
    assert forced.stdout.count("FORCED") == 6  # platforms, rates, matrix, differences, latencies, summary


MIX = """
name = "two"
title = "Two at once"

[scale]
name = "sets"
each = "set"
values = [1, 2]

[[phase]]
name = "load"
load = true
copies = "sets"

[[phase.workload]]
name = "documents"
operation = "archive"
data = "documents"
sizes = "4KiB"
clients = 1
fill = 20

[[phase]]
name = "mix"
copies = "sets"

[[phase.workload]]
name = "free"
operation = "retrieve"
data = "documents"
clients = 2
seconds = "500ms"

[[phase.workload]]
name = "paced"
operation = "archive"
data = "new"
sizes = "1KiB"
clients = 1
seconds = "500ms"
arrivals = { kind = "constant", per_second = 40 }
"""


def test_concurrent_workloads_are_compared_individually_and_in_total(home: Path, tmp_path: Path) -> None:
    scenario = tmp_path / "two.toml"
    scenario.write_text(MIX)
    ran = archiver("run", str(scenario), "--backend", "null", "--json")
    assert ran.returncode == 0, ran.stderr
    run = str(json.loads(ran.stdout)["run"])
    copy_as(home, run, "other", platform={"name": "other"})
    condition = "free@2.objects_per_second < 0.9"
    done = archiver("compare", run, "other", "--fail-if", condition, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    for words in ("Workloads side by side", f"passes: {condition}: other, free@2: 1.000 ("):
        assert words in text, words
    for words in ("Differences of workloads", "Response times of workloads", "ESG"):  # tables to ask for
        assert words not in text, words
    named = archiver("compare", run, "other", "--tables", "workloads-differences-1", "--tables", "published")
    assert named.returncode == 0, named.stderr
    assert "Differences of workloads" in named.stdout
    assert "Published by ESG Lab" in named.stdout
    assert "Workloads side by side" not in named.stdout
    document = json.loads((tmp_path / "out" / "comparison.json").read_text())
    told = {(each["phase"], each["scale"], each["workload"], each["operation"]) for each in document["workloads"]}
    assert told == {
        ("mix", scale, *unit)
        for scale in (1.0, 2.0)
        for unit in (
            ("free", None), ("paced", None), ("all workloads", "steady"), ("all workloads", "peak"),
        )
    }  # fmt: skip
    paced = [each for each in document["workloads"] if each["workload"] == "paced"]
    assert all("sessions_per_second" in each["ratios"] for each in paced)
    assert (tmp_path / "out" / "workloads.csv").read_text().startswith("phase,scale,workload,")
