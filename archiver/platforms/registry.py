"""Servers that run until a later command stops them: one file for each in Archiver's home.

One idea: a file identifies a process by its number and its start time, so another process never matches. The files
contain temporary credentials of loopback servers, and only their owner can read them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import psutil

from archiver.machine.description import start_ticks
from archiver.machine.home import archiver_home
from archiver.platforms import servers
from archiver.platforms.servers import Server, TsmAccess
from archiver.values.errors import PlatformError, UsageError
from archiver.values.typed import typed_json


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server and the start time of its process, in clock ticks since boot, which clock changes do not affect."""

    server: Server
    began_ticks: int

    def is_up(self) -> bool:
        return self._process() is not None

    def _process(self) -> psutil.Process | None:
        try:
            process = psutil.Process(self.server.pid)
            same = start_ticks(self.server.pid) == self.began_ticks
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except (psutil.NoSuchProcess, ValueError):
            return None

    def stop(self) -> bool:
        """Stop the server and delete its entry; return False if the server had ended before."""
        process = self._process()
        if process is not None:
            try:
                process.terminate()
                process.wait(servers.stop_seconds_max(self.server.name))
            except psutil.TimeoutExpired:
                process.kill()
                process.wait()
            except psutil.NoSuchProcess:
                pass  # it has ended meanwhile
        servers.clear(self.server.folder)
        shutil.rmtree(tsm_options_folder(self.server.name), ignore_errors=True)
        _path(self.server.name).unlink(missing_ok=True)
        return process is not None


def add(server: Server) -> ServerEntry:
    """Record a server. If that fails, stop the server and raise PlatformError."""
    began_ticks = start_ticks(server.pid)
    if began_ticks is None:
        raise PlatformError(f"{server.name} ended right after it had started; see {server.folder / 'log'}")
    entry = ServerEntry(server, began_ticks)
    try:
        _write(_path(server.name), msgspec.json.encode(entry, enc_hook=str))
        if server.tsm is not None:
            _write_tsm_options(tsm_options_folder(server.name), server.tsm)
    except BaseException as failed:
        with suppress(OSError):
            entry.stop()
        if isinstance(failed, OSError):
            raise PlatformError(f"{server.name} was stopped again, because it cannot be recorded: {failed}") from failed
        raise
    return entry


@contextmanager
def starting(name: str) -> Iterator[None]:
    """Lock the platform names while one is looked up, started and recorded. Raises UsageError if it is running."""
    path = _folder() / "starting"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("wb") as hold:
        fcntl.flock(hold, fcntl.LOCK_EX)
        found = find(name)
        if found is not None and found.is_up():
            raise UsageError(
                f"{name} is already running on {found.server.endpoint}; stop it: archiver platform stop {name}"
            )
        yield


def find(name: str) -> ServerEntry | None:
    """Return a platform's entry, running or not, or None. Raises UsageError if its file is damaged."""
    path = _path(name)
    try:
        return typed_json(path.read_bytes(), ServerEntry, decode=lambda kind, text: kind(text))  # a Path
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise UsageError(f"{path} cannot be read: {failed.strerror}; correct its permissions, or remove it") from failed
    except msgspec.MsgspecError as failed:
        raise UsageError(
            f"{path} is damaged, so the started {name} is not known ({failed}); end that server by hand if it is "
            "running, and remove the file"
        ) from failed


def entry(name: str) -> ServerEntry:
    """Return the entry of a running server. Raises UsageError."""
    found = find(name)
    if found is None:
        raise UsageError(f"{name} was not started by `archiver platform start`; see: archiver platform list")
    return found


def folder_of(name: str) -> Path:
    """Return the default data folder of a platform."""
    return _folder() / name


def tsm_options_folder(name: str) -> Path:
    """Return the folder of option files by which any TSM program can use a running server."""
    return _folder() / f"{name}-tsm"


def _write_tsm_options(folder: Path, tsm: TsmAccess) -> None:
    password = "" if tsm.password is None else f"  PASsword {tsm.password}\n"
    _write(folder / "dsm.opt", b"SErvername ARCHIVER\n")
    _write(
        folder / "dsm.sys",
        (
            "SErvername ARCHIVER\n"
            "  COMMMethod TCPip\n"
            f"  TCPServeraddress {tsm.host}\n"
            f"  TCPPort {tsm.port}\n"
            f"  NODename {tsm.node}\n"
            f"  PASSWORDAccess prompt\n{password}"
            "  ENABLEARCHIVERETENTIONPROTECTION YES\n"
        ).encode(),
    )


def _write(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, even if one with other rights exists."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)


def _path(name: str) -> Path:
    return _folder() / f"{name}.json"


def _folder() -> Path:
    return archiver_home() / "platforms"
