"""Test the headings of the options of measuring commands."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from archiver.cli import COMMANDS, main
from archiver.cli.runs.bench import bench
from archiver.cli.runs.replay import replay
from archiver.cli.runs.run import RARE, run

HEADINGS = [
    "Options", "Platform", "Connection", "Locks", "Objects and sessions", "TSM", "Resource usage", "Workers", "Output",
]  # fmt: skip


@pytest.mark.parametrize("command", [run, bench, replay], ids=["run", "bench", "replay"])
def test_help_lists_every_option_once_under_its_heading(command: click.Command) -> None:
    text = CliRunner().invoke(command, ["--help-all"]).stdout.partition("\n\n  Exit status")[2]
    assert re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE) == HEADINGS
    flags = re.findall(r"^  (?:-h, )?(--[\w-]+)", text, re.MULTILINE)
    assert flags == [
        *(each.opts[0] for each in command.params if isinstance(each, click.Option)),
        "--help",
        "--help-all",
    ]
    locks = text.partition("Locks:\n")[2].partition("Objects and sessions:\n")[0]
    assert re.findall(r"^  (--[\w-]+)", locks, re.MULTILINE) == [
        "--retention-mode", "--retain-for", "--retain-until", "--legal-hold", "--event-hold", "--max-retain",
        "--max-locked-bytes", "--accept-locked-until", "--accept-server-clock",
    ]  # fmt: skip


@pytest.mark.parametrize("command", [run, bench, replay], ids=["run", "bench", "replay"])
def test_short_help_has_the_options_that_most_people_use(command: click.Command) -> None:
    shown = re.findall(r"^  (?:-h, )?(--[\w-]+)", CliRunner().invoke(command, ["--help"]).stdout, re.MULTILINE)
    assert {"--endpoint", "--retain-for", "--max-locked-bytes", "--dry-run", "--out", "--help-all"} <= set(shown)
    assert len(shown) <= 32
    assert "--metric-names" not in shown


def test_options_of_the_long_help_exist() -> None:
    assert {str(each.name) for each in run.params} >= RARE


def test_commands_are_listed_once_each_under_headings() -> None:
    text = CliRunner().invoke(main, ["--help"]).stdout
    headings = ["Options", "Measure", "Locks", "Results", "Traces", "Platforms"]
    assert re.findall(r"^(\w+):$", text, re.MULTILINE) == headings
    listed = re.findall(r"^  ([a-z][\w-]+)  ", text.partition("Measure:\n")[2], re.MULTILINE)
    assert sorted(listed) == list(COMMANDS)
