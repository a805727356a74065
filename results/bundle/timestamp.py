"""RFC 3161 timestamps of a bundle's manifest, by an independent time-stamping authority.

A request contains only the SHA-256 of the manifest and a nonce.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import requests
from cryptography.x509 import load_pem_x509_certificates
from rfc3161_client import (
    HashAlgorithm,
    TimestampRequestBuilder,
    TimeStampResponse,
    VerificationError,
    VerifierBuilder,
    decode_timestamp_response,
)
from rfc3161_client.tsp import PKIStatus

from archiver.values.errors import PlatformError, ResultsError, UsageError

_PIECE_BYTES = 4 << 10
_TIMEOUT_SECONDS = 30
_CONTENT_TYPE = {"Content-Type": "application/timestamp-query"}  # RFC 3161, section 3.4


def request_timestamp(manifest: bytes, url: str, bytes_max: int) -> bytes:
    """Return the answer of the authority at ``url``: a TimeStampResp of RFC 3161 in DER, of at most ``bytes_max``.

    Raises PlatformError if it is unreachable, refuses, or answers another request.
    """
    request = TimestampRequestBuilder().data(manifest).hash_algorithm(HashAlgorithm.SHA256).build()
    content = _post(url, request.as_bytes(), bytes_max)
    try:
        response = decode_timestamp_response(content)
        if response.status != PKIStatus.GRANTED:
            raise PlatformError(f"--timestamp {url}: refused: {'; '.join(response.status_string) or response.status}")
        stamped = response.tst_info
    except ValueError as error:
        raise PlatformError(f"--timestamp {url}: did not answer with an RFC 3161 timestamp: {error}") from error
    if (stamped.nonce, stamped.message_imprint.message) != (request.nonce, request.message_imprint.message):
        raise PlatformError(f"--timestamp {url}: answered with the timestamp of another request")
    return content


def stamped_at(manifest: bytes, timestamp: bytes, certificate: Path) -> datetime:
    """Return the instant at which the manifest existed, by the authority's clock.

    ``certificate`` is a PEM file with the authority's root certificate; several are allowed. Each must have been valid
    at that instant. Raises ResultsError if the timestamp is not of this manifest, or by another authority. Raises
    UsageError if ``certificate`` is unreadable.
    """
    try:
        roots = load_pem_x509_certificates(certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageError(f"--timestamp-certificate {certificate}: is not a PEM certificate: {error}") from error
    try:
        response: TimeStampResponse = decode_timestamp_response(timestamp)
        VerifierBuilder(roots=roots).build().verify_message(response, manifest)
        return response.tst_info.gen_time
    except ValueError as error:
        raise ResultsError(f"is not an RFC 3161 timestamp: {error}") from error
    except VerificationError as error:
        raise ResultsError(f"is not of this bundle's manifest by an authority of {certificate}: {error}") from error


def _post(url: str, request: bytes, bytes_max: int) -> bytes:
    try:
        with requests.post(url, data=request, headers=_CONTENT_TYPE, timeout=_TIMEOUT_SECONDS, stream=True) as answer:
            answer.raise_for_status()
            content = b""
            for piece in answer.iter_content(_PIECE_BYTES):
                content += piece
                if len(content) > bytes_max:
                    raise PlatformError(f"--timestamp {url}: answered with more than {bytes_max:,} bytes")
            return content
    except requests.RequestException as error:
        raise PlatformError(f"--timestamp {url}: sent no timestamp: {error}") from error
