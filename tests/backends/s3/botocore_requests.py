"""Comparison of the signatures of sent requests with botocore's."""

from __future__ import annotations

import re

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from tests.support.servers.scripted import Request

_AUTHORIZATION = re.compile(r"AWS4-HMAC-SHA256 Credential=(\S+), SignedHeaders=(\S+), Signature=([0-9a-f]{64})")


def sent_and_botocore(head: bytes, signer_arguments: tuple[str, str, str, str | None]) -> tuple[str, str]:
    """Return the Authorization header of a sent head, and the one that botocore computes for the same request."""
    access_key, secret_key, region, token = signer_arguments
    lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    method, target, version = lines[0].split(" ")
    assert version == "HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines[1:])
    sent = headers.pop("Authorization")
    match = _AUTHORIZATION.fullmatch(sent)
    assert match is not None, sent
    signed = {name: value for name, value in headers.items() if name in match[2].split(";")}
    request = AWSRequest(method, f"http://{headers['host']}{target}", headers=signed)
    request.context["timestamp"] = headers["x-amz-date"]
    auth = S3SigV4Auth(BotocoreCredentials(access_key, secret_key, token), "s3", region)
    canonical = auth.canonical_request(request)
    signature = auth.signature(auth.string_to_sign(request, canonical), request)
    names = auth.signed_headers(auth.headers_to_sign(request))
    return sent, f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={names}, Signature={signature}"


def check_signature(request: Request) -> None:
    sent, expected = sent_and_botocore(request.head + b"\r\n\r\n", ("AKIDEXAMPLE", "very-secret", "us-east-1", None))
    assert sent == expected
