"""Figure 15: the cumulative share of responses, drawn from the same histograms as the tables."""

from __future__ import annotations

import random

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text

from results.document.drawing import png_bytes, svg_bytes
from results.document.inline_figures import describe, inline_svg
from results.figures.phases import Caption
from results.mixed.replay.figures import RESPONSE_SHARE, replay_figures, share_figure
from results.report.mixed_contents import FIGURE_TABLES, mixed_figures
from tests.results.mixed.replay.replayed_sets import EIGHT, ReplayedSets, criterion

CAPTION = Caption("run-7", "embedded", shares_machine=True)
ASKED = [criterion("object_ms.p70 <= 20 (all)", 20, 12.0, True)]


def lines(figure: Figure) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each line in the legend, by its label, unwrapped."""
    return {
        " ".join(str(line.get_label()).split()): [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]
        for line in figure.axes[0].lines
        if not str(line.get_label()).startswith("_")
    }


def at(points: list[tuple[float, float]], milliseconds: float) -> float:
    """Return the share that a curve has at this time."""
    return max((y for x, y in points if x <= milliseconds), default=0.0)


def drawn(figure: Figure | None) -> Figure:
    assert figure is not None
    return figure


def test_share_figure_has_line_per_application_and_limit_crossing(sets: ReplayedSets) -> None:
    results = [
        sets.application("mail", 1, {"retrieve": [1.0] * 9, "archive": [40.0]}),
        sets.application("web", 1, {"archive": [5.0] * 5 + [30.0] * 5}),
    ]
    figure = drawn(share_figure(sets.run(results, ASKED).result, CAPTION))
    found = lines(figure)
    assert list(found) == ["mail", "web", "all applications", "20 ms", "70% required"]
    assert at(found["mail"], 20.0) == pytest.approx(90.0)
    assert at(found["web"], 20.0) == pytest.approx(50.0)
    assert dict(found["all applications"])[20.0] == pytest.approx(70.0)
    assert {x for x, _ in found["20 ms"]} == {20.0}
    assert {y for _, y in found["70% required"]} == {70.0}
    assert found["all applications"][-1][1] == pytest.approx(100.0)
    assert [text.get_text() for text in figure.axes[0].texts] == ["70.0% within 20 ms"]
    assert figure.get_suptitle() == "Cumulative response times, 1 set"
    assert figure.axes[0].get_xscale() == "log"


def test_sets_share_line_per_application_and_limit_of_criterion(sets: ReplayedSets) -> None:
    fast = sets.application("mail", 1, {"archive": [1.0]}, scale=2.0)
    slow = sets.application("mail", 2, {"archive": [25.0]}, scale=2.0)
    asked = [criterion("object_ms.p70 <= 30 (all)", 30, 25.0, True)]
    found = lines(drawn(share_figure(sets.run([fast, slow], asked).result, CAPTION)))
    assert list(found) == ["mail", "30 ms", "70% required"]
    assert (at(found["mail"], 2.0), at(found["mail"], 30.0)) == (50.0, 100.0)


def test_share_figure_shows_verdict_and_capacity_mark(sets: ReplayedSets) -> None:
    results = sets.sets(1, {"archive": [3.0]}, what={"capacity_scale": 0.02, "void": "late"})
    told = " ".join(drawn(share_figure(sets.run(results, ASKED).result, CAPTION)).texts[-1].get_text().split())
    assert "verdict: VOID:" in told
    assert "capacity ratio not held (2% of the full capacity)" in told


def test_replay_without_responses_has_no_figure(sets: ReplayedSets) -> None:
    run = sets.run([sets.application("mail", 1, {}, object_ms=None)])
    assert replay_figures(run, CAPTION) == {}


def test_share_figure_has_table_and_is_reproducible_and_inlined(sets: ReplayedSets) -> None:
    mixed = sets.mixed(sets.sets(2, {"archive": [3.0, 9.0, 27.0]}), ASKED)
    (first,), (second,) = (mixed_figures(mixed, CAPTION).values() for _ in range(2))
    assert FIGURE_TABLES[RESPONSE_SHARE] == "replay-applications"
    assert svg_bytes(first) == svg_bytes(second)
    assert png_bytes(first) == png_bytes(second)
    assert 'role="img"' in inline_svg(RESPONSE_SHARE, first)
    assert "from 0 to 100" in describe(first)


@pytest.mark.parametrize("middle_ms", [0.05, 4.0, 400.0])
def test_no_text_is_drawn_outside_its_figure(sets: ReplayedSets, middle_ms: float) -> None:
    noise = random.Random(1)
    results = [
        sets.application(name, 1, {"archive": [middle_ms * noise.lognormvariate(0, 0.5) for _ in range(50)]},
                         what={"void": "the client was too slow by far, of which much is to be said"})
        for name in (*EIGHT, "an application with a very long name indeed")
    ]  # fmt: skip
    figure = drawn(share_figure(sets.run(results, ASKED).result, CAPTION))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = figure.bbox.width, figure.bbox.height
    (axes,) = figure.axes
    low, high = axes.get_xlim()
    unseen = {id(text) for text in axes.get_xticklabels(which="both") if not low <= text.get_position()[0] <= high}
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and id(text) not in unseen:
            box = text.get_window_extent(canvas.get_renderer())
            inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
            assert inside, f"{text.get_text()!r} is cut off"
