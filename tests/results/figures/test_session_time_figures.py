"""Figures 17 and 18: session times with their lines, measured and published."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from results.document.drawing import png_bytes, svg_bytes
from results.figures.phases import Caption
from results.figures.session_time import build_session_time_figures
from results.recorded.model import Result

MakeResult = Callable[..., Result]
CAPTION = Caption("run-7", "embedded")


def lines(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each labelled line."""
    return {
        str(line.get_label()).replace("\n", " "): [(x, y) for x, y in np.asarray(line.get_xydata(), float).tolist()]
        for line in axes.lines
        if not str(line.get_label()).startswith("_")
    }


def text(axes: Axes) -> str:
    return " ".join(each.get_text() for each in axes.texts).replace("\n", " ")


def one_size(make_result: MakeResult, times_ms: dict[int, float]) -> Figure:
    results = [
        make_result(objects_per_session=n, objects_per_second=1000 * n / time_ms, position=n, session_half_width=0.1)
        for n, time_ms in times_ms.items()
    ]
    return build_session_time_figures(results, CAPTION)["figure-17-archive-session-time"]


def test_full_run_has_panel_per_size_and_operation(full_run: list[Result]) -> None:
    figures = build_session_time_figures(full_run, CAPTION)
    assert list(figures) == ["figure-17-archive-session-time", "figure-18-retrieve-session-time"]
    for figure in figures.values():
        assert [axes.get_title(loc="left") for axes in figure.axes] == [
            "8KiB", "16KiB", "32KiB", "64KiB", "128KiB", "256KiB", "512KiB", "1MiB",
        ]  # fmt: skip
    again = build_session_time_figures(full_run, CAPTION)
    for name, figure in figures.items():
        assert svg_bytes(figure) == svg_bytes(again[name])


def test_points_lines_and_intervals_are_those_of_the_fit(make_result: MakeResult) -> None:
    figure = one_size(make_result, {n: 40 + 2.0 * n for n in (1, 10, 100)})
    axes = figure.axes[0]
    drawn = lines(axes)
    assert [n for n, _ in drawn["measured"]] == [1, 10, 100]
    assert [time_ms for _, time_ms in drawn["measured"]] == pytest.approx([42, 60, 240])
    for n, time_ms in drawn["measured: its line"]:
        assert time_ms == pytest.approx(40 + 2 * n)
    assert drawn["published"][0] == pytest.approx((1, 1000 / 27.03))  # the paper's archive of 8 KiB
    assert drawn["published: its line"][0][1] == pytest.approx(37.33 + 1.148, abs=0.01)
    assert text(axes) == "40 + 2 n ms"
    (intervals,) = (each for each in axes.collections if isinstance(each, LineCollection))
    low, high = np.asarray(intervals.get_segments()[0])[:, 1]
    assert low * high == pytest.approx(42**2)
    assert high / low == pytest.approx(np.exp(2 * 0.1), rel=1e-3)


def test_law_that_does_not_apply_is_noted_with_dotted_line(make_result: MakeResult) -> None:
    axes = one_size(make_result, {1: 77.0, 2: 40.0, 10: 50.0, 100: 200.0}).axes[0]
    assert text(axes).startswith("the law does not apply here: ")
    assert text(axes).endswith("% off at n = 1")
    styles = {str(line.get_label()).replace("\n", " "): line.get_linestyle() for line in axes.lines}
    assert (styles["measured: its line"], styles["published: its line"]) == (":", "-")


def test_unpublished_sizes_are_drawn_without_published_line(make_result: MakeResult) -> None:
    results = [
        make_result(object_bytes=size, objects_per_session=n, objects_per_second=rate, position=n)
        for size in (100, 200, 300, 400, 500)
        for n, rate in ((1, 10.0), (7, 0.0 if size == 300 else 20.0))
    ]
    figure = build_session_time_figures(results, CAPTION)["figure-17-archive-session-time"]
    assert len([axes for axes in figure.axes if axes.axison]) == 5
    assert "no line" in text(figure.axes[2])
    assert "published" not in lines(figure.axes[0])
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_single_objects_per_session_value_gives_no_figure(make_result: MakeResult) -> None:
    assert build_session_time_figures([make_result()], CAPTION) == {}
