"""Test the registry of running servers: readable only by the owner, and never mistaken for another process."""

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

from archiver.platforms import registry, servers
from archiver.platforms.kinds import Access
from archiver.platforms.servers import Server, TsmAccess
from archiver.values.errors import PlatformError, UsageError

SECRET = "not-to-be-shown"


@contextmanager
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Run a process that does nothing until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running
        running.kill()


def server(pid: int, tsm: TsmAccess | None = None) -> Server:
    name = "minio" if tsm is None else "embedded"
    return Server(name, "http://127.0.0.1:9000", pid, Path("/data"), Access("key", SECRET), tsm)


def test_added_server_is_found_and_its_file_is_owner_only(home: Path) -> None:
    with process() as running:
        registry.add(server(running.pid))
        assert registry.entry("minio").server == server(running.pid)
        assert registry.find("versitygw") is None
        assert registry.entry("minio").is_up()
        (path,) = (home / "platforms").glob("*.json")
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert SECRET not in repr(registry.entry("minio"))


def test_registry_file_with_wider_rights_is_replaced(home: Path) -> None:
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
    assert registry.find("minio") is None


def test_stop_does_not_end_another_process_with_a_reused_pid(home: Path) -> None:
    with process() as other:
        registry.add(server(other.pid))
        path = home / "platforms" / "minio.json"
        known = json.loads(path.read_text())
        path.write_text(json.dumps({**known, "began_ticks": known["began_ticks"] - 3600}))
        entry = registry.entry("minio")
        assert not entry.is_up()
        entry.stop()
        assert other.poll() is None
    assert registry.find("minio") is None


def test_server_that_ended_is_not_up_and_can_be_stopped(home: Path) -> None:
    with process() as running:
        entry = registry.add(server(running.pid))
        running.kill()
        os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)  # it has ended but is not reaped
        assert not entry.is_up()
    assert not entry.is_up()
    entry.stop()
    assert registry.find("minio") is None


def test_server_that_ignores_sigterm_is_killed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "STOP_SECONDS_MAX", 0.1)
    script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stubborn:
        assert stubborn.stdout is not None
        stubborn.stdout.readline()
        registry.add(server(stubborn.pid)).stop()
        stubborn.wait(30)


def test_server_that_was_never_started_is_refused(home: Path) -> None:
    with pytest.raises(
        UsageError, match="minio was not started by `archiver platform start`; see: archiver platform l"
    ):
        registry.entry("minio")
    assert not home.exists()


@pytest.mark.parametrize("password", ["chosen-for-it", None])
def test_tsm_option_files_exist_while_the_server_is_up(home: Path, password: str | None) -> None:
    with process() as running:
        entry = registry.add(server(running.pid, TsmAccess("127.0.0.1", 1500, "ARCHIVER", password)))
        folder = registry.tsm_options_folder("embedded")
        assert (folder / "dsm.opt").read_text() == "SErvername ARCHIVER\n"
        options = (folder / "dsm.sys").read_text()
        assert "TCPServeraddress 127.0.0.1\n  TCPPort 1500\n  NODename ARCHIVER\n" in options
        assert ("chosen-for-it" in options, "None" in options) == (password is not None, False)
        assert {path.stat().st_mode & 0o777 for path in (folder, *folder.iterdir())} == {0o700, 0o600}
        assert registry.entry("embedded").server == entry.server
        assert "chosen-for-it" not in repr(entry)
        entry.stop()
    assert list((home / "platforms").iterdir()) == []


@pytest.mark.parametrize("in_the_way", ["platforms", "platforms/embedded.json/below", "platforms/embedded-tsm"])
def test_server_that_cannot_be_recorded_is_stopped(home: Path, in_the_way: str) -> None:
    path = home / in_the_way
    path.parent.mkdir(parents=True)
    path.touch()
    with process() as running:
        tsm = TsmAccess("127.0.0.1", 1500, "ARCHIVER", SECRET)
        with pytest.raises(PlatformError, match="embedded was stopped again, because it cannot be recorded: ") as said:
            registry.add(server(running.pid, tsm))
        assert not psutil.pid_exists(running.pid)
    assert str(home / "platforms") in str(said.value)
    if in_the_way == "platforms/embedded-tsm":
        assert registry.find("embedded") is None


def test_server_that_ended_before_registration_is_reported(home: Path) -> None:
    with process() as running:
        running.kill()
    with pytest.raises(PlatformError, match="minio ended right after it had started; see /data/log"):
        registry.add(server(running.pid))
    assert not home.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not JSON",
        "[]",
        "{}",
        '{"began_ticks": 15}',
        f'{{"began_ticks": "now", "server": {{"access": {{"secret_key": "{SECRET}"}}}}}}',
        f'{{"name": "minio", "pid": 1, "secret_key": "{SECRET}"}}',
    ],
)
def test_damaged_registry_file_is_named_with_the_remedy(home: Path, text: str) -> None:
    path = home / "platforms" / "minio.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(UsageError, match=r"the started minio is not known .* and remove the file") as damaged:
        registry.entry("minio")
    assert str(path) in str(damaged.value)
    assert SECRET not in str(damaged.value)


def test_unreadable_registry_file_is_named(home: Path) -> None:
    path = home / "platforms" / "minio.json"
    path.mkdir(parents=True)
    with pytest.raises(UsageError, match=r"minio\.json cannot be read: Is a directory"):
        registry.entry("minio")
