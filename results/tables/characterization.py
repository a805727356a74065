"""Maximum performance of a platform, point by point, with the proof that the client did not limit it.

Every point has its ceiling: the rate of the same client against a platform that does no work. Over several repetitions,
rates are medians, and the worst warning about a point is shown.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from archiver.values.sizes import format_size
from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, columns_of, number
from results.measures.verdict import void_positions, worst
from results.recorded.model import Ceiling, CriterionResult, Result
from results.reference.esg_peaks import PublishedPeaks, whose
from results.tables.columns import AMOUNT_COLUMNS

NOTHING = "nothing"
_EARLY = "it ended before its time was over"
_BEYOND = "above the ceiling: something else used this machine while the ceiling was measured; repeat the measurement"


def characterization_tables(
    results: Sequence[Result], criteria: Sequence[CriterionResult], published: Sequence[PublishedPeaks] = ()
) -> list[Table]:
    """Return the tables of points with a ceiling and of their criteria; empty if no phase measured a ceiling."""
    tables = [characterization_table(results, published), characterization_criteria_table(results, criteria)]
    return [table for table in tables if table.rows]


def characterization_table(results: Sequence[Result], published: Sequence[PublishedPeaks] = ()) -> Table:
    """Return a row for each point: load, rates, cache state, ceiling, and the client's usage.

    Published studies follow with the rates of their sequential reads.
    """
    points = _points(results)
    platforms = sorted({ceiling.platform for point in points for ceiling in point.ceilings})
    return TableSpec(
        name="characterization",
        title="Characterization: what was reached, and what this client reaches at most",
        columns=(
            Column("point", of=lambda point: point.first.application or point.first.workload, label=True),
            Column("streams", of=lambda point: point.first.clients, label=True),
            Column("object size", of=lambda point: format_size(point.first.object_bytes), label=True),
            Column(
                "MB/s", of=lambda point: median(r.megabytes_per_second for r in point.results), digits=1, notes=_early
            ),
            Column("objects/s", of=lambda point: median(r.objects_per_second for r in point.results), digits=1),
            *columns_of(lambda point: point.results, AMOUNT_COLUMNS),
            Column("data", of=_data),
            Column(
                "ceiling",
                "objects/s",
                lambda point: median(each.objects_per_second for each in point.ceilings),
                notes=_against_which if len(platforms) > 1 else None,
            ),
            Column("share of it", of=lambda point: max(each.share for each in point.ceilings), digits=2, notes=_beyond),
            Column("lateness", "p99, ms", _lateness_p99_ms, 2),
            Column("client CPU", "% of a core", lambda point: max(r.client.cpu_percent for r in point.results)),
            Column("busiest worker", "%", lambda point: max(r.client.busiest_worker_percent for r in point.results)),
            Column("limited by", of=_limited_by, words=True),
        ),
        caption=f"Ceiling: the same workers with the same objects, clients and checks against {' or '.join(platforms)}."
        " There, an open loop runs its sessions one after another. Data: cold or warm, by the reads of the server's"
        " devices. Lateness (scheduling delay): in an open loop the delay of sessions for which a client was free, in a"
        f" closed loop the delay of the client's timers. MB are 10^6 bytes.{whose(published)}",
    ).table(points, [_published_point(study) for study in published] if points else ())


def characterization_criteria_table(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> Table:
    """Return a row for each criterion, with the point of the smallest margin or the largest miss."""
    points = {(each.workload, each.position) for point in _points(results) for each in point.results}
    void = void_positions(results, criteria)
    judged: dict[str, list[CriterionResult]] = {}
    for each in criteria:
        if (each.workload, each.position) in points:
            judged.setdefault(each.name, []).append(each)
    return _CRITERIA.table(_JudgedPoints(each, void) for each in judged.values())


class _JudgedPoints(NamedTuple):
    """One criterion at every point, and the positions of void phases."""

    criteria: Sequence[CriterionResult]
    void: Container[int]

    @property
    def missed(self) -> list[CriterionResult]:
        return [each for each in self.criteria if not each.passed]

    @property
    def verdict(self) -> str:
        if not self.missed:
            return "held"
        return "void" if all(each.position in self.void for each in self.missed) else "missed"

    @property
    def worst(self) -> CriterionResult:
        return worst(self.criteria)


def _published_point(study: PublishedPeaks) -> tuple[Cell, ...]:
    gigabytes, cached = study.reads_gigabytes_per_second, study.reads_from_cache_percent
    printed = f"{study.reads}; printed as {gigabytes:g} GB/s; it is not known whether GB are 10^9 or 2^30 bytes"
    none = Cell(NOT_MEASURED)
    return (
        Cell(study.name),
        none,
        none,
        number(gigabytes * 1000, 0, (printed,)),
        *(none,) * 4,
        none if cached is None else Cell(f"{cached:g}% from cache"),
        *(none,) * 6,
    )


@dataclass(frozen=True, slots=True)
class _Point:
    """The repetitions of a point."""

    results: list[Result]

    @property
    def first(self) -> Result:
        return self.results[0]

    @property
    def ceilings(self) -> list[Ceiling]:
        return [result.ceiling for result in self.results if result.ceiling is not None]


def _points(results: Sequence[Result]) -> list[_Point]:
    """Return the points in the order of their first measurement."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in sorted(results, key=lambda each: (each.position, each.clients)):
        if result.ceiling is not None:
            found.setdefault((result.phase, result.workload), []).append(result)
    return [_Point(each) for each in found.values()]


def _early(point: _Point) -> tuple[str, ...]:
    return (_EARLY,) if any(each.ended_early for each in point.results) else ()


def _beyond(point: _Point) -> tuple[str, ...]:
    return (_BEYOND,) if any(each.share > 1 for each in point.ceilings) else ()


def _against_which(point: _Point) -> tuple[str, ...]:
    return (f"against {' or '.join(sorted({each.platform for each in point.ceilings}))}",)


def _data(point: _Point) -> str:
    return " or ".join(sorted({each.temperature for each in point.results if each.temperature})) or NOT_MEASURED


def _limited_by(point: _Point) -> str:
    return " or ".join(sorted({each.limit or NOTHING for each in point.results}))


def _lateness_p99_ms(point: _Point) -> float | None:
    found = []
    for result in point.results:
        if result.offered is None:
            found.append(result.client.lateness_p99_ms)
        elif result.offered.lateness_ms is not None:
            found.append(result.offered.lateness_ms.p99)
    return max(found, default=None)


def _measured(judged: _JudgedPoints) -> Cell:
    measured = judged.worst.measured
    return Cell(NOT_MEASURED) if measured is None else Cell(f"{measured:.3g}", measured)


_CRITERIA = TableSpec(
    name="characterization-criteria",
    title="Characterization: what was asked of every point",
    columns=(
        Column("criterion", of=lambda judged: judged.worst.name, label=True),
        Column("verdict", of=lambda judged: judged.verdict),
        Column("held", "times", lambda judged: len(judged.criteria) - len(judged.missed)),
        Column("of", of=lambda judged: len(judged.criteria)),
        Column("worst point", of=lambda judged: judged.worst.workload, words=True),
        Column("measured there", of=_measured),
    ),
    caption="A criterion must be met at every point and in every repetition. It is void if it was missed only while the"
    " client was the limit. A missing measurement fails its criterion.",
)
