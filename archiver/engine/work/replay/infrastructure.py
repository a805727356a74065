"""Infrastructure operations of one worker: instance after instance, each step by several clients.

One idea: a step is one operation on many objects. The next step uses only the objects for which the platform reported
success. If a step fails, or an object is not as expected, the instance counts as failed. A message describes every loss
of content or protection.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

import backends
from archiver.engine.work.replay.instances import Instance, infrastructure_of, instance
from archiver.engine.work.replay.preparing import SESSION_OBJECTS, Preparation, archiving, sessions_of, untimed
from archiver.engine.worker.assignment import Assignment, InfrastructureAssignment
from archiver.engine.worker.client import Client, Host
from archiver.engine.worker.outage import FAILED_SESSIONS_MAX
from archiver.measure.folding import Folding, Population
from archiver.measure.reports import InfrastructureReport, StageReport
from archiver.values.content import Content
from archiver.values.record import OPERATION_OF, Operation, Recorder, SeenLock, Status
from archiver.values.retention import Lock, Retention, RetentionMode
from backends.base import Backend, Batch, DataPlane, ExpectedLock, HasSecondPlace, PhaseSetting
from scenarios.work.infrastructure import Infrastructure

FAILED_INSTANCES_MAX = 3  # consecutive instances without a single object, before the run gives up
UPGRADED = 2  # content version of an upgrade
# Reasons that mean lost content or protection.
_LOST = frozenset(("damaged", "unlocked", "weaker", "longer"))


def refusal(what: Infrastructure, backend: Backend, *, locks: bool) -> str | None:
    """Return why this backend cannot carry out the operation, and what to do; None if it can.

    ``locks``: the run locks the objects that it archives.
    """
    if Operation.COPY not in backend.capabilities.operations:
        return (
            f"{what.kind} copies objects on the platform itself, which the {backend.name} backend does not offer; "
            "leave [[phase.infrastructure]] out"
        )
    if what.clones:
        return None
    if not isinstance(backend, HasSecondPlace):
        return (
            f"{what.kind} copies to a second place, which the {backend.name} backend does not have; leave it out of "
            "[[phase.infrastructure]]"
        )
    if not locks:
        return (
            f"{what.kind} verifies that no protection is lost, and this run locks nothing; leave --retention-mode none "
            "out, or storage migration out of [[phase.infrastructure]]"
        )
    return None


@dataclass(slots=True)
class _Finding:
    words: str
    object_name: str
    count: int = 0


@dataclass(slots=True)
class Findings:
    """Lost content or protection, and objects that could not be removed: each kind once, with its first object."""

    step: str = ""  # description of the current step
    _found: dict[tuple[str, str], _Finding] = field(default_factory=dict)

    def note(self, operation: Operation, reason: str, message: str, object_name: str) -> None:
        """Record one error of the current step, if it is a finding."""
        if operation in (Operation.DELETE, Operation.AUDIT) or reason in _LOST:
            self._found.setdefault((self.step, reason), _Finding(message, object_name)).count += 1

    def words(self) -> tuple[str, ...]:
        return tuple(
            f"{step}: {each.words} ({each.count:,} object{'s' * (each.count > 1)}, for example {each.object_name})"
            for (step, _), each in self._found.items()
        )


class _FindingRecorder(Recorder):
    """Recorder that counts errors and also passes them on as findings."""

    __slots__ = ("findings",)

    findings: Findings

    def error(
        self,
        operation: Operation,
        reason: str,
        message: str,
        request_id: str = "",
        object_name: str = "",
        *,
        outcome_unknown: bool = False,
        lock: SeenLock | None = None,
    ) -> None:
        super().error(operation, reason, message, request_id, object_name, outcome_unknown=outcome_unknown, lock=lock)
        self.findings.note(operation, reason, message, object_name)


class _Place:
    """One of the two places, as the host of sessions there, and its clients."""

    def __init__(self, host: Host, plane: DataPlane) -> None:
        self.plane = plane
        self.start_ns = host.start_ns
        self.is_finishing = False
        self.clients: list[_StepClient] = []
        self._host = host

    def add_client(self, client: Client) -> None:
        self._host.add_client(client)

    def fold(self, client: Client) -> None:
        self._host.fold(client)

    def not_tried(self, numbers: Iterable[int]) -> None:
        """Do nothing: only a separate audit reports these objects. Here the instance has failed."""

    async def carry_out(self, batches: Iterable[Batch]) -> set[int]:
        """Let the clients take sessions in turn; return the objects that succeeded."""
        rest, good = iter(batches), set[int]()
        await asyncio.gather(*(client.take_from(rest, good) for client in self.clients))
        return good


class _StepClient(Client):
    def __init__(self, place: _Place, number: int, folding: Folding, findings: Findings) -> None:
        super().__init__(place, number, folding, SESSION_OBJECTS)
        self.record = _FindingRecorder(self.record.capacity)
        self.record.findings = findings

    async def take_from(self, batches: Iterator[Batch], good: set[int]) -> None:
        """Carry out sessions until none is left.

        After several sessions in a row without a completed object, this client ends the step.
        """
        failed_sessions = 0
        for batch in batches:
            self.make_room()
            first = self.record.used
            objects = await self.session(batch, time.monotonic_ns())
            record, wanted = self.record, batch.operation[0]
            good.update(
                record.number[row]
                for row in range(first, record.used)
                if record.operation[row] == wanted and record.status[row] == Status.OK
            )
            failed_sessions = 0 if objects else failed_sessions + 1
            if failed_sessions >= FAILED_SESSIONS_MAX:
                return


class InfrastructureRun:
    """All instances of one kind of operation, in one worker. It is made before the clock starts."""

    def __init__(self, host: Host, assignment: Assignment, assigned: InfrastructureAssignment) -> None:
        what = infrastructure_of(assignment, assigned)
        self._host, self._assigned, self._what = host, assigned, what
        planes = _planes(assignment, what, assigned)
        self._own_plane, self._second_plane = planes[0], planes[-1]
        self._findings = Findings()
        self._over = asyncio.Event()
        self._completed = self._failed = self._done = 0  # the last counts objects, over all steps
        self._seconds: list[float] = []
        self._copied_second = self._copied_second_bytes = 0
        self._began_ns = self._ended_ns = 0
        self._gave_up: str | None = None

    async def run(self) -> None:
        """Carry out instances until the time is over or the maximum is reached. The current instance is finished."""
        what = self._what
        self._began_ns = self._ended_ns = self._host.start_ns
        until_ns = self._began_ns + int(what.seconds * 1e9)
        own, second = self._places()
        in_vain = 0
        try:
            while True:
                count = self._completed + self._failed
                await self._turn_of(count, until_ns)  # this wait counts, even after the last instance
                is_over = self._over.is_set() or self._host.is_finishing or time.monotonic_ns() >= until_ns
                if is_over or count == what.instances_max:
                    self._ended_ns = max(self._ended_ns, min(until_ns, time.monotonic_ns()))
                    break
                made, done = instance(what, self._assigned, count), self._done
                began_ns = await (self._clone(made, own) if what.clones else self._migrate(made, own, second))
                self._ended_ns = time.monotonic_ns()
                if began_ns is None:
                    self._failed += 1
                else:
                    self._completed += 1
                    self._seconds.append((self._ended_ns - began_ns) / 1e9)
                in_vain = 0 if self._done > done else in_vain + 1
                if in_vain >= FAILED_INSTANCES_MAX:
                    self._gave_up = f"{what.kind}: {in_vain} instances in a row completed no object"
                    break
        finally:
            await own.plane.end_phase()
            if second is not own:
                await second.plane.end_phase()

    async def _turn_of(self, index: int, until_ns: int) -> None:
        """Wait until this instance may begin, or until no further one may."""
        due_ns = min(until_ns, self._began_ns + int(index * self._what.every_seconds * 1e9))
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, (due_ns - time.monotonic_ns()) / 1e9)):
                await self._over.wait()

    def finish(self) -> None:
        """Begin no further instance."""
        self._over.set()

    def fold_lateness(self) -> None:
        """Do nothing, because infrastructure operations have no due times."""

    def report(self) -> StageReport:
        """Return the start and end of the work."""
        return untimed(self._assigned.workload, self._began_ns, self._ended_ns)

    def outcome(self) -> InfrastructureReport:
        """Return the result of all instances."""
        what, migrates = self._what, self._what.kind == "storage migration"
        return InfrastructureReport(
            self._assigned.workload,
            self._completed,
            self._failed,
            (self._ended_ns - self._began_ns) / 1e9,
            tuple(self._seconds),
            self._findings.words(),
            len(what.places("held")) + len(what.places("locked")) if migrates else 0,
            self._copied_second,
            self._copied_second_bytes,
            self._gave_up,
        )

    def _places(self) -> tuple[_Place, _Place]:
        """Return the run's own place and the second place, each with its clients.

        Without a second place, both are the run's own place.
        """
        what, assigned, host = self._what, self._assigned, self._host
        own = _Place(host, self._own_plane)
        second = _Place(host, self._second_plane) if self._second_plane is not self._own_plane else own
        folding = Folding(assigned.workload, _population(what, assigned), host.start_ns)
        for index, place in enumerate([own] if second is own else [own, second]):
            for number in range(
                assigned.client + index * assigned.clients, assigned.client + (index + 1) * assigned.clients
            ):
                place.clients.append(_StepClient(place, number, folding, self._findings))
                host.add_client(place.clients[-1])
        return own, second

    async def _clone(self, made: Instance, own: _Place) -> int | None:
        """Copy the golden set, read the copies, upgrade some, read these, and remove all of them.

        Returns the start time; None after a failure.
        """
        began_ns, source_of = time.monotonic_ns(), made.source_of
        self._findings.step = "a clone"
        copied = await self._do(own, Operation.COPY, made.copies, source_of, lock=Lock.NONE)
        read = await self._do(own, Operation.RETRIEVE, copied, source_of)
        self._findings.step = "the upgrade of a clone"
        upgrades = made.copies[: self._what.upgrades]
        upgraded = await self._do(own, Operation.NEW_VERSION, _both(upgrades, copied), lock=Lock.NONE, version=UPGRADED)
        read_too = await self._do(own, Operation.RETRIEVE, upgraded, version=UPGRADED)
        self._findings.step = "removing a clone"
        removed_too = await self._do(own, Operation.DELETE, upgraded)  # numbered above the copies
        removed = await self._do(own, Operation.DELETE, copied)
        is_good = len(read) == len(removed) == len(made.copies) and len(read_too) == len(removed_too) == len(upgrades)
        return began_ns if is_good else None

    async def _migrate(self, made: Instance, own: _Place, second: _Place) -> int | None:
        """Copy a set with its locks and holds, audit the copies, and remove the sources that may be removed.

        Returns the start time, which is after the archiving of its unlocked objects; None after a failure.
        """
        what, source_of = self._what, made.source_of
        await self._do(own, Operation.ARCHIVE, made.unlocked, lock=Lock.NONE)
        began_ns = time.monotonic_ns()
        whole: list[int] = []
        for part, lock, words in _CLASSES:
            self._findings.step = words
            places = what.places(part)
            wanted = made.copies[places.start : places.stop]
            copied = await self._do(second, Operation.COPY, wanted, source_of, lock=lock)
            self._copied_second += len(copied)
            self._copied_second_bytes += sum(self._size_of(number) for number in copied)
            whole += await self._do(second, Operation.AUDIT, copied, source_of)
        self._findings.step = "removing what was migrated"
        with_a_copy = {source_of[number] for number in whole}  # all other sources stay
        removed = await self._do(own, Operation.DELETE, _both(made.unlocked, with_a_copy))
        return began_ns if len(whole) == len(made.copies) and len(removed) == len(made.unlocked) else None

    async def _do(
        self,
        place: _Place,
        operation: Operation,
        numbers: Iterable[int],
        source_of: Mapping[int, int] | None = None,
        *,
        lock: Lock | None = None,
        version: int = 1,
    ) -> list[int]:
        """Carry out one operation on these objects; return those that succeeded, ascending.

        ``source_of`` maps each object to the source of its copy, or to the object with its content.
        """
        good = sorted(await place.carry_out(self._batches(operation, numbers, source_of, lock, version)))
        self._done += len(good)
        return good

    def _batches(
        self,
        operation: Operation,
        numbers: Iterable[int],
        source_of: Mapping[int, int] | None,
        lock: Lock | None,
        version: int,
    ) -> Iterator[Batch]:
        """Yield sessions, each limited in objects and bytes."""
        for some in sessions_of((number, self._size_of(number)) for number in numbers):
            chosen = [number for number, _ in some]
            sources = [source_of[number] for number in chosen] if source_of is not None else None
            yield Batch(
                [operation] * len(chosen),
                chosen,
                [size_bytes for _, size_bytes in some],
                lock=lock,
                version=[version] * len(chosen) if version != 1 else None,
                source=sources if operation is Operation.COPY else None,
                content=sources,
            )

    def _size_of(self, number: int) -> int:
        """Return the size of an object that an instance makes."""
        what, assigned = self._what, self._assigned
        if what.clones:
            return what.size_of((number - assigned.own_first) % what.objects)
        if assigned.second_first <= number < assigned.second_first + what.second_numbers:
            return what.size_of((number - assigned.second_first) % what.objects)
        unlocked = what.places("unlocked")
        return what.size_of(unlocked.start + (number - assigned.own_first) % len(unlocked))


def set_preparation(host: Host, assignment: Assignment, assigned: InfrastructureAssignment) -> Preparation:
    """Return one worker's archiving of a part of a set, before the phase that needs it."""
    what = infrastructure_of(assignment, assigned)
    assert what.prepares
    first, places = assigned.prepared[what.prepares], what.places(what.prepares)
    sizes = np.array([what.size_of(place) for place in places], dtype=np.int64)
    folding = Folding(assigned.workload, Population(np.arange(first, first + len(places)), sizes), host.start_ns)
    rest = ((first + index, int(sizes[index])) for index in range(*assigned.preparing))
    clients = range(assigned.client, assigned.client + assigned.clients)
    return Preparation(host, assigned.workload, clients, archiving(rest, what.lock), folding, "of a set")


_CLASSES: tuple[tuple[Literal["held", "locked", "unlocked"], Lock | None, str], ...] = (
    ("held", Lock.HEADER_AND_HOLD, "copies that are to be locked and held"),
    ("locked", None, "copies that are to be locked"),
    ("unlocked", Lock.NONE, "copies that are not to be locked"),
)


def _both(some: Iterable[int], others: Iterable[int]) -> list[int]:
    """Return the common elements, in the order of the first argument."""
    wanted = set(others)
    return [number for number in some if number in wanted]


def _planes(assignment: Assignment, what: Infrastructure, assigned: InfrastructureAssignment) -> list[DataPlane]:
    """Return the prepared data planes of the run's own place and of the second place, if there is one."""
    content = Content(assignment.run_id, assignment.content_seed, what.object_sizes[-1])
    operations = frozenset(OPERATION_OF[label] for label in what.does)
    planes: list[DataPlane] = []
    for index, setting in enumerate((assignment.backend_setting, assigned.second_setting)):
        if index and what.clones:
            continue
        first = assigned.client + index * assigned.clients
        planes.append(backends.load(assignment.backend).in_worker(setting))
        planes[-1].set_phase(
            PhaseSetting(
                content,
                assignment.dates,
                "all",  # an instance without a check of its copies proves nothing
                what.object_sizes,
                clients=tuple(range(first, first + assigned.clients)),
                operations=operations,
                locks=what.locks_with(None),
                expected=_expected(assignment, what, assigned) if index else (),
            )
        )
    return planes


def _expected(assignment: Assignment, what: Infrastructure, assigned: InfrastructureAssignment) -> list[ExpectedLock]:
    """Return the expected locks of the copies of each instance."""
    expected = []
    maker = assignment.dates.get(None)
    agreed = maker.retention if maker is not None else Retention(RetentionMode.NONE, None)
    latest = maker.latest if maker is not None else None
    for index in range(what.instances_max):
        first = instance(what, assigned, index).copies.start
        for part, lock, _ in _CLASSES:
            places, retention = what.places(part), agreed.locked_by(lock)
            dated = retention.mode is not RetentionMode.NONE
            expected.append(
                ExpectedLock(
                    first + places.start, first + places.stop - 1, retention,
                    assigned.earliest if dated else None, latest if dated else None,
                )
            )  # fmt: skip
    return expected


def _population(what: Infrastructure, assigned: InfrastructureAssignment) -> Population:
    """Return the numbers of all objects that instances may make."""
    of_set = np.array([what.size_of(place) for place in range(what.objects)], dtype=np.int64)
    of_one = of_set if what.clones else of_set[what.places("unlocked").start :]
    own, second = what.own_numbers, what.second_numbers
    numbers = np.concatenate(
        [
            np.arange(assigned.own_first, assigned.own_first + own),
            np.arange(assigned.second_first, assigned.second_first + second),
        ]
    )
    sizes = np.concatenate([np.tile(of_one, what.instances_max), np.tile(of_set, what.instances_max if second else 0)])
    order = np.argsort(numbers, kind="stable")
    return Population(numbers[order], sizes[order], in_parts=True)
