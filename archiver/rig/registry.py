"""Servers that were started to stay: one file for each in Archiver's home, so that another command can stop it.

One idea: a file names a process by its number and the moment it began, so that no other process is ever taken for it.
The files hold throw-away credentials of loopback servers, and only their owner can read them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from archiver.errors import UsageError
from archiver.home import archiver_home
from archiver.rig.servers import STOP_SECONDS_MAX, Access, Server


@dataclass(frozen=True, slots=True)
class Entry:
    """A server and when its process began (epoch seconds)."""

    server: Server
    began: float

    def is_up(self) -> bool:
        return self._process() is not None

    def _process(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.server.pid)
            same = abs(process.create_time() - self.began) < 0.01
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def stop(self) -> None:
        """End the server and forget it."""
        process = self._process()
        if process is not None:
            try:
                process.terminate()
                process.wait(STOP_SECONDS_MAX)
            except psutil.TimeoutExpired:
                process.kill()
            except psutil.NoSuchProcess:
                pass  # it ended by itself meanwhile
        _path(self.server.name).unlink(missing_ok=True)


def add(server: Server) -> Entry:
    """Remember a server."""
    entry = Entry(server, psutil.Process(server.pid).create_time())
    path = _path(server.name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(
            {
                "name": server.name,
                "endpoint": server.endpoint,
                "pid": server.pid,
                "folder": str(server.folder),
                "access_key": server.access.access_key,
                "secret_key": server.access.secret_key,
                "began": entry.began,
            },
            file,
        )
    return entry


def entries() -> Iterator[Entry]:
    """Every server that is remembered, up or not."""
    for path in sorted(_folder().glob("*.json")):
        with path.open(encoding="utf-8") as file:
            known = json.load(file)
        server = Server(
            known["name"],
            known["endpoint"],
            known["pid"],
            Path(known["folder"]),
            Access(known["access_key"], known["secret_key"]),
        )
        yield Entry(server, known["began"])


def entry(name: str) -> Entry:
    """The server of that name. Raises UsageError."""
    for each in entries():
        if each.server.name == name:
            return each
    raise UsageError(f"{name} was not started by `archiver platform start`; see: archiver platform list")


def folder_of(name: str) -> Path:
    """Where a platform keeps its data unless it is told otherwise."""
    return _folder() / name


def _path(name: str) -> Path:
    return _folder() / f"{name}.json"


def _folder() -> Path:
    return archiver_home() / "platforms"
