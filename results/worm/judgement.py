"""Whether a conformance run fails: on its violations, or on what is new since an earlier run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from results.document.table import Table
from results.recorded.database import StoredRun
from results.recorded.model import CheckRecord
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
    """The judgement of one platform's checks: expected failures, and changes since an earlier run."""

    fails: bool
    expected: Sequence[Expectation]
    against: BaselineComparison | None  # None: no earlier run was named

    @property
    def tables(self) -> list[Table]:
        return [expected_table(self.expected), *(comparison_tables(self.against) if self.against is not None else [])]

    @property
    def document(self) -> dict[str, Any]:
        """Return plain JSON values: the members of the document in addition to the checks."""
        return {
            "expected": expected_documents(self.expected),
            "against": comparison_document(self.against) if self.against is not None else None,
        }


def judge(
    run: StoredRun, checks: Sequence[CheckRecord], platforms: int, baselines: Sequence[Baseline] | None
) -> ConformanceJudgement:
    """Judge the checks of one platform. ``platforms`` is the number of platforms in the command.

    With ``baselines``, only findings that are new since the earlier run fail.
    """
    expected = expected_of(run)
    found = expectations(checks, expected)
    if baselines is None:
        return ConformanceJudgement(any(each.is_violation and each.id not in expected for each in checks), found, None)
    against = compare_with(baseline_for(run.platform.name, platforms, baselines), checks, expected)
    return ConformanceJudgement(bool(against.new), found, against)
