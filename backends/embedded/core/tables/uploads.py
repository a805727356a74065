"""The catalogue's tables of multipart uploads (see `uploads.sql`).

One idea: a part belongs to the number of its upload for ever. While the upload is unfinished, a row of `uploads` has
that number; once it is completed, the version has it. So a part never moves from one row to another.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..files.segments import SegmentLocation
from ..rules.locks import VersionLock
from .lock_columns import RetentionColumns

NUMBER_MAX = 10_000  # the highest part number; the lowest is 1


class Upload(NamedTuple):
    """A row of `uploads`: an unfinished upload and the attributes of the version that it will become."""

    id: int
    bucket: int
    key: str
    started_ms: int
    checksum_kind: str | None
    checksum_type: str | None
    content_type: str | None
    metadata: str | None
    tags: str | None
    mode: str | None
    until_ms: int | None
    legal_hold: int | None
    event_hold: str | None

    @property
    def lock(self) -> VersionLock:
        """The lock that the request set when the upload began."""
        retention = RetentionColumns(self.mode, self.until_ms, self.event_hold).retention
        return VersionLock(retention, None if self.legal_hold is None else bool(self.legal_hold))


class UploadPart(NamedTuple):
    """A row of `parts`."""

    id: int
    upload: int
    number: int
    written_ms: int
    size: int
    segment: int
    offset: int
    block_crcs: bytes
    etag: str
    checksum: str | None

    @property
    def key(self) -> str:
        """A name for messages."""
        return f"part {self.number} of upload {self.upload}"


_UPLOAD_COLUMNS = ", ".join(Upload._fields)
_PART_COLUMNS = ", ".join(UploadPart._fields)


class UploadQueries:
    """The queries on uploads and parts, on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, upload: int) -> Upload | None:
        """Return the unfinished upload with this number."""
        return next(self._uploads("id = ?", (upload,)), None)

    def of_bucket(self, bucket: int, low: tuple[str, int], high: str | None) -> Iterator[Upload]:
        """Return unfinished uploads in listing order, by key and then by age: low < (key, id), key < high."""
        upper, bounds = ("", ()) if high is None else ("AND key < ?", (high,))
        return self._uploads(f"bucket = ? AND (key, id) > (?, ?) {upper} ORDER BY key, id", (bucket, *low, *bounds))

    def parts(self, upload: int, after: int = 0, limit: int = NUMBER_MAX) -> list[UploadPart]:
        """Return parts with numbers above `after`, in order."""
        return list(self._parts("upload = ? AND number > ? ORDER BY number LIMIT ?", (upload, after, limit)))

    def parts_between(self, upload: int, start: int, end: int) -> list[tuple[UploadPart, int]]:
        """Return the parts that hold the object's bytes from `start` to `end`, each with its offset in the object."""
        rows = self._connection.execute(
            f"SELECT {_PART_COLUMNS}, ends - size FROM ("
            "SELECT *, sum(size) OVER (ORDER BY number) AS ends FROM parts WHERE upload = ?"
            ") WHERE size > 0 AND ends > ? AND ends - size < ? ORDER BY number",
            (upload, start, end),
        )
        return [(UploadPart._make(row[:-1]), row[-1]) for row in rows]

    def part_at(self, upload: int, number: int) -> UploadPart | None:
        return next(self._parts("upload = ? AND number = ?", (upload, number)), None)

    def part(self, part: int) -> UploadPart | None:
        return next(self._parts("id = ?", (part,)), None)

    def _uploads(self, condition: str, values: tuple[int | str, ...]) -> Iterator[Upload]:
        rows = self._connection.execute(f"SELECT {_UPLOAD_COLUMNS} FROM uploads WHERE {condition}", values)
        return map(Upload._make, rows)

    def _parts(self, condition: str, values: tuple[int, ...]) -> Iterator[UploadPart]:
        rows = self._connection.execute(f"SELECT {_PART_COLUMNS} FROM parts WHERE {condition}", values)
        return map(UploadPart._make, rows)


class Uploads(UploadQueries):
    """The writer's side: queries and changes of uploads and parts.

    `use` updates the catalogue's count of live records in a segment. Its arguments are rows in one segment, the bytes
    of their records' names together, and 1 (added) or -1 (removed). `names_bytes`: bytes of the bucket's name and the
    key.
    """

    def __init__(self, connection: sqlite3.Connection, use: Callable[[Sequence[UploadPart], int, int], None]) -> None:
        super().__init__(connection)
        self._use = use

    def add(self, upload: Upload) -> None:
        marks = ", ".join("?" * len(upload))
        self._connection.execute(f"INSERT INTO uploads ({_UPLOAD_COLUMNS}) VALUES ({marks})", upload)

    def remove(self, upload: int) -> None:
        """Delete the upload's row when it is completed; its parts stay."""
        self._connection.execute("DELETE FROM uploads WHERE id = ?", (upload,))

    def put_part(self, part: UploadPart, names_bytes: int) -> None:
        """Add a part. It replaces an earlier part with its number."""
        before = self.part_at(part.upload, part.number)
        if before is not None:
            self.remove_parts([before], names_bytes)
        marks = ", ".join("?" * len(part))
        self._connection.execute(f"INSERT INTO parts ({_PART_COLUMNS}) VALUES ({marks})", part)
        self._use([part], names_bytes, 1)

    def remove_parts(self, parts: Sequence[UploadPart], names_bytes: int) -> None:
        self._connection.executemany("DELETE FROM parts WHERE id = ?", [(part.id,) for part in parts])
        for part in parts:
            self._use([part], names_bytes, -1)

    def move(self, part: UploadPart, names_bytes: int, to: SegmentLocation) -> None:
        """Record the new place of the part's bytes, from this commit on."""
        self._connection.execute("UPDATE parts SET segment = ?, offset = ? WHERE id = ?", (*to, part.id))
        self._use([part], names_bytes, -1)
        self._use([part._replace(segment=to.segment, offset=to.offset)], names_bytes, 1)
