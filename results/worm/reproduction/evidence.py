"""Selection of the requests that reproduce a finding, from the evidence of its check.

A check sends many requests. A finding needs only those with the same keys and buckets. It is about its attempt: the
requests that the check named, or else the last one that changes something. Requests before the attempt prepare it;
requests after it read the state.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import unquote

from archiver.values.errors import ResultsError
from results.recorded.model import FIRST_ROUND, CheckFinding, CheckRecord

RACES = "Races"  # family of the checks that send two requests at the same time
Headers = tuple[tuple[str, str], ...]

_SIGNING = {"authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token", "host"}
_READS = ("GET", "HEAD")
_LISTED_MAX = 100  # requests for objects of a list: a longer script shows a vendor nothing
_VALUE_HEADERS = ("x-amz-version-id", "etag")
_VALUE_ELEMENTS = ("UploadId", "VersionId", "ETag")
_VALUE_CHARACTERS_MIN = 8  # the server did not generate shorter values, such as null
_SHOWN_HEADERS = ("x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold")
_DESCRIPTION = ("content-type", "content-encoding", "etag", "last-modified")  # a version never changes these
_CHECKSUM_HEADERS = tuple(f"x-amz-checksum-{kind}" for kind in ("crc32", "crc32c", "crc64nvme", "sha1", "sha256"))
_SHOWN_ELEMENTS = ("Mode", "RetainUntilDate", "Status", "Days", "Years", "ObjectLockEnabled", "Key", "DeleteMarker")


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded request and its response. Bodies may be cut: the evidence limits their length."""

    position: int  # in the evidence, from 1
    at: float  # epoch seconds
    seconds: float
    method: str
    target: str  # path with the bucket, and query
    headers: Headers  # without the headers of the signature
    body: bytes
    body_is_text: bool
    body_bytes: int
    body_sha256: str
    signature: str  # where it was: header, url, form; empty: not signed
    signed_headers: Headers  # that the signature of a URL covers, whether sent or not
    unsigned_headers: tuple[str, ...]  # names of those that a signature in a header does not cover
    sender: str  # which rights its credential lacks; empty: none
    is_streamed: bool  # its body was signed as chunks
    status: int
    answer_headers: Mapping[str, str]
    answer_body: bytes
    answer_sha256: str

    @property
    def bucket(self) -> str:
        return unquote(self.target.partition("?")[0].split("/")[1])

    @property
    def key(self) -> str:
        return unquote(self.target.partition("?")[0].partition("/")[2].partition("/")[2])

    @property
    def reads(self) -> bool:
        return self.method in _READS

    @property
    def makes_bucket(self) -> bool:
        return self.method == "PUT" and not self.key and "?" not in self.target

    @property
    def values(self) -> dict[str, tuple[str, int | None]]:
        """Return values that the server generated: header name and None, or element name and index of the element."""
        found: dict[str, tuple[str, int | None]] = {}
        for name in _VALUE_HEADERS:
            found.setdefault(self.answer_headers.get(name, "").strip('"'), (name, None))
        for name in _VALUE_ELEMENTS:
            for number, text in enumerate(self.elements(name)):
                found.setdefault(text, (name, number))
        return {value: place for value, place in found.items() if len(value) >= _VALUE_CHARACTERS_MIN}

    @property
    def shown(self) -> dict[str, str | None]:
        """Return the relevant values of the response: status, code, lock, and entries of a list."""
        shown: dict[str, str | None] = {"status": str(self.status)}
        names = ["Code"] if self.status >= 300 else ("Code", *_SHOWN_ELEMENTS)
        shown |= {name: ",".join(texts) for name in names if (texts := self.elements(name))}
        if self.listed is not None:
            shown.setdefault("Key", None)  # that a list has no entry is what it shows
        shown |= {name: value for name, value in self.answer_headers.items() if name.startswith("x-amz-meta-")}
        if self.status < 300 and self.key and "?" not in self.target.replace("?versionId=", ""):
            names_of: tuple[str, ...] = _SHOWN_HEADERS if self.reads else ()
            if self.method == "PUT" and "x-amz-version-id" not in self.answer_headers:
                names_of = ("x-amz-version-id",)
            if any(name.lower() == "x-amz-checksum-mode" for name, _ in self.headers):
                names_of = (*names_of, *_CHECKSUM_HEADERS)
            shown |= {name: self.answer_headers.get(name) for name in names_of}
        return shown

    def elements(self, name: str) -> list[str]:
        """Return the texts of all elements with that name in the response, without quotation marks."""
        texts = re.findall(rf"<{name}>([^<]+)</", self.answer_body.decode("latin-1"))
        return [unescape(text).strip('"') for text in texts]

    @property
    def listed(self) -> tuple[str, str] | None:
        """Return bucket and prefix of the keys that the request lists; None if it is no list.

        The deletion of a bucket depends on its keys as a list does.
        """
        prefix = re.search(r"[?&]prefix=([^&]+)", self.target) if not self.key else None
        if prefix is not None:
            return self.bucket, unquote(prefix[1])
        is_of_all = not self.key and (self.target.endswith("?versions") or self.method == "DELETE")
        return (self.bucket, "") if is_of_all and "?" not in self.target.replace("?versions", "") else None

    @property
    def finds_versions(self) -> bool:
        """Return whether the request lists versions."""
        return self.reads and not self.key and "?versions" in self.target

    def is_in(self, listed: Iterable[tuple[str, str]]) -> bool:
        """Return whether the request is for a key in one of these buckets, with its prefix."""
        return any(self.bucket == bucket and self.key.startswith(prefix) for bucket, prefix in listed)

    def names(self, words: Iterable[str]) -> bool:
        """Return whether target, headers or body contain one of these words."""
        text = " ".join([unquote(self.target), *(unquote(value) for _, value in self.headers)])
        return any(word in text or word.encode() in self.body for word in words)


class Alteration(NamedTuple):
    """Two reads of the same version that show different values of a header, which the finding names."""

    earlier: Request
    later: Request
    header: str


@dataclass(frozen=True, slots=True)
class Reproduction:
    """The requests that show one finding of a check."""

    check: CheckRecord
    finding: CheckFinding
    before: Sequence[Request]  # preparation; without reads that no later request needs
    attempt: Sequence[Request]  # more than one if sent at the same time
    after: Sequence[Request]  # read the state
    state_changed: bool  # the state shows the finding without the response of the attempt
    altered: Alteration | None

    @property
    def requests(self) -> list[Request]:
        return [*self.before, *self.attempt, *self.after]


def reproducible_check(checks: Sequence[CheckRecord], identifier: str) -> CheckRecord:
    """Return the finding of a check in the first round. Raises ResultsError if a script cannot reproduce it."""
    of_check = [check for check in checks if check.id == identifier]
    found = [check for check in of_check if check.is_finding]
    if not of_check:
        raise ResultsError(f"{identifier}: this run did not try that check")
    if not found:
        raise ResultsError(f"{identifier}: {of_check[0].verdict}; only a FAIL or a DEVIATION can be reproduced")
    if identifier.startswith("TSM-"):
        raise ResultsError(f"{identifier}: the check used the TSM API, and a reproduction sends only S3 requests")
    if found[0].round != FIRST_ROUND:
        raise ResultsError(
            f"{identifier}: it was found only {found[0].round}; a script can neither load nor kill the server"
        )
    return found[0]


def reproduction_of(check: CheckRecord, exchanges: Sequence[Mapping[str, Any]]) -> Reproduction:
    """Return the requests for the first finding of a check. Raises ResultsError with the reason if there are none."""
    if not check.findings:
        raise ResultsError(f"{check.id}: the evidence does not say which requests show it")
    finding, identifier = check.findings[0], check.id
    if not finding.is_complete:
        raise ResultsError(f"{check.id}: the evidence lacks some of the requests that show it")
    recorded = enumerate(exchanges[: finding.exchanges], 1)
    requests = [_request(position, each) for position, each in recorded if each["status"]]
    if not requests:
        raise ResultsError(f"{identifier}: the evidence has no request that shows it")
    # A generated sequence is simplified before it is recorded: it needs each of its requests.
    needed = requests if check.is_generated else _first_chosen(requests, finding)
    chosen = _chosen(requests, needed, identifier)
    for request in chosen:
        _refuse_incomplete(request, identifier)
    changes = [number for number, request in enumerate(chosen) if not request.reads]
    if not changes:
        raise ResultsError(f"{identifier}: the evidence lacks the requests that wrote what the check read")
    attempts = [number for number in changes if chosen[number].position in finding.attempt]
    first, last = (attempts[0], attempts[-1]) if attempts else (changes[-1], changes[-1])
    if check.family == RACES and first == last:
        raise ResultsError(f"{identifier}: the evidence does not say which two requests met")
    before, attempt, after = chosen[:first], chosen[first : last + 1], _states(chosen[last + 1 :])
    states = {(each.method, each.target): each.shown for each in before if each.reads}
    changes_state = any(states.get((each.method, each.target), each.shown) != each.shown for each in after)
    altered = _alteration(before, chosen[last + 1 :], finding) if check.verdict == "FAIL" else None
    if altered is not None:
        after = [altered.later]
    changed = check.verdict == "FAIL" and (changes_state or altered is not None)  # a deviation is in the answer
    needed = _needed(before, [*attempt, *after])
    _refuse_unknown_values([*needed, *attempt, *after], requests, identifier)
    return Reproduction(check, finding, needed, attempt, after, changed, altered)


def _refuse_unknown_values(chosen: Sequence[Request], requests: Sequence[Request], identifier: str) -> None:
    """Raise ResultsError if a request names a value of the recorded server that no earlier request returns."""
    made = {value for request in requests for value in request.values}
    known: set[str] = set()
    for request in chosen:
        if missing := [value for value in _needed_values(request) if value in made - known]:
            raise ResultsError(f"{identifier}: a request that a script leaves out returned {missing[0]}")
        known |= set(request.values)


def _alteration(before: Sequence[Request], after: Sequence[Request], finding: CheckFinding) -> Alteration | None:
    """Return the first header that the finding names and that a later read of a version shows with another value."""
    reads = {(each.method, each.target): each for each in before if each.reads}
    pairs = [(reads[each.method, each.target], each) for each in after if (each.method, each.target) in reads]
    named = [header for header in _DESCRIPTION if header in finding.words.lower()]
    return next(
        (
            Alteration(earlier, later, header)
            for header in named
            for earlier, later in pairs
            if earlier.status == later.status == 200
            and earlier.answer_headers.get(header) != later.answer_headers.get(header)
        ),
        None,
    )


def _states(after: Sequence[Request]) -> list[Request]:
    """Return the reads of the object or bucket that was read last, without repetitions.

    Lists of keys in which these reads found their version are among them.
    """
    if not after:
        return []
    last = after[-1]
    reads = [each for each in after if each.reads and (each.bucket, each.key) == (last.bucket, last.key)]
    once = [
        each
        for number, each in enumerate(reads)
        if not any((each.target, each.method, each.shown) == (b.target, b.method, b.shown) for b in reads[number + 1 :])
    ]
    return [each for each in after if each in once or (each.finds_versions and any(o.names(each.values) for o in once))]


def _request(position: int, document: Mapping[str, Any]) -> Request:
    headers = [(name, value) for name, value in document["request_headers"]]
    target, host = document["target"], dict(headers).get("Host")
    if host is not None:  # the platform has the bucket in the host name (virtual-hosted style)
        target = f"/{host.partition('.')[0]}{target}"
    return Request(
        position=position,
        at=document["at"],
        seconds=document["seconds"],
        method=document["method"],
        target=target,
        headers=tuple((name, value) for name, value in headers if name.lower() not in _SIGNING),
        body=_body(document, "request"),
        body_is_text="request_body" in document,
        body_bytes=document["request_bytes"],
        body_sha256=document["request_sha256"],
        signature=document["signature"],
        signed_headers=tuple((name, value) for name, value in document["signed_headers"]),
        unsigned_headers=tuple(document.get("unsigned_headers", ())),
        sender=document["sender"],
        is_streamed=any(value.startswith("STREAMING-") for _, value in headers),
        status=document["status"],
        answer_headers=dict(document["response_headers"]),
        answer_body=_body(document, "response"),
        answer_sha256=document["response_sha256"],
    )


def _body(document: Mapping[str, Any], whose: str) -> bytes:
    text = document.get(f"{whose}_body")
    return text.encode() if text is not None else base64.b64decode(document[f"{whose}_body_base64"])


def _chosen(requests: Sequence[Request], first: Sequence[Request], identifier: str) -> list[Request]:
    """Return the requests that ``first`` and each other need, in the order in which they were sent.

    Raises ResultsError if one of the first is a list of too many objects.
    """
    shared = _shared_bucket(requests)
    lists = {request.listed for request in first if request.listed is not None and request.listed != (shared, "")}
    writes = sum(request.is_in(lists) for request in requests if not request.reads)
    if writes > _LISTED_MAX:
        raise ResultsError(f"{identifier}: a list shows it, and {writes:,} requests made what it lists")
    if len([request for request in first if not request.reads]) > 1:  # a race, which is one of many
        keys = {request.key for request in requests if request.key}
        others = {key for key in keys if not any(request.names([key]) for request in first)}
        requests = [request for request in requests if not request.names(others)]
    chosen = [request for request in requests if request in first or request.is_in(lists)]
    size = 0
    while len(chosen) != size:
        size = len(chosen)
        keys = {request.key for request in chosen if request.key}
        buckets = {request.bucket for request in chosen} - {shared}
        values = [value for request in chosen for value in _needed_values(request)]
        chosen = [
            request
            for request in requests
            if request in chosen
            or request.names(keys)
            or (request.bucket in buckets and not request.key)
            or any(value in request.values for value in values)
        ]
    return sorted(chosen, key=lambda request: request.at)


def _first_chosen(requests: Sequence[Request], finding: CheckFinding) -> list[Request]:
    """Return the attempt and the last request, which reads the state; without an attempt, the last change of that."""
    attempt = [request for request in requests if request.position in finding.attempt]
    if len(attempt) > 1:  # a race is one of many, and another one may have been read last
        return attempt
    if attempt:
        made_earlier = {request.key for request in requests if request.position <= attempt[0].position}
        changed_later = {r.key for r in requests if r.position > attempt[0].position and not r.reads}
        # A control after the attempt has a key of its own.
        return [*attempt, *[r for r in requests if r.key not in changed_later - made_earlier][-1:]]
    last = requests[-1]
    changes = [request for request in requests if not request.reads]
    of_last = [request for request in changes if last.key and request.names([last.key])]
    return [last, *(of_last or changes)[-1:]]


def _needed_values(request: Request) -> list[str]:
    """Return the version ids and upload ids in a request's target, headers and body."""
    text = " ".join([request.target, *(value for _, value in request.headers)])
    in_body = re.findall(rb"<VersionId>([^<]+)</VersionId>", request.body)
    named = re.findall(r"(?:versionId|uploadId)=([^& ]+)", text)
    return [unquote(value) for value in named] + [value.decode() for value in in_body]


def _shared_bucket(requests: Sequence[Request]) -> str | None:
    """Return the bucket that the check did not create, or None."""
    made = {request.bucket for request in requests if request.makes_bucket}
    return next((request.bucket for request in requests if request.bucket not in made), None)


def _refuse_incomplete(request: Request, identifier: str) -> None:
    if request.signature == "form":
        raise ResultsError(f"{identifier}: a body contains a signature, and the evidence contains no signatures")
    if request.is_streamed:
        raise ResultsError(f"{identifier}: a body was signed in chunks, which a script does not do")
    is_cut = request.body_bytes > len(request.body)
    if is_cut and (request.body_is_text or any("checksum" in name.lower() for name, _ in request.headers)):
        raise ResultsError(f"{identifier}: the evidence has only the first {len(request.body)} bytes of a body")


def _needed(before: Sequence[Request], later: Sequence[Request]) -> list[Request]:
    """Remove reads, except reads of the state that the attempt changes and of values that a later request needs."""
    kept: list[Request] = []
    states = {(each.method, each.target): number for number, each in enumerate(before) if each.reads}
    changed = [states.get((each.method, each.target)) for each in later]
    for number, request in enumerate(before):
        new = [value for value in request.values if not any(value in each.values for each in before[:number])]
        if not request.reads or number in changed or any(each.names(new) for each in [*before[number + 1 :], *later]):
            kept.append(request)
    return kept
