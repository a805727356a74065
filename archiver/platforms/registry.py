"""Servers that were started to stay: one file for each in Archiver's home, so that another command can stop it.

One idea: a file names a process by its number and the moment it began, so that no other process is ever taken for it.
The files hold throw-away credentials of loopback servers, and only their owner can read them.
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
from archiver.platforms.servers import STOP_SECONDS_MAX, Server, TsmAccess
from archiver.values.errors import PlatformError, UsageError


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """A server, and when its process began: clock ticks since boot, which no setting of the clock changes."""

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
        """End the server and forget it; False where it had ended before."""
        process = self._process()
        if process is not None:
            try:
                process.terminate()
                process.wait(STOP_SECONDS_MAX)
            except psutil.TimeoutExpired:
                process.kill()
            except psutil.NoSuchProcess:
                pass  # it ended by itself meanwhile
        shutil.rmtree(tsm_options_folder(self.server.name), ignore_errors=True)
        _path(self.server.name).unlink(missing_ok=True)
        return process is not None


def add(server: Server) -> ServerEntry:
    """Remember a server. Raises PlatformError where that cannot be, and then the server is stopped."""
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
            raise PlatformError(f"{server.name} was stopped again, since it cannot be remembered: {failed}") from failed
        raise
    return entry


@contextmanager
def starting(name: str) -> Iterator[None]:
    """One platform at a time is looked for, started and remembered. Raises UsageError where it is up already."""
    path = _folder() / "starting"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("wb") as hold:
        fcntl.flock(hold, fcntl.LOCK_EX)
        known = find(name)
        if known is not None and known.is_up():
            raise UsageError(f"{name} is up already on {known.server.endpoint}; stop it: archiver platform stop {name}")
        yield


def find(name: str) -> ServerEntry | None:
    """What is remembered of a platform, up or not. Raises UsageError where its file is damaged."""
    path = _path(name)
    try:
        return msgspec.json.decode(
            path.read_bytes(), type=ServerEntry, dec_hook=lambda kind, text: kind(text)
        )  # a Path
    except FileNotFoundError:
        return None
    except OSError as failed:
        raise UsageError(f"{path} cannot be read: {failed.strerror}; mend its rights, or remove it") from failed
    except msgspec.MsgspecError as failed:
        raise UsageError(
            f"{path} does not say which {name} was started ({failed}); end that server by hand if it is up, and remove"
            " the file"
        ) from failed


def entry(name: str) -> ServerEntry:
    """The server of that name. Raises UsageError."""
    found = find(name)
    if found is None:
        raise UsageError(f"{name} was not started by `archiver platform start`; see: archiver platform list")
    return found


def folder_of(name: str) -> Path:
    """Where a platform keeps its data unless it is told otherwise."""
    return _folder() / name


def tsm_options_folder(name: str) -> Path:
    """Where the option files are with which any TSM program uses a server that is up."""
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
    """A file that only its owner can read, whatever rights one of that name had."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)


def _path(name: str) -> Path:
    return _folder() / f"{name}.json"


def _folder() -> Path:
    return archiver_home() / "platforms"
