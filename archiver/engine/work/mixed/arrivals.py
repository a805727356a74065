"""When the sessions of an open loop are due: schedules drawn before the clock starts.

One idea: random arrivals are a Poisson process of rate 1, a running sum of exponential gaps, seen through a clock that
runs as fast as the rate of the moment. So one formula gives arrivals at a constant, a rising and a falling rate.

Every worker draws the whole schedule and takes its part of it: nothing is handed round, and all parts together are
what one worker alone would have.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scenarios.work.mix import Arrivals


def due_times(arrivals: Arrivals, seconds: float, seed: int, part: int = 0, parts: int = 1) -> NDArray[np.int64]:
    """Nanoseconds after the workload's begin at which the sessions of this part are due; they never fall.

    ``seconds``: how long the workload goes on; every session is due before its end. ``part``: from 0; each takes every
    ``parts``-th session. All parts have at most ``arrivals.sessions_max(seconds)`` sessions together, the same ones for
    the same ``seed``, however many parts there are.
    """
    sessions_max = arrivals.sessions_max(seconds)
    match arrivals.kind:
        case "constant":
            due_seconds = np.arange(sessions_max) / arrivals.per_second
        case "poisson":
            due_seconds = _at_random(arrivals.per_second, arrivals.per_second, seconds, seed, sessions_max)
        case "ramp":
            end = arrivals.per_second if arrivals.to_per_second is None else arrivals.to_per_second
            due_seconds = _at_random(arrivals.per_second, end, seconds, seed, sessions_max)
        case "bursts":
            bursts = np.arange(0.0, seconds, arrivals.every_seconds).repeat(arrivals.burst_sessions)
            rate = arrivals.per_second
            between = _at_random(rate, rate, seconds, seed, sessions_max - len(bursts))
            due_seconds = np.sort(np.concatenate((bursts, between)))
    due_ns = np.rint(due_seconds * 1e9).astype(np.int64)
    # Rounding may bring the last ones to the end itself.
    due_ns = due_ns[: np.searchsorted(due_ns, seconds * 1e9)]
    return due_ns[part::parts].copy()


def _at_random(first_rate: float, last_rate: float, seconds: float, seed: int, count: int) -> NDArray[np.float64]:
    """At most ``count`` seconds at which a Poisson process has its arrivals, whose rate goes straight from
    ``first_rate`` to ``last_rate`` (both per second) in ``seconds``.

    Until t seconds a + b are expected, with a = first_rate t and b = (last_rate - first_rate) t^2 / (2 seconds). The
    root is in the form that also stands where the rate does not change.
    """
    # The raw stream is what numpy promises for all its versions; its distributions are not. Uniform in [0, 1).
    uniform = (np.random.PCG64(seed).random_raw(count) >> np.uint64(11)) * 2.0**-53
    passed = np.cumsum(-np.log1p(-uniform))
    passed = passed[: np.searchsorted(passed, (first_rate + last_rate) / 2 * seconds)]
    rate_squared = first_rate**2 + 2 * (last_rate - first_rate) * passed / seconds
    # Towards a last rate of 0 the rate's square may come out below it.
    return 2 * passed / (first_rate + np.sqrt(np.maximum(rate_squared, 0.0)))
