"""TSM sessions on the embedded store: the gain of batching, its cost on both sides, and its growth with clients.

Sessions of our own library archive to the store's TSM server. Every transaction is durable before the answer to its
vote. S3 sessions with as many objects archive to the same store. A session opens, archives its objects and ends; with
TSM its objects are one transaction. For 1 MiB objects, the benchmark also measures one process that writes as many
bytes to a file in the same folder, with one fdatasync at the end. Rounds are interleaved: each contender runs once,
then again. Ratios are taken within a round; the page shows the medians of the rounds. Client CPU is that of the whole
engine: its loop, binding and library.
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
from benchmarks.rounds import median, median_ratio, paired_ratios, ratios_of, values_of
from benchmarks.tables import Cell, Table, labelled, plain, spread, verdict

TITLE = "What batching buys"
SESSIONS = (1, 10, 100, 500)  # objects
PARALLEL_OBJECTS = 250
CLIENTS = (1, 2, 4)
SMALL_TRANSACTION_CLIENTS = 16

GOALS = {
    "tsm_to_s3_500_min": 15.0,
    "server_cpu_microseconds_per_object_max": 45.0,
    "client_cpu_microseconds_per_object_max": 25.0,
    "share_of_writer_1MiB_min": 0.35,
    "clients_to_one_min": 0.95,
    "syncs_per_transaction_below": 1.0,  # group commit: with many clients, each with small transactions
    "gain_of_clients_min": 1.2,  # or the server's cores, busiest thread or disk are busy with one
}
BUSY_PERCENT_MIN = 90.0


def measure(*, small: bool) -> dict[str, Any]:
    """Every load and round: rates, CPU of both sides, commits and syncs; ratios; which goals were met."""
    rounds, seconds = (1, 0.1) if small else (3, 2.0)
    large_objects = 16 if small else 1000
    batches = {f"{count}": Load(8192, 1, count, seconds) for count in SESSIONS}
    parallel_8kib = {f"{clients}": Load(8192, clients, PARALLEL_OBJECTS, seconds) for clients in CLIENTS}
    parallel_1mib = {f"{each}": Load(1 << 20, each, PARALLEL_OBJECTS, 60.0, large_objects) for each in CLIENTS}
    small_transactions = Load(8192, SMALL_TRANSACTION_CLIENTS, 1, seconds)
    names = ("tsm", "s3", "8KiB", "small_transactions")
    rounds_of: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    port = free_port()  # of every store, one after another: option files are read once per process
    with (
        tempfile.TemporaryDirectory(prefix="archiver-benchmark-") as folder,
        private_configuration("127.0.0.1", port) as configuration,
    ):
        device = ", ".join(machine.disks_under(Path(folder)))
        with pinned_store(Path(folder) / "small", tsm_port=port) as store:
            tsm = tsm_way(store, configuration)
            s3 = s3_way(store, keep_sessions_open=False)
            for _ in range(rounds):
                both = {name: (archive(store, tsm, load), archive(store, s3, load)) for name, load in batches.items()}
                rounds_of["tsm"].append({name: pair[0] for name, pair in both.items()})
                rounds_of["s3"].append({name: pair[1] for name, pair in both.items()})
                rounds_of["8KiB"].append({name: archive(store, tsm, load) for name, load in parallel_8kib.items()})
                rounds_of["small_transactions"].append({"tsm": archive(store, tsm, small_transactions)})

        def through_tsm(load: Load) -> Callable[[StoreProcess], dict[str, float]]:
            return lambda store: archive(store, tsm_way(store, configuration), load)

        loads = {name: through_tsm(load) for name, load in parallel_1mib.items()}
        rounds_of["1MiB"] = in_turn(rounds, loads, large_objects, Path(folder), port)
    return _judged({"rounds": rounds, "device": device, "objects_per_session": SESSIONS, **rounds_of})


def _judged(document: dict[str, Any]) -> dict[str, Any]:
    """The same with ratios, goals and which were met."""
    pairs = [
        {"tsm": tsm["500"], "s3": s3["500"]} for tsm, s3 in zip(document["tsm"], document["s3"], strict=True)
    ]  # fmt: skip
    judged = {
        "tsm_to_s3_500": median_ratio(pairs, "tsm", "s3", "objects_per_second"),
        "server_cpu_microseconds_per_object": median(document["tsm"], "500", "server_cpu_microseconds_per_object"),
        "client_cpu_microseconds_per_object": median(document["tsm"], "500", "client_cpu_microseconds_per_object"),
        "share_of_writer_1MiB": median_ratio(document["1MiB"], "1", "writer", "bytes_per_second"),
        "syncs_per_transaction": median(document["small_transactions"], "tsm", "syncs_per_session"),
    }
    gains = {
        size: {
            f"{clients}": median_ratio(document[size], f"{clients}", "1", "bytes_per_second") for clients in CLIENTS[1:]
        }
        for size in ("8KiB", "1MiB")
    }
    busy = {
        size: {
            key: median(document[size], "1", key)
            for key in ("server_cores_percent", "server_busiest_thread_percent", "disk_busy_percent")
        }
        for size in gains
    }  # fmt: skip
    to_one = [ratio for of_size in gains.values() for ratio in of_size.values()]
    # More clients gain nothing if one client keeps the server busy.
    gained = [max(gains[size].values()) for size in gains if max(busy[size].values()) < BUSY_PERCENT_MIN]
    return {
        **document,
        **judged,
        "clients_to_one": gains,
        "busy_with_one_client": busy,
        "goals": {**GOALS, "busy_percent_min": BUSY_PERCENT_MIN},
        "goals_met": goals_met(GOALS, {**judged, "clients_to_one": to_one, "gain_of_clients": gained}),
    }


def tables(document: dict[str, Any]) -> list[Table]:
    """What batching buys, and what more clients do."""
    batches = []
    for name in map(str, SESSIONS):
        by_server = [values_of(document[server], name, "objects_per_second") for server in ("tsm", "s3")]
        cells = [spread(by_server[0], 0), spread(by_server[1], 0)]
        cells.append(spread(paired_ratios(*by_server), 1))
        for key, decimals in (
            ("server_cpu_microseconds_per_object", 0), ("client_cpu_microseconds_per_object", 1),
            ("syncs_per_session", 2),
        ):  # fmt: skip
            cells.append(spread(values_of(document["tsm"], name, key), decimals))
        batches.append((*plain(name), *cells))
    parallel = []
    for size, object_bytes in (("8KiB", 8192), ("1MiB", 1 << 20)):
        for name in document[size][0]:
            rates = values_of(document[size], name, "bytes_per_second")
            who = f"{name} client{'s' * (name != '1')}" if name != "writer" else "a writer of one file"
            cells = [spread([rate / object_bytes for rate in rates], 0), spread([rate / 1e6 for rate in rates], 1)]
            cells.append(spread(ratios_of(document[size], name, "1", "bytes_per_second"), 2))
            for key, decimals in (
                ("syncs_per_session", 2), ("server_cores_percent", 0), ("server_busiest_thread_percent", 0),
                ("disk_busy_percent", 0),
            ):  # fmt: skip
                cells.append(Cell("") if name == "writer" else spread(values_of(document[size], name, key), decimals))
            parallel.append((*plain(format_size(object_bytes), who), *cells))
    on = document["device"] or "memory"
    return [
        Table(
            "tsm",
            f"Archive 8 KiB, one client, on {on}",
            labelled(
                ("objects per session",), "TSM objects/s", "S3 objects/s", "TSM / S3", "server CPU per object, µs",
                "client CPU per object, µs", "syncs per session",
            ),
            tuple(batches),
            "CPU and syncs are those of the TSM sessions.",
        ),
        Table(
            "tsm-clients",
            f"{PARALLEL_OBJECTS} objects per TSM session, on {on}",
            labelled(
                ("object size", "by"), "objects/s", "MB/s", "to one client", "syncs per session", "server's cores, %",
                "its busiest thread, %", "disk busy, %",
            ),
            tuple(parallel),
        ),
    ]  # fmt: skip


def notes(document: dict[str, Any]) -> list[str]:
    met = document["goals_met"]
    return [
        f"TSM to S3 at 500: {document['tsm_to_s3_500']:.1f} (goal: at least {GOALS['tsm_to_s3_500_min']}:"
        f" {verdict(met['tsm_to_s3_500_min'])})",
        f"server CPU per object at 500: {document['server_cpu_microseconds_per_object']:.0f} µs (goal: at most"
        f" {GOALS['server_cpu_microseconds_per_object_max']:.0f}:"
        f" {verdict(met['server_cpu_microseconds_per_object_max'])})",
        f"client CPU per object at 500: {document['client_cpu_microseconds_per_object']:.1f} µs (goal: at most"
        f" {GOALS['client_cpu_microseconds_per_object_max']:.0f}:"
        f" {verdict(met['client_cpu_microseconds_per_object_max'])})",
        f"1 MiB, one client, share of the writer's rate: {document['share_of_writer_1MiB']:.2f} (goal: at least"
        f" {GOALS['share_of_writer_1MiB_min']}: {verdict(met['share_of_writer_1MiB_min'])})",
        f"more clients against one: never below {GOALS['clients_to_one_min']}: {verdict(met['clients_to_one_min'])};"
        f" gain of {GOALS['gain_of_clients_min']}, or one client keeps the server's cores, a thread or the disk"
        f" {BUSY_PERCENT_MIN:.0f}% busy: {verdict(met['gain_of_clients_min'])}",
        f"group commit, {SMALL_TRANSACTION_CLIENTS} clients, 8KiB, one object per session:"
        f" {document['syncs_per_transaction']:.2f} syncs per transaction (goal: below"
        f" {GOALS['syncs_per_transaction_below']}: {verdict(met['syncs_per_transaction_below'])})",
    ]


def headline(document: dict[str, Any]) -> str:
    """As README.md has it."""
    lines = [
        "| objects per session | TSM objects/s | S3 objects/s | TSM / S3 | server CPU per object (TSM) |"
        " client CPU per object (TSM) |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in map(str, SESSIONS):
        pairs = [
            {"tsm": tsm[name], "s3": s3[name]} for tsm, s3 in zip(document["tsm"], document["s3"], strict=True)
        ]  # fmt: skip
        tsm, s3 = (median(pairs, server, "objects_per_second") for server in ("tsm", "s3"))
        ratio = median_ratio(pairs, "tsm", "s3", "objects_per_second")
        server, client = (median(pairs, "tsm", f"{side}_cpu_microseconds_per_object") for side in ("server", "client"))
        shown = f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"
        lines.append(f"| {name} | {tsm:.0f} | {s3:.0f} | {shown} | {server:.0f} µs | {client:.0f} µs |")
    one, four = (median(document["1MiB"], clients, "bytes_per_second") / (1 << 20) for clients in ("1", "4"))
    busy = median(document["1MiB"], "4", "server_cores_percent")
    return "\n".join(
        [
            *lines,
            "",
            f"At 1 MiB and {PARALLEL_OBJECTS} objects per session one client archives {one:.0f} objects/s, four"
            f" {four:.0f} (the store's cores are then {busy:.0f}% busy);",
            f"{SMALL_TRANSACTION_CLIENTS} clients with one object per transaction need"
            f" {document['syncs_per_transaction']:.2f} syncs each.",
        ]
    )
