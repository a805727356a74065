"""The tables of a tile run: e-mail, database, web and scan, per tile and for all, as in ESG's Tables 2, 3 and 4.

A tile's row is the median over trials. The row "all" is the sum of the other rows (for times: the mean over objects),
so that a reader can check it. The names of published rows include their source, and no table computes a ratio to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from archiver.values.sizes import format_size
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, columns_of, number
from results.measures.metrics import pooled_mean_ms
from results.mixed.mailboxes import Mailboxes, all_mailboxes, tile_mailboxes
from results.mixed.published import (
    MIB,
    PublishedTiles,
    email_limits_ms,
    mailbox_rates,
    sizing_class,
    sizing_classes,
    small_latency_limit_ms,
)
from results.mixed.tiles import (
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
from results.recorded.model import Result

MEASURED = "measured"
_ALL = "all"
_ENDED_EARLY = "it reached its limit of archived data before its time was over"
_UNKNOWN_BASE = "as printed: it is not known whether MB are 10^6 or 2^20 bytes"
_CLASSES = ", ".join(
    f"{each.name} {each.small_per_second:,.0f} operations/s and {each.large_megabytes_per_second:,.0f} MB/s"
    for each in sizing_classes()
)
_LEAST_OF_TILES = "the mean of the tiles' lowest latencies"


def tile_tables(scales: Sequence[Scale], published: Sequence[PublishedTiles] = ()) -> list[Table]:
    """Return every table for which these tiles have data: the totals first, then by application."""
    tables = [
        totals_table(scales),
        email_table(scales, published),
        email_operations_table(scales),
        database_table(scales, published),
        web_scan_table(scales, published),
    ]
    return [table for table in tables if table.rows]


def totals_table(scales: Sequence[Scale]) -> Table:
    """Return one row for each number of tiles, with their totals."""

    def throughput(application: str) -> Callable[[Scale], float | None]:
        return lambda scale: total(scale.throughput(tile, application) for tile in scale.numbers)

    return TableSpec(
        name="tiles",
        title="Tiles side by side: what all of them did together",
        columns=(
            Column("tiles", of=lambda scale: scale.tiles, label=True),
            Column("mailboxes", of=lambda scale: _mailbox_cell(all_mailboxes(scale))),
            Column("e-mail", "operations/s", throughput(EMAIL)),
            Column("database small", "operations/s", throughput(DATABASE_SMALL)),
            Column("its least latency", "ms", _least_mean_ms, 2),
            Column("database large", "MB/s", throughput(DATABASE_LARGE), 1),
            Column("web", "operations/s", throughput(WEB)),
            Column("scan", "MB/s", throughput(SCAN), 1),
        ),
        caption="Sums over tiles. Database rates are sums of each tile's largest rate; the tiles may have reached these"
        f" at different times. Database latency is {_LEAST_OF_TILES}. Rates count objects that were completed and"
        f" checked. MB are 10^6 bytes.{_trials(scales)}",
    ).table(scales)


@dataclass(frozen=True)
class _TileRow:
    """One tile in every trial of a number of tiles, or the sum of all tiles."""

    scale: Scale
    tile: int | None  # None: all tiles

    @property
    def tiles(self) -> list[Tile]:
        """Return the tile in every trial."""
        return list(self.scale.all_tiles) if self.tile is None else self.scale.all_of(self.tile)

    @property
    def numbers(self) -> list[int]:
        return self.scale.numbers if self.tile is None else [self.tile]

    def rate(self, of: Callable[[Tile], float | None]) -> float | None:
        """Return the median over trials. For all tiles, return the sum of their medians, or None if one is missing."""
        return total(self.scale.middle(tile, of) for tile in self.numbers)


_LABELS = (
    Column("tiles", of=lambda row: row.scale.tiles, label=True),
    Column("tile", of=lambda row: _ALL if row.tile is None else row.tile, label=True),
    Column("", of=lambda row: MEASURED, label=True),
)


def _rows(scales: Sequence[Scale], has: Callable[[Tile], object], *, whole: bool = True) -> list[_TileRow]:
    """Return each tile with data for the table, followed by a row for all of a number of tiles."""
    rows = []
    for scale in scales:
        chosen = [_TileRow(scale, tile) for tile in scale.numbers if any(has(each) for each in scale.all_of(tile))]
        rows += [*chosen, _TileRow(scale, None)] if chosen and whole else chosen
    return rows


def email_table(scales: Sequence[Scale], published: Sequence[PublishedTiles] = ()) -> Table:
    """Return the form of Table 2: operations/s, times, and the mailboxes if every criterion is met."""
    rows = _rows(scales, lambda tile: tile.email)
    versions = zip(mailbox_rates().items(), ("Jetstress 2007", "2010"), strict=True)
    divisors = ", ".join(f"/ {rate:g} with pages of {format_size(page)} ({name})" for (page, rate), name in versions)
    retrieve_ms, log_ms = email_limits_ms()

    def mailboxes(row: _TileRow) -> Cell:
        every = all_mailboxes(row.scale)
        return _mailbox_cell(every if row.tile is None else tile_mailboxes(row.scale, row.tile))

    return TableSpec(
        name="tiles-email",
        title="E-mail by tile: database operations/s, times, mailboxes",
        columns=(
            *_LABELS,
            Column("achieved", "operations/s", lambda row: row.rate(lambda tile: tile.email_rate), notes=_ended_early),
            Column("mean retrieve", "ms", lambda row: _part_ms(row, RETRIEVE), 1),
            Column("mean log archive", "ms", lambda row: _part_ms(row, LOG), 1),
            Column("mailboxes", of=mailboxes),
        ),
        caption=f"Operations are those on database pages, without the log. Mailboxes: operations/s {divisors}. They"
        " count only if every trial meets every criterion of the tile's e-mail. The means must be at most"
        f" {retrieve_ms:g} ms and {log_ms:g} ms unless the scenario sets other limits, and reading all data again must"
        f" find no error.{_trials(scales)}{_whose(published)}",
    ).table(rows, [row for study in published for row in _published_email(study)] if rows else ())


def email_operations_table(scales: Sequence[Scale]) -> Table:
    """Return e-mail's operations on a store that keeps locked objects, each kind counted separately."""
    return TableSpec(
        name="tiles-email-operations",
        title="E-mail by tile: its operations, each kind apart",
        columns=(
            *_LABELS[:2],
            _part_column("archived", "archive"),
            _part_column("deleted, expired", "delete"),
            _part_column("deletion markers", "delete-marker"),
            _part_column("new versions", "new-version"),
            _part_column("retrieved", RETRIEVE),
            _part_column("log archives", LOG),
            Column("retrieved", "% of operations", lambda row: _share(row, RETRIEVE, 100)),
            Column("log", "per operation", lambda row: _share(row, LOG, 1), 3),
            Column("left out", of=lambda row: sum(tile.email.steps_left_out for tile in row.tiles if tile.email)),
            Column("failed", of=lambda row: sum(tile.email.errors for tile in row.tiles if tile.email)),
        ),
        caption="A replaced page is a new version. A deleted page is deleted if its lock has expired, and otherwise"
        f" hidden behind a delete marker. Left out: steps for which there was no object.{_trials(scales)}",
    ).table(_rows(scales, lambda tile: tile.email, whole=False))


def database_table(scales: Sequence[Scale], published: Sequence[PublishedTiles] = ()) -> Table:
    """Return the form of Table 3, with the latency and the outstanding requests of each rate."""
    rows = _rows(scales, lambda tile: tile.database_small or tile.database_large)
    return TableSpec(
        name="tiles-database",
        title="Database by tile: small operations/s, large MB/s, latency",
        columns=(
            *_LABELS,
            *columns_of(
                _points,
                (
                    Column("most small", "operations/s", lambda points: points.rate("best"), notes=_early("best")),
                    Column("with mean", "ms", lambda points: points.best_mean_ms, 2),
                    Column("with outstanding", of=lambda points: points.clients("best")),
                    Column("least mean", "ms", lambda points: _mean([mean_ms(p) for p in points.quickest]), 2),
                    Column(
                        "with rate", "operations/s", lambda points: None if points.whole else points.rate("quickest")
                    ),
                    Column(
                        f"most within {small_latency_limit_ms():g} ms",
                        "operations/s",
                        lambda points: points.rate("within"),
                        notes=_none_within,
                    ),
                    Column("most large", "MB/s", lambda points: points.megabytes, 1, _early("large")),
                    Column("with outstanding", of=lambda points: points.clients("large")),
                    Column("class", of=_class_of_all),
                ),
            ),
        ),
        caption="First only small operations of 8KiB, then only large ones of 1MiB, each with several numbers of"
        " outstanding requests; 30% of them archive. Next to each rate are its mean response time and its outstanding"
        " requests. All: sums; for the least mean, the mean over tiles. Class: the highest class of Orion's sizing"
        f" guideline whose two rates all tiles reach: {_CLASSES}.{_trials(scales)}{_whose(published)}",
    ).table(rows, [row for study in published for row in _published_database(study)] if rows else ())


def web_scan_table(scales: Sequence[Scale], published: Sequence[PublishedTiles] = ()) -> Table:
    """Return the form of Table 4: web server and scan."""
    rows = _rows(scales, lambda tile: tile.web or tile.scan)

    def rate(of: Callable[[Tile], Result | None], field: str) -> Callable[[_TileRow], float | None]:
        return lambda row: row.rate(lambda tile: getattr(of(tile), field, None))

    return TableSpec(
        name="tiles-web-scan",
        title="Web server and scan by tile",
        columns=(
            *_LABELS,
            Column("web", "operations/s", rate(lambda tile: tile.web, "objects_per_second")),
            Column("web", "MB/s", rate(lambda tile: tile.web, "megabytes_per_second"), 1),
            Column("web, mean", "ms", lambda row: pooled_mean_ms(tile.web for tile in row.tiles), 2),
            Column("scan", "MB/s", rate(lambda tile: tile.scan, "megabytes_per_second"), 1),
            Column("scan", "MiB/s", rate(lambda tile: tile.scan, "mebibytes_per_second"), 1),
        ),
        caption="Web: random retrieves of 512 B to 512KiB. Scan: one stream that retrieves objects of 256KiB in order."
        f" MB are 10^6 bytes, MiB 2^20.{_trials(scales)}{_whose(published)}",
    ).table(rows, [row for study in published for row in _published_web_scan(study)] if rows else ())


def _mean(values: Sequence[float | None]) -> float | None:
    """Return the mean. Returns None if a value is missing or there are none."""
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def _least_mean_ms(scale: Scale) -> float | None:
    """Return the mean over tiles of the mean response times of their fastest points."""
    return _mean([mean_ms(scale.middle_point(n, lambda tile: tile.small_quickest, mean_ms)) for n in scale.numbers])


def _ended_early(row: _TileRow) -> tuple[str, ...]:
    return (_ENDED_EARLY,) if any(tile.email and tile.email.ended_early for tile in row.tiles) else ()


def _class(small_per_second: float | None, large_megabytes_per_second: float | None) -> str:
    return sizing_class(small_per_second, large_megabytes_per_second) or NOT_MEASURED


def _class_of_all(points: _Points) -> str:
    return _class(points.rate("best"), points.megabytes) if points.whole else NOT_MEASURED


def _part_ms(row: _TileRow, name: str) -> float | None:
    return pooled_mean_ms(part_of(tile.email, name) for tile in row.tiles)


def _mailbox_cell(mailboxes: Mailboxes) -> Cell:
    """Return the number; "void" or "none" and the reasons."""
    if mailboxes.supported is not None:
        return number(mailboxes.supported, 0, mailboxes.cautions)
    none = "void" if mailboxes.is_void else "none" if mailboxes.possible is not None else NOT_MEASURED
    return Cell(none, None, mailboxes.reasons)


def _part_rate(row: _TileRow, name: str) -> float | None:
    return row.rate(lambda tile: part.objects_per_second if (part := part_of(tile.email, name)) else None)


def _part_column(heading: str, name: str) -> Column:
    return Column(heading, "/s", lambda row: _part_rate(row, name), 1)


def _share(row: _TileRow, name: str, factor: int) -> float | None:
    """Return the share of e-mail's operations."""
    rate, whole = _part_rate(row, name), row.rate(lambda tile: tile.email_rate)
    return factor * rate / whole if whole and rate is not None else None


@dataclass(frozen=True)
class _Points:
    """For each tile of a row: most small operations, lowest latency, most small within the limit, most large."""

    best: list[Result | None]
    quickest: list[Result | None]
    within: list[Result | None]
    large: list[Result | None]
    whole: bool

    def rate(self, which: str) -> float | None:
        return total(point.objects_per_second if point else None for point in getattr(self, which))

    def clients(self, which: str) -> int | None:
        (point, *_) = getattr(self, which)
        return None if self.whole or point is None else point.clients

    @property
    def best_mean_ms(self) -> float | None:
        return pooled_mean_ms(self.best) if self.whole else mean_ms(self.best[0])

    @property
    def megabytes(self) -> float | None:
        return total(point.megabytes_per_second if point else None for point in self.large)


def _points(row: _TileRow) -> _Points:
    def middle(of: Callable[[Tile], Result | None], by: Callable[[Result], float | None]) -> list[Result | None]:
        return [row.scale.middle_point(tile, of, by) for tile in tiles]

    def by_rate(result: Result) -> float:
        return result.objects_per_second

    has = [any(tile.database_small or tile.database_large for tile in row.scale.all_of(n)) for n in row.numbers]
    tiles = [tile for tile, there in zip(row.numbers, has, strict=True) if there]
    return _Points(
        middle(lambda tile: tile.small_best, by_rate),
        middle(lambda tile: tile.small_quickest, mean_ms),
        middle(lambda tile: tile.small_within_limit, by_rate),
        middle(lambda tile: tile.large_best, lambda result: result.megabytes_per_second),
        row.tile is None,
    )


def _early(which: str) -> Callable[[_Points], tuple[str, ...]]:
    """Return the function that notes if a single tile's point ended early."""

    def notes(points: _Points) -> tuple[str, ...]:
        (point, *_) = getattr(points, which)
        return (_ENDED_EARLY,) if not points.whole and point is not None and point.ended_early else ()

    return notes


def _none_within(points: _Points) -> tuple[str, ...]:
    is_none = not points.whole and points.best[0] is not None and points.within[0] is None
    return ("no point had a mean within the limit",) if is_none else ()


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
            Cell(NOT_MEASURED if line.tile else _class(line.small_per_second, line.large_megabytes_per_second)),
        )


def _published_web_scan(study: PublishedTiles) -> Iterator[tuple[Cell, ...]]:
    """Yield the published rows. MB/s follow from the printed MiB/s."""
    for line in study.web_scan:
        yield (
            *_published_labels(study, line.tile),
            number(line.web_per_second, 0),
            number(_megabytes(line.web_mebibytes_per_second), 1),
            Cell(NOT_MEASURED),
            number(_megabytes(line.scan_mebibytes_per_second), 1),
            number(line.scan_mebibytes_per_second, 0),
        )


def _published_labels(study: PublishedTiles, tile: int | None) -> tuple[Cell, Cell, Cell]:
    return number(study.tiles, 0), Cell(_ALL) if tile is None else number(tile, 0), Cell(study.name)


def _megabytes(mebibytes: float | None) -> float | None:
    return None if mebibytes is None else mebibytes * MIB / 1e6


def _trials(scales: Sequence[Scale]) -> str:
    most = max((len(scale.trials) for scale in scales), default=0)
    return "" if most < 2 else f" Values are medians over up to {most} trials (of two middle values, the lower)."


def _whose(published: Sequence[PublishedTiles]) -> str:
    """Return the name of the rows' source."""
    if not published:
        return ""
    names = " and ".join(f"{study.name} ({study.source.rpartition(', ')[2]})" for study in published)
    return (
        f" Not measured by this run: {names}, published by ESG Lab, of virtual machines on block storage. Their"
        " operations are reads and writes of blocks, without locks."
    )
