"""Clients that are programs of their own: warp and minio-go, which are Go programs, and wrk.

A folder of ``go_modules/`` has ``go.mod`` and ``go.sum``, which pin the version and the checksum of every module. The
Go toolchain refuses any other code. Changed files are another version of the program, in the cache of platforms'
programs. Go's checksum database had no entry for warp's version: ``go.sum`` has the checksum of the first download.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow

from archiver.platforms.programs import GoProgram, run_go
from archiver.values.sizes import format_size
from benchmarks.peers.base import BUCKET, RATE, Job, cost, run_client

_MODULES = Path(__file__).with_name("go_modules")
LOCK = "5m"  # as long as Archiver locks by default
WARP_SECONDS = 4  # warp rates only runs of several seconds


@dataclass(frozen=True, slots=True)
class PinnedProgram(GoProgram):
    """A program that is built in ``sources``, a folder of ``go_modules/``: its ``package``, with ``module``."""

    module_version: str
    package: str
    sources: Path

    def build(self, folder: Path) -> None:
        run_go(self, ["build", "-C", str(self.sources), "-buildvcs=false", "-o", str(folder / self.name), self.package])


def pinned_program(name: str, module: str, package: str = ".") -> PinnedProgram:
    """Return the program of ``go_modules/NAME``; its version begins with that of ``module`` there."""
    sources = _MODULES / name.replace("-", "_")
    found = re.search(rf"{re.escape(module)} (v\S+)", (sources / "go.mod").read_text())
    assert found is not None
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources.iterdir()))).hexdigest()
    return PinnedProgram(name, f"{found[1]}-{digest[:12]}", module, found[1], package, sources)


WARP = pinned_program("warp", "github.com/minio/warp", "github.com/minio/warp")
MINIO_GO = pinned_program("minio-go", "github.com/minio/minio-go/v7")


def run_minio_go(job: Job, *, as_archiver: bool = False) -> dict[str, float]:
    """Carry out a job by MinIO's client library: a small program puts or gets objects, one goroutine per connection.

    ``as_archiver``: archive with the options that Archiver has by default: the content is not signed, and each object
    has a CRC32C and a lock. Otherwise archive as warp does by default: no checksum, no lock, and the content is signed
    if there is no TLS.
    """
    command = [
        str(MINIO_GO.path), "-endpoint", job.target.endpoint, "-bucket", BUCKET, "-prefix", job.prefix,
        "-objects", str(job.objects), "-bytes", str(job.object_bytes), "-connections", str(job.connections),
    ]  # fmt: skip
    if job.operation == "retrieve":
        command.append("-get")
    elif as_archiver:
        command += ["-unsigned-payload", "-crc32c", "-lock", LOCK]
    keys = {"AWS_ACCESS_KEY_ID": job.target.access_key, "AWS_SECRET_ACCESS_KEY": job.target.secret_key}
    seconds, cpu_seconds = map(float, run_client(command, keys).printed.split())
    return cost(cpu_seconds, seconds, job.objects)


def run_warp(job: Job) -> dict[str, float]:
    """Put or get objects by MinIO's benchmark for ``WARP_SECONDS``, however many objects the job has.

    warp runs as its users run it, on MinIO only: it sends requests that the null responder does not answer. It has no
    option for locks. CPU includes that of its start.
    """
    scheme, _, host = job.target.endpoint.partition("://")
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        command = [
            str(WARP.path), {"archive": "put", "retrieve": "get"}[job.operation], "--host", host,
            "--region", "us-east-1", "--bucket", BUCKET, "--noclear", "--disable-multipart", "--no-color",
            "--noprefix", "--obj.size", format_size(job.object_bytes), "--concurrent", str(job.connections),
            "--duration", f"{WARP_SECONDS}s", "--benchdata", str(data),
        ]  # fmt: skip
        command += ["--tls"] if scheme == "https" else []
        command += ["--prefix", job.prefix.rstrip("/")] if job.operation == "archive" else ["--list-existing"]
        keys = {"WARP_ACCESS_KEY": job.target.access_key, "WARP_SECRET_KEY": job.target.secret_key}
        ended = run_client(command, keys)
        rate = re.search(r"Average: .*?([\d.]+) obj/s", ended.printed)
        assert rate is not None, ended.printed
        with pyarrow.input_stream(data.with_suffix(".csv.zst"), compression="zstd") as rows:
            operations = rows.read().count(b"\n") - 1  # without the heading
    return {**cost(ended.cpu_seconds, WARP_SECONDS, operations), RATE: float(rate[1])}


def has_wrk() -> bool:
    return shutil.which("wrk") is not None


def wrk_version() -> str | None:
    """Return the version of the installed wrk, or None."""
    if not has_wrk():
        return None
    printed = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"wrk (\S+)", printed.stdout + printed.stderr)
    return found[1] if found else None


def run_wrk(job: Job, seconds: int, *, formatted: bool = False) -> dict[str, float]:
    """Send the job's first request for ``seconds``, however many objects the job has: the minimum cost of a client.

    wrk signs nothing and checks nothing. ``formatted``: a script makes each request, with the number of its object: the
    minimum cost of a client whose requests differ.
    """
    method = "PUT" if job.operation == "archive" else "GET"
    path = f"/{BUCKET}/{job.prefix}"
    with tempfile.TemporaryDirectory() as folder:
        script, body = Path(folder) / "request.lua", Path(folder) / "body"
        lines = [f'wrk.method = "{method}"']
        if job.operation == "archive":
            body.write_bytes(bytes(job.object_bytes))
            lines += [f'local file = io.open("{body}", "rb")', 'wrk.body = file:read("*a")', "file:close()"]
        if formatted:
            lines += [
                "local number = -1",
                "request = function()",
                "  number = number + 1",
                f'  return wrk.format(nil, string.format("{path}%012d", number))',
                "end",
            ]
        script.write_text("\n".join(lines))
        command = ["wrk", "-t1", f"-c{job.connections}", f"-d{seconds}s", "-s", str(script)]
        printed, cpu_seconds = run_client([*command, f"{job.target.endpoint}{path}{1:012d}"])
    requests = re.search(r"(\d+) requests in ([\d.]+)(m?s)", printed)
    assert requests is not None, printed
    assert "Non-2xx" not in printed, printed
    assert requests[3] == "s", printed
    return cost(cpu_seconds, float(requests[2]), int(requests[1]))
