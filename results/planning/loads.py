"""The request of a plan: the load that is archived or retrieved, the years, and the limits of a platform.

A request contains every input of its answer, except the measured rates. The command line makes it from its options.
Any other program can make it in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from archiver.values.sizes import format_bytes, format_duration, format_size
from results.prices.prices import PriceList

HOUR_SECONDS = 3600.0
DAY_SECONDS = 24 * HOUR_SECONDS
YEAR_SECONDS = 365 * DAY_SECONDS
WINDOW_SECONDS = 8 * HOUR_SECONDS
VIDEO_OBJECTS_PER_SESSION = 100  # of cameras, as in the paper's example


Layout = Literal["together", "spread"]  # the objects of one user: on one platform, or on all platforms

# Readable names of the fields below.
INPUTS: Mapping[str, str] = {
    "users": "users",
    "messages": "messages of a user a day",
    "mean_bytes": "mean size of a message",
    "cameras": "cameras",
    "bytes_per_second": "stream of a camera",
    "objects_per_day": "objects a day",
    "shares": "sizes and their share of the objects",
    "full_bytes": "full backup",
    "change_share": "change a day",
    "full_every_days": "days from one full backup to the next",
    "object_bytes": "size of an object",
    "size_bytes": "size of what is retrieved",
    "parallel": "retrievals at once",
    "objects_per_session": "objects per session",
    "window_seconds": "window",
    "discovery_users": "users of a discovery",
    "discovery_messages": "messages of each of them",
    "discovery_seconds": "time for a discovery",
    "discovery_layout": "objects of one user",
    "film_bytes": "film",
    "years": "years",
    "growth_share": "growth a year",
    "lock_years": "lock of the platform",
    "lock_extra_days": "days kept beyond the lock",
    "held_share": "never removed, under hold",
    "extend_every_days": "days from one extension of a lock to the next",
    "reduction": "reduction by compression and deduplication",
    "hours_per_day": "hours of recording a day",
    "motion_share": "share of the hours with motion",
    "steps": "growth in steps, of the load today",
    "headroom_share": "headroom",
    "retention_years": "retention",
    "usable_bytes": "usable capacity of a platform",
    "redundancy": "redundancy",
    "footprint": "bytes on disk for each byte",
    "objects_max": "objects of a platform at most",
    "restore_seconds": "time to restore",
    "restore_bytes": "restored",
    "clients": "clients of each platform",
    "retrieved_share": "retrieved a year",
}


@dataclass(frozen=True, slots=True)
class LoadCourse:
    """The development of the load over the years."""

    years: int  # for which platforms are bought
    growth_share: float = 0.0  # growth of the load from one year to the next
    headroom_share: float = 0.2  # part of its window and of its usable capacity that a platform keeps free
    retention_years: float | None = None  # lock period, after which objects are removed; None: as long as the years
    steps: tuple[tuple[int, float], ...] = ()  # year from which the load is larger, by this share of today's load
    lock_years: float | None = None  # lock of the platform, if it may be longer than the retention
    lock_extra_days: float = 0.0  # kept beyond both: until a block or volume of the platform is sealed and removed
    held_share: float = 0.0  # of the objects, which are under hold and never removed
    extend_every_days: float | None = None  # each lock is extended this often; None: never


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformLimits:
    """The capacity of one platform, and the time within which data must be restored. None: no limit."""

    usable_bytes: int | None = None  # usable capacity
    redundancy: float = 1.0  # bytes stored for each byte kept, if ``usable_bytes`` includes copies or parity
    footprint: float | None = None  # bytes on its disks for each byte of an object; None: as measured
    reduction: float = 1.0  # bytes of objects for each byte on disk, by compression and deduplication
    objects_max: int | None = None  # objects
    restore_seconds: float | None = None  # all platforms together retrieve ``restore_bytes`` within this time
    restore_bytes: int | None = None  # None: a chain of backups, or everything that is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class MailLoad:
    """Mailboxes: a day's messages of every user, one session per user unless ``objects_per_session`` is given.

    Discovery retrieves ``discovery_messages`` (default: a day's) of each of ``discovery_users``. Sessions are at
    most as long as measured ones. ``discovery_seconds``: all platforms together must retrieve them within this time.
    """

    kind: ClassVar[str] = "mail"
    users: int
    messages: int
    mean_bytes: int
    window_seconds: float = WINDOW_SECONDS
    objects_per_session: int | None = None
    discovery_users: int = 1
    discovery_messages: int | None = None
    discovery_seconds: float | None = None
    discovery_layout: Layout = "together"


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoLoad:
    """Cameras: an hour of every stream is archived within an hour, in objects of the largest measured size.

    A film (default: an hour of one camera) is retrieved as a stream of such objects, one per session.
    """

    kind: ClassVar[str] = "video"
    cameras: int
    bytes_per_second: float
    objects_per_session: int = VIDEO_OBJECTS_PER_SESSION
    film_bytes: int | None = None
    hours_per_day: float = 24.0
    motion_share: float = 1.0  # of these hours, recorded on a mean day; the busiest hour is recorded as a whole


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveLoad:
    """``parallel`` simultaneous retrievals of ``size_bytes`` each.

    Up to the largest measured size it is one object. Above, it is a stream of objects of that size.
    """

    kind: ClassVar[str] = "retrieve"
    size_bytes: int
    parallel: int = 1
    objects_per_session: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLoad:
    """Any mix of sizes. ``shares`` are (object bytes, share of the objects), which sum to 1."""

    kind: ClassVar[str] = "size"
    objects_per_day: int
    shares: tuple[tuple[int, float], ...]
    window_seconds: float = WINDOW_SECONDS
    objects_per_session: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupLoad:
    """Backups: a full backup every ``full_every_days``, beginning with the first day; on other days the changed part.

    A full backup must fit into the window. ``object_bytes`` None: the largest measured size. A restore needs a full
    backup and all increments of its chain.
    """

    kind: ClassVar[str] = "backup"
    full_bytes: int
    change_share: float  # of ``full_bytes``, each day
    full_every_days: int = 7
    object_bytes: int | None = None
    window_seconds: float = WINDOW_SECONDS
    objects_per_session: int = 1

    @property
    def chain_bytes(self) -> float:
        """The bytes of a full backup and of all changes until the next."""
        return self.full_bytes * (1 + (self.full_every_days - 1) * self.change_share)


PlannedLoad = MailLoad | VideoLoad | RetrieveLoad | SizeLoad | BackupLoad


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """All inputs of a plan's answer, except the measured rates."""

    load: PlannedLoad
    course: LoadCourse = LoadCourse(years=7)
    limits: PlatformLimits = PlatformLimits()
    clients: int | None = None  # clients of each platform; None: the fastest measured number
    prices: PriceList | None = None
    retrieved_share: float = 0.0  # of the objects kept, retrieved each year; only prices depend on it

    @property
    def question(self) -> Mapping[str, Any]:
        """The inputs as plain JSON values, without inputs that are not given or that this kind of load ignores."""
        values = asdict(self.load)
        if not isinstance(self.load, RetrieveLoad):
            values |= asdict(self.course) | asdict(self.limits) | {"clients": self.clients}
            values |= {"retrieved_share": self.retrieved_share or None}
        return {name: value for name, value in values.items() if value not in (None, ())}


def written(field: str, value: Any) -> str:
    """Return the value of an input as readable text with its unit."""
    if field == "shares":
        return ", ".join(f"{format_size(size)} {share:.3g}" for size, share in value)
    if field == "steps":
        return ", ".join(f"+{share:.0%} from year {year}" for year, share in value)
    if isinstance(value, str):
        return value
    if field == "bytes_per_second":
        return f"{format_bytes(value)}/s"
    if field.endswith("_bytes"):
        return format_size(value) if value < 1 << 20 else format_bytes(value)
    if field.endswith("_share"):
        return f"{value:.0%}"
    if field.endswith("_seconds"):
        return format_duration(value)
    if field.endswith("_years"):
        return format_duration(value * YEAR_SECONDS)
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"
