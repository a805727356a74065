"""Test the supervisor of a Ceph cluster: it starts and stops the daemons in order and leaves none running.

Scripts stand in for Ceph's programs. Each prints its events, so the output shows them in order.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from archiver.platforms import ceph

_PROGRAM = f"""#!{sys.executable}
import os, signal, sys
name, arguments = os.path.basename(sys.argv[0]), sys.argv[3:]
def say(*words):  # in one write: several daemons share the output
    os.write(1, (" ".join(words) + "\\n").encode())
if "--foreground" not in arguments:
    say(name, *arguments, sys.stdin.read())
    sys.exit(os.environ.get("FAILING") == name)
def stop(*_):
    say(name, "stopped")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
say(name, "started", "with secret" if "{ceph.SECRET_KEY}" in os.environ else "")
if os.environ.get("ENDING") == name:
    sys.exit(1)
signal.pause()
"""
DAEMONS = ["ceph-mon", "ceph-osd", "radosgw"]
Supervised = subprocess.Popen[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a server's folder next to a tree of programs."""
    programs = tmp_path / "tree" / "usr" / "bin"
    programs.mkdir(parents=True)
    (tmp_path / "tree" / "usr" / "lib" / "example-linux-gnu").mkdir(parents=True)
    for name in (*DAEMONS, "radosgw-admin", "monmaptool", "osdmaptool"):
        (programs / name).write_text(_PROGRAM)
        (programs / name).chmod(0o755)
    (tmp_path / "server" / "data").mkdir(parents=True)
    return tmp_path / "server"


@contextmanager
def supervised(folder: Path, **variables: str) -> Iterator[Supervised]:
    keys = {ceph.ACCESS_KEY: "example-key", ceph.SECRET_KEY: "example-secret"}
    with subprocess.Popen(
        [sys.executable, "-m", ceph.__name__, str(folder.parent / "tree"), str(folder), "1234"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **keys, **variables},
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def until_all_started(process: Supervised) -> list[str]:
    """Return the output up to the start of every daemon. The stand-ins do not wait for each other."""
    assert process.stdout is not None
    lines: list[str] = []
    while not {f"{name} started" for name in DAEMONS} <= set(lines):
        line = process.stdout.readline()
        assert line, lines
        lines.append(line.strip())
    return lines


def test_daemons_stop_in_the_reverse_order(folder: Path) -> None:
    with supervised(folder) as process:
        until_all_started(process)
        process.terminate()
        stopped = process.communicate()[0].splitlines()
    assert stopped == [f"{name} stopped" for name in reversed(DAEMONS)]
    assert process.returncode == 0


def test_daemons_end_with_a_killed_supervisor(folder: Path) -> None:
    with supervised(folder) as process:
        until_all_started(process)
        process.send_signal(signal.SIGKILL)
        assert process.communicate()[0] == ""  # the output ends when the last daemon has ended


@pytest.mark.parametrize("name", DAEMONS)
def test_the_end_of_one_daemon_stops_the_others(folder: Path, name: str) -> None:
    with supervised(folder, ENDING=name) as process:
        output = process.communicate()[0]
    assert process.returncode != 0
    assert output.endswith("a daemon of Ceph ended by itself; the lines above say why\n")
    assert f"{name} stopped" not in output


@pytest.mark.parametrize("name", ["ceph-mon", "radosgw-admin"])
def test_failing_ceph_program_is_named(folder: Path, name: str) -> None:
    with supervised(folder, FAILING=name) as process:
        output = process.communicate()[0]
    assert process.returncode == 1
    assert output.endswith(f"{name} failed; the lines above say why\n")
    assert "radosgw started" not in output


def test_only_the_user_command_gets_the_secret_and_by_stdin(folder: Path) -> None:
    with supervised(folder) as process:
        output = "\n".join(until_all_started(process))
        process.terminate()
    (put,) = [line for line in output.splitlines() if line.startswith("radosgw-admin")]
    user = json.loads(put[put.index("{") :])["data"]
    assert user["keys"] == [{"user": ceph.USER, "access_key": "example-key", "secret_key": "example-secret"}]
    assert "with secret" not in output
    assert "example-secret" not in (folder / "ceph.conf").read_text()


def test_second_start_keeps_the_cluster_and_its_data(folder: Path) -> None:
    def starts(ready: Callable[[Path], object]) -> list[str]:
        with supervised(folder) as process:
            output = until_all_started(process)
            ready(folder)
            process.terminate()
        return [line for line in output if "started" not in line]

    first = starts(lambda folder: (folder / "data" / "osd" / "block").write_text("objects"))
    identity = configured(folder)["fsid"]
    second = starts(lambda folder: None)
    assert sum("--mkfs" in line for line in first) == 2
    assert not any("--mkfs" in line for line in second)
    assert any(line.startswith("ceph-mon --id a --inject-monmap") for line in second)
    assert configured(folder)["fsid"] == identity
    assert (folder / "data" / "osd" / "block").read_text() == "objects"


def test_interrupted_first_start_is_repeated_from_scratch(folder: Path) -> None:
    with supervised(folder, FAILING="ceph-osd") as process:
        process.communicate()
    (folder / "data" / "osd" / "half").touch()
    with supervised(folder) as process:
        until_all_started(process)
        process.terminate()
    assert not (folder / "data" / "osd" / "half").exists()


def configured(folder: Path) -> Mapping[str, str]:
    lines = (folder / "ceph.conf").read_text().splitlines()
    return {name: value for name, _, value in (line.partition(" = ") for line in lines)}
