"""Credentials with fewer permissions on MinIO and versitygw.

Both servers accept a policy in Amazon's form that allows everything and denies what the credential's name states. MinIO
accepts it with AssumeRole, for all buckets. versitygw needs an account first, and then a policy of the bucket.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import urllib.request
from typing import Any

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from archiver.platforms.servers import Server
from tests.support.servers.real import client_of

_BYPASS, _RETENTION, _HOLD = "s3:BypassGovernanceRetention", "s3:PutObjectRetention", "s3:PutObjectLegalHold"
_DELETE = ("s3:DeleteObject", "s3:DeleteObjectVersion")
DENIED: dict[str, tuple[str, ...]] = {
    "no-bypass": (_BYPASS,),
    "no-retention": (_RETENTION,),
    "no-hold": (_HOLD,),
    "no-delete": _DELETE,
    "reader": (_BYPASS, _RETENTION, _HOLD, *_DELETE),
}


def _statements(name: str, bucket: str, **principal: Any) -> list[dict[str, Any]]:
    """Allow everything in the bucket, and deny what the name states."""
    both, objects = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"], [f"arn:aws:s3:::{bucket}/*"]
    return [
        {"Effect": "Allow", "Action": ["s3:*"], "Resource": both, **principal},
        {"Effect": "Deny", "Action": list(DENIED[name]), "Resource": objects, **principal},
    ]


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


class MinioCredentials:
    """Temporary credentials of the root user, each with a session policy."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._clients: dict[str, Any] = {}

    def client(self, name: str, bucket: str) -> Any:
        """A client with the credential of that name."""
        if name not in self._clients:
            policy = _policy(_statements(name, "*"))
            # MinIO ignores the role, but boto3 requires one.
            given = client_of(self._server, "sts").assume_role(
                RoleArn="arn:aws:iam::000000000000:role/ignored", RoleSessionName=name, Policy=policy
            )["Credentials"]
            self._clients[name] = client_of(
                self._server, access_key=given["AccessKeyId"], secret_key=given["SecretAccessKey"],
                session_token=given["SessionToken"],
            )  # fmt: skip
        return self._clients[name]


class VersityGatewayCredentials:
    """Accounts created through the admin API, which get access by a bucket's policy."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._root = client_of(server)
        self._clients: dict[str, Any] = {}

    def client(self, name: str, bucket: str) -> Any:
        """A client with the credential of that name, which gets access to the bucket."""
        if name not in self._clients:
            secret = secrets.token_hex(16)
            self._create_account(name, secret)
            self._clients[name] = client_of(self._server, access_key=name, secret_key=secret)
        self._root.put_bucket_policy(
            Bucket=bucket, Policy=_policy(_statements(name, bucket, Principal={"AWS": [name]}))
        )
        return self._clients[name]

    def _create_account(self, name: str, secret: str) -> None:
        body = (
            f"<Account><Access>{name}</Access><Secret>{secret}</Secret><Role>user</Role>"
            "<UserID>0</UserID><GroupID>0</GroupID><ProjectID>0</ProjectID></Account>"
        ).encode()
        signed = AWSRequest("PATCH", f"{self._server.endpoint}/create-user", data=body)
        signed.headers["X-Amz-Content-Sha256"] = hashlib.sha256(body).hexdigest()
        access = self._server.access
        S3SigV4Auth(Credentials(access.access_key, access.secret_key), "s3", "us-east-1").add_auth(signed)
        request = urllib.request.Request(signed.url, data=body, method="PATCH", headers=dict(signed.headers))
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 201
