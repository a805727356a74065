"""Clients whose credentials lack one right, created in the way of each platform.

One idea: a platform makes credentials that live as long as the run. The checks do not trust them: each check that uses
one verifies that the credential can do everything except what it lacks.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials

from archiver.platforms.ceph import USER
from archiver.values.errors import PlatformError
from archiver.worm.requests.exchange import Answer, S3Client
from archiver.worm.verdict import CheckEnded
from backends.s3.control import Credentials

BYPASS, RETENTION, HOLD, DELETE = "bypass", "retention", "hold", "delete"
BYPASS_DENIED = "bypass denied"  # allows every action and denies the bypass explicitly
SEE_RETENTION = "see retention"
NOTHING = "nothing"
RIGHTS = (BYPASS, RETENTION, HOLD, DELETE)  # those for which a user can name a credential that lacks them

_ACTIONS_OF: Mapping[str, tuple[str, ...]] = {
    BYPASS: ("s3:BypassGovernanceRetention",),
    RETENTION: ("s3:PutObjectRetention",),
    HOLD: ("s3:PutObjectLegalHold",),
    DELETE: ("s3:DeleteObject", "s3:DeleteObjectVersion"),
    SEE_RETENTION: ("s3:GetObjectRetention",),
}
_OTHER_ACTIONS = (
    "s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectLegalHold", "s3:PutObject", "s3:PutObjectTagging",
    "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts", "s3:ListBucket", "s3:ListBucketVersions",
)  # fmt: skip
_NO_ROLE = "arn:aws:iam::000000000000:role/none"  # MinIO requires a role and ignores it
_ROLE_SECONDS = 3600


def described(right: str) -> str:
    """Return what a credential lacks, in words, with the names of the actions."""
    if right == BYPASS_DENIED:
        return f"with a policy that allows everything and denies {_ACTIONS_OF[BYPASS][0]}"
    return f"without the right to {right} ({', '.join(_ACTIONS_OF[right])})"


@dataclass(frozen=True, slots=True)
class Limited:
    """A client for each right that it lacks. ``open_bucket`` is called for each new bucket and grants them access.

    ``are_trusted``: Archiver made the credentials, and knows that they lack the right.
    """

    clients: Mapping[str, S3Client]
    open_bucket: Callable[[str], None] = field(default=lambda bucket: None)
    are_trusted: bool = True


@contextmanager
def limited_clients(
    platform: str,
    client: S3Client,
    *,
    given: Mapping[str, Credentials] | None = None,
    are_trusted: bool = True,
    role: str | None = None,
) -> Iterator[Limited]:
    """Yield clients that lack a right each, for the length of the block.

    ``given`` has credentials by the right that they lack: those of the embedded store, or, without ``are_trusted``,
    those that the user named. ``role`` is the ARN of a role that ``client`` may assume. Without either, Ceph RGW,
    MinIO, SeaweedFS and versitygw create credentials; other platforms have none.

    Raises PlatformError if the platform refuses to create them.
    """
    if given is not None:
        yield Limited(_clients(client, given), are_trusted=are_trusted)
    elif role is not None:
        yield Limited(_clients(client, _assumed(client, role)))
    elif platform == "minio":
        yield Limited(_clients(client, _assumed(client, _NO_ROLE)))
    elif platform == "seaweedfs":
        with _users(client) as users:
            yield Limited(_clients(client, users))
    elif platform == "versitygw":
        with _accounts(client) as (accounts, principals):
            yield Limited(_clients(client, accounts), lambda bucket: _grant_access(client, bucket, principals))
    elif platform == "ceph-rgw":
        with _gateway_users(client) as (gateway_users, principals):
            yield Limited(_clients(client, gateway_users), lambda bucket: _grant_access(client, bucket, principals))
    else:
        yield Limited({})


def _clients(client: S3Client, credentials: Mapping[str, Credentials]) -> dict[str, S3Client]:
    clients = {}
    for right, lacking in credentials.items():
        clients[right] = client.recording([])
        clients[right].credentials = lacking
    return clients


def _statements(right: str, bucket: str, **principal: Any) -> list[dict[str, Any]]:
    """Return policy statements that allow everything in the bucket except that right."""
    resources = {"Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"], **principal}
    if right == BYPASS_DENIED:
        return [
            {"Effect": "Allow", "Action": ["s3:*"], **resources},
            {"Effect": "Deny", "Action": list(_ACTIONS_OF[BYPASS]), **resources},
        ]
    allowed = [*_OTHER_ACTIONS, *(action for other, own in _ACTIONS_OF.items() if other != right for action in own)]
    return [{"Effect": "Allow", "Action": allowed, **resources}]


def _policy(statements: list[dict[str, Any]]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _new_name(right: str) -> str:
    return f"archiver-{right.replace(' ', '-')}-{secrets.token_hex(4)}"


def _grant_access(client: S3Client, bucket: str, principals: Mapping[str, str]) -> None:
    """Set the bucket's policy, which grants each principal everything except the right that it lacks."""
    statements = [
        statement
        for right, principal in principals.items()
        for statement in _statements(right, bucket, Principal={"AWS": [principal]})
    ]
    _ask(client, "s3", "PUT", f"/{bucket}?policy=", _policy(statements).encode(), f"set the policy of bucket {bucket}")


# ---- temporary credentials with their own policy: AssumeRole


def _assumed(client: S3Client, role: str) -> dict[str, Credentials]:
    return {right: _assume(client, role, right) for right in (*_ACTIONS_OF, BYPASS_DENIED)}


def _assume(client: S3Client, role: str, right: str) -> Credentials:
    query = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": role,
        "RoleSessionName": "archiver-without-" + right.replace(" ", "-"),
        "DurationSeconds": str(_ROLE_SECONDS),
        "Policy": _policy(_statements(right, "*")),
    }
    sts = client.recording([])
    sts.endpoint = _token_service(client)
    answer = _ask(sts, "sts", "POST", "/", urlencode(query).encode(), "assume a role")
    words = [answer.text_of(name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")]
    if not all(words):
        raise _refusal(client, "assume a role", answer)
    return Credentials(words[0], words[1], words[2])


def _token_service(client: S3Client) -> str:
    """Return the endpoint of AssumeRole: Amazon has a separate one, other platforms use the same one."""
    host = urlsplit(client.endpoint).hostname or ""
    return f"https://sts.{client.region}.amazonaws.com" if host.endswith(".amazonaws.com") else client.endpoint


# ---- SeaweedFS: users with a policy, by the calls of Amazon's IAM

_UNKNOWN_TO_SEAWEEDFS = "s3:ListMultipartUploadParts"  # it refuses a policy with an action that it does not know


@contextmanager
def _users(client: S3Client) -> Iterator[dict[str, Credentials]]:
    """Make a user for each right; not for ``BYPASS_DENIED``, because its users' policies cannot deny."""
    made: dict[str, Credentials] = {}
    with ExitStack() as removals:
        for right in _ACTIONS_OF:
            name = _new_name(right)
            user, policy = {"UserName": name}, {"UserName": name, "PolicyName": name}
            statements = _statements(right, "*")
            for statement in statements:
                statement["Action"] = [action for action in statement["Action"] if action != _UNKNOWN_TO_SEAWEEDFS]
            _ask_iam(client, "CreateUser", user)
            removals.callback(_ask_iam, client, "DeleteUser", user)
            answer = _ask_iam(client, "CreateAccessKey", user)
            made[right] = Credentials(answer.text_of("AccessKeyId"), answer.text_of("SecretAccessKey"), None)
            removals.callback(_ask_iam, client, "DeleteAccessKey", {**user, "AccessKeyId": made[right].access_key})
            _ask_iam(client, "PutUserPolicy", {**policy, "PolicyDocument": _policy(statements)})
            removals.callback(_ask_iam, client, "DeleteUserPolicy", policy)
        yield made


def _ask_iam(client: S3Client, action: str, parameters: Mapping[str, str]) -> Answer:
    query = {"Action": action, "Version": "2010-05-08", **parameters}
    return _ask(client, "iam", "POST", "/", urlencode(query).encode(), f"carry out {action}")


# ---- versitygw: accounts, to which the policy of each bucket grants access


@contextmanager
def _accounts(client: S3Client) -> Iterator[tuple[Mapping[str, Credentials], Mapping[str, str]]]:
    """Yield, by the right that it lacks, each account's credentials and its principal."""
    made: dict[str, Credentials] = {}
    with ExitStack() as removals:
        for right in (*_ACTIONS_OF, BYPASS_DENIED):
            name = _new_name(right)
            made[right] = Credentials(name, secrets.token_hex(16), None)
            _ask(client, "s3", "PATCH", "/create-user", _account(made[right]), "make an account")
            removals.callback(_ask, client, "s3", "PATCH", f"/delete-user?access={name}", b"", f"remove account {name}")
        yield made, {right: credentials.access_key for right, credentials in made.items()}


def _account(credentials: Credentials) -> bytes:
    account = ET.Element("Account")
    for name, value in (
        ("Access", credentials.access_key), ("Secret", credentials.secret_key), ("Role", "user"),
        ("UserID", "0"), ("GroupID", "0"), ("ProjectID", "0"),
    ):  # fmt: skip
        ET.SubElement(account, name).text = value
    return ET.tostring(account)


# ---- Ceph RGW: users of its own, to which the policy of each bucket grants access


@contextmanager
def _gateway_users(client: S3Client) -> Iterator[tuple[Mapping[str, Credentials], Mapping[str, str]]]:
    """Yield, by the right that it lacks, each user's credentials and its principal."""
    made: dict[str, Credentials] = {}
    principals: dict[str, str] = {}
    with ExitStack() as removals:
        for right in (*_ACTIONS_OF, BYPASS_DENIED):
            name = _new_name(right)
            answer = _ask(client, "s3", "PUT", f"/admin/user?display-name={name}&uid={name}", b"", "make a user")
            removals.callback(_ask, client, "s3", "DELETE", f"/admin/user?uid={name}", b"", f"remove user {name}")
            (key,) = json.loads(answer.body)["keys"]
            made[right] = Credentials(key["access_key"], key["secret_key"], None)
            principals[right] = f"arn:aws:iam:::user/{name}"
        # A user owns the objects that it writes, and without this the bucket's owner could not read them.
        yield made, {**principals, NOTHING: f"arn:aws:iam:::user/{USER}"}


# ---- requests outside the checks: their bodies hold secrets, so they are not recorded


def _ask(client: S3Client, service: str, method: str, target: str, body: bytes, doing: str) -> Answer:
    """Send a signed request. Raises PlatformError unless it succeeds."""
    assert client.credentials is not None
    own = client.credentials
    request = AWSRequest(method, client.url(target), data=body)
    request.headers["Content-Type"] = "application/xml" if service == "s3" else "application/x-www-form-urlencoded"
    request.headers["X-Amz-Content-Sha256"] = hashlib.sha256(body).hexdigest()
    SigV4Auth(BotoCredentials(own.access_key, own.secret_key, own.session_token), service, client.region).add_auth(
        request
    )
    try:
        answer = client.recording([]).send_as_is(method, target, list(request.headers.items()), body)
    except CheckEnded as ended:
        raise _refusal(client, doing, ended) from ended
    if not answer.ok:
        raise _refusal(client, doing, answer)
    return answer


def _refusal(client: S3Client, doing: str, answer: object) -> PlatformError:
    return PlatformError(
        f"{client.endpoint}: could not create credentials with fewer rights: the request to {doing} was answered "
        f"{answer}; name a credential with --limited-profile, or leave out the checks that need one"
    )
