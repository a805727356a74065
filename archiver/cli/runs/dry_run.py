"""A plan in words: the phases that ``--dry-run`` prints, and the announcement of every run before it changes anything.

The reader learns the actions, their times, the amount of archived data, and the end of its locks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from archiver.engine.plan import Plan
from archiver.engine.rounds import CONFIRMING_ROUNDS, PRECISION, ROUNDS_MIN, planned_seconds
from archiver.values.retention import (
    BUCKET_DEFAULT_SECONDS,
    CLOCK_OFFSET_SECONDS_MAX,
    Lock,
    RetentionMode,
    latest_release_date,
)
from archiver.values.sizes import format_bytes, format_clock_offset, format_duration, format_instant
from scenarios.model import Phase, Scenario, SearchRange, Workload
from scenarios.work.base import Archived
from scenarios.work.infrastructure import Infrastructure
from scenarios.work.mix import Arrivals, Mix
from scenarios.work.replay import Replay
from scenarios.work.sessions import Sessions, UntilPrecise

LABELS_SHOWN = 3


def plan_lines(plan: Plan) -> Iterator[str]:
    """Yield the phases and the amounts of their work, for phases with a mix also their workloads.

    Of a run with a time budget these are the phases of its first round.
    """
    scenario, archived = plan.scenario, plan.archived_by_phase
    if plan.options.request.budget_seconds is not None:
        scenario = replace(scenario, phases=tuple(each for each in scenario.phases if each.repetition == 1))
    count = len(scenario.phases)
    phases = f"{count} phase{'s' if count > 1 else ''}"
    search = scenario.search
    if scenario.is_reordered:
        yield f"{scenario.title}: {phases}, order {scenario.order} (seed {scenario.order_seed})"
    elif search is None:
        yield f"{scenario.title}: {phases}, in this order"
    else:
        yield (
            f"{scenario.title}: a search of {search.name} from {search.first} to {search.last} by {search.step}, with "
            f"{search.repeat} trials at the edge; the first step has {phases}"
        )
    yield from _phase_lines(scenario.phases, archived[:count])


def duration_lines(scenario: Scenario, platforms: int, budget_seconds: float | None) -> Iterator[str]:
    """Yield how long a run takes, or the first step of a search: as expected, and at most by the plan."""
    phases, search = scenario.phases, scenario.search
    if budget_seconds is not None:
        first = [phase for phase in phases if phase.repetition == 1]
        about = planned_seconds(first, platforms)
        yield (
            f"takes at most {format_duration(budget_seconds)}: rounds of {len(first)} phases, about "
            f"{format_duration(about)} each, at most {scenario.repetitions} of them; after "
            f"{ROUNDS_MIN + CONFIRMING_ROUNDS} rounds a rate that is known within {PRECISION:.0%} is not measured again"
        )
        return
    limited = platforms * sum(phase.limited_seconds for phase in phases)
    if limited:
        what = "takes" if search is None else f"a step at {search.first} {search.name} takes"
        about = planned_seconds(phases, platforms)
        longer = ", unless a cell's fewest sessions take longer" if _has_fewest_sessions(phases) else ""
        yield (
            f"{what} about {format_duration(about)} with the set-up of its phases; the clients work at most "
            f"{format_duration(limited)}{longer}"
        )
    endless = list(dict.fromkeys(phase.label for phase in phases if not phase.has_time_limit))
    if endless:
        more = f"; and {len(endless) - LABELS_SHOWN:,} more" if len(endless) > LABELS_SHOWN else ""
        which = "not in these times" if limited else "takes as long as the platform needs"
        yield f"{which}: work that ends when all is done, in {'; '.join(endless[:LABELS_SHOWN])}{more}"
    if search is not None:
        yield "how many steps the search takes depends on the platform"


def _has_fewest_sessions(phases: Sequence[Phase]) -> bool:
    """Return whether a workload of these phases completes a number of sessions, however long they take."""
    works = [workload.work for phase in phases for workload in phase.workloads]
    return any(isinstance(work, Sessions) and isinstance(work.stop, UntilPrecise) for work in works)


def announcement(plan: Plan, platforms: int = 1) -> list[str]:
    """Return what a run leaves on each platform, and the end of its locks."""
    scenario, earlier = plan.scenario, plan.options.objects_from
    if earlier is not None:
        return [f"archives and locks nothing; reads {earlier.objects:,} objects that {earlier.run} archived"]
    lines: list[str] = []
    objects, size_bytes = plan.phases_archive_max
    if scenario.search is not None:
        lines += _step_lines(scenario.search, (objects, size_bytes), plan.last_step_max)
    else:
        each = f" on each of {platforms} platforms" if platforms > 1 else ""
        lines.append(f"archives at most {objects:,} objects, {format_bytes(size_bytes)}{each}")
    if plan.probes_max[0]:
        probes, probed_bytes = plan.probes_max
        lines.append(
            f"and before the phases at most {probes:,} probe objects, {format_bytes(probed_bytes)}, whose locks are "
            "read back first"
        )
    return [*lines, *_lock_lines(plan)]


def _lock_lines(plan: Plan) -> Iterator[str]:
    """Yield how the objects of a run are locked, and the latest end of the locks by the platform's clock."""
    scenario, retention, kinds = plan.scenario, plan.retention, plan.latest_dates
    dates = [date for date in kinds.values() if date is not None]
    if dates:
        which = "them" if len(dates) == len(kinds) else "some of them"
        how = f"in mode {retention.mode.value}"
        if retention.mode is RetentionMode.CLASS:
            how = f"by management class {retention.management_class}"
        yield f"locks {which} {how}; a phase that starts now asks for no lock beyond {format_instant(max(dates))}"
    offset = plan.profile.server_clock_offset_seconds or 0.0
    if dates and abs(offset) > CLOCK_OFFSET_SECONDS_MAX:
        direction = "ahead of" if offset > 0 else "behind"
        yield f"dates follow the platform's clock, which is {format_clock_offset(offset)} {direction} this machine's"
    if scenario.uses_lock(Lock.BUCKET_DEFAULT):
        yield f"objects that the bucket's own rule locks stay for {format_duration(BUCKET_DEFAULT_SECONDS)}"
    if kinds and all(kind.legal_hold for kind in kinds):
        yield "places a legal hold on every object; cleanup --release-holds removes it"
    elif any(kind.legal_hold for kind in kinds) or scenario.does("hold"):
        yield "places a legal hold on some objects; cleanup --release-holds removes it"
    if any(kind.event_hold_days is not None for kind in kinds) or scenario.does("event-hold"):
        yield (
            "places event holds; after cleanup --release-holds their objects stay for "
            f"{retention.event_hold_days}d, unless cleanup --bypass-governance removes them"
        )
    if scenario.does("event-release"):
        until = format_instant(latest_release_date(retention, plan.backend.server_now))
        yield f"releases event holds; a phase that starts now and releases some asks for no lock beyond {until} by that"
    if not any(kind.locks for kind in kinds):
        yield "locks nothing"


def _step_lines(search: SearchRange, first: tuple[int, int], last: tuple[int, int]) -> Iterator[str]:
    """Yield how many objects and bytes a search's first and its largest step archive."""
    for scale, (objects, size_bytes) in {search.first: first, search.last: last}.items():
        yield f"a step at {scale} {search.name} archives at most {objects:,} objects, {format_bytes(size_bytes)}"
    yield "steps that together exceed the disk or --max-locked-bytes are not tried"


def _phase_lines(phases: Sequence[Phase], archived: Sequence[Archived]) -> Iterator[str]:
    """Yield each phase and, if they differ from those of the same phase before, its workloads."""
    rows: list[tuple[str, int, int]] = []
    said: dict[str, list[str]] = {}
    for phase, (objects, size_bytes) in zip(phases, archived, strict=True):
        groups = _groups(phase)
        if not groups:  # the label contains its workloads; reads are limited, too
            objects = sum(workload.objects_max for workload in phase.workloads)
        rows.append((f"{phase.position:>4}  {_headline(phase)}", objects, size_bytes))
        lines = [f"        {_description(group, phase)}" for group in groups]
        if said.get(phase.name) != lines:
            said[phase.name] = lines
            for group, line in zip(groups, lines, strict=True):
                alike = [each for each in phase.workloads if each.application == group[0].application]
                amounts = [each.archived_max for each in alike]
                rows.append(
                    (line, sum(objects for objects, _ in amounts), sum(size_bytes for _, size_bytes in amounts))
                )
    width = max(len(text) for text, _, _ in rows)
    heading = "phase, and its workloads" if any(said.values()) else "phase"
    yield f"{'#':>4}  {heading:<{width - 6}} {'objects at most':>16} {'archived at most':>17}"
    for text, objects, size_bytes in rows:
        yield _line(f"{text:<{width}}", objects, size_bytes)


def _line(text: str, objects: int, size_bytes: int) -> str:
    shown = f"{objects:,}" if objects else "-"
    return f"{text} {shown:>16} {format_bytes(size_bytes) if size_bytes else '-':>17}"


def _headline(phase: Phase) -> str:
    copies = len({workload.copy for workload in phase.workloads})
    is_timed = not phase.is_load and not phase.drift_check and bool(_groups(phase))
    words = [phase.label, f"about {format_duration(phase.seconds_max)}" if is_timed else ""]
    words.append(f"{copies} copies of each" if copies > 1 else "")
    return ", ".join(word for word in words if word)


def _groups(phase: Phase) -> list[list[Workload]]:
    """Return the workloads of one copy; those that differ only in the number of clients form a group.

    The result is empty if the phase's label names them.
    """
    first = phase.workloads[0].copy
    groups: dict[str, list[Workload]] = {}
    for workload in phase.workloads:
        if workload.copy == first and workload.application:
            groups.setdefault(workload.application, []).append(workload)
    return list(groups.values())


def _description(group: Sequence[Workload], phase: Phase) -> str:
    """Return ``web: retrieve, 4 clients, 100 sessions/s (poisson), from 0s for 7s``."""
    workload = group[0]
    match workload.work:
        case Replay() as replay:
            return _replay(workload.application, replay)
        case Infrastructure(prepares=part) if part:
            return f"{workload.name}: archive a part of its set"
        case Infrastructure() as what:
            return f"{workload.application}: repeatedly for {format_duration(what.seconds)}"
        case Mix() as mix:
            counts = [str(each.clients) for each in group]
            clients = ", ".join(counts) if len(counts) < 4 else f"{counts[0]}, {counts[1]} ... {counts[-1]}"
            words = [
                f"{workload.application}: {workload.work.operation_label}",
                f"{clients} client{'' if counts == ['1'] else 's'}{' in turn' if len(group) > 1 else ''}",
                _rate(mix.arrivals) if mix.arrivals is not None else "",
                _times(workload, mix, len(group) > 1, phase),
            ]
            return ", ".join(word for word in words if word)
        case Sessions() as sessions:
            return sessions.label(workload.clients, workload.objects_per_session, workload.variant)


def _replay(name: str, replay: Replay) -> str:
    """Return ``web: 1,200 operations of 4 streams in 1m, 3 left out``."""
    facts = replay.known
    if replay.prepares:
        return f"{name}: archive what its trace reads"
    operations = sum(count for _, count in facts.operations)
    left_out = sum(count for _, count in facts.left_out)
    words = [
        f"{name}: {operations:,} operations of {facts.streams:,} streams in {facts.seconds:,.4g} s",
        f"{left_out:,} left out" if left_out else "",
    ]
    return ", ".join(word for word in words if word)


def _rate(arrivals: Arrivals) -> str:
    rate = f"{arrivals.per_second:g}"
    if arrivals.to_per_second is not None:
        rate += f" to {arrivals.to_per_second:g}"
    bursts = f" and {arrivals.burst_sessions} every {arrivals.every_seconds:g}s" if arrivals.burst_sessions else ""
    return f"{rate} sessions/s{bursts} ({arrivals.kind})"


def _times(workload: Workload, mix: Mix, is_chain: bool, phase: Phase) -> str:
    begins = phase.begins_seconds(workload)
    when = f"from {begins:g}s" if begins is not None else f"after {_application(mix.waits_for, phase)}"
    if mix.fill is not None:
        return f"{when} until there are {mix.fill:,}"
    if mix.objects is not None:
        return f"{when} until {mix.objects:,} are archived"
    if mix.planned_seconds is None:
        return f"{when} until all is read"
    warm_up = f", {mix.planned_warm_up_seconds:g}s of it warm-up" if mix.planned_warm_up_seconds else ""
    until = f" or until {_application(mix.ends_with, phase)} ends" if mix.ends_with is not None else ""
    return f"{when} for {mix.planned_seconds:g}s{' each' if is_chain else ''}{until}{warm_up}"


def _application(name: str | None, phase: Phase) -> str:
    return next(each.application for each in phase.workloads if each.name == name)
