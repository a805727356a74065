"""The model of an application: the rates and kinds of its requests to an object store, as a few numbers.

One idea: a model replaces a captured trace that is not available. It describes the arrival of operations (in sessions,
in bursts), their kinds and their objects. It does not describe their duration, which a replay measures. The models are
ours and say so. IOmark's traces are of block storage, and not ours to distribute. The models have its eight
applications and capacities, and rates of our choice.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from archiver.values.errors import ScenarioError
from archiver.values.typed import typed
from scenarios.notation.distribution import Sizes
from scenarios.notation.ranges import KeyRange, check_ranges
from scenarios.notation.sizes import SHARE_MAX, SizesTable, sizes_of
from scenarios.notation.units import Seconds, SizeBytes, decode
from scenarios.work.mix import OperationName

# Operations of a model. They never change an object that a later operation of the trace uses.
MODELLED: tuple[OperationName, ...] = ("archive", "new-version", "retrieve", "range-retrieve", "head", "query")
STREAMS_MAX = 10_000
PER_SECOND_MAX = 100_000.0
OBJECTS_PER_SESSION_MAX = 10_000.0
SECONDS_MAX = 86_400.0
ZIPF_EXPONENT_MAX = 5.0


class ModelTable(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The table ``model = { ... }`` of a file."""

    streams: Annotated[int, KeyRange(1, STREAMS_MAX)]
    per_second: Annotated[float, KeyRange(0, PER_SECOND_MAX, is_above=True)]
    busy_share: Annotated[float, KeyRange(0, 1, is_above=True)] = 1.0
    busy: Annotated[Seconds | None, KeyRange(0, SECONDS_MAX, is_above=True)] = None
    objects_per_session: Annotated[float, KeyRange(1, OBJECTS_PER_SESSION_MAX)] = 1.0
    gap: Annotated[Seconds | None, KeyRange(0, SECONDS_MAX)] = None
    operations: dict[str, float]
    sizes: SizesTable | str | int
    zipf_exponent: Annotated[float, KeyRange(0, ZIPF_EXPONENT_MAX)] = 0.99  # 0: all alike
    recent_share: Annotated[float, KeyRange(0, 1)] = 0.0  # of the reads
    range: Annotated[SizeBytes | None, KeyRange(1)] = None


@dataclass(frozen=True, slots=True)
class ApplicationModel:
    """Request rates of an application. Times and rates are means of exponential distributions."""

    streams: int  # clients, each with one operation at a time
    per_second: float  # operations of all streams, quiet times included
    busy_share: float  # share of the time with operations; 1: always
    busy_seconds: float  # duration of a busy time
    objects_per_session: float
    gap_seconds: float  # think time between operations of a session; the rest is silence between sessions
    operations: tuple[tuple[OperationName, float], ...]  # shares sum to 1
    sizes: Sizes
    zipf_exponent: float  # reads of the object of rank r are proportional to 1 / r^exponent; 0: uniform
    recent_share: float  # share of reads of objects that the trace itself archived
    range_bytes: int | None  # length of a range-retrieve

    @property
    def silence_seconds(self) -> float:
        """Return the time from the last operation of a session to the stream's next session, quiet times excluded."""
        cycle = self.objects_per_session * self.streams * self.busy_share / self.per_second
        return cycle - (self.objects_per_session - 1) * self.gap_seconds


def application_model(table: ModelTable, key: str) -> ApplicationModel:
    """Return the model of a table. Raises ScenarioError, with ``key`` in front, for inconsistent values."""

    def refuse_unless(holds: bool, what: str) -> None:
        if not holds:
            raise ScenarioError(f"{key}: {what}")

    check_ranges(table, key)
    refuse_unless(
        (table.busy_share == 1) == (table.busy is None),
        "busy, the mean duration of a busy time, is for a busy_share below 1; write both or neither",
    )
    refuse_unless(
        (table.objects_per_session == 1) == (table.gap is None),
        "gap, the time between the operations of a session, is for objects_per_session above 1; write both or neither",
    )
    operations = _operations(table, key)
    does = {name for name, _ in operations}
    refuse_unless(
        (table.range is not None) == ("range-retrieve" in does),
        "range, the length that a range-retrieve reads, is for range-retrieve among the operations; write both or "
        "neither",
    )
    refuse_unless(
        "archive" in does or ("new-version" not in does and not table.recent_share),
        "new-version and recent_share need archive among the operations: they use objects that the trace itself "
        "archived",
    )
    try:
        sizes = sizes_of(table.sizes)
    except ValueError as error:
        raise ScenarioError(f"{key}: {error}") from error
    refuse_unless(sizes.classes[0][0] >= 1, "sizes: an object must have at least 1 byte")
    model = ApplicationModel(
        table.streams,
        float(table.per_second),
        float(table.busy_share),
        float(table.busy or 0.0),
        float(table.objects_per_session),
        float(table.gap or 0.0),
        operations,
        sizes,
        float(table.zipf_exponent),
        float(table.recent_share),
        int(table.range) if table.range is not None else None,
    )
    refuse_unless(
        model.silence_seconds > 0,
        f"{table.streams} streams with gaps of {model.gap_seconds:g}s cannot do {table.per_second:g} operations/s in "
        f"{table.busy_share:.0%} of the time and be silent between sessions; write more streams, or a shorter gap",
    )
    return model


def model_of(text: str, where: str, application: str) -> tuple[ApplicationModel, float | None, int]:
    """Return the model of one application of a scenario's text, the trace's seconds, and its full capacity in bytes.

    The seconds are None if the phase does not have them. Raises ScenarioError if there is no such application, or if it
    has no model.
    """
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{where}: not TOML: {error}") from error
    names = []
    for phase in _tables(document.get("phase")):
        for replay in _tables(phase.get("replay")):
            if replay.get("name") == application:
                return _read(replay, phase, f"{where}: application {application!r}")
            names.append(str(replay.get("name")))
    others = f"; it has {', '.join(names)}" if names else ", and no other: none of its phases has [[phase.replay]]"
    raise ScenarioError(f"{where}: it has no application {application!r}{others}")


def _read(replay: dict[str, Any], phase: dict[str, Any], key: str) -> tuple[ApplicationModel, float | None, int]:
    if "model" not in replay:
        raise ScenarioError(f"{key}: it has no model, because it replays {replay.get('trace')!r}")

    def known(value: Any, wanted: Any) -> Any:
        try:
            return typed(value, wanted, decode=decode)
        except (msgspec.ValidationError, ValueError) as error:
            raise ScenarioError(f"{key}: {error}") from error

    model = application_model(known(replay["model"], ModelTable), f"{key}: model")
    seconds = float(known(phase["seconds"], Seconds)) if "seconds" in phase else None
    if "capacity" not in replay:
        raise ScenarioError(f"{key}: a model needs a capacity: the bytes that exist before its trace")
    return model, seconds, int(known(replay["capacity"], SizeBytes))


def _tables(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _operations(table: ModelTable, key: str) -> tuple[tuple[OperationName, float], ...]:
    """Return the shares of operations, which sum to 1, in the order of MODELLED."""
    for name, share in table.operations.items():
        if name not in MODELLED:
            raise ScenarioError(f"{key}: operations: a model has no {name!r}; it has {', '.join(MODELLED)}")
        if not 0 <= share <= SHARE_MAX:
            raise ScenarioError(f"{key}: operations: {name}: a share of {share:g} is not possible; write 0 to 1e9")
    total = sum(table.operations.values())
    if not total > 0:
        raise ScenarioError(f"{key}: operations: their sum is 0; write at least one share above 0")
    shares = ((name, table.operations.get(name, 0.0) / total) for name in MODELLED)
    return tuple((name, share) for name, share in shares if share > 0)
