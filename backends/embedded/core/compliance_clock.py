"""The compliance clock: the time by which the store locks, dates and answers. It never goes backwards.

One idea: a person who sets the host's clock while the store runs must not be able to end a retention period. The clock
starts at the later of the host's time and the highest time that the store ever committed. From then on it advances by
elapsed time, which no one can set. A host's clock that is ahead when the store starts is not detected.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate


def elapsed_seconds() -> float:
    """Return elapsed seconds, which do not depend on the clock that the host shows."""
    # Unlike CLOCK_MONOTONIC, CLOCK_BOOTTIME advances while the machine is suspended.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ComplianceClock:
    """A clock of milliseconds since the epoch. `high_water_ms`: the highest time that earlier processes committed."""

    def __init__(
        self,
        high_water_ms: int,
        wall_seconds: Callable[[], float] = time.time,
        elapsed_seconds: Callable[[], float] = elapsed_seconds,
    ) -> None:
        self._elapsed_seconds = elapsed_seconds
        self._zero_seconds = max(high_water_ms / 1000, wall_seconds()) - elapsed_seconds()
        self._highest_ms = high_water_ms
        self._date_second = 0
        self._date = ""

    def now_ms(self) -> int:
        now_ms = int((self._zero_seconds + self._elapsed_seconds()) * 1000)
        # Two threads that read one after the other may get the same instant, but never an earlier one.
        self._highest_ms = now_ms = max(now_ms, self._highest_ms)
        return now_ms

    def http_date(self) -> str:
        """Return this instant as an HTTP `Date`; formatted once a second."""
        second = self.now_ms() // 1000
        if second != self._date_second:
            self._date = formatdate(second, usegmt=True)
            self._date_second = second
        return self._date
