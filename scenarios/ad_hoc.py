"""The scenario of ``archiver bench``: TOML text made from sizes, objects per session, clients and operations.

One idea: the command does not measure in a way of its own. Its scenario is a text like any other, which can be saved,
changed and carried out with ``archiver run FILE``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil

from archiver.values.sizes import format_size
from scenarios.criteria import read_criterion

WARM_UP_SHARE = 0.1  # share of the duration
SHARE_MAX = 999  # maximum share of one side of a mixed operation

# Upper bounds of what a closed loop may archive: these rates, and the number of objects that the guard allows.
_BYTES_PER_SECOND_MAX = 10**9
_OBJECTS_PER_SECOND_MAX = 20_000
_OBJECTS_MAX = 10_000_000
_GUARD_SHARE = 0.9  # the rest is for probe objects, and for the last session of every client
_SESSIONS_MIN = 2  # for each client, even if the guard allows less; the plan then refuses the run

# The data set that is archived first if nothing else archives before the first retrieve.
_LOADED_BYTES = 256 << 20
_LOADED_OBJECTS_MAX = 1000
_LOADED_OBJECTS_MIN = 16
_LOADING_CLIENTS = 4
_LOADING_OBJECTS_PER_SESSION = 100


@dataclass(frozen=True, slots=True)
class AdHocOperation:
    """Shares of retrieves and archives in one kind of workload."""

    retrieves: int
    archives: int

    @property
    def name(self) -> str:
        """Return the common name of its workloads, for criteria and tables."""
        if not self.retrieves:
            return "archive"
        return f"mixed {self.retrieves}/{self.archives}" if self.archives else "retrieve"


ARCHIVE = AdHocOperation(0, 1)
RETRIEVE = AdHocOperation(1, 0)


def parse_operation(text: str) -> AdHocOperation:
    """Return the operation of ``archive``, ``retrieve`` or ``mixed:70/30`` (70% retrieves, 30% archives).

    Raises ValueError with the remedy.
    """
    kind, _, shares = text.partition(":")
    if text in ("archive", "retrieve"):
        return ARCHIVE if text == "archive" else RETRIEVE
    retrieves, _, archives = shares.partition("/")
    numbers = [int(each) if each.isascii() and each.isdecimal() else 0 for each in (retrieves, archives)]
    if kind != "mixed" or not all(1 <= each <= SHARE_MAX for each in numbers):
        raise ValueError(
            f"{text!r} is not an operation: archive, retrieve, or mixed:70/30 for 70 retrieves and 30 archives, each "
            f"from 1 to {SHARE_MAX}"
        )
    return AdHocOperation(*numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdHoc:
    """Measurements: every operation with every size, number of objects per session and number of clients."""

    operations: tuple[AdHocOperation, ...]
    object_bytes: tuple[int, ...]
    objects_per_session: tuple[int, ...]
    clients: tuple[int, ...]
    seconds: float  # of each measurement, warm-up included
    sessions_per_second: float | None = None  # open loop; None: closed loop
    criteria: tuple[str, ...] = ()

    @property
    def are_sweeps(self) -> bool:
        """Return whether the measurements are cells of sweeps: a single operation in a closed loop."""
        return self.sessions_per_second is None and not any(
            each.retrieves and each.archives for each in self.operations
        )

    @property
    def loads(self) -> bool:
        """Return whether objects must be archived before the measurements, because the first one retrieves."""
        return self.operations[0].retrieves > 0

    @property
    def archiving_cells(self) -> int:
        """Return the number of measurements that archive."""
        cells = len(self.object_bytes) * len(self.objects_per_session) * len(self.clients)
        return cells * sum(each.archives > 0 for each in self.operations)


def ad_hoc_text(wanted: AdHoc, locked_bytes_max: int) -> str:
    """Return the scenario's TOML text.

    All its measurements archive at most about ``locked_bytes_max`` in total, unless the rate or the shortest sessions
    require more. The guards then refuse the run. Raises ScenarioError for a criterion that cannot be read.
    """
    page, tables = ("reference/scenarios.md", _sweeps) if wanted.are_sweeps else ("mixed-workloads.md", _phases)
    operations = ", ".join(each.name for each in wanted.operations)
    sizes = ", ".join(map(format_size, wanted.object_bytes))
    return (
        "\n\n".join(
            [
                f"# Made by archiver bench. docs/{page} has every key.\n"
                f'name = "bench"\ntitle = {_quoted(f"Ad-hoc measurement: {operations} of {sizes}")}',
                *(f"[[criterion]]\nthat = {_quoted(_checked(each))}" for each in wanted.criteria),
                *tables(wanted, locked_bytes_max),
            ]
        )
        + "\n"
    )


def _sweeps(wanted: AdHoc, locked_bytes_max: int) -> Iterator[str]:
    """Yield the sweeps: one for each operation, size and number of clients, since these have bounds of their own."""
    loads = [(ARCHIVE, size_bytes, _LOADING_CLIENTS) for size_bytes in wanted.object_bytes] if wanted.loads else []
    cells = wanted.archiving_cells + len(loads)
    every = [*loads, *product(wanted.operations, wanted.object_bytes, wanted.clients)]
    share = int(_GUARD_SHARE * locked_bytes_max) // max(1, cells)
    warm_up = _seconds(WARM_UP_SHARE * wanted.seconds)
    measured = _seconds((1 - WARM_UP_SHARE) * wanted.seconds)
    for place, (operation, size_bytes, clients) in enumerate(every):
        is_load = place < len(loads)
        size = format_size(size_bytes)
        name = f"load {size}" if is_load else f"{operation.name} {size}, {clients} client{'s' if clients > 1 else ''}"
        most = _bytes_max(wanted.seconds, size_bytes)
        most = min(share, most) if operation.archives else most
        rules = [f'warm_up_seconds = "{warm_up}"', f'seconds_min = "{measured}"']
        if clients > 1:
            rules.append(f"client_bytes_max = {max(1, most // clients)}")
        else:  # the warm-up of one client may use a tenth of its objects in addition
            rules += [f'seconds_max = "{measured}"', f"bytes_max = {max(1, most * 9 // 10)}"]
            rules += ["warm_up_sessions = 0", f"sessions_min = {_SESSIONS_MIN}"]
        objects = [_LOADING_OBJECTS_PER_SESSION] if is_load else list(wanted.objects_per_session)
        yield "\n".join(
            [
                f'[[sweep]]\nname = "{name}"\noperation = "{operation.name}"',
                *(["load = true"] if is_load else []),
                f'object_sizes = ["{size}"]\nobjects_per_session = {objects}\nclients = [{clients}]',
                f"stop = {{ {', '.join(rules)} }}",
            ]
        )


def _load(wanted: AdHoc) -> Iterator[str]:
    """Yield the phase that archives the objects that the measurements retrieve."""
    yield (
        "# What the measurements retrieve. It is measured as a load, and no criterion applies to it.\n"
        '[[phase]]\nname = "load"\nload = true'
    )
    for size_bytes in wanted.object_bytes:
        size = format_size(size_bytes)
        yield (
            f'[[phase.workload]]\nname = "load {size}"\noperation = "archive"\ndata = "{size}"\nsizes = "{size}"\n'
            f"clients = {_LOADING_CLIENTS}\n"
            f"objects_per_session = {min(_LOADING_OBJECTS_PER_SESSION, _loaded(size_bytes) // _LOADING_CLIENTS)}\n"
            f"fill = {_loaded(size_bytes)}"
        )


def _phases(wanted: AdHoc, locked_bytes_max: int) -> Iterator[str]:
    """Yield the phase of the load, if the first operation retrieves, and the phase of every measurement."""
    if wanted.loads:
        yield from _load(wanted)
    loaded_bytes = sum(_loaded(each) * each for each in wanted.object_bytes) if wanted.loads else 0
    share = int(_GUARD_SHARE * locked_bytes_max - loaded_bytes) // max(1, wanted.archiving_cells)
    every = product(wanted.operations, wanted.object_bytes, wanted.objects_per_session, wanted.clients)
    for operation, size_bytes, objects, clients in every:
        size = format_size(size_bytes)
        cell = f"{operation.name} {size} x {objects}, {clients} client{'s' if clients > 1 else ''}"
        yield f'[[phase]]\nname = "{cell}"'
        lines = ["[[phase.workload]]", f'name = "{cell}"', f'application = "{operation.name}"']
        lines += _operation_lines(operation)
        lines += [f'data = "{size}"', *([f'sizes = "{size}"'] if operation.archives else [])]
        lines += [f"clients = {clients}", f"objects_per_session = {objects}"]
        lines += [f'seconds = "{_seconds(wanted.seconds)}"', f'warm_up = "{_seconds(WARM_UP_SHARE * wanted.seconds)}"']
        if wanted.sessions_per_second is not None:
            lines.append(f'arrivals = {{ kind = "poisson", per_second = {wanted.sessions_per_second:.9g} }}')
        elif operation.archives:
            smallest = _SESSIONS_MIN * clients * objects * size_bytes
            lines.append(f"bytes_max = {_bytes(max(smallest, min(share, _bytes_max(wanted.seconds, size_bytes))))}")
        yield "\n".join(lines)


def _operation_lines(operation: AdHocOperation) -> list[str]:
    if not (operation.retrieves and operation.archives):
        return [f'operation = "{operation.name}"']
    return [
        f'transactions = [{{ steps = ["retrieve"], share = {operation.retrieves} }}, '
        f'{{ steps = ["archive"], share = {operation.archives} }}]'
    ]


def _bytes_max(seconds: float, size_bytes: int) -> int:
    """Upper bound of the bytes that a closed loop archives in this time at the highest expected rates."""
    objects = min(_OBJECTS_MAX, int(_OBJECTS_PER_SECOND_MAX * seconds))
    return min(int(_BYTES_PER_SECOND_MAX * seconds), objects * size_bytes)


def _loaded(size_bytes: int) -> int:
    """Return the number of objects of a size that are archived before the measurements."""
    return max(_LOADED_OBJECTS_MIN, min(_LOADED_OBJECTS_MAX, _LOADED_BYTES // size_bytes))


def _bytes(count: int) -> str:
    """Return an amount as a value of a scenario: whole megabytes, rounded up, if it is large."""
    return f'"{ceil(count / 10**6)}MB"' if count >= 10**8 else str(count)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def _checked(criterion: str) -> str:
    """Return the text of a criterion after parsing it. Raises ScenarioError."""
    return read_criterion(criterion, where="--criterion").text


def _quoted(text: str) -> str:
    return json.dumps(text)
