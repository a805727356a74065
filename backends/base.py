"""The contract between the engine and every backend.

One idea: the session is the unit of work, and one Python call carries a whole batch of it. The engine hands a session
a Batch made before the clock started; the backend writes a row into the Recorder as each operation ends, and never
raises for a platform's answer, so nothing is lost to an exception, a hang or Ctrl-C.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from archiver.values.content import Checksum, Content
from archiver.values.platform import PlatformProfile
from archiver.values.record import Operation, Recorder
from archiver.values.retention import DateMaker, Lock, Retention, RetentionWish

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ADDRESSING_STYLES = ("auto", "path", "virtual")  # of S3 buckets
SESSION_OPEN_KINDS = ("connect", "head-bucket", "lock-config")
CHECKSUMS = tuple(checksum.value for checksum in Checksum)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend offers; what it lacks is shown as not offered, never emulated."""

    retention_modes: tuple[str, ...] = ()  # which of GOVERNANCE, COMPLIANCE, CLASS there are; the first is the default
    legal_hold: bool = False  # a hold can be placed with the archive operation
    operations: tuple[Operation, ...] = (Operation.ARCHIVE, Operation.RETRIEVE)  # on objects
    locks: tuple[Lock, ...] = ()  # ways in which an object may come by its lock, for scenarios that compare them
    stores_content: bool = True  # False: archived bytes go nowhere, so nothing can be retrieved or verified
    transactions: bool = False  # objects of a session are committed together


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a backend must know before the first phase."""

    run_id: str
    retention: Retention
    archives_unlocked: bool = False  # some objects come without a lock, which no bucket may give them by itself


@dataclass(frozen=True, slots=True)
class PhaseSetting:
    """What a backend must know, in a worker, before a phase's clock starts."""

    content: Content
    dates: Mapping[float | None, DateMaker]  # by a workload's own time of retention; None: the run's. None: no dates
    verify: str  # all, sample, none
    object_sizes_bytes: tuple[int, ...]
    clients: tuple[int, ...] = ()  # of this worker
    reads: Sequence[NDArray[np.int64]] = ()  # numbers of the archived objects that they may ask for
    deletes: Sequence[NDArray[np.int64]] = ()  # those among them whose deletion they may try
    operations: frozenset[Operation] = frozenset()  # that they will carry out
    locks: frozenset[Lock | None] = frozenset((None,))  # ways of locking among them
    checksums: frozenset[Checksum | None] = frozenset((None,))  # checksums other than the run's among them
    expected: Sequence[ExpectedLock] = ()  # for AUDIT: by rising number, what each object was locked with
    retentions: frozenset[float | None] = frozenset((None,))  # times of retention among them, keys of ``dates``


@dataclass(frozen=True, slots=True)
class ExpectedLock:
    """What objects ``first`` to ``last`` were locked with; their dates lie between the two (epoch seconds)."""

    first: int
    last: int
    retention: Retention
    earliest: float | None
    latest: float | None


@dataclass(slots=True)
class Batch:
    """The objects of one session, as columns. Name and content follow from object number, size and content version."""

    operation: Sequence[Operation]
    number: Sequence[int]
    size_bytes: Sequence[int]  # of the whole object, whatever is asked of it
    due_ns: int | None = None  # when the first was due, open loop; None, and all others: when what came before is done
    lock: Lock | None = None  # how what is archived comes by its lock; None: as the run says
    checksum: Checksum | None = None  # sent with what is archived; None: the run's
    retain_for_seconds: float | None = None  # a time of retention of its own for what is archived; None: the run's
    part_bytes: int | None = None  # what is larger is archived in parts of so many bytes (S3 multipart); None: whole
    version: Sequence[int] | None = None  # content version that is archived or expected; None: all the first, 1
    range: Sequence[tuple[int, int]] | None = None  # (offset, length) of each, for RANGE_RETRIEVE
    source: Sequence[int] | None = None  # number of the object that COPY copies to ``number``
    content: Sequence[int] | None = None  # number of the object whose content what is read should have; None: its own

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a run's objects are: what the ledger and cleanup need."""

    endpoint: str
    region: str
    bucket: str
    bucket_created: bool  # by the run, so that cleanup may remove it
    prefix: str


@dataclass(frozen=True, slots=True)
class LockReading:
    """The lock that a platform reports for one object, and how it differs from the lock that was agreed."""

    mode: str | None  # GOVERNANCE, COMPLIANCE, CLASS; None: no mode is reported
    until: float | None  # retain-until date, epoch seconds; None: no date is reported
    on_hold: bool
    problem: str | None  # None: it is as agreed


@dataclass(slots=True)
class RemovalReport:
    """What cleanup removed and what it had to leave."""

    objects_removed: int = 0
    bytes_removed: int = 0
    bucket_removed: bool = False
    bucket_missing: bool = False  # the platform that answered has no such bucket
    objects_left: int = 0
    locked_until: float | None = None  # epoch seconds, the latest date among what is left
    on_hold: bool = False  # a legal hold was seen among what is left
    governance: bool = False  # a GOVERNANCE lock was seen among what is left, which a bypass removes
    refusals: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CloserLook:
    """What was found of an object that an audit found wanting."""

    words: str
    hidden: bool = False  # it is there, whole, but behind something newer of the same name
    replaced: bool = False  # whole and locked as asked for, behind later content of the same object, whole too
    marked: bool = False  # whole and locked as asked for, behind a delete marker
    copy_of: int | None = None  # it is another object's content, whole, and locked as asked for


class Session(Protocol):
    """One session of one client: opened, used for a batch or for several one after another, closed."""

    @property
    def is_open(self) -> bool:
        """False once nothing more can be carried out in it: the other side ended it, or it was never opened.

        Whoever uses a session for several batches asks this before each: what is performed all the same fails, with a
        row for its first object.
        """

    async def open(self, record: Recorder, due_ns: int) -> bool:
        """Connect, authenticate, check parameters. False: it did not open, and a row says why."""

    async def perform(self, batch: Batch, record: Recorder) -> None:
        """Carry out the batch, one object after another, a row for each as it ends."""

    async def close(self, record: Recorder) -> None:
        """End the session."""


class Backend(Protocol):
    """One protocol to one platform. Made in the coordinator; ``setting`` makes its like in a worker."""

    name: str
    capabilities: Capabilities

    def profile(self) -> PlatformProfile:
        """Ask the platform what it is. Raises PlatformError where it cannot be reached."""

    def retention_for(self, wish: RetentionWish) -> Retention:
        """What objects will in truth be locked with, by the user's wish and the platform's policy; after ``profile``.

        Raises UsageError for a wish that cannot be met, SafetyRefused for a policy that would lock without end.
        """

    def locate(self, plan: RunPlan) -> Location:
        """Where the run's objects will be; touches nothing, so that the ledger can know it first."""

    def prepare(self) -> None:
        """Make that place. Raises PlatformError."""

    def attach(self, location: Location, retention: Retention) -> None:
        """Go on in a place that an earlier run made, instead of ``locate`` and ``prepare``.

        Raises PlatformError if the place does not exist.
        """

    def check_place(self, plan: RunPlan) -> None:
        """Read how the place locks what is put there, each time anew, before anything is archived in it.

        Raises SafetyRefused if the place itself would lock objects otherwise than ``plan`` says, PlatformError if it
        cannot lock although the plan does.
        """

    def set_default_lock(self, retention: Retention | None) -> None:
        """Give the run's own bucket a rule that locks by itself whatever is put there; None: take it away.

        Read back before it returns. Raises PlatformError. Only where Lock.BUCKET_DEFAULT is offered.
        """

    @property
    def server_now(self) -> float:
        """The platform's clock in epoch seconds, as far as it can be known."""

    def read_lock(self, number: int, retention: Retention, earliest: float | None, latest: float | None) -> LockReading:
        """Read the lock of object ``number`` from the platform and compare it with ``retention``.

        Its date must lie between ``earliest`` and ``latest`` (epoch seconds; None: no date was agreed).
        Raises PlatformError if the platform does not answer.
        """

    def object_name(self, number: int) -> str:
        """What the platform calls object ``number``, for people."""

    def worker_setting(self) -> Any:
        """A picklable value from which ``in_worker`` makes the data plane. May hold secrets; never stored."""

    @classmethod
    def in_worker(cls, setting: Any) -> DataPlane:
        """The data plane of this backend, in a worker process."""

    def remove(self, location: Location, *, bypass_governance: bool, release_holds: bool) -> RemovalReport:
        """Remove what may be removed of a run's objects, and the bucket where the run made it."""


@runtime_checkable
class VersionedBackend(Protocol):
    """A backend that can look past what its platform answers by itself: at versions, and at what a credential sees."""

    def look_closer(self, number: int, size_bytes: int, content: Content, lock: ExpectedLock) -> CloserLook:
        """What there is of an object, over all its versions. Raises PlatformError."""

    def unseen_locks(self, number: int) -> str | None:
        """Why this credential sees no locks, asked of one object; None: it does, or that cannot be told."""

    def present(self, first: int, last: int) -> Iterator[int]:
        """The objects ``first`` to ``last`` that the platform lists. Raises PlatformError."""


@runtime_checkable
class HasSecondPlace(Protocol):
    """A backend that can copy a run's objects, on the platform itself, to a second place of the run."""

    def beside(self) -> Backend:
        """The same platform for that place, after ``locate``. It is located and prepared like any other; of its data
        plane COPY takes its sources from the first place."""


class CredentialsTerm(NamedTuple):
    """How long credentials last."""

    ends_at: float | None = None  # epoch seconds; None: not known, or never
    is_renewable: bool = False  # others come after them


@runtime_checkable
class HasCredentials(Protocol):
    """A backend whose credentials may be temporary."""

    def refresh_credentials(self, seconds: float) -> CredentialsTerm:
        """Get new ones where these end within so many seconds and there can be new ones; ``worker_setting`` has them
        from then on. Raises PlatformError."""


class DataPlane(Protocol):
    """What a worker needs of a backend: sessions, after the phase's setting is known."""

    def set_phase(self, setting: PhaseSetting) -> None:
        """Precompute what can be known before the clock starts."""

    def session(self, client: int) -> Session:
        """A new session of client number ``client``."""

    async def end_phase(self) -> None:
        """Close whatever was kept open over sessions."""
