"""Whether Archiver and another client report the same rate for the same work on one MinIO.

One idea: the server's core is the limit, so the rates are the server's, and clients that count alike agree on them.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from archiver.values.sizes import format_size
from benchmarks.peers import minio_go
from benchmarks.peers.base import Cost, Job, Options, Target
from benchmarks.peers.servers import minio_server
from benchmarks.tables import Table, labelled, plain, spread
from results.statistics import PAIRS_MIN, estimate, paired_ratio

OBJECT_BYTES, CONNECTIONS = 64 << 10, 16
ROUNDS, SECONDS, OBJECTS = 6, 4.0, 1_600
ROUNDS_SMALL, SECONDS_SMALL, OBJECTS_SMALL = PAIRS_MIN, 0.1, 64
SCENARIO = f"""
name = "agreement"
title = "The work that two clients carry out in turns"
[[sweep]]
name = "archive"
operation = "archive"
object_sizes = [{OBJECT_BYTES}]
objects_per_session = [10]
clients = [{CONNECTIONS}]
"""


def measure(server_cores: Sequence[int], *, small: bool) -> dict[str, Any]:
    """Return rates of both clients in every round, with 95% intervals. The caller has pinned this process."""
    rounds, seconds, objects = (ROUNDS_SMALL, SECONDS_SMALL, OBJECTS_SMALL) if small else (ROUNDS, SECONDS, OBJECTS)
    costs: dict[str, list[Cost]] = {"archiver": [], "minio-go": []}
    with minio_server(server_cores) as target, tempfile.TemporaryDirectory() as home:
        for round_ in range(rounds):
            job = Job(target, "archive", OBJECT_BYTES, CONNECTIONS, objects, f"agreement/{round_}/")
            runs: list[tuple[str, Callable[[], Cost]]] = [
                ("archiver", partial(_archiver, target, Path(home), seconds)),
                ("minio-go", partial(minio_go.run, job, as_archiver=True)),
            ]
            # They begin the rounds in turn, so the order within a round favours neither.
            for name, run in runs if round_ % 2 == 0 else reversed(runs):
                costs[name].append(run())
    return document_of(costs)


def document_of(costs: Mapping[str, Sequence[Cost]]) -> dict[str, Any]:
    """Return the rates with their intervals, whether these overlap, and Archiver's rate in proportion to the other."""
    clients: dict[str, dict[str, Any]] = {}
    for name, rounds in costs.items():
        rates = [each.objects_per_second for each in rounds]
        interval = estimate(rates)
        clients[name] = {
            "objects_per_second": rates,
            "low": interval.low,
            "high": interval.high,
            "core_percent": [each.cpu_microseconds * each.objects_per_second / 1e4 for each in rounds],
        }
    ours, other = clients.values()
    pairs = zip(ours["objects_per_second"], other["objects_per_second"], strict=True)
    ratio = paired_ratio([math.log(above / below) for above, below in pairs])
    return {
        "clients": clients,
        "ratio": {"ratio": ratio.ratio, "low": ratio.low, "high": ratio.high},
        "agree": ours["low"] <= other["high"] and other["low"] <= ours["high"],
    }


def table(document: Mapping[str, Any]) -> Table:
    """Return the rate of each client with its interval, and how busy the client's core was."""
    rows = [
        (
            *plain(name, "head", "CRC32C", "governance"),
            spread(client["objects_per_second"], 0),
            *plain(f"{client['low']:,.0f} to {client['high']:,.0f}"),
            spread(client["core_percent"], 0),
        )
        for name, client in document["clients"].items()
    ]
    return Table(
        "agreement",
        f"Archive {format_size(OBJECT_BYTES)} to one MinIO, {CONNECTIONS} connections",
        labelled(("client",), *Options._fields, "objects/s", "95% interval", "client's core, %"),
        tuple(rows),
    )


def note(document: Mapping[str, Any]) -> str:
    ratio = document["ratio"]
    return (
        f"archive {format_size(OBJECT_BYTES)}: the 95% intervals of archiver's and minio-go's rates"
        f" {'overlap: they agree' if document['agree'] else 'do not overlap: THEY DISAGREE'}; archiver / minio-go"
        f" within a round: {ratio['ratio']:.2f} ({ratio['low']:.2f} to {ratio['high']:.2f})"
    )


def _archiver(target: Target, home: Path, seconds: float) -> Cost:
    """Return the rate and the client's CPU as `archiver run` reports them."""
    scenario = home / "agreement.toml"
    scenario.write_text(SCENARIO)
    done = subprocess.run(
        [
            sys.executable, "-m", "archiver", "run", str(scenario), "--endpoint", target.endpoint, "--workers", "1",
            "--session-open", "connect", "--keep-sessions-open", "--set", f"stop.seconds_min={seconds}s",
            "--retain-for", minio_go.LOCK, "--json", "--quiet",
        ],
        env={
            **os.environ,
            "ARCHIVER_HOME": str(home),
            "AWS_ACCESS_KEY_ID": target.access_key,
            "AWS_SECRET_ACCESS_KEY": target.secret_key,
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )  # fmt: skip
    (result,) = json.loads(done.stdout)["results"]
    return Cost(result["client"]["cpu_microseconds_per_object"], result["objects_per_second"])
