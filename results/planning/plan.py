"""Capacity plans for mail, cameras, any mix of sizes, and backups, from measured rates.

A load is a number of users, cameras, objects or gigabytes, each with a number of objects in a period.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from archiver.values.errors import ResultsError, UsageError
from archiver.values.sizes import format_bytes, format_duration
from results.measures.ranges import Range, combined
from results.planning.kept import backup_cycle
from results.planning.loads import (
    HOUR_SECONDS,
    BackupLoad,
    MailLoad,
    PlanRequest,
    PlatformLimits,
    RetrieveLoad,
    SizeLoad,
    VideoLoad,
)
from results.planning.rate_surface import PlannedRate, RateCell, RateSurface, clients_text
from results.planning.sizing import ROUNDING, Archiving, Discovery, Load, Part, Restore, slow_end

GB = 10**9
_NO_FOOTPRINT = (
    "the bytes that the platform takes on its disks for each object are not known, so the object's size counts; small "
    "objects take more (8 KiB with a lock: 1.5 times on versitygw, 2.0 times on MinIO): give --footprint, or use a run "
    "of a platform that Archiver started"
)
_NO_MIXED_TRIAL = (
    "loads at the same time were not measured: the plan assumes that nothing is retrieved while it archives; measure "
    "it with archiver run mail or archiver run video, and plan from that run"
)
_EMPTY_SHARE = 0.01  # of the planned fill level; a platform with less counts as empty


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
        if self.archiving is not None:
            found += self.archiving.extension
        if self.archiving is not None and self.archiving.discovery is not None:
            found.append(self.archiving.discovery.rate)
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
        """Return the warnings about the answers: other loads, the source, the cells used, then the fill level."""
        archiving = self.archiving
        if archiving is None:
            return self.basis_doubts
        mixed = other_loads_doubts(archiving, archiving.course.headroom_share)
        stored = archiving.last_year.bytes_stored_per_platform
        return (*mixed, *self.basis_doubts, *fill_level_doubts(self.surface, self.rates, stored))

    @property
    def basis_doubts(self) -> tuple[str, ...]:
        """Return the warnings about the source of the rates, and about every cell used."""
        cells: dict[str, dict[str, None]] = {}
        for cell in (cell for rate in self.rates for cell in rate.cells):
            for doubt in cell.doubts:
                cells.setdefault(doubt, {})[str(cell)] = None
        of_cells = [f"{', '.join(names)}: {doubt}" for doubt, names in cells.items()]
        unknown = [_NO_FOOTPRINT] if self.archiving is not None and self.archiving.footprint is None else []
        return (*self.surface.remarks, *unknown, *of_cells)


def other_loads_doubts(archiving: Archiving, headroom_share: float) -> Iterator[str]:
    """Yield what the run measured next to other loads, or that it measured none. ``headroom_share``: of the window."""
    trial = archiving.mixed
    if trial is None:
        yield _NO_MIXED_TRIAL
        return
    planned = f"{trial.planned:,.0f} {trial.what} were planned with {clients_text(trial.clients)}"
    at_least = "at least " if trial.is_lower_bound else ""
    next_to = f" next to {trial.others}" if trial.others else ""
    text = f"the same run: {planned}, {at_least}{trial.measured:,.0f} measured{next_to} ({trial.share:.0%})"
    if 1 - trial.share > headroom_share:
        advice = math.ceil((1 - trial.share) * 100)
        text += f"; this plan keeps {headroom_share:.0%} free: give --headroom {advice}%"
    yield text


def fill_level_doubts(surface: RateSurface, rates: Iterable[PlannedRate], stored_bytes: float) -> Iterator[str]:
    """Yield a warning if a platform stores more than it stored when it was measured."""
    known = [cell.stored_bytes for rate in rates for cell in rate.cells if cell.stored_bytes is not None]
    if not known:
        return
    before = 0 if surface.disclosure is None else (surface.disclosure.used_tb or 0.0) * 1e12
    measured = before + max(known)
    if measured < stored_bytes:
        state = "an empty platform" if measured < _EMPTY_SHARE * stored_bytes else "a platform less full than planned"
        yield (
            f"measured on {state}: it stored at most {format_bytes(measured)}, but the plan stores "
            f"{format_bytes(stored_bytes)} on each platform; the rate at that fill level was not measured"
        )


def make_plan(surface: RateSurface, request: PlanRequest) -> CapacityPlan:
    """Return the plan that answers a request with these rates.

    Raises UsageError for invalid numbers, and ResultsError if there is no measurement near the load.
    """
    plan = _plan(surface, request)
    archiving, unanswered = plan.archiving, list(plan.unanswered)
    if archiving is None:
        return plan
    if archiving.course.extend_every_days is not None and not archiving.extension:
        count = archiving.extensions_per_day(archiving.course.years)
        unanswered.append(
            f"how long {count:,.0f} extensions of locks a day take: {surface.source} did not measure extend"
        )
    if archiving.limits.usable_bytes is None:
        kept = format_bytes(archiving.last_year.bytes_kept)
        unanswered.append(
            f"whether {kept} fit on the platforms: give the usable capacity of one platform with --usable"
        )
    return replace(plan, unanswered=tuple(unanswered))


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
        _session_of(surface, wanted),
    )
    if mail.discovery_seconds is not None:
        archiving = replace(archiving, discovery=_discovery(surface, mail, wanted, mail.discovery_seconds))
    return _with_retrievals(CapacityPlan(mail.kind, surface, archiving), single, everything)


def _plan_video(surface: RateSurface, video: VideoLoad, request: PlanRequest) -> CapacityPlan:
    per_second = video.bytes_per_second
    if not (math.isfinite(per_second) and per_second > 0):
        raise UsageError(f"a stream of {per_second:g} bytes per second is not possible; it must be above zero")
    size = surface.size_max("archive")
    hourly = per_second * HOUR_SECONDS
    if not (0 < video.hours_per_day <= 24 and 0 < video.motion_share <= 1):
        raise UsageError("cameras record up to 24 hours a day, and more than 0% of them")
    load = Load(
        "camera", video.cameras, (Part(size, hourly / size),), video.objects_per_session, "hour", HOUR_SECONDS,
        periods_per_day=video.hours_per_day * video.motion_share,
    )  # fmt: skip
    plan = CapacityPlan(video.kind, surface, _plan_archiving(surface, load, request))
    try:
        film_size = surface.size_max("retrieve")
    except ResultsError as error:
        return replace(plan, unanswered=(str(error),))
    objects = math.ceil((video.film_bytes or hourly) / film_size - ROUNDING)
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
        backup.window_seconds, cycle=backup_cycle(backup.full_every_days, backup.change_share),
        restore_bytes=backup.chain_bytes,
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
        ("retention", course.retention_years), ("lock", course.lock_years),
        ("days between extensions", course.extend_every_days), ("reduction", limits.reduction),
        ("usable capacity", limits.usable_bytes), ("objects of a platform", limits.objects_max),
        ("bytes to restore", limits.restore_bytes), ("time to restore", limits.restore_seconds),
        ("clients", request.clients),
    ):  # fmt: skip
        if limit is not None and not (math.isfinite(limit) and limit > 0):
            raise UsageError(f"{name}: {limit:g} is not possible; it must be above zero")
    if not (0 <= course.held_share <= 1 and 0 <= course.lock_extra_days < math.inf):
        raise UsageError("a share under hold is 0% to 100%, and a time kept beyond the lock is at least 0")
    if course.retention_years is None and (course.lock_years or course.lock_extra_days):
        raise UsageError("without a retention nothing is removed, so a longer lock changes nothing; give --retention")
    for first, share in course.steps:
        if not (1 <= first <= course.years and 0 < share < math.inf):
            raise UsageError(f"a step of {share:.0%} from year {first} is not possible; choose a year of the plan")
    if not load.window_seconds > 0:
        raise UsageError(f"a window of {load.window_seconds:g} s is not possible; it must be above zero")
    if not 0 <= course.headroom_share < 1:
        raise UsageError(f"a headroom of {course.headroom_share:.0%} leaves no room for the load; choose 0% to 99%")
    for name, factor in (("redundancy", limits.redundancy), ("footprint", limits.footprint)):
        if factor is not None and not 1 <= factor < math.inf:
            raise UsageError(f"a {name} of {factor:g} stores less than the kept data; choose 1 or more")
    rates = surface.fastest("archive", _mix(load), load.objects_per_session, request.clients)
    restore = None if limits.restore_seconds is None else _restore(surface, load)
    mixed = next((trial for trial in surface.mixed if trial.clients == rates[0].clients), None)
    footprint = _footprint(surface, load, limits)
    found = Archiving(load, course, limits, rates, restore, footprint=footprint, mixed=mixed)
    if course.extend_every_days is None:
        return found
    with suppress(ResultsError):  # the plan says that extensions were not measured
        found = replace(found, extension=surface.fastest("extend", _mix(load), load.objects_per_session))
    return found


def _footprint(surface: RateSurface, load: Load, limits: PlatformLimits) -> float | None:
    """Return the given footprint, or the measured one over the sizes of a load."""
    if limits.footprint is not None:
        return limits.footprint
    stored = 0.0
    for part in load.parts:
        found = surface.footprint(part.object_bytes)
        if found is None:
            return None
        stored += part.objects_per_unit * part.object_bytes * found
    return stored / load.bytes_per_unit


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


def _discovery(surface: RateSurface, mail: MailLoad, messages: int, seconds: float) -> Discovery:
    """Return the retrieval of a mail load's discovery. Raises UsageError if no number of platforms is fast enough."""
    _check_positive(time_for_a_discovery=seconds)
    sizes = [(mail.mean_bytes, 1.0)]
    (rate,) = surface.fastest("retrieve", sizes, _session_of(surface, messages))
    found = Discovery(mail.discovery_users, messages, seconds, mail.discovery_layout, rate)
    if math.isinf(slow_end(found.platforms)):
        slowest = format_duration(slow_end(found.user_seconds))
        raise UsageError(
            f"one user's {messages:,} messages take up to {slowest} from one platform, so no number of "
            f"platforms retrieves them within {format_duration(seconds)}; allow more time, or give --discovery-layout "
            "spread if the messages of one user are on all platforms"
        )
    return found


def _session_of(surface: RateSurface, objects: int) -> int:
    """Return the objects per session to retrieve so many: not more than in the longest measured session."""
    try:
        return min(objects, surface.session_max("retrieve"))
    except ResultsError:  # nothing was retrieved; the answers say so
        return objects


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
