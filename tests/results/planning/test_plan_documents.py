"""The documents of a plan: tables, JSON, files, and the example table of a report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archiver.values.errors import ResultsError
from results.document.files import write_files
from results.document.table import Table
from results.document.text import render_text
from results.planning.answer import PlanAnswer, answer
from results.planning.documents import plan_document, plan_files
from results.planning.loads import LoadCourse, MailLoad, PlanRequest, RetrieveLoad, VideoLoad
from results.planning.measured_rates import measured_surface, published_surface
from results.planning.rate_surface import RateSurface
from results.planning.tables import examples_table, plan_tables, what_if_table
from results.prices.prices import PriceList, read_prices
from tests.results.conftest import MakeResult, MakeRun
from tests.results.watched_run import phase_record

DR550 = published_surface("reference:dr550")


def mail(
    surface: RateSurface = DR550,
    mean_bytes: int = 20 << 10,
    window_seconds: float = 8 * 3600,
    prices: PriceList | None = None,
) -> PlanAnswer:
    load = MailLoad(users=30_000, messages=30, mean_bytes=mean_bytes, window_seconds=window_seconds)
    return answer(surface, PlanRequest(load=load, course=LoadCourse(7, 0.1), prices=prices))


def video(surface: RateSurface, bytes_per_second: float) -> PlanAnswer:
    load = VideoLoad(cameras=100, bytes_per_second=bytes_per_second)
    return answer(surface, PlanRequest(load=load, course=LoadCourse(2)))


def retrieve(parallel: int = 1) -> PlanAnswer:
    return answer(DR550, PlanRequest(load=RetrieveLoad(size_bytes=1 << 30, parallel=parallel)))


def row_of(table: Table, begins: str) -> list[str]:
    (row,) = (row for row in table.rows if row[0].text.startswith(begins))
    return [cell.text for cell in row]


def test_answers_are_shown_with_ranges_and_reasons() -> None:
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
    """The cameras are planned from an imprecise cell, which the client limited."""
    cell = make_result("archive", 1 << 20, 100, 500.0, session_half_width=0.3, limited_by="client")
    plan = video(measured_surface(make_run([phase_record(1, cell, 1.0, 1.45)])), 280_000)
    failed = "limited by the client, grade C"
    answers, *_ = plan_tables(plan)
    assert row_of(answers, "cameras at most")[4] == f"one platform; 20% kept free; {failed}"
    assert row_of(answers, "to archive an hour")[4].endswith(f"500.0 (1MiB x 100; {failed})")
    assert row_of(answers, "platforms needed")[4].endswith(f"decided by archive rate; {failed}")
    (basis,) = plan_document(plan)["basis"]
    assert basis["cells"][0]["failed_conditions"] == failed.split(", ")
    assert failed not in render_text(plan_tables(mail())[0])


def test_retrieval_among_several_clients_is_noted(make_result: MakeResult, make_run: MakeRun) -> None:
    cells = [make_result(operation, 20 << 10, 30, 300.0, clients=16) for operation in ("archive", "retrieve")]
    phases = [phase_record(n, cell, 2 * n, 2 * n + 1) for n, cell in enumerate(cells, 1)]
    answers, *_ = plan_tables(mail(measured_surface(make_run(phases))))
    assert row_of(answers, "30 messages of 1 user")[4].startswith("one of 16 clients at work; 300.0 objects/s with 16")
    assert row_of(answers, "clients of each platform")[1] == "16"


def test_measured_size_has_no_row_for_neighbour_rate() -> None:
    answers, *_ = plan_tables(mail(mean_bytes=16 << 10))
    assert not any(row[0].text.startswith("at the slower") for row in answers.rows)


def test_what_if_table_appears_only_on_request() -> None:
    names = [table.name for table in plan_tables(mail())]
    assert names == ["plan", "plan-years", "plan-sensitivity", "plan-basis"]
    assert [table.name for table in plan_tables(mail(), what_if=True)] == [
        "plan", "plan-years", "what-if", "plan-sensitivity", "plan-basis",
    ]  # fmt: skip
    archiving = mail().plan.archiving
    assert archiving is not None
    table = what_if_table(archiving)
    assert [row[5].text for row in table.rows if row[7].text] == ["yes", "yes", "no"]


def test_json_document_has_answers_with_low_and_high() -> None:
    document = plan_document(mail(), what_if=True)
    assert 48 * 60 <= document["archive_seconds"]["value"] <= 53 * 60
    for key in ("archive_seconds", "fits", "retrieve_milliseconds_per_object", "retrieve_seconds"):
        assert set(document[key]) == {"value", "low", "high"}
        assert None not in document[key].values()
    assert document["fits"] == {"value": True, "low": True, "high": True}
    assert document["bytes_kept_per_year"] == pytest.approx(900_000 * (20 << 10) * 365)
    assert document["platforms"] == {"value": 1, "low": 1, "high": 1}
    assert {each["remark"] for each in document["what_if"]} == {"", "asked for", "the last that fits", "no longer fits"}
    assert document["extrapolated"] is False
    assert (document["question"]["users"], document["question"]["growth_share"]) == (30_000, 0.1)
    json.dumps(document, allow_nan=False)


def test_slow_end_of_range_decides_whether_load_fits() -> None:
    """A day takes 3,095 s (2,914 to 3,275); of the window 20% are kept free."""
    found = mail(window_seconds=3100 / 0.8)
    assert plan_document(found)["fits"] == {"value": False, "low": True, "high": False}
    assert row_of(plan_tables(found)[0], "fits in")[1:4] == ["no", "yes", "no"]
    assert plan_document(mail(window_seconds=3100))["fits"] == {"value": False, "low": False, "high": False}
    assert plan_document(mail(window_seconds=3300 / 0.8))["fits"] == {"value": True, "low": True, "high": True}


def test_slow_end_of_range_decides_number_of_platforms() -> None:
    document = plan_document(mail(window_seconds=3100 / 0.8))  # 1.77 times the load of today in year 7
    assert document["years"][0]["platforms"] == {"value": 2, "low": 1, "high": 2}
    platforms = row_of(plan_tables(mail(window_seconds=3100 / 0.8))[0], "platforms needed")
    assert platforms[4] == "in year 7; decided by archive rate"


def test_values_unknown_without_repetition_are_null(make_result: MakeResult, make_run: MakeRun) -> None:
    surface = measured_surface(make_run([phase_record(1, make_result("archive", 8192, 25, 300.0), 1, 2)]))
    document = plan_document(mail(surface))
    assert document["archive_seconds"]["value"] > 0
    assert (document["archive_seconds"]["low"], document["fits"]["high"]) == (None, None)
    assert document["retrieve_seconds"] is None
    assert document["unanswered"]
    assert document["extrapolated"] is True
    assert document["warnings"][0].startswith(
        "archive: EXTRAPOLATED: 20KiB is 2.5 times the largest measured size, 8KiB"
    )


def test_retrieval_plan_has_no_archive_answers() -> None:
    document = plan_document(retrieve(parallel=2))
    assert (document["archive_seconds"], document["fits"]) == (None, None)
    assert document["retrieve_seconds"]["value"] == pytest.approx(200.8, abs=0.05)
    assert document["retrieval"]["overlap_measured"] is False


def test_plan_folder_is_byte_identical_every_time(tmp_path: Path) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text('currency = "EUR"\n[[part]]\nitem = "box | of <disks>"\nquantity = 1\nlist_price = 10\n')
    found = mail(prices=read_prices(prices))
    first, second = (write_files(tmp_path / name, plan_files(found)) for name in ("first", "second"))
    assert [path.name for path in first] == [
        "plan.md", "plan.json", "plan.csv", "plan-years.csv", "what-if.csv", "prices.csv", "price-per-unit.csv",
        "plan-sensitivity.csv", "plan-basis.csv", "what-if.svg", "what-if.png",
    ]  # fmt: skip
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert json.loads(first[1].read_text()) == plan_document(found, what_if=True)
    assert "last that fits: 211,027" in (tmp_path / "first/what-if.svg").read_text()
    assert "box \\| of <disks>" in first[0].read_text()


def test_retrieval_plan_has_no_figure() -> None:
    assert list(plan_files(retrieve())) == [
        "plan.md", "plan.json", "plan.csv", "plan-sensitivity.csv", "plan-basis.csv",
    ]  # fmt: skip


def test_unwritable_folder_is_named_in_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultsError, match=r"cannot write .*name another folder"):
        write_files(tmp_path / "file" / "out", plan_files(retrieve()))


def test_examples_table_has_only_examples_near_measured_rates(make_result: MakeResult, make_run: MakeRun) -> None:
    published = examples_table(DR550)
    assert [row[1].text for row in published.rows] == ["51m 35s", "127", "72.4 ms", "100.4 s"]
    surface = measured_surface(make_run([phase_record(1, make_result("archive", 1 << 20, 100, 30.0), 1, 2)]))
    (only,) = examples_table(surface).rows  # messages of 20 KiB and retrieves are too far from the measured rates
    assert only[0].text.startswith("cameras")


def test_every_plan_table_fits_in_120_columns() -> None:
    for table in plan_tables(video(DR550, 1e9 / 3600), what_if=True):
        assert max(map(len, render_text(table, 120).splitlines())) <= 120
