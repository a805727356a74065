"""The sentences of a scorecard: the verdict on every platform, and the parts that were not measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import NamedTuple

from archiver.values.sizes import format_instant, format_size
from results.comparison.scorecard.cards import POINTS, Acknowledgement, Card, Point, Scorecard
from results.document.document import KeyFinding, State
from results.document.grades import NOT_KNOWN
from results.measures.units import Unit
from results.recorded.database import StoredRun
from results.recorded.model import RESTARTED_ROUND, CheckRecord
from results.report.answer import SHARED_HOST
from results.report.configuration import readable_settings
from results.report.numbers import lock_cost_percent, shown_lock_cost
from results.worm.findings import checks_sentence, findings_of
from results.worm.harm import harm_words

MEANING = "This scorecard is evidence, not a certificate."
_REASON_LENGTH = 240  # of the worst finding in a sentence; the conformance report has the whole
_MACHINE = ("processor", "cores", "memory_bytes", "kernel", "python", "archiver")  # facts about a client machine
_RESTART_CHECK = "VER-08"  # everything that was acknowledged is there after a kill
_ABOVE = " > "
_NOT_INTERLEAVED = "The platforms were not measured in turn: drift between the runs is part of every difference."


_GROUP_WORDS: dict[Acknowledgement, str] = {
    "on disk": "acknowledged on disk:",
    "in memory": "acknowledged in memory:",
    "unknown": "acknowledged, unknown where:",
}


class MissingPart(NamedTuple):
    """A part of a card that no run measured, and the command that measures it."""

    platform: str
    part: str
    command: str


def answers(scorecard: Scorecard) -> list[str]:
    """Return the verdict over all platforms, in a few sentences: the locks first, then the rates."""
    return [_of_locks(scorecard.cards), *_of_rates(scorecard.cards)]


def conditions(scorecard: Scorecard) -> list[str]:
    """Return the conditions of the numbers, as sentences."""
    rows = [row for card in scorecard.cards for row in card.rows]
    dates = " to ".join(dict.fromkeys(format_instant(at(row.started_at for row in rows))[:10] for at in (min, max)))
    machines = "; ".join(dict.fromkeys(map(machine_words, rows)))
    measured = [card for card in scorecard.cards if card.side is not None]
    found = [MEANING, f"Measured on {dates}; client machine: {machines}."]
    if any(row.shared_host for card in measured for row in card.rows):
        found.append(f"{SHARED_HOST[0].upper()}{SHARED_HOST[1:]}.")
    if len(measured) > 1 and not scorecard.is_interleaved:
        found.append(_NOT_INTERLEAVED)
    return found


def machine_words(row: StoredRun) -> str:
    """Return the machine of a run's client, without its name."""
    known = readable_settings({name: row.host[name] for name in _MACHINE if name in row.host})
    return ", ".join(f"{name} {value}" for name, value in known.items()) or "unknown"


def findings(scorecard: Scorecard) -> list[KeyFinding]:
    """Return the verdict on the locks of each platform that was checked, with its worst finding."""
    found = []
    for card in scorecard.cards:
        if card.conformance is not None:
            checks = card.conformance.checks
            sentence, worst = checks_sentence(card.label, checks, card.conformance.catalogue), worst_words(checks)
            words = f"{sentence} Worst: {worst}" if worst else sentence
            found.append(KeyFinding(_lock_state(card)[0], card.label, words))
    return found


def worst_finding(checks: Sequence[CheckRecord]) -> CheckRecord | None:
    """Return the gravest failed check; None if none failed."""
    return next((check for check in findings_of(checks) if check.verdict == "FAIL"), None)


def worst_words(checks: Sequence[CheckRecord]) -> str:
    """Return the worst finding in a sentence; empty if no check failed."""
    worst = worst_finding(checks)
    if worst is None:
        return ""
    seen = f"{worst.tries}: {shorten(worst.reason, _REASON_LENGTH, placeholder=' ...')}"
    return f"{worst.severity} {worst.name}: {' '.join(part for part in (harm_words(worst), seen) if part)}"


def kill_words(card: Card) -> str:
    """Return the state of acknowledged records after the server was killed; empty if it was not killed."""
    checks = card.conformance.checks if card.conformance is not None else ()
    killed = [check for check in checks if check.round == RESTARTED_ROUND and check.verdict != "NOT TRIED"]
    if not killed:
        return ""
    again = [check for check in killed if check.id != _RESTART_CHECK]
    failed = sum(check.verdict == "FAIL" for check in again)
    words = [
        f"{check.name}: {check.verdict}{f': {check.reason}' if check.reason else ''}"
        for check in killed
        if check.id == _RESTART_CHECK
    ]
    return "; ".join([*words, f"{len(again)} checks were repeated, {failed} failed"])


def missing_parts(scorecard: Scorecard) -> list[MissingPart]:
    """Return the parts that no run measured."""
    return [part for card in scorecard.cards for part in missing_parts_of(card)]


def missing_parts_of(card: Card) -> Iterator[MissingPart]:
    """Yield the parts of one platform that no run measured."""
    where = f"--platform {card.profile.name}" if card.is_started_here else f"--endpoint {card.profile.endpoints[0]}"
    worm, run = f"archiver worm {where}", f"archiver run scorecard {where} --repeat 3"
    if card.conformance is None:
        yield MissingPart(card.label, "conformance", worm)
    if not kill_words(card):
        started = "archiver worm --platform NAME; only a server that Archiver starts is killed"
        yield MissingPart(card.label, "acknowledged records after a kill", worm if card.is_started_here else started)
    points = [point for point in POINTS if point not in card.points]
    if points:
        what = "rates and latency" + (f" ({'; '.join(map(str, points))})" if len(points) < len(POINTS) else "")
        yield MissingPart(card.label, what, run)
    if not card.lock_costs:
        yield MissingPart(card.label, "lock cost", run)
    servers = [result.server for unit in card.points.values() for result in unit.results]
    if servers and all(server is None or server.cpu_milliseconds_per_object is None for server in servers):
        yield MissingPart(card.label, "server CPU of an object", f"{run} --watch SOURCE")


def _of_locks(cards: Sequence[Card]) -> str:
    """Return the platforms that violated their locks, those that did not, and those whose locks are unknown."""
    groups: dict[str, list[str]] = {"violate": [], "refuse": [], "unknown": []}
    for card in cards:
        groups[_lock_state(card)[1]].append(card.label)
    sentences = {
        "violate": "A record could be lost, altered or unlocked before its time on {}.",
        "refuse": "No check could lose, alter or unlock a record on {}.",
        "unknown": "Nothing is known about the locks of {}.",
    }
    return " ".join(text.format(", ".join(groups[name])) for name, text in sentences.items() if groups[name])


def _lock_state(card: Card) -> tuple[State, str]:
    checks = card.conformance.checks if card.conformance is not None else ()
    if card.conformance is not None and card.conformance.violations:
        return "bad", "violate"
    if any(check.verdict not in ("NOT TRIED", "NOT OFFERED", "INCONCLUSIVE") for check in checks):
        return "good", "refuse"
    return "care", "unknown"


def _of_rates(cards: Sequence[Card]) -> Iterator[str]:
    """Yield the rates of small objects with several clients, and the cost of the lock.

    Platforms that acknowledge what is on disk are apart from those that acknowledge what is in memory.
    """
    is_ranked = False
    for operation in ("archive", "retrieve"):
        point = Point(operation, 8 << 10, 16)
        groups: dict[Acknowledgement, list[tuple[Card, Unit]]] = {"on disk": [], "in memory": [], "unknown": []}
        for card in cards:
            if point in card.points:
                groups[card.acknowledges].append((card, card.points[point]))
        shown = [f"{_GROUP_WORDS[name]} {_ranked(group)}" for name, group in groups.items() if group]
        if shown:
            what = f"{operation.capitalize()}, objects/s of {format_size(point.object_bytes)} with 16 clients"
            is_ranked |= any(_ABOVE in words for words in shown)
            yield f"{what}: {'; '.join(shown)}."
    if is_ranked:
        yield "Between two rates, > means that their 95% intervals do not overlap."
    yield from _of_lock_costs(cards)
    minded = dict.fromkeys(words for card in cards for unit in card.points.values() for words in unit.cautions)
    if minded:
        yield f"Read the rates with care; footnotes say which are {', '.join(minded)}."


def _ranked(measured: Sequence[tuple[Card, Unit]]) -> str:
    """Return the rates of several platforms, the fastest first, and where their 95% intervals tell them apart."""
    ordered = sorted(measured, key=lambda pair: (pair[1].grade == NOT_KNOWN, -pair[1].objects_per_second))
    words = ""
    for place, (card, unit) in enumerate(ordered):
        if place:
            words += _ABOVE if _is_above(ordered[place - 1][1], unit) else ", "
        words += f"{card.label} {_rate_words(unit)}"
    return words


def _is_above(faster: Unit, slower: Unit) -> bool:
    """Return whether the 95% intervals of two rates do not overlap."""
    above, below = faster.rate_interval, slower.rate_interval
    return (
        NOT_KNOWN not in (faster.grade, slower.grade)
        and above is not None
        and below is not None
        and above[0] > below[1]
    )


def _rate_words(unit: Unit) -> str:
    """Return the rate with its grade, or that it is not known."""
    return "not known" if unit.grade == NOT_KNOWN else f"{unit.objects_per_second:,.0f} ({unit.grade})"


def _of_lock_costs(cards: Sequence[Card]) -> Iterator[str]:
    """Yield the cost of the lock if its 95% interval excludes zero, and the platforms without a shown cost."""
    known: list[str] = []
    unknown: list[str] = []
    for card in cards:
        costs = [cost for run in (card.side.runs if card.side else ()) if (cost := shown_lock_cost(run.results))]
        ratio = costs[0].rate if costs else None
        if ratio is None or ratio.low is None or ratio.high is None:
            continue
        percent, interval = lock_cost_percent(costs[0])
        (unknown if ratio.low <= 1 <= ratio.high else known).append(f"{card.label} {percent:+.1f}% ({interval})")
    if known:
        yield f"The lock costs this share of the objects/s: {', '.join(known)}."
    if unknown:
        yield f"No cost of the lock in objects/s is shown on {', '.join(unknown)}: the intervals include 0."
