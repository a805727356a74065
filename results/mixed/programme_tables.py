"""The programme of a phase as tables: when each workload ran, peak and steady rates, spikes and their effects.

The tables show each spike with the change that caused it, and with the rates of all other workloads before, during and
after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from results.document.table import NOT_MEASURED, Cell, Column, Table, TableSpec, columns_of, number
from results.mixed.programme import (
    BESIDE_SECONDS,
    CAUSE_SECONDS,
    MEGABYTES,
    OBJECTS,
    PEAK_SECONDS,
    RISE_MIN,
    SCATTERS_MIN,
    SPIKE_BINS_MIN,
    Amount,
    Course,
    Neighbour,
    Rate,
    Span,
    Spike,
    spikes,
    summary,
)
from results.reference.esg_peaks import PublishedPeaks, whose

RULE = (
    f"Spike: at least {SPIKE_BINS_MIN} s in which the total MB/s or objects/s of all workloads exceed the steady rate"
    f" by {RISE_MIN:.0%} and by {SCATTERS_MIN:g} times the usual scatter. Steady rate: the median of all seconds"
    " outside spikes."
)


_Times = tuple[float | None, float | None, float | None]  # before, during, after


def programme_tables(
    courses: Sequence[Course], scale_name: str, published: Sequence[PublishedPeaks] = ()
) -> list[Table]:
    """Return every table for which these phases have data."""
    tables = [
        programme_table(courses, scale_name),
        rates_table(courses, scale_name, published),
        spikes_table(courses, scale_name),
        others_table(courses, scale_name),
    ]
    return [table for table in tables if table.rows]


def programme_table(courses: Sequence[Course], scale_name: str) -> Table:
    """Return when each workload ran."""

    def spans(row: tuple[Course, str]) -> list[Span]:
        course, application = row
        return [span for span in course.spans if span.application == application]

    def amounts(row: tuple[Course, str]) -> list[Amount]:
        course, application = row
        return course.bins[application]

    return TableSpec(
        name="programme",
        title="Programme: when each workload ran",
        columns=(
            *columns_of(lambda row: row[0], _labels(scale_name)),
            Column("workload", of=lambda row: row[1], label=True),
            Column("began", "s", lambda row: min(span.begins for span in spans(row)), 1),
            Column("measured from", "s", lambda row: min(span.measured_from for span in spans(row)), 1),
            Column("ended", "s", lambda row: max(span.ends for span in spans(row)), 1),
            Column("outstanding", of=lambda row: _outstanding(spans(row)), words=True),
            Column("objects", of=lambda row: sum(amount.objects for amount in amounts(row))),
            Column("MB", of=lambda row: sum(amount.bytes for amount in amounts(row)) / 1e6, digits=1),
        ),
        caption="Seconds after the phase began: of several copies, the first beginning and the last end. Objects and MB"
        " (10^6 bytes) include the warm-up.",
    ).table((course, application) for course in courses for application in course.applications)


class _Whole(NamedTuple):
    """The values of all workloads of a phase."""

    course: Course
    megabytes: Rate | None
    objects: Rate | None


def rates_table(courses: Sequence[Course], scale_name: str, published: Sequence[PublishedPeaks] = ()) -> Table:
    """Return peak and steady rate of all workloads together, for each scale, and those of published studies."""

    def shorter(row: _Whole) -> tuple[str, ...]:
        seconds = row.megabytes.peak_seconds if row.megabytes else PEAK_SECONDS
        return (f"over {seconds:g} s, the whole time",) if seconds < PEAK_SECONDS else ()

    whole = (_Whole(course, summary(course, MEGABYTES), summary(course, OBJECTS)) for course in courses)
    rows = [row for row in whole if row.megabytes and row.objects]
    return TableSpec(
        name="aggregate-rates",
        title="All workloads together: peak and steady rate",
        columns=(
            *columns_of(lambda row: row.course, _labels(scale_name)),
            Column("peak", "MB/s", lambda row: row.megabytes.peak, 1, shorter),
            Column("steady", "MB/s", lambda row: row.megabytes.steady, 1),
            Column("peak", "objects/s", lambda row: row.objects.peak, 0, shorter),
            Column("steady", "objects/s", lambda row: row.objects.steady),
            Column("spikes", of=lambda row: len(spikes(row.course))),
        ),
        caption=f"Peak: the best {PEAK_SECONDS:g} s. {RULE}{whose(published)}",
    ).table(rows, [_published_rates(study) for study in published] if rows else ())


def _published_rates(study: PublishedPeaks) -> tuple[Cell, ...]:
    """Return the row of a study, whose operations are reads and writes of blocks."""
    gigabytes = study.mixed_gigabytes_per_second
    printed = f"printed as {gigabytes:g} GB/s; it is not known whether GB are 10^9 or 2^30 bytes"
    blocks = ("operations on blocks",)
    return (
        number(study.tiles, 0),
        Cell(study.name),
        number(gigabytes * 1000, 0, (printed,)),
        Cell(NOT_MEASURED),
        number(study.operations_per_second_peak, 0, blocks),
        number(study.operations_per_second_steady, 0, blocks if study.operations_per_second_steady else ()),
        Cell(NOT_MEASURED),
    )


class _Numbered(NamedTuple):
    """A spike by its number in its phase, and one of the other workloads."""

    course: Course
    number: int
    spike: Spike
    other: Neighbour | None = None


_SPIKE = Column("spike", of=lambda row: row.number, label=True)


def spikes_table(courses: Sequence[Course], scale_name: str) -> Table:
    """Return every spike, and the change of the programme that caused it."""
    return TableSpec(
        name="spikes",
        title="Throughput spikes",
        columns=(
            *columns_of(lambda row: row.course, _labels(scale_name)),
            _SPIKE,
            *columns_of(
                lambda row: row.spike,
                (
                    Column("in", of=lambda spike: " and ".join(spike.quantities), label=True),
                    Column("from", "s", lambda spike: spike.begins),
                    Column("to", "s", lambda spike: spike.ends),
                    Column("mean rate", of=lambda spike: number(spike.rate, _decimals(spike))),
                    Column("best second", of=lambda spike: number(spike.highest, _decimals(spike))),
                    Column("mean", "x steady", lambda spike: spike.rate / spike.steady if spike.steady else None, 2),
                    Column("what changed", of=lambda spike: spike.cause, words=True),
                ),
            ),
        ),
        caption=f"{RULE} The column 'in' names the unit of the rates; of two units, the first. What changed: workloads"
        f" that began or ended up to {CAUSE_SECONDS:g} s before, beginning with the workload that rose most.",
    ).table(_numbered(courses))


def others_table(courses: Sequence[Course], scale_name: str) -> Table:
    """Return the rates of all other workloads before, during and after each spike."""
    return TableSpec(
        name="spikes-others",
        title="The other workloads before, during and after each spike",
        columns=(
            *columns_of(lambda row: row.course, _labels(scale_name)),
            _SPIKE,
            Column("workload", of=lambda row: _noted_application(row.other), label=True),
            *_times_of_spike("objects/s", 0, lambda other: other.objects_per_second),
            *_times_of_spike("mean ms", 2, lambda other: other.response_ms),
        ),
        caption="The workload whose rate rose most is excluded. Before: up to"
        f" {BESIDE_SECONDS:g} s before the change; after: up to {BESIDE_SECONDS:g} s after the spike, both without"
        " other spikes of its kind. Rates are over the seconds in which the workload was running. Response times are of"
        " the objects of these seconds. Change: during / before. If a workload ended as the rising one began, change is"
        " during / after, when neither ran.",
    ).table(row._replace(other=other) for row in _numbered(courses) for other in row.spike.others)


def _numbered(courses: Sequence[Course]) -> Iterator[_Numbered]:
    return (_Numbered(course, place, spike) for course in courses for place, spike in enumerate(spikes(course), 1))


def _noted_application(other: Neighbour) -> Cell:
    return Cell(other.application, None, (other.changed,) if other.changed else ())


def _times_of_spike(unit: str, digits: int, of: Callable[[Neighbour], _Times]) -> tuple[Column, ...]:
    """Return the columns of one quantity before, during and after a spike, and its change."""
    return (
        Column("before", unit, lambda row: of(row.other)[0], digits),
        Column("during", unit, lambda row: of(row.other)[1], digits),
        Column("after", unit, lambda row: of(row.other)[2], digits),
        Column("change", "%", lambda row: _change(of(row.other), row.spike)),
    )


def _labels(scale_name: str) -> tuple[Column, Column]:
    return (
        Column(scale_name, of=lambda course: course.scale, label=True),
        Column("phase", of=lambda course: course.position, label=True),
    )


def _outstanding(spans: Sequence[Span]) -> str:
    counts = sorted({span.clients for span in spans})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"


def _decimals(spike: Spike) -> int:
    return 1 if spike.quantities[0] == MEGABYTES else 0


def _change(values: _Times, spike: Spike) -> Cell:
    """Return the relative change of another workload during a spike."""
    before, during, after = values
    notes = (f"during / after, because {', '.join(spike.relieved)} ran before",) if spike.relieved else ()
    base = after if spike.relieved else before
    if not base or during is None:
        return Cell(NOT_MEASURED, None, notes)
    percent = 100 * (during / base - 1)
    return Cell(f"{percent:+,.0f}", percent, notes)
