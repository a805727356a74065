"""Capacity plans for mail, cameras, and any mix of sizes, from measured rates.

A load is a number of users, cameras or objects a day, each with a number of objects in a period. Everything else
follows from the time for one period: its objects divided by the rates of a ``RateSurface``. Plans propagate uncertainty
and never add any. If a rate has no range, no answer has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from archiver.values.errors import ResultsError, UsageError
from results.planning.rate_surface import PlannedRate, Range, RateCell, RateSurface

DAYS_PER_YEAR = 365
HOUR_SECONDS = 3600.0
VIDEO_OBJECTS_PER_SESSION = 100  # of cameras, as in the paper's example
_ROUNDING = 1e-9  # allowed error of a quotient that should be a whole number


@dataclass(frozen=True, slots=True)
class Part:
    """Objects of one size in a load."""

    object_bytes: int
    objects_per_unit: float  # in a period


@dataclass(frozen=True, slots=True)
class Load:
    """The objects to archive in a period, and the time for that."""

    unit: str  # user, camera, object
    units: int
    parts: tuple[Part, ...]
    objects_per_session: int
    period: str  # day, hour
    window_seconds: float

    @property
    def objects_per_unit(self) -> float:
        return sum(part.objects_per_unit for part in self.parts)

    @property
    def objects(self) -> int:
        return math.ceil(self.units * self.objects_per_unit - _ROUNDING)

    @property
    def sessions(self) -> int:
        return math.ceil(self.objects / self.objects_per_session)

    @property
    def bytes(self) -> float:
        return self.units * sum(part.objects_per_unit * part.object_bytes for part in self.parts)

    @property
    def a_period(self) -> str:
        return "an hour" if self.period == "hour" else f"a {self.period}"

    @property
    def time_unit(self) -> tuple[str, float]:
        """Return (name, seconds) of a readable unit for the window."""
        return ("hours", HOUR_SECONDS) if self.window_seconds > 2 * HOUR_SECONDS else ("minutes", 60.0)

    @property
    def periods_per_year(self) -> int:
        return DAYS_PER_YEAR * (24 if self.period == "hour" else 1)


@dataclass(frozen=True, slots=True)
class LoadCourse:
    """The development of the load over the years."""

    years: int  # retention period: nothing is removed earlier
    growth_share: float = 0.0  # growth of the load from one year to the next
    headroom_share: float = 0.2  # part of the window that a platform keeps free


@dataclass(frozen=True, slots=True)
class Year:
    """One year of the course, from 1."""

    year: int
    objects: float
    bytes_archived: float
    bytes_kept: float  # at its end; nothing is removed within the retention period
    archive_seconds: Range  # of one period
    platforms: Range


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
    """The time for a period of a load on one platform, and its consequences."""

    load: Load
    course: LoadCourse
    rates: tuple[PlannedRate, ...]  # in the order of the load's parts

    @property
    def seconds(self) -> Range:
        return self.seconds_for(self.load.units)

    def seconds_for(self, units: float) -> Range:
        """Return the time of one period with this many units, on one platform with the measured clients."""
        times = [
            rate.objects_per_second.time_for(units * part.objects_per_unit)
            for part, rate in zip(self.load.parts, self.rates, strict=True)
        ]
        return together(times)

    def fits(self, seconds: float) -> bool:
        return seconds <= self.load.window_seconds

    @property
    def units_max(self) -> Range:
        """Return the most units that one platform handles within the window, without headroom."""
        each = self.seconds_for(1)
        return _rounded(Range(self.load.window_seconds / each.value, *_inverse(each, self.load.window_seconds)), _whole)

    def platforms(self, seconds: Range) -> Range:
        """Return the platforms needed for one period within the window, with the headroom free on each."""
        return _rounded(seconds.times(1 / (self.load.window_seconds * (1 - self.course.headroom_share))), _at_least_one)

    @property
    def objects_per_second(self) -> Range:
        """Return the rate of the whole load on one platform: all its objects divided by their time."""
        seconds, objects = self.seconds_for(1), self.load.objects_per_unit
        return Range(objects / seconds.value, *_inverse(seconds, objects))

    @property
    def megabytes_per_second(self) -> Range:
        mean_bytes = self.load.bytes / self.load.units / self.load.objects_per_unit
        return self.objects_per_second.times(mean_bytes / 1e6)

    @property
    def years(self) -> tuple[Year, ...]:
        found = []
        kept = 0.0
        for year in range(1, self.course.years + 1):
            grown = (1 + self.course.growth_share) ** (year - 1)
            periods = self.load.periods_per_year * grown
            kept += self.load.bytes * periods
            seconds = self.seconds.times(grown)
            archived = self.load.bytes * periods
            found.append(Year(year, self.load.objects * periods, archived, kept, seconds, self.platforms(seconds)))
        return tuple(found)

    @property
    def terabyte_years(self) -> float:
        """Return 10^12 bytes retained for a year each, over all years. Data counts half in the year of its arrival."""
        return sum(year.bytes_kept - year.bytes_archived / 2 for year in self.years) / 1e12

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
        return WhatIf(units, seconds, self.fits(seconds.value), self.platforms(seconds), remark)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The time to retrieve objects."""

    what: str  # one message, a film, ...
    objects: int  # objects of each retrieval
    parallel: int  # retrievals at the same time
    parts: tuple[tuple[float, PlannedRate], ...]  # share of the objects, and the rate of one client alone
    overlapping: PlannedRate | None = None  # measured with several clients; None: no overlap is assumed
    is_stream: bool = False  # played during retrieval, so its start time matters

    @property
    def seconds(self) -> Range:
        """Return the time until the last parallel retrieval ends."""
        if self.overlapping is None:
            return self.seconds_alone.times(self.parallel)
        return self.overlapping.objects_per_second.time_for(self.objects * self.parallel)

    @property
    def seconds_alone(self) -> Range:
        """Return the time of one retrieval without other load."""
        return self.milliseconds_per_object.times(self.objects / 1000)

    @property
    def milliseconds_per_object(self) -> Range:
        """Return the mean. With one object per session it is the mean session time."""
        return together([rate.objects_per_second.time_for(1000 * share) for share, rate in self.parts])

    @property
    def cells(self) -> tuple[RateCell, ...]:
        return tuple(cell for _, rate in self.parts for cell in rate.cells)

    @property
    def p99_ms(self) -> float | None:
        """Return the percentile of sessions of a single object. Of several sizes, the slowest counts."""
        known = [cell.session_p99_ms for cell in self.cells if cell.session_p99_ms is not None]
        one_each = all(rate.column == rate.objects_per_session == 1 for _, rate in self.parts)
        return max(known) if one_each and len(known) == len(self.cells) else None

    @property
    def first_byte_ms(self) -> float | None:
        """Return the mean: opening the session, then the first byte of the first object."""
        return max((cell.first_byte_ms for cell in self.cells if cell.first_byte_ms is not None), default=None)

    @property
    def first_byte_p99_ms(self) -> float | None:
        return max((cell.first_byte_p99_ms for cell in self.cells if cell.first_byte_p99_ms is not None), default=None)


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """The answers to one question."""

    kind: str  # mail, video, retrieve, size
    surface: RateSurface
    archiving: Archiving | None = None
    single: Retrieval | None = None  # one object in a separate session
    retrieval: Retrieval | None = None
    unanswered: tuple[str, ...] = ()  # questions that this source cannot answer, and why

    @property
    def rates(self) -> tuple[PlannedRate, ...]:
        """Return every rate that an answer uses, once."""
        found = list(self.archiving.rates) if self.archiving else []
        for retrieval in (self.single, self.retrieval):
            if retrieval is not None:
                found += [rate for _, rate in retrieval.parts]
                found += [retrieval.overlapping] if retrieval.overlapping else []
        return tuple(dict.fromkeys(found))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return the extrapolations."""
        return tuple(dict.fromkeys(f"{rate.operation}: {warning}" for rate in self.rates for warning in rate.warnings))

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return the warnings about the answers: about the source, then about every cell used."""
        of_cells = [f"{cell}: {doubt}" for rate in self.rates for cell in rate.cells for doubt in cell.doubts]
        return tuple(dict.fromkeys([*self.surface.remarks, *of_cells]))


def plan_mail(
    surface: RateSurface,
    *,
    users: int,
    messages: int,
    mean_bytes: int,
    course: LoadCourse,
    window_seconds: float,
    objects_per_session: int | None = None,
    discovery_users: int = 1,
    discovery_messages: int | None = None,
) -> CapacityPlan:
    """Plan mailboxes: a day's messages of every user, one session per user unless ``objects_per_session`` is given.

    Discovery retrieves ``discovery_messages`` (default: a day's) of each of ``discovery_users``, with a session for
    each user. Raises UsageError for numbers that make no load. Raises ResultsError if there is no archive measurement
    near it.
    """
    load = Load("user", users, (Part(mean_bytes, messages),), objects_per_session or messages, "day", window_seconds)
    archiving = plan_archiving(surface, load, course)
    wanted = discovery_messages or messages
    _check_positive(discovery_users=discovery_users, discovery_messages=wanted)
    plan = CapacityPlan("mail", surface, archiving)
    messages_alike = ((mean_bytes, 1.0),)
    single = _Wish("one message", messages_alike, 1, 1)
    everything = _Wish(
        f"{wanted:,} messages of {discovery_users:,} user{'' if discovery_users == 1 else 's'}",
        messages_alike,
        wanted * discovery_users,
        wanted,
    )
    return _with_retrievals(plan, single, everything)


def plan_video(
    surface: RateSurface,
    *,
    cameras: int,
    bytes_per_second: float,
    course: LoadCourse,
    objects_per_session: int = VIDEO_OBJECTS_PER_SESSION,
    film_bytes: int | None = None,
) -> CapacityPlan:
    """Plan cameras: an hour of every stream is archived within an hour, in objects of the largest measured size.

    A film (default: an hour of one camera; ``film_bytes`` changes it) is retrieved as a stream of such objects, one per
    session. Raises UsageError for numbers that make no load, ResultsError if archiving was not measured.
    """
    if not (math.isfinite(bytes_per_second) and bytes_per_second > 0):
        raise UsageError(f"a stream of {bytes_per_second:g} bytes per second archives nothing; it must be above zero")
    size = surface.size_max("archive")
    hourly = bytes_per_second * HOUR_SECONDS
    load = Load("camera", cameras, (Part(size, hourly / size),), objects_per_session, "hour", HOUR_SECONDS)
    plan = CapacityPlan("video", surface, plan_archiving(surface, load, course))
    try:
        film_size = surface.size_max("retrieve")
    except ResultsError as error:
        return replace(plan, unanswered=(str(error),))
    objects = math.ceil((film_bytes or hourly) / film_size - _ROUNDING)
    what = "a film" if film_bytes else "an hour of one camera"
    alike = ((film_size, 1.0),)
    return _with_retrievals(plan, _Wish("one object", alike, 1, 1), _Wish(what, alike, objects, 1, is_stream=True))


def plan_retrieve(
    surface: RateSurface, *, size_bytes: int, parallel: int = 1, objects_per_session: int = 1
) -> CapacityPlan:
    """Plan ``parallel`` simultaneous retrievals of ``size_bytes`` each.

    Up to the largest measured size it is one object. Above, it is a stream of objects of that size, one per session
    unless ``objects_per_session`` is given. Raises UsageError for nothing to retrieve. Raises ResultsError if there is
    no retrieve measurement near it.
    """
    _check_positive(size_bytes=size_bytes, parallel=parallel, objects_per_session=objects_per_session)
    largest = surface.size_max("retrieve")
    if size_bytes <= largest:
        wish = _Wish("one object", ((size_bytes, 1.0),), 1, objects_per_session, parallel)
    else:
        objects = math.ceil(size_bytes / largest)
        wish = _Wish("a film", ((largest, 1.0),), objects, objects_per_session, parallel, is_stream=True)
    return CapacityPlan("retrieve", surface, retrieval=_retrieval(surface, wish))


def plan_size(
    surface: RateSurface,
    *,
    objects_per_day: int,
    shares: Sequence[tuple[int, float]],
    course: LoadCourse,
    window_seconds: float,
    objects_per_session: int = 1,
) -> CapacityPlan:
    """Plan any mix. ``shares`` are (object bytes, share of the objects), which sum to 1.

    Raises UsageError for numbers that make no load. Raises ResultsError if there is no archive measurement near it.
    """
    parts = tuple(Part(size, share) for size, share in shares)
    load = Load("object", objects_per_day, parts, objects_per_session, "day", window_seconds)
    plan = CapacityPlan("size", surface, plan_archiving(surface, load, course))
    single = _Wish("one object", tuple(shares), 1, 1)
    return _with_retrievals(plan, single, _Wish("a day's objects", tuple(shares), objects_per_day, objects_per_session))


def plan_archiving(surface: RateSurface, load: Load, course: LoadCourse, clients: int = 1) -> Archiving:
    """Check a load and its course, and find the rates of ``clients`` together. Raises UsageError and ResultsError."""
    _check_positive(**{f"{load.unit}s": load.units}, objects_per_session=load.objects_per_session, years=course.years)
    for part in load.parts:
        _check_positive(object_bytes=part.object_bytes, objects=part.objects_per_unit)
    if not load.window_seconds > 0:
        raise UsageError(f"a window of {load.window_seconds:g} s holds nothing; it must be above zero")
    if not 0 <= course.headroom_share < 1:
        raise UsageError(f"a headroom of {course.headroom_share:.0%} leaves no room for the load; choose 0% to 99%")
    rates = tuple(surface.rate("archive", part.object_bytes, load.objects_per_session, clients) for part in load.parts)
    return Archiving(load, course, rates)


def together(ranges: Sequence[Range]) -> Range:
    """Return the sum. Its ends are the sums of the ends, as if all errors had the same sign."""
    lows = [each.low for each in ranges if each.low is not None]
    highs = [each.high for each in ranges if each.high is not None]
    known = len(lows) == len(highs) == len(ranges)
    return Range(sum(each.value for each in ranges), sum(lows) if known else None, sum(highs) if known else None)


@dataclass(frozen=True, slots=True)
class _Wish:
    """A retrieval that a plan asks about."""

    what: str
    shares: tuple[tuple[int, float], ...]  # object bytes, share of the objects
    objects: int
    objects_per_session: int
    parallel: int = 1
    is_stream: bool = False


def _with_retrievals(plan: CapacityPlan, single: _Wish, everything: _Wish) -> CapacityPlan:
    """Add the source's answers about retrieval to the plan, and the reasons for missing ones."""
    found: list[Retrieval | None] = []
    unanswered = list(plan.unanswered)
    for wish in (single, everything):
        try:
            found.append(_retrieval(plan.surface, wish))
        except ResultsError as error:
            found.append(None)
            unanswered.append(str(error))
    return replace(plan, single=found[0], retrieval=found[1], unanswered=tuple(dict.fromkeys(unanswered)))


def _retrieval(surface: RateSurface, wish: _Wish) -> Retrieval:
    parts = tuple(
        (share, surface.rate("retrieve", size_bytes, wish.objects_per_session)) for size_bytes, share in wish.shares
    )
    overlapping = surface.parallel_rate(parts[0][1], wish.parallel) if len(parts) == 1 and wish.parallel > 1 else None
    return Retrieval(wish.what, wish.objects, wish.parallel, parts, overlapping, wish.is_stream)


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not (math.isfinite(number) and number > 0):
            raise UsageError(f"{name.replace('_', ' ')}: {number:g} is no load; it must be above zero")


def _inverse(seconds: Range, numerator: float) -> tuple[float | None, float | None]:
    """Return the ends of numerator / seconds."""
    if seconds.low is None or seconds.high is None:
        return None, None
    return numerator / seconds.high, numerator / seconds.low


def _rounded(found: Range, rounding: Callable[[float], int]) -> Range:
    low, high = (None if end is None else float(rounding(end)) for end in (found.low, found.high))
    return Range(float(rounding(found.value)), low, high)


def _whole(units: float) -> int:
    return math.floor(units + _ROUNDING)


def _at_least_one(platforms: float) -> int:
    return max(1, math.ceil(platforms - _ROUNDING))
