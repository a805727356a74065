"""The metrics page counts every request of both servers once, as answered or failed."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from prometheus_client.parser import text_string_to_metric_families

from archiver.watch.minio import MinioSource
from backends.embedded import metrics, process
from backends.embedded.core.files.written import Written
from backends.embedded.process import StoreProcess
from backends.embedded.s3.server import METRICS_PATH
from tests.backends.embedded.running_server import RunningTsmServer
from tests.backends.embedded.signed_requests import signed_by_botocore
from tests.backends.embedded.tsm_client import GET, OBJECT, STOP, Client, Ended, frame, get_body, object_body
from tests.support.servers import real
from tests.support.waiting import SECONDS_MAX, wait_until

MIB = 1 << 20

Counted = dict[str, tuple[int, int]]  # operation -> requests, errors among them


def samples(store: StoreProcess) -> dict[tuple[str, str], int]:
    """Return every number on the page, by metric and by the value of its one label."""
    with urllib.request.urlopen(store.endpoint + METRICS_PATH, timeout=SECONDS_MAX) as reply:
        families = text_string_to_metric_families(reply.read().decode())
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = {}
    for family in families:
        assert family.type == "counter"
        for sample in family.samples:
            (item,) = sample.labels.values()
            found[sample.name, item] = int(sample.value)
    return found


def difference(before: Counted, after: Counted) -> Counted:
    both = {name: (count - before.get(name, (0, 0))[0], errors - before.get(name, (0, 0))[1])
            for name, (count, errors) in after.items()}  # fmt: skip
    return {name: counts for name, counts in both.items() if counts != (0, 0)}


def s3_counts(store: StoreProcess) -> Counted:
    found = samples(store)
    return {
        item: (value, found["archiver_store_request_errors_total", item])
        for (metric, item), value in found.items()
        if metric == "archiver_store_requests_total"
    }


def counted(store: StoreProcess, work: Callable[[], object]) -> Counted:
    """Return the counts that this work adds."""
    before = s3_counts(store)
    work()
    return difference(before, s3_counts(store))


def test_metrics_page_is_complete_and_does_not_count_itself(store: StoreProcess, s3: Any, bucket: str) -> None:
    before = samples(store)
    s3.put_object(Bucket=bucket, Key="k", Body=bytes(100_000))
    after = samples(store)
    assert {metric for metric, _ in after} == {
        "archiver_store_requests_total", "archiver_store_request_errors_total", "archiver_store_written_bytes_total",
        "archiver_store_syncs_total",
    }  # fmt: skip
    grown = {name: value - before.get(name, 0) for name, value in after.items() if value != before.get(name, 0)}
    assert 100_000 < grown.pop(("archiver_store_written_bytes_total", "segments")) < 101_000
    assert 4096 < grown.pop(("archiver_store_written_bytes_total", "catalogue")) < 100_000
    assert grown.pop(("archiver_store_syncs_total", "segments")) in (1, 2)  # a new segment's name is synced, too
    assert grown.pop(("archiver_store_syncs_total", "catalogue")) >= 1
    assert grown == {("archiver_store_requests_total", "PutObject"): 1}


def exercise(s3: Any, bucket: str) -> None:
    """Make a call of each kind that a measurement needs, and some that fail."""
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    s3.head_bucket(Bucket=bucket)
    s3.list_buckets()
    s3.get_object_lock_configuration(Bucket=bucket)
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled"})
    s3.get_bucket_versioning(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.get_bucket_location(Bucket=bucket)
    version_id = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.head_object(Bucket=bucket, Key="k")
    s3.get_object(Bucket=bucket, Key="k")["Body"].read()
    s3.put_object_legal_hold(Bucket=bucket, Key="k", VersionId=version_id, LegalHold={"Status": "ON"})
    s3.get_object_legal_hold(Bucket=bucket, Key="k", VersionId=version_id)
    with pytest.raises(ClientError):
        s3.get_object_retention(Bucket=bucket, Key="k", VersionId=version_id)
    with pytest.raises(ClientError):
        s3.delete_object(Bucket=bucket, Key="k", VersionId=version_id)
    s3.put_object_legal_hold(Bucket=bucket, Key="k", VersionId=version_id, LegalHold={"Status": "OFF"})
    s3.delete_object(Bucket=bucket, Key="k", VersionId=version_id)
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}]})
    s3.list_objects(Bucket=bucket)
    s3.list_objects_v2(Bucket=bucket)
    s3.list_object_versions(Bucket=bucket)
    with pytest.raises(ClientError):
        s3.get_object(Bucket=bucket, Key="none")
    with pytest.raises(ClientError):
        s3.head_bucket(Bucket="no-such-bucket")
    with pytest.raises(ClientError):
        s3.delete_bucket(Bucket=bucket)


EXERCISED = {
    "PutBucket": (1, 0), "HeadBucket": (2, 1), "ListBuckets": (1, 0), "GetBucketObjectLockConfig": (1, 0),
    "PutBucketObjectLockConfig": (1, 0), "GetBucketVersioning": (1, 0), "PutBucketVersioning": (1, 0),
    "GetBucketLocation": (1, 0), "PutObject": (2, 0), "HeadObject": (1, 0), "GetObject": (2, 1),
    "PutObjectLegalHold": (2, 0), "GetObjectLegalHold": (1, 0), "GetObjectRetention": (1, 1), "DeleteObject": (2, 1),
    "DeleteMultipleObjects": (1, 0), "ListObjectsV1": (1, 0), "ListObjectsV2": (1, 0), "ListObjectVersions": (1, 0),
    "DeleteBucket": (1, 1),
}  # fmt: skip


def test_every_call_is_counted_once_and_its_error_too(store: StoreProcess, s3: Any) -> None:
    assert counted(store, lambda: exercise(s3, "exercised-1")) == EXERCISED


@pytest.mark.platforms
def test_operations_have_the_names_that_minio_gives_them(tmp_path: Path) -> None:
    with real.real_server("minio", tmp_path) as server:
        source = MinioSource(server.endpoint)
        client = real.client_of(server)
        client.list_buckets()  # Its first call sends additional requests.
        before = source.read()
        exercise(client, "exercised-1")
        after = source.read()
    grown = {name: count - before["requests"].get(name, 0) for name, count in after["requests"].items()}
    assert {name: count for name, count in grown.items() if count} == {
        name: count for name, (count, _) in EXERCISED.items()
    }


def test_a_wrong_signature_is_an_error_of_its_call(store: StoreProcess, bucket: str) -> None:
    stranger = boto3.client(
        "s3", endpoint_url=store.endpoint, region_name="us-east-1", aws_access_key_id=store.access_key,
        aws_secret_access_key="wrong", config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip

    def knock() -> None:
        with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
            stranger.put_object(Bucket=bucket, Key="k", Body=b"x")

    assert counted(store, knock) == {"PutObject": (1, 1)}


def test_a_call_not_offered_is_counted_by_its_name(store: StoreProcess, s3: Any, bucket: str) -> None:
    def ask() -> None:
        with pytest.raises(ClientError, match="NotImplemented"):
            s3.put_bucket_policy(Bucket=bucket, Policy="{}")

    assert counted(store, ask) == {"PUT bucket policy": (1, 1)}


def until_counted(store: StoreProcess, before: Counted, expected: Counted) -> None:
    """Wait for the counts. No event reports when the store notices that a client has gone."""
    wait_until(lambda: difference(before, s3_counts(store)) == expected, f"counts {expected}")


def test_an_upload_whose_client_vanishes_is_counted_once_and_failed(store: StoreProcess, bucket: str) -> None:
    before = s3_counts(store)
    headers = signed_by_botocore(
        "PUT", f"{store.endpoint}/{bucket}/k", {"Content-Length": "100000"}, (store.access_key, store.secret_key)
    )
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection((urlsplit(store.endpoint).hostname, urlsplit(store.endpoint).port)) as connection:
        connection.sendall(f"PUT /{bucket}/k HTTP/1.1\r\n{lines}\r\n".encode() + bytes(500))
    until_counted(store, before, {"PutObject": (1, 1)})


def test_a_retrieval_that_damage_cuts_off_is_counted_once_and_failed(data_dir: Path, connect: Any) -> None:
    with process.start(data_dir) as store:
        s3 = connect(store)
        s3.create_bucket(Bucket="b-1")
        s3.put_object(Bucket="b-1", Key="large", Body=bytes(20 * MIB))
        (segment,) = store.data_files()
        with segment.open("r+b") as file:
            file.seek(15 * MIB)
            file.write(b"\1")
        before = s3_counts(store)
        with pytest.raises(BotoCoreError):
            s3.get_object(Bucket="b-1", Key="large")["Body"].read()
        until_counted(store, before, {"GetObject": (1, 1)})


def test_head_request_of_the_metrics_page_is_refused(store: StoreProcess) -> None:
    def ask() -> None:
        request = urllib.request.Request(store.endpoint + METRICS_PATH, method="HEAD")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=SECONDS_MAX)
        refused.value.close()
        assert refused.value.code == 403

    assert counted(store, ask) == {"HeadObject": (1, 1)}


# The TSM server.


def tsm_counts(tsm_server: RunningTsmServer) -> Counted:
    """Return the counts by operation, without the common prefix of the names."""
    found: Counted = {}
    for (name, code), count in tsm_server.do(lambda: dict(tsm_server.server.requests)).items():
        requests, errors = found.get(name, (0, 0))
        found[name] = requests + count, errors + (count if code else 0)
    assert all(name.startswith("TSM ") for name in found)
    return {name.removeprefix("TSM "): counts for name, counts in found.items()}


def tsm_counted(tsm_server: RunningTsmServer, work: Callable[[], object]) -> Counted:
    before = tsm_counts(tsm_server)
    work()
    return difference(before, tsm_counts(tsm_server))


def test_a_session_counts_its_frames_and_its_objects(tsm_server: RunningTsmServer) -> None:
    def session() -> None:
        with tsm_server.sign_on() as client:
            space = client.space()
            client.find_space(b"/fs")
            for name in (b"/a", b"/b", b"/c"):
                client.send_object(space, name, bytes(10), class_index=client.class_index("NONE"))
            assert client.vote() == 0
            rows = client.query(space)
            client.query_spaces()
            client.get(*(row.id for row in rows))
            client.ping()
            assert client.delete(*(row.id for row in rows)) == 0

    assert tsm_counted(tsm_server, session) == {
        "HELLO": (1, 0), "PROOF": (1, 0), "REGISTER_SPACE": (1, 0), "FIND_SPACE": (1, 0), "OBJECT": (3, 0),
        "END_TRANSACTION": (2, 0), "QUERY_ARCHIVES": (1, 0), "QUERY_SPACES": (1, 0), "GET": (3, 0), "PING": (1, 0),
        "DELETE": (3, 0),
    }  # fmt: skip


def test_each_refused_object_counts_as_an_error(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space()
    assert tsm.archive(space, b"/kept") == 0
    (row,) = tsm.query(space)

    def refused() -> None:
        for name in (b"/a", b"/b"):
            tsm.send_object(space, name)
        tsm.send_delete(row.id)  # retained, so nothing of the transaction happens
        assert tsm.vote() == 248

    assert tsm_counted(tsm_server, refused) == {"OBJECT": (2, 2), "DELETE": (1, 1), "END_TRANSACTION": (1, 1)}

    def nothing_there() -> None:
        assert tsm.get(row.id, 10**9)[1].code == 2
        assert tsm.query(space, ll=b"/none") == []
        assert tsm.space() == space  # registered already
        assert tsm.find_space(b"/none")[0] == 2061

    assert tsm_counted(tsm_server, nothing_there) == {
        "GET": (2, 1), "QUERY_ARCHIVES": (1, 1), "REGISTER_SPACE": (1, 1), "FIND_SPACE": (1, 1)
    }  # fmt: skip


@pytest.mark.parametrize("size", [10, 9 * MIB])
def test_archived_objects_are_counted_only_after_their_vote(
    tsm_server: RunningTsmServer, tsm: Client, size: int
) -> None:
    space = tsm.space()
    before = tsm_counts(tsm_server)
    tsm.send_object(space, b"/a", bytes(size))
    tsm.send_object(space, b"/b", bytes(size))
    tsm.ping()  # the server has both
    assert difference(before, tsm_counts(tsm_server)) == {"PING": (1, 0)}
    assert tsm.vote() == 0
    assert difference(before, tsm_counts(tsm_server)) == {"PING": (1, 0), "OBJECT": (2, 0), "END_TRANSACTION": (1, 0)}
    rows = tsm.query(space)
    assert tsm_counted(tsm_server, lambda: tsm.get(*(row.id for row in rows))) == {"GET": (2, 0)}


def test_an_abandoned_transaction_is_counted_once_as_failed(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space()

    def gives_up() -> None:
        tsm.send_object(space, b"/a")
        assert tsm.vote(commit=False) == 3

    assert tsm_counted(tsm_server, gives_up) == {"OBJECT": (1, 1), "END_TRANSACTION": (1, 1)}

    def vanishes() -> None:
        with tsm_server.sign_on() as client:
            client.send_object(space, b"/a")
            client.send(OBJECT, object_body(space, b"/d", b"/half") + bytes(10))
        tsm_server.settled(1)

    assert tsm_counted(tsm_server, vanishes) == {"HELLO": (1, 0), "PROOF": (1, 0), "OBJECT": (2, 2)}


def test_unknown_nodes_and_malformed_frames_are_errors(tsm_server: RunningTsmServer) -> None:
    def knock() -> None:
        with tsm_server.connect() as client, pytest.raises(Ended):
            client.sign_on(b"NOBODY", "x")
        with tsm_server.connect() as client, pytest.raises(Ended):
            client.sign_on(b"ARCHIVER", "wrong")
        with tsm_server.sign_on() as client:
            client.send(0x7F)
            assert client.ended() == 136

    assert tsm_counted(tsm_server, knock) == {"HELLO": (3, 1), "PROOF": (2, 1), "malformed": (1, 1)}


def test_stream_stopped_by_its_client_counts_only_the_objects_served(tsm_server: RunningTsmServer, tsm: Client) -> None:
    space = tsm.space()
    for name in (b"/a", b"/b", b"/c", b"/d"):
        tsm.send_object(space, name, bytes(3 * MIB))
    assert tsm.vote() == 0
    rows = tsm.query(space)

    def stops() -> None:
        # In one piece, so that the server has the second frame while it serves the first.
        tsm.send_bytes(frame(GET, get_body([(row.id, 0, 0) for row in rows])) + frame(STOP))
        with suppress(Ended):
            tsm.stream()

    found = tsm_counted(tsm_server, stops)
    assert set(found) <= {"GET"}
    assert found.get("GET", (0, 0))[0] < 4


def test_page_has_both_servers_with_separate_error_counts() -> None:
    written = Written()
    written.add(7, 1)
    page = metrics.page({("PutObject", 200): 3, ("PutObject", 400): 1}, {("TSM GET", 0): 5, ("TSM GET", 2): 1}, {
        "segments": written
    })  # fmt: skip
    families = {family.name: family for family in text_string_to_metric_families(page)}
    errors = {sample.labels["operation"]: sample.value for sample in families["archiver_store_request_errors"].samples}
    requests = {sample.labels["operation"]: sample.value for sample in families["archiver_store_requests"].samples}
    assert (requests, errors) == ({"PutObject": 4, "TSM GET": 6}, {"PutObject": 1, "TSM GET": 1})
    assert families["archiver_store_written_bytes"].samples[0].value == 7
