"""Test pass criteria of sweeps: they are judged, shown, can end a phase, and count in a resumed run."""

from __future__ import annotations

import json
import re
import signal
import zipfile
from pathlib import Path

import pytest

from tests.support.commands import archiver, started
from tests.support.runs import begun, shorten, verdict_of_missed
from tests.support.waiting import wait_until

SCENARIO = """
name = "small"
title = "Small"

[stop]
seconds_min = "100ms"
seconds_max = "200ms"
bytes_max = "1MB"

[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["8KiB"]
objects_per_session = [2]
clients = [1, 2]
"""


def written(folder: Path, *criteria: str, text: str = SCENARIO) -> str:
    path = folder / "small.toml"
    path.write_text(text + "".join(f"\n[[criterion]]\n{each}\n" for each in criteria))
    return str(path)


def test_missed_criteria_of_cells_fail_the_run_and_are_shown(home: Path, tmp_path: Path) -> None:
    path = written(tmp_path, 'that = "errors == 0"', 'that = "objects_per_second >= 1e12"\nworkload = "archive"')
    done = archiver("run", path, "--backend", "null")
    assert done.returncode == 1, done.stderr
    shown = done.stdout.partition("Pass criteria")[2]
    assert "errors == 0" in shown
    assert "all 2" in shown
    assert "0 of 2" in shown
    document = json.loads(archiver("report", "latest", "--format", "json").stdout)
    assert document["verdict"] == verdict_of_missed(document)
    assert [(each["name"], each["passed"]) for each in document["criteria"]] == [
        ("errors == 0", True), ("objects_per_second >= 1e12", False),
    ] * 2  # fmt: skip


def test_criteria_that_all_cells_meet_pass_the_run(home: Path, tmp_path: Path) -> None:
    path = written(tmp_path, 'that = "errors == 0"', 'that = "object_ms.p99 <= 60000"')
    done = archiver("run", path, "--backend", "null", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["verdict"] == "pass"


@pytest.mark.parametrize("clients", [1, 2])
def test_cell_ends_early_when_its_abort_criterion_is_missed(home: Path, tmp_path: Path, clients: int) -> None:
    text = SCENARIO.replace("[1, 2]", f"[{clients}]").replace('"100ms"', '"1h"').replace('"200ms"', '"1h"')
    path = written(tmp_path, 'that = "object_ms.max <= 0"\nabort = true', text=text.replace('"1MB"', '"30GB"'))
    endless = ("--set", "stop.client_bytes_max=15GB") if clients > 1 else ()
    done = archiver("run", path, "--backend", "null", "--json", *endless)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert [(each["aborted"], each["passed"]) for each in document["criteria"]] == [(True, False)]
    assert document["results"][0]["objects"] > 0
    assert document["results"][0]["seconds"] < 3600


def test_criterion_missed_before_interruption_fails_the_resumed_run(home: Path, tmp_path: Path) -> None:
    archives = SCENARIO.replace("[1, 2]", "[1]")
    sweep = archives[archives.index("[[sweep]]") :]
    retrieves, again = sweep.replace("archive", "retrieve"), sweep.replace('name = "archive"', 'name = "again"')
    endless = 'stop = { seconds_min = "1h", seconds_max = "1h", bytes_max = "2GB" }'
    text = f"{archives}{retrieves}{again}{endless}\n"
    path = written(tmp_path, 'that = "objects_per_second >= 1e12"\nworkload = "retrieve"', text=text)
    with started("run", path, "--order", "paper", "--criterion", "errors == 0") as process:
        wait_until(lambda: process.poll() is not None or begun(home / "runs") == 3, "third phase")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
    shorten(home, "1h", "200ms")
    done = archiver("resume", "latest", "--json")
    document = json.loads(done.stdout)
    assert done.returncode == 1, done.stderr
    assert document["verdict"] == verdict_of_missed(document)
    assert [(each["name"], each["passed"]) for each in document["criteria"]] == [
        ("errors == 0", True), ("objects_per_second >= 1e12", False), ("errors == 0", True), ("errors == 0", True),
    ]  # fmt: skip


def test_criteria_of_command_line_and_file_are_both_judged(home: Path, tmp_path: Path) -> None:
    path = written(tmp_path, 'that = "errors == 0"')
    done = archiver("run", path, "--backend", "null", "--json", "--criterion", "objects_per_second >= 1e12")
    assert done.returncode == 1, done.stderr
    judged = [(each["name"], each["passed"]) for each in json.loads(done.stdout)["criteria"]]
    assert judged == [("errors == 0", True), ("objects_per_second >= 1e12", False)] * 2


@pytest.mark.parametrize("output", ["--quiet", "--json"])
def test_missed_criterion_is_printed_with_its_value(home: Path, tmp_path: Path, output: str) -> None:
    done = archiver("run", written(tmp_path), "--backend", "null", output, "--criterion", "objects_per_second >= 1e12")
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if line.startswith("criterion ")]
    assert 1 <= len(lines) <= 2  # the client may limit some cells
    for line in lines:
        assert re.match(
            r"criterion (missed|void): objects_per_second >= 1e12: measured [0-9,]+ \(archive 8KiB x 2", line
        )


@pytest.mark.parametrize(
    ("criterion", "words"),
    [
        ("object_ms <= 20", "--criterion: criterion 'object_ms <= 20': object_ms needs a statistic"),
        ("errors = 0", "--criterion: criterion 'errors = 0': '=' is not a comparison"),
        ("dropped == 0", "not measured for any workload: only a workload with a schedule"),
    ],
)
def test_invalid_criterion_is_refused_before_the_run(home: Path, tmp_path: Path, criterion: str, words: str) -> None:
    done = archiver("run", written(tmp_path), "--backend", "null", "--criterion", criterion)
    assert done.returncode == 2
    assert words in done.stderr
    assert not home.exists() or not list(home.iterdir())


def test_bundle_includes_criteria_of_the_command_line(home: Path, tmp_path: Path) -> None:
    path, bundle = written(tmp_path), str(tmp_path / "audit.zip")
    archiver("run", path, "--backend", "null", "--quiet", "--criterion", "objects_per_second >= 1e12")
    assert archiver("bundle", "make", "latest", bundle).returncode == 0
    done = archiver("bundle", "verify", bundle)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(bundle) as files:
        judged = json.loads(files.read("results.json"))["criteria"]
    assert [each["name"] for each in judged] == ["objects_per_second >= 1e12"] * 2
