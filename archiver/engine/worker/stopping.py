"""End of the measured part of a phase.

One idea: one client is measured in whole sessions, because the paper's rate includes the cost of a session. Several
clients are measured in a window of time, because their sessions do not end at the same time.
"""

from __future__ import annotations

import math

from archiver.measure.reports import INTERVAL_NS
from results.statistics import t_975
from scenarios.work.sessions import InWindow, UntilPrecise

NO_END_NS = 2**62


class RunningMean:
    """Mean and spread of a stream of values (Welford's update), so that a check after every session is cheap."""

    def __init__(self) -> None:
        self.count = 0
        self._mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        delta = value - self._mean
        self._mean += delta / self.count
        self._squares += delta * (value - self._mean)

    def half_width(self) -> float:
        """95% half-width of the mean, relative to it; infinite for fewer than two values."""
        if self.count < 2 or not self._mean:
            return math.inf
        degrees = self.count - 1
        return t_975(degrees) * math.sqrt(self._squares / degrees / self.count) / self._mean


class SessionStop:
    """One client: whole sessions after the warm-up, until the mean session time is precise enough."""

    def __init__(self, stop: UntilPrecise, session_bytes: int) -> None:
        self._stop = stop
        self._session_bytes = session_bytes
        self._warm_up_left = stop.warm_up_sessions
        self._session_seconds = RunningMean()
        self.measured_from_ns = 0
        self.measured_to_ns = 0
        self.settled = False

    @property
    def warm_up_ns(self) -> int:
        """Return the instant before which ended rows are warm-up."""
        return self.measured_from_ns or NO_END_NS

    def wants_session(self, now_ns: int) -> bool:
        """Return whether another session may start at ``now_ns``. The first measured session starts the clock."""
        if self._warm_up_left:
            return True
        if not self.measured_from_ns:
            self.measured_from_ns = now_ns
        sessions = self._session_seconds.count
        if sessions < self._stop.sessions_min:
            return True
        elapsed_seconds = (now_ns - self.measured_from_ns) / 1e9
        self.settled = self._session_seconds.half_width() <= self._stop.precision
        if elapsed_seconds >= self._stop.seconds_max or sessions * self._session_bytes >= self._stop.bytes_max:
            # A limit ended it before its minimum time: even a precise result is too short to count as settled.
            self.settled = self.settled and elapsed_seconds >= self._stop.seconds_min
            return False
        return elapsed_seconds < self._stop.seconds_min or not self.settled

    def session_ended(self, opened_ns: int, closed_ns: int) -> None:
        if self._warm_up_left:
            self._warm_up_left -= 1
            return
        self._session_seconds.add((closed_ns - opened_ns) / 1e9)
        self.measured_to_ns = closed_ns

    def ran_out(self, now_ns: int) -> None:
        """End the sessions because no object numbers are left; the last session's end remains."""


class WindowStop:
    """Several clients: everything that ends between the warm-up and the deadline, or until the first client runs
    out.
    """

    def __init__(self, stop: InWindow, start_ns: int) -> None:
        warm_up_intervals = math.ceil(stop.warm_up_seconds * 1e9 / INTERVAL_NS)
        measured_intervals = math.ceil(stop.seconds * 1e9 / INTERVAL_NS)
        self.measured_from_ns = start_ns + warm_up_intervals * INTERVAL_NS
        self.measured_to_ns = self.measured_from_ns + measured_intervals * INTERVAL_NS
        self.settled = True

    @property
    def warm_up_ns(self) -> int:
        return self.measured_from_ns

    def wants_session(self, now_ns: int) -> bool:
        return now_ns < self.measured_to_ns

    def session_ended(self, opened_ns: int, closed_ns: int) -> None:
        pass

    def ran_out(self, now_ns: int) -> None:
        """End the window because a client has no object numbers left: the load would no longer be the requested one."""
        if now_ns < self.measured_to_ns:
            self.measured_to_ns = now_ns
            self.settled = False


class EverythingStop:
    """All assigned objects, for any duration."""

    def __init__(self, start_ns: int) -> None:
        self.measured_from_ns = start_ns
        self.measured_to_ns = NO_END_NS
        self.settled = True

    @property
    def warm_up_ns(self) -> int:
        return self.measured_from_ns

    def wants_session(self, now_ns: int) -> bool:
        return True

    def session_ended(self, opened_ns: int, closed_ns: int) -> None:
        pass

    def ran_out(self, now_ns: int) -> None:
        pass


StopDecision = SessionStop | WindowStop | EverythingStop
