"""The page of a comparison, comparison.html: the verdict first, then the platforms side by side, then every ratio.

One file, which loads nothing else. The same runs give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

from results.comparison.compare import Comparison, Side
from results.comparison.conformance import (
    ComparedChecks,
    conformance_findings,
    conformance_sentences,
    conformance_tables,
)
from results.comparison.documents import comparison_figure
from results.comparison.gate import Judgement, gate_sentences
from results.comparison.ratio_tables import listed
from results.comparison.tables import (
    ComparisonTables,
    answer_sentences,
    comparison_tables,
    doubt_sentences,
    overall_sentences,
)
from results.document.document import Document, Drawing, KeyFinding, Number, Section, State, filled
from results.document.files import write_files
from results.document.html import html_page
from results.document.markdown import markdown_page
from results.document.table import NOT_MEASURED, Column, Table, TableSpec
from results.measures.metrics import bytes_of, objects_of, server_mean
from results.measures.stored_times import NO_TIMES
from results.measures.units import Unit, UnitKey
from results.report.key_figures import at_same_point
from results.report.numbers import lock_cost_numbers, percentile_numbers, rate_number, setup_numbers
from results.report.summary import WARNINGS_MAX
from results.tables.usage import limits_table, resource_table
from results.worm.findings import checks_sentence

PAGE_NAME = "comparison.html"
_STATES: dict[str, State] = {"better": "good", "worse": "bad", "no difference shown": "plain", "no verdict": "care"}


def write_comparison_page(folder: Path, comparison: Comparison, judgements: Sequence[Judgement] = ()) -> list[Path]:
    """Write comparison.html into ``folder`` and return its path.

    The function creates the folder if necessary. Raises ResultsError if the folder cannot be written.
    """
    return write_files(folder, {PAGE_NAME: html_page(comparison_as_document(comparison, judgements)).encode()})


def comparison_as_document(comparison: Comparison, judgements: Sequence[Judgement] = ()) -> Document:
    """Return the document of a comparison."""
    runs = ", ".join(run.id for side in comparison.sides for run in side.runs)
    tables = comparison_tables(comparison)
    return Document(
        kind=f"Archiver comparison, runs {runs}",
        title=f"{listed(comparison)} compared",
        answers=tuple(answer_sentences(comparison)),
        main=Drawing("ratios-figure", comparison_figure(comparison), tables.rates[0].name if tables.rates else ""),
        findings=tuple(_findings(comparison, judgements)),
        sections=filled(_sections(comparison, tables)),
    )


def write_conformance_documents(folder: Path, compared: ComparedChecks, file_format: str) -> list[Path]:
    """Write comparison.html, or comparison.md, of several conformance runs and return its path. Raises ResultsError."""
    found = Document(
        kind=f"Archiver comparison, runs {', '.join(run.id for run in compared.runs)}",
        title=f"{compared.listed} compared: WORM conformance",
        answers=tuple(conformance_sentences(compared)),
        findings=tuple(conformance_findings(compared)),
        sections=(
            Section("checks", "Checks", tables=tuple(table for table in conformance_tables(compared) if table.rows)),
        ),
    )
    if file_format == "markdown":
        return write_files(folder, {"comparison.md": markdown_page(found).encode()})
    return write_files(folder, {PAGE_NAME: html_page(found).encode()})


def _findings(comparison: Comparison, judgements: Sequence[Judgement]) -> Iterator[KeyFinding]:
    """Yield the verdict of each pair, the conditions, and the most serious warnings of each platform."""
    for overall, sentence in zip(comparison.overall, overall_sentences(comparison), strict=True):
        yield KeyFinding(_STATES[overall.ratio.verdict], "Verdict", sentence)
    state: State = "bad" if any(judgement.fails for judgement in judgements) else "good"
    for sentence in gate_sentences(judgements):
        yield KeyFinding(state, "Condition", sentence)
    for side in comparison.sides:
        doubts = [doubt for run in side.runs for doubt in run.doubts]
        more = f" (and {len(doubts) - WARNINGS_MAX} more)" if len(doubts) > WARNINGS_MAX else ""
        if doubts:
            yield KeyFinding(
                "care", f"Warnings: {side.label}", f"{'; '.join(map(_briefly, doubts[:WARNINGS_MAX]))}{more}"
            )


def _briefly(doubt: str) -> str:
    """Return the first clause of a warning. The section of warnings has the rest."""
    return "".join(re.findall(r"^(?:[^:;(]|\([^)]*\))*", doubt)).strip()


def _sections(comparison: Comparison, tables: ComparisonTables) -> list[Section]:
    resources = [table for place, side in enumerate(comparison.sides, 1) for table in _resources(side, place)]
    return [
        Section("side-by-side", "Platforms side by side", tables=(side_by_side_table(comparison.sides),)),
        Section(
            "ratios",
            "Rates and their ratios",
            tables=tables.rates,
            further_tables=tables.further,
        ),
        Section("latency", "Latency", tables=tables.latencies),
        Section("resources", "What limited each platform, and its resources", tables=tuple(resources)),
        Section("doubts", "Warnings", sentences=tuple(doubt_sentences(comparison)), is_folded=True),
        Section("compared", "What was compared", tables=(tables.platforms, tables.disclosure), is_folded=True),
    ]


def _resources(side: Side, place: int) -> list[Table]:
    results = [result for run in side.runs for result in run.results if not result.is_load]
    return [
        replace(table, name=f"{table.name}-{place}", title=f"{side.label}: {table.title.lower()}")
        for table in (limits_table(results), resource_table(results))
        if table.rows
    ]


class _SideRow(NamedTuple):
    """One quantity on every platform."""

    name: str
    texts: Sequence[str]


def side_by_side_table(sides: Sequence[Side]) -> Table:
    """Return the numbers that decide about each platform, its resources, its checks and its warnings, one column each.

    Rates and times are of the same cell on every platform: the fastest of the first among the cells of all.
    """

    def text_of(place: int) -> Callable[[_SideRow], str]:
        return lambda row: row.texts[place]

    columns = [Column(side.label, of=text_of(place), words=True) for place, side in enumerate(sides)]
    return TableSpec(
        "side-by-side",
        "The numbers that decide",
        (Column("", of=lambda row: row.name, label=True), *columns),
        "Rates and times are of the same cell on every platform. If a platform has several runs, rates of the cell,"
        " server CPU, device bytes and warnings are over all of them, percentiles are left out, and everything else is"
        " of its first run.",
    ).table(row for row in _side_rows(sides) if any(text != NOT_MEASURED for text in row.texts))


def _side_rows(sides: Sequence[Side]) -> Iterator[_SideRow]:
    keyed = [{f"{each.name}, {each.unit}": each for each in numbers} for numbers in _numbers(sides)]
    for name in dict.fromkeys(name for numbers in keyed for name in numbers):
        yield _SideRow(name, [_number_text(numbers.get(name)) for numbers in keyed])
    runs = [side.runs[0] for side in sides]
    yield _SideRow("what limits", [" ".join(run.summary.limits) if run.summary else NOT_MEASURED for run in runs])
    fastest = _common_cell(sides, "archive", lambda cell: cell.objects_per_second)
    if fastest is not None:
        cells = [side.units[fastest].results for side in sides]
        cpu = [server_mean(results, lambda server: server.cpu_milliseconds_per_object, objects_of) for results in cells]
        yield _SideRow("server CPU of an archived object", [_with_unit(each, "ms") for each in cpu])
        written = [server_mean(results, lambda server: server.write_amplification, bytes_of) for results in cells]
        yield _SideRow("written on the device", [_with_unit(each, "bytes per byte archived") for each in written])
    yield _SideRow("list price, as disclosed", [price_words(side, fastest) for side in sides])
    yield _SideRow("WORM checks", [_of_checks(side) for side in sides])
    yield _SideRow("warnings", [f"{sum(len(run.doubts) for run in side.runs):,}" for side in sides])
    yield _SideRow("verdict of the run", [run.summary.verdict if run.summary else NOT_MEASURED for run in runs])


def _numbers(sides: Sequence[Side]) -> list[list[Number]]:
    """Return the numbers of each side. Workloads have those of their summaries."""
    found: list[list[Number]] = [[] for _ in sides]
    # Protocols define the time of an object differently, but a session of a cell has the same objects in each.
    timed: Literal["object", "session"] = "object" if len({side.protocol for side in sides}) == 1 else "session"
    fastest = widest = None
    for operation in ("archive", "retrieve"):
        fastest = _common_cell(sides, operation, lambda cell: cell.objects_per_second, fastest)
        widest = _common_cell(sides, operation, lambda cell: cell.megabytes_per_second, widest)
        if fastest is None or widest is None:
            continue
        for side, numbers in zip(sides, found, strict=True):
            numbers.append(rate_number(operation, side.units[fastest], "objects/s"))
            times = side.runs[0].times if len(side.runs) == 1 else NO_TIMES
            numbers += percentile_numbers(operation, side.units[fastest], times, timed)
            numbers += setup_numbers(side.runs[0].results, operation, fastest.object_bytes)
            numbers.append(rate_number(operation, side.units[widest], "MB/s"))
    for side, numbers in zip(sides, found, strict=True):
        numbers += lock_cost_numbers(side.runs[0].results)
    if any(found):
        return found
    return [list(run.summary.numbers) if (run := side.runs[0]).summary else [] for side in sides]


def _common_cell(
    sides: Sequence[Side], operation: str, rate: Callable[[Unit], float], at: UnitKey | None = None
) -> UnitKey | None:
    """Return the fastest of the first side among the cells that every side measured; None if there is no such cell.

    ``at``: the cell of another operation, at whose sizes and clients it is, if these were measured.
    """
    cells = [
        unit
        for key, unit in sides[0].units.items()
        if key.is_cell and unit.first.operation == operation and all(key in side.units for side in sides)
    ]
    return at_same_point(sides[0].units[at] if at else None, cells, rate).key if cells else None


def _number_text(number: Number | None) -> str:
    if number is None:
        return NOT_MEASURED
    return f"{number.value} ({number.basis})" if number.basis else number.value


def price_words(side: Side, fastest: UnitKey | None) -> str:
    """Return the disclosed price of the tested configuration, and that of an archived object/s of the common cell."""
    found = side.disclosure
    if found is None or found.list_price is None:
        return NOT_MEASURED
    rate = side.units[fastest].objects_per_second if fastest is not None else 0.0
    per_rate = f" ({found.list_price / rate:,.2f} for an archived object/s)" if rate else ""
    return f"{found.list_price:,.2f} {found.currency}{per_rate}"


def _of_checks(side: Side) -> str:
    run = side.runs[0]
    return checks_sentence(side.label, run.checks, run.catalogue) if run.checks else NOT_MEASURED


def _with_unit(value: float | None, unit: str) -> str:
    return NOT_MEASURED if value is None else f"{value:,.3g} {unit}"
