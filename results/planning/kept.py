"""What a load keeps on each day: the arrivals of all earlier days whose locks have not ended.

The unit is a day, because a backup archives everything on one day and little on the next. What matters for capacity is
the fullest day. Means over a cycle hide it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DAYS_PER_YEAR = 365
Days = NDArray[np.float64]  # a number for each day of a plan


@dataclass(frozen=True, slots=True)
class CycleDay:
    """One day of a load's cycle. The cycle begins on the first day of the plan, and repeats."""

    share: float  # of the bytes of the busiest day
    chain_days: int = 0  # kept for so long beyond the retention, because what depends on it is kept


EVERY_DAY = (CycleDay(1.0),)


def backup_cycle(full_every_days: int, change_share: float) -> tuple[CycleDay, ...]:
    """Return the days from one full backup to the next.

    An increment is worthless without its full backup and the increments between them. So a whole chain is kept until
    its last state, which is the newest one until the next full backup, has passed the retention.
    """
    changes = (CycleDay(change_share, full_every_days - day) for day in range(1, full_every_days))
    return (CycleDay(1.0, full_every_days), *changes)


def arrived_by_day(cycle: Sequence[CycleDay], bytes_by_year: Sequence[float]) -> Days:
    """Return the bytes that arrive on each day. ``bytes_by_year`` are those of the busiest day, for each year."""
    busiest = np.repeat(np.array(bytes_by_year, dtype=np.float64), DAYS_PER_YEAR)
    return busiest * _repeated([day.share for day in cycle], len(busiest))


def kept_by_day(arrived: Days, cycle: Sequence[CycleDay], lock_days: float) -> Days:
    """Return the bytes kept at the end of each day. ``lock_days``: from the arrival; infinite: nothing is removed.

    A day's bytes arrive evenly over the day. So a part of a day in ``lock_days`` keeps that part of the day's bytes.
    """
    if math.isinf(lock_days):
        return np.cumsum(arrived)
    count = len(arrived)
    whole = math.floor(lock_days)
    leaves = np.arange(count) + whole + _repeated([day.chain_days for day in cycle], count).astype(np.int64)
    removed = np.zeros(count)
    for share, days in ((1 - (lock_days - whole), leaves), (lock_days - whole, leaves + 1)):
        is_within = days < count
        np.add.at(removed, days[is_within], share * arrived[is_within])
    return np.cumsum(arrived - removed)


def terabyte_years_by_year(kept: Days) -> list[float]:
    """Return 10^12 bytes kept for a year each. Within a day the kept bytes change evenly."""
    means = (kept + np.concatenate(([0.0], kept[:-1]))) / 2
    return [total / DAYS_PER_YEAR / 1e12 for total in total_by_year(means)]


def fullest_by_year(kept: Days) -> list[float]:
    """Return the largest value of each year."""
    return [float(value) for value in kept.reshape(-1, DAYS_PER_YEAR).max(axis=1)]


def total_by_year(arrived: Days) -> list[float]:
    return [float(value) for value in arrived.reshape(-1, DAYS_PER_YEAR).sum(axis=1)]


def _repeated(values: Sequence[float], count: int) -> Days:
    return np.resize(np.array(values, dtype=np.float64), count)
