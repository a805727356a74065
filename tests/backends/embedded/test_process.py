"""The store as a process: start, ready message, failure to start, end; and the `serve` command."""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import SSLError
from click.testing import CliRunner

from archiver.cli.platforms.serve import serve
from archiver.values.errors import ArchiverError, PlatformError
from backends.embedded import process
from backends.embedded.s3 import credentials
from tests.support import forks
from tests.support.waiting import SECONDS_MAX


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each store as a new process, as Archiver does, instead of forking it."""
    forks.execute(monkeypatch)


@pytest.mark.usefixtures("executed")
def test_started_store_answers_and_hides_its_secret_key(data_dir: Path, connect: Callable[..., Any]) -> None:
    with process.start(data_dir) as store:
        assert connect(store).list_buckets()["Buckets"] == []
        assert store.endpoint.startswith("http://127.0.0.1:")
        assert store.secret_key not in repr(store)
        command = Path(f"/proc/{store.pid}/cmdline").read_text()
        assert store.secret_key not in command
        assert os.getsid(store.pid) == store.pid  # A Ctrl-C in the terminal does not reach it.
        assert store.is_running()
    assert not store.is_running()
    assert store.secret_key not in (data_dir / "catalogue.db").read_bytes().decode("latin-1")


def test_data_files_lists_the_segments(data_dir: Path, connect: Callable[..., Any]) -> None:
    with process.start(data_dir) as store:
        assert store.data_files() == []
        connect(store).create_bucket(Bucket="b-1")
        connect(store).put_object(Bucket="b-1", Key="k", Body=b"x")
        assert [path.suffix for path in store.data_files()] == [".seg"]


@pytest.mark.usefixtures("executed")
def test_port_in_use_is_reported(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(PlatformError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            process.start(data_dir, port=port)


def test_file_as_data_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(PlatformError, match="file cannot hold a store: File exists"):
        process.start(tmp_path / "file")


def test_bad_credential_request_is_reported(data_dir: Path) -> None:
    with pytest.raises(PlatformError, match="no right is called 'everything'"):
        process.start(data_dir, credentials=["x:without=everything"])


def test_store_ends_when_its_owner_is_killed(data_dir: Path) -> None:
    program = (
        "import pathlib, sys, time; from backends.embedded import process;"
        f"print(process.start(pathlib.Path({str(data_dir)!r})).pid, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=_environment())
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    watched = os.pidfd_open(pid)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    ended, _, _ = select.select([watched], [], [], SECONDS_MAX)
    assert ended, "the store outlived its owner"
    os.close(watched)


@pytest.mark.usefixtures("executed")
def test_stopped_store_closes_its_catalogue_and_keeps_its_bucket(data_dir: Path, connect: Callable[..., Any]) -> None:
    store = process.start(data_dir)
    connect(store).create_bucket(Bucket="b-1")
    store.stop()
    store.stop()  # A second stop does nothing.
    assert not (data_dir / "catalogue.db-wal").exists()  # closed in order, with the log merged
    with process.start(data_dir) as again:
        assert [each["Name"] for each in connect(again).list_buckets()["Buckets"]] == ["b-1"]


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1, and its key."""
    paths = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-out", paths[0], "-keyout", paths[1]],
        check=True, capture_output=True,
    )  # fmt: skip
    return paths


@pytest.mark.usefixtures("executed")
def test_tls(data_dir: Path, certificate: tuple[Path, Path]) -> None:
    with process.start(data_dir, tls_certificate=certificate[0], tls_key=certificate[1]) as store:
        assert store.endpoint.startswith("https://")

        def client(trusted: str | bool) -> Any:
            return boto3.client(
                "s3", endpoint_url=store.endpoint, region_name="us-east-1", verify=trusted,
                aws_access_key_id=store.access_key, aws_secret_access_key=store.secret_key,
                config=Config(retries={"total_max_attempts": 1}),
            )  # fmt: skip

        s3 = client(str(certificate[0]))
        s3.create_bucket(Bucket="b-1")
        for size in (10, 9 << 20):
            s3.put_object(Bucket="b-1", Key="k", Body=bytes(size))
            assert s3.get_object(Bucket="b-1", Key="k")["Body"].read() == bytes(size)
        with pytest.raises(SSLError):
            client(True).list_buckets()


@pytest.mark.parametrize("which", ["not a certificate", "missing"])
def test_bad_certificate_is_reported(data_dir: Path, tmp_path: Path, which: str) -> None:
    path = tmp_path / "certificate.pem"
    if which != "missing":
        path.write_text(which)
    with pytest.raises(PlatformError, match=r"certificate\.pem or its key cannot be used"):
        process.start(data_dir, tls_certificate=path)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_serve_prints_its_endpoint_and_no_secret(data_dir: Path) -> None:
    program = "from archiver.cli.platforms.serve import serve; serve()"
    running = subprocess.Popen(
        [sys.executable, "-c", program, "--data", str(data_dir), "--port", "0", "--credential", "x:without=delete"],
        stdout=subprocess.PIPE,
        env=_environment(),
        text=True,
    )
    assert running.stdout is not None
    first = running.stdout.readline()
    assert f"store in {data_dir} listens on http://127.0.0.1:" in first
    running.send_signal(signal.SIGINT)
    rest = running.stdout.read()
    running.stdout.close()
    assert running.wait(SECONDS_MAX) == 0
    assert "export AWS_ENDPOINT_URL=http://127.0.0.1:" in rest
    assert re.search(r"holds +0 objects, 0 B; [\d.]+ [GMT]B of its device are free, 268\.4 MB of that kept", rest)
    assert str(data_dir / "credentials.json") in rest
    for credential in credentials.load(data_dir).values():
        assert credential.secret_key not in first + rest


def test_serve_help_has_an_example() -> None:
    shown = CliRunner().invoke(serve, ["--help"]).output
    assert "archiver serve --data /tmp/worm-store --port 0" in shown


def test_serve_refuses_a_bad_credential_request(data_dir: Path) -> None:
    result = CliRunner().invoke(serve, ["--data", str(data_dir), "--port", "0", "--credential", "x:y"])
    assert isinstance(result.exception, ArchiverError)
    assert result.exception.exit_status == 2
