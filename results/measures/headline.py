"""Headlines: the numbers that represent a run, such as its best rate, and the conditions that they must meet.

A headline is read without its footnotes. It therefore comes from a cell whose rate was settled and steady, in which no
operation failed, that the platform limited, and that was measured for at least 3 s. If no cell meets these conditions,
the headline is the nearest cell's number, and the conditions that it failed are part of the headline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from results.measures.units import Unit
from results.recorded.model import FAILURES, TOO_SHORT, Result

HEADLINE_SECONDS_MIN = 3.0
NO_CELL = (
    f"no cell is settled, steady, free of errors, limited by the platform and measured for {HEADLINE_SECONDS_MIN:g} s"
)

_CONDITIONS: tuple[tuple[str, Callable[[Result], bool]], ...] = (
    ("incomplete", lambda result: result.incomplete is not None),
    ("limited by failures", lambda result: result.limited_by == FAILURES),
    ("disturbed by errors", lambda result: result.errors > 0),
    ("unsettled", lambda result: not result.settled),
    ("unsteady", lambda result: result.unsteady is not None),
    ("too short to judge", lambda result: result.steadiness == TOO_SHORT and result.seconds >= HEADLINE_SECONDS_MIN),
    ("limited by the client", lambda result: result.limited_by == "client"),
    ("limited by the host's processor", lambda result: result.limited_by == "host cpu"),
)


def failed_conditions(results: Iterable[Result]) -> tuple[str, ...]:
    """Return the conditions of a headline that one of these results fails, each once; empty if all meet them."""
    found = list(results)
    failed = [condition for condition, applies in _CONDITIONS if any(map(applies, found))]
    shortest = min((result.seconds for result in found), default=HEADLINE_SECONDS_MIN)
    if shortest < HEADLINE_SECONDS_MIN:
        failed.append(f"measured for {shortest:.2f} s")
    return tuple(failed)


def in_brackets(failed: Sequence[str]) -> str:
    """Return failed conditions to append to a headline; empty if there are none."""
    return f" ({', '.join(failed)})" if failed else ""


@dataclass(frozen=True, slots=True)
class Headline:
    """The cell of a headline, and the conditions that it fails; none if it meets them."""

    cell: Unit
    failed: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """The note that must accompany the number."""
        return (f"{NO_CELL}; of the nearest: {', '.join(self.failed)}",) if self.failed else ()


def best(cells: Sequence[Unit], rate: Callable[[Unit], float]) -> Headline:
    """Return the cell with the highest rate among those that meet every condition of a headline.

    If none does, return the nearest cell: the one with the fewest failed conditions, then the longest measured time,
    then the highest rate. ``cells`` is not empty.
    """
    headlines = [Headline(cell, failed_conditions(cell.results)) for cell in cells]

    def nearness(headline: Headline) -> tuple[int, float, float]:
        shortest = min(result.seconds for result in headline.cell.results)
        return -len(headline.failed), min(shortest, HEADLINE_SECONDS_MIN), rate(headline.cell)

    return max(headlines, key=nearness)
