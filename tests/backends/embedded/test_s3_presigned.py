"""Presigned URLs of botocore and boto3: as values with the test's clock, then sent to a server."""

from __future__ import annotations

import base64
import hashlib
import http.client
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from backends.embedded.process import StoreProcess
from backends.embedded.s3.credentials import Credential
from backends.embedded.s3.errors import S3Error
from backends.embedded.s3.requests.signature import Signed, Verifier

SECRET = "a secret that nobody may read anywhere"
URL = "http://store:9000/bucket/key"
HEADERS = {"x-amz-object-lock-mode": "GOVERNANCE", "Content-MD5": "ndTkYSaMgDT1yFZOFVxnpg=="}
Change = Callable[[str], str]


def presigned(method: str = "PUT", url: str = URL, *, expires: int = 300, headers: dict[str, str] | None = None) -> str:
    request = AWSRequest(method, url, headers=HEADERS if headers is None else headers)
    S3SigV4QueryAuth(Credentials("KEY", SECRET), "s3", "eu-west-1", expires=expires).add_auth(request)
    return str(request.url)


def signed_at(url: str) -> float:
    stamp = re.search("X-Amz-Date=([^&]+)", url)
    assert stamp
    return datetime.strptime(stamp[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def verify(
    url: str, *, method: str = "PUT", headers: dict[str, str] | None = None, host: str = "store:9000", after: float = 0
) -> Signed:
    """`after`: seconds since the URL was signed."""
    now = signed_at(url) + after
    verifier = Verifier({"it": Credential("it", "KEY", SECRET, frozenset())}, lambda: now)
    parts = urlsplit(url)
    sent = {"host": host, **{name.lower(): value for name, value in (HEADERS if headers is None else headers).items()}}
    return verifier.verify(method, parts.path, parts.query, sent)


def refused(url: str, **how: Any) -> S3Error:
    with pytest.raises(S3Error) as raised:
        verify(url, **how)
    assert SECRET not in raised.value.message
    return raised.value


@pytest.mark.parametrize(
    "url", [URL, "http://store:9000/bucket", URL + "?versionId=a%2Bb%20c%2F", "http://store:9000/bucket/%C3%A9%2B%20x"]
)
def test_url_presigned_by_botocore_verifies(url: str) -> None:
    signed = verify(presigned(url=url))
    assert (signed.credential.name, signed.payload_hash) == ("it", "UNSIGNED-PAYLOAD")


def replaced(name: str, value: str) -> Change:
    return lambda url: re.sub(f"{name}=[^&]*", f"{name}={value}", url)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (replaced("X-Amz-Signature", "0" * 64), "SignatureDoesNotMatch"),
        (replaced("X-Amz-Signature", "%C3%A9"), "SignatureDoesNotMatch"),
        (replaced("X-Amz-Expires", "301"), "SignatureDoesNotMatch"),
        (replaced("X-Amz-SignedHeaders", "content-md5%3Bhost"), "AccessDenied"),
        (replaced("X-Amz-SignedHeaders", "content-md5%3Bx-amz-object-lock-mode"), "AccessDenied"),
        (replaced("X-Amz-SignedHeaders", "HOST"), "AuthorizationQueryParametersError"),
        (replaced("X-Amz-Algorithm", "AWS4-HMAC-SHA1"), "AuthorizationQueryParametersError"),
        (lambda url: url.replace("eu-west-1", "us-east-1"), "SignatureDoesNotMatch"),
        (lambda url: url.replace("%2Fs3%2F", "%2Fsts%2F"), "AuthorizationQueryParametersError"),
        (lambda url: url.replace("=KEY%2F", "=OTHER%2F"), "InvalidAccessKeyId"),
        (lambda url: url.replace("/bucket/key", "/bucket/other"), "SignatureDoesNotMatch"),
        (lambda url: url.replace("a%2Bb", "a+b"), "SignatureDoesNotMatch"),
        (lambda url: url.replace("versionId=a%2Bb", "versionId=x"), "SignatureDoesNotMatch"),
        (lambda url: url + "&retention", "SignatureDoesNotMatch"),
        (lambda url: url + "&x-amz-bypass-governance-retention=true", "SignatureDoesNotMatch"),
        (lambda url: url + "&X-Amz-Object-Lock-Mode=GOVERNANCE", "SignatureDoesNotMatch"),
        (lambda url: url + "&X-Amz-Security-Token=token", "InvalidToken"),
        (lambda url: url + "&X-Amz-Content-Sha256=" + "0" * 64, "SignatureDoesNotMatch"),
        (lambda url: url + "&X-Amz-Expires=300", "AuthorizationQueryParametersError"),
        *(
            (lambda url, name=name: re.sub(f"[&]{name}=[^&]*", "", url), "AuthorizationQueryParametersError")
            for name in ("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Expires", "X-Amz-SignedHeaders")
        ),
    ],
)
def test_url_with_any_changed_part_is_refused(change: Change, code: str) -> None:
    url = presigned(url=URL + "?versionId=a%2Bb")
    verify(url)
    assert change(url) != url
    assert refused(change(url)).code == code


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"method": "DELETE"}, "SignatureDoesNotMatch"),
        ({"host": "elsewhere"}, "SignatureDoesNotMatch"),
        ({"headers": {**HEADERS, "x-amz-object-lock-mode": "COMPLIANCE"}}, "SignatureDoesNotMatch"),
        ({"headers": {"Content-MD5": HEADERS["Content-MD5"]}}, "SignatureDoesNotMatch"),
        ({"headers": {**HEADERS, "Content-MD5": "other"}}, "SignatureDoesNotMatch"),
        ({"headers": {**HEADERS, "x-amz-object-lock-legal-hold": "OFF"}}, "AccessDenied"),
        ({"headers": {**HEADERS, "x-amz-bypass-governance-retention": "true"}}, "AccessDenied"),
        ({"headers": {**HEADERS, "x-amz-content-sha256": "0" * 64}}, "SignatureDoesNotMatch"),
        ({"headers": {**HEADERS, "x-amz-security-token": "token"}}, "InvalidToken"),
        ({"headers": {**HEADERS, "Authorization": "AWS4-HMAC-SHA256 Credential=x"}}, "InvalidArgument"),
    ],
)
def test_request_that_differs_from_the_signed_one_is_refused(how: dict[str, Any], code: str) -> None:
    assert refused(presigned(), **how).code == code


@pytest.mark.parametrize("name", ["x-amz-bypass-governance-retention", "X-Amz-Object-Lock-Mode", "x-amz-meta-a"])
def test_header_given_as_query_parameter_is_refused(name: str) -> None:
    assert refused(presigned(url=f"{URL}?{name}=true")).code == "AccessDenied"
    verify(presigned(url=f"{URL}?x-amz-checksum-mode=ENABLED&x-id=PutObject"))


@pytest.mark.parametrize(
    ("after", "message"),
    [(-15 * 60 - 1, "not valid yet"), (-15 * 60, None), (0, None), (60, None), (61, "Request has expired")],
)
def test_url_is_valid_from_its_date_until_it_expires(after: float, message: str | None) -> None:
    url = presigned(expires=60)
    if message is None:
        verify(url, after=after)
        return
    error = refused(url, after=after)
    assert (error.status, error.code) == (403, "AccessDenied")
    assert message in error.message


@pytest.mark.parametrize(("expires", "is_good"), [(0, False), (1, True), (604800, True), (604801, False), (-1, False)])
def test_url_lifetime_is_one_second_to_one_week(expires: int, is_good: bool) -> None:
    url = presigned(expires=expires)
    if is_good:
        verify(url)
    else:
        assert refused(url).code == "AuthorizationQueryParametersError"


@pytest.mark.parametrize("text", ["", "abc", "1e3", "%2B5", "%D9%A3", "9" * 30])
def test_expires_must_be_a_number(text: str) -> None:
    assert refused(replaced("X-Amz-Expires", text)(presigned())).code == "AuthorizationQueryParametersError"


def test_signature_version_2_is_refused_by_name() -> None:
    verifier = Verifier({}, lambda: 0.0)
    with pytest.raises(S3Error, match="Signature Version 2"):
        verifier.verify("GET", "/b/k", "AWSAccessKeyId=KEY&Signature=abc&Expires=1", {"host": "store"})


# Against the real server.


@pytest.fixture
def send(store: StoreProcess) -> Callable[..., tuple[int, str, dict[str, str]]]:
    """Send a URL unchanged. Returns status, error code or body, and headers."""

    def request(method: str, url: str, body: bytes = b"", **headers: str) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection(urlsplit(store.endpoint).netloc)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, url.removeprefix(store.endpoint), body or None, named)
            response = connection.getresponse()
            text = response.read().decode()
            code = re.search("<Code>(.*)</Code>", text)
            return response.status, code[1] if code else text, dict(response.headers.items())
        finally:
            connection.close()

    return request


@pytest.fixture
def url_for(store: StoreProcess, connect: Callable[..., Any]) -> Callable[..., str]:
    def url(operation: str, credential: str = "default", expires: int = 60, **parameters: Any) -> str:
        client = connect(store, credential, signature_version="s3v4")
        made: str = client.generate_presigned_url(operation, Params=parameters, ExpiresIn=expires)
        return made

    return url


def md5_of(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body).digest()).decode()


def test_objects_are_stored_read_listed_and_deleted_by_urls(send: Any, url_for: Any, bucket: str) -> None:
    key = "an odd/ké y+%25"
    assert send("PUT", url_for("put_object", Bucket=bucket, Key=key), b"hello")[0] == 200
    assert send("GET", url_for("get_object", Bucket=bucket, Key=key))[:2] == (200, "hello")
    assert send("HEAD", url_for("head_object", Bucket=bucket, Key=key))[0] == 200
    assert (
        quote(key)[:3] in send("GET", url_for("list_objects_v2", Bucket=bucket, Prefix="an odd", EncodingType="url"))[1]
    )
    assert send("DELETE", url_for("delete_object", Bucket=bucket, Key=key))[0] == 204
    assert send("GET", url_for("get_object", Bucket=bucket, Key=key))[:2] == (404, "NoSuchKey")


def test_presigned_lock_is_set_when_its_headers_are_sent(
    send: Any, url_for: Any, s3: Any, bucket: str, until: datetime
) -> None:
    url = url_for(
        "put_object", Bucket=bucket, Key="k", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until,
        ContentMD5=md5_of(b"x"),
    )  # fmt: skip
    date = until.strftime("%Y-%m-%dT%H:%M:%SZ")
    lock = {"x_amz_object_lock_mode": "GOVERNANCE", "x_amz_object_lock_retain_until_date": date}
    assert send("PUT", url, b"x", content_md5=md5_of(b"x"))[:2] == (403, "SignatureDoesNotMatch")
    assert "KeyCount>0" in send("GET", url_for("list_objects_v2", Bucket=bucket))[1]
    assert send("PUT", url, b"x", content_md5=md5_of(b"x"), **lock)[0] == 200
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("GOVERNANCE", until)
    deleting = url_for("delete_object", Bucket=bucket, Key="k", VersionId=head["VersionId"])
    assert send("DELETE", deleting)[:2] == (403, "AccessDenied")
    assert send("DELETE", deleting, x_amz_bypass_governance_retention="true")[:2] == (403, "AccessDenied")
    bypassing = url_for(
        "delete_object", Bucket=bucket, Key="k", VersionId=head["VersionId"], BypassGovernanceRetention=True
    )
    assert send("DELETE", bypassing)[:2] == (403, "SignatureDoesNotMatch")
    assert send("DELETE", bypassing, x_amz_bypass_governance_retention="true")[0] == 204


def test_url_has_only_its_signers_permissions(send: Any, url_for: Any, bucket: str) -> None:
    url = url_for(
        "put_object", "no-hold", Bucket=bucket, Key="k", ObjectLockLegalHoldStatus="ON", ContentMD5=md5_of(b"x")
    )
    answer = send("PUT", url, b"x", content_md5=md5_of(b"x"), x_amz_object_lock_legal_hold="ON")
    assert answer[:2] == (403, "AccessDenied")


def test_bucket_default_retention_applies_to_presigned_puts(send: Any, url_for: Any, s3: Any, bucket: str) -> None:
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    s3.put_object_lock_configuration(
        Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    assert send("PUT", url_for("put_object", Bucket=bucket, Key="k"), b"x")[:2] == (400, "InvalidRequest")
    url = url_for("put_object", Bucket=bucket, Key="k", ContentMD5=md5_of(b"x"))
    assert send("PUT", url, b"x", content_md5=md5_of(b"x"))[0] == 200
    assert s3.head_object(Bucket=bucket, Key="k")["ObjectLockMode"] == "GOVERNANCE"


def test_presigned_url_sets_a_legal_hold(send: Any, url_for: Any, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    body = b"<LegalHold><Status>ON</Status></LegalHold>"
    url = url_for("put_object_legal_hold", Bucket=bucket, Key="k", ContentMD5=md5_of(body))
    assert send("PUT", url, body, content_md5=md5_of(body))[0] == 200
    assert s3.get_object_legal_hold(Bucket=bucket, Key="k")["LegalHold"]["Status"] == "ON"


def test_answer_and_log_reveal_no_signature_or_secret(
    send: Any, store: StoreProcess, url_for: Any, bucket: str
) -> None:
    url = url_for("put_object", Bucket=bucket, Key="k")
    given = re.search("X-Amz-Signature=([0-9a-f]+)", url)
    assert given
    wrong = url.replace(given[1], given[1][::-1])
    answer = str(send("PUT", wrong, b"x"))
    assert "SignatureDoesNotMatch" in answer
    for secret in (store.secret_key, given[1], given[1][::-1]):
        assert secret not in answer
        assert secret not in store.log()
