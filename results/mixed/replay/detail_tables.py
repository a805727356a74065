"""Details of a replay: identifiers, configuration, every application and set, the traces, the method.

The table of applications merges the responses of all sets. The long table has a row for each set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from archiver.values.sizes import format_duration, format_instant
from results.document.table import (
    NOT_MEASURED,
    TLS_WORDS,
    Cell,
    Column,
    Table,
    TableSpec,
    columns_of,
    label_columns,
    number,
    settings_table,
)
from results.measures.responses import Responses
from results.mixed.replay.published import published_reports
from results.mixed.replay.result_tables import PHASE_COLUMNS
from results.mixed.replay.trials import READS, WRITES, ReplayedRun, ReplayTrial, mean_ms
from results.mixed.replay.verdicts import capacity_sentence
from results.mixed.scale_up import ALL_APPLICATIONS
from results.recorded.model import Replayed, Result

_UNKNOWN = "unknown"
_SETS = (
    "A set is one replay of each application's trace. Every set has its own objects. Its traces begin somewhat later"
    " than those of the previous set."
)
_ORDER = (
    "Open loop: each operation is due at its trace time divided by the speed. It starts after the previous operation of"
    " its stream has ended. A slow response does not delay operations of other streams."
)
_RESPONSE = (
    "The time from when an operation was due until it ended. It includes the queueing delay behind an earlier operation"
    " of the stream."
)
_MODELS = (
    "made by Archiver's documented models, scaled to object archives. They are not captured from applications. Captured"
    " traces can replace them."
)
_PREPARED = (
    "Objects that the application stores in full, and objects that a trace reads but does not write, were archived"
    " before the measured time, in a separate phase that counts in no rate."
)
_TOLERANCE = (
    "the time when they could begin. Otherwise the client was too slow, and the replay is VOID: it proves nothing and"
    " passes no criterion."
)
_INFRASTRUCTURE = (
    "Whole operations per hour. The score sqrt((clones - 6)² + (migrations - 3)²) is inferred: it reproduces both"
    " published scores, but no published rule defines it."
)


def identifiers_table(run: ReplayedRun) -> Table:
    """Return the identifiers of the run: time, scenario, platform, and tester."""
    row, platform, host = run.run, run.run.platform, run.run.host
    criteria = run.scenario.get("criteria")
    chosen = criteria if isinstance(criteria, str) else ""
    return settings_table(
        "replay-identifiers",
        "Identifiers",
        {
            "run": row.id,
            "date": format_instant(row.started_at),
            "scenario": row.scenario_title,
            "criteria set": chosen or "the scenario's own",
            "platform": platform.name,
            "version": platform.version or _UNKNOWN,
            "backend": row.backend,
            "tested from": host.get("host") or _UNKNOWN,
            "Archiver": host.get("archiver") or _UNKNOWN,
            "command": " ".join(row.command_line) or _UNKNOWN,
        },
    )


def configuration_table(run: ReplayedRun) -> Table:
    """Return the connection of client and platform, and the requirements for the platform."""
    row, settings, platform, host = run.run, run.run.settings, run.run.platform, run.run.host
    cores = f" on core {', '.join(map(str, row.worker_cores))}" if row.worker_cores else ""
    shared = "yes: numbers to compare, not capacity" if row.shared_host else "no"
    speeds = sorted({result.replayed.speed for trial in run.trials for result in trial.results if result.replayed})
    return settings_table(
        "replay-configuration",
        "Configuration and connectivity",
        {
            "endpoints": ", ".join(platform.endpoints) or "none: in this process",
            "TLS": TLS_WORDS[platform.tls],
            "session": f"{settings.get('session_kind', _UNKNOWN)}, opening asks"
            f" {settings.get('session_open', _UNKNOWN)}",
            "durability": platform.durability or _UNKNOWN,
            "retention": _retention_words(settings),
            "checksum": settings.get("checksum", _UNKNOWN),
            "client": f"{host.get('processor', _UNKNOWN)}, {host.get('cores', '?')} cores, kernel"
            f" {host.get('kernel', _UNKNOWN)}",
            "workers": f"{row.workers}{cores}",
            "client and server on one machine": shared,
            "watched": ", ".join(settings.get("watched", ())) or "nothing",
            "disks": _disk_words(run, settings),
            "speed of the replay": ", ".join(f"{speed:g}" for speed in speeds) or NOT_MEASURED,
        },
    )


def traces_table(run: ReplayedRun) -> Table:
    """Return every trace with the hash that identifies it."""
    return TableSpec(
        name="replay-traces",
        title="Traces that were replayed",
        columns=(
            Column("application", of=lambda result: result.application, label=True),
            Column("trace", of=lambda result: result.replayed.trace, label=True),
            Column("SHA-256 of its file", of=lambda result: result.replayed.sha256, label=True),
        ),
    ).table(_traces(run))


def trace_facts_table(run: ReplayedRun) -> Table:
    """Return the facts about each trace, and the data stored for it."""
    return TableSpec(
        name="replay-trace-facts",
        title="What the traces are",
        columns=(
            Column("application", of=lambda result: result.application, label=True),
            *columns_of(
                lambda result: result.replayed,
                (
                    Column("where it came from", of=lambda trace: trace.origin, words=True),
                    Column("anonymised", of=lambda trace: "yes" if trace.anonymised else "no", words=True),
                    Column("streams", of=lambda trace: trace.streams),
                    Column("operations", of=lambda trace: trace.operations),
                    Column("lasts", "s", lambda trace: trace.trace_seconds, 1),
                    Column("lay there", "GB", lambda trace: trace.capacity_bytes / 1e9, 3),
                    Column("of the full capacity", "%", lambda trace: 100 * trace.capacity_scale, 3),
                ),
            ),
        ),
        caption=f"Values of one set, at the speed of the replay. GB are 10^9 bytes. {_capacity_sentence(run)}".strip(),
    ).table(_traces(run))


class _Responses(NamedTuple):
    """The results of one phase that form one row."""

    trial: ReplayTrial
    name: str
    results: Sequence[Result]

    @property
    def replays(self) -> list[Replayed]:
        return _replays(self.results)

    @property
    def left_out(self) -> Counter[str]:
        """Return the number of excluded trace operations by reason."""
        return sum((Counter(dict(replayed.left_out)) for replayed in self.replays), Counter[str]())

    @property
    def responses(self) -> Responses:
        return self.trial.responses_of(self.results)

    @property
    def result(self) -> Result:
        return self.results[0]


def _response_columns(within: str) -> tuple[Column, ...]:
    return (
        Column("mean", "ms", lambda row: mean_ms(row.results), 2),
        Column("reads", "ms", lambda row: mean_ms(row.results, READS), 2),
        Column("writes", "ms", lambda row: mean_ms(row.results, WRITES), 2),
        Column("p70", "ms", lambda row: row.responses.percentile(70), 2),
        Column("p99", "ms", lambda row: row.responses.percentile(99), 2),
        Column(f"within {within}", "%", _percent_within, 1),
        Column("errors", of=lambda row: sum(result.errors for result in row.results)),
    )


def _percent_within(row: _Responses) -> float | None:
    share = row.responses.share_within(row.trial.limit_ms)
    return 100 * share if share is not None else None


def _late_ms(row: _Responses) -> float | None:
    """Return the 99th percentile of the client's scheduling delay; the largest if there are several replays."""
    return max((each.lateness_ms.p99 for each in row.replays if each.lateness_ms is not None), default=None)


def applications_table(run: ReplayedRun) -> Table:
    """Return the responses of each application over all sets, and of all applications."""
    trial = run.result
    rows = [_Responses(trial, name, trial.of(name)) for name in trial.applications]
    if len(rows) > 1:
        rows.append(_Responses(trial, ALL_APPLICATIONS, trial.results))
    sets = f" All {trial.sets:g} sets of phase {trial.position} together." if trial.sets and trial.sets > 1 else ""
    return TableSpec(
        name="replay-applications",
        title="Replay: responses by application",
        columns=(
            Column("application", of=lambda row: row.name, label=True),
            Column("begun", of=lambda row: sum(replayed.begun for replayed in row.replays)),
            Column("done", "/s", lambda row: sum(result.objects_per_second for result in row.results), 1),
            *_response_columns(f"{trial.limit_ms:g} ms"),
            Column("client late", "p99, ms", _late_ms, 3),
            Column("waited", of=lambda row: sum(replayed.waited for replayed in row.replays)),
            Column(
                "left out",
                of=lambda row: row.left_out.total(),
                notes=lambda row: tuple(f"left out: {why}" for why in row.left_out),
            ),
        ),
        caption=f"From when an operation was due until it was done.{sets} Begun, done: operations. Client late: from"
        " when one could be begun until it was; of several sets the latest. Waited: were due before what they follow or"
        " build on was done, which is the platform's time. Left out: operations of the trace that were not due at all.",
    ).table(rows)


def sets_table(run: ReplayedRun) -> Table:
    """Return every application of every set of every phase. The table is long and meant for a report."""
    return _SETS_TABLE.table(
        _Responses(trial, result.application, [result]) for trial in run.trials for result in trial.results
    )


_SETS_TABLE = TableSpec(
    name="replay-sets",
    is_long=True,
    title="Replay: every application of every set",
    columns=(
        *columns_of(lambda row: row.trial, PHASE_COLUMNS),
        Column("set", of=lambda row: row.result.copy, label=True),
        Column("application", of=lambda row: row.name, label=True),
        Column("due", of=lambda row: row.result.replayed.operations),
        Column("begun", of=lambda row: row.result.replayed.begun),
        *_response_columns("limit"),
        Column("client late p99", "ms", _late_ms, 3),
        *columns_of(
            lambda row: row.result.replayed,
            (
                Column("tolerance", "ms", lambda replayed: replayed.tolerance_ms, 1),
                Column("waited", of=lambda replayed: replayed.waited),
                Column("replay", "s", lambda replayed: replayed.replay_seconds, 2),
                Column("allowed", "s", lambda replayed: replayed.allowed_seconds, 2),
                Column("margin", "s", lambda replayed: replayed.margin_seconds, 2),
                Column("void", of=lambda replayed: replayed.void or "no", words=True),
            ),
        ),
    ),
    caption="Within limit: the share of responses within the limit that the phase's criterion sets for all"
    " applications; 20 ms without such a criterion.",
)


def published_table() -> Table:
    """Return the published mean responses by application, on block storage."""
    reports = published_reports()
    names = list(dict.fromkeys(name for report in reports for name in report.mean_ms_by_application))
    return Table(
        name="replay-published",
        title="Published values: mean response by application",
        columns=(*label_columns("application, as published"), *(Column(report.name, "ms") for report in reports)),
        rows=tuple(
            (Cell(name), *(number(report.mean_ms_by_application.get(name), 2) for report in reports)) for name in names
        ),
        caption="The published values are of virtual machines on block storage, whose captured block I/O was replayed."
        " This run replayed traces of object operations. Archiver computes no ratio between the two."
        f" {'; '.join(report.source for report in reports)}.",
    )


def method_table(run: ReplayedRun) -> Table:
    """Return a description of the method."""
    return settings_table("replay-method", "Method", {name: text for name, text in _method(run) if text})


def _method(run: ReplayedRun) -> Iterator[tuple[str, str]]:
    replays = [replayed for trial in run.trials for replayed in _replays(trial.results)]
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
    yield "capacity", _capacity_sentence(run) or "The full capacity of the applications was stored."
    if any(trial.infrastructure for trial in run.trials):
        yield "infrastructure operations", _INFRASTRUCTURE


def _capacity_sentence(run: ReplayedRun) -> str:
    return capacity_sentence([result for trial in run.trials for result in trial.results])


def _retention_words(settings: Mapping[str, Any]) -> str:
    mode = settings.get("retention_mode", _UNKNOWN)
    if mode in ("none", _UNKNOWN):
        return str(mode)
    until, seconds = settings.get("retain_until"), settings.get("retain_for_seconds")
    period = f"until {format_instant(until)}" if until else f"for {format_duration(seconds)}" if seconds else ""
    hold = ", legal hold" if settings.get("legal_hold") else ""
    return f"{mode} {period}".strip() + hold


def _disk_words(run: ReplayedRun, settings: Mapping[str, Any]) -> str:
    seen = [disk for result in run.result.results if result.server for disk in result.server.disks]
    roles = {disk.device: disk.role for disk in seen} | dict(settings.get("disk_roles", {}))
    return ", ".join(f"{name}: {role}" if role else name for name, role in sorted(roles.items())) or "none watched"


def _traces(run: ReplayedRun) -> list[Result]:
    """Return one application of each trace."""
    seen: dict[tuple[str, str, str], Result] = {}
    for trial in run.trials:
        for result, replayed in zip(trial.results, _replays(trial.results), strict=True):
            seen.setdefault((result.application, replayed.trace, replayed.sha256), result)
    return list(seen.values())


def _replays(results: Sequence[Result]) -> list[Replayed]:
    found = [result.replayed for result in results if result.replayed is not None]
    assert len(found) == len(results), "trials contain only results of replays"
    return found
