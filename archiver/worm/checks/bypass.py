"""GOV: which credentials may bypass GOVERNANCE, by which header, and what a credential without a right cannot do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from archiver.worm import multipart
from archiver.worm.case import (
    BYPASS,
    COMPLIANCE,
    GOVERNANCE,
    ROOT,
    Case,
    ObjectLock,
    Version,
    is_protected,
    iso,
    same_instant,
    words_of,
)
from archiver.worm.checks import check
from archiver.worm.listing import with_id
from archiver.worm.requests.exchange import Answer, Headers, S3Client
from archiver.worm.requests.limited import BYPASS as BYPASS_RIGHT
from archiver.worm.requests.limited import BYPASS_DENIED, HOLD, RETENTION, SEE_RETENTION
from archiver.worm.verdict import Failed, Inconclusive, NotOffered, NotTried

_HEADER = "x-amz-bypass-governance-retention"
_NO_BYPASS: dict[str, Headers] = {
    "false": ((_HEADER, "false"),),
    "0": ((_HEADER, "0"),),
    "yes": ((_HEADER, "yes"),),
    "empty": ((_HEADER, ""),),
}
_TWICE: dict[str, Headers] = {  # it says both, and the caller has the right: to obey either is only a deviation
    "false and true": ((_HEADER, "false"), (_HEADER, "true")),
    "true and false": ((_HEADER, "true"), (_HEADER, "false")),
}
_ALREADY_SECONDS, _ALMOST_SECONDS = 15.0, 10.0  # of GOVERNANCE locks that a check tries to turn into COMPLIANCE


def _earlier(version_lock: ObjectLock) -> ObjectLock:
    return ObjectLock(version_lock.mode, version_lock.until - timedelta(seconds=30))


def _locked_with(case: Case, seconds: float | None = None) -> tuple[Version, ObjectLock]:
    lock = case.lock(GOVERNANCE, seconds)
    return case.stored(lock=lock), lock


def _may_extend(case: Case, client: S3Client) -> None:
    """Check that the same credential can extend a lock: the control for a refused change. Raises Inconclusive."""
    version, lock = _locked_with(case)
    longer = ObjectLock(lock.mode, lock.until + timedelta(seconds=5))
    answer = case.set_retention(version, longer, client=client)
    if not answer.ok or not same_instant(case.state(version).until, longer.until):
        raise case.failed_control(f"this credential cannot make a lock longer either ({answer})", client)


def _refused_delete(case: Case, client: S3Client, who: str) -> None:
    version = case.locked()
    answer = case.delete(version, bypass=True, client=client)
    case.must_refuse_delete(version, answer, f"deleting with the bypass header {who}", client)


def _refused_change(case: Case, client: S3Client, wanted: Callable[[ObjectLock], ObjectLock | None], what: str) -> None:
    version, lock = _locked_with(case)
    before = case.state(version)
    answer = case.set_retention(version, wanted(lock), bypass=True, client=client)
    case.must_keep(version, before, answer, what, "403 AccessDenied")
    _may_extend(case, client)


@check("GOV-01")
def bypass_without_header(case: Case) -> None:
    version = case.locked()
    answer = case.delete(version)
    case.must_refuse(answer, "deleting without the bypass header", "403 AccessDenied", version)
    answer = case.delete(version, bypass=True)
    if not answer.ok:
        raise Inconclusive(f"the control failed: with the header this credential cannot delete either ({answer})")


@check("GOV-02")
def delete_without_permission(case: Case) -> None:
    _refused_delete(case, case.without_right(BYPASS_RIGHT), "without the permission")


@check("GOV-03")
def weaken_without_permission(case: Case) -> None:
    client = case.without_right(BYPASS_RIGHT)
    change = partial(_refused_change, case, client)
    case.try_all(
        ("shorten", lambda: change(_earlier, "shortening GOVERNANCE with the bypass header and no permission")),
        ("remove", lambda: change(lambda _: None, "removing GOVERNANCE with the bypass header and no permission")),
        ("change the mode", lambda: _refused_compliance(case, client)),
    )


def _refused_compliance(case: Case, client: S3Client) -> None:
    """Change the mode to COMPLIANCE with a later date, so that only the mode needs the permission."""
    case.need_compliance()
    version = case.locked(seconds=_ALMOST_SECONDS)
    before = case.state(version)
    answer = case.set_retention(version, case.lock(COMPLIANCE, _ALREADY_SECONDS), bypass=True, client=client)
    after = case.state(version)
    what = "turning GOVERNANCE into COMPLIANCE with the bypass header and no permission"
    if after.mode == COMPLIANCE:
        raise Failed(f"{what}: {words_of(before)} became {words_of(after)}", "S3")  # a stronger lock
    case.must_keep(version, before, answer, what, "403 AccessDenied")
    _may_extend(case, client)


@check("GOV-04")
def bypass_with_permission(case: Case) -> None:
    case.try_all(
        ("delete", lambda: _allowed_delete(case)),
        ("shorten", lambda: _allowed_shortening(case)),
        ("remove", lambda: _allowed_removal(case)),
    )


def _allowed_delete(case: Case) -> None:
    version = case.locked()
    case.must_allow(case.delete(version, bypass=True), "deleting a version under GOVERNANCE with bypass", "204")
    case.must_be_gone(version, "deleting a version under GOVERNANCE with bypass")


def _allowed_shortening(case: Case) -> None:
    version, lock = _locked_with(case)
    sooner = _earlier(lock)
    case.must_allow(case.set_retention(version, sooner, bypass=True), "shortening GOVERNANCE with bypass")
    state = case.state(version)
    if state.mode != GOVERNANCE or not same_instant(state.until, sooner.until):
        raise Failed(f"shortening GOVERNANCE with bypass to {iso(sooner.until)} left {words_of(state)}")


def _allowed_removal(case: Case) -> None:
    version = case.locked()
    case.must_allow(case.set_retention(version, None, bypass=True), "removing GOVERNANCE with bypass")
    state = case.state(version)
    if state.body != version.body or state.mode is not None:
        raise Failed(f"removing GOVERNANCE with bypass left {words_of(state)}")


@check("GOV-05")
def bypass_by_other_words(case: Case) -> None:
    case.try_all(
        *((f"delete with {words}", partial(_delete_with, case, words)) for words in _NO_BYPASS),
        *((f"shorten with {words}", partial(_shorten_with, case, words)) for words in _NO_BYPASS),
        *((f"delete with {words}", partial(_delete_with_two, case, words)) for words in _TWICE),
    )


def _delete_with(case: Case, words: str) -> None:
    version = case.locked()
    answer = case.delete(version, headers=_NO_BYPASS[words])
    try:
        case.must_refuse_delete(version, answer, f"deleting with the bypass header {words}")
    except Failed as failed:  # the caller could have deleted the record in another way
        raise Failed(f"{failed}, by a credential that has the right to bypass", "S2", failed.answers) from failed


def _delete_with_two(case: Case, words: str) -> None:
    version = case.locked()
    answer = case.delete(version, headers=_TWICE[words])
    if answer.ok and case.state(version).body is None:
        case.deviate(f"deleting with the bypass header {words} was answered {answer}; {case.expected('403')}", answer)
    else:
        case.must_refuse_delete(version, answer, f"deleting with the bypass header {words}")


def _shorten_with(case: Case, words: str) -> None:
    version, lock = _locked_with(case)
    before, sooner = case.state(version), _earlier(lock)
    body = f"<Mode>{sooner.mode}</Mode><RetainUntilDate>{iso(sooner.until)}</RetainUntilDate>"
    xml = f'<Retention xmlns="{ROOT}">{body}</Retention>'
    answer = case.put_xml(version, "retention", xml, _NO_BYPASS[words])
    case.must_keep(version, before, answer, f"shortening with the bypass header {words}", "403 AccessDenied")


@check("GOV-06")
def bypass_in_presigned_url(case: Case) -> None:
    _presigned_delete_works(case)
    case.try_all(
        ("header added to a URL signed without it", lambda: _presigned_refused(case, sent=BYPASS)),
        ("query parameter added to a signed URL", lambda: _presigned_refused(case, added=f"&{_HEADER}=true")),
        ("header of a URL signed with it left out", lambda: _presigned_refused(case, signed=BYPASS)),
        ("header signed and sent", lambda: _presigned_bypass(case)),
        ("query parameter signed", lambda: _presigned_query(case)),
    )


def _presigned_delete(
    case: Case, version: Version, *, signed: Headers = (), sent: Headers = (), more: Headers = (), added: str = ""
) -> Answer:
    query = (("versionId", version.id), *more)
    return case.client.send_presigned(
        "DELETE", version.bucket, version.key, query=query, signed=signed, headers=sent, added=added
    )


def _presigned_delete_works(case: Case) -> None:
    """Check that a presigned URL deletes an unlocked version: the control. Raises NotOffered."""
    version = case.stored()
    answer = _presigned_delete(case, version)
    if not answer.ok or case.state(version).body is not None:
        raise NotOffered(f"a presigned URL does not delete an unlocked version either: {answer}")


def _presigned_refused(case: Case, *, signed: Headers = (), sent: Headers = (), added: str = "") -> None:
    version = case.locked()
    answer = _presigned_delete(case, version, signed=signed, sent=sent, added=added)
    case.must_refuse(answer, "deleting by this URL", "403 AccessDenied SignatureDoesNotMatch", version)


def _presigned_bypass(case: Case) -> None:
    version = case.locked()
    answer = _presigned_delete(case, version, signed=BYPASS, sent=BYPASS)
    case.must_allow(answer, "deleting by this URL", "204")
    case.must_be_gone(version, "deleting by this URL")


def _presigned_query(case: Case) -> None:
    """Bypass with a signed query parameter. The signer has the permission, so to accept it is only a deviation."""
    version = case.locked()
    answer = _presigned_delete(case, version, more=BYPASS)
    if answer.ok and case.state(version).body is None:
        case.deviate("a signed query parameter bypassed GOVERNANCE as the header does")
    else:
        case.must_refuse(answer, "deleting with the bypass in a signed query", "403 AccessDenied", version)


@check("GOV-07")
def bypass_in_plain_bucket(case: Case) -> None:
    """Bypass in a bucket without Object Lock. Nothing is protected there, so any effect is only a deviation."""
    bucket = case.new_bucket(lock=False)
    for value in ("true", "false"):
        headers = ((_HEADER, value),)
        answer, version = case.put(bucket=bucket)
        if not answer.ok:
            raise Inconclusive(f"an object could not be prepared: PUT answered {answer}")
        for what, answer in (
            ("DeleteObjects", case.delete_many(bucket, [(version.key, None)], headers=headers)),
            ("DeleteObject", case.client.send("DELETE", bucket, version.key, headers=headers)),
        ):
            if answer.ok or answer.status != 400 or answer.code != "InvalidArgument":
                case.deviate(
                    f"{what} with the bypass header {value} in a bucket without Object Lock was answered {answer}; "
                    f"{case.expected('400 InvalidArgument')}",
                    answer,
                )


@check("GOV-08")
def lock_without_permission(case: Case) -> None:
    client = case.without_right(RETENTION)
    under_default = case.new_bucket()
    answer = case.set_default(under_default)
    if not answer.ok:
        raise Inconclusive(f"a default retention could not be set: {answer}; see DFT-01")
    case.try_all(
        ("lock headers", lambda: _refused_lock(case, client, case.bucket)),
        ("lock headers under a default", lambda: _refused_lock(case, client, under_default)),
        ("plain PUT under a default", lambda: _stamped(case, client, under_default)),
    )


def _refused_lock(case: Case, client: S3Client, bucket: str) -> None:
    answer, version = case.put(bucket=bucket, client=client)
    if not answer.ok:
        raise case.failed_control(f"this credential cannot PUT without a lock either ({answer})", client)
    _may_not_lock(case, client)
    lock = case.lock()
    answer, version = case.put(bucket=bucket, lock=lock, client=client)
    found = case.state(version)
    if answer.ok and found.body is not None:
        is_a_lock_too_many = bucket == case.bucket and found.mode == lock.mode and same_instant(found.until, lock.until)
        raise Failed(
            f"a PUT with lock headers and no permission was answered {answer}, and stored with {words_of(found)}",
            "S3" if is_a_lock_too_many else "S2",
        )
    if case.client.send("GET", bucket, version.key).ok:
        raise Failed(
            f"a PUT with lock headers and no permission for them was answered {answer}, and stored all the same"
        )
    if answer.ok or answer.status != 403:
        case.deviate(
            f"a PUT with lock headers and no permission was answered {answer}; {case.expected('403 AccessDenied')}"
        )


def _may_not_lock(case: Case, client: S3Client) -> None:
    """Check that PutObjectRetention is refused to the same credential: the control. Raises Inconclusive."""
    version = case.stored()
    answer = case.set_retention(version, case.lock(), client=client)
    if answer.status != 403 or case.state(version).mode is not None:
        raise case.failed_control(f"PutObjectRetention by this credential was answered {answer}", client)


def _stamped(case: Case, client: S3Client, bucket: str) -> None:
    """Check that the default retention locks the write of a credential without lock rights.

    Whether a default is applied at all is the subject of DFT-01.
    """
    if not _has_default(case, case.stored(bucket=bucket)):
        case.notes.append("a default retention is shown on no version here, for any credential; see DFT-01")
        return
    answer, version = case.put(bucket=bucket, client=client)
    case.must_allow(answer, "a plain PUT under a default retention by a credential without s3:PutObjectRetention")
    if not _has_default(case, version):
        raise Failed(
            f"a plain PUT under a default retention of one day was stored with {words_of(case.state(version))}"
        )


def _has_default(case: Case, version: Version) -> bool:
    lock = case.state(version).lock
    return lock is not None and lock.mode == GOVERNANCE and lock.until > case.now() + timedelta(hours=23)


@check("GOV-12")
def lock_by_other_writes(case: Case) -> None:
    """Lock by a copy and by a multipart upload with a credential that may not lock; GOV-08 and LH-09 try PUT."""
    case.try_all(
        ("retention of a copy", lambda: _refused_copy(case, RETENTION, case.lock(), None)),
        ("retention of a multipart upload", lambda: _refused_upload(case, RETENTION, case.lock(), None)),
        ("hold of a copy", lambda: _refused_copy(case, HOLD, None, "ON")),
        ("hold of a multipart upload", lambda: _refused_upload(case, HOLD, None, "ON")),
    )


def _refused_copy(case: Case, right: str, lock: ObjectLock | None, hold: str | None) -> None:
    client, source = case.without_right(right), case.stored()
    _must_lock(case, case.copy(source, lock=lock, hold=hold), "a copy")
    control, _ = case.copy(source, client=client)
    if not control.ok:
        raise case.failed_control(f"this credential cannot copy without a lock either ({control})", client)
    answer, version = case.copy(source, lock=lock, hold=hold, client=client)
    _must_not_be_locked(case, answer, version, "a copy")


def _refused_upload(case: Case, right: str, lock: ObjectLock | None, hold: str | None) -> None:
    client = case.without_right(right)
    _must_lock(case, multipart.uploaded(case, [b"one part"], lock=lock, hold=hold), "a multipart upload")
    control, upload = multipart.start(case, client=client)
    if not control.ok:
        raise case.failed_control(f"this credential cannot start an upload without a lock either ({control})", client)
    multipart.abort(case, upload, client=client)
    answer, upload = multipart.start(case, lock=lock, hold=hold, client=client)
    version = Version(upload.bucket, upload.key, "", b"one part")
    if answer.ok:
        etag = multipart.part(case, upload, 1, version.body, client=client).headers.get("etag", "")
        answer = multipart.complete(case, upload, [etag], client=client)
    _must_not_be_locked(case, answer, version._replace(id=answer.version_id or ""), "a multipart upload")


def _must_lock(case: Case, stored: tuple[Answer, Version], what: str) -> None:
    """Raise NotOffered if lock headers have no effect here even with all rights: OVR-07 and ING-10 try that."""
    answer, version = stored
    if not answer.ok or not is_protected(case.state(with_id(case, version)), case.now()):
        raise NotOffered(f"{what} with a lock and all rights was answered {answer}, without a lock")


def _must_not_be_locked(case: Case, answer: Answer, version: Version, what: str) -> None:
    if answer.ok:
        state = case.state(with_id(case, version))
        raise Failed(f"{what} was answered {answer}, and stored with {words_of(state)}", "S3", [answer])
    case.must_refuse(answer, f"{what} with a lock and without the right to it", "403 AccessDenied")


@check("GOV-09")
def read_without_permission(case: Case) -> None:
    if SEE_RETENTION not in case.limited:
        raise NotTried("needs a credential without s3:GetObjectRetention")
    client = case.without_right(SEE_RETENTION)
    version = case.locked()
    query = (("versionId", version.id),)
    for method in ("HEAD", "GET"):
        answer = client.send(method, version.bucket, version.key, query=query)
        case.must_allow(answer, f"{method} by a credential without s3:GetObjectRetention")
        if answer.headers.get("x-amz-object-lock-mode") is not None:
            case.deviate(f"{method} shows the lock to a credential without s3:GetObjectRetention", answer)
    answer = client.send("GET", version.bucket, version.key, query=(("retention", None), *query))
    if answer.ok:
        case.deviate("GetObjectRetention answers a credential without s3:GetObjectRetention")


@check("GOV-10")
def bypass_denied(case: Case) -> None:
    if BYPASS_DENIED not in case.limited:
        raise NotTried("needs a credential to which policies allow everything and deny the bypass")
    client = case.without_right(BYPASS_DENIED)
    what = "shortening GOVERNANCE with the bypass header and a Deny"
    case.try_all(
        ("delete", lambda: _refused_delete(case, client, "and a Deny")),
        ("shorten", lambda: _refused_change(case, client, _earlier, what)),
    )
