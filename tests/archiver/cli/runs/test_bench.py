"""Test ad-hoc runs: the scenario they make, the run, its report, and refused options."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from archiver.cli import main
from scenarios.reading.reader import read_scenario
from tests.support.commands import archiver
from tests.support.runs import break_off

SMALL = (
    "bench", "--size", "8KiB", "--objects-per-session", "2", "--clients", "2", "--duration", "500ms",
    "--max-locked-bytes", "200MB",
)  # fmt: skip


def shown(*arguments: str) -> str:
    """Return the scenario that a command would carry out."""
    done = CliRunner().invoke(main, [*arguments, "--show-scenario"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_ad_hoc_run_is_measured_reported_and_judged(home: Path) -> None:
    done = archiver(*SMALL, "--operation", "archive,retrieve,mixed:70/30", "--criterion", "object_ms.max <= 0")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[0].endswith(": Ad-hoc measurement: archive, retrieve, mixed 70/30 of 8KiB")
    rates = done.stdout.partition("Rates and response times")[2]
    for name in ("archive 8KiB x 2, 2 clients", "retrieve 8KiB x 2, 2 clients", "mixed 70/30 8KiB x 2, 2 clients"):
        assert name in rates
    assert re.search(r"^criterion (missed|void): object_ms.max <= 0: measured [0-9.]+ \(", done.stderr, re.MULTILINE)
    document = json.loads(archiver("report", "latest", "--format", "json").stdout)
    assert [(each["operation"], each["errors"]) for each in document["results"]] == [
        ("archive", 0), ("retrieve", 0), ("mixed", 0),
    ]  # fmt: skip
    assert archiver("cleanup", "latest", "--bypass-governance").returncode == 0


def test_saved_scenario_has_the_same_plan_as_bench(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(shown(*SMALL, "--rate", "100/s"))
    planned = [
        CliRunner().invoke(main, [*command, "--backend", "null", "--dry-run"]).stdout
        for command in ((*SMALL, "--rate", "100/s"), ("run", str(path)))
    ]
    assert "100 sessions/s (poisson)" in planned[0]
    dated = "a phase that starts now asks for no lock beyond "
    assert planned[0].partition(dated)[0] == planned[1].partition(dated)[0]


def test_retrieve_only_bench_archives_a_load_first(home: Path) -> None:
    done = archiver(*SMALL, "--operation", "retrieve", "--backend", "null", "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)["results"]
    assert [(each["operation"], each["is_load"]) for each in results] == [("archive", True), ("retrieve", False)]


def test_interrupted_ad_hoc_run_is_resumed(home: Path) -> None:
    assert archiver(*SMALL, "--criterion", "errors == 0", "--quiet").returncode == 0
    break_off(home, 2)
    done = archiver("resume", "latest", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["verdict"] == "pass"
    assert [each["operation"] for each in document["results"]] == ["archive", "retrieve"]


def test_bench_defaults_differ_for_closed_and_open_loop() -> None:
    closed, opened = (read_scenario("bench", text=shown("bench", *rate)) for rate in ((), ("--rate", "50")))
    assert {(each.clients, each.objects_per_session) for each in closed.workloads} == {(1, 100), (4, 100)}
    assert {(each.clients, each.objects_per_session) for each in opened.workloads} == {(16, 1)}
    assert 40 <= sum(phase.seconds_max for phase in closed.phases) <= 60


def test_platforms_and_repetitions_share_the_locked_bytes_limit() -> None:
    one = read_scenario("bench", text=shown("bench", "--duration", "1h"))
    six = read_scenario(
        "bench",
        text=shown("bench", "--duration", "1h", "--repeat", "3", "--platform", "minio", "--platform", "embedded"),
    )
    assert 6 * six.archived_max().bytes == pytest.approx(one.archived_max().bytes, rel=0.05)  # whole sessions


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--size", "8XB"), "'8XB': unknown size unit 'XB'"),
        (("--size", "8"), "'8': a size needs a unit: write 8KiB or 8B"),
        (("--size", "0"), "'0': an object must have 1 byte to 64MiB"),
        (("--size", "65MiB"), "'65MiB': an object must have 1 byte to 64MiB"),
        (("--size", "8KiB,8192B"), "'8KiB,8192B' has a value twice"),
        (("--size", ""), "'' is not a size"),
        (("--clients", "0"), "'0' is not a whole number of at least 1"),
        (("--clients", "1,,2"), "'' is not a whole number of at least 1"),
        (("--objects-per-session", "-5"), "'-5' is not a whole number of at least 1"),
        (("--objects-per-session", "501"), "--allow-large-sessions allows more"),
        (("--operation", "mixed"), "'mixed' is not an operation"),
        (("--operation", "delete"), "'delete' is not an operation"),
        (("--duration", "30"), "a duration needs a unit"),
        (("--duration", "0s"), "it must be above 0s"),
        (("--duration", "3h"), "it must be above 0s and at most 2h"),
        (("--rate", "0/s"), "'0/s': a rate must be above 0"),
        (("--rate", "5/x"), "'5/x' is not a rate such as 500/s"),
        (("--rate", "nan"), "'nan': a rate must be above 0"),
        (("--criterion", "latency < 3"), "--criterion: criterion 'latency < 3': there is no metric 'latency'"),
        (("--criterion", "dropped == 0"), "not measured for any workload: only a workload with a schedule"),
        (("--size", "64MiB", "--objects-per-session", "500", "--clients", "16"), "--max-locked-bytes"),
        (("--retain-for", "2h"), "--max-retain"),
    ],
)
def test_invalid_bench_options_are_refused_before_start(home: Path, arguments: tuple[str, ...], words: str) -> None:
    done = CliRunner().invoke(main, ["bench", *arguments, "--dry-run"])
    assert done.exit_code == 2, done.output
    assert words in done.output.replace("\n", " ")
