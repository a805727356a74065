"""A platform's server as a process on a free loopback port, with its own credentials.

One idea: a started server answers, or the caller gets an error with the server's own message. A server that belongs to
a command always ends with the command. A server that must outlive the command is started detached.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError

from archiver.machine.description import disk_roles
from archiver.platforms.kinds import KINDS, Access, Launch
from archiver.platforms.programs import find
from archiver.values.errors import PlatformError
from backends.embedded import process as embedded

EMBEDDED = "embedded"  # the platform without a separate program
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
_POLL_SECONDS = 0.05
_LOG_TAIL_BYTES = 2000
_LEFTOVERS = "leftovers"  # file with the paths of what a server may leave outside its folder
_FOLDERS = ("data", "versions", "accounts", "certificates")


@dataclass(frozen=True, slots=True)
class TsmAccess:
    """Access to the TSM server of a platform; `password` is None if the user chose the password of its node."""

    host: str
    port: int
    node: str
    password: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Server:
    """A server that answers requests."""

    name: str
    endpoint: str
    pid: int
    folder: Path  # data, versions and log
    access: Access
    tsm: TsmAccess | None = None

    @property
    def platform(self) -> str:
        return self.name

    @property
    def data_dir(self) -> Path:
        """Return the folder of its objects."""
        return self.folder / ("segments" if self.name == EMBEDDED else "data")

    def data_files(self) -> list[Path]:
        """Return every file with data, to drop it from the page cache. The platform may remove folders meanwhile."""
        paths = (Path(folder) / name for folder, _, names in os.walk(self.data_dir) for name in names)
        return [path for path in paths if path.is_file()]

    def disk_roles(self) -> dict[str, str]:
        """Return device -> kind of data on it."""
        return disk_roles({"object": self.data_dir})


@contextmanager
def running(
    name: str, folder: Path, *, port: int = 0, tls: Path | None = None, access: Access | None = None
) -> Iterator[Server]:
    """Run a server for the length of the block. It also ends with this process.

    ``tls`` is a file of the certificate authorities for the certificate in the folder; without it there is no TLS.
    ``access`` has the credentials of an earlier server on this folder; without it new ones are created.
    """
    process, server = _start(name, folder, port, tls, access, detached=False)
    try:
        yield server
    finally:
        _stop(process, server)


def start(name: str, folder: Path, *, port: int = 0) -> Server:
    """Start a server that runs until it is stopped. Raises PlatformError with the server's own message."""
    if name == EMBEDDED:
        store = embedded.start_to_stay(folder, port=port)
        access = Access(store.access_key, store.secret_key)
        tsm = TsmAccess(store.tsm_host, store.tsm_port, store.node, store.node_password)
        return Server(name, store.endpoint, store.pid, folder, access, tsm)
    return _start(name, folder, port, None, None, detached=True)[1]


def log_tail(folder: Path) -> str:
    """Return the end of the log of a server in this folder."""
    try:
        return (folder / "log").read_bytes()[-_LOG_TAIL_BYTES:].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _start(
    name: str, folder: Path, port: int, tls: Path | None, access: Access | None, *, detached: bool
) -> tuple[subprocess.Popen[bytes], Server]:
    kind = KINDS[name]
    program = find(name)  # fails before a folder is created
    with _held(name, folder) as hold, _log(name, folder) as log:
        clear(folder)  # an earlier server may have been killed
        port, *inner_ports = _free_ports(port, kind.inner_ports)
        access = access or Access("archiver" + secrets.token_hex(6), secrets.token_urlsafe(24))
        launch = Launch(program, folder, port, access, tls is not None, tuple(inner_ports))
        for path, text in kind.files(launch).items():
            path.unlink(missing_ok=True)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
        (folder / _LEFTOVERS).write_text("\n".join(map(str, kind.leftovers(launch))))
        command = kind.command(launch)
        if not detached:
            command = [*_end_with_this_process(), *command]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches only the command, which then stops the server
            cwd=folder,
            env={**os.environ, **kind.environment(launch)},
            pass_fds=[hold.fileno()],  # the folder stays locked until the server ends
        )
    endpoint = f"http{'s' if tls else ''}://127.0.0.1:{port}"
    server = Server(name, endpoint, process.pid, folder, access)
    try:
        _wait_until_ready(process, server, [server.endpoint + kind.health, *kind.inner_health(launch)], tls)
    except BaseException:
        _stop(process, server)
        raise
    return process, server


@contextmanager
def _held(name: str, folder: Path) -> Iterator[BinaryIO]:
    """Create the folder if it is missing, and lock it against a second server."""
    try:
        for part in _FOLDERS:
            (folder / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        hold = (folder / "hold").open("a+b")  # its holder writes who it is
    except OSError as failed:
        raise _unfit(name, folder, failed) from failed
    with hold:
        try:
            fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as busy:
            hold.seek(0)
            holder = hold.read().decode(errors="replace")
            raise PlatformError(
                f"{folder} is in use by another {name}, of {holder or 'a process that just starts'}; wait until it "
                "ends, stop it, or use another folder"
            ) from busy
        hold.truncate(0)
        hold.write(f"process {os.getpid()}: {shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])}".encode())
        hold.flush()
        yield hold


def _log(name: str, folder: Path) -> BinaryIO:
    try:
        return (folder / "log").open("wb")
    except OSError as failed:
        raise _unfit(name, folder, failed) from failed


def _unfit(name: str, folder: Path, failed: OSError) -> PlatformError:
    return PlatformError(f"{folder} cannot hold {name}'s data: {failed.strerror}")


def _end_with_this_process() -> list[str]:
    """Return the prefix of a command (setpriv) that makes the kernel end the server with the thread that started it."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []


def _wait_until_ready(process: subprocess.Popen[bytes], server: Server, urls: Sequence[str], tls: Path | None) -> None:
    # Ignore the environment's proxies, because the server is on this host.
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if tls is not None:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(tls))))
    opener = urllib.request.build_opener(*handlers)
    refused: Exception | None = None
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise PlatformError(f"{server.name} did not start in {server.folder}: {log_tail(server.folder)}")
        try:
            for url in urls:
                opener.open(url, timeout=5).close()
            return
        except (OSError, HTTPException) as not_yet:
            if isinstance(not_yet, HTTPError):
                not_yet.close()  # an error status is an answer too
            refused = not_yet
            time.sleep(_POLL_SECONDS)
    raise PlatformError(
        f"{server.name} did not answer within {READY_SECONDS_MAX:.0f} s on {server.endpoint} ({refused}): "
        f"{log_tail(server.folder)}"
    )


def stop_seconds_max(name: str) -> float:
    """Return the time after which a platform that has not ended is killed."""
    return min(STOP_SECONDS_MAX, KINDS[name].stop_seconds_max) if name in KINDS else STOP_SECONDS_MAX


def clear(folder: Path) -> None:
    """Remove the files that the last server of this folder left elsewhere. Call this after it has ended."""
    path = folder / _LEFTOVERS
    if path.exists():
        for leftover in path.read_text().splitlines():
            Path(leftover).unlink(missing_ok=True)
        path.unlink()


def _stop(process: subprocess.Popen[bytes], server: Server) -> None:
    process.terminate()
    try:
        process.wait(stop_seconds_max(server.name))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    clear(server.folder)


def _free_ports(port: int, others: int) -> list[int]:
    """Return the port, or a free one for 0, and ``others`` more free ports.

    Raises PlatformError if the port is taken, because some servers would share it without an error.
    """
    try:
        with ExitStack() as listeners:
            opened = [
                listeners.enter_context(socket.create_server(("127.0.0.1", each))) for each in (port, *[0] * others)
            ]
            return [listener.getsockname()[1] for listener in opened]
    except OSError as taken:
        raise PlatformError(
            f"127.0.0.1 port {port}: {os.strerror(taken.errno or 0)}; choose another with --port"
        ) from taken
