"""The results of a replay, in the layout of an IOmark test report: summary, phases, passing detail, infrastructure.

Every verdict includes its mandatory notes. Published values are in separate columns with their source. No table
computes a ratio to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, columns_of, label_columns, number
from results.mixed.replay.published import (
    CLONE,
    MIGRATION,
    PublishedReport,
    infrastructure_score,
    minima_asked_from_sets,
    minimum_per_hour,
    published_reports,
)
from results.mixed.replay.trials import LIMIT_MS, READS, WRITES, ReplayedRun, ReplayTrial, mean_ms
from results.mixed.replay.verdicts import capacity_mark
from results.mixed.scale_up import ALL_APPLICATIONS, THE_RUN, criteria_table
from results.recorded.model import InfrastructureResult

INFERRED = "formula inferred from the published scores, which it reproduces; no published rule defines it"
BELOW_THE_MINIMUM = "a rate is below its minimum, so the score would be meaningless"
WITHHELD = "published scores are of one hour at full capacity; this run was shorter or stored less"
PHASE_COLUMNS = (  # columns of a phase that replayed
    Column("phase", of=lambda trial: trial.position, label=True),
    Column("sets", of=lambda trial: trial.sets, label=True),
)
_Row = tuple[Cell, ...]
_HOUR_SECONDS = 3600.0


def summary_table(run: ReplayedRun) -> Table:
    """Return the result of the run in a column, and for application sets the published results next to it."""
    trial = run.result
    reports = published_reports() if run.has_sets else ()
    rows = [*_what_rows(run, trial, reports), *_response_rows(trial, reports), *_time_rows(trial, reports)]
    if trial.infrastructure:
        rows += _infrastructure_rows(trial, reports)
    if run.cost is not None:
        rows += _price_rows(run, reports)
    published = (
        " Published: IOmark's reports of virtual machines on block storage, as printed"
        f" ({'; '.join(report.source for report in reports)}). Archiver uses them in no ratio and no score."
        if reports
        else ""
    )
    several = (
        " The result is the slowest phase at the largest number of sets that passed." if len(run.trials) > 1 else ""
    )
    return Table(
        name="replay-summary",
        title="Replay: summary",
        columns=(
            Column("", label=True),
            Column("unit", label=True),
            Column("this run", words=True),
            *(Column(report.name, words=True) for report in reports),
        ),
        rows=tuple(rows),
        caption="Response times of all applications, from when an operation was due. Reads: retrieve, range-retrieve,"
        f" head, query. Writes: archive, copy, new-version. The mean is over all operations.{several}{published}",
    )


def phases_table(run: ReplayedRun) -> Table:
    """Return a row for each phase, in the order of the search; empty for a single phase."""
    return TableSpec(
        name="replay-phases",
        title="Replay: every phase",
        columns=(
            *PHASE_COLUMNS,
            Column("applications", of=lambda trial: trial.application_count),
            Column("mean", "ms", lambda trial: mean_ms(trial.results), 2),
            Column("reads", "ms", lambda trial: mean_ms(trial.results, READS), 2),
            Column("writes", "ms", lambda trial: mean_ms(trial.results, WRITES), 2),
            Column(f"within {_limit_words(run.trials)}", "%", _within),
            Column("replay", "s", lambda trial: trial.nearest.replay_seconds, 1),
            Column("allowed", "s", lambda trial: trial.nearest.allowed_seconds, 1),
            Column("clones", "/h", lambda trial: _per_hour(trial, CLONE), 1),
            Column("migrations", "/h", lambda trial: _per_hour(trial, MIGRATION), 1),
            Column("verdict", of=lambda trial: trial.verdict, words=True),
        ),
        caption="Replay and allowed: times of the trace that came nearest to its allowed time, or exceeded it most.",
    ).table(run.trials if len(run.trials) > 1 else ())


def passing_table(run: ReplayedRun) -> Table:
    """Return the verdict on the result, the reasons if it is void, and each criterion with its limit."""
    trial = run.result
    blank, every = Cell(""), Cell(ALL_APPLICATIONS)
    rows: list[_Row] = [(Cell("VERDICT"), every, blank, blank, Cell(trial.verdict))]
    rows += [(Cell("replay in time"), every, blank, blank, Cell(f"VOID: {reason}")) for reason in trial.void]
    judged = criteria_table(trial.criteria, trial.results, "").rows
    order = list(dict.fromkeys(name.text for _, name, *_ in judged))
    for application, name, measured, *others in sorted(judged, key=lambda row: order.index(row[1].text)):
        whose = every if application.text == THE_RUN else application
        rows.append((name, whose, _with_set(measured, trial), *others))
    return Table(
        name="replay-passing",
        title="Replay: passing detail",
        columns=(
            *label_columns("criterion", "application"),
            Column("measured"),
            Column("limit"),
            Column("passed", words=True),
        ),
        rows=tuple(rows),
        caption=f"{_of_which(run)}For an application in several sets, the row shows the worst set and the number of"
        " sets that passed. A missing measurement fails its criterion.",
    )


def infrastructure_table(run: ReplayedRun) -> Table:
    """Return a row for each kind of infrastructure operation of each phase."""
    table = _INFRASTRUCTURE.table((trial, each) for trial in run.trials for each in trial.infrastructure)
    return replace(table, caption=f"{table.caption}{_stricter(run)}")


def score_cell(trial: ReplayTrial) -> Cell:
    """Return the inferred score of a phase.

    There is no score if the phase is void, or if a kind is missing or below its minimum. The score is withheld if the
    operations lasted less than an hour or ran with less than the full capacity: published scores have both.
    """
    if trial.void:
        return Cell("none", None, trial.void)
    clones, migrations = (_per_hour(trial, kind) for kind in (CLONE, MIGRATION))
    if clones is None or migrations is None:
        return Cell(NOT_MEASURED)
    shortest = min(each.seconds for each in trial.infrastructure)
    if shortest < _HOUR_SECONDS or capacity_mark(trial.results):
        return Cell("withheld", None, (WITHHELD,))
    least = minimum_per_hour()
    if clones < least[CLONE] or migrations < least[MIGRATION]:
        return Cell("none", None, (BELOW_THE_MINIMUM,))
    return number(infrastructure_score(clones, migrations), 2, (INFERRED,))


def _what_rows(run: ReplayedRun, trial: ReplayTrial, reports: Sequence[PublishedReport]) -> list[_Row]:
    rows: list[_Row] = [
        _row("verdict", "", Cell(trial.verdict), [Cell(NOT_MEASURED) for _ in reports]),
        _row("applications", "", number(trial.application_count, 0), [number(r.applications, 0) for r in reports]),
    ]
    if trial.sets is not None:
        name = "application sets" if run.has_sets else "sets"
        rows.insert(1, _row(name, "", number(trial.sets, 0), [number(r.sets, 0) for r in reports]))
    return rows


def _response_rows(trial: ReplayTrial, reports: Sequence[PublishedReport]) -> list[_Row]:
    results, limit = trial.results, trial.limit_ms
    within = [report.percent_within_20_ms if limit == LIMIT_MS else None for report in reports]
    return [
        _row("mean response", "ms", number(mean_ms(results), 2), [number(r.mean_ms, 2) for r in reports]),
        _row("mean read", "ms", number(mean_ms(results, READS), 2), [number(r.read_mean_ms, 2) for r in reports]),
        _row("mean write", "ms", number(mean_ms(results, WRITES), 2), [number(r.write_mean_ms, 2) for r in reports]),
        _row(f"responses within {limit:g} ms", "%", _within(trial), [number(percent, 1) for percent in within]),
    ]


def _time_rows(trial: ReplayTrial, reports: Sequence[PublishedReport]) -> list[_Row]:
    nothing = [Cell(NOT_MEASURED) for _ in reports]
    nearest = trial.nearest
    return [
        _row("time of the trace", "s", number(nearest.trace_seconds, 1), nothing),
        _row("time of its replay", "s", number(nearest.replay_seconds, 1), nothing),
        _row("allowed for it", "s", number(nearest.allowed_seconds, 1), nothing),
    ]


def _infrastructure_rows(trial: ReplayTrial, reports: Sequence[PublishedReport]) -> list[_Row]:
    rows = []
    for each in trial.infrastructure:
        theirs = {CLONE: [r.clones for r in reports], MIGRATION: [r.migrations for r in reports]}.get(each.kind)
        cells = [number(count, 0) for count in theirs] if theirs else [Cell(NOT_MEASURED) for _ in reports]
        rows.append(_row(each.kind, "per hour", number(each.per_hour, 2, _extrapolated(each)), cells))
        ratio = f"{each.kind} / minimum of {each.minimum_per_hour:g}"
        rows.append(_row(ratio, "", number(each.ratio, 2), [Cell(NOT_MEASURED) for _ in reports]))
    rows.append(_row("infrastructure score (inferred)", "", score_cell(trial), [number(r.score, 2) for r in reports]))
    return rows


def _price_rows(run: ReplayedRun, reports: Sequence[PublishedReport]) -> list[_Row]:
    assert run.cost is not None
    bill = run.cost.bill
    each = bill.per(run.result.application_count)
    return [
        _row("price", bill.currency, number(bill.total, 2), [_priced(r.price, r, bill.currency) for r in reports]),
        _row(
            "price per application",
            bill.currency,
            number(each, 2),
            [_priced(r.price_per_application, r, bill.currency) for r in reports],
        ),
    ]


def _priced(amount: float, report: PublishedReport, currency: str) -> Cell:
    """Return an amount in the report's currency. The cell names the currency if it differs from the row's."""
    if report.currency == currency:
        return number(amount, 2)
    return Cell(f"{report.currency} {amount:,.2f}")


def _row(name: str, unit: str, ours: Cell, theirs: Sequence[Cell]) -> _Row:
    return (Cell(name), Cell(unit), ours, *theirs)


def _within(trial: ReplayTrial) -> Cell:
    share = trial.responses.share_within(trial.limit_ms)
    return number(100 * share if share is not None else None, 1)


def _limit_words(trials: Sequence[ReplayTrial]) -> str:
    return " or ".join(f"{limit:g} ms" for limit in sorted({trial.limit_ms for trial in trials}))


def _per_hour(trial: ReplayTrial, kind: str) -> float | None:
    return next((each.per_hour for each in trial.infrastructure if each.kind == kind), None)


def _extrapolated(each: InfrastructureResult) -> tuple[str, ...]:
    if each.seconds >= _HOUR_SECONDS:
        return ()
    return (f"{each.completed:,} in {each.seconds:,.0f} s, extrapolated to one hour",)


def _with_set(measured: Cell, trial: ReplayTrial) -> Cell:
    """Return a value whose note names only the set: the row already names the application."""
    sets = {f"worst: {result.workload}": f"worst in set {result.copy}" for result in trial.results if result.copy}
    return replace(measured, notes=tuple(sets.get(note, note) for note in measured.notes))


def _stricter(run: ReplayedRun) -> str:
    """Return the note that the minima apply here to fewer sets than in IOmark-VM's rules; empty if they do not."""
    version = str(run.scenario.get("criteria", ""))
    sets = minima_asked_from_sets().get(version)
    if sets is None or not run.has_sets or all((trial.sets or 0.0) >= sets for trial in run.trials):
        return ""
    return (
        f" IOmark-VM {version} requires the minimum from {sets} sets on; Archiver requires it for any number of sets."
    )


def _of_which(run: ReplayedRun) -> str:
    if len(run.trials) == 1:
        return ""
    trial = run.result
    sets = f", {trial.sets:g} set{'' if trial.sets == 1 else 's'}" if trial.sets is not None else ""
    return f"Phase {trial.position}{sets}. "


_TOTAL = (  # columns of infrastructure operations of one kind
    Column("operation", of=lambda each: each.kind, label=True),
    Column("completed", of=lambda each: each.completed),
    Column("failed", of=lambda each: each.failed),
    Column("in", "s", lambda each: each.seconds, 1),
    Column("per hour", of=lambda each: each.per_hour, digits=2, notes=_extrapolated),
    Column("minimum", of=lambda each: each.minimum_per_hour),
    Column("ratio", of=lambda each: each.ratio, digits=2),
    Column("mean", "s", lambda each: each.mean_seconds, 2),
    Column("objects", of=lambda each: each.objects),
    Column("MB", of=lambda each: each.bytes / 1e6, digits=1),
    Column("content or protection lost", of=lambda each: "; ".join(each.findings) or "none", words=True),
)
_INFRASTRUCTURE = TableSpec(
    name="replay-infrastructure",
    title="Replay: infrastructure operations next to the applications",
    columns=(*columns_of(lambda row: row[0], PHASE_COLUMNS), *columns_of(lambda row: row[1], _TOTAL)),
    caption="Only completed operations count. Ratio: operations per hour / minimum. Objects and MB (10^6 bytes) are of"
    " one operation.",
)
