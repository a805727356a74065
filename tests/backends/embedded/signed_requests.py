"""Requests that botocore signs."""

from __future__ import annotations

from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

SECRET = "a secret of forty characters, or roughly so"


class _Signer(S3SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """botocore's signer with a payload hash that the test sets."""

    payload_hash = "UNSIGNED-PAYLOAD"

    def payload(self, request: AWSRequest) -> str:
        return self.payload_hash


def signed_by_botocore(
    method: str, url: str, headers: dict[str, str], credentials: tuple[str, str] = ("KEY", SECRET)
) -> dict[str, str]:
    """All headers of the request as botocore would send it."""
    headers = dict(headers)
    signer = _Signer(Credentials(*credentials), "s3", "eu-west-1")
    signer.payload_hash = headers.pop("x-amz-content-sha256", signer.payload_hash)
    request = AWSRequest(method, url, headers={**headers, "Host": urlsplit(url).netloc})
    signer.add_auth(request)
    return dict(request.headers.items())
