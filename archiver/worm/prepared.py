"""Requests that are signed before they are sent.

One idea: a check prepares a request first if it must leave at an exact instant or with a shifted date. Sending it then
only writes bytes.
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
    target = "/" + bucket + ("" if key is None else "/" + quote(key, safe="/~")) + query_text(query)
    request = AWSRequest(method, client.url(target), headers=dict(headers), data=body)
    given = client.credentials
    credentials = BotoCredentials(given.access_key, given.secret_key, given.session_token)
    _ShiftedAuth(credentials, client.region, shift_seconds).add_auth(request)
    return Prepared(client, method, target, tuple(request.headers.items()), body)


class _ShiftedAuth(S3SigV4Auth):  # type: ignore[misc]
    """Signs with a shifted date."""

    def __init__(self, credentials: BotoCredentials, region: str, shift_seconds: float) -> None:
        super().__init__(credentials, "s3", region)
        self._shift = timedelta(seconds=shift_seconds)

    def _modify_request_before_signing(self, request: AWSRequest) -> None:
        ours = datetime.strptime(request.context["timestamp"], SIGV4_TIMESTAMP)
        request.context["timestamp"] = (ours + self._shift).strftime(SIGV4_TIMESTAMP)
        super()._modify_request_before_signing(request)
