"""The cost of `archiver capture`: additional latency of a request, and CPU of the proxy per request.

One client sends requests one after another over a connection that stays open. It sends them directly to the null
responder, and through a capture of it, in interleaved rounds. The client is a plain socket, so the proxy is the only
difference. Latencies are medians of a round. The additional latency is taken within the round; the page shows the
median of the rounds. CPU is user and system time of the proxy process. Client, proxy and responder share the available
cores: on two cores the additional latency includes waiting for a core.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from archiver.values.sizes import format_size
from backends.s3 import null_responder
from benchmarks.tables import Table, labelled, plain, spread

TITLE = "What capturing adds"
KEY = f"/null/null/{1:012d}"
# As Archiver's own client sends them.
HEADERS = (
    "host: 127.0.0.1:9000\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: 20261121T110327Z\r\n"
    "x-amz-object-lock-mode: GOVERNANCE\r\nx-amz-object-lock-retain-until-date: 2026-11-21T11:08:27Z\r\n"
    "x-amz-checksum-crc32c: AAAAAA==\r\nAuthorization: AWS4-HMAC-SHA256 Credential=null/20261121/us-east-1/s3/"
    f"aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={64 * '0'}\r\n"
)


@dataclass(frozen=True, slots=True)
class Case:
    """One request, and how many of them a round sends."""

    method: str
    object_bytes: int
    requests: int
    requests_small: int

    @property
    def name(self) -> str:
        return f"{self.method} {format_size(self.object_bytes)}"


CASES = (Case("PUT", 8192, 4000, 40), Case("GET", 1 << 20, 1000, 20))


def measure(*, small: bool) -> dict[str, Any]:
    """Every case: latency direct and through the proxy, and the proxy's CPU, in microseconds by round."""
    rounds = 1 if small else 7
    return {"rounds": rounds, "cases": [_case(case, rounds, small=small) for case in CASES]}


def tables(document: dict[str, Any]) -> list[Table]:
    """Latency direct and through the proxy, what it adds, and its CPU."""
    rows = []
    for case in document["cases"]:
        values = {name: [each[name] for each in case["rounds"]] for name in case["rounds"][0]}
        added = [through - direct for direct, through in zip(values["direct"], values["through_proxy"], strict=True)]
        cells = (values["direct"], values["through_proxy"], added, values["proxy_cpu"])
        rows.append((*plain(case["name"]), *(spread(each, 0) for each in cells)))
    columns = labelled(("request",), "direct", "through the proxy", "added", "CPU of the proxy")
    return [Table("capture", "Microseconds per request, one after another", columns, tuple(rows))]


def notes(document: dict[str, Any]) -> list[str]:
    return []


def _case(case: Case, rounds: int, *, small: bool) -> dict[str, Any]:
    requests = case.requests_small if small else case.requests
    found = []
    with null_responder.start(case.object_bytes) as responder, _proxy(responder.endpoint) as (port, process):
        for _ in range(rounds):
            direct = _latency(int(responder.endpoint.rpartition(":")[2]), case, requests)
            before = sum(process.cpu_times()[:2])
            through = _latency(port, case, requests)
            cpu = sum(process.cpu_times()[:2]) - before
            found.append({"direct": direct, "through_proxy": through, "proxy_cpu": cpu / requests * 1e6})
    added = statistics.median(each["through_proxy"] - each["direct"] for each in found)
    return {"name": case.name, "requests": requests, "rounds": found, "added_microseconds": added}


def _latency(port: int, case: Case, requests: int) -> float:
    """The median time of a request, in microseconds."""
    puts = case.method == "PUT"
    length = case.object_bytes if puts else 0
    head = f"{case.method} {KEY} HTTP/1.1\r\n{HEADERS}Content-Length: {length}\r\n\r\n".encode()
    message = head + bytes(length)
    body_bytes = 0 if puts else case.object_bytes
    buffer = bytearray(2 << 20)
    times = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(requests):
            begun = time.perf_counter_ns()
            connection.sendall(message)
            _receive(connection, buffer, body_bytes)
            times.append(time.perf_counter_ns() - begun)
    return statistics.median(times) / 1e3


def _receive(connection: socket.socket, buffer: bytearray, body_bytes: int) -> None:
    """One answer: its head, and so many bytes."""
    view = memoryview(buffer)
    received, expected = 0, -1
    while received != expected:
        count = connection.recv_into(view[received:])
        assert count, "the connection ended"
        received += count
        if expected < 0 and (end := buffer.find(b"\r\n\r\n", 0, received)) >= 0:
            assert buffer.startswith(b"HTTP/1.1 200"), bytes(view[:received])
            expected = end + 4 + body_bytes


@contextmanager
def _proxy(upstream: str) -> Iterator[tuple[int, psutil.Process]]:
    """A capture's port and process."""
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-m", "archiver", "capture", "--upstream", upstream, str(Path(folder) / "trace.parquet")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout:
            try:
                yield (
                    int(process.stdout.readline().split()[2].rstrip(",").rpartition(":")[2]),
                    psutil.Process(process.pid),
                )
            finally:
                process.kill()
                process.wait()
