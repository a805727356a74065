"""The tables of a run: the paper's Figures 9, 10 and 5 with its values, session times, latencies, errors.

Every table shows only measured values. A quick run therefore gives small tables and not empty ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from archiver.values.errors import ResultsError
from archiver.values.record import in_short
from archiver.values.sizes import format_size
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, columns_of, number
from results.measures.metrics import amounts
from results.measures.stored_times import NO_TIMES, StoredTimes
from results.measures.units import (
    NO_RESULTS,
    Quantity,
    Unit,
    UnitKey,
    all_cells,
    object_sizes,
    parallel_cells,
    session_lengths,
    single_cells,
    temperatures,
)
from results.measures.watched import NOTHING_WATCHED, Watched
from results.recorded.model import FirstError, Latency, Result
from results.reference.published import NAME, PublishedCell, dr550, megabytes_in_the_papers_unit
from results.tables.columns import UNIT_AMOUNT_COLUMNS, UNIT_COLUMNS, interval, rate_cell
from results.tables.lock_cost import life_cycle_table, lock_cost_table
from results.tables.session_fits import session_time_table
from results.tables.usage import (
    limited_by,
    limits_table,
    per_object_table,
    requests_table,
    resource_table,
    server_resources_table,
)

OPERATIONS = ("archive", "retrieve")
QUANTITIES: tuple[Quantity, ...] = ("objects_per_second", "megabytes_per_second")  # the paper's Figures 9 and 10
CELLS = "cells"  # name of the table with the rate, latency and limit of every cell
AMOUNTS = "amounts"  # name of the table of every cell's amounts


def build_tables(results: Sequence[Result], watched: Watched = NOTHING_WATCHED) -> list[Table]:
    """Return every table for which these results and the server's samples have data, in the order of the report.

    Raises ResultsError if there are no results, or if results of one cell have different settings.
    """
    if not results:
        raise ResultsError(NO_RESULTS)
    measured = single_cells(results)
    operations = [operation for operation in OPERATIONS if any(key.operation == operation for key in measured)]
    tables = [cells_table(results, watched.times)]
    tables += [rate_table(results, operation, quantity) for quantity in QUANTITIES for operation in operations]
    tables += parallel_tables(results)
    tables += [
        lock_cost_table(results, watched.times),
        life_cycle_table(results, watched.times),
        session_time_table(results),
        amounts_table(results),
        latency_table(results, watched.times),
        resource_table(results),
        limits_table(results),
        per_object_table(results),
        server_resources_table(watched),
        requests_table(watched),
        error_table(results),
    ]
    return [table for table in tables if table.rows]


def rate_table(results: Sequence[Result], operation: str, quantity: Quantity) -> Table:
    """Return the form of the paper's Figure 9 (objects/s) or 10 (MB/s) for one client: measured, published, ratio.

    Both sides of an MB/s ratio use the paper's unit, objects/s x KiB / 1000.
    """
    of_paper = quantity == "megabytes_per_second"
    cells = {key: cell for key, cell in single_cells(results).items() if key.operation == operation}
    if not cells:
        raise ResultsError(f"this run did not measure {operation} with one client")
    warmth = temperatures(cells.values())

    def unit(size: int, count: int) -> Unit | None:
        return cells.get(UnitKey(operation, size, count, 1))

    def ours(size: int, count: int) -> float | None:
        cell = unit(size, count)
        found = cell.objects_per_second if cell else None
        return megabytes_in_the_papers_unit(found, size) if of_paper and found is not None else found

    def theirs(size: int, count: int) -> Cell:
        printed = dr550().cells.get((operation, size, count)) if unit(size, count) else None
        return (
            number(getattr(printed, quantity), 2, _published_notes(printed, of_paper)) if printed else number(None, 2)
        )

    kinds: dict[str, Callable[[int, int], Cell]] = {
        "measured": lambda size, count: _noted_rate(unit(size, count), ours(size, count), warmth),
        "95% within": lambda size, count: interval(unit(size, count)),
        "published": theirs,
        "ratio": lambda size, count: number(_ratio(ours(size, count), theirs(size, count).number), 2),
    }
    if all(cell.estimate.low is None for cell in cells.values()):
        del kinds["95% within"]
    heading = f"{operation.capitalize()}: {'MB/s in the unit of the paper' if of_paper else 'objects/s'}"
    unit_note = " MB/s on both sides is objects/s x KiB / 1000." if of_paper else ""
    return TableSpec(
        name=f"{operation}-{quantity.replace('_', '-')}",
        title=f"{heading}, {warmth} data" if operation == "retrieve" else heading,
        columns=_pivot_columns(session_lengths(cells)),
        caption=f"One client{_repetitions(cells.values())}. {_amounts(cells.values())} Published: {NAME}, Figure"
        f" {10 if of_paper else 9}; ratio: measured / published.{unit_note}",
        across="objects per session",
    ).table((size, what, show) for size in object_sizes(cells) for what, show in kinds.items())


def parallel_tables(results: Sequence[Result]) -> list[Table]:
    """Return the paper's Figure 5: a table per operation and objects per session, a column per number of clients."""
    cells = parallel_cells(results)
    series = sorted({(key.operation, key.objects_per_session) for key in cells})
    return [_parallel_table(cells, operation, count, len(series)) for operation, count in series]


def _parallel_table(cells: dict[UnitKey, Unit], operation: str, count: int, series: int) -> Table:
    chosen = {
        key: cell for key, cell in cells.items() if (key.operation, key.objects_per_session) == (operation, count)
    }
    warmth = temperatures(chosen.values())
    clients = sorted({key.clients for key in chosen})

    def unit(size: int, many: int) -> Unit | None:
        return chosen.get(UnitKey(operation, size, count, many))

    def per_second(size: int, many: int) -> float | None:
        return cell.objects_per_second if (cell := unit(size, many)) else None

    def megabytes(size: int, many: int) -> Cell:
        return number(cell.megabytes_per_second if (cell := unit(size, many)) else None, 2)

    def published(size: int, many: int) -> Cell:
        return number(dr550().improvement(operation, size, count, many), 2)

    kinds: dict[str, Callable[[int, int], Cell]] = {
        "objects/s": lambda size, many: _noted_rate(unit(size, many), per_second(size, many), warmth),
        "MB/s": megabytes,
        "× one client": lambda size, many: number(_ratio(per_second(size, many), per_second(size, 1)), 2),
        "× one client, published": published,
    }
    quoted = {size for size in object_sizes(chosen) if any(published(size, many).number for many in clients)}
    heading = f"Parallel clients, {operation}, {count} objects per session"
    return TableSpec(
        name=f"parallel-{operation}" if series <= len(OPERATIONS) else f"parallel-{operation}-{count}",
        title=f"{heading}, {warmth} data" if operation == "retrieve" else heading,
        columns=_pivot_columns(clients),
        caption=f"Each client has its own session{_repetitions(chosen.values())}. {_amounts(chosen.values())} MB/s:"
        " 10^6 bytes per second."
        + (f" Published: {NAME}, Figure 5, quoted for the smallest and the largest size." if quoted else ""),
        across="clients",
    ).table(
        (size, what, show)
        for size in object_sizes(chosen)
        for what, show in kinds.items()
        if size in quoted or show is not published
    )


def cells_table(results: Sequence[Result], times: StoredTimes = NO_TIMES) -> Table:
    """Return the rate, percentiles and limit of every cell. ``times``: as for ``latency_table``."""
    cells = all_cells(results).values()
    return _CELLS.table((cell, times.over("object_service", cell.results)) for cell in cells)


def _cell_percentile(name: str) -> Column:
    return Column(name, "ms", lambda row: getattr(row[1], name.replace(".", "_"), None), 2)


def _limits(row: tuple[Unit, Latency | None]) -> str:
    """Return what limited the repetitions of a cell, without the advice."""
    return " or ".join(sorted({result.limit or limited_by(result).partition(":")[0] for result in row[0].results}))


_CELLS = TableSpec(
    CELLS,
    "Rates, latency and limits",
    (
        *columns_of(lambda row: row[0], UNIT_COLUMNS),
        Column("", "objects/s", lambda row: rate_cell(row[0], row[0].objects_per_second, 1)),
        Column("", "MB/s", lambda row: row[0].megabytes_per_second, 1),
        *map(_cell_percentile, ("p50", "p99", "p99.9")),
        Column("measured", "s", lambda row: amounts(row[0].results).seconds_min, 1),
        Column("limited by", of=_limits),
    ),
    "Percentiles are of the service times of objects. With repetitions: the median rate, the percentiles over all"
    " repetitions, and the shortest measured time. MB are 10^6 bytes.",
)


def amounts_table(results: Sequence[Result]) -> Table:
    """Return the measured seconds, sessions and objects of every cell."""
    return _AMOUNTS.table(all_cells(results).values())


_AMOUNTS = TableSpec(
    AMOUNTS,
    "What each rate rests on",
    (
        *UNIT_COLUMNS,
        Column("rate", "objects/s", lambda cell: rate_cell(cell, cell.objects_per_second, 2)),
        *UNIT_AMOUNT_COLUMNS,
    ),
    "The measured time, and the complete sessions and the objects in it. With repetitions: the median rate, and the"
    " smallest amounts.",
)


def _amounts(cells: Iterable[Unit]) -> str:
    """Return a sentence with the smallest amounts over all cells of a matrix."""
    least = amounts([result for cell in cells for result in cell.results])
    return (
        f"Each cell was measured for at least {least.seconds_min:,.2f} s, and has at least {least.sessions_min:,}"
        f" session{'' if least.sessions_min == 1 else 's'} and {least.objects_min:,} objects."
    )


def _pivot_columns(counts: Iterable[int]) -> tuple[Column, ...]:
    """Return the columns of rows (size, what, cell by size and count): one for each count."""

    def at(count: int) -> Column:
        return Column(str(count), of=lambda row: row[2](row[0], count))

    return (
        Column("object size", of=lambda row: format_size(row[0]), label=True),
        Column("", of=lambda row: row[1], label=True),
        *map(at, counts),
    )


def _noted_rate(cell: Unit | None, value: float | None, warmth: str) -> Cell:
    """Return a rate of a cell with its grade and doubts, and its cache state if the table has several."""
    if cell is None or value is None:
        return number(None, 2)
    several = cell.key.operation == "retrieve" and " or " in warmth
    return rate_cell(cell, value, 2, *([f"{temperatures([cell])} data"] if several else []))


def _published_notes(cell: PublishedCell, of_paper: bool) -> tuple[str, ...]:
    if cell.contradicted_objects_per_second is not None:
        return (
            "the paper contradicts itself: its objects/s repeat the 500 column and do not match its MB/s;"
            " the MB/s fit its time grid, so Archiver uses them",
        )
    return (cell.unreadable,) if cell.unreadable and not of_paper else ()


def _repetitions(cells: Iterable[Unit]) -> str:
    count = max(len(cell.samples) for cell in cells)
    return f", median of {count} repetitions" if count > 1 else ""


class _Population(NamedTuple):
    """The times of one kind in a cell: by repetition, and merged over all repetitions."""

    cell: Unit
    name: str
    times: list[Latency]
    together: Latency | None  # None: a histogram is missing


def latency_table(results: Sequence[Result], times: StoredTimes = NO_TIMES) -> Table:
    """Return times of objects, session openings and closings, and transactions for every cell, in milliseconds.

    ``times`` has the histograms of repetitions. Without them, cells of several repetitions have no percentiles.
    """
    found = (
        _Population(
            cell,
            name,
            [latency for result in cell.results if (latency := getattr(result, f"{quantity}_ms"))],
            times.over(quantity, cell.results),
        )
        for cell in all_cells(results).values()
        for name, quantity in _POPULATIONS
    )
    return _LATENCY.table(each for each in found if each.times)


def _percentile(name: str) -> Column:
    field = name.replace(".", "_")
    return Column(name, "ms", lambda row: getattr(row.together, field, None), 3)


_POPULATIONS = (
    ("object", "object_service"),
    ("attempt after retries", "attempt"),
    ("reconnect", "reconnect"),
    ("session open", "session_open"),
    ("session close", "session_close"),
    ("lock request", "lock"),
    ("transaction send", "transaction_send"),
    ("transaction commit", "transaction_commit"),
)
_LATENCY = TableSpec(
    "latency",
    "Service times",
    (
        *columns_of(lambda row: row.cell, UNIT_COLUMNS),
        Column("of", of=lambda row: row.name, label=True),
        Column("count", of=lambda row: sum(each.count for each in row.times)),
        *map(_percentile, ("p50", "p90", "p99", "p99.9")),
        Column("max", "ms", lambda row: max(each.max for each in row.times), 3),
    ),
    "Times are from the first request to the last byte. Percentiles over several repetitions are from their merged"
    " histograms.",
)


def error_table(results: Sequence[Result]) -> Table:
    """Return the first failure of each kind, their number, and the number of attempts that were sent again.

    The table has no rows if nothing failed.
    """
    first: dict[tuple[str, str], FirstError] = {}
    for result in sorted(results, key=lambda result: result.position):
        for error in result.first_errors:
            known = first.get((error.operation, error.reason))
            counted = error
            if known is not None:
                counted = replace(known, count=known.count + error.count, retried=known.retried + error.retried)
            first[error.operation, error.reason] = counted
    return _ERRORS.table(first.values())


_ERRORS = TableSpec(
    "errors",
    "Errors: the first of each kind",
    (
        Column("operation", of=lambda error: error.operation, label=True),
        Column("reason", of=lambda error: error.reason, label=True),
        Column("count", of=lambda error: error.count),
        Column("retried", of=lambda error: error.retried),
        Column("message", of=lambda error: in_short(error.message) or NOT_MEASURED, words=True),
        Column("request id", of=lambda error: error.request_id or NOT_MEASURED, words=True),
        Column("object", of=lambda error: error.object_name or NOT_MEASURED, words=True),
    ),
)


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base
