"""Commands against the hostile platforms of tests/support/servers/hostile.py."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import archiver
from tests.support.runs import TINY
from tests.support.servers.hostile import hostile


def test_run_and_cleanup_succeed_on_a_server_without_modes(tmp_path: Path) -> None:
    with hostile() as server:
        home = {"ARCHIVER_HOME": str(tmp_path), **server.keys}
        done = archiver("run", "dr550", *TINY, "--endpoint", server.endpoint, **home)
        assert done.returncode == 0, done.stderr
        removed = archiver("cleanup", "latest", "--bypass-governance", **home)
        assert removed.returncode == 0, removed.stderr
        assert server.buckets == {}
