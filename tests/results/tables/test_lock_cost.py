"""The cost of a lock: the baseline variant, the paired ratios, the tables and the figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from results.document.drawing import png_bytes, svg_bytes
from results.document.markdown import markdown_page
from results.document.table import NOT_MEASURED, Table
from results.figures.lock_cost import LOCK_COST, build_lock_figures
from results.figures.phases import Caption
from results.measures.stored_times import StoredTimes
from results.measures.units import single_cells
from results.recorded.database import WorkloadHistogram
from results.recorded.model import Latency, Result
from results.recorded.run import RecordedRun
from results.report.contents import build_report
from results.tables.lock_cost import life_cycle_table, lock_cost_table, variant_costs
from results.tables.rates import build_tables
from tests.results.watched_run import two_phases

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]
CAPTION = Caption("run-7", "embedded", shares_machine=True)
T_2_DEGREES = 4.302653  # Student's t, 97.5%, from a table


@pytest.fixture
def variant(make_result: MakeResult) -> Callable[..., Result]:
    """Return a function that makes the result of a variant in one repetition."""

    def make(lock: str | None, rate: float, repetition: int = 1, checksum: str | None = None, **given: Any) -> Result:
        words = [f"lock {lock}" if lock else "", checksum or ""]
        return make_result(
            objects_per_second=rate,
            repetition=repetition,
            lock=lock,
            checksum=checksum or "crc32c",
            variant=", ".join(word for word in words if word),
            **given,
        )

    return make


def rows_of(table: Table) -> dict[str, dict[str, str]]:
    """Return the texts of each row by heading, by variant. Of equal headings the last one counts."""
    names = [f"{column.name} {column.unit}".strip() for column in table.columns]
    return {
        row[3].text: dict(zip(names, (cell.text for cell in row), strict=True))
        for row in table.rows
    }  # fmt: skip


@pytest.mark.parametrize(
    ("variants", "expected"),
    [
        ([("separate", None), ("header", None), ("none", None)], ["lock none", "lock header", "lock separate"]),
        ([("separate", None), ("header-and-hold", None), ("header", None)],
         ["lock header", "lock header-and-hold", "lock separate"]),
        ([("header", "md5"), ("header", "crc64nvme"), ("header", "crc32c")],
         ["lock header, crc32c", "lock header, crc64nvme", "lock header, md5"]),
        ([(None, "md5"), (None, "none")], ["none", "md5"]),
    ],
)  # fmt: skip
def test_plainest_variant_is_the_baseline(
    variant: Callable[..., Result], variants: list[tuple[str | None, str | None]], expected: list[str]
) -> None:
    costs = variant_costs([variant(lock, 100.0, checksum=checksum) for lock, checksum in variants])
    assert [cost.name for cost in costs] == expected
    assert costs[0].rate is None
    assert {cost.baseline.first.variant for cost in costs} == {expected[0]}


def test_cost_ratio_is_paired_by_repetition_with_t_interval(variant: Callable[..., Result]) -> None:
    """The machine slows to a third and then doubles its speed during the run; the ratios do not contain this drift."""
    base, ratios = [900.0, 300.0, 600.0], [0.5, 0.52, 0.48]
    results = [variant("none", rate, n) for n, rate in enumerate(base, 1)]
    results += [
        variant("separate", rate * ratio, n) for n, (rate, ratio) in enumerate(zip(base, ratios, strict=True), 1)
    ]
    _, cost = variant_costs(results)
    assert cost.rate is not None
    logs = [math.log(ratio) for ratio in ratios]
    half = T_2_DEGREES * float(np.std(logs, ddof=1)) / math.sqrt(3)
    assert cost.rate.pairs == 3
    assert cost.rate.ratio == pytest.approx(math.exp(sum(logs) / 3))
    assert cost.rate.low == pytest.approx(math.exp(sum(logs) / 3 - half), rel=1e-5)
    assert cost.rate.high == pytest.approx(math.exp(sum(logs) / 3 + half), rel=1e-5)
    assert cost.mean_time is not None
    assert cost.mean_time.ratio == pytest.approx(1 / cost.rate.ratio)  # synthetic latencies are 1 / rate

    row = rows_of(lock_cost_table(results))["lock separate"]
    assert row["cost % of objects/s"] == f"{(1 - cost.rate.ratio) * 100:.1f}" == "50.0"
    assert row["cost % of the mean"] == "100.1"
    low, _, high = row["95% of the cost"].partition(" to ")  # the last column of this name: of the mean
    assert float(low) < 100.1 < float(high)


def test_costs_of_many_variants_are_corrected_like_comparisons(variant: Callable[..., Result]) -> None:
    """A variant whose interval excludes 0% by itself shows no cost among twenty variants."""

    def costs(count: int) -> list[str]:
        results = [variant("none", 100.0, n) for n in (1, 2, 3)]
        for index in range(count):
            rates = (99.0, 101.5, 100.2) if index else (95.0, 94.0, 96.0)
            results += [variant(f"kind {index:02}", rate, n) for n, rate in enumerate(rates, 1)]
        return [row["95% of the cost"] for row in rows_of(lock_cost_table(results)).values()]

    def includes_zero(interval: str) -> bool:
        low, _, high = interval.partition(" to ")
        return float(low) <= 0 <= float(high)

    assert not includes_zero(costs(1)[1])
    assert all(includes_zero(each) for each in costs(20)[1:])


def test_means_over_repetitions_are_of_all_objects(variant: Callable[..., Result]) -> None:
    """As the percentiles next to them are: 100 objects of 2 ms and 300 of 6 ms take 5 ms on average, and not 4."""
    results, histograms = [variant("none", 100.0)], {}
    for number, (count, mean) in enumerate([(100, 2.0), (300, 6.0)], 1):
        times = Latency(count, mean, mean, mean, mean, mean, mean, mean)
        results.append(variant("separate", 50.0, number, position=1 + number, object_service_ms=times, lock_ms=times))
        for quantity in ("object_service", "lock"):
            stored = WorkloadHistogram(
                1 + number, results[-1].workload, *(np.array([n], "<i8").tobytes() for n in (9, count))
            )
            histograms[quantity, 1 + number, results[-1].workload] = stored
    row = rows_of(lock_cost_table(results, StoredTimes(histograms)))["lock separate"]
    assert (row["mean ms/object"], row["lock request ms"]) == ("5.000", "5.000")


def test_note_appears_when_rate_and_mean_time_costs_differ(variant: Callable[..., Result]) -> None:
    slower = [variant("header", rate, n) for n, rate in enumerate((90.0, 91.0, 89.0), 1)]
    same_time = [replace(each, object_service_ms=variant("none", 100.0).object_service_ms) for each in slower]
    baseline = [variant("none", 100.0, n) for n in (1, 2, 3)]
    assert lock_cost_table([*baseline, *slower]).notes == ()
    assert lock_cost_table([*baseline, *same_time]).notes == ("objects/s show a cost, the mean time shows no cost",)


def test_single_repetition_has_cost_without_interval(variant: Callable[..., Result]) -> None:
    row = rows_of(lock_cost_table([variant("none", 100.0), variant("header", 90.0)]))["lock header"]
    assert (row["cost % of objects/s"], row["95% of the cost"]) == ("10.0", NOT_MEASURED)
    base = rows_of(lock_cost_table([variant("none", 100.0), variant("header", 90.0)]))["lock none"]
    assert (base["cost % of objects/s"], base["95% of the cost"]) == (NOT_MEASURED, NOT_MEASURED)


def test_repetition_of_only_one_variant_is_in_no_pair(variant: Callable[..., Result]) -> None:
    results = [variant("none", 100.0, 1), variant("none", 50.0, 2), variant("header", 80.0, 1)]
    _, cost = variant_costs(results)
    assert cost.rate is not None
    assert cost.rate.pairs == 1
    assert cost.rate.ratio == pytest.approx(0.8)


def test_variant_without_archived_objects_has_no_cost(variant: Callable[..., Result]) -> None:
    results = [variant("none", 100.0), variant("header", 0.0, object_service_ms=None, errors=9)]
    row = rows_of(lock_cost_table(results))["lock header"]
    assert (row["objects/s"], row["cost % of objects/s"]) == ("0.0", NOT_MEASURED)
    assert build_lock_figures(results, CAPTION) == {}


def test_only_variants_of_one_sweep_and_one_cell_are_compared(variant: Callable[..., Result]) -> None:
    results = [
        variant("none", 100.0, phase="archive"),
        variant("header", 90.0, phase="archive"),
        variant("header", 10.0, phase="other", checksum="md5"),
        variant("separate", 5.0, phase="archive", object_bytes=1 << 20),
    ]
    assert [(cost.name, cost.cell.key.object_bytes) for cost in variant_costs(results)] == [
        ("lock none", 8192), ("lock header", 8192),
    ]  # fmt: skip


def test_variants_are_separate_cells_and_not_in_rate_matrix(
    variant: Callable[..., Result], make_result: MakeResult
) -> None:
    plain = make_result(objects_per_second=500.0, position=9)
    results = [variant("none", 100.0), variant("header", 90.0), plain]
    assert [key.operation for key in single_cells(results)] == ["archive", "archive, lock header", "archive, lock none"]
    tables = {table.name: table for table in build_tables(results)}
    measured = tables["archive-objects-per-second"].rows[0]
    assert [cell.text for cell in measured] == ["8KiB", "measured", "500.00"]
    assert "lock-cost" in tables
    assert "lock-cost" not in {table.name for table in build_tables([plain])}


def test_lock_life_cycle_operations_have_separate_table(make_result: MakeResult) -> None:
    results = [
        make_result("refused-delete", objects_per_second=200.0, phase="refused-delete", errors=2, limited_by=None),
        make_result("query", objects_per_second=900.0, phase="query"),
        make_result("archive"),
    ]
    table = life_cycle_table(results)
    assert [(row[0].text, row[4].text, row[-2].text, row[-1].text) for row in table.rows] == [
        ("query", "900.0", "1,000", "0"), ("refused-delete", "200.0", "1,000", "2"),
    ]  # fmt: skip
    assert life_cycle_table([make_result("archive")]).rows == ()
    assert life_cycle_table([]).rows == lock_cost_table([]).rows == ()


# ---- the figure


def points(figure: Any, panel: int = 0) -> dict[str, list[tuple[float, float]]]:
    """Return (cost, row) of every point of a panel, by object size."""
    return {
        str(container.get_label()): [tuple(point) for point in container.lines[0].get_xydata().tolist()]
        for container in figure.axes[panel].containers
    }


def spread(variant: Callable[..., Result], lock: str, rates: list[float], **given: Any) -> list[Result]:
    return [variant(lock, rate, n, **given) for n, rate in enumerate(rates, 1)]


def test_figure_has_row_per_variant_and_point_per_size(variant: Callable[..., Result]) -> None:
    results = [
        result
        for size in (8192, 1 << 20)
        for result in (
            *spread(variant, "none", [100.0] * 3, object_bytes=size),
            *spread(variant, "header", [90.0] * 3, object_bytes=size),
            *spread(variant, "separate", [40.0, 50.0, 60.0], object_bytes=size),
        )
    ]
    (figure,) = build_lock_figures(results, CAPTION).values()
    (axes,) = figure.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["lock header", "lock separate"]
    found = points(figure)
    assert list(found) == ["8KiB", "1MiB"]
    for costs in found.values():
        assert [cost for cost, _ in costs] == pytest.approx([10.0, (1 - (0.4 * 0.5 * 0.6) ** (1 / 3)) * 100])
        assert [round(row) for _, row in costs] == [0, 1]
    bars = axes.containers[0]
    assert isinstance(bars, ErrorbarContainer)
    bar = bars.lines[2][0].get_segments()[1]  # of lock separate
    cost = variant_costs(results)[2].rate
    assert cost is not None
    assert cost.low is not None
    assert cost.high is not None
    assert [x for x, _ in bar] == pytest.approx([(1 - cost.high) * 100, (1 - cost.low) * 100])
    svg = svg_bytes(figure).decode()
    for text in ("archive: compared with lock none, 25 objects per session", "objects per second lost, %", "3 pairs",
                 "bars are 95% intervals", "run-7", "share this"):  # fmt: skip
        assert text in svg


def test_figure_without_repetitions_states_what_intervals_need(variant: Callable[..., Result]) -> None:
    (figure,) = build_lock_figures([variant("none", 100.0), variant("header", 90.0)], CAPTION).values()
    svg = svg_bytes(figure).decode()
    assert "1 pair of each variant" in svg
    assert "intervals need 3 repetitions" in svg
    assert "bars are" not in svg


def test_each_sweep_has_a_panel_with_own_baseline(variant: Callable[..., Result]) -> None:
    results = [variant("none", 100.0), variant("header", 90.0)]
    results += [
        variant("header", 80.0 - n, checksum=name, phase="checksum") for n, name in enumerate(("crc32c", "md5"))
    ]
    (figure,) = build_lock_figures(results, CAPTION).values()
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "archive: compared with lock none, 25 objects per session",
        "checksum: compared with lock header, crc32c, 25 objects per session",
    ]


def test_same_results_give_identical_lock_figure(variant: Callable[..., Result]) -> None:
    results = [*spread(variant, "none", [100.0, 90.0, 80.0]), *spread(variant, "header", [90.0, 85.0, 70.0])]
    first, second = (build_lock_figures(results, CAPTION)[LOCK_COST] for _ in range(2))
    assert svg_bytes(first) == svg_bytes(second)
    assert png_bytes(first) == png_bytes(second)


def test_figure_precedes_its_table_in_report(variant: Callable[..., Result], make_run: MakeRun) -> None:
    results = [variant("none", 100.0, position=1), variant("header", 90.0, position=2)]
    report = markdown_page(build_report(make_run(two_phases(*results)), None), has_files=True)
    assert report.count(f"figures/{LOCK_COST}.svg") == 1
    assert f"figures/{LOCK_COST}.png)\n\n### The cost of the lock\n" in report


def test_run_without_variants_has_no_lock_figure(full_run: list[Result]) -> None:
    assert build_lock_figures(full_run, CAPTION) == {}
    assert build_lock_figures([], CAPTION) == {}
