"""``--set KEY=VALUE``: keys of a scenario's tables that the command line replaces.

One idea: an override is checked like the file. One message names all wrong overrides, with the keys of the tables and
their defaults.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec

from archiver.values.errors import ScenarioError
from scenarios.reading.file_tables import (
    INNER,
    CriterionTable,
    SweepTable,
    default_words,
    fields_of,
    keys_of,
    tables_in,
)
from scenarios.reading.phase_checks import closest, nearest
from scenarios.reading.phases import PhaseTable, ScaleTable, SearchTable, WorkloadTable
from scenarios.reading.replay_phases import ReplayTable

# Keys of [stop] that apply only to one client, or only to several.
_OF_ONE_CLIENT = frozenset(
    ("warm_up_sessions", "sessions_min", "large_sessions_min", "large_session", "seconds_max", "bytes_max")
)
_OF_SEVERAL_CLIENTS = frozenset(("client_bytes_max",))


def check_own_stops(document: dict[str, Any], where: str) -> None:
    """Refuse keys of a sweep's ``stop`` in the file that have no meaning for its clients."""
    for sweep in tables_in(document.get("sweep")):
        _check_stop_keys(sweep, sweep.get("stop"), where)
        quick = sweep.get("quick")
        if isinstance(quick, dict):
            _check_stop_keys({**sweep, **quick}, quick.get("stop"), f"{where}: quick")


def _meaningless(sweep: dict[str, Any]) -> frozenset[str]:
    """Return the keys of ``stop`` that have no meaning for a sweep with these clients."""
    clients = sweep.get("clients")
    if not isinstance(clients, list) or not clients or not all(isinstance(each, int) for each in clients):
        return frozenset()  # another check refuses its type later
    if max(clients) <= 1:
        return _OF_SEVERAL_CLIENTS
    return _OF_ONE_CLIENT if min(clients) > 1 else frozenset()


def _check_stop_keys(sweep: dict[str, Any], stop: Any, where: str) -> None:
    """Refuse keys of a sweep's own ``stop`` that have no meaning for its clients."""
    for key in sorted(_meaningless(sweep) & set(stop if isinstance(stop, dict) else ())):
        which = "several clients" if key in _OF_SEVERAL_CLIENTS else "one client"
        raise ScenarioError(
            f"{where}: sweep {str(sweep.get('name'))!r}: stop.{key} is for {which}, but this sweep has "
            f"{', '.join(map(str, sweep['clients']))}; leave it out"
        )


def check_stop_overrides(document: dict[str, Any], overrides: Sequence[str]) -> None:
    """Refuse ``--set stop.KEY`` if KEY has no meaning for the clients of any sweep that it changes."""
    for override in overrides:
        name, _, key = override.partition("=")[0].strip().rpartition("stop.")
        sweeps = [each for each in tables_in(document.get("sweep")) if name in ("", f"{each.get('name')}.")]
        if key and sweeps and all(key in _meaningless(each) for each in sweeps):
            _check_stop_keys(sweeps[0], {key: None}, f"--set {override}")


def apply_overrides(document: dict[str, Any], overrides: Iterable[str]) -> None:
    """Replace values of a document.

    ``key=value`` changes every table with the key, and ``NAME.key=value`` the tables of one sweep, phase or workload.
    Keys of nested tables are written as ``stop.key``. Raises ScenarioError with all wrong overrides, and the keys of
    the tables in which they were not found.
    """
    refused: list[str] = []
    searched: dict[type[msgspec.Struct], None] = {}
    for override in overrides:
        try:
            _apply(document, override)
        except _UnknownKey as unknown:
            refused.append(str(unknown))
            searched |= dict.fromkeys(unknown.tables)
        except ScenarioError as wrong:
            refused.append(str(wrong))
    if refused:
        raise ScenarioError("\n".join([*refused, *map(_keys_line, searched)]))


def settable_keys(document: dict[str, Any]) -> dict[str, str]:
    """Return every KEY and NAME.KEY that ``--set`` accepts for a document, each with its default as text."""
    named, everywhere = _tables(document)
    found: dict[str, str] = {}
    for name, tables in (("", everywhere), *named.items()):
        for table, kind in tables:
            nested = [
                (f"{key}.", INNER[key]) for key in keys_of(kind) if key in INNER and isinstance(table.get(key), dict)
            ]
            for outer, each in (("", kind), *nested):
                for key in _settable(each):
                    found.setdefault(".".join(filter(None, (name, f"{outer}{key}"))), default_words(each, key))
    return found


class _UnknownKey(ScenarioError):
    """An override of a key that none of the searched ``tables`` has."""

    def __init__(self, message: str, tables: Iterable[type[msgspec.Struct]]) -> None:
        super().__init__(message)
        self.tables = tuple(tables)


def _apply(document: dict[str, Any], override: str) -> None:
    """Apply one override. Raises ScenarioError."""
    path, separator, text = override.partition("=")
    path = path.strip()
    if not separator or not all(path.split(".")):
        raise ScenarioError(f"--set {override}: write it as key=value, for example --set clients=1,2")
    named, everywhere = _tables(document)
    name = max((each for each in named if path.startswith(f"{each}.")), key=len, default=None)
    *outer, key = (path if name is None else path[len(name) + 1 :]).split(".")
    kinds: list[type[msgspec.Struct]] = []
    is_set = False
    for table, kind in named[name] if name is not None else everywhere:
        at, inner = _within(table, kind, outer)
        kinds += [inner] if inner is not None else []
        if inner is not None and key in keys_of(inner) and at is not None:
            at[key] = _value(text.strip(), inner, key)
            if inner is ReplayTable and key == "trace":  # a captured trace replaces the model
                at.pop("model", None)
            is_set = True
    if outer and not kinds and name is None:
        what = "sweep" if document.get("sweep") else "phase or workload"
        raise ScenarioError(f"--set {override}: no {what} {outer[0]!r}{nearest(outer[0], named)}")
    if not any(key in keys_of(kind) for kind in kinds):
        close = closest(key, {each for kind in kinds for each in _paths(kind)})
        hint = f"; did you mean {close!r}?" if close is not None else ""
        raise _UnknownKey(f"--set {override}: unknown key {path!r}{hint}", kinds)
    if not is_set:
        raise ScenarioError(
            f"--set {override}: there is no table {outer[-1]!r}; write the whole table: {outer[-1]}={{ ... }}"
        )


def _within(
    table: dict[str, Any], kind: type[msgspec.Struct], outer: Sequence[str]
) -> tuple[dict[str, Any] | None, type[msgspec.Struct] | None]:
    """Return the table inside ``table`` that a path leads to, and its kind.

    The table is None if the file does not have it. The kind is None if there is no such table.
    """
    at: Any = table
    inner: type[msgspec.Struct] | None = kind
    for word in outer:
        inner = INNER.get(word) if inner is not None and word in keys_of(inner) else None
        at = at.get(word) if isinstance(at, dict) else None
    return at if isinstance(at, dict) else None, inner


def _settable(kind: type[msgspec.Struct]) -> list[str]:
    """Return the keys of a table that an override may set."""
    return [key for key in keys_of(kind) if key != "quick"]


def _paths(kind: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the keys of a table, and the keys of the tables in it as ``stop.key``."""
    for key in _settable(kind):
        yield key
        yield from (f"{key}.{each}" for each in (keys_of(INNER[key]) if key in INNER else ()))


def _keys_line(kind: type[msgspec.Struct]) -> str:
    """Return the keys of a table with their defaults. A table that always exists is shown by its own keys."""
    shown: list[str] = []
    for field in fields_of(kind):
        if isinstance(field.default, msgspec.Struct):
            inner = INNER[field.name]
            shown += [f"{field.name}.{key} ({default_words(inner, key)})" for key in keys_of(inner)]
        elif field.name in _settable(kind):
            shown.append(f"{field.name} ({default_words(kind, field.name)})")
    return f"keys of {_TITLES[kind]} and their defaults: {', '.join(shown)}"


_Table = tuple[dict[str, Any], type[msgspec.Struct]]


class _ChosenSet(msgspec.Struct, frozen=True):
    """Keys of the file itself that an override may change."""

    criteria: str | None = None


_TITLES: dict[type[msgspec.Struct], str] = {
    SweepTable: "[[sweep]]", PhaseTable: "[[phase]]", WorkloadTable: "[[phase.workload]]",
    ReplayTable: "[[phase.replay]]", ScaleTable: "[scale]", SearchTable: "[search]", CriterionTable: "[[criterion]]",
    _ChosenSet: "the file", **{kind: key for key, kind in INNER.items()},
}  # fmt: skip


def _tables(document: dict[str, Any]) -> tuple[dict[str, list[_Table]], list[_Table]]:
    """Return the tables that may be overridden: by name, and those that a key without a name applies to."""
    sweeps: list[_Table] = [(each, SweepTable) for each in tables_in(document.get("sweep"))]
    phases: list[_Table] = [(each, PhaseTable) for each in tables_in(document.get("phase"))]
    inner: tuple[tuple[str, type[msgspec.Struct]], ...] = (("workload", WorkloadTable), ("replay", ReplayTable))
    workloads = [(each, kind) for phase, _ in phases for key, kind in inner for each in tables_in(phase.get(key))]
    everywhere: list[_Table] = [*sweeps, *phases, *workloads, (document, _ChosenSet)]
    named: dict[str, list[_Table]] = {}
    for table, kind in everywhere[:-1]:
        named.setdefault(str(table.get("name")), []).append((table, kind))
    for name, kind in (("scale", ScaleTable), ("search", SearchTable)):
        if isinstance(document.get(name), dict):
            named.setdefault(name, []).append((document[name], kind))
    for criterion in tables_in(document.get("criterion")):
        if "name" in criterion:
            named.setdefault(str(criterion["name"]), []).append((criterion, CriterionTable))
    return named, everywhere


def _value(text: str, kind: type[msgspec.Struct], key: str) -> Any:
    """Return the TOML value of a text, or the text itself. In a key that accepts a list, commas separate values."""
    if kind is _ChosenSet:  # a name such as 3.8 must stay text
        return text.strip("\"'")
    hint = get_type_hints(kind)[key]
    if _takes_list(hint, text) and not text.startswith("["):
        return [_toml(part.strip()) for part in text.split(",")]
    return _toml(text)


def _takes_list(hint: Any, text: str) -> bool:
    """Return whether a text is a list of values for a key of this type.

    One value is a list only if the key requires a list.
    """
    options = [hint] if get_origin(hint) is tuple else get_args(hint)
    lists = [each for each in options if get_origin(each) is tuple]
    takes_one = any(each is not NoneType and each not in lists for each in options)
    return any(not _is_table(get_args(each)[0]) for each in lists) and ("," in text or not takes_one)


def _is_table(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _toml(text: str) -> Any:
    """Return the TOML value of a text, or the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
