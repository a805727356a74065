"""A TSM session: signed on, its objects in transactions or in a list, ended.

One idea: an object is archived when its transaction's vote is answered and not before, so that is when its row says
it was done; waiting for the objects behind it is part of what it took.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple, TypeVar

from archiver.record import TSM_ERROR, Operation, Recorder, Status
from backends.base import Batch
from backends.tsm.api import Library, SignOn
from backends.tsm.codes import Code, describe
from backends.tsm.setting import WorkerSetting, object_name
from backends.tsm.transfer import Failure, Transaction, Transfer

_Value = TypeVar("_Value")


class Known(NamedTuple):
    """How an object is retrieved."""

    restore_order: int
    id: int


@dataclass(slots=True)
class Client:
    """What one client keeps over its sessions."""

    library: Library
    setting: WorkerSetting
    sign_on: SignOn
    transfer: Transfer
    known: Mapping[int, Known]  # by number, what may be retrieved
    stopping: threading.Event  # sessions are to end after the object they are at
    thread: ThreadPoolExecutor
    handle: int | None = None  # of the session that is open

    async def run(self, work: Callable[..., _Value], *arguments: object) -> _Value:
        """Do something in the client's thread."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, work, *arguments)

    def open(self) -> int:
        """Sign on; the return code."""
        code, handle = self.sign_on.attempt()
        if code == Code.OK:
            self.handle = handle
        elif handle:
            self.library.functions.dsmTerminate(handle)  # an expired password leaves one behind
        return code

    def close(self) -> None:
        """End the session that is open, if one is."""
        if self.handle is not None:
            self.library.functions.dsmTerminate(self.handle)
            self.handle = None


class TsmSession:
    """One session. The API is called in the client's thread; rows are written in the event loop's."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def open(self, record: Recorder, due_ns: int) -> bool:
        sent_ns = time.monotonic_ns()
        code = await self._client.run(self._client.open)
        done_ns = time.monotonic_ns()
        status: int = Status.OK
        if code != Code.OK:
            status = Status.CONNECT_FAILED if code < 0 else TSM_ERROR + code
            record.error(Operation.OPEN, describe(code), f"dsmInitEx: {self._client.library.message(code)}")
        record.row(Operation.OPEN, 0, due_ns, sent_ns, done_ns, done_ns, 0, status)
        return status == Status.OK

    async def perform(self, batch: Batch, record: Recorder) -> None:
        at = 0
        for operation, same in groupby(batch.operation):
            last = at + len(list(same))
            numbers, sizes = batch.number[at:last], batch.size_bytes[at:last]
            at = last
            if operation is Operation.ARCHIVE:
                whole = await self._archive(numbers, sizes, record)
            else:
                whole = await self._retrieve(numbers, sizes, record)
            if not whole:
                return

    async def close(self, record: Recorder) -> None:
        sent_ns = time.monotonic_ns()
        if self._client.handle is None:
            return  # it never opened
        await self._client.run(self._client.close)
        done_ns = time.monotonic_ns()
        record.row(Operation.CLOSE, 0, sent_ns, sent_ns, done_ns, done_ns, 0)

    async def _archive(self, numbers: Sequence[int], sizes: Sequence[int], record: Recorder) -> bool:
        """Archive objects; False where that ended the session."""
        client = self._client
        due_ns = time.monotonic_ns()
        transactions = await client.run(client.transfer.archive, client.handle, numbers, sizes, client.stopping.is_set)
        for one in transactions:
            self._transaction_rows(one, due_ns, record)
            due_ns = one.done_ns
        return not (transactions and transactions[-1].session_over)

    def _transaction_rows(self, one: Transaction, due_ns: int, record: Recorder) -> None:
        failure, done_ns = one.failure, one.done_ns
        status = Status.OK if failure is None else failure.status
        due = [
            due_ns,
            *one.sent_ns[1:],
        ]  # the first when what came before was done, the others when the one before was sent
        for number, size_bytes, due_ns, sent_ns in zip(one.numbers, one.sizes, due, one.sent_ns, strict=True):
            good_bytes = size_bytes if failure is None else 0
            record.row(Operation.ARCHIVE, number, due_ns, sent_ns, done_ns, done_ns, good_bytes, status)
            if failure is not None:
                self._error(Operation.ARCHIVE, failure, number, record)
        committed = sum(one.sizes) if failure is None else 0
        record.row(Operation.TRANSACTION, 0, one.began_ns, one.began_ns, one.voted_ns, done_ns, committed, status)

    async def _retrieve(self, numbers: Sequence[int], sizes: Sequence[int], record: Recorder) -> bool:
        """Retrieve objects in restore order; False where the connection was lost."""
        client = self._client
        due_ns = time.monotonic_ns()
        wanted = []
        for number, size_bytes in zip(numbers, sizes, strict=True):
            known = client.known.get(number)
            if known is None:
                code = Code.ABORT_NO_MATCH
                unknown = Failure(TSM_ERROR + code, describe(code), "dsmBeginQuery: the server has no such object")
                self._error(Operation.RETRIEVE, unknown, number, record)
                record.row(Operation.RETRIEVE, number, due_ns, due_ns, due_ns, due_ns, 0, unknown.status)
            else:
                wanted.append((known.restore_order, known.id, number, size_bytes))
        ordered = [(object_id, number, size_bytes) for _, object_id, number, size_bytes in sorted(wanted)]
        retrieved = await client.run(client.transfer.retrieve, client.handle, ordered, client.stopping.is_set)
        for one in retrieved:
            status: int = Status.OK
            good_bytes = one.size_bytes
            if one.failure is not None:
                status, good_bytes = one.failure.status, 0
                self._error(Operation.RETRIEVE, one.failure, one.number, record)
            record.row(
                Operation.RETRIEVE, one.number, due_ns, one.sent_ns, one.first_byte_ns, one.done_ns, good_bytes, status
            )
            due_ns = one.done_ns
        failure = retrieved[-1].failure if retrieved else None
        return failure is None or failure.status != Status.CONNECTION_LOST

    def _error(self, operation: Operation, failure: Failure, number: int, record: Recorder) -> None:
        setting = self._client.setting
        name = object_name(setting.space, setting.prefix, number)
        record.error(operation, failure.reason, failure.message, "", name, outcome_unknown=failure.outcome_unknown)
