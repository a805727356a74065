"""From a TOML scenario and its overrides to phases, or to one message that says what to mend.

One idea: a bad file is refused with the file, the key and what would be right, before anything is touched.
"""

from __future__ import annotations

import difflib
import random
import re
import tomllib
from collections.abc import Sequence
from enum import StrEnum
from importlib.resources import files
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, get_args

import msgspec

from archiver.content import Checksum
from archiver.errors import ScenarioError
from archiver.retention import SHORTEST_SECONDS, Lock
from archiver.sizes import parse_duration, parse_size
from scenarios.model import OBJECTS_PER_SESSION_MAX, OperationName, Order, Phase, Scenario, StopRule, Workload

OBJECT_BYTES_MAX = 64 << 20
SECONDS_MAX = 3600.0  # the dates of a phase are promised to the ledger this far ahead


class SizeBytes(int):
    """Bytes, written as 8KiB or as a number."""


class Seconds(float):
    """Seconds, written as 90s."""


class _StopTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    warm_up_sessions: int
    warm_up_seconds: Seconds
    sessions_min: int
    large_sessions_min: int
    large_session: SizeBytes
    seconds_min: Seconds
    seconds_max: Seconds
    bytes_max: SizeBytes
    client_bytes_max: SizeBytes
    precision: float


class _SweepTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    operation: OperationName
    object_sizes: tuple[SizeBytes, ...]
    objects_per_session: tuple[int, ...]
    clients: tuple[int, ...]
    locks: tuple[Lock, ...] = ()
    checksums: tuple[Checksum, ...] = ()
    retain_for: Seconds | None = None
    drift_check: bool = False
    stop: _StopTable
    quick: dict[str, Any] = {}


class _File(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    title: str
    sweep: tuple[_SweepTable, ...]


def builtin_names() -> list[str]:
    """The scenarios that come with Archiver."""
    return sorted(
        entry.name.removesuffix(".toml") for entry in files("scenarios").iterdir() if entry.name.endswith(".toml")
    )


def scenario_text(name_or_path: str) -> tuple[str, str]:
    """(where it is, its text) of a built-in scenario or a file. Raises ScenarioError."""
    if name_or_path in builtin_names():
        return f"scenarios/{name_or_path}.toml", files("scenarios").joinpath(f"{name_or_path}.toml").read_text()
    path = Path(name_or_path)
    if not path.exists():
        close = difflib.get_close_matches(name_or_path, builtin_names(), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ScenarioError(
            f"no scenario {name_or_path!r}: neither a file nor one of {', '.join(builtin_names())}{hint}"
        )
    try:
        return str(path), path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from error


def read_scenario(
    name_or_path: str,
    *,
    overrides: Sequence[str] = (),
    quick: bool = False,
    order: Order = "shuffled",
    order_seed: int = 0,
    repetitions: int = 1,
    allow_large_sessions: bool = False,
    objects_from: str | None = None,
) -> Scenario:
    """Read, check and expand a scenario. Raises ScenarioError naming file, key and remedy.

    Where objects come from an earlier run (``objects_from``), only the sweeps that retrieve are kept.
    """
    where, text = scenario_text(name_or_path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(f"{where}: not TOML: {error}") from error
    _spread_stop(document, where)
    if quick:
        for sweep in document.get("sweep", []):
            if isinstance(sweep, dict) and isinstance(sweep.get("quick"), dict):
                _merge(sweep, sweep["quick"])
    for override in overrides:
        _override(document, override)
    table = _convert(document, where)
    if objects_from is not None:
        table = _retrieving(table)
        if not table.sweep:
            raise ScenarioError(f"{where}: no sweep retrieves, so there is nothing to do with objects of another run")
    _check(table, where, allow_large_sessions)
    if objects_from is None:
        _check_has_source(table, where)
    return _scenario(table, order, order_seed, repetitions, msgspec.json.encode(document).decode())


def recorded_scenario(
    text: str, *, order: Order, order_seed: int, repetitions: int, retrieving_only: bool = False
) -> Scenario:
    """The scenario of ``Scenario.text``: a run that goes on is carried out as it was planned, whatever has become of
    the file since. Raises ScenarioError where this version of Archiver does not know it.
    """
    document = msgspec.json.decode(text)
    table = _convert(document, "the scenario that the run recorded")
    if retrieving_only:
        table = _retrieving(table)
    return _scenario(table, order, order_seed, repetitions, text)


def _retrieving(table: _File) -> _File:
    """Only the sweeps that retrieve."""
    return msgspec.structs.replace(table, sweep=tuple(sweep for sweep in table.sweep if sweep.operation == "retrieve"))


def _scenario(table: _File, order: Order, order_seed: int, repetitions: int, text: str) -> Scenario:
    return Scenario(
        name=table.name,
        title=table.title,
        phases=_expand(table, order, order_seed, repetitions),
        order=order,
        order_seed=order_seed,
        repetitions=repetitions,
        text=text,
    )


def _spread_stop(document: dict[str, Any], where: str) -> None:
    """Give every sweep the file's [stop] under its own."""
    stop = document.pop("stop", {})
    if not isinstance(stop, dict) or not isinstance(document.get("sweep", []), list):
        raise ScenarioError(f"{where}: stop is a table, [stop]; sweep is a list of tables, [[sweep]]")
    for sweep in document.get("sweep", []):
        if isinstance(sweep, dict):
            own = sweep.get("stop", {})
            sweep["stop"] = {**stop, **own} if isinstance(own, dict) else own


def _merge(target: dict[str, Any], source: dict[str, Any]) -> None:
    for key, value in source.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value


def _override(document: dict[str, Any], override: str) -> None:
    """``key=value`` in every sweep, ``SWEEP.key=value`` in one; keys of the stop rule as ``stop.key``."""
    path, separator, text = override.partition("=")
    keys = path.strip().split(".")
    if not separator or not all(keys):
        raise ScenarioError(f"--set {override}: write it as key=value, for example --set clients=1,2")
    sweeps = {sweep.get("name"): sweep for sweep in document.get("sweep", []) if isinstance(sweep, dict)}
    targets = [sweeps[keys[0]]] if keys[0] in sweeps else list(sweeps.values())
    if keys[0] in sweeps:
        keys = keys[1:]
    if keys[:-1] not in ([], ["stop"]):
        raise ScenarioError(f"--set {override}: no sweep {keys[0]!r}{_suggest(keys, {str(name) for name in sweeps})}")
    for target in targets:
        table = target
        for key in keys[:-1]:
            table = table.get(key, {}) if isinstance(table, dict) else {}
        known = set(_fields(_StopTable) if keys[:-1] == ["stop"] else _fields(_SweepTable))
        if not keys or keys[-1] not in known:
            raise ScenarioError(f"--set {override}: unknown key {path.strip()!r}{_suggest(keys[-1:], known)}")
        table[keys[-1]] = _value(text.strip(), isinstance(table.get(keys[-1]), list))


def _value(text: str, is_list: bool) -> Any:
    if is_list and not text.startswith("["):
        return [_value(part.strip(), False) for part in text.split(",")]
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _convert(document: dict[str, Any], where: str) -> _File:
    try:
        return msgspec.convert(document, _File, dec_hook=_decode)
    except msgspec.ValidationError as error:
        text = str(error)
        place = re.search(r" - at `\$\.?(.*)`$", text)
        key = re.sub(r"\[\.\.\.\]", "", place[1]) if place else ""
        message = text[: place.start()] if place else text
        unknown = re.search(r"unknown field `(.*)`", message)
        if unknown:
            table = _StopTable if key.endswith("stop") else _SweepTable if key.startswith("sweep") else _File
            known = set(_fields(table)) | ({"stop"} if table is _File else set())
            message = f"unknown key {unknown[1]!r}{_suggest([unknown[1]], known)}"
        if "enum value" in message:
            message += f"; choose one of {', '.join(_choices(key))}"
        raise ScenarioError(f"{where}: {key + ': ' if key else ''}{message}") from error


def _choices(key: str) -> Sequence[str]:
    """What an entry may be that is one of several words."""
    enums: dict[str, type[StrEnum]] = {"locks": Lock, "checksums": Checksum}
    enum = enums.get(key.rpartition(".")[2].partition("[")[0])
    return get_args(OperationName) if enum is None else [member.value for member in enum]


def _decode(wanted: type, value: Any) -> Any:
    if wanted is SizeBytes:
        return SizeBytes(parse_size(str(value)))
    if wanted is Seconds:
        return Seconds(parse_duration(str(value)))
    raise NotImplementedError(wanted)


def _fields(table: type[msgspec.Struct]) -> tuple[str, ...]:
    return table.__struct_fields__


def _suggest(given: Sequence[str], known: set[str]) -> str:
    close = difflib.get_close_matches(given[0], known, n=1) if given else []
    return f"; did you mean {close[0]!r}?" if close else f"; known here: {', '.join(sorted(known))}"


def _check(table: _File, where: str, allow_large_sessions: bool) -> None:
    if not table.sweep:
        raise ScenarioError(f"{where}: there is no [[sweep]], so there is nothing to measure")
    names = [sweep.name for sweep in table.sweep]
    for index, sweep in enumerate(table.sweep):
        key = f"{where}: sweep {sweep.name!r}"
        if names.index(sweep.name) != index:
            raise ScenarioError(f"{key}: the name is used twice; give each sweep its own")
        for name in ("object_sizes", "objects_per_session", "clients", "locks", "checksums"):
            values = getattr(sweep, name)
            numbers = name not in ("locks", "checksums")
            if not values and numbers:
                raise ScenarioError(f"{key}: {name} is empty; name at least one")
            if len(set(values)) < len(values):
                raise ScenarioError(f"{key}: {name}: an entry stands there twice; name each once")
            if values and not numbers and sweep.operation != "archive":
                raise ScenarioError(f"{key}: {name}: only what is archived has them, not {sweep.operation}")
            if numbers and min(values) < 1:
                raise ScenarioError(f"{key}: {name}: {min(values)} is not possible; every entry must be at least 1")
        if max(sweep.object_sizes) > OBJECT_BYTES_MAX:
            raise ScenarioError(f"{key}: object_sizes: {max(sweep.object_sizes)} bytes is above the limit of 64MiB")
        if max(sweep.objects_per_session) > OBJECTS_PER_SESSION_MAX and not allow_large_sessions:
            raise ScenarioError(
                f"{key}: objects_per_session: {max(sweep.objects_per_session)} is above "
                f"{OBJECTS_PER_SESSION_MAX}, the most a session of this study holds; "
                "--allow-large-sessions measures it all the same"
            )
        stop = sweep.stop
        for name in ("sessions_min", "large_sessions_min"):
            if getattr(stop, name) < 1:
                raise ScenarioError(f"{key}: stop.{name} must be at least 1")
        for name in ("warm_up_sessions", "precision"):
            if not 0 <= getattr(stop, name) < inf:
                raise ScenarioError(f"{key}: stop.{name} must be a number of at least 0")
        if not 0 < stop.seconds_min <= stop.seconds_max:
            raise ScenarioError(f"{key}: stop.seconds_min must be above 0s and not above stop.seconds_max")
        if stop.seconds_max > SECONDS_MAX:
            raise ScenarioError(f"{key}: stop.seconds_max is above {SECONDS_MAX:.0f}s, the longest a phase may take")
        if stop.bytes_max < 1 or stop.client_bytes_max < 1:
            raise ScenarioError(f"{key}: stop.bytes_max and stop.client_bytes_max must be at least 1 byte")
        _check_retain_for(sweep, key)


def _check_retain_for(sweep: _SweepTable, key: str) -> None:
    if sweep.retain_for is None:
        return
    if sweep.operation != "archive" or set(sweep.locks) & {Lock.NONE, Lock.BUCKET_DEFAULT}:
        raise ScenarioError(f"{key}: retain_for: only for what is archived with a date of its own")
    if sweep.retain_for < SHORTEST_SECONDS:
        raise ScenarioError(f"{key}: retain_for: a lock of {sweep.retain_for:g} s may be over before it is there")


_NEEDS = {"release": "held", "delete": "archived with a short retain_for"}


def _check_has_source(table: _File, where: str) -> None:
    """Whatever is asked for was archived (held, locked for a short time) by a sweep before."""
    there: dict[str, set[int]] = {}
    for sweep in table.sweep:
        sizes = set(sweep.object_sizes)
        if sweep.operation == "archive":
            there.setdefault("archived", set()).update(sizes)
            if sweep.retain_for is not None:
                there.setdefault(_NEEDS["delete"], set()).update(sizes)
            if Lock.HEADER_AND_HOLD in sweep.locks:
                there.setdefault("held", set()).update(sizes)
            continue
        need = _NEEDS.get(sweep.operation, "archived")
        missing = sizes - there.get(need, set())
        if missing:
            raise ScenarioError(
                f"{where}: sweep {sweep.name!r}: object_sizes: nothing of {min(missing)} bytes is {need} by a sweep "
                f"before it, so there is nothing to {sweep.operation}"
            )
        if sweep.operation == "hold":
            there.setdefault("held", set()).update(sizes)


def _expand(table: _File, order: Order, order_seed: int, repetitions: int) -> tuple[Phase, ...]:
    """Every repetition runs each sweep's cells, shuffled anew unless the paper's order is asked for."""
    generator = random.Random(order_seed)
    phases: list[Phase] = []
    for repetition in range(1, repetitions + 1):
        for sweep in table.sweep:
            alike = list(product(sweep.object_sizes, sweep.objects_per_session, sweep.clients))
            if order == "shuffled":
                generator.shuffle(alike)
            cells = []
            for size, objects, clients in alike:
                # Variants of one cell follow each other, so that they are compared under the same conditions.
                variants = list(product(sweep.locks or (None,), sweep.checksums or (None,)))
                if order == "shuffled":
                    generator.shuffle(variants)
                cells += [
                    Workload(
                        sweep.operation, sweep.operation, int(size), objects, clients, lock, checksum, sweep.retain_for
                    )
                    for lock, checksum in variants
                ]
            repeated = cells[:1] if sweep.drift_check and len(cells) > 1 else []
            for index, cell in enumerate([*cells, *repeated]):
                phases.append(
                    Phase(
                        sweep.name,
                        len(phases) + 1,
                        repetition,
                        (cell,),
                        _stop_rule(sweep.stop),
                        drift_check=index == len(cells),
                    )
                )
    return tuple(phases)


def _stop_rule(table: _StopTable) -> StopRule:
    return StopRule(
        warm_up_sessions=table.warm_up_sessions,
        warm_up_seconds=float(table.warm_up_seconds),
        sessions_min=table.sessions_min,
        large_sessions_min=table.large_sessions_min,
        large_session_bytes=int(table.large_session),
        seconds_min=float(table.seconds_min),
        seconds_max=float(table.seconds_max),
        bytes_max=int(table.bytes_max),
        client_bytes_max=int(table.client_bytes_max),
        precision=table.precision,
    )
