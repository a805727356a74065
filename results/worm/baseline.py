"""Comparison of a conformance run with an earlier one: new findings and mended findings."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from archiver.values.errors import ResultsError
from archiver.values.typed import undamaged
from results.document.table import Column, Table, TableSpec
from results.recorded.model import CheckRecord
from results.recorded.run import RecordedRun, opened

_TRIED = ("PASS", "DEVIATION", "FAIL")
_FAIL_RANKS = {"S1": 5, "S2": 4, "S3": 3}


@dataclass(frozen=True, slots=True)
class Baseline:
    """The checks of one platform in an earlier run."""

    run: str
    platform: str
    checks: Sequence[CheckRecord]


class ChangedCheck(NamedTuple):
    """A check whose result differs between two runs."""

    before: CheckRecord | None  # None: the earlier run did not try it
    now: CheckRecord

    @property
    def was(self) -> str:
        return self.before.graded_verdict if self.before is not None else "not in that run"


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """What changed since an earlier run."""

    run: str
    new: Sequence[ChangedCheck]  # findings that the earlier run did not have or that are more serious now
    mended: Sequence[ChangedCheck]


def read_baselines(path: Path) -> list[Baseline]:
    """Return the platforms of a run, or of a JSON document of ``archiver worm --json``. Raises ResultsError."""
    if not path.is_file() or path.suffix != ".json":
        with opened(path) as recorded:
            return [_of_run(recorded)]
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [_of_document(each) for each in document.get("platforms", [document])]
    except (OSError, ValueError, RecursionError) as error:
        raise ResultsError(f"{path}: cannot be read: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path}: is not a document of archiver worm --json") from error


def baseline_for(platform: str, platforms: int, baselines: Sequence[Baseline]) -> Baseline | None:
    """Return the earlier checks of this platform, or None.

    If each run has one platform, the names may differ.
    """
    if platforms == len(baselines) == 1:
        return baselines[0]
    return next((each for each in baselines if each.platform == platform), None)


def compare_with(
    baseline: Baseline | None, checks: Sequence[CheckRecord], expected: Collection[str]
) -> BaselineComparison:
    """Compare checks with an earlier run. Expected failures do not count as new."""
    before = {check.name: check for check in baseline.checks} if baseline is not None else {}
    changed = [ChangedCheck(before.get(check.name), check) for check in checks]
    new = [
        each for each in changed
        if each.now.is_finding and each.now.id not in expected and _rank(each.now) > _rank(each.before)
    ]  # fmt: skip
    mended = [each for each in changed if each.now.verdict in _TRIED and _rank(each.now) < _rank(each.before)]
    return BaselineComparison(baseline.run if baseline is not None else "none", new, mended)


def comparison_tables(found: BaselineComparison) -> list[Table]:
    """Return the new findings and the mended ones."""
    return [
        _changes("new", f"New since run {found.run}").table(found.new),
        _changes("mended", f"Mended since run {found.run}").table(found.mended),
    ]


def comparison_document(found: BaselineComparison) -> dict[str, Any]:
    """Return plain JSON values."""
    return {"run": found.run, "new": _documents(found.new), "mended": _documents(found.mended)}


def _of_run(recorded: RecordedRun) -> Baseline:
    run, checks = recorded.run, recorded.checks
    if not checks:
        raise ResultsError(f"{recorded.path}: this run made no conformance checks; name a run of archiver worm")
    return Baseline(run.id, run.platform.name, checks)


def _of_document(document: Mapping[str, Any]) -> Baseline:
    checks = [undamaged(CheckRecord, check) for check in document["checks"]]
    return Baseline(document["run"], document["platform"]["name"], checks)


def _rank(check: CheckRecord | None) -> int:
    """Return how serious a result is: 0 no finding, 1 a deviation, then failures up to S1."""
    if check is None or not check.is_finding:
        return 0
    return 1 if check.verdict == "DEVIATION" else _FAIL_RANKS.get(check.severity, 2)


def _documents(changes: Sequence[ChangedCheck]) -> list[dict[str, Any]]:
    return [
        {
            "check": each.now.id,
            "round": each.now.round,
            "was": each.was,
            "is": each.now.graded_verdict,
            "reason": each.now.reason,
        }
        for each in changes
    ]


def _changes(name: str, title: str) -> TableSpec:
    return TableSpec(
        name,
        title,
        (
            Column("check", of=lambda each: each.now.name, label=True),
            Column("was", of=lambda each: each.was, label=True),
            Column("is", of=lambda each: each.now.graded_verdict, label=True),
            Column("what was seen", of=lambda each: each.now.reason, words=True),
        ),
    )
