"""Test servers as processes: each answers or its error gives the reason, and none is left running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest
import trustme

from archiver.platforms import servers
from archiver.platforms.kinds import KINDS
from archiver.platforms.programs import PROGRAMS
from archiver.platforms.servers import Server, running
from archiver.values.errors import PlatformError
from tests.archiver.platforms.stand_in import NAME, install_stand_in
from tests.support.servers import real
from tests.support.servers.scripted import ScriptedServer, close, read, send


@pytest.fixture(autouse=True)
def stand_in(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, request: Any) -> None:
    """Install a quick stand-in for MinIO, except in tests of real platforms."""
    if request.node.get_closest_marker("platforms") is None:
        install_stand_in(tmp_path_factory.mktemp("cache"), monkeypatch)


def ask(server: Server) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(server.endpoint + "/", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def test_server_answers_within_its_block_with_separate_credentials(tmp_path: Path) -> None:
    with running(NAME, tmp_path / "one") as one, running(NAME, tmp_path / "two") as two:
        assert one.endpoint.startswith("http://127.0.0.1:")
        assert one.endpoint != two.endpoint
        assert (ask(one), ask(two)) == (one.access.secret_key, two.access.secret_key)
        assert one.access != two.access
        assert os.getsid(one.pid) == one.pid  # a Ctrl-C in the terminal does not reach it
        assert one.access.secret_key not in repr(one)
        assert one.access.secret_key not in " ".join(psutil.Process(one.pid).cmdline())
    assert not psutil.pid_exists(one.pid)
    assert not psutil.pid_exists(two.pid)


def test_data_folder_is_private_and_its_files_are_listed(tmp_path: Path) -> None:
    with running(NAME, tmp_path / "one") as server:
        assert server.data_dir.stat().st_mode & 0o077 == 0
        assert server.data_files() == []
        (server.data_dir / "bucket").mkdir()
        (server.data_dir / "bucket" / "object").touch()
        assert [path.name for path in server.data_files()] == ["object"]


def test_folder_removed_during_listing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(NAME, tmp_path / "one") as server:
        for name in ("bucket", "trash"):
            (server.data_dir / name).mkdir()
            (server.data_dir / name / "object").touch()
        list_folder = os.scandir

        def remove_trash_first(path: Any) -> Any:
            if path == str(server.data_dir / "trash"):
                (server.data_dir / "trash" / "object").unlink()
                (server.data_dir / "trash").rmdir()
            return list_folder(path)

        monkeypatch.setattr(os, "scandir", remove_trash_first)
        assert server.data_files() == [server.data_dir / "bucket" / "object"]


def test_proxy_from_the_environment_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setattr(servers, "READY_SECONDS_MAX", 20.0)
    with running(NAME, tmp_path / "one") as server:
        assert ask(server)


def test_server_start_failure_is_reported_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "refuse").touch()
    with (
        pytest.raises(PlatformError, match=f"{NAME} did not start in {tmp_path}: the drive is full"),
        running(NAME, tmp_path),
    ):
        pytest.fail("it started")


def test_a_server_that_does_not_answer_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(servers, "READY_SECONDS_MAX", 0.0)
    with (
        pytest.raises(PlatformError, match=f"{NAME} did not answer within 0 s on http://127.0.0.1:"),
        running(NAME, tmp_path),
    ):
        pytest.fail("it answered")
    assert [process.returncode is not None for process in started] == [True]


def test_server_that_first_answers_no_http_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "READY_SECONDS_MAX", 20.0)
    process, server = Mock(), Mock()
    process.poll.return_value = None
    scripts = [[read, send(b"not ready\r\n\r\n"), close], [read, send(b"HTTP/1.1 200 OK\r\n\r\n"), close]]
    scripted = ScriptedServer(scripts)
    scripted.start()
    try:
        servers._wait_until_ready(process, server, [scripted.url], None)
    finally:
        scripted.stop()
    assert len(scripted.requests) == 2


def test_port_in_use_is_reported_before_any_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(PlatformError, match=f"127.0.0.1 port {port}: Address already in use; .* --port"),
            running(NAME, tmp_path, port=port),
        ):
            pytest.fail("it started")


def test_data_folder_is_used_by_one_server_at_a_time(tmp_path: Path) -> None:
    holder = f"process {os.getpid()}: "
    in_use = pytest.raises(PlatformError, match=f"{tmp_path} is in use by another {NAME}, of {holder}")
    with running(NAME, tmp_path), in_use, running(NAME, tmp_path):
        pytest.fail("two servers on the same data")
    with running(NAME, tmp_path) as again:
        assert ask(again)


@pytest.mark.parametrize("path", ["file", "file/below"])
def test_data_path_that_is_a_file_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PlatformError, match=f"cannot hold {NAME}'s data: "), running(NAME, tmp_path / path):
        pytest.fail("it started")


def test_unwritable_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    with pytest.raises(PlatformError, match=r"cannot hold .*: Is a directory"), running(NAME, tmp_path):
        pytest.fail("it started")
    assert servers.log_tail(tmp_path) == ""


def test_server_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "STOP_SECONDS_MAX", 0.1)
    (tmp_path / "stubborn").touch()
    with running(NAME, tmp_path) as server:
        pass
    assert not psutil.pid_exists(server.pid)


def test_leftovers_of_an_earlier_server_are_removed_at_start(tmp_path: Path) -> None:
    left = tmp_path / "elsewhere.sock"
    left.touch()
    with running(NAME, tmp_path / "one"):
        pass
    (tmp_path / "one" / "leftovers").write_text(f"{left}\n{tmp_path / 'gone.sock'}")
    with running(NAME, tmp_path / "one"):
        assert not left.exists()


STARTER = f"""
import pathlib, sys, time
from archiver.platforms.servers import running
with running("{NAME}", pathlib.Path(sys.argv[1])) as server:
    print(server.pid, flush=True)
    time.sleep(600)
"""


def test_server_ends_when_its_starter_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    with starter:
        assert starter.stdout is not None
        server = psutil.Process(int(starter.stdout.readline()))
        os.kill(starter.pid, signal.SIGKILL)
    psutil.wait_procs([server], timeout=30)
    assert not server.is_running() or server.status() == psutil.STATUS_ZOMBIE


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.STORES)
def test_real_server_keeps_its_data_after_a_restart(tmp_path: Path, name: str) -> None:
    with real.real_server(name, tmp_path) as first:
        client = real.client_of(first)
        client.create_bucket(Bucket="kept", ObjectLockEnabledForBucket=True)
        client.put_object(Bucket="kept", Key="k", Body=b"record", ObjectLockLegalHoldStatus="ON")
    with real.real_server(name, tmp_path) as second:
        assert second.access != first.access
        client = real.client_of(second)
        assert client.get_object(Bucket="kept", Key="k")["Body"].read() == b"record"
        assert client.head_object(Bucket="kept", Key="k")["ObjectLockLegalHoldStatus"] == "ON"


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_real_server_with_unreadable_certificate_reports_the_reason(tmp_path: Path, name: str) -> None:
    real.need(name)
    certificates = tmp_path / "certificates"
    certificates.mkdir()
    for part in ("public.crt", "private.key"):
        (certificates / part).write_text("no certificate")
    bundle = tmp_path / "authority.pem"
    trustme.CA().cert_pem.write_to_path(bundle)
    with (
        pytest.raises(PlatformError, match=f"{name} did not start (?s:.*)(certificate|PEM)"),
        running(name, tmp_path, tls=bundle),
    ):
        pytest.fail("it started")


def test_every_program_has_a_server() -> None:
    assert KINDS.keys() == PROGRAMS.keys() == {*real.STORES, "moto"}
