"""Expectations of S3 clients of objects: uploads, reads, conditions, copies, checksums, attributes, tags, deletions.

`s3_scene` defines an expectation; `test_s3_expectations.py` runs the tables.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.backends.embedded.s3_scene import (
    BODY,
    ETAG,
    OTHER_ETAG,
    UNKNOWN_VERSION,
    Expectation,
    Scene,
    checksum,
    header,
    status_of,
    tried,
)

GRANT = 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'
SAID: dict[str, Any] = {
    "CacheControl": "max-age=60", "ContentDisposition": 'attachment; filename="a.txt"', "ContentLanguage": "en-GB",
    "ContentEncoding": "gzip", "ContentType": "text/csv",
}  # fmt: skip
HOUR = timedelta(hours=1)


def head(s: Scene, key: str = "k", bucket: str | None = None, **wanted: Any) -> dict[str, Any]:
    answer: dict[str, Any] = s.s3.head_object(Bucket=bucket or s.plain, Key=key, **wanted)
    return answer


def said(s: Scene, key: str = "k") -> dict[str, Any]:
    answer = head(s, key)
    return {name: answer.get(name) for name in SAID if name in answer}


def metadata(s: Scene, **sent: str) -> dict[str, str]:
    s.put(Metadata=sent)
    kept: dict[str, str] = head(s)["Metadata"]
    return kept


def raw_upload(s: Scene, **headers: str) -> dict[str, Any]:
    """Upload with headers for which boto3 has no argument."""

    def add(request: Any, **_: Any) -> None:
        for name, value in headers.items():
            request.headers[name.replace("_", "-")] = value

    s.unchecked.meta.events.register("before-sign.s3.PutObject", add)
    answer: dict[str, Any] = s.unchecked.put_object(Bucket=s.plain, Key="k", Body=BODY)
    return answer


UPLOADS: list[Expectation] = [
    ("the ETag is the MD5", lambda s: s.s3.put_object(Bucket=s.plain, Key="k", Body=BODY)["ETag"], ETAG),
    ("of nothing", lambda s: s.s3.put_object(Bucket=s.plain, Key="k", Body=b"")["ETag"],
     f'"{hashlib.md5(b"").hexdigest()}"'),
    ("nothing comes back as nothing", lambda s: (s.put(body=b""), s.read(s.plain), head(s)["ContentLength"])[1:],
     (b"", 0)),
    ("the last one counts", lambda s: (s.put(body=b"1"), s.put(body=b"2"), s.read(s.plain))[2], b"2"),
    ("no version is named without versioning", lambda s: "VersionId" in s.put(), False),
    ("metadata comes back", lambda s: metadata(s, case="A-17", empty=""), {"case": "A-17", "empty": ""}),
    ("metadata's names lose their case", lambda s: metadata(s, CaseNumber="x"), {"casenumber": "x"}),
    ("metadata is replaced as a whole", lambda s: (metadata(s, a="1"), metadata(s, b="2"))[1], {"b": "2"}),
    ("metadata of 2 KiB", lambda s: len(metadata(s, m="v" * 2047)["m"]), 2047),
    ("what a browser acts on comes back", lambda s: (s.put(**SAID), said(s))[1], SAID),
    ("and on GET", lambda s: s.s3.get_object(**s.put(**SAID))["CacheControl"], "max-age=60"),
    ("it is forgotten with the object", lambda s: (s.put(**SAID), s.put(), said(s))[2],
     {"ContentType": "binary/octet-stream"}),
    ("a date of expiry comes back", lambda s: (
        s.put(Expires="Thu, 01 Dec 2033 16:00:00 GMT"), header(head(s), "expires"))[1],
     "Thu, 01 Dec 2033 16:00:00 GMT"),
    ("a redirection comes back", lambda s: (
        s.put(WebsiteRedirectLocation="/there"), head(s)["WebsiteRedirectLocation"])[1], "/there"),
    ("how it was sent is not what it is", lambda s: (
        s.put(ContentEncoding="aws-chunked,gzip"), head(s)["ContentEncoding"])[1], "gzip"),
    ("the class STANDARD", lambda s: "StorageClass" in (s.put(StorageClass="STANDARD"), head(s))[1], False),
    ("another class", lambda s: s.put(StorageClass="GLACIER"), "400 InvalidStorageClass"),
    ("the owner's ACL", lambda s: bool(s.put(ACL="bucket-owner-full-control")), True),
    ("the private ACL", lambda s: bool(s.put(ACL="private")), True),
    ("an ACL for all", lambda s: s.put(ACL="public-read"), "400 AccessControlListNotSupported"),
    ("a grant to all", lambda s: s.put(GrantRead=GRANT), "400 AccessControlListNotSupported"),
    ("encryption is not offered", lambda s: s.put(ServerSideEncryption="AES256"), "501 NotImplemented"),
    ("encryption by a key service is not offered", lambda s: s.put(ServerSideEncryption="aws:kms"),
     "501 NotImplemented"),
    ("encryption by one's own key is not offered", lambda s: s.put(
        SSECustomerAlgorithm="AES256", SSECustomerKey="k" * 32), "501 NotImplemented"),
    ("what is refused leaves nothing", lambda s: (tried(lambda: s.put(ACL="public-read")), s.keys(s.plain)),
     ("400 AccessControlListNotSupported", [])),
    ("of the expected owner", lambda s: bool(s.put(ExpectedBucketOwner="archiver")), True),
    ("of another owner", lambda s: s.put(ExpectedBucketOwner="111122223333"), "403 AccessDenied"),
    ("into a missing bucket", lambda s: s.put("missing"), "404 NoSuchBucket"),
    ("a date of today", lambda s: abs((s.put(), head(s)["LastModified"])[1] - s.until) < HOUR, True),
    *(
        (f"the key {key!r}", lambda s, key=key: (
            s.put(key=key), s.read(s.plain, key), s.keys(s.plain),
            status_of(s.s3.delete_object(Bucket=s.plain, Key=key)), s.keys(s.plain))[1:], (BODY, [key], 204, []))
        for key in (
            "a", "a/b", "a//b", "/a", "a/", "//", ".", "..", "../a", "a/../b", "./a", "a b", " a ", "a+b", "a%b",
            "a%2Fb", "a?b", "a#b", "a&b=c", "a;b", "a:b", "a'b", 'a"b', "a<b>", "a\\b", "a|b", "a~b", "a*b", "(a)",
            "[a]", "{a}", "\N{SNOWMAN}", "\N{LATIN SMALL LETTER E WITH ACUTE}", "e\N{COMBINING ACUTE ACCENT}",
            "\N{GRINNING FACE}", "a\tb", "a\x7fb", "null", "k" * 1024,
        )
    ),
]  # fmt: skip


def asked(call: str, **wanted: Any) -> Callable[[Scene], Any]:
    """GET, HEAD or copy an object on a condition. Returns the status of the answer."""

    def ask(s: Scene) -> Any:
        named = s.put()
        written = s.s3.head_object(**named)["LastModified"]
        dated = {name: written + value if isinstance(value, timedelta) else value for name, value in wanted.items()}
        if call == "copy_object":
            source = {f"CopySource{name}": value for name, value in dated.items()}
            return status_of(s.s3.copy_object(Bucket=s.plain, Key="copy", CopySource=f"{s.plain}/k", **source))
        return status_of(getattr(s.s3, call)(**named, **dated))

    return ask


NOW, BEFORE, AFTER = timedelta(0), -HOUR, HOUR
# Name, condition, whether it is true, and the status of a read if it is false.
CONDITIONS: list[tuple[str, dict[str, Any], bool, int]] = [
    ("this ETag", {"IfMatch": ETAG}, True, 412),
    ("this ETag, unquoted", {"IfMatch": ETAG.strip('"')}, True, 412),
    ("another ETag", {"IfMatch": OTHER_ETAG}, False, 412),
    ("one of two ETags", {"IfMatch": f"{OTHER_ETAG}, {ETAG}"}, True, 412),
    ("any ETag", {"IfMatch": "*"}, True, 412),
    ("not another ETag", {"IfNoneMatch": OTHER_ETAG}, True, 304),
    ("not this ETag", {"IfNoneMatch": ETAG}, False, 304),
    ("not any ETag", {"IfNoneMatch": "*"}, False, 304),
    ("modified since before", {"IfModifiedSince": BEFORE}, True, 304),
    ("modified since it was", {"IfModifiedSince": NOW}, False, 304),
    ("modified since after", {"IfModifiedSince": AFTER}, False, 304),
    ("unmodified since before", {"IfUnmodifiedSince": BEFORE}, False, 412),
    ("unmodified since it was", {"IfUnmodifiedSince": NOW}, True, 412),
    ("unmodified since after", {"IfUnmodifiedSince": AFTER}, True, 412),
    ("this ETag, but modified since", {"IfMatch": ETAG, "IfUnmodifiedSince": BEFORE}, True, 412),
    ("another ETag, but unmodified", {"IfMatch": OTHER_ETAG, "IfUnmodifiedSince": AFTER}, False, 412),
    ("not this ETag, but modified", {"IfNoneMatch": ETAG, "IfModifiedSince": BEFORE}, False, 304),
    ("not another ETag, but unmodified", {"IfNoneMatch": OTHER_ETAG, "IfModifiedSince": AFTER}, True, 304),
]


def unmet(call: str, status: int) -> str:
    if call == "copy_object":
        return "412 PreconditionFailed"
    return "412 PreconditionFailed" if (call, status) == ("get_object", 412) else str(status)


def written_if(s: Scene, call: str, is_there: bool = True, bucket: str | None = None, **condition: str) -> Any:
    """Upload, copy or complete an upload on a condition. Returns the bytes that are stored afterwards."""
    bucket = bucket or s.plain
    if is_there:
        s.put(bucket)
    named = {"Bucket": bucket, "Key": "k"}
    if call == "put_object":
        s.s3.put_object(**named, Body=b"new", **condition)
    elif call == "copy_object":
        s.put(s.other, body=b"new")
        s.s3.copy_object(**named, CopySource=f"{s.other}/k", **condition)
    else:
        upload = s.s3.create_multipart_upload(**named)["UploadId"]
        part = s.s3.upload_part(**named, UploadId=upload, PartNumber=1, Body=b"new")
        parts = {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]}
        s.s3.complete_multipart_upload(**named, UploadId=upload, MultipartUpload=parts, **condition)
    return s.read(bucket)


def over_marker(s: Scene, call: str, **condition: str) -> Any:
    s.marker()
    return written_if(s, call, False, s.versioned, **condition)


def deleted_if(s: Scene, bucket: str, is_there: bool = True, **condition: Any) -> Any:
    """Delete on a condition. Returns the keys that are left."""
    if is_there:
        s.put(bucket)
    s.s3.delete_object(Bucket=bucket, Key="k", **condition)
    return s.keys(bucket)


def batch_if(s: Scene, **condition: Any) -> Any:
    """Delete in a batch on a condition. Returns the codes of its errors and the keys that are left."""
    s.put()
    answer = s.s3.delete_objects(Bucket=s.plain, Delete={"Objects": [{"Key": "k", **condition}]})
    return [each["Code"] for each in answer.get("Errors", [])], s.keys(s.plain)


CONDITIONAL: list[Expectation] = [
    *(
        (f"{call}: {name}", asked(call, **condition),
         (206 if "Range" in condition else 200) if holds else unmet(call, status))
        for call in ("get_object", "head_object", "copy_object")
        for name, condition, holds, status in CONDITIONS
    ),
    ("get_object: unchanged, a range", asked("get_object", IfMatch=ETAG, Range="bytes=0-1"), 206),
    *(
        expectation
        for call in ("put_object", "copy_object", "complete_multipart_upload")
        for expectation in (
            (f"{call}: over this ETag", lambda s, c=call: written_if(s, c, IfMatch=ETAG), b"new"),
            (f"{call}: over this ETag, unquoted", lambda s, c=call: written_if(s, c, IfMatch=ETAG.strip('"')), b"new"),
            (f"{call}: over another ETag", lambda s, c=call: written_if(s, c, IfMatch=OTHER_ETAG),
             "412 PreconditionFailed"),
            (f"{call}: over what is not there", lambda s, c=call: written_if(s, c, False, IfMatch=ETAG),
             "404 NoSuchKey"),
            (f"{call}: over a marker", lambda s, c=call: over_marker(s, c, IfMatch=ETAG), "404 NoSuchKey"),
            (f"{call}: if absent, and it is", lambda s, c=call: written_if(s, c, False, IfNoneMatch="*"), b"new"),
            (f"{call}: if absent, and it is there", lambda s, c=call: written_if(s, c, IfNoneMatch="*"),
             "412 PreconditionFailed"),
            (f"{call}: if absent, after a marker", lambda s, c=call: over_marker(s, c, IfNoneMatch="*"), b"new"),
            (f"{call}: if not this ETag", lambda s, c=call: written_if(s, c, IfNoneMatch=ETAG), "501 NotImplemented"),
            (f"{call}: what was refused changed nothing", lambda s, c=call: (
                tried(lambda: written_if(s, c, IfMatch=OTHER_ETAG)), s.read(s.plain)),
             ("412 PreconditionFailed", BODY)),
        )
    ),
    ("delete: this ETag", lambda s: deleted_if(s, s.plain, IfMatch=ETAG), []),
    ("delete: another ETag", lambda s: deleted_if(s, s.plain, IfMatch=OTHER_ETAG), "412 PreconditionFailed"),
    ("delete: another ETag keeps it", lambda s: (
        tried(lambda: deleted_if(s, s.plain, IfMatch=OTHER_ETAG)), s.keys(s.plain))[1], ["k"]),
    ("delete: any ETag", lambda s: deleted_if(s, s.plain, IfMatch="*"), []),
    ("delete: this ETag, versioned", lambda s: deleted_if(s, s.versioned, IfMatch=ETAG), []),
    ("delete: another ETag, versioned", lambda s: deleted_if(s, s.versioned, IfMatch=OTHER_ETAG),
     "412 PreconditionFailed"),
    ("delete: what is not there", lambda s: deleted_if(s, s.plain, False, IfMatch=ETAG), "404 NoSuchKey"),
    ("delete: any of what is not there", lambda s: deleted_if(s, s.plain, False, IfMatch="*"), "404 NoSuchKey"),
    ("delete: over a marker", lambda s: (s.marker(), deleted_if(s, s.versioned, False, IfMatch="*"))[1],
     "404 NoSuchKey"),
    ("delete: a version with this ETag", lambda s: "VersionId" in s.s3.delete_object(
        **s.put(s.versioned), IfMatch=ETAG), True),
    ("delete: a version with another ETag", lambda s: s.s3.delete_object(**s.put(s.versioned), IfMatch=OTHER_ETAG),
     "412 PreconditionFailed"),
    ("delete: by its size", lambda s: deleted_if(s, s.plain, IfMatchSize=1), "501 NotImplemented"),
    ("delete: by its date", lambda s: deleted_if(s, s.plain, IfMatchLastModifiedTime=s.until), "501 NotImplemented"),
    ("batch: this ETag", lambda s: batch_if(s, ETag=ETAG), ([], [])),
    ("batch: another ETag", lambda s: batch_if(s, ETag=OTHER_ETAG), (["PreconditionFailed"], ["k"])),
    ("batch: by its size", lambda s: batch_if(s, Size=1), "501 NotImplemented"),
    ("batch: by its date", lambda s: batch_if(s, LastModifiedTime=s.until), "501 NotImplemented"),
]  # fmt: skip


def ranged(s: Scene, said: str, body: bytes = b"0123456789", call: str = "get_object") -> Any:
    """Return status, Content-Range and bytes of a range."""
    answer = getattr(s.s3, call)(**s.put(body=body), Range=said)
    read = answer["Body"].read() if "Body" in answer else answer["ContentLength"]
    return status_of(answer), answer.get("ContentRange"), read


READS: list[Expectation] = [
    ("the first bytes", lambda s: ranged(s, "bytes=0-3"), (206, "bytes 0-3/10", b"0123")),
    ("one byte", lambda s: ranged(s, "bytes=4-4"), (206, "bytes 4-4/10", b"4")),
    ("from a byte on", lambda s: ranged(s, "bytes=7-"), (206, "bytes 7-9/10", b"789")),
    ("the last bytes", lambda s: ranged(s, "bytes=-3"), (206, "bytes 7-9/10", b"789")),
    ("more than all last bytes", lambda s: ranged(s, "bytes=-99"), (206, "bytes 0-9/10", b"0123456789")),
    ("beyond the end", lambda s: ranged(s, "bytes=5-99"), (206, "bytes 5-9/10", b"56789")),
    ("all bytes", lambda s: ranged(s, "bytes=0-9"), (206, "bytes 0-9/10", b"0123456789")),
    ("the last byte", lambda s: ranged(s, "bytes=9-9"), (206, "bytes 9-9/10", b"9")),
    ("behind the end", lambda s: ranged(s, "bytes=10-"), "416 InvalidRange"),
    ("none of the last", lambda s: ranged(s, "bytes=-0"), "416 InvalidRange"),
    ("of nothing", lambda s: ranged(s, "bytes=0-4", b""), "416 InvalidRange"),
    ("the last of nothing", lambda s: ranged(s, "bytes=-4", b""), "416 InvalidRange"),
    ("backwards", lambda s: ranged(s, "bytes=4-2"), (200, None, b"0123456789")),
    ("two ranges", lambda s: ranged(s, "bytes=0-1,4-5"), (200, None, b"0123456789")),
    ("another unit", lambda s: ranged(s, "lines=0-1"), (200, None, b"0123456789")),
    ("no numbers", lambda s: ranged(s, "bytes=a-b"), (200, None, b"0123456789")),
    ("HEAD of a range", lambda s: ranged(s, "bytes=2-5", call="head_object"), (206, "bytes 2-5/10", 4)),
    ("HEAD behind the end", lambda s: ranged(s, "bytes=10-", call="head_object"), "416"),
    ("ranges are offered", lambda s: head(s, bucket=s.put()["Bucket"])["AcceptRanges"], "bytes"),
    ("HEAD tells the length", lambda s: head(s, bucket=s.put()["Bucket"])["ContentLength"], len(BODY)),
    ("HEAD tells the ETag", lambda s: head(s, bucket=s.put()["Bucket"])["ETag"], ETAG),
    ("the first part of what was sent whole", lambda s: status_of(s.s3.get_object(**s.put(), PartNumber=1)), 206),
    ("its second part", lambda s: s.s3.get_object(**s.put(), PartNumber=2), "416 InvalidPartNumber"),
    ("part 0", lambda s: s.s3.get_object(**s.put(), PartNumber=0), "400 InvalidArgument"),
    ("a part and a range", lambda s: s.s3.get_object(**s.put(), PartNumber=1, Range="bytes=0-1"),
     "400 InvalidRequest"),
    ("a missing key", lambda s: s.s3.get_object(Bucket=s.plain, Key="none"), "404 NoSuchKey"),
    ("HEAD of a missing key", lambda s: head(s, "none"), "404"),
    ("a missing bucket", lambda s: s.read("missing"), "404 NoSuchBucket"),
    ("the null version without versioning", lambda s: s.read(s.put()["Bucket"], VersionId="null"), BODY),
    *(
        (f"the reader's own {parameter}", lambda s, p=parameter, n=name, v=value: header(
            s.s3.get_object(**s.put(**SAID), **{f"Response{p}": v}), n), value)
        for parameter, name, value in (
            ("CacheControl", "cache-control", "no-cache"),
            ("ContentDisposition", "content-disposition", "inline"),
            ("ContentEncoding", "content-encoding", "identity"),
            ("ContentLanguage", "content-language", "de"),
            ("ContentType", "content-type", "text/plain"),
        )
    ),
    ("the reader's own expiry", lambda s: header(s.s3.get_object(**s.put(), ResponseExpires=s.until), "expires"
                                                 ) is not None, True),
    ("HEAD with the reader's own type", lambda s: head(s, bucket=s.put()["Bucket"], ResponseContentType="a/b")[
        "ContentType"], "a/b"),
    ("a line break in the reader's own header", lambda s: s.s3.get_object(
        **s.put(), ResponseContentType="a\r\nX-Evil: 1"), "400 InvalidArgument"),
    ("the torrent is not offered", lambda s: s.s3.get_object_torrent(**s.put()), "501 NotImplemented"),
    ("restoring is not offered", lambda s: s.s3.restore_object(**s.put(), RestoreRequest={"Days": 1}),
     "501 NotImplemented"),
]  # fmt: skip


def copied(s: Scene, source: dict[str, Any] | None = None, to: str | None = None, key: str = "copy",
           **wanted: Any) -> dict[str, Any]:  # fmt: skip
    """Copy an object with metadata and tags. Returns the HEAD answer of the copy."""
    source = source or s.put(**SAID, Metadata={"case": "A-17"}, Tagging="class=record")
    s.s3.copy_object(Bucket=to or s.plain, Key=key, CopySource=source, **wanted)
    return head(s, key, to)


NEW: dict[str, Any] = {
    "MetadataDirective": "REPLACE",
    "Metadata": {"new": "yes"},
    "ContentType": "a/b",
    "CacheControl": "no-store",
}
COPIES: list[Expectation] = [
    ("the bytes", lambda s: (copied(s), s.read(s.plain, "copy"))[1], BODY),
    ("the ETag", lambda s: copied(s)["ETag"], ETAG),
    ("what was said of it comes along", lambda s: (copied(s), said(s, "copy"))[1], SAID),
    ("metadata comes along", lambda s: copied(s)["Metadata"], {"case": "A-17"}),
    ("metadata of the request is passed over", lambda s: copied(s, Metadata={"new": "yes"})["Metadata"],
     {"case": "A-17"}),
    ("metadata is replaced", lambda s: copied(s, **NEW)["Metadata"], {"new": "yes"}),
    ("what was said is replaced", lambda s: (copied(s, **NEW), said(s, "copy"))[1],
     {"ContentType": "a/b", "CacheControl": "no-store"}),
    ("tags come along", lambda s: (copied(s), tags(s, "copy"))[1], {"class": "record"}),
    ("tags are replaced", lambda s: (copied(s, TaggingDirective="REPLACE", Tagging="a=b"), tags(s, "copy"))[1],
     {"a": "b"}),
    ("an unknown directive", lambda s: copied(s, MetadataDirective="KEEP"), "400 InvalidArgument"),
    ("into another bucket", lambda s: (copied(s, to=s.other), s.read(s.other, "copy"))[1], BODY),
    ("of nothing", lambda s: copied(s, s.put(body=b""))["ContentLength"], 0),
    ("onto itself", lambda s: copied(s, s.put(), key="k"), "400 InvalidRequest"),
    ("onto itself, otherwise described", lambda s: copied(s, s.put(), key="k", **NEW)["Metadata"], {"new": "yes"}),
    ("an older version onto the newest", lambda s: (
        s.put(s.versioned, body=b"old"), s.put(s.versioned), s.s3.copy_object(
            Bucket=s.versioned, Key="k", CopySource={
                "Bucket": s.versioned, "Key": "k",
                "VersionId": s.s3.list_object_versions(Bucket=s.versioned)["Versions"][1]["VersionId"]}),
        s.read(s.versioned))[3], b"old"),
    ("the source's version is named", lambda s: s.s3.copy_object(
        Bucket=s.plain, Key="c", CopySource=(v := s.put(s.versioned)))["CopySourceVersionId"] == v["VersionId"], True),
    ("the copy's version is named", lambda s: len(s.s3.copy_object(
        Bucket=s.versioned, Key="c", CopySource=s.put())["VersionId"]), 32),
    ("no source's version without versioning", lambda s: "CopySourceVersionId" in s.s3.copy_object(
        Bucket=s.plain, Key="c", CopySource=s.put()), False),
    ("of a missing key", lambda s: copied(s, {"Bucket": s.plain, "Key": "none"}), "404 NoSuchKey"),
    ("of a missing bucket", lambda s: copied(s, {"Bucket": "missing", "Key": "k"}), "404 NoSuchBucket"),
    ("of a missing version", lambda s: copied(s, {**s.put(s.versioned), "VersionId": UNKNOWN_VERSION}),
     "404 NoSuchVersion"),
    ("of a marker", lambda s: copied(s, s.marker()), "400 InvalidRequest"),
    ("of a deleted object", lambda s: copied(s, {"Bucket": s.marker()["Bucket"], "Key": "k"}), "404 NoSuchKey"),
    ("into a missing bucket", lambda s: copied(s, s.put(), to="missing"), "404 NoSuchBucket"),
    ("an odd name", lambda s: copied(s, s.put(key="a b+c%/\N{SNOWMAN}?x"))["ContentLength"], len(BODY)),
    ("a source that names no key", lambda s: s.s3.copy_object(Bucket=s.plain, Key="c", CopySource=s.plain),
     "400 InvalidArgument"),
    ("with a checksum", lambda s: "ChecksumSHA1" in s.s3.copy_object(
        Bucket=s.plain, Key="c", CopySource=s.put(), ChecksumAlgorithm="SHA1")["CopyObjectResult"], True),
    ("its checksum comes along", lambda s: "ChecksumSHA256" in s.s3.copy_object(
        Bucket=s.plain, Key="c", CopySource=s.put(ChecksumAlgorithm="SHA256"))["CopyObjectResult"], True),
    ("a lock does not come along", lambda s: "ObjectLockMode" in copied(s, s.put(s.locked, **s.governed()), s.locked),
     False),
    ("with a lock", lambda s: copied(s, s.put(), s.locked, **s.governed(), ChecksumAlgorithm="CRC32")["ObjectLockMode"],
     "GOVERNANCE"),
    ("encryption is not offered", lambda s: copied(s, s.put(), ServerSideEncryption="AES256"), "501 NotImplemented"),
    ("another class", lambda s: copied(s, s.put(), StorageClass="GLACIER"), "400 InvalidStorageClass"),
    ("an ACL for all", lambda s: copied(s, s.put(), ACL="public-read"), "400 AccessControlListNotSupported"),
    ("from another owner", lambda s: copied(s, s.put(), ExpectedSourceBucketOwner="111122223333"),
     "403 AccessDenied"),
]  # fmt: skip

ALGORITHMS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
BYTES = {"CRC32": 4, "CRC32C": 4, "CRC64NVME": 8, "SHA1": 20, "SHA256": 32}


def wrong(algorithm: str) -> str:
    return base64.b64encode(bytes(BYTES[algorithm])).decode()


CRC32 = base64.b64encode(zlib.crc32(BODY).to_bytes(4, "big")).decode()
CHECKSUMS: list[Expectation] = [
    *(
        expectation
        for name in ALGORITHMS
        for expectation in (
            (f"{name}: told when it is stored", lambda s, n=name: [
                (f"Checksum{n}" in a, a["ChecksumType"]) for a in [s.s3.put_object(
                    Bucket=s.plain, Key="k", Body=BODY, ChecksumAlgorithm=n)]], [(True, "FULL_OBJECT")]),
            (f"{name}: told where asked", lambda s, n=name: [
                (f"Checksum{n}" in a, a["ChecksumType"])
                for a in [s.s3.head_object(**s.put(ChecksumAlgorithm=n), ChecksumMode="ENABLED")]],
             [(True, "FULL_OBJECT")]),
            (f"{name}: checked by the reader", lambda s, n=name: s.s3.get_object(
                **s.put(ChecksumAlgorithm=n), ChecksumMode="ENABLED")["Body"].read(), BODY),
            (f"{name}: not told of a range", lambda s, n=name: f"Checksum{n}" in s.s3.get_object(
                **s.put(ChecksumAlgorithm=n), ChecksumMode="ENABLED", Range="bytes=0-1"), False),
            (f"{name}: a wrong one", lambda s, n=name: s.put(**checksum(n, wrong(n))), "400 BadDigest"),
            (f"{name}: one of another length", lambda s, n=name: s.put(**checksum(n, "AAA=")),
             "400 InvalidRequest"),
            (f"{name}: one that is no base64", lambda s, n=name: s.put(**checksum(n, "no!")),
             "400 InvalidRequest"),
            (f"{name}: of nothing", lambda s, n=name: status_of(s.s3.head_object(
                **s.put(body=b"", ChecksumAlgorithm=n), ChecksumMode="ENABLED")), 200),
            (f"{name}: what was refused is not there", lambda s, n=name: (
                tried(lambda: s.put(**checksum(n, wrong(n)))), s.keys(s.plain))[1], list[str]()),
        )
    ),
    ("the right one", lambda s: s.s3.put_object(Bucket=s.plain, Key="k", Body=BODY, ChecksumCRC32=CRC32)[
        "ChecksumCRC32"], CRC32),
    ("not told where not asked", lambda s: "ChecksumSHA1" in s.s3.head_object(**s.put(ChecksumAlgorithm="SHA1")),
     False),
    ("two at once", lambda s: s.put(ChecksumCRC32=CRC32, ChecksumSHA1=wrong("SHA1")), "400 InvalidRequest"),
    ("an algorithm without its checksum", lambda s: raw_upload(
        s, x_amz_sdk_checksum_algorithm="SHA256"), "400 InvalidRequest"),
    ("an unknown algorithm", lambda s: raw_upload(s, x_amz_sdk_checksum_algorithm="MD4"), "400 InvalidRequest"),
    ("a document with a wrong one", lambda s: s.s3.put_object_tagging(
        **s.put(), Tagging={"TagSet": []}, ContentMD5=wrong("CRC64NVME")), "400 InvalidDigest"),
]  # fmt: skip

ALL_ATTRIBUTES = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]


def attributes(s: Scene, named: dict[str, Any], *wanted: str, **how: Any) -> dict[str, Any]:
    answer = s.s3.get_object_attributes(**named, ObjectAttributes=list(wanted) or ALL_ATTRIBUTES, **how)
    return {name: value for name, value in answer.items() if name in ALL_ATTRIBUTES}


ATTRIBUTES: list[Expectation] = [
    ("all of an object", lambda s: attributes(s, s.put(ChecksumAlgorithm="CRC32")), {
        "ETag": ETAG.strip('"'), "StorageClass": "STANDARD", "ObjectSize": len(BODY),
        "Checksum": {"ChecksumCRC32": CRC32, "ChecksumType": "FULL_OBJECT"}}),
    *((f"only {name}", lambda s, n=name: list(attributes(s, s.put(), n)), [name]) for name in (
        "ETag", "StorageClass", "ObjectSize")),
    ("the parts of what has none", lambda s: attributes(s, s.put(), "ObjectParts"), {}),
    ("of nothing", lambda s: attributes(s, s.put(body=b""), "ObjectSize"), {"ObjectSize": 0}),
    ("of a version", lambda s: [s.s3.get_object_attributes(**v, ObjectAttributes=["ETag"])["VersionId"] == v[
        "VersionId"] for v in [s.put(s.versioned)]], [True]),
    ("with its date", lambda s: [s.s3.get_object_attributes(**v, ObjectAttributes=["ETag"])["LastModified"] == head(
        s)["LastModified"] for v in [s.put()]], [True]),
    ("an unknown one", lambda s: attributes(s, s.put(), "Colour"), "400 InvalidArgument"),
    ("an unknown one of a missing key", lambda s: attributes(s, {"Bucket": s.plain, "Key": "none"}, "Colour"),
     "400 InvalidArgument"),
    ("of a missing key", lambda s: attributes(s, {"Bucket": s.plain, "Key": "none"}), "404 NoSuchKey"),
    ("of a missing bucket", lambda s: attributes(s, {"Bucket": "missing", "Key": "none"}), "404 NoSuchBucket"),
    ("of a marker", lambda s: attributes(s, s.marker()), "405 MethodNotAllowed"),
    ("of a deleted object", lambda s: attributes(s, {"Bucket": s.marker()["Bucket"], "Key": "k"}), "404 NoSuchKey"),
]  # fmt: skip


def tags(s: Scene, key: str = "k", bucket: str | None = None, **version: str) -> dict[str, str]:
    answer = s.s3.get_object_tagging(Bucket=bucket or s.plain, Key=key, **version)
    return {each["Key"]: each["Value"] for each in answer["TagSet"]}


def tagged(s: Scene, said: dict[str, str], named: dict[str, Any] | None = None) -> Any:
    """Set tags and read them."""
    named = named or s.put()
    s.s3.put_object_tagging(**named, Tagging={"TagSet": [{"Key": key, "Value": value} for key, value in said.items()]})
    return tags(s, bucket=named["Bucket"])


TAGS: list[Expectation] = [
    ("none", lambda s: tags(s, bucket=s.put()["Bucket"]), {}),
    ("some", lambda s: tagged(s, {"a": "1", "b": ""}), {"a": "1", "b": ""}),
    ("replaced as a whole", lambda s: (tagged(s, {"a": "1"}), tagged(s, {"b": "2"}))[1], {"b": "2"}),
    ("ten", lambda s: len(tagged(s, {f"t{i}": "v" for i in range(10)})), 10),
    ("eleven", lambda s: tagged(s, {f"t{i}": "v" for i in range(11)}), "400 BadRequest"),
    ("the longest", lambda s: len(tagged(s, {"n" * 128: "v" * 256})), 1),
    ("a name that is too long", lambda s: tagged(s, {"n" * 129: "v"}), "400 InvalidTag"),
    ("a value that is too long", lambda s: tagged(s, {"n": "v" * 257}), "400 InvalidTag"),
    ("every sign that is allowed", lambda s: tagged(s, {"a +-=._:/@": "b +-=._:/@"}), {"a +-=._:/@": "b +-=._:/@"}),
    ("other scripts", lambda s: tagged(s, {"\u0431": "\u4e2d"}), {"\u0431": "\u4e2d"}),
    ("a sign that is not allowed", lambda s: tagged(s, {"a*": "b"}), "400 InvalidTag"),
    ("a name of Amazon's own", lambda s: tagged(s, {"aws:a": "b"}), "400 InvalidTag"),
    ("a name twice", lambda s: s.s3.put_object_tagging(**s.put(), Tagging={"TagSet": [{"Key": "a", "Value": "1"}] * 2}),
     "400 InvalidTag"),
    ("removed", lambda s: (tagged(s, {"a": "1"}), s.s3.delete_object_tagging(Bucket=s.plain, Key="k"), tags(s))[2], {}),
    ("removed: the status", lambda s: status_of(s.s3.delete_object_tagging(**s.put())), 204),
    ("a name alone, with the upload", lambda s: tags(s, bucket=s.put(Tagging="a&b=1")["Bucket"]), {"a": "", "b": "1"}),
    ("set with the upload", lambda s: tags(s, bucket=s.put(Tagging="a=1&b=%2B")["Bucket"]), {"a": "1", "b": "+"}),
    ("counted on GET", lambda s: s.s3.get_object(**s.put(Tagging="a=1&b=2"))["TagCount"], 2),
    ("a name twice, with the upload", lambda s: s.put(Tagging="a=1&a=2"), "400 InvalidTag"),
    ("of a missing key", lambda s: tags(s, "none"), "404 NoSuchKey"),
    ("set on a missing key", lambda s: tagged(s, {}, {"Bucket": s.plain, "Key": "none"}), "404 NoSuchKey"),
    ("of an older version", lambda s: [
        (tagged(s, {"a": "old"}, v), s.put(s.versioned), tags(s, bucket=s.versioned),
         tags(s, bucket=s.versioned, VersionId=v["VersionId"]))[2:] for v in [s.put(s.versioned)]],
     [({}, {"a": "old"})]),
    ("the version is named", lambda s: [s.s3.get_object_tagging(**v)["VersionId"] == v["VersionId"] for v in [
        s.put(s.versioned)]], [True]),
    ("no version is named without versioning", lambda s: "VersionId" in s.s3.get_object_tagging(**s.put()), False),
    ("of a marker", lambda s: s.s3.get_object_tagging(**s.marker()), "405 MethodNotAllowed"),
]  # fmt: skip


def batch(s: Scene, bucket: str, *objects: dict[str, Any], quiet: bool = False) -> Any:
    """Delete in a batch. Returns the deletions it reports and the codes of its errors."""
    answer = s.s3.delete_objects(Bucket=bucket, Delete={"Objects": list(objects), "Quiet": quiet})
    return answer.get("Deleted", []), [each["Code"] for each in answer.get("Errors", [])]


def only(named: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name != "Bucket"}


DELETIONS: list[Expectation] = [
    ("an object", lambda s: status_of(s.s3.delete_object(**s.put())), 204),
    ("it is gone", lambda s: (s.s3.delete_object(**s.put()), s.read(s.plain)), "404 NoSuchKey"),
    ("what is not there", lambda s: status_of(s.s3.delete_object(Bucket=s.plain, Key="none")), 204),
    ("in a missing bucket", lambda s: s.s3.delete_object(Bucket="missing", Key="k"), "404 NoSuchBucket"),
    ("nothing is said of a version", lambda s: "VersionId" in s.s3.delete_object(**s.put()), False),
    ("a batch", lambda s: (batch(s, s.put_all("a", "b"), {"Key": "a"}, {"Key": "b"}), s.keys(s.plain)),
     (([{"Key": "a"}, {"Key": "b"}], []), [])),
    ("a batch of what is not there", lambda s: batch(s, s.plain, {"Key": "none"}), ([{"Key": "none"}], [])),
    ("a batch that names one twice", lambda s: batch(s, s.put()["Bucket"], {"Key": "k"}, {"Key": "k"}),
     ([{"Key": "k"}, {"Key": "k"}], [])),
    ("a quiet batch", lambda s: batch(s, s.put()["Bucket"], {"Key": "k"}, quiet=True), ([], [])),
    ("an empty batch", lambda s: batch(s, s.plain), "400 MalformedXML"),
    ("a thousand", lambda s: len(batch(s, s.plain, *({"Key": str(i)} for i in range(1000)))[0]), 1000),
    ("more than a thousand", lambda s: batch(s, s.plain, *({"Key": str(i)} for i in range(1001))), "400 MalformedXML"),
    ("in a missing bucket, a batch", lambda s: batch(s, "missing", {"Key": "k"}), "404 NoSuchBucket"),
    ("odd names in a batch", lambda s: batch(s, s.put(key="a&<b>\N{SNOWMAN}")["Bucket"], {"Key": "a&<b>\N{SNOWMAN}"}),
     ([{"Key": "a&<b>\N{SNOWMAN}"}], [])),
    ("a batch makes markers", lambda s: [
        (each["DeleteMarker"], len(each["DeleteMarkerVersionId"])) for each in batch(
            s, s.put(s.versioned)["Bucket"], {"Key": "k"})[0]], [(True, 32)]),
    ("a batch removes a version", lambda s: [
        batch(s, s.versioned, only(v)) == ([only(v)], []) for v in [s.put(s.versioned)]], [True]),
    ("a batch removes a marker", lambda s: [
        batch(s, s.versioned, only(v)) == (
            [{**only(v), "DeleteMarker": True, "DeleteMarkerVersionId": v["VersionId"]}], [])
        for v in [s.marker()]], [True]),
    ("a batch and a lock", lambda s: batch(s, s.locked, only(s.put(s.locked, **s.governed())))[1], ["AccessDenied"]),
    ("a batch and a lock, bypassed", lambda s: len(s.s3.delete_objects(
        Bucket=s.locked, Delete={"Objects": [only(s.put(s.locked, **s.governed()))]},
        BypassGovernanceRetention=True)["Deleted"]), 1),
    ("all versions, by the resource", lambda s: (
        s.put(s.versioned), s.marker(), s.resource.Bucket(s.versioned).object_versions.delete(),
        s.versions(s.versioned))[3], []),
    ("all objects, by the resource", lambda s: (
        s.put_all("a", "b"), s.resource.Bucket(s.plain).objects.all().delete(), s.keys(s.plain))[2], []),
]  # fmt: skip
