"""The platforms that loads need, year by year: by archive rate, capacity, number of objects and restore time.

The time for one period of a load is its objects divided by the rates of a ``RateSurface``. The number of platforms is
the largest of several needs. Ranges of rates are propagated, and no other uncertainty is added. If a rate has no range,
the answers that use it have none. Where a range contains a limit, its slow end decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from archiver.values.sizes import format_duration
from results.measures.ranges import Range, combined
from results.planning.kept import (
    DAYS_PER_YEAR,
    EVERY_DAY,
    CycleDay,
    Days,
    arrived_by_day,
    fullest_by_year,
    kept_by_day,
    terabyte_years_by_year,
    total_by_year,
)
from results.planning.loads import DAY_SECONDS, HOUR_SECONDS, Layout, LoadCourse, PlatformLimits
from results.planning.rate_surface import MixedTrial, PlannedRate

ROUNDING = 1e-9  # allowed error of a quotient that should be a whole number
Reason = Literal["archive rate", "capacity", "objects", "restore time", "discovery time"]


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
    cycle: tuple[CycleDay, ...] = EVERY_DAY
    restore_bytes: float | None = None  # amount to restore after a loss; None: everything that is kept
    periods_per_day: float = 1.0  # busiest periods that a day's bytes fill

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


@dataclass(frozen=True, slots=True)
class Need:
    """The number of platforms that one reason requires; ``exact`` is not rounded."""

    reason: Reason
    exact: Range

    @property
    def deciding(self) -> float:
        """The number at the slow end of the range, or the value if the range is unknown."""
        return slow_end(self.exact)

    @property
    def platforms(self) -> Range:
        """The whole platforms to buy, with those at the ends of the range."""
        return replace(_rounded(self.exact, _at_least_one), value=float(_at_least_one(self.deciding)))


@dataclass(frozen=True, slots=True)
class Year:
    """One year of the course, from 1."""

    year: int
    objects: float  # archived in it
    bytes_archived: float
    objects_kept: float  # on its fullest day
    bytes_kept: float  # on its fullest day
    bytes_stored: float  # on its fullest day, on all platforms
    window_share: Range  # of the window, for the busiest period on one platform
    needs: tuple[Need, ...]

    @property
    def decided_by(self) -> Need:
        """The need for the most platforms; of equal needs, the one with the largest unrounded number."""
        return max(self.needs, key=lambda need: need.deciding)

    @property
    def platforms(self) -> Range:
        """The number of platforms that satisfies every need."""
        return combined(max, [need.platforms for need in self.needs])

    @property
    def bytes_stored_per_platform(self) -> float:
        return self.bytes_stored / self.platforms.value


@dataclass(frozen=True, slots=True)
class Restore:
    """The retrieval of much of the kept data after a loss."""

    rates: tuple[PlannedRate, ...]  # in the order of the load's parts
    seconds_per_byte: Range  # of one platform

    @property
    def clients(self) -> int:
        return self.rates[0].clients


@dataclass(frozen=True, slots=True)
class Discovery:
    """The retrieval of the objects of several users within a time, with all platforms."""

    users: int
    objects: int  # of each user
    allowed_seconds: float
    layout: Layout
    rate: PlannedRate  # of one platform

    @property
    def user_seconds(self) -> Range:
        """The time to retrieve one user's objects from one platform."""
        return self.rate.objects_per_second.quotient_of(self.objects)

    def seconds(self, platforms: float) -> Range:
        """Return the time with this many platforms. Users whose objects are on one platform wait for each other."""
        if self.layout == "spread":
            return self.user_seconds.times(self.users / platforms)
        return self.user_seconds.times(math.ceil(self.users / platforms))

    def fits(self, seconds: float) -> bool:
        return seconds <= self.allowed_seconds * (1 + ROUNDING)

    @property
    def platforms(self) -> Range:
        """The platforms that retrieve everything in time, not rounded. Infinite: one user's objects take too long."""
        if self.layout == "spread":
            return self.user_seconds.times(self.users / self.allowed_seconds)
        return combined(lambda ends: self._with_whole_users(ends[0]), [self.user_seconds])

    def _with_whole_users(self, user_seconds: float) -> float:
        users_each = math.floor(self.allowed_seconds / user_seconds + ROUNDING)
        return self.users / users_each if users_each else math.inf


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
    discovery: Discovery | None = None  # None: no time for it is given
    extension: tuple[PlannedRate, ...] = ()  # of locks, in the order of the load's parts; empty: none, or not measured
    footprint: float | None = None  # bytes on the platform's disks for each byte of its objects; None: unknown
    mixed: MixedTrial | None = None  # what the run archived next to other loads with these clients; None: not measured

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

    @property
    def seconds_allowed(self) -> float:
        """The part of the window that one platform may use."""
        return self.load.window_seconds * (1 - self.course.headroom_share)

    def fits(self, seconds: float) -> bool:
        return seconds <= self.seconds_allowed * (1 + ROUNDING)

    def is_certain_to_fit(self, seconds: Range) -> bool:
        """Return whether a time fits at the slow end of its range."""
        return self.fits(slow_end(seconds))

    @property
    def units_max(self) -> Range:
        """Return the most units that one platform archives within the window, with headroom.

        The value is the mean of the range, which is not certain to fit. ``units_certain`` is.
        """
        return _rounded(self.seconds_for(1).quotient_of(self.seconds_allowed), _whole)

    @property
    def units_certain(self) -> int:
        """Return the most units that fit at the slow end of the range."""
        found = self.units_max
        return int(found.value if found.low is None else found.low)

    @property
    def objects_per_second(self) -> Range:
        """Return the rate of the whole load on one platform: all its objects divided by their time."""
        return self.seconds_for(1).quotient_of(self.load.objects_per_unit)

    @property
    def megabytes_per_second(self) -> Range:
        return self.objects_per_second.times(self.load.bytes_per_unit / self.load.objects_per_unit / 1e6)

    @property
    def years(self) -> tuple[Year, ...]:
        return Sizing((self,)).years

    @property
    def last_year(self) -> Year:
        """The year for which the platforms are bought."""
        return self.years[-1]

    @property
    def lock_days(self) -> float:
        """The days for which an object is kept. Infinite: nothing is removed within the years of the plan."""
        course = self.course
        if course.retention_years is None:
            return math.inf
        return max(course.retention_years, course.lock_years or 0.0) * DAYS_PER_YEAR + course.lock_extra_days

    @property
    def removal(self) -> str:
        """When objects are removed, in words."""
        if self.course.retention_years is None:
            return "nothing is removed"
        chain = ", with the whole chain of a full backup" if self.load.cycle[0].chain_days else ""
        held = f"; {self.course.held_share:.0%} are held and never removed" if self.course.held_share else ""
        return f"objects are removed after {format_duration(self.lock_days * DAY_SECONDS)}{chain}{held}"

    @property
    def arrived_by_day(self) -> Days:
        """The bytes that are archived on each day of the plan."""
        busiest = self.load.bytes * self.load.periods_per_day
        return arrived_by_day(self.load.cycle, [busiest * self.grown(year) for year in range(1, self.course.years + 1)])

    @property
    def kept_by_day(self) -> Days:
        """The bytes kept at the end of each day of the plan."""
        return self.kept_for(self.lock_days)

    def kept_for(self, days: float) -> Days:
        """Return the bytes kept at the end of each day, if objects that are not held are removed after these days."""
        arrived, held = self.arrived_by_day, self.course.held_share
        limited = kept_by_day(arrived, self.load.cycle, days)
        return limited if not held else (1 - held) * limited + held * kept_by_day(arrived, self.load.cycle, math.inf)

    def removed_bytes(self, year: int) -> float:
        """Return the bytes that are removed in a year."""
        last = year * DAYS_PER_YEAR - 1
        kept = self.kept_by_day
        before = kept[last - DAYS_PER_YEAR] if year > 1 else 0.0
        return total_by_year(self.arrived_by_day)[year - 1] - float(kept[last] - before)

    @property
    def bytes_beyond_retention(self) -> float:
        """The most bytes in the last year that are kept although their retention is over."""
        if self.course.retention_years is None:
            return 0.0
        needed = kept_by_day(self.arrived_by_day, EVERY_DAY, self.course.retention_years * DAYS_PER_YEAR)
        return fullest_by_year(self.kept_by_day - needed)[-1]

    def extensions_per_day(self, year: int) -> float:
        """Return the locks to extend on the busiest day of a year, if extensions are spread evenly."""
        every = self.course.extend_every_days
        return 0.0 if every is None else fullest_by_year(self.kept_by_day)[year - 1] * self.objects_per_byte / every

    def window_share(self, year: int) -> Range:
        """Return the share of one platform's time in a year: of the window to archive, and of the day to extend."""
        archive = self.seconds.times(self.grown(year) / self.load.window_seconds)
        if not self.extension:
            return archive
        objects = self.extensions_per_day(year) / self.load.objects_per_unit
        extend = [
            rate.objects_per_second.quotient_of(objects * part.objects_per_unit / DAY_SECONDS)
            for part, rate in zip(self.load.parts, self.extension, strict=True)
        ]
        return combined(sum, [archive, *extend])

    @property
    def stored_per_byte(self) -> float:
        """The bytes that platforms store for each byte of an object. An unknown footprint counts as 1."""
        return self.limits.redundancy * (self.footprint or 1.0) / self.limits.reduction

    @property
    def objects_per_byte(self) -> float:
        return self.load.objects / self.load.bytes

    def restored_bytes(self, year: int) -> float:
        """Return the bytes to restore after a loss in a year. A given size grows like the load."""
        today = self.load.restore_bytes if self.limits.restore_bytes is None else self.limits.restore_bytes
        return fullest_by_year(self.kept_by_day)[year - 1] if today is None else today * self.grown(year)

    @property
    def terabyte_years(self) -> float:
        """Return 10^12 bytes kept for a year each, over all years of the plan."""
        return sum(terabyte_years_by_year(self.kept_by_day))

    @property
    def trials(self) -> tuple[WhatIf, ...]:
        """Return the answers for fewer and more units, including the two around the limit."""
        last = self.units_certain
        remarks = {last: "the last that fits", last + 1: "no longer fits", self.load.units: "asked for"}
        steps = {math.ceil(self.load.units * share) for share in (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4)}
        return tuple(
            self._what_if(units, remarks.get(units, "")) for units in sorted(steps | set(remarks)) if units > 0
        )

    def _what_if(self, units: int, remark: str) -> WhatIf:
        seconds = self.seconds_for(units)
        platforms = replace(self, load=replace(self.load, units=units)).last_year.platforms
        return WhatIf(units, seconds, self.is_certain_to_fit(seconds), platforms, remark)

    def grown(self, year: int) -> float:
        """Return the load of a year relative to today's. What a step adds grows as well."""
        growth = 1 + self.course.growth_share
        steps = sum(share * growth ** (year - first) for first, share in self.course.steps if first <= year)
        return growth ** (year - 1) + steps


@dataclass(frozen=True, slots=True)
class Sizing:
    """The platforms that loads need on the same platforms, which have the limits of the first load.

    The rule for several loads: a platform is busy with them one after another, and all windows coincide. So the shares
    of the window add up, and so do the bytes of each day. All restores happen at the same time. If the run measured
    loads at the same time, the window keeps at least the headroom free that this showed to be necessary.
    """

    loads: tuple[Archiving, ...]

    @property
    def window_headroom_share(self) -> float:
        given = self.loads[0].course.headroom_share
        if len(self.loads) == 1:
            return given
        return max(given, *(1 - each.mixed.share for each in self.loads if each.mixed is not None), 0.0)

    @property
    def years(self) -> tuple[Year, ...]:
        kept = [each.kept_by_day for each in self.loads]
        arrived = [total_by_year(each.arrived_by_day) for each in self.loads]
        per_byte = [each.objects_per_byte for each in self.loads]
        ones = [1.0] * len(self.loads)
        bytes_kept = _fullest(kept, ones)
        objects_kept = _fullest(kept, per_byte)
        bytes_stored = _fullest(kept, [each.stored_per_byte for each in self.loads])
        found = []
        for place in range(self.loads[0].course.years):
            archived = [of_load[place] for of_load in arrived]
            year = Year(
                place + 1,
                sum(bytes_ * each for bytes_, each in zip(archived, per_byte, strict=True)),
                sum(archived),
                objects_kept[place],
                bytes_kept[place],
                bytes_stored[place],
                combined(sum, [each.window_share(place + 1) for each in self.loads]),
                (),
            )
            found.append(replace(year, needs=tuple(self._needs(year))))
        return tuple(found)

    def _needs(self, year: Year) -> Iterator[Need]:
        limits, free = self.loads[0].limits, 1 - self.loads[0].course.headroom_share
        yield Need("archive rate", year.window_share.times(1 / (1 - self.window_headroom_share)))
        if limits.usable_bytes is not None:
            yield Need("capacity", _exactly(year.bytes_stored / (limits.usable_bytes * free)))
        if limits.objects_max is not None:
            yield Need("objects", _exactly(year.objects_kept / limits.objects_max))
        restores = [
            each.restore.seconds_per_byte.times(each.restored_bytes(year.year) / each.limits.restore_seconds)
            for each in self.loads
            if each.limits.restore_seconds is not None and each.restore is not None
        ]
        if restores:
            yield Need("restore time", combined(sum, restores))
        discoveries = [each.discovery.platforms for each in self.loads if each.discovery is not None]
        if discoveries:
            yield Need("discovery time", combined(sum, discoveries))


def _fullest(kept: Sequence[Days], factors: Sequence[float]) -> list[float]:
    """Return the fullest day of each year over all loads, each multiplied by its factor."""
    first, *others = (days * factor for days, factor in zip(kept, factors, strict=True))
    return fullest_by_year(sum(others, first))


def slow_end(found: Range) -> float:
    """Return the slow end of a range of seconds or platforms, or the value if the range is unknown."""
    return found.value if found.high is None else found.high


def _exactly(value: float) -> Range:
    return Range(value, value, value)


def _rounded(found: Range, rounding: Callable[[float], int]) -> Range:
    low, high = (None if end is None else float(rounding(end)) for end in (found.low, found.high))
    return Range(float(rounding(found.value)), low, high)


def _whole(units: float) -> int:
    return math.floor(units + ROUNDING)


def _at_least_one(platforms: float) -> int:
    return max(1, math.ceil(platforms - ROUNDING))
