"""`archiver serve` with the options for trying programs of the TSM API."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

from backends.tsm.library import api
from tests.support.commands import archiver, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(not api.OWN_LIBRARY.exists(), reason="our TSM library was not built: no C compiler")


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.touch(0o600)
    path.write_text("Of my choice\n")
    return path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as attempt:
        return attempt.connect_ex(("127.0.0.1", port)) == 0


def serving(tmp_path: Path, port: int, password_file: Path) -> tuple[str, ...]:
    node = ("--node", "program", "--password-file", str(password_file))
    return ("serve", "--data", str(tmp_path / "store"), "--port", "0", "--tsm-port", str(port), *node)


def test_served_node_has_its_password_and_its_limit_of_objects(home: Path, tmp_path: Path, password_file: Path) -> None:
    port = free_port()
    sign_on = ("--tsm-server", f"127.0.0.1:{port}", "--tsm-node", "PROGRAM", "--tsm-password-file", str(password_file))
    with started(*serving(tmp_path, port, password_file), "--txn-group-max", "256") as command:
        wait_until(lambda: is_listening(port), "the store")
        over = archiver("run", "dr550", "--backend", "tsm", *sign_on, "--objects-per-transaction", "257", "--dry-run")
        command.send_signal(signal.SIGINT)
        command.communicate()
    assert "--objects-per-transaction 257: the server takes at most 256" in over.stderr


def test_expired_password_is_named_with_its_remedy(home: Path, tmp_path: Path, password_file: Path) -> None:
    port = free_port()
    sign_on = ("--tsm-server", f"127.0.0.1:{port}", "--tsm-node", "PROGRAM", "--tsm-password-file", str(password_file))
    with started(*serving(tmp_path, port, password_file), "--password-expires", "1ms") as command:
        wait_until(lambda: is_listening(port), "the store")
        expired = archiver("run", "dr550", "--backend", "tsm", *sign_on, "--dry-run")
        command.send_signal(signal.SIGINT)
        command.communicate()
    assert expired.returncode == 3
    assert "52 REJECT_VERIFIER_EXPIRED" in expired.stderr
    assert "the node's password has expired; set another" in expired.stderr


def test_short_password_and_ambiguous_node_are_refused(tmp_path: Path, password_file: Path) -> None:
    password_file.write_text("1234567\n")
    short = archiver(*serving(tmp_path, 0, password_file))
    assert short.returncode == 2
    assert "the password of node PROGRAM: it must have at least 8 characters" in short.stderr
    two = archiver(*serving(tmp_path, 0, password_file), "--node", "second")
    assert two.returncode == 2
    assert "--password-file: name the one node that gets the password with --node" in two.stderr
