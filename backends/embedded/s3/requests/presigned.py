"""Presigned URLs: requests whose signature is in the query and is valid for a limited time.

One idea: a signer passes a URL on, so the URL may request no more than its signer signed. This module parses the query
and checks the time. `signature` compares the signature, as for every other request. "Authenticating Requests: Using
Query Parameters" in the S3 API reference defines the names and the limits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import unquote_plus

from archiver.values.sizes import format_instant

from ..errors import S3Error, plain_number

ALGORITHM = "AWS4-HMAC-SHA256"
EXPIRES_SECONDS_MAX = 7 * 24 * 3600
SKEW_SECONDS_MAX = 15 * 60

_CREDENTIAL = re.compile(r"([^/,\s]+)/([0-9]{8})/([A-Za-z0-9-]+)/s3/aws4_request")
_SIGNED_NAMES = re.compile(r"[a-z0-9;._-]+")
_NAMES = (
    "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders", "X-Amz-Signature",
)  # fmt: skip
_OLD_NAMES = ("AWSAccessKeyId", "Signature")  # of Signature Version 2
_PAYLOAD_HASH, _TOKEN = "X-Amz-Content-Sha256", "X-Amz-Security-Token"
# Clients put these into the query. Ignoring them has no effect on the result.
_WITHOUT_EFFECT = ("x-amz-checksum-mode", "x-amz-sdk-checksum-algorithm", "x-amz-user-agent")


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a signature: access key, day and region."""

    access_key: str
    date: str
    region: str

    @property
    def text(self) -> str:
        return f"{self.date}/{self.region}/s3/aws4_request"

    @classmethod
    def of(cls, credential: str) -> Scope | None:
        """Parse ACCESSKEY/20261121/REGION/s3/aws4_request; None if the text has another form."""
        match = _CREDENTIAL.fullmatch(credential)
        return None if match is None else cls(*match.groups())


@dataclass(frozen=True, slots=True)
class Presigned:
    """The signature parameters in the query of a presigned URL."""

    scope: Scope
    timestamp: str
    expires_seconds: int
    signed_names: str
    signature: str
    payload_hash: str | None  # None: the body is not signed, unless a header says so
    misplaced: tuple[str, ...]  # headers that the query names

    @classmethod
    def of(cls, raw_query: str) -> Presigned | None:
        """Parse the query; None if it has no signature. Raises S3Error if the parameters are incomplete or
        malformed.
        """
        if "Amz-" not in raw_query and "Signature=" not in raw_query:
            return None
        pairs = query_pairs(raw_query)
        names = [name for name, _ in pairs]
        given = dict(pairs)
        if "X-Amz-Algorithm" not in given and "X-Amz-Signature" not in given:
            if all(name in given for name in _OLD_NAMES):
                raise S3Error("InvalidRequest", "the URL is signed by Signature Version 2; use AWS4-HMAC-SHA256")
            return None
        wrong = next((name for name in _NAMES if names.count(name) != 1), None)
        if wrong is not None:
            raise _malformed(f"a presigned URL has each of {', '.join(_NAMES)} once; see {wrong}")
        refuse_token(given, _TOKEN)
        if given["X-Amz-Algorithm"] != ALGORITHM:
            raise _malformed(f"X-Amz-Algorithm only supports {ALGORITHM}")
        scope = Scope.of(given["X-Amz-Credential"])
        if scope is None:
            raise _malformed("X-Amz-Credential must be like ACCESSKEY/20261121/REGION/s3/aws4_request")
        if not given["X-Amz-Date"].startswith(scope.date):
            raise _malformed("the date of X-Amz-Credential is not that of X-Amz-Date")
        if _SIGNED_NAMES.fullmatch(given["X-Amz-SignedHeaders"]) is None:
            raise _malformed("X-Amz-SignedHeaders must be names in lower case with ; between them")
        return cls(
            scope,
            given["X-Amz-Date"],
            _expires_seconds(given["X-Amz-Expires"]),
            given["X-Amz-SignedHeaders"],
            given["X-Amz-Signature"],
            given.get(_PAYLOAD_HASH),
            tuple(name for name in names if name not in (*_NAMES, _PAYLOAD_HASH) and _is_misplaced(name.lower())),
        )

    def check_time(self, now_seconds: float) -> None:
        """Return if the URL is valid now. Raises S3Error if it is not yet valid or has expired."""
        try:
            signed_seconds = epoch_seconds(self.timestamp)
        except ValueError:
            raise _malformed("X-Amz-Date must be like 20261121T180000Z") from None
        if signed_seconds > now_seconds + SKEW_SECONDS_MAX:
            raise S3Error("AccessDenied", "Request is not valid yet", {"ServerTime": format_instant(now_seconds)})
        ends_seconds = signed_seconds + self.expires_seconds
        if now_seconds > ends_seconds:
            raise S3Error(
                "AccessDenied",
                "Request has expired",
                {
                    "X-Amz-Expires": str(self.expires_seconds),
                    "Expires": format_instant(ends_seconds),
                    "ServerTime": format_instant(now_seconds),
                },
            )

    def check_headers(self) -> None:
        """Raise S3Error if the signer put a header of S3 into the query, where the server would ignore it."""
        if self.misplaced:
            raise S3Error(
                "AccessDenied",
                f"{', '.join(self.misplaced)}: a header of S3 counts where it is signed and sent, not in the query",
            )


def query_pairs(raw_query: str) -> list[tuple[str, str]]:
    """Return decoded names and values in their order. A plus sign is a space, as in `parse_query`."""
    pairs = [part.partition("=") for part in raw_query.split("&") if part]
    return [(_decoded(name), _decoded(value)) for name, _, value in pairs]


@lru_cache(maxsize=8)
def epoch_seconds(timestamp: str) -> float:
    """Parse a timestamp like 20261121T180000Z. Raises ValueError."""
    return datetime.strptime(timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def refuse_token(given: Mapping[str, str], name: str) -> None:
    """Raise S3Error for a session token: the store's credentials are permanent and have none."""
    if name in given:
        raise S3Error("InvalidToken", "the store gives no session tokens; sign with its own credentials alone")


def _is_misplaced(name: str) -> bool:
    return name.startswith("x-amz-") and name not in _WITHOUT_EFFECT


def _expires_seconds(text: str) -> int:
    seconds = plain_number(text)
    if seconds is None:
        raise _malformed("X-Amz-Expires must be a number of seconds")
    if not 1 <= seconds <= EXPIRES_SECONDS_MAX:
        raise _malformed(f"X-Amz-Expires must be from 1 to {EXPIRES_SECONDS_MAX} seconds")
    return seconds


def _malformed(message: str) -> S3Error:
    return S3Error("AuthorizationQueryParametersError", message)


def _decoded(text: str) -> str:
    return unquote_plus(text, errors="surrogateescape")
