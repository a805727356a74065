"""Sessions of one operation on objects of one size: a cell of a matrix, or an audit.

One idea: the stop rule defines the measured time. One client is measured in whole sessions, several in a window of
time. Both bound the objects before the phase starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import Literal

from archiver.values.sizes import format_size
from scenarios.work.base import Archived, MeasuredTime, Work
from scenarios.work.mix import MAKES_OBJECTS, OperationName

WARM_UP_SHARE = 0.1  # maximum share of the sessions for which there are objects
MEASURED_SESSIONS_MIN = 2  # minimum of each client in a window; a rate from one session of each client is too high
CLIENT_SESSIONS_MIN = 1 + MEASURED_SESSIONS_MIN  # the first one ends the warm-up
SESSIONS_PER_SECOND_MAX = 5000  # of one client, on any platform: three times the rate with a null S3 responder


@dataclass(frozen=True, slots=True)
class UntilPrecise:
    """Stop rule of one client, which is measured in whole sessions after a warm-up.

    The warm-up has at least ``warm_up_sessions`` and ``warm_up_seconds``. It also ends when it has used a tenth of the
    objects, but not before ``warm_up_sessions``. The measured part takes at least ``sessions_min`` and ``seconds_min``.
    It continues until the mean session time is known within ``precision`` (95% half-width, relative). The limits
    ``seconds_max`` and ``bytes_max`` end it earlier, but never before ``sessions_min``.
    """

    seconds_min: float
    seconds_max: float
    bytes_max: int
    precision: float
    sessions_min: int = 1
    warm_up_sessions: int = 0
    warm_up_seconds: float = 0.0

    @property
    def measured_time(self) -> MeasuredTime:
        return "sessions"

    def sessions_max(self, session_bytes: int) -> int:
        """Upper bound of the sessions that a client begins, warm-up included."""
        measured = max(self.sessions_min, ceil(self.bytes_max / session_bytes))
        share = ceil(measured * WARM_UP_SHARE / (1 - WARM_UP_SHARE)) if self.warm_up_seconds else 0
        return measured + max(self.warm_up_sessions, share)

    def warm_up_sessions_max(self, sessions: int) -> int:
        """Upper bound of the warm-up's sessions, given the number of sessions for which there are objects."""
        return max(self.warm_up_sessions, int(WARM_UP_SHARE * sessions) if self.warm_up_seconds else 0)


@dataclass(frozen=True, slots=True)
class InWindow:
    """Stop rule of several clients, which are measured in whole sessions in a window of time.

    The window lasts ``seconds`` after ``warm_up_seconds``, and until each client has two measured sessions. It ends
    earlier when the first client has used up its share of ``client_bytes_max``, which is at least three sessions.
    ``precision``: the maximum 95% half-width of the mean session time, relative, of a settled result.
    """

    seconds: float
    client_bytes_max: int
    warm_up_seconds: float = 0.0
    precision: float = 0.05

    @property
    def seconds_max(self) -> float:
        return self.warm_up_seconds + self.seconds

    @property
    def measured_time(self) -> MeasuredTime:
        return "sessions"

    def sessions_max(self, session_bytes: int) -> int:
        """Upper bound of the sessions that a client begins, warm-up included."""
        return max(CLIENT_SESSIONS_MIN, ceil(self.client_bytes_max / session_bytes))


@dataclass(frozen=True, slots=True)
class AllObjects:
    """Stop rule of any number of clients that each handle their assigned objects, for any duration."""

    seconds_max: float = 60.0
    precision: float = inf

    @property
    def measured_time(self) -> MeasuredTime:
        return "all"

    def sessions_max(self, session_bytes: int) -> int:
        """Return 1: audits and probes assign their objects without using this bound."""
        return 1


StopRule = UntilPrecise | InWindow | AllObjects


@dataclass(frozen=True, slots=True)
class Sessions(Work):
    """One operation on objects of one size, session after session."""

    operation: OperationName | Literal["audit"]
    object_bytes: int
    stop: StopRule

    @property
    def operation_label(self) -> str:
        return self.operation

    @property
    def mean_bytes(self) -> int:
        return self.object_bytes

    @property
    def does(self) -> frozenset[str]:
        return frozenset((self.operation,))

    @property
    def archives(self) -> bool:
        return bool(self.does & (MAKES_OBJECTS | {"new-version"}))

    @property
    def object_sizes(self) -> tuple[int, ...]:
        return (self.object_bytes,)

    @property
    def measured_time(self) -> MeasuredTime:
        return self.stop.measured_time

    @property
    def precision(self) -> float:
        return self.stop.precision

    @property
    def planned_seconds(self) -> float | None:
        return self.stop.seconds_max if isinstance(self.stop, InWindow) else None

    @property
    def planned_warm_up_seconds(self) -> float:
        return self.stop.warm_up_seconds if isinstance(self.stop, InWindow) else 0.0

    @property
    def may_leave_out(self) -> bool:
        return False

    @property
    def seconds_max(self) -> float:
        """Upper bound of its seconds, unless the minimum number of sessions takes longer."""
        warm_up = self.stop.warm_up_seconds if isinstance(self.stop, UntilPrecise) else 0.0
        return warm_up + self.stop.seconds_max

    @property
    def expected_seconds(self) -> float | None:
        """Return the expected seconds; for one client, the middle between its shortest and its longest time."""
        if isinstance(self.stop, UntilPrecise):
            return self.stop.warm_up_seconds + (self.stop.seconds_min + self.stop.seconds_max) / 2
        return self.planned_seconds

    @property
    def has_time_limit(self) -> bool:
        return not isinstance(self.stop, AllObjects)

    def sessions_per_client_max(self, objects_per_session: int) -> int:
        """Upper bound of the sessions that each client begins, warm-up included. It bounds the phase in advance."""
        return self.stop.sessions_max(self.object_bytes * objects_per_session)

    def objects_max(self, clients: int, objects_per_session: int) -> int:
        return clients * self.sessions_per_client_max(objects_per_session) * objects_per_session

    def archived_max(self, clients: int, objects_per_session: int) -> Archived:
        if not self.archives:
            return Archived(0, 0)
        objects = self.objects_max(clients, objects_per_session)
        return Archived(objects, objects * self.object_bytes)

    def sessions_within(self, seconds: float, clients: int, objects_per_session: int) -> float:
        most = SESSIONS_PER_SECOND_MAX * min(seconds, self.seconds_max)
        return clients * min(self.sessions_per_client_max(objects_per_session), most)

    def label(self, clients: int, objects_per_session: int, variant: str) -> str:
        """Return a label for users: ``archive 8KiB x 25, 1 client``."""
        words = [f"{self.operation} {format_size(self.object_bytes)} x {objects_per_session}"]
        words.append(f"{clients} client{'s' if clients > 1 else ''}")
        return ", ".join([*words, variant] if variant else words)
