"""The compliance clock: the only time the store believes, and one that never goes backwards.

One idea: whoever may set the host's clock must not be able to end a retention. The clock starts at the later
of the host's time and the highest time that the store ever committed, and from then on advances by elapsed
time, which nobody can set. A host clock put forward while the store runs therefore changes nothing either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate


def elapsed_seconds() -> float:
    """Seconds that passed, whatever anybody set a clock to."""
    # Unlike CLOCK_MONOTONIC, CLOCK_BOOTTIME goes on while the machine is suspended.
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ComplianceClock:
    """Milliseconds since the epoch. `high_water_ms` is what the catalogue has of earlier processes."""

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
        # Reading one after the other in two threads may only ever repeat an instant, never turn it back.
        self._highest_ms = now_ms = max(now_ms, self._highest_ms)
        return now_ms

    def http_date(self) -> str:
        """This instant as an HTTP `Date`, made anew once a second."""
        second = self.now_ms() // 1000
        if second != self._date_second:
            self._date = formatdate(second, usegmt=True)
            self._date_second = second
        return self._date
