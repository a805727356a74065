"""Verification of botocore's signatures: as values first, then as raw HTTP sent to a server."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest

from backends.embedded.process import StoreProcess
from backends.embedded.s3.credentials import Credential
from backends.embedded.s3.errors import S3Error
from backends.embedded.s3.requests.request import decode_name
from backends.embedded.s3.requests.signature import Verifier
from tests.backends.embedded.signed_requests import SECRET, signed_by_botocore


def verify(method: str, url: str, headers: dict[str, str], now: float | None = None) -> Credential:
    parts = urlsplit(url)
    known = {"it": Credential("it", "KEY", SECRET, frozenset())}
    verifier = Verifier(known, lambda: datetime.now(UTC).timestamp() if now is None else now)
    return verifier.verify(
        method, parts.path, parts.query, {name.lower(): value for name, value in headers.items()}
    ).credential


@pytest.mark.parametrize(
    "url",
    [
        "http://store:9000/",
        "http://store/bucket",
        "http://store/bucket/key",
        "http://store/bucket/a//b/../c/",
        "http://store/bucket/a%20b%2Bc%25d/%C3%A9",
        "http://store/bucket?list-type=2&prefix=a%2Fb%20c&delimiter=%2F",
        "http://store/bucket?versioning=",
        "http://store/bucket?b=2&a=1&a=0&empty=",
    ],
)
@pytest.mark.parametrize("headers", [{}, {"x-amz-meta-case": "  two   spaces  ", "Content-MD5": "abc="}])
def test_request_signed_by_botocore_verifies(url: str, headers: dict[str, str]) -> None:
    assert verify("PUT", url, signed_by_botocore("PUT", url, headers)).name == "it"


URL = "http://store/bucket/key"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda h: h.pop("Authorization"), "AccessDenied"),
        (lambda h: h.update(Authorization="Basic abc"), "AuthorizationHeaderMalformed"),
        (lambda h: h.update(Authorization=h["Authorization"].replace("KEY", "OTHER")), "InvalidAccessKeyId"),
        (lambda h: h.update({"x-amz-meta-case": "B"}), "SignatureDoesNotMatch"),
        (lambda h: h.update(Host="elsewhere"), "SignatureDoesNotMatch"),
        (lambda h: h.pop("x-amz-meta-case"), "SignatureDoesNotMatch"),
        (lambda h: h.update({"X-Amz-Content-SHA256": "0" * 64}), "SignatureDoesNotMatch"),
        (lambda h: h.update(Authorization=h["Authorization"][:-4] + "0000"), "SignatureDoesNotMatch"),
        (
            lambda h: h.update(Authorization=h["Authorization"].replace("eu-west-1", "us-east-1")),
            "SignatureDoesNotMatch",
        ),
        (lambda h: h.update(Authorization=re.sub(r"host;", "", h["Authorization"])), "AccessDenied"),
        (lambda h: h.pop("X-Amz-Date"), "AccessDenied"),
        (lambda h: h.update({"X-Amz-Date": "yesterday"}), "AccessDenied"),
        (lambda h: h.update({"X-Amz-Date": "20200101T000000Z"}), "SignatureDoesNotMatch"),
        (lambda h: h.pop("X-Amz-Content-SHA256"), "InvalidRequest"),
    ],
    ids=lambda value: value if isinstance(value, str) else "change",
)
def test_request_changed_after_signing_is_refused(change: Callable[[dict[str, str]], Any], code: str) -> None:
    headers = signed_by_botocore("PUT", URL, {"x-amz-meta-case": "A"})
    change(headers)
    with pytest.raises(S3Error) as raised:
        verify("PUT", URL, headers)
    assert raised.value.code == code


@pytest.mark.parametrize(("method", "url"), [("GET", URL), ("PUT", URL + "x"), ("PUT", URL + "?versionId=1")])
def test_signature_is_refused_for_another_method_or_url(method: str, url: str) -> None:
    headers = signed_by_botocore("PUT", URL, {})
    with pytest.raises(S3Error, match="does not match"):
        verify(method, url, headers)


@pytest.mark.parametrize(("seconds", "accepted"), [(890, True), (-890, True), (910, False), (-910, False)])
def test_clock_difference_above_fifteen_minutes_is_refused(seconds: int, accepted: bool) -> None:
    headers = signed_by_botocore("PUT", URL, {})
    now = datetime.now(UTC).timestamp() + seconds
    if accepted:
        verify("PUT", URL, headers, now)
    else:
        with pytest.raises(S3Error, match="15 minutes") as raised:
            verify("PUT", URL, headers, now)
        assert (raised.value.status, raised.value.code) == (403, "RequestTimeTooSkewed")


@pytest.mark.parametrize("name", ["x-amz-object-lock-mode", "x-amz-bypass-governance-retention", "x-amz-meta-more"])
def test_a_header_that_was_not_signed_is_refused(name: str) -> None:
    with pytest.raises(S3Error) as raised:
        verify("PUT", URL, {**signed_by_botocore("PUT", URL, {}), name: "true"})
    assert (raised.value.code, raised.value.details) == ("AccessDenied", {"HeadersNotSigned": name})


def test_session_token_is_refused_as_invalid() -> None:
    with pytest.raises(S3Error) as raised:
        verify("PUT", URL, signed_by_botocore("PUT", URL, {"x-amz-security-token": "token"}))
    assert raised.value.code == "InvalidToken"


def test_header_signed_as_empty_must_be_present() -> None:
    headers = signed_by_botocore("PUT", URL, {"x-amz-meta-case": ""})
    verify("PUT", URL, headers)
    headers.pop("x-amz-meta-case")
    with pytest.raises(S3Error) as raised:
        verify("PUT", URL, headers)
    assert raised.value.code == "SignatureDoesNotMatch"


def test_plus_sign_in_the_query_is_signed_as_a_space() -> None:
    headers = signed_by_botocore("GET", "http://store/bucket?prefix=a%2Bb", {})
    verify("GET", "http://store/bucket?prefix=a%2Bb", headers)
    with pytest.raises(S3Error, match="does not match"):
        verify("GET", "http://store/bucket?prefix=a+b", headers)
    verify("GET", "http://store/bucket?prefix=a+b", signed_by_botocore("GET", "http://store/bucket?prefix=a%20b", {}))


# Raw HTTP against the real server.


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: str

    @property
    def code(self) -> str:
        match = re.search("<Code>(.*)</Code>", self.body)
        return match[1] if match else ""


@pytest.fixture
def send(store: StoreProcess) -> Callable[..., Answer]:
    def request(
        method: str, path: str, body: bytes = b"", *, change: dict[str, str] | None = None, **headers: str
    ) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = store.endpoint + path
        signed = signed_by_botocore(method, url, named, (store.access_key, store.secret_key))
        connection = http.client.HTTPConnection(urlsplit(url).netloc)
        try:
            connection.request(method, path, body, {**signed, **(change or {})})
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            connection.close()

    return request


LOCK = {"x_amz_object_lock_mode": "GOVERNANCE", "x_amz_object_lock_retain_until_date": "2099-01-01T00:00:00Z"}


def test_a_lock_without_an_integrity_header_is_refused(send: Callable[..., Answer], bucket: str) -> None:
    answer = send("PUT", f"/{bucket}/k", b"x", **LOCK)
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    hash_only = send("PUT", f"/{bucket}/k", b"x", x_amz_content_sha256=hashlib.sha256(b"x").hexdigest(), **LOCK)
    assert (hash_only.status, hash_only.code) == (400, "InvalidRequest")  # the payload hash alone does not count


def test_a_default_retention_needs_an_integrity_header_too(send: Any, s3: Any, bucket: str) -> None:
    s3.put_object_lock_configuration(
        Bucket=bucket,
        ObjectLockConfiguration={
            "ObjectLockEnabled": "Enabled",
            "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}},
        },
    )
    assert send("PUT", f"/{bucket}/k", b"x").code == "InvalidRequest"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/k?retention", b"<Retention/>"),
        ("PUT", "/k?legal-hold", b"<LegalHold><Status>ON</Status></LegalHold>"),
        ("PUT", "?object-lock", b"<ObjectLockConfiguration/>"),
        ("POST", "?delete", b"<Delete><Object><Key>k</Key></Object></Delete>"),
    ],
)
def test_a_document_about_locks_needs_an_integrity_header(
    send: Callable[..., Answer], bucket: str, method: str, path: str, body: bytes
) -> None:
    answer = send(method, f"/{bucket}{path}", body)
    assert (answer.status, answer.code) == (400, "InvalidRequest")


@pytest.mark.parametrize("body", [b"", b"<Retention>", b"<LegalHold/>", b'<!DOCTYPE x [<!ENTITY y "z">]><Retention/>'])
def test_invalid_lock_document_is_malformed_xml(send: Callable[..., Answer], bucket: str, body: bytes) -> None:
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    answer = send("PUT", f"/{bucket}/k?retention", body, content_md5=md5)
    assert (answer.status, answer.code) == (400, "MalformedXML")


@pytest.mark.parametrize("date", ["tomorrow", "2099-01-01", "2099-01-01T00:00:00"])
def test_invalid_retain_until_date_is_an_invalid_argument(send: Callable[..., Answer], bucket: str, date: str) -> None:
    lock = {**LOCK, "x_amz_object_lock_retain_until_date": date}
    answer = send("PUT", f"/{bucket}/k", b"x", content_md5="ndTkYSaMgDT1yFZOFVxnpg==", **lock)
    assert (answer.status, answer.code) == (400, "InvalidArgument")


def test_body_that_differs_from_the_signed_one_is_refused(send: Callable[..., Answer], bucket: str) -> None:
    answer = send("PUT", f"/{bucket}/k", b"other", x_amz_content_sha256=hashlib.sha256(b"signed").hexdigest())
    assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch")
    assert send("HEAD", f"/{bucket}/k").status == 404


def test_a_header_changed_on_the_way_is_refused(send: Callable[..., Answer], bucket: str) -> None:
    change = {"x-amz-object-lock-mode": "COMPLIANCE"}
    answer = send("PUT", f"/{bucket}/k", b"x", change=change, content_md5="ndTkYSaMgDT1yFZOFVxnpg==", **LOCK)
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")


def test_every_answer_has_a_request_id_and_a_date(send: Callable[..., Answer], bucket: str) -> None:
    ids = set()
    for path in (f"/{bucket}", "/missing", f"/{bucket}/none", f"/{bucket}?policy"):
        answer = send("GET", path)
        ids.add(answer.headers["x-amz-request-id"])
        assert answer.headers["Date"].endswith("GMT")
        if answer.code:
            assert f"<RequestId>{answer.headers['x-amz-request-id']}</RequestId>" in answer.body
            assert "<Resource>/" in answer.body
            assert "<Message>" in answer.body
    assert len(ids) == 4


def test_a_name_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(S3Error, match="must be UTF-8") as raised:
        decode_name("%ff")
    assert raised.value.code == "InvalidURI"


def test_expect_100_continue_is_answered_with_continue_or_the_error(store: StoreProcess, bucket: str) -> None:
    for name, expected in ((bucket, b"HTTP/1.1 100 Continue\r\n\r\n"), ("missing", b"HTTP/1.1 404 Not Found\r\n")):
        url = f"{store.endpoint}/{name}/k"
        headers = signed_by_botocore("PUT", url, {}, (store.access_key, store.secret_key))
        connection = http.client.HTTPConnection(urlsplit(url).netloc)
        connection.putrequest("PUT", f"/{name}/k", skip_host=True)
        for header, value in {**headers, "Content-Length": "5", "Expect": "100-continue"}.items():
            connection.putheader(header, value)
        connection.endheaders()
        assert connection.sock is not None
        assert connection.sock.recv(len(expected)) == expected
        if name == bucket:
            connection.send(b"hello")
            assert connection.sock.recv(15) == b"HTTP/1.1 200 OK"
        connection.close()


def test_statistics_count_requests_by_call_and_status(store: StoreProcess, send: Any, s3: Any, bucket: str) -> None:
    def statistics() -> dict[str, Any]:
        connection = http.client.HTTPConnection(urlsplit(store.endpoint).netloc)
        connection.request("GET", "/-/statistics")  # from this host without a signature
        body = connection.getresponse().read()
        connection.close()
        found: dict[str, Any] = json.loads(body)
        return found

    before = statistics()
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x" * 100)
    send("GET", f"/{bucket}/none")
    after = statistics()
    assert after["requests"]["PutObject"]["200"] == before["requests"].get("PutObject", {}).get("200", 0) + 2
    assert after["requests"]["GetObject"]["404"] == before["requests"].get("GetObject", {}).get("404", 0) + 1
    assert (after["objects"], after["bytes"]) == (before["objects"] + 2, before["bytes"] + 200)
    assert after["commits"] > before["commits"]
    assert after["syncs"] >= after["commits"]
