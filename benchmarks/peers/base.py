"""The input and the result of every client: a server, a job on it, and the cost of the job."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import boto3
from botocore.config import Config

from archiver.platforms import servers
from archiver.platforms.programs import PROGRAMS
from archiver.values.sizes import format_size
from backends.s3 import null_responder
from benchmarks.processes import pinned
from scenarios.work.mix import OperationName

BUCKET = "null"
KEY_PREFIX = "null/"
CPU, RATE = "client CPU per object, µs", "objects/s"  # figures of every client


@dataclass(frozen=True, slots=True)
class Target:
    """A server that answers S3 requests. It has the bucket ``BUCKET``."""

    endpoint: str
    access_key: str = "null"
    secret_key: str = field(default="null", repr=False)

    @property
    def has_tls(self) -> bool:
        return self.endpoint.startswith("https")


def boto3_client(target: Target, config: Config | None = None) -> Any:
    """Return a boto3 client. It trusts the servers' certificate."""
    return boto3.session.Session().client(
        "s3",
        endpoint_url=target.endpoint,
        region_name="us-east-1",
        aws_access_key_id=target.access_key,
        aws_secret_access_key=target.secret_key,
        verify=str(null_responder.CERTIFICATE) if target.has_tls else None,
        config=config,
    )


def make_bucket(target: Target, name: str = BUCKET) -> None:
    """Make a bucket whose objects can be locked."""
    with closing(boto3_client(target)) as client:
        client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)


def has_minio() -> bool:
    return PROGRAMS["minio"].is_installed()


@contextmanager
def null_server(object_bytes: int, cores: Sequence[int], *, with_tls: bool = False) -> Iterator[Target]:
    """Run a null responder on these cores; every object has ``object_bytes``."""
    with null_responder.start(object_bytes, cores, with_tls=with_tls) as responder:
        yield Target(responder.endpoint)


@contextmanager
def minio_server(cores: Sequence[int], *, with_tls: bool = False) -> Iterator[Target]:
    """Run an empty MinIO on these cores, with a bucket that can lock objects; TLS is by the responder's certificate."""
    certificate = null_responder.CERTIFICATE
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as temporary:
        folder = Path(temporary) / "minio"
        if with_tls:
            certificates = folder / "certificates"
            certificates.mkdir(mode=0o700, parents=True)
            key, public = re.findall(r"-----BEGIN.*?-----END [A-Z ]+-----\n", certificate.read_text(), re.DOTALL)
            (certificates / "private.key").write_text(key)
            (certificates / "public.crt").write_text(public)
        with ExitStack() as stack:
            with pinned(cores):  # all threads of the server are started on these cores
                server = stack.enter_context(servers.running("minio", folder, tls=certificate if with_tls else None))
            target = Target(server.endpoint, server.access.access_key, server.access.secret_key)
            make_bucket(target)
            yield target


@dataclass(frozen=True, slots=True)
class Job:
    """Objects of one size to archive or to retrieve: those with the numbers 0, 1, 2, ... after the prefix."""

    target: Target
    operation: OperationName
    object_bytes: int
    connections: int
    objects: int
    prefix: str = KEY_PREFIX


@dataclass(frozen=True, slots=True)
class Case:
    """One operation at one size, for several clients. ``objects`` are those of a round on the null responder.

    ``goals``: client -> Archiver's CPU in proportion to its CPU, at most, on the null responder.
    """

    operation: OperationName
    object_bytes: int
    objects: int  # a multiple of four sessions of every connection, as is ``minio_objects``
    minio_objects: int = 0  # of a round on MinIO
    connections: int = 16
    with_tls: bool = False
    goals: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        connections = "1 connection" if self.connections == 1 else f"{self.connections} connections"
        return f"{self.operation} {format_size(self.object_bytes)}, {connections}{', TLS' * self.with_tls}"

    def job(self, target: Target, objects: int, prefix: str = KEY_PREFIX) -> Job:
        return Job(target, self.operation, self.object_bytes, self.connections, objects, prefix)


def cost(cpu_seconds: float, seconds: float, objects: int) -> dict[str, float]:
    """Return the user and system time of a job for its client, and its rate."""
    return {CPU: cpu_seconds / objects * 1e6, RATE: objects / seconds}


class Ended(NamedTuple):
    """The result of a client's process."""

    printed: str
    cpu_seconds: float  # its user and system time, that of its start included


def run_client(command: Sequence[str], variables: Mapping[str, str] | None = None) -> Ended:
    """Run a client until it ends, with these environment variables, too. It trusts the servers' certificate."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        command,
        env={**os.environ, **(variables or {}), "SSL_CERT_FILE": str(null_responder.CERTIFICATE)},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, f"{command[0]} failed: {done.stdout} {done.stderr}"
    return Ended(done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
