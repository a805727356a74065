"""Clients in Python: aiohttp with Archiver's requests, and boto3 with its defaults."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time

import aiohttp
import uvloop
from botocore.config import Config

from archiver.values.content import Content
from archiver.values.sizes import format_instant
from backends.s3 import null_responder
from backends.s3.wire.checksums import WindowChecksums
from backends.s3.wire.signing import RequestTemplate, Signer
from benchmarks.own_worker import own_cpu_seconds, s3_way
from benchmarks.peers.base import BUCKET, Job, boto3_client, cost

BODIES_BYTES_MAX = 256 << 20  # of the distinct bodies that are prepared before the clock starts
BOTO3_SHARE = 16  # boto3 gets one sixteenth of the objects: it is that much slower
LOCKED_SECONDS = 300.0


class _Requests:
    """The bodies and signed headers of a job's requests, as Archiver makes them."""

    def __init__(self, job: Job) -> None:
        self._content = Content(null_responder.RUN_ID, null_responder.CONTENT_SEED, job.object_bytes)
        self._checksums = WindowChecksums("crc32c", self._content, job.object_bytes)
        self._object_bytes = job.object_bytes
        setting = s3_way(job.target).setting
        self._signer = Signer(setting.access_key, setting.secret_key, setting.region)
        self._archives = job.operation == "archive"
        self._lock, self._dated = {}, {}
        if self._archives:
            self._lock = {"x-amz-object-lock-mode": "GOVERNANCE"}
            until = format_instant(time.time() + LOCKED_SECONDS)
            self._dated = {"x-amz-object-lock-retain-until-date": until}
        method, variable = ("PUT", ("x-amz-checksum-crc32c",)) if self._archives else ("GET", ())
        host = job.target.endpoint.removeprefix("http://")
        self._template = RequestTemplate(method, host, self._lock, variable=variable)
        self._compiled_for = 0  # epoch seconds
        distinct = min(job.objects, max(job.connections, BODIES_BYTES_MAX // job.object_bytes))
        self._bodies = [self._content.whole(number, job.object_bytes) for number in range(distinct * self._archives)]

    def body(self, number: int) -> bytes | None:
        return self._bodies[number % len(self._bodies)] if self._archives else None

    def headers(self, path: str, number: int) -> dict[str, str]:
        checksum = b""
        if self._archives:
            checksum = self._checksums.base64(number, self._content.last_block(number, self._object_bytes))
        second = int(time.time())
        if second != self._compiled_for:
            self._template.compile(self._signer, second, self._dated)
            self._compiled_for = second
        head = self._template.head(path.encode(), (checksum,) if self._archives else ()).decode()
        return {
            "Authorization": head[head.index("Authorization: ") + 15 : -4],
            "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
            "x-amz-date": self._signer.moment(second).amz_date,
            **self._dated,
            **self._lock,
            **({"x-amz-checksum-crc32c": checksum.decode()} if self._archives else {}),
        }


def run_aiohttp(job: Job) -> dict[str, float]:
    """Carry out a job by aiohttp. It reads answers without checking them."""
    requests = _Requests(job)
    method = "PUT" if job.operation == "archive" else "GET"

    async def client(session: aiohttp.ClientSession, first: int) -> None:
        for number in range(first, job.objects, job.connections):
            path = f"/{BUCKET}/{job.prefix}{number:012d}"
            headers = requests.headers(path, number)
            url = job.target.endpoint + path
            async with session.request(method, url, data=requests.body(number), headers=headers) as reply:
                await reply.read()
            assert reply.status == 200

    async def run() -> dict[str, float]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=job.connections)) as session:
            cpu_before, began = own_cpu_seconds(), time.perf_counter()
            await asyncio.gather(*(client(session, first) for first in range(job.connections)))
            return cost(own_cpu_seconds() - cpu_before, time.perf_counter() - began, job.objects)

    return uvloop.run(run())


def run_boto3(job: Job) -> dict[str, float]:
    """Carry out a sixteenth of a job by boto3, in a thread per connection."""
    objects = max(job.connections, job.objects // BOTO3_SHARE)
    config = Config(
        s3={"addressing_style": "path"}, max_pool_connections=job.connections, retries={"total_max_attempts": 1}
    )
    client = boto3_client(job.target, config)
    content = Content(null_responder.RUN_ID, null_responder.CONTENT_SEED, job.object_bytes)
    bodies = [content.whole(number, job.object_bytes) for number in range(job.connections)]
    until = time.time() + LOCKED_SECONDS

    def one(number: int) -> None:
        key = f"{job.prefix}{number:012d}"
        if job.operation == "archive":
            client.put_object(
                Bucket=BUCKET,
                Key=key,
                Body=bodies[number % job.connections],
                ChecksumAlgorithm="CRC32C",
                ObjectLockMode="GOVERNANCE",
                ObjectLockRetainUntilDate=until,
            )
        else:
            client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    one(0)  # what boto3 makes on its first call is not part of the cost per object
    with concurrent.futures.ThreadPoolExecutor(job.connections) as pool:
        cpu_before, began = own_cpu_seconds(), time.perf_counter()
        list(pool.map(one, range(objects)))
        return cost(own_cpu_seconds() - cpu_before, time.perf_counter() - began, objects)
