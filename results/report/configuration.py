"""The configuration of a run as readable text: names in words, and values with their units.

The unit of a value is the end of its name, as everywhere in the database: ``memory_bytes``, ``retain_for_seconds``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from archiver.values.sizes import format_bytes, format_duration, format_instant
from results.document.table import NOT_MEASURED, TLS_WORDS
from results.measures.doubts import origin, resumed
from results.mixed.replay.verdicts import run_verdict
from results.recorded.run import RecordedRun

_INSTANTS = ("_until", "_at")  # ends of the names of moments, in epoch seconds
_SECONDS_MAX = 120.0  # longer durations are written in minutes, hours and days
_NAMES = {  # of settings whose own name, with spaces, is not clear
    "tls": "TLS",
    "shares_host": "client and server share a machine",
    "server_clock_offset_seconds": "server's clock minus the client's",
    "session_open": "request that opens a session",
    "session_kind": "sessions are",
    "payload_signing": "payloads are signed",
    "verify": "retrieved objects verified",
    "poll": "how workers wait for answers",
    "watched": "sources of server samples",
    "dask": "Dask cluster",
    "on_close": "when the platform ends a connection",
    "python": "Python",
    "archiver": "Archiver",
}


def readable_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return recorded settings with names in words, and values with units. Settings within others follow each other."""
    return dict(_rows(settings, ()))


def _rows(settings: Mapping[str, Any], outer: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _rows(value, (*outer, name))
        else:
            names = [each for each in outer if each not in ("details", "packages")]
            yield " ".join([*map(_words, names), _words(name)]), readable_value(name, value)


def _words(name: str) -> str:
    """Return the words of a name, without its unit."""
    if name in _NAMES:
        return _NAMES[name]
    return name.removesuffix("_bytes").removesuffix("_seconds").replace("_", " ")


def readable_value(name: str, value: Any) -> str:
    """Return a value in the unit that the end of its name states. Empty values are ``–``."""
    if value is None or value in ("", [], (), {}):
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, value)
    if isinstance(value, Mapping):
        return ", ".join(f"{label} {text}" for label, text in readable_settings(value).items())
    if isinstance(value, list | tuple):
        texts = [readable_value(name, each) for each in value]
        return ("; " if any(isinstance(each, Mapping) for each in value) else ", ").join(texts)
    return str(value)


def _number(name: str, value: float) -> str:
    if name.endswith("_bytes"):
        return format_bytes(value)
    if name.endswith("_bytes_per_second"):
        return f"{format_bytes(value)}/s"
    if name.endswith(_INSTANTS):
        return format_instant(value)
    if name.endswith("_seconds"):
        return format_duration(value) if abs(value) >= _SECONDS_MAX else f"{value:,.2f} s"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def facts(recorded: RecordedRun) -> dict[str, str]:
    """Return the facts about a run: label and text, in order. A run with only conformance checks has fewer."""
    run = recorded.run
    if run.scenario == "worm":
        return {
            "run": run.id,
            "scenario": run.scenario_title,
            "started": format_instant(run.started_at),
            "platform": f"{run.platform.name}, {', '.join(run.platform.endpoints)}",
            "command": " ".join(run.command_line),
        }
    settings, host, platform = run.settings, run.host, run.platform
    lock = "none"
    earlier = run.objects_from
    if earlier is not None:
        lock = f"nothing was locked; the objects of run {earlier.run} were, {settings['retention_mode']}"
    elif settings["retention_mode"] == "CLASS":
        length = settings["retain_for_seconds"]
        lock = f"management class {settings['management_class']}, {format_duration(length)}"
    elif settings["retention_mode"] != "none":
        until = settings["retain_until"]
        how_long = (
            f"until {format_instant(until)}" if until else f"for {format_duration(settings['retain_for_seconds'])}"
        )
        lock = f"{settings['retention_mode']} {how_long}"
    if settings["legal_hold"] and earlier is None:
        lock += ", legal hold"
    if settings.get("event_hold_days") and earlier is None:
        lock += f", event hold and then {settings['event_hold_days']}d"
    if run.lock_verified:
        lock += f" (locks read back: {run.lock_verified})"
    results = recorded.results
    warm_up = sum(result.warm_up_objects for result in results)
    verdict = run_verdict(run.verdict, results, recorded.criteria)
    offset = platform.server_clock_offset_seconds
    has_sweeps = "sweep" in json.loads(run.scenario_json)  # only their cells have an order of their own
    order = f", order {run.sweep_order} (seed {run.order_seed})" if has_sweeps else ""
    return {
        **({"verdict": verdict} if verdict else {}),
        "run": run.id,
        "scenario": run.scenario_title + order,
        "started": "; ".join([format_instant(run.started_at), *resumed(recorded)]),
        **({"objects": origin(run.started_at, earlier)} if earlier is not None else {}),
        "platform": f"{platform.name} through {run.backend}"
        + (f", {', '.join(platform.endpoints)}" if platform.endpoints else "")
        + (", buckets named in the host" if platform.details.get("addressing") == "virtual" else ""),
        "durability": platform.durability,
        "TLS": TLS_WORDS[platform.tls],
        "watched": ", ".join(settings["watched"]) or "nothing: the platform is not on this machine",
        "server clock": "unknown" if offset is None else f"{offset:+.1f} s against this machine",
        "lock": lock,
        "session": f"{settings['session_kind']}, opening asks {settings['session_open']}{_transactions(settings)}",
        "checks": f"checksum {settings['checksum']}, retrieved objects verified: {settings['verify']}",
        "client": f"{host['processor']}, {host['cores']} cores, {format_bytes(host['memory_bytes'])} memory, "
        f"kernel {host['kernel']}, Python {host['python']}, {run.workers} worker(s)"
        + _on_cluster(settings)
        + (f" on core {', '.join(map(str, run.worker_cores))}" if run.worker_cores else "")
        + (", polling busily" if settings["poll"] == "busy" else ""),
        "warm-up": f"{warm_up:,} objects before the measured times, in no rate",
        "command": " ".join(run.command_line),
    }


def _on_cluster(settings: dict[str, Any]) -> str:
    cluster = settings.get("dask")
    if cluster is None:
        return ""
    hosts = len({each["host"] for each in cluster["workers"]})
    return f" of the Dask cluster at {cluster['scheduler']}, on {hosts} host(s)"


def _transactions(settings: dict[str, Any]) -> str:
    limit = settings.get("objects_per_transaction_max")
    return "" if limit is None else f"; up to {limit:,} objects commit together"
