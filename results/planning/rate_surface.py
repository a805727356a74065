"""The measured matrix as a surface: a rate for any object size and any number of objects per session.

A plan should err on the slow side, and must state where it has no measurement.

Between two measured sizes the rate follows a straight line on logarithmic axes. For the objects per session, the next
smaller measured column applies. The DR550's authors did the same for 30 messages with their column of 25. A longer
session is rarely slower per object. Beyond the measured sizes and columns four rules apply; a platform is normally
faster than each of them. A larger object has the same MB/s, a smaller one the same objects/s. A longer session has the
same objects/s, a shorter one takes the same time. Values further than ``BEYOND_MAX`` times beyond are refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Literal

from archiver.values.errors import ResultsError
from archiver.values.sizes import format_size
from results.database import RunDatabase
from results.model import Latency, Result
from results.reference.published import NAME, PublishedCell, dr550
from results.tables.headline import failed_conditions
from results.units import NO_RESULTS, Unit, UnitKey, all_cells, cell_of, joined

BEYOND_MAX = 4.0
RATES_PHASE = "rates"
REFERENCES = ("reference:dr550",)
OpeningRequest = Literal["get", "head"]
_OPENING_REQUESTS: dict[str, OpeningRequest] = {"head-bucket": "head", "lock-config": "get"}  # by --session-open


@dataclass(frozen=True, slots=True)
class Range:
    """A value with the ends of its likely range. Both ends are None if its spread is unknown."""

    value: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> Range:
        """Multiply every part by a factor above zero."""
        return Range(self.value * factor, _product(self.low, factor), _product(self.high, factor))

    def time_for(self, count: float) -> Range:
        """Return the seconds for ``count`` at this rate. The higher rate gives the lower time."""
        return Range(count / self.value, _quotient(count, self.high), _quotient(count, self.low))


@dataclass(frozen=True, slots=True)
class RateCell:
    """One measured point: object size, objects per session, and clients."""

    operation: str
    object_bytes: int
    objects_per_session: int
    clients: int
    objects_per_second: Range
    doubts: tuple[str, ...] = ()
    session_p99_ms: float | None = None  # maximum over the repetitions
    first_byte_ms: float | None = None  # mean: opening a session, then the first byte of an object
    first_byte_p99_ms: float | None = None  # of the object alone; maximum over the repetitions
    failed: tuple[str, ...] = ()  # conditions of a headline that it fails; a published cell has none

    def __str__(self) -> str:
        clients = f" with {self.clients} clients" if self.clients > 1 else ""
        return f"{self.operation} {format_size(self.object_bytes)} x {self.objects_per_session}{clients}"


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

    def rate(self, operation: str, object_bytes: int, objects_per_session: int, clients: int = 1) -> PlannedRate:
        """Return the rate of ``clients`` together.

        Raises ResultsError if there is no measurement of this operation or near it.

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
        """Return the rate of several clients together, in the column of ``alone`` and within its measured sizes.

        The largest measured number that is not above ``clients`` counts. Returns None if there is none.
        """
        for operation, measured in sorted(self.cells, key=lambda key: -key[1]):
            if operation != alone.operation or not 1 < measured <= clients:
                continue
            found = [size for size, count in self.cells[operation, measured] if count == alone.column]
            if found and _beyond(alone.object_bytes, sorted(found)) == 1:
                return self.rate(operation, alone.object_bytes, alone.column, measured)
        return None

    def size_max(self, operation: str) -> int:
        """Return the largest measured object in bytes. Raises ResultsError if this operation was not measured."""
        return max(size for size, _ in self._table(operation, 1))

    def _table(self, operation: str, clients: int) -> Mapping[tuple[int, int], RateCell]:
        table = self.cells.get((operation, clients))
        if not table:
            measured = sorted({name for name, _ in self.cells})
            raise ResultsError(
                f"{self.source}: it measured no {operation} with one client, so nothing can be planned from it "
                f"(measured: {'; '.join(measured) or 'nothing that succeeded'}); plan from a run of scenario dr550"
            )
        return table

    def _too_far(self, operation: str, size: int, objects: int, sizes: Sequence[int], columns: Sequence[int]) -> str:
        return (
            f"{self.source}: {operation} of {format_size(size)} objects, {objects} per session, lies more than "
            f"{BEYOND_MAX:g} times beyond what was measured ({_span(list(map(format_size, sizes)))}; "
            f"{_span(list(map(str, columns)))} per session), so any answer would be a guess; check the units, choose a "
            "column with --objects-per-session, or measure it: archiver run dr550 "
            f"--set object_sizes={format_size(size)} --set objects_per_session={objects}"
        )


def published_surface(name: str) -> RateSurface:
    """Return the rates of a published study by its name in ``REFERENCES``. Raises ResultsError for any other name."""
    if name not in REFERENCES:
        raise ResultsError(f"{name}: no such published study; there is {', '.join(REFERENCES)}")
    text = resources.files("results").joinpath("reference", "dr550.json").read_text(encoding="utf-8")
    steps = json.loads(text)["session_time_step_ms"]["per_objects_per_session"]
    cells = [_published_cell(cell, steps[str(cell.objects_per_session)]) for cell in dr550().cells.values()]
    return RateSurface(
        source=NAME,
        platform="DR550",
        spread="half a step of the paper's session times (steps of 1 to 50 ms), and where it contradicts itself",
        cells=_by_operation(cells),
    )


def measured_surface(database: RunDatabase) -> RateSurface:
    """Return the rates that a run measured. Raises ResultsError if no phase finished, or none measured rates."""
    run = database.run()
    results = database.results()
    if not results:
        raise ResultsError(NO_RESULTS)
    measured = [cell for _, cell in sorted((all_cells(results) | rate_cells(results)).items())]
    if not measured:
        raise ResultsError(
            f"run {run.id}: all its workloads ran side by side, so no rate is one of its own, and nothing can be "
            f"planned from it; plan from a run of dr550, or of a scenario with a phase {RATES_PHASE!r} (mail, video)"
        )
    remarks = []
    if run.shared_host:
        remarks.append("client and server shared one machine: the plan compares, it tells no capacity")
    if run.ended_at is None:
        remarks.append("the run is under way, or was cut off: cells are missing")
    if any(cell.key.operation == "retrieve" and not _is_cold(cell) for cell in measured):
        remarks.append("retrieved data was not known to be cold: from the platform's disks it may come slower")
    return surface_of(
        measured,
        source=f"run {run.id}",
        platform=run.platform.name,
        remarks=tuple(remarks),
        opening_request=_OPENING_REQUESTS.get(run.settings.get("session_open", "")),
    )


def rate_cells(results: Sequence[Result]) -> dict[UnitKey, Unit]:
    """Return the rates that a scenario of simultaneous workloads measured one after another in a phase ``rates``.

    Each measurement, as in each step of a search, is a repetition.
    """
    return joined(
        cell_of(UnitKey(result.operation, result.object_bytes, result.objects_per_session, result.clients), result)
        for result in results
        if result.phase == RATES_PHASE and result.application and result.objects
    )


def surface_of(
    measured: Sequence[Unit],
    *,
    source: str,
    platform: str = "",
    remarks: tuple[str, ...] = (),
    opening_request: OpeningRequest | None = None,
) -> RateSurface:
    """Return the rates of these cells (at least one), without those in which nothing was done."""
    repeated = max(len(cell.samples) for cell in measured)
    return RateSurface(
        source=source,
        platform=platform,
        spread="95% intervals over the repetitions"
        if repeated > 1
        else "unknown: each cell was measured once; run again with --repeat 5",
        cells=_by_operation(_measured_cell(cell) for cell in measured if cell.objects_per_second > 0),
        remarks=remarks,
        opening_request=opening_request,
    )


def _by_operation(cells: Iterable[RateCell]) -> dict[tuple[str, int], dict[tuple[int, int], RateCell]]:
    found: dict[tuple[str, int], dict[tuple[int, int], RateCell]] = {}
    for cell in cells:
        table = found.setdefault((cell.operation, cell.clients), {})
        table[cell.object_bytes, cell.objects_per_session] = cell
    return found


def _measured_cell(cell: Unit) -> RateCell:
    found = cell.estimate
    # The median may be outside the interval of the mean. The range includes both.
    rate = Range(found.median)
    if found.low is not None and found.high is not None:
        rate = Range(found.median, min(found.low, found.median), max(found.high, found.median))
    opened = _mean([result.session_open_ms for result in cell.results])
    first_byte = _mean([result.first_byte_ms for result in cell.results])
    return RateCell(
        *cell.key[:4],
        objects_per_second=rate,
        doubts=cell.doubts,
        session_p99_ms=_worst_p99([result.session_service_ms for result in cell.results]),
        first_byte_ms=None if opened is None or first_byte is None else opened + first_byte,
        first_byte_p99_ms=_worst_p99([result.first_byte_ms for result in cell.results]),
        failed=failed_conditions(cell.results),
    )


def _published_cell(cell: PublishedCell, step_ms: float) -> RateCell:
    """Return the cell with the range from the paper's rounding of session times."""
    count, rate = cell.objects_per_session, cell.objects_per_second
    session_ms = count / rate * 1000
    rates = [count / (session_ms + shift) * 1000 for shift in (step_ms / 2, -step_ms / 2)]
    doubts = []
    if cell.contradicted_objects_per_second is not None:
        rates.append(cell.contradicted_objects_per_second)
        doubts.append(
            f"the paper contradicts itself: it prints {cell.contradicted_objects_per_second:g} objects/s beside MB/s "
            f"that are {rate:g}"
        )
    if cell.unreadable:
        doubts.append(cell.unreadable)
    return RateCell(
        cell.operation, cell.object_bytes, count, 1, Range(rate, min(rates), max(rates)), doubts=tuple(doubts)
    )


def _neighbours(column: Sequence[RateCell], object_bytes: int) -> tuple[RateCell, ...]:
    """Return, from cells in the order of their sizes, the one of this size, the two around it, or the nearest."""
    smaller = [cell for cell in column if cell.object_bytes <= object_bytes]
    larger = [cell for cell in column if cell.object_bytes >= object_bytes]
    if not smaller or not larger:
        return (smaller[-1] if smaller else larger[0],)
    return (smaller[-1],) if smaller[-1] is larger[0] else (smaller[-1], larger[0])


def _between(cells: Sequence[RateCell], object_bytes: int) -> Range:
    """Return the rate on the line through two cells. For one cell, return its rate, or its MB/s for a larger object."""
    first, last = cells[0], cells[-1]
    if first is last:
        return first.objects_per_second.times(min(1.0, first.object_bytes / object_bytes))
    share = math.log(object_bytes / first.object_bytes) / math.log(last.object_bytes / first.object_bytes)
    a, b = first.objects_per_second, last.objects_per_second
    value = _on_the_line(a.value, b.value, share)
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return Range(value)
    # The ends are on the lines through the cells' ends. This range is never narrower than that of two independent
    # intervals.
    return Range(value, _on_the_line(a.low, b.low, share), _on_the_line(a.high, b.high, share))


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
            f"EXTRAPOLATED: {size} is {times:.1f} times the largest size measured, {format_size(sizes[-1])}; its MB/s "
            "are taken to hold"
        )
    if object_bytes < sizes[0]:
        times = sizes[0] / object_bytes
        yield (
            f"EXTRAPOLATED: {size} is {times:.1f} times below the smallest size measured, {format_size(sizes[0])}; its "
            "objects/s are taken to hold"
        )
    if objects_per_session < column:
        yield (
            f"EXTRAPOLATED: {objects_per_session} objects per session are below the fewest measured, {column}; a "
            "session is taken to last as long as theirs"
        )
    if objects_per_session > longest:
        yield (
            f"EXTRAPOLATED: {objects_per_session} objects per session are above the most measured, {longest}; the rate "
            f"of {column} is taken to hold"
        )


def _span(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{texts[0]} to {texts[-1]}"


def _is_cold(cell: Unit) -> bool:
    return all(result.temperature == "cold" for result in cell.results)


def _mean(latencies: Sequence[Latency | None]) -> float | None:
    """Return the mean over all values of the repetitions."""
    known = [latency for latency in latencies if latency is not None and latency.count]
    if not known:
        return None
    return sum(latency.mean * latency.count for latency in known) / sum(latency.count for latency in known)


def _worst_p99(latencies: Sequence[Latency | None]) -> float | None:
    return max((latency.p99 for latency in latencies if latency is not None and latency.count), default=None)


def _product(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _quotient(count: float, rate: float | None) -> float | None:
    return None if rate is None else count / rate
