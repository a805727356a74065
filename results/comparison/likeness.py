"""Likeness: whether two runs can be compared, and which differences to report with the numbers.

One table has all rules, in words. If the client requested different work from the two platforms, the ratio would
measure the work, so the comparison is refused. If the conditions differ, the comparison is marked. With one platform
and one protocol, a setting that differs is the subject of the comparison, so it is only marked. Workloads that ran at
the same time must always be the same, because each of their rates also depends on the others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from archiver.values.errors import UsageError
from results.recorded.database import StoredRun

Action = Literal["refuse everywhere", "refuse", "refuse within a protocol", "mark", "mark on one platform"]

UNKNOWN = "unknown"
_DIFFERENCES_MAX = 3  # differences listed within one setting
_LEFT_OUT = ("name", "quick")  # other keys have the effects of --quick


@dataclass(frozen=True, slots=True)
class Rule:
    """One compared setting, the consequence of a difference, and the reason."""

    name: str
    read: Callable[[StoredRun], Any]
    action: Action
    why: str
    option: str = ""  # of `archiver run`, which makes two runs alike


def refuse_named_twice(runs: Iterable[str]) -> None:
    """Raise UsageError if an id occurs twice: a run compared with itself shows no difference."""
    twice = [name for name, count in Counter(runs).items() if count > 1]
    if twice:
        raise UsageError(f"run {twice[0]} is named twice; name each run once")


def _setting(name: str) -> Callable[[StoredRun], Any]:
    return lambda row: row.settings.get(name)


def _tls(row: StoredRun) -> bool | str:
    return UNKNOWN if row.platform.tls is None else row.platform.tls


def _host(name: str) -> Callable[[StoredRun], Any]:
    return lambda row: row.host.get(name)


def _client_machine(row: StoredRun) -> str:
    host = row.host
    return f"{host.get('host')}, {host.get('processor')}, {host.get('cores_usable')} cores"


def _stopping(row: StoredRun) -> str:
    """Return the duration and amount limits of the cells of every sweep: ``1s to 2s, at most 24MB``."""
    stops = [sweep.get("stop", {}) for sweep in json.loads(row.scenario_json).get("sweep", [])]
    shown = {
        f"{stop.get('seconds_min')} to {stop.get('seconds_max')}, at most {stop.get('bytes_max')}" for stop in stops
    }
    return " and ".join(sorted(shown))


def _workloads(row: StoredRun) -> dict[str, Any]:
    """Return the settings of simultaneous workloads, key by key: ``tiles.e-mail.clients``."""
    requested: dict[str, Any] = {}
    for phase in json.loads(row.scenario_json).get("phase", []):
        requested |= {
            f"{phase['name']}.{key}": value for key, value in phase.items() if key not in (*_LEFT_OUT, "workload")
        }
        for workload in phase.get("workload", []):
            name = f"{phase['name']}.{workload['name']}"
            requested |= {f"{name}.{key}": value for key, value in workload.items() if key not in _LEFT_OUT}
    return requested


def _criteria(row: StoredRun) -> str:
    """Return ``errors == 0, object_ms.mean <= 20 of e-mail (retrieve)``"""
    words = []
    for criterion in json.loads(row.scenario_json).get("criterion", []):
        workload = f" of {criterion['workload']}" if "workload" in criterion else ""
        operation = f" ({criterion['operation']})" if "operation" in criterion else ""
        words.append(f"{criterion['that']}{workload}{operation}")
    return ", ".join(words) or "none"


RULES = (
    Rule("work side by side", _workloads, "refuse everywhere",
         "each rate also depends on the other workloads", "--set"),
    Rule("retention mode", _setting("retention_mode"), "refuse within a protocol",
         "a lock is work that only one of them did", "--retention-mode"),
    Rule("checksum", _setting("checksum"), "refuse within a protocol",
         "a checksum is work for client and platform", "--checksum"),
    Rule("payload signing", _setting("payload_signing"), "refuse within a protocol",
         "a signed body is hashed on both sides", "--payload-signing"),
    Rule("session kind", _setting("session_kind"), "refuse within a protocol",
         "only one of the rates includes the cost of sessions", "--keep-sessions-open"),
    Rule("session open", _setting("session_open"), "refuse within a protocol",
         "opening a session sends other requests", "--session-open"),
    Rule("legal hold", _setting("legal_hold"), "refuse",
         "a hold is work that only one of them did", "--legal-hold"),
    Rule("event hold", _setting("event_hold_days"), "refuse",
         "a hold is work that only one of them did", "--event-hold"),
    Rule("verification of retrieved objects", _setting("verify"), "refuse",
         "the client spends more time on one of them", "--verify"),
    Rule("platform version", lambda row: row.platform.version, "mark on one platform", "it is another program"),
    Rule("durability", lambda row: row.platform.durability, "mark",
         "an acknowledgement from memory is cheaper than one from disk"),
    Rule("limit of objects per transaction", _setting("objects_per_transaction_max"), "mark",
         "the cost of a commit is shared by more objects"),
    Rule("TLS", _tls, "mark", "encryption is work"),
    Rule("number of endpoints", lambda row: len(row.platform.endpoints), "mark",
         "the load is distributed differently"),
    Rule("number of retries", lambda row: row.platform.details.get("retries", 0), "mark",
         "a retried request is waiting, not an error"),
    Rule("what follows a closed connection",
         lambda row: row.platform.details.get("on_close", "reconnect"), "mark",
         "a session goes on over another connection, or ends"),
    Rule("scenario", lambda row: row.scenario, "mark", "other cells ran before and between"),
    Rule("pass criteria", _criteria, "mark", "a score is valid only if they are met"),
    Rule("stopping rule", _stopping, "mark", "one of them was measured longer"),
    Rule("content", lambda row: row.content_kind, "mark", "platforms that deduplicate or compress see other bytes"),
    Rule("client machine", _client_machine, "mark", "the client's share of the time differs"),
    Rule("kernel", _host("kernel"), "mark", "other code drives network and disks"),
    Rule("Python", _host("python"), "mark", "the client's share of the time differs"),
    Rule("Archiver version", _host("archiver"), "mark", "the client's share of the time differs"),
    Rule("number of worker processes", lambda row: row.workers, "mark", "the limit of the client differs"),
    Rule("waiting of the workers for answers", _setting("poll"), "mark",
         "a worker that polls busily sees an answer earlier than one that sleeps"),
    Rule("sharing of one machine by client and server", lambda row: row.shared_host, "mark",
         "they compete for processor time, and there is no network between them"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Likeness:
    """Differences of two runs.

    ``marks`` name all of them, with both values; ``refusals`` state which forbid a ratio, and why.
    """

    marks: tuple[str, ...]
    refusals: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of `archiver run`, which avoid the refusals


def likeness(one: StoredRun, other: StoredRun, labels: tuple[str, str], *, pooled: bool = False) -> Likeness:
    """Compare the settings of two runs. The result has all refusals, because the user has to measure again.

    ``pooled``: the two runs are combined as one platform, so no setting may differ.
    """
    protocols = (one.platform.protocol, other.platform.protocol)
    one_protocol = protocols[0] == protocols[1]
    one_platform = one_protocol and one.platform.name == other.platform.name
    marks = [] if one_protocol else [_differs("protocol", labels, protocols)]
    refusals, options = [], []
    for rule in RULES:
        values = (rule.read(one), rule.read(other))
        if values[0] == values[1]:
            if values[0] == UNKNOWN:
                marks.append(f"{rule.name} unknown")
            continue
        if rule.action == "mark on one platform" and not one_platform:
            continue
        marks.append(_differs(rule.name, labels, values))
        if _refused(rule.action, one_protocol, one_platform=one_platform and not pooled):
            refusals.append(f"{marks[-1]}, and {rule.why}")
            options.append(rule.option)
    return Likeness(tuple(marks), tuple(refusals), tuple(options))


def _refused(action: Action, one_protocol: bool, *, one_platform: bool) -> bool:
    if action == "refuse everywhere":
        return True
    return not one_platform and (action == "refuse" or (action == "refuse within a protocol" and one_protocol))


def _differs(name: str, labels: tuple[str, str], values: tuple[Any, Any]) -> str:
    if isinstance(values[0], dict):
        return _differ_within(name, labels, values)
    return f"{name} differs ({labels[0]}: {_words(values[0])}; {labels[1]}: {_words(values[1])})"


def _differ_within(name: str, labels: tuple[str, str], values: tuple[dict[str, Any], dict[str, Any]]) -> str:
    """Return the name with the first differences."""
    one, other = values
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    words = [
        f"{key}, {labels[0]}: {_words(one.get(key))}; {labels[1]}: {_words(other.get(key))}"
        for key in keys[:_DIFFERENCES_MAX]
    ]
    more = f"; and {len(keys) - _DIFFERENCES_MAX} more" if len(keys) > _DIFFERENCES_MAX else ""
    return f"{name} differs ({'; '.join(words)}{more})"


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
