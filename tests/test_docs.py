"""Documents kept true: every command is in README.md, every help example runs as written."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from archiver.cli import main

ROOT = Path(__file__).parent.parent


def commands(group: click.Group = main, prefix: str = "archiver") -> Iterator[tuple[str, click.Command]]:
    for name, command in sorted(group.commands.items()):
        full = f"{prefix} {name}"
        if isinstance(command, click.Group):
            yield from commands(command, full)
        else:
            yield full, command


ALL = dict(commands())


@pytest.mark.parametrize("name", ALL)
def test_every_command_is_in_the_readme(name: str) -> None:
    assert f"`{name}" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", ALL)
def test_help_is_a_sentence_an_example_and_described_options(name: str) -> None:
    command = ALL[name]
    text = command.help or ""
    assert text.split("\n\n")[0].rstrip().endswith("."), name
    assert example(name).startswith(name)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.opts[0]} has no help"
            assert parameter.opts[0].startswith("--"), f"{name} {parameter.opts[0]} is not a long flag"


def example(name: str) -> str:
    found = re.search(r"Example:\n\s+(archiver .*)", ALL[name].help or "")
    assert found, f"{name} has no example"
    return found[1].strip()


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line)
    assert words[0] == "archiver"
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=170, check=False
    )


def test_help_examples_run_as_written(tmp_path: Path) -> None:
    # In an order in which a newcomer would try them: report and cleanup need a run.
    first = ["archiver run", "archiver report", "archiver cleanup"]
    rest = [name for name in ALL if name not in first and name != "archiver serve"]
    for name in [*first, *rest]:
        done = run(example(name), tmp_path)
        assert done.returncode == 0, f"{example(name)}\n{done.stdout}\n{done.stderr}"


def test_the_serve_example_serves_until_ctrl_c(tmp_path: Path) -> None:
    words = shlex.split(example("archiver serve").replace("/tmp/worm-store", str(tmp_path / "worm-store")))
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    assert "listens on http://127.0.0.1:" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors


@pytest.mark.parametrize("name", ["README.md", "DESIGN.md", "CHANGELOG.md", "backends/README.md"])
def test_links_and_named_files_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)
    files = re.findall(r"`((?:archiver|backends|scenarios|results|tests|benchmarks)/[\w/.\-]+\.\w+)`", text)
    for target in [*links, *files]:
        assert (ROOT / target.partition("#")[0]).exists(), f"{name} names {target}, which is not there"


def test_make_targets_in_the_readme_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`", (ROOT / "README.md").read_text()))
    assert named
    assert named <= targets
