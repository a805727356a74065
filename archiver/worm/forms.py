"""Uploads with a browser's form, whose signature is one of its fields."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import timedelta

from botocore.auth import S3SigV4PostAuth
from botocore.awsrequest import AWSRequest

from archiver.worm.case import Case, Version, iso
from archiver.worm.requests.exchange import Answer, S3Client

FORM_SECONDS = 60  # a form has its signature in its body, so it must expire soon
_FORM_SECRETS = ("policy", "x-amz-credential", "x-amz-security-token", "x-amz-signature")


def send_form(
    case: Case, client: S3Client, place: tuple[str, str], wanted: Mapping[str, str], body: bytes
) -> tuple[Answer, Version]:
    """Upload to a bucket and a key: every field of ``wanted`` is in the form, and its policy is signed."""
    bucket, key = place
    ends = case.now() + timedelta(seconds=FORM_SECONDS)
    conditions = [{"bucket": bucket}, {"key": key}, *({name: value} for name, value in wanted.items())]
    request = AWSRequest("POST", client.url(f"/{bucket}"))
    request.context["s3-presign-post-fields"] = fields = {"key": key, **wanted}
    request.context["s3-presign-post-policy"] = {"expiration": iso(ends), "conditions": conditions}
    S3SigV4PostAuth(client.signing_credentials, "s3", client.region).add_auth(request)
    edge = f"edge-{secrets.token_hex(16)}"
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    parts.append(
        f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="record"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    form = "".join(parts).encode() + body + f"\r\n--{edge}--\r\n".encode()
    headers = (("Content-Type", f"multipart/form-data; boundary={edge}"),)
    hidden = [value for name, value in fields.items() if name in _FORM_SECRETS]
    answer = client.send_as_is("POST", f"/{bucket}", headers, form, secrets=hidden)
    return answer, Version(bucket, key, answer.version_id or "", body)
