"""The tables of a scenario file: their keys, types and defaults, and the search for wrong keys.

One idea: one message names all wrong keys of a file, so that the user can correct them in one step.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import msgspec

from archiver.values.content import Checksum
from archiver.values.retention import Lock
from archiver.values.sizes import format_size
from scenarios.notation.ranges import KeyRange
from scenarios.notation.units import Seconds, SizeBytes
from scenarios.reading.phase_checks import CLIENTS_MAX, OBJECT_BYTES_MAX, nearest
from scenarios.reading.phases import (
    OBJECTS_MAX,
    SECONDS_MAX,
    ArrivalsTable,
    AsideTable,
    PhaseTable,
    ScaleTable,
    SearchTable,
    SizesTable,
    TransactionTable,
    WorkloadTable,
)
from scenarios.reading.replay_phases import ReplayTable
from scenarios.work.application_model import ModelTable
from scenarios.work.infrastructure import InfrastructureTable

SweepOperation = Literal[
    "archive", "retrieve", "query", "extend", "hold", "release", "event-hold", "event-release", "refused-delete",
    "delete",
]  # fmt: skip


class StopTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Stop rule of a file. Defaults are those of the built-in scenario dr550."""

    warm_up_sessions: Annotated[int, KeyRange(0, OBJECTS_MAX)] = 1
    warm_up_seconds: Annotated[Seconds, KeyRange(0, SECONDS_MAX)] = Seconds(0.5)
    sessions_min: Annotated[int, KeyRange(1, OBJECTS_MAX)] = 3
    large_sessions_min: Annotated[int, KeyRange(1, OBJECTS_MAX)] = 2
    large_session: SizeBytes = SizeBytes(100_000_000)
    seconds_min: Annotated[Seconds, KeyRange(0, SECONDS_MAX, is_above=True)] = Seconds(3)
    seconds_max: Annotated[Seconds, KeyRange(0, SECONDS_MAX)] = Seconds(10)
    bytes_max: Annotated[SizeBytes, KeyRange(1)] = SizeBytes(256_000_000)
    client_bytes_max: Annotated[SizeBytes, KeyRange(1)] = SizeBytes(130_000_000)
    precision: Annotated[float, KeyRange(0, OBJECTS_MAX)] = 0.05


class SweepTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    operation: SweepOperation
    object_sizes: Annotated[tuple[SizeBytes, ...], KeyRange(1, OBJECT_BYTES_MAX)]
    objects_per_session: Annotated[tuple[int, ...], KeyRange(1, OBJECTS_MAX)]
    clients: Annotated[tuple[int, ...], KeyRange(1, CLIENTS_MAX)]
    locks: tuple[Lock, ...] = ()
    checksums: tuple[Checksum, ...] = ()
    retain_for: Seconds | None = None
    drift_check: bool = False
    load: bool = False
    stop: StopTable = StopTable()
    quick: dict[str, Any] = {}


class CriterionTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str | None = None  # name for --set
    that: str
    workload: str | None = None
    operation: str | None = None
    abort: bool = False
    all: bool = False  # for the sum of all applications
    set: str | None = None  # applies only if the file's ``criteria`` choose this set
    quick: dict[str, Any] = {}


class FileTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    name: str
    title: str
    sweep: tuple[SweepTable, ...] = ()
    phase: tuple[PhaseTable, ...] = ()
    scale: ScaleTable | None = None
    search: SearchTable | None = None
    criterion: tuple[CriterionTable, ...] = ()
    criteria: str | None = None  # chosen set of criteria
    weights: dict[str, float] = {}


INNER: dict[str, type[msgspec.Struct]] = {
    "stop": StopTable, "sizes": SizesTable, "aside": AsideTable, "arrivals": ArrivalsTable, "model": ModelTable,
}  # fmt: skip
TABLES: dict[str, type[msgspec.Struct]] = {
    **INNER, "sweep": SweepTable, "phase": PhaseTable, "workload": WorkloadTable, "scale": ScaleTable,
    "search": SearchTable, "criterion": CriterionTable, "transactions": TransactionTable, "replay": ReplayTable,
    "infrastructure": InfrastructureTable,
}  # fmt: skip


def keys_of(table: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the keys of a table."""
    return table.__struct_fields__


@functools.cache
def fields_of(table: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    """Return the fields of a table, cached because msgspec evaluates all annotations of the table at each call."""
    return msgspec.structs.fields(table)


def tables_in(value: Any) -> list[dict[str, Any]]:
    """Return the tables of a list in a file; none if the value is not a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def default_words(table: type[msgspec.Struct], key: str) -> str:
    """Return the default of a key in the notation of a file, ``required``, or ``none``."""
    field = next(each for each in fields_of(table) if each.name == key)
    if field.required:
        return "required"
    match field.default:
        case bool() as flag:
            return str(flag).lower()
        case SizeBytes() as size_bytes:
            return f"{size_bytes // 10**6}MB" if size_bytes % 10**6 == 0 else format_size(size_bytes)
        case Seconds() as seconds:
            return f"{seconds:g}s"
        case float() as value:
            return f"{value:g}"
        case str() | int() as value:
            return str(value)
        case _:
            return "none"


def wrong_keys(document: dict[str, Any], table: type[msgspec.Struct]) -> Iterator[tuple[str, str]]:
    """Yield each unknown key of a document and of the tables in it, and each missing required key.

    The pairs are the path of the table, such as ``sweep[0].stop``, and the message. The values are not checked.
    """
    known = set(keys_of(table)) | ({"stop"} if table is FileTable else set())
    for key, value in document.items():
        if key not in known:
            yield "", f"unknown key {key!r}{nearest(key, known)}"
        elif key in TABLES:
            many = [(f"{key}[{index}]", each) for index, each in enumerate(value)] if isinstance(value, list) else []
            for path, each in many or [(key, value)]:
                if isinstance(each, dict):
                    for inner, message in wrong_keys(each, TABLES[key]):
                        yield f"{path}.{inner}".removesuffix("."), message
    for field in fields_of(table):
        if field.required and field.name not in document:
            yield "", f"Object missing required field `{field.name}`"
