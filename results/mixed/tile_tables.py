"""The tables of a tile run: e-mail, database, web and scan, per tile and for all, as in ESG's Tables 2, 3 and 4.

One idea: a tile's row is the median over trials, and "all" is the sum of its rows (of times: the mean over objects),
so that a reader can add up. Published rows have a name that says whose they are, and no ratio stands beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from results.measures import pooled_mean_ms
from results.mixed.mailboxes import Mailboxes, all_mailboxes, tile_mailboxes
from results.mixed.published import MIB, PublishedTiles, small_latency_limit_ms
from results.mixed.tiles import (
    APPLICATIONS,
    DATABASE_LARGE,
    DATABASE_SMALL,
    EMAIL,
    LOG,
    RETRIEVE,
    SCAN,
    WEB,
    Scale,
    Tile,
    mean_ms,
    part_of,
    total,
)
from results.model import CriterionResult, Result
from results.table import NOT_MEASURED, Cell, Column, Table, label_columns, number

MEASURED = "measured"
_ALL = "all"
_ENDED_EARLY = "it used up what it may archive before its time was over"
_UNKNOWN_BASE = "as printed: whether these are 10^6 or 2^20 bytes is not known"
_TILES_UNKNOWN = "of how many tiles is not known here"
_LEAST_OF_TILES = "the mean of the tiles' least"
_RATE_PARTS = ("archive", "delete", "delete-marker", "new-version", RETRIEVE, LOG)


def tile_tables(
    scales: Sequence[Scale], criteria: Sequence[CriterionResult] = (), published: Sequence[PublishedTiles] = ()
) -> list[Table]:
    """Every table that these tiles can fill: all of them together first, then by application."""
    tables = [
        totals_table(scales, criteria),
        email_table(scales, criteria, published),
        email_operations_table(scales),
        database_table(scales, published),
        web_scan_table(scales, published),
    ]
    return [table for table in tables if table.rows]


def totals_table(scales: Sequence[Scale], criteria: Sequence[CriterionResult]) -> Table:
    """One row for each number of tiles: what they did together."""
    rows = []
    for scale in scales:
        sums = {name: total(scale.throughput(tile, name) for tile in scale.numbers) for name in APPLICATIONS}
        rows.append(
            (
                _tiles(scale.tiles),
                _mailbox_cell(all_mailboxes(scale, criteria)),
                number(sums[EMAIL], 0),
                number(sums[DATABASE_SMALL], 0),
                number(_mean_of_tiles(scale, lambda tile: tile.small_quickest), 2),
                number(sums[DATABASE_LARGE], 1),
                number(sums[WEB], 0),
                number(sums[SCAN], 1),
            )
        )
    return Table(
        name="tiles",
        title="Tiles side by side: what all of them did together",
        columns=(
            *label_columns("tiles"),
            Column("mailboxes"),
            Column("e-mail", "operations/s"),
            Column("database small", "operations/s"),
            Column("its least latency", "ms"),
            Column("database large", "MB/s"),
            Column("web", "operations/s"),
            Column("scan", "MB/s"),
        ),
        rows=tuple(rows),
        caption="Sums over tiles; the database's are sums of each tile's largest, which need not have been reached at"
        f" one moment; its latency is {_LEAST_OF_TILES}. Rates are of objects, each done and checked. MB are 10^6"
        f" bytes.{_trials(scales)}",
    )


def email_table(
    scales: Sequence[Scale], criteria: Sequence[CriterionResult], published: Sequence[PublishedTiles] = ()
) -> Table:
    """The form of Table 2: operations/s, times, and the mailboxes that they support while every criterion holds."""
    rows: list[tuple[Cell, ...]] = []
    for scale in scales:
        chosen = [n for n in scale.numbers if any(tile.email for tile in scale.all_of(n))]
        for tile in chosen:
            emails = [each.email for each in scale.all_of(tile)]
            rate = scale.middle(tile, lambda each: each.email_rate)
            mailboxes = tile_mailboxes(scale, tile, criteria)
            rows.append((*_labels(scale, tile), *_email_cells(rate, emails, mailboxes)))
        if chosen:
            every = [tile.email for trial in scale.trials for tile in trial.tiles]
            rate = _sum(scale, lambda tile: tile.email_rate)
            rows.append((*_labels(scale, None), *_email_cells(rate, every, all_mailboxes(scale, criteria))))
    if rows:
        rows += [row for study in published for row in _published_email(study)]
    return Table(
        name="tiles-email",
        title="E-mail by tile: database operations/s, times, mailboxes",
        columns=(
            *label_columns("tiles", "tile", ""),
            Column("achieved", "operations/s"),
            Column("mean retrieve", "ms"),
            Column("mean log archive", "ms"),
            Column("mailboxes"),
        ),
        rows=tuple(rows),
        caption="Operations are those on database pages; the log's are apart. Mailboxes: operations/s / 0.5 with pages"
        " of 8KiB (Jetstress 2007), / 0.12 with pages of 32KiB (2010), while every criterion of the tile's e-mail"
        " holds in every trial, among them the means, up to 20 ms and 5 ms unless the scenario sets others, and reading"
        f" all data again finds no error.{_trials(scales)}{_whose(published)}",
    )


def email_operations_table(scales: Sequence[Scale]) -> Table:
    """What e-mail's operations were on a store that keeps what is locked: each kind counted apart."""
    rows = []
    for scale in scales:
        for tile in scale.numbers:
            emails = [each.email for each in scale.all_of(tile) if each.email]
            if not emails:
                continue
            rates = [scale.middle(tile, _part_rate(name)) for name in _RATE_PARTS]
            whole = scale.middle(tile, lambda each: each.email_rate)
            retrieved = rates[_RATE_PARTS.index(RETRIEVE)]
            log = rates[_RATE_PARTS.index(LOG)]
            rows.append(
                (
                    *_labels(scale, tile)[:2],
                    *(number(rate, 1) for rate in rates),
                    number(100 * retrieved / whole if whole and retrieved is not None else None, 0),
                    number(log / whole if whole and log is not None else None, 3),
                    number(sum(email.steps_left_out for email in emails), 0),
                    number(sum(email.errors for email in emails), 0),
                )
            )
    names = ("archived", "deleted, expired", "deletion markers", "new versions", "retrieved", "log archives")
    return Table(
        name="tiles-email-operations",
        title="E-mail by tile: its operations, each kind apart",
        columns=(
            *label_columns("tiles", "tile"),
            *(Column(name, "/s") for name in names),
            Column("retrieved", "% of operations"),
            Column("log", "per operation"),
            Column("left out"),
            Column("failed"),
        ),
        rows=tuple(rows),
        caption="A replaced page is a new version; a deleted one is deleted where its lock has expired, else hidden"
        f" behind a marker. Left out: steps for which no object was there.{_trials(scales)}",
    )


def database_table(scales: Sequence[Scale], published: Sequence[PublishedTiles] = ()) -> Table:
    """The form of Table 3, with the latency and the outstanding requests that belong to each rate."""
    rows: list[tuple[Cell, ...]] = []
    for scale in scales:
        chosen = [n for n in scale.numbers if any(t.database_small or t.database_large for t in scale.all_of(n))]
        found = [_database_points(scale, tile) for tile in chosen]
        rows += [(*_labels(scale, tile), *_database_cells(*each)) for tile, each in zip(chosen, found, strict=True)]
        if found:
            rows.append((*_labels(scale, None), *_database_totals(found)))
    if rows:
        rows += [row for study in published for row in _published_database(study)]
    limit = f"{small_latency_limit_ms():g} ms"
    return Table(
        name="tiles-database",
        title="Database by tile: small operations/s, large MB/s, latency",
        columns=(
            *label_columns("tiles", "tile", ""),
            Column("most small", "operations/s"),
            Column("with mean", "ms"),
            Column("with outstanding"),
            Column("least mean", "ms"),
            Column("with rate", "operations/s"),
            Column(f"most within {limit}", "operations/s"),
            Column("most large", "MB/s"),
            Column("with outstanding"),
        ),
        rows=tuple(rows),
        caption="Small operations of 8KiB alone, then large ones of 1MiB alone, each with so many outstanding; 30% of"
        " them archive. Each rate with the mean response time and the outstanding requests that it had itself. All:"
        f" sums, of the least means the mean.{_trials(scales)}{_whose(published)}",
    )


def web_scan_table(scales: Sequence[Scale], published: Sequence[PublishedTiles] = ()) -> Table:
    """The form of Table 4: web server and scan."""
    rows: list[tuple[Cell, ...]] = []
    for scale in scales:
        chosen = [n for n in scale.numbers if any(tile.web or tile.scan for tile in scale.all_of(n))]
        for tile in chosen:
            own = [each.web for each in scale.all_of(tile)]
            rows.append((*_labels(scale, tile), *_web_scan_cells(_one(scale, tile), own)))
        if chosen:
            every = [tile.web for trial in scale.trials for tile in trial.tiles]
            rows.append((*_labels(scale, None), *_web_scan_cells(_every(scale), every)))
    if rows:
        rows += [row for study in published for row in _published_web_scan(study)]
    return Table(
        name="tiles-web-scan",
        title="Web server and scan by tile",
        columns=(
            *label_columns("tiles", "tile", ""),
            Column("web", "operations/s"),
            Column("web", "MB/s"),
            Column("web, mean", "ms"),
            Column("scan", "MB/s"),
            Column("scan", "MiB/s"),
        ),
        rows=tuple(rows),
        caption="Web: retrieves at random, 512 B to 512KiB; scan: one stream that retrieves objects of 256KiB in order."
        f" MB are 10^6 bytes, MiB 2^20.{_trials(scales)}{_whose(published)}",
    )


_Quantity = Callable[[Callable[[Tile], float | None]], float | None]


def _tiles(count: float) -> Cell:
    return number(count, 0)


def _labels(scale: Scale, tile: int | None) -> tuple[Cell, Cell, Cell]:
    return _tiles(scale.tiles), Cell(_ALL) if tile is None else number(tile, 0), Cell(MEASURED)


def _sum(scale: Scale, of: Callable[[Tile], float | None]) -> float | None:
    """Of the tiles' rows: they are as many as there should be, or there is no sum."""
    return total(scale.middle(tile, of) for tile in scale.numbers)


def _mean_of_tiles(scale: Scale, of: Callable[[Tile], Result | None]) -> float | None:
    """The mean over tiles of the mean response times that these points had."""
    times = [mean_ms(scale.middle_point(tile, of, mean_ms)) for tile in scale.numbers]
    known = [time for time in times if time is not None]
    return fmean(known) if known and len(known) == len(times) else None


def _email_cells(rate: float | None, emails: Sequence[Result | None], mailboxes: Mailboxes) -> Iterator[Cell]:
    doubts = (_ENDED_EARLY,) if any(email and email.ended_early for email in emails) else ()
    yield number(rate, 0, doubts)
    yield number(pooled_mean_ms(part_of(email, RETRIEVE) for email in emails), 1)
    yield number(pooled_mean_ms(part_of(email, LOG) for email in emails), 1)
    yield _mailbox_cell(mailboxes)


def _mailbox_cell(mailboxes: Mailboxes) -> Cell:
    """The number, or "none" and the reasons."""
    if mailboxes.supported is not None:
        return number(mailboxes.supported, 0)
    return Cell("none" if mailboxes.possible is not None else NOT_MEASURED, None, mailboxes.reasons)


def _part_rate(name: str) -> Callable[[Tile], float | None]:
    def rate(tile: Tile) -> float | None:
        part = part_of(tile.email, name)
        return part.objects_per_second if part else None

    return rate


_Points = tuple[Result | None, Result | None, Result | None, Result | None]


def _database_points(scale: Scale, tile: int) -> _Points:
    """Most small, quickest small, most small within the limit, most large."""

    def by_rate(result: Result) -> float:
        return result.objects_per_second

    return (
        scale.middle_point(tile, lambda each: each.small_best, by_rate),
        scale.middle_point(tile, lambda each: each.small_quickest, mean_ms),
        scale.middle_point(tile, lambda each: each.small_within_limit, by_rate),
        scale.middle_point(tile, lambda each: each.large_best, lambda result: result.megabytes_per_second),
    )


def _database_cells(
    best: Result | None, quickest: Result | None, within: Result | None, large: Result | None
) -> Iterator[Cell]:
    none_within = ("no point's mean was within it",) if best is not None and within is None else ()
    yield number(best.objects_per_second if best else None, 0, _early(best))
    yield number(mean_ms(best), 2)
    yield number(best.clients if best else None, 0)
    yield number(mean_ms(quickest), 2)
    yield number(quickest.objects_per_second if quickest else None, 0)
    yield number(within.objects_per_second if within else None, 0, none_within)
    yield number(large.megabytes_per_second if large else None, 1, _early(large))
    yield number(large.clients if large else None, 0)


def _database_totals(found: Sequence[_Points]) -> Iterator[Cell]:
    def rates(place: int) -> list[float | None]:
        return [point.objects_per_second if (point := points[place]) else None for points in found]

    least = [mean_ms(points[1]) for points in found]
    known = [time for time in least if time is not None]
    yield number(total(rates(0)), 0)
    yield number(pooled_mean_ms(points[0] for points in found), 2)
    yield Cell(NOT_MEASURED)
    yield number(fmean(known) if known and len(known) == len(least) else None, 2)
    yield Cell(NOT_MEASURED)
    yield number(total(rates(2)), 0)
    yield number(total(large.megabytes_per_second if (large := points[3]) else None for points in found), 1)
    yield Cell(NOT_MEASURED)


def _one(scale: Scale, tile: int) -> _Quantity:
    return lambda of: scale.middle(tile, of)


def _every(scale: Scale) -> _Quantity:
    return lambda of: _sum(scale, of)


def _web_scan_cells(quantity: _Quantity, webs: Sequence[Result | None]) -> Iterator[Cell]:
    yield number(quantity(lambda tile: tile.web.objects_per_second if tile.web else None), 0)
    yield number(quantity(lambda tile: tile.web.megabytes_per_second if tile.web else None), 1)
    yield number(pooled_mean_ms(webs), 2)
    yield number(quantity(lambda tile: tile.scan.megabytes_per_second if tile.scan else None), 1)
    yield number(quantity(lambda tile: tile.scan.mebibytes_per_second if tile.scan else None), 1)


def _published_email(study: PublishedTiles) -> Iterator[tuple[Cell, ...]]:
    for line in study.email:
        yield (
            number(line.tiles, 0),
            Cell(_ALL),
            Cell(study.name),
            number(line.operations_per_second, 0),
            number(line.retrieve_ms, 1),
            Cell(NOT_MEASURED),
            number(line.mailboxes, 0),
        )


def _published_database(study: PublishedTiles) -> Iterator[tuple[Cell, ...]]:
    for line in study.database:
        yield (
            *_published_labels(study, line.tile),
            number(line.small_per_second, 0),
            Cell(NOT_MEASURED),
            number(study.small_outstanding if line.tile else None, 0),
            number(line.latency_ms, 2),
            Cell(NOT_MEASURED),
            Cell(NOT_MEASURED),
            number(line.large_megabytes_per_second, 0, (_UNKNOWN_BASE,)),
            number(study.large_outstanding if line.tile else None, 0),
        )


def _published_web_scan(study: PublishedTiles) -> Iterator[tuple[Cell, ...]]:
    """MB/s follow from the MiB/s that are printed."""
    for line in study.web_scan:
        scan = number(_megabytes(line.scan_mebibytes_per_second), 1)
        yield (
            *_published_labels(study, line.tile),
            number(line.web_per_second, 0),
            number(_megabytes(line.web_mebibytes_per_second), 1),
            Cell(NOT_MEASURED),
            scan if line.scan_as_printed is None else number(line.scan_as_printed, 0, (_UNKNOWN_BASE,)),
            number(line.scan_mebibytes_per_second, 0),
        )


def _published_labels(study: PublishedTiles, tile: int | None) -> tuple[Cell, Cell, Cell]:
    tiles = number(study.tiles, 0, () if study.tiles else (_TILES_UNKNOWN,))
    return tiles, Cell(_ALL) if tile is None else number(tile, 0), Cell(study.name)


def _megabytes(mebibytes: float | None) -> float | None:
    return None if mebibytes is None else mebibytes * MIB / 1e6


def _early(result: Result | None) -> tuple[str, ...]:
    return (_ENDED_EARLY,) if result is not None and result.ended_early else ()


def _trials(scales: Sequence[Scale]) -> str:
    most = max((len(scale.trials) for scale in scales), default=0)
    return "" if most < 2 else f" Medians over up to {most} trials (of two, the lower)."


def _whose(published: Sequence[PublishedTiles]) -> str:
    """Of the rows that are not ours."""
    if not published:
        return ""
    names = " and ".join(f"{study.name} ({study.source.rpartition(', ')[2]})" for study in published)
    return (
        f" Not measured here: {names}, published by ESG Lab, of virtual machines on block storage, where an operation"
        " is a read or a write of a block and nothing is locked."
    )
