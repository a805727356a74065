"""The intervals of a session-time fit, and its test for lack of fit.

Intervals come from a parametric bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 6). A run
stores the mean session time of each cell and its half-width by batch means, not the single times. Each draw therefore
multiplies the time of every cell by exp(error x t): its relative standard error, and a random Student's t with its
degrees of freedom. The fit is repeated for every draw; 95% of the results are within the interval. The error allows for
autocorrelation, as the rule that ends a cell does. With repetitions it is that of their rates.

The lack-of-fit test applies the same draws to the times on the fitted line. Its statistic is the sum of the squared
residuals, each divided by the standard error of its cell. Its p value is the share of draws with a larger sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from results.measures.session_time import SessionTimeBounds, SessionTimeFit, least_squares
from results.measures.statistics import RelativeError

_DRAWS = 2000
_SEED = 550  # any number: the same results always give the same intervals
_LOG_FACTOR_MAX = 5.0  # a draw multiplies a time by 150 at most; only cells with 1 or 2 degrees of freedom reach that
_ERROR_MIN = 1e-6  # keeps the statistic finite if all sessions took the same time

_Array = NDArray[np.float64]


def with_intervals(fit: SessionTimeFit, errors: Mapping[int, RelativeError | None]) -> SessionTimeFit:
    """Return the fit with its intervals, and with the p value of the lack-of-fit test if it has more than two points.

    ``errors`` maps objects per session to the error of the rate. The fit is returned unchanged if one is unknown.
    """
    objects = list(fit.residuals_percent)
    known = [error for n in objects if (error := errors.get(n)) is not None]
    if len(known) < len(objects):
        return fit
    relative = [max(each.error, _ERROR_MIN) for each in known]
    random = np.random.default_rng(_SEED)
    factors = [
        np.exp(np.clip(error * random.standard_t(each.degrees, _DRAWS), -_LOG_FACTOR_MAX, _LOG_FACTOR_MAX))
        for error, each in zip(relative, known, strict=True)
    ]
    line_ms = [fit.setup_ms + fit.marginal_ms * n for n in objects]
    residuals = [percent / 100 for percent in fit.residuals_percent.values()]
    times_ms = [time_ms / (1 - residual) for time_ms, residual in zip(line_ms, residuals, strict=True)]
    low, high = _bounds(objects, [time_ms * each for time_ms, each in zip(times_ms, factors, strict=True)])
    by_chance = _misfits(objects, [time_ms * each for time_ms, each in zip(line_ms, factors, strict=True)], relative)
    misfit = sum((residual / error) ** 2 for residual, error in zip(residuals, relative, strict=True))
    p = float(1 + (by_chance >= misfit).sum()) / (1 + _DRAWS)
    return replace(fit, low=low, high=high, lack_of_fit_p=p if len(objects) > 2 else None)


def _lines(objects: Sequence[int], times_ms: Sequence[_Array]) -> tuple[_Array, _Array]:
    """Return a and b of every draw."""
    setup_ms, marginal_ms, marginal_alone_ms = least_squares(objects, times_ms)
    return np.maximum(setup_ms, 0), np.where(setup_ms < 0, marginal_alone_ms, marginal_ms)


def _bounds(objects: Sequence[int], times_ms: Sequence[_Array]) -> tuple[SessionTimeBounds, SessionTimeBounds]:
    setup_ms, marginal_ms = _lines(objects, times_ms)
    marginal_ms = np.maximum(marginal_ms, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        half_ceiling = np.where(setup_ms > 0, setup_ms / marginal_ms, 0)
        values = (setup_ms, marginal_ms, half_ceiling, 1000 / marginal_ms)
    low, high = (
        SessionTimeBounds(*(float(np.quantile(each, share, method="nearest")) for each in values))
        for share in (0.025, 0.975)
    )
    return low, high


def _misfits(objects: Sequence[int], times_ms: Sequence[_Array], errors: Sequence[float]) -> _Array:
    """Return the statistic of the lack-of-fit test of every draw."""
    setup_ms, marginal_ms = _lines(objects, times_ms)
    misfits = np.zeros(_DRAWS)
    for n, time_ms, error in zip(objects, times_ms, errors, strict=True):
        misfits += ((1 - (setup_ms + marginal_ms * n) / time_ms) / error) ** 2
    return misfits
