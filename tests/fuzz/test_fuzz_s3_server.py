"""Hostile requests to the S3 server: it answers with a client error or closes, and stores nothing unsigned.

One idea: status 500 means a fault of the server, so no request may cause it. The tests sign requests after damaging
them, so that they pass the check of the signature and reach the parsers.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.embedded import process
from backends.embedded.process import StoreProcess
from backends.embedded.s3 import xml
from backends.embedded.s3.errors import S3Error
from tests.backends.conftest import s3_client
from tests.backends.embedded.signed_requests import signed_by_botocore
from tests.fuzz.hostile import damaged, damaged_text, tries

BUCKETS = ("locked", "plain")
HELD = {"kept": b"content that stays", "a/b": b"more"}


class Witness:
    """A store with objects that must not change."""

    def __init__(self, store: StoreProcess) -> None:
        self.store = store
        self.client = s3_client(store)
        self.client.create_bucket(Bucket="locked", ObjectLockEnabledForBucket=True)
        self.client.create_bucket(Bucket="plain")
        for key, body in HELD.items():
            self.client.put_object(Bucket="locked", Key=key, Body=body)
        self.before = self._all()

    def _all(self) -> object:
        listed = self.client.list_object_versions(Bucket="locked").get("Versions", [])
        buckets = [each["Name"] for each in self.client.list_buckets()["Buckets"]]
        return buckets, [(each["Key"], each["VersionId"], each["ETag"]) for each in listed]

    def exchange(self, data: bytes, *, finishes: bool = True) -> bytes:
        """Send these bytes; return all that the server sends until it closes the connection."""
        parts = urlsplit(self.store.endpoint)
        received = b""
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
            with suppress(OSError):  # the server may close before it has read everything
                connection.sendall(data)
                if finishes:  # otherwise the server would wait for the rest of a request
                    connection.shutdown(socket.SHUT_WR)
            with suppress(ConnectionResetError):
                while more := connection.recv(65536):
                    received += more
        return received

    def check_answers(self, received: bytes) -> list[int]:
        """Return the status of each answer. Fails if one is a fault of the server."""
        statuses = [int(each) for each in re.findall(rb"(?:^|\r\n|>|\n)HTTP/\d\.\d (\d{3}) ", received)]
        assert bool(statuses) == bool(received), received[:200]
        assert not [each for each in statuses if each in (500, 502, 503)], received[:2000]
        return statuses

    def check_untouched(self) -> None:
        assert self.store.is_running()
        assert self._all() == self.before
        for key, body in HELD.items():
            assert self.client.get_object(Bucket="locked", Key=key)["Body"].read() == body


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Witness]:
    with process.start(tmp_path_factory.mktemp("fuzzed") / "store") as store:
        witness = Witness(store)
        yield witness
        assert store.log() == ""


PLAIN = (
    b"PUT /locked/new HTTP/1.1\r\nHost: store\r\nContent-Length: 5\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n"
    b"x-amz-date: 20261121T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=K/20261121/us-east-1/s3/aws4_request,"
    b" SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature=" + b"0" * 64 + b"\r\n\r\nhello",
    b"POST /locked?delete HTTP/1.1\r\nHost: store\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<a/>\n\r\n0\r\n\r\n",
    b"GET /locked?list-type=2&max-keys=3&prefix=a%2F HTTP/1.1\r\nHost: store\r\nConnection: keep-alive\r\n\r\n",
    b"POST /plain HTTP/1.1\r\nHost: store\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    b"Content-Length: 70\r\n\r\n"
    b'--b\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n--b--\r\n',
)


@tries(60)
@given(
    st.lists(st.sampled_from(PLAIN), min_size=1, max_size=3).map(b"".join).flatmap(damaged) | st.binary(max_size=300)
)
def test_unsigned_bytes_never_get_success_or_internal_error(witness: Witness, data: bytes) -> None:
    statuses = witness.check_answers(witness.exchange(data))
    assert all(400 <= each < 500 or each in (100, 501, 505) for each in statuses), statuses


def test_store_is_unchanged_after_unsigned_requests(witness: Witness) -> None:
    witness.check_untouched()


DATES = st.sampled_from(["2999-01-01T00:00:00Z", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z",
                         "2027-01-01", "x", "2027-01-01T00:00:00+99:99", "-1", "١٢"])  # fmt: skip
WORDS = DATES | st.sampled_from(
    ["", "0", "-1", "1", "+1", "1.5", "1e3", "00", "9" * 25, "9223372036854775808", "GOVERNANCE", "ON", "true", "*",
    ",",
     "a,b", "a=b&c", "bytes=0-", "bytes=5-2", "bytes=-0", "bytes=99999999999999999999-", "bytes=0-0,2-3", "%", "%zz",
     "%00",
     "/locked/kept", "locked/kept?versionId=x", "/locked/%ff", "AAAAAA==", "d41d8cd98f00b204e9800998ecf8427e", "\"x\"",
     "CRC32", "COMPOSITE", "aws-chunked", "gzip", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "url", "=?utf-8?q?x?=",
     "x" * 3000]
) | st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=10)  # fmt: skip
HEADERS = st.sampled_from(
    ["Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Content-MD5",
    "Content-Encoding",
     "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date", "x-amz-object-lock-legal-hold", "Expect",
     "x-amz-bypass-governance-retention", "x-amz-copy-source", "x-amz-copy-source-range", "x-amz-checksum-crc32c",
     "x-amz-checksum-sha256", "x-amz-sdk-checksum-algorithm", "x-amz-checksum-type", "x-amz-checksum-mode",
     "x-amz-trailer",
     "x-amz-decoded-content-length", "x-amz-tagging", "x-amz-acl", "x-amz-meta-a", "x-amz-metadata-directive",
     "x-amz-tagging-directive", "x-amz-storage-class", "x-amz-expected-bucket-owner", "x-amz-mp-object-size",
     "x-amz-server-side-encryption", "x-amz-object-attributes", "x-amz-max-parts", "x-amz-part-number-marker",
     "x-amz-write-offset-bytes", "x-amz-website-redirect-location", "Content-Type", "Cache-Control", "Expires",
     "Origin", "x-amz-bucket-object-lock-enabled", "x-amz-copy-source-if-match", "x-amz-copy-source-if-modified-since"]
)  # fmt: skip
QUERIES = st.sampled_from(
    ["versionId", "versions", "uploads", "uploadId", "partNumber", "retention", "legal-hold", "object-lock",
    "versioning",
     "location", "delete", "tagging", "attributes", "acl", "list-type", "max-keys", "prefix", "delimiter", "marker",
     "key-marker", "version-id-marker", "continuation-token", "start-after", "encoding-type", "max-uploads",
     "upload-id-marker", "max-parts", "part-number-marker", "fetch-owner", "response-content-type", "response-expires",
     "X-Amz-Expires", "x-id", "select", "restore", "torrent", "policy", "cors", "lifecycle", "metadata", ""]
)  # fmt: skip
DOCUMENTS = (
    "<Retention>\n<Mode>GOVERNANCE</Mode>\n<RetainUntilDate>2027-01-01T00:00:00Z</RetainUntilDate>\n</Retention>",
    "<LegalHold>\n<Status>ON</Status>\n</LegalHold>",
    "<Delete>\n<Quiet>true</Quiet>\n<Object>\n<Key>nothing</Key>\n<VersionId>x</VersionId>\n</Object>\n</Delete>",
    "<Tagging>\n<TagSet>\n<Tag>\n<Key>a</Key>\n<Value>b</Value>\n</Tag>\n</TagSet>\n</Tagging>",
    "<VersioningConfiguration>\n<Status>Enabled</Status>\n</VersioningConfiguration>",
    "<ObjectLockConfiguration>\n<ObjectLockEnabled>Enabled</ObjectLockEnabled>\n<Rule>\n<DefaultRetention>\n"
    "<Mode>GOVERNANCE</Mode>\n<Days>1</Days>\n</DefaultRetention>\n</Rule>\n</ObjectLockConfiguration>",
    "<CompleteMultipartUpload>\n<Part>\n<PartNumber>1</PartNumber>\n<ETag>x</ETag>\n</Part>\n</CompleteMultipartUpload>",
    "<CreateBucketConfiguration>\n<LocationConstraint>eu-west-1</LocationConstraint>\n</CreateBucketConfiguration>",
)
bodies = st.sampled_from(DOCUMENTS).flatmap(damaged_text) | st.just("") | st.text(max_size=20)
paths = st.sampled_from(["/", "/plain", "/locked", "/plain/none", "/plain/a/b", "/locked/none", "/none/k", "/A_b/k",
                         "/plain/..", "/plain//",
                         "/plain/" + "k" * 1025]) | st.text(max_size=8).map("/plain/{}".format)  # fmt: skip
# No request may delete or lock the objects of the witness: they are in `locked`, under names that no request has.
queries = st.lists(st.tuples(QUERIES, WORDS | st.just("")), max_size=3)


def signed(store: StoreProcess, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> bytes:
    target = quote(path, safe="/~") + (f"?{query}" if query else "")
    asked = {**headers, "Connection": "close", "Content-Length": str(len(body))}
    full = signed_by_botocore(method, store.endpoint + target, asked, (store.access_key, store.secret_key))
    head = "\r\n".join([f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in full.items()), "", ""])
    return head.encode("utf-8", "surrogatepass") + body


@tries(100)
@given(
    st.sampled_from(["GET", "PUT", "HEAD", "POST", "DELETE"]), paths, queries,
    st.dictionaries(HEADERS, WORDS, max_size=4), bodies,
)  # fmt: skip
def test_signed_request_is_answered_and_never_with_internal_error(
    witness: Witness, method: str, path: str, said: list[tuple[str, str]], headers: dict[str, str], body: str
) -> None:
    if method == "DELETE" and path in ("/locked", "/plain"):
        path += "/none"
    query = "&".join(f"{quote(name)}={quote(value)}" if value else quote(name) for name, value in said)
    data = signed(witness.store, method, path, query, headers, body.encode("utf-8", "surrogatepass"))
    statuses = witness.check_answers(witness.exchange(data, finishes=False))
    assert statuses, data  # each request gets an answer


READERS = (
    xml.parse_retention, xml.parse_legal_hold, xml.parse_versioning, xml.parse_lock_configuration,
    xml.parse_delete, xml.parse_completion,
)  # fmt: skip


@tries(120)
@given(st.sampled_from(READERS), st.sampled_from(DOCUMENTS).flatmap(damaged_text), st.booleans())
def test_damaged_xml_document_is_parsed_or_raises_s3_error(
    read: Callable[[bytes], object], text: str, is_utf_16: bool
) -> None:
    with suppress(S3Error):
        read(text.encode("utf-16" if is_utf_16 else "utf-8", "surrogatepass"))


def test_locked_objects_are_readable_after_fuzzing(witness: Witness) -> None:
    assert witness.store.is_running()
    for key, body in HELD.items():
        assert witness.client.get_object(Bucket="locked", Key=key)["Body"].read() == body
