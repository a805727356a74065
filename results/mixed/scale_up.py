"""Criteria of each scale (tiles, users, cameras, clients) with results, and the search for the largest scale.

The worst workload in the worst trial decides whether a scale meets a criterion.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from archiver.values.sizes import format_size
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec
from results.measures.verdict import result_of, unmeasured_because, void_because, void_positions, worst
from results.recorded.model import CriterionResult, Result, SearchOutcome, SearchStep

ALL_APPLICATIONS = "all applications"
THE_RUN = "the run"


def criteria_table(criteria: Sequence[CriterionResult], results: Sequence[Result], scale_name: str) -> Table:
    """Return a row for each scale, criterion and application: worst measured value, limit, and number met."""
    void = void_positions(results, criteria)
    applications = {result.workload: result.application for result in results if result.application}
    groups: dict[tuple[float | None, str, str], list[CriterionResult]] = {}
    for each in criteria:
        whole = ALL_APPLICATIONS if each.name.endswith("(all)") else THE_RUN
        key = (each.scale, applications.get(each.workload, each.workload or whole), each.name)
        groups.setdefault(key, []).append(each)
    columns = (
        Column(scale_name, of=lambda row: row.scale, label=True),
        Column("workload", of=lambda row: row.application, label=True),
        Column("criterion", of=lambda row: row.name, label=True),
        Column("measured", of=lambda row: _measured(row.worst, row.notes)),
        Column("limit", of=lambda row: Cell(f"{row.worst.limit:g}", row.worst.limit)),
        Column("held", of=lambda row: _held(row.judged, void), words=True),
    )
    return TableSpec(
        name="criteria",
        title=f"Pass criteria by {scale_name}" if scale_name else "Pass criteria",
        columns=columns if scale_name else columns[1:],
        caption="For several workloads of a kind or several trials, the row shows the worst value and how many passed."
        " A missing measurement fails its criterion. A missed criterion is void if the client was the limit. One on"
        " errors is void only if every error was the client's own.",
    ).table(
        _Judged(*key, judged, results)
        for key, judged in sorted(groups.items(), key=lambda group: _scale_first(group[0][0]))
    )


def criteria_lines(criteria: Sequence[CriterionResult], results: Sequence[Result]) -> list[str]:
    """Return a line for each missed criterion and one for each void criterion, with the worst measured value.

    In a void phase every criterion is void. In a phase that the client limited, a met criterion stays met.
    """
    why_void = {result.position: because for result in results if (because := void_because(result, results, criteria))}
    void_phases = {result.position for result in results if result.void and result.position in why_void}
    lines = []
    for name in dict.fromkeys(each.name for each in criteria):
        judged = [each for each in criteria if each.name == name]
        missed = [each for each in judged if not each.passed and each.position not in why_void]
        void = [each for each in judged if each.position in (why_void if not each.passed else void_phases)]
        if missed:
            lines.append(f"criterion missed: {_worst_words(missed, judged, results)}")
        if void:
            because = why_void[worst(void).position]
            lines.append(f"criterion void: {_worst_words(void, judged, results)}; {because}")
    return lines


def _worst_words(
    chosen: Sequence[CriterionResult], judged: Sequence[CriterionResult], results: Sequence[Result]
) -> str:
    """Return ``object_ms.p99 <= 20: measured 35.2 (web), in 2 of 8 measurements``."""
    shown = worst(chosen)
    measured = f"measured {_measured(shown, ()).text}" if shown.measured is not None else "not measured"
    if because := unmeasured_because(shown, results):
        measured += f", because {because}"
    result = result_of(shown, results)
    where = _where(result) if result is not None else ALL_APPLICATIONS
    count = f", in {len(chosen)} of {len(judged)} measurements" if len(judged) > 1 else ""
    return f"{shown.name}: {measured} ({where}){count}"


def _where(result: Result) -> str:
    if not result.application:
        cell = f"{format_size(result.object_bytes)} x {result.objects_per_session}"
        return f"{result.phase} {cell}, {result.clients} client{'s' if result.clients > 1 else ''}"
    return result.workload if result.workload == result.phase else f"{result.workload}, {result.phase}"


class _Judged(NamedTuple):
    """One criterion of one application at one scale, in every workload and trial."""

    scale: float | None
    application: str
    name: str
    judged: Sequence[CriterionResult]
    results: Sequence[Result]  # of the run

    @property
    def worst(self) -> CriterionResult:
        return worst(self.judged)

    @property
    def notes(self) -> tuple[str, ...]:
        which = len({each.workload for each in self.judged}) > 1 and len({each.measured for each in self.judged}) > 1
        whose = f"worst: {self.worst.workload}" if which else ""
        ended = "it ended the phase" if any(each.aborted for each in self.judged) else ""
        return tuple(filter(None, (whose, unmeasured_because(self.worst, self.results), ended)))


def search_table(outcome: SearchOutcome) -> Table:
    """Return every trial of the search in order, with the result of the search below."""
    return TableSpec(
        name="search",
        title=f"Search for the most {outcome.name}",
        columns=(
            Column("trial", of=lambda row: row[0], label=True),
            Column(outcome.name, of=lambda row: row[1].scale),
            Column("every criterion", of=lambda row: _trial(row[1]), words=True),
            Column("phases", of=lambda row: ", ".join(map(str, row[1].positions)), words=True),
        ),
        caption=search_sentence(outcome),
    ).table(enumerate(outcome.steps, 1))


def search_sentence(outcome: SearchOutcome) -> str:
    """Return the result of a search, in sentences."""
    found = f"no number of {outcome.name} passed"
    if outcome.largest is not None:
        found = f"the largest that passed: {outcome.largest:,} {outcome.name}"
    elif any(step.void for step in outcome.steps):
        found = f"no number of {outcome.name} could be judged"
    return " ".join(_sentence(part) for part in (found, outcome.confidence, outcome.ended_because) if part)


def _trial(step: SearchStep) -> str:
    if step.void:
        return "void"
    return "held" if step.passed else "failed"


def _measured(criterion: CriterionResult, notes: tuple[str, ...]) -> Cell:
    if criterion.measured is None:
        return Cell(NOT_MEASURED, None, notes)
    digits = f"{criterion.measured:,.4g}"
    return Cell(f"{criterion.measured:,.0f}" if "e" in digits else digits, criterion.measured, notes)


def _held(judged: Sequence[CriterionResult], void: Container[int]) -> str:
    held = sum(each.passed for each in judged)
    unknown = sum(not each.passed and each.position in void for each in judged)
    if len(judged) == 1:
        return "void" if unknown else "yes" if held else "no"
    if held == len(judged):
        return f"all {held}"
    return f"{held} of {len(judged)}{f', {unknown} void' if unknown else ''}"


def _scale_first(scale: float | None) -> float:
    return -1.0 if scale is None else scale


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}" + ("" if text.endswith(".") else ".")
