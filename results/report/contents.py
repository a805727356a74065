"""The report of a run as a plain value: its introduction, then its sections with their words, figures and tables.

The answer comes first, then the measurements in the order of the paper, then the evidence; the configuration is last.
Sections that few readers need are folded. Sections without content are omitted. A page stays small: of many figures of
parallel cells three are drawn, and the samples of every source are CSV files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from matplotlib.figure import Figure

from archiver.values.sizes import format_instant
from results.document.document import Document, Drawing, Section, filled
from results.document.table import ROWS_SHOWN_MAX, Table, settings_table
from results.figures.clients import CLIENTS, build_clients_figure
from results.figures.lock_cost import build_lock_figures
from results.figures.overview import OVERVIEW, overview_figure, overview_note
from results.figures.phases import Caption, build_figures
from results.figures.resources import RESOURCE_FIGURES, build_resource_figures
from results.figures.run_course import RUN_COURSE, build_course_figures
from results.figures.session_time import build_session_time_figures
from results.measures.doubts import doubts, drifts
from results.measures.units import Unit, all_cells, parallel_cells, session_lengths
from results.measures.watched import Watched, watched
from results.mixed.replay.contents import SECTIONS as REPLAY_SECTIONS
from results.planning.measured_rates import measured_surface
from results.planning.tables import examples_table
from results.prices.cost import bill_table, unit_price_table
from results.prices.disclosure import disclosure_tables
from results.prices.prices import PriceList
from results.recorded.database import StoredRun
from results.recorded.model import CheckRecord, Result
from results.recorded.run import RecordedRun
from results.reference.published import dr550
from results.report.configuration import facts, readable_settings
from results.report.distributions import distributions_table
from results.report.key_figures import findings, limit_sentences
from results.report.mixed_contents import COURSE_TABLES, FIGURE_TABLES, WorkloadsShown, mixed_figures, mixed_tables
from results.report.run_price import platform_cost
from results.report.summary import summary
from results.report.tables import (
    asked_table,
    doubted_cells_table,
    drift_table,
    published_parallel_table,
    published_table,
)
from results.tables.audits import audits_table
from results.tables.rates import AMOUNTS, CELLS, build_tables
from results.tables.usage import SERVER_RESOURCES
from results.tables.workers import worker_tables
from results.worm.findings import DISCLAIMER
from results.worm.report import worm_tables

PHASES_TABULATED_MAX = 10  # of a page: the values of every source and phase are long, and slow to compute
PARALLEL_FIGURES_MAX = 3  # of a page, one for each number of objects per session; the tables have all of them

_OBJECTIVES = {
    "dr550": "How many objects and megabytes per second the platform archives and retrieves, by object size, by objects"
    " in a session and by clients in parallel; which resources that uses; and how it compares with the DR550's rates"
    " that IBM published in 2005.",
    "lock-cost": "The cost of locking an object compared with not locking it, for each way to request the lock, and the"
    " cost of the operations of a lock's life.",
    "tiles": "How many tiles (an e-mail server, a database, a web server and a backup scan at the same time) the"
    " platform can serve, the rates of each, and how they affect each other.",
    "characterize": "The maximum performance of the platform, and whether the client that measures it limited it.",
    "mail": "How many users' mail of a day the platform archives in a night while it also serves searches.",
    "video": "How many cameras the platform records without a late chunk, while films are played and edited.",
    "application-sets": "How many sets of eight applications the platform can serve while it keeps up with their traces"
    " and every response time stays within its limit.",
    "worm": "Whether the platform refuses every request that could lose, alter or unlock a record before its time.",
}


@dataclass(frozen=True, slots=True)
class Priced:
    """The cost of the platform, and the years of support that it includes."""

    prices: PriceList
    years: int


def build_report(
    recorded: RecordedRun,
    mixed: WorkloadsShown | None,
    *,
    priced: Priced | None = None,
    is_page: bool = False,
    has_figures: bool = True,
) -> Document:
    """Return the report of a run.

    ``mixed`` has its simultaneous workloads, ``priced`` the cost of the platform. A page omits long tables that few
    readers need. Raises ResultsError as reading a run's results does.
    """
    run, results, checks = recorded.run, recorded.results, recorded.checks
    cells, audits, warnings = list(all_cells(results).values()), recorded.audits, doubts(recorded)
    seen = watched(recorded)
    is_cut = is_page and len(seen.phases) > PHASES_TABULATED_MAX
    tabulated = replace(seen, phases=()) if is_cut else seen
    tables = {each.name: each for each in build_tables(results, tabulated)} if results else {}
    drawings = _drawings(run, results, seen, tables) if has_figures else []
    mixed_sections = list(_mixed(run, mixed, is_page, has_figures))
    named = [
        _measured(
            "objects", "Objects/s: archive and retrieve", tables, drawings, ("archive-objects", "retrieve-objects")
        ),
        replace(
            _measured(
                "megabytes", "MB/s: archive and retrieve", tables, drawings, ("archive-megabytes", "retrieve-megabytes")
            ),
            is_folded=True,  # MB/s follow from objects/s
        ),
        _parallel(tables, drawings),
        *mixed_sections,
        _measured("locks", "What locks cost", tables, drawings, ("lock-cost", "life-cycle")),
        _resources(results, tables, drawings),
        _measured("session-time", "Session time", tables, drawings, ("session-time",)),
        _course(drawings),
        Section(
            "latency",
            "Latency distributions",
            words=(
                "Service times of objects over all repetitions. The curve is the share of objects by time, on the same"
                " logarithmic scale in every row. Its height is the square root of the share, so that tails are"
                " visible.",
            ),
            tables=tuple(_filled([distributions_table(recorded, cells, seen.times)])),
        ),
        _errors(recorded, warnings, cells, tables),
        _worm(recorded, checks),
        Section("audits", "Audits", tables=tuple(_filled([audits_table(audits)]))),
        _planning(recorded, results),
        _price(results, priced),
        Section("workers", "Workers and their clocks", tables=tuple(worker_tables(recorded)), is_folded=True),
        Section("configuration", "Objective and configuration", is_folded=True, **_configuration(recorded)),
        _appendix(run, results, tables),
    ]
    shown = summary(recorded, warnings)
    return Document(
        kind=f"Archiver report, run {run.id}, {format_instant(run.started_at)}",
        title=f"{run.scenario_title} on {run.platform.name}",
        answers=(shown.answer,),
        quality=shown.quality,
        numbers=shown.numbers,
        main=_main(results, [*(each for section in mixed_sections for each in section.drawings), *drawings])
        if has_figures
        else None,
        findings=shown.findings("doubts"),
        further_findings=tuple(findings(run, results, checks, audits, recorded.criteria, recorded.search)),
        sections=filled(named),
    )


def _main(results: Sequence[Result], drawings: Sequence[Drawing]) -> Drawing | None:
    """Return the main figure: the rates of cells, else the first figure of workloads, else the run over its time."""
    drawn = overview_figure(results)
    if drawn is not None:
        table = next((each.table for each in drawings if each.table.endswith("-objects-per-second")), "")
        return Drawing(OVERVIEW, drawn, table, overview_note(results))
    course = [each for each in drawings if each.name == RUN_COURSE]
    own = [each for each in drawings if each.table in FIGURE_TABLES.values()]
    return next((replace(each, name="main") for each in [*own, *course]), None)


def _draw_figures(results: Sequence[Result], watched: Watched, caption: Caption) -> dict[str, Figure]:
    """Return every figure of a run by the stem of its file name; empty if nothing was measured."""
    if not results:
        return {}
    figures = build_figures(results, caption) | build_lock_figures(results, caption)
    figures |= build_clients_figure(results, caption) | build_resource_figures(watched, caption)
    figures |= build_session_time_figures(results, caption)
    return figures | build_course_figures(watched, caption)


def _belongs(figure: str, table: str) -> bool:
    """Return whether the numbers of a figure are those of a table, by their names."""
    if figure in RESOURCE_FIGURES:
        return table == "resource-usage"
    if figure.startswith(RUN_COURSE):
        return table in ("latency", "workloads")
    if figure in FIGURE_TABLES:
        return table == FIGURE_TABLES[figure]
    return figure.endswith(table) or (("parallel" in figure or figure == CLIENTS) and table.startswith("parallel"))


def _drawings(
    run: StoredRun, results: Sequence[Result], watched: Watched, tables: Mapping[str, Table]
) -> list[Drawing]:
    caption = Caption(run.id, run.platform.name, run.shared_host)
    figures = _draw_figures(_to_draw(results), watched, caption)
    return [Drawing(name, figure, _table_of(name, tables)) for name, figure in figures.items()]


def _course(drawings: Sequence[Drawing]) -> Section:
    """Return the run over its time, and folded each phase of its scenario."""
    mine = tuple(each for each in drawings if each.name.startswith(RUN_COURSE))
    return Section("course-of-run", "The run over its time", drawings=mine[:1], further_drawings=mine[1:])


def _table_of(figure: str, tables: Mapping[str, Table]) -> str:
    """Return the table with a figure's numbers, or "". If there are several, the objects per session decide."""
    found = [table for table in tables if _belongs(figure, table)]
    count = figure.rpartition("-")[2]
    return next((table for table in found if table.endswith(f"-{count}")), found[0] if found else "")


def _measured(
    name: str, title: str, tables: Mapping[str, Table], drawings: Sequence[Drawing], prefixes: tuple[str, ...]
) -> Section:
    """Return the tables whose names have these prefixes, and their figures."""
    mine = [table for key, table in tables.items() if key.startswith(prefixes)]
    names = {table.name for table in mine}
    return Section(name, title, drawings=tuple(each for each in drawings if each.table in names), tables=tuple(mine))


def _parallel(tables: Mapping[str, Table], drawings: Sequence[Drawing]) -> Section:
    section = _measured("parallel", "Parallel requests", tables, drawings, ("parallel",))
    counts = {table.name.removeprefix("parallel-").partition("-")[2] for table in section.tables}
    if len(counts) <= PARALLEL_FIGURES_MAX:
        return section
    drawn = sum(each.name != CLIENTS for each in section.drawings)
    words = f"The figures show {drawn} of {len(counts)} numbers of objects per session; the tables have all."
    return replace(section, words=(words,))


def _to_draw(results: Sequence[Result]) -> list[Result]:
    """Return the results to draw.

    If there are many numbers of objects per session, they are the paper's (if measured) and the extremes.
    """
    counts = session_lengths(parallel_cells(results))
    if len(counts) <= PARALLEL_FIGURES_MAX:
        return list(results)
    chosen = {counts[0], counts[-1], *({dr550().parallel_objects_per_session} & set(counts))}
    return [result for result in results if result.clients == 1 or result.objects_per_session in chosen]


def _mixed(run: StoredRun, mixed: WorkloadsShown | None, is_page: bool, has_figures: bool) -> Iterator[Section]:
    """Yield the sections of simultaneous workloads: their results, their offered load, and their course.

    Replays come first, in the order of a test report.
    """
    if mixed is None:
        return
    tables = mixed_tables(mixed)
    drawn = mixed_figures(mixed, Caption(run.id, run.platform.name, run.shared_host)) if has_figures else {}
    drawings = [Drawing(name, figure, FIGURE_TABLES[name]) for name, figure in drawn.items()]
    for name, title, chosen in (
        *REPLAY_SECTIONS,
        ("asked", "Pass criteria and search", ("criteria", "search")),
        ("tiles", "Tiles", tuple(each.name for each in tables if each.name.startswith("tiles"))),
        ("course", "Workloads side by side, and their course", COURSE_TABLES),
    ):
        mine = [each for each in tables if each.name in chosen]
        hidden = [each for each in mine if is_page and each.is_long and len(each.rows) > ROWS_SHOWN_MAX]
        yield Section(
            name,
            title,
            words=tuple(f"{each.title}: {len(each.rows):,} rows, in tables/{each.name}.csv." for each in hidden),
            drawings=tuple(each for each in drawings if each.table in chosen),
            tables=tuple(each for each in mine if each not in hidden),
        )
    known = {"criteria", "search", *COURSE_TABLES, *(table for _, _, names in REPLAY_SECTIONS for table in names)}
    rest = tuple(each for each in tables if each.name not in known and not each.name.startswith("tiles"))
    yield Section("exercise", "Results", tables=rest)


def _resources(results: Sequence[Result], tables: Mapping[str, Table], drawings: Sequence[Drawing]) -> Section:
    """Return the bottleneck verdict in words, the processor's use, and folded all other usage."""
    section = _measured(
        "resources", "Resource usage", tables, drawings, ("limits", "resource-usage", "per-object", "requests")
    )
    return replace(
        section,
        words=limit_sentences(results) if not section.is_empty else (),
        drawings=section.drawings[:1],
        tables=tuple(table for table in section.tables if table.name == "limits"),
        further_drawings=section.drawings[1:],
        further_tables=tuple(table for table in section.tables if table.name != "limits"),
    )


def _configuration(recorded: RecordedRun) -> dict[str, Any]:
    run = recorded.run
    settings = [
        settings_table("facts", "This run", facts(recorded)),
        settings_table("platform", "Platform profile", readable_settings(asdict(run.platform))),
        *disclosure_tables(recorded),
        settings_table("lock-settings", "Settings, locks and guards", readable_settings(run.settings)),
        settings_table("host", "Client's host and versions", readable_settings(run.host)),
    ]
    return {
        "words": (_OBJECTIVES.get(run.scenario, f"{run.scenario_title}."),),
        "settings": tuple(_filled(settings)),
        "tables": tuple(_filled([asked_table(_scenario(run))])),
    }


def _errors(
    recorded: RecordedRun, warnings: Sequence[str], cells: Sequence[Unit], tables: Mapping[str, Table]
) -> Section:
    offset = recorded.run.platform.server_clock_offset_seconds
    clock = "differed by an unknown amount" if offset is None else f"differed by {offset:+.2f} s"
    return Section(
        "doubts",
        "Errors and doubts",
        words=(
            f"The server's clock {clock} from the client's.",
            "Warnings about these numbers:" if warnings else "There are no warnings about these numbers.",
        ),
        sentences=tuple(warnings),
        tables=(tables["errors"],) if "errors" in tables else (),
        further_tables=tuple(_filled([doubted_cells_table(cells), drift_table(drifts(recorded))])),
    )


def _worm(recorded: RecordedRun, checks: Sequence[CheckRecord]) -> Section:
    words = (DISCLAIMER,) if checks else ()
    return Section("worm", "WORM evidence", words=words, tables=tuple(worm_tables(recorded)))


def _planning(recorded: RecordedRun, results: Sequence[Result]) -> Section:
    """Return the planning examples of the paper, answered from this run."""
    tables = [examples_table(measured_surface(recorded))] if all_cells(results) else []
    return Section("planning", "Planning examples", tables=tuple(_filled(tables)))


def _price(results: Sequence[Result], priced: Priced | None) -> Section:
    """Return the disclosure: priced parts, and prices per unit."""
    if priced is None or not results:
        return Section("price", "Price")
    cost = platform_cost(results, priced.prices, priced.years)
    caption = f"The total price of {priced.years} years divided by the best rates of one platform in this run."
    return Section("price", "Price", tables=(bill_table(cost), *_filled([unit_price_table(cost, caption)])))


def _appendix(run: StoredRun, results: Sequence[Result], tables: Mapping[str, Table]) -> Section:
    found = [published_table(results), published_parallel_table(results)]
    found += [tables[name] for name in (CELLS, AMOUNTS, "latency", SERVER_RESOURCES) if name in tables]
    again = [
        ("The run, on a platform in the same state", " ".join(run.command_line)),
        ("This page, with the same bytes, from the run's database", f"archiver report {run.id} --format html"),
        (
            "All tables for programs, and the values of every source in every phase",
            f"archiver report {run.id} --format csv",
        ),
    ]
    if _scenario(run):
        again.append(("The scenario of the run, with its overrides", _lines(_scenario(run))))
    return Section(
        "appendix",
        "Appendix: all tables, and how to reproduce",
        words=(
            f"Order of cells: {run.sweep_order}, seed {run.order_seed}; content: {run.content_kind}, seed"
            f" {run.content_seed}; repetitions: {run.repetitions}.",
        ),
        tables=tuple(_filled(found)),
        code=tuple((label, text) for label, text in again if text),
        is_folded=True,
    )


def _scenario(run: StoredRun) -> dict[str, Any]:
    found = json.loads(run.scenario_json or "{}")
    return found if isinstance(found, dict) else {}


def _lines(scenario: Mapping[str, Any]) -> str:
    """Return JSON with one line for each sweep."""
    parts = []
    for name, value in scenario.items():
        if isinstance(value, list):
            inner = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in value)
            parts.append(f" {json.dumps(name)}: [\n  {inner}]")
        else:
            parts.append(f" {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(parts) + "\n}"


def _filled(tables: Sequence[Table]) -> list[Table]:
    return [table for table in tables if table.rows]
