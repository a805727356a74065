"""wrk sends one request again and again: the minimum cost of a client. It signs nothing and checks nothing.

A Lua script can format each request, with a key of its own: the minimum cost of a client whose requests differ.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks.peers.base import BUCKET, Job, cost, run_client


def is_installed() -> bool:
    return shutil.which("wrk") is not None


def version() -> str | None:
    """Return the version of the installed wrk, or None."""
    if not is_installed():
        return None
    printed = subprocess.run(["wrk", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"wrk (\S+)", printed.stdout + printed.stderr)
    return found[1] if found else None


def run(job: Job, seconds: int, *, formatted: bool = False) -> dict[str, float]:
    """Send the job's first request for so many seconds, however many objects the job has.

    ``formatted``: a script makes each request, with the number of its object.
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
