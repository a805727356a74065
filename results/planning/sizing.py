"""The platforms that a load needs, year by year: by archive rate, capacity, number of objects and restore time.

The time for one period of a load is its objects divided by the rates of a ``RateSurface``. The number of platforms is
the largest of several needs. Ranges of rates are propagated, and no other uncertainty is added. If a rate has no range,
the answers that use it have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from archiver.values.sizes import format_duration
from results.measures.ranges import Range, combined
from results.planning.loads import HOUR_SECONDS, YEAR_SECONDS, LoadCourse, PlatformLimits
from results.planning.rate_surface import PlannedRate

DAYS_PER_YEAR = 365
ROUNDING = 1e-9  # allowed error of a quotient that should be a whole number
Reason = Literal["archive rate", "capacity", "objects", "restore time"]


@dataclass(frozen=True, slots=True)
class Part:
    """Objects of one size in a load."""

    object_bytes: int
    objects_per_unit: float  # in a period


@dataclass(frozen=True, slots=True)
class Load:
    """The objects to archive in the busiest period, and the time for that."""

    unit: str  # user, camera, object, gigabyte
    units: int
    parts: tuple[Part, ...]
    objects_per_session: int
    period: str  # day, hour
    window_seconds: float
    mean_share: float = 1.0  # of the mean period, relative to the busiest
    restore_bytes: float | None = None  # amount to restore after a loss; None: everything that is kept

    @property
    def objects_per_unit(self) -> float:
        return sum(part.objects_per_unit for part in self.parts)

    @property
    def objects(self) -> int:
        return math.ceil(self.units * self.objects_per_unit - ROUNDING)

    @property
    def sessions(self) -> int:
        return math.ceil(self.objects / self.objects_per_session)

    @property
    def bytes(self) -> float:
        return self.units * self.bytes_per_unit

    @property
    def bytes_per_unit(self) -> float:
        return sum(part.objects_per_unit * part.object_bytes for part in self.parts)

    @property
    def a_period(self) -> str:
        if self.unit == "gigabyte":
            return "a full backup"
        return "an hour" if self.period == "hour" else f"a {self.period}"

    @property
    def units_name(self) -> str:
        return f"{self.unit}s{' a day' if self.unit == 'object' else ''}"

    @property
    def time_unit(self) -> tuple[str, float]:
        """Return (name, seconds) of a readable unit for the window."""
        return ("hours", HOUR_SECONDS) if self.window_seconds > 2 * HOUR_SECONDS else ("minutes", 60.0)

    @property
    def periods_per_year(self) -> int:
        return DAYS_PER_YEAR * (24 if self.period == "hour" else 1)


@dataclass(frozen=True, slots=True)
class Need:
    """The number of platforms that one reason requires; ``exact`` is not rounded."""

    reason: Reason
    exact: Range

    @property
    def platforms(self) -> Range:
        return _rounded(self.exact, _at_least_one)


@dataclass(frozen=True, slots=True)
class Year:
    """One year of the course, from 1."""

    year: int
    objects: float  # archived in it
    bytes_archived: float
    objects_kept: float  # at its end
    bytes_kept: float
    archive_seconds: Range  # of the busiest period, on one platform
    needs: tuple[Need, ...]  # at its end

    @property
    def decided_by(self) -> Need:
        """The need for the most platforms; of equal needs, the one with the largest unrounded number."""
        return max(self.needs, key=lambda need: need.exact.value)

    @property
    def platforms(self) -> Range:
        """The number of platforms that satisfies every need."""
        return combined(max, [need.platforms for need in self.needs])


@dataclass(frozen=True, slots=True)
class Restore:
    """The retrieval of much of the kept data after a loss."""

    rates: tuple[PlannedRate, ...]  # in the order of the load's parts
    seconds_per_byte: Range  # of one platform

    @property
    def clients(self) -> int:
        return self.rates[0].clients


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer for another number of units."""

    units: int
    archive_seconds: Range
    fits: bool
    platforms: Range
    remark: str = ""  # asked for, the last that fits, no longer fits


@dataclass(frozen=True, slots=True)
class Archiving:
    """The time to archive one period of a load on one platform, and the platforms that follow from it."""

    load: Load
    course: LoadCourse
    limits: PlatformLimits
    rates: tuple[PlannedRate, ...]  # in the order of the load's parts
    restore: Restore | None = None  # None: no restore was planned

    @property
    def clients(self) -> int:
        """The clients that load each platform."""
        return self.rates[0].clients

    @property
    def seconds(self) -> Range:
        return self.seconds_for(self.load.units)

    def seconds_for(self, units: float) -> Range:
        """Return the time of one period with this many units, on one platform with the planned clients."""
        times = [
            rate.objects_per_second.quotient_of(units * part.objects_per_unit)
            for part, rate in zip(self.load.parts, self.rates, strict=True)
        ]
        return combined(sum, times)

    def fits(self, seconds: float) -> bool:
        return seconds <= self.load.window_seconds

    @property
    def units_max(self) -> Range:
        """Return the most units that one platform archives within the window, without headroom."""
        return _rounded(self.seconds_for(1).quotient_of(self.load.window_seconds), _whole)

    @property
    def objects_per_second(self) -> Range:
        """Return the rate of the whole load on one platform: all its objects divided by their time."""
        return self.seconds_for(1).quotient_of(self.load.objects_per_unit)

    @property
    def megabytes_per_second(self) -> Range:
        return self.objects_per_second.times(self.load.bytes_per_unit / self.load.objects_per_unit / 1e6)

    @property
    def years(self) -> tuple[Year, ...]:
        return tuple(self._year(year) for year in range(1, self.course.years + 1))

    @property
    def last_year(self) -> Year:
        """The year for which the platforms are bought."""
        return self._year(self.course.years)

    @property
    def retention_years(self) -> float:
        """The lock period. If none is given, nothing is removed within the years of the plan."""
        return self.course.years if self.course.retention_years is None else self.course.retention_years

    @property
    def removal(self) -> str:
        """When objects are removed, in words."""
        if self.course.retention_years is None:
            return "nothing is removed"
        return f"objects are removed after {format_duration(self.course.retention_years * YEAR_SECONDS)}"

    def stored_bytes(self, year: Year) -> float:
        """Return what each platform stores at the end of a year, with its copies or parity."""
        return year.bytes_kept * self.limits.redundancy / year.platforms.value

    def restored_bytes(self, year: Year) -> float:
        """Return the bytes to restore after a loss at the end of a year. A given size grows like the load."""
        today = self.load.restore_bytes if self.limits.restore_bytes is None else self.limits.restore_bytes
        return year.bytes_kept if today is None else today * self._grown(year.year)

    @property
    def terabyte_years(self) -> float:
        """Return 10^12 bytes retained for a year each, over all years of the plan."""
        retention, years = self.retention_years, self.course.years

        def area(age: float) -> float:  # years that a constant arrival of one a year is kept, up to this age
            return age**2 / 2 if age <= retention else retention * (age - retention / 2)

        arrived = ((year, self._arrived(year)) for year in range(1, years + 1))
        return sum(bytes_ * (area(years - year + 1) - area(years - year)) for year, bytes_ in arrived) / 1e12

    @property
    def trials(self) -> tuple[WhatIf, ...]:
        """Return the answers for fewer and more units, including the two around the limit."""
        last = int(self.units_max.value)
        remarks = {last: "the last that fits", last + 1: "no longer fits", self.load.units: "asked for"}
        steps = {math.ceil(self.load.units * share) for share in (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4)}
        return tuple(
            self._what_if(units, remarks.get(units, "")) for units in sorted(steps | set(remarks)) if units > 0
        )

    def _what_if(self, units: int, remark: str) -> WhatIf:
        seconds = self.seconds_for(units)
        platforms = replace(self, load=replace(self.load, units=units)).last_year.platforms
        return WhatIf(units, seconds, self.fits(seconds.value), platforms, remark)

    def _grown(self, year: int) -> float:
        return (1 + self.course.growth_share) ** (year - 1)

    def _arrived(self, year: int) -> float:
        """Return the bytes archived in a year."""
        return self.load.bytes * self.load.mean_share * self.load.periods_per_year * self._grown(year)

    def _year(self, year: int) -> Year:
        arrived = self._arrived(year)
        # Add up the part of each year that arrived within the retention period before the end of this year.
        kept = sum(
            self._arrived(each) * min(1.0, max(0.0, self.retention_years - (year - each)))
            for each in range(1, year + 1)
        )
        per_byte = self.load.objects / self.load.bytes
        seconds = self.seconds.times(self._grown(year))
        found = Year(year, arrived * per_byte, arrived, kept * per_byte, kept, seconds, ())
        return replace(found, needs=tuple(self._needs(found)))

    def _needs(self, year: Year) -> Iterator[Need]:
        free = 1 - self.course.headroom_share
        yield Need("archive rate", year.archive_seconds.times(1 / (self.load.window_seconds * free)))
        if self.limits.usable_bytes is not None:
            yield Need(
                "capacity", _exactly(year.bytes_kept * self.limits.redundancy / (self.limits.usable_bytes * free))
            )
        if self.limits.objects_max is not None:
            yield Need("objects", _exactly(year.objects_kept / self.limits.objects_max))
        if self.limits.restore_seconds is not None and self.restore is not None:
            restored = self.restored_bytes(year)
            yield Need("restore time", self.restore.seconds_per_byte.times(restored / self.limits.restore_seconds))


def _exactly(value: float) -> Range:
    return Range(value, value, value)


def _rounded(found: Range, rounding: Callable[[float], int]) -> Range:
    low, high = (None if end is None else float(rounding(end)) for end in (found.low, found.high))
    return Range(float(rounding(found.value)), low, high)


def _whole(units: float) -> int:
    return math.floor(units + ROUNDING)


def _at_least_one(platforms: float) -> int:
    return max(1, math.ceil(platforms - ROUNDING))
