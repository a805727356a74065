"""The pages of `archiver web` in the test's process, and runs to list."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from aiohttp.test_utils import TestClient, TestServer

from archiver.cli.answers.web import page_sources
from archiver.web.server import Pages
from results.recorded.database import FILE_NAME, RunDatabase, RunRecord
from tests.results.watched_run import RECORD
from tests.support.commands import hear_ctrl_c

TOKEN = "a-token-of-tests"


@asynccontextmanager
async def client(host: str = "127.0.0.1", token: str = TOKEN) -> AsyncIterator[TestClient[Any, Any]]:
    """Run a server on loopback with this token and ``host`` as its address, and return a client of it."""
    async with TestClient(TestServer(Pages(page_sources()).application(token, host))) as found:
        yield found


async def text(client: TestClient[Any, Any], path: str = "", status: int = 200) -> str:
    """Return the page at a path behind the token."""
    async with client.get(f"/{TOKEN}/{path}") as response:
        found = await response.text()
        assert response.status == status, found
        return found


@contextmanager
def started_web(*options: str, stderr: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `archiver web` as a process and return it with the printed address; kill it at the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "archiver", "web", *options],
        stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=hear_ctrl_c,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().partition(": ")[2].strip()
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def begun_run(home: Path, name: str, **record: Any) -> RunDatabase:
    """Start a run that this process writes. It is in progress until the database is closed."""
    return RunDatabase.create(home / "runs" / name / FILE_NAME, RunRecord(**RECORD | {"id": name} | record))


def ended_run(home: Path, name: str, **record: Any) -> None:
    """Write an ended run without results."""
    database = begun_run(home, name, **record)
    database.finish(2.0, "none")
    database.close()
