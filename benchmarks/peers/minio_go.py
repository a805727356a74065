"""minio-go, the client library of MinIO: a small program puts or gets objects with it, a goroutine per connection."""

from __future__ import annotations

import os
import subprocess

from backends.s3 import null_responder
from benchmarks.peers import go_programs
from benchmarks.peers.base import BUCKET, Cost, Job

LOCK = "5m"  # as long as Archiver locks by default
PROGRAM = go_programs.pinned_program("minio-go", "github.com/minio/minio-go/v7")


def run(job: Job, *, as_archiver: bool = False) -> Cost:
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
    done = subprocess.run(
        command,
        env={
            **os.environ,
            "AWS_ACCESS_KEY_ID": job.target.access_key,
            "AWS_SECRET_ACCESS_KEY": job.target.secret_key,
            "SSL_CERT_FILE": str(null_responder.CERTIFICATE),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"minio-go failed: {done.stderr}"
    seconds, cpu_seconds = map(float, done.stdout.split())
    return Cost(cpu_seconds / job.objects * 1e6, job.objects / seconds)
