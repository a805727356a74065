"""Comparison of conformance runs: the verdicts on each platform, and the checks that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from archiver.values.errors import ResultsError, UsageError
from results.comparison.likeness import refuse_named_twice
from results.document.document import KeyFinding
from results.document.table import Column, Table, TableSpec
from results.recorded.database import StoredRun
from results.recorded.model import CheckRecord, RoundRecord
from results.recorded.run import RecordedRun
from results.worm.findings import (
    DISCLAIMER,
    VERDICTS,
    CheckCatalogue,
    catalogue_of,
    checks_sentence,
    checks_tried,
    matrix_table,
    worm_document,
)


@dataclass(frozen=True, slots=True)
class ConformanceRun:
    """One run with its conformance checks."""

    row: StoredRun
    checks: Sequence[CheckRecord]
    rounds: Sequence[RoundRecord]

    @classmethod
    def read(cls, recorded: RecordedRun) -> ConformanceRun:
        return cls(recorded.run, recorded.checks, recorded.rounds)

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def catalogue(self) -> CheckCatalogue | None:
        return catalogue_of(self.row)

    @property
    def violations(self) -> list[str]:
        return sorted({check.id for check in self.checks if check.is_violation})


@dataclass(frozen=True, slots=True)
class ComparedChecks:
    """Conformance runs by label: the platform's name, or the run's id where platforms share a name."""

    by_label: Mapping[str, ConformanceRun]

    @property
    def runs(self) -> list[ConformanceRun]:
        return list(self.by_label.values())

    @property
    def listed(self) -> str:
        *others, last = self.by_label
        return f"{', '.join(others)} and {last}"


def compare_checks(runs: Sequence[ConformanceRun]) -> ComparedChecks:
    """Compare conformance runs.

    Raises UsageError for fewer than two runs, or a run named twice. Raises ResultsError if a run has no checks.
    """
    refuse_named_twice(run.id for run in runs)
    if len(runs) < 2:
        raise UsageError("a comparison needs two runs or more; name at least two")
    for run in runs:
        if not run.checks:
            raise ResultsError(f"run {run.id} has no conformance checks; compare it with runs that measured rates")
    names = Counter(run.row.platform.name for run in runs)
    return ComparedChecks({run.id if names[run.row.platform.name] > 1 else run.row.platform.name: run for run in runs})


def conformance_findings(compared: ComparedChecks) -> list[KeyFinding]:
    """Return the verdict on each platform, and the disclaimer."""
    found = []
    for label, run in compared.by_label.items():
        bad = run.violations
        text = f"{label}: {len(bad):,} violations: {', '.join(bad)}" if bad else f"{label}: no violation"
        found.append(KeyFinding("bad" if bad else "good", "Verdict", text))
    return [*found, KeyFinding("plain", "Meaning", DISCLAIMER)]


def conformance_sentences(compared: ComparedChecks) -> list[str]:
    """Return one sentence per platform."""
    return [checks_sentence(label, run.checks, run.catalogue) for label, run in compared.by_label.items()]


def conformance_tables(compared: ComparedChecks) -> list[Table]:
    """Return the verdicts by platform, the checks whose verdicts differ, and every check."""
    checks = {label: run.checks for label, run in compared.by_label.items()}
    every = matrix_table(checks)
    verdicts = len(checks)
    unlike = tuple(row for row in every.rows if len({cell.text for cell in row[-verdicts:]}) > 1)
    return [
        _VERDICTS.table(compared.by_label.items()),
        replace(every, name="differences", title="Checks that differ between platforms", caption="", rows=unlike),
        every,
    ]


def conformance_document(compared: ComparedChecks) -> dict[str, Any]:
    """Return plain JSON values: the document of each conformance run."""
    return {
        "platforms": [worm_document(run.row.platform, run.id, run.checks, run.rounds) for run in compared.runs],
    }


def _of_verdict(verdict: str) -> Column:
    return Column(verdict.lower(), of=lambda row: sum(check.verdict == verdict for check in row[1].checks))


_VERDICTS = TableSpec(
    "verdicts",
    "Checks of each platform",
    (
        Column("platform", of=lambda row: row[0], label=True),
        Column("version", of=lambda row: row[1].row.platform.version or "unknown", label=True),
        Column("checks", of=lambda row: checks_tried(row[1].checks, row[1].catalogue), label=True),
        Column("violations", of=lambda row: len(row[1].violations)),
        *map(_of_verdict, VERDICTS),
    ),
    "A check counts once in each round: alone (without load), under load and after a restart.",
)
