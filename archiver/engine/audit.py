"""Audit of a run: read all archived objects, or a random sample, and compare them with what the run requested.

One idea: the ledger is the only source of what must exist. It stores ranges of object numbers under a lock, and names
and bytes follow from the numbers. The audit needs no file of the run. It names every object that the platform does not
return, whole and locked.
"""

from __future__ import annotations

import math
import secrets
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

from archiver.engine.worker.assignment import Assignment, ClientAssignment
from archiver.engine.worker.client import UNREACHED
from archiver.engine.workers.contract import Workers
from archiver.ledger.event_holds import EventHolds
from archiver.ledger.holdings import Holding, gather
from archiver.ledger.ledger import Ledger, NumberRange, Placement
from archiver.measure.reports import IntervalReport
from archiver.values.clock import now_seconds
from archiver.values.content import Content
from archiver.values.errors import PlatformError, UsageError
from archiver.values.record import TSM_ERROR, ErrorKind, Status
from archiver.values.retention import Lock, Retention, RetentionMode
from backends.base import Backend, CloserLook, ExpectedLock, HasCredentials, Location, VersionedBackend
from results.measures.statistics import bad_objects_max
from results.recorded.database import ObjectChange
from scenarios.model import Phase, Workload
from scenarios.work.sessions import AllObjects, Sessions

OBJECTS_PER_SESSION = 100
CLOSER_LOOKS_MAX = 100  # for each kind of finding
CONFIDENCES = (0.95, 0.99)
LASTING_SECONDS = 3600.0  # required lifetime of credentials when reading begins; the duration of an audit is not known
AWAY_SECONDS = 2.0  # wait for a platform that went away
_NO_MATCH = TSM_ERROR + 2  # DSM_RC_ABORT_NO_MATCH
# What a run itself does to objects that it archived, as words after a count of objects.
_REPLACED = "replaced by the run with later content: the first version still exists, whole and locked"
_MARKED = "hidden by the run behind delete markers: the archived objects still exist, whole and locked"
_COPIED = "copied by the run from other objects of its own: whole and locked"
_NOT_RECORDED = "the run has no record that it set the marker"

# No session opened, or the server answered nothing in it: the platform is absent, not the object.
_NOT_REACHED = frozenset((Status.INCOMPLETE, *UNREACHED))


class Kind(StrEnum):
    """Kind of finding. EXPIRED alone breaks no promise."""

    MISSING = "missing"
    MAY_HAVE_EXPIRED = "missing, and its lock may have ended"
    EXPIRED = "gone after its lock had ended"
    HIDDEN = "hidden behind something newer"
    DAMAGED = "damaged"
    UNLOCKED = "unlocked"
    WEAKER = "weaker locked"
    LONGER = "longer locked"
    UNREAD = "could not be read"


_KINDS = {
    404: Kind.MISSING,
    _NO_MATCH: Kind.MISSING,
    Status.DAMAGED: Kind.DAMAGED,
    Status.UNLOCKED: Kind.UNLOCKED,
    Status.WEAKER: Kind.WEAKER,
    Status.LONGER: Kind.LONGER,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One object that does not match the ledger."""

    kind: Kind
    name: str
    phase: str  # the phase that archived it
    bytes: int
    acknowledged: bool  # False: the phase never ended, and the object was found in the platform's list
    words: str  # the platform's message, or the result of a closer look


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Objects that could not be audited, and the reason."""

    phase: str
    objects_max: int
    why: str


@dataclass(frozen=True, slots=True)
class Bound:
    """Statistical bound of a sample: at this confidence, at most this many of all objects are bad."""

    confidence_percent: float
    bad_objects_max: int
    bad_percent_max: float


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """Result of an audit. A finding of kind EXPIRED breaks no promise. An object that could not be read counts as bad,
    because its state is not known.
    """

    run: str
    started_at: float  # epoch seconds
    seconds: float  # reading time
    clients: int
    population_objects: int  # objects whose numbers the ledger has, and listed objects of phases that never ended
    population_bytes: int
    objects: int  # objects that were requested
    bytes: int
    objects_per_second: float
    sample_seed: int | None  # None: every object was read
    findings: tuple[Finding, ...]
    passed_over: tuple[PassedOver, ...]
    bounds: tuple[Bound, ...]  # of the sample
    remarks: tuple[str, ...]  # what was not compared, and why; what the run itself changed
    locks_compared: bool
    broken_off: str | None  # reason why the audit stopped early

    @property
    def counts(self) -> Counter[Kind]:
        """Return the number of findings of each kind."""
        return Counter(finding.kind for finding in self.findings)

    @property
    def is_good(self) -> bool:
        """Return whether every requested object is present, whole and locked, or was removed after its lock ended."""
        return self.broken_off is None and self.locks_compared and not set(self.counts) - {Kind.EXPIRED}

    def document(self) -> dict[str, Any]:
        """Return the record as a JSON document; every key names its unit."""
        counts = self.counts
        return {**asdict(self), "counts": {kind.value: counts[kind] for kind in Kind if counts[kind]}}


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options that the user chose."""

    clients: int
    sample: int | None = None  # objects; None: all
    changes: Sequence[ObjectChange] = ()  # made by the run itself


@dataclass(frozen=True, slots=True)
class ObjectRange:
    """Objects that one phase archived under one lock."""

    object_bytes: int
    first: int
    last: int
    placement: Placement
    acknowledged: bool = True

    def __len__(self) -> int:
        return self.last - self.first + 1


class AuditPopulation:
    """Everything that must exist, as ranges. The audit draws objects from it by position."""

    def __init__(self, ranges: Sequence[ObjectRange]) -> None:
        self.ranges = sorted(ranges, key=lambda each: each.first)
        self._firsts = [each.first for each in self.ranges]
        self.objects = sum(len(each) for each in self.ranges)
        self.bytes = sum(len(each) * each.object_bytes for each in self.ranges)

    def draw(self, count: int, seed: int) -> NDArray[np.int64]:
        """Return the numbers of ``count`` distinct objects in random order. Every set of objects is equally likely."""
        generator = Generator(PCG64(seed))
        chosen = generator.choice(self.objects, count, replace=False)
        lengths = np.array([len(each) for each in self.ranges], dtype=np.int64)
        starts = np.cumsum(lengths) - lengths
        which = np.searchsorted(starts, chosen, side="right") - 1
        drawn: NDArray[np.int64] = np.array(self._firsts, dtype=np.int64)[which] + (chosen - starts[which])
        return drawn

    def of_sizes(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield objects grouped by size; each group keeps the given order."""
        which = np.searchsorted(np.array(self._firsts, dtype=np.int64), numbers, side="right") - 1
        sizes = np.array([each.object_bytes for each in self.ranges], dtype=np.int64)[which]
        for size in np.unique(sizes).tolist():
            yield size, numbers[sizes == size]

    def range_of(self, number: int) -> ObjectRange:
        """Return the range that contains this object."""
        return self.ranges[bisect_right(self._firsts, number) - 1]


def subject(ledger: Ledger, run: str) -> Holding:
    """Return the place where a run has auditable objects. Raises UsageError if there is none, or more than one."""
    placements = ledger.placements(run)
    if not placements:
        known = ledger.knows(run)
        message = "all its objects have been removed already" if known else "the ledger has no such run"
        raise UsageError(f"{run}: {message}" + ("" if known else "; its id is the name of its folder"))
    made = [each for each in gather(placements) if any(row.content_seed is not None for row in each.placements)]
    filled = [each for each in made if each.objects]
    if not filled:
        raise UsageError(
            f"{run}: the ledger lacks the numbers that its objects were generated from, so their content cannot be "
            "generated again; only objects that `archiver run` of this version or a later one archived can be audited"
        )
    if len(filled) > 1:
        raise UsageError(
            f"{run}: has objects in {len(filled)} places; only a run with objects in one place can be audited"
        )
    return filled[0]


def audit_run(
    holding: Holding,
    ledger: Ledger,
    backend: Backend,
    workers: Workers,
    options: AuditOptions,
    on_progress: Callable[[int, int], None],
) -> AuditRecord:
    """Read the objects of a run, or a sample of them, and compare them with the ledger.

    The audit calls ``on_progress`` with the number of objects done and the total. Raises PlatformError if the platform
    cannot be reached or is not the run's platform. Raises UsageError if there is nothing to audit.
    """
    backend.profile()
    first = holding.first
    location = Location(first.endpoint, first.region, first.bucket, first.bucket_created, first.prefix)
    try:
        backend.attach(location, Retention(RetentionMode(first.retention_mode), None, first.latest_retain_until))
    except PlatformError as error:
        raise PlatformError(f"{first.run} cannot be audited: {error}") from error
    ranges, passed_over = _ranges(holding, ledger, backend)
    population = AuditPopulation(ranges)
    if not population.objects:
        why = "".join(f"; {each.phase}: {each.why}" for each in passed_over)
        raise UsageError(f"{first.run}: it has no objects that can be audited{why}")
    count = min(options.sample or population.objects, population.objects)
    seed = secrets.randbits(62)
    numbers = population.draw(count, seed)
    locks = _Locks(holding, options.changes, population.ranges, ledger.event_holds(first.run))
    started_at = now_seconds()
    reading = _Reading(population, locks, backend, workers, options.clients, lambda done: on_progress(done, count))
    reading.read(numbers)
    unseen = _unseen_locks(reading.bad, backend)
    bad = {number: status for number, status in reading.bad.items() if not unseen or status != Status.UNLOCKED}
    findings, explained = _findings(bad, reading, population, locks, backend)
    _record_longer(bad, population, ledger, backend)
    objects = reading.good + len(reading.bad)
    is_sample = count < population.objects
    broken = sum(1 for finding in findings if finding.kind is not Kind.EXPIRED)
    return AuditRecord(
        run=first.run,
        started_at=started_at,
        seconds=reading.seconds,
        clients=options.clients,
        population_objects=population.objects,
        population_bytes=population.bytes,
        objects=objects,
        bytes=reading.good_bytes + sum(population.range_of(number).object_bytes for number in reading.bad),
        objects_per_second=objects / reading.seconds if reading.seconds else 0.0,
        sample_seed=seed if is_sample else None,
        findings=tuple(findings),
        passed_over=tuple(passed_over),
        bounds=_bounds(population.objects, count, broken) if is_sample and reading.broken_off is None else (),
        remarks=(*locks.remarks, *([unseen] if unseen else []), *explained),
        locks_compared=unseen is None,
        broken_off=reading.broken_off,
    )


def _record_longer(bad: Mapping[int, int], population: AuditPopulation, ledger: Ledger, backend: Backend) -> None:
    """Record in the ledger the locks that are longer or stronger than agreed, of at most CLOSER_LOOKS_MAX objects."""
    longer = [number for number, status in bad.items() if status == Status.LONGER]
    for number in longer[:CLOSER_LOOKS_MAX]:
        row = population.range_of(number).placement
        found = backend.read_lock(number, Retention(RetentionMode(row.retention_mode)), None, None)
        if row.id is not None:
            ledger.observe([row.id], found.mode, found.until, on_hold=found.on_hold)


def _ranges(holding: Holding, ledger: Ledger, backend: Backend) -> tuple[list[ObjectRange], list[PassedOver]]:
    """Return the ranges that must exist, and the objects that cannot be audited.

    Raises PlatformError if listing fails.
    """
    ranges: list[ObjectRange] = []
    passed_over: list[PassedOver] = []
    for placement in holding.placements:
        if placement.objects == 0:
            continue
        objects_max = placement.objects if placement.objects is not None else placement.objects_max
        if placement.content_seed is None:
            why = (
                "the ledger lacks the numbers that they were generated from, so their content cannot be generated again"
            )
            passed_over.append(PassedOver(placement.phase, objects_max, why))
        elif placement.objects is None:
            listed = _listed(placement, backend)
            ranges += listed if isinstance(listed, list) else []
            passed_over += [listed] if isinstance(listed, PassedOver) else []
        else:
            assert placement.id is not None
            known = [ObjectRange(*each, placement) for each in map(_values, ledger.ranges(placement.id))]
            ranges += known
            unknown = placement.objects - sum(map(len, known))
            if unknown > 0:
                why = "the platform did not answer whether it stored them, so the audit cannot expect them"
                passed_over.append(PassedOver(placement.phase, unknown, why))
    return ranges, passed_over


def _values(each: NumberRange) -> tuple[int, int, int]:
    return each.object_bytes, each.first, each.last


def _listed(placement: Placement, backend: Backend) -> list[ObjectRange] | PassedOver:
    """Return the objects that the platform lists for a phase that never ended, within the phase's bound."""
    never_ended = "the phase never ended, so it is not known which of them the platform acknowledged"
    if not isinstance(backend, VersionedBackend):
        return PassedOver(placement.phase, placement.objects_max, never_ended)
    object_bytes, odd = divmod(placement.bytes_max, placement.objects_max)
    if odd or " + " in placement.phase:
        why = f"{never_ended}, nor the size of each"
        return PassedOver(placement.phase, placement.objects_max, why)
    first = placement.first_number
    ranges: list[ObjectRange] = []
    for number in backend.present(first, first + placement.objects_max - 1):
        if ranges and ranges[-1].last + 1 == number:
            ranges[-1] = replace(ranges[-1], last=number)
        else:
            ranges.append(ObjectRange(object_bytes, number, number, placement, acknowledged=False))
    return ranges


class _Locks:
    """Locks of objects, as far as the ledger has them."""

    def __init__(
        self,
        holding: Holding,
        changes: Sequence[ObjectChange],
        ranges: Sequence[ObjectRange],
        event_holds: EventHolds,
    ) -> None:
        self._deleted = _Ranges(changes, "delete")
        self._marked = _Ranges(changes, "delete-marker")
        self._copied = _Ranges(changes, "copy")
        self._replaced = _Ranges(changes, "new-version")
        holds_changed = any(each.operation in ("hold", "release") for each in changes)
        # The run's first row records whether the run requested holds. Its phases may have set them later.
        requests_holds = any(each.legal_hold for each in holding.placements if each.objects == 0)
        filled = [each for each in holding.placements if each.objects != 0]
        late = {
            each.id: each.legal_hold and not requests_holds and Lock.HEADER_AND_HOLD.value not in each.phase
            for each in filled
        }
        self._hold_is_known = {row: not holds_changed and not is_late for row, is_late in late.items()}
        self.remarks: list[str] = []
        if any(not known for known in self._hold_is_known.values()):
            self.remarks.append(
                "legal holds were not compared: the run placed or released some, and the ledger does not say on which "
                "objects"
            )
        self._event_holds = event_holds
        # The run's first row records whether its archive requests placed event holds.
        self._archived_under_event_hold = holding.first.event_hold_days is not None
        every = [each for part in ranges for each in self.expected(part)]
        unknown = sum(each.last - each.first + 1 for each in every if not each.event_hold_is_known)
        if unknown:
            self.remarks.append(
                f"the event holds of {unknown:,} objects were not compared: a phase that places or releases event "
                "holds never ended, or lacked answers, and the ledger does not say what it did to them"
            )

    def expected(self, part: ObjectRange) -> list[ExpectedLock]:
        """Return the locks of the objects of one range: as they were archived, and as the run changed event holds."""
        row = part.placement
        held = row.legal_hold and self._hold_is_known[row.id]
        mode = RetentionMode(row.retention_mode)
        retention = Retention(mode, None, row.latest_retain_until, held)
        dates = row.earliest_retain_until, row.latest_retain_until
        as_archived = row.event_hold_days if self._archived_under_event_hold else None
        found = []
        for first, last, changed in self._event_holds.parts(part.first, part.last):
            earliest, latest = dates
            if changed is not None and changed.is_on is not True:  # it is released, or may be
                earliest, latest = _latest(earliest, changed.earliest), _latest(latest, changed.latest)
            is_released = changed is not None and changed.is_on is False
            days = as_archived if changed is None else None if is_released else row.event_hold_days
            is_known = changed is None or changed.is_on is not None
            lock = replace(retention, event_hold_days=days)
            found.append(ExpectedLock(first, last, lock, earliest, latest, is_known))
        return found

    def expected_of(self, number: int, part: ObjectRange) -> ExpectedLock:
        """Return the lock of one object of a range."""
        return self.expected(replace(part, first=number, last=number))[0]

    def missing(self, number: int, part: ObjectRange, now: float) -> Kind:
        """Return the kind of finding for an object that is missing at ``now`` (epoch seconds, the platform's clock)."""
        expected = self.expected_of(number, part)
        if number in self._deleted:
            return Kind.EXPIRED  # the run deleted it, as the scenario requested
        is_held = part.placement.legal_hold or (
            expected.retention.event_hold_days is not None and expected.event_hold_is_known
        )
        if is_held or expected.latest is None or (expected.earliest or 0.0) > now:
            return Kind.MISSING
        return Kind.EXPIRED if expected.latest <= now else Kind.MAY_HAVE_EXPIRED

    def may_be_changed(self, number: int) -> bool:
        """Return whether the run changed the content under this object's name, according to its record."""
        return any(number in changed for changed in (self._marked, self._copied, self._replaced))

    def explanation(self, number: int, closer: CloserLook) -> str | None:
        """Return what the run itself did, if that explains the difference; None if it does not."""
        if closer.replaced:
            return _REPLACED
        if closer.marked and number in self._marked:
            return _MARKED
        if closer.copy_of is not None and number in self._copied:
            return _COPIED
        return None


def _latest(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


class _Ranges:
    """Objects that the run itself changed, according to its record."""

    def __init__(self, changes: Sequence[ObjectChange], operation: str) -> None:
        self._ranges = sorted((each.first, each.last) for each in changes if each.operation == operation)

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._ranges, (number, math.inf)) - 1
        return at >= 0 and number <= self._ranges[at][1]


class _Reading:
    """Reading of the objects by worker processes, and the findings."""

    def __init__(
        self,
        population: AuditPopulation,
        locks: _Locks,
        backend: Backend,
        workers: Workers,
        clients: int,
        on_progress: Callable[[int], None],
    ) -> None:
        self.bad: dict[int, int] = {}  # object number -> status
        self.good = 0
        self.good_bytes = 0
        self.seconds = 0.0
        self.broken_off: str | None = None
        self.errors: dict[str, ErrorKind] = {}
        self._workers = workers
        self._population = population
        self._locks = locks
        self._backend = backend
        self._clients = clients
        self._on_progress = on_progress

    def read(self, numbers: NDArray[np.int64]) -> None:
        """Request every one of these objects. Request those that could not be read a second time."""
        for object_bytes, of_size in self._population.of_sizes(numbers):
            gave_up = self._pass(object_bytes, of_size, OBJECTS_PER_SESSION)
            unread = [number for number in of_size.tolist() if self._is_unread(number)]
            if not unread:
                continue
            if gave_up:
                time.sleep(AWAY_SECONDS)
            for number in unread:
                del self.bad[number]
            # One object a session: if a server ends the connection over one object, the others are not affected.
            self._pass(object_bytes, np.array(unread), 1)
            statuses = {self.bad.get(number) for number in unread}
            if Status.INCOMPLETE in statuses and statuses <= _NOT_REACHED:
                opening = next((error for error in self.errors.values() if error.operation == "open"), None)
                why = f": {opening.reason}: {opening.message}" if opening is not None else ""
                self.broken_off = f"the platform could not be reached any more{why}"
                self.bad = {number: status for number, status in self.bad.items() if status not in _NOT_REACHED}
                return

    def _is_unread(self, number: int) -> bool:
        status = self.bad.get(number)
        return status is not None and status not in _KINDS

    def _pass(self, object_bytes: int, numbers: NDArray[np.int64], objects_per_session: int) -> bool:
        """Request each object once; return True if a client gave up."""
        clients = min(self._clients, len(numbers))
        workload = Workload("audit", Sessions("audit", object_bytes, AllObjects()), clients, objects_per_session)
        phase = Phase("audit", 1, 1, (workload,))
        shares = [ClientAssignment(client, 0, numbers[client::clients]) for client in range(clients)]
        placement = self._population.ranges[0].placement
        assert placement.content_seed is not None
        parts = [each for each in self._population.ranges if each.object_bytes == object_bytes]
        processes = min(len(self._workers), clients)
        if isinstance(self._backend, HasCredentials):
            self._backend.refresh_credentials(LASTING_SECONDS)
        assignments = [
            Assignment(
                run_id=placement.run,
                content_seed=placement.content_seed,
                backend=placement.backend,
                backend_setting=self._backend.worker_setting(),
                phase=phase,
                clients=tuple(shares[process::processes]),
                dates={},
                verify="all",
                expected=[each for part in parts for each in self._locks.expected(part)],
            )
            for process in range(processes)
        ]
        start_ns = 0

        def start(delay_ns: int) -> int:
            nonlocal start_ns
            start_ns = time.monotonic_ns() + delay_ns
            return start_ns

        def take(report: IntervalReport) -> None:
            good = sum(tally.objects for tally in report.tallies.values())
            self.good += good
            self.good_bytes += good * object_bytes
            self.bad.update(report.findings)
            for error in report.errors:
                self.errors.setdefault(error.reason, error)
            self._on_progress(self.good + len(self.bad))

        reports = self._workers.run(assignments, start, take).reports
        self.seconds += (max(report.ended_ns for report in reports) - start_ns) / 1e9
        return any(report.gave_up for report in reports)

    def words(self, status: int, name: str) -> str:
        """Return why the object of this name has this status: the platform's message, if it is about this object."""
        is_ours = status in frozenset(Status)  # else the platform's own status, an unexpected success included
        expected = Status(status).name.lower().replace("_", " ") if is_ours else f"{status} "
        for reason, error in self.errors.items():
            if reason.lower() == expected or reason.startswith(expected):
                return f"{reason}: {error.message}" if error.object_name == name else reason
        return f"return code {status - TSM_ERROR}" if status >= TSM_ERROR else expected.strip()


def _unseen_locks(bad: Mapping[int, int], backend: Backend) -> str | None:
    """Return why locked objects may look unlocked: the credential cannot read locks. None if it can."""
    unlocked = next((number for number, status in bad.items() if status == Status.UNLOCKED), None)
    if unlocked is None or not isinstance(backend, VersionedBackend):
        return None
    why = backend.unseen_locks(unlocked)
    return f"no lock was compared: {why}" if why is not None else None


def _findings(
    bad: Mapping[int, int], reading: _Reading, population: AuditPopulation, locks: _Locks, backend: Backend
) -> tuple[list[Finding], list[str]]:
    """Return the findings by kind and number, and the number of differences that the run itself caused.

    The audit takes a closer look at some objects of each kind, and at every object that the run may have changed.
    """
    findings: list[Finding] = []
    explained = Counter[str]()
    looks = Counter[Kind]()
    look = _closer_look(population, locks, backend)
    for number, status in sorted(bad.items()):
        part = population.range_of(number)
        kind = _KINDS.get(status, Kind.UNREAD)
        kind = locks.missing(number, part, backend.server_now) if kind is Kind.MISSING else kind
        name = backend.object_name(number)
        words = reading.words(status, name)
        if kind is not Kind.UNREAD and (looks[kind] < CLOSER_LOOKS_MAX or locks.may_be_changed(number)):
            closer = look(number, part)
            explanation = locks.explanation(number, closer)
            if explanation is not None:
                explained[explanation] += 1
                continue
            looks[kind] += 1
            words = closer.words or words
            if closer.marked:
                words += f"; {_NOT_RECORDED}"
            kind = Kind.HIDDEN if closer.hidden else kind
        findings.append(Finding(kind, name, part.placement.phase, part.object_bytes, part.acknowledged, words))
    order = list(Kind)
    findings.sort(key=lambda finding: order.index(finding.kind))
    return findings, [f"{count:,} {words}" for words, count in explained.items()]


def _closer_look(
    population: AuditPopulation, locks: _Locks, backend: Backend
) -> Callable[[int, ObjectRange], CloserLook]:
    """Return the function that takes a closer look at one object, if the backend offers one."""
    if not isinstance(backend, VersionedBackend):
        return lambda number, part: CloserLook("")
    content: Content | None = None

    def look(number: int, part: ObjectRange) -> CloserLook:
        nonlocal content
        if content is None:
            assert part.placement.content_seed is not None
            largest = max(each.object_bytes for each in population.ranges)
            content = Content(part.placement.run, part.placement.content_seed, largest)
        try:
            return backend.look_closer(number, part.object_bytes, content, locks.expected_of(number, part))
        except PlatformError as error:
            return CloserLook(str(error))

    return look


def _bounds(objects: int, sampled: int, bad: int) -> tuple[Bound, ...]:
    """Return the statistical bounds that a sample gives for all objects."""
    most = [(confidence, bad_objects_max(objects, sampled, bad, confidence)) for confidence in CONFIDENCES]
    return tuple(Bound(confidence * 100, count, count / objects * 100) for confidence, count in most)
