"""Figure 20: rate and times by the number of clients; Figures 1 to 4 without published rates; the overview figure."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.lines import Line2D

from results.figures.clients import CLIENTS, build_clients_figure
from results.figures.overview import overview_figure, overview_note
from results.figures.phases import Caption, rate_figure
from results.recorded.model import Result
from tests.results.conftest import MakeResult

CAPTION = Caption("run-1", "minio")


def parallel(make_result: MakeResult, *rates: float, **more: object) -> list[Result]:
    """Return cells with 1, 2, 4 ... clients that have these rates."""
    return [
        make_result("archive", 8192, 100, rate, clients=2**place, phase="archive-parallel", **more)
        for place, rate in enumerate(rates)
    ]


def points(line: Line2D) -> tuple[list[float], list[float]]:
    """Return the x values and the y values of a line."""
    xs, ys = np.asarray(line.get_xydata(), float).T.tolist()
    return xs, ys


def test_rate_and_percentiles_are_drawn_by_number_of_clients(make_result: MakeResult) -> None:
    figure = build_clients_figure(parallel(make_result, 100.0, 200.0, 250.0), CAPTION)[CLIENTS]
    rate, p50, p99 = figure.axes
    lines = [axes.lines[0] for axes in (rate, p50, p99)]
    assert [points(line)[0] for line in lines] == [[1, 2, 4]] * 3
    assert points(lines[0])[1] == [100.0, 200.0, 250.0]
    assert points(lines[1])[1] == [10.0, 5.0, 4.0]
    assert points(lines[2])[1] == [30.0, 15.0, 12.0]
    assert [line.get_label() for line in lines] == ["8KiB × 100"] * 3


def test_single_client_has_no_clients_figure(make_result: MakeResult) -> None:
    assert build_clients_figure([make_result()], CAPTION) == {}


@pytest.mark.parametrize(("size", "panels"), [(8192, 2), (8000, 1)])
def test_figure_without_published_rates_has_no_empty_panel(make_result: MakeResult, size: int, panels: int) -> None:
    figure = rate_figure([make_result("archive", size, 25, 500.0)], "archive", "objects_per_second", CAPTION)
    assert len(figure.axes) == panels
    assert all(axes.lines for axes in figure.axes)


def test_overview_figure_has_lines_of_one_and_most_clients(make_result: MakeResult) -> None:
    results = [
        *parallel(make_result, 100.0, 200.0, 250.0),
        make_result("archive", 65536, 100, 60.0, session_half_width=0.3),
    ]
    figure = overview_figure(results)
    assert figure is not None
    (axes,) = figure.axes
    named = {label: points(line)[1] for line in axes.lines if not (label := str(line.get_label())).startswith("_")}
    assert named == {"100 per session": [100.0, 60.0], "100 per session, 4 clients": [250.0]}
    assert overview_note(results) == (
        "bars: 95% intervals of the mean session time; hollow: the rate is not known within 15%"
    )


def test_single_cell_has_no_overview_figure(make_result: MakeResult) -> None:
    assert overview_figure([make_result()]) is None
