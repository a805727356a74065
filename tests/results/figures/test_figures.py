"""The figures: what they draw, their labels, and that they are reproducible."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D

from archiver.values.errors import ResultsError
from results.document.drawing import png_bytes, svg_bytes
from results.figures.phases import Caption, build_figures, parallel_figure, rate_figure
from results.recorded.model import Result

MakeResult = Callable[..., Result]
CAPTION = Caption("run-7", "embedded", shares_machine=True)


def ys(line: Line2D) -> list[float]:
    return [float(y) for y in np.asarray(line.get_ydata())]


def test_full_run_has_five_figures_of_the_paper(full_run: list[Result]) -> None:
    assert list(build_figures(full_run, CAPTION)) == [
        "figure-1-archive-objects-per-second",
        "figure-2-retrieve-objects-per-second",
        "figure-3-archive-megabytes-per-second",
        "figure-4-retrieve-megabytes-per-second",
        "figure-5-parallel-clients-250",
    ]


def test_same_results_give_identical_figure_files(full_run: list[Result]) -> None:
    """Compares one figure of each kind; the tests of documents compare all figures."""
    first, second = (build_figures(full_run, CAPTION) for _ in range(2))
    for name in ("figure-1-archive-objects-per-second", "figure-5-parallel-clients-250"):
        assert svg_bytes(first[name]) == svg_bytes(second[name]), name
        png = png_bytes(first[name])
        assert png == png_bytes(second[name]), name
        assert b"Software" not in png  # the file does not contain the version of matplotlib


@pytest.mark.parametrize(
    ("operation", "quantity", "expected"),
    [
        ("archive", "objects_per_second", ["Archive: objects/s", "objects per second (log scale)"]),
        ("retrieve", "megabytes_per_second", ["Retrieve: MB/s", "10⁶ bytes (log scale)", "cold data"]),
    ],
)
def test_svg_contains_labels_and_caption_without_date(
    full_run: list[Result], operation: str, quantity: Any, expected: list[str]
) -> None:
    svg = svg_bytes(rate_figure(full_run, operation, quantity, CAPTION)).decode()
    for text in (
        *expected, "object size, KiB (log scale)", "published: IBM DR550, 2005", ">1024<",
        "run-7", "embedded", "284,160 objects", "2,240 sessions", "share this",
    ):  # fmt: skip
        assert text in svg
    assert "date" not in svg
    assert "matplotlib v" not in svg.lower()


def test_lines_show_measured_and_published_rates_of_cells(make_result: MakeResult) -> None:
    results = [
        make_result(object_bytes=size, objects_per_session=250, objects_per_second=rate, position=rate)
        for size, rate in ((2**20, 40), (8192, 900))
    ]
    measured, published = rate_figure(results, "archive", "megabytes_per_second", CAPTION).axes
    (line,) = measured.get_lines()
    assert np.asarray(line.get_xdata()).tolist() == [8, 1024]
    assert ys(line) == pytest.approx([900 * 8192 / 1e6, 40 * 2**20 / 1e6])
    (theirs,) = published.get_lines()
    assert ys(theirs) == pytest.approx([714.29 * 8192 / 1e6, 34.48 * 2**20 / 1e6])  # 10^6, as ours


def test_rate_of_zero_is_not_drawn_on_log_scale(make_result: MakeResult) -> None:
    results = [
        make_result(object_bytes=size, objects_per_second=rate, position=size)
        for size, rate in ((8192, 0.0), (16384, 7.0))
    ]
    measured, _ = rate_figure(results, "archive", "objects_per_second", CAPTION).axes
    assert [ys(line) for line in measured.get_lines()] == [[7.0]]


def test_line_keeps_its_colour_and_marker_in_a_subset(full_run: list[Result]) -> None:
    def colours(results: list[Result]) -> dict[str, Any]:
        axes = rate_figure(results, "archive", "objects_per_second", CAPTION).axes[0]
        return {str(line.get_label()): (line.get_color(), line.get_marker()) for line in axes.get_lines()}

    everything = colours(full_run)
    subset = colours([result for result in full_run if result.objects_per_session in (1, 25, 250)])
    assert subset == {label: everything[label] for label in ("1", "25", "250")}
    assert len(set(everything.values())) == 7


def test_parallel_bars_are_drawn_per_size_and_clients(full_run: list[Result]) -> None:
    figure = parallel_figure(full_run, 250, CAPTION)
    assert len(figure.axes) == 4
    assert [len(axes.patches) for axes in figure.axes] == [24] * 4
    svg = svg_bytes(figure).decode()
    for text in ("MB per second, 10⁶ bytes", "rate × one client's", "archive", "retrieve, cold data", "published"):
        assert text in svg


@pytest.mark.parametrize(
    "overrides",
    [
        {"objects_per_second": 0.0, "errors": 5},  # nothing to draw on a log scale
        {"object_bytes": 2**22},  # no published value
        {"object_bytes": 100},
        {"temperature": None, "server": None},
    ],
)
def test_run_of_one_unusual_cell_is_drawn(make_result: MakeResult, overrides: dict[str, Any]) -> None:
    results = [make_result(**overrides), make_result(clients=2, phase="parallel", position=2, **overrides)]
    figures = build_figures(results, CAPTION)
    assert len(figures) == 3
    assert all(png_bytes(figure).startswith(b"\x89PNG") for figure in figures.values())


def test_figures_without_results_are_refused() -> None:
    with pytest.raises(ResultsError, match="no phase finished"):
        build_figures([], CAPTION)


def test_results_can_be_imported_without_matplotlib() -> None:
    """Most commands draw nothing and should not have to wait for its import."""
    modules = "results.report.contract, results.tables.rates, results.document.text"
    code = f"import {modules}, sys; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
