"""The record of timed operations: one client's preallocated columns with one writer.

One idea: the backend writes a row the moment an operation ends, and nothing is computed then. Rates, histograms and
intervals come later, in bulk, from whole columns (see folding.py), because folding each session by itself was
measured at three to four times the cost of folding thousands of rows at once.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import IntEnum


class Operation(IntEnum):
    """What a row timed. Those before ARCHIVE are a session's own; from ARCHIVE on they are objects.

    A TRANSACTION is sent when it began, has its first byte when its vote was sent, and is done when that was answered.
    A LOCK is a request of its own that locks an object just archived; the ARCHIVE row has its time in it.
    """

    OPEN = 0
    CLOSE = 1
    SESSION = 2
    TRANSACTION = 3
    LOCK = 4
    ARCHIVE = 5
    RETRIEVE = 6
    EXTEND = 7  # give a later date
    HOLD = 8
    RELEASE = 9
    QUERY = 10  # read the lock
    REFUSED_DELETE = 11  # try to delete what is locked: the refusal is the success
    DELETE = 12  # of what has expired
    AUDIT = 13  # retrieve, and compare content and lock with what was asked for
    RANGE_RETRIEVE = 14  # a part of an object
    HEAD = 15  # what the platform says of an object, without its content
    COPY = 16  # on the platform itself, to a new object
    NEW_VERSION = 17  # archive other content under a name that is there: S3 another version, TSM another archive
    DELETE_MARKER = 18  # hide an object behind a marker (S3): what is locked stays

    @property
    def label(self) -> str:
        """As scenarios and results write it: refused-delete."""
        return self.name.lower().replace("_", "-")


class Status(IntEnum):
    """How a row ended: OK, a failure of transport or content, or, from PLATFORM_ERROR on, the platform's own code."""

    OK = 0
    CONNECT_FAILED = 1
    CONNECT_TIMEOUT = 2
    TLS_FAILED = 3
    READ_TIMEOUT = 4
    CONNECTION_LOST = 5
    TRUNCATED = 6
    PROTOCOL_ERROR = 7
    DAMAGED = 8
    INCOMPLETE = 9  # a session that ended before all its objects were tried
    UNLOCKED = 10  # whole, but without the lock or the hold it was archived with
    WEAKER = 11  # its lock ends earlier, or can be bypassed
    LONGER = 12  # its lock ends later than was promised
    DELETED_LOCKED = 13  # the platform deleted what was locked
    TOO_SLOW = 14  # an answer that had begun, or a request that was being taken, came on too slowly to wait for its end
    ANOTHERS_ANSWER = 15  # what came as the answer belongs to another request
    NO_LOCAL_PORT = 16  # this machine had no port left to connect from, which says nothing of the platform


PLATFORM_ERROR = 300  # statuses from here on are the platform's own: HTTP's as they are
TSM_ERROR = 10_000  # and those of the TSM client API, added to this
NO_LOCAL_PORT_REASON = "no local port free"  # under which such failures are counted: the client's own limit


@dataclass(slots=True)
class Delays:
    """What held up an object besides the attempts that were answered for good. Most rows have none."""

    retry_ns: int = 0  # of its service time: from the first attempt to the last one, over all its requests
    reconnect_ns: int = 0  # connecting again, where the server had ended the connection between two requests
    reconnects: int = 0
    answered: int = 0  # requests, over the connections that the server had ended

    def add(self, other: Delays) -> None:
        """Add what held up another request of the same object."""
        self.retry_ns += other.retry_ns
        self.reconnect_ns += other.reconnect_ns
        self.reconnects += other.reconnects
        self.answered += other.answered


@dataclass(slots=True)
class ErrorKind:
    """All failures of one operation for one reason, with the first of them quoted."""

    operation: str
    reason: str
    count: int
    message: str
    request_id: str
    object_name: str
    outcomes_unknown: int = 0  # of them: those after which the platform may have done what was asked all the same
    workload: int = 0  # place of the workload in its phase; whoever reports it knows


class Recorder:
    """One client's rows. Times are CLOCK_MONOTONIC nanoseconds; ``bytes`` is goodput (0 for a failed row).

    ``sent_ns`` is the first attempt's. ``delays`` has the rows that were held up, by their place: no other row pays.
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
        "number",
        "operation",
        "sent_ns",
        "status",
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
        self.folded = 0  # rows that were counted already; they stay until the session they belong to has ended
        self.errors: dict[tuple[int, str], ErrorKind] = {}
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
        """Write one row. ``number`` is the object's (0 for what is a session's own)."""
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
    ) -> None:
        """Count a failure under its own reason and keep the first of each kind.

        ``outcome_unknown``: no answer came, or none that can be believed, so it may have been done all the same.
        """
        kind = self.errors.get((operation, reason))
        if kind is None:
            kind = self.errors[operation, reason] = ErrorKind(
                operation.label, reason, 0, message[:500], request_id, object_name
            )
        kind.count += 1
        kind.outcomes_unknown += outcome_unknown

    def room(self) -> int:
        """Rows that still fit."""
        return self.capacity - self.used

    def clear(self) -> None:
        """Forget the rows, all of which must have been folded."""
        assert self.folded == self.used
        self.used = self.folded = 0
        self.delays.clear()


OPERATION_OF: dict[str, Operation] = {operation.label: operation for operation in Operation}
