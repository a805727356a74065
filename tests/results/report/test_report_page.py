"""The HTML page of a run: complete, ordered, reproducible, and safe against hostile text of platforms and users."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from results.document.html import html_page
from results.document.table import SKETCH_HEIGHT
from results.measures.stored_times import stored_times
from results.measures.units import UnitKey, all_cells
from results.recorded.database import FILE_NAME
from results.recorded.model import Result
from results.recorded.run import RecordedRun, read_run
from results.report.distributions import BINS, distributions_table
from results.report.documents import write_page
from tests.results.report.reported_runs import HOSTILE, histogram, report_of, whole_run
from tests.results.watched_run import PLATFORM, RECORD, phase_record

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]
SECTIONS = [
    "summary", "objects", "megabytes", "parallel", "resources", "session-time", "course-of-run", "latency", "doubts",
    "worm", "audits", "planning", "configuration", "appendix",
]  # fmt: skip


class Page(HTMLParser):
    """The tags of a page with their attributes, in order, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, make_result: MakeResult) -> str:
    database = whole_run(tmp_path_factory.mktemp("run") / FILE_NAME, make_result)
    page = html_page(report_of(read_run(database.path)))
    database.close()
    return page


def test_report_has_every_section_in_order(text: str) -> None:
    page = Page(text)
    links = [each["href"] for each in page.all("a") if (each.get("href") or "").startswith("#")]
    contents = [f"#{name}" for name in SECTIONS]
    assert [link for link in links if link in contents][: len(SECTIONS)] == contents
    named = [each["id"] for each in page.all("section") if each.get("id") in SECTIONS]
    assert named == SECTIONS


def test_every_paper_figure_has_counterpart_with_data_link(text: str) -> None:
    figures = [each["id"] or "" for each in Page(text).all("figure")]
    assert figures[0] == "overview"
    numbers = [name.split("-")[1] for name in figures[1:]]
    assert numbers == ["1", "2", "3", "4", "5", "20", "6", "7", "8", "16", "17", "18", *["19"] * 4]
    for name in figures:
        drawn = text[text.index(f'<figure id="{name}"') :]
        drawn = drawn[: drawn.index("</figure>")]
        encoded = re.search(r'href="data:text/csv;charset=utf-8;base64,([^"]+)"', drawn)
        assert encoded is not None
        rows = base64.b64decode(encoded[1]).decode().splitlines()
        assert rows[0] == "panel,line,x,y"
        assert len(rows) > 2
        assert re.search(r'href="#table-[a-z-]+"', drawn)
        assert f'aria-labelledby="{name}-title {name}-words"' in drawn
        assert "from " in drawn[drawn.index(f'id="{name}-words"') :][:400]


def test_ids_are_unique_and_inner_links_lead_to_ids(text: str) -> None:
    page = Page(text)
    ids = Counter(value for _, attributes in page.tags if (value := attributes.get("id")))
    assert [name for name, count in ids.items() if count > 1] == []
    inner = [attributes.get("href") or attributes.get("xlink:href") or "" for _, attributes in page.tags]
    assert {link for link in inner if link.startswith("#") and link[1:] not in ids} == set()
    assert {name for name in re.findall(r"url\(#([^)]+)\)", text) if name not in ids} == set()


def test_rates_link_to_latency_distributions_of_their_cells(text: str) -> None:
    linked = re.findall(r'<a href="#(cell-\d+)" title="its latency distribution">', text)
    shown = re.findall(r'<tr id="(cell-\d+)"', text)
    assert set(linked) == set(shown)
    assert len(shown) == 11


def test_heading_levels_do_not_skip_and_table_headers_have_scope(text: str) -> None:
    page = Page(text)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert {each.get("scope") for each in page.all("th")} <= {"col", "row", "colgroup"}
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("aria-label" in each or "aria-labelledby" in each or "aria-hidden" in each for each in page.all("svg"))


def test_report_page_loads_nothing(text: str) -> None:
    page = Page(text)
    assert [each for each in page.all("script", "img", "iframe", "object") if each.get("src")] == []
    assert [each["href"] for each in page.all("link")] == ["data:,"]
    assert not re.search(r"@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_hostile_input_is_escaped_as_text(text: str) -> None:
    page = Page(text)
    assert len(page.all("script")) == 1
    assert page.all("b") == []
    assert "alert(1)</script>" not in text
    said = "".join(page.words)
    assert said.count(HOSTILE) >= 5  # unchanged in the title, facts, profile, error, check and remark of the audit


def test_same_database_gives_identical_page(make_result: MakeResult, tmp_path: Path) -> None:
    database = whole_run(tmp_path / FILE_NAME, make_result)
    pages = []
    for name in ("one", "two"):
        (path,) = write_page(
            tmp_path / name,
            read_run(database.path),
            None,
        )
        assert path == tmp_path / name / "report.html"
        pages.append(path.read_bytes())
    database.close()
    assert pages[0] == pages[1]
    assert str(tmp_path).encode() not in pages[0]


def test_summary_lists_violations_errors_audit_findings_and_warnings(text: str) -> None:
    summary = " ".join(Page(text[text.index('<section id="summary"') : text.index('<section id="objects"')]).words)
    words = " ".join(summary.split())
    assert "Verdict ✗ bad: 1 violation: all 11 phases are in these numbers" in words
    assert "WORM ✗ bad: 1 violations in 1 checks tried: DEL-01" in words
    assert re.search(r"Errors ✗ bad: 16 operations failed[^;]*; no rate includes them", words)
    assert "Audit ✗ bad: 8 objects read again and compared: 1 missing" in words
    assert re.search(r"Warnings ! with care: 16 operations failed on .* in 8 of 11 cells .* Verdict", words)
    beside = (
        r"Archive compared with IBM DR550, 2005 ! with care: [0-9.]+× to [0-9.]+× the published objects/s over 4 cells"
    )
    assert re.search(rf"{beside}; see each cell; 4 of them to be read with care", words)


def test_run_without_finished_phase_has_report_without_result_sections(make_run: MakeRun) -> None:
    text = html_page(report_of(make_run()))
    assert "not finished: 0 of 2 phases are in these numbers" in text
    assert "No phase finished, so nothing was measured." in text
    of_results = {"objects", "megabytes", "latency", "worm", "audits", "planning"}
    assert of_results.isdisjoint(each.get("id") for each in Page(text).all("section"))
    assert {"summary", "configuration"} <= {each.get("id") for each in Page(text).all("section")}


def test_distribution_merges_repetitions_on_common_scale(make_run: MakeRun, make_result: MakeResult) -> None:
    first, second, slow = (
        make_result(repetition=1, position=1),
        make_result(repetition=2, position=2),
        make_result(objects_per_session=1, position=3),
    )
    times = {1: [1.0] * 100, 2: [20.0], 3: [900.0]}
    phases = [
        phase_record(each.position, each, each.position, each.position + 0.5, histograms=[histogram(each, times[n])])
        for n, each in enumerate((first, second, slow), 1)
    ]
    recorded = make_run(phases, repetitions=2)
    found = distributions_table(recorded, list(all_cells(recorded.results).values()), stored_times(recorded))
    decades = [words for _, words in found.columns[-1].scale]
    assert decades in (["100 µs", "1 ms", "10 ms", "100 ms", "1 s"], ["1 ms", "10 ms", "100 ms", "1 s"])
    (merged,) = (row for row in found.rows if row[-1].of == UnitKey("archive", 8192, 25, 1))
    assert merged[4].number == 101
    assert merged[-1].sketch is not None
    heights = merged[-1].sketch.heights
    filled = {place: height for place, height in enumerate(heights) if height}
    assert sorted(filled.values()) == [3, SKETCH_HEIGHT]  # the square root of 1 in 100 of the height, rounded up
    first_decade = -1 if decades[0] == "100 µs" else 0
    assert max(filled) == int((1.301 - first_decade) / (len(decades) - 1) * BINS)  # log10 of 20 ms
    assert len(heights) == BINS


def test_distribution_row_of_a_cell_is_below_1500_bytes(text: str) -> None:
    rows = re.findall(r'<tr id="cell-\d+".*?</tr>', text)
    assert max(map(len, rows)) < 1500


def test_parallel_figures_are_limited_to_three_session_lengths(make_run: MakeRun, make_result: MakeResult) -> None:
    counts = (1, 2, 25, 100, 250, 500)
    results = [
        make_result(objects_per_session=count, clients=many, phase="archive-parallel", position=place)
        for place, (count, many) in enumerate([(count, many) for count in counts for many in (1, 2)], 1)
    ]
    text = html_page(report_of(make_run([phase_record(r.position, r, r.position, r.position + 0.5) for r in results])))
    drawn = [each["id"] for each in Page(text).all("figure") if "parallel" in (each["id"] or "")]
    assert drawn == [f"figure-5-parallel-clients-{count}" for count in (1, 250, 500)]
    assert "The figures show 3 of 6 numbers of objects per session" in text
    assert all(f'id="table-parallel-archive-{count}"' in text for count in counts)
    assert 'href="#table-parallel-archive-250"' in text


def test_configuration_shows_readable_names_and_units(make_run: MakeRun, make_result: MakeResult) -> None:
    platform = replace(
        PLATFORM,
        server_clock_offset_seconds=-0.07975983619689941,
        details={"classes": [{"name": "STANDARD", "retver_days": 1, "archives": True}], "retries": 0},
    )
    settings = RECORD["settings"] | {"retain_until": 1795000000.0, "dask": None}
    host = RECORD["host"] | {"memory_bytes": 25276502016}
    database = make_run([phase_record(1, make_result(), 1, 2)], platform=platform, settings=settings, host=host)
    text = html_page(report_of(database))
    section = text[text.index('<section id="configuration"') : text.index('<section id="appendix"')]
    shown = " ".join(" ".join(Page(section).words).split())
    for words in (
        "server's clock minus the client's -0.08 s", "classes name STANDARD, retver days 1, archives yes",
        "memory 25.3 GB", "retain for 5m", "retain until 2026-11-18T", "legal hold no", "Dask cluster –",
    ):  # fmt: skip
        assert words in shown
    assert '{"' not in shown
