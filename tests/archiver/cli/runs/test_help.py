"""Test the headings of the options of measuring commands."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from archiver.cli.runs.bench import bench
from archiver.cli.runs.replay import replay
from archiver.cli.runs.run import run

HEADINGS = [
    "Options", "Platform", "Connection", "Locks", "Objects and sessions", "TSM", "Resource usage", "Workers", "Output",
]  # fmt: skip


@pytest.mark.parametrize("command", [run, bench, replay], ids=["run", "bench", "replay"])
def test_help_lists_every_option_once_under_its_heading(command: click.Command) -> None:
    text = CliRunner().invoke(command, ["--help"]).stdout.partition("\n\n  Exit status")[2]
    assert re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE) == HEADINGS
    flags = re.findall(r"^  (?:-h, )?(--[\w-]+)", text, re.MULTILINE)
    assert flags == [*(each.opts[0] for each in command.params if isinstance(each, click.Option)), "--help"]
    locks = text.partition("Locks:\n")[2].partition("Objects and sessions:\n")[0]
    assert re.findall(r"^  (--[\w-]+)", locks, re.MULTILINE) == [
        "--retention-mode", "--retain-for", "--retain-until", "--legal-hold", "--event-hold", "--max-retain",
        "--max-locked-bytes", "--accept-locked-until", "--accept-server-clock",
    ]  # fmt: skip
