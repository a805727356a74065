"""Kill the processes of a run with SIGKILL at random moments, again and again, and check what is left each time.

One idea: after each kill no process of Archiver is left, so the objects of the platform, the ledger and the run's
database do not change and can be compared. Then `archiver resume` continues the run.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from archiver.platforms.kinds import Access
from archiver.platforms.servers import Server, running
from tests.support.servers import real
from tests.support.waiting import SECONDS_MAX, wait_until

VICTIMS = ("client", "worker", "store", "all")
WORKER, STORE = "spawn_main", "backends.embedded.server"  # words that identify their command lines
START_SECONDS_MAX = 3.0  # a kill during the start comes within this time
START_SHARE = 0.25
PHASES_MAX = 3  # any other kill comes within this number of phases
PHASE_SECONDS = 0.4
TABLES = ("phase", "result", "interval", "histogram", "object_range", "object_change", "error", "part")
LOOKS_MAX = 25  # number of objects whose retain-until date is requested in each check

SCENARIO = """
name = "kills"
title = "Many short phases"

[stop]
warm_up_sessions = 1
sessions_min = 1
large_sessions_min = 1
large_session = "100MB"
seconds_min = "50ms"
precision = 0.0
seconds_max = "150ms"
bytes_max = "2MiB"
warm_up_seconds = "20ms"
client_bytes_max = "2MiB"

[[sweep]]
name = "archive"
operation = "archive"
object_sizes = ["1KiB", "64KiB"]
objects_per_session = [1, 10]
clients = [1, 2]

[[sweep]]
name = "retrieve"
operation = "retrieve"
object_sizes = ["1KiB", "64KiB"]
objects_per_session = [1, 10]
clients = [1, 2]
"""
EXTEND = """
[[sweep]]
name = "extend"
operation = "extend"
object_sizes = ["1KiB"]
objects_per_session = [1, 2]
clients = [1]
stop = { bytes_max = "10KiB" }
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """One object that a platform stores."""

    bucket: str
    number: int
    size_bytes: int
    until: float | None  # epoch seconds; None: not requested, or without a date


class Platform(ABC):
    """A platform that runs archive to, which can be killed and whose objects can be listed."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    extends = True

    def begin(self) -> None:  # noqa: B027 - not every platform is a process of the test
        """Start it if it does not run. Does nothing if the run itself starts the platform."""

    @abstractmethod
    def is_there(self, children: list[psutil.Process]) -> bool:
        """Return whether it has a running process, which may be a child of the command."""

    @abstractmethod
    def kill(self, children: list[psutil.Process]) -> None:
        """Kill its process, if there is one."""

    @abstractmethod
    def objects(self) -> list[Stored]:
        """Return all objects that it stores."""


class EmbeddedStore(Platform):
    """The embedded store, which the run itself starts. Its objects are read from its catalogue."""

    def __init__(self, home: Path, backend: str) -> None:
        self._path = home / "store" / "catalogue.db"
        self._backend = backend
        self.extends = backend == "s3"
        # The retention period is long, so that no object expires during the checks.
        self.arguments = ("--backend", backend, *(("--retain-for", "30m") if backend == "s3" else ()))
        self.environment = {}

    def is_there(self, children: list[psutil.Process]) -> bool:
        return bool(having(children, STORE))

    def kill(self, children: list[psutil.Process]) -> None:
        for store in having(children, STORE):
            store.kill()

    def objects(self) -> list[Stored]:
        if not self._path.exists():
            return []
        with closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], self._path
            return self._held(db)

    def _held(self, db: sqlite3.Connection) -> list[Stored]:
        if not ask(self._path, "SELECT 1 FROM sqlite_master WHERE name = 'archives'"):
            return []
        if self._backend == "s3":
            rows = db.execute(
                "SELECT buckets.name, key, size, until_ms FROM versions JOIN buckets ON bucket = buckets.id"
            )
            return [
                Stored(name, int(key.rpartition("/")[2]), size, until / 1000 if until else None)
                for name, key, size, until in rows
            ]
        rows = db.execute(
            "SELECT spaces.name, ll, size, archives.archived_ms + 1000 * retver_seconds FROM archives "
            "JOIN spaces ON space = spaces.id JOIN management_classes ON class = management_classes.id"
        )
        return [Stored(name.decode(), int(ll[1:]), size, until / 1000) for name, ll, size, until in rows]


class RealServer(Platform):
    """MinIO or versitygw, which the test starts, kills and restarts with the same data."""

    def __init__(self, name: str, folder: Path, stack: ExitStack) -> None:
        self._name, self._folder, self._stack = name, folder, stack
        self._server = self._start(None, 0)
        access, port = self._server.access, int(self._server.endpoint.rpartition(":")[2])
        self._access, self._port = access, port
        self._is_dead = False
        self.arguments = ("--endpoint", self._server.endpoint, "--retain-for", "30m")
        self.environment = real.environment_of(self._server)

    def _start(self, access: Access | None, port: int) -> Server:
        real.need(self._name)
        return self._stack.enter_context(running(self._name, self._folder, access=access, port=port))

    def begin(self) -> None:
        if self._is_dead:
            self._server, self._is_dead = self._start(self._access, self._port), False

    def is_there(self, children: list[psutil.Process]) -> bool:
        return not self._is_dead

    def kill(self, children: list[psutil.Process]) -> None:
        psutil.Process(self._server.pid).kill()
        self._stack.pop_all().close()  # waits until it has ended
        self._is_dead = True

    def objects(self) -> list[Stored]:
        self.begin()
        client = real.client_of(self._server)
        try:
            return [each for bucket in client.list_buckets()["Buckets"] for each in self._in(client, bucket["Name"])]
        finally:
            client.close()

    def _in(self, client: Any, bucket: str) -> Iterator[Stored]:
        pages = client.get_paginator("list_object_versions").paginate(Bucket=bucket)
        # versitygw repeats the last version of a page at the beginning of the next one.
        found = {(each["Key"], each["VersionId"]): each for page in pages for each in page.get("Versions", [])}.values()
        step = len(found) // LOOKS_MAX + 1
        for place, each in enumerate(found):
            until = None
            if place % step == 0:
                asked = client.get_object_retention(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])
                date: datetime = asked["Retention"]["RetainUntilDate"]
                until = date.timestamp()
            yield Stored(bucket, int(each["Key"].rpartition("/")[2]), each["Size"], until)


@dataclass(slots=True)
class Kills:
    """Runs on one platform that are killed, checked and resumed."""

    home: Path
    platform: Platform
    chance: random.Random
    more: tuple[str, ...] = ()  # arguments of new runs
    scenario: Path = field(init=False)
    _said: Path = field(init=False)
    seen: dict[Path, set[int]] = field(default_factory=dict)  # phases that were finished just before the last kill
    kept: dict[Path, dict[int, Any]] = field(default_factory=dict)  # rows of finished phases, by run and position
    told: list[str] = field(default_factory=list)  # a log of the steps, for the message of a failed test
    killed: int = 0
    resumed: int = 0

    def __post_init__(self) -> None:
        self._said = self.home / "said"  # output of the last command
        self.scenario = self.home / "kills.toml"
        self.scenario.write_text(SCENARIO + (EXTEND if self.platform.extends else ""))

    def carry_out(self, victims: list[str]) -> None:
        """Kill these victims one after another, then let the last run finish. Check everything each time."""
        run: str | None = None
        for victim in victims:
            with self._started(run) as process:
                killed = self._kill(process, victim)
            self.told.append(f"{run or 'a new run'}: {victim}{'' if killed else ', too late'}")
            self.killed += killed
            self.look()
            self.seen = {}  # phases that gave up are deleted when the run is resumed
            run = self._unfinished()
        with self._started(run) as process:
            pass
        self.told.append(f"{run or 'a new run'}: left alone")
        # A phase may end just when its platform is killed. Its errors give the finished run exit status 1.
        failed = bool(ask(max(self._databases()), "SELECT 1 FROM error LIMIT 1"))  # in the last run
        assert process.returncode == int(failed), self._said.read_text()
        self.look()
        assert self._unfinished() is None

    def _kill(self, process: subprocess.Popen[bytes], victim: str) -> bool:
        """Kill the victim at a random moment. Return False if the command ended before."""
        run = psutil.Process(process.pid)  # exists until its exit status is read
        self._wait_for_moment(process)
        wait_until(lambda: process.poll() is not None or self._is_there(run, victim), victim)
        if process.poll() is not None:
            return False
        self.seen = {path: finished_in(path) for path in self._databases()}
        run.suspend()  # so that its children do not change, and it does not see one of them end before it is killed
        children = run.children()
        if victim == "worker":
            for worker in having(children, WORKER)[: self.chance.randint(1, 2)]:  # one, or both
                worker.kill()
        elif victim == "store":
            self.platform.kill(children)
        elif victim == "all":
            self.platform.kill(children)
            for each in children:
                each.kill()
        if victim in ("client", "all"):
            process.kill()
            # The workers and the store of a killed client must end, too.
            left = psutil.wait_procs(children, SECONDS_MAX)[1]
            assert not left, f"these outlive their command: {left}"
        else:
            run.resume()
        return True

    def _is_there(self, run: psutil.Process, victim: str) -> bool:
        if victim == "worker":
            return bool(having(run.children(), WORKER))
        return victim != "store" or self.platform.is_there(run.children())

    def _wait_for_moment(self, process: subprocess.Popen[bytes]) -> None:
        if self.chance.random() < START_SHARE:
            deadline = time.monotonic() + self.chance.uniform(0.0, START_SECONDS_MAX)
            wait_until(lambda: process.poll() is not None or time.monotonic() >= deadline, "moment of the start")
            return
        wanted = self._begun() + self.chance.randint(1, PHASES_MAX)
        wait_until(lambda: process.poll() is not None or self._begun() >= wanted, f"phase {wanted}")
        time.sleep(self.chance.uniform(0.0, PHASE_SECONDS))

    @contextmanager
    def _started(self, run: str | None) -> Iterator[subprocess.Popen[bytes]]:
        """Start a new run, or resume one; wait until it ends at the end of the block."""
        self.platform.begin()
        # The order of the file archives objects before it retrieves them. Of 2 workers, one can be lost.
        new = ("run", str(self.scenario), *self.platform.arguments, "--order", "paper", "--workers", "2", *self.more)
        with self._said.open("w") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "archiver", *(new if run is None else ("resume", run))],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, env={**os.environ, **self.platform.environment},
            )  # fmt: skip
        self.resumed += run is not None
        try:
            yield process
            try:
                process.wait(SECONDS_MAX)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"the command hangs; it said: {self._said.read_text()}") from None
        finally:
            process.kill()
            process.wait()
        said_last = self._said.read_text()
        assert process.returncode in (-9, 0, 1, 3), said_last
        assert "Traceback" not in said_last, said_last

    def _databases(self) -> list[Path]:
        return sorted((self.home / "runs").glob("*/run.db"), key=lambda path: path.parent.name)

    def _begun(self) -> int:
        return sum(len(ask(path, "SELECT position FROM begun")) for path in self._databases())

    def _unfinished(self) -> str | None:
        """Return the run to resume. None if there is none, or if the last one was killed before it began."""
        databases = self._databases()
        if not databases:
            return None
        path = databases[-1]
        rows = ask(path, "SELECT verdict FROM run")
        if not rows or rows == [("none",)]:
            return None
        known = ask(self.home / "ledger.db", f"SELECT 1 FROM placement WHERE run = '{path.parent.name}'")
        # A run that was killed before its first phase may lack its bucket, so it cannot be resumed.
        return path.parent.name if known and ask(path, "SELECT 1 FROM begun") else None

    def look(self) -> None:
        """Check everything that must be true after any kill."""
        for path in self._databases():
            self._look_at_database(path)
        self._look_at_ledger()

    def _look_at_database(self, path: Path) -> None:
        assert_whole(path)
        rows = phases_in(path)
        positions = {position for position, of_phase in rows.items() if of_phase["phase"]}
        assert positions == set(range(1, len(positions) + 1)), f"{path}: {sorted(positions)}"
        lost = (self.seen.get(path, set()) | self.kept.get(path, {}).keys()) - rows.keys()
        assert not lost, f"{path}: finished phases {sorted(lost)} are gone"
        for position, before in self.kept.get(path, {}).items():
            assert rows[position] == before, f"{path}: phase {position} is not what it was when it had finished"
        # Phases with errors may be measured again. A phase without errors never is.
        again = {position for (position,) in ask(path, _SOMETHING_FAILED)}
        self.kept[path] = {position: of_phase for position, of_phase in rows.items() if position not in again}

    def _look_at_ledger(self) -> None:
        path = self.home / "ledger.db"
        held = self.platform.objects()
        assert held == [] or path.exists(), "objects, but no ledger"
        if not path.exists():
            return
        assert_whole(path)
        rows = ask(
            path,
            "SELECT id, bucket, first_number, objects_max, bytes_max, objects, bytes, earliest_retain_until, "
            "latest_retain_until FROM placement ORDER BY first_number",
        )
        promises = [_Promise(*row) for row in rows if row[3]]
        for one, other in pairwise(sorted(promises, key=lambda each: (each.bucket, each.first))):
            assert one.bucket != other.bucket or one.first + one.objects_max <= other.first, "numbers were used twice"
        names = [(each.bucket, each.number) for each in held]
        assert len(set(names)) == len(names), "a name was used twice"
        by_bucket: dict[str, list[Stored]] = {}
        for each in held:
            by_bucket.setdefault(each.bucket, []).append(each)
        for bucket, objects in by_bucket.items():
            theirs = [each for each in promises if each.bucket == bucket]
            for promise in theirs:
                promise.take([each for each in objects if promise.covers(each.number)])
            covered = sum(promise.found for promise in theirs)
            assert covered == len(objects), f"{bucket}: of {len(objects)} objects the ledger knows {covered}"
        there = set(names)
        for promise in promises:
            for first, last in ask(path, f"SELECT first, last FROM object_range WHERE placement = {promise.row}"):
                missing = [number for number in range(first, last + 1) if (promise.bucket, number) not in there]
                assert not missing, f"{promise.bucket}: acknowledged, and not there: {missing[:10]} of {len(missing)}"


@dataclass(slots=True)
class _Promise:
    """A row of the ledger: the objects that a run may have left, and their latest dates."""

    row: int
    bucket: str
    first: int
    objects_max: int
    bytes_max: int
    objects: int | None
    bytes: int | None
    earliest: float | None
    latest: float | None
    found: int = 0

    def covers(self, number: int) -> bool:
        return self.first <= number < self.first + self.objects_max

    def take(self, objects: list[Stored]) -> None:
        """Check the stored objects with its numbers: not more than it claims, and with dates between its dates."""
        self.found = len(objects)
        claimed = (
            self.objects if self.objects is not None else self.objects_max,
            self.bytes if self.bytes is not None else self.bytes_max,
        )
        size_bytes = sum(each.size_bytes for each in objects)
        words = f"{self.bucket}: the ledger claims {claimed} objects and bytes, and {self.found, size_bytes} are there"
        assert self.found <= claimed[0], words
        assert size_bytes <= claimed[1], words
        for each in objects:
            if each.until is not None:
                assert self.earliest is not None
                assert self.latest is not None
                assert self.earliest <= each.until <= self.latest, f"not between the ledger's dates: {each}, {self}"


_SOMETHING_FAILED = "SELECT position FROM phase WHERE gave_up NOT NULL UNION SELECT position FROM error"


def phases_in(path: Path) -> dict[int, Any]:
    """Return all rows of each finished phase. No process may write to the database meanwhile."""
    found: dict[int, Any] = {
        position: {table: [] for table in TABLES} for (position,) in ask(path, "SELECT position FROM phase")
    }
    for table in TABLES:
        for position, *row in ask(path, f"SELECT position, * FROM {table} ORDER BY rowid"):
            # Resuming a run may shift its clock, so the instants of phases are not compared.
            found[position][table].append(row[:8] if table == "phase" else row)
    return found


def finished_in(path: Path) -> set[int]:
    return {position for (position,) in ask(path, "SELECT position FROM phase")}


def assert_whole(path: Path) -> None:
    """Assert that SQLite finds no damage in a database."""
    found = ask(path, "PRAGMA integrity_check")
    assert found == [("ok",)], f"{path}: {found}"


def ask(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Return rows of a database that another process may be creating. The list is empty until it is usable."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(statement).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error) or "unable to open" in str(error) or "locked" in str(error):
            return []
        raise


def having(processes: list[psutil.Process], word: str) -> list[psutil.Process]:
    """Return the processes with this word in their command line."""
    found = []
    for each in processes:
        with suppress(psutil.Error):
            if any(word in argument for argument in each.cmdline()):
                found.append(each)
    return found
