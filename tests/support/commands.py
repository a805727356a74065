"""Run `archiver` commands as users do: each in its own process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, NoReturn

from archiver.cli import main
from tests.support import forks

_SECONDS_MAX = 120.0


def hear_ctrl_c() -> None:
    """Restore the default action of SIGINT, which is ignored if the tests were started in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class StartedCommand(forks.Forked):
    """A running command. It is the leader of its own process group."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], program: Callable[..., NoReturn] | None = None
    ) -> None:
        """``program``: the function that the process runs instead of `archiver`."""
        self.args = ["archiver", *arguments]
        self._out, self._errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - until the end
        command = forks.ForkedProcess(target=program or _carry_out, args=tuple(arguments))
        command.environment = {**os.environ, **environment}
        command.descriptors = {1: self._out.fileno(), 2: self._errors.fileno()}
        command.group = 0
        command.start()
        super().__init__(command)

    def communicate(self, timeout: float = _SECONDS_MAX) -> tuple[str, str]:
        """Wait until it ends; return what it wrote to stdout and stderr. Raises TimeoutExpired."""
        self.wait(timeout)
        return _text(self._out), _text(self._errors)

    def close(self) -> None:
        self.wait()
        self._out.close()
        self._errors.close()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[StartedCommand]:
    """Start a command in the current folder, with these environment variables in addition to the test's. Kill it at
    the end of the block.
    """
    command = StartedCommand(arguments, environment)
    try:
        yield command
    finally:
        command.kill()
        command.close()


def archiver(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command, as ``started`` does, to its end. Raises TimeoutExpired after two minutes."""
    return archiver_within(_SECONDS_MAX, arguments, environment)


def archiver_within(
    seconds_max: float, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command, as ``archiver`` does, with a time limit of ``seconds_max``."""
    with started(*arguments, **environment) as command:
        out, errors = command.communicate(seconds_max)
        assert command.returncode is not None
        return subprocess.CompletedProcess(command.args, command.returncode, out, errors)


def begin(name: str, *arguments: str) -> None:
    """Prepare this forked process to run as the program ``name`` with these arguments."""
    forks.fork_from_now_on()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests were started in the background
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - until the process ends
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    sys.argv = [name, *arguments]


def _carry_out(*arguments: str) -> NoReturn:
    begin("archiver", *arguments)
    main(prog_name="archiver")
    raise AssertionError("a command ends by its exit status")
