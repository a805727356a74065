"""Figures 10 to 14 of a tile run: what they draw, their limits, and that they are reproducible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from results.document.drawing import png_bytes, svg_bytes
from results.document.inline_figures import describe, figure_csv, inline_svg
from results.figures.phases import Caption
from results.mixed.figures import (
    AGGREGATE_RATE,
    CLIENT_UTILISATION,
    EMAIL_RESPONSE,
    MAILBOXES,
    SPIKES,
    client_figure,
    email_response_figure,
    mailboxes_figure,
    rate_figure,
    spikes_figure,
    tile_figures,
)
from results.mixed.programme import Course, course
from results.recorded.model import Result
from tests.results.tile_run import INTERVAL_NS, TileRun, busy_client, criterion, held, scales_of, steps

CAPTION = Caption("run-7", "embedded", shares_machine=True)


@pytest.fixture
def run(make_result: Callable[..., Result]) -> TileRun:
    return TileRun(make_result)


def tiles(run: TileRun, count: int, position: int, **given: Any) -> list[Result]:
    """Return the results of ``count`` tiles in one phase; the e-mail rate of each is 1,200/s divided by ``count``."""
    return [
        result
        for tile in range(1, count + 1)
        for result in run.tile(tile, 1200.0 / count, scale=float(count), position=position, seconds=60.0, **given)
    ]


@pytest.fixture
def courses(run: TileRun) -> list[Course]:
    """Return the courses of one and of two tiles for 60 s; the scan doubles the MB/s from 20 s to 30 s."""
    found = []
    for count in (1, 2):
        results = tiles(run, count, count)
        rows = [*steps("tile 1 web", [(0, 60, 100 * count, 4.0)], 16384)]
        rows += steps("tile 1 e-mail", [(0, 60, 50 * count, 9.0)])
        rows += steps("tile 1 scan", [(20, 30, 8 * count, 2.0)], 262144)
        keep = [replace(r, begins_seconds=20.0, seconds=10.0) if r.application == "scan" else r for r in results]
        keep = [result for result in keep if result.application in ("web", "scan", "e-mail")]
        found.append(course(keep, rows, INTERVAL_NS))
    return found


def lines(figure: Figure, panel: int = 0) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each line in the legend, by its label, unwrapped."""
    found = {}
    for line in figure.axes[panel].lines:
        label = " ".join(str(line.get_label()).split())
        if not label.startswith("_"):
            found[label] = [tuple(point) for point in np.asarray(line.get_xydata()).tolist()]
    return found


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def test_client_utilisation_is_highest_of_all_workloads(run: TileRun) -> None:
    results = [
        *tiles(run, 1, 1, client=busy_client(40.0, 0.5)),
        *tiles(run, 2, 2, client=busy_client(70.0, 0.9)),
        run.web(1, scale=2.0, position=2, client=busy_client(90.0, 1.1)),
    ]
    figure = drawn(client_figure(results, CAPTION, "tiles"))
    assert lines(figure)["all workers together, % of one core"] == [(1.0, 40.0), (2.0, 90.0)]
    assert lines(figure)["busiest worker, % of its time"] == [(1.0, 20.0), (2.0, 45.0)]
    assert lines(figure, 1)["scheduling delay of its timers, p99"] == [(1.0, 0.5), (2.0, 1.1)]
    assert lines(figure, 1)["limit: 2 ms"][0][1] == 2.0
    assert client_figure([replace(result, scale=None) for result in results], CAPTION, "tiles") is None


def test_aggregate_rate_figure_has_peak_and_steady_rates_by_tiles(courses: list[Course]) -> None:
    figure = drawn(rate_figure(courses, CAPTION, "tiles"))
    steady = 100 * 0.016384 + 50 * 0.008192
    megabytes = lines(figure)
    assert dict(megabytes["steady: median outside spikes"]) == pytest.approx({1.0: steady, 2.0: 2 * steady})
    assert dict(megabytes["peak: best 10 s"]) == pytest.approx({1.0: steady + 2.097152, 2.0: 2 * (steady + 2.097152)})
    assert lines(figure, 1)["steady: median outside spikes"] == [(1.0, 150.0), (2.0, 300.0)]
    assert [text.get_text() for text in figure.axes[1].get_xticklabels()] == ["1", "2"]
    assert rate_figure([], CAPTION, "tiles") is None


def test_spikes_are_numbered_bands_above_responses_of_all_workloads(courses: list[Course]) -> None:
    figure = drawn(spikes_figure(courses[1], CAPTION, "tiles"))
    assert figure.get_suptitle() == "Throughput spikes, and the response of all workloads, 2 tiles"
    (band,) = figure.axes[0].patches
    assert isinstance(band, Rectangle)
    assert (band.get_x(), band.get_x() + band.get_width()) == (20.0, 30.0)
    assert [text.get_text() for text in figure.axes[0].texts] == ["1"]
    assert "spike 1: scan began" in " ".join(figure.texts[-1].get_text().split())
    responses = lines(figure, 2)
    assert list(responses) == ["e-mail", "web", "scan"]  # in order of their beginning, then of the run
    assert {y for _, y in responses["web"]} == {4.0}
    assert [x for x, y in responses["scan"] if y == y] == [20.5 + n for n in range(10)]  # without NaN
    assert [text.get_text() for text in figure.axes[3].get_yticklabels()] == ["e-mail", "web", "scan"]


def test_unsupported_mailboxes_are_drawn_as_crosses(run: TileRun) -> None:
    one, two = [run.email(1)], [run.email(n, 1100.0, scale=2.0, position=2) for n in (1, 2)]
    failed = [criterion("tile 2 e-mail", "object_ms.p99 <= 9", 9, 12, False, position=2, scale=2.0)]
    figure = drawn(mailboxes_figure(scales_of([*one, *two], failed), CAPTION))
    found = lines(figure)
    assert found["supported"] == [(1.0, 2466.0)]
    (cross,) = [points for label, points in found.items() if label.startswith("none: a criterion failed")]
    assert cross == [(2.0, 4400.0)]
    assert mailboxes_figure(scales_of([run.web()]), CAPTION) is None


def test_email_response_figure_has_dotted_limits(run: TileRun) -> None:
    results = [
        run.email(1, retrieve_ms=12.0),
        *(run.email(n, retrieve_ms=14.0 + n, scale=2.0, position=2) for n in (1, 3)),
    ]
    figure = drawn(email_response_figure(scales_of(results), CAPTION))
    found = lines(figure)
    assert found["mean retrieve"] == [(1.0, 12.0), (2.0, 16.0)]
    assert found["mean log archive"] == [(1.0, 3.0), (2.0, 3.0)]
    assert {y for _, y in found["its limit: 20 ms"]} == {20.0}
    limit = next(line for line in figure.axes[0].lines if "20 ms" in str(line.get_label()))
    assert limit.get_linestyle() == ":"
    looser = [
        criterion(r.workload, "object_ms.mean <= 30 (retrieve)", 30, 15, True, position=r.position) for r in results
    ]
    assert "its limit: 30 ms" in lines(drawn(email_response_figure(scales_of(results, looser), CAPTION)))


def test_tile_figures_are_reproducible_and_can_be_inlined(run: TileRun, courses: list[Course]) -> None:
    results = [*tiles(run, 1, 1), *tiles(run, 2, 2)]

    def draw() -> dict[str, Figure]:
        return tile_figures(results, scales_of(results, held(results)), courses, CAPTION)

    first, second = draw(), draw()
    assert list(first) == [CLIENT_UTILISATION, AGGREGATE_RATE, SPIKES, MAILBOXES, EMAIL_RESPONSE]
    for name, figure in first.items():
        assert svg_bytes(figure) == svg_bytes(second[name])
        assert 'role="img"' in inline_svg(name, figure)
        assert "from" in describe(figure)
        assert len(figure_csv(figure).splitlines()) > 1
        assert "comparison, not capacity" in " ".join(figure.texts[-1].get_text().split())
    assert png_bytes(first[MAILBOXES]) == png_bytes(second[MAILBOXES])


def test_no_text_is_drawn_outside_its_figure(run: TileRun, courses: list[Course]) -> None:
    results = [*tiles(run, 1, 1), *tiles(run, 2, 2)]
    failed = [criterion("tile 1 e-mail", "errors == 0", 0, 1, False, position=2, scale=2.0)]
    long = [run.one(f"database {size}", 1, "mixed", scale=4.0, seconds=20.0) for size in ("small", "large")]
    rows = [row for each in long for row in steps(each.workload, [(0, 20, 12_345, 1234.0)], 1 << 20)]
    courses = [*courses, course(long, rows, INTERVAL_NS)]
    for name, figure in tile_figures(results, scales_of(results, failed), courses, CAPTION).items():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        width, height = figure.bbox.width, figure.bbox.height
        for text in figure.findobj(Text):
            if text.get_text() and text.get_visible():
                box = text.get_window_extent(canvas.get_renderer())
                inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
                assert inside, f"{name}: {text.get_text()!r} is cut off"


def test_run_without_tiles_has_no_figures(make_result: Callable[..., Result]) -> None:
    assert tile_figures([make_result()], [], [], CAPTION) == {}
