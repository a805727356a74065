"""Background load: clients archive and retrieve small locked objects while checks run; then all are read back.

One idea: the load uses the S3 data plane of the engine in its own process, so that it competes with the checks only for
the platform. It reports every object that the platform acknowledged, and each of them is verified afterwards.
"""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any

import uvloop

from archiver.machine import interruption
from archiver.values.content import Content
from archiver.values.record import Operation, Recorder, Status
from archiver.values.retention import DateMaker, RetentionMode, RetentionWish
from archiver.worm.case import (
    GOVERNANCE,
    Case,
    ObjectLock,
    Version,
    VersionState,
    instant_of,
    iso,
    same_instant,
    words_of,
)
from backends.base import Batch, PhaseSetting
from backends.s3 import S3Backend
from backends.s3.data_plane import S3DataPlane
from backends.s3.keys import key_of
from backends.s3.setting import S3WorkerSetting

CLIENTS = 4
OBJECT_BYTES = 8192
OBJECTS_MAX = 3000  # after these the clients only retrieve
SECONDS_MAX = 90.0
LOCKED_SECONDS = 900.0  # under GOVERNANCE; the clean-up bypasses it
ARCHIVES_PER_SESSION, RETRIEVES_PER_SESSION = 5, 40
READERS = 8
_context = multiprocessing.get_context("spawn")
_PAUSE_SECONDS = 0.1  # after a session in which nothing succeeded
_STOP_SECONDS_MAX = 5.0  # for requests in progress
_ANSWER_SECONDS_MAX = 30.0
_MODE, _UNTIL = "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date"


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The result of a load."""

    archived: tuple[int, ...] = ()  # numbers of the objects that the platform acknowledged
    archive_seconds: float = 0.0  # from the start to the last archived object
    retrieved: int = 0  # whose bytes were all verified
    seconds: float = 0.0
    errors: int = 0
    first_error: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """Parameters of the load's process. They are sent to it only, and never stored or printed."""

    setting: S3WorkerSetting = field(repr=False)
    run_id: str
    seed: int
    locked_until: float  # whole epoch seconds

    @property
    def content(self) -> Content:
        return Content(self.run_id, self.seed, OBJECT_BYTES)


def order_for(backend: S3Backend, bucket: str, run_id: str) -> Order:
    """Return the parameters of a load on an empty bucket with Object Lock."""
    until = float(int(backend.server_now + LOCKED_SECONDS))
    retention = RetentionWish(RetentionMode.GOVERNANCE, retain_until=until).resolved(RetentionMode.GOVERNANCE)
    return Order(backend.setting_for(bucket, "load/", retention), run_id, secrets.randbits(32), until)


class BackgroundLoad:
    """A load that runs from the start of the block until ``stop`` or the end of the block."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.report = LoadReport()

    def __enter__(self) -> BackgroundLoad:
        """Start the load; return after its first session has ended, or after _ANSWER_SECONDS_MAX."""
        self._pipe, child_end = _context.Pipe()
        self._process = _context.Process(target=_work, args=(child_end, self.order), name="archiver-load", daemon=True)
        with interruption.blocked():
            self._process.start()
        child_end.close()
        self._receive()
        return self

    def stop(self) -> LoadReport:
        """Let the sessions in progress end; return the result of the load."""
        try:
            self._pipe.send("stop")
        except OSError:
            pass  # the process has ended; its report, or the end of the pipe, says how
        report = self._receive()
        if isinstance(report, LoadReport):
            self.report = report
        else:
            self.report = LoadReport(errors=1, first_error="the load process ended without a report")
        return self.report

    def __exit__(self, *_: object) -> None:
        self._pipe.close()  # the process notices it
        self._process.join(_STOP_SECONDS_MAX)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _receive(self) -> Any:
        try:
            return self._pipe.recv() if self._pipe.poll(_ANSWER_SECONDS_MAX) else None
        except (EOFError, OSError):
            return None


# ---- in its process


def _work(pipe: Connection[Any, Any], order: Order) -> None:
    interruption.ignore()  # the command handles signals and ends the load
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        report = runner.run(_Clients(order).run(pipe))
    try:
        pipe.send(report)
    except OSError:
        pass  # the command no longer reads it


class _Clients:
    def __init__(self, order: Order) -> None:
        retention = order.setting.retention
        self._plane = S3DataPlane(order.setting)
        self._plane.set_phase(
            PhaseSetting(order.content, {None: DateMaker(retention, order.locked_until)}, "all", (OBJECT_BYTES,))
        )
        self._numbers = itertools.count()
        self._archived: list[int] = []
        self._archived_at = 0.0
        self._retrieved = 0
        self._errors = 0
        self._first_error = ""
        self._began = time.monotonic()
        self._over = False

    async def run(self, pipe: Connection[Any, Any]) -> LoadReport:
        """Run the clients until a message comes through the pipe or the pipe closes."""
        first = asyncio.Event()
        clients = [asyncio.create_task(self._client(number, first)) for number in range(CLIENTS)]
        await first.wait()
        pipe.send("begun")
        stop = asyncio.Event()
        asyncio.get_running_loop().add_reader(pipe.fileno(), stop.set)
        await asyncio.wait([asyncio.create_task(stop.wait())], timeout=SECONDS_MAX)
        self._over = True
        seconds = time.monotonic() - self._began
        await asyncio.wait(clients, timeout=_STOP_SECONDS_MAX)
        for client in clients:
            client.cancel()
        for end in await asyncio.gather(*clients, return_exceptions=True):
            if isinstance(end, Exception):
                self._failed(1, f"a client ended with an error: {end!r}")
        await self._plane.end_phase()
        return LoadReport(
            tuple(self._archived), self._archived_at, self._retrieved, seconds, self._errors, self._first_error
        )

    async def _client(self, client: int, first: asyncio.Event) -> None:
        try:
            while not self._over:
                good = await self._session(client)
                first.set()
                if not good:
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            first.set()

    async def _session(self, client: int) -> bool:
        """Run one session; return whether it archived or retrieved any object."""
        new = list(itertools.islice(self._numbers, ARCHIVES_PER_SESSION)) if self._may_archive else []
        again = random.choices(self._archived, k=RETRIEVES_PER_SESSION) if self._archived else []
        operations = [Operation.ARCHIVE] * len(new) + [Operation.RETRIEVE] * len(again)
        batch = Batch(operations, [*new, *again], [OBJECT_BYTES] * len(operations))
        record = Recorder(len(batch) + 4)
        session = self._plane.session(client)
        try:
            if await session.open(record, time.monotonic_ns()):
                await session.perform(batch, record)
        finally:
            await session.close(record)
            self._count(record)
        return any(record.bytes[row] for row in range(record.used))

    @property
    def _may_archive(self) -> bool:
        # Each client may have a session in progress whose objects are not counted yet.
        return len(self._archived) + CLIENTS * ARCHIVES_PER_SESSION <= OBJECTS_MAX

    def _count(self, record: Recorder) -> None:
        for row in range(record.used):
            if record.status[row] != Status.OK:
                continue
            if record.operation[row] == Operation.ARCHIVE:
                self._archived.append(record.number[row])
                self._archived_at = record.done_ns[row] / 1e9 - self._began
            elif record.operation[row] == Operation.RETRIEVE:
                self._retrieved += 1
        for kind in record.errors.values():
            self._failed(kind.count, f"{kind.operation}: {kind.reason} {kind.message}".strip())

    def _failed(self, times: int, words: str) -> None:
        self._errors += times
        self._first_error = self._first_error or words


# ---- reading back


def read_back(case: Case, order: Order, numbers: Sequence[int]) -> dict[int, str]:
    """Read these objects again and return problems by object number, as text; empty if there is none.

    An object without a problem has all its bytes and its lock. The evidence has the first object and each one with a
    problem.
    """
    content = order.content
    lock = ObjectLock(GOVERNANCE, datetime.fromtimestamp(order.locked_until, UTC))

    def look(number: int) -> str:
        own = replace(case, client=case.client.recording([]))
        key = key_of(order.setting.prefix, number)
        problem = _problem(own, order.setting.bucket, key, content.whole(number, OBJECT_BYTES), lock)
        if problem or number == numbers[0]:
            case.client.record.extend(own.client.record)
        return problem

    with ThreadPoolExecutor(READERS) as pool:
        return dict(zip(numbers, pool.map(look, numbers), strict=True))


def _problem(case: Case, bucket: str, key: str, body: bytes, lock: ObjectLock) -> str:
    """Return what is wrong with one object; empty if nothing is."""
    answer = case.client.send("GET", bucket, key)
    if not answer.ok:
        return f"{key} is gone: {answer}"
    if answer.body != body:
        return f"{key} has other bytes than were archived"
    until = answer.headers.get(_UNTIL)
    state = VersionState(body, answer.headers.get(_MODE), instant_of(until) if until else None)
    if state.mode is None:  # some platforms do not show the lock in GET
        state = case.state(Version(bucket, key, answer.version_id or "", body))
    if state.mode != lock.mode or not same_instant(state.until, lock.until):
        return f"{key} has {words_of(state)}, not {lock.mode} until {iso(lock.until)}"
    return ""
