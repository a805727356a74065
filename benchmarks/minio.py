"""What the client costs where answers have to be waited for: MinIO, archived to by 16 clients.

`archiver run dr550` starts MinIO for it, on this machine: sessions of 250 objects of 8 KiB with lock headers and a
CRC32C. Client and server share the cores, so the rate is no capacity; the client's CPU per object is what it costs.
Medians over the repetitions and both archive sweeps of the scenario. Where MinIO is not installed there is nothing to
tell.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from archiver.platforms import programs
from archiver.values.errors import PlatformError
from benchmarks.tables import Table, labelled, plain, spread

TITLE = "What the client costs on MinIO"
CLIENTS, OBJECTS_PER_SESSION, SECONDS, REPETITIONS = 16, 250, 5, 3
CLIENTS_SMALL, OBJECTS_PER_SESSION_SMALL = 2, 5


def measure(*, small: bool) -> dict[str, Any]:
    """Of each archive phase: client CPU per object, objects/s, how busy the server's busiest core was."""
    try:
        programs.find("minio")
    except PlatformError:
        return {"phases": {}}
    clients, objects = (CLIENTS_SMALL, OBJECTS_PER_SESSION_SMALL) if small else (CLIENTS, OBJECTS_PER_SESSION)
    words = [
        "run", "dr550", "--platform", "minio", "--set", "object_sizes=8KiB", "--set", f"objects_per_session={objects}",
        "--set", f"clients={clients}", "--set", f"stop.seconds_min={'0.1s' if small else f'{SECONDS}s'}",
        "--repeat", "1" if small else f"{REPETITIONS}",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as home:
        done = subprocess.run(
            [sys.executable, "-m", "archiver", *words, "--json", "--quiet"],
            env={**os.environ, "ARCHIVER_HOME": home},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    results = [each for each in json.loads(done.stdout)["results"] if each["operation"] == "archive"]
    return {
        "command": f"archiver {' '.join(words)}",
        "minio": programs.PROGRAMS["minio"].version,
        "clients": clients,
        "objects_per_session": objects,
        "phases": {
            "cpu_microseconds_per_object": [each["client"]["cpu_microseconds_per_object"] for each in results],
            "objects_per_second": [each["objects_per_second"] for each in results],
            "busiest_core_percent": [each["server"]["busiest_core_percent"] for each in results],
        },
    }


def tables(document: dict[str, Any]) -> list[Table]:
    if not document["phases"]:
        return []
    phases = document["phases"]
    cells = (
        spread(phases["cpu_microseconds_per_object"], 0),
        spread(phases["objects_per_second"], 0),
        spread(phases["busiest_core_percent"], 0),
    )
    title = f"Archive 8 KiB, {document['clients']} clients, {document['objects_per_session']} objects per session"
    columns = labelled(("MinIO",), "client CPU per object, µs", "objects/s", "server's busiest core, %")
    return [Table("minio", title, columns, ((*plain(document["minio"]), *cells),))]


def notes(document: dict[str, Any]) -> list[str]:
    return [f"`{document['command']}`"] if document["phases"] else ["MinIO is not installed: not measured"]


def headline(document: dict[str, Any]) -> str:
    """As README.md has it."""
    if not document["phases"]:
        return "Not measured."
    cpu, rate, core = (statistics.median(values) for values in document["phases"].values())
    return (
        f"{cpu:.0f} µs of client CPU per archived object at {rate:.0f} objects/s,"
        f" with MinIO's one core {core:.0f}% busy; an object whose\n"
        "answer is waited for costs the client more than one that is answered at once."
    )
