"""OVR: writing over locked versions by every call that writes, and copies of locked versions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from archiver.worm import multipart
from archiver.worm.case import (
    BYPASS,
    COMPLIANCE,
    ROOT,
    Case,
    Version,
    VersionState,
    is_protected,
    iso,
    md5_of,
    same_instant,
    words_of,
)
from archiver.worm.checks import check
from archiver.worm.listing import with_id
from archiver.worm.requests.exchange import Answer, Headers
from archiver.worm.verdict import Failed, Inconclusive, NotOffered

Query = Sequence[tuple[str, str | None]]
_META: Headers = (("x-amz-meta-archiver", "first"),)
_OTHER_META: Headers = (("x-amz-meta-archiver", "second"),)
_REPLACED: Headers = (("x-amz-metadata-directive", "REPLACE"), *_OTHER_META)
_SYSTEM = ("etag", "content-type", "x-amz-meta-archiver")  # metadata that a lock protects besides the bytes
_DATE_SECONDS = 1.5  # after this time a Last-Modified in whole seconds differs
_OTHER_BODY = b"what must not take the place of anything"


def _locked(case: Case, *, hold: str | None = None, compliance: bool = False) -> tuple[Version, VersionState]:
    """Store a locked version with metadata; return it and its state."""
    lock = case.lock(COMPLIANCE) if compliance else case.lock()
    version = case.stored(lock=lock, hold=hold, headers=_META)
    return version, case.state(version)


def _must_be_untouched(case: Case, version: Version, before: VersionState) -> None:
    """Fail if bytes, lock, hold or metadata of the version changed."""
    case.must_survive(version)
    after = case.state(version)
    if (
        after.mode != before.mode
        or (before.until is not None and not same_instant(after.until, before.until))
        or (after.hold == "ON") != (before.hold == "ON")
    ):
        raise Failed(f"version {version.id} of {version.key}: {words_of(before)} became {words_of(after)}")
    for name in _SYSTEM:
        if after.headers.get(name) != before.headers.get(name):
            raise Failed(
                f"version {version.id} of {version.key}: {name} {before.headers.get(name)} became "
                f"{after.headers.get(name)}"
            )


def _must_be_new(case: Case, answer: Answer, what: str, old: Version, new: Version) -> None:
    """Fail unless the accepted write created a new version that can be read. The caller has checked the old one."""
    case.must_allow(answer, what)
    if not new.id or new.id == old.id:
        raise Failed(f"{what} was accepted, but its answer names no new version ({new.id or 'none'})", "S3")
    if case.state(new).body != new.body:
        raise Failed(f"{what} was accepted, but the new version has other bytes than were sent")


# ---- every way to write over a key


def _put(case: Case, over: Version, query: Query = (), headers: Headers = ()) -> tuple[Answer, Version]:
    return case.put(over.key, _OTHER_BODY, query=query, headers=(*_OTHER_META, *headers))


def _copy(case: Case, over: Version, query: Query = (), headers: Headers = ()) -> tuple[Answer, Version]:
    return case.copy(case.stored(body=_OTHER_BODY), over.key, query=query, headers=(*_REPLACED, *headers))


def _copy_onto_itself(case: Case, over: Version, query: Query = (), headers: Headers = ()) -> tuple[Answer, Version]:
    return case.copy(over, over.key, query=query, headers=(*_REPLACED, *headers))


def _multipart(case: Case, over: Version, query: Query = (), headers: Headers = ()) -> tuple[Answer, Version]:
    """Start, one part and completion; ``query`` and ``headers`` apply to start and completion."""
    answer = case.client.send(
        "POST", over.bucket, over.key, query=(("uploads", None), *query), headers=(*_OTHER_META, *headers)
    )
    upload = multipart.StartedUpload(over.bucket, over.key, answer.text_of("UploadId"))
    if answer.ok:
        etag = multipart.send_parts(case, upload, [_OTHER_BODY])[0]
        part = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        body = f'<CompleteMultipartUpload xmlns="{ROOT}">{part}</CompleteMultipartUpload>'.encode()
        answer = case.client.send(
            "POST", over.bucket, over.key, query=(("uploadId", upload.id), *query), headers=headers, body=body
        )
    return answer, Version(over.bucket, over.key, answer.version_id or "", _OTHER_BODY)


_Write = Callable[[Case, Version, Query, Headers], tuple[Answer, Version]]
_WRITES: dict[str, _Write] = {"PUT": _put, "copy": _copy, "multipart": _multipart}


@check("OVR-01")
def put_over_locked(case: Case) -> None:
    old, before = _locked(case)
    case.wait_until(case.now() + timedelta(seconds=_DATE_SECONDS))
    answer, new = _put(case, old)
    _must_be_untouched(case, old, before)
    _must_be_new(case, answer, "PUT over a locked key", old, new)
    dates = [state.headers.get("last-modified") for state in (before, case.state(old))]
    if dates[0] != dates[1]:
        case.deviate(f"PUT over a locked key changed the old version's Last-Modified from {dates[0]} to {dates[1]}")


@check("OVR-02")
def multipart_over_locked(case: Case) -> None:
    old, before = _locked(case)
    answer, new = _multipart(case, old)
    _must_be_untouched(case, old, before)
    _must_be_new(case, answer, "a multipart upload over a locked key", old, new)


@check("OVR-03")
def copy_onto_itself(case: Case) -> None:
    old, before = _locked(case)
    answer, new = _copy_onto_itself(case, old)
    _must_be_untouched(case, old, before)
    _must_be_new(case, answer, "a copy onto itself with other metadata", old, new)
    if case.state(new).headers.get("x-amz-meta-archiver") != "second":
        raise Failed("a copy onto itself with other metadata was accepted, but the new version lacks it")


# No credential may override a hold, so a hold replaces COMPLIANCE if the user did not agree to that.
_KINDS = ("GOVERNANCE", "a hold", COMPLIANCE)


@check("OVR-04")
def write_in_place(case: Case) -> None:
    """PUT with ?versionId= of the locked version. S3 has no such call: it is refused or writes another version."""
    case.try_all(
        *(
            (f"{name} over {kind}", partial(_write_in_place, case, write, kind))
            for kind in _KINDS
            for name, write in _WRITES.items()
        )
    )


def _write_in_place(case: Case, write: _Write, kind: str) -> None:
    version, before = _locked(case, hold="ON" if kind == "a hold" else None, compliance=kind == COMPLIANCE)
    answer, new = _attempted(case, version, before, lambda: write(case, version, _its_id(version), ()))
    if answer.ok and new.id == version.id:
        case.deviate(f"writing to a locked version was answered {answer} with its own id, though nothing changed")


def _its_id(version: Version) -> Query:
    return (("versionId", version.id),)


def _rgw_id(version: Version) -> Query:
    return (("rgwx-version-id", version.id), ("rgwx-versioned-epoch", "2"))


def _attempted(
    case: Case, version: Version, before: VersionState, attempt: Callable[[], tuple[Answer, Version]]
) -> tuple[Answer, Version]:
    """Return the attempt's answer. The version must be unchanged, also if the platform has no such call."""
    try:
        return attempt()
    finally:
        _must_be_untouched(case, version, before)


_REPLICATION: dict[str, tuple[Headers, Callable[[Version], Query]]] = {
    "MinIO's and RustFS's headers": (
        (
            ("x-amz-replication-status", "REPLICA"),
            ("x-minio-source-replication-request", "true"),
            ("x-rustfs-source-replication-request", "true"),
        ),
        _its_id,
    ),
    "Ceph's parameters": ((), _rgw_id),
}


@check("OVR-05")
def write_as_a_replica(case: Case) -> None:
    """Write as a platform's replication does at its other site, under a hold, which no credential may override."""
    case.try_all(
        *(
            (f"{name} with {vendor}", partial(_write_as_replica, case, write, vendor))
            for vendor in _REPLICATION
            for name, write in {**_WRITES, "DELETE": _delete}.items()
        )
    )


def _write_as_replica(case: Case, write: _Write, vendor: str) -> None:
    headers, query = _REPLICATION[vendor]
    version, before = _locked(case, hold="ON")
    _attempted(case, version, before, lambda: write(case, version, query(version), headers))


def _delete(case: Case, over: Version, query: Query = (), headers: Headers = ()) -> tuple[Answer, Version]:
    parameters = {**dict(_its_id(over)), **dict(query)}
    return case.client.send("DELETE", over.bucket, over.key, query=list(parameters.items()), headers=headers), over


@check("OVR-06")
def copy_without_lock(case: Case) -> None:
    source, before = _locked(case, hold="ON")
    answer, new = case.copy(source)
    case.must_allow(answer, "copying a locked version without lock headers")
    _must_be_untouched(case, source, before)
    state = case.state(new)
    if state.body != source.body:
        raise Failed("copying a locked version was accepted, but the copy has other bytes")
    if state.mode is not None or state.hold == "ON":
        raise Failed(f"a copy without lock headers has {words_of(state)} from its source")


@check("OVR-07")
def copy_with_lock(case: Case) -> None:
    lock = case.lock()
    answer, new = case.copy(case.stored(), lock=lock, hold="ON")
    case.must_allow(answer, "a copy with lock headers")
    new = with_id(case, new)
    state = case.state(new)
    if state.body != new.body:
        raise Failed("a copy with lock headers was accepted, but has other bytes than its source")
    if state.mode != lock.mode or not same_instant(state.until, lock.until) or state.hold != "ON":
        raise Failed(f"a copy with {lock.mode} until {iso(lock.until)} and a hold has {words_of(state)}")
    case.must_refuse_delete(new, case.delete(new), "deleting a copy that was made with a lock")


@check("OVR-08")
def append(case: Case) -> None:
    offset = str(len(_APPENDED_TO))
    case.try_all(
        ("write offset", lambda: _append(case, (), (("x-amz-write-offset-bytes", offset),))),
        ("PUT ?append", lambda: _append(case, (("append", None), ("position", offset)))),
    )


_APPENDED_TO = b"to this nothing is appended: "


def _append(case: Case, query: Query, headers: Headers = ()) -> None:
    version = case.stored(body=_APPENDED_TO, lock=case.lock(), headers=_META)
    before = case.state(version)
    wanted = [("Content-MD5", md5_of(_OTHER_BODY)), *headers]

    def attempt() -> tuple[Answer, Version]:
        answer = case.client.send("PUT", version.bucket, version.key, query=query, headers=wanted, body=_OTHER_BODY)
        return answer, Version(version.bucket, version.key, answer.version_id or "", _OTHER_BODY)

    answer, new = _attempted(case, version, before, attempt)
    if answer.ok:
        written = case.state(new).body if new.id and new.id != version.id else None
        what = f"a new version of {len(written)} bytes" if written is not None else "nothing"
        case.notes.append(f"appending was answered {answer} and wrote {what}")


@check("OVR-09")
def rename(case: Case) -> None:
    case.try_all(*((f"PUT ?{word}", partial(_rename, case, word)) for word in ("renameObject", "rename")))


def _rename(case: Case, word: str) -> None:
    version, before = _locked(case)
    other = version._replace(key=case.key())
    source = f"/{version.bucket}/{version.key}"
    headers = [("x-amz-rename-source", source), ("x-cos-rename-source", source)]
    try:
        answer = case.client.send("PUT", other.bucket, other.key, query=((word, None),), headers=headers)
    finally:
        _must_be_untouched(case, other if case.state(version).body is None else version, before)
    if answer.ok and case.state(other).body is None:
        case.notes.append(f"renaming was answered {answer}, and the locked version kept its name")


@check("OVR-10")
def put_if_none_match(case: Case) -> None:
    version, before = _locked(case)
    condition: Headers = (("If-None-Match", "*"),)
    answer, _ = case.put(version.key, _OTHER_BODY, headers=condition)
    _must_be_untouched(case, version, before)
    if answer.ok:
        raise Failed(f"PUT If-None-Match: * on an existing key must be refused, and was answered {answer}")
    case.must_refuse(answer, "PUT If-None-Match: * on a locked key", "412 PreconditionFailed", version)
    marker = case.delete_key(version.bucket, version.key)
    if not marker.ok:
        raise Inconclusive(f"a delete marker could not be made: {marker}; see DEL-05")
    answer, _ = case.put(version.key, _OTHER_BODY, headers=condition)
    _must_be_untouched(case, version, before)
    case.must_allow(answer, "PUT If-None-Match: * after a delete marker")


@check("OVR-11")
def tags_and_acl(case: Case) -> None:
    case.try_all(("tags", lambda: _tag(case)), ("ACL", lambda: _set_acl(case)))


def _tag(case: Case) -> None:
    version, before = _locked(case)
    tagging = f'<Tagging xmlns="{ROOT}"><TagSet><Tag><Key>archiver</Key><Value>yes</Value></Tag></TagSet></Tagging>'
    answer = case.put_xml(version, "tagging", tagging)
    _must_be_untouched(case, version, before)
    case.must_allow(answer, "tagging a locked version")
    shown = case.client.send("GET", version.bucket, version.key, query=(("tagging", None), *_its_id(version)))
    if shown.text_of("Value") != "yes":
        raise Failed(
            f"tagging a locked version was answered {answer}, and its tags are {shown.text_of('Value') or 'none'}"
        )


def _set_acl(case: Case) -> None:
    version, before = _locked(case)
    answer = case.client.send(
        "PUT",
        version.bucket,
        version.key,
        query=(("acl", None), *_its_id(version)),
        headers=(("x-amz-acl", "private"),),
    )
    _must_be_untouched(case, version, before)
    if answer.code == "AccessControlListNotSupported":
        raise NotOffered(f"ACLs are off: {answer}")
    case.must_allow(answer, "setting the ACL of a locked version")


@check("OVR-13")
def copy_onto_itself_and_delete(case: Case) -> None:
    """Copy a version onto itself with other metadata, and delete one of the two: the other must keep its bytes."""
    case.try_all(
        ("the copy is deleted", partial(_copy_and_delete, case, is_old_locked=True)),
        ("the copied version is deleted", partial(_copy_and_delete, case, is_old_locked=False)),
    )


def _copy_and_delete(case: Case, *, is_old_locked: bool) -> None:
    old = case.stored(lock=case.lock() if is_old_locked else None, headers=_META)
    headers = () if is_old_locked else case.lock().headers
    answer, new = _copy_onto_itself(case, old, headers=headers)
    case.must_allow(answer, "a copy onto itself with other metadata")
    new = with_id(case, new)
    deleted, kept = (new, old) if is_old_locked else (old, new)
    if kept.id == deleted.id:
        raise Inconclusive("the copy made no new version; see OVR-03")
    if is_old_locked:
        case.must_survive(old)
    if is_protected(case.state(deleted), case.now()) or not is_protected(case.state(kept), case.now()):
        raise NotOffered("a copy has not the lock of its request; see OVR-06 and OVR-07")
    answer = case.delete(deleted)
    case.must_survive_answer(answer, "deleting the other of two versions", kept)
    case.must_allow(answer, "deleting an unlocked version of two", "204")


@check("OVR-14")
def overwrite_with_bypass(case: Case) -> None:
    """Write over a locked version with the bypass header: it makes a new version, as without it."""
    case.try_all(*((name, partial(_write_with_bypass, case, write)) for name, write in _WRITES.items()))


def _write_with_bypass(case: Case, write: _Write) -> None:
    version, before = _locked(case)
    answer, new = _attempted(case, version, before, lambda: write(case, version, (), BYPASS))
    if answer.ok and new.id == version.id:
        case.deviate(f"writing over a locked version was answered {answer} with its own id, though nothing changed")
