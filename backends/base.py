"""The contract between the engine and every backend.

One idea: the session is the unit of work, and one Python call carries a whole batch of it. The engine hands a session a
Batch that it made before the clock started. The backend writes a row into the Recorder when each operation ends. It
never raises for a platform's answer, so no row is lost to an exception, a hang or Ctrl-C.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from archiver.values.content import Checksum, Content, ContentCheck, LengthCheck
from archiver.values.platform import PlatformProfile
from archiver.values.record import Operation, Recorder, SeenLock, Status
from archiver.values.retention import DateMaker, Lock, Retention, RetentionWish

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ADDRESSING_STYLES = ("auto", "path", "virtual")  # of S3 buckets
SESSION_OPEN_KINDS = ("connect", "head-bucket", "lock-config")
# Their rows have all bytes of the object. A copy has none: the platform makes it itself.
MOVES_WHOLE = frozenset((Operation.ARCHIVE, Operation.RETRIEVE, Operation.AUDIT, Operation.NEW_VERSION))
SAMPLE_EVERY = 16  # --verify sample checks every sixteenth object number
CHECKSUMS = tuple(checksum.value for checksum in Checksum)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend supports; the rest is shown as not offered, never emulated."""

    retention_modes: tuple[str, ...] = ()  # of GOVERNANCE, COMPLIANCE, CLASS; the first is the default
    legal_hold: bool = False  # the archive operation can place a hold
    event_hold: bool = False  # the archive operation can place an event hold
    operations: tuple[Operation, ...] = (Operation.ARCHIVE, Operation.RETRIEVE)  # on objects
    locks: tuple[Lock, ...] = ()  # ways in which an object can get its lock, for scenarios that compare them
    stores_content: bool = True  # False: archived bytes are discarded, so nothing can be retrieved or verified
    transactions: bool = False  # several objects of a session are committed at once


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a backend must know of a run and of the default lock of its place."""

    run_id: str
    retention: Retention
    archives_unlocked: bool = False  # some objects have no lock, so no default rule may lock them
    rule: Retention | None = None  # the default rule that the run itself has set; None: it has set none


@dataclass(frozen=True, slots=True)
class PhaseSetting:
    """What a backend must know in a worker before a phase's clock starts."""

    content: Content
    dates: Mapping[float | None, DateMaker]  # by a workload's retention time; key None: the run's; value None: no dates
    verify: str  # all, sample, none
    object_sizes_bytes: tuple[int, ...]
    clients: tuple[int, ...] = ()  # clients of this worker
    reads: Sequence[NDArray[np.int64]] = ()  # numbers of the archived objects that they may read
    deletes: Sequence[NDArray[np.int64]] = ()  # numbers of those that they may try to delete
    operations: frozenset[Operation] = frozenset()  # operations that they will do
    locks: frozenset[Lock | None] = frozenset((None,))  # ways of locking in them
    checksums: frozenset[Checksum | None] = frozenset((None,))  # checksums in them other than the run's
    expected: Sequence[ExpectedLock] = ()  # the locks of existing and new objects, as far as they are known
    retentions: frozenset[float | None] = frozenset((None,))  # retention times in them, keys of ``dates``


@dataclass(frozen=True, slots=True)
class ExpectedLock:
    """The lock of objects ``first`` to ``last``; their dates lie between the two (epoch seconds).

    If ``event_hold_is_known`` is False, they may be under the event hold of ``retention`` or under none.
    ``forbids_hold``: a legal hold is a lock that was not requested.
    """

    first: int
    last: int
    retention: Retention
    earliest: float | None
    latest: float | None
    event_hold_is_known: bool = True
    forbids_hold: bool = False


class ExpectedLocks:
    """The expected locks of a phase, to look up by object number. Their ranges of numbers do not overlap."""

    def __init__(self, expected: Sequence[ExpectedLock] = ()) -> None:
        self._expected = sorted(expected, key=lambda each: each.first)
        self._firsts = [each.first for each in self._expected]

    def of(self, number: int) -> ExpectedLock | None:
        """Return the expected lock of an object; None if none is known."""
        at = bisect_right(self._firsts, number) - 1
        return self._expected[at] if at >= 0 and number <= self._expected[at].last else None


class Failure(NamedTuple):
    """Why an operation failed: the row's status, the reason under which it counts, and a message."""

    status: int
    reason: str
    message: str
    outcome_unknown: bool = False  # it may have been done
    lock: SeenLock | None = None  # the wrong lock that the answer shows


class LockProblem(NamedTuple):
    """What is wrong with the lock of an object. ``status`` is UNLOCKED, WEAKER or LONGER."""

    status: Status
    words: str

    def failure(self, seen: SeenLock | None = None) -> Failure:
        """Return the failure of the operation that showed the lock."""
        return Failure(self.status, self.status.name.lower(), self.words, lock=seen)


def check_of(
    content: Content,
    verify: str,
    number: int,
    size_bytes: int,
    *,
    version: int,
    part: tuple[int, int] | None,
    content_number: int | None = None,
) -> ContentCheck | LengthCheck:
    """Return the check of an object's retrieved bytes, or of the part (offset, length) of them.

    ``verify``: all, sample, none. ``content_number``: the object whose content is expected; None: its own.
    """
    if verify == "all" or (verify == "sample" and number % SAMPLE_EVERY == 0):
        return ContentCheck(content, number if content_number is None else content_number, size_bytes, version, part)
    return LengthCheck(size_bytes if part is None else part[1])


@dataclass(slots=True)
class Batch:
    """The objects of one session, as columns. Name and content follow from object number, size and content version."""

    operation: Sequence[Operation]
    number: Sequence[int]
    size_bytes: Sequence[int]  # of the whole object, also for a range
    due_ns: int | None = None  # open loop: when the first was due; None, and others: when the previous is done
    lock: Lock | None = None  # how archived objects get their lock; None: as the run says
    checksum: Checksum | None = None  # sent with archived objects; None: the run's
    retain_for_seconds: float | None = None  # retention time of archived objects; None: the run's
    part_bytes: int | None = None  # larger objects use S3 multipart upload with parts of this size; None: whole
    version: Sequence[int] | None = None  # content version to archive or expect; None: 1 for all
    range: Sequence[tuple[int, int]] | None = None  # (offset, length) of each, for RANGE_RETRIEVE
    source: Sequence[int] | None = None  # number of the object that COPY copies to ``number``
    content: Sequence[int] | None = None  # number of the object whose content is expected; None: its own

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a run's objects are, for the ledger and the clean-up."""

    endpoint: str
    region: str
    bucket: str
    bucket_created: bool  # by the run, so that clean-up may remove it
    prefix: str


@dataclass(frozen=True, slots=True)
class LockReading:
    """The lock that a platform reports for one object, and how it differs from the agreed lock."""

    mode: str | None  # GOVERNANCE, COMPLIANCE, CLASS; None: no mode is reported
    until: float | None  # retain-until date, epoch seconds; None: no date is reported
    on_hold: bool
    problem: str | None  # None: as agreed


NAMES_LEFT_MAX = 5


@dataclass(slots=True)
class RemovalReport:
    """What clean-up removed and what it had to leave."""

    objects_removed: int = 0
    bytes_removed: int = 0
    bucket_removed: bool = False
    bucket_missing: bool = False  # the platform has no such bucket
    bucket_kept: str | None = None  # why the run's own bucket stays although nothing of the run is left in it
    names_of_others: int = 0  # keys or names under the run's prefix that the run did not make; they stay
    objects_left: int = 0
    bytes_left: int = 0  # S3 only
    names_left: list[str] = field(default_factory=list)  # S3 only: keys of the first, at most NAMES_LEFT_MAX
    locked_until: float | None = None  # epoch seconds; the latest date of objects left
    on_hold: bool = False  # an object left has a legal hold or an event hold
    holds_unconfirmed: int = 0  # objects left whose holds may remain: a release was refused, or their lock is not seen
    governance: bool = False  # an object left has a GOVERNANCE lock, which a bypass removes
    refusals: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CloserLook:
    """What was found of an object that failed an audit."""

    words: str
    hidden: bool = False  # the object is complete, but behind a newer version of the same name
    replaced: bool = False  # complete and locked as requested, behind complete later content of the same object
    marked: bool = False  # complete and locked as requested, behind a delete marker
    copy_of: int | None = None  # it has the complete content of that object, locked as requested


class Session(Protocol):
    """One session of one client: opened, used for one or more batches in turn, closed."""

    @property
    def is_open(self) -> bool:
        """False once the session can do nothing more: the other side ended it, or it was never opened.

        Check this before each of several batches. A batch on a session that is not open fails, with a row for its first
        object.
        """

    async def open(self, record: Recorder, due_ns: int) -> bool:
        """Connect, authenticate and check parameters. Returns False if that fails; a row has the reason."""

    async def perform(self, batch: Batch, record: Recorder) -> None:
        """Do the operations of the batch one after another; write a row when each ends."""

    async def close(self, record: Recorder) -> None:
        """End the session."""


class Backend(Protocol):
    """One protocol to one platform, used by the coordinator; ``in_worker`` makes its data plane in a worker."""

    name: str
    capabilities: Capabilities

    def profile(self) -> PlatformProfile:
        """Return what the platform reports of itself. Raises PlatformError if it cannot be reached."""

    def retention_for(self, wish: RetentionWish) -> Retention:
        """Return the actual lock of objects, by the user's wish and the platform's policy. Call ``profile`` first.

        Raises UsageError for an impossible wish, SafetyRefused for a policy that would lock without an end.
        """

    def locate(self, plan: RunPlan) -> Location:
        """Return where the run's objects will be. Changes nothing, so that the ledger can record it first."""

    def prepare(self) -> None:
        """Create that place. Raises PlatformError."""

    def attach(self, location: Location, retention: Retention) -> None:
        """Continue in the place of an earlier run, instead of ``locate`` and ``prepare``.

        Raises PlatformError if the place does not exist.
        """

    def check_place(self, plan: RunPlan) -> None:
        """Read the default lock rule of the place before anything is archived there, every time it is called.

        Raises SafetyRefused if the place would lock objects in another way than ``plan`` says, PlatformError if it
        cannot lock objects although the plan does.
        """

    def set_default_lock(self, retention: Retention | None) -> None:
        """Give the run's own bucket a default rule that locks every object stored there; None removes it.

        Reads the rule back before it returns. Raises PlatformError. Only for backends that offer Lock.BUCKET_DEFAULT.
        """

    @property
    def server_now(self) -> float:
        """The platform's clock in epoch seconds, as exactly as it is known."""

    def read_lock(self, number: int, retention: Retention, earliest: float | None, latest: float | None) -> LockReading:
        """Read the lock of object ``number`` from the platform and compare it with ``retention``.

        Its date must be between ``earliest`` and ``latest`` (epoch seconds; None: no date was agreed).
        Raises PlatformError if the platform does not answer.
        """

    def object_name(self, number: int) -> str:
        """Return the platform's name of object ``number``, for messages."""

    def worker_setting(self) -> Any:
        """Return a picklable value for ``in_worker``. It may have secrets; do not store it."""

    @classmethod
    def in_worker(cls, setting: Any) -> DataPlane:
        """Return the data plane of this backend, in a worker process."""

    def remove(
        self, location: Location, numbers: range | None, *, bypass_governance: bool, release_holds: bool
    ) -> RemovalReport:
        """Remove those of a run's objects that may be removed, and the bucket if the run created it.

        ``numbers`` are the object numbers that the run may have used. Objects with other names or numbers stay. None:
        the run made the place and everything in it. Raises PlatformError, before anything is removed if the platform
        lists objects that are not under the run's prefix.
        """


@runtime_checkable
class VersionedBackend(Protocol):
    """A backend that sees more than the platform's plain answers: versions, and the rights of a credential."""

    def look_closer(self, number: int, size_bytes: int, content: Content, lock: ExpectedLock) -> CloserLook:
        """Describe an object over all its versions. Raises PlatformError."""

    def unseen_locks(self, number: int) -> str | None:
        """Return why this credential sees no locks, tested with one object; None: it sees them, or this is unknown."""

    def present(self, first: int, last: int) -> Iterator[int]:
        """Yield the numbers from ``first`` to ``last`` that the platform lists. Raises PlatformError."""


@runtime_checkable
class HasSecondPlace(Protocol):
    """A backend that can copy a run's objects to a second place on the same platform."""

    def second_place(self) -> Backend:
        """Return a backend for that place, after ``locate``. Locate and prepare it like any other.

        COPY in its data plane takes its sources from the first place.
        """


class CredentialsTerm(NamedTuple):
    """How long credentials are valid."""

    ends_at: float | None = None  # epoch seconds; None: unknown, or never
    is_renewable: bool = False  # new ones can replace them


@runtime_checkable
class HasCredentials(Protocol):
    """A backend with credentials that may be temporary."""

    def refresh_credentials(self, seconds: float) -> CredentialsTerm:
        """Renew credentials that end within ``seconds``, if possible; then ``worker_setting`` has the new ones.

        Raises PlatformError.
        """


class DataPlane(Protocol):
    """What a worker uses of a backend: sessions, once the phase's setting is known."""

    def set_phase(self, setting: PhaseSetting) -> None:
        """Compute in advance what is known before the clock starts."""

    def session(self, client: int) -> Session:
        """Return a new session of client number ``client``."""

    async def end_phase(self) -> None:
        """Close everything that was kept open between sessions."""
