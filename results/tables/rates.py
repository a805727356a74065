"""The tables of a run: the paper's Figures 9, 10 and 5 with its values beside ours, and what explains them.

One idea: every table shows only what was measured, so that a quick run gives small tables and not empty ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from statistics import median

from archiver.values.errors import ResultsError
from archiver.values.sizes import format_size
from results.model import FirstError, Latency, Result, ServerUsage, Utilisation
from results.published import NAME, PublishedCell, dr550, megabytes_in_the_papers_unit
from results.resources import CLIENT, QUANTITIES, Spread, Timeline
from results.table import KEY_COLUMNS, NOT_MEASURED, Cell, Column, Table, filled, interval, label_columns, number
from results.tables.lock_cost import life_cycle_table, lock_cost_table
from results.tables.requests import SHARE_IN_TIME
from results.tables.session_time import fit_session_time
from results.tables.watched import NOTHING_WATCHED, Watched
from results.units import (
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

OPERATIONS = ("archive", "retrieve")
SERVER_RESOURCES = "server-resources"  # the name of the long one

_SETUP_AT_ZERO = "set-up held at 0: the free fit was negative"
_TWO_POINTS = "two columns only: the line passes through both and leaves no residual"
_BUSY_ONLY = "busy time proves no saturation: a device that takes many requests at once is busy long before it is full"
_OTHERS_SHOWN = 3  # resources beside the one nearest to full
_BEARS_MAX = 100  # times the load; nobody should be told more of what was hardly used


def build_tables(results: Sequence[Result], watched: Watched = NOTHING_WATCHED) -> list[Table]:
    """Every table that these results, and what was watched of their server, can fill, in the order of the report.

    Raises ResultsError if there are no results, or results of one cell under different settings.
    """
    if not results:
        raise ResultsError(NO_RESULTS)
    measured = single_cells(results)
    tables = []
    for operation in OPERATIONS:
        if any(key.operation == operation for key in measured):
            tables.append(rate_table(results, operation, "objects_per_second"))
            tables.append(rate_table(results, operation, "megabytes_per_second"))
    tables += parallel_tables(results)
    tables += [
        lock_cost_table(results),
        life_cycle_table(results),
        session_time_table(results),
        latency_table(results),
        resource_table(results),
        limits_table(results),
        per_object_table(results),
        server_resources_table(watched),
        requests_table(watched),
        error_table(results),
    ]
    return [table for table in tables if table.rows]


def rate_table(results: Sequence[Result], operation: str, quantity: Quantity) -> Table:
    """The form of the paper's Figure 9 (objects/s) or 10 (MB/s), one client: measured, published, ratio.

    Both sides of an MB/s ratio are in the paper's unit, objects/s x KiB / 1000.
    """
    of_paper = quantity == "megabytes_per_second"
    cells = {key: cell for key, cell in single_cells(results).items() if key.operation == operation}
    if not cells:
        raise ResultsError(f"this run measured no {operation} with one client")
    warmth = temperatures(cells.values())
    rows = []
    for size in object_sizes(cells):
        measured, published, ratio = [], [], []
        for count in session_lengths(cells):
            cell = cells.get(UnitKey(operation, size, count, 1))
            theirs = dr550().cells.get((operation, size, count))
            ours = None
            if cell:
                ours = cell.objects_per_second
                ours = megabytes_in_the_papers_unit(ours, size) if of_paper else ours
            shown = number(ours, 2, _rate_notes(cell, warmth) if cell else ())
            measured.append(replace(shown, of=cell.key if cell else None))
            base = getattr(theirs, quantity) if theirs and cell else None
            published.append(number(base, 2, _published_notes(theirs, of_paper) if theirs and cell else ()))
            ratio.append(number(_ratio(ours, base), 2))
        label = Cell(format_size(size))
        rows.append((label, Cell("measured"), *measured))
        if any(cell.estimate.low is not None for cell in cells.values()):
            spreads = [cells.get(UnitKey(operation, size, count, 1)) for count in session_lengths(cells)]
            rows.append((label, Cell("95% within"), *(interval(cell) for cell in spreads)))
        rows += [
            (label, Cell("published"), *published),
            (label, Cell("ratio"), *ratio),
        ]
    heading = f"{operation.capitalize()}: {'MB/s in the unit of the paper' if of_paper else 'objects/s'}"
    unit_note = " MB/s on both sides is objects/s x KiB / 1000." if of_paper else ""
    repeated = max(len(cell.samples) for cell in cells.values())
    return Table(
        name=f"{operation}-{quantity.replace('_', '-')}",
        title=f"{heading}, {warmth} data" if operation == "retrieve" else heading,
        columns=(*label_columns("object size", ""), *(Column(str(count)) for count in session_lengths(cells))),
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
    cells = single_cells(results)
    rows = []
    plain = [cell for cell in cells.values() if cell.key.operation in OPERATIONS]
    for (operation, size), group in groupby(plain, key=lambda cell: cell.key[:2]):
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
            *label_columns("operation", "object size", ""),
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
    for cell in all_cells(results).values():
        for name, population in _POPULATIONS:
            latencies = [latency for result in cell.results if (latency := population(result))]
            if latencies:
                rows.append((*filled(KEY_COLUMNS, cell.key), Cell(name), *_latency_cells(latencies)))
    return Table(
        name="latency",
        title="Service times",
        columns=(
            *label_columns("operation", "object size", "objects/session", "clients", "of"),
            Column("count"),
            *(Column(name, "ms") for name in ("p50", "p90", "p99", "p99.9", "max")),
        ),
        rows=tuple(rows),
        caption="From the first request of each to its last byte. With repetitions: the sum of their counts, the median"
        " of each percentile and the largest maximum.",
    )


def resource_table(results: Sequence[Result]) -> Table:
    """What server and client spent per operation, size and clients: means over the seconds, bytes summed."""
    rows = [(*labels, *_resource_cells(chosen)) for labels, chosen in _groups(results)]
    return _without_empty_columns(
        Table(
            name="resource-usage",
            title="Resource usage",
            columns=(
                *_GROUP_LABELS,
                *(Column(name, "%") for name, _ in _PERCENTAGES),
                Column("disk read", "MB"),
                Column("disk written", "MB"),
                Column("network", "MB/s"),
                Column("client CPU", "µs/object"),
            ),
            rows=tuple(rows),
            caption="During the measured time, all objects per session together. 100% of server CPU is one core; a"
            " thread is busy while it has a core, or could use one and has none; MB are 10^6 bytes. Disks are those"
            " that hold the store's data, where it is known which they are; busy: the busiest of them, and all of them"
            " added. Network: loopback where the client is on the server's machine, else every other interface, both"
            " directions.",
        )
    )


def limits_table(results: Sequence[Result]) -> Table:
    """Which resource is nearest to full, how much more load the others bear, and how sure that is."""
    return Table(
        name="limits",
        title="What limits",
        columns=(
            *_GROUP_LABELS,
            Column("limited by", words=True),
            Column("nearest to full", words=True),
            Column("share", "%"),
            Column("the next: the load each bears", words=True),
            Column("confidence", words=True),
        ),
        rows=tuple((*labels, *_limit_cells(chosen)) for labels, chosen in _groups(results)),
        caption="A result is limited by the resource that is nearest to full, by a measure that shows when it is full;"
        " by the client before all others. Shares are means over the seconds; by the utilisation law what is used to a"
        f" share U bears 1/U times the load, and at least that where U is only busy time. Published, {NAME}:"
        f" {'; '.join(dr550().resources.conclusions)}.",
    )


def per_object_table(results: Sequence[Result]) -> Table:
    """What the server spent on one object, or on one byte of one."""
    return _without_empty_columns(
        Table(
            name="per-object",
            title="Per object",
            columns=(*_GROUP_LABELS, *(column for column, _ in _PER_OBJECT)),
            rows=tuple(
                (*labels, *(number(value(chosen), _DECIMALS_PER_OBJECT) for _, value in _PER_OBJECT))
                for labels, chosen in _groups(results)
            ),
            caption="During the measured time. Server CPU: of the store's processes, or of its host where only that was"
            " watched. Device written: by all disks that hold the store's data, whatever else writes there included."
            " From cache: what no device had to read of the bytes retrieved. Catalogue, segments, syncs: as the store"
            " counts them.",
        )
    )


def server_resources_table(watched: Watched) -> Table:
    """Everything that every source said, per phase: long, for programs."""
    rows: list[tuple[Cell, ...]] = []
    for phase in watched.phases:
        measured = phase.measured_from_ns, phase.measured_to_ns
        for source, timeline in {**watched.timelines, CLIENT: watched.client}.items():
            for quantity, item, spread in _spreads(timeline, *measured):
                unit, factor = _unit_of(quantity)
                labels = (Cell(phase.label), Cell(source), Cell(quantity), Cell(item), Cell(unit))
                rows.append((number(phase.position, 0), *labels, *(number(value * factor, 3) for value in spread)))
    return Table(
        name=SERVER_RESOURCES,
        title="Server resources, phase by phase",
        columns=(
            *label_columns("position", "phase", "source", "quantity", "item", "unit"),
            *(Column(name) for name in Spread._fields),
        ),
        rows=tuple(rows),
        caption="During the measured time of each phase, from sample to sample: of a counter its rate. Of the threads"
        " only the busiest. Source client: the client's host, where the server runs on another.",
    )


def requests_table(watched: Watched) -> Table:
    """What the server counted beside what the client sent, and the time to the first byte on both sides."""
    return _without_empty_columns(
        Table(
            name="requests",
            title="Requests: counted by the server, sent by the client",
            columns=(
                *label_columns("operation"),
                Column("counted"),
                Column("sent"),
                Column("difference"),
                Column("verdict", words=True),
                Column("first byte within", "ms"),
                Column("server", "%"),
                Column("client", "%"),
            ),
            rows=tuple(
                (
                    Cell(each.operation),
                    number(each.counted, 0),
                    number(each.sent, 0),
                    number(each.difference, 0),
                    Cell(NOT_MEASURED if each.difference is None else "differ" if each.difference else "agree"),
                    number(_times(each.first_byte_seconds_max, 1000), 0),
                    number(_times(each.server_first_byte_share, 100), 2),
                    number(_times(each.client_first_byte_share, 100), 2),
                )
                for each in watched.requests
            ),
            caption="Of the whole run, warm-up, drain and what failed included. First byte: the least of the server's"
            f" bounds within which it answered {SHARE_IN_TIME:.0%} of its requests, and the share of requests within it"
            " as the server and as the client saw them, in the measured time.",
        )
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
            *label_columns("operation", "reason"),
            Column("count"),
            *(Column(name, words=True) for name in ("message", "request id", "object")),
        ),
        rows=tuple(
            (
                Cell(error.operation),
                Cell(error.reason),
                number(counts[kind], 0),
                *(Cell(text or NOT_MEASURED) for text in (error.message, error.request_id, error.object_name)),
            )
            for kind, error in first.items()
        ),
    )


_POPULATIONS: tuple[tuple[str, Callable[[Result], Latency | None]], ...] = (
    ("object", lambda result: result.object_service_ms),
    ("attempt after retries", lambda result: result.attempt_ms),
    ("reconnect", lambda result: result.reconnect_ms),
    ("session open", lambda result: result.session_open_ms),
    ("session close", lambda result: result.session_close_ms),
    ("lock request", lambda result: result.lock_ms),
    ("transaction send", lambda result: result.transaction_send_ms),
    ("transaction commit", lambda result: result.transaction_commit_ms),
)


def _parallel_table(cells: dict[UnitKey, Unit], operation: str, count: int, series: int) -> Table:
    chosen = {
        key: cell for key, cell in cells.items() if (key.operation, key.objects_per_session) == (operation, count)
    }
    warmth = temperatures(chosen.values())
    clients = sorted({key.clients for key in chosen})
    rows: list[tuple[Cell, ...]] = []
    quoted = False
    for size in object_sizes(chosen):
        row = [chosen.get(UnitKey(operation, size, count, many)) for many in clients]
        alone = chosen.get(UnitKey(operation, size, count, 1))
        base = alone.objects_per_second if alone else None
        notes = [_rate_notes(cell, warmth) if cell else () for cell in row]
        rates = [cell.objects_per_second if cell else None for cell in row]
        megabytes = [cell.megabytes_per_second if cell else None for cell in row]
        published = [dr550().improvement(operation, size, count, many) for many in clients]
        label = Cell(format_size(size))
        shown = map(number, rates, [2] * len(row), notes)
        keys = [cell.key if cell else None for cell in row]
        rows.append((label, Cell("objects/s"), *(replace(each, of=key) for each, key in zip(shown, keys, strict=True))))
        rows.append((label, Cell("MB/s"), *(number(value, 2) for value in megabytes)))
        rows.append((label, Cell("× one client"), *(number(_ratio(rate, base), 2) for rate in rates)))
        if any(published):
            quoted = True
            rows.append((label, Cell("× published"), *(number(value, 2) for value in published)))
    heading = f"Parallel clients, {operation}, {count} objects per session"
    repeated = max(len(cell.samples) for cell in chosen.values())
    return Table(
        name=f"parallel-{operation}" if series <= len(OPERATIONS) else f"parallel-{operation}-{count}",
        title=f"{heading}, {warmth} data" if operation == "retrieve" else heading,
        columns=(*label_columns("object size", ""), *(Column(str(many)) for many in clients)),
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
        number(fit.setup_ms, 2, (_SETUP_AT_ZERO,) if fit.setup_at_zero else ()),
        number(fit.marginal_ms, 3),
        number(fit.objects_for_half_the_ceiling_rate, 1),
        number(fit.ceiling_objects_per_second, 1),
        number(fit.worst_residual_percent if meaningful else None, 1, () if meaningful else (_TWO_POINTS,)),
    )


def _latency_cells(latencies: Sequence[Latency]) -> tuple[Cell, ...]:
    return (
        number(sum(latency.count for latency in latencies), 0),
        *(
            number(median(getattr(latency, name) for latency in latencies), 3)
            for name in ("p50", "p90", "p99", "p99_9")
        ),
        number(max(latency.max for latency in latencies), 3),
    )


_GROUP_LABELS = (Column("operation", label=True), Column("object size", label=True), Column("clients", label=True))


def _groups(results: Sequence[Result]) -> Iterator[tuple[tuple[Cell, ...], list[Result]]]:
    """Labels and results per operation, size and clients, all objects per session and repetitions together."""
    cells = sorted(all_cells(results).values(), key=_without_columns)
    for (operation, size, clients), group in groupby(cells, key=_without_columns):
        labels = (Cell(operation), Cell(format_size(size)), number(clients, 0))
        yield labels, [result for cell in group for result in cell.results]


def _resource_cells(results: Sequence[Result]) -> tuple[Cell, ...]:
    watched = [(result.seconds, result.server) for result in results if result.server is not None]

    def mean(of: Callable[[ServerUsage], float | None]) -> float | None:
        return _weighted_mean([(seconds, value) for seconds, server in watched if (value := of(server)) is not None])

    def megabytes(of: Callable[[ServerUsage], float | None]) -> float | None:
        amounts = [amount for _, server in watched if (amount := of(server)) is not None]
        return sum(amounts) / 1e6 if amounts else None

    spent = [
        (float(result.objects), result.client.cpu_microseconds_per_object)
        for result in results
        if result.client.cpu_microseconds_per_object is not None
    ]
    return (
        *(number(mean(of), 0) for _, of in _PERCENTAGES),
        number(megabytes(lambda server: server.disk_read_bytes), 1),
        number(megabytes(lambda server: server.disk_write_bytes), 1),
        number(mean(lambda server: server.network_megabytes_per_second), 2),
        number(_weighted_mean(spent), 1),
    )


def _all_disks_busy(server: ServerUsage) -> float | None:
    """The sum over the disks that hold the store's data; None where that is the busiest one's and no more."""
    with_role = [disk for disk in server.disks if disk.role]
    busy = [disk.busy_percent for disk in with_role or server.disks if disk.busy_percent is not None]
    return sum(busy) if len(busy) > 1 else None


_PERCENTAGES: tuple[tuple[str, Callable[[ServerUsage], float | None]], ...] = (
    ("server CPU", lambda server: server.cpu_percent),
    ("busiest thread", lambda server: server.busiest_thread_percent),
    ("busiest core", lambda server: server.busiest_core_percent),
    ("host CPU", lambda server: server.host_cpu_percent),
    ("disk busy", lambda server: server.disk_busy_percent),
    ("all disks busy", _all_disks_busy),
)


def _limit_cells(results: Sequence[Result]) -> tuple[Cell, ...]:
    limited_by = Cell(_kinds(_limited_by(result) for result in results))
    confidence = _confidence([result.confidence for result in results if result.confidence is not None])
    used = _mean_utilisations(results)
    if not used:
        return limited_by, Cell(NOT_MEASURED), Cell(NOT_MEASURED), Cell(NOT_MEASURED), confidence
    nearest, *others = used
    return (
        limited_by,
        Cell(f"{nearest.resource}: {nearest.by}", None, () if nearest.decisive else (_BUSY_ONLY,)),
        number(nearest.share * 100, 0),
        Cell("; ".join(map(_bears, others[:_OTHERS_SHOWN])) or NOT_MEASURED),
        confidence,
    )


def _limited_by(result: Result) -> str:
    judged = any(each.decisive and each.resource != "client" for each in result.utilisations)
    if result.limited_by is None and not judged:
        return "not known: the server was not watched"
    return result.limited_by or "nothing: latency, add clients"


def _kinds(words: Iterable[str]) -> str:
    """``server cpu 5/7; client 2/7``: the most frequent first; no numbers where all are one."""
    counts = Counter(words)
    if len(counts) == 1:
        return next(iter(counts))
    named = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return "; ".join(f"{word} {count}/{counts.total()}" for word, count in named)


def _confidence(words: Sequence[str]) -> Cell:
    """The lowest of several (``low: why``) and how many are as low; its most frequent reason is a note."""
    for level in ("low", "medium", "high"):
        reasons = Counter(word.partition(": ")[2] for word in words if word.partition(":")[0] == level)
        if reasons:
            share = "" if reasons.total() == len(words) else f" {reasons.total()}/{len(words)}"
            reason = reasons.most_common(1)[0][0]
            return Cell(level + share, None, (reason,) if reason else ())
    return Cell(NOT_MEASURED)


def _mean_utilisations(results: Sequence[Result]) -> list[Utilisation]:
    """Of each resource: the mean over the seconds, by the measure that most cells were judged by; fullest first."""
    found: dict[str, list[tuple[float, Utilisation]]] = {}
    for result in results:
        for each in result.utilisations:
            found.setdefault(each.resource, []).append((result.seconds, each))
    means = []
    for resource, each_cell in found.items():
        # A disk's queue is told with its measure; it is every cell's own.
        measures = Counter((each.by.partition(", queue")[0], each.decisive) for _, each in each_cell)
        by, decisive = measures.most_common(1)[0][0]
        share = _weighted_mean([(seconds, each.share) for seconds, each in each_cell])
        means.append(Utilisation(resource, by, share or 0.0, decisive))
    return sorted(means, key=lambda each: -each.share)


def _bears(used: Utilisation) -> str:
    """``network eth0 5%: 20×``, of its load; ``disk vda busy 10%: ≥10×`` where the measure proves no more."""
    said = f"{used.resource} {'' if used.decisive else 'busy '}{used.share:.0%}"
    if used.share <= 0:
        return said
    times = 1 / used.share
    bears = f"over {_BEARS_MAX}×" if times > _BEARS_MAX else f"{times:.1f}×" if times < 10 else f"{times:.0f}×"
    return f"{said}: {bears if used.decisive or times > _BEARS_MAX else '≥' + bears}"


def _per_object(of: Callable[[ServerUsage], float | None]) -> Callable[[Sequence[Result]], float | None]:
    """The mean of what is per object already."""
    return lambda results: _weighted_mean(
        [(r.objects, value) for r in results if r.server is not None and (value := of(r.server)) is not None]
    )


def _per_byte(of: Callable[[ServerUsage], float | None]) -> Callable[[Sequence[Result]], float | None]:
    """The mean of what is per byte already."""
    return lambda results: _weighted_mean(
        [(r.bytes, value) for r in results if r.server is not None and (value := of(r.server)) is not None]
    )


def _total(
    of: Callable[[ServerUsage], float | None], over: Callable[[Result], int]
) -> Callable[[Sequence[Result]], float | None]:
    """What was counted over all results, per object or byte of theirs. Only archiving: retrieving writes nothing."""

    def quotient(results: Sequence[Result]) -> float | None:
        counted = [
            (value, over(r))
            for r in results
            if r.operation == "archive" and r.server is not None and (value := of(r.server)) is not None
        ]
        return _ratio(sum(value for value, _ in counted), sum(done for _, done in counted)) if counted else None

    return quotient


_DECIMALS_PER_OBJECT = 3
_PER_OBJECT: tuple[tuple[Column, Callable[[Sequence[Result]], float | None]], ...] = (
    (Column("server CPU", "ms/object"), _per_object(lambda server: server.cpu_milliseconds_per_object)),
    (Column("device written", "bytes/byte"), _per_byte(lambda server: server.write_amplification)),
    (Column("from cache", "share"), _per_byte(lambda server: server.cache_share)),
    (Column("network", "bytes/byte"), _per_byte(lambda server: server.network_bytes_per_byte)),
    (
        Column("catalogue", "bytes/object"),
        _total(lambda server: server.store_written_bytes.get("catalogue"), lambda result: result.objects),
    ),
    (
        Column("segments", "bytes/byte"),
        _total(lambda server: server.store_written_bytes.get("segments"), lambda result: result.bytes),
    ),
    (
        Column("syncs", "per object"),
        _total(lambda server: sum(server.store_syncs.values()) if server.store_syncs else None, lambda r: r.objects),
    ),
)


def _spreads(timeline: Timeline, from_ns: int, to_ns: int) -> Iterator[tuple[str, str, Spread]]:
    """(quantity, item, spread) of everything that a source knows of a time."""
    for quantity in QUANTITIES:
        items = timeline.spread(quantity, from_ns, to_ns)
        if QUANTITIES[quantity].item == "thread" and items:
            busiest = max(items, key=lambda item: items[item].mean)
            items = {busiest: items[busiest]}
        for item, spread in items.items():
            # Operations and their bounds are many, and most of them stand still.
            if spread.max or not QUANTITIES[quantity].begins_at_zero:
                yield quantity, item, spread


def _unit_of(quantity: str) -> tuple[str, float]:
    """The unit in which people read a quantity (of a counter: its rate per second), and the factor to it."""
    if quantity == "disk_request_seconds":
        return "requests in the queue", 1
    if quantity.endswith("_seconds"):
        return "%", 100
    if quantity.endswith("_bytes_per_second"):
        return "MB/s", 1e-6
    is_rate = QUANTITIES[quantity].counter
    if quantity.endswith("_bytes"):
        return "MB/s" if is_rate else "MB", 1e-6
    return "per second" if is_rate else "cores" if quantity.endswith("_cores") else "count", 1


def _without_empty_columns(table: Table) -> Table:
    """Without the columns in which nothing was measured; without rows where that leaves labels only."""
    kept = [
        index
        for index, column in enumerate(table.columns)
        if column.label or any(row[index] != Cell(NOT_MEASURED) for row in table.rows)
    ]
    if all(table.columns[index].label for index in kept):
        return replace(table, rows=())
    return replace(
        table,
        columns=tuple(table.columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in table.rows),
    )


def _rate_notes(cell: Unit, warmth: str) -> tuple[str, ...]:
    """The doubts of a cell, and which of several temperatures was its own."""
    if cell.key.operation != "retrieve" or " or " not in warmth:
        return cell.doubts
    return (*cell.doubts, f"{temperatures([cell])} data")


def _published_notes(cell: PublishedCell, of_paper: bool) -> tuple[str, ...]:
    if cell.contradicted_objects_per_second is not None:
        return (
            "the paper contradicts itself: its objects/s repeat the 500 column and do not give its MB/s;"
            " the MB/s fit its time grid and are taken as right",
        )
    if cell.derived and not of_paper:
        return ("illegible in the paper; follows from its MB/s",)
    return ()


def _without_columns(cell: Unit) -> tuple[str, int, int]:
    return cell.key.operation, cell.key.object_bytes, cell.key.clients


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _weighted_mean(pairs: Sequence[tuple[float, float]]) -> float | None:
    weight = sum(weight for weight, _ in pairs)
    return sum(weight * value for weight, value in pairs) / weight if weight else None


def _repetitions(count: int) -> str:
    return f", median of {count} repetitions" if count > 1 else ""
