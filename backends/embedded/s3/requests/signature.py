"""Verification of Signature Version 4: which credential signed the request, and which parts of it.

One idea: the server rebuilds the text that the client must have signed from the received request, and compares the
signatures. The S3 API reference defines the text in "Authenticating Requests: Using the Authorization Header" and
"Using Query Parameters"; function names here are its terms. All functions compute from their arguments, so tests need
no server.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from archiver.values.sizes import format_instant

from ..credentials import Credential
from ..errors import S3Error, invalid_argument
from .presigned import (
    ALGORITHM,
    EXPIRES_SECONDS_MAX,
    SKEW_SECONDS_MAX,
    Presigned,
    Scope,
    epoch_seconds,
    query_pairs,
    refuse_token,
)

UNSIGNED = "UNSIGNED-PAYLOAD"

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/([0-9]{8})/([A-Za-z0-9-]+)/s3/aws4_request\s*,\s*"
    r"SignedHeaders=([a-z0-9;._-]+)\s*,\s*Signature=([0-9a-f]{64})\s*"
)
# The signed text has their values even if they are not among the signed headers.
_SIGNED_ANYWAY = {"x-amz-content-sha256", "x-amz-date"}
_BLANKS = re.compile("  +")  # SigV4 folds spaces only, no other white space
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._~-]*")


@dataclass(frozen=True, slots=True)
class Signed:
    """A request with a verified signature. The chain of chunk signatures of a streaming payload begins with it."""

    credential: Credential
    payload_hash: str  # of the body in hexadecimal, or one of the names such as UNSIGNED-PAYLOAD
    signature: str
    signing_key: bytes = field(repr=False)
    timestamp: str
    scope: str


class Verifier:
    """Verifies requests with a set of credentials and a clock."""

    def __init__(self, credentials: Mapping[str, Credential], now_seconds: Callable[[], float]) -> None:
        self._by_access_key = {each.access_key: each for each in credentials.values()}
        self._now_seconds = now_seconds

    def verify(self, method: str, raw_path: str, raw_query: str, headers: Mapping[str, str]) -> Signed:
        """Verify a request; header names are in lower case. Raises S3Error with Amazon's code if anything is wrong."""
        authorization = headers.get("authorization")
        presigned = Presigned.of(raw_query) if raw_query else None
        refuse_token(headers, "x-amz-security-token")
        if presigned is not None:
            if authorization is not None:
                raise invalid_argument("Only one auth mechanism allowed: header or query", "Authorization", "")
            return self._verify_presigned(presigned, method, raw_path, raw_query, headers)
        if authorization is None:
            raise S3Error("AccessDenied", "the request is not signed; the store takes no anonymous requests")
        match = _AUTHORIZATION.fullmatch(authorization)
        if match is None:
            raise S3Error(
                "AuthorizationHeaderMalformed",
                f"the Authorization header must be that of {ALGORITHM} for service s3",
            )
        access_key, date, region, signed_names, signature = match.groups()
        credential = self._credential(access_key)
        timestamp = headers.get("x-amz-date") or ""
        self._check_time(timestamp, date)
        payload_hash = headers.get("x-amz-content-sha256")
        if payload_hash is None:
            raise S3Error("InvalidRequest", "the header x-amz-content-sha256 is missing")
        request = _canonical_request(method, raw_path, raw_query, headers, signed_names, payload_hash)
        digest = hashlib.sha256(_bytes(request)).hexdigest()
        return _compare(credential, Scope(access_key, date, region), timestamp, digest, signature, payload_hash)

    def _verify_presigned(
        self, presigned: Presigned, method: str, raw_path: str, raw_query: str, headers: Mapping[str, str]
    ) -> Signed:
        credential = self._credential(presigned.scope.access_key)
        presigned.check_time(self._now_seconds())
        payload_hash = presigned.payload_hash or headers.get("x-amz-content-sha256", UNSIGNED)
        request = _canonical_request(method, raw_path, raw_query, headers, presigned.signed_names, payload_hash)
        digest = hashlib.sha256(_bytes(request)).hexdigest()
        signed = _compare(credential, presigned.scope, presigned.timestamp, digest, presigned.signature, payload_hash)
        presigned.check_headers()
        return signed

    def verify_policy(self, policy: str, scope: Scope, timestamp: str, signature: str) -> Signed:
        """Verify the signature of a form's policy. Does not check the policy's expiration. Raises S3Error."""
        credential = self._credential(scope.access_key)
        try:
            age_seconds = self._now_seconds() - epoch_seconds(timestamp)
        except ValueError:
            raise S3Error("AccessDenied", "the field x-amz-date is not like 20261121T180000Z") from None
        # A signing key is valid for seven days: "Calculating a Signature" in the S3 API reference.
        if not timestamp.startswith(scope.date) or not -SKEW_SECONDS_MAX <= age_seconds <= EXPIRES_SECONDS_MAX:
            raise S3Error("AccessDenied", "x-amz-date is not of the last seven days, or not that of x-amz-credential")
        if not hmac.compare_digest(sign(_key(credential, scope), policy).encode(), _bytes(signature)):
            raise _no_match()
        return Signed(credential, UNSIGNED, signature, _key(credential, scope), timestamp, scope.text)

    def _credential(self, access_key: str) -> Credential:
        credential = self._by_access_key.get(access_key)
        if credential is None:
            raise S3Error(
                "InvalidAccessKeyId",
                f"access key {access_key} is not known here; see credentials.json of the store",
            )
        return credential

    def _check_time(self, timestamp: str, date: str) -> None:
        try:
            request_seconds = epoch_seconds(timestamp)
        except ValueError:
            raise S3Error("AccessDenied", "the header x-amz-date is missing or not like 20261121T180000Z") from None
        if not timestamp.startswith(date):
            raise S3Error("SignatureDoesNotMatch", "the date of the credential is not that of x-amz-date")
        now_seconds = self._now_seconds()
        if abs(request_seconds - now_seconds) > SKEW_SECONDS_MAX:
            server_time = format_instant(now_seconds)
            raise S3Error(
                "RequestTimeTooSkewed",
                "the request's time and the store's differ by more than 15 minutes; set the client's clock",
                {"RequestTime": timestamp, "ServerTime": server_time, "MaxAllowedSkewMilliseconds": "900000"},
            )


@lru_cache(maxsize=64)
def _started_hmac(key: bytes) -> hmac.HMAC:
    """Return an HMAC with the key and no text.

    `hmac.digest` releases the GIL for two microseconds of work, and gets it back from a busy writer thread after 100.
    """
    return hmac.new(key, digestmod="sha256")


@lru_cache(maxsize=64)
def signing_key(secret_key: str, date: str, region: str) -> bytes:
    """Return the signing key of a day and region. Clients use one for thousands of requests."""
    key = b"AWS4" + secret_key.encode()
    for part in (date, region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def sign(key: bytes, string_to_sign: str) -> str:
    started = _started_hmac(key).copy()
    started.update(_bytes(string_to_sign))
    return started.hexdigest()


def _canonical_request(
    method: str, raw_path: str, raw_query: str, headers: Mapping[str, str], signed_names: str, payload_hash: str
) -> str:
    """Build the signed text. Raises S3Error if a required header is unsigned or a signed header is missing."""
    names = signed_names.split(";")
    if "host" not in names:
        raise S3Error("AccessDenied", "the host header must be signed")
    unsigned = sorted(name for name in headers.keys() - names - _SIGNED_ANYWAY if name.startswith("x-amz-"))
    if unsigned:
        raise S3Error(
            "AccessDenied",
            "There were headers present in the request which were not signed",
            {"HeadersNotSigned": ", ".join(unsigned)},
        )
    if not headers.keys() >= set(names):
        raise _no_match()
    canonical_headers = [f"{name}:{_header_value(headers[name])}\n" for name in names]
    return (
        f"{method}\n{_canonical_path(raw_path)}\n{_canonical_query(raw_query) if raw_query else ''}\n"
        f"{''.join(canonical_headers)}\n{signed_names}\n{payload_hash}"
    )


def _compare(
    credential: Credential, scope: Scope, timestamp: str, digest: str, signature: str, payload_hash: str
) -> Signed:
    """Return the verified signature of the canonical request with this digest. Raises S3Error if it does not match."""
    key = _key(credential, scope)
    expected = sign(key, f"{ALGORITHM}\n{timestamp}\n{scope.text}\n{digest}")
    if not hmac.compare_digest(expected.encode(), _bytes(signature)):
        raise _no_match()
    return Signed(credential, payload_hash, signature, key, timestamp, scope.text)


def _key(credential: Credential, scope: Scope) -> bytes:
    return signing_key(credential.secret_key, scope.date, scope.region)


def _bytes(text: str) -> bytes:
    """Return the received bytes of a text, also if they are not UTF-8."""
    return text.encode("utf-8", "surrogateescape")


def _no_match() -> S3Error:
    return S3Error(
        "SignatureDoesNotMatch",
        "the signature does not match: check the secret key, and that no proxy changes the request",
    )


def _header_value(value: str) -> str:
    value = value.strip(" \t")
    return _BLANKS.sub(" ", value) if "  " in value else value


def _canonical_path(raw_path: str) -> str:
    if _PLAIN_PATH.fullmatch(raw_path):
        return raw_path
    return quote(unquote_to_bytes(raw_path), safe="/-_.~")


def _canonical_query(raw_query: str) -> str:
    """Return the canonical query, without the signature of a presigned URL."""
    pairs = [(_encode(name), _encode(value)) for name, value in query_pairs(raw_query) if name != "X-Amz-Signature"]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def _encode(text: str) -> str:
    return quote(text, safe="-_.~", errors="surrogateescape")
