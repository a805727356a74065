"""What a replay stands on: identifiers, configuration, every application and set in detail, the traces, the method.

One idea: an application in several sets is one row of merged responses; each set by itself is a row of the long table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archiver.values.sizes import format_duration, format_instant
from results.mixed.scale_up import ALL_APPLICATIONS
from results.model import Replayed, Result
from results.replay.published import published_reports
from results.replay.responses import Responses
from results.replay.trials import READS, WRITES, ReplayRun, ReplayTrial, mean_ms
from results.replay.verdicts import capacity_sentence
from results.table import NOT_MEASURED, TLS_WORDS, Cell, Column, Table, label_columns, number

_UNKNOWN = "unknown"
_SETS = (
    "A set is one replay of each application's trace. Every set has objects of its own, and its traces begin somewhat"
    " after those of the set before it."
)
_ORDER = (
    "Open loop: each operation is due when its trace says so, divided by the speed, and comes after the one before it"
    " in its stream; no slow answer delays what is due in another stream."
)
_RESPONSE = (
    "From when an operation was due until it was done, so that waiting for an earlier answer counts as the platform's."
)
_MODELS = (
    "made by documented models of our own, scaled to object archives. They are no captures of measured applications;"
    " captured traces may take their places."
)
_PREPARED = (
    "What lies there before, and what a trace reads and does not write, was archived before the measured time, in a"
    " phase of its own that counts in no rate."
)
_TOLERANCE = (
    "when they could be. Otherwise the client was too slow, and the replay is VOID: nothing follows from it, and no"
    " criterion that it met is a pass."
)
_INFRASTRUCTURE = (
    "Whole operations per hour. The score sqrt((clones - 6)² + (migrations - 3)²) is inferred: it reproduces both"
    " published scores, and no rule says so."
)


def identifiers_table(run: ReplayRun) -> Table:
    """Which run, when, of what, on which platform, and who tested."""
    row, platform, host = run.run, run.run["platform"], run.run["host"]
    criteria = run.scenario.get("criteria")
    chosen = criteria if isinstance(criteria, str) else ""
    return _settings_table(
        "replay-identifiers",
        "Identifiers",
        {
            "run": row["id"],
            "date": format_instant(row["started_at"]),
            "scenario": row["scenario_title"],
            "criteria set": chosen or "the scenario's own",
            "platform": platform["name"],
            "version": platform.get("version") or _UNKNOWN,
            "backend": row["backend"],
            "tested from": host.get("host") or _UNKNOWN,
            "Archiver": host.get("archiver") or _UNKNOWN,
            "command": " ".join(row["command_line"]) or _UNKNOWN,
        },
    )


def configuration_table(run: ReplayRun) -> Table:
    """How client and platform were connected, and what was asked of the platform."""
    row, settings, platform, host = run.run, run.run["settings"], run.run["platform"], run.run["host"]
    cores = f" on core {', '.join(map(str, row['worker_cores']))}" if row["worker_cores"] else ""
    shared = "yes: numbers to compare, not capacity" if row["shared_host"] else "no"
    speeds = sorted({result.replayed.speed for trial in run.trials for result in trial.results if result.replayed})
    return _settings_table(
        "replay-configuration",
        "Configuration and connectivity",
        {
            "endpoints": ", ".join(platform.get("endpoints", ())) or "none: in this process",
            "TLS": TLS_WORDS[platform.get("tls")],
            "session": f"{settings.get('session_kind', _UNKNOWN)}, opening asks"
            f" {settings.get('session_open', _UNKNOWN)}",
            "durability": platform.get("durability") or _UNKNOWN,
            "retention": _retention_told(settings),
            "checksum": settings.get("checksum", _UNKNOWN),
            "client": f"{host.get('processor', _UNKNOWN)}, {host.get('cores', '?')} cores, kernel"
            f" {host.get('kernel', _UNKNOWN)}",
            "workers": f"{row['workers']}{cores}",
            "client and server on one machine": shared,
            "watched": ", ".join(settings.get("watched", ())) or "nothing",
            "disks": _disks_told(run, settings),
            "speed of the replay": ", ".join(f"{speed:g}" for speed in speeds),
        },
    )


def traces_table(run: ReplayRun) -> Table:
    """Every trace with the hash by which it can be told from others."""
    return Table(
        name="replay-traces",
        title="Traces that were replayed",
        columns=label_columns("application", "trace", "SHA-256 of its file"),
        rows=tuple(
            (Cell(result.application), Cell(replayed.trace), Cell(replayed.sha256)) for result, replayed in _traces(run)
        ),
    )


def trace_facts_table(run: ReplayRun) -> Table:
    """What each trace is, and how much lay there for it."""
    return Table(
        name="replay-trace-facts",
        title="What the traces are",
        columns=(
            *label_columns("application"),
            Column("where it came from", words=True),
            Column("anonymised", words=True),
            Column("streams"),
            Column("operations"),
            Column("lasts", "s"),
            Column("lay there", "GB"),
            Column("of the full capacity", "%"),
        ),
        rows=tuple(
            (
                Cell(result.application),
                Cell(replayed.origin),
                Cell("yes" if replayed.anonymised else "no"),
                number(replayed.streams, 0),
                number(replayed.operations, 0),
                number(replayed.trace_seconds, 1),
                number(replayed.capacity_bytes / 1e9, 3),
                number(100 * replayed.capacity_scale, 3),
            )
            for result, replayed in _traces(run)
        ),
        caption=f"Of one set each, at the speed of the replay. GB are 10^9 bytes. {_capacity_sentence(run)}".strip(),
    )


def applications_table(run: ReplayRun) -> Table:
    """Responses of the result by application, all sets together, and of all applications."""
    trial = run.result
    rows = [_application_row(trial, name, trial.of(name)) for name in trial.applications]
    if len(rows) > 1:
        rows.append(_application_row(trial, ALL_APPLICATIONS, trial.results))
    sets = f" All {trial.sets:g} sets of phase {trial.position} together." if trial.sets and trial.sets > 1 else ""
    return Table(
        name="replay-applications",
        title="Replay: responses by application",
        columns=(
            *label_columns("application"),
            Column("begun"),
            Column("done", "/s"),
            Column("mean", "ms"),
            Column("reads", "ms"),
            Column("writes", "ms"),
            Column("p70", "ms"),
            Column("p99", "ms"),
            Column(f"within {trial.limit_ms:g} ms", "%"),
            Column("errors"),
            Column("client late", "p99, ms"),
            Column("waited"),
            Column("left out"),
        ),
        rows=tuple(rows),
        caption=f"From when an operation was due until it was done.{sets} Begun, done: operations. Client late: from"
        " when one could be begun until it was; of several sets the latest. Waited: were due before what they follow or"
        " build on was done, which is the platform's time. Left out: operations of the trace that were not due at all.",
    )


def sets_table(run: ReplayRun) -> Table:
    """Every application of every set of every phase: long, for a report."""
    rows = [
        (
            number(trial.position, 0),
            number(trial.sets, 0),
            number(result.copy, 0),
            Cell(result.application),
            number(replayed.operations, 0),
            number(replayed.begun, 0),
            *_response_cells(trial, [result]),
            number(result.errors, 0),
            number(replayed.lateness_ms.p99 if replayed.lateness_ms else None, 3),
            number(replayed.tolerance_ms, 1),
            number(replayed.waited, 0),
            number(replayed.replay_seconds, 2),
            number(replayed.allowed_seconds, 2),
            number(replayed.margin_seconds, 2),
            Cell(replayed.void or "no"),
        )
        for trial in run.trials
        for result, replayed in _pairs(trial.results)
    ]
    return Table(
        name="replay-sets",
        title="Replay: every application of every set",
        columns=(
            *label_columns("phase", "sets", "set", "application"),
            Column("due"),
            Column("begun"),
            Column("mean", "ms"),
            Column("reads", "ms"),
            Column("writes", "ms"),
            Column("p70", "ms"),
            Column("p99", "ms"),
            Column("within limit", "%"),
            Column("errors"),
            Column("client late p99", "ms"),
            Column("tolerance", "ms"),
            Column("waited"),
            Column("replay", "s"),
            Column("allowed", "s"),
            Column("margin", "s"),
            Column("void", words=True),
        ),
        rows=tuple(rows),
        caption="Within limit: the share of all responses that took at most as long as the phase's criterion asks of"
        " all applications, 20 ms where it asks nothing.",
    )


def published_table() -> Table:
    """Mean responses by application as they were published; of block storage."""
    reports = published_reports()
    names = list(dict.fromkeys(name for report in reports for name in report.mean_ms_by_application))
    return Table(
        name="replay-published",
        title="Published beside: mean response by application",
        columns=(*label_columns("application, as published"), *(Column(report.name, "ms") for report in reports)),
        rows=tuple(
            (Cell(name), *(number(report.mean_ms_by_application.get(name), 2) for report in reports)) for name in names
        ),
        caption="Virtual machines on block storage, whose input and output were captured and replayed there; ours are"
        " traces of object operations. They stand here to be seen and are compared in no number."
        f" {'; '.join(report.source for report in reports)}.",
    )


def method_table(run: ReplayRun) -> Table:
    """How it was done, in words."""
    return Table(
        name="replay-method",
        title="Method",
        columns=(Column("setting", label=True), Column("value", words=True)),
        rows=tuple((Cell(name), Cell(text)) for name, text in _method(run) if text),
    )


def _application_row(trial: ReplayTrial, name: str, results: Sequence[Result]) -> tuple[Cell, ...]:
    replays = [replayed for _, replayed in _pairs(results)]
    late = [replayed.lateness_ms.p99 for replayed in replays if replayed.lateness_ms is not None]
    left_out: dict[str, int] = {}
    for replayed in replays:
        for why, count in replayed.left_out:
            left_out[why] = left_out.get(why, 0) + count
    return (
        Cell(name),
        number(sum(replayed.begun for replayed in replays), 0),
        number(sum(result.objects_per_second for result in results), 1),
        *_response_cells(trial, results),
        number(sum(result.errors for result in results), 0),
        number(max(late, default=None), 3),
        number(sum(replayed.waited for replayed in replays), 0),
        number(sum(left_out.values()), 0, tuple(f"left out: {why}" for why in left_out)),
    )


def _response_cells(trial: ReplayTrial, results: Sequence[Result]) -> Iterator[Cell]:
    """Mean, reads, writes, p70, p99, percent within the limit."""
    responses: Responses = trial.responses_of(results)
    share = responses.share_within(trial.limit_ms)
    for kinds in (None, READS, WRITES):
        yield number(mean_ms(results, kinds), 2)
    yield number(responses.percentile(70), 2)
    yield number(responses.percentile(99), 2)
    yield number(100 * share if share is not None else None, 1)


def _method(run: ReplayRun) -> Iterator[tuple[str, str]]:
    replays = [replayed for trial in run.trials for _, replayed in _pairs(trial.results)]
    if run.has_sets:
        yield "sets", _SETS
    yield "order and time", _ORDER
    yield "response time", _RESPONSE
    modelled = sorted({replayed.trace for replayed in replays if replayed.origin.startswith("model")})
    if modelled:
        yield "our models", f"{', '.join(modelled)}: {_MODELS}"
    yield "prepared", _PREPARED
    yield "allowed time", "The trace's time and 15 s for each hour of it, but never less than 1 s."
    tolerances = " or ".join(f"{each:g}" for each in sorted({replayed.tolerance_ms for replayed in replays}))
    yield "tolerance", f"99% of the operations must have been begun within {tolerances} ms of {_TOLERANCE}"
    yield "capacity", _capacity_sentence(run) or "As much lay there as the applications have in full."
    if any(trial.infrastructure for trial in run.trials):
        yield "infrastructure operations", _INFRASTRUCTURE


def _capacity_sentence(run: ReplayRun) -> str:
    return capacity_sentence([result for trial in run.trials for result in trial.results])


def _retention_told(settings: Mapping[str, Any]) -> str:
    mode = settings.get("retention_mode", _UNKNOWN)
    if mode in ("none", _UNKNOWN):
        return str(mode)
    until, seconds = settings.get("retain_until"), settings.get("retain_for_seconds")
    told = f"until {format_instant(until)}" if until else f"for {format_duration(seconds)}" if seconds else ""
    hold = ", legal hold" if settings.get("legal_hold") else ""
    return f"{mode} {told}".strip() + hold


def _disks_told(run: ReplayRun, settings: Mapping[str, Any]) -> str:
    seen = [disk for result in run.result.results if result.server for disk in result.server.disks]
    roles = {disk.device: disk.role for disk in seen} | dict(settings.get("disk_roles", {}))
    return ", ".join(f"{name}: {role}" if role else name for name, role in sorted(roles.items())) or "none watched"


def _settings_table(name: str, title: str, values: Mapping[str, str]) -> Table:
    return Table(
        name=name,
        title=title,
        columns=(Column("setting", label=True), Column("value", words=True)),
        rows=tuple((Cell(label), Cell(str(text) or NOT_MEASURED)) for label, text in values.items()),
    )


def _traces(run: ReplayRun) -> list[tuple[Result, Replayed]]:
    """Each once, with an application of which it is."""
    seen: dict[tuple[str, str, str], tuple[Result, Replayed]] = {}
    for trial in run.trials:
        for result, replayed in _pairs(trial.results):
            seen.setdefault((result.application, replayed.trace, replayed.sha256), (result, replayed))
    return list(seen.values())


def _pairs(results: Sequence[Result]) -> Iterator[tuple[Result, Replayed]]:
    for result in results:
        assert result.replayed is not None, "trials have what replayed alone"
        yield result, result.replayed
