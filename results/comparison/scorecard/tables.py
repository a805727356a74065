"""The tables of a scorecard. Most have one column for each platform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from archiver.values.sizes import format_instant
from results.comparison.page import price_words
from results.comparison.scorecard.cards import POINTS, Card, Point, Scorecard
from results.comparison.scorecard.verdicts import kill_words, machine_words, missing_parts, worst_finding
from results.document.grades import NOT_KNOWN
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, number
from results.measures.metrics import bytes_of, mean_over, objects_of, server_mean
from results.measures.stored_times import NO_TIMES
from results.measures.units import Unit
from results.recorded.model import CheckRecord, Latency
from results.report.numbers import lock_cost_percent
from results.tables.columns import interval, rate_cell
from results.tables.lock_cost import VariantCost
from results.tables.usage import syncs
from results.worm.findings import DISCLAIMER, REQUIREMENTS, checks_tried
from results.worm.regimes import Provision, provisions

SEVERITIES = ("S1", "S2", "S3", "S4")
_UNKNOWN = "not measured"


def conformance_tables(scorecard: Scorecard) -> list[Table]:
    """Return the failures by severity, and the verdicts by requirement."""
    checked = [card for card in scorecard.cards if card.conformance is not None]
    return [_SEVERITIES.table(checked), _requirements(checked)] if checked else []


def regimes_table(scorecard: Scorecard) -> list[Table]:
    """Return the verdicts by provision of the further regimes."""
    checked = [card for card in scorecard.cards if card.conformance is not None]
    if not checked:
        return []
    columns = (
        Column("regime", of=lambda provision: provision.regime, label=True),
        Column("source", of=lambda provision: provision.source, words=True),
        *(Column(card.label, of=_of_provision(card), words=True) for card in checked),
    )
    caption = f"Checks that concern a provision. Archiver's authors chose them; no authority did. {DISCLAIMER}"
    return [TableSpec("regimes", "Further regimes", columns, caption).table(provisions())]


def rate_tables(scorecard: Scorecard) -> list[Table]:
    """Return the objects/s and the latency of an object at every measured point."""
    return [
        _by_point(scorecard, "rates", "Rates", _rate, "objects/s", _RATES),
        _by_point(scorecard, "latency", "Latency of an object", _latency_words, "p50 / p99, ms", _LATENCY),
    ]


def detail_tables(scorecard: Scorecard) -> list[Table]:
    """Return every point of every platform with its interval, its amounts and what limits it."""
    rows = [_Measured(card, point) for point in POINTS for card in scorecard.cards if point in card.points]
    return [_DETAILS.table(rows)]


def lock_cost_tables(scorecard: Scorecard) -> list[Table]:
    """Return the cost of each way of locking that some platform measured."""
    by_card = {card.label: {_cost_key(cost): cost for cost in card.lock_costs} for card in scorecard.cards}
    keys = sorted({key for costs in by_card.values() for key in costs})
    columns = (
        Column("lock", of=lambda key: f"{key[0]}, {Point('archive', key[1], key[3])}", label=True),
        Column("objects/session", of=lambda key: key[2]),
        *_by_card(scorecard.cards, lambda card, key: _cost_words(by_card[card.label].get(key)), "% of objects/s"),
    )
    caption = "The loss of objects/s compared with no lock, paired by repetition, with its 95% interval."
    return [TableSpec("lock-cost", "The cost of the lock", columns, caption).table(keys)]


def durability_tables(scorecard: Scorecard) -> list[Table]:
    """Return the meaning of an acknowledgement on each platform, and the observed syncs."""
    return [_DURABILITY.table(scorecard.cards)]


def resource_tables(scorecard: Scorecard) -> list[Table]:
    """Return the processor time of an object at every measured point."""
    return [
        _by_point(scorecard, "server-cpu", "Server CPU of an object", _of_unit(server_cpu_ms), "ms", _SERVER_CPU, 3),
        _by_point(scorecard, "client-cpu", "Client CPU of an object", _of_unit(client_cpu_ms), "ms", "", 3),
        _by_point(
            scorecard,
            "written",
            "Written on the device",
            _of_unit(write_amplification),
            "bytes per byte archived",
            "",
            2,
        ),
    ]


def price_tables(scorecard: Scorecard) -> list[Table]:
    """Return the disclosed prices; none if no platform has one."""
    priced = [
        (card, price_words(card.side, card.points[point].key if point in card.points else None))
        for card in scorecard.cards
        for point in [Point("archive", 8 << 10, 16)]
        if card.side is not None and card.side.disclosure is not None
    ]
    return [_PRICES.table(pair for pair in priced if pair[1] != NOT_MEASURED)]


def missing_tables(scorecard: Scorecard) -> list[Table]:
    return [_MISSING.table(missing_parts(scorecard))]


def main_tables(scorecard: Scorecard) -> list[Table]:
    """Return the tables for a terminal, without empty ones."""
    parts = (
        conformance_tables, rate_tables, lock_cost_tables, durability_tables, resource_tables, price_tables,
        missing_tables,
    )  # fmt: skip
    return [table for part in parts for table in part(scorecard) if table.rows]


def basis_tables(scorecard: Scorecard) -> list[Table]:
    """Return versions, runs, dates and client machines."""
    return [_BASIS.table((card, row) for card in scorecard.cards for row in card.rows)]


class _Measured(NamedTuple):
    """A point that a platform measured."""

    card: Card
    point: Point

    @property
    def unit(self) -> Unit:
        return self.card.points[self.point]

    @property
    def latency(self) -> Latency | None:
        return latency_of(self.card, self.unit)


def latency_of(card: Card, unit: Unit) -> Latency | None:
    """Return the service times of an object over all repetitions of a cell."""
    times = card.side.runs[0].times if card.side is not None and len(card.side.runs) == 1 else NO_TIMES
    return times.over("object_service", unit.results)


def server_cpu_ms(unit: Unit) -> float | None:
    """Return the mean processor time of the server for an object, in milliseconds."""
    return server_mean(unit.results, lambda server: server.cpu_milliseconds_per_object, objects_of)


def client_cpu_ms(unit: Unit) -> float | None:
    """Return the mean processor time of the client for an object, in milliseconds."""
    microseconds = mean_over(unit.results, lambda result: result.client.cpu_microseconds_per_object, objects_of)
    return None if microseconds is None else microseconds / 1e3


def write_amplification(unit: Unit) -> float | None:
    """Return the mean of the device bytes written per byte archived."""
    return server_mean(unit.results, lambda server: server.write_amplification, bytes_of)


def syncs_per_object(card: Card) -> float | None:
    """Return the syncs of the store for each archived object of one client; None if the store does not count them."""
    unit = card.points.get(Point("archive", 8 << 10, 1))
    if unit is None:
        return None
    counted = [
        (count, result.objects)
        for result in unit.results
        if result.server is not None and (count := syncs(result.server)) is not None
    ]
    objects = sum(each for _, each in counted)
    return sum(count for count, _ in counted) / objects if objects else None


def failures_by_severity(checks: Sequence[CheckRecord]) -> Mapping[str, int]:
    """Return the number of failed checks by severity. A check counts once, with its worst failure in all rounds."""
    failed = _failed(checks).values()
    return {severity: sum(each == severity for each in failed) for severity in SEVERITIES}


def _failed(checks: Sequence[CheckRecord]) -> Mapping[str, str]:
    """Return the severity of the worst failure of each failed check, by its id."""
    failed: dict[str, str] = {}
    for check in checks:
        if check.verdict == "FAIL":
            failed[check.id] = min(check.severity, failed.get(check.id, check.severity))
    return dict(sorted(failed.items()))


def _worst(card: Card) -> str:
    worst = worst_finding(_checks(card))
    return "none" if worst is None else f"{worst.severity} {worst.name}"


def _checks(card: Card) -> Sequence[CheckRecord]:
    return card.conformance.checks if card.conformance is not None else ()


def _failures(severity: str, checks: Sequence[CheckRecord]) -> int:
    return failures_by_severity(checks)[severity]


def _deviations(checks: Sequence[CheckRecord]) -> int:
    return len({check.id for check in checks if check.verdict == "DEVIATION"})


def _of_checks(name: str, count: Callable[[Sequence[CheckRecord]], int]) -> Column:
    return Column(name, of=lambda card: count(_checks(card)))


def _by_card(cards: Sequence[Card], value: Callable[[Card, Any], Any], unit: str = "", digits: int = 0) -> list[Column]:
    """Return a column for each platform, which shows a value of the card and the row."""

    def column(card: Card) -> Column:
        return Column(card.label, unit, lambda row: value(card, row), digits)

    return [column(card) for card in cards]


def _by_point(
    scorecard: Scorecard,
    name: str,
    title: str,
    value: Callable[[Card, Unit], Cell | float | None],
    unit: str,
    caption: str,
    digits: int = 0,
) -> Table:
    """Return a table of measured points by platform."""

    def at(card: Card, point: Point) -> Cell | float | None:
        return value(card, card.points[point]) if point in card.points else None

    columns = (_POINT, *_by_card(scorecard.cards, at, unit, digits))
    table = TableSpec(name, title, columns, caption).table(POINTS)
    return replace(table, rows=tuple(row for row in table.rows if any(each.text != NOT_MEASURED for each in row[1:])))


def _of_unit(value: Callable[[Unit], float | None]) -> Callable[[Card, Unit], float | None]:
    return lambda _, unit: value(unit)


def _rate(card: Card, unit: Unit) -> Cell:
    if unit.grade == NOT_KNOWN:
        return Cell("not known", None, unit.cautions)
    return replace(number(unit.objects_per_second, 0, unit.cautions), grade=unit.grade)


def _latency_words(card: Card, unit: Unit) -> Cell:
    found = latency_of(card, unit)
    return Cell(NOT_MEASURED) if found is None else Cell(f"{found.p50:,.2f} / {found.p99:,.2f}", found.p50)


def _verdicts(checks: Iterable[CheckRecord]) -> str:
    """Return ``2 FAIL: DEL-02 (S1), RAC-01 (S1); 40 PASS; 3 other``; a failed check once, with its worst failure."""
    found = list(checks)
    failed = _failed(found)
    passed = sum(check.verdict == "PASS" for check in found)
    others = sum(check.verdict in ("DEVIATION", "INCONCLUSIVE") for check in found)
    names = ", ".join(f"{name} ({severity})" for name, severity in failed.items())
    parts = [f"{len(failed)} FAIL: {names}"] if failed else []
    parts += [f"{passed} PASS"] if passed else []
    parts += [f"{others} other"] if others else []
    return "; ".join(parts) or "not tried"


def _requirements(cards: Sequence[Card]) -> Table:
    columns = (
        Column("requirement", of=lambda row: row[1][0], label=True),
        *(Column(card.label, of=_of_requirement(card), words=True) for card in cards),
        Column("requires", of=lambda row: row[1][1], words=True),
    )
    caption = (
        "SEC 17a-4(f) and CFTC 1.31. FINRA 4511(c) requires nothing beyond SEC 17a-4(f). PASS counts checks in each"
        f" round; other: deviations and inconclusive checks. {DISCLAIMER}"
    )
    return TableSpec("requirements", "By requirement", columns, caption).table(REQUIREMENTS.items())


def _of_provision(card: Card) -> Callable[[Provision], str]:
    return lambda provision: _verdicts(filter(provision.concerns, _checks(card)))


def _of_requirement(card: Card) -> Callable[[tuple[str, tuple[str, str]]], str]:
    return lambda row: _verdicts(check for check in _checks(card) if row[0] in check.rules)


def _cost_key(cost: VariantCost) -> tuple[str, int, int, int]:
    key = cost.cell.key
    return cost.name, key.object_bytes, key.objects_per_session, key.clients


def _cost_words(cost: VariantCost | None) -> Cell:
    if cost is None:
        return Cell(NOT_MEASURED)
    percent, known = lock_cost_percent(cost)
    return Cell(f"{percent:+.1f}{f' ({known})' if known else ''}", percent, (*cost.cell.cautions, *cost.contradiction))


def _written(card: Card) -> str:
    unit = card.points.get(Point("archive", 1 << 20, 1))
    value = write_amplification(unit) if unit is not None else None
    return _UNKNOWN if value is None else f"{value:,.2f}"


def _syncs_words(card: Card) -> str:
    value = syncs_per_object(card)
    return "not counted by the platform" if value is None else f"{value:,.2f}"


def _limits(unit: Unit) -> str:
    return ", ".join(dict.fromkeys(result.limit or "nothing seen" for result in unit.results))


_POINT = Column("point", of=str, label=True)
_SEVERITIES = TableSpec(
    "severities",
    "By severity",
    (
        Column("platform", of=lambda card: card.label, label=True),
        Column("checks", of=lambda card: checks_tried(_checks(card), card.conformance.catalogue), words=True),
        *(_of_checks(f"{severity} failed", partial(_failures, severity)) for severity in SEVERITIES),
        _of_checks("deviations", _deviations),
        Column("worst finding", of=_worst, words=True),
    ),
    "S1: a record can be destroyed or altered inside its retention period. S2: a lock can be weakened, or is silently"
    " missing. S3: wrong reports, or an allowed request is refused. S4: only the status or error code is wrong."
    " DEVIATION: the state is right, but the response differs from the expected one. A check counts once, regardless of"
    " its rounds.",
)
_RATES = "Medians over repetitions; archived objects are locked."
_LATENCY = "Service time over all repetitions: from the first byte sent to the last byte received."
_SERVER_CPU = "Of the server's processes; of its host if the client runs elsewhere."
_DETAILS = TableSpec(
    "points",
    "Every point",
    (
        Column("point", of=lambda row: str(row.point), label=True),
        Column("platform", of=lambda row: row.card.label, label=True),
        Column("objects/session", of=lambda row: row.unit.key.objects_per_session),
        Column("objects/s", of=lambda row: rate_cell(row.unit, row.unit.objects_per_second, 1)),
        Column("95% within", of=lambda row: interval(row.unit)),
        Column("MB/s", of=lambda row: row.unit.megabytes_per_second, digits=1),
        Column("p50", "ms", lambda row: row.latency and row.latency.p50, 3),
        Column("p99", "ms", lambda row: row.latency and row.latency.p99, 3),
        Column("measured", "s", lambda row: min(result.seconds for result in row.unit.results), 2),
        Column("objects", of=lambda row: sum(result.objects for result in row.unit.results)),
        Column("errors", of=lambda row: row.unit.errors),
        Column("limited by", of=lambda row: _limits(row.unit), words=True),
    ),
)
_DURABILITY = TableSpec(
    "durability",
    "What an acknowledgement means",
    (
        Column("platform", of=lambda card: card.label, label=True),
        Column("as recorded", of=lambda card: card.profile.durability, words=True),
        Column("syncs of an archived object", of=_syncs_words, words=True),
        Column("device bytes per byte archived", of=_written, words=True),
        Column("after kill -9", of=lambda card: kill_words(card) or _UNKNOWN, words=True),
    ),
    "Syncs of 8KiB and device bytes of 1MiB, with one client. A kill ends the server's processes, not its machine, so"
    " data in the memory of the operating system survives.",
)
_PRICES = TableSpec(
    "prices",
    "List price, as disclosed",
    (
        Column("platform", of=lambda pair: pair[0].label, label=True),
        Column("price", of=lambda pair: pair[1], words=True),
    ),
    "Of an archived object/s: of 8KiB with 16 clients.",
)
_MISSING = TableSpec(
    "missing",
    "Not measured",
    (
        Column("platform", of=lambda part: part.platform, label=True),
        Column("part", of=lambda part: part.part, words=True),
        Column("is measured by", of=lambda part: part.command, words=True),
    ),
)
_BASIS = TableSpec(
    "basis",
    "Runs",
    (
        Column("platform", of=lambda pair: pair[0].label, label=True),
        Column("version", of=lambda pair: pair[1].platform.version or "unknown", words=True),
        Column("run", of=lambda pair: pair[1].id, label=True),
        Column("scenario", of=lambda pair: pair[1].scenario, label=True),
        Column("repetitions", of=lambda pair: pair[1].repetitions),
        Column("date", of=lambda pair: format_instant(pair[1].started_at), label=True),
        Column("client machine", of=lambda pair: machine_words(pair[1]), words=True),
    ),
)
