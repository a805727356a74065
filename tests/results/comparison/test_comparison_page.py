"""The HTML page of a comparison: verdict first, platforms in columns, and conformance runs check by check."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from archiver.values.errors import ResultsError, UsageError
from results.comparison.compare import Side, compare_runs
from results.comparison.conformance import (
    ConformanceRun,
    compare_checks,
    conformance_document,
    conformance_sentences,
    conformance_tables,
)
from results.comparison.page import PAGE_NAME, side_by_side_table, write_comparison_page, write_conformance_documents
from results.comparison.tables import answer_sentences, overall_sentences
from results.document.table import Table
from results.recorded.database import RunDatabase
from results.recorded.model import CheckRecord
from results.recorded.run import read_run
from results.worm.findings import CheckCatalogue, requirement_table
from tests.results.comparison.compared_runs import MakeResult, MakeRun, measured_run
from tests.results.report.reported_runs import CHECK, HOSTILE
from tests.results.watched_run import PLATFORM

CATALOGUE = {"checks": 170, "rules": ["R1", "R2"]}


@pytest.fixture
def make_measured(make_result: MakeResult) -> MakeRun:
    return partial(measured_run, make_result)


def texts(table: Table) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}


def test_page_begins_with_verdict_and_ends_with_platforms(make_measured: MakeRun, tmp_path: Path) -> None:
    fast = make_measured("fast", (1000.0, 1010.0, 990.0), seconds=10.0)
    slow = make_measured("slow", (500.0, 505.0, 495.0), seconds=10.0, doubts=(f"odd: {HOSTILE}; look",))
    comparison = compare_runs([fast, slow])
    (path,) = write_comparison_page(tmp_path / "new", comparison)
    assert path == tmp_path / "new" / PAGE_NAME
    text = path.read_text()
    assert "slow archives 0.50 times (95%: 0.50 to 0.50) as fast as fast at 8KiB x 25, 1 client." in text
    places = [
        text.index(part)
        for part in (
            'class="answer"', 'id="ratios-figure"', ">Verdict<", "Warnings: slow", 'id="table-side-by-side"',
            'id="table-latencies-1"', 'id="table-limits-1"', 'id="table-limits-2"', 'id="table-platforms"',
        )
    ]  # fmt: skip
    assert places == sorted(places)
    assert "alert(1)</script>" not in text
    (again,) = write_comparison_page(tmp_path / "again", comparison)
    assert again.read_text() == text


def test_comparison_without_verdict_shows_mean_ratio_and_reason(make_measured: MakeRun, tmp_path: Path) -> None:
    cells = {("archive", size, 25): (rate,) for size, rate in ((8192, 100.0), (65536, 200.0), (1 << 20, 400.0))}
    faster = {key: (factor * rates[0],) for factor, (key, rates) in zip((2, 4, 8), cells.items(), strict=True)}
    comparison = compare_runs([make_measured("one", cells), make_measured("other", faster)])
    (path,) = write_comparison_page(tmp_path, comparison)
    assert (
        "other archives 2.00 times as fast as one at 8KiB x 25, 1 client: no verdict (1 pair); 8.00 times as fast as "
        "one at 1MiB x 25, 1 client: no verdict (1 pair)."
    ) in path.read_text()
    assert "other / one: 4.00 times over 3 cells, no verdict" in overall_sentences(comparison)[0]


def test_no_one_ratio_stands_for_cells_more_than_ten_times_apart(make_measured: MakeRun) -> None:
    cells = {("archive", size, 25): (100.0, 101.0, 102.0) for size in (8192, 65536)}
    other = {("archive", 8192, 25): (90.0, 91.0, 92.0), ("archive", 65536, 25): (2000.0, 2010.0, 2020.0)}
    comparison = compare_runs([make_measured("one", cells), make_measured("other", other)])
    (answer,) = answer_sentences(comparison)
    assert answer == (
        "other archives 0.90 times (95%: 0.90 to 0.90) as fast as one at 8KiB x 25, 1 client; 19.90 times (95%: 19.66 "
        "to 20.15) as fast as one at 64KiB x 25, 1 client."
    )
    assert "0.90 to 19.90 times over 2 cells, too far apart for one ratio; 1 better" in overall_sentences(comparison)[0]


def test_cells_without_a_verdict_do_not_hide_the_ratio_of_the_others(make_measured: MakeRun) -> None:
    cells = {("archive", size, 25): (100.0, 101.0, 102.0) for size in (8192, 65536)}
    other = {("archive", 8192, 25): (200.0, 202.0, 204.0), ("archive", 65536, 25): (5000.0, 5050.0, 5100.0)}
    measured = make_measured("other", other)
    limited = [replace(each, limited_by="client") if each.object_bytes == 65536 else each for each in measured.results]
    comparison = compare_runs([make_measured("one", cells), replace(measured, results=limited)])
    (answer,) = answer_sentences(comparison)
    assert answer == (
        "other archives 2.00 times (95%: 2.00 to 2.00) as fast as one at 8KiB x 25, 1 client; 50.00 times (95%: 50.00 "
        "to 50.00) as fast as one at 64KiB x 25, 1 client: no verdict (limited by the client)."
    )


def test_side_by_side_table_shows_same_cell_for_all_platforms(make_measured: MakeRun) -> None:
    """The platforms have different fastest cells; the row shows the fastest cell of the first platform for both."""
    small, large = ("archive", 8192, 25), ("archive", 65536, 25)
    first = make_measured("first", {small: (900.0,), large: (300.0,)}, seconds=10.0)
    second = make_measured("second", {small: (400.0,), large: (800.0,)}, seconds=10.0)
    sides: tuple[Side, ...] = compare_runs([first, second]).sides
    rows = texts(side_by_side_table(sides))
    assert [text.partition(" ")[0] for text in rows["archive, objects/s"]] == ["900", "400"]
    assert all("8KiB x 25, 1 client" in text for text in rows["archive, objects/s"])
    assert [text.partition(" ")[0] for text in rows["archive, MB/s"]] == ["19.7", "52.4"]
    assert rows["server CPU of an archived object"] == ["0.978 ms", "2.2 ms"]
    assert rows["warnings"] == ["0", "0"]


def test_different_protocols_are_compared_by_session_times(make_measured: MakeRun) -> None:
    rates = {("archive", 8192, 25): (500.0,)}
    s3 = make_measured("store", rates)
    for other, shown in (("s3", "object"), ("tsm", "session")):
        rows = texts(side_by_side_table(compare_runs([s3, make_measured("other", rates, protocol=other)]).sides))
        assert {name.split()[-2] for name in rows if "p50" in name} == {f"{shown},"}


def test_disclosed_price_is_shown_per_archived_object_rate(make_measured: MakeRun) -> None:
    first, second = make_measured("first", (500.0,)), make_measured("second", (250.0,))
    request = json.dumps({"disclosure": {"list_price": 1000.0, "currency": "EUR"}})
    first = replace(first, row=replace(first.row, request=request))
    rows = texts(side_by_side_table(compare_runs([first, second]).sides))
    assert rows["list price, as disclosed"] == ["1,000.00 EUR (2.00 for an archived object/s)", "–"]
    unpriced = compare_runs([second, make_measured("third", (250.0,))]).sides
    assert "list price, as disclosed" not in texts(side_by_side_table(unpriced))


def conformance_run(
    make_database: Callable[..., RunDatabase], name: str, *checks: CheckRecord, id: str = ""
) -> ConformanceRun:
    database = make_database(
        id=id or f"run-{name}", platform=replace(PLATFORM, name=name), settings={"catalogue": CATALOGUE}
    )
    for check in checks:
        database.add_check(check, [])
    return ConformanceRun.read(read_run(database.path))


GOOD = replace(CHECK, id="DEL-02", tries="delete", verdict="PASS", reason="refused")
BAD = replace(GOOD, verdict="FAIL")


def test_conformance_runs_are_compared_check_by_check(
    make_database: Callable[..., RunDatabase], tmp_path: Path
) -> None:
    same = replace(GOOD, id="DEL-03")
    compared = compare_checks(
        [conformance_run(make_database, "keeps", GOOD, same), conformance_run(make_database, "loses", BAD, same)]
    )
    assert conformance_sentences(compared)[0] == (
        "keeps refused every request that could lose, alter or unlock a record, in 2 of 170 checks."
    )
    assert conformance_sentences(compared)[1].startswith("loses violates its locks: ")
    verdicts, differences, every = conformance_tables(compared)
    assert [(row[0].text, row[3].text) for row in verdicts.rows] == [("keeps", "0"), ("loses", "1")]
    assert [[cell.text for cell in row][-2:] for row in differences.rows] == [["PASS", "FAIL S1"]]
    assert len(every.rows) == 2
    assert [each["violations"] for each in conformance_document(compared)["platforms"]] == [0, 1]
    for file_format, name in (("html", PAGE_NAME), ("markdown", "comparison.md")):
        (path,) = write_conformance_documents(tmp_path, compared, file_format)
        assert path == tmp_path / name
        assert path.read_text().count("keeps and loses compared: WORM conformance") >= 1
        assert "DEL-02" in path.read_text()


def test_conformance_runs_of_one_platform_are_labelled_by_id(make_database: Callable[..., RunDatabase]) -> None:
    runs = [conformance_run(make_database, "same", GOOD, id=name) for name in ("one", "two")]
    assert list(compare_checks(runs).by_label) == ["one", "two"]


def test_invalid_set_of_conformance_runs_is_refused(make_database: Callable[..., RunDatabase]) -> None:
    run = conformance_run(make_database, "keeps", GOOD)
    with pytest.raises(UsageError, match="named twice"):
        compare_checks([run, run])
    with pytest.raises(UsageError, match="two runs or more"):
        compare_checks([run])
    with pytest.raises(ResultsError, match="has no conformance checks"):
        compare_checks([run, conformance_run(make_database, "other")])


def test_requirement_without_check_in_run_is_shown_as_not_tried() -> None:
    rows = texts(requirement_table([GOOD], CheckCatalogue(170, frozenset({"R1", "R2"}))))
    assert rows["17a-4(f)(2)(i)(B)"][-1] == "–"
    assert rows["17a-4(f)(2)(ii)"][-1] == "not tried in this run"
    assert rows["17a-4(f)(2)(v)"][-1] == "no request can prove it: declare it"
    unknown = texts(requirement_table([GOOD], None))
    assert unknown["17a-4(f)(2)(v)"][-1] == "not tried in this run, or no request can prove it"
