"""Documents kept true: every command is in README.md, every help text has an example, nothing named is missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from archiver.cli import main

ROOT = Path(__file__).parent.parent


def commands(group: click.Group = main, prefix: str = "archiver") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
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
