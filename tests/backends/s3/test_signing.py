"""Signatures: Amazon's examples, a comparison of every request with botocore, and secrets that are never shown."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.s3.control import Credentials
from backends.s3.setting import S3WorkerSetting
from backends.s3.wire.signing import EMPTY_SHA256, RequestTemplate, Signer, encode_path
from tests.backends.s3.botocore_requests import sent_and_botocore
from tests.backends.s3.s3_sessions import worker_setting

SECOND = 1_795_258_407  # 2026-11-21 10:53:27 UTC
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


# Amazon S3 API Reference, "Signature Calculations for the Authorization Header: Transferring Payload in a Single
# Chunk", its four examples.
@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "signature"),
    [
        ("GET", b"/test.txt", "", {"range": "bytes=0-9"},
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
        ("PUT", b"/test%24file.text", "", {
            "date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY",
            "x-amz-content-sha256": "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
        }, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
        ("GET", b"/", "lifecycle=", {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("GET", b"/", "max-keys=2&prefix=J", {}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)  # fmt: skip
def test_signature_equals_amazons_example(
    method: str, path: bytes, query: str, headers: dict[str, str], signature: str
) -> None:
    fixed = {"x-amz-content-sha256": EMPTY_SHA256, **headers}
    template = RequestTemplate(method, "examplebucket.s3.amazonaws.com", fixed, query=query)
    template.compile(Signer("AKIAIOSFODNN7EXAMPLE", SECRET, "us-east-1"), 1_369_353_600, {})
    assert f"Signature={signature}\r\n".encode() in template.head(path)


@pytest.mark.parametrize("token", [None, "a/session+token==", "a%token%b"])
@pytest.mark.parametrize(
    ("method", "path", "query", "fixed", "variable", "dated"),
    [
        ("GET", "/bucket/run/000000000001", "", {"x-amz-content-sha256": EMPTY_SHA256}, {}, {}),
        ("HEAD", "/bucket", "", {"x-amz-content-sha256": EMPTY_SHA256}, {}, {}),
        ("GET", "/bucket", "object-lock=", {}, {}, {}),
        ("GET", "/bucket", "list-type=2&prefix=a%20b%2Fc", {}, {}, {}),
        ("PUT", "/bucket/run/000000000001", "", {}, {}, {}),
        ("PUT", "/bucket/run/1", "", {"x-amz-object-lock-mode": "GOVERNANCE"},
         {"x-amz-checksum-crc32c": b"yZRlqg=="}, {"x-amz-object-lock-retain-until-date": "2026-11-21T11:00:00Z"}),
        ("PUT", "/bucket/run/1", "", {"x-amz-object-lock-legal-hold": "ON"}, {"content-md5": b"AAAA/+8="}, {}),
        ("PUT", "/bucket/run/1", "", {},
         {"content-md5": b"AAAA/+8=", "x-amz-content-sha256": EMPTY_SHA256.encode()}, {}),
        ("PUT", "/bucket/run/1", "", {"x-amz-meta-share": "100%", "x-amz-meta-b": "%b %s %%"}, {}, {}),
        ("PUT", "/bucket/a b+c%d/é/~(x)!*'/1", "", {}, {"x-amz-checksum-crc64nvme": b"%b%%="}, {}),
        ("DELETE", "/bucket/run/1", "versionId=3sL4kqt", {}, {}, {}),
    ],
)  # fmt: skip
def test_every_request_is_signed_as_botocore_signs_it(
    method: str, path: str, query: str, fixed: dict[str, str], variable: dict[str, bytes], dated: dict[str, str],
    token: str | None,
) -> None:  # fmt: skip
    signer = ("AKIDEXAMPLE", SECRET, "eu-central-1", token)
    template = RequestTemplate(
        method, "store:9000", fixed, variable=tuple(variable), unsigned={"Content-Length": "5"}, query=query
    )
    template.compile(Signer(*signer), SECOND, dated)
    head = template.head(encode_path(path).encode(), tuple(variable.values()))
    sent, expected = sent_and_botocore(head, signer)
    assert sent == expected
    assert head.startswith(f"{method} {encode_path(path)}{'?' if query else ''}{query} HTTP/1.1\r\n".encode())
    assert b"\r\nContent-Length: 5\r\n" in head
    for name, value in (fixed | dated).items():
        assert f"\r\n{name}: {value}\r\n".encode() in head
    for name, raw in variable.items():
        assert f"\r\n{name}: ".encode() + raw + b"\r\n" in head
    assert (f"\r\nx-amz-security-token: {token}\r\n".encode() in head) == (token is not None)


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1).map(lambda path: f"/bucket/{path}"),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1),
    st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1),
    st.integers(0, 4_000_000_000),
)
def test_any_path_header_secret_and_second_is_signed_as_botocore_signs_it(
    path: str, value: str, variable: str, secret: str, second: int
) -> None:
    signer = ("AKIDEXAMPLE", secret, "us-east-1", None)
    template = RequestTemplate("PUT", "store", {"x-amz-meta-a": value}, variable=("x-amz-meta-b",))
    template.compile(Signer(*signer), second, {})
    sent, expected = sent_and_botocore(template.head(encode_path(path).encode(), (variable.encode(),)), signer)
    assert sent == expected


@given(st.text(st.characters(codec="utf-8"), min_size=1), st.booleans())
def test_variable_query_is_signed_like_botocore(version: str, has_header: bool) -> None:
    signer = ("AKIDEXAMPLE", SECRET, "us-east-1", None)
    variable = ("x-amz-meta-b",) if has_header else ()
    template = RequestTemplate(
        "DELETE", "store", {"x-amz-meta-a": "100%"}, variable=variable, query="versionId=", query_varies=True
    )
    template.compile(Signer(*signer), SECOND, {})
    encoded = quote(version, safe="-_.~")
    head = template.head(b"/bucket/run/1", (encoded.encode(), *([b"%b"] if has_header else [])))
    sent, expected = sent_and_botocore(head, signer)
    assert sent == expected
    assert head.startswith(f"DELETE /bucket/run/1?versionId={encoded} HTTP/1.1\r\n".encode())


@pytest.mark.parametrize("access_key", ["AKIDEXAMPLE", "100%b", "a%key%"])
def test_an_access_key_may_have_a_percent_sign(access_key: str) -> None:
    signer = (access_key, SECRET, "us-east-1", None)
    template = RequestTemplate("GET", "store", {})
    template.compile(Signer(*signer), SECOND, {})
    sent, expected = sent_and_botocore(template.head(b"/bucket/1"), signer)
    assert sent == expected


@given(st.text(st.characters(codec="utf-8")))
def test_encoded_path_is_ascii_and_decodes_to_original(path: str) -> None:
    encoded = encode_path(path)
    assert unquote(encoded) == path
    assert re.fullmatch(r"[A-Za-z0-9/_.~%-]*", encoded)


def test_payload_is_unsigned_unless_the_request_has_its_hash() -> None:
    signer = Signer("AKIDEXAMPLE", SECRET, "us-east-1")
    plain, signed = (
        RequestTemplate("PUT", "store", {}, variable=variable) for variable in ((), ("x-amz-content-sha256",))
    )
    for template in (plain, signed):
        template.compile(signer, SECOND, {})
    assert b"\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n" in plain.head(b"/b/1")
    assert f"\r\nx-amz-content-sha256: {'ab' * 32}\r\n".encode() in signed.head(b"/b/1", (b"ab" * 32,))


def test_signing_key_changes_only_with_the_day() -> None:
    signer = Signer("AKIDEXAMPLE", SECRET, "us-east-1")
    midnight = 1_795_219_200
    assert time.gmtime(midnight)[3:6] == (0, 0, 0)
    keys, scopes = [], []
    for second in (midnight - 1, midnight, midnight + 86_399, midnight + 86_400, midnight - 1):
        moment = signer.moment(second)
        keys.append(moment.outer.digest())  # of the key alone: the message is not in it yet
        scopes.append(moment.credential)
    assert keys[1] == keys[2]
    assert keys[0] == keys[4]
    assert len(set(keys)) == 3
    assert scopes[0] == "AKIDEXAMPLE/20261120/us-east-1/s3/aws4_request"
    assert scopes[1] == "AKIDEXAMPLE/20261121/us-east-1/s3/aws4_request"


def test_signatures_around_midnight_equal_botocores() -> None:
    arguments = ("AKIDEXAMPLE", SECRET, "us-east-1", None)
    signer, template = Signer(*arguments), RequestTemplate("GET", "store", {})
    for second in (1_795_219_199, 1_795_219_200):
        template.compile(signer, second, {})
        sent, expected = sent_and_botocore(template.head(b"/bucket/1"), arguments)
        assert sent == expected


def test_moment_is_reused_within_one_second() -> None:
    signer = Signer("AKIDEXAMPLE", SECRET, "us-east-1")
    assert signer.moment(SECOND) is signer.moment(SECOND)
    assert signer.moment(SECOND) is not signer.moment(SECOND + 1)


def test_no_secret_shows_in_any_representation() -> None:
    signer = Signer("AKIDEXAMPLE", SECRET, "us-east-1", "the-session-token")
    signer.moment(SECOND)
    setting: S3WorkerSetting = replace(
        worker_setting("http://store"), secret_key=SECRET, session_token="the-session-token"
    )
    credentials = Credentials("AKIDEXAMPLE", SECRET, "the-session-token")
    for value in (signer, signer.moment(SECOND), setting, credentials):
        for text in (repr(value), str(value), f"{value}", repr([value])):
            assert SECRET not in text
            assert "the-session-token" not in text
            assert "HASH" not in text
    assert "AKIDEXAMPLE" in repr(signer)
