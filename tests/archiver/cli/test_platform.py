"""`archiver platform` as its users meet it, with a program that stands in for MinIO; once with the real ones."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import boto3
import psutil
import pytest

from archiver.rig.programs import PROGRAMS
from tests.archiver.cli.test_run import archiver
from tests.archiver.rig.stand_in import NAME, install_stand_in
from tests.servers import real


@pytest.fixture
def stopped(home: Path) -> Iterator[None]:
    """Whatever the test started is stopped."""
    yield
    for name in PROGRAMS:
        archiver("platform", "stop", name)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: None) -> None:
    install_stand_in(tmp_path / "cache", monkeypatch)


def secret_in(home: Path, name: str = NAME) -> str:
    secret: str = json.loads((home / "platforms" / f"{name}.json").read_text())["secret_key"]
    return secret


def process_in(output: str) -> psutil.Process:
    found = re.search(r"\(process (\d+)\)", output)
    assert found, output
    return psutil.Process(int(found[1]))


@pytest.mark.usefixtures("installed")
def test_start_list_environment_and_stop(home: Path) -> None:
    started = archiver("platform", "start", NAME)
    assert started.returncode == 0, started.stderr
    server = process_in(started.stdout)
    endpoint = re.findall(r"http://127\.0\.0\.1:\d+", started.stdout)[0]
    assert str(home / "platforms" / NAME) in started.stdout

    listed = archiver("platform", "list")
    assert f"up on {endpoint}" in listed.stdout
    assert "not up" in listed.stdout  # versitygw
    assert "not installed: archiver platform install versitygw" in listed.stdout
    secret = secret_in(home)
    assert secret not in started.stdout + started.stderr + listed.stdout + listed.stderr
    assert secret not in " ".join(server.cmdline())

    environment = archiver("platform", "environment", NAME)
    assert f"AWS_ENDPOINT_URL={endpoint}" in environment.stdout
    assert f"AWS_SECRET_ACCESS_KEY={secret}" in environment.stdout
    assert all(line.startswith("export ") for line in environment.stdout.splitlines())

    stopped = archiver("platform", "stop", NAME)
    assert stopped.returncode == 0, stopped.stderr
    assert not server.is_running()
    assert f"up on {endpoint}" not in archiver("platform", "list").stdout


@pytest.mark.usefixtures("installed")
def test_a_second_start_is_refused_and_names_the_first(home: Path) -> None:
    first = archiver("platform", "start", NAME)
    second = archiver("platform", "start", NAME)
    assert second.returncode == 2
    assert f"{NAME} is up already on http://127.0.0.1:" in second.stderr
    assert process_in(first.stdout).is_running()


@pytest.mark.usefixtures("installed")
def test_one_that_died_can_be_started_again(home: Path) -> None:
    server = process_in(archiver("platform", "start", NAME).stdout)
    server.kill()
    psutil.wait_procs([server], timeout=30)
    gone = archiver("platform", "environment", NAME)
    assert (gone.returncode, f"{NAME} is not up; start it" in gone.stderr) == (3, True)
    again = archiver("platform", "start", NAME)
    assert again.returncode == 0, again.stderr
    assert process_in(again.stdout).pid != server.pid


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("port", "Address already in use; choose another with --port"),
        ("folder", "cannot hold minio's data: "),
        ("refuse", "minio did not start in .*: the drive is full"),
    ],
)
def test_what_cannot_start_is_one_clear_message(tmp_path: Path, home: Path, fault: str, words: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = {
            "port": ["--data", str(data), "--port", str(taken.getsockname()[1])],
            "folder": ["--data", str(data / "file" / "below")],
            "refuse": ["--data", str(data)],
        }[fault]
        (data / ("file" if fault == "folder" else fault)).touch()
        done = archiver("platform", "start", NAME, *options)
    assert done.returncode == 3
    assert re.search(words, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(home.glob("platforms/*.json"))


@pytest.mark.parametrize("command", ["stop", "environment"])
def test_what_was_not_started_is_said(home: Path, command: str) -> None:
    done = archiver("platform", command, NAME)
    assert done.returncode == 2
    assert f"{NAME} was not started by `archiver platform start`" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["platform", "start", NAME], ["run", "dr550", "--quick", "--quiet", "--platform", NAME]]
)
def test_a_missing_program_is_said_with_the_remedy(home: Path, tmp_path: Path, arguments: list[str]) -> None:
    done = archiver(*arguments, XDG_CACHE_HOME=str(tmp_path / "empty"))
    assert done.returncode == 3
    assert f"{NAME} {PROGRAMS[NAME].version} is not installed" in done.stderr
    assert f"archiver platform install {NAME}" in done.stderr
    assert not (home / "platforms" / NAME).exists()


def test_installing_without_go_is_said(tmp_path: Path) -> None:
    done = archiver("platform", "install", NAME, XDG_CACHE_HOME=str(tmp_path), PATH=str(tmp_path))
    assert done.returncode == 3
    assert "there is no `go`; install Go" in done.stderr


@pytest.mark.usefixtures("installed")
def test_installing_what_is_there_only_says_where(tmp_path: Path) -> None:
    done = archiver("platform", "install", NAME, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(str(PROGRAMS[NAME].path))


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_the_printed_environment_is_what_any_client_needs(
    home: Path, name: str, stopped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real.need(name)
    started = archiver("platform", "start", name)
    assert started.returncode == 0, started.stderr
    exported = archiver("platform", "environment", name).stdout
    shown = subprocess.run(["sh", "-c", f"{exported}\nenv"], capture_output=True, text=True, check=True, env={})
    for line in shown.stdout.splitlines():
        variable, _, value = line.partition("=")
        if variable.startswith("AWS_"):
            monkeypatch.setenv(variable, value)
    assert boto3.session.Session().client("s3").list_buckets()["Buckets"] == []
    assert secret_in(home, name) == os.environ["AWS_SECRET_ACCESS_KEY"]
    assert secret_in(home, name) not in started.stdout


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.NAMES)
def test_a_run_starts_its_platform_and_cleanup_starts_it_again(home: Path, name: str) -> None:
    real.need(name)
    done = archiver(
        "run", "dr550", "--quick", "--platform", name, "--json", "--set", "object_sizes=8KiB",
        "--set", "objects_per_session=2", "--set", "clients=1", "--set", "stop.seconds_min=100ms",
        "--set", "stop.seconds_max=200ms",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["platform"]["name"], document["lock_verified"]) == (name, "verified")
    removed = archiver("cleanup", document["run"], "--bypass-governance")
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert "and its bucket" in removed.stdout
