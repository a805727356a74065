"""Figures by row and round, and their medians and ratios.

One idea: a ratio is taken within a round, and then the median of the rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from results.document.table import NOT_MEASURED, Cell

Labels = tuple[str, ...]
# By name, which has the unit and is the heading of its column. A text describes the contender; it is not measured.
Figures = Mapping[str, float | str]


class Measured:
    """What one experiment measured: for each row and figure one value by round."""

    def __init__(self) -> None:
        self.rows: dict[Labels, dict[str, list[float]]] = {}
        self.texts: dict[Labels, dict[str, str]] = {}

    def add(self, row: Labels, figures: Figures) -> None:
        values, texts = self.rows.setdefault(row, {}), self.texts.setdefault(row, {})
        for name, value in figures.items():
            if isinstance(value, str):
                texts[name] = value
            else:
                values.setdefault(name, []).append(value)

    def values(self, row: Labels, figure: str) -> list[float]:
        """Return the values by round; none if the row or the figure was not measured."""
        return self.rows.get(row, {}).get(figure, [])

    def ratios(self, above: Labels, below: Labels, figure: str) -> list[float]:
        """Return one row's value in proportion to another's, by round; none if one of them was not measured."""
        values, others = self.values(above, figure), self.values(below, figure)
        if not values or not others:
            return []
        return [value / other for value, other in zip(values, others, strict=True)]

    def median(self, row: Labels, figure: str) -> float:
        """Return the median of the rounds. Raises StatisticsError if it was not measured."""
        return statistics.median(self.values(row, figure))


Results = Mapping[str, Measured]  # by experiment
Values = Callable[[Results], Sequence[float]]


def medians(experiment: str, figure: str, *rows: Labels) -> Values:
    """Return a goal's values: the medians of a figure in these rows; in all rows if none is given."""

    def values(results: Results) -> list[float]:
        measured = results.get(experiment, Measured())
        by_round = [measured.values(row, figure) for row in rows or measured.rows]
        return [statistics.median(each) for each in by_round if each]

    return values


def median_ratio(experiment: str, figure: str, above: Labels, below: Labels) -> Values:
    """Return a goal's value: the median of the ratios within the rounds."""

    def values(results: Results) -> list[float]:
        by_round = results.get(experiment, Measured()).ratios(above, below, figure)
        return [statistics.median(by_round)] if by_round else []

    return values


def spread(values: Sequence[float]) -> Cell:
    """Return the median of the rounds; if there are several, also the lowest and the highest."""
    if not values:
        return Cell(NOT_MEASURED)
    middle, digits = statistics.median(values), digits_of(values)
    text = f"{middle:,.{digits}f}"
    if len(values) > 1:
        text += f" ({min(values):,.{digits}f}–{max(values):,.{digits}f})"
    return Cell(text, middle)


def digits_of(values: Sequence[float]) -> int:
    """Return the decimal places with which the median has three digits; none for whole numbers."""
    if all(float(value).is_integer() for value in values):
        return 0
    return sum(abs(statistics.median(values)) < bound for bound in (100, 10, 1))
