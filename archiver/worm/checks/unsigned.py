"""GOV-11: headers that a signed request carries without being signed.

One idea: whoever passes a request on, such as a proxy, can add headers to it, but cannot sign them. A platform that
obeys such a header lets the proxy do what only the signer may do.
"""

from __future__ import annotations

from functools import partial

from archiver.worm.case import BYPASS, Case, ObjectLock, Version, VersionState, md5_of, words_of
from archiver.worm.checks import check
from archiver.worm.requests.exchange import Answer, Headers, target_of
from archiver.worm.verdict import Failed

_REFUSED = "403 AccessDenied"


@check("GOV-11")
def unsigned_headers(case: Case) -> None:
    lock = case.lock()
    case.try_all(
        ("bypass on a deletion", partial(_delete_with_bypass, case)),
        ("bypass on a shorter retention", partial(_shorten_with_bypass, case)),
        ("a retention on a PUT", partial(_put_with, case, lock.headers, "mode")),
        ("a hold on a PUT", partial(_put_with, case, (("x-amz-object-lock-legal-hold", "ON"),), "hold")),
        ("a source of a copy on a PUT", partial(_put_with_source, case)),
    )


def _send(
    case: Case, method: str, version: Version, signed: Headers, unsigned: Headers, body: bytes = b"", what: str = ""
) -> Answer:
    """Send a request whose signature, in a header, covers ``signed`` and not ``unsigned``."""
    query = (*(((what, None),) if what else ()), *((("versionId", version.id),) if version.id else ()))
    target = target_of(version.bucket, version.key, query)
    signing = case.client.signing_headers(method, target, signed, body)
    return case.client.send_as_is(method, target, [*signed, *signing, *unsigned], body)


def _delete_with_bypass(case: Case) -> None:
    version = case.locked()
    answer = _send(case, "DELETE", version, (), BYPASS)
    case.must_refuse_delete(version, answer, "deleting with a bypass header that is not signed")


def _shorten_with_bypass(case: Case) -> None:
    version = case.locked()
    before, sooner = case.state(version), case.lock(seconds=10.0)
    body = _retention(sooner)
    answer = _send(case, "PUT", version, (("Content-MD5", md5_of(body)),), BYPASS, body, "retention")
    case.must_keep(version, before, answer, "shortening with a bypass header that is not signed", _REFUSED)


def _retention(lock: ObjectLock) -> bytes:
    mode, until = (value for _, value in lock.headers)
    return f"<Retention><Mode>{mode}</Mode><RetainUntilDate>{until}</RetainUntilDate></Retention>".encode()


def _put_with(case: Case, unsigned: Headers, field: str) -> None:
    body = f"{case.check_id} {field}".encode()
    version = Version(case.bucket, case.key(), "", body)
    answer = _send(case, "PUT", version, (("Content-MD5", md5_of(body)),), unsigned, body)
    state: VersionState = case.state(version._replace(id=answer.version_id or "null"))
    if answer.ok and getattr(state, field) is not None:
        raise Failed(f"was answered {answer}, and the version has {words_of(state)}", "S3", [answer])
    case.must_refuse(answer, f"a PUT with a {field} that is not signed", _REFUSED)


def _put_with_source(case: Case) -> None:
    source, body = case.stored(), b"the signed bytes"
    version = Version(case.bucket, case.key(), "", body)
    place = (("x-amz-copy-source", f"/{source.bucket}/{source.key}?versionId={source.id}"),)
    answer = _send(case, "PUT", version, (("Content-MD5", md5_of(body)),), place, body)
    state = case.state(version._replace(id=answer.version_id or "null"))
    if state.body == source.body:
        raise Failed(f"was answered {answer}, and the object has the bytes of the source", "S3", [answer])
    case.must_refuse(answer, "a PUT with a source that is not signed", _REFUSED)
