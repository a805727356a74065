"""The runner, ratios, goals and tables, on contenders whose figures are known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

import pytest

from benchmarks.benchmark import Contenders, Experiment, Figures, Goal, Measured, Ratio, Relation, median_ratio, medians
from results.document.text import render_markdown

OURS, OTHER = ("archive", "ours"), ("archive", "other")


def measured(ours: list[float], other: list[float]) -> Measured:
    found = Measured()
    for row, values in ((OURS, ours), (OTHER, other)):
        for value in values:
            found.add(row, {"µs": value})
    return found


def test_contenders_take_turns_and_another_begins_each_round() -> None:
    turns: list[str] = []

    def take_turn(name: str) -> Figures:
        turns.append(name)
        return {"turn": len(turns)}

    @contextmanager
    def case() -> Iterator[Contenders]:
        turns.append("start")
        yield {(name,): partial(take_turn, name) for name in "abc"}
        turns.append("stop")

    found = Experiment("e", "", ("name",), [case()], rounds=3).measure()
    assert "".join(turns) == "startabcbcacabstop"
    assert found.values(("a",), "turn") == [2, 7, 9]
    assert list(found.rows) == [("a",), ("b",), ("c",)]


def test_ratio_is_the_median_of_the_ratios_within_rounds() -> None:
    results = {"e": measured([10.0, 30.0, 10.0], [100.0, 100.0, 50.0])}
    assert median_ratio("e", "µs", (OURS, OTHER))(results) == [0.2]
    assert medians("e", "µs")(results) == [10.0, 100.0]
    assert median_ratio("e", "µs", (OURS, ("archive", "missing")))(results) == []


def test_table_shows_medians_with_extremes_ratios_and_texts() -> None:
    ratios = (Ratio("ours / its", "µs", "ours", None), Ratio("other / ours", "µs", "other", "ours"))
    contenders: Contenders = {
        OURS: lambda: {"signed": "head", "µs": 12.34},
        OTHER: lambda: {"signed": "nothing", "µs": 1234.5, "s": 3},
    }
    experiment = Experiment("e", "Costs", ("", "client"), [nullcontext(contenders)], ratios=ratios)
    text = render_markdown(experiment.table(experiment.measure()))
    assert "|  | client | signed | µs | s | ours / its | other / ours |" in text
    assert "| archive | ours | head | 12.3 | – | – | – |" in text
    assert "| archive | other | nothing | 1,234 | 3 | 0.010 | 100 |" in text
    several = experiment.table(measured([10.0, 30.5, 20.0], [1.0, 2.0, 3.0]))
    assert "| archive | ours | 20.0 (10.0–30.5) |" in render_markdown(several)


@pytest.mark.parametrize(
    ("relation", "limit", "is_met", "worst"),
    [
        ("at least", 2.0, True, 2.0),
        ("at least", 2.5, False, 2.0),
        ("at most", 3.0, True, 3.0),
        ("at most", 2.9, False, 3.0),
        ("below", 3.0, False, 3.0),
        ("below", 3.1, True, 3.0),
    ],
)
def test_every_value_must_meet_a_goal(relation: Relation, limit: float, is_met: bool, worst: float) -> None:
    goal = Goal("rate", lambda results: [2.0, 3.0], relation, limit)
    assert (goal.judge({})["is_met"], goal.judge({})["value"]) == (is_met, worst)
    assert goal.note({}).endswith(f"{relation} {limit:g}: {'met' if is_met else 'NOT MET'})")


def test_goal_without_value_is_neither_met_nor_missed() -> None:
    goal = Goal("rate", lambda results: [], "at least", 2.0)
    assert goal.judge({})["is_met"] is None
    assert goal.note({}) == "rate: not measured"
