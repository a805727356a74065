"""The tables of a plan: its answers, the years, the what-if, the cells that it uses, and its costs.

An answer, its range and its basis are in one row, so that readers see them together. Each such row has its own unit, so
its values are text. Columns with one unit contain numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from archiver.values.errors import ResultsError
from archiver.values.sizes import format_bytes, format_duration, format_size
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, columns_of
from results.measures.ranges import Range
from results.planning.answer import PlanAnswer
from results.planning.kept import DAYS_PER_YEAR
from results.planning.loads import (
    DAY_SECONDS,
    HOUR_SECONDS,
    LoadCourse,
    MailLoad,
    PlanRequest,
    PlatformLimits,
    RetrieveLoad,
    VideoLoad,
)
from results.planning.plan import CapacityPlan, Retrieval, make_plan
from results.planning.rate_surface import PlannedRate, RateCell, RateSurface
from results.planning.sensitivity import Outcome, sensitivities
from results.planning.sizing import Archiving, Discovery, Restore, Year, slow_end
from results.prices.cost import bill_table, range_columns, unit_price_table
from results.prices.disclosure import disclosure_table

_NAMES = {"mail": "mail", "video": "video", "retrieve": "retrieval", "size": "mixed sizes", "backup": "backups"}
_VALUES = tuple(Column(name, words=True) for name in ("value", "from", "to"))  # each row has its own unit
SENSITIVITY = "plan-sensitivity"
_SENSITIVITIES_SHOWN = 3
_EXAMPLE_COURSE = LoadCourse(years=1, headroom_share=0.0)  # as the paper computes
_Row = tuple[Cell, ...]


def plan_tables(found: PlanAnswer, *, what_if: bool = False) -> list[Table]:
    """Return every table of a plan, the answers first."""
    plan = found.plan
    tables = [answers_table(plan)]
    if plan.archiving is not None:
        tables += [years_table(plan.archiving), *clients_tables(found)]
        if what_if:
            tables.append(what_if_table(plan.archiving))
    if found.cost is not None:
        tables += [bill_table(found.cost), unit_price_table(found.cost)]
    tables += [sensitivity_table(found), basis_table(plan)]
    if plan.surface.is_run:
        tables.append(disclosure_table({plan.surface.platform: plan.surface.disclosure}))
    return tables


def answers_table(plan: CapacityPlan) -> Table:
    """Return each answer with its range and its basis."""
    rows: list[_Row] = []
    if plan.archiving is not None:
        rows += _sizing_rows(plan.archiving)
        rows += _archiving_rows(plan.archiving)
    if plan.single is not None:
        rows += _single_rows(plan.single)
    if plan.retrieval is not None:
        rows += _retrieval_rows(plan.retrieval)
    return Table(
        name="plan",
        title=f"Plan: {_NAMES[plan.kind]} on {plan.surface.platform}",
        columns=(
            Column("answer", label=True, words=True),
            *_VALUES,
            Column("because", words=True),
        ),
        rows=tuple(rows),
        caption=f"From {plan.surface.source}. Ranges: {plan.surface.spread}.",
    )


def years_table(archiving: Archiving) -> Table:
    """Return the archived data, the kept data and the required platforms in every year."""
    course = archiving.course
    unit, unit_seconds = archiving.load.time_unit
    hours = archiving.load.window_seconds / unit_seconds
    reasons = [need.reason for need in archiving.last_year.needs]
    return TableSpec(
        name="plan-years",
        title=f"Over {course.years} year{'' if course.years == 1 else 's'}",
        columns=(
            Column("year", of=lambda year: year.year, label=True),
            Column("archived", "objects", lambda year: year.objects),
            Column("archived", "TB", lambda year: year.bytes_archived / 1e12, 3),
            Column("kept at most", "TB", lambda year: year.bytes_kept / 1e12, 3),
            Column(f"to archive {archiving.load.a_period}", unit, lambda year: year.window_share.value * hours, 2),
            *(_need_column(place, reason) for place, reason in enumerate(reasons)),
            Column("platforms", of=lambda year: year.platforms.value),
            Column("decided by", of=lambda year: year.decided_by.reason, words=True),
        ),
        caption=f"{DAYS_PER_YEAR} days a year, {course.growth_share:.0%} more each year; "
        f"{archiving.removal}. TB are 10^12 bytes. Columns *by ...* are platforms before rounding, "
        f"at the slow end of the range: {_headroom(course)} is kept free. *kept at most*: on the year's fullest day.",
    ).table(archiving.years)


def _need_column(place: int, reason: str) -> Column:
    return Column(f"by {reason}", "platforms", lambda year: year.needs[place].deciding, 2)


def _headroom(course: LoadCourse) -> str:
    return f"{course.headroom_share:.0%} of the window and of the usable capacity"


def clients_tables(found: PlanAnswer) -> list[Table]:
    """Return one table of the answers for each measured number of clients; none if only one number was measured."""
    plans = []
    for clients in found.plan.surface.clients("archive"):
        try:
            plans.append(make_plan(found.plan.surface, replace(found.request, clients=clients)).archiving)
        except ResultsError:
            continue
    return [_CLIENTS.table(plans)] if len(plans) > 1 else []


_CLIENTS = TableSpec(
    name="plan-clients",
    title="By the clients that load each platform",
    columns=(
        Column("clients", of=lambda archiving: archiving.clients, label=True),
        Column("rate", "objects/s", lambda archiving: archiving.objects_per_second.value, 1),
        Column("rate", "MB/s", lambda archiving: archiving.megabytes_per_second.value, 1),
        Column(
            "of the window", "%", lambda archiving: archiving.seconds.value / archiving.load.window_seconds * 100, 1
        ),
        Column("platforms", of=lambda archiving: archiving.last_year.platforms.value),
        Column("decided by", of=lambda archiving: archiving.last_year.decided_by.reason, words=True),
        Column(
            "failed conditions", of=lambda archiving: ", ".join(_conditions(_cells_of(archiving))) or "none", words=True
        ),
    ),
    caption="The plan uses the fastest number of clients. It prefers rates within the measured range to extrapolated "
    "ones, and then rates that meet all conditions of a headline. --clients chooses another number.",
)


def what_if_table(archiving: Archiving) -> Table:
    """Return the answers for fewer and more units, and the point at which they no longer fit."""
    load = archiving.load
    unit, unit_seconds = load.time_unit
    period = f"to archive {load.a_period}"
    return TableSpec(
        name="what-if",
        title=f"What if: {load.units_name}",
        columns=(
            Column(f"{load.unit}s", of=lambda trial: trial.units, label=True),
            *range_columns(period, unit, lambda trial: trial.archive_seconds.times(1 / unit_seconds)),
            Column("of the window", "%", lambda trial: trial.archive_seconds.value / load.window_seconds * 100, 1),
            Column("fits", of=lambda trial: "yes" if trial.fits else "no", words=True),
            Column("platforms", of=lambda trial: trial.platforms.value),
            Column("remark", of=lambda trial: trial.remark, words=True),
        ),
        caption=f"Times and *fits*: one platform in year 1, within {format_duration(load.window_seconds)}, "
        f"at the slow end of the range. Platforms: in year {archiving.course.years}. "
        f"{_headroom(archiving.course)} is kept free.",
    ).table(archiving.trials)


def sensitivity_table(found: PlanAnswer) -> Table:
    """Return the three assumptions that change the answer most, each changed alone."""
    of_platforms = found.plan.archiving is not None
    what = "platforms" if of_platforms else "seconds"
    return TableSpec(
        name=SENSITIVITY,
        title="What the answer depends on most",
        columns=(
            Column("assumption", of=lambda each: each.assumption, label=True, words=True),
            Column("assumed", of=lambda each: each.base.assumed, words=True),
            Column(what, of=lambda each: _outcome(each.base), words=True),
            Column("if lower", of=lambda each: _assumed(each.lower), words=True),
            Column(what, of=lambda each: _outcome(each.lower), words=True),
            Column("if higher", of=lambda each: _assumed(each.higher), words=True),
            Column(what, of=lambda each: _outcome(each.higher), words=True),
        ),
        caption="Each assumption is changed alone: growth and headroom by 10 percentage points, everything else by "
        "25%. "
        + (f"Platforms in year {found.request.course.years}, before rounding in brackets. " if of_platforms else "")
        + f"{NOT_MEASURED}: too far from any measurement.",
    ).table(sensitivities(found.plan.surface, found.request)[:_SENSITIVITIES_SHOWN])


def _assumed(outcome: Outcome | None) -> str:
    return NOT_MEASURED if outcome is None else outcome.assumed


def _outcome(outcome: Outcome | None) -> str:
    if outcome is None:
        return NOT_MEASURED
    if outcome.need is None:
        return f"{outcome.value:,.1f}"
    return f"{outcome.need.platforms.value:,.0f} ({outcome.value:,.2f}), {outcome.need.reason}"


def basis_table(plan: CapacityPlan) -> Table:
    """Return the measured cells that the answers use."""
    return _BASIS.table((rate, cell) for rate in plan.rates for cell in rate.cells)


_BASIS = TableSpec(
    name="plan-basis",
    title="Cells that the answers rest on",
    columns=(
        *columns_of(
            lambda row: row[0],
            (
                Column("operation", of=lambda rate: rate.operation, label=True),
                Column("asked size", of=lambda rate: format_size(rate.object_bytes), label=True),
                Column("asked objects/session", of=lambda rate: rate.objects_per_session, label=True),
            ),
        ),
        *columns_of(
            lambda row: row[1],
            (
                Column("measured size", of=lambda cell: format_size(cell.object_bytes)),
                Column("measured objects/session", of=lambda cell: cell.objects_per_session),
                Column("clients", of=lambda cell: cell.clients),
                Column("rate", "objects/s", lambda cell: cell.objects_per_second.value, 2, lambda cell: cell.doubts),
                Column("from", "objects/s", lambda cell: cell.objects_per_second.low, 2),
                Column("to", "objects/s", lambda cell: cell.objects_per_second.high, 2),
            ),
        ),
    ),
    caption="Rates between two measured sizes are interpolated on a straight line on logarithmic axes. Between two "
    "measured numbers of objects per session, the smaller number counts.",
)


def examples_table(surface: RateSurface) -> Table:
    """Return the planning examples of the DR550's paper that these rates can answer."""
    rows: list[_Row] = []
    examples: tuple[Callable[[], _Row], ...] = (
        lambda: _mail_example(surface),
        lambda: _camera_example(surface),
        lambda: _retrieve_example(surface, "one message of 20KiB, alone in its session", 20 << 10),
        lambda: _retrieve_example(surface, "a film of 1GiB", 1 << 30),
    )
    for answer in examples:
        try:
            rows.append(answer())
        except ResultsError:
            continue
    return Table(
        name="planning-examples",
        title="Planning examples",
        columns=(
            Column("load", label=True, words=True),
            *_VALUES,
            Column("because", words=True),
        ),
        rows=tuple(rows),
        caption=f"The examples of the DR550's paper, with the rates of {surface.source}. Ranges: {surface.spread}. For "
        "other loads: archiver plan --help.",
    )


def basis_sentence(rate: PlannedRate) -> str:
    """Return the origin of one rate: ``290.8 objects/s, between 312.5 (16KiB x 25) and 250.0 (32KiB x 25)``."""
    cells = [
        f"{cell.objects_per_second.value:,.1f} ({format_size(cell.object_bytes)} x {cell.objects_per_session}"
        f"{_failed((cell,))})"
        for cell in rate.cells
    ]
    of = f"{rate.objects_per_second.value:,.1f} objects/s"
    if rate.clients > 1:
        of += f" with {rate.clients} clients"
    if len(cells) == 2:
        return f"{of}, between {cells[0]} and {cells[1]}"
    return f"{of}, {'beyond' if rate.beyond > 1 else 'measured'}: {cells[0]}"


def _failed(cells: Iterable[RateCell]) -> str:
    """Return the conditions of a headline that one of these cells fails, to append; empty if they meet all."""
    failed = _conditions(cells)
    return f"; {', '.join(failed)}" if failed else ""


def _conditions(cells: Iterable[RateCell]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(condition for cell in cells for condition in cell.failed))


def _cells_of(archiving: Archiving) -> Iterator[RateCell]:
    return (cell for rate in archiving.rates for cell in rate.cells)


def _mail_example(surface: RateSurface) -> _Row:
    load = MailLoad(users=30_000, messages=30, mean_bytes=20 << 10)
    archiving = make_plan(surface, PlanRequest(load=load, course=_EXAMPLE_COURSE)).archiving
    assert archiving is not None
    text = Cell("900,000 messages of 20KiB, 30 in a session: archived in")
    return text, *_times(archiving.seconds), Cell(basis_sentence(archiving.rates[0]))


def _camera_example(surface: RateSurface) -> _Row:
    load = VideoLoad(cameras=100, bytes_per_second=1e9 / HOUR_SECONDS)
    archiving = make_plan(surface, PlanRequest(load=load, course=_EXAMPLE_COURSE)).archiving
    assert archiving is not None
    most = archiving.units_max
    return Cell("cameras of 1 GB an hour each: at most"), *_counts(most), Cell(basis_sentence(archiving.rates[0]))


def _retrieve_example(surface: RateSurface, what: str, size_bytes: int) -> _Row:
    found = make_plan(surface, PlanRequest(load=RetrieveLoad(size_bytes=size_bytes))).retrieval
    assert found is not None
    return Cell(f"{what}: retrieved in"), *_times(found.seconds), Cell(basis_sentence(found.parts[0][1]))


def _archiving_rows(archiving: Archiving) -> Iterator[_Row]:
    load = archiving.load
    yield (
        Cell(f"load of {load.a_period}"),
        Cell(f"{load.objects:,} objects"),
        Cell(""),
        Cell(""),
        Cell(f"{format_bytes(load.bytes)} in {load.sessions:,} sessions of {load.objects_per_session}"),
    )
    seconds = archiving.seconds
    mixed = f"{archiving.objects_per_second.value:,.1f} objects/s over {len(archiving.rates)} sizes"
    mixed += _failed(_cells_of(archiving))
    because = basis_sentence(archiving.rates[0]) if len(archiving.rates) == 1 else mixed
    yield Cell(f"to archive {load.a_period}"), *_times(seconds), Cell(because)
    slower = sum(
        load.units * part.objects_per_unit / rate.slower_neighbour_per_second
        for part, rate in zip(load.parts, archiving.rates, strict=True)
    )
    if any(len(rate.cells) > 1 for rate in archiving.rates):
        yield (
            Cell("at the slower neighbour's rate"),
            *_times(Range(slower)),
            Cell("without interpolation between two measured sizes"),
        )
    if load.unit == "camera":
        needed = load.bytes / load.window_seconds / 1e6
        yield (
            Cell("MB/s needed of those archived"),
            Cell(f"{needed:,.1f} MB/s"),
            Cell(""),
            Cell(""),
            Cell(f"against {archiving.megabytes_per_second.value:,.1f} MB/s"),
        )
    free = f"{archiving.course.headroom_share:.0%} of it is kept free"
    yield (
        Cell(f"fits in {format_duration(load.window_seconds)}"),
        *_verdicts(archiving.is_certain_to_fit(seconds), seconds, archiving.fits),
        Cell(f"one platform; uses {seconds.value / load.window_seconds:.0%} of the window, {free}"),
    )
    yield (
        Cell(f"{load.units_name} at most"),
        *_counts(replace(archiving.units_max, value=archiving.units_certain)),
        Cell(f"one platform; {archiving.course.headroom_share:.0%} kept free{_failed(_cells_of(archiving))}"),
    )
    if archiving.restore is not None:
        yield _restore_row(archiving, archiving.restore)
    if archiving.discovery is not None:
        yield from _discovery_rows(archiving, archiving.discovery)


def _sizing_rows(archiving: Archiving) -> Iterator[_Row]:
    """Yield the number of platforms, every need for them, and the data that they keep in the years of the plan."""
    course, limits, last = archiving.course, archiving.limits, archiving.last_year
    restore = archiving.restore.rates if archiving.restore is not None else ()
    every_cell = [cell for rate in (*archiving.rates, *restore) for cell in rate.cells]
    yield (
        Cell("platforms needed"),
        *_counts(last.platforms),
        Cell(f"in year {last.year}; decided by {last.decided_by.reason}{_slow_end(last)}{_failed(every_cell)}"),
    )
    free = f"{course.headroom_share:.0%} kept free"
    because = {
        "archive rate": f"{archiving.load.a_period} within {format_duration(archiving.load.window_seconds)}, {free}",
        "capacity": f"{format_bytes(last.bytes_kept)}{_stored(archiving)} on {_usable(limits)} each, {free}",
        "objects": f"{last.objects_kept:,.0f} objects kept, {limits.objects_max or 0:,} on each at most",
        "restore time": f"{format_bytes(archiving.restored_bytes(last.year))} restored within "
        f"{format_duration(limits.restore_seconds or 0)}",
        "discovery time": "" if archiving.discovery is None else _discovery_sentence(archiving.discovery),
    }
    for need in last.needs:
        ends = (need.exact.value, need.exact.low, need.exact.high)
        texts = (Cell(NOT_MEASURED) if end is None else Cell(f"{end:,.2f}") for end in ends)
        yield Cell(f"platforms by {need.reason}"), *texts, Cell(because[need.reason])
    if course.retention_years is not None and archiving.bytes_beyond_retention:
        yield (
            Cell("kept beyond the retention"),
            Cell(format_bytes(archiving.bytes_beyond_retention)),
            Cell(""),
            Cell(""),
            Cell(f"at most in year {course.years}, by longer locks, holds and chains of backups"),
        )
    if course.extend_every_days is not None:
        count = archiving.extensions_per_day(course.years)
        yield (
            Cell("locks to extend a day"),
            Cell(f"{count:,.0f}"),
            Cell(""),
            Cell(""),
            Cell(f"at most in year {course.years}, {count / DAY_SECONDS:,.1f} a second, spread over the day"),
        )
    if archiving.footprint is not None:
        source = "as measured" if limits.footprint is None else "as given"
        yield (
            Cell("on disk for each byte"),
            Cell(f"{archiving.footprint:.2f} bytes"),
            Cell(""),
            Cell(""),
            Cell(f"{source}, without redundancy"),
        )
    clients = f"{archiving.clients:,}"
    yield Cell("clients of each platform"), Cell(clients), Cell(""), Cell(""), Cell("while it archives, as measured")
    for name, kept, because_kept in (
        ("archived in the first year", archiving.years[0].bytes_archived, f"{DAYS_PER_YEAR} days"),
        (
            f"kept at most in year {course.years}",
            last.bytes_kept,
            f"on its fullest day; {course.growth_share:.0%} growth a year; {archiving.removal}",
        ),
    ):
        yield Cell(name), Cell(format_bytes(kept)), Cell(""), Cell(""), Cell(because_kept)


def _restore_row(archiving: Archiving, restore: Restore) -> _Row:
    last = archiving.last_year
    restored = archiving.restored_bytes(last.year)
    name = f"to restore {format_bytes(restored)} in year {last.year}"
    platforms = "one platform" if last.platforms.value == 1 else f"{last.platforms.value:,.0f} platforms"
    clients = f"{restore.clients:,} client{'' if restore.clients == 1 else 's'}"
    seconds = restore.seconds_per_byte.times(restored / last.platforms.value)
    return Cell(name), *_times(seconds), Cell(f"{platforms}, {clients} each: {_rates_sentence(restore.rates)}")


def _slow_end(year: Year) -> str:
    """Return a note, to append, if the ends of the range need different numbers of platforms."""
    found = year.platforms
    return "" if found.low == found.high else ", at the slow end of the range"


def _discovery_sentence(discovery: Discovery) -> str:
    each = f"one user's messages take {readable_time(discovery.user_seconds.value)} on one platform"
    return f"{each}; all within {format_duration(discovery.allowed_seconds)}"


def _discovery_rows(archiving: Archiving, discovery: Discovery) -> Iterator[_Row]:
    """Yield the time of a discovery on one platform and on all, and whether it is short enough."""
    count = archiving.last_year.platforms.value
    users = "1 user" if discovery.users == 1 else f"{discovery.users:,} users"
    name = f"{discovery.objects:,} messages of {users}"
    clients = f"{discovery.rate.clients:,} client{'' if discovery.rate.clients == 1 else 's'} each"
    together = "those of one user on one platform" if discovery.layout == "together" else "those of each user on all"
    yield Cell(f"{name}, from one platform"), *_times(discovery.seconds(1)), Cell(basis_sentence(discovery.rate))
    yield (
        Cell(f"{name}, from {count:,.0f} platform{'' if count == 1 else 's'}"),
        *_times(discovery.seconds(count)),
        Cell(f"{together}; {clients}"),
    )
    for what, seconds in (("one platform", discovery.seconds(1)), ("all platforms", discovery.seconds(count))):
        ends = (slow_end(seconds), seconds.low, seconds.high)
        yield (
            Cell(f"within {format_duration(discovery.allowed_seconds)} from {what}"),
            *(Cell(NOT_MEASURED if end is None else "yes" if discovery.fits(end) else "no") for end in ends),
            Cell("at the slow end of the range"),
        )


def _stored(archiving: Archiving) -> str:
    factor = archiving.stored_per_byte
    return "" if factor == 1 else f" kept, {factor:.3g} times stored,"


def _usable(limits: PlatformLimits) -> str:
    return format_bytes(limits.usable_bytes or 0)


def _rates_sentence(rates: Sequence[PlannedRate]) -> str:
    return basis_sentence(rates[0]) if len(rates) == 1 else f"the rates of {len(rates)} sizes"


def _single_rows(single: Retrieval) -> Iterator[_Row]:
    p99 = "" if single.p99_ms is None else f"; p99 {single.p99_ms:,.1f} ms"
    count = single.parts[0][1].objects_per_session
    place = "in a session of its own" if count == 1 else f"one of {count} in a session"
    mean = "mean session time" if count == 1 else "mean session time over its objects"
    yield (
        Cell(f"{single.what}{_size_of(single)}, {place}"),
        *_milliseconds(single.milliseconds_per_object),
        Cell(f"{mean}{p99}; {_basis_of(single)}"),
    )


def _retrieval_rows(retrieval: Retrieval) -> Iterator[_Row]:
    if retrieval.objects == 1:
        yield from _single_rows(retrieval)
    else:
        count = retrieval.parts[0][1].objects_per_session
        name = Cell(f"{retrieval.what}: {retrieval.objects:,} objects{_size_of(retrieval)}, {count} in a session")
        yield name, *_times(retrieval.seconds_alone), Cell(_basis_of(retrieval))
    if retrieval.parallel > 1:
        rate = retrieval.overlapping
        because = (
            basis_sentence(rate)
            if rate is not None
            else "no overlap assumed: it was not measured for this column and size"
            if retrieval.clients == 1
            else f"as measured with {retrieval.clients} clients at once"
        )
        yield Cell(f"{retrieval.parallel} of them at once"), *_times(retrieval.seconds), Cell(because)
    if retrieval.is_stream:
        mean, p99 = retrieval.first_byte_ms, retrieval.first_byte_p99_ms
        because = "not in this source" if mean is None else "mean: opening the session, then the first byte"
        if p99 is not None:
            because += f"; p99 {p99:,.1f} ms after the request"
        found = Range(mean) if mean is not None else None
        yield Cell("time to first byte"), *_milliseconds(found), Cell(because)


def _size_of(retrieval: Retrieval) -> str:
    return f" of {format_size(retrieval.parts[0][1].object_bytes)}" if len(retrieval.parts) == 1 else ""


def _basis_of(retrieval: Retrieval) -> str:
    parts, clients = retrieval.parts, retrieval.clients
    one_of = f"one of {clients:,} clients at work; " if clients > 1 else ""
    if len(parts) == 1:
        return f"{one_of}{basis_sentence(parts[0][1])}"
    return f"{one_of}the mean over {len(parts)} sizes{_failed(cell for _, rate in parts for cell in rate.cells)}"


def _times(seconds: Range) -> tuple[Cell, Cell, Cell]:
    value, low, high = map(_time, _ends(seconds))
    return value, low, high


def _time(seconds: float | None) -> Cell:
    return Cell(NOT_MEASURED if seconds is None else readable_time(seconds))


def readable_time(seconds: float) -> str:
    """Return a time in milliseconds below a second, with decimals below two minutes, in whole hours from two days."""
    if seconds < 1:
        return f"{seconds * 1000:,.1f} ms"
    if seconds < 120:
        return f"{seconds:,.1f} s"
    return format_duration(seconds if seconds < 2 * DAY_SECONDS else round(seconds / HOUR_SECONDS) * HOUR_SECONDS)


def _milliseconds(found: Range | None) -> tuple[Cell, ...]:
    ends = (None, None, None) if found is None else _ends(found)
    return tuple(Cell(NOT_MEASURED if end is None else f"{end:,.1f} ms") for end in ends)


def _verdicts(is_certain: bool, found: Range, fits: Callable[[float], bool]) -> tuple[Cell, ...]:
    """Return yes or no: the verdict, then that of each end of the range."""
    ends = (None if end is None else fits(end) for end in (found.low, found.high))
    return tuple(Cell(NOT_MEASURED if fit is None else "yes" if fit else "no") for fit in (is_certain, *ends))


def _counts(found: Range) -> tuple[Cell, ...]:
    return tuple(Cell(NOT_MEASURED if end is None else f"{end:,.0f}") for end in _ends(found))


def _ends(found: Range) -> tuple[float, float | None, float | None]:
    return found.value, found.low, found.high
