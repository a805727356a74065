"""Test `archiver platform` with a stand-in for MinIO, and with the real servers."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import boto3
import psutil
import pytest

from archiver.platforms.programs import PROGRAMS
from archiver.values import version as package
from backends.embedded import process
from tests.archiver.platforms.stand_in import NAME, install_stand_in
from tests.support.commands import archiver
from tests.support.servers import real


@pytest.fixture
def stopped(home: Path) -> Iterator[None]:
    """Stop every platform that the test started."""
    yield
    for path in home.glob("platforms/*.json"):
        archiver("platform", "stop", path.stem)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: None) -> None:
    install_stand_in(tmp_path / "cache", monkeypatch)


def secret_in(home: Path, name: str = NAME) -> str:
    secret: str = json.loads((home / "platforms" / f"{name}.json").read_text())["server"]["access"]["secret_key"]
    return secret


def process_in(output: str) -> psutil.Process:
    found = re.search(r"\(process (\d+)\)", output)
    assert found, output
    return psutil.Process(int(found[1]))


@pytest.mark.usefixtures("installed")
def test_platform_commands_start_list_show_and_stop_a_server(home: Path) -> None:
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
    assert f"{NAME} is already running on http://127.0.0.1:" in second.stderr
    assert process_in(first.stdout).is_running()


@pytest.mark.usefixtures("installed")
def test_platform_that_was_killed_can_be_started_again(home: Path) -> None:
    server = process_in(archiver("platform", "start", NAME).stdout)
    server.kill()
    psutil.wait_procs([server], timeout=30)
    gone = archiver("platform", "environment", NAME)
    assert (gone.returncode, f"{NAME} is not running; start it" in gone.stderr) == (3, True)
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
def test_platform_that_cannot_start_gives_one_clear_message(tmp_path: Path, home: Path, fault: str, words: str) -> None:
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


@pytest.mark.usefixtures("installed")
def test_unreadable_platform_record_prevents_start(home: Path) -> None:
    (home / "platforms" / f"{NAME}.json" / "in-the-way").mkdir(parents=True)
    done = archiver("platform", "start", NAME, "--data", str(home / "data"))
    assert done.returncode == 2
    assert "cannot be read" in done.stderr
    assert not (home / "data").exists()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("text", ["not JSON", "{}"])
def test_damaged_platform_file_is_reported_and_others_are_listed(home: Path, text: str) -> None:
    started = archiver("platform", "start", NAME)
    assert started.returncode == 0, started.stderr
    path = home / "platforms" / "versitygw.json"
    path.write_text(text)
    listed = archiver("platform", "list")
    assert listed.returncode == 0
    assert re.search(rf"^{NAME} .* up on http://127", listed.stdout, re.MULTILINE)
    assert re.search(r"^versitygw .* unknown whether it runs", listed.stdout, re.MULTILINE)
    assert re.search(r"^embedded .* not up +built in$", listed.stdout, re.MULTILINE)
    assert f"{path} is damaged, so the started versitygw is not known" in listed.stderr
    for command in ("start", "stop", "environment"):
        done = archiver("platform", command, "versitygw")
        assert (done.returncode, str(path) in done.stderr) == (2, True), done.stderr
        assert "Traceback" not in done.stderr
    path.unlink()


@pytest.mark.parametrize("command", ["stop", "environment"])
def test_stop_or_environment_of_unstarted_platform_is_refused(home: Path, command: str) -> None:
    done = archiver("platform", command, NAME)
    assert done.returncode == 2
    assert f"{NAME} was not started by `archiver platform start`" in done.stderr


@pytest.mark.parametrize(
    "arguments", [["platform", "start", NAME], ["run", "dr550", "--quick", "--quiet", "--platform", NAME]]
)
def test_missing_program_is_reported_with_install_command(home: Path, tmp_path: Path, arguments: list[str]) -> None:
    done = archiver(*arguments, XDG_CACHE_HOME=str(tmp_path / "empty"))
    assert done.returncode == 3
    assert f"{NAME} {PROGRAMS[NAME].version} is not installed" in done.stderr
    assert f"archiver platform install {NAME}" in done.stderr
    assert not (home / "platforms" / NAME).exists()


def test_install_without_go_is_refused_with_remedy(tmp_path: Path) -> None:
    done = archiver("platform", "install", NAME, XDG_CACHE_HOME=str(tmp_path), PATH=str(tmp_path))
    assert done.returncode == 3
    assert "there is no `go`; install Go" in done.stderr


@pytest.mark.usefixtures("installed")
def test_installing_all_reports_each_that_cannot_be_installed(tmp_path: Path) -> None:
    done = archiver("platform", "install", PATH=str(tmp_path), PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert done.returncode == 3
    assert str(PROGRAMS[NAME].path) in done.stdout
    assert "moto" in done.stdout  # the test dependencies install it
    others = [name for name in sorted(PROGRAMS) if name not in (NAME, "moto")]
    assert [line.split()[1] for line in done.stderr.splitlines()] == [*others, "not"]
    assert done.stderr.endswith(f"not installed: {', '.join(others)}; the other platforms can be used\n")


@pytest.mark.usefixtures("installed")
def test_install_of_installed_program_prints_its_path(tmp_path: Path) -> None:
    done = archiver("platform", "install", NAME, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith(str(PROGRAMS[NAME].path))


@pytest.mark.platforms
@pytest.mark.parametrize("name", real.STORES)
def test_printed_environment_is_sufficient_for_an_s3_client(
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
@pytest.mark.parametrize("name", real.STORES)
def test_a_run_starts_its_platform_and_cleanup_starts_it_again(home: Path, name: str) -> None:
    real.need(name)
    done = archiver(
        "run", "dr550", "--quick", "--platform", name, "--json", "--set", "object_sizes=8KiB",
        "--set", "objects_per_session=2", "--set", "clients=1", "--set", "stop.seconds_min=20ms",
        "--set", "stop.seconds_max=40ms",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["platform"]["name"], document["lock_verified"]) == (name, "verified")
    assert document["platform"]["version"] == PROGRAMS[name].version  # not the version of a build from sources
    removed = archiver("cleanup", document["run"], "--bypass-governance")
    assert removed.returncode == 0, removed.stdout + removed.stderr
    assert "and its bucket" in removed.stdout


# The embedded store is part of Archiver and needs no program.


def exported(monkeypatch: pytest.MonkeyPatch, name: str) -> dict[str, str]:
    """Set the variables that `environment` prints, as a shell reads them, and return them."""
    printed = archiver("platform", "environment", name)
    assert printed.returncode == 0, printed.stderr
    script = f"set -e\neval {shlex.quote(printed.stdout)}\nenv"
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env={})
    variables = dict(line.split("=", 1) for line in shown.stdout.splitlines())
    variables = {key: value for key, value in variables.items() if key.startswith(("AWS_", "DSMI_"))}
    for key, value in variables.items():
        monkeypatch.setenv(key, value)
    return variables


def put_one(bucket: str) -> None:
    s3 = boto3.session.Session().client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    s3.close()


def test_embedded_store_outlives_start_command_and_keeps_its_data(
    home: Path, stopped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = archiver("platform", "list").stdout
    assert re.search(rf"^embedded +{re.escape(package.VERSION)} +not up +built in$", listed, re.MULTILINE)
    started = archiver("platform", "start", "embedded")  # the command has ended, and its store keeps running
    assert started.returncode == 0, started.stderr
    server = process_in(started.stdout)
    assert server.is_running()
    assert os.getsid(server.pid) == server.pid
    assert f"data in {home / 'platforms' / 'embedded'}" in started.stdout
    assert re.search(r"TSM sessions: 127\.0\.0\.1 port \d+, node ARCHIVER; its password is in ", started.stdout)
    variables = exported(monkeypatch, "embedded")
    assert f"up on {variables['AWS_ENDPOINT_URL']} " in archiver("platform", "list").stdout
    put_one("b-1")
    password = json.loads((home / "platforms" / "embedded" / "nodes.json").read_text())["nodes"][0]["password"]
    for secret in (variables["AWS_SECRET_ACCESS_KEY"], password):
        assert secret not in started.stdout + started.stderr + listed
        assert secret not in " ".join(server.cmdline())
    assert password not in str(variables)

    again = archiver("platform", "start", "embedded")
    assert (again.returncode, "embedded is already running on http://127.0.0.1:" in again.stderr) == (2, True)
    ended = archiver("platform", "stop", "embedded")
    assert ended.returncode == 0, ended.stderr
    assert not server.is_running()
    data = home / "platforms" / "embedded"
    assert not (data / "catalogue.db-wal").exists()  # closed cleanly
    assert not list(home.glob("platforms/embedded?*"))  # no record of it remains

    assert archiver("platform", "start", "embedded").returncode == 0
    exported(monkeypatch, "embedded")
    s3 = boto3.session.Session().client("s3")
    assert s3.get_object(Bucket="b-1", Key="k")["Body"].read() == b"kept"
    s3.close()


def test_printed_environment_reaches_tsm_server_of_embedded_store(
    home: Path, tmp_path: Path, stopped: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "a folder"
    assert archiver("platform", "start", "embedded", "--data", str(data)).returncode == 0
    variables = exported(monkeypatch, "embedded")
    assert set(variables) >= {"DSMI_DIR", "DSMI_CONFIG"}
    done = archiver(
        "run", "dr550", "--quick", "--backend", "tsm", "--max-retain", "1d", "--json", "--set", "object_sizes=8KiB",
        "--set", "objects_per_session=2", "--set", "clients=1", "--set", "stop.seconds_min=20ms",
        "--set", "stop.seconds_max=40ms",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["platform"]["details"]["node"] == "ARCHIVER"
    assert list((data / "segments").iterdir())


@pytest.mark.parametrize("fault", ["port", "folder", "in use", "damaged"])
def test_embedded_store_that_cannot_start_reports_the_reason(home: Path, tmp_path: Path, fault: str) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] if fault == "port" else 0
        if fault == "folder":
            (tmp_path / "file").touch()
            data = tmp_path / "file" / "below"
        elif fault == "damaged":
            (data / "catalogue.db").write_bytes(b"no catalogue " * 1000)
            (data / "log").write_text("of an earlier start\n")
        if fault == "in use":
            with process.start(data) as running:
                done = archiver("platform", "start", "embedded", "--data", str(data))
                assert running.is_running()
        else:
            done = archiver("platform", "start", "embedded", "--data", str(data), "--port", str(port))
    words = {
        "port": f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another with --port",
        "folder": "cannot hold a store: Not a directory",
        "in use": "is already open (process",
        "damaged": "catalogue.db cannot be used: file is not a database",
    }[fault]
    assert (done.returncode, words in done.stderr) == (3, True), done.stderr
    assert "Traceback" not in done.stderr
    assert "earlier start" not in done.stderr
    assert not list(home.glob("platforms/*.json"))
