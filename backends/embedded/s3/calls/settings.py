"""Bucket and object settings of Amazon S3 that the embedded store does not offer.

One idea: a read gets the answer that a new bucket has at Amazon, and deleting an absent setting succeeds. Writing a
setting is refused by name (501): a store that accepts a setting and ignores it would break a promise.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from aiohttp import web

from ...core.store import Store
from ..answers import Respond
from ..errors import S3Error
from ..requests.request import OWNER_ID, S3Call
from ..xml import document, element, group
from . import description
from .listings import OWNER

# Subresource of a bucket: the name of its GET, and the error code for its absence.
_ABSENT = {
    "cors": ("GetBucketCors", "NoSuchCORSConfiguration"),
    "encryption": ("GetBucketEncryption", "ServerSideEncryptionConfigurationNotFoundError"),
    "lifecycle": ("GetBucketLifecycle", "NoSuchLifecycleConfiguration"),
    "policy": ("GetBucketPolicy", "NoSuchBucketPolicy"),
    "policyStatus": ("GetBucketPolicyStatus", "NoSuchBucketPolicy"),
    "replication": ("GetBucketReplicationConfig", "ReplicationConfigurationNotFoundError"),
    "tagging": ("GetBucketTagging", "NoSuchTagSet"),
    "website": ("GetBucketWebsite", "NoSuchWebsiteConfiguration"),
}
_DELETED = {
    "cors": "DeleteBucketCors",
    "encryption": "DeleteBucketEncryption",
    "lifecycle": "DeleteBucketLifecycle",
    "policy": "DeleteBucketPolicy",
    "replication": "DeleteBucketReplicationConfig",
    "tagging": "DeleteBucketTagging",
    "website": "DeleteBucketWebsite",
}
_ALL_BLOCKED = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
# Subresource of a bucket: the name of its GET, and the document with its constant value.
_ALWAYS = {
    "accelerate": ("GetBucketAccelerate", document("AccelerateConfiguration", [])),
    "logging": ("GetBucketLogging", document("BucketLoggingStatus", [])),
    "notification": ("GetBucketNotification", document("NotificationConfiguration", [])),
    "ownershipControls": (
        "GetBucketOwnershipControls",
        document("OwnershipControls", [group("Rule", [element("ObjectOwnership", "BucketOwnerEnforced")])]),
    ),
    "publicAccessBlock": (
        "GetPublicAccessBlock",
        document("PublicAccessBlockConfiguration", [element(name, "true") for name in _ALL_BLOCKED]),
    ),
    "requestPayment": (
        "GetBucketRequestPayment",
        document("RequestPaymentConfiguration", [element("Payer", "BucketOwner")]),
    ),
}
_GRANTEE = (
    '<Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser">'
    + element("ID", OWNER_ID)
    + element("DisplayName", OWNER_ID)
    + "</Grantee>"
)
_OWNERS_ACL = document(
    "AccessControlPolicy",
    [OWNER, group("AccessControlList", [group("Grant", [_GRANTEE, element("Permission", "FULL_CONTROL")])])],
)

Table = dict[tuple[str, str, str], tuple[str, Callable[[S3Call], Awaitable[web.StreamResponse]]]]


def check_new_bucket(headers: Mapping[str, str]) -> None:
    """Return if the new bucket gives rights to its owner only. Raises S3Error."""
    ownership = headers.get("x-amz-object-ownership", "BucketOwnerEnforced")
    if ownership != "BucketOwnerEnforced":
        raise S3Error("NotImplemented", f"the embedded store has no ACLs, which {ownership} would allow")
    try:
        description.check_acl(headers)
    except S3Error:
        raise S3Error(
            "InvalidBucketAclWithObjectOwnership", "Bucket cannot have ACLs set with ObjectOwnership's"
            " BucketOwnerEnforced setting",
        ) from None  # fmt: skip


def table(store: Store, respond: Respond) -> Table:
    """Return the calls that read settings, for the table of S3Server."""
    calls: Table = {
        ("GET", "bucket", "acl"): ("GetBucketACL", partial(_get_acl, store, respond)),
        ("GET", "key", "acl"): ("GetObjectACL", partial(_get_acl, store, respond)),
        ("PUT", "bucket", "acl"): ("PutBucketACL", partial(_put_acl, store)),
        ("PUT", "key", "acl"): ("PutObjectACL", partial(_put_acl, store)),
    }
    for name, (call_name, code) in _ABSENT.items():
        calls["GET", "bucket", name] = call_name, partial(_say_absent, store, code)
    for name, call_name in _DELETED.items():
        calls["DELETE", "bucket", name] = call_name, partial(_delete_nothing, store, respond)
    for name, (call_name, body) in _ALWAYS.items():
        calls["GET", "bucket", name] = call_name, partial(_say_always, store, respond, body)
    return calls


async def _say_absent(store: Store, code: str, call: S3Call) -> web.StreamResponse:
    store.bucket(call.bucket)
    raise S3Error(code, "the embedded store has none", {"BucketName": call.bucket})


async def _say_always(store: Store, respond: Respond, body: bytes, call: S3Call) -> web.StreamResponse:
    store.bucket(call.bucket)
    return respond(call, body=body)


async def _delete_nothing(store: Store, respond: Respond, call: S3Call) -> web.StreamResponse:
    store.bucket(call.bucket)
    return respond(call, 204)


async def _get_acl(store: Store, respond: Respond, call: S3Call) -> web.StreamResponse:
    """Answer the constant ACL: the owner has all rights, and no one else has any."""
    bucket = store.bucket(call.bucket)
    if call.key:
        store.queries.object(bucket, call.key, call.version_id)
    return respond(call, body=_OWNERS_ACL)


async def _put_acl(store: Store, call: S3Call) -> web.StreamResponse:
    bucket = store.bucket(call.bucket)
    if call.key:
        store.queries.object(bucket, call.key, call.version_id)
    raise S3Error("AccessControlListNotSupported", "The bucket does not allow ACLs")
