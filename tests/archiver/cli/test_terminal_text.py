"""Test that text of a server cannot control a terminal: on a pseudo-terminal, since click removes escapes in pipes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from archiver.values.visible import visible, visible_line
from archiver.web.templates import render
from results.document.files import write_files
from tests.support.commands import archiver
from tests.support.runs import TINY
from tests.support.servers.hostile import hostile

# Title, clipboard, colour, C1 colour, bidirectional override, zero width, a forged line, and a return to its start.
ATTACK = "\x1b]0;title\x07\x1b]52;c;bWU=\x07\x1b[31mred\x9b32m\u202egnp\u200b\nforged\rline"
SHOWN = r"\u001b]0;title\u0007\u001b]52;c;bWU=\u0007\u001b[31mred\u009b32m\u202egnp\u200b forged line"
# What a console of our own sends: colours, and movements of the cursor while the table is shown.
OWN_SEQUENCES = re.compile(r"\x1b\[(?:[0-9;]*[mABKG]|\?25[lh]|2K)")


def on_terminal(*command: str, **environment: str) -> tuple[int, str]:
    """Run a program on a terminal of its own; return its exit status and everything that it wrote there."""
    ours, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, *command], stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "50", **environment},
    ) as process, open(ours, "rb", buffering=0) as written:  # fmt: skip
        os.close(terminal)
        found = bytearray()
        with suppress(OSError):  # the last process of the terminal has ended
            while piece := written.read(65536):
                found += piece
        return process.wait(timeout=60), found.decode()


def control_characters(text: str) -> set[str]:
    """Return the control characters of a text besides line ends, and besides what a console of our own sends."""
    without = OWN_SEQUENCES.sub("", text).replace("\r", "")
    return {each for each in without if visible(each) != each}


def test_server_text_cannot_control_the_terminal_of_a_run(tmp_path: Path) -> None:
    with hostile("refuses every object", refusal=(403, f"Denied{ATTACK}", ATTACK), from_object=9) as server:
        home = {"ARCHIVER_HOME": str(tmp_path), **server.keys}
        options = ("run", "dr550", *TINY, "--endpoint", server.endpoint, "--tables", "errors")
        status, text = on_terminal("-m", "archiver", *options, **home)
    assert status != 0
    table, _, message = text.rpartition("archiver: ")
    assert f"Denied{SHOWN}" in table, text
    assert SHOWN in message
    assert control_characters(text) == set()
    assert "\x1b[?25l" in text  # our own table was drawn


def test_server_text_is_shown_in_a_pipe_as_on_a_terminal(tmp_path: Path) -> None:
    with hostile("refuses every object", refusal=(403, "Denied", ATTACK)) as server:
        home = {"ARCHIVER_HOME": str(tmp_path), **server.keys}
        done = archiver("run", "dr550", *TINY, "--endpoint", server.endpoint, "--quiet", **home)
    assert done.returncode != 0
    assert SHOWN in done.stderr
    assert control_characters(done.stderr) == set()


@pytest.mark.parametrize("name", ["a.md", "a.html", "a.csv", "a.json", "a.svg", "a.xml"])
def test_written_documents_show_hidden_characters(name: str, tmp_path: Path) -> None:
    (path,) = write_files(tmp_path, {name: b"\x1b[31mred\n"})
    assert path.read_text() == "\\u001b[31mred\n"


def test_pages_of_the_web_server_show_hidden_characters() -> None:
    page = render("message.html", up="", title="a\x1b[31m", words="\u202eb")
    assert r"a\u001b[31m" in page
    assert r"\u202eb" in page
    assert control_characters(page) == set()


def test_exceptions_and_text_during_a_live_table_are_visible() -> None:
    script = """
import sys, click
from rich.live import Live
from archiver.cli.live.console import console
from archiver.cli.terminal import show_hidden_characters
show_hidden_characters()
drawn = console()
with Live("table \\x9b31m", console=drawn, redirect_stdout=False, redirect_stderr=False):
    click.echo("\\x1b[31mmeanwhile", err=True, color=True)
    drawn.print("\\x1b[31mwarning", style="yellow", highlight=False)
raise ValueError("\\x1b[31mfailed")
"""
    status, text = on_terminal("-c", script)
    assert status == 1
    for shown in (r"table \u009b31m", r"\u001b[31mmeanwhile", r"\u001b[31mwarning", r"ValueError: \u001b[31mfailed"):
        assert shown in text
    assert "\x1b[33m" in text
    assert control_characters(text) == set()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 漢 ᵃ ▁ –\n\tx", "plain é 漢 ᵃ ▁ –\n\tx"),
        ("\x00\x7f\x85\u2028", r"\u0000\u007f\u0085\u2028"),
        ("\u2066\u200f\ufeff\u00ad", r"\u2066\u200f\ufeff\u00ad"),
        ("\udc80", r"\udc80"),
        ("\U000e0041", r"\udb40\udc41"),
    ],
)
def test_hidden_characters_are_shown_as_json_writes_them(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_line_shows_newlines_and_tabs() -> None:
    assert visible_line("a\n\tb") == r"a\u000a\u0009b"
