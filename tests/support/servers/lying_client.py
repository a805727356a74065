"""A lying platform: a layer between the conformance checks and a real store.

One idea: a lie is a function that gets a request and the store, and returns the answer. It may forward the request,
change the stored objects with the owner's rights, or make up an answer. It forwards all requests that it does not lie
about. The layer also implements copies and multipart uploads, which the embedded store lacks, so that lies can concern
these as well.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, unquote

from archiver.worm.case import GOVERNANCE, Case, ObjectLock, Version, instant_of, md5_of
from archiver.worm.requests.exchange import Answer, Headers, S3Client

YES = Answer(200, {}, b"")
GONE = Answer(204, {}, b"")
NOT_FOUND = Answer(404, {}, b"<Error><Code>NoSuchVersion</Code></Error>")
DENIED = Answer(403, {}, b"<Error><Code>AccessDenied</Code></Error>")
BYPASS = "x-amz-bypass-governance-retention"
MODE, UNTIL, HOLD = "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold"
_OF_THE_SIGNATURE = {"authorization", "host", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"}


@dataclass(frozen=True)
class Asked:
    """One request on its way to the store. Header names are in lower case."""

    client: LyingClient
    method: str
    bucket: str
    key: str  # empty: the request is about the bucket
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    pass_on: Callable[[], Answer]
    way: str = "request"  # "copy", "upload": the PUT that a copy or a multipart upload results in

    @property
    def version(self) -> Version:
        """The version that the request names; without an id if it names none."""
        return Version(self.bucket, self.key, self.query.get("versionId", ""), self.body)

    @property
    def is_read(self) -> bool:
        return self.method in ("GET", "HEAD") and bool(self.key) and not self.query.keys() - {"versionId"}

    @property
    def is_put(self) -> bool:
        """Whether the request stores an object."""
        return self.method == "PUT" and bool(self.key) and not self.query.keys() - {"versionId"}

    @property
    def is_delete(self) -> bool:
        """Whether the request deletes one version."""
        return self.method == "DELETE" and bool(self.key) and "versionId" in self.query

    @property
    def is_batch(self) -> bool:
        return self.method == "POST" and "delete" in self.query

    def sets(self, what: str) -> bool:
        """Return whether the request sets this property: retention, legal-hold, object-lock ..."""
        return self.method == "PUT" and what in self.query

    @property
    def lock(self) -> ObjectLock | None:
        """The retention that the request sets, in a header or in its body."""
        document = Answer(200, {}, self.body)
        until = instant_of(self.headers.get(UNTIL) or document.text_of("RetainUntilDate"))
        return ObjectLock(self.headers.get(MODE) or document.text_of("Mode"), until) if until else None

    @property
    def entries(self) -> list[Version]:
        """The versions that a batch delete names; the id is empty where it names only a key."""
        fields = [
            {each.tag.rpartition("}")[2]: each.text or "" for each in entry} for entry in self._elements("Object")
        ]
        return [Version(self.bucket, each["Key"], each.get("VersionId", ""), b"") for each in fields]

    def _elements(self, name: str) -> Any:
        return Answer(200, {}, self.body).elements(name)

    def without(self, *names: str) -> Answer:
        """Forward the request without these headers, signed again with the client's keys."""
        return self.changed({name: value for name, value in self.headers.items() if name not in names})

    def changed(self, headers: dict[str, str]) -> Answer:
        """Forward the request with other headers, signed again with the client's keys.

        A request that is presigned, or that was signed for another body, is forwarded unchanged.
        """
        signed_for = self.headers.get("x-amz-content-sha256")
        is_presigned = "X-Amz-Signature" in self.query
        if is_presigned or signed_for not in (None, hashlib.sha256(self.body).hexdigest()):
            return self.pass_on()
        return self.client.honest.send(
            self.method, self.bucket, self.key or None,
            query=[(name, value or None) for name, value in self.query.items()],
            headers=_unsigned(headers), body=self.body, unsure=True,
        )  # fmt: skip

    def as_put(self, way: str, headers: dict[str, str], body: bytes) -> Asked:
        """Return the PUT that a copy or a multipart upload results in."""
        headers = {**dict(_unsigned(headers)), "content-md5": md5_of(body)}
        asked = replace(self, method="PUT", query={}, headers=headers, body=body, way=way)
        return replace(asked, pass_on=lambda: asked.changed(asked.headers))


def _unsigned(headers: dict[str, str]) -> Headers:
    return [(name, value) for name, value in headers.items() if name not in _OF_THE_SIGNATURE]


@dataclass
class Store:
    """The store behind the lie, with its owner's rights, and the state of the lie."""

    owner: Case
    hidden: set[Version] = field(default_factory=set)  # versions reported as deleted; without bytes
    told: dict[Version, Any] = field(default_factory=dict)  # what the lie reports of a version; without bytes
    uploads: dict[str, tuple[dict[str, str], dict[int, bytes]]] = field(default_factory=dict)  # headers, parts

    def current(self, asked: Asked) -> Version:
        """Return the version that the request names, otherwise the current one; without bytes."""
        if asked.version.id:
            return asked.version._replace(body=b"")
        head = self.owner.client.send("HEAD", asked.bucket, asked.key)
        return asked.version._replace(id=head.version_id or "", body=b"")

    def is_held(self, version: Version) -> bool:
        return self._shown(version).get(HOLD) == "ON"

    def is_locked(self, version: Version) -> bool:
        return MODE in self._shown(version) or self.is_held(version)

    def _shown(self, version: Version) -> Mapping[str, str]:
        query = (("versionId", version.id),)
        return self.owner.client.send("HEAD", version.bucket, version.key, query=query).headers

    def destroy(self, version: Version) -> None:
        """Delete this version, or report it as deleted if it cannot be deleted."""
        self.unlock(version)
        if not self.owner.delete(version, bypass=True).ok:
            self.hidden.add(version._replace(body=b""))

    def unlock(self, version: Version) -> None:
        """Remove the legal hold, and retention in GOVERNANCE mode."""
        self.owner.set_hold(version, "OFF")
        self.owner.set_retention(version, None, bypass=True)

    def relock(self, version: Version, lock: ObjectLock) -> Answer:
        return self.owner.set_retention(version, lock, bypass=True)


Lie = Callable[[Asked, Store], Answer]


class LyingClient(S3Client):
    """A client whose requests go through a lie."""

    def __init__(self, honest: S3Client, lie: Lie, store: Store) -> None:
        super().__init__(honest.endpoint, honest.region, honest.credentials, honest.record)
        self._lie = lie
        self._store = store

    @property
    def honest(self) -> S3Client:
        return S3Client(self.endpoint, self.region, self.credentials, [])

    def recording(self, record: list[Any]) -> LyingClient:
        client = super().recording(record)
        return LyingClient(client, self._lie, self._store)

    def _exchange(self, method: str, target: str, headers: Headers, body: bytes) -> Answer:
        path, _, query = target.partition("?")
        bucket, _, key = path.removeprefix("/").partition("/")
        asked = Asked(
            self, method, bucket, unquote(key), dict(parse_qsl(query, keep_blank_values=True)),
            {name.lower(): value for name, value in headers}, body,
            lambda: super(LyingClient, self)._exchange(method, target, headers, body),
        )  # fmt: skip
        if self._store.hidden and asked.version._replace(body=b"") in self._store.hidden:
            return NOT_FOUND
        return self._in_parts(asked) or self._copied(asked) or self._lie(asked, self._store)

    def _copied(self, asked: Asked) -> Answer | None:
        source = "x-amz-copy-source"
        is_signed = source in asked.headers.get("authorization", source)
        if not asked.is_put or source not in asked.headers or not is_signed:
            return None
        place, _, version_id = unquote(asked.headers[source]).partition("?versionId=")
        bucket, _, key = place.removeprefix("/").partition("/")
        copied = self.honest.send("GET", bucket, key, query=(("versionId", version_id),))
        if not copied.ok:
            return copied
        headers = {name: value for name, value in asked.headers.items() if not name.startswith("x-amz-copy-")}
        if headers.pop("x-amz-metadata-directive", "") != "REPLACE":
            headers |= {name: value for name, value in copied.headers.items() if name.startswith("x-amz-meta-")}
        return self._lie(asked.as_put("copy", headers, copied.body), self._store)

    def _in_parts(self, asked: Asked) -> Answer | None:
        uploads, identifier = self._store.uploads, asked.query.get("uploadId", "")
        if asked.method == "POST" and "uploads" in asked.query:
            identifier = secrets.token_hex(8)
            uploads[identifier] = asked.headers, {}
            return replace(YES, body=f"<Start><UploadId>{identifier}</UploadId></Start>".encode())
        if not identifier:
            return None
        if asked.method == "PUT" and identifier in uploads:
            uploads[identifier][1][int(asked.query["partNumber"])] = asked.body
            return replace(YES, headers={"etag": hashlib.md5(asked.body, usedforsecurity=False).hexdigest()})
        headers, parts = uploads.pop(identifier, ({}, {}))
        if asked.method == "DELETE" and parts:
            return GONE
        if not parts:
            return replace(NOT_FOUND, body=b"<Error><Code>NoSuchUpload</Code></Error>")
        body = b"".join(parts[number] for number in sorted(parts))
        return self._lie(asked.as_put("upload", headers, body), self._store)


def lying(honest: S3Client, lie: Lie, bucket: str) -> LyingClient:
    """Return a client of the same store, with the same keys, whose requests go through the lie."""
    owner = Case("lie", honest, bucket, True, {}, lambda *_: bucket, 0.0)
    return LyingClient(honest, lie, Store(owner))


def shown_with(answer: Answer, **headers: str | None) -> Answer:
    """Return the answer with these lock headers (mode, until, hold) replaced; None removes one."""
    names = {"mode": MODE, "until": UNTIL, "hold": HOLD}
    changed = {**answer.headers, **{names[short]: value for short, value in headers.items()}}
    return replace(answer, headers={name: value for name, value in changed.items() if value is not None})


def is_governance(lock: ObjectLock | None) -> bool:
    return lock is not None and lock.mode == GOVERNANCE
