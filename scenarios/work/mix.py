"""The work of a workload in a mixed phase, as plain values: operations, shares, objects and times.

One idea: everything is drawn by weighted shuffles. A list has an item for each size or transaction, as often as its
share requires. The client repeats the shuffled list. Shares are therefore exact, and the amount that a phase can
archive is known before it starts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from scenarios.notation.distribution import Sizes, shuffle_items
from scenarios.work.base import Archived, MeasuredTime, Trait, Work

OperationName = Literal[
    "archive", "retrieve", "range-retrieve", "query", "head", "extend", "hold", "release", "refused-delete", "delete",
    "delete-marker", "copy", "new-version", "event-hold", "event-release",
]  # fmt: skip
Keys = Literal["uniform", "zipf", "sequential", "each-once"]
ArrivalKind = Literal["constant", "poisson", "ramp", "bursts"]

WRITES_CONTENT: frozenset[OperationName] = frozenset(("archive", "copy", "new-version"))
EVENT_HOLDS: frozenset[OperationName] = frozenset(("event-hold", "event-release"))
RETRIEVES: frozenset[OperationName] = frozenset(("retrieve", "range-retrieve"))
MAKES_OBJECTS: frozenset[OperationName] = frozenset(("archive", "copy"))
# Operations that reserve their object: no other operation uses it until they have ended.
CHANGES: frozenset[OperationName] = EVENT_HOLDS | {
    "delete",
    "delete-marker",
    "new-version",
    "hold",
    "release",
    "extend",
}

UNKNOWN_SECONDS = 60.0  # assumed duration of a workload without a planned end


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Due times of sessions, independent of the end of earlier ones (open loop).

    ``constant``: evenly spaced.
    ``poisson``: at random.
    ``ramp``: like poisson, from ``per_second`` to ``to_per_second`` over the workload's time.
    ``bursts``: like poisson, plus ``burst_sessions`` at one moment every ``every_seconds``.
    """

    kind: ArrivalKind
    per_second: float
    to_per_second: float | None = None
    burst_sessions: int = 0
    every_seconds: float = 0.0
    backlog_max: int = 1000  # sessions that may wait for a client; more are dropped

    def expected(self, seconds: float) -> float:
        """Return the expected number of sessions in this many seconds."""
        bursts = self.burst_sessions * self.bursts(seconds)
        end = self.to_per_second if self.to_per_second is not None else self.per_second
        return (self.per_second + end) / 2 * seconds + bursts

    def bursts(self, seconds: float) -> int:
        """Return the number of bursts before the end of this many seconds."""
        return math.ceil(seconds / self.every_seconds) if self.kind == "bursts" else 0

    def sessions_max(self, seconds: float) -> int:
        """Upper bound of the sessions of this schedule; for a random one, six standard deviations above the mean."""
        expected = self.expected(seconds)
        if self.kind == "constant":
            return math.ceil(expected)
        return math.ceil(expected + 6 * math.sqrt(expected) + 6)


@dataclass(frozen=True, slots=True)
class Transaction:
    """Steps without a pause between them, and their share of all transactions."""

    steps: tuple[OperationName, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Aside:
    """Objects of another kind that a workload archives in addition to its own, ``per_operation`` on average."""

    name: str
    data: str
    sizes: Sizes
    per_operation: float


@dataclass(frozen=True, slots=True)
class Mix(Work):
    """The operations of one workload's clients, their data, and their time within the phase."""

    transactions: tuple[Transaction, ...]
    data: str  # data set that is read, changed or extended
    sizes: Sizes  # sizes of archived objects
    keys: Keys = "uniform"
    zipf_exponent: float = 0.99
    range_bytes: int | None = None  # length of a range retrieve
    part_bytes: int | None = None  # larger objects are archived as multipart uploads
    aside: Aside | None = None
    arrivals: Arrivals | None = None  # None: closed loop, the next session when the previous one has ended
    deadline_seconds: float | None = None  # a longer response time of an object is a missed deadline
    starts_seconds: float = 0.0  # after the phase's start, or after the end of ``waits_for``
    planned_warm_up_seconds: float = 0.0
    planned_seconds: float | None = None  # duration, warm-up included
    objects: int | None = None  # or: until this many objects are archived
    fill: int | None = None  # or: until the data set has this many objects
    waits_for: str | None = None  # begins when that workload has ended
    ends_with: str | None = None  # ends when that workload has ended
    bytes_max: int | None = None  # upper bound of archived bytes; the workload ends when they are used up

    @property
    def operation_label(self) -> str:
        """Return its operation; mixed for several, or if it has an aside."""
        steps = self.steps
        return next(iter(steps)) if len(steps) == 1 and self.aside is None else "mixed"

    @property
    def steps(self) -> frozenset[OperationName]:
        """Return the operations on objects of its own data set."""
        return frozenset(step for transaction in self.transactions for step in transaction.steps)

    @property
    def does(self) -> frozenset[str]:
        return frozenset(self.steps | ({"archive"} if self.aside is not None else set()))

    @property
    def part_names(self) -> frozenset[str]:
        return frozenset(self.steps | ({self.aside.name} if self.aside is not None else set()))

    @property
    def archives(self) -> bool:
        return bool(self.does & WRITES_CONTENT)

    @property
    def mean_bytes(self) -> int:
        return round(self.sizes.mean) if self.steps & WRITES_CONTENT else 0

    @property
    def object_sizes(self) -> tuple[int, ...]:
        aside = self.aside.sizes.classes if self.aside is not None else ()
        return tuple(sorted({size for size, _ in (*self.sizes.classes, *aside)}))

    def data_set(self, workload: str) -> str:
        return self.data

    @property
    def aside_data_set(self) -> str:
        return self.aside.data if self.aside is not None else ""

    @property
    def traits(self) -> frozenset[Trait]:
        found: set[Trait] = set()
        if self.arrivals is not None:
            found.add("open loop")
        if self.deadline_seconds is not None:
            found.add("deadline")
        return frozenset(found)

    @property
    def measured_time(self) -> MeasuredTime:
        return "intervals" if self.is_timed else "all"

    @property
    def seconds_max(self) -> float:
        return self.planned_seconds if self.planned_seconds is not None else UNKNOWN_SECONDS

    @property
    def has_time_limit(self) -> bool:
        return self.planned_seconds is not None

    @property
    def is_repeatable(self) -> bool:
        """Return whether the phase can be repeated, because it deletes and replaces nothing.

        Otherwise the objects that an interrupted phase left are not known.
        """
        return not self.does & CHANGES

    @property
    def shares_workers(self) -> bool:
        return True

    @property
    def is_timed(self) -> bool:
        """Return whether its measured time is a window that is known in advance."""
        return self.planned_seconds is not None and self.ends_with is None

    def written_per_transaction(self) -> float:
        """Return the mean number of objects of its own data set that a transaction writes."""
        written = sum(t.share * sum(step in WRITES_CONTENT for step in t.steps) for t in self.transactions)
        return written / sum(transaction.share for transaction in self.transactions)

    def operations_per_transaction(self) -> float:
        """Return the mean number of object operations of a transaction, without the operations of the aside."""
        done = sum(t.share * len(t.steps) for t in self.transactions)
        return done / sum(transaction.share for transaction in self.transactions)

    def transaction_items(self) -> list[int]:
        """Return the items of the weighted shuffle, unshuffled: transactions by position, in their shares."""
        return shuffle_items([(index, transaction.share) for index, transaction in enumerate(self.transactions)])

    def written_max(self, objects_per_session: int) -> tuple[int, int]:
        """Upper bound of the written objects: of the workload's own data set, and of its aside."""
        per_transaction = self.written_per_transaction()
        aside = self.aside
        aside_operations = self.operations_per_transaction() * aside.per_operation if aside is not None else 0.0
        count = self.objects if self.objects is not None else self.fill
        if count is not None:
            transactions = math.ceil(count / per_transaction)
        elif self.arrivals is not None and self.planned_seconds is not None:
            transactions = self.arrivals.sessions_max(self.planned_seconds) * objects_per_session
            transactions += len(self.transaction_items()) if len(self.transactions) > 1 else 0
        elif self.bytes_max is not None and aside is not None:
            transactions = int(
                self.bytes_max / (per_transaction * self.sizes.mean + aside_operations * aside.sizes.mean)
            )
        elif self.bytes_max is not None:
            transactions = int(self.bytes_max / (per_transaction * self.sizes.mean))
        else:
            return 0, 0  # nothing is written
        own = count if count is not None else math.ceil(transactions * per_transaction)
        return own, math.ceil(transactions * aside_operations)

    def archived_max(self, clients: int, objects_per_session: int) -> Archived:
        if not self.archives:
            return Archived(0, 0)
        own, aside = self.written_max(objects_per_session)
        size_bytes = self.sizes.bytes_max(own) + (self.aside.sizes.bytes_max(aside) if self.aside is not None else 0)
        return Archived(own + aside, size_bytes)

    def archived_given(self, existing: int | None, clients: int, objects_per_session: int) -> Archived:
        if self.fill is None:
            return self.archived_max(clients, objects_per_session)
        missing = max(0, self.fill - (existing or 0))
        return Archived(missing, self.sizes.bytes_max(missing))

    def left_existing(self, existing: int | None, clients: int, objects_per_session: int) -> int | None:
        if self.fill is not None:
            return max(self.fill, existing or 0)
        return None if self.does & {"delete", "delete-marker"} else existing

    def sessions_within(self, seconds: float, clients: int, objects_per_session: int) -> float:
        due = self.arrivals
        if due is not None:
            lasts = min(seconds, self.planned_seconds if self.planned_seconds is not None else math.inf)
            bursts = due.burst_sessions * math.ceil(lasts / due.every_seconds) if due.burst_sessions else 0
            return max(due.per_second, due.to_per_second or 0.0) * lasts + bursts
        planned = self.objects if self.objects is not None else self.fill
        return 0.0 if planned is None else planned / self.written_per_transaction() / objects_per_session
