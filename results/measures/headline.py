"""Headlines: the numbers that represent a run, such as its best rate, and the conditions that they should meet.

A headline is the fastest measured point. How well it is known is a mark beside it and never a reason to show another
number, which would contradict the run's own tables. A rate that means nothing, since workers were lost or failures
limited it, is a headline only if there is no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from results.measures.units import Unit
from results.recorded.model import FAILURES, TOO_SHORT, Result

HEADLINE_SECONDS_MIN = 3.0

INCOMPLETE, BY_FAILURES = "incomplete", "limited by failures"
MEANINGLESS = frozenset((INCOMPLETE, BY_FAILURES))
_CONDITIONS: tuple[tuple[str, Callable[[Result], bool]], ...] = (
    (INCOMPLETE, lambda result: result.incomplete is not None),
    (BY_FAILURES, lambda result: result.limited_by == FAILURES),
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
        return (f"read with care: {', '.join(self.failed)}",) if self.failed else ()


def best(cells: Sequence[Unit], rate: Callable[[Unit], float]) -> Headline:
    """Return the cell with the highest rate, of those whose rate means something. ``cells`` is not empty."""
    meaningful = [cell for cell in cells if MEANINGLESS.isdisjoint(failed_conditions(cell.results))]
    return headline_of(max(meaningful or cells, key=rate))


def headline_of(cell: Unit) -> Headline:
    return Headline(cell, failed_conditions(cell.results))
