"""ING: storing objects with a lock, by every kind of request."""

from __future__ import annotations

import io
import secrets
import tarfile
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

from archiver.worm import multipart
from archiver.worm.case import (
    ANY_REFUSAL,
    FARTHEST_SECONDS,
    GOVERNANCE,
    Case,
    ObjectLock,
    Version,
    VersionState,
    instant_of,
    iso,
    lock_configuration,
    lock_headers,
    md5_of,
    same_instant,
    words_of,
)
from archiver.worm.checks import check
from archiver.worm.forms import send_form
from archiver.worm.listing import ids_of, must_store_nothing, versions, with_id
from archiver.worm.requests.checksums import KINDS, checksum_of
from archiver.worm.requests.exchange import Answer, Headers
from archiver.worm.verdict import Failed, Inconclusive, NotOffered, NotTried

EXPIRING_SECONDS = 4.0
KEY_BYTES_MAX = 1024
NULL = "null"  # the id of what some platforms keep without versions, such as keys with / at their end
BIG_BYTES = multipart.PART_BYTES_MIN + 1
MODE, UNTIL, HOLD = (
    "x-amz-object-lock-mode",
    "x-amz-object-lock-retain-until-date",
    "x-amz-object-lock-legal-hold",
)


# ---- the platform shows the lock requested


@check("ING-01")
def put_with_retention(case: Case) -> None:
    lock = case.lock()
    answer, version = case.put(lock=lock)
    case.must_allow(answer, "PUT with a retention")
    version = with_id(case, version)
    query = (("versionId", version.id),)
    answers = {name: case.client.send(name, version.bucket, version.key, query=query) for name in ("HEAD", "GET")}
    shown = {name: _lock_in_headers(answer) for name, answer in answers.items()}
    shown["GetObjectRetention"] = case.retention_of(version)
    requested = f"{lock.mode} until {iso(lock.until)}"
    for name, found in shown.items():
        if found is not None and (found.mode != lock.mode or not same_instant(found.until, lock.until)):
            raise Failed(f"stored with {requested}; {name} shows {found.mode} until {iso(found.until)}")
    _deviate_if_silent(case, f"stored with {requested}", shown, answers)
    inexact = [f"{name} {iso(found.until)}" for name, found in shown.items() if found and found.until != lock.until]
    if inexact:
        case.notes.append(f"requested {requested}, shown as " + ", ".join(inexact))


@check("ING-02")
def put_with_hold(case: Case) -> None:
    answer, version = case.put(hold="ON")
    case.must_allow(answer, "PUT with a legal hold")
    version = with_id(case, version)
    query = (("versionId", version.id),)
    answer = case.client.send("GET", version.bucket, version.key, query=(("legal-hold", None), *query))
    answers = {name: case.client.send(name, version.bucket, version.key, query=query) for name in ("HEAD", "GET")}
    shown = {name: found.headers.get(HOLD) for name, found in answers.items()}
    shown["GetObjectLegalHold"] = answer.text_of("Status") or None if answer.ok else None
    for name, hold in shown.items():
        if hold not in ("ON", None):
            raise Failed(f"stored with a legal hold; {name} shows {hold}")
    _deviate_if_silent(case, "stored with a legal hold", shown, answers)


def _deviate_if_silent(case: Case, what: str, shown: Mapping[str, object], answers: Mapping[str, Answer]) -> None:
    """Note a deviation if one place shows the lock and another (None) does not; ``answers`` are those of the places."""
    silent = [name for name, found in shown.items() if found is None]
    if len(silent) == len(shown):
        raise Failed(f"{what}, but no read shows it: it was silently ignored")
    if silent:
        about = [answers[name] for name in silent if name in answers]
        case.deviate(f"{what}, which {' and '.join(silent)} does not show", *about)


# ---- an invalid lock must not lead to an object without a lock


@check("ING-03")
def put_half_a_retention(case: Case) -> None:
    mode, until = case.lock().headers
    case.try_all(
        ("mode without date", partial(_must_not_store, case, "PUT with a mode and no date", (mode,))),
        ("date without mode", partial(_must_not_store, case, "PUT with a date and no mode", (until,))),
    )


@check("ING-04")
def put_impossible_date(case: Case) -> None:
    def headers(date: str) -> Headers:
        return ((MODE, GOVERNANCE), (UNTIL, date))

    past = iso(case.now() - timedelta(minutes=1))
    case.try_all(
        ("in the past", partial(_must_not_store, case, "PUT with a date in the past", headers(past))),
        ("no date", partial(_must_not_store, case, "PUT with the date 'tomorrow'", headers("tomorrow"))),
        ("no time", partial(_must_not_store, case, "PUT at 25:61 h", headers(f"{past[:10]}T25:61:00Z"))),
        ("beyond 100 years", partial(_beyond_100_years, case)),
    )


def _beyond_100_years(case: Case) -> None:
    control = case.locked()
    case.delete(control, bypass=True)
    if case.state(control).body is not None:
        raise NotTried("a lock of 100 years could remain: this credential cannot bypass GOVERNANCE")
    lock = ObjectLock(GOVERNANCE, case.lock().until + timedelta(seconds=FARTHEST_SECONDS))
    answer, version = case.put(lock=lock)
    if not answer.ok:
        must_store_nothing(case, answer, "PUT with a date beyond 100 years", ANY_REFUSAL, version.bucket, version.key)
        return
    version = with_id(case, version)
    try:
        _must_show(case, version, "PUT with a date beyond 100 years", lock=lock)
    except Failed as failed:
        raise Failed(str(failed), failed.severity, [answer]) from failed
    finally:
        case.delete(version, bypass=True)
    case.notes.append("a date beyond 100 years is accepted and kept: a limit is documented only for default rules")


@check("ING-05")
def put_unknown_words(case: Case) -> None:
    until = case.lock().headers[1]
    unknown: Headers = ((MODE, "ARCHIVE"), until)
    case.try_all(
        ("mode", partial(_must_not_store, case, "PUT with the mode ARCHIVE", unknown)),
        ("hold", partial(_must_not_store, case, "PUT with the legal hold YES", ((HOLD, "YES"),), ANY_REFUSAL)),
        ("multipart", partial(_must_not_upload, case, "a multipart upload with the mode ARCHIVE", unknown)),
    )


def _must_not_store(case: Case, what: str, headers: Headers, aws: str = "400 InvalidArgument") -> None:
    answer, version = case.put(headers=headers)
    must_store_nothing(case, answer, what, aws, version.bucket, version.key)


def _must_not_upload(case: Case, what: str, headers: Headers, aws: str = "400 InvalidArgument") -> None:
    _need_multipart(case)
    answer, upload = multipart.start(case, headers=headers)
    if answer.ok:
        answer = multipart.complete(case, upload, multipart.send_parts(case, upload, [b"one part"]))
    must_store_nothing(case, answer, what, aws, upload.bucket, upload.key)
    if upload.id:
        case.deviate(f"{what} is refused only when it is completed")
        multipart.abort(case, upload)


# ---- a bucket without Object Lock


@check("ING-06")
def lock_without_object_lock(case: Case) -> None:
    bucket = case.new_bucket(lock=False)
    control, _ = case.put(bucket=bucket)
    if not control.ok:
        raise Inconclusive(f"the control failed: PUT without a lock into a bucket without Object Lock: {control}")
    source = case.stored()

    def put(headers: Headers) -> tuple[Answer, str]:
        answer, version = case.put(bucket=bucket, headers=headers)
        return answer, version.key

    def copied(headers: Headers) -> tuple[Answer, str]:
        answer, version = case.copy(source, bucket=bucket, headers=headers)
        return answer, version.key

    def uploaded(headers: Headers) -> tuple[Answer, str]:
        answer, version = multipart.uploaded(case, [b"one part"], bucket=bucket, headers=headers)
        return answer, version.key

    retention, hold = case.lock().headers, ((HOLD, "ON"),)
    case.try_all(
        ("PUT with a retention", partial(_plain_bucket_must_refuse, case, bucket, put, retention)),
        ("PUT with a hold", partial(_plain_bucket_must_refuse, case, bucket, put, hold)),
        ("copy with a retention", partial(_plain_bucket_must_refuse, case, bucket, copied, retention)),
        ("multipart upload with a retention", partial(_plain_bucket_must_refuse, case, bucket, uploaded, retention)),
    )


def _plain_bucket_must_refuse(
    case: Case, bucket: str, write: Callable[[Headers], tuple[Answer, str]], headers: Headers
) -> None:
    plain, _ = write(())
    if not plain.ok:
        raise NotOffered(f"without lock headers it is refused too: {plain}")
    answer, key = write(headers)
    for entry in (each for page in versions(case, bucket, key) for each in page):
        version = Version(bucket, key, entry.id, b"")
        state = case.state(version)
        if state.lock is None and state.hold != "ON":
            if not answer.ok:
                raise Failed(f"was refused ({answer}), and stored all the same, without a lock", "S3")
            raise Failed(f"was answered {answer}, and stored without a lock: the headers were silently ignored")
        case.delete(version)
        after = case.state(version)
        if after.body != state.body:
            raise Failed(f"was answered {answer}, showed {words_of(state)}, and could be deleted all the same")
        case.deviate(f"a bucket without Object Lock accepts and keeps locks; {case.expected('400 InvalidRequest')}")
        return
    case.must_refuse(answer, "lock headers in a bucket without Object Lock", "400 InvalidRequest")


# ---- integrity


@check("ING-07")
def put_without_integrity(case: Case) -> None:
    lock, key, body = case.lock(), case.key(), b"sent without Content-MD5 and without a checksum"
    answer = case.client.send("PUT", case.bucket, key, headers=lock.headers, body=body)
    if answer.ok:
        version = with_id(case, Version(case.bucket, key, answer.version_id or "", body))
        _must_show(case, version, "PUT with a lock and no integrity header", lock=lock)
        case.deviate(f"PUT with a lock and no integrity header is accepted; {case.expected('400 InvalidRequest')}")
        return
    case.locked()  # with one, the platform accepts it
    must_store_nothing(case, answer, "PUT with a lock and no integrity header", "400 InvalidRequest", case.bucket, key)


@check("ING-08")
def put_with_wrong_checksum(case: Case) -> None:
    wrong = b"these are not the bytes that are sent"
    case.try_all(
        ("Content-MD5", partial(_wrong_checksum, case, "Content-MD5", md5_of(wrong), "400 BadDigest")),
        ("malformed Content-MD5", partial(_wrong_checksum, case, "Content-MD5", "no digest", "400 InvalidDigest")),
        *(
            (kind, partial(_wrong_checksum, case, f"x-amz-checksum-{kind}", checksum_of(kind, wrong), "400 BadDigest"))
            for kind in KINDS
        ),
        ("x-amz-content-sha256", partial(_wrong_payload_hash, case)),
    )


def _wrong_checksum(case: Case, header: str, value: str, aws: str) -> None:
    body = f"{case.check_id} {secrets.token_hex(8)}".encode()
    right = md5_of(body) if header == "Content-MD5" else checksum_of(header.rpartition("-")[2], body)
    control_key = case.key()
    control = case.client.send(
        "PUT", case.bucket, control_key, headers=((header, right), *case.lock().headers), body=body
    )
    if not control.ok:
        raise NotOffered(f"a correct {header} is refused too: {control}")
    key = case.key()
    answer = case.client.send("PUT", case.bucket, key, headers=((header, value), *case.lock().headers), body=body)
    if answer.ok and header != "Content-MD5" and not _shows_checksum(case, control_key, header):
        raise NotOffered(f"{header} is not known: HEAD of an object stored with a correct one shows none")
    must_store_nothing(case, answer, f"PUT with a lock and a wrong {header}", aws, case.bucket, key)


def _shows_checksum(case: Case, key: str, header: str) -> bool:
    answer = case.client.send("HEAD", case.bucket, key, headers=(("x-amz-checksum-mode", "ENABLED"),))
    return header in answer.headers


def _wrong_payload_hash(case: Case) -> None:
    """Send a body other than the one whose hash is signed, with a right checksum, so that the hash alone is wrong."""
    key, target = case.key(), f"/{case.bucket}/"
    sent, signed = b"the bytes that are sent", b"the bytes that are meant"
    checksum = ("x-amz-checksum-crc32", checksum_of("crc32", sent))
    request = AWSRequest("PUT", case.client.url(target + key), data=signed)
    for name, value in (checksum, *case.lock().headers):
        request.headers.add_header(name, value)
    S3SigV4Auth(case.client.signing_credentials, "s3", case.client.region).add_auth(request)
    answer = case.client.send_as_is("PUT", target + key, tuple(request.headers.items()), sent)
    must_store_nothing(
        case, answer, "PUT of other bytes than those signed", "400 XAmzContentSHA256Mismatch", case.bucket, key
    )


@check("ING-09")
def calls_with_wrong_digest(case: Case) -> None:
    case.try_all(
        ("PutObjectRetention", partial(_retention_with_wrong_digest, case)),
        ("PutObjectLegalHold", partial(_hold_with_wrong_digest, case)),
        ("PutObjectLockConfiguration", partial(_configuration_with_wrong_digest, case)),
        ("DeleteObjects", partial(_batch_with_wrong_digest, case)),
    )


_WRONG_DIGEST = ("Content-MD5", md5_of(b"another body"))


def _retention_with_wrong_digest(case: Case) -> None:
    version, lock = case.stored(), case.lock()
    text = f"<Retention><Mode>{lock.mode}</Mode><RetainUntilDate>{iso(lock.until)}</RetainUntilDate></Retention>"
    _refuse_wrong_digest(
        case, "PUT", version.bucket, version.key, (("retention", None), ("versionId", version.id)), text,
        lambda: case.state(version).mode is not None, "the retention was set",
    )  # fmt: skip


def _hold_with_wrong_digest(case: Case) -> None:
    version = case.stored()
    _refuse_wrong_digest(
        case, "PUT", version.bucket, version.key, (("legal-hold", None), ("versionId", version.id)),
        "<LegalHold><Status>ON</Status></LegalHold>",
        lambda: case.state(version).hold == "ON", "the hold was set",
    )  # fmt: skip


def _configuration_with_wrong_digest(case: Case) -> None:
    bucket = case.new_bucket()
    rule = "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>"
    _refuse_wrong_digest(
        case, "PUT", bucket, None, (("object-lock", None),), lock_configuration(rule),
        lambda: case.client.send("GET", bucket, query=(("object-lock", None),)).text_of("Days") == "1",
        "the default retention was set",
    )  # fmt: skip


def _batch_with_wrong_digest(case: Case) -> None:
    version = case.stored()
    _refuse_wrong_digest(
        case, "POST", version.bucket, None, (("delete", None),),
        f"<Delete><Object><Key>{version.key}</Key><VersionId>{version.id}</VersionId></Object></Delete>",
        lambda: case.state(version).body is None, "the version was deleted",
    )  # fmt: skip


def _refuse_wrong_digest(
    case: Case,
    method: str,
    bucket: str,
    key: str | None,
    query: tuple[tuple[str, str | None], ...],
    text: str,
    is_done: Callable[[], bool],
    done: str,
) -> None:
    """Check that a wrong Content-MD5 has no effect, and as the control that the right one has."""
    body = text.encode()
    answer = case.client.send(method, bucket, key, query=query, headers=(_WRONG_DIGEST,), body=body)
    if is_done():
        raise Failed(f"with a wrong Content-MD5 it was answered {answer}, and {done}")
    case.must_refuse(answer, "a call with a wrong Content-MD5", "400 BadDigest")
    control = case.client.send(method, bucket, key, query=query, headers=(("Content-MD5", md5_of(body)),), body=body)
    if not control.ok or not is_done():
        raise Inconclusive(f"the control failed: with the right Content-MD5 it has no effect either ({control})")


# ---- multipart


@check("ING-10")
def multipart_with_lock(case: Case) -> None:
    _need_multipart(case)
    case.try_all(
        ("retention", partial(_multipart_with_lock, case, case.lock(), None)),
        ("hold", partial(_multipart_with_lock, case, None, "ON")),
    )


def _multipart_with_lock(case: Case, lock: ObjectLock | None, hold: str | None) -> None:
    bodies = [secrets.token_bytes(multipart.PART_BYTES_MIN), secrets.token_bytes(1000)]
    answer, version = multipart.uploaded(case, bodies, lock=lock, hold=hold)
    case.must_allow(answer, "a multipart upload with a lock")
    version = with_id(case, version)
    _must_show(case, version, "a multipart upload", lock=lock, hold=hold)
    case.must_refuse_delete(version, case.delete(version), "deleting a locked version made of parts")


@check("ING-11")
def multipart_that_outlives_its_lock(case: Case) -> None:
    _need_multipart(case)
    lock = case.lock(seconds=EXPIRING_SECONDS)
    answer, upload = multipart.start(case, lock=lock)
    case.must_allow(answer, "starting a multipart upload with a lock")
    body = b"the only part"
    etags = multipart.send_parts(case, upload, [body])
    case.wait_until(lock.until + timedelta(seconds=1.5))
    answer = multipart.complete(case, upload, etags)
    if not answer.ok:
        must_store_nothing(case, answer, "completion", str(answer), upload.bucket, upload.key)
        multipart.abort(case, upload)
        case.notes.append(f"completion after the lock's date is refused: {answer}")
        return
    version = with_id(case, Version(upload.bucket, upload.key, answer.version_id or "", body))
    state = case.state(version)
    case.notes.append(f"completion after the lock's date is accepted; the version shows {words_of(state)}")
    if state.until is not None and state.until > case.now():
        raise Failed(f"an expired lock was extended: requested {iso(lock.until)}, shown {iso(state.until)}")
    case.must_allow(case.delete(version), "deleting a version whose lock had passed before it was complete", "204")
    case.must_be_gone(version, "deleting a version whose lock had passed before it was complete")


def _need_multipart(case: Case) -> None:
    """Raise NotOffered if the platform refuses an upload without a lock too: then the lock is not the reason."""
    try:
        answer, upload = multipart.start(case)
    except NotOffered:
        raise NotOffered("multipart uploads: without a lock the start was answered 501") from None
    if not answer.ok:
        raise NotOffered(f"multipart uploads: without a lock the start was answered {answer}")
    multipart.abort(case, upload)


# ---- other requests that store objects


@check("ING-12")
def form_with_lock(case: Case) -> None:
    plain, version = post_form(case, {})
    if not plain.ok or not ids_of(case, version):
        raise NotOffered(f"browser POST: a form without a lock was answered {plain}")
    case.try_all(
        ("retention", partial(_form_with_lock, case, case.lock(), None)),
        ("hold", partial(_form_with_lock, case, None, "ON")),
    )


def _form_with_lock(case: Case, lock: ObjectLock | None, hold: str | None) -> None:
    wanted = dict(lock_headers(lock, hold))
    answer, version = post_form(case, wanted)
    if not answer.ok and not ids_of(case, version):
        case.notes.append(
            f"a form with {' and '.join(wanted)} is refused ({answer}); nothing was stored without its lock"
        )
        return
    _must_show(case, with_id(case, version), "a browser POST", lock=lock, hold=hold)


def post_form(case: Case, wanted: dict[str, str]) -> tuple[Answer, Version]:
    """Upload with a browser's form: every field is in it, and its policy is signed."""
    body = f"{case.check_id} {secrets.token_hex(8)}".encode()
    wanted = {**wanted, "x-amz-checksum-sha256": checksum_of("sha256", body)} if wanted else {}
    return send_form(case, case.client, (case.bucket, case.key()), wanted, body)


@check("ING-13")
def presigned_with_lock(case: Case) -> None:
    lock, hold = case.lock(), ((HOLD, "ON"),)
    sooner = case.lock(seconds=10).headers
    try:
        plain = case.client.send_presigned("PUT", case.bucket, case.key(), body=b"plain")
    except NotOffered:
        raise NotOffered("presigned URLs: a PUT without a lock was answered 501") from None
    if not plain.ok:
        raise NotOffered(f"presigned URLs: a PUT without a lock was answered {plain}")
    case.try_all(
        ("as signed", partial(_presigned_as_signed, case, lock)),
        ("retention dropped", partial(_presigned_altered, case, lock.headers, ())),
        ("sooner date", partial(_presigned_altered, case, lock.headers, sooner)),
        ("hold dropped", partial(_presigned_altered, case, hold, ())),
        ("hold OFF", partial(_presigned_altered, case, hold, ((HOLD, "OFF"),))),
    )


def _presigned_as_signed(case: Case, lock: ObjectLock) -> None:
    body, key = b"by a URL that carries its signature", case.key()
    headers = (("Content-MD5", md5_of(body)), *lock.headers, (HOLD, "ON"))
    answer = case.client.send_presigned("PUT", case.bucket, key, signed=headers, headers=headers, body=body)
    case.must_allow(answer, "a presigned PUT with the lock headers that were signed")
    version = with_id(case, Version(case.bucket, key, answer.version_id or "", body))
    _must_show(case, version, "a presigned PUT", lock=lock, hold="ON")


def _presigned_altered(case: Case, signed: Headers, sent: Headers) -> None:
    body, key = b"by a URL that carries its signature", case.key()
    digest = ("Content-MD5", md5_of(body))
    answer = case.client.send_presigned(
        "PUT", case.bucket, key, signed=(digest, *signed), headers=(digest, *sent), body=body
    )
    must_store_nothing(
        case, answer, "a presigned PUT without the lock that was signed", "403 SignatureDoesNotMatch AccessDenied",
        case.bucket, key,
    )  # fmt: skip


# ---- shapes of objects and keys


@check("ING-14")
def lock_every_shape(case: Case) -> None:
    long_key = case.key("/")
    while len(long_key) < KEY_BYTES_MAX:  # in segments, for platforms that store a key as a path
        long_key += "k" * 199 + "/"
    shapes = (
        ("0 bytes", case.key(), b""),
        ("1 byte", case.key(), b"1"),
        (f"{BIG_BYTES} bytes", case.key(), secrets.token_bytes(BIG_BYTES)),
        ("a key with / at its end, 0 bytes", case.key("/"), b""),
        ("a key with / at its end, 9 bytes", case.key("/"), b"directory"),
        (f"a key of {KEY_BYTES_MAX} bytes", long_key[: KEY_BYTES_MAX - 1] + "e", b"long key"),
        ("a non-ASCII key", case.key("-Straße 記録 архив+%&.tif"), b"non-ASCII key"),
    )
    case.try_all(*((name, partial(_lock_shape, case, name, key, body)) for name, key, body in shapes))
    case.notes.append(f"{BIG_BYTES} bytes were stored in place of 5 GiB")


def _lock_shape(case: Case, name: str, key: str, body: bytes) -> None:
    lock = case.lock()
    answer, version = _put(case, key, body, lock.headers)
    if not answer.ok:
        plain, _ = _put(case, key, body)
        if not plain.ok:
            raise NotOffered(f"is not accepted without a lock either: {plain}")
        raise Failed(f"is refused with a lock ({answer}), but accepted without", "S3")
    version = with_id(case, version)
    _must_show(case, version, f"PUT of {name}", lock=lock)
    for other in (b"overwritten", body):
        answer, _ = _put(case, key, other)
        case.must_survive_answer(answer, "another PUT to the same key", version)
        _must_show(case, version, "after another PUT to the same key", lock=lock)
    case.must_refuse_delete(version, case.delete(version), f"deleting {name} under GOVERNANCE")


@check("ING-15")
def unpacked_with_lock(case: Case) -> None:
    lock, stem = case.lock(), case.key("/")
    members = {f"{stem}{name}": f"{case.check_id} member {name}".encode() for name in ("one", "two", "in/a/folder")}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for key, body in members.items():
            member = tarfile.TarInfo(key)
            member.size, member.mtime = len(body), int(case.now().timestamp())
            archive.addfile(member, io.BytesIO(body))
    unpack = ("x-amz-meta-snowball-auto-extract", "true")
    answer, _ = _put(case, case.key(".tar"), packed.getvalue(), (unpack, *lock.headers, (HOLD, "ON")))
    if not answer.ok:
        raise NotOffered(f"unpacking an archive: it was answered {answer}")
    found = [entry for page in versions(case, case.bucket, stem) for entry in page]
    if not found:
        raise NotOffered("unpacking an archive: it was stored as one object")
    if sorted(entry.key for entry in found) != sorted(members):
        stored = ", ".join(entry.key for entry in found)
        raise Failed(f"the archive has the members {', '.join(members)}, and these were stored: {stored}")
    for entry in found:
        version = Version(case.bucket, entry.key, entry.id, members[entry.key])
        _must_show(case, version, f"the member {entry.key}", lock=lock, hold="ON")


# ---- shared by these checks


def _put(case: Case, key: str, body: bytes, headers: Headers = ()) -> tuple[Answer, Version]:
    """Call ``Case.put`` with exactly these bytes, which may be empty."""
    answer = case.client.send("PUT", case.bucket, key, headers=(("Content-MD5", md5_of(body)), *headers), body=body)
    return answer, Version(case.bucket, key, answer.version_id or "", body)


def _lock_in_headers(answer: Answer) -> ObjectLock | None:
    mode, until = answer.headers.get(MODE), instant_of(answer.headers.get(UNTIL, ""))
    return ObjectLock(mode, until) if answer.ok and mode and until else None


def _must_show(
    case: Case, version: Version, what: str, *, lock: ObjectLock | None = None, hold: str | None = None
) -> None:
    """Fail unless a version just written has the bytes, the lock and the hold of the request."""
    state = case.state(version)
    if state.body != version.body:
        raise _without_its_bytes(case, version, what, state)
    requested = [f"{lock.mode} until {iso(lock.until)}"] if lock else []
    requested += [f"hold {hold}"] if hold else []
    if (lock is not None and not _is(lock, state.lock)) or (hold is not None and state.hold != hold):
        asked = f"{what}: {', '.join(requested)} was requested"
        if version.id == NULL and lock is not None and state.mode is None:
            raise _null_without_its_lock(case, version, asked, lock)
        raise Failed(f"{asked}, and the version has {words_of(state)}", "S2")


def _is(lock: ObjectLock, found: ObjectLock | None) -> bool:
    return found is not None and found.mode == lock.mode and same_instant(found.until, lock.until)


def _without_its_bytes(case: Case, version: Version, what: str, state: VersionState) -> Failed:
    """Judge a version just written whose id does not give its bytes: a read by key may give them."""
    found = "is not there" if state.body is None else f"is shown with {len(state.body)} bytes, which differ"
    by_key = case.client.send("GET", version.bucket, version.key)
    if by_key.ok and by_key.body == version.body:
        return Failed(f"{what}: version {version.id} {found}; without a version id they are right", "S3")
    return Failed(f"{what} was accepted, but its bytes are not kept: version {version.id} {found}", "S1")


def _null_without_its_lock(case: Case, version: Version, asked: str, lock: ObjectLock) -> Failed:
    """Judge a version null that shows no lock: the platform may not find the object by that id."""
    deleting = case.delete(version)
    called = case.client.send("GET", version.bucket, version.key, query=(("retention", None),))
    shown = case.client.send("HEAD", version.bucket, version.key)
    until = instant_of(called.text_of("RetainUntilDate")) if called.ok else None
    of_key = (_lock_in_headers(shown), ObjectLock(called.text_of("Mode"), until) if until else None)
    if any(_is(lock, found) for found in of_key):
        return Failed(f"{asked}, which only reads without a version id show, not those by the id {NULL}", "S3")
    answered = f"with a version id or without; deleting it by the id {NULL} was answered {deleting}"
    if shown.ok and deleting.status == 403:
        case.control()
        return Failed(f"{asked}, which no read shows, {answered}", "S3")
    left = "is there" if shown.ok else "is gone"
    return Failed(f"{asked}, and no read shows it, {answered}, and it {left}", "S2")
