"""What was asked of each scale (tiles, users, cameras, clients) and held, and how the search for the largest went.

One idea: a criterion of a scale is judged by its worst workload in its worst trial; all others did better.
"""

from __future__ import annotations

from collections.abc import Sequence

from results.model import CriterionResult, Result, SearchOutcome
from results.table import NOT_MEASURED, Cell, Column, Table, label_columns, number

ALL_APPLICATIONS = "all applications"
THE_RUN = "the run"


def criteria_table(criteria: Sequence[CriterionResult], results: Sequence[Result], scale_name: str) -> Table:
    """A row for each scale, criterion and application: the worst that was measured, the limit, and how many held."""
    applications = {result.workload: result.application for result in results if result.application}
    groups: dict[tuple[float | None, str, str], list[CriterionResult]] = {}
    for each in criteria:
        whole = ALL_APPLICATIONS if each.name.endswith("(all)") else THE_RUN
        key = (each.scale, applications.get(each.workload, each.workload or whole), each.name)
        groups.setdefault(key, []).append(each)
    rows = []
    for (scale, application, name), judged in sorted(groups.items(), key=lambda group: _scale_first(group[0][0])):
        worst = _worst(judged)
        held = sum(each.passed for each in judged)
        which = len({each.workload for each in judged}) > 1 and len({each.measured for each in judged}) > 1
        aborted = any(each.aborted for each in judged)
        notes = (
            *((f"worst: {worst.workload}",) if which else ()),
            *(("the phase was ended for it",) if aborted else ()),
        )
        rows.append(
            (
                *((number(scale, 0) if scale is not None else Cell(NOT_MEASURED),) if scale_name else ()),
                Cell(application),
                Cell(name),
                _measured(worst, notes),
                Cell(f"{worst.limit:g}", worst.limit),
                Cell(_held(held, len(judged))),
            )
        )
    return Table(
        name="criteria",
        title=f"Pass criteria by {scale_name}" if scale_name else "Pass criteria",
        columns=(
            *label_columns(*([scale_name] if scale_name else []), "workload", "criterion"),
            Column("measured"),
            Column("limit"),
            Column("held", words=True),
        ),
        rows=tuple(rows),
        caption="Of several workloads of a kind, and of several trials, the worst is shown, and how many held. What was"
        " not measured does not hold.",
    )


def search_table(outcome: SearchOutcome) -> Table:
    """Every trial of the search in order, and beneath what it came to."""
    rows = tuple(
        (
            number(trial, 0),
            number(step.scale, 0),
            Cell("held" if step.passed else "failed"),
            Cell(", ".join(map(str, step.positions))),
        )
        for trial, step in enumerate(outcome.steps, 1)
    )
    return Table(
        name="search",
        title=f"Search for the most {outcome.name}",
        columns=(
            *label_columns("trial"),
            Column(outcome.name),
            Column("every criterion", words=True),
            Column("phases", words=True),
        ),
        rows=rows,
        caption=search_told(outcome),
    )


def search_told(outcome: SearchOutcome) -> str:
    """What a search came to, in sentences."""
    found = f"no number of {outcome.name} held"
    if outcome.largest is not None:
        found = f"the largest that held: {outcome.largest:,} {outcome.name}"
    return " ".join(_sentence(part) for part in (found, outcome.confidence, outcome.ended_because) if part)


def _worst(judged: Sequence[CriterionResult]) -> CriterionResult:
    """Not measured is worst; else the one farthest on the wrong side."""

    def badness(each: CriterionResult) -> tuple[bool, bool, float]:
        if each.measured is None:
            return True, not each.passed, 0.0
        sign = -1 if ">" in each.name else 1
        distance = abs(each.measured - each.limit) if "==" in each.name else sign * each.measured
        return False, not each.passed, distance

    return max(judged, key=badness)


def _measured(criterion: CriterionResult, notes: tuple[str, ...]) -> Cell:
    if criterion.measured is None:
        return Cell(NOT_MEASURED, None, notes)
    digits = f"{criterion.measured:,.4g}"
    return Cell(f"{criterion.measured:,.0f}" if "e" in digits else digits, criterion.measured, notes)


def _held(held: int, judged: int) -> str:
    if judged == 1:
        return "yes" if held else "no"
    return f"all {judged}" if held == judged else f"{held} of {judged}"


def _scale_first(scale: float | None) -> float:
    return -1.0 if scale is None else scale


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
