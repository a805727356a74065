"""A plan for people and programs: tables, JSON, the folder of documents, and the examples of a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archiver.values.errors import ResultsError
from results.planning.cost import plan_cost
from results.planning.documents import plan_document, write_plan
from results.planning.plan import CapacityPlan, LoadCourse, plan_mail, plan_retrieve, plan_video
from results.planning.prices import read_prices
from results.planning.rate_surface import RateSurface, measured_surface, published_surface
from results.planning.tables import examples_table, plan_tables, what_if_table
from results.table import Table
from results.text import render_text
from tests.results.conftest import MakeResult, MakeRun
from tests.results.watched_run import phase_record

DR550 = published_surface("reference:dr550")


def mail(surface: RateSurface = DR550, mean_bytes: int = 20 << 10) -> CapacityPlan:
    return plan_mail(
        surface, users=30_000, messages=30, mean_bytes=mean_bytes, course=LoadCourse(7, 0.1), window_seconds=8 * 3600
    )


def row_of(table: Table, begins: str) -> list[str]:
    (row,) = (row for row in table.rows if row[0].text.startswith(begins))
    return [cell.text for cell in row]


def test_the_answers_stand_with_their_ranges_and_reasons() -> None:
    answers, *_ = plan_tables(mail())
    assert row_of(answers, "to archive a day")[1:4] == ["51m 35s", "48m 33s", "54m 35s"]
    assert (
        row_of(answers, "to archive a day")[4] == "290.8 objects/s, between 312.5 (16KiB x 25) and 250.0 (32KiB x 25)"
    )
    assert row_of(answers, "at the slower neighbour's rate")[1] == "1h"
    assert row_of(answers, "fits in 8h")[1:4] == ["yes", "yes", "yes"]
    assert row_of(answers, "one message")[1] == "72.4 ms"
    assert "half a step of the paper's session times" in answers.caption


def test_an_answer_names_the_conditions_that_its_cells_fail(make_result: MakeResult, make_run: MakeRun) -> None:
    """Cameras from one session of 0.45 s, which the client limited."""
    cell = make_result("archive", 1 << 20, 100, 500.0, seconds=0.45, sessions=1, limited_by="client")
    plan = plan_video(
        measured_surface(make_run([phase_record(1, cell, 1.0, 1.45)])),
        cameras=100, bytes_per_second=280_000, course=LoadCourse(1),
    )  # fmt: skip
    failed = "limited by the client, measured for 0.45 s"
    answers, *_ = plan_tables(plan)
    assert row_of(answers, "cameras at most")[4] == f"one platform, nothing to spare; {failed}"
    assert row_of(answers, "to archive an hour")[4].endswith(f"500.0 (1MiB x 100; {failed})")
    assert row_of(answers, "platforms needed")[4].endswith(f"as measured; {failed}")
    (basis,) = plan_document(plan, {})["basis"]
    assert basis["cells"][0]["failed_conditions"] == failed.split(", ")
    assert failed not in render_text(plan_tables(mail())[0])


def test_the_neighbour_of_a_measured_size_is_not_spoken_of() -> None:
    answers, *_ = plan_tables(mail(mean_bytes=16 << 10))
    assert not any(row[0].text.startswith("at the slower") for row in answers.rows)


def test_what_if_is_a_table_only_where_it_is_asked_for() -> None:
    names = [table.name for table in plan_tables(mail())]
    assert names == ["plan", "plan-years", "plan-basis"]
    assert [table.name for table in plan_tables(mail(), what_if=True)] == [
        "plan",
        "plan-years",
        "what-if",
        "plan-basis",
    ]
    plan = mail()
    assert plan.archiving is not None
    table = what_if_table(plan.archiving)
    assert [row[5].text for row in table.rows if row[7].text] == ["yes", "yes", "no"]


def test_the_document_has_every_answer_with_its_ends() -> None:
    document = plan_document(mail(), {"users": 30_000}, what_if=True)
    assert 48 * 60 <= document["archive_seconds"]["value"] <= 53 * 60
    for key in ("archive_seconds", "fits", "retrieve_milliseconds_per_object", "retrieve_seconds"):
        assert set(document[key]) == {"value", "low", "high"}
        assert None not in document[key].values()
    assert document["fits"] == {"value": True, "low": True, "high": True}
    assert document["bytes_kept_per_year"] == pytest.approx(900_000 * (20 << 10) * 365)
    assert document["platforms"] == {"value": 1, "low": 1, "high": 1}
    assert {each["remark"] for each in document["what_if"]} == {"", "asked for", "the last that fits", "no longer fits"}
    assert document["extrapolated"] is False
    json.dumps(document, allow_nan=False)


def test_a_range_that_straddles_the_window_fits_at_one_end_only() -> None:
    plan = plan_mail(DR550, users=30_000, messages=30, mean_bytes=20 << 10, course=LoadCourse(1), window_seconds=3100)
    assert plan_document(plan, {})["fits"] == {"value": True, "low": True, "high": False}


def test_what_no_repetition_tells_is_null(make_result: MakeResult, make_run: MakeRun) -> None:
    surface = measured_surface(make_run([phase_record(1, make_result("archive", 8192, 25, 300.0), 1, 2)]))
    document = plan_document(mail(surface), {})
    assert document["archive_seconds"]["value"] > 0
    assert (document["archive_seconds"]["low"], document["fits"]["high"]) == (None, None)
    assert document["retrieve_seconds"] is None
    assert document["unanswered"]
    assert document["extrapolated"] is True
    assert document["warnings"][0].startswith(
        "archive: EXTRAPOLATED: 20KiB is 2.5 times the largest size measured, 8KiB"
    )


def test_a_retrieval_has_no_archive_answers() -> None:
    document = plan_document(plan_retrieve(DR550, size_bytes=1 << 30, parallel=2), {"size": 1 << 30})
    assert (document["archive_seconds"], document["fits"]) == (None, None)
    assert document["retrieve_seconds"]["value"] == pytest.approx(200.8, abs=0.05)
    assert document["retrieval"]["overlap_measured"] is False


def test_the_folder_holds_the_same_bytes_every_time(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n[[part]]\nitem = "box | of <disks>"\nquantity = 1\nlist_price = 10\n')
    plan = mail()
    cost = plan_cost(plan, read_prices(prices))
    document = plan_document(plan, {}, what_if=True, cost=cost)
    first, second = (write_plan(tmp_path / name, plan, document, cost) for name in ("first", "second"))
    assert [path.name for path in first] == [
        "plan.md", "plan.json", "plan.csv", "plan-years.csv", "what-if.csv", "prices.csv", "price-per-unit.csv",
        "plan-basis.csv", "what-if.svg", "what-if.png",
    ]  # fmt: skip
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert json.loads(first[1].read_text()) == document
    assert "last that fits: 279,205" in (tmp_path / "first/what-if.svg").read_text()
    assert "box \\| of <disks>" in first[0].read_text()


def test_a_retrieval_has_no_figure(tmp_path: Path) -> None:
    plan = plan_retrieve(DR550, size_bytes=1 << 30)
    names = [path.name for path in write_plan(tmp_path / "out", plan, plan_document(plan, {}))]
    assert names == ["plan.md", "plan.json", "plan.csv", "plan-basis.csv"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    plan = plan_retrieve(DR550, size_bytes=1 << 30)
    with pytest.raises(ResultsError, match=r"cannot write .*name another folder"):
        write_plan(tmp_path / "file" / "out", plan, {})


def test_the_papers_examples_for_a_report(make_result: MakeResult, make_run: MakeRun) -> None:
    published = examples_table(DR550)
    assert [row[1].text for row in published.rows] == ["51m 35s", "127", "72.4 ms", "100.4 s"]
    surface = measured_surface(make_run([phase_record(1, make_result("archive", 1 << 20, 100, 30.0), 1, 2)]))
    (only,) = examples_table(surface).rows  # neither messages of 20 KiB nor retrieves are near what was measured
    assert only[0].text.startswith("cameras")


def test_every_table_is_set_in_the_width_of_a_terminal() -> None:
    plan = plan_video(DR550, cameras=100, bytes_per_second=1e9 / 3600, course=LoadCourse(2))
    for table in plan_tables(plan, what_if=True):
        assert max(map(len, render_text(table, 120).splitlines())) <= 120
