"""The programme of a phase as tables: when each workload ran, peak and steady rates, spikes, and who felt them.

One idea: a spike is told with the change that caused it and with what all others did before, during and after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from results.mixed.programme import (
    BESIDE_SECONDS,
    CAUSE_SECONDS,
    MEGABYTES,
    OBJECTS,
    PEAK_SECONDS,
    RISE_MIN,
    SCATTERS_MIN,
    SPIKE_BINS_MIN,
    Course,
    Span,
    Spike,
    spikes,
    summary,
)
from results.table import NOT_MEASURED, Cell, Column, Table, label_columns, number

RULE = (
    f"A spike: {SPIKE_BINS_MIN} s or more in which MB/s or objects/s of all workloads together are {RISE_MIN:.0%} above"
    f" the steady rate, and {SCATTERS_MIN:g} times the usual scatter; steady: the median of all seconds outside spikes."
)


def programme_tables(courses: Sequence[Course], scale_name: str) -> list[Table]:
    """Every table that these phases can fill."""
    tables = [
        programme_table(courses, scale_name),
        rates_table(courses, scale_name),
        spikes_table(courses, scale_name),
        others_table(courses, scale_name),
    ]
    return [table for table in tables if table.rows]


def programme_table(courses: Sequence[Course], scale_name: str) -> Table:
    """When each workload was under way."""
    rows = []
    for course in courses:
        for application in course.applications:
            own = [span for span in course.spans if span.application == application]
            rows.append(
                (
                    *_labels(course),
                    Cell(application),
                    number(min(span.begins for span in own), 1),
                    number(min(span.measured_from for span in own), 1),
                    number(max(span.ends for span in own), 1),
                    Cell(_outstanding(own)),
                    number(sum(amount.objects for amount in course.bins[application]), 0),
                    number(sum(amount.bytes for amount in course.bins[application]) / 1e6, 1),
                )
            )
    return Table(
        name="programme",
        title="Programme: when each workload ran",
        columns=(
            *label_columns(scale_name, "phase", "workload"),
            Column("began", "s"),
            Column("measured from", "s"),
            Column("ended", "s"),
            Column("outstanding", words=True),
            Column("objects"),
            Column("MB"),
        ),
        rows=tuple(rows),
        caption="Seconds after the phase began, of the first and the last of several alike. Objects and MB (10^6 bytes)"
        " with those of the warm-up.",
    )


def rates_table(courses: Sequence[Course], scale_name: str) -> Table:
    """Peak and steady rate of all workloads together, for each scale."""
    rows = []
    for course in courses:
        megabytes, objects = summary(course, MEGABYTES), summary(course, OBJECTS)
        if megabytes is None or objects is None:
            continue
        notes = (f"of {megabytes.peak_seconds:g} s: it was no longer",) if megabytes.peak_seconds < PEAK_SECONDS else ()
        rows.append(
            (
                *_labels(course),
                number(megabytes.peak, 1, notes),
                number(megabytes.steady, 1),
                number(objects.peak, 0, notes),
                number(objects.steady, 0),
                number(len(spikes(course)), 0),
            )
        )
    return Table(
        name="aggregate-rates",
        title="All workloads together: peak and steady rate",
        columns=(
            *label_columns(scale_name, "phase"),
            Column("peak", "MB/s"),
            Column("steady", "MB/s"),
            Column("peak", "objects/s"),
            Column("steady", "objects/s"),
            Column("spikes"),
        ),
        rows=tuple(rows),
        caption=f"Peak: the best {PEAK_SECONDS:g} s. {RULE}",
    )


def spikes_table(courses: Sequence[Course], scale_name: str) -> Table:
    """Every spike, and the change of the programme that caused it."""
    rows = [
        (
            *_labels(course),
            number(place, 0),
            Cell(" and ".join(spike.quantities)),
            number(spike.begins, 0),
            number(spike.ends, 0),
            number(spike.rate, _decimals(spike)),
            number(spike.highest, _decimals(spike)),
            number(spike.rate / spike.steady if spike.steady else None, 2),
            Cell(spike.cause),
        )
        for course in courses
        for place, spike in enumerate(spikes(course), 1)
    ]
    return Table(
        name="spikes",
        title="Throughput spikes",
        columns=(
            *label_columns(scale_name, "phase", "spike", "in"),
            Column("from", "s"),
            Column("to", "s"),
            Column("mean rate"),
            Column("best second"),
            Column("mean", "x steady"),
            Column("what changed", words=True),
        ),
        rows=tuple(rows),
        caption=f"{RULE} Rates are in the unit of the column 'in', the first of two. What changed: workloads that began"
        f" or ended within {CAUSE_SECONDS:g} s before, that which rose most first.",
    )


def others_table(courses: Sequence[Course], scale_name: str) -> Table:
    """What all other workloads did before, during and after each spike."""
    rows = []
    for course in courses:
        for place, spike in enumerate(spikes(course), 1):
            for beside in spike.others:
                notes = (beside.changed,) if beside.changed else ()
                rates = [number(rate, 0) for rate in beside.objects_per_second]
                times = [number(time, 2) for time in beside.response_ms]
                rows.append(
                    (
                        *_labels(course),
                        number(place, 0),
                        Cell(beside.application, None, notes),
                        *rates,
                        _change(beside.objects_per_second),
                        *times,
                        _change(beside.response_ms),
                    )
                )
    return Table(
        name="spikes-others",
        title="The other workloads before, during and after each spike",
        columns=(
            *label_columns(scale_name, "phase", "spike", "workload"),
            Column("before", "objects/s"),
            Column("during", "objects/s"),
            Column("after", "objects/s"),
            Column("change", "%"),
            Column("before", "mean ms"),
            Column("during", "mean ms"),
            Column("after", "mean ms"),
            Column("change", "%"),
        ),
        rows=tuple(rows),
        caption=f"Without the workload whose rate rose most. Before: up to {BESIDE_SECONDS:g} s before the"
        " change, after: as many after the spike, outside spikes of its kind; rates over the seconds in which the"
        " workload was under way, response times of the objects done in them. Change: during, beside before.",
    )


def _labels(course: Course) -> tuple[Cell, Cell]:
    scale = number(course.scale, 0) if course.scale is not None else Cell(NOT_MEASURED)
    return scale, number(course.position, 0)


def _outstanding(spans: Sequence[Span]) -> str:
    counts = sorted({span.clients for span in spans})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _decimals(spike: Spike) -> int:
    return 1 if spike.quantities[0] == MEGABYTES else 0


def _change(values: tuple[float | None, float | None, float | None]) -> Cell:
    before, during, _ = values
    if not before or during is None:
        return Cell(NOT_MEASURED)
    percent = 100 * (during / before - 1)
    return Cell(f"{percent:+,.0f}", percent)
