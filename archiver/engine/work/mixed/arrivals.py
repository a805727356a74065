"""Due times of the sessions of an open loop: schedules drawn before the clock starts.

One idea: random arrivals are a Poisson process of rate 1, which is a running sum of exponential gaps. A time scale that
follows the current rate transforms it. One formula therefore gives arrivals at a constant, a rising and a falling rate.

Every worker draws the whole schedule and takes its own part, so workers exchange nothing. All parts add up to the
schedule that a single worker would have.
"""

from __future__ import annotations

import numpy as np
from numpy.random import PCG64
from numpy.typing import NDArray

from scenarios.work.mix import Arrivals


def due_times(arrivals: Arrivals, seconds: float, seed: int, part: int = 0, parts: int = 1) -> NDArray[np.int64]:
    """Return the due times of this part's sessions, ascending, in nanoseconds after the workload's start.

    ``seconds``: duration of the workload; every session is due before its end.
    ``part``: number of this part, from 0; each part takes every ``parts``-th session.

    All parts have at most ``arrivals.sessions_max(seconds)`` sessions in total. The same ``seed`` gives the same
    sessions, with any number of parts.
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
            begins = np.arange(arrivals.bursts(seconds)) * arrivals.every_seconds
            bursts = begins.repeat(arrivals.burst_sessions)
            rate = arrivals.per_second
            between = _at_random(rate, rate, seconds, seed, sessions_max - len(bursts))
            due_seconds = np.sort(np.concatenate((bursts, between)))
    due_ns = np.rint(due_seconds * 1e9).astype(np.int64)
    # Rounding may move the last due times to the end itself.
    due_ns = due_ns[: np.searchsorted(due_ns, seconds * 1e9)]
    return due_ns[part::parts].copy()


def _at_random(first_rate: float, last_rate: float, seconds: float, seed: int, count: int) -> NDArray[np.float64]:
    """Return at most ``count`` arrival times of a Poisson process, in seconds.

    Its rate changes linearly from ``first_rate`` to ``last_rate`` (both per second) in ``seconds``. Until t seconds a +
    b arrivals are expected, with a = first_rate t and b = (last_rate - first_rate) t^2 / (2 seconds). This form of the
    root is also valid if the rate does not change.
    """
    # numpy guarantees the raw stream for all its versions, but not its distributions. Uniform in [0, 1).
    uniform = (PCG64(seed).random_raw(count) >> np.uint64(11)) * 2.0**-53
    passed = np.cumsum(-np.log1p(-uniform))
    passed = passed[: np.searchsorted(passed, (first_rate + last_rate) / 2 * seconds)]
    rate_squared = first_rate**2 + 2 * (last_rate - first_rate) * passed / seconds
    # Towards a last rate of 0, rounding may make the square of the rate negative.
    return 2 * passed / (first_rate + np.sqrt(np.maximum(rate_squared, 0.0)))
