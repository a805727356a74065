"""Tables of benchmarks: values of several rounds as one cell.

One idea: where there are rounds, a cell is their median with the lowest and the highest beside it, so that nobody takes
for exact what moved.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from results.table import Cell, Column, Table

__all__ = ["Cell", "Table", "labelled", "plain", "spread", "verdict"]


def labelled(labels: Sequence[str], *others: str) -> tuple[Column, ...]:
    """Headings; those of ``labels`` name the rows."""
    return *(Column(name, label=True) for name in labels), *(Column(name) for name in others)


def plain(*texts: str) -> tuple[Cell, ...]:
    return tuple(Cell(text) for text in texts)


def spread(values: Sequence[float], decimals: int) -> Cell:
    """The median of the rounds; of several also the lowest and the highest."""
    middle = statistics.median(values)
    text = f"{middle:,.{decimals}f}"
    if len(values) > 1:
        text += f" ({min(values):,.{decimals}f}–{max(values):,.{decimals}f})"
    return Cell(text, middle)


def verdict(met: bool) -> str:
    return "met" if met else "NOT MET"
