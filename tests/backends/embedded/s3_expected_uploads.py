"""Expectations of S3 clients of multipart uploads.

`s3_scene` defines an expectation; `test_s3_expectations.py` runs the tables. Uploads of several parts of 5 MiB, which
take longer, are in `test_s3_uploads.py`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any

from tests.backends.embedded.s3_expected_objects import ALGORITHMS, attributes, head, said, tags
from tests.backends.embedded.s3_expected_versions import in_parts
from tests.backends.embedded.s3_scene import BODY, Expectation, Scene, checksum, status_of, tried

MIB5 = 5 << 20
SEVEN = b"1234567"
COMPOSITE_ETAG = f'"{hashlib.md5(hashlib.md5(BODY).digest()).hexdigest()}-1"'
Named = dict[str, Any]


def begun(s: Scene, key: str = "k", bucket: str | None = None, **wanted: Any) -> Named:
    named = {"Bucket": bucket or s.plain, "Key": key}
    return {**named, "UploadId": s.s3.create_multipart_upload(**named, **wanted)["UploadId"]}


def sent(s: Scene, upload: Named, number: int = 1, body: bytes = BODY, **wanted: Any) -> Named:
    """Upload a part. Returns its entry for the list that completes the upload."""
    answer = s.s3.upload_part(**upload, PartNumber=number, Body=body, **wanted)
    checksums = {name: value for name, value in answer.items() if name.startswith("Checksum")}
    return {"PartNumber": number, "ETag": answer["ETag"], **checksums}


def completed(s: Scene, upload: Named, parts: Sequence[Named], **wanted: Any) -> Named:
    answer: Named = s.s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": list(parts)}, **wanted)
    return answer


def whole(s: Scene, *bodies: bytes, part: dict[str, Any] | None = None, **wanted: Any) -> Named:
    """Upload an object in parts, one for each body. `part`: the arguments of every part."""
    upload = begun(s, **wanted)
    return completed(s, upload, [sent(s, upload, n, body, **(part or {})) for n, body in enumerate(bodies, 1)])


def open_ones(s: Scene, **wanted: Any) -> Named:
    answer: Named = s.s3.list_multipart_uploads(Bucket=s.plain, **wanted)
    return answer


def open_keys(s: Scene, **wanted: Any) -> tuple[list[str], list[str]]:
    answer = open_ones(s, **wanted)
    return [each["Key"] for each in answer.get("Uploads", [])], [
        each["Prefix"] for each in answer.get("CommonPrefixes", [])
    ]


def small_parts(s: Scene, count: int = 3) -> Named:
    """An unfinished upload of small parts. Only the last part of a completed upload may be small."""
    upload = begun(s)
    for number in range(1, count + 1):
        sent(s, upload, number)
    return upload


def two(s: Scene) -> tuple[Named, list[Named]]:
    upload = begun(s)
    return upload, [sent(s, upload, 1, b"a"), sent(s, upload, 2, b"b")]


UPLOADS_IN_PARTS: list[Expectation] = [
    ("an upload has an id", lambda s: len(begun(s)["UploadId"]) > 0, True),
    ("two uploads of a key are two", lambda s: begun(s)["UploadId"] != begun(s)["UploadId"], True),
    ("into a missing bucket", lambda s: begun(s, bucket="missing"), "404 NoSuchBucket"),
    ("nothing is there before its end", lambda s: (sent(s, begun(s)), s.keys(s.plain))[1], []),
    ("the bytes", lambda s: (whole(s, BODY), s.read(s.plain))[1], BODY),
    ("one part of nothing", lambda s: (whole(s, b""), s.read(s.plain))[1], b""),
    ("the ETag is made of those of the parts", lambda s: whole(s, BODY)["ETag"], COMPOSITE_ETAG),
    ("the answer names the object", lambda s: [
        (a["Bucket"] == s.plain, a["Key"], a["Location"].endswith(f"{s.plain}/k")) for a in [whole(s, BODY)]],
     [(True, "k", True)]),
    ("what was said of it at the beginning", lambda s: (
        whole(s, BODY, CacheControl="no-cache", ContentType="a/b"), said(s))[1],
     {"CacheControl": "no-cache", "ContentType": "a/b"}),
    ("metadata of the beginning", lambda s: (whole(s, BODY, Metadata={"a": "b"}), head(s)["Metadata"])[1], {"a": "b"}),
    ("tags of the beginning", lambda s: (whole(s, BODY, Tagging="a=b"), tags(s))[1], {"a": "b"}),
    ("an ACL for all", lambda s: begun(s, ACL="public-read"), "400 AccessControlListNotSupported"),
    ("another class", lambda s: begun(s, StorageClass="GLACIER"), "400 InvalidStorageClass"),
    ("encryption is not offered", lambda s: begun(s, ServerSideEncryption="AES256"), "501 NotImplemented"),
    ("it replaces what was there", lambda s: (s.put(), whole(s, SEVEN), s.read(s.plain))[2], SEVEN),
    ("an empty list", lambda s: completed(s, begun(s), []), "400 MalformedXML"),
    ("parts that were not sent", lambda s: completed(s, begun(s), [{"PartNumber": 1, "ETag": '"x"'}]),
     "400 InvalidPart"),
    ("a part with another ETag", lambda s: [
        completed(s, u, [{**sent(s, u), "ETag": '"ffffffffffffffffffffffffffffffff"'}]) for u in [begun(s)]],
     "400 InvalidPart"),
    ("a part by another number", lambda s: [
        completed(s, u, [{**sent(s, u), "PartNumber": 9999}]) for u in [begun(s)]], "400 InvalidPart"),
    ("parts out of order", lambda s: [completed(s, u, parts[::-1]) for u, parts in [two(s)]], "400 InvalidPartOrder"),
    ("a part twice", lambda s: [completed(s, u, parts[:1] * 2) for u, parts in [two(s)]], "400 InvalidPartOrder"),
    ("a part that is too small", lambda s: [completed(s, u, parts) for u, parts in [two(s)]], "400 EntityTooSmall"),
    ("what was refused can be said again", lambda s: [
        (tried(partial(completed, s, u, p)), completed(s, u, p[1:]), s.read(s.plain))[::2]
        for u, p in [two(s)]], [("400 EntityTooSmall", b"b")]),
    ("only listed parts count", lambda s: [
        (completed(s, u, p[:1]), s.read(s.plain))[1] for u, p in [two(s)]], [b"a"]),
    ("numbers may have gaps", lambda s: [
        (completed(s, u, [sent(s, u, 7, SEVEN)]), s.read(s.plain))[1] for u in [begun(s)]], [SEVEN]),
    ("a part sent again counts", lambda s: [
        (sent(s, u, 1, b"first"), completed(s, u, [sent(s, u, 1, b"second")]), s.read(s.plain))[2]
        for u in [begun(s)]], [b"second"]),
    ("part 0", lambda s: sent(s, begun(s), 0), "400 InvalidArgument"),
    ("part 10000", lambda s: sent(s, begun(s), 10_000)["PartNumber"], 10_000),
    ("part 10001", lambda s: sent(s, begun(s), 10_001), "400 InvalidArgument"),
    ("a part of an unknown upload", lambda s: sent(s, {"Bucket": s.plain, "Key": "k", "UploadId": "none"}),
     "404 NoSuchUpload"),
    ("a part of another key's upload", lambda s: sent(s, {**begun(s), "Key": "other"}), "404 NoSuchUpload"),
    ("a part in a missing bucket", lambda s: sent(s, {**begun(s), "Bucket": "missing"}), "404 NoSuchBucket"),
    ("a part with a wrong Content-MD5", lambda s: sent(s, begun(s), ContentMD5=base64.b64encode(bytes(16)).decode()),
     "400 BadDigest"),
    ("completing an unknown upload", lambda s: completed(
        s, {"Bucket": s.plain, "Key": "k", "UploadId": "none"}, [{"PartNumber": 1, "ETag": '"x"'}]),
     "404 NoSuchUpload"),
    ("completing twice", lambda s: [
        completed(s, u, p)["ETag"] == completed(s, u, p)["ETag"] for u in [begun(s)] for p in [[sent(s, u)]]], [True]),
    ("of the size that was said", lambda s: [
        status_of(completed(s, u, [sent(s, u)], MpuObjectSize=len(BODY))) for u in [begun(s)]], [200]),
    ("of another size", lambda s: [
        status_of(completed(s, u, [sent(s, u)], MpuObjectSize=1)) for u in [begun(s)]], "400 InvalidRequest"),
    ("aborting", lambda s: status_of(s.s3.abort_multipart_upload(**begun(s))), 204),
    ("aborting an unknown one", lambda s: s.s3.abort_multipart_upload(Bucket=s.plain, Key="k", UploadId="none"),
     "404 NoSuchUpload"),
    ("aborting twice", lambda s: [[s.s3.abort_multipart_upload(**u) for _ in range(2)] for u in [begun(s)]],
     "404 NoSuchUpload"),
    ("a part after aborting", lambda s: [
        (s.s3.abort_multipart_upload(**u), sent(s, u)) for u in [begun(s)]], "404 NoSuchUpload"),
    ("an aborted one is not listed", lambda s: (s.s3.abort_multipart_upload(**begun(s)), open_keys(s)[0])[1], []),
    ("a completed one is not listed", lambda s: (whole(s, BODY), open_keys(s)[0])[1], []),
    ("open ones are listed", lambda s: ([begun(s, key) for key in ("b", "a", "a")], open_keys(s)[0])[1],
     ["a", "a", "b"]),
    ("and folded", lambda s: ([begun(s, key) for key in ("a/1", "a/2", "b")], open_keys(s, Delimiter="/"))[1],
     (["b"], ["a/"])),
    ("and by prefix", lambda s: ([begun(s, key) for key in ("a/1", "a/2", "b")], open_keys(s, Prefix="a/")[0])[1],
     ["a/1", "a/2"]),
    ("and after a key", lambda s: ([begun(s, key) for key in ("a", "b")], open_keys(s, KeyMarker="a")[0])[1], ["b"]),
    ("and with odd names", lambda s: ([begun(s, "a b+c%")], open_keys(s)[0])[1], ["a b+c%"]),
    ("and in pages", lambda s: ([begun(s, key) for key in "abc"], [
        each["Key"] for page in s.s3.get_paginator("list_multipart_uploads").paginate(
            Bucket=s.plain, PaginationConfig={"PageSize": 1}) for each in page["Uploads"]])[1], ["a", "b", "c"]),
    ("the list tells whose they are", lambda s: (begun(s), [
        (each["Owner"]["ID"], each["Initiator"]["ID"], each["StorageClass"]) for each in open_ones(s)["Uploads"]])[1],
     [("archiver", "archiver", "STANDARD")]),
    ("parts are listed", lambda s: [
        (each["PartNumber"], each["Size"]) for each in s.s3.list_parts(**small_parts(s))["Parts"]],
     [(number, len(BODY)) for number in (1, 2, 3)]),
    ("parts in pages", lambda s: [
        each["PartNumber"] for page in s.s3.get_paginator("list_parts").paginate(
            **small_parts(s), PaginationConfig={"PageSize": 1}) for each in page["Parts"]], [1, 2, 3]),
    ("parts after a number", lambda s: [
        each["PartNumber"] for each in s.s3.list_parts(**small_parts(s), PartNumberMarker=1)["Parts"]], [2, 3]),
    ("parts of an unknown upload", lambda s: s.s3.list_parts(Bucket=s.plain, Key="k", UploadId="none"),
     "404 NoSuchUpload"),
    ("parts of a completed upload", lambda s: [
        (completed(s, u, [sent(s, u)]), s.s3.list_parts(**u)) for u in [begun(s)]], "404 NoSuchUpload"),
    ("a part is copied", lambda s: [
        (completed(s, u, [{"PartNumber": 1, "ETag": s.s3.upload_part_copy(
            **u, PartNumber=1, CopySource=s.put(s.other))["CopyPartResult"]["ETag"]}]), s.read(s.plain))[1]
        for u in [begun(s)]], [BODY]),
    ("a range is copied", lambda s: [
        (completed(s, u, [{"PartNumber": 1, "ETag": s.s3.upload_part_copy(
            **u, PartNumber=1, CopySource=s.put(s.other), CopySourceRange="bytes=4-9")["CopyPartResult"]["ETag"]}]),
         s.read(s.plain))[1] for u in [begun(s)]], [BODY[4:10]]),
    *(
        (f"the range {said_range} is copied", lambda s, r=said_range: s.s3.upload_part_copy(
            **begun(s), PartNumber=1, CopySource=s.put(s.other), CopySourceRange=r), "400 InvalidArgument")
        for said_range in ("bytes=0-99", "bytes=9-4", "bytes=0-", "bytes=-4", "0-4", "bytes=a-b", "bytes=0-1,2-3")
    ),
    ("a part of a missing source", lambda s: s.s3.upload_part_copy(
        **begun(s), PartNumber=1, CopySource=f"{s.other}/none"), "404 NoSuchKey"),
    ("a part of another source", lambda s: s.s3.upload_part_copy(
        **begun(s), PartNumber=1, CopySource=s.put(s.other), CopySourceIfMatch='"x"'), "412 PreconditionFailed"),
    *(
        expectation
        for kind in ALGORITHMS
        for expectation in (
            (f"{kind}: in one part", lambda s, k=kind: [
                (f"Checksum{k}" in a, a["ChecksumType"]) for a in [whole(
                    s, BODY, ChecksumAlgorithm=k, part={"ChecksumAlgorithm": k})]],
             [(True, "FULL_OBJECT" if kind == "CRC64NVME" else "COMPOSITE")]),
            (f"{kind}: of the whole", lambda s, k=kind: whole(
                s, BODY, ChecksumAlgorithm=k, ChecksumType="FULL_OBJECT", part={"ChecksumAlgorithm": k})[
                "ChecksumType"], "FULL_OBJECT" if kind.startswith("CRC") else "400 InvalidRequest"),
            (f"{kind}: of the parts", lambda s, k=kind: whole(
                s, BODY, ChecksumAlgorithm=k, ChecksumType="COMPOSITE", part={"ChecksumAlgorithm": k})[
                "ChecksumType"], "400 InvalidRequest" if kind == "CRC64NVME" else "COMPOSITE"),
            (f"{kind}: told of the upload", lambda s, k=kind: (
                begun(s, ChecksumAlgorithm=k), open_ones(s)["Uploads"][0]["ChecksumAlgorithm"])[1], kind),
            (f"{kind}: told of the parts", lambda s, k=kind: [
                (sent(s, u, ChecksumAlgorithm=k), f"Checksum{k}" in s.s3.list_parts(**u)["Parts"][0])[1]
                for u in [begun(s, ChecksumAlgorithm=k)]], [True]),
            (f"{kind}: a wrong one of a part", lambda s, k=kind: sent(
                s, begun(s, ChecksumAlgorithm=k), **checksum(k, "AAA=")), "400 InvalidRequest"),
            (f"{kind}: among the attributes", lambda s, k=kind: (
                whole(s, BODY, ChecksumAlgorithm=k, part={"ChecksumAlgorithm": k}), [
                    (a["TotalPartsCount"], f"Checksum{k}" in a["Parts"][0])
                    for a in [attributes(s, {"Bucket": s.plain, "Key": "k"})["ObjectParts"]]])[1], [(1, True)]),
        )
    ),
    ("a part by another algorithm", lambda s: sent(s, begun(s, ChecksumAlgorithm="SHA1"), ChecksumAlgorithm="CRC32"),
     "400 InvalidRequest"),
    ("a type without an algorithm", lambda s: begun(s, ChecksumType="COMPOSITE"), "400 InvalidRequest"),
    ("a composite without the parts' own", lambda s: [
        completed(s, u, [{name: value for name, value in sent(s, u, ChecksumAlgorithm="SHA1").items()
                          if name != "ChecksumSHA1"}]) for u in [begun(s, ChecksumAlgorithm="SHA1")]],
     "400 InvalidRequest"),
    ("a wrong one of the whole", lambda s: [
        completed(s, u, [sent(s, u, ChecksumAlgorithm="CRC32")], ChecksumCRC32="AAAAAA==")
        for u in [begun(s, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")]], "400 BadDigest"),
    ("another type at the end", lambda s: [
        completed(s, u, [sent(s, u, ChecksumAlgorithm="CRC32")], ChecksumType="COMPOSITE")
        for u in [begun(s, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")]], "400 InvalidRequest"),
    ("the attributes without a checksum", lambda s: (
        in_parts(s, s.plain, "plain"), attributes(s, {"Bucket": s.plain, "Key": "plain"}, "ObjectParts"))[1],
     {"ObjectParts": {"TotalPartsCount": 1, "PartNumberMarker": 0, "NextPartNumberMarker": 1, "MaxParts": 1000,
                      "IsTruncated": False}}),
    ("the attributes in pages", lambda s: [
        [part["PartNumber"] for part in page["Parts"]] + [page["IsTruncated"]]
        for named in [three_parts(s)] for page in (
            attributes(s, named, "ObjectParts", MaxParts=2)["ObjectParts"],
            attributes(s, named, "ObjectParts", MaxParts=2, PartNumberMarker=2)["ObjectParts"])],
     [[1, 2, True], [3, False]]),
    ("the part by its number, and how many", lambda s: [
        (a["PartsCount"], a["ContentLength"], a["ContentRange"])
        for a in [s.s3.get_object(**three_parts(s), PartNumber=3)]],
     [(3, 7, f"bytes {2 * MIB5}-{2 * MIB5 + 6}/{2 * MIB5 + 7}")]),
    ("HEAD of a part", lambda s: s.s3.head_object(**three_parts(s), PartNumber=2)["ContentLength"], MIB5),
    ("a part beyond the last", lambda s: s.s3.get_object(**three_parts(s), PartNumber=4), "416 InvalidPartNumber"),
    ("a range across parts", lambda s: s.read(**_lower(three_parts(s)), Range=f"bytes={2 * MIB5 - 1}-"),
     b"b" + SEVEN),
]  # fmt: skip


def three_parts(s: Scene) -> Named:
    """An object of three parts, shared by all expectations, which only read it."""
    return {"Bucket": s.made_once("three parts", lambda bucket: _make_three_parts(s, bucket)), "Key": "k"}


def _make_three_parts(s: Scene, bucket: str) -> None:
    upload = begun(s, bucket=bucket, ChecksumAlgorithm="SHA256")
    bodies = (b"a" * MIB5, b"b" * MIB5, SEVEN)
    completed(s, upload, [sent(s, upload, n, body, ChecksumAlgorithm="SHA256") for n, body in enumerate(bodies, 1)])


def _lower(named: Named) -> dict[str, Any]:
    return {"bucket": named["Bucket"], "key": named["Key"]}
