"""The answer of a run to its scenario's question, in one sentence, and what limited the numbers of that sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from archiver.values.sizes import format_size
from results.document.grades import NOT_KNOWN, grade_of, worst_grade
from results.measures.phases import MeasuredPhase, repetitions_of
from results.measures.quality import cautions, in_brackets
from results.measures.statistics import estimate
from results.measures.units import Unit, all_cells, phase_units
from results.mixed.replay.verdicts import capacity_mark, void_words
from results.recorded.database import StoredRun
from results.recorded.model import FAILURES, CheckRecord, CriterionResult, Result, SearchOutcome
from results.report.key_figures import Peak, peaks, where
from results.report.numbers import (
    PHASES_SHOWN_MAX,
    lock_cost_percent,
    phase_subject,
    shown_lock_cost,
    worked_phases,
)
from results.tables.lock_cost import LIFE_CYCLE
from results.tables.session_fits import measured_laws
from results.worm.findings import catalogue_of, checks_sentence

LIMITS = {  # of a measurement, by the name in ``Result.limited_by``
    FAILURES: "failures limit it, so the platform's rate is not known",
    "client": "the client limits it, so the platform may be faster",
    "shared cpu": "client and server together use every core of this machine",
    "host cpu": "other programs, too, kept every core of this machine busy",
    "server cpu": "the server's processor limits it",
    "server disk": "the server's disk limits it",
    "network": "the network limits it",
}
SHARED_HOST = "client and server share this machine: comparison, not capacity"
NO_LIMIT = "no watched resource was near saturation"
NOT_WATCHED = "what limits it is unknown, because no server was watched"
_UTILISATIONS = {"client": "client", "server cpu": "server cpu", "server disk": "disk", "network": "network"}
_VERBS = {"archive": "archives", "retrieve": "retrieves"}


def answer(
    run: StoredRun,
    results: Sequence[Result],
    checks: Sequence[CheckRecord],
    criteria: Sequence[CriterionResult],
    search: SearchOutcome | None,
) -> str:
    """Return one sentence that answers the scenario's question. For a void run it says why the run proves nothing."""
    platform = run.platform.name
    void = void_words(results, criteria)
    if run.verdict == "void" or (void and not criteria):
        return f"This run proves nothing about {platform}: {void or 'VOID'}."
    if not results:
        return (
            checks_sentence(platform, checks, catalogue_of(run))
            if checks
            else "No phase finished, so nothing was measured."
        )
    if any(result.application for result in results):
        mark = capacity_mark(results)
        sentence = _of_workloads(platform, results, criteria, search)
        return f"{sentence}; {mark}." if mark else f"{sentence}."
    if run.scenario == "lock-cost" and (sentence := _of_lock_cost(platform, results)):
        return sentence
    return _of_cells(platform, results) or _of_operations(platform, results)


def quality(results: Sequence[Result], search: SearchOutcome | None, *, shared_host: bool) -> str:
    """Return how well the answer's numbers are known and what to mind about them, in one line; empty without numbers.

    It starts with the worst grade of the rates: of the fastest cell of each operation, or of simultaneous workloads
    over their repetitions.
    """
    rates = [
        _Rate(f"{operation} rate", peak.by_objects.grade, peak.by_objects.within, peak.by_objects.cautions)
        for operation, peak in peaks([result for result in results if not result.application]).items()
    ]
    for group in repetitions_of(worked_phases(results, search))[:PHASES_SHOWN_MAX]:
        within = _within(group)
        minded = cautions(result for phase in group for result in phase.results)
        rates.append(_Rate(f"rate of {phase_subject(group[0], alone=True)}", grade_of(within), within, minded))
    if not rates:
        return ""
    letter = worst_grade([rate.grade for rate in rates])
    known = ", ".join(f"the {rate.name} {'' if place else 'is '}{rate.known}" for place, rate in enumerate(rates))
    named: dict[tuple[str, ...], list[str]] = {}
    for rate in rates:
        named.setdefault(rate.cautions, []).append(f"the {rate.name}")
    minded_of = [
        f"{_listed(of)} {'were' if len(of) > 1 else 'was'} {_listed(words)}" for words, of in named.items() if words
    ]
    sentences = "; ".join([known, *minded_of, *([SHARED_HOST] if shared_host else [])])
    return f"Quality: {'not known' if letter == NOT_KNOWN else letter}. {sentences[0].upper()}{sentences[1:]}."


def _within(group: Sequence[MeasuredPhase]) -> float | None:
    """Return how far the interval of a phase's objects/s reaches: over its repetitions, or of its only workload."""
    if len(group) > 1:
        return estimate([phase.objects_per_second for phase in group]).within
    units = [unit for unit in phase_units(group[0]) if unit.key.is_workload]
    return units[0].within if len(units) == 1 else None


class _Rate(NamedTuple):
    """A rate of the answer: how well it is known, and what to mind about it."""

    name: str
    grade: str
    within: float | None  # see ``Unit.within``
    cautions: tuple[str, ...]

    @property
    def known(self) -> str:
        """Return ``known within 9%``."""
        if self.within is None:
            return "not known: it has no interval"
        if self.grade == NOT_KNOWN:
            return f"not known (95%: ±{self.within:,.0%})"
        moved = self.grade != grade_of(self.within)
        return f"known within {self.within:.0%}{', but changed while it was measured' if moved else ''}"


def limits(results: Sequence[Result], search: SearchOutcome | None) -> tuple[str, ...]:
    """Return what limited the measurements that the summary shows, one sentence for each.

    These are the fastest cell of each operation, or the phases of simultaneous workloads.
    """
    best = peaks([result for result in results if not result.application])
    found = [
        f"{operation} {where(peak.by_objects)}: {_limit_words(peak.by_objects.results)}"
        for operation, peak in best.items()
    ]
    worked = [result for phase in worked_phases(results, search) for result in phase.results]
    if worked:
        found.append(f"workloads: {_limit_words(worked)}")
    return tuple(f"{text}." for text in found)


def batching(results: Sequence[Result]) -> str:
    """Return the gain of batching, for archives of the smallest size whose times follow T = a + b n; else empty."""
    if any(result.application for result in results):
        return ""
    for fitted, fit in measured_laws(results):
        if fitted.operation == "archive":
            return (
                f"a session of objects of {format_size(fitted.object_bytes)} takes {fit.setup_ms:.3g} ms to set up and "
                f"{fit.marginal_ms:.3g} ms for each object (T = a + b n), so sessions of "
                f"{fit.objects_for_half_the_ceiling_rate:.2g} objects reach half of the "
                f"{fit.ceiling_objects_per_second:,.0f} objects/s of long ones"
                f"{in_brackets(cautions(fitted.results))}."
            )
    return ""


def _listed(conditions: Sequence[str]) -> str:
    *others, last = conditions
    return f"{', '.join(others)} and {last}" if others else last


def _of_workloads(
    platform: str, results: Sequence[Result], criteria: Sequence[CriterionResult], search: SearchOutcome | None
) -> str:
    if search is not None:
        return _of_search(platform, search)
    groups = repetitions_of(worked_phases(results, None))
    rates = [_throughput(group, alone=len(groups) == 1) for group in groups[:PHASES_SHOWN_MAX]]
    more = ", and ran further phases" if len(groups) > len(rates) else ""
    work = f"completed {_listed(rates)}{more}" if rates else "measured no workload, only phases that prepare data"
    if not criteria:
        return f"{platform} {work}"
    missed = sum(not each.passed for each in criteria)
    judged = f"missed {missed:,} of {len(criteria):,}" if missed else f"met {len(criteria):,} of {len(criteria):,}"
    return f"{platform} {judged} criteria and {work}"


def _throughput(group: Sequence[MeasuredPhase], *, alone: bool) -> str:
    """Return ``870 objects/s of e-mail``, the median of a phase's repetitions."""
    rate = median(phase.objects_per_second for phase in group)
    return f"{rate:,.0f} objects/s of {phase_subject(group[0], alone=alone)}"


def _of_search(platform: str, search: SearchOutcome) -> str:
    if search.largest is not None:
        above = "" if search.failed_at is None else f" and missed one with {search.failed_at:,}"
        name = search.name.removesuffix("s") if search.largest == 1 else search.name
        return f"{platform} met every criterion with {search.largest:,} {name}{above}"
    tried = [step.scale for step in search.steps]
    fewest = f", not even with {min(tried):,}" if tried else ""
    if any(step.void for step in search.steps):
        return f"no number of {search.name} could be judged on {platform}{fewest}"
    return f"{platform} met the criteria with no number of {search.name}{fewest}"


def _of_lock_cost(platform: str, results: Sequence[Result]) -> str:
    cost = shown_lock_cost(results)
    if cost is None or cost.rate is None:
        return ""
    percent, interval = lock_cost_percent(cost)
    known = f" ({interval})" if interval else " (one pair, so without an interval)"
    shown = "" if cost.rate.differs or not interval else ", which shows no cost"
    return (
        f"Archiving with {cost.name} costs {percent:+.1f}% of the objects/s of {platform} compared with "
        f"{cost.baseline.first.variant}{known}{shown}."
    )


def _of_cells(platform: str, results: Sequence[Result]) -> str:
    """Return the best rate of each operation, with one client and with several, and the limit of the first rate."""
    best = peaks(results)
    if not best:
        return ""
    cells = all_cells(results)
    rates = " and ".join(_of_peak(peak, cells.values()) for peak in best.values())
    first = next(iter(best.values()))
    limit = _limit_of(first.by_objects.results)
    doing = "archiving" if first.operation == "archive" else "retrieving"
    about = limit.replace("limits it", f"limits {doing}").replace("limit it", f"limit {doing}")
    return f"{platform} {rates}; {about}."


def _of_peak(peak: Peak, cells: Iterable[Unit]) -> str:
    """Return ``archives 870 objects/s of 8KiB with 1 client, 1,510 with 4 (100 objects a session)``."""
    best = peak.by_objects
    key = best.key
    same_objects = sorted(
        (cell for cell in cells if cell.key[:3] == key[:3] and cell.objects_per_second > 0),
        key=lambda cell: cell.key.clients,
    )
    others = [cell for cell in same_objects if cell.key.clients != key.clients]
    shown = [best, *(others[:1] if key.clients > 1 else others[-1:])]
    rates = [
        f"{cell.objects_per_second:,.0f}{' objects/s of ' + format_size(key.object_bytes) if not place else ''} with "
        f"{cell.key.clients}{(' client' if cell.key.clients == 1 else ' clients') if not place else ''}"
        for place, cell in enumerate(sorted(shown, key=lambda cell: cell.key.clients))
    ]
    return f"{_VERBS[peak.operation]} {', '.join(rates)} ({_objects(key.objects_per_session)} a session)"


def _objects(count: int) -> str:
    return "1 object" if count == 1 else f"{count:,} objects"


def _of_operations(platform: str, results: Sequence[Result]) -> str:
    """Return the rates of a run that neither archived nor retrieved, such as of operations of a lock's life."""
    cells = [cell for cell in all_cells(results).values() if cell.first.operation in LIFE_CYCLE]
    rates = ", ".join(f"{cell.key.operation} {cell.objects_per_second:,.0f}/s" for cell in cells[:3])
    return f"{platform} performs {rates}." if rates else f"{platform} completed no operation in the measured time."


def _main_limit(results: Sequence[Result]) -> tuple[str | None, int]:
    """Return the limit of most of these results, and their number; failures come first, however few they limited."""
    counts = Counter(result.limited_by for result in results if result.limited_by)
    if FAILURES in counts:
        return FAILURES, counts[FAILURES]
    return counts.most_common(1)[0] if counts else (None, 0)


def _limit_of(results: Sequence[Result]) -> str:
    """Return the resource that limited most of these results, in words."""
    name, _ = _main_limit(results)
    if name is not None:
        return LIMITS.get(name, f"{name} limits it")
    return NO_LIMIT if any(result.server is not None for result in results) else NOT_WATCHED


def _limit_words(results: Sequence[Result]) -> str:
    """Return the limit with its utilisation, the share of the measurements that it limited, and the confidence."""
    words = _limit_of(results)
    name, count = _main_limit(results)
    if name is None:
        return words
    limited = [result for result in results if result.limited_by == name]
    prefix = _UTILISATIONS.get(name, name)
    used = [each for each in limited[0].utilisations if prefix in each.resource]
    parts = [f"{used[0].by} {used[0].share:.0%}"] if used else []
    parts += [f"in {count} of {len(results)} measurements"] if len(results) > 1 else []
    parts += [f"confidence {limited[0].confidence}"] if limited[0].confidence else []
    return f"{words} ({', '.join(parts)})" if parts else words
