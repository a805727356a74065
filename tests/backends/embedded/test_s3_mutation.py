"""A signed request with one altered byte is refused or has the same meaning; the tests try every byte.

The tests parse and judge each request with the server's own parser and functions, and compare its meaning. A sample of
each kind goes over the wire.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import awscrt.checksums
import pytest
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.http_parser import HttpRequestParser
from botocore.auth import S3SigV4Auth, S3SigV4PostAuth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.embedded.process import StoreProcess
from backends.embedded.s3.credentials import Credential
from backends.embedded.s3.errors import S3Error
from backends.embedded.s3.requests import chunks as s3_chunks
from backends.embedded.s3.requests.chunks import ChunkDecoder
from backends.embedded.s3.requests.post import _signed_policy
from backends.embedded.s3.requests.presigned import query_pairs
from backends.embedded.s3.requests.request import decode_name, lower_headers
from backends.embedded.s3.requests.signature import Signed, Verifier, _canonical_request, sign, signing_key
from tests.backends.embedded.raw_exchanges import exchanged, head_of, is_done
from tests.backends.embedded.signed_chunks import BODIES, in_signed_chunks
from tests.backends.embedded.signed_requests import SECRET, signed_by_botocore
from tests.support.examples import share_of

VERIFIER = Verifier({"it": Credential("it", "KEY", SECRET, frozenset())}, lambda: datetime.now(UTC).timestamp())
PATH = "/bucket/a%20key/of%C3%A9/parts?versionId=0000000A&x-id=PutObject&empty"
HEADERS = {
    "Content-MD5": "ndTkYSaMgDT1yFZOFVxnpg==",
    "x-amz-content-sha256": hashlib.sha256(b"x").hexdigest(),
    "x-amz-meta-note": "a note of five words",
    "x-amz-object-lock-mode": "GOVERNANCE",
    "x-amz-object-lock-retain-until-date": "2099-01-01T00:00:00Z",
}
REFUSED = None


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the server would do for a request."""

    method: str
    bucket: str
    key: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    payload_hash: str


def heard(head: bytes) -> Any:
    """Return the request that aiohttp's parser finds in these bytes, or None if it does not find exactly one."""
    parser = HttpRequestParser(Mock(), Mock(), 1 << 16)
    try:
        messages, _, _ = parser.feed_data(head)
    except HttpProcessingError:
        return None
    return messages[0][0] if len(messages) == 1 else None


def meaning(head: bytes) -> Meaning | None:
    """Return the meaning that the server finds in a head, or None if it refuses it."""
    message = heard(head)
    if message is None:
        return REFUSED
    raw_path, _, raw_query = message.path.partition("?")
    headers = lower_headers(message.headers)
    try:
        signed = VERIFIER.verify(message.method, raw_path, raw_query, headers)
        bucket, _, key = raw_path[1:].partition("/")
        query = tuple(sorted(pair for pair in query_pairs(raw_query) if pair[0] != "X-Amz-Signature"))
        found = Meaning(message.method, decode_name(bucket), decode_name(key), query, of(headers), signed.payload_hash)
    except S3Error:
        return REFUSED
    return found


def of(headers: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Normalise headers: as at Amazon, the number of blanks between words is not signed."""
    counted = {name: " ".join(value.split(" ")) for name, value in headers.items() if name != "authorization"}
    return tuple(sorted((name, re.sub(" +", " ", value)) for name, value in counted.items()))


def altered(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the data with every byte changed, left out and repeated."""
    for at, byte in enumerate(data):
        for other in {byte ^ 1, byte ^ 0x20, byte ^ 0x80, 0x20, 0x2F, 0x00} - {byte}:
            yield at, data[:at] + bytes([other]) + data[at + 1 :]
        yield at, data[:at] + data[at + 1 :]
        yield at, data[:at] + data[at : at + 1] + data[at:]


def signed_head(method: str = "PUT", path: str = PATH, headers: dict[str, str] = HEADERS) -> bytes:
    return head_of(method, path, signed_by_botocore(method, f"http://store:9000{path}", headers))


def presigned_head() -> bytes:
    asked = AWSRequest("PUT", f"http://store:9000{PATH}", headers={"Host": "store:9000", "x-amz-meta-note": "a note"})
    S3SigV4QueryAuth(Credentials("KEY", SECRET), "s3", "eu-west-1", expires=60).add_auth(asked)
    return head_of("PUT", asked.url.removeprefix("http://store:9000"), dict(asked.headers.items()))


@pytest.mark.parametrize("make", [signed_head, presigned_head])
def test_no_byte_of_a_signed_head_can_be_altered(make: Callable[[], bytes]) -> None:
    head = make()
    meant = meaning(head)
    assert meant is not REFUSED
    line = head.index(b" HTTP/1.1\r\n")
    version = range(line, line + 11)  # which is not signed
    refused = 0
    for at, other in altered(head):
        if at in version:
            continue
        found = meaning(other)
        assert found in (REFUSED, meant), (at, other)
        refused += found is REFUSED
    assert refused > 7 * len(head)  # the rest changes capital letters in names, blanks and the like


@pytest.mark.parametrize("make", [signed_head, presigned_head])
def test_signed_headers_can_be_reordered_but_not_omitted_or_repeated(make: Callable[[], bytes]) -> None:
    head = make()
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert len(lines) >= 2

    def with_lines(others: list[bytes]) -> Meaning | None:
        return meaning(b"\r\n".join([first, *others, b"", b""]))

    for at, line in enumerate(lines):
        assert with_lines(lines[:at] + lines[at + 1 :]) is REFUSED, line
        assert with_lines([*lines[:at], line, *lines[at:]]) is REFUSED, line
        assert with_lines([*lines, line.split(b":")[0] + b": other"]) is REFUSED, line
    assert with_lines(lines[::-1]) == meaning(head)


def test_signed_query_parts_cannot_be_omitted_repeated_or_added() -> None:
    for make in (signed_head, presigned_head):
        head = make()
        target = head.split(b" ")[1]
        path, _, query = target.partition(b"?")
        parts = query.split(b"&")
        for at, part in enumerate(parts):
            for others in (parts[:at] + parts[at + 1 :], [*parts[:at], part, *parts[at:]], [*parts, b"more=1"]):
                assert meaning(head.replace(target, path + b"?" + b"&".join(others))) is REFUSED, part
        assert meaning(head.replace(target, path + b"?" + b"&".join(reversed(parts)))) == meaning(head)


def decoded(kind: str, body: bytes) -> tuple[bytes, dict[str, str]] | None:
    """Return content and trailers that the server accepts, or None if it refuses the body."""
    decoder = ChunkDecoder(in_signed_chunks(kind))
    try:
        content = b"".join(decoder.feed(body))
    except S3Error:
        return REFUSED
    if not decoder.finished:
        return REFUSED
    claimed = decoder.trailers.get("x-amz-checksum-crc32c")
    crc = base64.b64encode(awscrt.checksums.crc32c(content).to_bytes(4, "big")).decode()
    if kind != s3_chunks.SIGNED_CHUNKS and claimed != crc:
        return REFUSED
    return content, {"x-amz-checksum-crc32c": crc} if claimed else {}


def chunked(content: tuple[bytes, ...], signed: Signed) -> bytes:
    """Signed chunks, by the rules of the S3 API reference."""
    empty = hashlib.sha256(b"").hexdigest()
    signature, body = signed.signature, b""
    for chunk in (*content, b""):
        digests = f"{empty}\n{hashlib.sha256(chunk).hexdigest()}"
        text = f"AWS4-HMAC-SHA256-PAYLOAD\n{signed.timestamp}\n{signed.scope}\n{signature}\n{digests}"
        signature = sign(signed.signing_key, text)
        body += f"{len(chunk):x};chunk-signature={signature}\r\n".encode() + chunk + b"\r\n"
    return body


CHUNKED = {
    "signed": (
        s3_chunks.SIGNED_CHUNKS,
        chunked((b"hello", b"wonderful", b"world"), in_signed_chunks(s3_chunks.SIGNED_CHUNKS)),
    ),
    "signed trailer": BODIES["signed trailer"][:2],
    "unsigned trailer": BODIES["unsigned trailer"][:2],
}


@pytest.mark.parametrize("name", CHUNKED)
def test_no_byte_of_a_body_in_chunks_can_be_altered(name: str) -> None:
    kind, body = CHUNKED[name]
    meant = decoded(kind, body)
    assert meant is not REFUSED
    refused = 0
    for at, other in altered(body):
        found = decoded(kind, other)
        assert found in (REFUSED, meant), (at, other)
        refused += found is REFUSED
    assert refused > 6 * len(body)


def test_no_chunk_can_be_left_out_repeated_or_moved() -> None:
    kind, body = CHUNKED["signed"]
    chunks = re.findall(rb"[0-9a-f]+;chunk-signature=[0-9a-f]{64}\r\n[a-z]*\r\n", body)
    assert len(chunks) == 4
    for at, chunk in enumerate(chunks):
        assert decoded(kind, b"".join(chunks[:at] + chunks[at + 1 :])) is REFUSED
        assert decoded(kind, b"".join([*chunks[:at], chunk, *chunks[at:]])) is REFUSED
    assert decoded(kind, b"".join([chunks[1], chunks[0], *chunks[2:]])) is REFUSED


def post_fields() -> dict[str, str]:
    asked = AWSRequest("POST", "http://store:9000/bucket", headers={"Host": "store:9000"})
    conditions = [{"bucket": "bucket"}, ["starts-with", "$key", "in/"], {"x-amz-meta-note": "a note"}]
    asked.context["s3-presign-post-fields"] = {"key": "in/a", "x-amz-meta-note": "a note"}
    asked.context["s3-presign-post-policy"] = {"expiration": "2099-01-01T00:00:00Z", "conditions": conditions}
    S3SigV4PostAuth(Credentials("KEY", SECRET), "s3", "eu-west-1").add_auth(asked)
    fields: dict[str, str] = asked.context["s3-presign-post-fields"]
    return fields


def test_no_byte_of_a_form_s_policy_and_signature_can_be_altered() -> None:
    fields = post_fields()

    def allowed(changed: dict[str, str]) -> bool:
        try:
            _, policy = _signed_policy(changed, VERIFIER)
            policy.check({**changed, "bucket": "bucket"}, int(time.time() * 1000))
        except S3Error:
            return False
        return True

    assert allowed(fields)
    for name in ("policy", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-signature", "x-amz-meta-note"):
        for _, other in altered(fields[name].encode()):
            value = other.decode("utf-8", "surrogateescape")
            assert not allowed({**fields, name: value}), (name, value)
        assert not allowed({key: value for key, value in fields.items() if key != name})
    assert not allowed({**fields, "key": "out/a"})
    assert not allowed({**fields, "acl": "public-read"})


# Amazon's test suite of Signature Version 4, as botocore's source has it (Apache-2.0): requests, and the digests of
# their canonical requests. Its service is not S3: the cases in which paths are normalised are left out, and what
# follows from the digest is checked by Amazon's examples for S3 in test_signing.py and test_s3_chunks.py.
_LETTERS = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SUITE = {
    "get-header-key-duplicate": ("GET", "/", {"my-header1": "value2,value2,value1"},
        "dc7f04a3abfde8d472b0ab1a418b741b7c67174dad1551b4117b15527fbe966c"),
    "get-header-value-order": ("GET", "/", {"my-header1": "value4,value1,value3,value2"},
        "31ce73cd3f3d9f66977ad3dd957dc47af14df92fcd8509f59b349e9137c58b86"),
    "get-header-value-trim": ("GET", "/", {"my-header1": " value1", "my-header2": ' "a   b   c"'},
        "a726db9b0df21c14f559d0a978e563112acb1b9e05476f0a6a1c7d68f28605c7"),
    "get-unreserved": ("GET", f"/{_LETTERS}", {},
        "6a968768eefaa713e2a6b16b589a8ea192661f098f37349f4e2c0082757446f9"),
    "get-utf8": ("GET", "/\u1234", {}, "2a0a97d02205e45ce2e994789806b19270cfbbb0921b278ccf58f5249ac42102"),
    "get-vanilla": ("GET", "/", {}, "bb579772317eb040ac9ed261061d46c1f17a8133879d6129b6e1c25292927e63"),
    "get-vanilla-empty-query-key": ("GET", "/?Param1=value1", {},
        "1e24db194ed7d0eec2de28d7369675a243488e08526e8c1c73571282f7c517ab"),
    "get-vanilla-query-order-encoded": ("GET", "/?Param-3=Value3&Param=Value2&%E1%88%B4=Value1", {},
        "868294f5c38bd141c4972a373a76654f1418a8e4fc18b2e7903ae45e8ae0ec71"),
    "get-vanilla-query-order-key": ("GET", "/?Param1=value2&Param1=Value1", {},
        "704b4cef673542d84cdff252633f065e8daeba5f168b77116f8b1bcaf3d38f89"),
    "get-vanilla-query-order-key-case": ("GET", "/?Param2=value2&Param1=value1", {},
        "816cd5b414d056048ba4f7c5386d6e0533120fb1fcfa93762cf0fc39e2cf19e0"),
    "get-vanilla-query-order-value": ("GET", "/?Param1=value2&Param1=value1", {},
        "c968629d70850097a2d8781c9bf7edcb988b04cac14cca9be4acc3595f884606"),
    "get-vanilla-query-unreserved": ("GET", f"/?{_LETTERS}={_LETTERS}", {},
        "c30d4703d9f799439be92736156d47ccfb2d879ddf56f5befa6d1d6aab979177"),
    "get-vanilla-utf8-query": ("GET", "/?\u1234=bar", {},
        "eb30c5bed55734080471a834cc727ae56beb50e5f39d1bff6d0d38cb192a7073"),
    "post-header-key-sort": ("POST", "/", {"my-header1": "value1"},
        "9368318c2967cf6de74404b30c65a91e8f6253e0a8659d6d5319f1a812f87d65"),
    "post-header-value-case": ("POST", "/", {"my-header1": "VALUE1"},
        "d51ced243e649e3de6ef63afbbdcbca03131a21a7103a1583706a64618606a93"),
    "post-vanilla": ("POST", "/", {}, "553f88c9e4d10fc9e109e2aeb65f030801b70c2f6468faca261d401ae622fc87"),
    "post-vanilla-query": ("POST", "/?Param1=value1", {},
        "9d659678c1756bb3113e2ce898845a0a79dbbc57b740555917687f1b3340fbbd"),
}  # fmt: skip


@pytest.mark.parametrize("name", SUITE)
def test_canonical_requests_are_those_of_amazons_suite(name: str) -> None:
    method, target, more, digest = SUITE[name]
    headers = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z", **more}
    path, _, query = target.partition("?")
    names = ";".join(sorted(headers))
    canonical = _canonical_request(method, path, query, headers, names, hashlib.sha256(b"").hexdigest())
    assert hashlib.sha256(canonical.encode()).hexdigest() == digest


NAMES = st.text(max_size=12)
VALUES = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20).map(str.strip)


@settings(max_examples=share_of(100))
@given(
    method=st.sampled_from(["GET", "PUT", "HEAD", "POST", "DELETE"]),
    key=NAMES,
    query=st.dictionaries(NAMES.filter(bool), NAMES, max_size=4),
    metadata=st.dictionaries(st.from_regex(r"[a-z0-9-]{1,8}", fullmatch=True), VALUES, max_size=3),
    is_presigned=st.booleans(),
)
def test_botocore_signature_is_accepted_only_for_the_unchanged_request(
    method: str, key: str, query: dict[str, str], metadata: dict[str, str], is_presigned: bool
) -> None:
    headers = {"Host": "store:9000", **{f"x-amz-meta-{name}": value for name, value in metadata.items()}}
    url = f"http://store:9000/bucket/{quote(key)}"
    plain = {name: value for name, value in query.items() if not name.lower().startswith("x-amz-")}
    asked = AWSRequest(method, url, params=plain, headers=headers)
    auth = S3SigV4QueryAuth if is_presigned else S3SigV4Auth
    auth(Credentials("KEY", SECRET), "s3", "eu-west-1").add_auth(asked)
    target = asked.prepare().url.removeprefix("http://store:9000")
    path, _, sent_query = target.partition("?")
    sent = {name.lower(): value for name, value in asked.headers.items()}
    assert VERIFIER.verify(method, path, sent_query, sent).credential.name == "it"
    for changed in (
        (method + "X", path, sent_query),
        (method, path + "x", sent_query),
        (method, path, sent_query + "&x"),
    ):
        with pytest.raises(S3Error):
            VERIFIER.verify(*changed, sent)


# The scope of a signature: date, region and service.


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("/s3/", "/ec2/", "AuthorizationHeaderMalformed"),
        ("/aws4_request", "/aws5_request", "AuthorizationHeaderMalformed"),
        ("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256", "AuthorizationHeaderMalformed"),
        ("/eu-west-1/", "/us-east-1/", "SignatureDoesNotMatch"),
        ("/eu-west-1/", "/\udcff/", "AuthorizationHeaderMalformed"),
        ("KEY/20", "KEY/19", "SignatureDoesNotMatch"),
        ("KEY/", "K\udcffY/", "InvalidAccessKeyId"),
    ],
)
def test_signature_is_refused_in_another_scope(old: str, new: str, code: str) -> None:
    headers = signed_by_botocore("PUT", "http://store:9000/bucket/key", {})
    headers["Authorization"] = headers["Authorization"].replace(old, new)
    sent = {name.lower(): value for name, value in headers.items()}
    with pytest.raises(S3Error) as raised:
        VERIFIER.verify("PUT", "/bucket/key", "", sent)
    assert raised.value.code == code


def test_only_the_signed_date_header_is_used() -> None:
    headers = signed_by_botocore("PUT", "http://store:9000/bucket/key", {})
    sent = {name.lower(): value for name, value in headers.items()}
    VERIFIER.verify("PUT", "/bucket/key", "", {**sent, "date": "Fri, 24 May 2013 00:00:00 GMT"})
    today = formatdate(usegmt=True)
    del sent["x-amz-date"]
    with pytest.raises(S3Error, match="x-amz-date"):
        VERIFIER.verify("PUT", "/bucket/key", "", {**sent, "date": today})


# Over the wire.


@pytest.fixture
def put(store: StoreProcess) -> Callable[[str, dict[str, str]], bytes]:
    def head(path: str, headers: dict[str, str]) -> bytes:
        signed = signed_by_botocore("PUT", store.endpoint + path, headers, (store.access_key, store.secret_key))
        return head_of("PUT", path, signed)

    return head


def test_nothing_of_an_altered_request_is_stored(store: StoreProcess, s3: Any, bucket: str, put: Any) -> None:
    lock = {**HEADERS, "Content-MD5": base64.b64encode(hashlib.md5(b"x").digest()).decode()}
    lock["x-amz-object-lock-retain-until-date"] = (datetime.now(UTC) + timedelta(minutes=5)).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    whole = put(f"/{bucket}/key", lock)[:-2] + b"Content-Length: 1\r\nConnection: close\r\n\r\nx"
    end = whole.index(b"Content-Length: 1")
    line = whole.index(b" HTTP/1.1\r\n")
    before = s3.list_buckets()["Buckets"]
    for at in [each for each in range(0, end, 9) if each not in range(line, line + 11)]:
        other = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        assert not is_done(exchanged(store, other)), other
    assert not is_done(exchanged(store, whole[:-1] + b"y"))
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)
    assert s3.list_buckets()["Buckets"] == before
    assert is_done(exchanged(store, whole))


@pytest.mark.parametrize("at", ["size", "signature", "signature beyond ASCII", "content", "last signature"])
def test_nothing_of_an_altered_chunk_is_stored(store: StoreProcess, s3: Any, bucket: str, put: Any, at: str) -> None:
    kind = s3_chunks.SIGNED_CHUNKS
    head = put(f"/{bucket}/key", {"x-amz-content-sha256": kind, "x-amz-decoded-content-length": "10"})
    seed = re.search(rb"Signature=([0-9a-f]{64})", head)
    sent_at = re.search(rb"X-Amz-Date: (\d{8}T\d{6}Z)", head)
    assert seed is not None
    assert sent_at is not None
    timestamp = sent_at[1].decode()
    day = timestamp[:8]
    key = signing_key(store.secret_key, day, "eu-west-1")
    credential = Credential("default", store.access_key, store.secret_key, frozenset())
    signed = Signed(credential, kind, seed[1].decode(), key, timestamp, f"{day}/eu-west-1/s3/aws4_request")
    body = chunked((b"hello", b"world"), signed)
    first, last = body.index(b"signature=") + 10, body.rindex(b"signature=") + 10
    place = {"size": 0, "signature": first, "signature beyond ASCII": first, "content": body.index(b"hello"),
             "last signature": last}[at]  # fmt: skip
    changed = body[place] ^ (0x80 if "ASCII" in at else 1)
    ended = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    received = exchanged(store, head[:-2] + ended + body[:place] + bytes([changed]) + body[place + 1 :])
    assert re.match(rb"HTTP/1\.1 40[03] ", received), received
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)
    assert is_done(exchanged(store, head[:-2] + ended + body))


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_encoded_slash_in_the_bucket_part_is_refused(store: StoreProcess, s3: Any, bucket: str, method: str) -> None:
    """Both paths have the same signature, so the encoded one must not name another bucket."""
    s3.put_object(Bucket=bucket, Key="key", Body=b"x")
    for path in (f"/{bucket}%2Fkey", f"/%2F{bucket}/key", f"/{bucket}%2F..%2F{bucket}/key"):
        url = store.endpoint + path.replace("%2F", "/")
        signed = signed_by_botocore(method, url, {}, (store.access_key, store.secret_key))
        assert not is_done(exchanged(store, head_of(method, path, {**signed, "Connection": "close"})))
    assert len(s3.list_object_versions(Bucket=bucket)["Versions"]) == 1


def test_answer_does_not_reveal_the_correct_signature_or_secret(store: StoreProcess, put: Any) -> None:
    head = put("/bucket/key", {})
    signature = re.search(rb"Signature=([0-9a-f]{64})", head)
    assert signature is not None
    wrong = head.replace(b"PUT", b"GET")[:-2] + b"Connection: close\r\n\r\n"
    received = exchanged(store, wrong)
    assert b"<Code>SignatureDoesNotMatch</Code>" in received
    assert re.findall(rb"[0-9a-f]{64}", received) == []
    for secret in (store.secret_key, base64.b64encode(store.secret_key.encode()).decode()):
        assert secret.encode() not in received
