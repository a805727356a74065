"""Short calls of multipart uploads through boto3, for tests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

MIB = 1 << 20


FIRST, LAST = os.urandom(5 * MIB), os.urandom(1000)


def create(s3: Any, bucket: str, key: str = "k", **wanted: Any) -> dict[str, str]:
    """Start an upload. Returns the arguments that name it in further calls."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key, **wanted)
    return {"Bucket": bucket, "Key": key, "UploadId": upload["UploadId"]}


def send(s3: Any, upload: dict[str, str], pieces: Sequence[bytes], **wanted: Any) -> list[dict[str, Any]]:
    """Upload these parts. Returns the list that completes the upload."""
    parts = []
    for number, piece in enumerate(pieces, 1):
        answer = s3.upload_part(**upload, PartNumber=number, Body=piece, **wanted)
        about = {name: value for name, value in answer.items() if name == "ETag" or name.startswith("Checksum")}
        parts.append({"PartNumber": number, **about})
    return parts


def complete(s3: Any, upload: dict[str, str], parts: Sequence[dict[str, Any]], **wanted: Any) -> Any:
    return s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts}, **wanted)


def uploaded(s3: Any, bucket: str, pieces: Sequence[bytes], key: str = "k", **wanted: Any) -> Any:
    upload = create(s3, bucket, key, **wanted)
    return complete(s3, upload, send(s3, upload, pieces))
