"""Client CPU per object: Archiver's own S3 path compared with other clients.

Every client sends the same objects to the same null responder over 16 connections that stay open. The client has one
core and the responder another. Archiver signs every request, sends lock headers and a CRC32C, and checks every
retrieved byte. aiohttp sends the same requests: the same bodies and headers, with Archiver's checksums and signer. It
reads without checking. boto3 runs with its defaults. wrk, if it is installed, sends one static unsigned request.
Archiver does the same work once more with TLS, against a second null responder.

Rounds are interleaved: each contender runs once, then again. The ratio of a pair is taken within its round; the page
shows the median of the rounds. CPU is user and system time of the process, from getrusage.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import uvloop
from botocore.config import Config

from archiver.values.content import Content
from archiver.values.sizes import format_instant, format_size
from backends.s3 import null_responder
from backends.s3.wire.checksums import WindowChecksums
from backends.s3.wire.signing import RequestTemplate, Signer
from benchmarks.affinity import pinned, usable_cores
from benchmarks.own_worker import archiver_cost, own_cpu_seconds, s3_setting
from benchmarks.peers import wrk
from benchmarks.peers.base import BUCKET, KEY_PREFIX, Job, Target, boto3_client
from benchmarks.rounds import paired_ratios
from benchmarks.tables import Table, labelled, plain, spread, verdict
from scenarios.work.mix import OperationName

TITLE = "What the client costs"
TLS = "archiver, TLS"  # a contender whose ratio is to Archiver without TLS
CONNECTIONS = 16


@dataclass(frozen=True, slots=True)
class Case:
    """One operation at one size, how many objects a round takes, and what Archiver is to reach.

    ``tls_goal``: CPU with TLS in proportion to CPU without, at most.
    """

    operation: OperationName
    object_bytes: int
    objects: int
    objects_small: int
    goals: dict[str, float]  # contender -> ratio at most
    tls_goal: float

    @property
    def is_archive(self) -> bool:
        return self.operation == "archive"


CASES = (
    Case("archive", 8192, 32_000, 320, {"aiohttp": 0.25, "wrk": 2.5}, 1.4),
    Case("retrieve", 8192, 32_000, 320, {"aiohttp": 0.25}, 1.4),
    Case("archive", 1 << 20, 1_600, 32, {"aiohttp": 0.85}, 1.8),
    Case("retrieve", 1 << 20, 1_600, 32, {"aiohttp": 0.33}, 1.8),
)
BOTO3_SHARE = 16  # boto3 gets one sixteenth of the objects: it is that much slower


def measure(*, small: bool) -> dict[str, Any]:
    """Every case: microseconds of client CPU per object, per contender and round, and the median ratios."""
    rounds = 1 if small else 5
    cores = usable_cores()
    with pinned(cores[-1:]):
        return {
            "connections": CONNECTIONS,
            "rounds": rounds,
            "unit": "microseconds of client CPU per object",
            "cases": [_case(case, rounds, small, cores[:1]) for case in CASES],
        }


def tables(document: dict[str, Any]) -> list[Table]:
    """CPU per object, and the ratio to each contender."""
    names = [name for name in ("archiver", "aiohttp", "boto3", "wrk", TLS) if name in document["cases"][0]["rounds"]]
    costs, ratios = [], []
    for case in document["cases"]:
        what = f"{case['operation']} {format_size(case['object_bytes'])}"
        costs.append((*plain(what), *(spread(case["rounds"][name], 1) for name in names)))
        ours = case["rounds"]["archiver"]
        within = [_ratios(name, ours, case["rounds"][name]) for name in names[1:]]
        ratios.append((*plain(what), *(spread(values, 2) for values in within)))
    return [
        Table("client-cost", "Client CPU per object, µs", labelled(("",), *names), tuple(costs)),
        Table(
            "client-cost-ratios",
            "Archiver's to theirs, and with TLS to without, within a round",
            labelled(("",), *(f"{TLS} / archiver" if name == TLS else f"archiver / {name}" for name in names[1:])),
            tuple(ratios),
        ),
    ]


def notes(document: dict[str, Any]) -> list[str]:
    return [
        f"{case['operation']} {format_size(case['object_bytes'])}: goal: "
        + (f"with TLS at most {goal} x without" if name == TLS else f"at most {goal} x {name}")
        + f": {verdict(case['ratios'][name] <= goal)}"
        for case in document["cases"]
        for name, goal in case["goals"].items()
        if name in case["ratios"]
    ]


def _ratios(name: str, ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return Archiver's CPU in proportion to a contender's, round by round; with TLS in proportion to without."""
    return paired_ratios(theirs, ours) if name == TLS else paired_ratios(ours, theirs)


def headline(document: dict[str, Any]) -> str:
    """As README.md has it."""
    lines = [
        "| | Archiver | aiohttp | boto3 | wrk | Archiver / aiohttp | Archiver / wrk |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in document["cases"]:
        rounds, ratios = case["rounds"], case["ratios"]
        cells = [
            f"{case['operation']} {format_size(case['object_bytes']).replace('KiB', ' KiB').replace('MiB', ' MiB')}"
        ]
        for name, decimals in (("archiver", 1), ("aiohttp", 1), ("boto3", 0), ("wrk", 1)):
            cells.append(f"{statistics.median(rounds[name]):.{decimals}f} µs" if name in rounds else "–")
        cells += [f"{ratios[name]:.2f}" if name in ratios else "–" for name in ("aiohttp", "wrk")]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _case(case: Case, rounds: int, small: bool, responder_cores: list[int]) -> dict[str, Any]:
    objects = case.objects_small if small else case.objects
    contenders: dict[str, Callable[[str, Case, int], float]] = {
        "archiver": _archiver,
        "aiohttp": _aiohttp,
        "boto3": _boto3,
    }
    if wrk.is_installed():
        contenders["wrk"] = _wrk
    cpu: dict[str, list[float]] = {name: [] for name in (*contenders, TLS)}
    with (
        null_responder.start(case.object_bytes, responder_cores) as responder,
        null_responder.start(case.object_bytes, responder_cores, with_tls=True) as with_tls,
    ):
        for _ in range(rounds):
            for name, contender in contenders.items():
                cpu[name].append(contender(responder.endpoint, case, objects))
            cpu[TLS].append(_archiver(with_tls.endpoint, case, objects))
    ratios = {
        name: statistics.median(_ratios(name, cpu["archiver"], values))
        for name, values in cpu.items()
        if name != "archiver"
    }
    goals = {**case.goals, TLS: case.tls_goal}
    return {
        "operation": case.operation,
        "object_bytes": case.object_bytes,
        "objects": objects,
        "rounds": cpu,
        "ratios": ratios,
        "goals": goals,
        "goals_met": all(ratios[name] <= goal for name, goal in goals.items() if name in ratios),
    }


def _archiver(endpoint: str, case: Case, objects: int) -> float:
    return archiver_cost(endpoint, case.operation, case.object_bytes, objects, CONNECTIONS)


def _aiohttp(endpoint: str, case: Case, objects: int) -> float:
    content = Content(null_responder.RUN_ID, null_responder.CONTENT_SEED, case.object_bytes)
    checksums = WindowChecksums("crc32c", content, case.object_bytes)
    setting = s3_setting(Target(endpoint))
    signer = Signer(setting.access_key, setting.secret_key, setting.region)
    host = endpoint.removeprefix("http://")
    lock = {"x-amz-object-lock-mode": "GOVERNANCE"}
    until = {"x-amz-object-lock-retain-until-date": format_instant(time.time() + 300)}
    archive = RequestTemplate("PUT", host, lock, variable=("x-amz-checksum-crc32c",))
    retrieve = RequestTemplate("GET", host, {})
    # Bodies are made before the clock starts, a limited number of distinct ones for large objects.
    distinct = min(objects, max(CONNECTIONS, (256 << 20) // case.object_bytes))
    bodies = [content.whole(number, case.object_bytes) for number in range(distinct)] if case.is_archive else []

    def signed(
        template: RequestTemplate, dated: dict[str, str], path: str, values: tuple[bytes, ...]
    ) -> dict[str, str]:
        second = int(time.time())
        if second != compiled.get(id(template)):
            template.compile(signer, second, dated)
            compiled[id(template)] = second
        head = template.head(path.encode(), values).decode()
        return {
            "Authorization": head[head.index("Authorization: ") + 15 : -4],
            "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
            "x-amz-date": signer.moment(second).amz_date,
            **dated,
        }

    compiled: dict[int, int] = {}

    async def client(session: aiohttp.ClientSession, first: int) -> None:
        for number in range(first, objects, CONNECTIONS):
            path = f"/{BUCKET}/{KEY_PREFIX}{number:012d}"
            if case.is_archive:
                body = bodies[number % distinct]
                checksum = checksums.base64(number, content.last_block(number, case.object_bytes))
                headers = {
                    **signed(archive, until, path, (checksum,)),
                    **lock,
                    "x-amz-checksum-crc32c": checksum.decode(),
                }
                async with session.put(endpoint + path, data=body, headers=headers) as reply:
                    await reply.read()
            else:
                async with session.get(endpoint + path, headers=signed(retrieve, {}, path, ())) as reply:
                    await reply.read()
            assert reply.status == 200

    async def run() -> float:
        connector = aiohttp.TCPConnector(limit=CONNECTIONS)
        async with aiohttp.ClientSession(connector=connector) as session:
            before = own_cpu_seconds()
            await asyncio.gather(*(client(session, first) for first in range(CONNECTIONS)))
            return own_cpu_seconds() - before

    return uvloop.run(run()) / objects * 1e6


def _boto3(endpoint: str, case: Case, objects: int) -> float:
    objects = max(CONNECTIONS, objects // BOTO3_SHARE)
    content = Content(null_responder.RUN_ID, null_responder.CONTENT_SEED, case.object_bytes)
    config = Config(
        s3={"addressing_style": "path"}, max_pool_connections=CONNECTIONS, retries={"total_max_attempts": 1}
    )
    client = boto3_client(Target(endpoint), config)
    bodies = [content.whole(number, case.object_bytes) for number in range(CONNECTIONS)]
    until = time.time() + 300

    def one(number: int) -> None:
        key = f"{KEY_PREFIX}{number:012d}"
        if case.operation == "archive":
            client.put_object(
                Bucket=BUCKET,
                Key=key,
                Body=bodies[number % CONNECTIONS],
                ChecksumAlgorithm="CRC32C",
                ObjectLockMode="GOVERNANCE",
                ObjectLockRetainUntilDate=until,
            )
        else:
            client.get_object(Bucket=BUCKET, Key=key)["Body"].read()

    one(0)  # what boto3 makes on its first call is not part of the cost per object
    with concurrent.futures.ThreadPoolExecutor(CONNECTIONS) as pool:
        before = own_cpu_seconds()
        list(pool.map(one, range(objects)))
        return (own_cpu_seconds() - before) / objects * 1e6


def _wrk(endpoint: str, case: Case, objects: int) -> float:
    job = Job(Target(endpoint), case.operation, case.object_bytes, CONNECTIONS, objects)
    return wrk.run(job, 2 if objects > 1000 else 1).cpu_microseconds
