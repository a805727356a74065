"""Next operations of a workload with a mix: batches drawn by weighted shuffles, on objects of its data set.

One idea: the state of the data set changes when a batch is made (operations, objects, sizes), and again when its rows
are complete. The data set therefore always matches the objects on the platform.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice, repeat

from numpy.random import PCG64, Generator

from archiver.engine.work.mixed.data_set import TRIES, Choice, DataSet, EachOnce, Sequential, Uniform, Zipf, choose_free
from archiver.engine.work.mixed.shares import mix_of
from archiver.engine.worker.assignment import MixAssignment, NewObjects
from archiver.values.record import OPERATION_OF, Operation, Recorder, Status
from backends.base import Batch
from scenarios.model import Workload
from scenarios.work.mix import CHANGES, MAKES_OBJECTS, WRITES_CONTENT, Mix, OperationName

_READS = frozenset(
    (Operation.RETRIEVE, Operation.RANGE_RETRIEVE, Operation.QUERY, Operation.HEAD, Operation.REFUSED_DELETE)
)
_CHANGES_LOCK = frozenset(
    (Operation.HOLD, Operation.RELEASE, Operation.EXTEND, Operation.EVENT_HOLD, Operation.EVENT_RELEASE)
)


class BatchSource:
    """The batches of one workload in one worker. All its clients in that worker take from it."""

    def __init__(
        self,
        workload: Workload,
        assignment: MixAssignment,
        data: DataSet,
        *,
        has_markers: bool,
        grows: bool,
        is_shared: bool = False,
    ) -> None:
        """Make the batches of one workload.

        ``has_markers``: the platform can hide retained objects behind a delete marker.
        ``grows``: archived objects are requested, too.
        ``is_shared``: the workload's other workers have the same data set.
        """
        self._workload = workload
        self._mix = mix_of(workload)
        self._data = data
        self._new = _Stock(assignment.new)
        self._aside = _Stock(assignment.aside)
        self._has_markers = has_markers
        self._grows = grows
        self._generator = Generator(PCG64(assignment.seed))
        self._transactions = [transaction.steps for transaction in self._mix.transactions]
        self._needs_new = [sum(step in WRITES_CONTENT for step in steps) for steps in self._transactions]
        self._items = self._mix.transaction_items()
        self._shuffled: list[int] = []
        self._credit = 0.0  # objects of the aside that are owed: fractions add up to whole objects
        self._choices: dict[int, Choice] = {}
        self._clients = assignment.clients
        self._part, self._parts = (assignment.part, assignment.parts) if is_shared else (0, 1)
        self._by_size: dict[int, list[int]] | None = None  # sources of copies
        self.steps_left_out = 0
        longest = max(map(len, self._transactions))
        per_transaction = longest * (1 + (self._mix.aside.per_operation if self._mix.aside is not None else 0))
        self.batch_max = math.ceil(workload.objects_per_session * per_transaction) + 1

    def batch(self, client: int, due_ns: int | None) -> Batch | None:
        """Return the next session's batch; None if no object is left to archive or to read."""
        making = _Making(self._mix)
        transactions, tries = 0, len(self._items) + self._workload.objects_per_session
        while transactions < self._workload.objects_per_session and tries:
            tries -= 1
            steps = self._next_transaction()
            if steps is None:
                break
            self._add_aside(len(steps), making)  # first, because a log is written before the data that it describes
            if not self._add_transaction(steps, client, making):
                break
            transactions += bool(making.operations)  # a session needs at least one step that was not left out
        if not making.operations:
            return None
        workload = self._workload
        return Batch(
            making.operations, making.numbers, making.sizes, due_ns,
            lock=workload.lock, checksum=workload.checksum, retain_for_seconds=workload.retain_for_seconds,
            part_bytes=self._mix.part_bytes, version=making.versions, range=making.ranges, source=making.sources,
        )  # fmt: skip

    def give_back(self, batch: Batch, indices: Iterable[int]) -> None:
        """Take back the new objects of these archives, which surely do not exist; they are archived after all others.

        A workload without an end in time tries each object once.
        """
        for index in indices if self._mix.is_timed else ():
            if batch.operation[index] is Operation.ARCHIVE:
                number = batch.number[index]
                stock = self._new if number < self._aside.first else self._aside
                stock.put_back(number, batch.size_bytes[index])

    def settle(self, batch: Batch, record: Recorder, first_row: int) -> None:
        """Update the data set from the rows written since ``first_row``."""
        data = self._data
        if not data.is_changed and not self._grows:
            return
        status_of = {
            (record.operation[row], record.number[row]): record.status[row] for row in range(first_row, record.used)
        }
        for index, operation in enumerate(batch.operation):
            number = batch.number[index]
            good = status_of.get((operation, number)) == Status.OK
            if operation is Operation.ARCHIVE:
                if good and self._grows and number < self._aside.first:
                    data.add(number, batch.size_bytes[index])
            elif operation is Operation.NEW_VERSION:
                if good:  # otherwise the current version is unknown
                    assert batch.version is not None
                    data.versions[number] = batch.version[index]
                    data.add(number, batch.size_bytes[index])
            elif operation in _CHANGES_LOCK:
                data.add(number, batch.size_bytes[index])
                if operation is Operation.HOLD and good:
                    data.hold(number)
                elif operation is Operation.EVENT_HOLD and good:
                    data.event_hold(number)
            elif data.is_changed and operation in _READS:
                data.unpin(number)
            elif data.is_changed and operation is Operation.COPY:
                assert batch.source is not None
                data.unpin(batch.source[index])

    def _next_transaction(self) -> tuple[OperationName, ...] | None:
        """Return the steps of the next transaction; None if too few numbers are left for its new objects."""
        if not self._shuffled:
            # Shuffling a single item would take 15 us, once a session.
            items = self._items
            self._shuffled = self._generator.permutation(items).tolist() if len(items) > 1 else [*items]
        if self._needs_new[self._shuffled[-1]] > self._new.left:
            return None
        return self._transactions[self._shuffled.pop()]

    def _add_transaction(self, steps: tuple[OperationName, ...], client: int, making: _Making) -> bool:
        """Add a transaction to a batch; return False if there is no object to read."""
        for step in steps:
            if step in MAKES_OBJECTS and not self._new.left:  # a larger new version may have used more than its share
                self.steps_left_out += 1
            elif step == "archive":
                making.add(Operation.ARCHIVE, *self._new.take())
            elif step == "copy":
                self._copy(client, making)
            elif step in CHANGES:
                self._change(step, client, making)
            elif not self._read(step, client, making):
                return False
        return True

    def _add_aside(self, operations: int, making: _Making) -> None:
        aside = self._mix.aside
        if aside is None:
            return
        self._credit += operations * aside.per_operation
        while self._credit >= 1 and self._aside.left:
            self._credit -= 1
            making.add(Operation.ARCHIVE, *self._aside.take())

    def _read(self, step: OperationName, client: int, making: _Making) -> bool:
        data = self._data
        place = self._choice(client).place()
        if place is None:
            return False
        number, size_bytes = data.numbers[place], data.sizes[place]
        if step == "refused-delete":
            locked = self._by_chance(client, data.is_locked)
            if locked is None:
                self.steps_left_out += 1
                return True
            number, size_bytes = locked, data.size_of(locked)
        if data.is_changed:
            data.pin(number)
        making.add(OPERATION_OF[step], number, size_bytes, data.versions.get(number, 1))
        if step == "range-retrieve":
            making.range(self._range(size_bytes))
        return True

    def _change(self, step: OperationName, client: int, making: _Making) -> None:
        """Add a step that changes an object, and reserve the object for this batch.

        The step is left out if no object is available. A delete takes an object with an expired lock. If there is none,
        and the platform has delete markers, it hides an object behind a marker.
        """
        data, operation = self._data, OPERATION_OF[step]
        if step == "delete":
            expired = data.take_expired()
            if expired is not None:
                making.add(operation, *expired)
                return
            operation = Operation.DELETE_MARKER
        number: int | None = None
        if operation is Operation.RELEASE:
            number = data.held()
        elif operation is Operation.EVENT_RELEASE:
            number = data.event_held()
        elif operation is Operation.EVENT_HOLD:
            number = self._by_chance(client, data.takes_event_hold)
        elif operation in (Operation.HOLD, Operation.EXTEND):
            number = self._by_chance(client, data.is_locked)
        elif operation is not Operation.DELETE_MARKER or self._has_markers:
            number = self._free(client)
        if number is not None and operation is Operation.NEW_VERSION and not self._new.spend(data.size_of(number)):
            number = None
        if number is None:
            self.steps_left_out += 1
            return
        version = data.versions.get(number, 1) + (operation is Operation.NEW_VERSION)
        making.add(operation, number, data.size_of(number), version)
        data.take(number)

    def _copy(self, client: int, making: _Making) -> None:
        """Add a copy to a new object of the same size."""
        data = self._data
        number, size_bytes = self._new.take()
        if self._by_size is None:
            self._by_size = {}
            for other, size in zip(data.numbers, data.sizes, strict=True):
                self._by_size.setdefault(size, []).append(other)
        sources = self._by_size.get(size_bytes)
        source = sources[int(self._generator.integers(len(sources)))] if sources else None
        if source is None or (data.is_changed and not data.is_free(source)):
            self.steps_left_out += 1
            return
        if data.is_changed:
            data.pin(source)
        making.add(Operation.COPY, number, size_bytes, data.versions.get(source, 1))
        making.source(source)

    def _free(self, client: int) -> int | None:
        choice = self._choice(client)
        return choose_free(self._data, islice((choice.place() for _ in repeat(None)), TRIES))

    def _by_chance(self, client: int, fits: Callable[[int], bool]) -> int | None:
        """Return a random object that fits; None if none was found in TRIES tries."""
        data, choice = self._data, self._choice(client)
        for _ in range(TRIES):
            place = choice.place()
            if place is None:
                return None
            number: int = data.numbers[place]
            if fits(number):
                return number
        return None

    def _choice(self, client: int) -> Choice:
        """Return this client's choice: its own one for sequential access, otherwise the shared one."""
        mix, data = self._mix, self._data
        key = client if mix.keys == "sequential" else 0
        if key not in self._choices:
            choices: dict[str, Callable[[], Choice]] = {
                "uniform": lambda: Uniform(data, self._generator),
                "zipf": lambda: Zipf(data, self._generator, mix.zipf_exponent),
                "sequential": lambda: Sequential(
                    data, (self._part + self._clients.index(client) / len(self._clients)) / self._parts
                ),
                "each-once": lambda: EachOnce(data, self._generator, self._part, self._parts),
            }
            self._choices[key] = choices[mix.keys]()
        return self._choices[key]

    def _range(self, size_bytes: int) -> tuple[int, int]:
        """Return a random aligned range of the object, or the shorter range at its end."""
        length = min(self._mix.range_bytes or size_bytes, size_bytes)
        at = int(self._generator.integers(-(-size_bytes // length))) * length
        return at, min(length, size_bytes - at)


class _Stock:
    """New objects, taken one by one."""

    def __init__(self, new: NewObjects) -> None:
        self._numbers: list[int] = new.numbers.tolist()
        self._sizes: list[int] = new.sizes.tolist()
        self._taken = 0
        self._allowed_bytes = 0  # unused bytes of objects given up for new versions
        self.first = min(self._numbers, default=1 << 62)

    @property
    def left(self) -> int:
        return len(self._numbers) - self._taken

    def take(self) -> tuple[int, int]:
        """Return number and size of the next new object."""
        at = self._taken
        self._taken = at + 1
        return self._numbers[at], self._sizes[at]

    def put_back(self, number: int, size_bytes: int) -> None:
        """Add an object that was taken and does not exist."""
        self._numbers.append(number)
        self._sizes.append(size_bytes)

    def spend(self, size_bytes: int) -> bool:
        """Give up at least one new object for a new version of this size; return False if too few are left.

        The workload therefore never writes more than its upper bound.
        """
        allowed, taken = self._allowed_bytes, self._taken
        while taken < len(self._numbers) and (taken == self._taken or allowed < size_bytes):
            allowed += self._sizes[taken]
            taken += 1
        if taken == self._taken or allowed < size_bytes:
            return False
        self._allowed_bytes, self._taken = allowed - size_bytes, taken
        return True


class _Making:
    """A batch under construction. Columns that no operation needs are omitted."""

    def __init__(self, mix: Mix) -> None:
        self.operations: list[Operation] = []
        self.numbers: list[int] = []
        self.sizes: list[int] = []
        self._versions: list[int] = []
        self._ranges: dict[int, tuple[int, int]] = {}
        self._sources: dict[int, int] = {}

    def add(self, operation: Operation, number: int, size_bytes: int, version: int = 1) -> None:
        self.operations.append(operation)
        self.numbers.append(number)
        self.sizes.append(size_bytes)
        self._versions.append(version)

    def range(self, part: tuple[int, int]) -> None:
        """Set the range of the last operation."""
        self._ranges[len(self.numbers) - 1] = part

    def source(self, number: int) -> None:
        """Set the source of the last operation."""
        self._sources[len(self.numbers) - 1] = number

    @property
    def versions(self) -> list[int] | None:
        return self._versions if max(self._versions) > 1 else None

    @property
    def ranges(self) -> list[tuple[int, int]] | None:
        if not self._ranges:
            return None
        return [self._ranges.get(index, (0, size)) for index, size in enumerate(self.sizes)]

    @property
    def sources(self) -> list[int] | None:
        return [self._sources.get(index, 0) for index in range(len(self.numbers))] if self._sources else None
