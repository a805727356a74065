"""Test reports of workers: they arrive as sent, and a damaged report is an error."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.measure.histogram import HIGHEST_NS, Histogram, part_of
from archiver.measure.merging import Merge, ReplayMerge, Window
from archiver.measure.reports import Change, IntervalReport, PartTally, Tally, TallyKey, joined
from archiver.values.errors import RunFailed
from archiver.values.record import ErrorKind
from results.recorded.model import Latency
from scenarios.model import Phase, Workload
from scenarios.work.sessions import Sessions, UntilPrecise
from tests.support.examples import share_of

PHASE = Phase(
    "archive", 1, 1, (Workload("archive", Sessions("archive", 8192, UntilPrecise(1.0, 10.0, 10**6, 0.05)), 1),)
)
WINDOW = Window(0, 1, None, None, True, 1.0)
QUANTITIES = ("session_service", "object_service", "object")
amounts = st.integers(0, 10**12)
nanoseconds = st.one_of(st.integers(0, HIGHEST_NS), st.integers(2_000_000, 2_010_000))


@st.composite
def histograms(draw: st.DrawFn) -> dict[str, Histogram]:
    found = {}
    for quantity in draw(st.lists(st.sampled_from(QUANTITIES), unique=True)):
        found[quantity] = Histogram()
        for values in draw(st.lists(st.lists(nanoseconds, max_size=300), max_size=3)):
            found[quantity].add(part_of(np.array(values, dtype=np.int64)))
    return found


part_tallies = st.builds(PartTally, st.just("retrieve"), amounts, amounts, amounts, amounts, amounts, histograms())
tallies = st.builds(
    Tally, amounts, amounts, amounts, amounts, amounts, amounts, amounts, amounts, amounts, histograms(),
    st.dictionaries(st.sampled_from(("read", "list")), part_tallies, max_size=2),
)  # fmt: skip
keys = st.builds(TallyKey, st.integers(0, 6), st.just(0), st.sampled_from(("warm-up", "measured", "drain")))
changes = st.builds(
    lambda operation, first, count, is_aside: Change(0, operation, 8192, first, first + count, is_aside),
    st.sampled_from(("archive", "delete", "hold")), st.integers(0, 40), st.integers(0, 3), st.booleans(),
)  # fmt: skip
errors = st.builds(
    ErrorKind, st.just("archive"), st.sampled_from(("timeout", "refused")), amounts, st.text(max_size=5), st.just(""),
    st.just(""),
)  # fmt: skip
reports = st.builds(
    IntervalReport, st.dictionaries(keys, tallies, max_size=3), st.lists(changes, max_size=8), st.lists(errors),
    st.lists(st.tuples(amounts, st.integers(0, 9))), st.integers(0, 5),
)  # fmt: skip


@settings(max_examples=share_of(200))
@given(st.lists(reports, max_size=6), st.sampled_from((Merge, ReplayMerge)))
def test_merge_of_decoded_reports_equals_merge_of_the_originals(
    sent: list[IntervalReport], merge_type: type[Merge]
) -> None:
    originals, arrived = merge_type(PHASE), merge_type(PHASE)
    encoded = [pickle.dumps(report) for report in sent]  # encoded before merging, because merging changes errors
    for report in sent:
        originals.take(report)
    for data in encoded:
        arrived.take(pickle.loads(data))
    assert _latencies(arrived) == _latencies(originals)
    assert arrived.totals([WINDOW]) == originals.totals([WINDOW])
    assert arrived.interval_rows([WINDOW]) == originals.interval_rows([WINDOW])
    assert arrived.part_rows() == originals.part_rows()
    assert arrived.archived_ranges() == originals.archived_ranges()
    assert arrived.changes() == originals.changes()
    assert arrived.first_errors() == originals.first_errors()


@settings(max_examples=share_of(100))
@given(reports)
def test_pickled_report_is_read_back_equal(report: IntervalReport) -> None:
    assert pickle.loads(pickle.dumps(report)) == report


@pytest.mark.parametrize("at", [0.3, 0.5, 0.7])
def test_a_report_with_a_changed_byte_is_an_error(at: float) -> None:
    times = Histogram()
    times.add(part_of(np.arange(1_000_000, 9_000_000, 1_000, dtype=np.int64)))
    tally = Tally(objects=8000, histograms={"object_service": times})
    data = bytearray(pickle.dumps(IntervalReport({TallyKey(0, 0, "measured"): tally}, [], [])))
    data[int(len(data) * at)] ^= 1
    with pytest.raises(RunFailed, match="arrived damaged"):
        pickle.loads(data)


def test_a_truncated_report_is_an_error() -> None:
    data = pickle.dumps(IntervalReport({TallyKey(0, 0, "measured"): Tally(objects=1)}, [], []))
    for length in range(len(data)):
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            pickle.loads(data[:length])


@settings(max_examples=share_of(200))
@given(st.lists(changes, max_size=20, unique_by=lambda change: change.first))
def test_joining_ranges_keeps_every_object_and_the_order_of_other_changes(given_changes: list[Change]) -> None:
    found = joined(given_changes)
    assert _archived_objects(found) == _archived_objects(given_changes)
    assert [c for c in found if c.operation != "archive"] == [c for c in given_changes if c.operation != "archive"]


def test_adjacent_ranges_of_one_kind_become_one() -> None:
    ranges = [Change(0, "archive", 8192, first, first + 9) for first in (20, 0, 10)]
    other = Change(0, "archive", 8192, 30, 39, is_aside=True)
    assert joined([*ranges, other]) == [Change(0, "archive", 8192, 0, 29), other]


def _archived_objects(found: list[Change]) -> list[tuple[int, bool]]:
    return sorted(
        (number, change.is_aside)
        for change in found
        if change.operation == "archive"
        for number in range(change.first, change.last + 1)
    )


def _latencies(merge: Merge) -> list[dict[str, Latency | None]]:
    return [
        {quantity: histogram.latency() for quantity, histogram in tally.histograms.items()}
        for tally, _ in merge.totals([WINDOW])
    ]
