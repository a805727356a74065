"""Capacity plans for mail, cameras, any mix of sizes, and backups, from measured rates.

A load is a number of users, cameras, objects or gigabytes, each with a number of objects in a period. The time for one
period is its objects divided by the rates of a ``RateSurface``. The number of platforms is the largest of several
needs: archive rate, capacity, number of objects, and restore time. Plans propagate the range of a rate and add no
other uncertainty. If a rate has no range, the answers that use it have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from archiver.values.errors import ResultsError, UsageError
from archiver.values.sizes import format_bytes, format_duration
from results.measures.ranges import Range, combined
from results.planning.loads import (
    HOUR_SECONDS,
    YEAR_SECONDS,
    BackupLoad,
    LoadCourse,
    MailLoad,
    PlanRequest,
    PlatformLimits,
    RetrieveLoad,
    SizeLoad,
    VideoLoad,
)
from results.planning.rate_surface import PlannedRate, RateCell, RateSurface

DAYS_PER_YEAR = 365
GB = 10**9
_ROUNDING = 1e-9  # allowed error of a quotient that should be a whole number
_EMPTY_SHARE = 0.01  # of the planned fill level; a platform with less counts as empty
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
        return math.ceil(self.units * self.objects_per_unit - _ROUNDING)

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


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The time to retrieve objects."""

    what: str  # one message, a film, ...
    objects: int  # objects of each retrieval
    parallel: int  # retrievals at the same time
    parts: tuple[tuple[float, PlannedRate], ...]  # share of the objects, and the rate of the fewest clients measured
    overlapping: PlannedRate | None = None  # measured with more clients; None: no more overlap is assumed
    is_stream: bool = False  # played during retrieval, so its start time matters

    @property
    def seconds(self) -> Range:
        """Return the time until the last parallel retrieval ends."""
        if self.overlapping is None:
            return self.seconds_alone.times(max(1.0, self.parallel / self.clients))
        return self.overlapping.objects_per_second.quotient_of(self.objects * self.parallel)

    @property
    def clients(self) -> int:
        """The clients that retrieve at the same time, as it was measured; 1: this retrieval is alone."""
        return self.parts[0][1].clients

    @property
    def seconds_alone(self) -> Range:
        """Return the time of one retrieval by one client, next to the other clients of its cells."""
        return self.milliseconds_per_object.times(self.objects / 1000)

    @property
    def milliseconds_per_object(self) -> Range:
        """Return the mean for one client. With one object per session it is the mean session time."""
        return combined(
            sum, [rate.objects_per_second.quotient_of(1000 * share * rate.clients) for share, rate in self.parts]
        )

    @property
    def cells(self) -> tuple[RateCell, ...]:
        return tuple(cell for _, rate in self.parts for cell in rate.cells)

    @property
    def p99_ms(self) -> float | None:
        """Return the 99th percentile of sessions with one object; the largest if there are several sizes."""
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

    kind: str  # mail, video, retrieve, size, backup
    surface: RateSurface
    archiving: Archiving | None = None
    single: Retrieval | None = None  # one object in a separate session
    retrieval: Retrieval | None = None
    unanswered: tuple[str, ...] = ()  # questions that the source of the rates cannot answer, with the reason

    @property
    def rates(self) -> tuple[PlannedRate, ...]:
        """Return every rate that an answer uses, once."""
        found = list(self.archiving.rates) if self.archiving else []
        if self.archiving is not None and self.archiving.restore is not None:
            found += self.archiving.restore.rates
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
        """Return the warnings about the answers: about the source, the fill level, then about every cell used."""
        cells: dict[str, dict[str, None]] = {}
        for cell in (cell for rate in self.rates for cell in rate.cells):
            for doubt in cell.doubts:
                cells.setdefault(doubt, {})[str(cell)] = None
        of_cells = [f"{', '.join(names)}: {doubt}" for doubt, names in cells.items()]
        return (*self.surface.remarks, *self._fill_level(), *of_cells)

    def _fill_level(self) -> Iterator[str]:
        """Yield a warning if the plan fills a platform more than it was filled when it was measured."""
        known = [cell.stored_bytes for rate in self.rates for cell in rate.cells if cell.stored_bytes is not None]
        if self.archiving is None or not known:
            return
        before = 0 if self.surface.disclosure is None else (self.surface.disclosure.used_tb or 0.0) * 1e12
        measured, planned = before + max(known), self.archiving.stored_bytes(self.archiving.last_year)
        if measured < planned:
            state = "an empty platform" if measured < _EMPTY_SHARE * planned else "a platform less full than planned"
            yield (
                f"measured on {state}: it stored at most {format_bytes(measured)}, but the plan stores "
                f"{format_bytes(planned)} on each platform; the rate at that fill level was not measured"
            )


def make_plan(surface: RateSurface, request: PlanRequest) -> CapacityPlan:
    """Return the plan that answers a request with these rates.

    Raises UsageError for invalid numbers, and ResultsError if there is no measurement near the load.
    """
    plan = _plan(surface, request)
    if plan.archiving is None or plan.archiving.limits.usable_bytes is not None:
        return plan
    kept = format_bytes(plan.archiving.last_year.bytes_kept)
    unknown = f"whether {kept} fit on the platforms: give the usable capacity of one platform with --usable"
    return replace(plan, unanswered=(*plan.unanswered, unknown))


def _plan(surface: RateSurface, request: PlanRequest) -> CapacityPlan:
    load = request.load
    if isinstance(load, MailLoad):
        return _plan_mail(surface, load, request)
    if isinstance(load, VideoLoad):
        return _plan_video(surface, load, request)
    if isinstance(load, SizeLoad):
        return _plan_size(surface, load, request)
    if isinstance(load, BackupLoad):
        return _plan_backup(surface, load, request)
    return _plan_retrieve(surface, load)


def _plan_mail(surface: RateSurface, mail: MailLoad, request: PlanRequest) -> CapacityPlan:
    load = Load(
        "user", mail.users, (Part(mail.mean_bytes, mail.messages),), mail.objects_per_session or mail.messages, "day",
        mail.window_seconds,
    )  # fmt: skip
    archiving = _plan_archiving(surface, load, request)
    wanted = mail.discovery_messages or mail.messages
    _check_positive(discovery_users=mail.discovery_users, discovery_messages=wanted)
    messages_alike = ((mail.mean_bytes, 1.0),)
    single = _Wish("one message", messages_alike, 1, 1)
    everything = _Wish(
        f"{wanted:,} messages of {mail.discovery_users:,} user{'' if mail.discovery_users == 1 else 's'}",
        messages_alike,
        wanted * mail.discovery_users,
        wanted,
    )
    return _with_retrievals(CapacityPlan(mail.kind, surface, archiving), single, everything)


def _plan_video(surface: RateSurface, video: VideoLoad, request: PlanRequest) -> CapacityPlan:
    per_second = video.bytes_per_second
    if not (math.isfinite(per_second) and per_second > 0):
        raise UsageError(f"a stream of {per_second:g} bytes per second is not possible; it must be above zero")
    size = surface.size_max("archive")
    hourly = per_second * HOUR_SECONDS
    load = Load("camera", video.cameras, (Part(size, hourly / size),), video.objects_per_session, "hour", HOUR_SECONDS)
    plan = CapacityPlan(video.kind, surface, _plan_archiving(surface, load, request))
    try:
        film_size = surface.size_max("retrieve")
    except ResultsError as error:
        return replace(plan, unanswered=(str(error),))
    objects = math.ceil((video.film_bytes or hourly) / film_size - _ROUNDING)
    what = "a film" if video.film_bytes else "an hour of one camera"
    alike = ((film_size, 1.0),)
    return _with_retrievals(plan, _Wish("one object", alike, 1, 1), _Wish(what, alike, objects, 1, is_stream=True))


def _plan_retrieve(surface: RateSurface, wanted: RetrieveLoad) -> CapacityPlan:
    size_bytes, count = wanted.size_bytes, wanted.objects_per_session
    _check_positive(size_bytes=size_bytes, parallel=wanted.parallel, objects_per_session=count)
    largest = surface.size_max("retrieve")
    if size_bytes <= largest:
        wish = _Wish("one object", ((size_bytes, 1.0),), 1, count, wanted.parallel)
    else:
        objects = math.ceil(size_bytes / largest)
        wish = _Wish("a film", ((largest, 1.0),), objects, count, wanted.parallel, is_stream=True)
    return CapacityPlan(wanted.kind, surface, retrieval=_retrieval(surface, wish))


def _plan_size(surface: RateSurface, mix: SizeLoad, request: PlanRequest) -> CapacityPlan:
    parts = tuple(Part(size, share) for size, share in mix.shares)
    load = Load("object", mix.objects_per_day, parts, mix.objects_per_session, "day", mix.window_seconds)
    plan = CapacityPlan(mix.kind, surface, _plan_archiving(surface, load, request))
    single = _Wish("one object", mix.shares, 1, 1)
    return _with_retrievals(
        plan, single, _Wish("a day's objects", mix.shares, mix.objects_per_day, mix.objects_per_session)
    )


def _plan_backup(surface: RateSurface, backup: BackupLoad, request: PlanRequest) -> CapacityPlan:
    _check_positive(full_bytes=backup.full_bytes, full_every_days=backup.full_every_days)
    if not 0 <= backup.change_share <= 1:
        raise UsageError(f"a change of {backup.change_share:.0%} a day is not possible; choose 0% to 100%")
    size = backup.object_bytes or surface.size_max("archive")
    load = Load(
        "gigabyte", math.ceil(backup.full_bytes / GB), (Part(size, GB / size),), backup.objects_per_session, "day",
        backup.window_seconds, mean_share=backup.mean_share, restore_bytes=backup.full_bytes,
    )  # fmt: skip
    plan = CapacityPlan(backup.kind, surface, _plan_archiving(surface, load, request))
    assert plan.archiving is not None
    try:
        restore = plan.archiving.restore or _restore(surface, load)
    except ResultsError as error:
        return replace(plan, unanswered=(str(error),))
    return replace(plan, archiving=replace(plan.archiving, restore=restore))


def _plan_archiving(surface: RateSurface, load: Load, request: PlanRequest) -> Archiving:
    """Return the archiving part of a plan, after a check of the load, its course and the limits."""
    course, limits = request.course, request.limits
    _check_positive(**{f"{load.unit}s": load.units}, objects_per_session=load.objects_per_session, years=course.years)
    for part in load.parts:
        _check_positive(object_bytes=part.object_bytes, objects=part.objects_per_unit)
    for name, limit in (
        ("retention", course.retention_years), ("usable capacity", limits.usable_bytes),
        ("objects of a platform", limits.objects_max), ("bytes to restore", limits.restore_bytes),
        ("time to restore", limits.restore_seconds), ("clients", request.clients),
    ):  # fmt: skip
        if limit is not None and not (math.isfinite(limit) and limit > 0):
            raise UsageError(f"{name}: {limit:g} is not possible; it must be above zero")
    if not load.window_seconds > 0:
        raise UsageError(f"a window of {load.window_seconds:g} s is not possible; it must be above zero")
    if not 0 <= course.headroom_share < 1:
        raise UsageError(f"a headroom of {course.headroom_share:.0%} leaves no room for the load; choose 0% to 99%")
    if not limits.redundancy >= 1:
        raise UsageError(f"a redundancy of {limits.redundancy:g} stores less than the kept data; choose 1 or more")
    rates = surface.fastest("archive", _mix(load), load.objects_per_session, request.clients)
    restore = None if limits.restore_seconds is None else _restore(surface, load)
    return Archiving(load, course, limits, rates, restore)


def _restore(surface: RateSurface, load: Load) -> Restore:
    rates = surface.fastest("retrieve", _mix(load), load.objects_per_session)
    seconds = combined(
        sum,
        [
            rate.objects_per_second.quotient_of(part.objects_per_unit)
            for part, rate in zip(load.parts, rates, strict=True)
        ],
    )
    return Restore(rates, seconds.times(1 / load.bytes_per_unit))


def _mix(load: Load) -> list[tuple[int, float]]:
    return [(part.object_bytes, part.objects_per_unit) for part in load.parts]


@dataclass(frozen=True, slots=True)
class _Wish:
    """A retrieval that a plan must answer."""

    what: str
    shares: tuple[tuple[int, float], ...]  # object bytes, share of the objects
    objects: int
    objects_per_session: int
    parallel: int = 1
    is_stream: bool = False


def _with_retrievals(plan: CapacityPlan, single: _Wish, everything: _Wish) -> CapacityPlan:
    """Return the plan with answers about retrieval, and with the reasons for missing answers."""
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
    rates = surface.with_fewest_clients("retrieve", [size for size, _ in wish.shares], wish.objects_per_session)
    parts = tuple((share, rate) for (_, share), rate in zip(wish.shares, rates, strict=True))
    overlapping = surface.parallel_rate(rates[0], wish.parallel) if len(parts) == 1 and wish.parallel > 1 else None
    return Retrieval(wish.what, wish.objects, wish.parallel, parts, overlapping, wish.is_stream)


def _check_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not (math.isfinite(number) and number > 0):
            raise UsageError(f"{name.replace('_', ' ')}: {number:g} is not possible; it must be above zero")


def _exactly(value: float) -> Range:
    return Range(value, value, value)


def _rounded(found: Range, rounding: Callable[[float], int]) -> Range:
    low, high = (None if end is None else float(rounding(end)) for end in (found.low, found.high))
    return Range(float(rounding(found.value)), low, high)


def _whole(units: float) -> int:
    return math.floor(units + _ROUNDING)


def _at_least_one(platforms: float) -> int:
    return max(1, math.ceil(platforms - _ROUNDING))
