"""Pass criteria in the notation of scenarios: ``object_ms.mean <= 20``.

One idea: a criterion is read and checked before anything runs. The check refuses a criterion that no measurement could
meet, because no metric, part or workload of that name is measured. No criterion is therefore ignored by mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from archiver.values.errors import ScenarioError
from archiver.values.metrics import METRICS, OPERATORS, STATISTICS, Operator, nearest_name, read_condition, read_metric
from scenarios.work.base import Work


class CriterionWorkload(Protocol):
    """The parts of a workload that a criterion uses; ``Workload`` implements them."""

    @property
    def name(self) -> str: ...
    @property
    def application(self) -> str: ...
    @property
    def work(self) -> Work: ...


class CriterionPhase(Protocol):
    """The parts of a phase that a criterion uses; ``Phase`` implements them."""

    @property
    def is_load(self) -> bool: ...
    @property
    def measures_ceiling(self) -> bool: ...
    @property
    def workloads(self) -> Sequence[CriterionWorkload]: ...


@dataclass(frozen=True, slots=True)
class Criterion:
    """One limit, and the workloads that it applies to."""

    text: str  # as written in the scenario
    metric: str  # a key of METRICS
    statistic: str | None  # one of STATISTICS
    operator: Operator
    limit: float
    workload: str | None = None  # application, or full name of a workload; None: every one with the metric
    operation: str | None = None  # one part of the workload; None: the whole
    abort: bool = False  # end the phase as soon as the criterion can no longer be met
    of_all: bool = False  # for the sum of all applications of a phase

    @property
    def name(self) -> str:
        """Return a name that includes the part: ``object_ms.mean <= 5 (log)``."""
        if self.of_all:
            return f"{self.text} (all)"
        return self.text if self.operation is None else f"{self.text} ({self.operation})"

    @property
    def needs(self) -> str:
        """Return the trait of a workload that this metric requires: ``open loop``, ``deadline``, ``ceiling``."""
        if self.metric == "lateness_ms" and self.statistic != "p99":
            return "open loop"
        return METRICS[self.metric].needs

    def holds(self, measured: float | None) -> bool:
        """Return whether the value is within the limit. A missing measurement fails its criterion."""
        return measured is not None and OPERATORS[self.operator](measured, self.limit)

    def is_exceeded(self, measured: float) -> bool:
        """Return whether the value is above an upper limit. If the metric never falls, the criterion is then missed."""
        return (
            measured > self.limit if self.operator in ("<=", "==") else self.operator == "<" and measured >= self.limit
        )

    def speaks_of(self, phase: CriterionPhase, workload: CriterionWorkload) -> bool:
        """Return whether this criterion applies to a workload in a phase: its name matches, and it has the metric.

        No criterion applies to a load, which only makes the data.
        """
        return (
            not phase.is_load
            and not self.of_all
            and self._names(workload)
            and (self.operation is None or self.operation in workload.work.part_names)
            and _has(self.needs, phase, workload)
        )

    def _names(self, workload: CriterionWorkload) -> bool:
        if self.workload is None:  # criteria for times and amounts are for applications
            return (
                "infrastructure" not in workload.work.traits
                or self.needs == "infrastructure"
                or self.metric == "errors"
            )
        return self.workload in (workload.name, workload.application)


def read_criterion(
    text: str,
    *,
    workload: str | None = None,
    operation: str | None = None,
    abort: bool = False,
    of_all: bool = False,
    where: str = "",
) -> Criterion:
    """Parse a criterion such as ``errors == 0`` or ``object_ms.p70 <= 20``. ``where`` begins every message.

    Raises ScenarioError for an unknown metric, statistic or operator, and for a limit that is not a finite number.
    Raises ScenarioError also for an operation if only whole workloads have the metric.
    """
    key = f"{where}: criterion {text!r}" if where else f"criterion {text!r}"
    try:
        condition = read_condition(text, "write it as metric, operator, limit: object_ms.mean <= 20 or errors == 0")
        metric, statistic = read_metric(condition.left)
    except ValueError as error:
        raise ScenarioError(f"{key}: {error}") from None
    known = METRICS[metric]
    if operation is not None and not known.of_parts:
        of_parts = ", ".join(name for name, each in METRICS.items() if each.of_parts)
        raise ScenarioError(
            f"{key}: {metric} is measured for whole workloads only: leave out operation, or limit one of {of_parts}"
        )
    if of_all and (not known.of_parts or workload is not None or operation is not None or abort):
        of_parts = ", ".join(name for name, each in METRICS.items() if each.of_parts)
        raise ScenarioError(
            f"{key}: all = true limits all applications together, at the end: leave out workload, operation and abort, "
            f"and limit one of {of_parts}"
        )
    return Criterion(
        text.strip(), metric, statistic, condition.operator, condition.limit, workload, operation, abort, of_all
    )


def check_names(criteria: Iterable[Criterion], phases: Iterable[CriterionPhase], where: str = "") -> None:
    """Refuse criteria that apply to no workload of any phase, because of the name, the operation or the metric.

    ``phases``: for a search, the phases of one step are enough, because all steps have the same workloads. Raises
    ScenarioError.
    """
    asked = [(phase, workload) for phase in phases if not phase.is_load for workload in phase.workloads]
    for criterion in criteria:
        key = f"{where}: criterion {criterion.text!r}" if where else f"criterion {criterion.text!r}"
        if criterion.of_all:
            continue
        named = [(phase, each) for phase, each in asked if criterion._names(each)]
        whom = "any workload" if criterion.workload is None else repr(criterion.workload)
        if not named:
            raise ScenarioError(
                f"{key}: no workload {criterion.workload!r} is measured"
                f"{nearest_name(criterion.workload or '', {each.application or each.name for _, each in asked})}"
            )
        parts = {part for _, each in named for part in each.work.part_names}
        if criterion.operation is not None and criterion.operation not in parts:
            problem = f"there is no operation {criterion.operation!r} of {whom}"
            raise ScenarioError(f"{key}: {problem}{nearest_name(criterion.operation, parts)}")
        if not any(criterion.speaks_of(phase, each) for phase, each in named):
            raise ScenarioError(f"{key}: not measured for {whom}: {_REMEDIES[criterion.needs]}")


def metrics_table() -> str:
    """Return all metrics for the documentation: a table in Markdown, and the statistics below it."""
    rows = ["| metric | unit | meaning | of |", "| --- | --- | --- | --- |"]
    for name, metric in METRICS.items():
        whom = "workloads, parts" if metric.of_parts else "workloads"
        if metric.needs:
            whom += f" with {_NEEDS_WORDS[metric.needs]}"
        statistics = ".*" if metric.has_statistics else ""
        rows.append(f"| `{name}{statistics}` | {metric.unit} | {metric.meaning} | {whom} |")
    return "\n".join((*rows, "", f"`*` is one of {', '.join(STATISTICS)}."))


_NEEDS_WORDS = {
    "open loop": "an open loop", "deadline": "a deadline", "ceiling": "a ceiling", "replay": "a trace",
    "infrastructure": "an infrastructure operation",
}  # fmt: skip
_REMEDIES = {
    "open loop": "only a workload with a schedule (arrivals) has it",
    "deadline": "only a workload with a deadline has it",
    "ceiling": "only a phase that measures the client's ceiling has it",
    "replay": "only a workload that replays a trace has it",
    "infrastructure": "only infrastructure operations have it",
}


def _has(needs: str, phase: CriterionPhase, workload: CriterionWorkload) -> bool:
    if needs == "ceiling":
        return phase.measures_ceiling
    return not needs or needs in workload.work.traits
