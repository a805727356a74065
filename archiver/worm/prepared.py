"""Requests that are signed before they are sent.

One idea: what must leave at a given instant, or with another date than ours, is made ready first; sending it is then no
more than writing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from urllib.parse import quote

from botocore.auth import SIGV4_TIMESTAMP, S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials

from archiver.worm.requests.exchange import Answer, Headers, S3Client, query_text
from archiver.worm.verdict import NotTried


class Prepared(NamedTuple):
    """One request, ready to be sent once."""

    client: S3Client
    method: str
    target: str
    headers: Headers
    body: bytes

    def send(self) -> Answer:
        """5xx and 429 are answers like any other: what they did is unknown. Raises Inconclusive for silence."""
        return self.client.send_as_is(self.method, self.target, self.headers, self.body, unsure=True)


def prepare(
    client: S3Client,
    method: str,
    bucket: str,
    key: str | None = None,
    *,
    query: Sequence[tuple[str, str | None]] = (),
    headers: Headers = (),
    body: bytes = b"",
    shift_seconds: float = 0.0,
) -> Prepared:
    """As ``S3Client.send`` takes it; its date is shifted from our clock's. Raises NotTried for an anonymous client."""
    if client.credentials is None:
        raise NotTried("needs a credential to sign with")
    target = "/" + bucket + ("" if key is None else "/" + quote(key, safe="/~")) + query_text(query)
    request = AWSRequest(method, client.url(target), headers=dict(headers), data=body)
    given = client.credentials
    credentials = BotoCredentials(given.access_key, given.secret_key, given.session_token)
    _ShiftedAuth(credentials, client.region, shift_seconds).add_auth(request)
    return Prepared(client, method, target, tuple(request.headers.items()), body)


class _ShiftedAuth(S3SigV4Auth):  # type: ignore[misc]
    """Signs with a date of its own."""

    def __init__(self, credentials: BotoCredentials, region: str, shift_seconds: float) -> None:
        super().__init__(credentials, "s3", region)
        self._shift = timedelta(seconds=shift_seconds)

    def _modify_request_before_signing(self, request: AWSRequest) -> None:
        ours = datetime.strptime(request.context["timestamp"], SIGV4_TIMESTAMP)
        request.context["timestamp"] = (ours + self._shift).strftime(SIGV4_TIMESTAMP)
        super()._modify_request_before_signing(request)
