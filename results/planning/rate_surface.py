"""The measured matrix as a surface: a rate for any object size and any number of objects per session.

A plan should err on the slow side, and must state where it has no measurement.

Between two measured sizes the rate follows a straight line on logarithmic axes. For the objects per session, the next
smaller measured column applies, because a longer session is rarely slower per object. The DR550's authors did the same
for 30 messages with their column of 25. Beyond the measured sizes and columns four rules apply; a platform is normally
faster than each of them. A larger object has the same MB/s, a smaller one the same objects/s. A longer session has the
same objects/s, a shorter one takes the same time. Requests beyond ``BEYOND_MAX`` times the measured range are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from archiver.values.errors import ResultsError
from archiver.values.sizes import format_size
from results.measures.ranges import Range, combined
from results.prices.disclosure import Disclosure

BEYOND_MAX = 4.0
OpeningRequest = Literal["get", "head"]


@dataclass(frozen=True, slots=True)
class RateCell:
    """One measured point: object size, objects per session, and clients."""

    operation: str
    object_bytes: int
    objects_per_session: int
    clients: int
    objects_per_second: Range
    doubts: tuple[str, ...] = ()
    session_p99_ms: float | None = None  # over all repetitions
    first_byte_ms: float | None = None  # mean: opening a session, then the first byte of an object
    first_byte_p99_ms: float | None = None  # of the object alone, over all repetitions
    failed: tuple[str, ...] = ()  # conditions of a headline that it fails; a published cell has none
    has_session_time: bool = True  # closed loop of this operation only: a session takes clients x objects / rate
    stored_bytes: int | None = None  # largest known amount stored on the platform before the cell; None: unknown

    def __str__(self) -> str:
        clients = f" with {self.clients} clients" if self.clients > 1 else ""
        return f"{self.operation} {format_size(self.object_bytes)} x {self.objects_per_session}{clients}"


@dataclass(frozen=True, slots=True)
class MixedTrial:
    """The load that a run archived next to other loads, and the plan for it from the rates that it measured alone."""

    what: str  # users in 3 s, cameras
    clients: int  # of the plan
    planned: float
    measured: float
    others: str  # the other loads
    is_lower_bound: bool = False  # the run did not reach the platform's limit

    @property
    def share(self) -> float:
        """The measured load relative to the planned one."""
        return self.measured / self.planned


@dataclass(frozen=True, slots=True)
class PlannedRate:
    """The rate that a plan uses, and the cells that it comes from."""

    operation: str
    object_bytes: int
    objects_per_session: int
    objects_per_second: Range
    cells: tuple[RateCell, ...]  # one, or the two sizes around it, the smaller first
    beyond: float  # factor beyond the measured range; 1: within
    warnings: tuple[str, ...]  # descriptions of the extrapolations

    @property
    def column(self) -> int:
        return self.cells[0].objects_per_session

    @property
    def clients(self) -> int:
        return self.cells[0].clients

    @property
    def megabytes_per_second(self) -> Range:
        """Return 10^6 bytes per second."""
        return self.objects_per_second.times(self.object_bytes / 1e6)

    @property
    def slower_neighbour_per_second(self) -> float:
        """Return the objects per second without interpolation between two sizes.

        A rate that is not interpolated returns itself.
        """
        if len(self.cells) == 1:
            return self.objects_per_second.value
        shorter = min(1.0, self.objects_per_session / self.column)
        return min(cell.objects_per_second.value for cell in self.cells) * shorter


@dataclass(frozen=True, slots=True)
class RateSurface:
    """All rates of one run, or of one published study."""

    source: str  # run 20261121t120329-222b78, or the study
    platform: str
    spread: str  # meaning of low and high
    cells: Mapping[tuple[str, int], Mapping[tuple[int, int], RateCell]]  # (operation, clients): (size, objects)
    remarks: tuple[str, ...] = ()  # warnings about its rates
    opening_request: OpeningRequest | None = None  # None: opening a session is no billed request
    disclosure: Disclosure | None = None  # the tested configuration; None: not disclosed
    footprints: Mapping[int, float] = field(default_factory=dict)  # object size -> bytes on its disk for each byte
    mixed: tuple[MixedTrial, ...] = ()  # one for each number of clients; empty: no loads at the same time were measured
    target: str = ""  # options of the run that name its platform, with a space before each
    is_run: bool = False  # measured by a run; False: published by a study

    def rate(self, operation: str, object_bytes: int, objects_per_session: int, clients: int = 1) -> PlannedRate:
        """Return the total rate of ``clients`` clients.

        Raises ResultsError if there is no measurement of this operation with so many clients, or near the size.

        A run that ended early has incomplete columns. Columns that contain the size have priority.
        """
        table = self._table(operation, clients)
        columns: dict[int, list[int]] = {}
        for size, count in sorted(table):
            columns.setdefault(count, []).append(size)
        column = min(
            columns,
            key=lambda count: (
                count > objects_per_session,
                _beyond(object_bytes, columns[count]),
                abs(count - objects_per_session),
            ),
        )
        sizes = columns[column]
        fewer = column / objects_per_session if column > objects_per_session else 1.0
        more = max(1.0, objects_per_session / max(columns))
        beyond = max(_beyond(object_bytes, sizes), fewer, more)
        if beyond > BEYOND_MAX:
            raise ResultsError(self._too_far(operation, object_bytes, objects_per_session, sizes, sorted(columns)))
        cells = _neighbours([table[size, column] for size in sizes], object_bytes)
        rate = _between(cells, object_bytes).times(1 / fewer)
        return PlannedRate(
            operation,
            object_bytes,
            objects_per_session,
            rate,
            cells,
            beyond,
            tuple(_extrapolations(object_bytes, objects_per_session, sizes, column, max(columns))),
        )

    def parallel_rate(self, alone: PlannedRate, clients: int) -> PlannedRate | None:
        """Return the total rate of several clients, in the column of ``alone`` and within its measured sizes.

        The largest measured number of clients up to ``clients`` counts. Returns None if there is none.
        """
        for measured in reversed(self.clients(alone.operation)):
            if not alone.clients < measured <= clients:
                continue
            found = [size for size, count in self.cells[alone.operation, measured] if count == alone.column]
            if found and _beyond(alone.object_bytes, sorted(found)) == 1:
                return self.rate(alone.operation, alone.object_bytes, alone.column, measured)
        return None

    def fastest(
        self, operation: str, sizes: Sequence[tuple[int, float]], objects_per_session: int, clients: int | None = None
    ) -> tuple[PlannedRate, ...]:
        """Return the rate of each size, for the number of clients that handles all sizes fastest.

        ``sizes`` are object bytes with a number of objects. Rates within the measured range have priority over
        extrapolated ones, then rates of cells that meet all conditions of a headline. ``clients`` fixes the number of
        clients. Raises ResultsError as ``rate`` does if no number of clients has a rate for every size.
        """
        found = self._rates(operation, [size for size, _ in sizes], objects_per_session, clients)
        return max(found, key=lambda rates: _suitability(rates, [count for _, count in sizes]))

    def with_fewest_clients(
        self, operation: str, sizes: Sequence[int], objects_per_session: int
    ) -> tuple[PlannedRate, ...]:
        """Return the rate of each size with the fewest measured clients, from which a session time can be computed.

        Raises ResultsError as ``fastest`` does, or if the clients did other work too or waited for a schedule.
        """
        rates = self._rates(operation, sizes, objects_per_session)[0]
        if not all(cell.has_session_time for rate in rates for cell in rate.cells):
            raise ResultsError(
                f"{self.source}: its clients did not {operation} all the time, so its rates do not show how long one "
                f"{operation} takes; measure it with: archiver run dr550{self.target}"
            )
        return rates

    def _rates(
        self, operation: str, sizes: Sequence[int], objects_per_session: int, clients: int | None = None
    ) -> list[tuple[PlannedRate, ...]]:
        """Return the rates of these sizes for each number of clients that has all of them, the fewest clients first."""
        found, refusals = [], []
        for count in self.clients(operation) if clients is None else (clients,):
            try:
                found.append(tuple(self.rate(operation, size, objects_per_session, count) for size in sizes))
            except ResultsError as refused:
                refusals.append(refused)
        if not found:
            raise refusals[0]
        return found

    def clients(self, operation: str) -> tuple[int, ...]:
        """Return the numbers of clients with which this operation was measured, ascending.

        Raises ResultsError if it was not measured.
        """
        found = tuple(sorted(clients for name, clients in self.cells if name == operation))
        if not found:
            measured = sorted({name for name, _ in self.cells})
            raise ResultsError(
                f"{self.source}: it did not measure {operation}, so it has no rates for this plan "
                f"(measured: {'; '.join(measured) or 'nothing that succeeded'}); use a run of scenario dr550"
            )
        return found

    def scaled(self, factor: float) -> RateSurface:
        """Return the same surface with every rate multiplied by a factor above zero."""
        return replace(
            self,
            cells={
                key: {
                    place: replace(cell, objects_per_second=cell.objects_per_second.times(factor))
                    for place, cell in table.items()
                }
                for key, table in self.cells.items()
            },
        )

    def footprint(self, object_bytes: int) -> float | None:
        """Return the bytes that the platform takes on its disks for each byte of objects of this size; None: unknown.

        The next smaller measured size counts, because what a platform adds weighs less in larger objects. An object
        below all measured sizes takes as much as one of the smallest.
        """
        if not self.footprints:
            return None
        smaller = [size for size in self.footprints if size <= object_bytes]
        size = max(smaller) if smaller else min(self.footprints)
        return self.footprints[size] * max(1.0, size / object_bytes)

    def size_max(self, operation: str) -> int:
        """Return the largest measured object in bytes. Raises ResultsError if this operation was not measured."""
        return max(size for clients in self.clients(operation) for size, _ in self.cells[operation, clients])

    def session_max(self, operation: str) -> int:
        """Return the most objects of a measured session. Raises ResultsError if this operation was not measured."""
        return max(count for clients in self.clients(operation) for _, count in self.cells[operation, clients])

    def _table(self, operation: str, clients: int) -> Mapping[tuple[int, int], RateCell]:
        measured = self.clients(operation)
        if clients not in measured:
            raise ResultsError(
                f"{self.source}: it did not measure {operation} with {clients_text(clients)} "
                f"(measured: {', '.join(map(clients_text, measured))})"
            )
        return self.cells[operation, clients]

    def _too_far(self, operation: str, size: int, objects: int, sizes: Sequence[int], columns: Sequence[int]) -> str:
        return (
            f"{self.source}: {operation} of {format_size(size)} objects, {objects} per session, is more than "
            f"{BEYOND_MAX:g} times beyond the measured range ({_span(list(map(format_size, sizes)))}; "
            f"{_span(list(map(str, columns)))} per session), so any answer would be a guess; check the units, choose a "
            "column with --objects-per-session, or measure it with: archiver run dr550"
            f"{self.target} --set object_sizes={format_size(size)} --set objects_per_session={min(objects, 500)}"
        )


def _suitability(rates: Sequence[PlannedRate], counts: Sequence[float]) -> tuple[bool, bool, float]:
    """Return the sort key of rates for a plan: within the measured range, without failed conditions, then speed."""
    seconds = sum(count / rate.objects_per_second.value for rate, count in zip(rates, counts, strict=True))
    failed = any(cell.failed for rate in rates for cell in rate.cells)
    return all(rate.beyond == 1 for rate in rates), not failed, -seconds


def _neighbours(column: Sequence[RateCell], object_bytes: int) -> tuple[RateCell, ...]:
    """Return the cell of this size, the two cells around it, or the nearest cell. Cells are in the order of sizes."""
    smaller = [cell for cell in column if cell.object_bytes <= object_bytes]
    larger = [cell for cell in column if cell.object_bytes >= object_bytes]
    if not smaller or not larger:
        return (smaller[-1] if smaller else larger[0],)
    return (smaller[-1],) if smaller[-1] is larger[0] else (smaller[-1], larger[0])


def _between(cells: Sequence[RateCell], object_bytes: int) -> Range:
    """Return the rate on the line through two cells.

    For one cell, return its rate; for a larger object, return the rate with the same MB/s.
    """
    first, last = cells[0], cells[-1]
    if first is last:
        return first.objects_per_second.times(min(1.0, first.object_bytes / object_bytes))
    share = math.log(object_bytes / first.object_bytes) / math.log(last.object_bytes / first.object_bytes)
    # The ends of the range are on the lines through the ends of the cells' ranges. This range is never narrower than
    # that of two independent intervals.
    both = (first.objects_per_second, last.objects_per_second)
    return combined(lambda ends: _on_the_line(ends[0], ends[1], share), both)


def _on_the_line(first: float, last: float, share: float) -> float:
    return math.exp((1 - share) * math.log(first) + share * math.log(last))


def _beyond(object_bytes: int, sizes: Sequence[int]) -> float:
    """Return the factor by which this size is beyond the sorted sizes; 1 within them."""
    return max(1.0, sizes[0] / object_bytes, object_bytes / sizes[-1])


def _extrapolations(
    object_bytes: int, objects_per_session: int, sizes: Sequence[int], column: int, longest: int
) -> Iterable[str]:
    size = format_size(object_bytes)
    if object_bytes > sizes[-1]:
        times = object_bytes / sizes[-1]
        yield (
            f"EXTRAPOLATED: {size} is {times:.1f} times the largest measured size, {format_size(sizes[-1])}; the plan "
            "assumes the same MB/s"
        )
    if object_bytes < sizes[0]:
        times = sizes[0] / object_bytes
        yield (
            f"EXTRAPOLATED: {size} is {times:.1f} times below the smallest measured size, {format_size(sizes[0])}; the "
            "plan assumes the same objects/s"
        )
    if objects_per_session < column:
        yield (
            f"EXTRAPOLATED: {objects_per_session} objects per session are below the fewest measured, {column}; the "
            "plan assumes the same session time"
        )
    if objects_per_session > longest:
        yield (
            f"EXTRAPOLATED: {objects_per_session} objects per session are above the most measured, {longest}; the plan "
            f"assumes the rate of {column}"
        )


def _span(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def clients_text(count: int) -> str:
    return f"{count:,} client{'' if count == 1 else 's'}"
