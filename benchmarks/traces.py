"""Cost of traces: of the proxy that captures them, and of reading, writing, merging, importing and compiling them."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import psutil

from archiver.engine.work.replay.compile.compiling import compile_trace
from archiver.traces.anonymising import anonymise
from archiver.traces.format import Origin, Trace, TracedOperation, TraceWriter
from archiver.traces.importing import import_logs
from archiver.traces.merging import merge, sort
from archiver.traces.summary import summarise
from archiver.values.sizes import format_size
from backends.s3 import null_responder
from benchmarks.benchmark import Benchmark, Contenders, Experiment, Figures, Goal, medians
from benchmarks.processes import in_own_process, memory_of

CPU = "CPU per operation, µs"

# The proxy.
KEY = f"/null/null/{1:012d}"
# As Archiver's own client sends them.
HEADERS = (
    "host: 127.0.0.1:9000\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\nx-amz-date: 20261121T110327Z\r\n"
    "x-amz-object-lock-mode: GOVERNANCE\r\nx-amz-object-lock-retain-until-date: 2026-11-21T11:08:27Z\r\n"
    "x-amz-checksum-crc32c: AAAAAA==\r\nAuthorization: AWS4-HMAC-SHA256 Credential=null/20261121/us-east-1/s3/"
    f"aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={64 * '0'}\r\n"
)


@contextmanager
def _requests(method: Literal["PUT", "GET"], object_bytes: int, requests: int) -> Iterator[Contenders]:
    sent_bytes, received_bytes = (object_bytes, 0) if method == "PUT" else (0, object_bytes)
    head = f"{method} {KEY} HTTP/1.1\r\n{HEADERS}Content-Length: {sent_bytes}\r\n\r\n"
    message = head.encode() + bytes(sent_bytes)
    with null_responder.start(object_bytes) as responder, _proxy(responder.endpoint) as (endpoint, proxy):

        def both() -> Figures:
            direct = _latency(responder.endpoint, message, received_bytes, requests)
            cpu_before = sum(proxy.cpu_times()[:2])
            proxied = _latency(endpoint, message, received_bytes, requests)
            cpu = (sum(proxy.cpu_times()[:2]) - cpu_before) / requests * 1e6
            return {"direct": direct, "through the proxy": proxied, "added": proxied - direct, "CPU of the proxy": cpu}

        yield {(f"{method} {format_size(object_bytes)}",): both}


def _latency(endpoint: str, message: bytes, body_bytes: int, requests: int) -> float:
    """Return the median time of a request, in microseconds. Every answer must have ``body_bytes``."""
    address = ("127.0.0.1", int(endpoint.rpartition(":")[2]))
    times = []
    with socket.create_connection(address) as connection, connection.makefile("rb") as answers:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(requests):
            begun = time.perf_counter_ns()
            connection.sendall(message)
            status = answers.readline()
            while answers.readline() not in (b"\r\n", b""):
                pass
            received = len(answers.read(body_bytes))
            times.append(time.perf_counter_ns() - begun)
            assert (status[:12], received) == (b"HTTP/1.1 200", body_bytes), status
    return statistics.median(times) / 1e3


@contextmanager
def _proxy(upstream: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run `archiver capture`; yield its address and process."""
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder:
        trace = str(Path(folder) / "trace.parquet")
        command = [sys.executable, "-m", "archiver", "capture", "--upstream", upstream, trace]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        with process.stdout:
            try:
                yield process.stdout.readline().split()[2].rstrip(","), psutil.Process(process.pid)
            finally:
                process.kill()
                process.wait()


CAPTURE = Benchmark(
    name="capture",
    question="Additional latency and CPU per request of the capturing proxy.",
    experiments=lambda small: [
        Experiment(
            "capture",
            "Microseconds per request, one after another",
            ("request",),
            [_requests("PUT", 8192, 40 if small else 4000), _requests("GET", 1 << 20, 20 if small else 1000)],
            rounds=1 if small else 7,
        )
    ],
)

# Files.


def write_trace(folder: Path, count: int, *, shuffled: bool = False) -> None:
    """Write a trace of archives and retrievals, in the order of their due times or not."""
    name = "shuffled" if shuffled else "rising"
    with TraceWriter(folder / f"{name}-{count}", 0, [Origin("capture", "")], overwrite=True) as writer:
        for i in range(count):
            at_ns = (i * 7_919 % count if shuffled else i) * 1_000_000
            is_read = bool(i & 1)
            writer.add(
                TracedOperation(
                    at_ns,
                    at_ns + 20_000,
                    at_ns + 900_000,
                    at_ns + 1_000_000,
                    "retrieve" if is_read else "archive",
                    f"bucket/folder-{i % 100:03d}/object-{i // 2:09d}",
                    size_bytes=8192,
                    retention_mode=None if is_read else "GOVERNANCE",
                    retain_for_seconds=None if is_read else 300.0,
                    client=i % 16,
                    session=i // 1600,
                )
            )


def write_log(folder: Path, count: int) -> None:
    """Write an access log."""
    with (folder / f"log-{count}").open("w") as log:
        for i in range(count):
            second = i // 1000
            stamp = f"06/Feb/2026:{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d} +0000"
            log.write(f'192.0.2.{i % 16} - - [{stamp}] "GET /bucket/object-{i:09d} HTTP/1.1" 200 8192 "-" "agent"\n')


def _anonymise(folder: Path, count: int) -> None:
    key = folder / "key"
    key.touch(mode=0o600)
    key.write_bytes(bytes(32))
    anonymise(folder / "anonymised", folder / f"rising-{count}", key, overwrite=True)


def _compile(folder: Path, count: int) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as compiled:
        compile_trace(folder / f"rising-{count}", Path(compiled))


TASKS: dict[str, Callable[[Path, int], Any]] = {
    "write": write_trace,
    # A queue without places reads an iterator to its end.
    "read": lambda folder, count: deque(Trace.open(folder / f"rising-{count}").operations(must_rise=True), 0),
    "read batches": lambda folder, count: deque(Trace.open(folder / f"rising-{count}").batches(must_rise=True), 0),
    "info": lambda folder, count: summarise(folder / f"rising-{count}"),
    "merge two": lambda folder, count: merge(folder / "merged", [folder / f"rising-{count}"] * 2, overwrite=True),
    "sort": lambda folder, count: sort(folder / "sorted", folder / f"shuffled-{count}", overwrite=True),
    "anonymise": _anonymise,
    "import": lambda folder, count: import_logs(
        folder / "imported", [folder / f"log-{count}"], "nginx", overwrite=True
    ),
    "compile for a replay": _compile,
}


def cost_of(name: str, count: int, folder: Path) -> dict[str, float]:
    """Return the CPU time and peak memory of one task in this process."""
    began = time.process_time()
    TASKS[name](folder, count)
    seconds = time.process_time() - began
    return {CPU: seconds / count * 1e6, "peak MB": memory_of(os.getpid()).resident_max / 1e6}


@contextmanager
def _tasks(few: int, many: int) -> Iterator[Contenders]:
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as inside:
        folder = Path(inside)
        for count in (few, many):
            in_own_process(cost_of, "write", count, folder)
            write_trace(folder, count, shuffled=True)
            write_log(folder, count)

        def run(name: str) -> Figures:
            peak_of_few = in_own_process(cost_of, name, few, folder)["peak MB"]
            return {**in_own_process(cost_of, name, many, folder), f"peak MB, {few:,}": peak_of_few}

        yield {(name,): partial(run, name) for name in TASKS}


TRACES = Benchmark(
    name="traces",
    question="Reading, writing, merging, importing and compiling traces: CPU per operation, memory.",
    experiments=lambda small: [
        Experiment(
            "traces",
            f"Traces of {10_000 if small else 1_000_000:,} operations",
            ("task",),
            [_tasks(2_000, 10_000) if small else _tasks(200_000, 1_000_000)],
            rounds=1 if small else 3,
        )
    ],
    goals=tuple(
        Goal(f"{name}, {CPU}", medians("traces", CPU, (name,)), "below", 5.0)
        for name in ("read", "compile for a replay")
    ),
)
