"""Figure 19: rate, response times, errors and server CPU of a run by interval."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from results.document.drawing import svg_bytes
from results.figures.phases import Caption
from results.figures.run_course import RUN_COURSE, build_course_figures
from results.measures.watched import NOTHING_WATCHED, watched
from results.recorded.database import IntervalRow
from results.recorded.model import Result
from results.recorded.run import RecordedRun
from tests.results.watched_run import phase_record, ten_seconds

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]
CAPTION = Caption("run-7", "embedded")


def rows(*objects: int, errors: int = 0) -> list[IntervalRow]:
    """Return intervals of 250 ms with these numbers of objects, p50 2 ms and p99 8 ms; without those of no object."""
    return [
        IntervalRow(place, "archive", "measured", 1, count, 0, count, errors, 0, 0, 2_000_000, 8_000_000)
        for place, count in enumerate(objects)
        if count
    ]


def lines(figure: Figure, panel: int) -> dict[str, list[tuple[float, float | None]]]:
    return {
        str(line.get_label()).replace("\n", " "): [
            (x, None if isnan(y) else y) for x, y in np.asarray(line.get_xydata(), float).tolist()
        ]
        for line in figure.axes[panel].lines
    }


@pytest.fixture
def course(make_run: MakeRun, make_result: MakeResult) -> Callable[..., Figure]:
    """Return a function that draws a run with phases in seconds 1 to 2 and 3 to 3.75, with these intervals."""

    def make(first: list[IntervalRow], second: list[IntervalRow], samples: Any = (), **overrides: Any) -> Figure:
        phases = [
            phase_record(1, make_result(), 1, 2, intervals=first),
            phase_record(2, make_result(position=2, **overrides), 3, 3.75, intervals=second),
        ]
        return build_course_figures(watched(make_run(phases, samples)), CAPTION)[RUN_COURSE]

    return make


def test_rates_are_drawn_interval_by_interval_with_gaps_between_phases(course: Callable[..., Figure]) -> None:
    figure = course(rows(5, 10, 20, 1), rows(2, 4))
    assert lines(figure, 0)["objects/s"] == [
        (0, None), (0, 20), (0.25, 20), (0.5, 40), (1, 42),  # the last interval is merged into the previous bin
        (2, None), (2, 8), (2.75, 8),
    ]  # fmt: skip
    responses = lines(figure, 1)
    assert {y for _, y in responses["p50 response"]} == {2, None}
    assert {y for _, y in responses["p99 response"]} == {8, None}
    assert len(figure.axes) == 2


def test_interval_without_objects_is_drawn_as_zero_rate(course: Callable[..., Figure]) -> None:
    figure = course(rows(5, 0, 5, 1), rows(2, 4))
    assert (0.5, 0) in lines(figure, 0)["objects/s"]
    assert (0.5, None) in lines(figure, 1)["p50 response"]
    assert figure.axes[0].get_ylim()[0] > 0  # zero is at the lower edge of the log scale


def test_run_without_completed_objects_is_drawn(make_run: MakeRun, make_result: MakeResult) -> None:
    failed = IntervalRow(0, "archive", "measured", 0, 0, 0, 5, 5)
    phase = phase_record(1, make_result(object_ms=None), 1, 2, intervals=[failed])
    figure = build_course_figures(watched(make_run([phase])), CAPTION)[RUN_COURSE]
    assert [axes.get_yscale() for axes in figure.axes] == ["linear"] * 3
    assert lines(figure, 2)["errors/s"] == [(0, None), (0, 5), (1, 5)]


def test_bin_of_several_workloads_has_highest_percentiles(course: Callable[..., Figure]) -> None:
    both = [
        IntervalRow(0, "mail", "measured", 1, 5, 0, 5, 0, 0, 0, 3_000_000, 4_000_000),
        IntervalRow(0, "web", "measured", 1, 5, 0, 5, 0, 0, 0, 1_000_000, 9_000_000),
    ]
    drawn = lines(course(both, rows(5)), 1)
    assert [y for _, y in drawn["p50 response"]] == [None, 3, 3, None, 2, 2]
    assert [y for _, y in drawn["p99 response"]] == [None, 9, 9, None, 8, 8]


def test_errors_and_server_cpu_have_panels_when_present(course: Callable[..., Figure]) -> None:
    figure = course(rows(5, 5, errors=3), rows(5, 5), ten_seconds())
    assert [axes.get_ylabel() for axes in figure.axes[2:]] == ["errors per second", "server CPU, %"]
    assert lines(figure, 2)["errors/s"][1:3] == [(0, 6), (1, 6)]
    (cpu,) = lines(figure, 3).values()
    assert cpu[0][1] == pytest.approx(80)


def test_unsteady_phase_has_triangle(course: Callable[..., Figure]) -> None:
    steady, unsteady = course(rows(5), rows(5)), course(rows(5), rows(5), unsteady="-59%")
    triangles = [line for line in unsteady.axes[0].lines if line.get_marker() == "v"]
    assert [np.asarray(line.get_xdata()).tolist() for line in triangles] == [[pytest.approx(2.375)]]
    assert "triangles" in " ".join(text.get_text() for text in unsteady.texts)
    assert "triangles" not in " ".join(text.get_text() for text in steady.texts)


def test_long_runs_are_drawn_in_fewer_bins(make_run: MakeRun, make_result: MakeResult) -> None:
    phase = phase_record(1, make_result(), 0, 1000, intervals=rows(*[5] * 4000))
    figure = build_course_figures(watched(make_run([phase])), CAPTION)[RUN_COURSE]
    drawn = lines(figure, 0)["objects/s"]
    assert len(drawn) < 810
    assert {y for _, y in drawn} == {20, None}
    assert "bins of 1.25 s" in " ".join(text.get_text() for text in figure.texts)


def test_the_same_run_gives_the_same_bytes(course: Callable[..., Figure]) -> None:
    first, second = (course(rows(5, 10, 20, 1), rows(2, 4)) for _ in range(2))
    assert svg_bytes(first) == svg_bytes(second)


def test_run_without_phases_has_no_course_figure() -> None:
    assert build_course_figures(NOTHING_WATCHED, CAPTION) == {}


def test_each_scenario_phase_has_separate_figure(make_run: MakeRun, make_result: MakeResult) -> None:
    phases = [
        phase_record(place, make_result(phase=name, position=place), 2 * place, 2 * place + 1, intervals=rows(5, 5))
        for place, name in enumerate(("archive", "archive", "parallel"), 1)
    ]
    figures = build_course_figures(watched(make_run(phases)), CAPTION)
    assert list(figures) == [RUN_COURSE, f"{RUN_COURSE}-1", f"{RUN_COURSE}-2"]
    first, second = figures[f"{RUN_COURSE}-1"], figures[f"{RUN_COURSE}-2"]
    assert first.get_suptitle() == "Phase archive over its time: rate and response time"
    assert [round(figure.axes[0].get_xlim()[1], 3) for figure in (first, second)] == [3.0, 1.0]
    one = watched(make_run(phases[:2]))
    assert list(build_course_figures(one, CAPTION)) == [RUN_COURSE]
