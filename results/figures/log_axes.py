"""Logarithmic axes with readable labels for any range."""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

_STEPS = (  # ticks within each decade, the most first
    (1.0, 1.2, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0),
    (1.0, 2.0, 3.0, 5.0),
    (1.0, 2.0, 5.0),
    (1.0,),
)

_TICKS_MIN = 3  # visible ticks; a range with fewer is so narrow that the axis gets even steps
_TICKS_OF_NARROW = 5


def label_log_axis(axis: Axis, labels_max: int = 10) -> None:
    """Label a logarithmic axis with plain numbers: about ``labels_max`` at most, and at least one per decade."""
    axis.set_major_locator(_LogTicks(labels_max))
    axis.set_major_formatter(FuncFormatter(plain_number))
    axis.set_minor_locator(NullLocator())  # marks without labels: they take a third of the time to draw


def plain_number(value: float, _position: int | None) -> str:
    """Return a tick's label: 0.5, 20, 1,000,000."""
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:,g}"


class _LogTicks(LogLocator):
    """Chooses the steps within a decade by the range that the axis has when it is drawn."""

    def __init__(self, labels_max: int) -> None:
        super().__init__()
        self._labels_max = labels_max

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        decades = abs(math.log10(vmax / vmin))
        fitting = next((place for place, steps in enumerate(_STEPS) if decades * len(steps) <= self._labels_max), -1)
        for steps in reversed(_STEPS[: fitting % len(_STEPS) + 1]):  # finer steps if too few ticks are visible
            self.set_params(subs=steps)
            ticks = super().tick_values(vmin, vmax)
            if sum(vmin <= tick <= vmax for tick in ticks) >= _TICKS_MIN:
                return ticks
        return MaxNLocator(_TICKS_OF_NARROW, steps=[1, 2, 5, 10]).tick_values(vmin, vmax)
