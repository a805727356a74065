"""Logarithmic axes: the number of labels for any range."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from results.figures.log_axes import label_log_axis


def labels(low: float, high: float, labels_max: int = 10) -> list[str]:
    figure = Figure()
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    label_log_axis(axes.xaxis, labels_max)
    figure.draw_without_rendering()
    return [
        text
        for at, text in zip(axes.get_xticks(), (each.get_text() for each in axes.get_xticklabels()), strict=True)
        if low <= at <= high and text
    ]


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (0.8, 1.25),
        (0.5, 2),
        (0.18, 9.5),
        (0.3, 25),
        (300, 900),
        (2.7, 400),
        (0.013, 13),
        (1, 1e4),
        (0.01, 1e6),
        (1, 1.1),
        (0.97, 1.02),
    ],
)
def test_every_range_has_3_to_12_labels(low: float, high: float) -> None:
    assert 3 <= len(labels(low, high)) <= 12


def test_labels_are_plain_numbers() -> None:
    assert labels(0.18, 9.5) == ["0.2", "0.3", "0.5", "1", "2", "3", "5"]
    assert labels(0.8, 1.25) == ["0.8", "0.9", "1", "1.2"]
    assert labels(500, 2e6)[-1] == "1,000,000"


def test_label_limit_reduces_labels() -> None:
    assert labels(0.9, 600, labels_max=4) == ["1", "10", "100"]


def test_label_limit_of_four_leaves_at_least_three_labels() -> None:
    for low, high in ((400, 55_000), (0.3, 8), (0.8, 13), (1, 1.1), (90, 150)):
        assert len(labels(low, high, labels_max=4)) >= 3
