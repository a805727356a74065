"""Signature Version 4 as a server checks it: who signed this request, and over what.

One idea: the server rebuilds the text that the client must have signed from the request as it came, and
compares. The text is defined in the S3 API reference, "Authenticating Requests: Using the Authorization
Header"; function names here are its terms. Everything is computed from values that are passed in, so that a
test needs no server.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from .credentials import Credential
from .s3_errors import S3Error

SKEW_SECONDS_MAX = 15 * 60
UNSIGNED = "UNSIGNED-PAYLOAD"

_ALGORITHM = "AWS4-HMAC-SHA256"
_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/s3/aws4_request\s*,\s*"
    r"SignedHeaders=([a-z0-9;._-]+)\s*,\s*Signature=([0-9a-f]{64})\s*"
)
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~-]*")


@dataclass(frozen=True, slots=True)
class Signed:
    """A request whose signature holds.

    A streaming payload's chunks are signed in a chain that begins with this.
    """

    credential: Credential
    payload_hash: str  # of the body in hexadecimal, or one of the names such as UNSIGNED-PAYLOAD
    signature: str
    signing_key: bytes
    timestamp: str
    scope: str


class Verifier:
    """Checks requests against a set of credentials, by the given clock."""

    def __init__(self, credentials: Mapping[str, Credential], now_seconds: Callable[[], float]) -> None:
        self._by_access_key = {each.access_key: each for each in credentials.values()}
        self._now_seconds = now_seconds

    def verify(self, method: str, raw_path: str, raw_query: str, headers: Mapping[str, str]) -> Signed:
        """Who signed. Header names are in lower case. Raises S3Error with Amazon's code for whatever is wrong."""
        authorization = headers.get("authorization")
        if authorization is None:
            if "X-Amz-Signature=" in raw_query:
                raise S3Error("NotImplemented", "presigned URLs are not offered; sign with the Authorization header")
            raise S3Error("AccessDenied", "the request is not signed; the store takes no anonymous requests")
        match = _AUTHORIZATION.fullmatch(authorization)
        if match is None:
            raise S3Error(
                "AuthorizationHeaderMalformed",
                f"the Authorization header must be that of {_ALGORITHM} for service s3",
            )
        access_key, date, region, signed_names, signature = match.groups()
        credential = self._by_access_key.get(access_key)
        if credential is None:
            raise S3Error(
                "InvalidAccessKeyId",
                f"access key {access_key} is not known here; see credentials.json of the store",
            )
        timestamp = headers.get("x-amz-date") or ""
        self._check_time(timestamp, date)
        payload_hash = headers.get("x-amz-content-sha256")
        if payload_hash is None:
            raise S3Error("InvalidRequest", "the header x-amz-content-sha256 is missing")
        names = signed_names.split(";")
        if "host" not in names:
            raise S3Error("AccessDenied", "the host header must be signed")
        canonical_headers = [f"{name}:{_header_value(headers.get(name, ''))}\n" for name in names]
        canonical_request = (
            f"{method}\n{_canonical_path(raw_path)}\n{_canonical_query(raw_query) if raw_query else ''}\n"
            f"{''.join(canonical_headers)}\n{signed_names}\n{payload_hash}"
        )
        scope = f"{date}/{region}/s3/aws4_request"
        digest = hashlib.sha256(canonical_request.encode("utf-8", "surrogateescape")).hexdigest()
        key = signing_key(credential.secret_key, date, region)
        expected = sign(key, f"{_ALGORITHM}\n{timestamp}\n{scope}\n{digest}")
        if not hmac.compare_digest(expected, signature):
            raise S3Error(
                "SignatureDoesNotMatch",
                "the signature does not match: check the secret key, and that no proxy changes the request",
            )
        return Signed(credential, payload_hash, signature, key, timestamp, scope)

    def _check_time(self, timestamp: str, date: str) -> None:
        try:
            request_seconds = _epoch_seconds(timestamp)
        except ValueError:
            raise S3Error("AccessDenied", "the header x-amz-date is missing or not like 20261121T180000Z") from None
        if not timestamp.startswith(date):
            raise S3Error("SignatureDoesNotMatch", "the date of the credential is not that of x-amz-date")
        now_seconds = self._now_seconds()
        if abs(request_seconds - now_seconds) > SKEW_SECONDS_MAX:
            server_time = datetime.fromtimestamp(now_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            raise S3Error(
                "RequestTimeTooSkewed",
                "the request's time and the store's differ by more than 15 minutes; set the client's clock",
                {"RequestTime": timestamp, "ServerTime": server_time, "MaxAllowedSkewMilliseconds": "900000"},
            )


@lru_cache(maxsize=64)
def _started_hmac(key: bytes) -> hmac.HMAC:
    """An HMAC that has the key but no text.

    `hmac.digest` would let go of the interpreter for two microseconds of work, and get it back from a busy writer
    thread a hundred later.
    """
    return hmac.new(key, digestmod="sha256")


@lru_cache(maxsize=64)
def signing_key(secret_key: str, date: str, region: str) -> bytes:
    """The key of a day and region; clients use one for thousands of requests."""
    key = b"AWS4" + secret_key.encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def sign(key: bytes, string_to_sign: str) -> str:
    started = _started_hmac(key).copy()
    started.update(string_to_sign.encode())
    return started.hexdigest()


@lru_cache(maxsize=8)
def _epoch_seconds(timestamp: str) -> float:
    return datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _header_value(value: str) -> str:
    return " ".join(value.split()) if "  " in value else value.strip()


def _canonical_path(raw_path: str) -> str:
    if _PLAIN_PATH.fullmatch(raw_path):
        return raw_path
    return quote(unquote_to_bytes(raw_path), safe="/-_.~")


def _canonical_query(raw_query: str) -> str:
    pairs = []
    for part in raw_query.split("&"):
        if part:
            name, _, value = part.partition("=")
            pairs.append((_encode(name), _encode(value)))
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def _encode(text: str) -> str:
    return quote(unquote_to_bytes(text), safe="-_.~")
