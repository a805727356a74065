"""Units: the measurements of a run, each at one point of its parameters, over all repetitions.

Every kind of result becomes a Unit. Comparison, tables and figures read Units. A unit has a sample for each repetition;
its value is the median over them.

- A cell is a unit of a sweep: one operation, object size, objects per session and number of clients. Of each repetition
  the earliest result counts, because a sweep measures its first cell again at its end to show drift. A phase with
  several numbers of clients answers another question than a phase with one client.
- A workload that ran at the same time as others is a unit at each scale. Its copies (tiles) are one unit: they ran at
  the same time, so they are no repetitions. Each operation of a workload is a separate unit. Each number of clients is
  one too, if there were several; the workload itself is then the best of these. Phases that only make data are
  excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import fmean, median, stdev
from typing import Any, Literal, NamedTuple

from archiver.values.errors import ResultsError
from archiver.values.sizes import format_size
from results.document.grades import FAIR, NOT_KNOWN, grade_of, worst_grade
from results.measures.metrics import (
    CELL_MEASURES,
    MEGABYTE_RATE,
    RATE,
    RESPONSE,
    WORKLOAD_MEASURES,
    Measure,
    Measured,
    mean_over,
    seconds_of,
)
from results.measures.phases import MeasuredPhase
from results.measures.quality import (
    CLIENT_LIMITED,
    FAILURES_LIMITED,
    HOST_LIMITED,
    MEANINGLESS,
    UNSTEADY,
    doubts_of,
)
from results.measures.statistics import BATCHES_MAX, Estimate, RelativeError, estimate, reach, t_quantile
from results.recorded.model import INTERVAL_SECONDS, Result

Quantity = Literal["objects_per_second", "megabytes_per_second"]

NO_RESULTS = "this run holds no results: no phase finished"
ALL_WORKLOADS = "all workloads"  # the sum of all workloads of a phase
ALL_BUT = "all but "  # the part of a workload without additional objects, such as a log
_OF_CELLS = (*CELL_MEASURES, MEGABYTE_RATE)
LARGE_BYTES = 256 * 1024  # objects of this mean size are compared by MB/s, smaller ones by objects/s

HALF_WIDTH_MAX = 1.0  # of a mean session time, relative; a wider interval shows nothing
REPETITIONS_DECIDE = 5  # from so many on their interval alone says how well a rate is known


class UnitKey(NamedTuple):
    """The parameters of a unit. ``str`` returns its name in conditions: archive.8KiB.500, database small.8@2."""

    operation: str  # of a cell, with its variant: archive, lock header; of a workload, a part; empty: all operations
    object_bytes: int = 0  # of a cell
    objects_per_session: int = 0  # of a cell
    clients: int = 0  # clients of each copy; 0: a workload with one number of clients, or the best of several
    workload: str = ""  # name without the copy; empty: a cell
    phase: str = ""  # of a workload
    scale: float | None = None  # of a workload

    @property
    def is_cell(self) -> bool:
        return not self.workload

    @property
    def is_workload(self) -> bool:
        """Whether this is a whole workload: neither a part nor one of several numbers of clients."""
        return bool(self.workload) and not self.operation and not self.clients

    @property
    def document(self) -> dict[str, Any]:
        """Return the key for JSON and CSV. None means that the field does not apply."""
        if self.is_cell:
            return {name: getattr(self, name) for name in self._fields[:4]}
        own = {"phase": self.phase, "scale": self.scale, "workload": self.workload}
        return {**own, "operation": self.operation or None, "clients": self.clients or None}

    def __str__(self) -> str:
        if self.is_cell:
            clients = f".{self.clients}" if self.clients > 1 else ""
            return f"{self.operation}.{format_size(self.object_bytes)}.{self.objects_per_session}{clients}"
        operation = f"/{self.operation}" if self.operation else ""
        clients = f".{self.clients}" if self.clients else ""
        scale = f"@{self.scale:g}" if self.scale is not None else ""
        return f"{self.workload}{operation}{clients}{scale}"


@dataclass(frozen=True, slots=True)
class Sample:
    """The measurements of a unit in one repetition."""

    repetition: int
    values: Mapping[str, float]  # by the measure's name, without values that were not measured
    objects: int
    errors: int
    results: tuple[Result, ...] = ()  # results of every copy
    why_none: str = ""  # why there is no value, if the results do not show it

    @property
    def limits(self) -> set[str | None]:
        """What limited its results."""
        return {result.limited_by for result in self.results}


@dataclass(frozen=True, slots=True)
class Unit:
    """All repetitions of one unit, in order."""

    key: UnitKey
    samples: tuple[Sample, ...]
    measures: tuple[Measure, ...]  # measures to compare, the most significant first

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(result for sample in self.samples for result in sample.results)

    @property
    def first(self) -> Result:
        return self.samples[0].results[0]

    def median(self, measure: Measure) -> float | None:
        """Return the median over the repetitions with this measure."""
        values = [sample.values[measure.name] for sample in self.samples if measure.name in sample.values]
        return median(values) if values else None

    @property
    def objects_per_second(self) -> float:
        return self.median(RATE) or 0.0

    @property
    def megabytes_per_second(self) -> float:
        """Median in 10^6 bytes per second."""
        return self.median(MEGABYTE_RATE) or 0.0

    @property
    def estimate(self) -> Estimate:
        """Estimate of objects/s. Its relative interval also applies to MB/s."""
        return estimate([sample.values[RATE.name] for sample in self.samples])

    @property
    def relative_error(self) -> RelativeError | None:
        """Standard error of objects/s over repetitions, or within a single repetition.

        Within a repetition it is that of the mean session time, by the half-width that the stop rule computed; for
        fewer than eight sessions, and for simultaneous work, that of the objects in intervals of 250 ms. None if a
        repetition has no rate, or if that of a single repetition is not known within HALF_WIDTH_MAX.
        """
        rates = [sample.values[RATE.name] for sample in self.samples]
        if min(rates) <= 0:
            return None
        if len(rates) > 1:
            return RelativeError(stdev(map(log, rates)) / sqrt(len(rates)), len(rates) - 1)
        if len(self.samples[0].results) != 1:  # copies that ran together
            return None
        half_width, values = self.first.session_half_width, self.first.sessions
        if half_width is None:
            half_width, values = self.first.rate_half_width, int(self.first.seconds / INTERVAL_SECONDS)
        if half_width is None or half_width >= HALF_WIDTH_MAX:
            return None
        degrees = min(values, BATCHES_MAX) - 1
        return RelativeError(half_width / t_quantile(0.975, degrees), degrees)

    @property
    def rate_interval(self) -> tuple[float, float] | None:
        """95% interval of objects/s: of repetitions that of ``estimate``, else of the mean session time."""
        found = self.estimate
        if found.low is not None and found.high is not None:
            return found.low, found.high
        if self.relative_error is None:
            return None
        factor = exp(self.relative_error.half_width())
        return self.objects_per_second / factor, self.objects_per_second * factor

    @property
    def within(self) -> float | None:
        """Return how far the ends of the 95% interval are from the rate at most, as a share of it; None: unknown."""
        found = self.rate_interval
        if found is None or self.is_meaningless:
            return None
        return reach(self.objects_per_second, *found)

    @property
    def grade(self) -> str:
        """Return how well the rate is known, in a letter.

        The grade of a rate that changed while it was measured is at most FAIR, unless REPETITIONS_DECIDE repetitions
        show how much it changes.
        """
        moved = len(self.samples) < REPETITIONS_DECIDE and UNSTEADY.is_in(self._repetitions)
        return worst_grade([grade_of(self.within), *([FAIR] if moved else [])])

    @property
    def is_imprecise(self) -> bool:
        """Whether the rate is known too badly to compare it with another."""
        return self.grade in (FAIR, NOT_KNOWN)

    @property
    def is_meaningless(self) -> bool:
        """Whether the rate says nothing, because workers were lost or failures limited it in a repetition."""
        return any(doubt.is_in(self._repetitions) for doubt in MEANINGLESS)

    @property
    def is_limited_by_client(self) -> bool:
        """Whether the client, or a host that it shares with other work, limited too many repetitions."""
        return CLIENT_LIMITED.is_in(self._repetitions) or HOST_LIMITED.is_in(self._repetitions)

    @property
    def is_limited_by_failures(self) -> bool:
        """Whether failures limited a repetition: its rate is nothing to plan or compare with."""
        return FAILURES_LIMITED.is_in(self._repetitions)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Doubts about this unit, each as a sentence for a footnote.

        What went wrong is always named. What makes a single repetition doubtful is named if too few others remain.
        """
        return tuple(doubt.sentence for doubt in doubts_of(self._repetitions))

    @property
    def cautions(self) -> tuple[str, ...]:
        """What to mind about this unit, in a few words each."""
        return tuple(doubt.words for doubt in doubts_of(self._repetitions) if doubt.words)

    @property
    def _repetitions(self) -> list[tuple[Result, ...]]:
        return [sample.results for sample in self.samples]

    @property
    def errors(self) -> int:
        return sum(sample.errors for sample in self.samples)

    @property
    def clients(self) -> list[int]:
        """Numbers of clients of each copy, ascending."""
        return sorted({result.clients for result in self.results})

    @property
    def temperature(self) -> str | None:
        """The cache state of the retrieved objects, or several: ``cold or unknown``.

        None if the unit retrieved nothing.
        """
        states = {result.temperature for result in self.results} - {None}
        return " or ".join(sorted(map(str, states))) or None

    @property
    def client_share(self) -> float | None:
        """Return the mean share of an object's time that was the client's own; None if it is not known."""
        return mean_over(self.results, lambda result: result.client.object_time_share, seconds_of)

    @property
    def ended_early(self) -> bool:
        """Whether a repetition used its archive limit before its time was over."""
        return any(result.ended_early for result in self.results)

    @property
    def connections(self) -> float:
        """Median connections per session. A result without information about closed connections counts as 1."""
        return median(result.connections_per_session or 1.0 for result in self.results)


def joined(units: Iterable[Unit]) -> dict[UnitKey, Unit]:
    """Return the units by key. Units with the same key are merged, and the keys keep their first order."""
    groups: dict[UnitKey, list[Unit]] = {}
    for unit in units:
        groups.setdefault(unit.key, []).append(unit)
    return {
        key: Unit(
            key,
            tuple(sorted((each for unit in group for each in unit.samples), key=lambda each: each.repetition)),
            tuple(dict.fromkeys(measure for unit in group for measure in unit.measures)),
        )
        for key, group in groups.items()
    }


def all_cells(results: Sequence[Result]) -> dict[UnitKey, Unit]:
    """Return every cell, with one or several clients, in the order operation, size, objects per session, clients."""
    return dict(sorted((parallel_cells(results) | single_cells(results)).items()))


def single_cells(results: Sequence[Result]) -> dict[UnitKey, Unit]:
    """Return the cells of one client, in order.

    They come from the phases that measured one client only. If there are none, they come from the others. Raises
    ResultsError if two results of one cell and repetition have different settings, because one number cannot represent
    both.
    """
    swept = _swept(results)
    parallel = {result.phase for result in swept if result.clients > 1}
    alone = [result for result in swept if result.clients == 1]
    return _collected([result for result in alone if result.phase not in parallel] or alone)


def parallel_cells(results: Sequence[Result]) -> dict[UnitKey, Unit]:
    """Return the cells measured with several numbers of clients, including one client; empty if there are none.

    The cell of one client comes from the same phase, or else from ``single_cells``. Raises ResultsError likewise.
    """
    swept = _swept(results)
    parallel = {result.phase for result in swept if result.clients > 1}
    measured = {_cell_key(result)[:3] for result in swept if result.clients > 1}
    chosen = [result for result in swept if _cell_key(result)[:3] in measured]
    return _collected(sorted(chosen, key=lambda result: result.phase not in parallel))


def cell_of(key: UnitKey, result: Result) -> Unit:
    """Return one repetition of a cell."""
    values = {each.name: value for each in _OF_CELLS if (value := each.of(result)) is not None}
    return one_sample(key, result.repetition, values, (result.objects, result.errors), CELL_MEASURES, [result])


def fastest(cells: Sequence[Unit], rate: Callable[[Unit], float]) -> Unit:
    """Return the cell with the highest rate, of those whose rate means something if there are any. At least one cell.

    How well a rate is known is a mark beside it and never a reason to show another number, which would contradict the
    run's own tables.
    """
    return max([cell for cell in cells if not cell.is_meaningless] or cells, key=rate)


def object_sizes(keys: Iterable[UnitKey]) -> list[int]:
    """Return the measured object sizes in bytes, ascending."""
    return sorted({key.object_bytes for key in keys})


def session_lengths(keys: Iterable[UnitKey]) -> list[int]:
    """Return the measured numbers of objects per session, ascending."""
    return sorted({key.objects_per_session for key in keys})


def temperatures(units: Iterable[Unit]) -> str:
    """Return the cache states of several units that retrieved."""
    return " or ".join(sorted({result.temperature or "unknown" for unit in units for result in unit.results}))


def _swept(results: Sequence[Result]) -> list[Result]:
    """Return the results of sweeps in the order of measurement, without those that only made data."""
    measured = (result for result in results if not result.application and not result.is_load)
    return sorted(measured, key=lambda result: result.position)


def _collected(results: Sequence[Result]) -> dict[UnitKey, Unit]:
    """Group results by cell and repetition. Of several results the first counts."""
    chosen: dict[tuple[UnitKey, int], Result] = {}
    for result in results:
        first = chosen.setdefault((_cell_key(result), result.repetition), result)
        if _settings(first) != _settings(result):
            raise ResultsError(
                f"{result.operation} of {result.object_bytes} bytes x {result.objects_per_session} was"
                f" measured with {_settings(first)} and with {_settings(result)};"
                " tabulate different settings apart"
            )
    return dict(sorted(joined(cell_of(key, result) for (key, _), result in chosen.items()).items()))


def _cell_key(result: Result) -> UnitKey:
    """Return the key of a cell.

    Variants are separate cells: the operation includes what differs from others of the same sizes.
    """
    operation = f"{result.operation}, {result.variant}" if result.variant else result.operation
    return UnitKey(operation, result.object_bytes, result.objects_per_session, result.clients)


def _settings(result: Result) -> tuple[str, str, str, bool, str, bool, str, int | None]:
    return (
        result.session_kind,
        result.session_open,
        result.checksum,
        result.payload_signing,
        result.retention_mode,
        result.legal_hold,
        result.verified,
        result.objects_per_transaction,
    )


def phase_key(phase: MeasuredPhase, workload: str, operation: str = "", clients: int = 0) -> UnitKey:
    """Return the key of a workload of a phase, or of one of its operations or numbers of clients."""
    return UnitKey(operation, clients=clients, workload=workload, phase=phase.name, scale=phase.scale)


def phase_units(phase: MeasuredPhase) -> Iterator[Unit]:
    """Yield one repetition of every workload of a phase, of each number of clients, and of each part."""
    applications: dict[str, list[Result]] = {}
    for result in phase.results:
        applications.setdefault(result.application, []).append(result)
    for application, own in applications.items():
        counts = sorted({result.clients for result in own})
        if len(counts) > 1:
            yield _best(phase_key(phase, application), phase.repetition, own)
        for count in counts:
            key = phase_key(phase, application, clients=count if len(counts) > 1 else 0)
            yield from _with_parts(key, phase.repetition, [result for result in own if result.clients == count])


def workload_units(found: Iterable[Unit]) -> dict[UnitKey, Unit]:
    """Return the workloads of these repetitions by phase and scale, each followed by its parts.

    A part without operations in a repetition has a rate of zero there.
    """
    units = joined(found)
    for key, part in units.items():
        if key.operation and key.workload != ALL_WORKLOADS:
            seen = {sample.repetition for sample in part.samples}
            whole = units[key._replace(operation="")].samples
            absent = [one_sample(key, s.repetition, {RATE.name: 0.0}, (0, 0), (RATE,)) for s in whole]
            units[key] = joined([part, *(each for each in absent if each.samples[0].repetition not in seen)])[key]
    order = {name: place for place, name in enumerate(dict.fromkeys(n for k in units for n in (k.phase, k.workload)))}

    def rank(key: UnitKey) -> tuple[object, ...]:
        last = key.workload == ALL_WORKLOADS
        operation = "" if last else key.operation
        return order[key.phase], key.scale or 0.0, last, order[key.workload], key.clients, operation

    return {key: units[key] for key in sorted(units, key=rank)}


def one_sample(
    key: UnitKey,
    repetition: int,
    values: Mapping[str, float],
    counts: tuple[int, int],
    measures: tuple[Measure, ...],
    results: Sequence[Result] = (),
    why_none: str = "",
) -> Unit:
    """Return one repetition of a unit. ``counts`` are its objects and errors."""
    return Unit(key, (Sample(repetition, values, *counts, tuple(results), why_none),), measures)


def _with_parts(key: UnitKey, repetition: int, copies: Sequence[Result]) -> Iterator[Unit]:
    """Yield a workload and its parts. If it has additional objects, also yield the sum without them."""
    yield _measured(key, repetition, copies, copies)
    parts = [part for result in copies for part in result.parts]
    for name in sorted({part.name for part in parts}):
        own = [part for part in parts if part.name == name]
        yield _measured(key._replace(operation=name), repetition, own, copies)
    others = {part.name for part in parts if part.name != part.operation}
    if others:
        own = [part for part in parts if part.name not in others]
        rates = {RATE.name: sum(part.objects_per_second for part in own)}
        counts = (sum(part.objects for part in own), sum(part.errors for part in own))
        all_but = key._replace(operation=f"{ALL_BUT}{' and '.join(sorted(others))}")
        yield one_sample(all_but, repetition, rates, counts, (RATE,), copies)


def _measured(key: UnitKey, repetition: int, copies: Sequence[Measured], results: Sequence[Result]) -> Unit:
    """Return the combined measurements of several copies."""
    values = {each.name: value for each in WORKLOAD_MEASURES if (value := each.over(copies)) is not None}
    counts = (min(each.objects for each in copies), sum(each.errors for each in copies))
    return one_sample(key, repetition, values, counts, _main_measure_first(values, copies), results)


def _best(key: UnitKey, repetition: int, points: Sequence[Result]) -> Unit:
    """Return the best of several numbers of clients, as studies report it: highest rates, shortest mean response time.

    Each copy contributes its own best. Rates add up; response times are averaged.
    """

    def of_copies(measure: Measure, best: Callable[[Sequence[float]], float]) -> list[float]:
        copies = sorted({point.copy or 0 for point in points})
        values = [[measure.of(point) for point in points if (point.copy or 0) == copy] for copy in copies]
        known = [[value for value in each if value is not None] for each in values]
        return [best(each) for each in known] if all(known) else []

    values = {each.name: sum(rates) for each in (RATE, MEGABYTE_RATE) if (rates := of_copies(each, max))}
    if times := of_copies(RESPONSE, min):
        values[RESPONSE.name] = fmean(times)
    counts = (sum(point.objects for point in points), sum(point.errors for point in points))
    return one_sample(key, repetition, values, counts, _main_measure_first(values, points), points)


def _main_measure_first(values: Mapping[str, float], copies: Sequence[Measured]) -> tuple[Measure, ...]:
    """Return the measures that have a value, and always the rate. MB/s come first for large objects."""
    found = [measure for measure in WORKLOAD_MEASURES if measure is RATE or measure.name in values]
    moved, objects = sum(each.bytes for each in copies), sum(each.objects for each in copies)
    large = bool(objects) and moved >= LARGE_BYTES * objects and MEGABYTE_RATE in found
    first = MEGABYTE_RATE if large else RATE
    return (first, *(measure for measure in found if measure is not first))
