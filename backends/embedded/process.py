"""Start and stop the embedded store as a process of its own.

One idea: the caller gets a store that is ready, or an error with the store's own message. The store never outlives its
owner, however the owner ends, unless `start_to_stay` started it.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from archiver.values.errors import PlatformError

from .core.placement import catalogue_folder
from .s3 import credentials as credential_file
from .s3.credentials import DEFAULT_NAME, Credential
from .tsm import nodes as node_file
from .tsm.nodes import Node

_PROGRAM = (sys.executable, "-m", "backends.embedded.server")
_READY_SECONDS_MAX = 60.0  # a large catalogue is checked at start
_STOP_SECONDS_MAX = 30.0
_STDERR_TAIL_BYTES = 4096
LOG_NAME = "log"  # in the folder of a store started by `start_to_stay`


@dataclass(slots=True)
class RunningStore:
    """A running store that is ready."""

    data_dir: Path
    catalogue_dir: Path  # the data folder unless --catalogue-dir named another one
    endpoint: str
    tsm_host: str
    tsm_port: int
    pid: int
    credentials: dict[str, Credential]
    nodes: dict[str, Node]

    @property
    def access_key(self) -> str:
        return self.credentials[DEFAULT_NAME].access_key

    @property
    def secret_key(self) -> str:
        return self.credentials[DEFAULT_NAME].secret_key

    @property
    def node(self) -> str:
        """The name of the node that the store created."""
        return node_file.DEFAULT_NAME

    @property
    def node_password(self) -> str | None:
        """The node's password; None if a client has changed it."""
        return self.nodes[self.node].password

    def data_files(self) -> list[Path]:
        """The segment files with the objects' bytes; for dropping them from the page cache."""
        return sorted((self.data_dir / "segments").glob("*.seg"))


@dataclass(slots=True)
class StoreProcess(RunningStore):
    """A running store that this process owns. Leaving the `with` block stops it."""

    _process: subprocess.Popen[bytes] = field(repr=False)
    _lifeline: int = field(repr=False)  # the store ends when this end of the pipe closes
    _stderr: IO[bytes] = field(repr=False)

    def is_running(self) -> bool:
        return self._process.poll() is None

    def log(self) -> str:
        """Return the last lines that the store wrote to stderr."""
        return _tail(self._stderr)

    def stop(self) -> None:
        """Let the store finish its current work, and wait for its end. May be called twice."""
        if self._lifeline < 0:
            return
        os.close(self._lifeline)
        self._lifeline = -1
        try:
            self._process.terminate()
            self._process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._stderr.close()

    def kill(self) -> None:
        """Kill the store at once. For tests of recovery."""
        self._process.kill()
        self._process.wait()
        self.stop()

    def __enter__(self) -> StoreProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    data_dir: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tsm_port: int = 0,
    credentials: Sequence[str] = (),
    nodes: Sequence[str] = (),
    management_classes: Sequence[str] = (),
    tls_certificate: Path | None = None,
    tls_key: Path | None = None,
    catalogue_dir: Path | None = None,
    ready_seconds_max: float = _READY_SECONDS_MAX,
) -> StoreProcess:
    """Start a store on `data_dir` and wait until it is ready.

    `credentials`: NAME[:without=...] each. `management_classes`: NAME:retver=... each, in addition to the built-in
    ones. `catalogue_dir`: see `placement`. Raises PlatformError with the store's own message if it does not start, for
    example because another process has it open, the port is in use or the disk is full.
    """
    lifeline_read, lifeline_write = os.pipe()
    options = ["--host", host, "--tsm-port", str(tsm_port)]
    for option, values in (
        ("--credential", credentials), ("--node", nodes), ("--management-class", management_classes)
    ):  # fmt: skip
        for value in values:
            options += [option, value]
    for option, path in (
        ("--tls-certificate", tls_certificate), ("--tls-key", tls_key), ("--catalogue-dir", catalogue_dir)
    ):  # fmt: skip
        if path is not None:
            options += [option, str(path)]
    stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
    try:
        pipes = {"--exit-with-parent-fd": lifeline_read}
        process, fields = _launch(data_dir, port, options, stderr, ready_seconds_max, pipes)
    except BaseException:
        os.close(lifeline_write)
        stderr.close()
        raise
    finally:
        os.close(lifeline_read)
    return StoreProcess(**fields, _process=process, _lifeline=lifeline_write, _stderr=stderr)


def start_to_stay(data_dir: Path, *, port: int = 0) -> RunningStore:
    """Start a store on loopback that runs until its process is stopped. Its messages go to `log` in its folder.

    Raises PlatformError, as `start` does.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = (data_dir / LOG_NAME).open("a+b")
    except OSError as failed:
        raise PlatformError(f"{data_dir} cannot hold a store: {failed.strerror}") from failed
    with log:
        return RunningStore(**_launch(data_dir, port, (), log, _READY_SECONDS_MAX, {})[1])


def _launch(
    data_dir: Path,
    port: int,
    options: Sequence[str],
    stderr: IO[bytes],
    ready_seconds_max: float,
    pipes: Mapping[str, int],
) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """Start a process; return it and the fields of RunningStore. Raises PlatformError after the process has ended."""
    bytes_before = os.fstat(stderr.fileno()).st_size
    ready_read, ready_write = os.pipe()
    try:
        options = ["--data", str(data_dir), "--port", str(port), *options]
        process = _start_program(options, {"--ready-fd": ready_write, **pipes}, stderr)
    finally:
        os.close(ready_write)
    try:
        line = _read_line(ready_read, ready_seconds_max)
        if line is None:
            late = process.poll() is None and not _ended(process)
            why = f"was not ready within {ready_seconds_max:.0f} s" if late else "did not start"
            words = _tail(stderr, bytes_before).strip() or "it wrote no message"
            raise PlatformError(f"the embedded store in {data_dir} {why}: {words}")
        fields: dict[str, Any] = {
            **json.loads(line),
            "data_dir": data_dir,
            "catalogue_dir": catalogue_folder(data_dir),
            "credentials": credential_file.load(data_dir),
            "nodes": node_file.load(data_dir),
        }
        return process, fields
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        os.close(ready_read)


def _start_program(options: Sequence[str], pipes: Mapping[str, int], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start a process with these options, and with an option for each pipe end that it inherits."""
    words = [word for option, end in pipes.items() for word in (option, str(end))]
    return subprocess.Popen(
        [*_PROGRAM, *options, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        pass_fds=tuple(pipes.values()),
        start_new_session=True,  # Ctrl-C in the terminal goes to the owner, which then stops the store
    )


def _read_line(descriptor: int, seconds_max: float) -> bytes | None:
    """Read one line; None if the other end closes or the time is over."""
    deadline = time.monotonic() + seconds_max
    line = b""
    poll = select.poll()  # select() is limited to descriptors below 1024
    poll.register(descriptor, select.POLLIN)
    while not line.endswith(b"\n"):
        readable = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
        data = os.read(descriptor, 4096) if readable else b""
        if not data:
            return None
        line += data
    return line


def _ended(process: subprocess.Popen[bytes]) -> bool:
    """Return whether a process that closed its pipe ends within seconds."""
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        return False
    return True


def _tail(file: IO[bytes], start: int = 0) -> str:
    """Return the end of the file without moving its position, which the writer shares."""
    start = max(start, os.fstat(file.fileno()).st_size - _STDERR_TAIL_BYTES)
    return os.pread(file.fileno(), _STDERR_TAIL_BYTES, start).decode("utf-8", "replace")
