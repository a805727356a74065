"""Marks for intervals and warnings of cells in a figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from results.figures.phases import Caption, parallel_figure, rate_figure
from results.recorded.model import Result

MakeResult = Callable[..., Result]
CAPTION = Caption("run-7", "embedded")


def figure_of(make_result: MakeResult, **overrides: Any) -> Figure:
    """Return Figure 1 with two cells, the second one with these overrides."""
    second = make_result(object_bytes=16384, objects_per_second=400, position=2, **overrides)
    return rate_figure([make_result(), second], "archive", "objects_per_second", CAPTION)


def marked(axes: Axes, marker: str) -> list[tuple[float, float]]:
    """Return the points of marks of this kind, without the markers of the lines themselves."""
    found = [line for line in axes.lines if line.get_marker() == marker and line.get_linestyle() == "None"]
    return [(x, y) for line in found for x, y in np.asarray(line.get_xydata(), float).tolist()]


def bars(axes: Axes) -> list[list[list[float]]]:
    found = [each for each in axes.collections if isinstance(each, LineCollection)]
    return [np.asarray(segment).tolist() for each in found for segment in each.get_segments()]


def said(figure: Figure) -> str:
    return " ".join(text.get_text() for text in figure.texts).replace("\n", " ")


def test_an_imprecise_cell_has_a_hollow_marker(make_result: MakeResult) -> None:
    figure = figure_of(make_result, session_half_width=0.3)
    assert marked(figure.axes[0], "D") == [(16, 400)]
    hollow = [line for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    assert len(hollow) == 1
    assert "hollow: the rate is not known within 15%" in said(figure)


@pytest.mark.parametrize("limit", ["client", "host cpu"])
def test_a_cell_that_the_client_limited_has_a_cross(make_result: MakeResult, limit: str) -> None:
    figure = figure_of(make_result, limited_by=limit)
    assert marked(figure.axes[0], "x") == [(16, 400)]
    assert "cross: limited by the client" in said(figure)


def test_cells_without_warnings_have_no_marks(make_result: MakeResult) -> None:
    figure = figure_of(make_result)
    assert len(figure.axes[0].lines) == 1
    assert len(bars(figure.axes[0])) == 2
    for word in ("hollow", "cross"):
        assert word not in said(figure)


def test_a_single_repetition_has_the_interval_of_its_mean_session_time(make_result: MakeResult) -> None:
    figure = figure_of(make_result, session_half_width=0.2)
    _, (low, high) = bars(figure.axes[0])
    assert (low[0], high[0]) == (16, 16)
    assert low[1] * high[1] == pytest.approx(400**2)
    assert high[1] / 400 == pytest.approx(math.exp(0.2), rel=1e-4)
    assert "95% intervals of the mean session time, one repetition" in said(figure)


def test_repetitions_have_interval_of_their_rates(make_result: MakeResult) -> None:
    results = [make_result(objects_per_second=rate, repetition=n) for n, rate in enumerate((90.0, 100.0, 110.0), 1)]
    figure = rate_figure(results, "archive", "megabytes_per_second", CAPTION)
    ((low, high),) = bars(figure.axes[0])
    assert low[1] < 90 * 8192 / 1e6 < 110 * 8192 / 1e6 < high[1]
    assert "95% intervals over 3 repetitions" in said(figure)


def test_parallel_bars_have_marks_and_truncated_intervals(make_result: MakeResult) -> None:
    results = [
        make_result(clients=clients, objects_per_second=rate, repetition=n, phase="parallel")
        for clients in (1, 2)
        for n, rate in enumerate((50.0, 100.0 if clients == 1 else 50.5, 300.0 if clients == 1 else 51.0), 1)
    ]
    figure = parallel_figure(results, 25, CAPTION)
    rates = figure.axes[0]
    assert len(bars(rates)) == 2
    (unsettled,) = marked(rates, "o")
    assert unsettled == pytest.approx((-0.2, 100 * 8192 / 1e6))
    assert rates.get_ylim()[1] == pytest.approx(2 * 100 * 8192 / 1e6)
    assert max(bar[1][1] for bar in bars(rates)) > rates.get_ylim()[1]
