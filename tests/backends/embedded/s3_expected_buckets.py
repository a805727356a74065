"""Expectations of S3 clients of buckets: names, lists, settings, and listings of objects.

`s3_scene` defines an expectation; `test_s3_expectations.py` runs the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.backends.embedded.s3_scene import BODY, Expectation, Scene, header, status_of, tried

ALL_USERS = 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'


def made(name: str) -> Callable[[Scene], Any]:
    """Make a bucket of that name, and remove it."""

    def make(s: Scene) -> str:
        s.s3.create_bucket(Bucket=name)
        s.s3.delete_bucket(Bucket=name)
        return "ok"

    return make


GOOD_NAMES = (
    "abc", "a1b", "1bc", "123", "a" * 63, "a" * 62 + "1", "my.bucket", "my-bucket", "a.b.c", "a--b", "foo.bar.1",
    "1.2.3", "192-168-5-4", "xn-name",
)  # fmt: skip
BAD_NAMES = (
    "ab", "a", "a" * 64, "-abc", "abc-", ".abc", "abc.", "a..b", "Abc", "abC", "a_b", "_abc", "192.168.5.4", "1.2.3.4",
    "xn--abc", "sthree-abc", "amzn-s3-demo-abc", "abc-s3alias", "abc--ol-s3", "abc.mrap", "abc--table-s3",
)  # fmt: skip


def buckets_listed(s: Scene, **wanted: Any) -> list[str]:
    mine = s.new_bucket("listed-a"), s.new_bucket("listed-b"), s.new_bucket("listed-c")
    pages = s.s3.get_paginator("list_buckets").paginate(**{"Prefix": "listed-", **wanted})
    return [each["Name"].split("-")[1] for page in pages for each in page["Buckets"] if each["Name"] in mine]


BUCKETS: list[Expectation] = [
    *((f"a bucket called {name!r}", made(name), "ok") for name in GOOD_NAMES),
    *((f"a bucket called {name!r}", made(name), "400 InvalidBucketName") for name in BAD_NAMES),
    ("the answer of a new one names it", lambda s: s.s3.create_bucket(Bucket=f"x-{s.plain}")["Location"][:3], "/x-"),
    ("the head tells the region", lambda s: s.s3.head_bucket(Bucket=s.plain)["BucketRegion"], "us-east-1"),
    ("the location of that region is none", lambda s: s.s3.get_bucket_location(Bucket=s.plain)["LocationConstraint"],
     None),
    ("the location of a missing one", lambda s: s.s3.get_bucket_location(Bucket="missing"), "404 NoSuchBucket"),
    ("deleting a missing one", lambda s: s.s3.delete_bucket(Bucket="missing"), "404 NoSuchBucket"),
    ("deleting an empty one", lambda s: status_of(s.s3.delete_bucket(Bucket=s.plain)), 204),
    ("deleting one twice", lambda s: (s.s3.delete_bucket(Bucket=s.plain), s.s3.delete_bucket(Bucket=s.plain)),
     "404 NoSuchBucket"),
    ("deleting one with an object", lambda s: s.s3.delete_bucket(Bucket=s.put()["Bucket"]), "409 BucketNotEmpty"),
    ("uploading into a deleted one", lambda s: (s.s3.delete_bucket(Bucket=s.plain), s.put()), "404 NoSuchBucket"),
    ("a deleted one's name is free", lambda s: (
        s.s3.delete_bucket(Bucket=s.plain), status_of(s.s3.create_bucket(Bucket=s.plain)))[1], 200),
    ("made with the owner's ACL", lambda s: bool(s.new_bucket("acl", ACL="private")), True),
    ("made with an ACL for all", lambda s: s.new_bucket("acl", ACL="public-read"),
     "400 InvalidBucketAclWithObjectOwnership"),
    ("made with a grant to all", lambda s: s.new_bucket("acl", GrantRead=ALL_USERS),
     "400 InvalidBucketAclWithObjectOwnership"),
    ("made with owner enforced", lambda s: bool(s.new_bucket("own", ObjectOwnership="BucketOwnerEnforced")), True),
    ("made with ACLs on", lambda s: s.new_bucket("own", ObjectOwnership="ObjectWriter"), "501 NotImplemented"),
    ("of the expected owner", lambda s: status_of(s.s3.head_bucket(Bucket=s.plain, ExpectedBucketOwner="archiver")),
     200),
    ("of another owner", lambda s: s.s3.list_objects_v2(Bucket=s.plain, ExpectedBucketOwner="111122223333"),
     "403 AccessDenied"),
    ("deleted as of another owner", lambda s: s.s3.delete_bucket(Bucket=s.plain, ExpectedBucketOwner="111122223333"),
     "403 AccessDenied"),
    ("listed by prefix", buckets_listed, ["a", "b", "c"]),
    ("listed in pages", lambda s: buckets_listed(s, PaginationConfig={"PageSize": 1}), ["a", "b", "c"]),
    ("listed by a prefix of none", lambda s: buckets_listed(s, Prefix="none-has-this"), []),
    ("listed by another region", lambda s: buckets_listed(s, BucketRegion="eu-west-1"), []),
    ("a token that is none", lambda s: s.s3.list_buckets(ContinuationToken="no!"), "400 InvalidArgument"),
    ("the list tells the owner", lambda s: s.s3.list_buckets(MaxBuckets=1)["Owner"]["ID"], "archiver"),
    ("the waiters see it come and go", lambda s: (
        s.s3.get_waiter("bucket_exists").wait(Bucket=s.plain), s.s3.delete_bucket(Bucket=s.plain),
        s.s3.get_waiter("bucket_not_exists").wait(Bucket=s.plain))[2], None),
]  # fmt: skip

FULL_CONTROL = [("archiver", "FULL_CONTROL")]


def grants(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["Grantee"]["ID"], each["Permission"]) for each in answer["Grants"]]


def _absent(s: Scene, what: str, **wanted: Any) -> Any:
    return getattr(s.s3, what)(Bucket=s.plain, **wanted)


SETTINGS: list[Expectation] = [
    *(
        (f"{what} of a new bucket", lambda s, what=what: _absent(s, what), answer)
        for what, answer in {
            "get_bucket_policy": "404 NoSuchBucketPolicy",
            "get_bucket_policy_status": "404 NoSuchBucketPolicy",
            "get_bucket_lifecycle_configuration": "404 NoSuchLifecycleConfiguration",
            "get_bucket_cors": "404 NoSuchCORSConfiguration",
            "get_bucket_website": "404 NoSuchWebsiteConfiguration",
            "get_bucket_tagging": "404 NoSuchTagSet",
            "get_bucket_replication": "404 ReplicationConfigurationNotFoundError",
            "get_bucket_encryption": "404 ServerSideEncryptionConfigurationNotFoundError",
        }.items()
    ),
    *(
        (f"{what} where there is none", lambda s, what=what: status_of(_absent(s, what)), 204)
        for what in (
            "delete_bucket_policy", "delete_bucket_lifecycle", "delete_bucket_cors", "delete_bucket_website",
            "delete_bucket_tagging", "delete_bucket_replication", "delete_bucket_encryption",
        )
    ),
    *(
        (f"{what} of a missing bucket", lambda s, what=what: getattr(s.s3, what)(Bucket="missing"), "404 NoSuchBucket")
        for what in (
            "get_bucket_policy", "get_bucket_acl", "get_public_access_block", "delete_bucket_policy",
            "get_bucket_versioning", "get_object_lock_configuration", "list_object_versions", "list_multipart_uploads",
        )
    ),
    ("public access is blocked", lambda s: set(
        _absent(s, "get_public_access_block")["PublicAccessBlockConfiguration"].values()), {True}),
    ("the owner owns all", lambda s: _absent(
        s, "get_bucket_ownership_controls")["OwnershipControls"]["Rules"][0]["ObjectOwnership"], "BucketOwnerEnforced"),
    ("the owner pays", lambda s: _absent(s, "get_bucket_request_payment")["Payer"], "BucketOwner"),
    ("nothing is accelerated", lambda s: "Status" in _absent(s, "get_bucket_accelerate_configuration"), False),
    ("nothing is logged", lambda s: "LoggingEnabled" in _absent(s, "get_bucket_logging"), False),
    ("nobody is notified", lambda s: set(_absent(s, "get_bucket_notification_configuration")), {"ResponseMetadata"}),
    ("the ACL of a bucket", lambda s: grants(_absent(s, "get_bucket_acl")), FULL_CONTROL),
    ("the ACL of an object", lambda s: grants(s.s3.get_object_acl(**s.put())), FULL_CONTROL),
    ("the ACL of a version", lambda s: grants(s.s3.get_object_acl(**s.put(s.versioned))), FULL_CONTROL),
    ("the ACL of a missing object", lambda s: s.s3.get_object_acl(Bucket=s.plain, Key="none"), "404 NoSuchKey"),
    ("setting the ACL of a bucket", lambda s: _absent(s, "put_bucket_acl", ACL="private"),
     "400 AccessControlListNotSupported"),
    ("setting the ACL of an object", lambda s: s.s3.put_object_acl(**s.put(), ACL="public-read"),
     "400 AccessControlListNotSupported"),
    ("setting the ACL of a missing object", lambda s: s.s3.put_object_acl(Bucket=s.plain, Key="none", ACL="private"),
     "404 NoSuchKey"),
    *(
        (f"{what} is not offered", lambda s, what=what, wanted=wanted: _absent(s, what, **wanted), "501 NotImplemented")
        for what, wanted in {
            "put_bucket_policy": {"Policy": "{}"},
            "put_bucket_cors": {"CORSConfiguration": {"CORSRules": [{"AllowedMethods": ["GET"],
                                                                     "AllowedOrigins": ["*"]}]}},
            "put_bucket_tagging": {"Tagging": {"TagSet": [{"Key": "a", "Value": "b"}]}},
            "put_bucket_lifecycle_configuration": {"LifecycleConfiguration": {"Rules": [
                {"Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}]}},
            "put_public_access_block": {"PublicAccessBlockConfiguration": {"BlockPublicAcls": False}},
            "delete_public_access_block": {},
            "put_bucket_ownership_controls": {"OwnershipControls": {"Rules": [{"ObjectOwnership": "ObjectWriter"}]}},
            "put_bucket_request_payment": {"RequestPaymentConfiguration": {"Payer": "Requester"}},
            "list_bucket_inventory_configurations": {},
        }.items()
    ),
]  # fmt: skip

TREE = ("asdf", "boo/bar", "boo/baz/xyzzy", "cquux/thud", "cquux/bla")
ODD = ("foo+1/bar", "foo/bar/xyzzy", "quux ab/thud", "asdf+b", "p%q", "x\x01y", "\N{SNOWMAN}/1", "a&<b>")
V1, V2, VERSIONS = "list_objects", "list_objects_v2", "list_object_versions"


def listed(s: Scene, call: str = V2, keys: Sequence[str] = TREE, **wanted: Any) -> tuple[list[str], list[str]]:
    """Keys and common prefixes of one page."""
    answer = getattr(s.s3, call)(Bucket=s.shared(*keys), **wanted)
    found = answer.get("Versions" if call == VERSIONS else "Contents", [])
    return [each["Key"] for each in found], [each["Prefix"] for each in answer.get("CommonPrefixes", [])]


def told(s: Scene, name: str, call: str = V2, keys: Sequence[str] = TREE, **wanted: Any) -> Any:
    """Return one field of a page."""
    return getattr(s.s3, call)(Bucket=s.shared(*keys), **wanted).get(name)


def raw_page(s: Scene, keys: Sequence[str], **query: str) -> str:
    """Return a page as it was sent. boto3 itself requests encoded names and decodes them."""
    seen: list[str] = []

    def keep(response_dict: Any, **_: Any) -> None:
        seen.append(response_dict["body"].decode())

    s.s3.meta.events.register("before-parse.s3.ListObjectsV2", keep, unique_id="raw-page")
    try:
        s.s3.list_objects_v2(Bucket=s.shared(*keys), **query)
    finally:
        s.s3.meta.events.unregister("before-parse.s3.ListObjectsV2", unique_id="raw-page")
    return seen[0]


LISTINGS: list[Expectation] = [
    *(
        expectation
        for call in (V1, V2, VERSIONS)
        for expectation in (
            (f"{call}: nothing there", lambda s, c=call: listed(s, c, ()), ([], [])),
            (f"{call}: in order", lambda s, c=call: listed(s, c), (sorted(TREE), [])),
            (f"{call}: a delimiter", lambda s, c=call: listed(s, c, Delimiter="/"), (["asdf"], ["boo/", "cquux/"])),
            (f"{call}: prefix and delimiter", lambda s, c=call: listed(s, c, Prefix="boo/", Delimiter="/"),
             (["boo/bar"], ["boo/baz/"])),
            (f"{call}: a delimiter of two characters", lambda s, c=call: listed(s, c, Delimiter="o/"),
             (["asdf", "cquux/bla", "cquux/thud"], ["boo/"])),
            (f"{call}: a delimiter that no key has", lambda s, c=call: listed(s, c, Delimiter="\n"),
             (sorted(TREE), [])),
            (f"{call}: a letter as delimiter", lambda s, c=call: listed(s, c, ("bar", "baz", "cab", "foo"),
                                                                        Delimiter="a"), (["foo"], ["ba", "ca"])),
            (f"{call}: a percent sign as delimiter", lambda s, c=call: listed(s, c, ("b%ar", "b%az", "foo"),
                                                                              Delimiter="%"), (["foo"], ["b%"])),
            (f"{call}: white space as delimiter", lambda s, c=call: listed(s, c, ("b ar", "b az", "foo"),
                                                                           Delimiter=" "), (["foo"], ["b "])),
            (f"{call}: a dot as delimiter", lambda s, c=call: listed(s, c, ("b.ar", "b.az", "foo"), Delimiter="."),
             (["foo"], ["b."])),
            (f"{call}: a prefix that no key has", lambda s, c=call: listed(s, c, Prefix="d"), ([], [])),
            (f"{call}: a key that ends with the delimiter", lambda s, c=call: listed(s, c, ("a/", "a/b"),
                                                                                     Delimiter="/"), ([], ["a/"])),
            (f"{call}: a prefix that is a key", lambda s, c=call: listed(s, c, ("a/", "a/b"), Prefix="a/",
                                                                         Delimiter="/"), (["a/", "a/b"], [])),
            (f"{call}: odd names come back", lambda s, c=call: listed(s, c, ODD), (sorted(ODD), [])),
            (f"{call}: odd names, folded", lambda s, c=call: listed(s, c, ODD, Delimiter="/")[1],
             ["foo+1/", "foo/", "quux ab/", "\N{SNOWMAN}/"]),
            (f"{call}: no key on a page", lambda s, c=call: listed(s, c, MaxKeys=0), ([], [])),
            (f"{call}: an empty page is the last", lambda s, c=call: told(s, "IsTruncated", c, MaxKeys=0), False),
            (f"{call}: one key on a page", lambda s, c=call: listed(s, c, MaxKeys=1), (["asdf"], [])),
            (f"{call}: a full page is not cut", lambda s, c=call: told(s, "IsTruncated", c, MaxKeys=5), False),
            (f"{call}: prefixes count as keys", lambda s, c=call: listed(s, c, MaxKeys=2, Delimiter="/"),
             (["asdf"], ["boo/"])),
            (f"{call}: more than a thousand", lambda s, c=call: told(s, "MaxKeys", c, MaxKeys=5000), 1000),
            (f"{call}: a size below zero", lambda s, c=call: listed(s, c, MaxKeys=-1), "400 InvalidArgument"),
            (f"{call}: tells what it was asked", lambda s, c=call: (
                told(s, "Prefix", c, Prefix="b", Delimiter="/", MaxKeys=3),
                told(s, "Delimiter", c, Prefix="b", Delimiter="/", MaxKeys=3),
                told(s, "MaxKeys", c, Prefix="b", Delimiter="/", MaxKeys=3), told(s, "Name", c) == s.shared(*TREE)),
             ("b", "/", 3, True)),
            (f"{call}: another encoding", lambda s, c=call: listed(s, c, EncodingType="base64"),
             "400 InvalidArgument"),
            (f"{call}: a missing bucket", lambda s, c=call: getattr(s.s3, c)(Bucket="missing"), "404 NoSuchBucket"),
        )
    ),
    *(
        (f"{call}: all pages of {size}", lambda s, c=call, n=size: [
            each["Key"]
            for page in s.s3.get_paginator(c).paginate(Bucket=s.shared(*TREE, *ODD), PaginationConfig={"PageSize": n})
            for each in page.get("Contents", page.get("Versions", []))], sorted((*TREE, *ODD)))
        for call in (V1, V2, VERSIONS)
        for size in (1, 4)
    ),
    ("V1: after a marker", lambda s: listed(s, V1, Marker="boo/bar"), (["boo/baz/xyzzy", "cquux/bla", "cquux/thud"],
                                                                       [])),
    ("V1: after a marker that is no key", lambda s: listed(s, V1, Marker="blah"), (sorted(TREE)[1:], [])),
    ("V1: after the last", lambda s: listed(s, V1, Marker="zzz"), ([], [])),
    ("V1: NextMarker with a delimiter", lambda s: told(s, "NextMarker", V1, Delimiter="/", MaxKeys=2), "boo/"),
    ("V1: no NextMarker without", lambda s: told(s, "NextMarker", V1, MaxKeys=2), None),
    ("V1: tells the owner", lambda s: told(s, "Contents", V1)[0]["Owner"]["ID"], "archiver"),
    ("V2: does not tell the owner", lambda s: "Owner" in told(s, "Contents")[0], False),
    ("V2: tells the owner where asked", lambda s: told(s, "Contents", FetchOwner=True)[0]["Owner"]["ID"], "archiver"),
    ("V2: counts", lambda s: told(s, "KeyCount", Delimiter="/"), 3),
    ("V2: start after a key", lambda s: listed(s, StartAfter="cquux/bla"), (["cquux/thud"], [])),
    ("V2: start after what is no key", lambda s: listed(s, StartAfter="blah"), (sorted(TREE)[1:], [])),
    ("V2: start after a prefix, folded", lambda s: listed(s, StartAfter="boo/", Delimiter="/"), ([], ["cquux/"])),
    ("V2: the token comes before start-after", lambda s: listed(
        s, StartAfter="zzz", ContinuationToken=told(s, "NextContinuationToken", MaxKeys=3)),
     (["cquux/bla", "cquux/thud"], [])),
    ("V2: a token that is none", lambda s: listed(s, ContinuationToken="no!"), "400 InvalidArgument"),
    ("V2: tells size, ETag and class", lambda s: [
        (each["Size"], each["ETag"].strip('"').isalnum(), each["StorageClass"]) for each in told(s, "Contents")][:1],
     [(len(BODY), True, "STANDARD")]),
    ("V2: tells of which kind a checksum is", lambda s: [
        (each["ChecksumAlgorithm"], each["ChecksumType"])
        for each in s.s3.list_objects_v2(Bucket=s.put(ChecksumAlgorithm="SHA256")["Bucket"])["Contents"]],
     [(["SHA256"], "FULL_OBJECT")]),
    ("V2: names are encoded where asked", lambda s: [
        part in raw_page(s, ODD, Delimiter="/", EncodingType="url")
        for part in ("<Key>asdf%2Bb</Key>", "<Prefix>foo%2B1/</Prefix>", "<Prefix>quux%20ab/</Prefix>",
                     "<EncodingType>url</EncodingType>")], [True] * 4),
    ("V2: a deleted object is not listed", lambda s: (s.marker(), s.keys(s.versioned))[1], []),
    ("versions: a marker is listed", lambda s: (s.marker(), s.versions(s.versioned))[1],
     [("k", "version", False), ("k", "marker", True)]),
    ("versions: newest first", lambda s: [
        each["VersionId"] for each in [s.put(s.versioned), s.put(s.versioned)][::-1]] == [
        each["VersionId"] for each in s.s3.list_object_versions(Bucket=s.versioned)["Versions"]], True),
    ("versions: a bucket without versioning", lambda s: [
        (each["VersionId"], each["IsLatest"])
        for each in s.s3.list_object_versions(Bucket=s.put()["Bucket"])["Versions"]], [("null", True)]),
    ("versions: after a key", lambda s: listed(s, VERSIONS, KeyMarker="boo/bar")[0],
     ["boo/baz/xyzzy", "cquux/bla", "cquux/thud"]),
    ("versions: after a version", lambda s: [
        each["VersionId"] for each in s.s3.list_object_versions(
            Bucket=s.versioned, KeyMarker="k", VersionIdMarker=[s.put(s.versioned)["VersionId"] for _ in range(3)][1],
        )["Versions"]] == [s.s3.list_object_versions(Bucket=s.versioned)["Versions"][-1]["VersionId"]], True),
    ("versions: a version marker without a key", lambda s: s.s3.list_object_versions(
        Bucket=s.versioned, VersionIdMarker="null"), "400 InvalidArgument"),
    ("versions: tells the owner", lambda s: (
        s.put(s.versioned), s.s3.list_object_versions(Bucket=s.versioned)["Versions"][0]["Owner"]["ID"])[1],
     "archiver"),
    ("a document is XML", lambda s: header(s.s3.list_objects_v2(Bucket=s.plain), "content-type"), "application/xml"),
    ("a waiter sees an object come and go", lambda s: (
        s.put(), tried(lambda: s.s3.get_waiter("object_exists").wait(Bucket=s.plain, Key="k")),
        s.s3.delete_object(Bucket=s.plain, Key="k"),
        tried(lambda: s.s3.get_waiter("object_not_exists").wait(Bucket=s.plain, Key="k")))[1::2], ("ok", "ok")),
]  # fmt: skip
