"""Expectations that boto3, the AWS CLI and the public suites have of Amazon S3, run against the embedded store.

Each row of a table has a function and its expected result. A row states Amazon's answer, unless its name says that the
store does not offer something. docs/s3-conformance.md lists what the tables leave out and where the store deviates.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from backends.embedded.process import StoreProcess
from tests.backends.embedded import s3_expected_buckets, s3_expected_objects, s3_expected_uploads, s3_expected_versions
from tests.backends.embedded.s3_scene import Expectation, Scene, outcome

FAMILIES: dict[str, list[Expectation]] = {
    "bucket": s3_expected_buckets.BUCKETS,
    "setting": s3_expected_buckets.SETTINGS,
    "listing": s3_expected_buckets.LISTINGS,
    "upload": s3_expected_objects.UPLOADS,
    "condition": s3_expected_objects.CONDITIONAL,
    "read": s3_expected_objects.READS,
    "copy": s3_expected_objects.COPIES,
    "checksum": s3_expected_objects.CHECKSUMS,
    "attribute": s3_expected_objects.ATTRIBUTES,
    "tag": s3_expected_objects.TAGS,
    "deletion": s3_expected_objects.DELETIONS,
    "version": s3_expected_versions.VERSIONS,
    "lock": s3_expected_versions.LOCKS,
    "multipart": s3_expected_uploads.UPLOADS_IN_PARTS,
}
# If rows repeat an expectation for several calls or kinds of checksum, the daily run takes only one of them.
SIBLINGS = (
    "list_objects: ", "list_object_versions: ", "head_object: ", "copy_object: ", "complete_multipart_upload: ",
    "CRC32: ", "CRC32C: ", "SHA1: ", "the key 'a", "a bucket called", "delete_", "put_",
)  # fmt: skip
_numbers = itertools.count()


@pytest.fixture(scope="module")
def shared() -> dict[str, str]:
    return {}


@pytest.mark.parametrize(
    ("deed", "expected"),
    [
        pytest.param(
            deed, expected, id=f"{family}: {name}", marks=pytest.mark.long if name.startswith(SIBLINGS) else ()
        )
        for family, rows in FAMILIES.items()
        for name, deed, expected in rows
    ],
)
def test_store_meets_the_expectation(
    s3: Any, store: StoreProcess, until: datetime, shared: dict[str, str],
    deed: Callable[[Scene], Any], expected: Any,
) -> None:  # fmt: skip
    access = {
        "endpoint_url": store.endpoint, "region_name": "us-east-1",
        "aws_access_key_id": store.access_key, "aws_secret_access_key": store.secret_key,
    }  # fmt: skip
    scene = Scene(s3, access, next(_numbers), until, shared)
    assert outcome(deed, scene) == expected


def test_names_of_expectations_are_unique_in_each_family() -> None:
    for family, rows in FAMILIES.items():
        names = [name for name, _, _ in rows]
        assert len(names) == len(set(names)), family
