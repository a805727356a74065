"""The platform's answers as boto3 returns them: error codes, and listings page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import botocore.exceptions

from archiver.values.errors import PlatformError
from archiver.values.visible import one_line

_MARKERS = ("NextKeyMarker", "NextVersionIdMarker", "NextUploadIdMarker")


def code_of(error: botocore.exceptions.ClientError) -> str:
    """Return the S3 error code of a refusal, for example NoSuchBucket."""
    return str(error.response.get("Error", {}).get("Code", ""))


def quoted(error: botocore.exceptions.ClientError) -> str:
    """Return code and message of a refusal."""
    return one_line(f"{code_of(error)}: {error.response.get('Error', {}).get('Message', '')}")


def rows_of(page: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the versions and the delete markers of a page."""
    return [*page.get("Versions", []), *page.get("DeleteMarkers", [])]


def pages(client: Any, listing: str, *, bucket: str, prefix: str = "", after: str = "") -> Iterator[dict[str, Any]]:
    """Yield the pages of ``listing``: list_object_versions or list_multipart_uploads. Keys begin after ``after``.

    Raises PlatformError for a listing that cannot be trusted: it has a key without the prefix, it repeats a marker and
    so never ends, or it ends although more follows. Raises ClientError.
    """
    where = f"{client.meta.endpoint_url}: the listing of bucket {bucket}"
    wanted = {"Prefix": prefix} if prefix else {}
    wanted |= {"KeyMarker": after} if after else {}
    seen: set[tuple[str | None, ...]] = set()
    for page in client.get_paginator(listing).paginate(Bucket=bucket, **wanted):
        for row in (*rows_of(page), *page.get("Uploads", [])):
            if not row["Key"].startswith(prefix):
                raise PlatformError(
                    f"{where} has key {row['Key']}, although only keys under {prefix} were requested; such a listing "
                    "cannot be trusted"
                )
        if page.get("IsTruncated"):
            marker = tuple(page.get(name) for name in _MARKERS)
            if not any(marker):
                raise PlatformError(f"{where} is incomplete: more keys follow, but it does not say after which")
            if marker in seen:
                raise PlatformError(f"{where} never ends: the platform names the same next key twice ({marker[0]})")
            seen.add(marker)
        yield page
