"""Requests that are signed before they are sent.

One idea: a check prepares a request first if it must leave at an exact instant or with a shifted date. Sending it then
only writes bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

from botocore.auth import SIGV4_TIMESTAMP, S3SigV4Auth
from botocore.awsrequest import AWSRequest

from archiver.worm.requests.exchange import Answer, Headers, S3Client, target_of
from archiver.worm.verdict import NotTried


class Prepared(NamedTuple):
    """One signed request, to be sent once."""

    client: S3Client
    method: str
    target: str
    headers: Headers
    body: bytes

    def send(self) -> Answer:
        """Send it. 5xx and 429 are returned: their effect is unknown. Raises Inconclusive if no answer comes."""
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
    """Sign a request. The arguments are those of ``S3Client.send``.

    ``shift_seconds`` is added to the date of the signature. Raises NotTried for an anonymous client.
    """
    if client.credentials is None:
        raise NotTried("needs a credential to sign with")
    target = target_of(bucket, key, query)
    signing = client.signing_headers(
        method, target, headers, body, partial(_ShiftedAuth, timedelta(seconds=shift_seconds))
    )
    return Prepared(client, method, target, (*headers, *signing), body)


class _ShiftedAuth(S3SigV4Auth):  # type: ignore[misc]
    """Signs with a shifted date."""

    def __init__(self, shift: timedelta, *given: Any) -> None:
        super().__init__(*given)
        self._shift = shift

    def _modify_request_before_signing(self, request: AWSRequest) -> None:
        ours = datetime.strptime(request.context["timestamp"], SIGV4_TIMESTAMP)
        request.context["timestamp"] = (ours + self._shift).strftime(SIGV4_TIMESTAMP)
        super()._modify_request_before_signing(request)
