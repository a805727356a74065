"""Which servers are up: remembered for their owner only, and never mistaken for another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from archiver.errors import UsageError
from archiver.rig import registry
from archiver.rig.servers import Access, Server

SECRET = "not-to-be-shown"


@contextmanager
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until it is ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def server(pid: int, name: str = "minio") -> Server:
    return Server(name, "http://127.0.0.1:9000", pid, Path("/data"), Access("key", SECRET))


def test_what_is_added_is_found_again_and_readable_by_its_owner_only(home: Path) -> None:
    with process() as running:
        registry.add(server(running.pid))
        assert [each.server for each in registry.entries()] == [server(running.pid)]
        assert registry.entry("minio").is_up()
        (path,) = (home / "platforms").glob("*.json")
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert SECRET not in repr(registry.entry("minio"))


def test_a_file_with_wider_rights_is_replaced_and_not_written_into(home: Path) -> None:
    path = home / "platforms" / "minio.json"
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    path.chmod(0o644)
    with process() as running:
        registry.add(server(running.pid))
    assert path.stat().st_mode & 0o777 == 0o600


def test_stop_ends_the_server_and_forgets_it(home: Path) -> None:
    with process() as running:
        registry.add(server(running.pid)).stop()
        assert not psutil.pid_exists(running.pid)
    assert list(registry.entries()) == []


def test_a_process_that_was_given_the_same_number_later_is_not_ended(home: Path) -> None:
    with process() as other:
        registry.add(server(other.pid))
        path = home / "platforms" / "minio.json"
        known = json.loads(path.read_text())
        path.write_text(json.dumps({**known, "began": known["began"] - 3600}))
        entry = registry.entry("minio")
        assert not entry.is_up()
        entry.stop()
        assert other.poll() is None
    assert list(registry.entries()) == []


def test_a_server_that_ended_by_itself_is_not_up_and_can_be_stopped(home: Path) -> None:
    with process() as running:
        entry = registry.add(server(running.pid))
        running.kill()
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not reaped
        assert not entry.is_up()
    assert not entry.is_up()
    entry.stop()
    assert list(registry.entries()) == []


def test_one_that_ignores_the_polite_signal_is_killed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "STOP_SECONDS_MAX", 0.1)
    script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        registry.add(server(stubborn.pid)).stop()
        stubborn.wait(30)


def test_one_that_was_never_started_is_said(home: Path) -> None:
    with pytest.raises(
        UsageError, match="minio was not started by `archiver platform start`; see: archiver platform l"
    ):
        registry.entry("minio")
    assert not home.exists()
