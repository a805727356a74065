"""Whether a conformance run fails: on its violations, or on what is new since an earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from results.database import StoredRun
from results.model import CheckRecord
from results.table import Table
from results.worm.baseline import (
    Baseline,
    BaselineComparison,
    baseline_for,
    compare_with,
    comparison_document,
    comparison_tables,
)
from results.worm.expected import Expectation, expectations, expected_documents, expected_of, expected_table


@dataclass(frozen=True, slots=True)
class ConformanceJudgement:
    """One platform's checks, judged with what was expected and what an earlier run found."""

    fails: bool
    expected: Sequence[Expectation]
    against: BaselineComparison | None  # None: no earlier run was named

    @property
    def tables(self) -> list[Table]:
        return [expected_table(self.expected), *(comparison_tables(self.against) if self.against is not None else [])]

    @property
    def document(self) -> dict[str, Any]:
        """Return plain JSON values: what a document has besides the checks."""
        return {
            "expected": expected_documents(self.expected),
            "against": comparison_document(self.against) if self.against is not None else None,
        }


def judge(
    run: StoredRun, checks: Sequence[CheckRecord], platforms: int, baselines: Sequence[Baseline] | None
) -> ConformanceJudgement:
    """Judge the checks of one of so many platforms, against the earlier run if there is one."""
    expected = expected_of(run)
    found = expectations(checks, expected)
    if baselines is None:
        return ConformanceJudgement(any(each.is_violation and each.id not in expected for each in checks), found, None)
    against = compare_with(baseline_for(run.platform.name, platforms, baselines), checks, expected)
    return ConformanceJudgement(bool(against.new), found, against)
