"""Run a capture as a separate process, for tests that send requests through it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from archiver.traces.capture.journal import journal_path
from archiver.traces.format import Trace, TracedOperation
from tests.support import forks
from tests.support.commands import _carry_out, archiver_within

HANG_SECONDS = 30.0  # reached only if a test hangs


class RunningCapture(forks.Forked):
    """The forked process of a capture. Its stdout includes its messages."""

    def __init__(self, *options: str) -> None:
        read_end, write_end = os.pipe()
        self.stdout = open(read_end)  # noqa: SIM115 - until it has ended
        process = forks.ForkedProcess(target=_carry_out, args=("capture", *options))
        process.descriptors = {1: write_end, 2: write_end}
        process.start()
        os.close(write_end)
        super().__init__(process)

    def communicate(self) -> str:
        """Wait until the process ends and return the rest of its output."""
        self.wait(HANG_SECONDS)
        return self.stdout.read()


@dataclass(slots=True)
class Capture:
    """A running capture."""

    out: Path
    endpoint: str
    process: RunningCapture
    said: str = ""

    @property
    def port(self) -> int:
        return int(self.endpoint.rpartition(":")[2])

    def listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def journal_lines(self) -> list[str]:
        return journal_path(self.out).read_text().splitlines()[1:]

    def rows_so_far(self, key: str, count: int) -> list[TracedOperation]:
        """Return the rows of this key in the journal as soon as there are ``count`` of them."""
        until = time.monotonic() + HANG_SECONDS
        while True:
            rows = [msgspec.json.decode(line, type=TracedOperation) for line in self.journal_lines()]
            found = [row for row in rows if row.key == key]
            if len(found) >= count or time.monotonic() > until:
                return found
            time.sleep(0.02)

    def end(self, *, at_once: bool = False) -> list[TracedOperation]:
        """Send Ctrl-C and return the rows of the trace, which must be in order.

        ``at_once``: send Ctrl-C a second time to cut off running operations.
        """
        self.process.send_signal(signal.SIGINT)
        while at_once and self.listens():
            time.sleep(0.01)
        if at_once:
            self.process.send_signal(signal.SIGINT)
        self.said = self.process.communicate()
        assert self.process.returncode == 0, self.said
        assert not journal_path(self.out).exists()
        return list(Trace.open(self.out).operations(must_rise=True))


def run(*options: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a capture command that ends by itself."""
    return archiver_within(HANG_SECONDS, ["capture", *map(str, options)], {})


@contextmanager
def capturing(out: Path, upstream: str, *options: str) -> Iterator[Capture]:
    """Run a capture as long as the block lasts."""
    process = RunningCapture("--upstream", upstream, str(out), *options)
    with closing(process.stdout):
        try:
            line = process.stdout.readline()
            assert line.startswith("listens on http://"), line + process.stdout.read()
            yield Capture(out, line.split()[2].rstrip(","), process)
        finally:
            process.kill()
            process.wait()
