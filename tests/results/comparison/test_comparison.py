"""Comparisons of platforms: pairs, verdicts, marks, and the documents that show them."""

from __future__ import annotations

import csv
import io
import json
import math
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pytest

from archiver.values.errors import ResultsError, UsageError
from results.comparison.compare import (
    CLIENT_TAKES,
    NOT_INTERLEAVED,
    OTHER_OBJECT_TIMES,
    Comparison,
    MeasuredRun,
    compare_runs,
)
from results.comparison.contract import comparison_document
from results.comparison.documents import comparison_csv, comparison_figure, comparison_markdown, write_comparison
from results.comparison.power import detectable, pairs_needed
from results.comparison.ratio_tables import differences_table, latencies_table, rates_table
from results.comparison.ratios import Ratio
from results.comparison.tables import comparison_tables, doubt_sentences, overall_sentences
from results.document.drawing import png_bytes, svg_bytes
from results.document.text import render_csv, render_text
from results.measures.quality import CONNECTIONS_ENDED
from results.measures.statistics import paired_ratio
from results.recorded.model import ClientUsage
from tests.results.comparison.compared_runs import CELL, MakeResult, MakeRun, measured_run


@pytest.fixture
def make_run(make_result: MakeResult) -> MakeRun:
    return partial(measured_run, make_result)


def only_ratio(comparison: Comparison) -> Ratio:
    (cell,) = comparison.cells
    (ratio,) = cell.ratios["objects_per_second"]
    assert ratio is not None
    return ratio


def test_paired_repetitions_remove_drift_from_ratio(make_run: MakeRun) -> None:
    drift = (1.0, 1.6, 0.7, 2.2)
    ours = [500 * each for each in drift]
    theirs = [550 * each * noise for each, noise in zip(drift, (1.01, 1.0, 0.99, 1.0), strict=True)]
    found = only_ratio(compare_runs([make_run("minio", ours), make_run("versitygw", theirs)]))
    expected = paired_ratio([math.log(other / one) for one, other in zip(ours, theirs, strict=True)])
    assert (found.ratio, found.low, found.high, found.p) == (expected.ratio, expected.low, expected.high, expected.p)
    assert found.ratio == pytest.approx(1.1, rel=0.01)
    assert (found.verdict, found.pairs) == ("better", 4)


def test_ratio_is_other_platform_to_first(make_run: MakeRun) -> None:
    slow, fast = make_run("minio", (100, 101, 102)), make_run("versitygw", (200, 203, 201))
    assert only_ratio(compare_runs([slow, fast])).verdict == "better"
    assert only_ratio(compare_runs([fast, slow])).verdict == "worse"
    assert only_ratio(compare_runs([fast, slow])).ratio == pytest.approx(0.5, rel=0.02)


def test_noisy_ratio_shows_no_difference_and_needed_repetitions(make_run: MakeRun) -> None:
    found = only_ratio(compare_runs([make_run("a", (100, 100, 100)), make_run("b", (112, 93, 104))]))
    assert (found.verdict, found.because) == ("no difference shown", "")
    assert found.needed is not None
    assert found.needed.repetitions == pairs_needed(
        stdev(math.log(each / 100) for each in (112, 93, 104)), 3, math.log(1.05), 0.05
    )


def test_needed_repetitions_grow_with_number_of_cells(make_run: MakeRun) -> None:
    def needed(cells: int) -> int:
        keys = [("archive", 1024 * (index + 1), 25) for index in range(cells)]
        sides = [dict.fromkeys(keys, rates) for rates in ((100, 100, 100, 100), (102, 97, 104, 99))]
        first = compare_runs([make_run("a", sides[0]), make_run("b", sides[1])]).cells[0]
        ratio = first.ratios["objects_per_second"][0]
        assert ratio is not None
        assert ratio.needed is not None
        assert ratio.needed.repetitions is not None
        return ratio.needed.repetitions

    assert needed(1) < needed(10) < needed(100)


def test_contradicting_measures_are_noted(make_run: MakeRun) -> None:
    """The rate rises, and so does the 99th percentile."""

    def run(platform: str, rate: float, p99_ms: float) -> MeasuredRun:
        made = make_run(platform, [rate] * 3)
        return replace(
            made,
            results=[
                replace(each, object_service_ms=replace(each.object_service_ms, p99=p99_ms))
                for each in made.results
                if each.object_service_ms is not None
            ],
        )

    comparison = compare_runs([run("a", 100.0, 20.0), run("b", 120.0, 40.0)])
    note = "better in objects/s, mean response, p50 service, mean session, worse in p99 service"
    for ratios in comparison.cells[0].ratios.values():
        assert ratios[0] is not None
        assert ratios[0].notes == (note,)
    assert note in render_text(rates_table(comparison, "cell"))
    assert only_ratio(compare_runs([run("a", 100.0, 20.0), run("b", 120.0, 10.0)])).notes == ()


def test_large_client_share_of_object_time_is_noted_with_ratio_bound(make_run: MakeRun) -> None:
    def run(platform: str, rate: float, share: float) -> MeasuredRun:
        return make_run(platform, [rate] * 3, client=ClientUsage(20.0, 20.0, 100.0, 0.1, object_time_share=share))

    assert only_ratio(compare_runs([run("a", 100.0, 0.05), run("b", 150.0, 0.09)])).notes == ()
    found = compare_runs([run("a", 100.0, 0.2), run("b", 150.0, 0.5)])
    assert only_ratio(found).notes == (CLIENT_TAKES,)
    assert found.cells[0].ratio_without_client(0) == pytest.approx(2.4)
    text = render_text(differences_table(found, "cell", 0))
    assert " 2.40" in text


@pytest.mark.parametrize(("pairs", "because"), [(1, "1 pair"), (2, "2 pairs")])
def test_fewer_than_three_pairs_give_no_verdict(make_run: MakeRun, pairs: int, because: str) -> None:
    comparison = compare_runs([make_run("a", [100.0] * pairs), make_run("b", [900.0, 901.0][:pairs])])
    found = only_ratio(comparison)
    assert (found.verdict, found.because, found.p, found.low) == ("no verdict", because, None, None)
    assert comparison.overall[0].ratio.verdict == "no verdict"
    assert f"no verdict ({because}); at least 3 pairs are needed (--repeat)" in overall_sentences(comparison)[0]


@pytest.mark.parametrize(
    ("overrides", "because"),
    [
        ({"errors": 2}, "errors"),
        ({"limited_by": "client"}, "limited by the client"),
        ({"objects_per_second": 0.0}, "a rate of zero"),
        ({"objects_per_second": 0.0, "errors": 2}, "errors"),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_invalid_cell_gets_no_verdict_and_is_excluded_from_mean(
    make_run: MakeRun, overrides: dict[str, Any], because: str, side: int
) -> None:
    rates = {CELL: (100, 101, 102), ("archive", 65536, 25): (100, 101, 102)}
    doubled = {key: [2 * rate for rate in each] for key, each in rates.items()}
    runs = [make_run("a", rates), make_run("b", doubled)]
    spoilt = [replace(runs[side].results[0], **overrides), *runs[side].results[1:]]
    runs[side] = replace(runs[side], results=spoilt)
    comparison = compare_runs(runs)
    bad, good = (cell.ratios["objects_per_second"][0] for cell in comparison.cells)
    assert bad is not None
    assert good is not None
    assert (bad.verdict, bad.because, bad.p, bad.needed) == ("no verdict", because, None, None)
    assert good.verdict == "better"
    assert comparison.overall[0].cells == 1
    assert comparison.overall[0].ratio.ratio == good.ratio
    assert "2.00 times (95% 2.00-2.00) over 1 of 2 cells, 3 pairs; 1 better, 1 no verdict" in str(
        overall_sentences(comparison)
    )


@pytest.mark.parametrize(
    ("pairs", "spoilt", "verdict", "because", "notes"),
    [
        (16, 1, "better", "", ("1 of 16 pairs left out: limited by the client",)),
        (16, 5, "better", "", ("5 of 16 pairs left out: limited by the client",)),
        (16, 6, "no verdict", "limited by the client", ()),  # less than two thirds remain
        (4, 1, "better", "", ("1 of 4 pairs left out: limited by the client",)),
        (3, 1, "no verdict", "limited by the client", ()),  # two pairs are no verdict
    ],
)
def test_pairs_that_say_nothing_are_left_out_if_enough_remain(
    make_run: MakeRun, pairs: int, spoilt: int, verdict: str, because: str, notes: tuple[str, ...]
) -> None:
    noise = [1 + 0.01 * (number % 3) for number in range(pairs)]
    first, other = make_run("a", [100 * each for each in noise]), make_run("b", [436 * each for each in noise[::-1]])
    bad = [replace(each, limited_by="client", objects_per_second=1.0) for each in other.results[:spoilt]]
    found = only_ratio(compare_runs([first, replace(other, results=[*bad, *other.results[spoilt:]])]))
    assert (found.verdict, found.because, found.notes) == (verdict, because, notes)
    if verdict == "better":
        assert found.pairs == pairs - spoilt
        assert found.ratio == pytest.approx(4.36, rel=0.01)


def test_imprecise_rates_are_judged_and_graded(make_run: MakeRun) -> None:
    comparison = compare_runs([make_run("a", (100, 101, 102)), make_run("b", (200, 230, 260))])
    assert only_ratio(comparison).verdict == "better"
    row = rates_table(comparison, "cell").rows[0]
    assert (row[4].grade, row[6].grade) == ("A", "C")


def test_verdicts_are_adjusted_for_number_of_cells(make_run: MakeRun) -> None:
    """A difference that is significant in a single cell is not significant among twenty cells."""
    clear = ((100, 100, 100), (105.0, 106.0, 104.0))
    same = ((100, 100, 100), (99.0, 101.5, 100.2))
    sizes = [1024 * (index + 1) for index in range(20)]

    def compared(count: int) -> Ratio:
        keys = [("archive", size, 25) for size in sizes[:count]]
        sides = [{key: (same if index else clear)[side] for index, key in enumerate(keys)} for side in (0, 1)]
        ratio = (
            compare_runs([make_run("a", sides[0]), make_run("b", sides[1])]).cells[0].ratios["objects_per_second"][0]
        )
        assert ratio is not None
        return ratio

    alone, among = compared(1), compared(20)
    assert alone.p == among.p == pytest.approx(0.0126, abs=0.001)
    assert alone.adjusted_p == alone.p
    assert (alone.verdict, among.verdict) == ("better", "no difference shown")


def test_five_pairs_detect_twenty_percent_under_three_percent_noise(make_run: MakeRun) -> None:
    generator = random.Random(5)
    keys = [(operation, 1024 * size, count) for operation in ("archive", "retrieve") for size in range(1, 9)
            for count in (1, 2, 10, 25, 100, 250, 500)]  # fmt: skip
    sides = [
        {key: [rate * math.exp(generator.gauss(0, 0.03)) for _ in range(5)] for key in keys} for rate in (100.0, 120.0)
    ]
    overall = compare_runs([make_run("a", sides[0]), make_run("b", sides[1])]).overall[0]
    assert overall.cells == 112
    assert overall.verdicts["better"] >= 110
    assert overall.verdicts["worse"] == 0
    assert overall.ratio.verdict == "better"
    assert overall.ratio.ratio == pytest.approx(1.2, rel=0.005)


def test_overall_interval_treats_cells_of_one_pair_as_dependent(make_run: MakeRun) -> None:
    """A repetition that is slow in all cells counts once, not once for each cell."""
    keys = [("archive", 1024 * size, 25) for size in range(1, 31)]
    common = (1.0, 1.3, 0.8)
    comparison = compare_runs(
        [
            make_run("a", dict.fromkeys(keys, (100, 100, 100))),
            make_run("b", {key: [105 * each for each in common] for key in keys}),
        ]
    )
    whole, alone = comparison.overall[0].ratio, paired_ratio([math.log(1.05 * each) for each in common])
    assert (whole.ratio, whole.low, whole.high) == pytest.approx((alone.ratio, alone.low, alone.high))
    assert (whole.verdict, whole.pairs) == ("no difference shown", 3)


def test_overall_ratio_uses_only_pairs_of_every_cell(make_run: MakeRun) -> None:
    """The other run ended early, in its fourth repetition."""
    large = ("archive", 65536, 25)
    comparison = compare_runs(
        [
            make_run("a", {CELL: (100, 100, 100, 100), large: (10, 10, 10, 10)}),
            make_run("b", {CELL: (200, 200, 200, 800), large: (20, 20, 20)}),
        ]
    )
    whole = comparison.overall[0].ratio
    assert whole.pairs == 3
    assert whole.ratio == pytest.approx(2.0)


def test_runs_of_one_platform_are_pooled_in_start_order(make_run: MakeRun) -> None:
    named_in_any_order = [
        make_run("minio", (103.0,), id="b", started_at=5.0),
        make_run("versitygw", (206.0,), id="y", started_at=6.0),
        make_run("minio", (100.0,), id="c", started_at=1.0),
        make_run("minio", (90.0,), id="a", started_at=3.0),
        make_run("versitygw", (180.0,), id="x", started_at=4.0),
        make_run("versitygw", (200.0,), id="z", started_at=2.0),
    ]
    comparison = compare_runs(named_in_any_order)
    assert [[run.id for run in side.runs] for side in comparison.sides] == [["c", "a", "b"], ["z", "x", "y"]]
    found = only_ratio(comparison)
    assert found.pairs == 3
    assert found.ratio == pytest.approx(2.0)
    assert found.low == pytest.approx(2.0)  # every pair has ratio 2, so the right repetitions were paired


def test_missing_repetitions_of_aborted_run_do_not_shift_pairs(make_run: MakeRun) -> None:
    first = make_run("minio", (100.0,), id="a1")
    comparison = compare_runs(
        [
            replace(first, row=replace(first.row, repetitions=2)),
            make_run("minio", (50.0, 60.0), id="a2", started_at=2.0),
            make_run("versitygw", (200.0, 1.0), id="b1"),
            make_run("versitygw", (100.0, 120.0), id="b2", started_at=2.0),
        ]
    )
    assert only_ratio(comparison).pairs == 3
    assert only_ratio(comparison).ratio == pytest.approx(2.0)


def test_runs_of_single_platform_are_compared_with_each_other(make_run: MakeRun) -> None:
    runs = [
        make_run("embedded", (100, 101, 102), id="one", settings={"objects_per_transaction_max": 1}),
        make_run("embedded", (900, 905, 901), id="many", settings={"objects_per_transaction_max": 4096}),
    ]
    comparison = compare_runs(runs)
    assert [side.label for side in comparison.sides] == ["one", "many"]
    assert comparison.overall[0].marks == ("limit of objects per transaction differs (one: 1; many: 4096)",)


def test_sides_are_labelled_by_what_distinguishes_them(make_run: MakeRun) -> None:
    tsm, s3 = make_run("embedded", protocol="tsm"), make_run("embedded", protocol="s3")
    assert [side.label for side in compare_runs([tsm, s3]).sides] == ["tsm", "s3"]
    three = compare_runs([make_run("minio"), tsm, s3])
    assert [side.label for side in three.sides] == ["minio", "embedded through tsm", "embedded through s3"]


@pytest.mark.parametrize(("ours", "theirs"), [(None, None), ("x", None), ("x", "y")])
def test_runs_not_interleaved_are_marked(make_run: MakeRun, ours: str | None, theirs: str | None) -> None:
    comparison = compare_runs([make_run("a", comparison=ours), make_run("b", comparison=theirs)])
    assert not comparison.interleaved
    assert NOT_INTERLEAVED in comparison.overall[0].marks
    assert "which were not interleaved" in rates_table(comparison, "cell").caption


@pytest.mark.parametrize(
    ("starts", "taking_turns"),
    [
        ({"a": (1, 3, 5), "b": (2, 4, 6)}, True),
        ({"a": (1, 4, 5), "b": (2, 3, 6)}, True),
        ({"a": (1, 2, 3), "b": (4, 5, 6)}, False),
        ({"a": (1, 3, 5), "b": (2, 4)}, False),
        ({"a": (1,), "b": (2,)}, False),
    ],
)
def test_runs_that_took_turns_are_interleaved(
    make_run: MakeRun, starts: dict[str, tuple[int, ...]], taking_turns: bool
) -> None:
    runs = [
        make_run(name, (100.0,), comparison=None, started_at=float(at), id=f"{name}{at}")
        for name, own in starts.items()
        for at in own
    ]
    assert compare_runs(runs).interleaved is taking_turns


def test_interleaved_runs_have_no_mark(make_run: MakeRun) -> None:
    comparison = compare_runs([make_run("a", comparison="x"), make_run("b", comparison="x")])
    assert comparison.interleaved
    assert comparison.overall[0].marks == ()


@pytest.mark.parametrize(
    ("ours", "theirs", "marked"),
    [("cold", "cold", False), ("warm", "warm", False), ("cold", "warm", True), ("unknown", "unknown", True)],
)
def test_cells_with_different_or_unknown_cache_state_are_marked(
    make_run: MakeRun, ours: str, theirs: str, marked: bool
) -> None:
    rates = {("retrieve", 8192, 25): (100, 100, 100)}
    comparison = compare_runs([make_run("a", rates, temperature=ours), make_run("b", rates, temperature=theirs)])
    assert only_ratio(comparison).notes == ((f"retrieved data: {ours} on a, {theirs} on b",) if marked else ())
    mark = "cache state differs or is unknown in 1 of 1 retrieve cells"
    assert comparison.overall[0].marks == ((mark,) if marked else ())


def test_cells_with_different_connections_per_session_are_marked(make_run: MakeRun) -> None:
    rates = (100, 100, 100)
    kept, often = (
        make_run("a", rates, connections_per_session=1.0),
        make_run("b", rates, connections_per_session=25.0, requests_per_connection=1.0),
    )
    comparison = compare_runs([kept, often])
    assert only_ratio(comparison).notes == ("connections per session: 1 on a, 25 on b",)
    assert comparison.overall[0].marks == ("connections per session differ in 1 of 1 cells",)
    assert CONNECTIONS_ENDED.sentence in {
        note for cell in rates_table(comparison, "cell").rows[0] for note in cell.notes
    }
    alike = compare_runs([often, make_run("c", rates, connections_per_session=25.5, requests_per_connection=1.0)])
    assert only_ratio(alike).notes == ()  # small differences are ignored
    assert alike.overall[0].marks == ()


def test_overall_sentence_marks_different_durability(make_run: MakeRun) -> None:
    syncing, other = make_run("minio", (100, 101, 102)), make_run("versitygw", (143, 144, 146))
    platform = replace(other.row.platform, durability="none")
    comparison = compare_runs([syncing, replace(other, row=replace(other.row, platform=platform))])
    assert overall_sentences(comparison) == [
        "versitygw / minio: 1.43 times (95% 1.42-1.44) over 1 cell, 3 pairs; 1 better; "
        "can detect differences from 0.7% (power 80%); "
        "mean session 0.70 times (better), p50 service 0.70 times (better), p99 service 0.70 times (better); "
        "marked: durability differs (minio: fsync; versitygw: none)"
    ]


def test_unlike_runs_are_refused(make_run: MakeRun) -> None:
    with pytest.raises(ResultsError, match=r"checksum differs \(minio: crc32c; versitygw: none\)"):
        compare_runs([make_run(settings={"checksum": "crc32c"}), make_run("versitygw", settings={"checksum": "none"})])


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([{"platform": "a"}, {"platform": "b", "rates": {("retrieve", 8192, 25): (1.0,)}}], "a and b have no cell"),
        ([{"platform": "a"}, {"platform": "b", "rates": {}}], "run run-b-s3 has no results"),
    ],
)  # fmt: skip
def test_runs_without_common_cells_or_results_are_refused(
    make_run: MakeRun, runs: list[dict[str, Any]], words: str
) -> None:
    with pytest.raises(ResultsError, match=words):
        compare_runs([make_run(**each) for each in runs])


@pytest.mark.parametrize(("names", "words"), [(["a"], "two runs or more"), (["a", "a"], "run run-a-s3 is named twice")])
def test_comparison_of_single_or_repeated_run_is_refused(make_run: MakeRun, names: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compare_runs([make_run(name) for name in names])


@pytest.fixture
def three(make_run: MakeRun) -> Comparison:
    """Compare three platforms. The second lacks one cell and is slower in another."""
    large, read = ("archive", 65536, 25), ("retrieve", 8192, 25)
    return compare_runs(
        [
            make_run("minio", {CELL: (100, 101, 102), large: (50, 51, 52), read: (300, 301, 302)}),
            make_run("versitygw", {CELL: (143, 144, 147), large: (20, 20.5, 21)}, doubts=("acknowledged from memory",)),
            make_run("embedded", {CELL: (101, 100, 103), large: (500, 520, 530), read: (300, 299, 303)}),
        ]
    )


def test_rates_table_shows_platforms_with_ratios_to_first(three: Comparison) -> None:
    table = rates_table(three, "cell")
    assert [f"{column.name} {column.unit}".strip() for column in table.columns[4:]] == [
        "minio objects/s", "minio MB/s", "versitygw objects/s", "versitygw MB/s", "embedded objects/s", "embedded MB/s",
        "versitygw / minio", "95%", "embedded / minio", "95%",
    ]  # fmt: skip
    numbers = [[cell.number for cell in row[4:]] for row in table.rows]
    assert numbers[0][:4] == [101, pytest.approx(0.827392), 144, pytest.approx(1.179648)]  # 10^6 bytes
    assert numbers[0][6] == pytest.approx(1.432, abs=0.001)
    assert numbers[2][2:4] == [None, None]  # versitygw retrieved nothing
    assert numbers[2][6] is None
    assert table.rows[0][10].notes == ()
    assert table.rows[0][12].notes == ("no difference shown",)
    assert [table.rows[0][place].text for place in (11, 13)] == ["1.41 to 1.45", "0.97 to 1.04"]


def test_differences_and_latencies_have_table_per_platform(three: Comparison) -> None:
    assert [table.name for table in comparison_tables(three).all] == [
        "platforms", "comparison", "matrix", "differences-1", "differences-2", "latencies-1", "latencies-2",
        "disclosure",
    ]  # fmt: skip
    rows = [[cell.text for cell in row] for row in differences_table(three, "cell", 1).rows]
    assert [row[8] for row in rows] == ["no difference shown", "better", "no difference shown"]
    for table in comparison_tables(three).all:
        assert render_text(table)
        assert render_csv(table)


def test_disclosed_configurations_have_one_column_per_platform(three: Comparison) -> None:
    first, *others = three.sides
    row = replace(first.runs[0].row, request=json.dumps({"disclosure": {"nodes": 4}}))
    disclosing = replace(first, runs=(replace(first.runs[0], row=row), *first.runs[1:]))
    found = replace(three, sides=(disclosing, *others))
    table = comparison_tables(found).disclosure
    nodes = next(line for line in table.rows if line[0].text == "nodes")
    assert [cell.text for cell in nodes[1:]] == ["4", "not disclosed", "not disclosed"]
    platforms = comparison_document(found)["platforms"]
    assert [each["disclosure"] for each in platforms] == [{"nodes": 4}, None, None]


def test_warnings_begin_with_the_platform(three: Comparison) -> None:
    assert doubt_sentences(three) == ["versitygw: acknowledged from memory"]


def test_json_document_has_values_under_names_with_units(three: Comparison) -> None:
    document = json.loads(json.dumps(comparison_document(three), allow_nan=False))
    assert document["first"] == "minio"
    assert document["interleaved"] is True
    assert document["platforms"][1] == {
        "label": "versitygw", "platform": "versitygw", "protocol": "s3", "version": "1", "durability": "fsync",
        "shared_host": True, "repetitions": 3, "disclosure": None,
        "runs": [{"run": "run-versitygw-s3", "comparison": "together", "doubts": ["acknowledged from memory"]}],
    }  # fmt: skip
    small, large, read = document["cells"]
    assert (small["operation"], small["object_bytes"], small["objects_per_session"], small["clients"]) == (*CELL, 1)
    assert small["rates"][1] == {
        "platform": "versitygw", "objects_per_second": 144, "megabytes_per_second": pytest.approx(1.179648),
        "object_ms.mean": pytest.approx(1100 / 144), "object_service_ms.p50": pytest.approx(1000 / 144),
        "object_service_ms.p99": pytest.approx(3000 / 144), "errors": 0, "repetitions": 3, "notes": [],
        "session_service_ms.mean": pytest.approx(25 * 1100 / 144),
        "seconds_min": pytest.approx(1000 / 147), "sessions_min": 40, "objects_min": 1000,
    }  # fmt: skip
    assert large["ratios"][0].keys() == {
        "platform", "ratio", "low", "high", "p", "adjusted_p", "verdict", "no_verdict_because", "pairs",
        "needed_repetitions", "needed_repetitions_more_than", "needed_for_difference_percent", "detectable_percent",
        "notes",
    }  # fmt: skip
    assert (large["ratios"][0]["verdict"], large["ratios"][1]["verdict"]) == ("worse", "better")
    assert [ratio["platform"] for ratio in read["ratios"]] == ["embedded"]
    whole = document["overall"][0]
    assert [whole[name] for name in ("platform", "cells", "cells_in_common", "better", "worse")] == [
        "versitygw", 2, 2, 1, 1,
    ]  # fmt: skip
    assert (whole["no_difference_shown"], whole["no_verdict"]) == (0, 0)
    assert whole["marks"] == ["1 cell measured on minio only"]


def test_needed_repetitions_above_1000_are_given_as_bound(make_run: MakeRun) -> None:
    comparison = compare_runs([make_run("a", (100, 100, 100)), make_run("b", (5, 100, 2300))])
    ratio = comparison_document(comparison)["cells"][0]["ratios"][0]
    assert (ratio["needed_repetitions"], ratio["needed_repetitions_more_than"]) == (None, 1000)
    assert "more than 1000" in render_text(differences_table(comparison, "cell", 0))


def test_csv_has_line_per_cell_and_platform(three: Comparison) -> None:
    lines = list(csv.DictReader(io.StringIO(comparison_csv(three))))
    assert [(line["operation"], line["object_bytes"], line["platform"]) for line in lines] == [
        ("archive", "8192", "versitygw"), ("archive", "8192", "embedded"), ("archive", "65536", "versitygw"),
        ("archive", "65536", "embedded"), ("retrieve", "8192", "embedded"),
    ]  # fmt: skip
    assert lines[0]["first"] == "minio"
    rates = [float(lines[0][name]) for name in ("first_objects_per_second", "objects_per_second")]
    assert rates == [101, 144]
    assert float(lines[0]["ratio"]) == pytest.approx(1.432, abs=0.001)


def test_figure_draws_all_ratios_on_a_log_scale(three: Comparison) -> None:
    archive, retrieve = comparison_figure(three).axes
    assert [axes.get_xscale() for axes in (archive, retrieve)] == ["log", "log"]
    assert [tick.get_text() for tick in archive.get_yticklabels()] == ["8KiB × 25", "64KiB × 25"]
    xs = [np.asarray(line.get_xdata()) for line in archive.get_lines()]
    points = sorted(float(each[0]) for each in xs if len(each) == 1)
    compared = [ratio for cell in three.cells[:2] for ratio in cell.ratios["objects_per_second"]]
    ratios = sorted(ratio.ratio for ratio in compared if ratio and ratio.ratio)
    assert points == pytest.approx(ratios)
    low, high = archive.get_xlim()
    assert low < 0.41 < 1 < 10.2 < high
    svg = svg_bytes(comparison_figure(three)).decode()
    for text in ("ratio to minio (log scale)", "archive", "retrieve", "embedded / minio", "run-versitygw-s3", "95%"):
        assert text in svg


@pytest.mark.parametrize("rates", [(0.0,), (100.0,), (0.0, 0.0, 0.0)])
def test_comparison_without_ratios_or_verdicts_is_drawn(make_run: MakeRun, rates: tuple[float, ...]) -> None:
    comparison = compare_runs([make_run("a", rates), make_run("b", rates)])
    assert png_bytes(comparison_figure(comparison)).startswith(b"\x89PNG")
    assert "no verdict" in comparison_markdown(comparison)


def test_five_comparison_documents_are_written_reproducibly(three: Comparison, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        paths = write_comparison(tmp_path / folder, three)
        assert [path.name for path in paths] == [
            "comparison.md", "comparison.json", "comparison.csv", "comparison.svg", "comparison.png",
        ]  # fmt: skip
    for path in paths:
        assert path.read_bytes() == (tmp_path / "one" / path.name).read_bytes()
    text = (tmp_path / "one" / "comparison.md").read_text()
    for part in ("# minio, versitygw and embedded compared", "- versitygw: acknowledged", "| versitygw / minio |"):
        assert part in text


def test_unwritable_folder_is_named_in_error(three: Comparison, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultsError, match=r"cannot write .*file.*another folder"):
        write_comparison(tmp_path / "file", three)


def test_cell_limited_by_host_cpu_gets_no_verdict(make_run: MakeRun) -> None:
    ours, theirs = make_run("minio", (100, 101, 102)), make_run("versitygw", (200, 203, 201), limited_by="host cpu")
    found = only_ratio(compare_runs([ours, theirs]))
    assert (found.verdict, found.because) == ("no verdict", "limited by the machine")


def test_cells_measured_on_one_platform_only_are_marked(make_run: MakeRun) -> None:
    more = {CELL: (100.0,), ("archive", 1 << 20, 25): (10.0,), ("archive", 1 << 20, 100): (10.0,)}
    (overall,) = compare_runs([make_run("minio", more), make_run("versitygw", (200.0,))]).overall
    assert "2 cells measured on minio only" in overall.marks


def test_servers_at_different_endpoints_are_different_sides(make_run: MakeRun) -> None:
    def at(address: str, identifier: str, *, started: bool = False) -> MeasuredRun:
        run = make_run("minio", (100.0, 101.0, 102.0), id=identifier, settings={"platform_started": started})
        platform = replace(run.row.platform, endpoints=(address,))
        return replace(run, row=replace(run.row, platform=platform))

    other = make_run("versitygw", (100.0, 101.0, 102.0))
    apart = compare_runs([at("http://a:9000", "1"), at("http://b:9000", "2"), other])
    assert [side.label for side in apart.sides] == ["minio at http://a:9000", "minio at http://b:9000", "versitygw"]
    ours = [at(f"http://127.0.0.1:{port}", str(port), started=True) for port in (4001, 4002)]
    assert [side.label for side in compare_runs([*ours, other]).sides] == ["minio", "versitygw"]


def test_detectable_difference_is_given_per_cell_and_overall(make_run: MakeRun) -> None:
    """With two cells, the adjustment of p values gives the clear difference a level of 2.5% and the other cell 5%."""
    large = ("archive", 65536, 25)
    noise = [0.98, 1.0, 1.02, 1.01, 0.99]
    ours = {CELL: [100.0] * 5, large: [100.0] * 5}
    theirs = {CELL: [150 * each for each in noise], large: [100 * each for each in noise]}
    comparison = compare_runs([make_run("a", ours), make_run("b", theirs)])
    clear, same = (cell.ratios["objects_per_second"][0] for cell in comparison.cells)
    assert clear is not None
    assert same is not None
    error = stdev(math.log(each) for each in noise) / math.sqrt(5)
    assert clear.verdict == "better"
    assert clear.detectable_percent == pytest.approx(100 * math.expm1(detectable(5, 0.025) * error))
    assert same.detectable_percent == pytest.approx(100 * math.expm1(detectable(5, 0.05) * error))
    overall_percent = comparison.overall[0].ratio.detectable_percent
    assert overall_percent is not None
    assert clear.detectable_percent is not None
    assert 0 < overall_percent < clear.detectable_percent
    assert "can detect differences from" in overall_sentences(comparison)[0]
    assert [row[-2].text for row in differences_table(comparison, "cell", 0).rows] == ["3.3", "2.7"]


def test_detectable_difference_is_found_with_stated_power(make_run: MakeRun) -> None:
    """Simulate many comparisons whose true difference is the detectable one, and count how many detect it."""
    generator = random.Random(11)
    spread, pairs = 0.05, 4
    true = math.exp(detectable(pairs, 0.05) * spread * math.sqrt(1 / pairs))
    found = [
        only_ratio(
            compare_runs(
                [
                    make_run("a", [100.0] * pairs),
                    make_run("b", [100 * true * math.exp(generator.gauss(0, spread)) for _ in range(pairs)]),
                ]
            )
        ).verdict
        for _ in range(150)
    ]
    assert 0.7 < found.count("better") / len(found) < 0.9
    assert found.count("worse") == 0


def test_two_pairs_have_no_detectable_difference(make_run: MakeRun) -> None:
    comparison = compare_runs([make_run("a", (100, 101)), make_run("b", (200, 203))])
    assert only_ratio(comparison).detectable_percent is None
    assert "can detect" not in overall_sentences(comparison)[0]


def test_detectable_difference_above_1000_percent_is_given_as_bound(make_run: MakeRun) -> None:
    comparison = compare_runs([make_run("a", (1e-9, 1e9, 1)), make_run("b", (1e9, 1e-9, 1))])
    json.dumps(comparison_document(comparison), allow_nan=False)
    assert differences_table(comparison, "cell", 0).rows[0][-2].text == ">1000"


def test_latencies_are_paired_and_lower_is_better(make_run: MakeRun, make_result: MakeResult) -> None:
    """The rates and medians are equal, the 99th percentiles differ, and all drift; the ratios contain no drift."""

    def run(platform: str, p99_ms: float) -> MeasuredRun:
        made = make_run(platform, (100.0, 100.0, 100.0))
        latency = made.results[0].object_service_ms
        assert latency is not None
        return replace(
            made,
            results=[
                replace(each, object_service_ms=replace(latency, p50=drift, p99=p99_ms * drift * noise))
                for each, drift, noise in zip(made.results, (1.0, 3.0, 0.5), (1.0, 1.01, 0.99), strict=True)
            ],
        )

    comparison = compare_runs([run("a", 20.0), replace(run("b", 10.0))])
    (cell,) = comparison.cells
    p50, p99 = (cell.ratios[name][0] for name in ("object_service_ms.p50", "object_service_ms.p99"))
    assert p50 is not None
    assert p99 is not None
    assert (p50.ratio, p50.verdict) == (1.0, "no difference shown")
    assert p99.ratio == pytest.approx(0.5)
    assert p99.verdict == "better"
    worse = compare_runs([run("a", 10.0), run("b", 20.0)]).overall[0].latencies["object_service_ms.p99"]
    assert worse.verdict == "worse"
    row = [each.text for each in latencies_table(comparison, "cell", 0).rows[0]]
    assert row[8:12] == ["1.000", "1.000", "1.00", "1.00 to 1.00"]
    assert row[12:] == ["20.000", "10.000", "0.50", "0.50 to 0.50"]
    assert "p99 service 0.50 times (better)" in overall_sentences(comparison)[0]


def test_between_protocols_sessions_compare_and_times_of_objects_do_not(make_run: MakeRun) -> None:
    """Sessions have 25 objects of 4 ms each. In a TSM transaction all objects end with the last one: 100 to 4 ms each.

    Rates and session times are equal, so no difference is shown, although the median object time is 13 times as long.
    """

    def run(protocol: str, p50_ms: float, p99_ms: float) -> MeasuredRun:
        made = make_run("embedded", (250.0, 251.0, 249.5), protocol=protocol)
        return replace(
            made,
            results=[
                replace(each, object_service_ms=replace(each.object_service_ms, p50=p50_ms, p99=p99_ms))
                for each in made.results
                if each.object_service_ms is not None
            ],
        )

    comparison = compare_runs([run("s3", 4.0, 4.0), run("tsm", 52.0, 100.0)])
    (ratios,) = [cell.ratios for cell in comparison.cells]
    session, p50 = ratios["session_service_ms.mean"][0], ratios["object_service_ms.p50"][0]
    assert session is not None
    assert p50 is not None
    assert (session.ratio, session.verdict) == (1.0, "no difference shown")
    assert (p50.verdict, p50.because) == ("no verdict", OTHER_OBJECT_TIMES)
    assert p50.notes == ()
    latencies, times = comparison_tables(comparison).latencies
    assert not [column.name for column in latencies.columns if "p50" in column.name or "p99" in column.name]
    assert [cell.text for cell in times.rows[0]][4:] == ["4.000", "52.000", "4.000", "100.000"]
    assert "tsm: archive: from sending the object to the commit of its transaction" in times.caption
    assert "s3: from an object's first request" in times.caption
    (sentence,) = overall_sentences(comparison)
    assert "mean session 1.00 times (no difference shown)" in sentence
    assert "service" not in sentence


def test_object_times_are_compared_within_one_protocol(make_run: MakeRun) -> None:
    comparison = compare_runs([make_run("a", (100, 101, 102)), make_run("b", (200, 203, 201))])
    (latencies,) = comparison_tables(comparison).latencies
    assert {"session a", "p50 a", "p99 b"} <= {column.name for column in latencies.columns}


def test_p99_of_fewer_than_100_objects_gets_no_verdict(make_run: MakeRun) -> None:
    runs = [make_run("a", (100, 101, 102), objects=99), make_run("b", (200, 202, 203), objects=99)]
    comparison = compare_runs(runs)
    p99 = comparison.cells[0].ratios["object_service_ms.p99"][0]
    assert p99 is not None
    assert (p99.verdict, p99.because) == ("no verdict", "fewer than 100 objects")
    assert only_ratio(comparison).verdict == "better"
    assert "p50 service" in overall_sentences(comparison)[0]
    assert "p99" not in overall_sentences(comparison)[0]


def test_lock_variants_and_hold_operations_are_compared_as_cells(make_run: MakeRun, make_result: MakeResult) -> None:
    def run(platform: str, factor: float) -> MeasuredRun:
        results = [
            make_result(
                operation, 8192, 25, factor * rate, variant=variant, repetition=number, phase=operation + variant
            )
            for operation, variant in (("archive", "lock header"), ("archive", "lock none"), ("hold", ""))
            for number, rate in enumerate((100.0, 101.0, 102.5), start=1)
        ]
        return replace(make_run(platform, {CELL: ()}), results=results)

    comparison = compare_runs([run("a", 1.0), run("b", 1.3)])
    assert [cell.key.operation for cell in comparison.cells] == ["archive, lock header", "archive, lock none", "hold"]
    assert comparison.overall[0].verdicts["better"] == 3


def test_refusal_names_every_differing_setting(make_run: MakeRun) -> None:
    unlike = [
        make_run("a", settings={"checksum": "crc32c", "verify": "all"}),
        make_run("b", settings={"checksum": "none", "verify": "all"}),
        make_run("c", settings={"checksum": "crc32c", "verify": "none"}),
    ]
    with pytest.raises(ResultsError, match=r"checksum differs \(a: .*; verification .*--checksum, --verify, .*--force"):
        compare_runs(unlike)


def test_forced_comparison_has_ratios_without_verdicts_for_unlike_runs(make_run: MakeRun) -> None:
    comparison = compare_runs(
        [
            make_run("a", (100, 101, 102), settings={"verify": "all"}),
            make_run("b", (200, 203, 202), settings={"verify": "none"}),
            make_run("c", (200, 203, 202), settings={"verify": "all"}),
        ],
        force=True,
    )
    unlike, like = comparison.cells[0].ratios["objects_per_second"]
    assert unlike is not None
    assert like is not None
    assert (unlike.verdict, unlike.because, unlike.p, unlike.detectable_percent) == (
        "no verdict", "unlike runs", None, None,
    )  # fmt: skip
    assert unlike.ratio == like.ratio == pytest.approx(1.997, abs=0.001)
    assert like.verdict == "better"
    assert all(ratios[0].verdict == "no verdict" for ratios in comparison.cells[0].ratios.values() if ratios[0])
    document = comparison_document(comparison)
    assert len(document["forced"]) == 1
    assert [len(each["forced"]) for each in document["overall"]] == [1, 0]
    assert document["cells"][0]["ratios"][0]["no_verdict_because"] == "unlike runs"
    first, second = overall_sentences(comparison)
    assert "2.00 times" in first
    assert "no verdict (unlike runs)" in first
    assert "FORCED: verification of retrieved objects differs" in first
    assert "FORCED" not in second
    assert "FORCED" in comparison_markdown(comparison)
    assert "FORCED" in svg_bytes(comparison_figure(comparison)).decode()


def test_many_operations_are_drawn_in_two_columns(make_run: MakeRun) -> None:
    operations = [f"archive, lock {name}" for name in ("none", "header", "separate")]
    rates = {(operation, 8192, 25): (100.0, 101.0, 102.0) for operation in operations}
    figure = comparison_figure(compare_runs([make_run("a", rates), make_run("b", rates)]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == sorted(operations)
    boxes = [axes.get_position() for axes in figure.axes]
    assert boxes[0].y0 == boxes[1].y0 > boxes[2].y1
    assert boxes[0].x0 == boxes[2].x0 < boxes[0].x1 < boxes[1].x0
