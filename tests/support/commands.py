"""`archiver` commands as their users meet them: in processes of their own, against real stores."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from typing import NoReturn

from archiver.cli import main
from tests.support import forks

_SECONDS_MAX = 120.0


def hear_ctrl_c() -> None:
    """For a process that is to be interrupted: whoever started the tests in the background has had SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def archiver(
    *arguments: str, seconds_max: float = _SECONDS_MAX, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Carry out a command in the current folder, with these environment variables besides those of the test.

    Raises TimeoutExpired after ``seconds_max``; the command has then been killed.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = forks.ForkedProcess(target=_carry_out, args=arguments)
        process.environment = {**os.environ, **environment}
        process.descriptors = {1: out.fileno(), 2: errors.fileno()}
        process.start()
        process.join(seconds_max)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["archiver", *arguments], seconds_max)
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(["archiver", *arguments], process.exitcode, out.read(), errors.read())


def _carry_out(*arguments: str) -> NoReturn:
    forks.fork_from_now_on()
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - until the process ends
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    sys.argv = ["archiver", *arguments]
    main(prog_name="archiver")
    raise AssertionError("a command ends by its exit status")
