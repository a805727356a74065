"""minio-go, the client library of MinIO: a small program puts or gets objects with it, a goroutine per connection.

One idea: the program is built from the sources in ``go/`` into the cache of platforms' programs. ``go.sum`` pins the
checksum of every module, so the Go toolchain refuses any other code. Changed sources are another version.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from archiver.platforms.programs import Program, install_program, run_go
from archiver.values.errors import PlatformError
from backends.s3 import null_responder
from benchmarks.peers.base import BUCKET, Cost, Job

_SOURCES = Path(__file__).with_name("go")
LOCK = "5m"  # as long as Archiver locks by default


@dataclass(frozen=True, slots=True)
class _BuiltHere(Program):
    """A Go program with its sources here."""

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def build(self, folder: Path) -> None:
        run_go(self, ["build", "-C", str(_SOURCES), "-buildvcs=false", "-o", str(folder / self.name), "."])


def version() -> str:
    """Return the pinned version of minio-go."""
    found = re.search(r"minio-go/v7 (v\S+)", (_SOURCES / "go.mod").read_text())
    assert found is not None
    return found[1]


def _program() -> Program:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_SOURCES.iterdir()))).hexdigest()
    return _BuiltHere("minio-go", f"{version()}-{digest[:12]}")


def is_installed() -> bool:
    return _program().is_installed()


def run(job: Job, *, as_archiver: bool = False) -> Cost:
    """Carry out a job.

    ``as_archiver``: archive with the options that Archiver has by default: the content is not signed, and each object
    has a CRC32C and a lock. Otherwise archive as warp does by default: no checksum, no lock, and the content is signed
    if there is no TLS.
    """
    command = [
        str(_program().path), "-endpoint", job.target.endpoint, "-bucket", BUCKET, "-prefix", job.prefix,
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


def main() -> None:
    """Build the program if it is missing."""
    try:
        print(install_program(_program()))
    except PlatformError as failed:
        raise SystemExit(str(failed)) from failed


if __name__ == "__main__":
    main()
