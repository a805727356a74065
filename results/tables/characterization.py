"""What a platform does at most, point by point, and the proof that the client is not what was measured.

One idea: every point stands beside its ceiling, what the same client reached against a platform that does nothing. Of
several repetitions rates are medians, and of all that speaks against a point the worst is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from archiver.values.sizes import format_size
from results.model import CriterionResult, Latency, Result
from results.table import NOT_MEASURED, Cell, Column, Table, label_columns, number

NOTHING = "nothing"
_UNSETTLED = "it ended before its time was over"
_BEYOND = (
    "more than nothing to do allows: while the ceiling was measured something else kept this machine busy; repeat it"
)


def characterization_tables(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> list[Table]:
    """The points that have a ceiling, and what was asked of them; none where no phase measured one."""
    tables = [characterization_table(results), characterization_criteria_table(results, criteria)]
    return [table for table in tables if table.rows]


def characterization_table(results: Sequence[Result]) -> Table:
    """A row for each point: its load, its rates, where the data came from, its ceiling, and what the client spent."""
    points = _points(results)
    platforms = sorted({ceiling.platform for point in points for each in point if (ceiling := each.ceiling)})
    return Table(
        name="characterization",
        title="Characterization: what was reached, and what this client reaches at most",
        columns=(
            *label_columns("point", "streams", "object size"),
            Column("MB/s"),
            Column("objects/s"),
            Column("data"),
            Column("ceiling", "objects/s"),
            Column("share of it"),
            Column("lateness", "p99, ms"),
            Column("client CPU", "% of a core"),
            Column("busiest worker", "%"),
            Column("limited by", words=True),
        ),
        rows=tuple(_row(point, platforms) for point in points),
        caption=f"Ceiling: the same workers with the same objects, clients and checks against {_against(platforms)};"
        " sessions that come by a schedule come one after another there. Data: cold or warm by what the server's"
        " devices read. Lateness: in an open loop how late sessions were begun for which a client was free, in a closed"
        " loop how late the client's timers fired. MB are 10^6 bytes.",
    )


def characterization_criteria_table(results: Sequence[Result], criteria: Sequence[CriterionResult]) -> Table:
    """A row for each criterion, with the point at which it was held by the least, or missed by the most."""
    points = {(each.workload, each.position) for point in _points(results) for each in point}
    judged: dict[str, list[CriterionResult]] = {}
    for each in criteria:
        if (each.workload, each.position) in points:
            judged.setdefault(each.name, []).append(each)
    rows = []
    for name, of_points in judged.items():
        worst = min(of_points, key=_room)
        missed = [each for each in of_points if not each.passed]
        rows.append(
            (
                Cell(name),
                Cell("missed" if missed else "held"),
                number(len(of_points) - len(missed), 0),
                number(len(of_points), 0),
                Cell(worst.workload),
                Cell(NOT_MEASURED) if worst.measured is None else Cell(f"{worst.measured:.3g}", worst.measured),
            )
        )
    return Table(
        name="characterization-criteria",
        title="Characterization: what was asked of every point",
        columns=(
            *label_columns("criterion"),
            Column("verdict"),
            Column("held", "times"),
            Column("of"),
            Column("worst point", words=True),
            Column("measured there"),
        ),
        rows=tuple(rows),
        caption="Held at every point and in every repetition, or missed. What was not measured does not hold.",
    )


def _points(results: Sequence[Result]) -> list[list[Result]]:
    """The repetitions of each point, in the order in which they were measured first."""
    found: dict[tuple[str, str], list[Result]] = {}
    for result in sorted(results, key=lambda each: (each.position, each.clients)):
        if result.ceiling is not None:
            found.setdefault((result.phase, result.workload), []).append(result)
    return list(found.values())


def _row(point: Sequence[Result], platforms: Sequence[str]) -> tuple[Cell, ...]:
    first = point[0]
    ceilings = [ceiling for each in point if (ceiling := each.ceiling) is not None]
    against = (f"against {_against(sorted({each.platform for each in ceilings}))}",) if len(platforms) > 1 else ()
    beyond = (_BEYOND,) if any(each.share > 1 for each in ceilings) else ()
    early = (_UNSETTLED,) if any(each.ended_early for each in point) else ()
    lateness = [late for each in point if (late := _lateness_p99_ms(each)) is not None]
    return (
        Cell(first.application or first.workload),
        number(first.clients, 0),
        Cell(format_size(first.object_bytes)),
        number(median(each.megabytes_per_second for each in point), 1, early),
        number(median(each.objects_per_second for each in point), 1),
        Cell(" or ".join(sorted({each.temperature for each in point if each.temperature})) or NOT_MEASURED),
        number(median(each.objects_per_second for each in ceilings), 0, against),
        number(max(each.share for each in ceilings), 2, beyond),
        number(max(lateness, default=None), 2),
        number(max(each.client.cpu_percent for each in point), 0),
        number(max(each.client.busiest_worker_percent for each in point), 0),
        Cell(" or ".join(sorted({each.limited_by or NOTHING for each in point}))),
    )


def _lateness_p99_ms(result: Result) -> float | None:
    if result.offered is None:
        return result.client.lateness_p99_ms
    late: Latency | None = result.offered.lateness_ms
    return late.p99 if late is not None else None


def _against(platforms: Sequence[str]) -> str:
    return " or ".join(platforms)


def _room(criterion: CriterionResult) -> tuple[bool, bool, float]:
    """Least first: what was not measured, what was missed, and what came nearest to its limit."""
    if criterion.measured is None:
        return False, False, 0.0
    distance = criterion.limit - criterion.measured
    sign = -1.0 if ">" in criterion.name else 1.0
    return True, criterion.passed, -abs(distance) if "==" in criterion.name else sign * distance
