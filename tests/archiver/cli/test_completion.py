"""Test what <Tab> offers, with the requests of the shell's own completion script."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from archiver.cli import main
from archiver.platforms.opening import PLATFORMS
from scenarios.reading.reader import builtin_names


def offered(*words: str) -> list[str]:
    """Return the completions of the last word."""
    *before, incomplete = words
    items = BashComplete(main, {}, "archiver", "_ARCHIVER_COMPLETE").get_completions(before, incomplete)
    return [f"{item.value} ({item.type})" if item.type != "plain" else item.value for item in items]


def test_commands_subcommands_and_options_are_completed() -> None:
    assert offered("re") == ["replay", "report", "resume"]
    assert offered("trace", "an") == ["anonymise"]
    assert "--retain-for" in offered("run", "--retain")


def test_completion_offers_scenarios_and_files_if_no_scenario_matches() -> None:
    assert offered("run", "") == offered("scenarios", "show", "") == list(builtin_names())
    assert offered("run", "dr") == ["dr550"]
    assert offered("run", "./mine") == ["./mine (file)"]


def test_platform_names_are_completed() -> None:
    assert offered("run", "dr550", "--platform", "") == list(PLATFORMS)
    assert offered("platform", "start", "v") == ["versitygw"]


@pytest.mark.parametrize(
    "command", ["report", "resume", "audit", "cleanup", "compare", "bundle make", "run dr550 --objects-from"]
)
def test_runs_are_completed_newest_first(home: Path, command: str) -> None:
    assert offered(*command.split(), "2026") == ["2026 (file)"]
    for name in ("20260101t000000-aaaaaa", "20260202t000000-bbbbbb"):
        (home / "runs" / name).mkdir(parents=True)
    assert offered(*command.split(), "") == ["latest", "20260202t000000-bbbbbb", "20260101t000000-aaaaaa"]
    assert offered(*command.split(), "202601") == ["20260101t000000-aaaaaa"]


def test_bash_completion_prints_matching_scenario() -> None:
    archiver = Path(sys.executable).with_name("archiver")
    asked = {**os.environ, "_ARCHIVER_COMPLETE": "bash_complete", "COMP_WORDS": "archiver run dr", "COMP_CWORD": "2"}
    done = subprocess.run([archiver], env=asked, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["plain,dr550"]


def test_scenario_keys_are_completed_up_to_the_next_dot() -> None:
    assert {"object_sizes=", "clients=", "stop.", "archive.", "archive-parallel."} <= set(
        offered("run", "dr550", "--set", "")
    )
    assert offered("run", "dr550", "--set", "archive.object") == [
        "archive.object_sizes=",
        "archive.objects_per_session=",
    ]
    assert "archive.stop.seconds_max=" in offered("run", "dr550", "--set", "archive.stop.")
    assert offered("run", "tiles", "--set", "scale.v") == ["scale.values="]
    assert "web.arrivals." not in offered("run", "tiles", "--set", "web.")  # the workload has no such table


@pytest.mark.parametrize("scenario", ["absent", "tests"])
def test_unreadable_scenario_offers_no_keys(scenario: str) -> None:
    assert offered("run", scenario, "--set", "") == []
