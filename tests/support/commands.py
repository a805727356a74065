"""`archiver` commands as their users meet them: in processes of their own, against real stores.

One idea: a command is forked from a server that has loaded Archiver's modules once. To load them takes longer than most
commands take in these tests, and nothing of one command is seen by the next.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from archiver.cli import main

_SECONDS_MAX = 120.0
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(
    [
        f"archiver.cli.{name}"
        for name in ("locks.audit", "answers.compare", "runs.replay", "answers.report", "locks.worm")
    ]
)


def hear_ctrl_c() -> None:
    """For a process that is to be interrupted: whoever started the tests in the background has had SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def archiver(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Carry out a command in the current folder, with these environment variables besides those of the test.

    Raises TimeoutExpired after two minutes; the command has then been killed.
    """
    return archiver_within(_SECONDS_MAX, arguments, environment)


def archiver_within(
    seconds_max: float, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """As ``archiver``, with a time limit of ``seconds_max`` seconds."""
    with tempfile.TemporaryDirectory() as folder:
        out, errors = Path(folder, "stdout"), Path(folder, "stderr")
        given = (arguments, {**os.environ, **environment}, Path.cwd(), out, errors)
        process = _context.Process(target=_carry_out, args=given)
        process.start()
        process.join(seconds_max)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["archiver", *arguments], seconds_max)
        assert process.exitcode is not None
        return subprocess.CompletedProcess(
            ["archiver", *arguments], process.exitcode, out.read_text(), errors.read_text()
        )


def _carry_out(
    arguments: Sequence[str], environment: Mapping[str, str], folder: Path, out: Path, errors: Path
) -> NoReturn:
    for path, descriptor in ((out, 1), (errors, 2)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - until the process ends
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["archiver", *arguments]
    main(prog_name="archiver")
    raise AssertionError("a command ends by its exit status")
