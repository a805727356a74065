"""Test that SIGTERM and SIGHUP end a command as Ctrl-C does: results are saved, and no process is left."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from backends.embedded import process as embedded
from tests.support.commands import StartedCommand, archiver, started
from tests.support.runs import keys_of
from tests.support.servers.fault_proxy import FaultProxy, Nth, asks_for, nothing_of, silence

SECONDS_MAX = 60
TINY = (
    "dr550", "--quick", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2",
    "--set", "stop.warm_up_seconds=20ms",
)  # fmt: skip
QUICK = (*TINY, "--set", "stop.seconds_min=20ms", "--set", "stop.seconds_max=40ms")
BRIEF = ("--set", "stop.seconds_min=100ms", "--set", "stop.seconds_max=100ms")
SMALL = ("--set", "stop.client_bytes_max=24MB")
ENDLESS = (*TINY, *BRIEF, *SMALL, "--set", "stop.bytes_max=24MB", "--repeat", "99")  # for tests that wait
TWO_CLIENTS = (*TINY, "--set", "clients=2", "--set", "stop.seconds_min=100ms", *SMALL, "--repeat", "99")
SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


def as_from_a_shell() -> None:
    """Undo ignored signals that the test process may have inherited."""
    for number, _ in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def executed(*arguments: str, prepare: Callable[[], None] = as_from_a_shell, **given: Any) -> Iterator[Any]:
    """Run a command in a session of its own and kill all its processes at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "archiver", *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **given},
        start_new_session=True, preexec_fn=prepare,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def wait_until(process: subprocess.Popen[str] | StartedCommand, condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        assert process.poll() is None, "the command ended before"
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def value_of(home: Path, question: str) -> Any:
    """Return one value from the database of the only run."""
    for path in home.glob("runs/*/run.db"):
        with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(question).fetchone()[0]
    return None


def results(home: Path) -> Any:
    return value_of(home, "SELECT count(*) FROM result")


def workers_of(pid: int, command_line: bytes = b"") -> list[int]:
    """Return the worker processes of a command that leads a process group, also after the command has ended.

    ``command_line``: words that distinguish an executed worker from Python's own processes.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != pid:
            with suppress(OSError):
                group = int((entry / "stat").read_text().rpartition(")")[2].split()[2])
                if group == pid and command_line in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_signal_to_process_group_saves_finished_results(home: Path, number: signal.Signals, status: int) -> None:
    with started("run", *TWO_CLIENTS, "--workers", "2", "--json") as process:
        wait_until(process, lambda: results(home))
        os.killpg(process.pid, number)
        stdout, stderr = process.communicate(timeout=SECONDS_MAX)
        assert workers_of(process.pid) == []
    assert process.returncode == status, stderr
    assert json.loads(stdout)["results"]
    assert value_of(home, "SELECT verdict FROM run") == "interrupted"
    assert "died" not in stderr  # workers were stopped in order, not killed
    assert "Traceback" not in stderr


def test_repeated_sigterm_counts_as_one(home: Path) -> None:
    """timeout(1) sends SIGTERM to its child and to the child's group."""
    with started("run", *ENDLESS, "--quiet") as process:
        wait_until(process, lambda: results(home))
        for _ in range(200):
            os.kill(process.pid, signal.SIGTERM)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 143, stderr
    assert value_of(home, "SELECT verdict FROM run") == "interrupted"


def test_starting_workers_end_on_sigterm(home: Path) -> None:
    with executed("run", *ENDLESS, "--quiet") as process:
        wait_until(process, lambda: workers_of(process.pid, b"spawn_main"))
        os.killpg(process.pid, signal.SIGTERM)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
        assert workers_of(process.pid, b"spawn_main") == []
    assert process.returncode == 143, stderr
    assert "died" not in stderr
    assert "Traceback" not in stderr


def test_signal_at_end_of_run_does_not_lose_its_verdict(home: Path) -> None:
    signalled_at_its_end = """
import os, signal, sys
from archiver.cli import main
from archiver.watch.sampler import ResourceSampler
stop = ResourceSampler.stop
def stop_late(self):
    os.kill(os.getpid(), signal.SIGTERM)
    stop(self)
ResourceSampler.stop = stop_late
main(sys.argv[1:])
"""
    done = subprocess.run(
        [sys.executable, "-c", signalled_at_its_end, "run", *QUICK, "--backend", "null"],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False, preexec_fn=as_from_a_shell,
    )  # fmt: skip
    assert done.returncode == 143
    assert done.stderr.splitlines()[-1] == "archiver: interrupted by SIGTERM"
    assert value_of(home, "SELECT verdict FROM run") == "none"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_during_a_probe_is_not_lost(home: Path, name: str) -> None:
    signalled_by_an_answer = f"""
import os, signal, sys
from archiver.cli import main
from backends.s3.wire.connection import HttpConnection
updated = HttpConnection.buffer_updated
def signalled(self, nbytes):
    os.kill(os.getpid(), signal.{name})
    updated(self, nbytes)
HttpConnection.buffer_updated = signalled
main(sys.argv[1:])
"""
    done = subprocess.run(
        [sys.executable, "-c", signalled_by_an_answer, "run", *ENDLESS, "--quiet"],
        capture_output=True, text=True, timeout=SECONDS_MAX, check=False, preexec_fn=as_from_a_shell,
    )  # fmt: skip
    assert done.returncode == 128 + signal.Signals[name], done.stderr
    assert value_of(home, "SELECT verdict FROM run") == "interrupted"
    assert results(home) == 0


def test_second_signal_ends_a_command_at_once() -> None:
    never_ends = """
import signal
from archiver.machine import interruption
with interruption.handled():
    try:
        print("ready", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print("heard", flush=True)
        while True:
            signal.pause()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", never_ends], stdout=subprocess.PIPE, text=True, preexec_fn=as_from_a_shell
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.stdout.readline() == "heard\n"

        def is_over() -> bool:
            process.terminate()
            return process.poll() is not None

        wait_until_over = time.monotonic() + SECONDS_MAX
        while not is_over():
            assert time.monotonic() < wait_until_over
            time.sleep(0.1)
    assert process.returncode == -signal.SIGTERM


def test_run_under_nohup_continues_after_sighup(home: Path) -> None:
    def nohup() -> None:
        as_from_a_shell()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with executed("run", *QUICK, "--quiet", prepare=nohup) as process:
        wait_until(process, lambda: results(home))
        os.killpg(process.pid, signal.SIGHUP)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 0, stderr
    assert value_of(home, "SELECT verdict FROM run") == "none"


def test_closed_terminal_ends_the_run_that_prints_to_it(home: Path) -> None:
    ours, theirs = pty.openpty()

    def on_terminal() -> None:
        as_from_a_shell()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with executed("run", *ENDLESS, prepare=on_terminal, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        wait_until(process, lambda: results(home))
        os.close(ours)
        assert process.wait(SECONDS_MAX) == 129
        assert workers_of(process.pid, b"spawn_main") == []
    assert value_of(home, "SELECT verdict FROM run") == "interrupted"


def test_sigterm_during_resumed_run_is_handled(home: Path) -> None:
    with started("run", *ENDLESS, "--quiet") as process:
        wait_until(process, lambda: results(home))
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 143, stderr
    assert "archiver resume" in stderr
    finished = results(home)
    with started("resume", "latest", "--quiet") as process:
        wait_until(process, lambda: results(home) > finished)
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
    assert process.returncode == 143, stderr
    assert value_of(home, "SELECT verdict FROM run") == "interrupted"


def test_conformance_run_is_saved_as_interrupted_on_sigterm(home: Path) -> None:
    with started("worm") as process:
        wait_until(process, lambda: value_of(home, "SELECT count(*) FROM run"))
        os.killpg(process.pid, signal.SIGTERM)
        _, stderr = process.communicate(timeout=SECONDS_MAX)
        assert workers_of(process.pid) == []
    assert process.returncode == 143, stderr
    assert value_of(home, "SELECT verdict FROM run") == "interrupted"


def test_sigterm_ends_audit_of_silent_platform(tmp_path: Path) -> None:
    with embedded.start(tmp_path / "store") as store, FaultProxy(int(store.endpoint.rpartition(":")[2])) as proxy:
        keys = keys_of(store)
        assert archiver("run", *QUICK, "--quiet", "--endpoint", proxy.url, **keys).returncode == 0
        reads = Nth(silence(nothing_of), asks_for("GET"), every=1)
        proxy.asks = reads
        with started("audit", "latest", **keys) as process:
            wait_until(process, lambda: reads.played and workers_of(process.pid))
            os.killpg(process.pid, signal.SIGTERM)
            _, stderr = process.communicate(timeout=SECONDS_MAX)
            assert workers_of(process.pid) == []
    assert process.returncode == 143, stderr
    assert "archiver: interrupted by SIGTERM" in stderr
    assert "Traceback" not in stderr
