"""Comparisons of concurrent workloads: units, pairs, combined rates, published ratios and conditions.

The tile runs are synthetic, with rates whose ratios are known.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import ResultsError, UsageError
from results.comparison.compare import ComparedUnit, Comparison, MeasuredRun, compare_runs
from results.comparison.contract import comparison_document
from results.comparison.documents import comparison_figure, workloads_csv, write_comparison
from results.comparison.gate import gate_sentences, judge, parse_condition
from results.comparison.published import published_table
from results.comparison.ratio_tables import matrix_table, rates_table
from results.comparison.ratios import Ratio
from results.comparison.tables import comparison_tables, overall_sentences
from results.document.table import Table
from results.document.text import render_csv, render_text
from results.measures.units import ALL_WORKLOADS
from results.mixed.reference_tile import stored_reference
from results.recorded.model import Offered, Result
from tests.results.comparison.workloads_together import TILES, mixed_run, together
from tests.results.tile_run import TileRun, criterion, email_parts, held, latency, part, steps

NOISE = (1.0, 1.01, 0.99)


@pytest.fixture
def tiles(make_result: Callable[..., Result]) -> TileRun:
    return TileRun(make_result)


def repeated(make: Callable[..., Sequence[Result]], factor: float = 1.0) -> list[Result]:
    """Return three repetitions of a phase with its rates times ``factor``, with little noise unless the factor is 1."""
    return [
        replace(result, repetition=number, position=number)
        for number, noise in enumerate(NOISE if factor != 1 else (1.0, 1.0, 1.0), 1)
        for result in make(factor * noise)
    ]


def found(comparison: Comparison, workload: str, operation: str = "", clients: int = 0) -> ComparedUnit:
    (unit,) = [
        unit
        for unit in comparison.workloads
        if (unit.key.workload, unit.key.operation, unit.key.clients) == (workload, operation, clients)
    ]
    return unit


def ratio_of(unit: ComparedUnit, measure: str = "objects_per_second", index: int = 0) -> Ratio:
    ratio = unit.ratios[measure][index]
    assert ratio is not None
    return ratio


def rows_of(table: Table) -> dict[str, list[str]]:
    """Return the texts of each row by its labels, joined with "/"."""
    labels = sum(column.label for column in table.columns)
    return {
        "/".join(cell.text for cell in row[:labels] if cell.text): [cell.text for cell in row[labels:]]
        for row in table.rows
    }


# ---- units and pairs


def test_workloads_are_compared_by_name_with_repetitions_as_pairs(tiles: TileRun) -> None:
    def phase(factor: float) -> list[Result]:
        return [tiles.email(1, 1000 * factor), tiles.web(1, 800.0)]

    comparison = compare_runs([mixed_run(repeated(phase)), mixed_run(repeated(phase, 0.8), "versitygw")])
    parts = {name: ratio_of(found(comparison, "e-mail", name)) for name in ("", "retrieve", "log", "all but log")}
    assert {ratio.verdict for name, ratio in parts.items() if name} == {"worse"}
    assert {ratio.pairs for ratio in parts.values()} == {3}
    assert parts["retrieve"].ratio == pytest.approx(0.8, rel=0.001)
    assert ratio_of(found(comparison, "web")).verdict == "no difference shown"
    assert comparison.cells == ()
    assert comparison.overall[0].of == "workload"
    assert comparison.overall[0].cells_in_common == 2


def test_workloads_with_different_connections_per_session_are_marked(tiles: TileRun) -> None:
    def run(platform: str, count: float) -> MeasuredRun:
        web = repeated(lambda factor: [tiles.web(1, 800.0 * factor)])
        return mixed_run([replace(result, connections_per_session=count) for result in web], platform)

    comparison = compare_runs([run("a", 1.0), run("b", 4.0)])
    assert "connections per session: 1 on a, 4 on b" in ratio_of(found(comparison, "web")).notes
    assert "connections per session differ in 1 of 1 workloads" in comparison.overall[0].marks


def test_rates_of_tiles_are_added_and_make_one_pair(tiles: TileRun) -> None:
    """Four tiles in one repetition make one pair, of their total rates."""

    def run(platform: str, rates: Sequence[float]) -> MeasuredRun:
        return mixed_run([tiles.web(number, rate, scale=4.0) for number, rate in enumerate(rates, 1)], platform)

    comparison = compare_runs([run("a", (800, 810, 790, 800)), run("b", (400, 410, 390, 420))])
    web = found(comparison, "web")
    assert [unit.median(web.main_measure) for unit in web.measured if unit] == [3200, 1620]
    ratio = ratio_of(web)
    assert (ratio.pairs, ratio.verdict, ratio.because) == (1, "no verdict", "1 pair")
    assert "tiles of one run ran at the same time" in rates_table(comparison, "workload").caption.replace("\n", " ")


def test_copies_pool_mean_over_objects_and_take_worst_p99(tiles: TileRun) -> None:
    def run(platform: str, times: Sequence[tuple[float, int]]) -> MeasuredRun:
        return mixed_run([tiles.web(tile, object_ms=latency(*time)) for tile, time in enumerate(times, 1)], platform)

    web = found(compare_runs([run("a", ((10, 900), (20, 100))), run("b", ((22, 500), (66, 500)))]), "web")
    assert ratio_of(web, "object_ms.mean").ratio == pytest.approx(44 / 11)
    assert ratio_of(web, "object_ms.p99").ratio == pytest.approx(66 / 20)


def test_best_client_count_is_in_table_and_each_in_json(tiles: TileRun) -> None:
    base = mixed_run(tiles.database(1, {1: (180, 5.4), 25: (880, 28)}, {1: 40, 9: 100}))
    other = mixed_run(tiles.database(1, {1: (200, 2.7), 25: (440, 60)}, {1: 150, 9: 120}), "b")
    comparison = compare_runs([base, other])
    small, large = found(comparison, "database small"), found(comparison, "database large")
    assert ratio_of(small).ratio == pytest.approx(440 / 880)
    assert ratio_of(small, "object_ms.mean").ratio == pytest.approx(0.5)
    assert large.main_measure.name == "megabytes_per_second"
    assert ratio_of(large, "megabytes_per_second").ratio == pytest.approx(1.5)  # the best are at 1 and at 9 clients
    assert ratio_of(found(comparison, "database small", clients=1)).ratio == pytest.approx(200 / 180)
    rows = rows_of(rates_table(comparison, "workload"))
    assert list(rows) == ["tiles/1/database small/all/1 to 25/objects/s", "tiles/1/database large/all/1 to 9/MB/s"]
    told = [(each["workload"], each["clients"]) for each in comparison_document(comparison)["workloads"]]
    assert ("database small", 25) in told
    assert ("database small", None) in told


def test_best_rates_of_copies_are_added_and_points_are_adjusted_alone(tiles: TileRun) -> None:
    """Among many points some differ by chance. Their number must not affect the p value of the workload."""

    def phase(factor: float) -> list[Result]:
        points = {clients: (100.0 + clients, 5.0) for clients in range(1, 20)}
        first = tiles.database(1, {**points, 25: (800 * factor, 9.0)}, {})
        return [*first, *tiles.database(2, {**points, 20: (600 * factor, 9.0)}, {})]

    comparison = compare_runs([mixed_run(repeated(phase)), mixed_run(repeated(phase, 0.9), "b")])
    small = found(comparison, "database small")
    assert [unit.samples[0].values["objects_per_second"] for unit in small.measured if unit] == [1400, 1260]
    assert ratio_of(small).adjusted_p == ratio_of(small).p
    point = ratio_of(found(comparison, "database small", clients=25))
    assert point.adjusted_p is not None
    assert point.p is not None
    assert point.adjusted_p > point.p


def test_achieved_session_rates_of_open_loop_are_compared(tiles: TileRun) -> None:
    def run(platform: str, achieved: float) -> MeasuredRun:
        offered = Offered(1000, 100.0, 1000, 0, 0, 0, None)
        return mixed_run([tiles.web(offered=offered, achieved_per_second=achieved)], platform)

    comparison = compare_runs([run("a", 100.0), run("b", 90.0)])
    assert ratio_of(found(comparison, "web"), "sessions_per_second").ratio == pytest.approx(0.9)
    assert rows_of(rates_table(comparison, "workload"))["tiles/1/web/all/16/sessions/s"][:2] == ["100.00", "90.00"]
    closed = compare_runs([mixed_run([tiles.web()]), mixed_run([tiles.web()], "b")])
    assert "sessions_per_second" not in found(closed, "web").ratios


def test_missing_part_in_repetition_counts_as_zero_rate(tiles: TileRun) -> None:
    """A result does not list an operation that was never done. The number of pairs must not fall because of that."""

    def run(platform: str, *rates: float) -> MeasuredRun:
        emails = [
            tiles.email(parts=[*email_parts(1000), *([part("head", rate)] if rate else [])], repetition=n, position=n)
            for n, rate in enumerate(rates, 1)
        ]
        return mixed_run(emails, platform)

    head = found(compare_runs([run("a", 5, 5, 5), run("b", 0, 0, 9)]), "e-mail", "head")
    assert (ratio_of(head).pairs, ratio_of(head).because) == (3, "a rate of zero")
    assert head.measured[1] is not None
    assert head.measured[1].median(head.main_measure) == 0


@pytest.mark.parametrize(
    ("change", "because"), [({"errors": 1}, "errors"), ({"limited_by": "client"}, "limited by the client")]
)
def test_one_invalid_copy_takes_verdict_from_workload(tiles: TileRun, change: dict[str, Any], because: str) -> None:
    good = mixed_run([tiles.web(1), tiles.web(2)])
    bad = mixed_run([tiles.web(1), tiles.web(2, **change)], "b")
    assert ratio_of(found(compare_runs([good, bad]), "web")).because == because


def test_repeated_search_trials_of_a_scale_are_paired_in_order(tiles: TileRun) -> None:
    """Each trial has repetition 1. A scale that only one platform tried is marked."""

    def run(platform: str, *rates: float) -> MeasuredRun:
        trials = [tiles.web(1, rate, position=number, scale=2.0) for number, rate in enumerate(rates, 1)]
        beyond = [tiles.web(1, 1.0, position=9, scale=4.0)] if platform == "a" else []
        return mixed_run([*trials, *beyond], platform)

    comparison = compare_runs([run("a", 100, 200, 400), run("b", 201, 402, 798)])
    assert ratio_of(found(comparison, "web")).pairs == 3
    assert ratio_of(found(comparison, "web")).ratio == pytest.approx(2, rel=0.01)
    assert "1 workload measured on a only" in comparison.overall[0].marks


def test_workloads_of_runs_of_one_platform_are_pooled(tiles: TileRun) -> None:
    runs = [
        mixed_run([tiles.web(1, rate)], platform, id=f"{platform}-{number}", started_at=number)
        for platform, rates in (("a", (100, 110, 120)), ("b", (200, 221, 241)))
        for number, rate in enumerate(rates)
    ]
    ratio = ratio_of(found(compare_runs(runs), "web"))
    assert (ratio.pairs, ratio.verdict) == (3, "better")


def test_run_with_cells_and_workloads_compares_both(tiles: TileRun, make_result: Callable[..., Result]) -> None:
    def run(platform: str) -> MeasuredRun:
        made = mixed_run([tiles.web()], platform)
        return replace(made, results=[*made.results, make_result()])

    comparison = compare_runs([run("a"), run("b")])
    assert (len(comparison.cells), len(comparison.workloads), comparison.overall[0].of) == (1, 1, "cell")
    tables = comparison_tables(comparison)
    assert [table.name for table in tables.rates] == ["comparison", "workloads"]
    assert [table.name for table in tables.latencies] == ["latencies-1", "workloads-responses-1"]
    assert [table.name for table in tables.further] == [
        "published", "matrix", "workloads-matrix", "differences-1", "workloads-differences-1",
    ]  # fmt: skip


def test_runs_without_common_workload_are_refused(tiles: TileRun) -> None:
    with pytest.raises(ResultsError, match=r"a and b have no workload in common \(phase, scale and name\)"):
        compare_runs([mixed_run([tiles.web(scale=1.0)], "a"), mixed_run([tiles.web(scale=2.0)], "b")])


# ---- combined rates


def test_combined_rate_covers_only_time_when_all_workloads_ran(tiles: TileRun) -> None:
    """The time when only web runs does not count. The check replaces e-mail after its end, so that time counts."""
    comparison = compare_runs([together(tiles, "a", 1000, 500, 550), together(tiles, "b", 800, 500, 550)])
    steady, peak = found(comparison, ALL_WORKLOADS, "steady"), found(comparison, ALL_WORKLOADS, "peak")
    rates = [unit.samples[0].values["objects_per_second"] for unit in steady.measured if unit]
    assert rates == [1500, 1300]  # the median of 10 s of e-mail and 6 s of its check
    assert [unit.samples[0].values["megabytes_per_second"] for unit in steady.measured if unit] == [15, 13]
    assert [unit.samples[0].values["objects_per_second"] for unit in peak.measured if unit] == [1530, 1330]
    assert ratio_of(steady).pairs == 3
    assert ratio_of(steady, "megabytes_per_second").ratio == pytest.approx(13 / 15)
    (sentence,) = overall_sentences(comparison)
    assert (
        "all workloads together at 1 tiles: steady MB/s 0.87 times (95% 0.87-0.87), steady objects/s 0.87" in sentence
    )


def test_workloads_never_concurrent_have_no_combined_rate(tiles: TileRun) -> None:
    """If the check were not a successor of e-mail, it would be a workload that never ran at the same time as it."""
    apart = [{**TILES, "workload": [{**each, "after": None} for each in TILES["workload"]]}]
    for phase in apart:
        for workload in phase["workload"]:
            del workload["after"]
    runs = [together(tiles, platform, 1000, 500, 550, phases=apart) for platform in ("a", "b")]
    ratio = ratio_of(found(compare_runs(runs), ALL_WORKLOADS, "steady"))
    assert (ratio.verdict, ratio.because) == ("no verdict", "its workloads never all ran at the same time")


def scored(tiles: TileRun, platform: str, factor: float, *, passed: bool = True, **given: Any) -> MeasuredRun:
    results = repeated(
        lambda each: [
            replace(result, objects_per_second=result.objects_per_second * each,
                    megabytes_per_second=result.megabytes_per_second * each,
                    parts=email_parts(1233 * each) if result.parts else ())
            for result in tiles.tile()
        ],
        factor,
    )  # fmt: skip
    criteria = [
        *held(results), criterion("tile 1 e-mail", "object_ms.mean <= 20 (retrieve)", 20, 14 if passed else 31, passed)
    ]  # fmt: skip
    return mixed_run(results, platform, criteria=criteria, **given)


def test_scores_are_compared_only_if_every_criterion_is_met(tiles: TileRun) -> None:
    comparison = compare_runs([scored(tiles, "a", 1.0), scored(tiles, "b", 1.2)])
    score = ratio_of(found(comparison, ALL_WORKLOADS, "score"), "score")
    assert score.ratio == pytest.approx(1.2, rel=0.001)
    assert (score.verdict, score.pairs) == ("better", 3)
    failed = ratio_of(
        found(compare_runs([scored(tiles, "a", 1.0), scored(tiles, "b", 1.2, passed=False)]), ALL_WORKLOADS, "score"),
        "score",
    )
    assert failed.ratio is None
    assert failed.because == "no score: failed: tile 1 e-mail: object_ms.mean <= 20 (retrieve)"


def test_both_scores_use_weights_of_first_platform(tiles: TileRun) -> None:
    """With its own weights the score of the second platform would depend on e-mail only."""
    other = scored(tiles, "b", 1.0, weights={"e-mail": 1.0})
    score = found(compare_runs([scored(tiles, "a", 1.0, weights={"web": 1.0}), other]), ALL_WORKLOADS, "score")
    expected = pytest.approx(846 / stored_reference().throughputs["web"])
    assert [unit.samples[0].values["score"] for unit in score.measured if unit] == [expected, expected]


# ---- published studies


def test_ratios_reproduce_published_path_comparison(tiles: TileRun) -> None:
    """ESG's Table 5: throughput, operations, random reads and the mixed workload."""

    def run(platform: str, scan: float, small: float, web: float, whole: float) -> MeasuredRun:
        results = [*tiles.database(1, {1: (100, 5.0), 25: (small, 25.0)}, {}), tiles.web(1, web), tiles.scan(1, scan)]
        results = [replace(result, scale=4.0, begins_seconds=0.0, seconds=20.0) for result in results]
        rows = [
            row for result in results for row in steps(result.workload, [(0, 20, whole / len(results), 1.0)], 10_000)
        ]
        return mixed_run(results, platform, intervals={1: rows})

    eight, four = run("8 paths", 100, 1000, 800, 30_000), run("4 paths", 78.82, 921.6, 802.08, 29_817)
    rows = rows_of(rates_table(compare_runs([eight, four]), "workload"))
    assert {label: row[2] for label, row in rows.items()} == {
        "tiles/4/scan/all/1/MB/s": "0.79",
        "tiles/4/database small/all/1 to 25/objects/s": "0.92",
        "tiles/4/web/all/16/objects/s": "1.00",
        "tiles/4/all workloads/steady/MB/s": "0.99",
        "tiles/4/all workloads/steady/objects/s": "0.99",
        "tiles/4/all workloads/peak/MB/s": "0.99",
        "tiles/4/all workloads/peak/objects/s": "0.99",
    }
    assert published_ratios("DS3950 simulated, 4 host paths") == {
        "throughput from disk": pytest.approx(0.7882),
        "operations from cache": pytest.approx(0.9216),
        "random reads from disk": pytest.approx(1.0026),
        "mixed workload, 16 virtual machines": pytest.approx(0.9939),
    }


def published_ratios(candidate: str) -> dict[str, float | None]:
    return {what.text: ratio.number for found, _, what, ratio, _ in published_table().rows if found.text == candidate}


def test_ratios_reproduce_published_gain_of_faster_tier(tiles: TileRun) -> None:
    """ESG on Easy Tier: 3.21 times the mixed I/O, e-mail 33% and database 43% faster."""

    def run(platform: str, factor: float, email_ms: float, database_ms: float) -> MeasuredRun:
        results = [
            tiles.email(1, 1000, begins_seconds=0.0, seconds=20.0, object_ms=latency(email_ms)),
            tiles.one("database", 1, "retrieve", clients=16, seconds=20.0, object_ms=latency(database_ms)),
        ]  # fmt: skip
        rows = [row for result in results for row in steps(result.workload, [(0, 20, 1000 * factor, 1.0)], 10_000)]
        return mixed_run(results, platform, intervals={1: rows})

    disks, flash = run("disks", 1.0, 12.0, 10.0), run("with flash", 3.21, 12.0 * 0.67, 10.0 * 0.57)
    tables = comparison_tables(compare_runs([disks, flash]))
    assert rows_of(tables.rates[0])["tiles/1/all workloads/steady/objects/s"][2] == "3.21"
    responses = rows_of(tables.latencies[0])
    assert (responses["tiles/1/e-mail/all/32"][2], responses["tiles/1/database/all/16"][2]) == ("0.67", "0.57")
    (candidate,) = {row[0].text for row in published_table().rows} - {"DS3950 simulated, 4 host paths"}
    assert published_ratios(candidate) == {
        "mixed I/O": pytest.approx(3.21),
        "e-mail response time": pytest.approx(0.67),
        "database response time": pytest.approx(0.57),
    }
    note = published_table().caption + published_table().title
    assert "not measured by these runs" in note


def test_matrix_has_workloads_in_rows_and_scales_in_columns(tiles: TileRun) -> None:
    def run(platform: str, one: float, two: float) -> MeasuredRun:
        return mixed_run([tiles.web(1, one, position=1, scale=1.0), tiles.web(1, two, position=2, scale=2.0)], platform)

    table = matrix_table(compare_runs([run("a", 100, 100), run("b", 150, 80), run("c", 200, 100)]), "workload")
    assert (table.across, [column.name for column in table.columns[-2:]]) == ("tiles", ["1", "2"])
    assert [[cell.text for cell in row[-3:]] for row in table.rows] == [["b", "1.50", "0.80"], ["c", "2.00", "1.00"]]


def test_every_table_and_document_can_be_written(tiles: TileRun, tmp_path: Path) -> None:
    comparison = compare_runs([together(tiles, "a", 1000, 500, 550), together(tiles, "b", 800, 500, 550)])
    for table in comparison_tables(comparison).all:
        assert render_text(table)
        assert render_csv(table)
    paths = write_comparison(tmp_path / "out", comparison)
    assert [path.name for path in paths] == [
        "comparison.md", "comparison.json", "workloads.csv", "comparison.svg", "comparison.png",
    ]  # fmt: skip
    (axes,) = comparison_figure(comparison).axes
    assert axes.get_title(loc="left") == "tiles, 1 tiles"
    assert [tick.get_text() for tick in axes.get_yticklabels()][-2:] == [
        "all workloads: steady", "all workloads: peak",
    ]  # fmt: skip
    text = paths[0].read_text()
    for words in (
        "## Over all workloads",
        "## Workload by workload",
        "[as CSV](workloads.csv)",
        "Published by ESG Lab",
    ):
        assert words in text


def test_json_and_csv_have_measures_and_ratios_of_workloads(tiles: TileRun) -> None:
    comparison = compare_runs([together(tiles, "a", 1000, 500, 550), together(tiles, "b", 800, 500, 550)])
    document = json.loads(json.dumps(comparison_document(comparison), allow_nan=False))
    web = next(each for each in document["workloads"] if each["workload"] == "web")
    assert [web[name] for name in ("phase", "scale", "operation", "clients", "told_by")] == [
        "tiles", 1.0, None, None, "objects_per_second",
    ]  # fmt: skip
    assert web["measured"][1]["objects_per_second"] == 800
    assert web["ratios"]["objects_per_second"][0]["verdict"] == "worse"
    assert document["overall"][0]["of"] == "workloads"
    assert document["cells"] == []
    lines = list(csv.DictReader(io.StringIO(workloads_csv(comparison))))
    (line,) = [each for each in lines if each["workload"] == "web" and each["measure"] == "objects_per_second"]
    assert (float(line["first_value"]), float(line["value"])) == (1000, 800)
    assert float(line["ratio"]) == pytest.approx(0.8)


# ---- likeness


def test_different_concurrent_workloads_are_refused_on_same_platform(tiles: TileRun) -> None:
    changed = {**TILES, "workload": [{"name": "e-mail", "clients": 16}, *TILES["workload"][1:]]}
    runs = [mixed_run([tiles.web()], id="one"), mixed_run([tiles.web()], id="other", phases=[changed])]
    with pytest.raises(
        ResultsError, match=r"work side by side differs \(tiles.e-mail.clients, one: 32; other: 16\), and"
    ):
        compare_runs(runs)
    forced = compare_runs(runs, force=True)
    assert ratio_of(found(forced, "web")).because == "unlike runs"


def test_unused_quick_settings_do_not_mark_comparison(tiles: TileRun) -> None:
    """The ``quick`` tables of a scenario file have no effect on a run without --quick."""
    quick = {**TILES, "quick": {}, "workload": [{**each, "quick": {"clients": 1}} for each in TILES["workload"]]}
    comparison = compare_runs([mixed_run([tiles.web()]), mixed_run([tiles.web()], "b", phases=[quick])])
    assert comparison.overall[0].marks == ()


def test_different_or_unknown_cache_state_is_marked(tiles: TileRun) -> None:
    runs = [mixed_run([tiles.web(temperature=each), tiles.scan()], each) for each in ("cold", "unknown")]
    mark = "cache state differs or is unknown in 1 of 2 workloads that retrieve"
    assert compare_runs(runs).overall[0].marks == (mark,)


def test_different_scales_and_criteria_are_marked(tiles: TileRun) -> None:
    def run(platform: str, criteria: list[dict[str, str]], *scales: float) -> MeasuredRun:
        made = mixed_run([tiles.web(scale=scale, position=int(scale)) for scale in scales], platform)
        text = json.dumps({"phase": [TILES], "criterion": criteria})
        return replace(made, row=replace(made.row, scenario_json=text))

    limit = {"that": "object_ms.mean <= 20", "workload": "e-mail", "operation": "retrieve"}
    marks = compare_runs([run("a", [limit], 1, 2), run("b", [], 1)]).overall[0].marks
    assert "pass criteria differs (a: object_ms.mean <= 20 of e-mail (retrieve); b: none)" in marks
    assert "1 workload measured on a only" in marks


def test_sides_of_one_server_are_labelled_by_number_of_paths(tiles: TileRun) -> None:
    def by(*paths: str) -> MeasuredRun:
        made = mixed_run([tiles.web()], id="-".join(paths))
        return replace(made, row=replace(made.row, platform=replace(made.row.platform, endpoints=paths)))

    comparison = compare_runs([by("http://a", "http://b"), by("http://a")])
    assert [side.label for side in comparison.sides] == ["minio by 2 paths", "minio by 1 path"]
    assert "number of endpoints differs (minio by 2 paths: 2; minio by 1 path: 1)" in comparison.overall[0].marks


# ---- conditions


@pytest.fixture
def slower(tiles: TileRun) -> Comparison:
    """Compare two platforms. On b, e-mail is 20% slower and its retrieves take 50% longer; all else is equal."""

    def run(platform: str, email: float, retrieve_ms: float) -> MeasuredRun:
        return mixed_run(
            [
                result
                for scale in (1.0, 2.0)
                for result in (
                    tiles.email(1, email, retrieve_ms, scale=scale, position=int(scale), objects_per_second=email),
                    *tiles.database(1, {1: (100, 5.0), 8: (200, 6.0)}, {}, scale=scale, position=int(scale)),
                )
            ],
            platform,
        )

    return compare_runs([run("a", 1000, 10), run("b", 800, 15)])


@pytest.mark.parametrize(
    ("condition", "failing"),
    [
        ("e-mail.objects_per_second < 0.9", ["e-mail@1", "e-mail@2"]),
        ("e-mail@2.objects_per_second < 0.9", ["e-mail@2"]),
        ("e-mail@*.objects_per_second<0.7", []),
        ("e-mail@*.objects_per_second<0.9", ["e-mail@1", "e-mail@2"]),
        ("e-mail/retrieve@1.object_ms.mean > 1.2", ["e-mail/retrieve@1"]),
        ("e-mail/archive.object_ms.mean > 1.2", []),
        ("e-mail/all but log@1.objects_per_second < 0.9", ["e-mail/all but log@1"]),
        ("*@1.objects_per_second < 0.9", ["e-mail@1"]),
        ("*/retrieve@1.objects_per_second < 0.9", ["e-mail/retrieve@1"]),
        ("database small.8@1.objects_per_second <= 1.0", ["database small.8@1"]),
        ("database small.*@1.objects_per_second <= 1.0", ["database small.1@1", "database small.8@1"]),
        ("e-mail.errors > 0", []),
        ("e-mail.errors >= 0", ["e-mail@1", "e-mail@2"]),
    ],
)
def test_conditions_name_workloads_operations_and_scales(
    slower: Comparison, condition: str, failing: list[str]
) -> None:
    judgements = judge(slower, [parse_condition(condition)])
    assert [f"{judgement.key}" for judgement in judgements if judgement.fails] == failing


def test_gate_result_names_workload(slower: Comparison) -> None:
    conditions = [parse_condition(f"*@1.objects_per_second < {number}") for number in (0.9, 0.7)]
    fails, passes = gate_sentences(judge(slower, conditions))
    assert fails == (
        "fails: *@1.objects_per_second < 0.9: b, e-mail@1: 0.800 (no verdict: 1 pair; no interval from 1 pair)"
    )
    assert passes.startswith("passes: *@1.objects_per_second < 0.7: b, 2 workloads, the nearest e-mail@1: 0.800")


def test_workload_without_measurement_or_score_fails_condition(tiles: TileRun) -> None:
    runs = [mixed_run([tiles.web(), tiles.scan()], "a"), mixed_run([tiles.web()], "b")]
    judgements = judge(compare_runs(runs), [parse_condition("scan.megabytes_per_second < 0.9")])
    assert [(each.fails, each.notes) for each in judgements] == [(True, ("not measured on b",))]
    unscored = compare_runs([scored(tiles, "a", 1.0), scored(tiles, "b", 1.0, passed=False)])
    (judgement,) = judge(unscored, [parse_condition("all workloads/score.score < 0.9")])
    assert judgement.fails
    assert judgement.notes[0].startswith("no score: failed: ")


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (
            "mail.objects_per_second < 0.9",
            r"a has no cell or workload 'mail' with objects_per_second; it has e-mail@1, e-mail/all",
        ),
        ("e-mail@7.objects_per_second < 0.9", "no cell or workload 'e-mail@7'"),
        ("e-mail.sessions_per_second < 0.9", "no cell or workload 'e-mail' with sessions_per_second"),
        ("e-mail.speed < 0.9", "there is no quantity 'speed'; known here: errors, .*score"),
        ("e-mail/delete/it.errors > 0", "no cell or workload 'e-mail/delete/it'"),
        ("e-mail.objects_per_second < 0.01", "10 times worse would pass"),
        ("archive.8KiB.500.objects_per_second < 0.9", "a has no cell .*; it has e-mail@1"),
    ],
)
def test_conditions_on_unknown_workload_quantity_or_cell_are_refused(
    slower: Comparison, condition: str, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        judge(slower, [parse_condition(condition)])
