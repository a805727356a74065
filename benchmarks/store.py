"""The embedded store's archive rate: durable objects through its S3 server, and their cost for the server.

The load is signed requests with lock headers and a CRC32C, on connections that stay open. Every object is durable
before its answer. One client therefore measures the latency of the disk's syncs; sixteen clients share each sync (group
commit).

1 MiB objects are compared with one process that writes as many bytes to a file in the same folder, with one fdatasync
at the end: the minimum cost of the same durability. They are also compared with the store's TSM server, which computes
no MD5. Rounds are interleaved: each contender runs once, then again. Ratios are taken within a round; the page shows
the medians of the rounds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from archiver.machine import description as machine
from archiver.values.sizes import format_size
from backends.embedded.process import StoreProcess
from backends.tsm.library.configuration import private_configuration
from benchmarks.embedded_load import (
    Load,
    archive,
    free_port,
    in_turn,
    pinned_store,
    s3_way,
    tsm_way,
)
from benchmarks.goals import goals_met
from benchmarks.rounds import median, median_ratio
from benchmarks.tables import Cell, Table, labelled, plain, spread, verdict

TITLE = "The embedded store"
OBJECTS_PER_SESSION = 16

TSM = "16 by TSM"  # the contender: as many clients, objects and objects per session as the S3 clients "16"

GOALS = {
    "sixteen_clients_to_one_min": 4.0,
    "server_cpu_microseconds_per_object_max": 180.0,
    "s3_to_tsm_1MiB_min": 0.5,
}


def measure(*, small: bool) -> dict[str, Any]:
    """Rates, server CPU and group sizes of each load and round; ratios; which goals were met."""
    rounds, seconds = (1, 0.1) if small else (3, 5.0)
    large_objects = 16 if small else 1024
    eight_kib = {f"{clients}": Load(8192, clients, OBJECTS_PER_SESSION, seconds) for clients in (1, 16)}
    one_mib = {f"{clients}": Load(1 << 20, clients, OBJECTS_PER_SESSION, 60.0, large_objects) for clients in (1, 4, 16)}
    port = free_port()  # of every store, one after another: option files are read once per process
    with (
        tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder,
        private_configuration("127.0.0.1", port) as configuration,
    ):
        device = ", ".join(machine.disks_under(Path(folder)))
        with pinned_store(Path(folder) / "small") as store:
            way = s3_way(store, keep_sessions_open=True)
            small_rounds = [
                {name: archive(store, way, load) for name, load in eight_kib.items()} for _ in range(rounds)
            ]

        def through_s3(load: Load) -> Callable[[StoreProcess], dict[str, float]]:
            return lambda store: archive(store, s3_way(store, keep_sessions_open=True), load)

        loads = {name: through_s3(load) for name, load in one_mib.items()}
        loads[TSM] = lambda store: archive(store, tsm_way(store, configuration), one_mib["16"])
        large_rounds = in_turn(rounds, loads, large_objects, Path(folder), port)
    judged = {
        "sixteen_clients_to_one": median_ratio(small_rounds, "16", "1", "objects_per_second"),
        "server_cpu_microseconds_per_object": median(small_rounds, "16", "server_cpu_microseconds_per_object"),
        "s3_to_tsm_1MiB": median_ratio(large_rounds, "16", TSM, "bytes_per_second"),
    }
    return {
        "rounds": rounds,
        "device": device,
        "archive_8KiB": small_rounds,
        "archive_1MiB": large_rounds,
        **judged,
        "share_of_writer_1MiB": {
            name: median_ratio(large_rounds, name, "writer", "bytes_per_second") for name in one_mib
        },
        "goals": GOALS,
        "goals_met": goals_met(GOALS, judged),
    }


_WHO = {"1": "1 client", TSM: "16 clients through TSM", "writer": "a writer of one file"}


def tables(document: dict[str, Any]) -> list[Table]:
    """Every load."""
    rows = []
    for object_bytes, rounds in ((8192, document["archive_8KiB"]), (1 << 20, document["archive_1MiB"])):
        for name in rounds[0]:
            found = [each[name] for each in rounds]
            who = _WHO.get(name, f"{name} clients")
            cells = [spread([each["bytes_per_second"] / 1e6 for each in found], 1)]
            for key, decimals in (
                ("server_cpu_microseconds_per_object", 0), ("objects_per_commit", 1), ("objects_per_sync", 1),
            ):  # fmt: skip
                cells.append(Cell("") if name == "writer" else spread([each[key] for each in found], decimals))
            objects = Cell("") if name == "writer" else spread([each["objects_per_second"] for each in found], 0)
            rows.append((*plain(format_size(object_bytes), who), objects, *cells))
    headings = ("objects/s", "MB/s", "server CPU per object, µs", "objects per commit", "objects per sync")
    title = f"Archive through the S3 server, and through the TSM server, on {document['device'] or 'memory'}"
    return [Table("store", title, labelled(("object size", "by"), *headings), tuple(rows))]


def notes(document: dict[str, Any]) -> list[str]:
    met = document["goals_met"]
    return [
        f"16 clients to one: {document['sixteen_clients_to_one']:.1f} (goal: at least"
        f" {GOALS['sixteen_clients_to_one_min']}: {verdict(met['sixteen_clients_to_one_min'])})",
        f"server CPU per object, 16 clients: {document['server_cpu_microseconds_per_object']:.0f} µs (goal: at most"
        f" {GOALS['server_cpu_microseconds_per_object_max']:.0f}:"
        f" {verdict(met['server_cpu_microseconds_per_object_max'])})",
        f"1 MiB, 16 clients, S3 to TSM: {document['s3_to_tsm_1MiB']:.2f} (goal: at least"
        f" {GOALS['s3_to_tsm_1MiB_min']}: {verdict(met['s3_to_tsm_1MiB_min'])})",
        "1 MiB, share of the writer's rate: "
        + ", ".join(f"{share:.0%} with {name} clients" for name, share in document["share_of_writer_1MiB"].items()),
    ]
