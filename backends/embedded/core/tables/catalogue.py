"""The catalogue: versions, locks, buckets and segments in SQLite (see `catalogue.sql`).

One idea: one writer, any number of readers. `Queries` has the queries of both; `Catalogue` adds the changes, all inside
the one transaction of a group commit. Buckets, segments and the state row are few and are mirrored in memory; a
rollback reads them again. Archives and uploads have tables and modules of their own (`archives.py`, `uploads.py`).
"""

from __future__ import annotations

import itertools
import re
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from archiver.values.databases import Database, is_damage, open_database, words_of
from archiver.values.errors import Damaged, StoreError, UsageError, other_version

from ..files.segments import RecordHeader, SegmentLocation
from ..files.written import LogWatch, Written
from ..rules import policy
from ..rules.locks import DefaultRetention, VersionLock, VersionRetention
from ..rules.policy import ManagementClass
from ..rules.refusals import BadVersionId, IsDeleteMarker, NoSuchBucket, NoSuchKey, NoSuchUpload, NoSuchVersion
from .archives import Archive, ArchiveQueries, Archives
from .lock_columns import RetentionColumns, columns_of, default_columns, default_of
from .uploads import Upload, UploadPart, UploadQueries, Uploads

_VERSION = 5  # PRAGMA user_version
_TABLES = ("catalogue.sql", "archives.sql", "uploads.sql", "access.sql")
FILE_NAME = "catalogue.db"
NULL_ID = "null"
CHECKPOINT_PAGES = 4000  # a log of more pages is checkpointed

# This store's ids are 32 hexadecimal digits. Another text of that shape is well-formed and names no version.
_VERSION_ID = re.compile(r"[0-9A-Za-z._]{32}")
_OUR_VERSION_ID = re.compile(r"([0-9a-f]{16})([0-9a-f]{16})")


class VersionRow(NamedTuple):
    """A row of `versions`: a version of an object, or a delete marker."""

    bucket: int
    key: str
    sequence: int
    is_null: int
    is_marker: int
    created_ms: int
    size: int
    segment: int
    offset: int
    block_crcs: bytes
    etag: str
    checksum: str | None
    content_type: str | None
    metadata: str | None
    mode: str | None
    until_ms: int | None
    legal_hold: int | None
    upload: int | None
    tags: str | None
    event_hold: str | None

    @property
    def retention(self) -> VersionRetention | None:
        return RetentionColumns(self.mode, self.until_ms, self.event_hold).retention

    @property
    def lock(self) -> VersionLock:
        return VersionLock(self.retention, None if self.legal_hold is None else bool(self.legal_hold))


_COLUMNS = ", ".join(VersionRow._fields)
_ROW = f"({', '.join('?' * len(VersionRow._fields))})"
# One statement inserts several rows. A call of SQLite releases the GIL, and getting it back from a busy event loop
# costs more than the row.
_INSERTS = {
    count: f"INSERT INTO versions ({_COLUMNS}) VALUES {', '.join([_ROW] * count)}" for count in (64, 32, 16, 8, 4, 2, 1)
}


@dataclass(frozen=True, slots=True)
class Bucket:
    id: int
    name: str
    created_ms: int
    versioning: str  # Off, Enabled or Suspended
    object_lock: bool
    default: DefaultRetention | None


@dataclass(slots=True)
class SegmentUse:
    length: int = 0
    live_objects: int = 0
    live_bytes: int = 0
    live_record_bytes: int = 0

    @property
    def dead_bytes(self) -> int:
        return self.length - self.live_record_bytes


@dataclass(slots=True)
class CatalogueState:
    store_id: str
    commits: int
    next_sequence: int
    clock_ms: int


class CatalogueTotals(NamedTuple):
    """The totals of all segments."""

    segments: int
    objects: int
    bytes: int
    segment_bytes: int


_TOTALS = (
    "SELECT count(*), coalesce(sum(live_objects), 0), coalesce(sum(live_bytes), 0), coalesce(sum(length), 0) "
    "FROM segments"
)


class Queries:
    """The queries on the catalogue, on one connection."""

    def __init__(self, connection: Database, store_id: str) -> None:
        self._connection = connection
        self._store_id = store_id
        self.archives = ArchiveQueries(connection)
        self.uploads = UploadQueries(connection)

    def close(self) -> None:
        self._connection.close()

    def totals(self) -> CatalogueTotals:
        return CatalogueTotals._make(self._connection.execute(_TOTALS).fetchone())

    def version_id(self, version: VersionRow) -> str:
        return NULL_ID if version.is_null else f"{version.sequence:016x}{self._store_id}"

    def page_marker(self, version: VersionRow) -> str:
        """Return the marker after which the next page of a listing begins: a version id, also for a null version."""
        return f"{version.sequence:016x}{self._store_id}"

    def latest(self, bucket: Bucket, key: str) -> VersionRow | None:
        """Return the newest version or delete marker of a key."""
        return self._first("bucket = ? AND key = ? ORDER BY sequence DESC LIMIT 1", (bucket.id, key))

    def by_id(self, bucket: Bucket, key: str, version_id: str) -> VersionRow | None:
        """Return the version or delete marker with this id. Raises BadVersionId if the text cannot be a version id."""
        if version_id == NULL_ID:
            return self._first("bucket = ? AND key = ? AND is_null = 1", (bucket.id, key))
        if _VERSION_ID.fullmatch(version_id) is None:
            raise BadVersionId(version_id)
        sequence = self.sequence_of(version_id)
        if sequence is None:
            return None
        return self._first("bucket = ? AND key = ? AND sequence = ? AND is_null = 0", (bucket.id, key, sequence))

    def sequence_of(self, identity: str) -> int | None:
        """Return the first half of an id of this store; None for any other text."""
        ours = _OUR_VERSION_ID.fullmatch(identity)
        sequence = int(ours[1], 16) if ours is not None and ours[2] == self._store_id else -1
        return sequence if 0 < sequence < 1 << 63 else None

    def upload_id(self, upload: int) -> str:
        return f"{upload:016x}{self._store_id}"

    def upload_number(self, upload_id: str) -> int:
        """Return the number of an upload id; 0, which no upload has, for any other text."""
        return self.sequence_of(upload_id) or 0

    def upload(self, bucket: Bucket, key: str, number: int) -> Upload:
        """Return an unfinished upload of this key. Raises NoSuchUpload."""
        found = self.uploads.find(number)
        if found is None or (found.bucket, found.key) != (bucket.id, key):
            raise NoSuchUpload
        return found

    def completed(self, bucket: Bucket, key: str, upload: int) -> VersionRow:
        """Return the version of this key that an upload became. Raises NoSuchUpload, also if the version was
        deleted.
        """
        found = self._first("upload = ?", (upload,))
        if found is None or (found.bucket, found.key) != (bucket.id, key):
            raise NoSuchUpload
        return found

    def object(self, bucket: Bucket, key: str, version_id: str | None) -> VersionRow:
        """Return the version with this id, or the newest if there is no id.

        Raises NoSuchKey, NoSuchVersion, IsDeleteMarker or BadVersionId.
        """
        if version_id is None:
            version = self.latest(bucket, key)
            if version is None:
                raise NoSuchKey(key)
            if version.is_marker:
                raise NoSuchKey(key, self.version_id(version))
            return version
        version = self.by_id(bucket, key, version_id)
        if version is None:
            raise NoSuchVersion(key, version_id)
        if version.is_marker:
            raise IsDeleteMarker(key, version_id)
        return version

    def lockable(self, bucket: Bucket, key: str, version_id: str | None) -> VersionRow:
        """Return a version as `object` does, for calls about locks: if a marker is newest, they raise
        IsDeleteMarker.
        """
        try:
            return self.object(bucket, key, version_id)
        except NoSuchKey as missing:
            if missing.marker_id is None:
                raise
            raise IsDeleteMarker(key, missing.marker_id) from None

    def as_it_is_now(self, row: VersionRow | Archive | UploadPart) -> VersionRow | Archive | UploadPart | None:
        """Read the same version, archived object or part again; None if it was deleted since."""
        if isinstance(row, Archive):
            return self.archives.find([row.id]).get(row.id)
        if isinstance(row, UploadPart):
            return self.uploads.part(row.id)
        return self._first("bucket = ? AND key = ? AND sequence = ?", (row.bucket, row.key, row.sequence))

    def scan(self, bucket: Bucket, low: str, low_sequence: int | None, high: str | None) -> Iterator[VersionRow]:
        """Yield versions in listing order, low <= key < high; with `low_sequence`, only older versions of `low`."""
        upper = "" if high is None else "AND key < ?"
        bounds: tuple[int | str, ...] = () if high is None else (high,)
        above = "key >= ?"
        if low_sequence is not None:
            older = "bucket = ? AND key = ? AND sequence < ? ORDER BY sequence DESC"
            yield from map(VersionRow._make, self._select(older, (bucket.id, low, low_sequence)))
            above = "key > ?"
        rest = f"bucket = ? AND {above} {upper} ORDER BY key, sequence DESC"
        yield from map(VersionRow._make, self._select(rest, (bucket.id, low, *bounds)))

    def _first(self, condition: str, values: tuple[int | str, ...]) -> VersionRow | None:
        row = self._select(condition, values).fetchone()
        return None if row is None else VersionRow._make(row)

    def _select(self, condition: str, values: tuple[int | str, ...]) -> sqlite3.Cursor:
        """Read rows of `versions`. Reader and writer read that table only here."""
        return self._connection.execute(f"SELECT {_COLUMNS} FROM versions WHERE {condition}", values)


class Catalogue(Queries):
    """The writer's side: queries and changes. Between `begin` and `commit` or `rollback` one thread uses it."""

    archives: Archives
    uploads: Uploads

    def __init__(self, folder: Path, classes: Sequence[ManagementClass] = (), *, store_id: str | None = None) -> None:
        """Open or create the catalogue in `folder`. `store_id`: the store it must belong to; None accepts any."""
        self.folder = folder
        self.written = Written()
        self._path = folder / FILE_NAME
        self._new: list[VersionRow] = []  # added in this group, not yet in the table
        self.created = not self._path.exists()
        try:
            super().__init__(_connect(self._path), "")
            self._prepare(store_id)
            self.archives = Archives(self._connection, self._use)
            self.uploads = Uploads(self._connection, self._use)
            self._define(classes)
            self._load()
            self._sequence = itertools.count(self.state.next_sequence)
            self._log = LogWatch(self._path, self.written)
        except sqlite3.DatabaseError as failed:
            kind = Damaged if is_damage(failed) else StoreError
            raise kind(f"the catalogue {self._path} cannot be used: {words_of(failed)}") from failed

    def close(self) -> None:
        """Close the catalogue. Every reader must be closed before."""
        super().close()
        self._log.close()

    def _prepare(self, store_id: str | None) -> None:
        connection = self._connection
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise StoreError(
                f"{self.folder} cannot hold a catalogue: no shared memory for SQLite's log; use a local disk"
            )
        connection.execute("PRAGMA synchronous = FULL")  # a commit is durable when it returns
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA temp_store = MEMORY")  # no temporary file for statement rollback
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute("PRAGMA journal_size_limit = 67108864")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, _VERSION):
            raise StoreError(other_version(f"the catalogue {self._path}", version, _VERSION))
        if store_id is not None and version:
            (found,) = connection.execute("SELECT store_id FROM state").fetchone()
            if found != store_id:
                raise StoreError(f"{self._path} is the catalogue of another store; put back the one of this store")
        tables = "".join(files(__package__).joinpath(name).read_text("utf-8") for name in _TABLES)
        if not version:
            state = f"INSERT INTO state VALUES (1, '{store_id or secrets.token_hex(8)}', 0, 1, 0);"
            connection.executescript(f"BEGIN IMMEDIATE; {tables} {state} PRAGMA user_version = {_VERSION}; COMMIT;")
        if not connection.has_tables_of(tables):
            raise Damaged(f"the catalogue {self._path} has other tables than a store's; restore it from a copy")
        faults = [row[0] for row in connection.execute("PRAGMA quick_check(3)")]
        if faults != ["ok"]:
            raise Damaged(f"the catalogue {self._path} is damaged: {'; '.join(faults)}; restore it from a copy")

    def _define(self, classes: Sequence[ManagementClass]) -> None:
        """Define the given classes, and the built-in ones whose names do not exist yet."""
        existing = {each.name for each in self.archives.classes.values()}
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for each in [*(built_in for built_in in policy.BUILT_IN if built_in.name not in existing), *classes]:
                self.archives.define_class(each)
                self.archives.load()
            self._connection.execute("COMMIT")
        except UsageError:
            self._connection.execute("ROLLBACK")
            raise

    def _load(self) -> None:
        execute = self._connection.execute
        self.archives.load()
        self.state = CatalogueState(*execute(
            "SELECT store_id, commits, next_sequence, clock_ms FROM state"
        ).fetchone())  # fmt: skip
        self._store_id = self.state.store_id
        self.buckets = {row[1]: _bucket(row) for row in execute(f"SELECT {_BUCKET_COLUMNS} FROM buckets ORDER BY name")}
        self.segments = {row[0]: SegmentUse(*row[1:]) for row in execute("SELECT * FROM segments")}
        self.empty_segments: set[int] = set()
        self.sparse_segments: set[int] = set()  # less than half of the bytes are live
        for number in self.segments:
            self._sort_in(number)
        self._changed_segments: set[int] = set()

    def reader(self) -> Queries:
        """Return queries on another, read-only connection for the event loop's thread."""
        return Queries(_connect(self._path, read_only=True), self._store_id)

    # The transaction of a group.

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self, now_ms: int) -> None:
        """Make the group and the clock's high-water mark durable."""
        self._insert_new()
        self.archives.flush()
        state = self.state
        state.commits += 1
        state.next_sequence = self.take_sequence()
        state.clock_ms = max(state.clock_ms, now_ms)
        execute = self._connection.execute
        for number in self._changed_segments:
            use = self.segments[number]
            execute(
                "INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?)",
                (number, use.length, use.live_objects, use.live_bytes, use.live_record_bytes),
            )
        execute(
            "UPDATE state SET commits = ?, next_sequence = ?, clock_ms = ?",
            (state.commits, state.next_sequence, state.clock_ms),
        )
        execute("COMMIT")
        self._changed_segments.clear()

    def count_commit(self) -> None:
        """Add the bytes and syncs of the last commit to `written`; called after each commit."""
        self._log.committed()

    def rollback(self) -> None:
        """Discard the group. Its sequence numbers stay used, because bytes of it may have reached a segment."""
        self._new.clear()
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._load()

    # Changes; only between begin and commit.

    def bucket(self, name: str) -> Bucket:
        try:
            return self.buckets[name]
        except KeyError:
            raise NoSuchBucket(name) from None

    def take_sequence(self) -> int:
        """Return a number never used before. Any thread may call this. Numbers lost in a crash are not in the
        catalogue.
        """
        return next(self._sequence)

    def add_bucket(self, name: str, created_ms: int, *, object_lock: bool) -> None:
        cursor = self._connection.execute(
            "INSERT INTO buckets (name, created_ms, versioning, object_lock) VALUES (?, ?, ?, ?)",
            (name, created_ms, "Enabled" if object_lock else "Off", object_lock),
        )
        assert cursor.lastrowid is not None
        versioning = "Enabled" if object_lock else "Off"
        added = Bucket(cursor.lastrowid, name, created_ms, versioning, object_lock, None)
        self.buckets = dict(sorted({**self.buckets, name: added}.items()))

    def change_bucket(
        self, bucket: Bucket, *, versioning: str, object_lock: bool, default: DefaultRetention | None
    ) -> None:
        changed = replace(bucket, versioning=versioning, object_lock=object_lock, default=default)
        self._connection.execute(
            "UPDATE buckets SET versioning = ?, object_lock = ?, default_mode = ?, default_days = ?,"
            " default_years = ?, default_event_hold = ? WHERE id = ?",
            (versioning, object_lock, *default_columns(default), bucket.id),
        )
        self.buckets = {**self.buckets, bucket.name: changed}

    def remove_bucket(self, bucket: Bucket) -> None:
        """Remove an empty bucket and its unfinished uploads."""
        for upload in list(self.uploads.of_bucket(bucket.id, ("", 0), None)):
            self.remove_upload(bucket, upload)
        self._connection.execute("DELETE FROM buckets WHERE id = ?", (bucket.id,))
        self.buckets = {name: other for name, other in self.buckets.items() if name != bucket.name}

    def is_empty(self, bucket: Bucket) -> bool:
        return self._first("bucket = ? LIMIT 1", (bucket.id,)) is None

    def null_version(self, bucket: Bucket, key: str) -> VersionRow | None:
        return self.by_id(bucket, key, NULL_ID)

    def add_version(self, bucket: Bucket, version: VersionRow) -> None:
        """Add a version. The parts of a completed upload are counted already."""
        self._new.append(version)
        if version.upload is None:
            self._use_version(bucket, version, 1)

    def _insert_new(self) -> None:
        """Insert the added rows into the table; called before every other use of it."""
        rows, self._new = self._new, []
        for count, statement in _INSERTS.items():
            while len(rows) >= count:
                self._connection.execute(statement, [value for row in rows[:count] for value in row])
                del rows[:count]

    def _select(self, condition: str, values: tuple[int | str, ...]) -> sqlite3.Cursor:
        self._insert_new()
        return super()._select(condition, values)

    def remove_version(self, bucket: Bucket, version: VersionRow) -> None:
        self._insert_new()
        self._connection.execute(
            "DELETE FROM versions WHERE bucket = ? AND key = ? AND sequence = ?",
            (version.bucket, version.key, version.sequence),
        )
        if version.upload is None:
            self._use_version(bucket, version, -1)
        else:
            self.uploads.remove_parts(self.uploads.parts(version.upload), _names_bytes(bucket, version.key))

    def remove_upload(self, bucket: Bucket, upload: Upload) -> None:
        """Remove an unfinished upload and its parts."""
        self.uploads.remove(upload.id)
        self.uploads.remove_parts(self.uploads.parts(upload.id), _names_bytes(bucket, upload.key))

    def living(self, record: RecordHeader, location: SegmentLocation) -> VersionRow | Archive | UploadPart | None:
        """Return the row whose content is the record at that place; None if the record is dead."""
        found = self._named_by(record)
        return None if found is None or (found.segment, found.offset) != location else found

    def _named_by(self, record: RecordHeader) -> VersionRow | Archive | UploadPart | None:
        if not record.bucket:
            return self.archives.find([record.sequence]).get(record.sequence)
        bucket = self.buckets.get(record.bucket.decode())
        if bucket is None:
            return None
        key = record.key.decode()
        version = self._first("bucket = ? AND key = ? AND sequence = ?", (bucket.id, key, record.sequence))
        return self.uploads.part(record.sequence) if version is None else version

    def move(self, living: VersionRow | Archive | UploadPart, record: RecordHeader, to: SegmentLocation) -> None:
        """Record the new place of the bytes of `record`, from this commit on."""
        names_bytes = len(record.bucket) + len(record.key)
        if isinstance(living, Archive):
            self.archives.move(living, names_bytes, to)
            return
        if isinstance(living, UploadPart):
            self.uploads.move(living, names_bytes, to)
            return
        self._connection.execute(
            "UPDATE versions SET segment = ?, offset = ? WHERE bucket = ? AND key = ? AND sequence = ?",
            (*to, living.bucket, living.key, living.sequence),
        )
        self._use([living], names_bytes, -1)
        self._use([living._replace(segment=to.segment, offset=to.offset)], names_bytes, 1)

    def set_lock(self, version: VersionRow, lock: VersionLock) -> None:
        self._insert_new()
        self._connection.execute(
            "UPDATE versions SET mode = ?, until_ms = ?, event_hold = ?, legal_hold = ?"
            " WHERE bucket = ? AND key = ? AND sequence = ?",
            (*columns_of(lock.retention), lock.legal_hold, version.bucket, version.key, version.sequence),
        )

    def set_tags(self, version: VersionRow, tags: str | None) -> None:
        self._insert_new()
        self._connection.execute(
            "UPDATE versions SET tags = ? WHERE bucket = ? AND key = ? AND sequence = ?",
            (tags, version.bucket, version.key, version.sequence),
        )

    def _use_version(self, bucket: Bucket, version: VersionRow, count: int) -> None:
        if not version.is_marker:
            self._use([version], _names_bytes(bucket, version.key), count)

    def _use(self, rows: Sequence[VersionRow | Archive | UploadPart], names_bytes: int, count: int) -> None:
        """Count rows that are added to their one segment (`count` 1) or removed from it (-1)."""
        number = rows[0].segment
        use = self.segments.get(number)
        if use is None:
            use = self.segments[number] = SegmentUse()
        size = sum(row.size for row in rows)
        use.length = max(use.length, max(row.offset + row.size for row in rows))
        use.live_objects += count * len(rows)
        use.live_bytes += count * size
        use.live_record_bytes += count * (RecordHeader.length(0) * len(rows) + names_bytes + size)
        self._changed_segments.add(number)
        self._sort_in(number)

    def _sort_in(self, number: int) -> None:
        use = self.segments[number]
        self.empty_segments.discard(number)
        self.sparse_segments.discard(number)
        if not use.live_objects:
            self.empty_segments.add(number)
        elif use.live_record_bytes < use.dead_bytes:
            self.sparse_segments.add(number)

    def forget_segment(self, number: int) -> None:
        self._connection.execute("DELETE FROM segments WHERE number = ?", (number,))
        del self.segments[number]
        self._changed_segments.discard(number)
        self.empty_segments.discard(number)
        self.sparse_segments.discard(number)

    def objects_beyond(self, segment: int, length: int) -> int:
        """Return how many objects and parts have bytes of a segment beyond its first `length`."""
        beyond = "segment = ? AND offset + size > ?"
        row = self._connection.execute(
            f"SELECT (SELECT count(*) FROM versions WHERE is_marker = 0 AND {beyond})"
            f" + (SELECT count(*) FROM archives WHERE {beyond}) + (SELECT count(*) FROM parts WHERE {beyond})",
            (segment, length) * 3,
        ).fetchone()
        return int(row[0])


def _names_bytes(bucket: Bucket, key: str) -> int:
    """Return the bytes of the names in a record of that key."""
    return len(bucket.name.encode()) + len(key.encode())


_BUCKET_COLUMNS = (
    "id, name, created_ms, versioning, object_lock, default_mode, default_days, default_years, default_event_hold"
)


def _bucket(row: tuple[int, str, int, str, int, str | None, int | None, int | None, str | None]) -> Bucket:
    identity, name, created_ms, versioning, object_lock, mode, days, years, held = row
    return Bucket(identity, name, created_ms, versioning, bool(object_lock), default_of(mode, days, years, held))


def _connect(path: Path, *, read_only: bool = False) -> Database:
    connection = open_database(
        path,
        "ro" if read_only else "rwc",
        isolation_level=None,  # this module begins and ends transactions
        check_same_thread=False,  # opened in one thread, then used by exactly one other
        cached_statements=64,
    )
    connection.unlimit()  # a store is checked when it opens, and read for as long as it runs
    connection.execute("PRAGMA busy_timeout = 10000")
    return connection
