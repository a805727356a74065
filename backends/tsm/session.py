"""A TSM session: signed on, its objects in transactions, in a list or one by one, ended.

One idea: an object is archived when its transaction's vote is answered and not before, so that is when its row says
it was done; waiting for the objects behind it is part of what it took.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from archiver.record import TSM_ERROR, Operation, Recorder, Status
from backends.base import Batch
from backends.tsm.api import Library, SignOn
from backends.tsm.audit import Audit
from backends.tsm.codes import Code, describe
from backends.tsm.lifecycle import Known, Lifecycle
from backends.tsm.query import NO_SUCH_OBJECT, ObjectQuery
from backends.tsm.setting import WorkerSetting, object_name
from backends.tsm.transactions import Failure, Transaction
from backends.tsm.transfer import Retrieved, Transfer

_Value = TypeVar("_Value")

# Looks at one object (session handle, number, size in bytes).
Look = Callable[[int, int, int], Retrieved]


@dataclass(slots=True)
class Client:
    """What one client keeps over its sessions."""

    library: Library
    setting: WorkerSetting
    sign_on: SignOn
    transfer: Transfer
    lifecycle: Lifecycle
    query: ObjectQuery
    audit: Audit
    known: Mapping[int, Known]  # by number, what is there already
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

    def one_by_one(self, look: Look, numbers: Sequence[int], sizes: Sequence[int]) -> list[Retrieved]:
        """Look at objects one after another; a connection that is lost ends it."""
        assert self.handle is not None
        done: list[Retrieved] = []
        for number, size_bytes in zip(numbers, sizes, strict=True):
            if self.stopping.is_set():
                break
            done.append(look(self.handle, number, size_bytes))
            if _is_lost(done[-1].failure):
                break
        return done

    def ask(self, handle: int, number: int, _: int) -> Retrieved:
        """Query one object; none of its bytes come back."""
        answer = self.query.ask(handle, number)
        return Retrieved(number, 0, answer.sent_ns, answer.first_byte_ns, answer.done_ns, answer.failure)

    def restore_order(self, number: int) -> float:
        """By what objects are sorted that are to be read; what is not there comes last."""
        known = self.known.get(number)
        return known.restore_order if known is not None else math.inf

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
            elif operation is Operation.RETRIEVE:
                whole = await self._retrieve(numbers, sizes, record)
            elif operation in (Operation.QUERY, Operation.AUDIT):
                whole = await self._look(operation, numbers, sizes, record)
            else:
                whole = await self._change(operation, numbers, record)
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
        return self._transactions_rows(Operation.ARCHIVE, transactions, due_ns, record)

    async def _change(self, operation: Operation, numbers: Sequence[int], record: Recorder) -> bool:
        """Hold, release or delete objects, or try to; False where that ended the session."""
        client = self._client
        due_ns = time.monotonic_ns()
        lifecycle = client.lifecycle
        work = {
            Operation.HOLD: lifecycle.hold,
            Operation.RELEASE: lifecycle.release,
            Operation.DELETE: lifecycle.delete,
            Operation.REFUSED_DELETE: lifecycle.refused_delete,
        }[operation]
        known = self._known(operation, numbers, due_ns, record)
        transactions = await client.run(work, client.handle, known, client.stopping.is_set)
        return self._transactions_rows(operation, transactions, due_ns, record)

    def _transactions_rows(
        self, operation: Operation, transactions: Sequence[Transaction], due_ns: int, record: Recorder
    ) -> bool:
        """Write what these came to; False where that ended the session."""
        for one in transactions:
            self._transaction_rows(operation, one, due_ns, record)
            due_ns = one.done_ns
        return not (transactions and transactions[-1].session_over)

    def _transaction_rows(self, operation: Operation, one: Transaction, due_ns: int, record: Recorder) -> None:
        failure, done_ns = one.failure, one.done_ns
        status = Status.OK if failure is None else failure.status
        due = [
            due_ns,
            *one.sent_ns[1:],
        ]  # the first when what came before was done, the others when the one before was sent
        for number, size_bytes, due_ns, sent_ns in zip(one.numbers, one.sizes, due, one.sent_ns, strict=True):
            good_bytes = size_bytes if failure is None else 0
            record.row(operation, number, due_ns, sent_ns, done_ns, done_ns, good_bytes, status)
            if failure is not None:
                self._error(operation, failure, number, record)
        committed = sum(one.sizes) if failure is None else 0
        record.row(Operation.TRANSACTION, 0, one.began_ns, one.began_ns, one.voted_ns, done_ns, committed, status)

    async def _retrieve(self, numbers: Sequence[int], sizes: Sequence[int], record: Recorder) -> bool:
        """Retrieve objects in restore order; False where the connection was lost."""
        client = self._client
        due_ns = time.monotonic_ns()
        size_of = dict(zip(numbers, sizes, strict=True))
        wanted = sorted(
            client.known[number] + (number,) for number in self._known(Operation.RETRIEVE, numbers, due_ns, record)
        )
        ordered = [(object_id, number, size_of[number]) for _, object_id, number in wanted]
        retrieved = await client.run(client.transfer.retrieve, client.handle, ordered, client.stopping.is_set)
        return self._object_rows(Operation.RETRIEVE, retrieved, due_ns, record)

    async def _look(self, operation: Operation, numbers: Sequence[int], sizes: Sequence[int], record: Recorder) -> bool:
        """Query objects, or audit them in restore order; False where the connection was lost."""
        client = self._client
        due_ns = time.monotonic_ns()
        look: Look = client.ask
        if operation is Operation.AUDIT:
            look = client.audit.look_at
            pairs = sorted(zip(numbers, sizes, strict=True), key=lambda pair: client.restore_order(pair[0]))
            numbers, sizes = [number for number, _ in pairs], [size_bytes for _, size_bytes in pairs]
        looked = await client.run(client.one_by_one, look, numbers, sizes)
        return self._object_rows(operation, looked, due_ns, record)

    def _object_rows(self, operation: Operation, objects: Sequence[Retrieved], due_ns: int, record: Recorder) -> bool:
        """Write what came of objects that were had one after another; False where the connection was lost."""
        for one in objects:
            status: int = Status.OK
            good_bytes = one.size_bytes
            if one.failure is not None:
                status, good_bytes = one.failure.status, 0
                self._error(operation, one.failure, one.number, record)
            record.row(operation, one.number, due_ns, one.sent_ns, one.first_byte_ns, one.done_ns, good_bytes, status)
            due_ns = one.done_ns
        return not (objects and _is_lost(objects[-1].failure))

    def _known(self, operation: Operation, numbers: Sequence[int], due_ns: int, record: Recorder) -> list[int]:
        """Those objects whose ids were found; of the others a row says that they are not there."""
        known = []
        for number in numbers:
            if number in self._client.known:
                known.append(number)
            else:
                self._error(operation, NO_SUCH_OBJECT, number, record)
                record.row(operation, number, due_ns, due_ns, due_ns, due_ns, 0, NO_SUCH_OBJECT.status)
        return known

    def _error(self, operation: Operation, failure: Failure, number: int, record: Recorder) -> None:
        setting = self._client.setting
        name = object_name(setting.space, setting.prefix, number)
        record.error(operation, failure.reason, failure.message, "", name, outcome_unknown=failure.outcome_unknown)


def _is_lost(failure: Failure | None) -> bool:
    return failure is not None and failure.status == Status.CONNECTION_LOST
