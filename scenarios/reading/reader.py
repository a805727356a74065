"""Reading of a TOML scenario and its overrides as phases, or as one message that names what to correct.

One idea: a bad file is refused before anything is touched, with the file, the key and a correct value.
"""

from __future__ import annotations

import difflib
import json
import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from copy import deepcopy
from enum import StrEnum
from importlib.resources import files
from itertools import product
from math import inf
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec

from archiver.values.content import Checksum
from archiver.values.errors import ScenarioError
from archiver.values.retention import SHORTEST_SECONDS, Lock
from archiver.values.typed import typed
from scenarios.criteria import check_names, read_criterion
from scenarios.model import OBJECTS_PER_SESSION_MAX, Order, Phase, Scenario, SearchRange, Workload
from scenarios.notation.ranges import check_ranges
from scenarios.notation.units import decode
from scenarios.reading.file_tables import (
    FileTable,
    StopTable,
    SweepOperation,
    SweepTable,
    wrong_keys,
)
from scenarios.reading.overrides import apply_overrides, check_own_stops, check_stop_overrides, settable_keys
from scenarios.reading.phase_checks import (
    check_phases,
    nearest,
)
from scenarios.reading.phases import (
    SCALE_MAX,
    SCALED,
    ScaleTable,
    SearchTable,
    at_scale,
    expand_phases,
)
from scenarios.work.mix import ArrivalKind, Keys, OperationName
from scenarios.work.sessions import InWindow, Sessions, StopRule, UntilPrecise


class _ScaleTables(msgspec.Struct, frozen=True, kw_only=True):
    """The tables of a file that determine its scales."""

    scale: ScaleTable
    search: SearchTable | None = None


def builtin_names() -> list[str]:
    """Return the names of the built-in scenarios."""
    return sorted(
        entry.name.removesuffix(".toml") for entry in files("scenarios").iterdir() if entry.name.endswith(".toml")
    )


def scenario_text(name_or_path: str) -> tuple[str, str]:
    """Return (location, text) of a built-in scenario or a file. Raises ScenarioError."""
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


def scenario_keys(name_or_path: str) -> dict[str, str]:
    """Return every key that ``--set`` accepts for a scenario, with its default as text. Raises ScenarioError."""
    where, text = scenario_text(name_or_path)
    document = _document(text, where)
    _spread_stop(document, where)
    return settable_keys(document)


def read_scenario(
    name_or_path: str,
    *,
    text: str | None = None,
    overrides: Sequence[str] = (),
    quick: bool = False,
    order: Order = "shuffled",
    order_seed: int = 0,
    repetitions: int = 1,
    allow_large_sessions: bool = False,
    objects_from: str | None = None,
    searches: bool = False,
    criteria: Sequence[str] = (),
) -> Scenario:
    """Read, check and expand a scenario. Raises ScenarioError naming file, key and remedy.

    If objects come from an earlier run (``objects_from``), only the sweeps that retrieve are kept.
    ``searches``: find the largest scale that meets the criteria, instead of carrying out each scale of the file.
    ``criteria`` are added to the criteria of the file.
    ``text`` is TOML that a command made instead of a file. Messages then begin with ``name_or_path``.
    """
    where, toml = scenario_text(name_or_path) if text is None else (name_or_path, text)
    document = _document(toml, where)
    written = deepcopy(document)
    _spread_stop(document, where)
    _check_quick(document, where)
    if quick:
        _make_quick(document)
    apply_overrides(document, overrides)
    scenario = scenario_of(
        document,
        where,
        order=order,
        order_seed=order_seed,
        repetitions=repetitions,
        allow_large_sessions=allow_large_sessions,
        objects_from=objects_from,
        searches=searches,
        criteria=criteria,
    )
    check_own_stops(written, where)
    check_stop_overrides(document, overrides)
    return scenario


def scenario_of(
    document: dict[str, Any],
    where: str,
    *,
    order: Order = "shuffled",
    order_seed: int = 0,
    repetitions: int = 1,
    allow_large_sessions: bool = False,
    objects_from: str | None = None,
    searches: bool = False,
    criteria: Sequence[str] = (),
) -> Scenario:
    """Return the scenario of a file's tables; see ``read_scenario``. ``where`` begins every message."""
    if criteria:
        document["criterion"] = [*document.get("criterion", ()), *_criterion_tables(criteria)]
    if searches and "search" not in document:
        raise ScenarioError(f"{where}: --search: the scenario has no [search] with the range of scales")
    scale = document.get("scale")
    if not searches and isinstance(scale, dict) and scale.get("values"):
        document.pop("search", None)
    scales = _scales(document, where)
    table = _at(document, where, scales[0])
    if table.search is not None and repetitions > 1:
        raise ScenarioError(f"{where}: --repeat: a search repeats its trials as search.repeat says; set that instead")
    if objects_from is not None:
        table = _retrieving(table)
        if not table.sweep:
            raise ScenarioError(f"{where}: no sweep retrieves, so there is nothing to do with objects of another run")
    _check(table, where, allow_large_sessions)
    if objects_from is None:
        _check_has_source(table, where)
    for each in scales if table.search is None else (table.search.first, table.search.last):
        at = _at(document, where, each)
        check_phases(at.phase, at.scale, where, allow_large_sessions=allow_large_sessions)
    text = msgspec.json.encode(document).decode()
    scenario = _scenario(document, where, order, order_seed, repetitions, text, retrieving=objects_from is not None)
    _check_weights(scenario, where)
    check_names(scenario.criteria, scenario.phases, where)
    return scenario


def _criterion_tables(criteria: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the tables of criteria from the command line. Raises ScenarioError for one that cannot be read."""
    for text in criteria:
        read_criterion(text, where="--criterion")
        yield {"that": text}


def phases_at(scenario: Scenario, scale: int, position: int) -> tuple[Phase, ...]:
    """Return the phases of one step of a search, the first at ``position``."""
    document = json.loads(scenario.text)
    return tuple(_phases(document, scenario.name, [float(scale)], 1, position))


def recorded_scenario(
    text: str, *, order: Order, order_seed: int, repetitions: int, retrieving_only: bool = False
) -> Scenario:
    """Return the scenario of ``Scenario.text``, so that a resumed run does not depend on later changes of the file.

    Raises ScenarioError if this version of Archiver does not know the scenario.
    """
    where = "the scenario that the run recorded"
    document = json.loads(text)
    return _scenario(document, where, order, order_seed, repetitions, text, retrieving=retrieving_only)


def _retrieving(table: FileTable) -> FileTable:
    """Return the table with only the sweeps that retrieve."""
    return msgspec.structs.replace(table, sweep=tuple(sweep for sweep in table.sweep if sweep.operation == "retrieve"))


def _document(text: str, where: str) -> dict[str, Any]:
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # from very long numbers and deeply nested lists
        raise ScenarioError(f"{where}: not TOML: {error}") from error
    return document


def _at(document: dict[str, Any], where: str, scale: float | None) -> FileTable:
    """Return the file's tables at one scale."""
    if scale is None:
        return _convert(document, where, FileTable)
    try:
        phases = at_scale(document.get("phase", []), document["scale"]["name"], scale)
    except ValueError as error:
        raise ScenarioError(f"{where}: scale: {error}") from error
    table = _convert({**document, "phase": phases}, where, FileTable)
    if table.phase and phases == document["phase"] and table.scale is not None:
        name = table.scale.name
        raise ScenarioError(
            f"{where}: scale: no key uses it; write {name!r}, or '20 {name}', in place of a number in a phase: "
            f"{', '.join(sorted(SCALED))}"
        )
    return table


def _scales(document: dict[str, Any], where: str) -> tuple[float | None, ...]:
    """Return every scale to carry out, or the first scale of a search; (None,) without a scale."""
    if "scale" not in document:
        return (None,)
    tables = _convert({key: document[key] for key in ("scale", "search") if key in document}, where, _ScaleTables)
    scale, search = tables.scale, tables.search
    if search is not None:
        _check_search(search, where)
    if search is not None:
        return (float(search.first),)
    if not scale.values or len(set(scale.values)) < len(scale.values):
        raise ScenarioError(f"{where}: scale.values: write at least one, and each once; or write [search]")
    check_ranges(scale, where, "scale.")
    return scale.values


def _check_search(search: SearchTable, where: str) -> None:
    if search.step < 1 or not 1 <= search.first <= search.last <= SCALE_MAX:
        raise ScenarioError(
            f"{where}: search: from {search.first} to {search.last} by {search.step} is not a range; first and step "
            f"must be at least 1, and last from first to {SCALE_MAX:,}"
        )
    if search.first % search.step or search.last % search.step:
        raise ScenarioError(f"{where}: search: first and last must be multiples of step ({search.step})")
    check_ranges(search, where, "search.")


def _scenario(
    document: dict[str, Any],
    where: str,
    order: Order,
    order_seed: int,
    repetitions: int,
    text: str,
    *,
    retrieving: bool = False,
) -> Scenario:
    scales = _scales(document, where)
    table = _at(document, where, scales[0])
    if retrieving:
        table = _retrieving(table)
    search = table.search
    if table.sweep:
        phases = _expand(table, order, order_seed, repetitions)
    else:
        phases = tuple(_phases(document, where, scales, repetitions))
    last_step = () if search is None else tuple(_phases(document, where, [float(search.last)], 1))
    return Scenario(
        name=table.name,
        title=table.title,
        phases=phases,
        order=order,
        order_seed=order_seed,
        repetitions=repetitions,
        text=text,
        criteria=tuple(
            read_criterion(
                each.that,
                workload=each.workload,
                operation=each.operation,
                abort=each.abort,
                of_all=each.all,
                where=where,
            )
            for each in table.criterion
            if each.set in (None, table.criteria)
        ),
        search=SearchRange(table.scale.name, search.first, search.last, search.repeat, search.step)
        if search is not None and table.scale is not None
        else None,
        last_step=last_step,
        weights=tuple(table.weights.items()),
    )


def _phases(
    document: dict[str, Any], where: str, scales: Sequence[float | None], repetitions: int, position: int = 1
) -> Iterator[Phase]:
    """Return every phase at every scale, repeated as often as the file requests."""
    for repetition in range(1, repetitions + 1):
        for scale in scales:
            table = _at(document, where, scale)
            for phase in table.phase:
                expanded = expand_phases(phase, position, repetition, scale, table.scale)
                yield from expanded
                position += len(expanded)


def _check_quick(document: dict[str, Any], where: str) -> None:
    """Check the values of ``quick`` even if they are not requested, so that a mistake in them is found."""
    document = deepcopy(document)
    scales = _scales(document, where)
    _at(document, where, scales[0])
    _make_quick(document)
    _at(document, where, _scales(document, where)[0])


def _make_quick(document: Any) -> None:
    """Replace values in all tables by the values of ``quick`` in the same table."""
    if isinstance(document, list):
        for each in document:
            _make_quick(each)
    elif isinstance(document, dict):
        if isinstance(document.get("quick"), dict):
            _merge(document, document["quick"])
        for each in document.values():
            _make_quick(each)


def _spread_stop(document: dict[str, Any], where: str) -> None:
    """Use the file's [stop] as defaults for the ``stop`` of every sweep."""
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


_Converted = TypeVar("_Converted", bound=msgspec.Struct)


def _convert(document: dict[str, Any], where: str, kind: type[_Converted]) -> _Converted:
    wrong = [f"{where}: {_place(path, document)}{message}" for path, message in wrong_keys(document, kind)]
    if wrong:
        raise ScenarioError("\n".join(wrong))
    try:
        return typed(document, kind, decode=decode)
    except msgspec.ValidationError as error:
        text = str(error)
        found = re.search(r" - at `\$\.?(.*)`$", text)
        key = re.sub(r"\[\.\.\.\]", "", found[1]) if found else ""
        last = key.rpartition(".")[2].partition("[")[0]
        message = text[: found.start()] if found else text
        if "enum value" in message:
            message += f"; choose one of {', '.join(_choices(key, last))}"
        if "got `str`" in message and last in SCALED and key.startswith("phase"):
            message += f"; {_HOW_TO_SCALE.format(_scale_name(document))}"
        raise ScenarioError(f"{where}: {_place(key, document)}{message}") from error


_HOW_TO_SCALE = "write a number, or a multiple of [scale]: '20 {}'"


def _scale_name(document: dict[str, Any]) -> str:
    """Return the name of a file's scale, or an example if it has none."""
    scale = document.get("scale")
    return str(scale.get("name")) if isinstance(scale, dict) else "tiles"


def _place(key: str, document: Any) -> str:
    """Return the location of a key, by the names of its tables: ``phase 'mix': workload 'web': arrivals.kind: ``."""
    place = ""
    while step := re.match(r"(sweep|phase|workload|replay|infrastructure)\[(\d+)\]\.?", key):
        document = document[step[1]][int(step[2])]
        name = document.get("name") if isinstance(document, dict) else None
        place += f"{step[1]} {name!r}: " if isinstance(name, str) else f"{step[0].removesuffix('.')}: "
        key = key[step.end() :]
    return f"{place}{key}: " if key else place


def _choices(key: str, last: str) -> Sequence[str]:
    """Return the words that a key accepts."""
    enums: dict[str, type[StrEnum]] = {"locks": Lock, "lock": Lock, "checksums": Checksum, "checksum": Checksum}
    words = {"keys": Keys, "kind": ArrivalKind, "cache": Literal["drop", "keep"]}
    if last in enums:
        return [member.value for member in enums[last]]
    return get_args(SweepOperation if key.startswith("sweep") else words.get(last, OperationName))


def _check_weights(scenario: Scenario, where: str) -> None:
    applications = {
        workload.application for phase in scenario.phases if not phase.is_load for workload in phase.workloads
    }
    for name, weight in scenario.weights:
        if name not in applications:
            raise ScenarioError(f"{where}: weights: no application {name!r} is measured{nearest(name, applications)}")
        if not 0 <= weight < inf:
            raise ScenarioError(f"{where}: weights: {weight:g} of {name!r} is not possible; each is at least 0")
    if scenario.weights and not 0 < sum(weight for _, weight in scenario.weights) < inf:
        raise ScenarioError(f"{where}: weights: all of them are 0; at least one must be above 0")


def _check(table: FileTable, where: str, allow_large_sessions: bool) -> None:
    """Refuse what cannot be carried out. Raises ScenarioError naming sweep and key."""
    _check_kinds(table, where)
    _check_criteria(table, where)
    names = [sweep.name for sweep in table.sweep]
    for index, sweep in enumerate(table.sweep):
        key = f"{where}: sweep {sweep.name!r}"
        if names.index(sweep.name) != index:
            raise ScenarioError(f"{key}: the name is used twice; give each sweep its own")
        _check_lists(sweep, key)
        _check_limits(sweep, key, allow_large_sessions)
        _check_stop(sweep.stop, 1 in sweep.clients, key)
        _check_retain_for(sweep, key)


def _check_kinds(table: FileTable, where: str) -> None:
    if not table.sweep and not table.phase:
        raise ScenarioError(f"{where}: there is no [[sweep]] and no [[phase]], so there is nothing to measure")
    if table.sweep and table.phase:
        raise ScenarioError(f"{where}: [[sweep]] and [[phase]]: a scenario has only one of them; write two scenarios")
    if table.sweep and (table.search is not None or table.scale is not None or table.weights):
        raise ScenarioError(f"{where}: scale, search and weights are for phases; sweeps have their own lists")


def _check_criteria(table: FileTable, where: str) -> None:
    sets = {each.set for each in table.criterion if each.set is not None}
    if table.criteria is not None and table.criteria not in sets:
        raise ScenarioError(
            f"{where}: criteria: no criterion belongs to set {table.criteria!r}{nearest(table.criteria, sets)}"
        )
    if sets and table.criteria is None:
        raise ScenarioError(f"{where}: criteria: choose a set: {', '.join(sorted(sets))}")
    if table.search is not None and (table.scale is None or not table.criterion):
        raise ScenarioError(
            f"{where}: search needs [scale], which it varies, and [[criterion]], which decides what passes"
        )


def _check_lists(sweep: SweepTable, key: str) -> None:
    for name in ("object_sizes", "objects_per_session", "clients"):
        values = getattr(sweep, name)
        if not values:
            raise ScenarioError(f"{key}: {name} is empty; name at least one")
        if len(set(values)) < len(values):
            raise ScenarioError(f"{key}: {name}: an entry occurs twice; name each once")
    for name in ("locks", "checksums"):
        values = getattr(sweep, name)
        if len(set(values)) < len(values):
            raise ScenarioError(f"{key}: {name}: an entry occurs twice; name each once")
        if values and sweep.operation != "archive":
            raise ScenarioError(f"{key}: {name}: only operation archive has them, not {sweep.operation}")


def _check_limits(sweep: SweepTable, key: str, allow_large_sessions: bool) -> None:
    most = max(sweep.objects_per_session)
    check_ranges(sweep, key)
    if most > OBJECTS_PER_SESSION_MAX and not allow_large_sessions:
        raise ScenarioError(
            f"{key}: objects_per_session: {most} is above {OBJECTS_PER_SESSION_MAX}, the maximum of a session in this "
            "study; --allow-large-sessions allows more"
        )


def _check_stop(stop: StopTable, has_one_client: bool, key: str) -> None:
    check_ranges(stop, key, "stop.")
    if has_one_client and stop.seconds_min > stop.seconds_max:
        raise ScenarioError(f"{key}: stop.seconds_min must not be above stop.seconds_max")


def _check_retain_for(sweep: SweepTable, key: str) -> None:
    if sweep.retain_for is None:
        return
    if sweep.operation != "archive" or set(sweep.locks) & {Lock.NONE, Lock.BUCKET_DEFAULT}:
        raise ScenarioError(f"{key}: retain_for: it applies only to objects archived with their own date")
    if sweep.retain_for < SHORTEST_SECONDS:
        raise ScenarioError(f"{key}: retain_for: a lock of {sweep.retain_for:g} s may end before the platform has it")


_NEEDS = {
    "release": "held", "delete": "archived with a short retain_for", "event-release": "under an event hold",
}  # fmt: skip


def _check_has_source(table: FileTable, where: str) -> None:
    """Check that an earlier sweep archived every requested object, and held it or locked it briefly if necessary."""
    found: dict[str, set[int]] = {}
    # Without this operation, --event-hold places the event holds, on all archived objects.
    places_event_holds = any(sweep.operation == "event-hold" for sweep in table.sweep)
    for sweep in table.sweep:
        sizes = set(sweep.object_sizes)
        if sweep.operation == "archive":
            found.setdefault("archived", set()).update(sizes)
            if not places_event_holds:
                found.setdefault(_NEEDS["event-release"], set()).update(sizes)
            if sweep.retain_for is not None:
                found.setdefault(_NEEDS["delete"], set()).update(sizes)
            if Lock.HEADER_AND_HOLD in sweep.locks:
                found.setdefault("held", set()).update(sizes)
            continue
        need = _NEEDS.get(sweep.operation, "archived")
        missing = sizes - found.get(need, set())
        if missing:
            raise ScenarioError(
                f"{where}: sweep {sweep.name!r}: object_sizes: no object of {min(missing)} bytes is {need} by an "
                f"earlier sweep, so there is nothing to {sweep.operation}"
            )
        if sweep.operation == "hold":
            found.setdefault("held", set()).update(sizes)
        elif sweep.operation == "event-hold":
            found.setdefault(_NEEDS["event-release"], set()).update(sizes)


def _expand(table: FileTable, order: Order, order_seed: int, repetitions: int) -> tuple[Phase, ...]:
    """Return the phases. Each repetition has the cells of every sweep.

    The cells are shuffled again for each repetition, unless the paper's order is requested.
    """
    generator = random.Random(order_seed)
    phases: list[Phase] = []
    for repetition in range(1, repetitions + 1):
        for sweep in table.sweep:
            alike = list(product(sweep.object_sizes, sweep.objects_per_session, sweep.clients))
            if order == "shuffled":
                generator.shuffle(alike)
            cells = []
            for size, objects, clients in alike:
                # Variants of one cell are adjacent, so that they are compared under the same conditions.
                variants = list(product(sweep.locks or (None,), sweep.checksums or (None,)))
                if order == "shuffled":
                    generator.shuffle(variants)
                cells += [
                    Workload(
                        sweep.operation,
                        Sessions(sweep.operation, int(size), _stop_rule(sweep.stop, int(size) * objects, clients)),
                        clients,
                        objects,
                        lock,
                        checksum,
                        sweep.retain_for,
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
                        drift_check=index == len(cells),
                        is_load=sweep.load,
                    )
                )
    return tuple(phases)


def _stop_rule(table: StopTable, session_bytes: int, clients: int) -> StopRule:
    """Return the stop rule of one cell: one client is measured in whole sessions, several in a window."""
    if clients > 1:
        return InWindow(
            float(table.seconds_min), int(table.client_bytes_max), float(table.warm_up_seconds), table.precision
        )
    return UntilPrecise(
        seconds_min=float(table.seconds_min),
        seconds_max=float(table.seconds_max),
        bytes_max=int(table.bytes_max),
        precision=table.precision,
        sessions_min=table.large_sessions_min if session_bytes > table.large_session else table.sessions_min,
        warm_up_sessions=table.warm_up_sessions,
        warm_up_seconds=float(table.warm_up_seconds),
    )
