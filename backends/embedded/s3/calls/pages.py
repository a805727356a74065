"""Pages of listings: objects, versions or uploads, with prefix and delimiter.

One idea: a listing is one scan of the catalogue's primary key. At the first key of a common prefix the scan reports the
prefix and seeks to the first key after it. So the cost of a page of objects or versions does not depend on the keys
that common prefixes hide. A page of objects also reads the older versions and delete markers of its keys. A page of
uploads does not seek: it reads every upload that a common prefix hides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ...core.rules.refusals import BadVersionId
from ...core.tables.catalogue import Bucket, Queries, VersionRow
from ...core.tables.uploads import Upload


@dataclass(slots=True)
class Page:
    """A page of a listing. `resume_at` is the first key of the next page, None at the end."""

    versions: list[VersionRow] = field(default_factory=list)
    latest: list[bool] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    resume_at: str | None = None

    @property
    def count(self) -> int:
        return len(self.versions) + len(self.prefixes)

    @property
    def last(self) -> str:
        """The greatest key or common prefix of a page that is not empty."""
        return max([*(version.key for version in self.versions[-1:]), *self.prefixes[-1:]])


def list_objects(queries: Queries, bucket: Bucket, prefix: str, delimiter: str, low: str, limit: int) -> Page:
    """Return newest versions that are no markers, with key >= low; at most `limit` of them and common prefixes."""
    page = Page()
    for entry in _walk(queries, bucket, prefix, delimiter, low, None, newest_only=True) if limit else ():
        if page.count == limit:
            page.resume_at = entry if isinstance(entry, str) else entry.key
            break
        if isinstance(entry, str):
            page.prefixes.append(entry)
        else:
            page.versions.append(entry)
    return page


def list_versions(
    queries: Queries,
    bucket: Bucket,
    prefix: str,
    delimiter: str,
    key_marker: str,
    version_marker: str,
    limit: int,
) -> Page:
    """Return versions and delete markers after the markers (both empty: from the start)."""
    page = Page()
    low, low_sequence = key_marker, None
    if version_marker:
        low_sequence = _sequence(queries, bucket, key_marker, version_marker)
    elif key_marker:
        low = after_marker(key_marker, prefix, delimiter)
    previous = key_marker if version_marker else None
    for entry in _walk(queries, bucket, prefix, delimiter, low, low_sequence, newest_only=False) if limit else ():
        if page.count == limit:
            page.resume_at = entry if isinstance(entry, str) else entry.key
            break
        if isinstance(entry, str):
            page.prefixes.append(entry)
        else:
            page.versions.append(entry)
            page.latest.append(entry.key != previous)
            previous = entry.key
    return page


@dataclass(slots=True)
class UploadPage:
    """A page of the listing of unfinished uploads."""

    uploads: list[Upload] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    is_truncated: bool = False

    @property
    def last(self) -> str:
        """The greatest key or common prefix of a page that is not empty."""
        return max([*(upload.key for upload in self.uploads[-1:]), *self.prefixes[-1:]])


def list_uploads(
    queries: Queries,
    bucket: Bucket,
    prefix: str,
    delimiter: str,
    key_marker: str,
    upload_marker: int | None,
    limit: int,
) -> UploadPage:
    """Return uploads after the markers: later ones of the same key, then those of greater keys."""
    page = UploadPage()
    low = key_marker, 0
    if upload_marker is not None:
        low = key_marker, upload_marker
    elif key_marker:
        low = after_marker(key_marker, prefix, delimiter), 0
    folded = None
    uploads = queries.uploads.of_bucket(bucket.id, max(low, (prefix, 0)), after_prefix(prefix))
    for upload in uploads if limit else ():
        if folded is not None and upload.key.startswith(folded):
            continue
        folded = _common_prefix(upload.key, prefix, delimiter)
        if len(page.uploads) + len(page.prefixes) == limit:
            page.is_truncated = True
            break
        if folded is None:
            page.uploads.append(upload)
        else:
            page.prefixes.append(folded)
    return page


def after_prefix(prefix: str) -> str | None:
    """Return the least text greater than every text that begins with `prefix`; None if there is none."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1]) + 1
        if code == 0xD800:
            code = 0xE000  # no UTF-8 for surrogates
        if code <= 0x10FFFF:
            return prefix[: end - 1] + chr(code)
    return None


def after_marker(marker: str, prefix: str, delimiter: str) -> str:
    """Return where the page after a marker starts; the marker may be a common prefix."""
    folded = _common_prefix(marker, prefix, delimiter)
    if folded == marker:
        return after_prefix(marker) or marker + "\0"
    return marker + "\0"  # the least greater key


def _common_prefix(key: str, prefix: str, delimiter: str) -> str | None:
    if not delimiter or not key.startswith(prefix):
        return None
    cut = key.find(delimiter, len(prefix))
    return None if cut < 0 else key[: cut + len(delimiter)]


def _sequence(queries: Queries, bucket: Bucket, key: str, version_id: str) -> int:
    version = queries.by_id(bucket, key, version_id)
    if version is not None:
        return version.sequence
    sequence = queries.sequence_of(version_id)  # of a version that was deleted since the page that named it
    if sequence is None:
        raise BadVersionId(version_id)
    return sequence


def _walk(
    queries: Queries,
    bucket: Bucket,
    prefix: str,
    delimiter: str,
    low: str,
    low_sequence: int | None,
    *,
    newest_only: bool,
) -> Iterator[VersionRow | str]:
    """Yield versions in order, and each common prefix once instead of its versions."""
    high = after_prefix(prefix)
    if low < prefix:
        low, low_sequence = prefix, None
    start: str | None = low
    while start is not None:
        previous = None
        for version in queries.scan(bucket, start, low_sequence, high):
            if newest_only:
                hidden = version.key == previous or version.is_marker
                previous = version.key
                if hidden:
                    continue
            folded = _common_prefix(version.key, prefix, delimiter)
            if folded is not None:
                yield folded
                start, low_sequence = after_prefix(folded), None
                break
            yield version
        else:
            return
