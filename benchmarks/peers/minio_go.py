"""minio-go, the client library of MinIO: a small program puts or gets objects with it, a goroutine per connection."""

from __future__ import annotations

from benchmarks.peers import go_programs
from benchmarks.peers.base import BUCKET, Job, cost, run_client

LOCK = "5m"  # as long as Archiver locks by default
PROGRAM = go_programs.pinned_program("minio-go", "github.com/minio/minio-go/v7")


def run(job: Job, *, as_archiver: bool = False) -> dict[str, float]:
    """Carry out a job.

    ``as_archiver``: archive with the options that Archiver has by default: the content is not signed, and each object
    has a CRC32C and a lock. Otherwise archive as warp does by default: no checksum, no lock, and the content is signed
    if there is no TLS.
    """
    command = [
        str(PROGRAM.path), "-endpoint", job.target.endpoint, "-bucket", BUCKET, "-prefix", job.prefix,
        "-objects", str(job.objects), "-bytes", str(job.object_bytes), "-connections", str(job.connections),
    ]  # fmt: skip
    if job.operation == "retrieve":
        command.append("-get")
    elif as_archiver:
        command += ["-unsigned-payload", "-crc32c", "-lock", LOCK]
    keys = {"AWS_ACCESS_KEY_ID": job.target.access_key, "AWS_SECRET_ACCESS_KEY": job.target.secret_key}
    seconds, cpu_seconds = map(float, run_client(command, keys).printed.split())
    return cost(cpu_seconds, seconds, job.objects)
