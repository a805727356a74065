"""A TSM session: sign on; operate on objects in transactions, get lists or one by one; end the session.

An object is archived when the vote of its transaction is answered, so its row ends then. Waiting for the later objects
of the transaction is part of its response time. Successive operations of one kind share transactions; where another
kind begins, the transaction is committed. A new version is archived like any object.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import TypeVar

from archiver.values.record import TSM_ERROR, Operation, Recorder, Status
from backends.base import Batch, Failure
from backends.tsm.audit import Audit
from backends.tsm.index import Index, IndexEntry, Target
from backends.tsm.library.api import Library, SignOn
from backends.tsm.library.codes import Code, describe
from backends.tsm.lifecycle import Lifecycle
from backends.tsm.query import ObjectQuery
from backends.tsm.setting import TsmWorkerSetting, object_name
from backends.tsm.transactions import SentTransaction, ends_session
from backends.tsm.transfer import Retrieved, Transfer

_Value = TypeVar("_Value")
_SENDS = (Operation.ARCHIVE, Operation.NEW_VERSION)

# Queries or reads one object in the session of a handle.
Look = Callable[[int, Target], Retrieved]


@dataclass(slots=True)
class ClientResources:
    """The resources that one client keeps between its sessions."""

    library: Library
    setting: TsmWorkerSetting
    sign_on: SignOn
    transfer: Transfer
    lifecycle: Lifecycle
    query: ObjectQuery
    audit: Audit
    index: Index
    stopping: threading.Event  # sessions end after their current object
    thread: ThreadPoolExecutor
    handle: int | None = None  # of the open session

    async def run(self, work: Callable[..., _Value], *arguments: object) -> _Value:
        """Run ``work`` in the client's thread."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, work, *arguments)

    def open(self) -> int:
        """Sign on; return the return code."""
        code, handle = self.sign_on.attempt()
        if code == Code.OK:
            self.handle = handle
        elif handle:
            self.library.functions.dsmTerminate(handle)  # an expired password gives a handle, too
        return code

    def look_up(self, missing: Iterable[tuple[int, int]]) -> dict[tuple[int, int], Failure]:
        """Query the ids of objects that are not in the index; return the failures of those that were not found.

        Keys are number and content version. A lost connection ends the queries.
        """
        assert self.handle is not None
        failures: dict[tuple[int, int], Failure] = {}
        for key in missing:
            if self.stopping.is_set():
                break
            answer = self.query.ask(self.handle, *key)
            if answer.found is not None:
                self.index[key] = IndexEntry(answer.found.restore_order, answer.found.id)
                continue
            assert answer.failure is not None
            failures[key] = answer.failure
            if ends_session(answer.failure):
                break
        return failures

    def one_by_one(self, look: Look, targets: Sequence[Target]) -> list[Retrieved]:
        """Query or read objects one after another, until the connection is lost."""
        assert self.handle is not None
        done: list[Retrieved] = []
        for target in targets:
            if self.stopping.is_set():
                break
            done.append(look(self.handle, target))
            if ends_session(done[-1].failure):
                break
        return done

    def ask(self, handle: int, target: Target) -> Retrieved:
        """Query one object; no data is retrieved."""
        answer = self.query.ask(handle, target.number, target.version)
        return Retrieved(target.number, 0, answer.sent_ns, answer.first_byte_ns, answer.done_ns, answer.failure)

    def head(self, handle: int, target: Target) -> Retrieved:
        """Query one object and compare its size. The server reports the estimate given when the object was archived."""
        answer = self.query.ask(handle, target.number, target.version)
        failure = answer.failure
        if answer.found is not None and answer.found.size_bytes != target.size_bytes:
            words = f"the server reports {answer.found.size_bytes:,} bytes, not {target.size_bytes:,}"
            failure = Failure(Status.DAMAGED, "damaged", words)
        return Retrieved(target.number, 0, answer.sent_ns, answer.first_byte_ns, answer.done_ns, failure)

    def restore_order(self, target: Target) -> float:
        """Return the sort key for objects to read; objects that do not exist come last."""
        entry = self.index.get((target.number, target.version))
        return entry.restore_order if entry is not None else math.inf

    def close(self) -> None:
        """End the open session, if there is one."""
        if self.handle is not None:
            self.library.functions.dsmTerminate(self.handle)
            self.handle = None


class TsmSession:
    """One session. The client's thread calls the API; the event loop's thread writes the rows."""

    def __init__(self, client: ClientResources) -> None:
        self._client = client
        self._is_over = False  # the connection is lost, or no transaction can begin

    @property
    def is_open(self) -> bool:
        return self._client.handle is not None and not self._is_over

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
        for part in _alike(batch):
            operation = part.operation[0]
            if operation in _SENDS:
                whole = await self._archive(part, record)
            elif operation in (Operation.RETRIEVE, Operation.RANGE_RETRIEVE):
                whole = await self._retrieve(operation, part, record)
            elif operation in (Operation.QUERY, Operation.HEAD, Operation.AUDIT):
                whole = await self._look(operation, part, record)
            else:
                whole = await self._change(operation, part, record)
            if not whole:
                self._is_over = True
                return

    async def close(self, record: Recorder) -> None:
        sent_ns = time.monotonic_ns()
        if self._client.handle is None:
            return  # it never opened
        await self._client.run(self._client.close)
        done_ns = time.monotonic_ns()
        record.row(Operation.CLOSE, 0, sent_ns, sent_ns, done_ns, done_ns, 0)

    async def _archive(self, part: Batch, record: Recorder) -> bool:
        """Archive objects; return False if that ended the session."""
        client = self._client
        due_ns = _due_ns(part)
        targets = list(map(Target, part.number, part.size_bytes, part.version or repeat(1)))
        transactions = await client.run(client.transfer.archive, client.handle, targets, client.stopping.is_set)
        return self._transactions_rows(part.operation, transactions, due_ns, record)

    async def _change(self, operation: Operation, part: Batch, record: Recorder) -> bool:
        """Hold, release or delete objects, or try to; return False if that ended the session."""
        client = self._client
        lifecycle = client.lifecycle
        work = {
            Operation.HOLD: lifecycle.hold,
            Operation.RELEASE: lifecycle.release,
            Operation.DELETE: lifecycle.delete,
            Operation.REFUSED_DELETE: lifecycle.refused_delete,
        }[operation]
        targets = await self._targets(operation, part, record)
        if targets is None:
            return False
        due_ns = _due_ns(part)
        transactions = await client.run(work, client.handle, targets, client.stopping.is_set)
        return self._transactions_rows(part.operation, transactions, due_ns, record)

    def _transactions_rows(
        self, operations: Sequence[Operation], transactions: Sequence[SentTransaction], due_ns: int, record: Recorder
    ) -> bool:
        """Write the rows of these transactions; return False if the last one ended the session."""
        at = 0
        for one in transactions:
            end = at + len(one.objects)
            self._transaction_rows(operations[at:end], one, due_ns, record)
            due_ns, at = one.done_ns, end
        return not (transactions and transactions[-1].session_over)

    def _transaction_rows(
        self, operations: Sequence[Operation], one: SentTransaction, due_ns: int, record: Recorder
    ) -> None:
        failure, done_ns = one.failure, one.done_ns
        status = Status.OK if failure is None else failure.status
        # The first object is due when the transaction is, the others when the previous one was sent.
        due = [due_ns, *one.sent_ns[1:]]
        sends = failure is None and operations[0] in _SENDS
        for operation, target, due_ns, sent_ns in zip(operations, one.objects, due, one.sent_ns, strict=True):
            good_bytes = target.size_bytes if sends else 0
            record.row(operation, target.number, due_ns, sent_ns, done_ns, done_ns, good_bytes, status)
            if failure is not None:
                self._error(operation, failure, target.number, record)
        committed = sum(target.size_bytes for target in one.objects) if sends else 0
        record.row(Operation.TRANSACTION, 0, one.began_ns, one.began_ns, one.voted_ns, done_ns, committed, status)

    async def _retrieve(self, operation: Operation, part: Batch, record: Recorder) -> bool:
        """Retrieve objects, or parts of them, in restore order; return False if the connection was lost."""
        client = self._client
        targets = await self._targets(operation, part, record)
        if targets is None:
            return False
        due_ns = _due_ns(part)
        targets.sort(key=lambda target: target.restore_order)
        retrieved = await client.run(client.transfer.retrieve, client.handle, targets, client.stopping.is_set)
        return self._object_rows(operation, retrieved, due_ns, record)

    async def _look(self, operation: Operation, part: Batch, record: Recorder) -> bool:
        """Query objects, or audit them in restore order; return False if the connection was lost."""
        client = self._client
        due_ns = _due_ns(part)
        targets = [
            Target(number, size_bytes, version, content=content)
            for number, size_bytes, version, content in zip(
                part.number, part.size_bytes, part.version or repeat(1), part.content or repeat(None), strict=False
            )
        ]
        looks: dict[Operation, Look] = {Operation.QUERY: client.ask, Operation.HEAD: client.head}
        if operation is Operation.AUDIT:
            targets.sort(key=client.restore_order)
        looked = await client.run(client.one_by_one, looks.get(operation, client.audit.look_at), targets)
        return self._object_rows(operation, looked, due_ns, record)

    def _object_rows(self, operation: Operation, objects: Sequence[Retrieved], due_ns: int, record: Recorder) -> bool:
        """Write the rows of objects that were read one after another; return False if the connection was lost."""
        for one in objects:
            status: int = Status.OK
            good_bytes = one.size_bytes
            if one.failure is not None:
                status, good_bytes = one.failure.status, 0
                self._error(operation, one.failure, one.number, record)
            record.row(operation, one.number, due_ns, one.sent_ns, one.first_byte_ns, one.done_ns, good_bytes, status)
            due_ns = one.done_ns
        return not (objects and ends_session(objects[-1].failure))

    async def _targets(self, operation: Operation, part: Batch, record: Recorder) -> list[Target] | None:
        """Return the objects with their ids, None if the connection was lost. Write a row for each object not found.

        Ids that are not in the index are queried. No row includes the time of that query, because an application keeps
        such an index. But if a schedule says when the first object is due, its response time begins then.
        """
        client, index = self._client, self._client.index
        keys = list(zip(part.number, part.version or repeat(1), strict=False))
        missing = dict.fromkeys(key for key in keys if key not in index)
        failures: Mapping[tuple[int, int], Failure] = await client.run(client.look_up, missing) if missing else {}
        targets = []
        for key, size_bytes, extent, content in zip(
            keys, part.size_bytes, part.range or repeat(None), part.content or repeat(None), strict=False
        ):
            if key in index:
                entry = index[key]
                targets.append(Target(key[0], size_bytes, key[1], extent, entry.id, entry.restore_order, content))
            elif key in failures:
                now_ns = time.monotonic_ns()
                due_ns = now_ns if part.due_ns is None else part.due_ns
                self._error(operation, failures[key], key[0], record)
                record.row(operation, key[0], due_ns, now_ns, now_ns, now_ns, 0, failures[key].status)
        return None if any(map(ends_session, failures.values())) else targets

    def _error(self, operation: Operation, failure: Failure, number: int, record: Recorder) -> None:
        setting = self._client.setting
        name = object_name(setting.space, setting.prefix, number)
        record.error(operation, failure.reason, failure.message, "", name, outcome_unknown=failure.outcome_unknown)


def _alike(batch: Batch) -> Iterator[Batch]:
    """Yield the parts of a batch in its order: each has one operation, or sends objects."""
    at = 0
    for operation, same in groupby(batch.operation, key=lambda each: Operation.ARCHIVE if each in _SENDS else each):
        last = at + len(list(same))
        part = slice(at, last)
        yield Batch(
            batch.operation[part],
            batch.number[part],
            batch.size_bytes[part],
            batch.due_ns if at == 0 else None,
            version=batch.version[part] if batch.version is not None else None,
            range=batch.range[part] if batch.range is not None and operation is Operation.RANGE_RETRIEVE else None,
            content=batch.content[part] if batch.content is not None else None,
        )
        at = last


def _due_ns(part: Batch) -> int:
    """Return when the first object is due: the time in the schedule, or now if there is none."""
    return part.due_ns if part.due_ns is not None else time.monotonic_ns()
