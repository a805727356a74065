"""Test the source `minio`: exact counts from real servers, and the faults of scripted servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import botocore.exceptions
import pytest

from archiver.platforms.servers import Server
from archiver.values.errors import UsageError
from archiver.watch.minio import MinioSource
from archiver.watch.source import WatchError
from tests.support.servers import real
from tests.support.servers.minio_variants import before_third_form, guarded_minio
from tests.support.servers.scripted import Request, ScriptedServer, serve

PROCESS, REQUESTS = "/minio/metrics/v3/system/process", "/minio/metrics/v3/api/requests"
NODE = "/minio/v2/metrics/node"
ANSWER_SECONDS_MAX = 20.0
SECONDS_AT_MOST = ("0.05", "0.1", "0.25", "0.5", "1", "2.5", "5", "10", "inf")


def process_page(server: str, cpu_seconds: float = 1.5, *, more: str = "") -> str:
    return (
        f'minio_system_process_cpu_total_seconds{{server="{server}"}} {cpu_seconds}\n'
        f'minio_system_process_resident_memory_bytes{{server="{server}"}} 1000\n'
        f'minio_system_process_file_descriptor_open_total{{server="{server}"}} 9\n'
        f'minio_system_process_io_rchar_bytes{{server="{server}"}} 77\n{more}'
    )


def requests_page(server: str, puts: int) -> str:
    return (
        f'minio_api_requests_total{{name="PutObject",server="{server}",type="s3"}} {puts}\n'
        f'minio_api_requests_total{{name="Ping",server="{server}",type="internode"}} 1000\n'
        f'minio_api_requests_errors_total{{name="PutObject",server="{server}",type="s3"}} 1\n'
        f'minio_api_requests_inflight_total{{name="PutObject",server="{server}",type="s3"}} 4\n'
        "minio_api_requests_ttfb_seconds_distribution"
        f'{{le="0.050",name="PutObject",server="{server}",type="s3"}} {puts - 1}\n'
        "minio_api_requests_ttfb_seconds_distribution"
        f'{{le="+Inf",name="PutObject",server="{server}",type="s3"}} {puts}\n'
    )


class Node:
    """A server whose pages a test can change. It answers requests for other pages as MinIO does."""

    def __init__(self, pages: Mapping[str, str], *, missing: str = "403 Forbidden") -> None:
        self.pages = dict(pages)
        self.missing = missing
        self.server = ScriptedServer([], [serve(self._answer)])

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def asked(self) -> list[str]:
        return [request.target for request in self.server.requests]

    def _answer(self, request: Request) -> bytes:
        page = self.pages.get(request.target)
        status = "200 OK" if page is not None else self.missing
        body = (page if page is not None else "<Error/>").encode()
        return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


Start = Callable[..., Node]


@pytest.fixture
def node() -> Iterator[Start]:
    with ExitStack() as running:

        def start(pages: Mapping[str, str], **options: Any) -> Node:
            node = Node(pages, **options)
            node.server.start()
            running.callback(node.server.stop)
            return node

        yield start


def test_v3_metrics_are_read_as_quantities(node: Start) -> None:
    server = node({PROCESS: process_page("a:9000"), REQUESTS: requests_page("a:9000", 12)})
    source = MinioSource(server.url)
    assert source.name == "minio"
    assert source.read() == {
        "requests": {"PutObject": 12.0},
        "request_errors": {"PutObject": 1.0},
        "first_byte_requests": {"PutObject 0.05": 11.0, "PutObject inf": 12.0},
        "process_cpu_seconds": {"": 1.5},
        "process_resident_bytes": {"": 1000.0},
        "process_open_files": {"": 9.0},
        "process_read_bytes": {"": 0.0},  # MinIO leaves the metric out while it is 0
        "process_write_bytes": {"": 0.0},
    }
    assert source.counts_late_seconds == 0


def test_counts_of_all_servers_are_added(node: Start) -> None:
    written = 'minio_system_process_io_write_bytes{server="b:9000"} 50\n'
    first = node({PROCESS: process_page("a:9000"), REQUESTS: requests_page("a:9000", 12)})
    second = node({PROCESS: process_page("b:9000", more=written), REQUESTS: requests_page("b:9000", 30)})
    reading = MinioSource((first.url, second.url)).read()
    assert reading["requests"] == {"PutObject": 42.0}
    assert reading["first_byte_requests"] == {"PutObject 0.05": 40.0, "PutObject inf": 42.0}
    assert reading["process_cpu_seconds"] == {"": 3.0}
    assert reading["process_write_bytes"] == {"": 50.0}


def test_a_server_with_two_addresses_is_counted_once(node: Start) -> None:
    server = node({PROCESS: process_page("a:9000"), REQUESTS: requests_page("a:9000", 12)})
    reading = MinioSource((server.url, server.url.replace("127.0.0.1", "localhost"))).read()
    assert reading["requests"] == {"PutObject": 12.0}
    assert reading["process_cpu_seconds"] == {"": 1.5}


def test_address_of_a_load_balancer_is_refused(node: Start) -> None:
    server = node({PROCESS: process_page("a:9000"), REQUESTS: requests_page("a:9000", 12)})
    source = MinioSource(server.url)
    source.read()
    server.pages = {PROCESS: process_page("b:9000"), REQUESTS: requests_page("b:9000", 3)}
    with pytest.raises(WatchError, match=r"several servers answer at .* \(a:9000, b:9000\), as behind a load balancer"):
        source.read()
    server.pages = {PROCESS: process_page("a:9000"), REQUESTS: requests_page("b:9000", 3)}
    with pytest.raises(WatchError, match="several servers answer"):
        MinioSource(server.url).read()


def test_server_with_a_failing_page_is_not_read_partially(node: Start) -> None:
    # Counts missing from one reading would appear to start at zero in the next.
    server = node({PROCESS: process_page("a:9000"), REQUESTS: requests_page("a:9000", 12)})
    source = MinioSource(server.url)
    source.read()
    del server.pages[REQUESTS]
    with pytest.raises(WatchError, match=rf"minio: {server.url}{REQUESTS}: reading the metrics was refused \(403\)"):
        source.read()
    server.pages[REQUESTS] = requests_page("a:9000", 13)
    assert source.read()["requests"] == {"PutObject": 13.0}
    assert NODE not in server.asked, "the form found at the first read is kept"


@pytest.mark.parametrize("missing", ["403 Forbidden", "404 Not Found"])
def test_v2_metrics_are_read_if_v3_is_missing(node: Start, missing: str) -> None:
    page = (
        "minio_process_cpu_seconds_total 2.5\nminio_process_network_receive_bytes_total 1e12\n"
        'minio_s3_requests_incoming_total{server="a:9000"} 0\n'
        'minio_s3_requests_total{api="putobject",server="a:9000"} 12\n'
        'minio_s3_requests_total{api="getbucketobjectlockconfig",server="a:9000"} 2\n'
        'minio_s3_requests_total{api="somethingnew",server="a:9000"} 1\n'
        'minio_s3_requests_errors_total{api="putobject",server="a:9000"} 3\n'
        'minio_s3_requests_ttfb_seconds_distribution{api="putobject",le="2.500",server="a:9000"} 11\n'
    )
    server = node({NODE: page}, missing=missing)
    source = MinioSource(server.url)
    expected = {
        "requests": {"PutObject": 12.0, "GetBucketObjectLockConfig": 2.0, "somethingnew": 1.0},
        "request_errors": {"PutObject": 3.0},
        "first_byte_requests": {"PutObject 2.5": 11.0},
        "process_cpu_seconds": {"": 2.5},
    }
    assert source.read() == expected
    assert source.read() == expected
    assert source.counts_late_seconds == 10
    assert server.asked.count(PROCESS) == 1, "the form found at the first read is kept"


def test_server_that_is_down_at_first_is_read_once_it_is_up(node: Start) -> None:
    server = node({}, missing="503 Service Unavailable")
    source = MinioSource(server.url)
    with pytest.raises(WatchError, match="status 503, not metrics"):
        source.read()
    server.pages = {PROCESS: process_page("a:9000"), REQUESTS: ""}
    assert source.read()["process_cpu_seconds"] == {"": 1.5}
    assert NODE not in server.asked, "a server that is down says nothing of its forms"


def test_metrics_of_another_server_are_refused(node: Start) -> None:
    with pytest.raises(WatchError, match="none of MinIO's process; check that it is MinIO"):
        MinioSource(node({PROCESS: "up 1\n", REQUESTS: "up 1\n"}).url).read()


@pytest.mark.parametrize("endpoint", ["http://me:secret@127.0.0.1:9000", "127.0.0.1:9000"])
def test_invalid_endpoint_is_refused_without_showing_its_secret(endpoint: str) -> None:
    with pytest.raises(UsageError, match="--endpoint") as refused:
        MinioSource(endpoint)
    assert "secret" not in str(refused.value)


# Real servers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with real.real_server("minio", tmp_path_factory.mktemp("minio")) as started:
        yield started


def do_counted(server: Server, bucket: str) -> dict[str, float]:
    """Send requests of several kinds, some of them refused, and return their counts."""
    s3 = real.client_of(server)
    s3.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=True)
    for number in range(20):
        s3.put_object(Bucket=bucket, Key=f"{number:03d}", Body=b"x" * 8192)
    for number in range(15):
        s3.head_object(Bucket=bucket, Key=f"{number:03d}")
    for number in range(7):
        s3.get_object(Bucket=bucket, Key=f"{number:03d}")["Body"].read()
    s3.get_object_lock_configuration(Bucket=bucket)
    for _ in range(3):
        with pytest.raises(botocore.exceptions.ClientError):
            s3.head_object(Bucket=bucket, Key="absent")
    return {"PutBucket": 1, "PutObject": 20, "HeadObject": 18, "GetObject": 7, "GetBucketObjectLockConfig": 1}


def grown(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {item: value - before.get(item, 0) for item, value in after.items() if value != before.get(item, 0)}


def read_with(source: MinioSource, expected: Mapping[str, float], before: Mapping[str, float]) -> Any:
    """Return the first reading with these counts. MinIO may count an answer a moment after it was received."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while True:
        reading = source.read()
        if grown(before, reading.get("requests", {})) == expected or time.monotonic() > deadline:
            return reading


@pytest.mark.platforms
def test_every_request_is_counted_once_and_scrapes_are_not(server: Server) -> None:
    source = MinioSource(server.endpoint)
    before = source.read()
    expected = do_counted(server, "counted")
    after = read_with(source, expected, before.get("requests", {}))
    for _ in range(3):
        again = source.read()
    assert grown(before.get("requests", {}), again["requests"]) == expected
    assert grown(before.get("request_errors", {}), after["request_errors"]) == {"HeadObject": 3}
    answered = grown(before.get("first_byte_requests", {}), after["first_byte_requests"])
    assert {item.partition(" ")[2] for item in after["first_byte_requests"]} == set(SECONDS_AT_MOST)
    for operation, count in expected.items():
        assert answered[f"{operation} inf"] == count
        cumulative = [answered.get(f"{operation} {seconds}", 0) for seconds in SECONDS_AT_MOST]
        assert cumulative == sorted(cumulative)


@pytest.mark.platforms
def test_process_quantities_are_read_and_never_decrease(server: Server) -> None:
    source = MinioSource(server.endpoint)
    before = source.read()
    do_counted(server, "at-work")
    after = source.read()
    assert after["process_cpu_seconds"][""] >= before["process_cpu_seconds"][""] > 0
    assert after["process_write_bytes"][""] >= before["process_write_bytes"][""] >= 0
    assert after["process_resident_bytes"][""] > 10e6
    assert after["process_open_files"][""] >= 5
    assert "process_read_bytes" in after
    assert not [quantity for quantity in after if quantity.startswith("network_")]  # MinIO has them for the host only


@pytest.mark.platforms
def test_v2_and_v3_metrics_have_the_same_counts(tmp_path: Path) -> None:
    # Needs a separate server, because v2 metrics are cached for 10 s after the first request.
    with real.real_server("minio", tmp_path) as server, before_third_form(server.endpoint) as older:
        expected = do_counted(server, "older")
        seen = read_with(MinioSource(server.endpoint), expected, {})
        source = MinioSource(older)
        reading = source.read()
    assert source.counts_late_seconds == 10
    for quantity in ("requests", "request_errors", "first_byte_requests"):
        assert reading[quantity] == seen[quantity]
    assert set(reading) == set(seen) - {"process_read_bytes", "process_write_bytes"}


@pytest.mark.platforms
def test_protected_metrics_are_read_with_a_token(tmp_path: Path) -> None:
    with guarded_minio(tmp_path) as server:
        assert MinioSource(server.endpoint, server.token()).read()["process_cpu_seconds"][""] > 0
        for token, said in (
            (None, "give a token with --metrics-token-file"),
            ("not.a.token", "is the token of --metrics-token-file meant for this server, and not expired?"),
        ):
            with pytest.raises(WatchError) as refused:
                MinioSource(server.endpoint, token).read()
            assert "refused (403)" in str(refused.value)
            assert said in str(refused.value)
            assert "not.a.token" not in str(refused.value)
