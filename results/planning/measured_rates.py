"""The rates that a run of any kind measured, and the rates of a published study.

Rates of cells that were measured without other load have priority. A run of simultaneous workloads has them in its
phase ``rates``. If there are none for an operation, the rates of its workloads count: closed loops, open loops and
replays, each measured next to the other workloads. The offered load of a schedule or a trace is a lower bound of the
platform's rate, so a plan from it errs on the slow side. Void phases and phases that missed a criterion give no rate.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from archiver.values.errors import ResultsError
from results.measures.doubts import platform_doubts
from results.measures.metrics import RATE
from results.measures.ranges import Range
from results.measures.stored_times import NO_TIMES, StoredTimes, stored_times
from results.measures.units import NO_RESULTS, Unit, UnitKey, all_cells, cell_of, joined, one_sample
from results.measures.verdict import void_positions
from results.planning.rate_surface import OpeningRequest, RateCell, RateSurface
from results.prices.disclosure import disclosed
from results.recorded.model import FAILURES, CriterionResult, Latency, PartResult, Result
from results.recorded.run import RecordedRun
from results.reference import published_data
from results.reference.published import NAME, PublishedCell, dr550

RATES_PHASE = "rates"
REFERENCES = ("reference:dr550",)
OFFERED = "offered load of a schedule or a trace: the platform may be faster"
_FOOTPRINT_BYTES_MIN = 4_000_000  # a store also writes some 100 kB of its own
_TARGET_OPTIONS = ("--backend", "--platform", "--endpoint", "--tsm-server")
_OPENING_REQUESTS: dict[str, OpeningRequest] = {"head-bucket": "head", "lock-config": "get"}  # by --session-open


def published_surface(name: str) -> RateSurface:
    """Return the rates of a published study by its name in ``REFERENCES``. Raises ResultsError for any other name."""
    if name not in REFERENCES:
        raise ResultsError(f"{name}: there is no such published study; choose one of: {', '.join(REFERENCES)}")
    steps = published_data("dr550")["session_time_step_ms"]["per_objects_per_session"]
    cells = [_published_cell(cell, steps[str(cell.objects_per_session)]) for cell in dr550().cells.values()]
    return RateSurface(
        source=NAME,
        platform="DR550",
        spread="half a step of the paper's session times (steps of 1 to 50 ms), and contradictions in the paper",
        cells=_by_operation(cells),
    )


def measured_surface(recorded: RecordedRun) -> RateSurface:
    """Return the rates that a run measured. Raises ResultsError if no phase finished, or none measured rates."""
    run, results = recorded.run, recorded.results
    if not results:
        raise ResultsError(NO_RESULTS)
    swept = {key: cell for key, cell in all_cells(results).items() if not cell.is_limited_by_failures}
    alone = list((swept | rate_cells(results)).values())
    times = stored_times(recorded)
    cells = [_measured_cell(cell, times) for cell in alone]
    operations = {cell.operation for cell in cells}
    cells += [cell for cell in workload_cells(results, recorded.criteria) if cell.operation not in operations]
    if not cells:
        raise ResultsError(
            f"run {run.id}: every phase is void, limited by failures or missed a criterion, so it has no rates for a "
            "plan; use a run of dr550, or a run that met its criteria"
        )
    remarks = platform_doubts(recorded)
    if run.shared_host:
        remarks.append("client and server shared one machine: the plan is for comparison, not for capacity")
    if run.ended_at is None:
        remarks.append("the run has not finished, or was interrupted: cells are missing")
    if any(result.operation == "retrieve" and result.temperature != "cold" for result in results):
        remarks.append("the retrieved data was perhaps in a cache: retrieval from the platform's disks may be slower")
    return replace(
        surface_of(cells, f"run {run.id}"),
        platform=run.platform.name,
        target=_target(run.command_line),
        remarks=tuple(remarks),
        footprints=measured_footprints([*results, *recorded.drift_checks]),
        opening_request=_OPENING_REQUESTS.get(run.settings.get("session_open", "")),
        disclosure=disclosed(run),
        is_run=True,
    )


def _target(command_line: Sequence[str]) -> str:
    """Return the options of a command line that name a platform, with a space before each."""
    words = [word for argument in command_line for word in argument.split("=", 1 if argument.startswith("--") else 0)]
    named = [(name, value) for name, value in pairwise(words) if name in _TARGET_OPTIONS]
    return "".join(f" {name} {shlex.quote(value)}" for name, value in named)


def measured_footprints(results: Iterable[Result]) -> dict[int, float]:
    """Return the bytes that the store took on its disk for each archived byte, by object size.

    A phase counts if it archived objects of one size, and if the store's size is known before it and after it. Sizes of
    which less than ``_FOOTPRINT_BYTES_MIN`` were archived are left out. A store cannot take less than it was given.
    """
    by_position: dict[int, list[Result]] = {}
    for result in results:
        by_position.setdefault(result.position, []).append(result)
    grown: dict[int, tuple[int, int]] = {}  # object size -> bytes archived, bytes that the store grew
    for phase, following in pairwise(phase for _, phase in sorted(by_position.items())):
        sizes = {result.object_bytes for result in phase if result.operation == "archive"}
        before, after = phase[0], following[0]
        if len(sizes) == 1 and before.store_bytes_before is not None and after.store_bytes_before is not None:
            (size,) = sizes
            archived, stored = grown.get(size, (0, 0))
            archived += after.archived_bytes_before - before.archived_bytes_before
            grown[size] = archived, stored + after.store_bytes_before - before.store_bytes_before
    return {
        size: max(1.0, stored / archived)
        for size, (archived, stored) in sorted(grown.items())
        if archived >= _FOOTPRINT_BYTES_MIN
    }


def rate_cells(results: Sequence[Result]) -> dict[UnitKey, Unit]:
    """Return the rates that a scenario of simultaneous workloads measured one after another in its phase ``rates``.

    Each measurement is a repetition; each step of a search has one.
    """
    return joined(
        cell_of(UnitKey(result.operation, result.object_bytes, result.objects_per_session, result.clients), result)
        for result in results
        if result.phase == RATES_PHASE and result.application and result.objects and result.limited_by != FAILURES
    )


def workload_cells(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> list[RateCell]:
    """Return the rates of workloads that ran at the same time as others or followed a schedule, one for each operation.

    The largest scale without a missed criterion counts. Copies of a workload (tiles) are added up. The slower of two
    workloads with the same operation, size, objects per session and clients comes last.
    """
    unfit = {each.position for each in criteria if not each.passed} | void_positions(results, criteria)
    unfit |= {each.position for each in results if each.incomplete is not None or each.limited_by == FAILURES}
    fit = [
        result
        for result in results
        if result.application
        and result.phase != RATES_PHASE
        and result.position not in unfit
        and result.infrastructure is None
        and not result.is_load
    ]
    largest: dict[tuple[str, str], float] = {}
    for result in fit:
        key = result.phase, result.application
        largest[key] = max(largest.get(key, 0.0), result.scale or 0.0)
    workloads: dict[tuple[str, str, int], dict[int, list[Result]]] = {}
    for result in fit:
        if (result.scale or 0.0) == largest[result.phase, result.application]:
            phases = workloads.setdefault((result.phase, result.application, result.clients), {})
            phases.setdefault(result.position, []).append(result)
    applications: dict[int, dict[str, None]] = {}
    for result in results:
        applications.setdefault(result.position, {})[result.application] = None
    cells = [cell for phases in workloads.values() for cell in _cells_of_workload(list(phases.values()), applications)]
    return sorted(cells, key=lambda cell: -cell.objects_per_second.value)


def _cells_of_workload(
    phases: Sequence[Sequence[Result]], applications: Mapping[int, Iterable[str]]
) -> Iterator[RateCell]:
    """Yield the rate of each operation of one workload over its phases, which are its repetitions."""
    first = phases[0][0]
    operations = dict.fromkeys(part.operation for copies in phases for copy in copies for part in _parts(copy))
    doubts = []
    if len(operations) > 1:
        doubts.append(f"measured in a mix of {', '.join(operations)}: without the others it may be faster")
    others = [name for name in applications[first.position] if name not in ("", first.application)]
    if others:
        doubts.append(f"measured next to {', '.join(others)}")
    is_offered = first.offered is not None or first.replayed is not None
    if is_offered:
        doubts.append(OFFERED)
    for operation in operations:
        per_phase = [[part for copy in each for part in _parts(copy) if part.operation == operation] for each in phases]
        objects = sum(part.objects for parts in per_phase for part in parts)
        if objects:
            mean_bytes = round(sum(part.bytes for parts in per_phase for part in parts) / objects)
            key = UnitKey(operation, mean_bytes, first.objects_per_session, first.clients * len(phases[0]))
            rates = [sum(part.objects_per_second for part in parts) for parts in per_phase]
            unit = joined(
                one_sample(key, number, {RATE.name: rate}, (0, 0), (RATE,), copies)
                for number, (rate, copies) in enumerate(zip(rates, phases, strict=True), 1)
            )[key]
            cell = _measured_cell(unit, NO_TIMES)
            yield replace(
                cell,
                doubts=(*cell.doubts, *doubts),
                has_session_time=len(operations) == 1 and not is_offered,
                first_byte_ms=None,
                first_byte_p99_ms=None,
                session_p99_ms=None,
            )


def _parts(result: Result) -> Sequence[Result | PartResult]:
    """Return the operations of a workload without its additional objects. A single operation is the workload itself."""
    return [part for part in result.parts if part.name == part.operation] or [result]


def surface_of(cells: Sequence[RateCell], source: str) -> RateSurface:
    """Return the rates of these cells, except cells without any completed object."""
    is_repeated = any(cell.objects_per_second.low is not None for cell in cells)
    return RateSurface(
        source=source,
        platform="",
        spread="95% intervals over the repetitions"
        if is_repeated
        else "unknown: each cell was measured once; run again with --repeat 5",
        cells=_by_operation(cell for cell in cells if cell.objects_per_second.value > 0),
    )


def exercise_surface(results: Sequence[Result], source: str) -> RateSurface | None:
    """Return the rates of the phase ``rates`` alone. Returns None if these results have no such phase."""
    cells = [_measured_cell(cell, NO_TIMES) for cell in rate_cells(results).values()]
    return surface_of(cells, source) if cells else None


def _by_operation(cells: Iterable[RateCell]) -> dict[tuple[str, int], dict[tuple[int, int], RateCell]]:
    found: dict[tuple[str, int], dict[tuple[int, int], RateCell]] = {}
    for cell in cells:
        table = found.setdefault((cell.operation, cell.clients), {})
        table[cell.object_bytes, cell.objects_per_session] = cell
    return found


def _measured_cell(cell: Unit, times: StoredTimes) -> RateCell:
    found = cell.estimate
    rate = Range(found.median, found.low, found.high)
    opened = _mean([result.session_open_ms for result in cell.results])
    first_byte = _mean([result.first_byte_ms for result in cell.results])
    return RateCell(
        *cell.key[:4],
        objects_per_second=rate,
        doubts=cell.doubts,
        session_p99_ms=_p99(times.over("session_service", cell.results)),
        first_byte_ms=None if opened is None or first_byte is None else opened + first_byte,
        first_byte_p99_ms=_p99(times.over("first_byte", cell.results)),
        failed=(*cell.cautions, *([f"grade {cell.grade}"] if cell.is_imprecise else [])),
        stored_bytes=max(result.store_bytes_before or result.archived_bytes_before for result in cell.results),
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
            f"the paper contradicts itself: it prints {cell.contradicted_objects_per_second:g} objects/s, but its MB/s "
            f"correspond to {rate:g}"
        )
    if cell.unreadable:
        doubts.append(cell.unreadable)
    return RateCell(
        cell.operation, cell.object_bytes, count, 1, Range(rate, min(rates), max(rates)), doubts=tuple(doubts)
    )


def _mean(latencies: Sequence[Latency | None]) -> float | None:
    """Return the mean over all values of the repetitions."""
    known = [latency for latency in latencies if latency is not None and latency.count]
    if not known:
        return None
    return sum(latency.mean * latency.count for latency in known) / sum(latency.count for latency in known)


def _p99(latency: Latency | None) -> float | None:
    return latency.p99 if latency is not None else None
