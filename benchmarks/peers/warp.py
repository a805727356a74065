"""warp, MinIO's benchmark of S3 servers, which is run as its users run it.

warp sends requests that the null responder does not answer, so it runs on MinIO only. It has no option for locks.
The checksum database of Go could not be asked about this version: ``go.sum`` has the checksum of the first download.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pyarrow

from archiver.values.sizes import format_size
from benchmarks.peers import go_programs
from benchmarks.peers.base import BUCKET, RATE, Job, cost, run_client

MODULE = "github.com/minio/warp"
PROGRAM = go_programs.pinned_program("warp", MODULE, MODULE)
SECONDS = 4  # warp rates only runs of several seconds


def run(job: Job) -> dict[str, float]:
    """Put or get objects for ``SECONDS``, however many objects the job has. CPU includes that of warp's start."""
    scheme, _, host = job.target.endpoint.partition("://")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        command = [
            str(PROGRAM.path), {"archive": "put", "retrieve": "get"}[job.operation], "--host", host,
            "--region", "us-east-1", "--bucket", BUCKET, "--noclear", "--disable-multipart", "--no-color",
            "--noprefix", "--obj.size", format_size(job.object_bytes), "--concurrent", str(job.connections),
            "--duration", f"{SECONDS}s", "--benchdata", str(data),
        ]  # fmt: skip
        command += ["--tls"] if scheme == "https" else []
        command += ["--prefix", job.prefix.rstrip("/")] if job.operation == "archive" else ["--list-existing"]
        keys = {"WARP_ACCESS_KEY": job.target.access_key, "WARP_SECRET_KEY": job.target.secret_key}
        ended = run_client(command, keys)
        rate = re.search(r"Average: .*?([\d.]+) obj/s", ended.printed)
        assert rate is not None, ended.printed
        with pyarrow.input_stream(data.with_suffix(".csv.zst"), compression="zstd") as rows:
            operations = rows.read().count(b"\n") - 1  # without the heading
    return {**cost(ended.cpu_seconds, SECONDS, operations), RATE: float(rate[1])}
