"""The record of timed operations: preallocated columns of one client with one writer.

One idea: the backend writes a row when an operation ends, and computes nothing then. Rates, histograms and intervals
are computed later, in bulk, from whole columns (see folding.py). Folding each session separately takes three to four
times as long as folding thousands of rows at once.
"""

from __future__ import annotations

import html
import re
import textwrap
from array import array
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Operation(IntEnum):
    """The operation that a row timed. Operations before ARCHIVE belong to a session, and all others to objects.

    A TRANSACTION is sent when it begins, has its first byte when its vote is sent, and is done when the vote is
    answered. A LOCK is a separate request that locks an object just archived; the time of the ARCHIVE row includes it.
    """

    OPEN = 0
    CLOSE = 1
    SESSION = 2
    TRANSACTION = 3
    LOCK = 4
    ARCHIVE = 5
    RETRIEVE = 6
    EXTEND = 7  # set a later retain-until date
    HOLD = 8
    RELEASE = 9
    QUERY = 10  # read the lock
    REFUSED_DELETE = 11  # try to delete a locked object: a refusal is the success
    DELETE = 12  # of an expired object
    AUDIT = 13  # retrieve, and compare content and lock with those requested
    RANGE_RETRIEVE = 14  # a part of an object
    HEAD = 15  # metadata of an object without its content
    COPY = 16  # on the platform itself, to a new object
    NEW_VERSION = 17  # archive other content under an existing name: S3 a new version, TSM a new archive
    DELETE_MARKER = 18  # hide an object behind a marker (S3); locked versions stay
    EVENT_HOLD = 19  # place an event hold, which has no end before its release
    EVENT_RELEASE = 20  # release an event hold, which starts its period

    @property
    def label(self) -> str:
        """Return the name in scenarios and results, such as refused-delete."""
        return self.name.lower().replace("_", "-")


class Status(IntEnum):
    """Result of a row: OK, a failure of transport or content, or from PLATFORM_ERROR on the platform's code."""

    OK = 0
    CONNECT_FAILED = 1
    CONNECT_TIMEOUT = 2
    TLS_FAILED = 3
    READ_TIMEOUT = 4
    CONNECTION_LOST = 5
    TRUNCATED = 6
    PROTOCOL_ERROR = 7
    DAMAGED = 8
    INCOMPLETE = 9  # the session ended before all its objects were tried
    UNLOCKED = 10  # complete, but without its lock or hold
    WEAKER = 11  # its lock ends too early or can be bypassed
    LONGER = 12  # its lock ends too late
    DELETED_LOCKED = 13  # the platform deleted a locked object
    TOO_SLOW = 14  # request or answer had begun, but made too little progress
    ANOTHERS_ANSWER = 15  # the answer belongs to another request
    NO_LOCAL_PORT = 16  # this machine had no free port to connect from; not a failure of the platform


PLATFORM_ERROR = 300  # from here on the platform's statuses: HTTP statuses unchanged
TSM_ERROR = 10_000  # plus the code of the TSM client API
MESSAGE_CHARACTERS_MAX = 160  # of an error's message in tables and sentences
_MARKUP = re.compile(r"<(style|script|title)\b.*?</\1>|<[^<>]*>", re.DOTALL | re.IGNORECASE)
NO_LOCAL_PORT_REASON = "no local port free"  # reason under which these failures of the client are counted


@dataclass(slots=True)
class Delays:
    """Delays of an object in addition to its final attempts. Most rows have none."""

    retry_ns: int = 0  # part of the service time: from first to last attempt, over all its requests
    reconnect_ns: int = 0  # time to connect again after the server ended the connection between two requests
    reconnects: int = 0
    answered: int = 0  # requests answered on the connections that the server ended

    def add(self, other: Delays) -> None:
        """Add the delays of another request of the same object."""
        self.retry_ns += other.retry_ns
        self.reconnect_ns += other.reconnect_ns
        self.reconnects += other.reconnects
        self.answered += other.answered


class SeenLock(NamedTuple):
    """The lock that a platform reported for object ``number``, if it is not the requested one."""

    number: int
    mode: str | None  # None: none is reported
    until: float | None  # retain-until date, epoch seconds; None: none is reported
    on_hold: bool


@dataclass(slots=True)
class ErrorKind:
    """All failures of one operation for one reason, with the message of the first.

    ``retried`` are failed attempts that were sent again: these are not in ``count``.
    """

    operation: str
    reason: str
    count: int
    message: str
    request_id: str
    object_name: str
    outcomes_unknown: int = 0  # failures after which the platform may have done the operation
    retried: int = 0
    workload: int = 0  # number of the workload in its phase, set by the reporter
    lock: SeenLock | None = None  # of the first, if the failure is a wrong lock


def in_short(message: str) -> str:
    """Return a message on one line, shortened, and without markup: a load balancer answers with a page."""
    return textwrap.shorten(_MARKUP.sub(" ", html.unescape(message)), MESSAGE_CHARACTERS_MAX, placeholder=" ...")


def quoted(reason: str, message: str) -> str:
    """Return ``403 AccessDenied: Access Denied``."""
    return ": ".join(filter(None, (reason, in_short(message))))


class Recorder:
    """One client's rows. Times are CLOCK_MONOTONIC nanoseconds; ``bytes`` is goodput (0 for a failed row).

    ``sent_ns`` is the time of the first attempt. ``delays`` has delayed rows by number, so other rows cost nothing.
    ``uncertain`` counts the attempts so far that failed, and may have been done by the platform.
    """

    __slots__ = (
        "attempts",
        "bytes",
        "capacity",
        "delays",
        "done_ns",
        "due_ns",
        "endpoint",
        "errors",
        "first_byte_ns",
        "folded",
        "last_error",
        "number",
        "operation",
        "sent_ns",
        "status",
        "uncertain",
        "used",
    )

    COLUMNS = (
        ("operation", "b"),
        ("status", "h"),
        ("attempts", "h"),
        ("endpoint", "h"),
        ("number", "q"),
        ("bytes", "q"),
        ("due_ns", "q"),
        ("sent_ns", "q"),
        ("first_byte_ns", "q"),
        ("done_ns", "q"),
    )

    operation: array[int]
    status: array[int]
    attempts: array[int]
    endpoint: array[int]
    number: array[int]
    bytes: array[int]
    due_ns: array[int]
    sent_ns: array[int]
    first_byte_ns: array[int]
    done_ns: array[int]

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self.folded = 0  # rows already counted; they stay until their session has ended
        self.errors: dict[tuple[int, str], ErrorKind] = {}
        self.last_error: ErrorKind | None = None  # kind of the latest failure
        self.uncertain = 0
        self.delays: dict[int, Delays] = {}
        for name, typecode in self.COLUMNS:
            setattr(self, name, array(typecode, bytes(array(typecode).itemsize * capacity)))

    def row(
        self,
        operation: int,
        number: int,
        due_ns: int,
        sent_ns: int,
        first_byte_ns: int,
        done_ns: int,
        size_bytes: int,
        status: int = Status.OK,
        attempts: int = 1,
        endpoint: int = 0,
    ) -> None:
        """Write one row. ``number`` is the object's; 0 for an operation of the session."""
        i = self.used
        self.operation[i] = operation
        self.number[i] = number
        self.due_ns[i] = due_ns
        self.sent_ns[i] = sent_ns
        self.first_byte_ns[i] = first_byte_ns
        self.done_ns[i] = done_ns
        self.bytes[i] = size_bytes
        self.status[i] = status
        self.attempts[i] = attempts
        self.endpoint[i] = endpoint
        self.used = i + 1

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
        """Count a failure under its reason, and keep the first of each kind.

        ``outcome_unknown``: no answer came, or none that can be trusted, so the platform may have done the operation.
        ``lock``: the wrong lock that the answer shows.
        """
        kind = self.last_error = self._kind(operation, reason, message, request_id, object_name)
        kind.lock = kind.lock or lock
        kind.count += 1
        kind.outcomes_unknown += outcome_unknown
        self.uncertain += outcome_unknown

    def retry(self, operation: Operation, reason: str, message: str, request_id: str, object_name: str) -> None:
        """Count a failed attempt that is sent again."""
        self._kind(operation, reason, message, request_id, object_name).retried += 1
        self.uncertain += 1

    def _kind(self, operation: Operation, reason: str, message: str, request_id: str, object_name: str) -> ErrorKind:
        kind = self.errors.get((operation, reason))
        if kind is None:
            kind = self.errors[operation, reason] = ErrorKind(
                operation.label, reason, 0, message[:500], request_id, object_name
            )
        return kind

    def room(self) -> int:
        """Return the number of rows that still fit."""
        return self.capacity - self.used

    def clear(self) -> None:
        """Delete the rows, which must all have been folded."""
        assert self.folded == self.used
        self.used = self.folded = 0
        self.delays.clear()


OPERATION_OF: dict[str, Operation] = {operation.label: operation for operation in Operation}
