"""The tables of a run: the paper's Figures 9, 10 and 5 with its values beside ours, and what explains them.

One idea: a table is a plain value. Cells carry a text for people, the number behind it for programs and the
notes that qualify it; letters for footnotes, alignment and file formats are the business of ``results.text``.
Every table shows only what was measured, so that a quick run gives small tables and not empty ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from archiver.errors import ResultsError
from archiver.sizes import format_size
from results.matrix import (
    CellKey,
    MatrixCell,
    Quantity,
    columns,
    matrix_cells,
    parallel_cells,
    sizes,
    temperature,
)
from results.model import FirstError, Latency, Result
from results.published import NAME, PublishedCell, dr550, megabytes_in_the_papers_unit
from results.session_time import fit_session_time

OPERATIONS = ("archive", "retrieve")
NOT_MEASURED = "–"

_SETUP_AT_ZERO = "set-up held at 0: the free fit was negative"
_TWO_POINTS = "two columns only: the line passes through both and leaves no residual"


@dataclass(frozen=True, slots=True)
class Cell:
    """``text`` for people, ``number`` for programs (None: only text), ``notes`` that qualify it."""

    text: str
    number: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A heading: what, and in which unit. The leading ``label`` columns name the rows."""

    name: str
    unit: str = ""
    label: bool = False
    words: bool = False  # set flush left and wrapped where it is long


@dataclass(frozen=True, slots=True)
class Table:
    name: str  # of its file: archive-objects-per-second
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    across: str = ""  # what the headings of the number columns count: "objects per session"

    @property
    def notes(self) -> tuple[str, ...]:
        """Every note once, in the order in which a reader meets them."""
        return tuple(dict.fromkeys(note for row in self.rows for cell in row for note in cell.notes))


def build_tables(results: Sequence[Result]) -> list[Table]:
    """Every table that these results can fill, in the order of the report.

    Raises ResultsError if there are no results, or results of one cell under different settings.
    """
    measured = matrix_cells(results)
    tables = []
    for operation in OPERATIONS:
        if any(key.operation == operation for key in measured):
            tables.append(rate_table(results, operation, "objects_per_second"))
            tables.append(rate_table(results, operation, "megabytes_per_second"))
    tables += parallel_tables(results)
    tables += [
        session_time_table(results),
        latency_table(results),
        resource_table(results),
        error_table(results),
    ]
    return [table for table in tables if table.rows]


def rate_table(results: Sequence[Result], operation: str, quantity: Quantity) -> Table:
    """The form of the paper's Figure 9 (objects/s) or 10 (MB/s), one client: measured, published, ratio.

    Both sides of an MB/s ratio are in the paper's unit, objects/s x KiB / 1000.
    """
    of_paper = quantity == "megabytes_per_second"
    cells = {key: cell for key, cell in matrix_cells(results).items() if key.operation == operation}
    if not cells:
        raise ResultsError(f"this run measured no {operation} with one client")
    warmth = temperature(cells.values())
    rows = []
    for size in sizes(cells):
        measured, published, ratio = [], [], []
        for count in columns(cells):
            cell = cells.get(CellKey(operation, size, count, 1))
            theirs = dr550().cells.get((operation, size, count))
            ours = None
            if cell:
                ours = cell.objects_per_second
                ours = megabytes_in_the_papers_unit(ours, size) if of_paper else ours
            measured.append(_number(ours, 2, _rate_notes(cell, warmth) if cell else ()))
            base = getattr(theirs, quantity) if theirs and cell else None
            published.append(_number(base, 2, _published_notes(theirs, of_paper) if theirs and cell else ()))
            ratio.append(_number(_ratio(ours, base), 2))
        label = Cell(format_size(size))
        rows.append((label, Cell("measured"), *measured))
        if any(cell.estimate.low is not None for cell in cells.values()):
            spreads = [cells.get(CellKey(operation, size, count, 1)) for count in columns(cells)]
            rows.append((label, Cell("95% within"), *(_interval(cell) for cell in spreads)))
        rows += [
            (label, Cell("published"), *published),
            (label, Cell("ratio"), *ratio),
        ]
    heading = f"{operation.capitalize()}: {'MB/s in the unit of the paper' if of_paper else 'objects/s'}"
    unit_note = " MB/s on both sides is objects/s x KiB / 1000." if of_paper else ""
    repeated = max(len(cell.repetitions) for cell in cells.values())
    return Table(
        name=f"{operation}-{quantity.replace('_', '-')}",
        title=f"{heading}, {warmth} data" if operation == "retrieve" else heading,
        columns=(*_labels("object size", ""), *(Column(str(count)) for count in columns(cells))),
        rows=tuple(rows),
        caption=f"One client{_repetitions(repeated)}. Published: {NAME}, Figure {10 if of_paper else 9};"
        f" ratio: measured / published.{unit_note}",
        across="objects per session",
    )


def parallel_tables(results: Sequence[Result]) -> list[Table]:
    """The paper's Figure 5: one table per operation and objects per session, columns the parallel clients."""
    cells = parallel_cells(results)
    series = sorted({(key.operation, key.objects_per_session) for key in cells})
    return [_parallel_table(cells, operation, count, len(series)) for operation, count in series]


def session_time_table(results: Sequence[Result]) -> Table:
    """T = a + b n per operation and size, ours beside the fit of the paper's own row."""
    cells = matrix_cells(results)
    rows = []
    for (operation, size), group in groupby(cells.values(), key=lambda cell: cell.key[:2]):
        rates = {cell.key.objects_per_session: cell.objects_per_second for cell in group}
        labels = (Cell(operation), Cell(format_size(size)))
        rows.append((*labels, Cell("measured"), *_fit_cells(rates)))
        published = dr550().rates(operation, size)
        if published:
            rows.append((*labels, Cell("published"), *_fit_cells(published)))
    return Table(
        name="session-time",
        title="Session time: T = a + b x objects",
        columns=(
            *_labels("operation", "object size", ""),
            Column("set-up a", "ms"),
            Column("marginal b", "ms/object"),
            Column("half ceiling at a/b", "objects/session"),
            Column("ceiling 1/b", "objects/s"),
            Column("worst residual", "%"),
        ),
        rows=tuple(rows),
        caption="One client. Least squares weighted by 1/T² over the columns measured; a residual is a share"
        " of its own session time. At a/b objects per session half the ceiling rate is reached. Published:"
        f" {NAME}, its seven columns fitted alike.",
    )


def latency_table(results: Sequence[Result]) -> Table:
    """Service times of objects, session openings and closings, and transactions for every cell, in milliseconds."""
    rows = []
    for cell in _all_cells(results):
        for name, population in _POPULATIONS:
            latencies = [latency for result in cell.repetitions if (latency := population(result))]
            if latencies:
                rows.append((*_key_labels(cell.key), Cell(name), *_latency_cells(latencies)))
    return Table(
        name="latency",
        title="Service times",
        columns=(
            *_labels("operation", "object size", "objects/session", "clients", "of"),
            Column("count"),
            *(Column(name, "ms") for name in ("p50", "p90", "p99", "p99.9", "max")),
        ),
        rows=tuple(rows),
        caption="From sent to done. With repetitions: the sum of their counts, the median of each percentile"
        " and the largest maximum.",
    )


def resource_table(results: Sequence[Result]) -> Table:
    """What server and client spent per operation, size and clients: means over the seconds, bytes summed."""
    cells = sorted(_all_cells(results), key=_without_columns)
    rows = []
    for (operation, size, clients), group in groupby(cells, key=_without_columns):
        chosen = [result for cell in group for result in cell.repetitions]
        labels = (Cell(operation), Cell(format_size(size)), _number(clients, 0))
        rows.append((*labels, *_resource_cells(chosen)))
    return Table(
        name="resource-usage",
        title="Resource usage",
        columns=(
            *_labels("operation", "object size", "clients"),
            *(Column(name, "%") for name in ("server CPU", "host CPU", "busiest core", "disk busy")),
            Column("disk read", "MB"),
            Column("disk written", "MB"),
            Column("network", "MB/s"),
            Column("client CPU", "µs/object"),
            Column("limited by", words=True),
        ),
        rows=tuple(rows),
        caption="During the measured time, all objects per session together. 100% of server CPU is one core;"
        " MB are 10^6 bytes; the network is every interface but loopback.",
    )


def error_table(results: Sequence[Result]) -> Table:
    """The first failure of each kind and how many there were; no rows where nothing failed."""
    first: dict[tuple[str, str], FirstError] = {}
    counts = Counter[tuple[str, str]]()
    for result in sorted(results, key=lambda result: result.position):
        for error in result.first_errors:
            first.setdefault((error.operation, error.reason), error)
            counts[error.operation, error.reason] += error.count
    return Table(
        name="errors",
        title="Errors: the first of each kind",
        columns=(
            *_labels("operation", "reason"),
            Column("count"),
            *(Column(name, words=True) for name in ("message", "request id", "object")),
        ),
        rows=tuple(
            (
                Cell(error.operation),
                Cell(error.reason),
                _number(counts[kind], 0),
                *(Cell(text or NOT_MEASURED) for text in (error.message, error.request_id, error.object_name)),
            )
            for kind, error in first.items()
        ),
    )


def beside_table(
    results: Sequence[Result], others: Sequence[Result], names: tuple[str, str], runs: tuple[str, str]
) -> Table:
    """Objects/s of two runs for every cell that both measured; ``names`` head their columns, ``runs`` are their ids.

    Raises ResultsError where they have no cell in common.
    """
    ours, theirs = ({cell.key: cell for cell in _all_cells(each)} for each in (results, others))
    rows = []
    for key in sorted(ours.keys() & theirs.keys()):
        pair = (ours[key].objects_per_second, theirs[key].objects_per_second)
        notes = (_rate_notes(ours[key], ""), _rate_notes(theirs[key], ""))
        cells = [_number(rate, 2, note) for rate, note in zip(pair, notes, strict=True)]
        rows.append((*_key_labels(key), *cells, _number(_ratio(*pair), 2)))
    if not rows:
        raise ResultsError(f"runs {runs[0]} and {runs[1]} have no cell in common to be put side by side")
    heads = names if names[0] != names[1] else runs
    return Table(
        name="beside",
        title=f"Side by side: {heads[0]} and {heads[1]}, objects/s",
        columns=(
            *_labels("operation", "object size", "objects/session", "clients"),
            *(Column(head, "objects/s") for head in heads),
            Column("ratio"),
        ),
        rows=tuple(rows),
        caption=f"Cells that both runs measured: {runs[0]} and {runs[1]}. Ratio: {heads[0]} / {heads[1]}.",
    )


_POPULATIONS: tuple[tuple[str, Callable[[Result], Latency | None]], ...] = (
    ("object", lambda result: result.object_service_ms),
    ("session open", lambda result: result.session_open_ms),
    ("session close", lambda result: result.session_close_ms),
    ("transaction send", lambda result: result.transaction_send_ms),
    ("transaction commit", lambda result: result.transaction_commit_ms),
)


def _parallel_table(cells: dict[CellKey, MatrixCell], operation: str, count: int, series: int) -> Table:
    chosen = {
        key: cell for key, cell in cells.items() if (key.operation, key.objects_per_session) == (operation, count)
    }
    warmth = temperature(chosen.values())
    clients = sorted({key.clients for key in chosen})
    rows: list[tuple[Cell, ...]] = []
    quoted = False
    for size in sizes(chosen):
        row = [chosen.get(CellKey(operation, size, count, number)) for number in clients]
        alone = chosen.get(CellKey(operation, size, count, 1))
        base = alone.objects_per_second if alone else None
        notes = [_rate_notes(cell, warmth) if cell else () for cell in row]
        rates = [cell.objects_per_second if cell else None for cell in row]
        megabytes = [cell.megabytes_per_second if cell else None for cell in row]
        published = [dr550().improvement(operation, size, count, number) for number in clients]
        label = Cell(format_size(size))
        rows.append((label, Cell("objects/s"), *map(_number, rates, [2] * len(row), notes)))
        rows.append((label, Cell("MB/s"), *(_number(value, 2) for value in megabytes)))
        rows.append((label, Cell("× one client"), *(_number(_ratio(rate, base), 2) for rate in rates)))
        if any(published):
            quoted = True
            rows.append((label, Cell("× published"), *(_number(value, 2) for value in published)))
    heading = f"Parallel clients, {operation}, {count} objects per session"
    repeated = max(len(cell.repetitions) for cell in chosen.values())
    return Table(
        name=f"parallel-{operation}" if series <= len(OPERATIONS) else f"parallel-{operation}-{count}",
        title=f"{heading}, {warmth} data" if operation == "retrieve" else heading,
        columns=(*_labels("object size", ""), *(Column(str(number)) for number in clients)),
        rows=tuple(rows),
        caption=f"Each client has its own session{_repetitions(repeated)}. MB/s: 10^6 bytes per second."
        + (f" Published: {NAME}, Figure 5, quoted for the smallest and the largest size." if quoted else ""),
        across="clients",
    )


def _fit_cells(rates: dict[int, float]) -> tuple[Cell, ...]:
    try:
        fit = fit_session_time(rates)
    except ResultsError as error:
        return Cell(NOT_MEASURED, None, (str(error),)), *[Cell(NOT_MEASURED)] * 4
    meaningful = len(fit.residuals_percent) > 2
    return (
        _number(fit.setup_ms, 2, (_SETUP_AT_ZERO,) if fit.setup_at_zero else ()),
        _number(fit.marginal_ms, 3),
        _number(fit.objects_for_half_the_ceiling_rate, 1),
        _number(fit.ceiling_objects_per_second, 1),
        _number(fit.worst_residual_percent if meaningful else None, 1, () if meaningful else (_TWO_POINTS,)),
    )


def _latency_cells(latencies: Sequence[Latency]) -> tuple[Cell, ...]:
    return (
        _number(sum(latency.count for latency in latencies), 0),
        *(
            _number(median(getattr(latency, name) for latency in latencies), 3)
            for name in ("p50", "p90", "p99", "p99_9")
        ),
        _number(max(latency.max for latency in latencies), 3),
    )


def _resource_cells(results: Sequence[Result]) -> tuple[Cell, ...]:
    def sampled(name: str) -> list[tuple[float, float]]:
        pairs = [(result.seconds, getattr(result.server, name, None)) for result in results]
        return [(seconds, value) for seconds, value in pairs if value is not None]

    def megabytes(name: str) -> float | None:
        amounts = [amount for _, amount in sampled(name)]
        return sum(amounts) / 1e6 if amounts else None

    spent = [
        (float(result.objects), result.client.cpu_microseconds_per_object)
        for result in results
        if result.client.cpu_microseconds_per_object is not None
    ]
    percents = ("cpu_percent", "host_cpu_percent", "busiest_core_percent", "disk_busy_percent")
    return (
        *(_number(_weighted_mean(sampled(name)), 0) for name in percents),
        _number(megabytes("disk_read_bytes"), 1),
        _number(megabytes("disk_write_bytes"), 1),
        _number(_weighted_mean(sampled("network_megabytes_per_second")), 2),
        _number(_weighted_mean(spent), 1),
        Cell(_limits(results)),
    )


def _limits(results: Sequence[Result]) -> str:
    """``server cpu 5/7``: which limits were met, and in how many of the results."""
    limits = Counter(result.limited_by for result in results if result.limited_by)
    named = sorted(limits.items(), key=lambda item: (-item[1], item[0]))
    shares = ("" if count == len(results) else f" {count}/{len(results)}" for _, count in named)
    return ", ".join(name + share for (name, _), share in zip(named, shares, strict=True)) or NOT_MEASURED


def _rate_notes(cell: MatrixCell, warmth: str) -> tuple[str, ...]:
    """The doubts of a cell, and which of several temperatures was its own."""
    if cell.key.operation != "retrieve" or " or " not in warmth:
        return cell.doubts
    return (*cell.doubts, f"{temperature([cell])} data")


def _published_notes(cell: PublishedCell, of_paper: bool) -> tuple[str, ...]:
    if cell.contradicted_objects_per_second is not None:
        return (
            "the paper contradicts itself: its objects/s repeat the 500 column and do not give its MB/s;"
            " the MB/s fit its time grid and are taken as right",
        )
    if cell.derived and not of_paper:
        return ("illegible in the paper; follows from its MB/s",)
    return ()


def _all_cells(results: Sequence[Result]) -> list[MatrixCell]:
    return [cell for _, cell in sorted({**parallel_cells(results), **matrix_cells(results)}.items())]


def _without_columns(cell: MatrixCell) -> tuple[str, int, int]:
    return cell.key.operation, cell.key.object_bytes, cell.key.clients


def _labels(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, label=True) for name in names)


def _key_labels(key: CellKey) -> tuple[Cell, ...]:
    return (
        Cell(key.operation),
        Cell(format_size(key.object_bytes)),
        _number(key.objects_per_session, 0),
        _number(key.clients, 0),
    )


def _number(value: float | None, decimals: int, notes: tuple[str, ...] = ()) -> Cell:
    return Cell(NOT_MEASURED, None, notes) if value is None else Cell(f"{value:,.{decimals}f}", value, notes)


def _interval(cell: MatrixCell | None) -> Cell:
    """How far the 95% interval reaches from the median, the farther side, in percent."""
    found = cell.estimate if cell else None
    if found is None or found.low is None or found.high is None or not found.median:
        return Cell(NOT_MEASURED)
    reach = max(found.high / found.median - 1, 1 - found.low / found.median) * 100
    return Cell(f"±{reach:,.0f}%", reach)


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _weighted_mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    weight = sum(weight for weight, _ in pairs)
    return sum(weight * value for weight, value in pairs) / weight if weight else None


def _repetitions(count: int) -> str:
    return f", median of {count} repetitions" if count > 1 else ""
