"""The catalogue's tables of TSM archives (see `archives.sql`): classes, file spaces, access rules, archived objects.

One idea, as in `catalogue.py`: one writer, any number of readers. `ArchiveQueries` has the queries of both; `Archives`
adds the changes, inside the one transaction of a group commit. Classes, spaces and rules are few. They are mirrored in
memory as values that are replaced and never changed; a rollback reads them again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..files.segments import SegmentLocation
from ..rules import policy
from ..rules.policy import ManagementClass

FIND_AT_ONCE = 500
_PAGE = 1000


class Space(NamedTuple):
    """A file space of one node."""

    id: int
    node: str
    name: bytes
    type: bytes
    occupancy: int
    capacity: int
    info: bytes
    archived_ms: int

    @property
    def record_key_start(self) -> bytes:
        """The prefix of the record names of its objects in segments."""
        return self.node.encode() + b"\0" + self.name + b"\0"


class AccessRule(NamedTuple):
    """An access rule: the objects of a file space that it opens, and its readers (see `access.sql`)."""

    id: int
    space: int
    hl: bytes
    ll: bytes
    giver: bytes
    node: bytes
    owner: bytes


class Archive(NamedTuple):
    """A row of `archives`: one archived object."""

    id: int
    space: int
    hl: bytes
    ll: bytes
    type: int
    attributes: int
    owner: bytes
    class_id: int
    archived_ms: int
    event_ms: int | None
    held: int
    estimate: int
    size: int
    segment: int
    offset: int
    block_crcs: bytes
    description: bytes
    info: bytes

    @property
    def key(self) -> str:
        """A name for messages."""
        return (self.hl + self.ll).decode("utf-8", "replace")


_FIELDS = [{"class_id": "class"}.get(field, field) for field in Archive._fields]
_COLUMNS = ", ".join(_FIELDS)
_ROW = f"({', '.join('?' * len(_FIELDS))})"
# As for versions: few calls of SQLite with many rows each.
_INSERTS = {count: f"INSERT INTO archives ({_COLUMNS}) VALUES {', '.join([_ROW] * count)}" for count in (64, 16, 4, 1)}
_SPACE_COLUMNS = ", ".join(Space._fields)
_RULE_COLUMNS = ", ".join(AccessRule._fields)


class ArchiveQueries:
    """The queries on archived objects, on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, ids: Sequence[int]) -> dict[int, Archive]:
        """Return the objects that exist, by id."""
        found: dict[int, Archive] = {}
        for first in range(0, len(ids), FIND_AT_ONCE):
            part = ids[first : first + FIND_AT_ONCE]
            marks = ", ".join("?" * len(part))
            found.update((row.id, row) for row in self._select(f"id IN ({marks})", part))
        return found

    def of_space(self, space: int, low: tuple[bytes, bytes], high: tuple[bytes, bytes]) -> Iterator[Archive]:
        """Yield objects of a space with low <= (hl, ll) < high, by name and then by age.

        The query reads pages. Between two pages it holds no lock, and objects may be added and deleted.
        """
        condition = f"space = ? AND (hl, ll, id) > (?, ?, ?) AND (hl, ll) < (?, ?) ORDER BY hl, ll, id LIMIT {_PAGE}"
        last: tuple[bytes, bytes, int] = (*low, -1)
        while page := list(self._select(condition, (space, *last, *high))):
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].hl, page[-1].ll, page[-1].id

    def newest(self, space: int, hl: bytes, ll: bytes) -> Archive | None:
        """Return the most recently archived object of a name."""
        return next(self._select("space = ? AND hl = ? AND ll = ? ORDER BY id DESC LIMIT 1", (space, hl, ll)), None)

    def _select(self, condition: str, values: Iterable[int | bytes]) -> Iterator[Archive]:
        """Read rows of `archives`. Reader and writer read that table only here."""
        return map(
            Archive._make, self._connection.execute(f"SELECT {_COLUMNS} FROM archives WHERE {condition}", tuple(values))
        )


class Archives(ArchiveQueries):
    """The writer's side: queries and changes. `use` is as in `uploads.Uploads`."""

    def __init__(self, connection: sqlite3.Connection, use: Callable[[Sequence[Archive], int, int], None]) -> None:
        super().__init__(connection)
        self._use = use
        self._new: list[Archive] = []  # added in this group, not yet in the table
        self.load()

    def load(self) -> None:
        """Read the mirrored rows again; discard rows that were added and not committed."""
        self._new.clear()
        execute = self._connection.execute
        named = list(policy.rows(self._connection))
        ids = [int(row[0]) for row in execute("SELECT id FROM management_classes ORDER BY id")]
        self.classes: Mapping[int, ManagementClass] = dict(zip(ids, named, strict=True))
        spaces = map(Space._make, execute(f"SELECT {_SPACE_COLUMNS} FROM spaces"))
        self.spaces: Mapping[int, Space] = {space.id: space for space in spaces}
        rules = map(AccessRule._make, execute(f"SELECT {_RULE_COLUMNS} FROM access_rules ORDER BY id"))
        self.rules: Mapping[int, AccessRule] = {rule.id: rule for rule in rules}

    def flush(self) -> None:
        """Insert the added rows into the table; called before every other use of it."""
        rows, self._new = self._new, []
        first = 0
        for count, statement in _INSERTS.items():
            while len(rows) - first >= count:
                values: list[object] = []
                for row in rows[first : first + count]:
                    values += row
                self._connection.execute(statement, values)
                first += count

    def _select(self, condition: str, values: Iterable[int | bytes]) -> Iterator[Archive]:
        self.flush()
        return super()._select(condition, values)

    def define_class(self, wanted: ManagementClass) -> None:
        """Add a class, or make one stricter. Raises UsageError if it would become weaker."""
        existing = {each.name: each for each in self.classes.values()}
        if wanted.name in existing:
            policy.tightened(existing[wanted.name], wanted)
        self._connection.execute(
            "INSERT INTO management_classes (name, retinit, retver_seconds, retmin_seconds) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (name) DO UPDATE SET retver_seconds = excluded.retver_seconds,"
            " retmin_seconds = excluded.retmin_seconds",
            (wanted.name, wanted.retinit, wanted.retver_seconds, wanted.retmin_seconds),
        )

    def put_space(self, space: Space) -> Space:
        """Add a space (id 0), or replace the attributes of an existing one."""
        if space.id == 0:
            columns = _SPACE_COLUMNS.removeprefix("id, ")
            cursor = self._connection.execute(f"INSERT INTO spaces ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", space[1:])
            assert cursor.lastrowid is not None
            space = space._replace(id=cursor.lastrowid)
        else:
            self._connection.execute(
                "UPDATE spaces SET type = ?, occupancy = ?, capacity = ?, info = ?, archived_ms = ? WHERE id = ?",
                (space.type, space.occupancy, space.capacity, space.info, space.archived_ms, space.id),
            )
        self.spaces = {**self.spaces, space.id: space}
        return space

    def remove_space(self, space: Space) -> None:
        """Remove an empty space and the access rules that open it."""
        self.flush()
        for rule in self.rules.values():
            if rule.space == space.id:
                self.remove_rule(rule)
        self._connection.execute("DELETE FROM spaces WHERE id = ?", (space.id,))
        self.spaces = {number: other for number, other in self.spaces.items() if number != space.id}

    def add_rule(self, rule: AccessRule) -> AccessRule:
        """Add an access rule (id 0)."""
        columns = _RULE_COLUMNS.removeprefix("id, ")
        cursor = self._connection.execute(f"INSERT INTO access_rules ({columns}) VALUES (?, ?, ?, ?, ?, ?)", rule[1:])
        assert cursor.lastrowid is not None
        added = rule._replace(id=cursor.lastrowid)
        self.rules = {**self.rules, added.id: added}
        return added

    def remove_rule(self, rule: AccessRule) -> None:
        self._connection.execute("DELETE FROM access_rules WHERE id = ?", (rule.id,))
        self.rules = {number: other for number, other in self.rules.items() if number != rule.id}

    def add(self, archives: Sequence[Archive], names_bytes: int) -> None:
        """Add objects whose records are in one segment; `names_bytes`: their records' names together."""
        self._new += archives
        self._use(archives, names_bytes, 1)

    def remove(self, archive: Archive) -> None:
        self.flush()
        self._connection.execute("DELETE FROM archives WHERE id = ?", (archive.id,))
        names_bytes = len(self.spaces[archive.space].record_key_start) + len(archive.hl) + 1 + len(archive.ll)
        self._use([archive], names_bytes, -1)

    def change(self, archive: Archive) -> None:
        """Write the changeable columns of an object: event, hold, owner, texts and estimate."""
        self.flush()
        self._connection.execute(
            "UPDATE archives SET event_ms = ?, held = ?, owner = ?, estimate = ?, description = ?, info = ?"
            " WHERE id = ?",
            (
                archive.event_ms, archive.held, archive.owner, archive.estimate, archive.description, archive.info,
                archive.id,
            ),
        )  # fmt: skip

    def move(self, archive: Archive, names_bytes: int, to: SegmentLocation) -> None:
        """Record the new place of the object's bytes, from this commit on."""
        self._connection.execute("UPDATE archives SET segment = ?, offset = ? WHERE id = ?", (*to, archive.id))
        self._use([archive], names_bytes, -1)
        self._use([archive._replace(segment=to.segment, offset=to.offset)], names_bytes, 1)


def find_space(spaces: Iterable[Space], node: str, name: bytes) -> Space | None:
    """Return a node's file space by its name."""
    return next((space for space in spaces if space.node == node and space.name == name), None)


def after_prefix(name: bytes) -> bytes:
    """Return the smallest bytes greater than every name that begins with `name`; for bounds of ranges."""
    trimmed = name.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1]) if trimmed else b"\xff" * 2000
