"""Test real clients through `archiver capture`: requests succeed, and the trace has their operations in order."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import boto3
import pytest
import trustme
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError
from yarl import URL

from archiver.traces.format import TracedOperation
from archiver.values.sizes import format_instant
from backends.embedded import process as embedded
from backends.s3.wire.signing import EMPTY_SHA256, RequestTemplate, Signer, encode_path
from tests.archiver.traces.capturing import HANG_SECONDS, Capture, capturing
from tests.support.servers import real

MIB = 1 << 20
ODD_KEY = "a b/+ü%41&=?#/\u2028~.txt"


@dataclass(slots=True)
class Store:
    """A running S3 server."""

    name: str
    endpoint: str
    access_key: str
    secret_key: str


@contextmanager
def embedded_store(folder: Path) -> Iterator[Store]:
    with embedded.start(folder) as store:
        yield Store("embedded", store.endpoint, store.access_key, store.secret_key)


@pytest.fixture(
    scope="module", params=["embedded", *(pytest.param(name, marks=pytest.mark.platforms) for name in real.NAMES)]
)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        if request.param == "embedded":
            yield stack.enter_context(embedded_store(folder))
        else:
            server = stack.enter_context(real.real_server(request.param, folder))
            yield Store(request.param, server.endpoint, server.access.access_key, server.access.secret_key)


@pytest.fixture
def bucket(store: Store) -> str:
    """Create a bucket with Object Lock directly on the store."""
    name = f"captured-{time.monotonic_ns()}"
    boto3_client(store, store.endpoint).create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


@pytest.fixture
def capture(store: Store, tmp_path: Path) -> Iterator[Capture]:
    with capturing(tmp_path / "captured.parquet", store.endpoint) as running:
        yield running


def boto3_client(store: Store, endpoint: str, **options: Any) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
        config=Config(
            retries={"total_max_attempts": 1}, read_timeout=HANG_SECONDS, s3={"addressing_style": "path"}, **options
        ),
    )


def told(rows: list[TracedOperation], bucket: str) -> list[tuple[Any, ...]]:
    """Return operation, key without its bucket, size, range and status of each row."""
    return [
        (row.operation, (row.key or "").removeprefix(f"{bucket}/"), row.size_bytes, row.offset, row.length, row.status)
        for row in rows
    ]


def test_trace_has_the_operations_of_a_boto3_program(store: Store, bucket: str, capture: Capture) -> None:
    s3 = boto3_client(store, capture.endpoint)
    until = datetime.now(UTC) + timedelta(seconds=60)
    lock = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until}
    content = os.urandom(100_000)
    version = s3.put_object(Bucket=bucket, Key=ODD_KEY, Body=content, **lock)["VersionId"]
    s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    assert s3.get_object(Bucket=bucket, Key=ODD_KEY)["Body"].read() == content
    assert s3.get_object(Bucket=bucket, Key=ODD_KEY, Range="bytes=10-19")["Body"].read() == content[10:20]
    assert s3.get_object(Bucket=bucket, Key=ODD_KEY, Range="bytes=99990-")["Body"].read() == content[99_990:]
    assert s3.get_object(Bucket=bucket, Key="empty")["Body"].read() == b""
    s3.head_object(Bucket=bucket, Key=ODD_KEY)
    assert s3.get_object_retention(Bucket=bucket, Key=ODD_KEY)["Retention"]["Mode"] == "GOVERNANCE"
    s3.put_object_legal_hold(Bucket=bucket, Key=ODD_KEY, LegalHold={"Status": "ON"})
    s3.put_object_legal_hold(Bucket=bucket, Key=ODD_KEY, LegalHold={"Status": "OFF"})
    longer = {"Mode": "GOVERNANCE", "RetainUntilDate": until + timedelta(seconds=60)}
    s3.put_object_retention(Bucket=bucket, Key=ODD_KEY, Retention=longer)
    s3.put_object(Bucket=bucket, Key=ODD_KEY, Body=b"again")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": ODD_KEY})
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == b"again"
    s3.list_objects_v2(Bucket=bucket, Prefix="a b/")
    with pytest.raises(ClientError, match="NoSuchKey"):
        s3.get_object(Bucket=bucket, Key="missing")
    s3.delete_object(Bucket=bucket, Key="copy")
    with pytest.raises(ClientError):
        s3.delete_object(Bucket=bucket, Key=ODD_KEY, VersionId=version)
    both = [{"Key": ODD_KEY, "VersionId": version}, {"Key": "empty"}]
    errors = s3.delete_objects(Bucket=bucket, Delete={"Objects": both, "Quiet": True})["Errors"]
    assert [error["Key"] for error in errors] == [ODD_KEY]

    rows = capture.end()
    refused = rows[-3].status
    assert refused >= 400
    assert told(rows, bucket) == [
        ("archive", ODD_KEY, 100_000, None, None, 0),
        ("archive", "empty", 0, None, None, 0),
        ("retrieve", ODD_KEY, 100_000, None, None, 0),
        ("range-retrieve", ODD_KEY, 100_000, 10, 10, 0),
        ("range-retrieve", ODD_KEY, 100_000, 99_990, 10, 0),
        ("retrieve", "empty", 0, None, None, 0),
        ("head", ODD_KEY, 100_000, None, None, 0),
        ("query", ODD_KEY, None, None, None, 0),
        ("hold", ODD_KEY, None, None, None, 0),
        ("release", ODD_KEY, None, None, None, 0),
        ("extend", ODD_KEY, None, None, None, 0),
        ("archive", ODD_KEY, 5, None, None, 0),
        ("copy", "copy", None, None, None, 0),
        ("retrieve", "copy", 5, None, None, 0),
        ("list", "a b/", rows[14].size_bytes, None, None, 0),
        ("retrieve", "missing", None, None, None, 404),
        ("delete-marker", "copy", None, None, None, 0),
        ("delete", ODD_KEY, None, None, None, refused),
        ("delete", ODD_KEY, None, None, None, rows[-2].status),
        ("delete-marker", "empty", None, None, None, 0),
    ]
    assert rows[-2].status >= 400
    archived, extended, copied = rows[0], rows[10], rows[12]
    assert (archived.retention_mode, extended.retention_mode) == ("GOVERNANCE", "GOVERNANCE")
    assert archived.retain_for_seconds == pytest.approx(60, abs=5)
    assert extended.retain_for_seconds == pytest.approx(120, abs=5)
    assert [row.legal_hold for row in rows[8:10]] == [True, False]
    assert copied.source == f"{bucket}/{ODD_KEY}"
    assert {row.client for row in rows} == {0}


def test_multipart_upload_is_one_archive_and_multipart_copy_is_one_copy(
    store: Store, bucket: str, capture: Capture
) -> None:
    s3 = boto3_client(store, capture.endpoint)
    content = os.urandom(1 << 20) * 13
    parts = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=3)
    s3.upload_fileobj(io.BytesIO(content), bucket, "large", Config=parts)
    received = io.BytesIO()
    s3.download_fileobj(bucket, "large", received, Config=TransferConfig(use_threads=False))
    assert received.getvalue() == content
    s3.copy({"Bucket": bucket, "Key": "large"}, bucket, "copied", Config=parts)
    given_up = s3.create_multipart_upload(Bucket=bucket, Key="given up")["UploadId"]
    s3.upload_part(Bucket=bucket, Key="given up", UploadId=given_up, PartNumber=1, Body=b"x" * 1000)
    s3.abort_multipart_upload(Bucket=bucket, Key="given up", UploadId=given_up)
    left = s3.create_multipart_upload(Bucket=bucket, Key="left")["UploadId"]
    s3.upload_part(Bucket=bucket, Key="left", UploadId=left, PartNumber=1, Body=b"x" * 500)
    text = "\n".join(capture.journal_lines())
    assert left not in text
    assert given_up not in text
    rows = [row for row in capture.end() if row.operation not in ("head", "retrieve", "range-retrieve")]
    assert told(rows, bucket) == [
        ("archive", "large", 13 * MIB, None, 5 * MIB, 0),
        ("copy", "copied", 13 * MIB, None, 5 * MIB, 0),
        ("other", "given up", 1000, None, None, 0),
        ("other", "left", 500, None, None, 9),
    ]
    assert rows[1].source == f"{bucket}/large"


async def test_aiohttp_requests_with_our_signatures_are_recorded(store: Store, bucket: str, capture: Capture) -> None:
    signer = Signer(store.access_key, store.secret_key, "us-east-1")
    host = capture.endpoint.removeprefix("http://")
    path = encode_path(f"/{bucket}/{ODD_KEY}")
    now = int(time.time())
    body = os.urandom(70_000)
    md5 = b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()

    def headers(method: str, **more: str) -> dict[str, str]:
        given = {name.replace("_", "-"): value for name, value in more.items()}
        digest = hashlib.sha256(body).hexdigest() if method == "PUT" else EMPTY_SHA256
        template = RequestTemplate(method, host, {"x-amz-content-sha256": digest, **given})
        template.compile(signer, now, {})
        lines = template.head(path.encode()).decode().split("\r\n")[1:-2]
        return dict(line.split(": ", 1) for line in lines)

    url = URL(capture.endpoint + path, encoded=True)
    until = format_instant(now + 300)
    lock = {"content_md5": md5, "x_amz_object_lock_mode": "GOVERNANCE", "x_amz_object_lock_retain_until_date": until}
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        async with session.put(url, data=body, headers=headers("PUT", **lock)) as reply:
            assert reply.status == 200, await reply.text()
        async with session.get(url, headers=headers("GET", range="bytes=5-9")) as reply:
            assert (reply.status, await reply.read()) == (206, body[5:10])
        wrong = headers("GET")
        wrong["Authorization"] = wrong["Authorization"][:-4] + "0000"
        async with session.get(url, headers=wrong) as reply:
            assert reply.status == 403
    rows = capture.end()
    assert told(rows, bucket) == [
        ("archive", ODD_KEY, 70_000, None, None, 0),
        ("range-retrieve", ODD_KEY, 70_000, 5, 5, 0),
        ("retrieve", ODD_KEY, None, None, None, 403),
    ]
    assert (rows[0].retention_mode, rows[0].legal_hold) == ("GOVERNANCE", None)
    assert rows[0].retain_for_seconds == pytest.approx(300, abs=5)
    assert {(row.client, row.session) for row in rows} == {(0, 0)}


def test_presigned_url_works_through_the_capture(store: Store, bucket: str, capture: Capture) -> None:
    s3 = boto3_client(store, capture.endpoint, signature_version="s3v4")
    s3.put_object(Bucket=bucket, Key="given", Body=b"to all")
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "given"}, ExpiresIn=60)
    done = subprocess.run(
        [sys.executable, "-c", f"import urllib.request; print(urllib.request.urlopen({url!r}).read())"],
        capture_output=True, text=True, check=True, timeout=HANG_SECONDS,
    )  # fmt: skip
    assert done.stdout.strip() == "b'to all'"
    rows = capture.end()
    assert told(rows, bucket) == [("archive", "given", 6, None, None, 0), ("retrieve", "given", 6, None, None, 0)]
    assert [(row.client, row.session) for row in rows] == [(0, 0), (0, 1)]  # one credential and two connections


def test_client_using_the_capture_as_http_proxy_is_recorded(store: Store, bucket: str, capture: Capture) -> None:
    proxies = {"http": capture.endpoint}
    s3 = boto3_client(store, store.endpoint.replace("127.0.0.1", "localhost"), proxies=proxies)
    s3.put_object(Bucket=bucket, Key="by proxy", Body=b"x" * 100)
    assert s3.get_object(Bucket=bucket, Key="by proxy")["Body"].read() == b"x" * 100
    expected = [("archive", "by proxy", 100, None, None, 0), ("retrieve", "by proxy", 100, None, None, 0)]
    assert told(capture.end(), bucket) == expected


@pytest.mark.skipif(shutil.which("aws") is None, reason="the AWS CLI (awscli) is not installed")
def test_aws_cli_commands_are_recorded(store: Store, bucket: str, capture: Capture, tmp_path: Path) -> None:
    content = os.urandom(MIB) * 9  # above the CLI's limit of 8 MiB: uploaded in parts, retrieved by ranges
    (tmp_path / "sent").write_bytes(content)
    (tmp_path / "small").write_bytes(b"x" * 1000)

    def aws(*words: str) -> None:
        done = subprocess.run(
            ["aws", "--endpoint-url", capture.endpoint, "--region", "us-east-1", *words],
            env={**os.environ, "AWS_ACCESS_KEY_ID": store.access_key, "AWS_SECRET_ACCESS_KEY": store.secret_key},
            capture_output=True, text=True, timeout=2 * HANG_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    aws("s3", "cp", str(tmp_path / "small"), f"s3://{bucket}/small")
    aws("s3", "cp", str(tmp_path / "sent"), f"s3://{bucket}/sent")
    aws("s3", "cp", f"s3://{bucket}/sent", str(tmp_path / "received"))
    assert (tmp_path / "received").read_bytes() == content
    aws("s3api", "put-object-legal-hold", "--bucket", bucket, "--key", "small", "--legal-hold", "Status=ON")
    aws("s3", "rm", f"s3://{bucket}/small")
    rows = capture.end()
    whole = [each for each in told(rows, bucket) if each[0] != "range-retrieve"]
    assert whole == [
        ("archive", "small", 1000, None, None, 0),
        ("archive", "sent", 9 * MIB, None, 8 * MIB, 0),
        ("head", "sent", 9 * MIB, None, None, 0),
        ("hold", "small", None, None, None, 0),
        ("delete-marker", "small", None, None, None, 0),
    ]
    ranges = [(row.offset, row.length) for row in rows if row.operation == "range-retrieve"]
    assert sorted(ranges) == [(0, 8 * MIB), (8 * MIB, MIB)]


@pytest.fixture(scope="module")
def tls_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Path]]:
    """Run a store with TLS and return it with the authority of its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(folder / "authority.pem")
    certificate.cert_chain_pems[0].write_to_path(folder / "server.pem")
    certificate.private_key_pem.write_to_path(folder / "server.key")
    with embedded.start(
        folder / "store", tls_certificate=folder / "server.pem", tls_key=folder / "server.key"
    ) as running:
        endpoint = running.endpoint.replace("127.0.0.1", "localhost")
        yield Store("embedded", endpoint, running.access_key, running.secret_key), folder / "authority.pem"


@pytest.mark.parametrize("trust", ["--ca-bundle", "--insecure"])
def test_requests_to_an_upstream_with_tls_are_recorded(
    tls_store: tuple[Store, Path], tmp_path: Path, trust: str
) -> None:
    store, authority = tls_store
    options = [trust, str(authority)] if trust == "--ca-bundle" else [trust]
    name = "tls-" + trust.strip("-")
    with capturing(tmp_path / "tls.parquet", store.endpoint, *options) as capture:
        s3 = boto3_client(store, capture.endpoint)
        s3.create_bucket(Bucket=name)
        s3.put_object(Bucket=name, Key="k", Body=b"x" * 3 * MIB)
        assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"x" * 3 * MIB
        rows = capture.end()
    assert told(rows, name)[1:] == [("archive", "k", 3 * MIB, None, None, 0), ("retrieve", "k", 3 * MIB, None, None, 0)]


def test_half_closed_client_gets_its_answer_from_tls_upstream(tls_store: tuple[Store, Path], tmp_path: Path) -> None:
    store, authority = tls_store
    with capturing(tmp_path / "tls.parquet", store.endpoint, "--ca-bundle", str(authority)) as capture:
        with socket.create_connection(("127.0.0.1", capture.port), HANG_SECONDS) as client:
            client.sendall(b"GET /b/half HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 403")
        assert answer.endswith(b"</Error>")
        assert [(row.operation, row.status) for row in capture.end()] == [("retrieve", 403)]
