"""What every client is given, and what it returns: a server, a job on it, and the cost of the job."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from scenarios.work.mix import OperationName

BUCKET = "null"
KEY_PREFIX = "null/"


@dataclass(frozen=True, slots=True)
class Target:
    """A server that answers S3 requests. It has the bucket ``BUCKET``."""

    endpoint: str
    access_key: str = "null"
    secret_key: str = field(default="null", repr=False)

    @property
    def has_tls(self) -> bool:
        return self.endpoint.startswith("https")


@dataclass(frozen=True, slots=True)
class Job:
    """Objects of one size to archive or to retrieve: those with the numbers 0, 1, 2, ... after the prefix."""

    target: Target
    operation: OperationName
    object_bytes: int
    connections: int
    objects: int
    prefix: str = KEY_PREFIX


class Options(NamedTuple):
    """What a client does with each object."""

    signed: str
    checksum: str
    lock: str


class Cost(NamedTuple):
    """What a job cost the client, and how fast it was."""

    cpu_microseconds: float  # user and system time of the client, per object
    objects_per_second: float
