"""Lists of versions, as the platform returns them.

One idea: pages are not corrected. Entries keep the platform's order and their repetitions, so that a check can find
versions that are missing, repeated or misplaced.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import datetime
from typing import NamedTuple
from urllib.parse import unquote_plus

from archiver.worm.case import Case, Version, instant_of, words_of
from archiver.worm.requests.exchange import Answer
from archiver.worm.verdict import Failed, Inconclusive


class ListedVersion(NamedTuple):
    """One version or delete marker of a list of versions."""

    key: str
    id: str
    is_marker: bool
    is_latest: bool
    bytes: int | None
    at: datetime | None  # Last-Modified
    etag: str


def versions(case: Case, bucket: str, prefix: str, *, page_entries: int | None = None) -> list[list[ListedVersion]]:
    """Return every version and delete marker under a prefix, page by page.

    ``page_entries`` None leaves the page length to the platform. Raises Failed if the list never ends, and Inconclusive
    if the platform does not list versions.
    """
    pages: list[list[ListedVersion]] = []
    size = (("max-keys", str(page_entries)),) if page_entries is not None else ()
    mark: tuple[str, str] | None = None
    while True:
        after = (("key-marker", mark[0]), ("version-id-marker", mark[1])) if mark else ()
        query = (("versions", None), ("prefix", prefix), ("encoding-type", "url"), *size, *after)
        answer = case.client.send("GET", bucket, query=query)
        if not answer.ok:
            raise Inconclusive(f"the versions of {bucket} cannot be listed: {answer}")
        if not answer.elements("ListVersionsResult"):
            raise Inconclusive(f"the versions of {bucket} cannot be listed: the answer is not a list of versions")
        pages.append(entries_of(answer))
        if answer.text_of("IsTruncated") != "true":
            return pages
        key, identifier = answer.text_of("NextKeyMarker"), answer.text_of("NextVersionIdMarker")
        following = (unquote_plus(key) if _is_encoded(answer) else key), identifier
        if following == mark or not pages[-1]:
            raise Failed(f"the list of versions does not end: a page does not advance beyond {following}")
        mark = following


def entries_of(answer: Answer) -> list[ListedVersion]:
    """Return the versions and delete markers of one page."""
    is_encoded = _is_encoded(answer)
    return [
        _entry_of(each, is_encoded)
        for root in answer.elements("ListVersionsResult")
        for each in root
        if _name_of(each) in ("Version", "DeleteMarker")
    ]


def ids_of(case: Case, version: Version) -> list[str]:
    """Return the version ids of its key, without delete markers."""
    pages = versions(case, version.bucket, version.key)
    return [entry.id for page in pages for entry in page if entry.key == version.key and not entry.is_marker]


def with_id(case: Case, version: Version) -> Version:
    """Return a version just written with its id, from the answer or else from the list of versions."""
    if version.id:
        return version
    ids = ids_of(case, version)
    if not ids:
        raise Failed(f"a write of {version.key} was accepted, but no version of it is listed")
    case.deviate("a write into a bucket with Object Lock does not return the version's id")
    return version._replace(id=ids[0])


def must_store_nothing(case: Case, answer: Answer, what: str, aws: str, bucket: str, key: str) -> None:
    """Fail if a refused write stored a version. An answer other than ``aws`` is a deviation."""
    for page in versions(case, bucket, key):
        for entry in page:
            state = case.state(Version(bucket, entry.key, entry.id, b""))
            raise Failed(f"{what} was answered {answer}, and a version was stored: {words_of(state)}")
    if case.client.send("GET", bucket, key).ok:
        raise Failed(f"{what} was answered {answer}, and an object was stored that no list of versions shows")
    case.must_refuse(answer, what, aws)


def _entry_of(element: ET.Element, is_encoded: bool) -> ListedVersion:
    texts = {_name_of(each): each.text or "" for each in element}
    size, key = texts.get("Size", ""), texts.get("Key", "")
    return ListedVersion(
        key=unquote_plus(key) if is_encoded else key,
        id=texts.get("VersionId", ""),
        is_marker=_name_of(element) == "DeleteMarker",
        is_latest=texts.get("IsLatest") == "true",
        bytes=int(size) if size.isdigit() else None,
        at=instant_of(texts.get("LastModified", "")),
        etag=texts.get("ETag", "").strip('"'),
    )


def _is_encoded(answer: Answer) -> bool:
    """Return whether keys are URL-encoded: some platforms ignore the request. Amazon writes + for a space."""
    return answer.text_of("EncodingType") == "url"


def _name_of(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]
