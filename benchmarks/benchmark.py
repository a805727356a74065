"""Benchmarks: their experiments, their values by row and round, their goals and their tables.

One idea: a claim about speed is a ratio of two measurements in turns, because absolute times on a shared machine vary
too much. Contenders therefore take turns in rounds, and every value is kept by round. A ratio is computed within each
round, and a cell shows the median of the rounds, with the lowest and the highest.
"""

from __future__ import annotations

import operator
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from results.document.table import NOT_MEASURED, Cell, Column, Table

Labels = tuple[str, ...]
# By name, which has the unit and is the heading of its column. A text describes the contender; it is not measured.
Figures = Mapping[str, float | str]


class Measured:
    """The values of one experiment: for each row and figure one value per round."""

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
        """Return the ratio of one row's value to another's, by round; none if one of them was not measured."""
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


def median_ratio(experiment: str, figure: str, *pairs: tuple[Labels, Labels]) -> Values:
    """Return a goal's values: for each pair of rows the median of the ratios within the rounds, first row to second."""

    def values(results: Results) -> list[float]:
        by_round = [results.get(experiment, Measured()).ratios(*pair, figure) for pair in pairs]
        return [statistics.median(each) for each in by_round if each]

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


Contenders = Mapping[Labels, Callable[[], Figures]]  # by the labels of its row: measures it once
Relation = Literal["at least", "at most", "below"]
_MEETS = {"at least": operator.ge, "at most": operator.le, "below": operator.lt}


@dataclass(frozen=True, slots=True)
class Ratio:
    """A column: the ratio of a figure in the row with the last label ``above`` to that with ``below``.

    None is the row itself. If both are given, the row ``above`` shows the ratio.
    """

    heading: str
    figure: str
    above: str | None = None
    below: str | None = None

    def cell(self, measured: Measured, row: Labels) -> Cell:
        above, below = ((*row[:-1], last) if last else row for last in (self.above, self.below))
        if above == below or (self.above and self.below and row != above):
            return Cell(NOT_MEASURED)
        return spread(measured.ratios(above, below, self.figure))


@dataclass(frozen=True, slots=True)
class Experiment:
    """Contenders that take turns, and the table of their figures.

    Each case starts the servers of its contenders, and stops them after the last round.
    """

    name: str  # of its table
    title: str
    labels: Labels  # headings
    cases: Iterable[AbstractContextManager[Contenders]]
    rounds: int = 1
    ratios: tuple[Ratio, ...] = ()

    def measure(self) -> Measured:
        """Carry out every case."""
        measured = Measured()
        for case in self.cases:
            with case as contenders:
                order = list(contenders)
                for _ in range(self.rounds):
                    for row in order:
                        measured.add(row, contenders[row]())
                    order.append(order.pop(0))  # another one begins the next round: it may pay for the previous one
        return measured

    def table(self, measured: Measured) -> Table:
        texts = dict.fromkeys(name for texts in measured.texts.values() for name in texts)
        figures = dict.fromkeys(name for values in measured.rows.values() for name in values)
        headings = [*texts, *figures, *(ratio.heading for ratio in self.ratios)]
        rows = tuple(
            (
                *map(Cell, row),
                *(Cell(measured.texts[row].get(name, "")) for name in texts),
                *(spread(measured.values(row, name)) for name in figures),
                *(ratio.cell(measured, row) for ratio in self.ratios),
            )
            for row in measured.rows
        )
        columns = (*(Column(label, label=True) for label in self.labels), *map(Column, headings))
        return Table(self.name, self.title, columns, rows)


def table_of(name: str, title: str, labels: Labels, rows: Mapping[Labels, Figures]) -> Table:
    """Return the table of rows that were computed."""
    measured = Measured()
    for row, figures in rows.items():
        measured.add(row, figures)
    return Experiment(name, title, labels, ()).table(measured)


@contextmanager
def measured_at_once(measure: Callable[[], Mapping[Labels, Figures]]) -> Iterator[Contenders]:
    """Return a case of one round whose rows are all measured by one call."""
    yield {row: partial(dict, figures) for row, figures in measure().items()}


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure of the notes. If it has a ``limit``, all of its values must meet it; the note shows the worst value."""

    what: str
    values: Values = field(repr=False)
    relation: Relation = "at most"
    limit: float | None = None

    def judge(self, results: Results) -> dict[str, Any]:
        """Return the worst value (None: not measured), and whether it meets the limit (None: no value or no limit)."""
        values = self.values(results)
        value = (min if self.relation == "at least" else max)(values, default=None)
        is_met = None if value is None or self.limit is None else bool(_MEETS[self.relation](value, self.limit))
        return {"what": self.what, "value": value, "relation": self.relation, "limit": self.limit, "is_met": is_met}

    def note(self, results: Results) -> str:
        found = self.judge(results)
        value = "not measured"
        if found["value"] is not None:
            value = f"{found['value']:,.{digits_of([found['value']])}f}"
        if found["is_met"] is None:
            return f"{self.what}: {value}"
        verdict = "met" if found["is_met"] else "NOT MET"
        return f"{self.what}: {value} (goal: {self.relation} {self.limit:g}: {verdict})"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One benchmark: a command, and a section of docs/benchmarks.md, which describes the measurement."""

    name: str
    question: str  # one line of help
    experiments: Callable[[bool], Sequence[Experiment]]  # True: small ones, which show only that they run
    goals: tuple[Goal, ...] = ()
    remarks: Callable[[Results], Sequence[str]] = lambda results: ()  # more notes
    more_tables: Callable[[Results], Sequence[Table]] = lambda results: ()  # those computed from several experiments
    quote: Callable[[Results], str] | None = None  # a summary for other pages
    is_on_page: bool = True

    def run(self, *, small: bool) -> Outcome:
        """Carry out all experiments."""
        load, began = os.getloadavg()[0], time.time()
        experiments = tuple(self.experiments(small))
        results = {each.name: each.measure() for each in experiments}
        return Outcome(self, experiments, results, began, load, time.time() - began)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of a benchmark."""

    benchmark: Benchmark
    experiments: Sequence[Experiment]
    results: Results
    began: float  # epoch seconds
    load: float  # load average before it
    seconds: float

    def tables(self) -> list[Table]:
        own = [experiment.table(self.results[experiment.name]) for experiment in self.experiments]
        return [*own, *self.benchmark.more_tables(self.results)]

    def notes(self) -> list[str]:
        goals = [goal.note(self.results) for goal in self.benchmark.goals]
        return [*self.benchmark.remarks(self.results), *goals]

    def document(self) -> dict[str, Any]:
        """Return the values of every round and the judged goals, for JSON."""
        return {
            "began": self.began,
            "load": self.load,
            "seconds": self.seconds,
            "rounds": {experiment.name: experiment.rounds for experiment in self.experiments},
            "experiments": {
                name: [{"labels": row, **measured.texts[row], **values} for row, values in measured.rows.items()]
                for name, measured in self.results.items()
            },
            "goals": [goal.judge(self.results) for goal in self.benchmark.goals],
        }
