"""Phases in the notation of a file, ``[[phase]]`` with ``[[phase.workload]]``, and their expansion into workloads.

One idea: one table describes one kind of work of clients. Copies, lists of clients and scales only multiply it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil
from typing import Annotated, Any, Literal

import msgspec

from archiver.values.content import Checksum
from archiver.values.retention import PHASE_SECONDS_MAX, Lock
from scenarios.model import Phase, Workload
from scenarios.notation.distribution import Sizes
from scenarios.notation.ranges import KeyRange
from scenarios.notation.sizes import SHARE_MAX as SHARE_MAX
from scenarios.notation.sizes import SIZES_MAX as SIZES_MAX
from scenarios.notation.sizes import SizesTable as SizesTable
from scenarios.notation.sizes import sizes_of as sizes_of
from scenarios.notation.units import Seconds, SizeBytes
from scenarios.reading.replay_phases import ReplayingTable, expand_replay
from scenarios.work.mix import ArrivalKind, Arrivals, Aside, Keys, Mix, OperationName, Transaction

ZIPF_EXPONENT = 0.99
SECONDS_MAX = PHASE_SECONDS_MAX  # the ledger records retain-until dates of a phase this far ahead
OBJECTS_MAX = 20_000_000  # archived by a workload, or due sessions: they are assigned before the workload begins
RATE_MAX = 1_000_000
SCALE_MAX = 1_000_000_000
# Keys that accept "users" or "20 users". Counts are rounded up; a rate may be fractional.
_COUNTS = frozenset(("clients", "objects_per_session", "objects", "fill", "bytes_max", "burst_sessions", "backlog_max"))
SCALED = _COUNTS | {"copies", "per_second", "to_per_second"}

Name = Annotated[str, msgspec.Meta(min_length=1)]


class TransactionTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    steps: tuple[OperationName, ...]
    share: Annotated[float, KeyRange(0, SHARE_MAX, is_above=True)]


class AsideTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: Name
    data: Name
    sizes: SizesTable | str | int
    per_operation: Annotated[float, KeyRange(0, 10, is_above=True)]


class ArrivalsTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    kind: ArrivalKind
    per_second: Annotated[float, KeyRange(0, RATE_MAX)]
    to_per_second: Annotated[float | None, KeyRange(0, RATE_MAX)] = None
    burst_sessions: int = 0
    every: Seconds | None = None
    backlog_max: Annotated[int, KeyRange(0, OBJECTS_MAX)] = 1000


class WorkloadTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: Name
    application: Name | None = None
    clients: int | tuple[int, ...]
    objects_per_session: Annotated[int, KeyRange(1, OBJECTS_MAX)] = 1
    operation: OperationName | None = None
    transactions: tuple[TransactionTable, ...] = ()
    data: Name
    sizes: SizesTable | str | int | None = None
    keys: Keys = "uniform"
    zipf_exponent: float | None = None
    range: SizeBytes | None = None
    part: SizeBytes | None = None
    aside: AsideTable | None = None
    arrivals: ArrivalsTable | None = None
    deadline: Annotated[Seconds | None, KeyRange(0, SECONDS_MAX, is_above=True)] = None
    begins: Seconds = Seconds(0)
    warm_up: Seconds = Seconds(0)
    seconds: Annotated[Seconds | None, KeyRange(0, SECONDS_MAX, is_above=True)] = None
    objects: Annotated[int | None, KeyRange(1, OBJECTS_MAX)] = None
    fill: Annotated[int | None, KeyRange(1, OBJECTS_MAX)] = None
    after: str | None = None
    until: str | None = None
    bytes_max: SizeBytes | None = None
    lock: Lock | None = None
    checksum: Checksum | None = None
    retain_for: Seconds | None = None
    quick: dict[str, Any] = {}

    @property
    def client_counts(self) -> tuple[int, ...]:
        """Return the number of clients of each workload that the table makes, in sequence."""
        return self.clients if isinstance(self.clients, tuple) else (self.clients,)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the workloads that the table makes."""
        if isinstance(self.clients, tuple):
            return tuple(f"{self.name} {clients}" for clients in self.clients)
        return (self.name,)

    @property
    def steps(self) -> frozenset[OperationName]:
        """Return the operations on objects of its data set."""
        return frozenset(step for transaction in _transactions(self) for step in transaction.steps)


class PhaseTable(ReplayingTable, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: Name
    workload: tuple[WorkloadTable, ...] = ()
    copies: Annotated[int | None, KeyRange(1)] = None
    load: bool = False
    cache: Literal["drop", "keep"] = "drop"
    ceiling: bool = False
    quick: dict[str, Any] = msgspec.field(default_factory=dict)


class ScaleTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: Name  # such as tiles: the name that represents the number elsewhere in the file
    each: Name  # such as tile: name of a copy
    # Scales in sequence; empty: the scenario only searches.
    values: Annotated[tuple[float, ...], KeyRange(0, SCALE_MAX, is_above=True)] = ()
    quick: dict[str, Any] = {}


class SearchTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    first: int
    last: int
    step: int = 1
    repeat: Annotated[int, KeyRange(1, 100)] = 3  # trials at the edge
    quick: dict[str, Any] = {}


def at_scale(tables: Any, name: str, scale: float, key: str = "") -> Any:
    """Return phases in which ``tiles`` or ``20 tiles``, written as a number, is replaced by its value at this scale.

    ``key``: the key that holds these tables. Raises ValueError for a fraction of a copy.
    """
    if isinstance(tables, dict):
        return {each: at_scale(value, name, scale, each) for each, value in tables.items()}
    if isinstance(tables, list):
        return [at_scale(value, name, scale) for value in tables]
    if key not in SCALED or not isinstance(tables, str):
        return tables
    found = re.fullmatch(rf"(?:([0-9]{{1,15}}(?:\.[0-9]{{1,15}})?) )?{re.escape(name)}", tables)
    if found is None:
        return tables
    value = Fraction(found[1] or 1) * Fraction(str(scale))  # exact, unlike a float: 0.1 of 30
    if key == "copies" and value.denominator > 1:
        raise ValueError(f"copies = {tables!r} is {float(value):g} at {scale:g} {name}; copies must be a whole number")
    return ceil(value) if key in _COUNTS or value.denominator == 1 else float(value)


def prefixes(table: PhaseTable, scale_table: ScaleTable | None) -> list[str]:
    """Return the prefix of each copy's names of workloads and data sets; empty if there are no copies."""
    if table.copies is None:
        return [""]
    each = scale_table.each if scale_table is not None else "copy"
    return [f"{each} {copy} " for copy in range(1, table.copies + 1)]


def expand_phases(
    table: PhaseTable, position: int, repetition: int, scale: float | None, scale_table: ScaleTable | None
) -> list[Phase]:
    """Return the phases of a table, the first at ``position``. A replay of traces has its preparation before it."""
    if table.replay:
        name = scale_table.name if scale_table is not None else ""
        return expand_replay(table, position, repetition, scale, name, prefixes(table, scale_table))
    return [expand_phase(table, position, repetition, scale, scale_table)]


def expand_phase(
    table: PhaseTable, position: int, repetition: int, scale: float | None, scale_table: ScaleTable | None
) -> Phase:
    """Return one phase of workloads."""
    copies = [
        list(_copy(table.workload, prefix, copy if table.copies is not None else None))
        for copy, prefix in enumerate(prefixes(table, scale_table), start=1)
    ]
    return Phase(
        table.name,
        position,
        repetition,
        tuple(workload for copy in copies for workload in copy),
        scale=scale,
        scale_name=scale_table.name if scale_table is not None else "",
        is_load=table.load,
        keeps_cache=table.cache == "keep",
        measures_ceiling=table.ceiling,
    )


def _copy(tables: Sequence[WorkloadTable], prefix: str, copy: int | None) -> Iterator[Workload]:
    """Yield the workloads of one copy. A table with a list of clients makes a sequence of workloads."""
    last = {table.name: f"{prefix}{table.names[-1]}" for table in tables if table.names}
    for table in tables:
        after = last[table.after] if table.after is not None else None
        until = last[table.until] if table.until is not None else None
        begins = table.begins
        for name, clients in zip(table.names, table.client_counts, strict=True):
            yield Workload(
                f"{prefix}{name}",
                _mix(table, prefix, begins, after, until),
                clients,
                table.objects_per_session,
                table.lock,
                table.checksum,
                table.retain_for,
                table.application or table.name,
                copy,
            )
            after, begins = f"{prefix}{name}", Seconds(0)


def _transactions(table: WorkloadTable) -> tuple[Transaction, ...]:
    if table.operation is not None:
        return (Transaction((table.operation,), 1.0),)
    return tuple(Transaction(each.steps, each.share) for each in table.transactions)


def _mix(table: WorkloadTable, prefix: str, begins: float, after: str | None, until: str | None) -> Mix:
    aside, arrivals = table.aside, table.arrivals
    return Mix(
        transactions=_transactions(table),
        data=f"{prefix}{table.data}",
        sizes=sizes_of(table.sizes) if table.sizes is not None else Sizes.constant(1),
        keys=table.keys,
        zipf_exponent=table.zipf_exponent if table.zipf_exponent is not None else ZIPF_EXPONENT,
        range_bytes=table.range,
        part_bytes=table.part,
        aside=Aside(aside.name, f"{prefix}{aside.data}", sizes_of(aside.sizes), aside.per_operation)
        if aside is not None
        else None,
        arrivals=Arrivals(
            arrivals.kind,
            arrivals.per_second,
            arrivals.to_per_second,
            arrivals.burst_sessions,
            arrivals.every or 0.0,
            arrivals.backlog_max,
        )
        if arrivals is not None
        else None,
        deadline_seconds=table.deadline,
        starts_seconds=begins,
        planned_warm_up_seconds=table.warm_up,
        planned_seconds=table.seconds,
        objects=table.objects,
        fill=table.fill,
        waits_for=after,
        ends_with=until,
        bytes_max=table.bytes_max,
    )
