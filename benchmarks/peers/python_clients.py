"""Clients in Python: aiohttp with Archiver's requests, and boto3 with its defaults."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time

import aiohttp
import uvloop
from botocore.config import Config

from archiver.values.content import Content
from archiver.values.record import Operation
from archiver.values.retention import DateMaker, Retention
from backends.base import Batch, PhaseSetting
from backends.s3 import null_responder
from backends.s3.data_plane import S3DataPlane
from benchmarks.own_worker import LOCKED_SECONDS, own_cpu_seconds, s3_way
from benchmarks.peers.base import BUCKET, Job, boto3_client, cost

BODIES_BYTES_MAX = 256 << 20  # of the distinct bodies that are prepared before the clock starts
BOTO3_SHARE = 16  # boto3 gets one sixteenth of the objects: it is that much slower


def run_aiohttp(job: Job) -> dict[str, float]:
    """Carry out a job by aiohttp, with Archiver's requests. It reads answers without checking them."""
    archives = job.operation == "archive"
    content = Content(null_responder.RUN_ID, null_responder.CONTENT_SEED, job.object_bytes)
    dates: dict[float | None, DateMaker] = {None: DateMaker(Retention(), time.time() + LOCKED_SECONDS)}
    plane = S3DataPlane(s3_way(job.target).setting)
    plane.set_phase(PhaseSetting(content, dates, "all", (job.object_bytes,)))
    operation = Operation.ARCHIVE if archives else Operation.RETRIEVE
    batch = Batch([operation] * job.objects, range(job.objects), [job.object_bytes] * job.objects)
    distinct = min(job.objects, max(job.connections, BODIES_BYTES_MAX // job.object_bytes))
    bodies = [content.whole(number, job.object_bytes) if archives else None for number in range(distinct)]

    async def client(session: aiohttp.ClientSession, first: int) -> None:
        for number in range(first, job.objects, job.connections):
            (head, *_), *_ = plane.request(0, batch, number)
            request, *lines = bytes(head).decode().rstrip().split("\r\n")
            method, path, _ = request.split()
            headers = dict(line.split(": ", 1) for line in lines)
            url = job.target.endpoint + path
            async with session.request(method, url, data=bodies[number % len(bodies)], headers=headers) as reply:
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

    one(0)  # boto3's preparations in its first call are not part of the cost per object
    with concurrent.futures.ThreadPoolExecutor(job.connections) as pool:
        cpu_before, began = own_cpu_seconds(), time.perf_counter()
        list(pool.map(one, range(objects)))
        return cost(own_cpu_seconds() - cpu_before, time.perf_counter() - began, objects)
