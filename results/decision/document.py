"""The page and the JSON of a decision: the recommendation, the platforms at a glance, must-haves, risks, evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

from results.comparison.scorecard.tables import basis_tables, missing_tables
from results.comparison.scorecard.verdicts import conditions, findings
from results.decision.decision import Decision
from results.decision.lights import LIGHTS, RISKS_SHOWN, Candidate, risks
from results.decision.must import STATES
from results.document.document import Document, KeyFinding, Section, State, filled
from results.document.table import Cell, Column, Table, TableSpec
from results.planning.combined_documents import answers_table, loads_table, years_table

_MARKS: dict[State, str] = {"good": "✓", "bad": "✗", "care": "?", "plain": ""}


def main_tables(decision: Decision) -> list[Table]:
    """Return the tables of a first look: the platforms at a glance, must-haves and risks."""
    return [_lights_table(decision), *([_musts_table(decision)] if decision.musts else []), _risks_table(decision)]


def decision_as_document(decision: Decision, hashes: Mapping[str, str]) -> Document:
    """Return the document of a decision. ``hashes``: SHA-256 of each run's database, by the run's id."""
    lights, *others = main_tables(decision)
    musts, risk_table = others[:-1], others[-1]
    plans = [each.plan for each in decision.candidates if each.plan is not None]
    tables = [answers_table(plans)] if plans else []
    for place, plan in enumerate(plans, 1):
        tables += [years_table(plan, f"-{place}"), loads_table(plan, f"-{place}")]
    recommended = decision.recommended
    return Document(
        kind=f"Archiver decision, runs {', '.join(hashes)}",
        title=f"Decision between {' and '.join(each.label for each in decision.candidates)}",
        answers=tuple(decision.answers()),
        findings=(
            KeyFinding("plain" if recommended is None else "good", "Choice", _name(recommended)),
            *findings(decision.scorecard),
            KeyFinding("plain", "Conditions", " ".join(conditions(decision.scorecard))),
        ),
        sections=filled(
            [
                Section("platforms", "The platforms at a glance", tables=(lights,)),
                Section("must", "Must-haves", tables=tuple(musts)),
                Section("risks", "The gravest risks", tables=(risk_table,)),
                Section("size", "Size and cost by year", tables=tuple(tables)),
                Section(
                    "not-measured",
                    "Not measured",
                    tables=tuple(t for t in missing_tables(decision.scorecard) if t.rows),
                ),
                Section(
                    "about",
                    "What this rests on",
                    tables=(*basis_tables(decision.scorecard), _HASHES.table(hashes.items())),
                ),
            ]
        ),
    )


def decision_document(decision: Decision, hashes: Mapping[str, str]) -> dict[str, Any]:
    """Return plain JSON values."""
    recommended = decision.recommended
    return {
        "answer": decision.answers(),
        "recommended": None if recommended is None else recommended.label,
        "platforms": [
            {
                "label": each.label,
                "lights": {name: asdict(light(each)) for name, light in LIGHTS.items()},
                "must": {text: asdict(judged) for text, judged in decision.judged(each).items()},
                "risks": [asdict(risk) for risk in risks(each)],
                "platforms_needed": None if each.plan is None else each.plan.last.platforms,
                "price": each.price(),
                "runs": [row.id for row in each.card.rows],
            }
            for each in decision.candidates
        ],
        "sha256_of_databases": dict(hashes),
    }


def _name(candidate: Candidate | None) -> str:
    return "none" if candidate is None else candidate.label


def _lights_table(decision: Decision) -> Table:
    def of(name: str) -> Column:
        def cell(candidate: Candidate) -> Cell:
            light = LIGHTS[name](candidate)
            return _marked(light.state, light.words)

        return Column(name, of=cell, words=True)

    columns = (Column("platform", of=lambda each: each.label, label=True), *map(of, LIGHTS))
    caption = "✓ good, ✗ bad, ? to be minded or not known. Each cell quotes the scorecard or the plan."
    return TableSpec("platforms", "The platforms at a glance", columns, caption).table(decision.candidates)


def _musts_table(decision: Decision) -> Table:
    judged = {each.label: decision.judged(each) for each in decision.candidates}

    def column(label: str) -> Column:
        def cell(text: str) -> Cell:
            found = judged[label][text]
            return _marked(STATES[found.outcome], f"{found.outcome}: {found.shown_by}")

        return Column(label, of=cell, words=True)

    columns = (Column("must", of=lambda text: text, label=True), *map(column, judged))
    return TableSpec("must", "Must-haves", columns).table(must.text for must in decision.musts)


def _risks_table(decision: Decision) -> Table:
    rows = [(each.label, risk) for each in decision.candidates for risk in islice(risks(each), RISKS_SHOWN)]
    columns = (
        Column("platform", of=lambda row: row[0], label=True),
        Column("what may go wrong", of=lambda row: row[1].words, words=True),
        Column("what to do", of=lambda row: row[1].remedy, words=True),
    )
    return TableSpec("risks", "The gravest risks", columns, f"The first {RISKS_SHOWN} of each platform.").table(rows)


def _marked(state: State, words: str) -> Cell:
    return Cell(f"{_MARKS[state]} {words}".strip())


_HASHES = TableSpec(
    "databases",
    "Databases",
    (
        Column("run", of=lambda row: row[0], label=True),
        Column("SHA-256 of run.db", of=lambda row: row[1], words=True),
    ),
)
