"""Search for secrets wherever commands could leave them: in files, in printed text, in arguments and environments.

One idea: the search looks for pieces of a secret, each in every usual encoding, so that it also finds a secret that
was cut, encoded or compressed.
"""

from __future__ import annotations

import base64
import gzip
import html
import io
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import quote

import pyarrow.parquet as pq

PIECE_BYTES, STEP_BYTES = 16, 8  # any 23 consecutive bytes of a secret contain a piece
SAMPLE_SECONDS = 0.02
SECONDS_MAX = 300.0


def forms(piece: bytes) -> set[bytes]:
    """Return the encodings in which these bytes may be written."""
    text = piece.decode("latin-1")
    written = {
        piece, piece[::-1], piece.hex().encode(), piece.hex().upper().encode(), quote(piece, safe="").encode(),
        quote(quote(piece, safe=""), safe="").encode(), b"".join(b"%%%02X" % byte for byte in piece),
        html.escape(text).encode("latin-1"), json.dumps(text)[1:-1].encode(),
        json.dumps(text)[1:-1].replace("/", "\\/").encode(),
        repr(piece)[2:-1].encode(), text.encode("utf-16-le"), text.encode("utf-16-be"),
        piece.lower(), piece.upper(),
    }  # fmt: skip
    for before in range(3):  # base64 depends on the position of the piece in a group of three bytes
        encoded = base64.b64encode(bytes(before) + piece)
        first, last = -(-before * 4 // 3), (before + len(piece)) // 3 * 4  # characters that depend on the piece alone
        known = encoded[first:last]
        written |= {known, known.replace(b"+", b"-").replace(b"/", b"_")}
    return written


def patterns(secret: bytes) -> list[bytes]:
    """Return the byte strings whose presence shows that data contain a part of the secret."""
    last = max(0, len(secret) - PIECE_BYTES)
    starts = {*range(0, last, STEP_BYTES), last}
    return sorted({form for start in starts for form in forms(secret[start : start + PIECE_BYTES])})


def inside(data: bytes) -> Iterator[bytes]:
    """Yield the bytes of a file, and those that are compressed in it."""
    yield data
    if data.startswith(b"\x1f\x8b"):
        with suppress(OSError, EOFError, zlib.error):  # no gzip file, or a truncated one
            yield from inside(gzip.decompress(data))
    if data.startswith(b"PK") and zipfile.is_zipfile(io.BytesIO(data)):  # not an object that begins so by chance
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield archive.comment
            for member in archive.infolist():
                yield member.filename.encode()
                yield from inside(archive.read(member))
    if data.startswith(b"PAR1"):
        file = pq.ParquetFile(io.BytesIO(data))
        yield repr(file.schema_arrow.metadata).encode()
        for column in file.read().to_pydict().values():
            yield "\n".join(map(str, column)).encode()
    if data.startswith(b"SQLite format 3\x00"):
        yield from _values(data)


def _values(data: bytes) -> Iterator[bytes]:
    """Yield all values of a database. Its pages store long values in pieces, so searching the file is not enough."""
    with closing(sqlite3.connect(":memory:")) as db:
        # A database in memory cannot use a WAL: set the journal mode in its header to "rollback".
        db.deserialize(data[:18] + b"\x01\x01" + data[20:])
        for (table,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in db.execute(f'SELECT * FROM "{table}"'):
                yield b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in row)


@dataclass
class Search:
    """A search for named secrets in what commands print and write, and in the arguments of their processes."""

    root: Path  # commands wrote everything in it
    secrets: dict[str, bytes] = field(default_factory=dict)
    seen: dict[str, bytes] = field(default_factory=dict)  # data to search, by a description of their source
    own: set[Path] = field(default_factory=set)  # files that are meant to contain a secret
    _going_on: dict[int, _GoingOn] = field(default_factory=dict)

    def plant(self, name: str, secret: str | bytes) -> None:
        """Add a secret to search for."""
        value = secret.encode() if isinstance(secret, str) else secret
        assert len(value) >= PIECE_BYTES, f"{name} is too short to be told from chance"
        self.secrets[name] = value

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None, status: int | None = 0) -> str:
        """Run an `archiver` command in the root; return what it printed."""
        return self.finish(self.start(*arguments, environment=environment), status=status)

    def start(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a command; `finish` waits until it ends."""
        printed, errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - `finish` closes them
        process = subprocess.Popen(
            [sys.executable, "-m", "archiver", *arguments],
            cwd=self.root, env={**os.environ, "TMPDIR": str(self.root), **(environment or {})},
            stdin=subprocess.DEVNULL, stdout=printed, stderr=errors, preexec_fn=_hear_ctrl_c,
        )  # fmt: skip
        what = f"{len(self._going_on) + len(self.seen)}: archiver {' '.join(arguments)}"
        watcher = Watcher(process.pid, set((environment or {}).values()))
        self._going_on[process.pid] = _GoingOn(what, watcher, printed, errors)
        return process

    def finish(self, process: subprocess.Popen[bytes], status: int | None = 0) -> str:
        """Wait until the command ends; return what it printed."""
        going_on = self._going_on.pop(process.pid)
        try:
            process.wait(SECONDS_MAX)
        finally:
            process.kill()
            process.wait()
            said = going_on.end()
        self.seen |= {f"{going_on.what} ({place})": data for place, data in said.items()}
        text = (said["stdout"] + said["stderr"]).decode()
        assert status is None or process.returncode == status, f"{going_on.what}: {process.returncode}\n{text}"
        return text

    def forget_last(self) -> None:
        """Exclude the last command's standard output from the search: that command is meant to print a secret."""
        for place in [place for place in self.seen if place.endswith("(stdout)")][-1:]:
            del self.seen[place]

    def found(self) -> list[str]:
        """Return each place that contains a secret and is not meant to."""
        wanted = {name: patterns(secret) for name, secret in self.secrets.items()}
        found = []
        for where, data in {**self.seen, **self._files()}.items():
            for content in inside(data):
                found += [
                    f"{name} in {where}"
                    for name, forms_of_it in wanted.items()
                    if any(form in content for form in forms_of_it)
                ]
        return sorted(set(found))

    def _files(self) -> dict[str, bytes]:
        paths = [path for path in self.root.rglob("*") if path.is_file() and path not in self.own]
        names = {"names of files": "\n".join(str(path.relative_to(self.root)) for path in paths).encode()}
        return names | {str(path.relative_to(self.root)): path.read_bytes() for path in paths}


@dataclass(frozen=True, slots=True)
class _GoingOn:
    what: str
    watcher: Watcher
    printed: IO[bytes]
    errors: IO[bytes]

    def end(self) -> dict[str, bytes]:
        """Stop watching; return the data to search by their source."""
        self.watcher.stop()
        with self.printed, self.errors:
            for file in (self.printed, self.errors):
                file.seek(0)
            return {**self.watcher.seen, "stdout": self.printed.read(), "stderr": self.errors.read()}


class Watcher:
    """Samples the arguments and environments of a process and of its descendants while they live.

    The values that the test itself set in the command's environment are removed: all descendants inherit them.
    """

    def __init__(self, pid: int, given: set[str]) -> None:
        self.seen: dict[str, bytes] = {}
        self._given = sorted((value.encode() for value in given), key=len, reverse=True)
        self._pids = {pid}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            for pid in sorted(self._pids):
                self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        folder = Path(f"/proc/{pid}")
        try:
            arguments = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
            for children in folder.glob("task/*/children"):
                self._pids |= {int(each) for each in children.read_text().split()}
        except OSError:  # it has ended
            self._pids.discard(pid)
            return
        if arguments:
            self.seen[f"arguments of {_name(arguments)}"] = arguments
        for value in self._given:
            environment = environment.replace(value, b"")
        self.seen[f"environment of {_name(arguments)}"] = environment


def _hear_ctrl_c() -> None:
    """Restore the default action of SIGINT, which is ignored if the tests were started in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _name(arguments: bytes) -> str:
    return re.sub(r"[^\w./=-]+", " ", arguments.decode(errors="replace"))[:200]
