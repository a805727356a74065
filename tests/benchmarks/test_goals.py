"""Goals, on values whose answer is known."""

from __future__ import annotations

import pytest

from benchmarks.goals import goals_met


@pytest.mark.parametrize(
    ("end", "below", "equal", "above"),
    [("min", False, True, True), ("max", True, True, False), ("below", True, False, False)],
)
def test_the_end_of_a_goals_name_says_which_values_meet_it(end: str, below: bool, equal: bool, above: bool) -> None:
    goal = f"cpu_percent_{end}"
    for value, expected in ((1.9, below), (2.0, equal), (2.1, above)):
        assert goals_met({goal: 2.0}, {"cpu_percent": value}) == {goal: expected}


def test_all_values_must_meet_a_goal() -> None:
    goals = {"rate_min": 2.0, "cpu_max": 1.0}
    assert goals_met(goals, {"rate": [2.0, 3.0], "cpu": [1.0, 1.1]}) == {"rate_min": True, "cpu_max": False}


def test_a_goal_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        goals_met({"rate_min": 2.0}, {"cpu": 1.0})
