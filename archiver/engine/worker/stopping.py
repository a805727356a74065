"""End of the measured part of a phase, for each client.

One idea: every client is measured in whole sessions, because the paper's rate includes the cost of a session. A single
client continues until its mean session time is precise. Several clients continue for a window of time. Each of them is
measured from its first session end after the warm-up to its first session end after the window, and for at least two
sessions. No session is cut at an edge of the window, so the rate has no bias from such sessions. The half-width that
the rule computed is stored with the result, and is the bar of one repetition. The spread of a histogram of session
times is not used: it has lost their order, so it would take autocorrelated sessions for independent ones.
"""

from __future__ import annotations

import math
from statistics import fmean
from typing import NamedTuple

from results.measures.statistics import VALUES_MIN, relative_half_width
from scenarios.work.sessions import MEASURED_SESSIONS_MIN, InWindow, UntilPrecise

NO_END_NS = 2**62
OUTSIDE_FIRST, OUTSIDE_LAST = 0.01, 0.04  # each look's share of the probability of a wrong interval


class MeasuredSpan(NamedTuple):
    """The measured time of one client, in CLOCK_MONOTONIC nanoseconds.

    Rows that end before it are warm-up, and rows that end after it are drain.
    """

    from_ns: int
    to_ns: int


class SessionStop:
    """One client: whole sessions after the warm-up, until the mean session time is precise enough.

    The rule looks at the precision twice: when the minimum is reached and there are 8 sessions, and at the limit. The
    last look has most of the data, and most of the 5% by which the looks together may be wrong.
    """

    def __init__(self, stop: UntilPrecise, session_bytes: int, sessions_assigned: int) -> None:
        """``sessions_assigned``: sessions for which the client has objects."""
        self._stop = stop
        self._warm_up_sessions_max = stop.warm_up_sessions_max(sessions_assigned)
        self._session_bytes = session_bytes
        self._warm_up_sessions = 0
        self._began_ns = 0
        self._session_seconds: list[float] = []
        self._has_looked = False
        self._has_ended = False
        self.measured_from_ns = 0
        self.measured_to_ns = 0
        self.half_width = math.inf
        self.settled = False

    @property
    def measured(self) -> MeasuredSpan:
        return MeasuredSpan(self.measured_from_ns or NO_END_NS, NO_END_NS)

    def wants_session(self, now_ns: int) -> bool:
        """Return whether another session may start at ``now_ns``. The first measured session starts the clock."""
        if not self.measured_from_ns:
            if self._warms_up(now_ns):
                return True
            self.measured_from_ns = now_ns
        stop, sessions = self._stop, len(self._session_seconds)
        if sessions < stop.sessions_min:
            return True
        elapsed_seconds = (now_ns - self.measured_from_ns) / 1e9
        is_at_limit = elapsed_seconds >= stop.seconds_max or sessions * self._session_bytes >= stop.bytes_max
        is_too_early = elapsed_seconds < stop.seconds_min or sessions < VALUES_MIN
        if not is_at_limit and (is_too_early or self._has_looked):
            return True
        self._look(elapsed_seconds, is_last=is_at_limit)
        return not (self.settled or is_at_limit)

    def _look(self, elapsed_seconds: float, *, is_last: bool) -> None:
        """Judge the precision of the measured sessions; the last look ends them."""
        only_look = OUTSIDE_FIRST + OUTSIDE_LAST
        outside = OUTSIDE_FIRST if not is_last else OUTSIDE_LAST if self._has_looked else only_look
        self._has_looked, self._has_ended = True, is_last
        self.half_width = relative_half_width(self._session_seconds, outside)
        # If a limit ended it before its minimum time, even a precise result is too short to count as settled.
        self.settled = self.half_width <= self._stop.precision and elapsed_seconds >= self._stop.seconds_min

    @property
    def mean_session_seconds(self) -> float:
        """Return the mean time of the measured sessions; 0 if there are none."""
        return fmean(self._session_seconds) if self._session_seconds else 0.0

    def _warms_up(self, now_ns: int) -> bool:
        self._began_ns = self._began_ns or now_ns
        done, stop = self._warm_up_sessions, self._stop
        if done < stop.warm_up_sessions:
            return True
        elapsed_seconds = (now_ns - self._began_ns) / 1e9
        return elapsed_seconds < stop.warm_up_seconds and done < self._warm_up_sessions_max

    def session_ended(self, opened_ns: int, closed_ns: int) -> None:
        if not self.measured_from_ns:
            self._warm_up_sessions += 1
            return
        self._session_seconds.append((closed_ns - opened_ns) / 1e9)
        self.measured_to_ns = closed_ns

    def ran_out(self, now_ns: int) -> None:
        """End the sessions because no object numbers are left; the last session's end remains.

        A client that ended before, by its rule, keeps what that look found.
        """
        if not (self.settled or self._has_ended):
            self._look((self.measured_to_ns - self.measured_from_ns) / 1e9, is_last=True)

    def client_ended(self) -> None:
        """Record that the client begins no further session."""


class SharedWindow:
    """The window of the several clients of one worker.

    It ends early when the first client has no object numbers left: the load would no longer be the requested one. A
    client that is measured to its end continues, unmeasured, until all clients are, so that no client is measured under
    less load than requested.
    """

    def __init__(self, stop: InWindow, start_ns: int, clients: int) -> None:
        self.warm_up_to_ns = start_ns + int(stop.warm_up_seconds * 1e9)
        self.end_ns = self.warm_up_to_ns + int(stop.seconds * 1e9)
        self.clients_measuring = clients
        self.ended_early = False

    def end(self, now_ns: int) -> None:
        """End the window now, if it is not over."""
        if now_ns < self.end_ns:
            self.end_ns = now_ns
            self.ended_early = True


class WindowStop:
    """Stop rule of one of several clients, which is measured in whole sessions.

    The measured time lasts from the first session end after the warm-up to the first session end after the window, and
    for at least ``MEASURED_SESSIONS_MIN`` sessions.
    """

    def __init__(self, window: SharedWindow) -> None:
        self._window = window
        self._is_measuring = True
        self._sessions = 0  # measured
        self.measured_from_ns = 0
        self.measured_to_ns = 0  # the last session's end so far

    @property
    def settled(self) -> bool:
        return not self._window.ended_early

    @property
    def measured(self) -> MeasuredSpan:
        """Return the measured time so far: it has no end while the client is measured."""
        return MeasuredSpan(
            self.measured_from_ns or NO_END_NS, NO_END_NS if self._is_measuring else self.measured_to_ns
        )

    def wants_session(self, now_ns: int) -> bool:
        return self._window.clients_measuring > 0

    def session_ended(self, opened_ns: int, closed_ns: int) -> None:
        if not self._is_measuring:
            return
        if not self.measured_from_ns:
            if closed_ns >= self._window.warm_up_to_ns:
                self.measured_from_ns = self.measured_to_ns = closed_ns
            return
        self.measured_to_ns = closed_ns
        self._sessions += 1
        if closed_ns >= self._window.end_ns and self._sessions >= MEASURED_SESSIONS_MIN:
            self.client_ended()

    def ran_out(self, now_ns: int) -> None:
        """End the window because this client has no object numbers left, unless it is measured already."""
        if self._is_measuring:
            self._window.end(now_ns)

    def client_ended(self) -> None:
        """Record that this client is no longer measured."""
        if self._is_measuring:
            self._is_measuring = False
            self._window.clients_measuring -= 1


class EverythingStop:
    """Stop rule of a client that handles all its assigned objects, for any duration."""

    settled = True
    measured_to_ns = NO_END_NS

    def __init__(self, start_ns: int) -> None:
        self.measured_from_ns = start_ns

    @property
    def measured(self) -> MeasuredSpan:
        return MeasuredSpan(self.measured_from_ns, NO_END_NS)

    def wants_session(self, now_ns: int) -> bool:
        return True

    def session_ended(self, opened_ns: int, closed_ns: int) -> None:
        pass

    def ran_out(self, now_ns: int) -> None:
        pass

    def client_ended(self) -> None:
        pass


StopDecision = SessionStop | WindowStop | EverythingStop
