"""Whole tools on the embedded store: boto3's transfers, and the AWS CLI if it is installed.

A tool must read back what it wrote, byte for byte. Which requests it uses is not tested.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig

from archiver.values.sizes import format_instant
from backends.embedded.process import StoreProcess

MIB = 1 << 20
IN_PARTS = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)
SECONDS_MAX = 120
Aws = Callable[..., str]

needs_aws = pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS CLI is not installed")


def content(size: int) -> bytes:
    """Bytes without repetition, so that a wrong offset shows."""
    return b"".join(number.to_bytes(8, "big") for number in range(-(-size // 8)))[:size]


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, int], Path]:
    def write(name: str, size: int) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content(size))
        return path

    return write


@pytest.mark.parametrize(
    "said",
    [
        {},
        *(
            pytest.param(said, marks=pytest.mark.long)
            for said in (
                {"ChecksumAlgorithm": "CRC32"},
                {"ChecksumAlgorithm": "CRC32C"},
                {"ChecksumAlgorithm": "CRC64NVME"},
                {"ChecksumAlgorithm": "SHA1"},
                {"ChecksumAlgorithm": "SHA256"},
                {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"},
            )
        ),
    ],
    ids=lambda said: "-".join(said.values()) or "as boto3 sends it",
)
@pytest.mark.parametrize("size", [0, 11 * MIB + 1], ids=["nothing", "in parts"])
def test_downloaded_file_equals_uploaded_file(
    s3: Any, bucket: str, file: Callable[[str, int], Path], tmp_path: Path, said: dict[str, str], size: int
) -> None:
    sent, back = file("sent", size), tmp_path / "back"
    s3.upload_file(str(sent), bucket, "k", Config=IN_PARTS, ExtraArgs={**said, "Metadata": {"case": "A-17"}})
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["Metadata"] == {"case": "A-17"}
    assert f"Checksum{said.get('ChecksumAlgorithm', 'CRC32')}" in head
    s3.download_file(bucket, "k", str(back), Config=IN_PARTS)
    assert back.read_bytes() == sent.read_bytes()


def test_an_object_is_copied_in_parts(s3: Any, bucket: str, file: Callable[[str, int], Path], tmp_path: Path) -> None:
    sent, back = file("sent", 11 * MIB + 1), tmp_path / "back"
    s3.upload_file(str(sent), bucket, "k", Config=IN_PARTS)
    s3.copy({"Bucket": bucket, "Key": "k"}, bucket, "copy", Config=IN_PARTS)
    s3.download_file(bucket, "copy", str(back), Config=IN_PARTS)
    assert back.read_bytes() == sent.read_bytes()


# ---- the AWS CLI


@pytest.fixture
def aws(store: StoreProcess, tmp_path: Path) -> Aws:
    """Run one command and return its output. `fails`: the text that a refused command must print on stderr."""
    # The CLI's default is signature version 2, which Amazon accepts only for buckets made before June 2020.
    (tmp_path / "config").write_text("[default]\ns3 =\n  signature_version = s3v4\n")
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("AWS_") and name != "PYTHONPATH"
    } | {
        "AWS_ACCESS_KEY_ID": store.access_key,
        "AWS_SECRET_ACCESS_KEY": store.secret_key,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": store.endpoint,
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "no-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }

    def run(*words: str | Path, fails: str | None = None) -> str:
        done = subprocess.run(
            ["aws", *map(str, words)], env=environment, capture_output=True, text=True, timeout=SECONDS_MAX
        )
        if fails is None:
            assert done.returncode == 0, done.stderr
        else:
            assert done.returncode != 0
            assert fails in done.stderr
        return done.stdout

    return run


def listed(aws: Aws, where: str) -> list[str]:
    return [line.split(maxsplit=3)[3] for line in aws("s3", "ls", "--recursive", where).splitlines()]


@needs_aws
def test_cli_uploads_and_downloads_a_file_unchanged(
    aws: Aws, bucket: str, file: Callable[[str, int], Path], tmp_path: Path
) -> None:
    sent, back = file("sent", 9 * MIB), tmp_path / "back"  # two parts
    aws("s3", "cp", "--no-progress", sent, f"s3://{bucket}/k")
    aws("s3", "cp", "--no-progress", f"s3://{bucket}/k", back)
    assert back.read_bytes() == sent.read_bytes()


@needs_aws
@pytest.mark.long
def test_cli_syncs_moves_copies_and_deletes_a_folder(
    aws: Aws, file: Callable[[str, int], Path], tmp_path: Path
) -> None:
    there = "s3://cli-folder"
    names = ["a", "b/c d+e%", "b/\N{SNOWMAN}"]
    folder = tmp_path / "folder"
    for place, name in enumerate(names):
        file(f"folder/{name}", 1000 + place)
    aws("s3", "mb", there)
    assert "cli-folder" in aws("s3", "ls")
    aws("s3", "sync", "--no-progress", folder, there)
    assert listed(aws, there) == sorted(names)
    assert aws("s3", "sync", "--no-progress", folder, there) == ""  # Nothing has changed.
    assert "PRE b/" in aws("s3", "ls", there)
    aws("s3", "sync", "--no-progress", there, tmp_path / "back")
    for name in names:
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes()
    (folder / "a").unlink()
    aws("s3", "sync", "--no-progress", "--delete", folder, there)
    assert listed(aws, there) == sorted(names[1:])
    aws("s3", "mv", "--no-progress", f"{there}/{names[1]}", f"{there}/moved")
    aws("s3", "cp", "--no-progress", f"{there}/moved", f"{there}/copied", "--metadata-directive", "REPLACE",
        "--content-type", "a/b", "--cache-control", "no-store")  # fmt: skip
    told = json.loads(aws("s3api", "head-object", "--bucket", "cli-folder", "--key", "copied"))
    assert (told["ContentType"], told["CacheControl"]) == ("a/b", "no-store")
    aws("s3", "rb", there, fails="BucketNotEmpty")
    aws("s3", "rb", "--force", there)
    aws("s3", "ls", there, fails="NoSuchBucket")


@needs_aws
@pytest.mark.long
def test_cli_sets_and_lifts_object_locks(
    aws: Aws, bucket: str, until: datetime, file: Callable[[str, int], Path]
) -> None:
    def ask(call: str, *words: str | Path, **how: str) -> Any:
        printed = aws("s3api", call, "--bucket", bucket, *words, **how)
        return json.loads(printed) if printed else None

    body, date = file("record", 1000), format_instant(until.timestamp())
    rule = '{"ObjectLockEnabled":"Enabled","Rule":{"DefaultRetention":{"Mode":"GOVERNANCE","Days":1}}}'
    assert ask("get-object-lock-configuration")["ObjectLockConfiguration"] == {"ObjectLockEnabled": "Enabled"}
    ask("put-object-lock-configuration", "--object-lock-configuration", rule)
    assert ask("get-object-lock-configuration")["ObjectLockConfiguration"] == json.loads(rule)
    ask("put-object-lock-configuration", "--object-lock-configuration", '{"ObjectLockEnabled":"Enabled"}')
    version = ask("put-object", "--key", "k", "--body", body)["VersionId"]
    its = "--key", "k", "--version-id", version
    ask("put-object-retention", *its, "--retention", f"Mode=GOVERNANCE,RetainUntilDate={date}")
    assert ask("get-object-retention", *its)["Retention"]["Mode"] == "GOVERNANCE"
    ask("put-object-legal-hold", *its, "--legal-hold", "Status=ON")
    assert ask("get-object-legal-hold", *its)["LegalHold"] == {"Status": "ON"}
    ask("delete-object", *its, "--bypass-governance-retention", fails="AccessDenied")
    ask("put-object-legal-hold", *its, "--legal-hold", "Status=OFF")
    ask("delete-object", *its, fails="AccessDenied")
    marker = ask("delete-object", "--key", "k")
    assert marker["DeleteMarker"] is True
    shown = ask("list-object-versions")
    assert [each["VersionId"] for each in shown["Versions"]] == [version]
    assert [each["VersionId"] for each in shown["DeleteMarkers"]] == [marker["VersionId"]]
    objects = [{"Key": "k", "VersionId": each} for each in (version, marker["VersionId"])]
    refused = ask("delete-objects", "--delete", json.dumps({"Objects": objects}))
    assert [each["Code"] for each in refused["Errors"]] == ["AccessDenied"]
    done = ask("delete-objects", "--bypass-governance-retention", "--delete", json.dumps({"Objects": objects[:1]}))
    assert [each["VersionId"] for each in done["Deleted"]] == [version]


@needs_aws
@pytest.mark.long
def test_cli_completes_a_multipart_upload_call_by_call(aws: Aws, bucket: str, file: Callable[[str, int], Path]) -> None:
    def ask(call: str, *words: str | Path) -> Any:
        printed = aws("s3api", call, "--bucket", bucket, *words)
        return json.loads(printed) if printed else None

    upload = ask("create-multipart-upload", "--key", "k", "--checksum-algorithm", "SHA256")["UploadId"]
    its: Sequence[str] = "--key", "k", "--upload-id", upload
    parts = []
    for number, size in enumerate((5 * MIB, 1000), 1):
        part = ask("upload-part", *its, "--part-number", str(number), "--body", file(f"part{number}", size),
                   "--checksum-algorithm", "SHA256")  # fmt: skip
        parts.append({"PartNumber": number, "ETag": part["ETag"], "ChecksumSHA256": part["ChecksumSHA256"]})
    assert [each["Size"] for each in ask("list-parts", *its)["Parts"]] == [5 * MIB, 1000]
    assert [each["UploadId"] for each in ask("list-multipart-uploads")["Uploads"]] == [upload]
    ask("complete-multipart-upload", *its, "--multipart-upload", json.dumps({"Parts": parts}))
    told = ask("get-object-attributes", "--key", "k", "--object-attributes", "ObjectParts", "ObjectSize")
    assert (told["ObjectSize"], told["ObjectParts"]["TotalPartsCount"]) == (5 * MIB + 1000, 2)


@needs_aws
@pytest.mark.long
def test_cli_presigned_url_returns_the_object(aws: Aws, bucket: str, s3: Any, tmp_path: Path) -> None:
    s3.put_object(Bucket=bucket, Key="a b+c", Body=b"record")
    url = aws("s3", "presign", f"s3://{bucket}/a b+c", "--expires-in", "60").strip()
    with urllib.request.urlopen(url, timeout=SECONDS_MAX) as answer:
        assert answer.read() == b"record"
