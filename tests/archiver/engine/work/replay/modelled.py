"""A model of a replay in plain Python, row by row: a store is a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from archiver.traces.format import TracedOperation
from archiver.values.content import VERSIONS_MAX
from archiver.values.record import Operation

OF = {
    operation.label: operation
    for operation in Operation
    if operation not in (Operation.EVENT_HOLD, Operation.EVENT_RELEASE)  # not part of a replay
}
WRITES = {Operation.ARCHIVE, Operation.NEW_VERSION, Operation.COPY}
CHANGES = WRITES | {
    Operation.EXTEND, Operation.HOLD, Operation.RELEASE, Operation.DELETE, Operation.DELETE_MARKER
}  # fmt: skip
NOTHING_TO_DO = {"close", "session", "transaction", "lock"}
SILENCE_NS = 5 * 10**9


@dataclass
class Content:
    """The content of an object's version. Later rows may reveal its size."""

    key: str
    version: int
    size_bytes: int | None
    told: list[int] = field(default_factory=list)
    default: int = 65536

    @property
    def bytes(self) -> int:
        if self.size_bytes is not None:
            return self.size_bytes
        return max(self.told, default=self.default)


@dataclass
class Held:
    """One key of the store."""

    content: Content
    is_prepared: bool
    versions: int = 1
    is_hidden: bool = False
    was_tried: bool = False
    is_held: bool = False
    first: Content = field(init=False)

    def __post_init__(self) -> None:
        self.first = self.content


@dataclass
class Expected:
    """One row of the replay."""

    row: TracedOperation
    operation: Operation
    content: Content | None = None
    first: bool = False
    unlocked: bool = False

    @property
    def keys(self) -> set[str]:
        return {key for key in (self.row.key, self.source) if key is not None and self.operation != Operation.OPEN}

    @property
    def source(self) -> str | None:
        return self.row.source if self.operation == Operation.COPY else None


class Store:
    """Carry rows out, one after another."""

    def __init__(self, rows: Sequence[TracedOperation]) -> None:
        self.held: dict[str, Held] = {}
        self.appeared: dict[str, None] = {}
        self.unsaid: dict[str, list[int]] = {}  # sizes reported later for archives without a size
        self.left_out = 0
        self.expected: list[Expected] = []
        for row in rows:
            if row.operation not in NOTHING_TO_DO and not (row.operation == "open" and row.status):
                self._take(row)
        self._decide_on_deletes()
        prepared = [held.first for held in self.held.values() if held.is_prepared]
        known = [max(content.told) for content in prepared if content.told]
        for content in [*prepared, *(each.content for each in self.expected if each.content)]:
            if known:
                content.default = round(sum(known) / len(known))

    def objects(self, *, prepared: bool) -> list[str]:
        """Return keys in the order of their numbers."""
        keys = [key for key in self.appeared if key in self.held and self.held[key].is_prepared == prepared]
        return sorted(keys, key=lambda key: self.held[key].first.bytes)

    def is_ordered(self, key: str) -> bool:
        about = [each for each in self.expected if key in each.keys]
        return len(about) > 1 and any(each.operation in CHANGES and each.row.key == key for each in about)

    def _take(self, row: TracedOperation) -> None:
        if row.operation == "open":
            self.expected.append(Expected(row, Operation.OPEN))
            return
        operation = OF.get(row.operation)
        if operation is None or row.status or row.key is None or (operation == Operation.COPY and row.source is None):
            self.left_out += 1
            return
        operation = Operation.RETRIEVE if operation == Operation.AUDIT else operation
        source = row.source if operation == Operation.COPY else None
        for key in (source, row.key):
            if key is not None:
                self.appeared.setdefault(key)
        needed = source if operation in WRITES else row.key
        if needed is not None:
            if needed in self.held and self.held[needed].is_hidden:
                self.left_out += 1
                return
            held = self.held.setdefault(needed, Held(Content(needed, 1, None), is_prepared=True))
            if operation == Operation.DELETE and (held.was_tried or held.is_held):
                self.left_out += 1
                return
            self._learn(held.content, row)
        if operation in WRITES:
            self._write(row, operation, source)
        else:
            held = self.held[row.key]
            self.expected.append(Expected(row, operation, held.content))
            held.is_hidden |= operation == Operation.DELETE_MARKER
            held.was_tried |= operation in (Operation.EXTEND, Operation.REFUSED_DELETE)
            if operation in (Operation.HOLD, Operation.RELEASE):
                held.is_held = operation == Operation.HOLD

    def _write(self, row: TracedOperation, operation: Operation, source: str | None) -> None:
        assert row.key is not None
        held = self.held.get(row.key)
        versions = held.versions + 1 if held else 1
        if source is not None:
            content = self.held[source].content
        else:
            unsaid = self.unsaid.setdefault(row.key, [])
            content = Content(row.key, (versions - 1) % VERSIONS_MAX + 1, row.size_bytes, unsaid)
            operation = Operation.NEW_VERSION if held else Operation.ARCHIVE
        self.expected.append(Expected(row, operation, content, first=held is None))
        if held is None:
            self.held[row.key] = Held(content, is_prepared=False)
        else:
            held.content, held.versions = content, versions
            held.is_hidden = held.was_tried = held.is_held = False

    @staticmethod
    def _learn(content: Content, row: TracedOperation) -> None:
        if content.size_bytes is None:
            end = None if row.length is None else (row.offset or 0) + row.length
            content.told += [size for size in (row.size_bytes, end) if size is not None]

    def _decide_on_deletes(self) -> None:
        out = []
        for place, each in enumerate(self.expected):
            if each.operation != Operation.DELETE:
                continue
            after = next((other for other in self.expected[place + 1 :] if each.row.key in other.keys), None)
            if after is not None and (
                after.source == each.row.key or after.operation not in WRITES or after.row.key != each.row.key
            ):
                out.append(each)
                continue
            for other in reversed(self.expected[:place]):
                if other.operation in WRITES and other.row.key == each.row.key:
                    other.unlocked = True
                    break
        self.left_out += len(out)
        self.expected = [each for each in self.expected if not any(each is one for one in out)]


def lanes(rows: Sequence[TracedOperation]) -> tuple[list[int], list[bool]]:
    """Return for each row its stream, and whether it is the last of its session."""
    parts: list[list[int]] = []
    latest: dict[tuple[int, int], int] = {}
    for place, row in enumerate(rows):
        name = (row.client, row.session)
        part = latest.get(name)
        if part is None or row.operation == "open" or row.due_ns - rows[parts[part][-1]].due_ns > SILENCE_NS:
            part = latest[name] = len(parts)
            parts.append([])
        parts[part].append(place)
    of_row, ends = [0] * len(rows), [False] * len(rows)
    numbers: dict[tuple[int, int], int] = {}
    of_client: dict[int, list[int]] = {}
    for places in parts:
        client = rows[places[0]].client
        lasts = of_client.setdefault(client, [])
        lane = next((i for i, last in enumerate(lasts) if last < places[0]), len(lasts))
        lasts[lane : lane + 1] = [places[-1]]
        number = numbers.setdefault((client, lane), len(numbers))
        for place in places:
            of_row[place] = number
        ends[places[-1]] = True
    return of_row, ends


def groups(streams: int, meetings: Iterable[tuple[int, str]]) -> list[int]:
    """Return the group number of each stream. Streams that use the same key are in one group."""
    groups = [{stream} for stream in range(streams)]
    at: dict[str, int] = {}
    for stream, key in meetings:
        other = at.setdefault(key, stream)
        if groups[other] is not groups[stream]:
            both = groups[other] | groups[stream]
            for each in both:
                groups[each] = both
    lowest = [min(group) for group in groups]
    return [sorted(set(lowest)).index(each) for each in lowest]
