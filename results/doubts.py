"""Doubts: what a reader should know before believing a run's numbers.

One idea: each doubt is one sentence that says what looks wrong, by how much, and what to try.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archiver.values.sizes import format_bytes, format_duration, format_instant, format_size
from results.database import RunDatabase
from results.model import Result, Utilisation
from results.tables.requests import request_differences
from results.units import parallel_cells

DRIFT_PERCENT = 10.0
CLOCK_SECONDS = 2.0
FALLS_BELOW = 0.9  # of the best rate with fewer clients
NO_GAIN_BELOW = 1.05
OVERLAP_MIN = 0.5  # of a cell's time in the time between the samples around it
WRITTEN_SHARE_MIN = 0.9  # of the bytes acknowledged, on the device by the end of their phases


def doubts(database: RunDatabase) -> list[str]:
    """Every doubt about a run, the gravest first."""
    run = database.run()
    results = database.results()
    found = []
    lock = run["lock_verified"]
    if lock not in (None, "verified"):
        found.append(f"the lock did not hold: {lock}")
    details = run["platform"].get("details", {})
    if details.get("retention_protected") is False:
        found.append(
            "the server is not retention-protected: whoever may delete archives can delete them before their date; "
            "what is measured is no WORM store"
        )
    done = database.finished()
    if done < run["phases_planned"]:
        found.append(f"the run ended early: {done} of {run['phases_planned']} phases finished")
    found += [
        f"{went_on}; what changed meanwhile is between the cells before and after" for went_on in resumed(database)
    ]
    if run["objects_from"] is not None:
        found.append(
            f"what was retrieved is not the run's own ({origin(run)}); compare it with what was retrieved at that age"
        )
    cells = "workloads" if any(r.application for r in results) else "cells"
    lost = [r for r in results if r.incomplete]
    if lost:
        found.append(
            f"{len(lost)} of {len(results)} {cells} are incomplete ({_cell(lost[0])} first: {lost[0].incomplete}): "
            "their load was not what was asked for, and their rates mean nothing; run them again"
        )
    failed = [r for r in results if r.errors]
    if failed:
        found.append(
            f"{sum(r.errors for r in failed)} operations failed in {len(failed)} {cells}; they count in no rate "
            "(see the errors table)"
        )
    results = [r for r in results if not r.is_load]  # what only makes data proves nothing
    client = [r for r in results if r.limited_by == "client"]
    if client:
        found.append(
            f"{len(client)} of {len(results)} {cells} were limited by the client ({_cell(client[0])} first"
            f"{_why(client[0])}): they say nothing of the platform; {_remedy(client)}"
        )
    host = [r for r in results if r.limited_by == "host cpu"]
    if host:
        found.append(
            f"{len(host)} of {len(results)} {cells} had every core of this machine busy ({_cell(host[0])} first), with "
            "client, server and whatever else ran: they compare with nothing; find the load, or run the client "
            "elsewhere"
        )
    found += _ended_connections(results, cells)
    early = [r for r in results if r.ended_early]
    if early:
        found.append(
            f"{len(early)} of {len(results)} {cells} used up what they may archive before their time was over "
            f"({_cell(early[0])} first): the load was not what was asked for; raise their bytes_max"
        )
    unsettled = [r for r in results if not r.settled and not r.application]
    if unsettled:
        found.append(
            f"{len(unsettled)} of {len(results)} cells ended before their session time was known within the "
            f"scenario's precision ({_cell(unsettled[0])} first); raise stop.seconds_max and stop.bytes_max"
        )
    unsteady = [r for r in results if r.unsteady]
    if unsteady:
        found.append(
            f"{len(unsteady)} of {len(results)} cells were unsteady ({_cell(unsteady[0])} first: "
            f"{unsteady[0].unsteady}); look for other load on client or server, measure longer "
            "(--set stop.seconds_min=10s), or --repeat"
        )
    warm = [r for r in results if r.operation == "retrieve" and r.temperature != "cold"]
    if warm:
        words = sorted({str(r.temperature) for r in warm})
        retrieves = sum(r.operation == "retrieve" for r in results)
        found.append(
            f"not known to be cold ({' and '.join(words)}): {len(warm)} of {retrieves} retrieve {cells}; what they "
            "retrieved may have come from the server's memory"
        )
    found += _from_memory(results)
    found += _more_clients_less(results)
    found += request_differences(database)
    found += _unseen_disks(database)
    found += [
        f"{problem} (first at {format_instant(at)}); what it would have shown is missing where it did not answer"
        for _, at, problem in database.source_problems()
    ]
    found += _silent_addresses(details)
    found += _smaller_transactions(results)
    offset = run["platform"]["server_clock_offset_seconds"]
    if offset is not None and abs(offset) > CLOCK_SECONDS:
        found.append(f"the server's clock differs by {offset:+.1f} s; retention dates follow the server's")
    return found + [
        f"{drift}: the platform, its fill or the machine changed meanwhile; differences of that size between cells "
        "mean nothing"
        for drift in drifts(database)
        if abs(drift.percent) > DRIFT_PERCENT
    ]


def resumed(database: RunDatabase) -> list[str]:
    """When the run went on after it had broken off, a sentence without its full stop for each time."""
    return [
        f"resumed at {format_instant(each.at)} after phase {each.after_position}" for each in database.resumptions()
    ]


def ages(run: dict[str, Any]) -> dict[str, float]:
    """How old the objects of an earlier run were when this one began to read them."""
    earlier = run["objects_from"]
    return {
        "age_seconds_min": run["started_at"] - earlier["archived_to"],
        "age_seconds_max": run["started_at"] - earlier["archived_from"],
    }


def origin(run: dict[str, Any]) -> str:
    """Which objects were read, where they are another run's."""
    youngest, oldest = (format_duration(seconds) for seconds in ages(run).values())
    before = f"{youngest} before" if youngest == oldest else f"{youngest} to {oldest} before"
    earlier = run["objects_from"]
    return f"{earlier['objects']:,} of run {earlier['run']}, archived {before}"


def _from_memory(results: Sequence[Result]) -> list[str]:
    """Whether what was acknowledged had reached the device by then, as far as that can be seen; by size, since small
    objects write many times their bytes."""
    sums: dict[int, tuple[int, int]] = {}
    for r in results:
        if r.operation != "archive" or r.server is None or r.server.overlap < OVERLAP_MIN:
            continue  # of a cell of a moment nobody knows which of the bytes between two samples were its own
        if r.server.disk_write_bytes is not None:
            archived, written = sums.get(r.object_bytes, (0, 0))
            # A short cell may have written all of what came between the samples around it, not only its share of time.
            written_max = round(r.server.disk_write_bytes / r.server.overlap)
            sums[r.object_bytes] = (archived + r.bytes, written + written_max)
    short = {size: pair for size, pair in sums.items() if pair[1] < WRITTEN_SHARE_MIN * pair[0]}
    if not short:
        return []
    acknowledged, written = (sum(pair[place] for pair in short.values()) for place in (0, 1))
    return [
        f"acknowledged from memory: of {format_bytes(acknowledged)} archived in objects of "
        f"{', '.join(map(format_size, sorted(short)))}, the device had written {format_bytes(written)} at most when "
        "their phases ended; a power failure would take the rest, and the rates do not compare with those of a "
        "platform that syncs"
    ]


def _silent_addresses(details: Mapping[str, Any]) -> list[str]:
    """Addresses of an endpoint's name that took no connection when the run began."""
    return [
        f"{', '.join(silent)} of {url} took no connection when the run began, so all clients went to "
        f"{', '.join(details['addresses'][url])}: part of the platform was not measured; find out why, and run again"
        for url, silent in details.get("silent_addresses", {}).items()
    ]


def _unseen_disks(database: RunDatabase) -> list[str]:
    """Disks that were named, by role or speed, but that no source showed."""
    settings = database.run()["settings"]
    named = {*settings.get("disk_roles", {}), *settings.get("disk_speeds", {})}
    if not named:
        return []
    timelines = database.timelines().values()
    seen = {disk for each in timelines if len(each) for disk in each.last("disk_busy_seconds", each.end_ns)}
    return [
        f"no source showed disk {disk}, at least at the end ({', '.join(sorted(seen)) or 'none'} "
        f"{'were' if len(seen) > 1 else 'was'} seen); its figures are missing: check --disk-role and --disk-speed"
        for disk in sorted(named - seen)
    ]


def _ended_connections(results: Sequence[Result], cells: str) -> list[str]:
    """Whether the platform, or what is before it, ended connections within sessions, and after how many requests."""
    ended = [(r, r.requests_per_connection) for r in results if r.requests_per_connection is not None]
    if not ended:
        return []
    fewest, most = (choose(requests for _, requests in ended) for choose in (min, max))
    counts = " to ".join(dict.fromkeys(f"{count:,.4g}" for count in (fewest, most)))
    every = "request" if counts == "1" else f"{counts} requests"
    first = ended[0][0]
    told = [f"{_cell(first)} first"]
    if first.connections_per_session is not None:
        told.append(f"{first.connections_per_session:,.4g} connections per session")
    if first.reconnect_ms is not None:
        told.append(f"{first.reconnect_ms.mean:,.3g} ms for another one")
    return [
        f"the platform ended the connection after every {every}: each object pays for it, in {len(ended)} of "
        f"{len(results)} {cells} ({', '.join(told)}); let the server, and a load balancer before it, keep "
        "connections open, or compare only with platforms that end them as often"
    ]


def _more_clients_less(results: Sequence[Result]) -> list[str]:
    """Where more clients brought less, or nothing though no resource was near saturation."""
    found = []
    cells = parallel_cells(results)
    for key, cell in cells.items():
        fewer = [other for other in cells if other[:3] == key[:3] and other.clients < key.clients]
        if not fewer:
            continue
        best = max(fewer, key=lambda other: cells[other].objects_per_second)
        if any(result.errors for result in (*cell.results, *cells[best].results)):
            continue
        gain = cell.objects_per_second / (cells[best].objects_per_second or math.inf)
        rates = (
            f"{_cell(cell.first)}: {cells[best].objects_per_second:,.0f} objects/s with {best.clients} "
            f"client{'s' if best.clients > 1 else ''}, {cell.objects_per_second:,.0f} with {key.clients}"
        )
        if gain < FALLS_BELOW:
            found.append(f"throughput falls as clients are added ({rates}): past its best point the platform contends")
        elif gain < NO_GAIN_BELOW and all(r.server and not r.limited_by for r in cell.results):
            found.append(
                f"more clients bring nothing, and no resource that was watched is near saturation ({rates}): the "
                "platform waits on something else, such as a lock, one writer, or a resource that is not watched"
            )
    return found


def _smaller_transactions(results: Sequence[Result]) -> list[str]:
    """Whether the server let fewer objects into a transaction than its cell is labelled with."""
    smaller = []
    for r in results:
        committed = r.transaction_commit_ms
        if r.objects_per_transaction is None or committed is None or r.errors:
            continue
        per_session = math.ceil(r.objects_per_session / r.objects_per_transaction)
        # What was committed around the window's edges belongs to sessions that are not counted.
        if committed.count > per_session * (r.sessions + 2 * r.clients):
            smaller.append((r, r.objects / committed.count))
    if not smaller:
        return []
    first, mean = smaller[0]
    return [
        f"{len(smaller)} of {len(results)} cells were committed in smaller transactions than asked for ({_cell(first)} "
        f"first: {mean:.0f} objects each, not {first.objects_per_transaction}), as the server would not take more; "
        "compare them with cells of that many"
    ]


@dataclass(frozen=True, slots=True)
class Drift:
    """A sweep's first cell, measured again last."""

    phase: str
    cell: str
    percent: float  # how far its objects/s had moved

    def __str__(self) -> str:
        return f"{self.phase}: the first cell ({self.cell}) ran {self.percent:+.0f}% when measured again last"


def drifts(database: RunDatabase) -> list[Drift]:
    """How far each sweep's first cell had moved when it was measured again, last."""
    firsts: dict[tuple[str, int, int, int, int], Result] = {}
    for result in database.results():
        firsts.setdefault(_identity(result), result)
    found = []
    for again in database.results(drift_checks=True):
        first = firsts.get(_identity(again))
        if first is not None and first.objects_per_second:
            percent = (again.objects_per_second / first.objects_per_second - 1) * 100
            found.append(Drift(again.phase, _cell(first), percent))
    return found


def _identity(result: Result) -> tuple[str, int, int, int, int]:
    return (result.phase, result.object_bytes, result.objects_per_session, result.clients, result.repetition)


def _why(result: Result) -> str:
    """What of the client limited a result that the client limited, where that is known."""
    return "".join(f": {each.by}" for each in _of_client(result))


def _remedy(limited: Sequence[Result]) -> str:
    """What to do about results that the client limited."""
    if any(result.client.sessions_without_port for result in limited):
        return (
            "set net.ipv4.tcp_tw_reuse=1, widen net.ipv4.ip_local_port_range, name more addresses of the platform "
            "(--endpoint), or use --keep-sessions-open"
        )
    if any(each.by.startswith("its ") and "timers" not in each.by for each in _of_client(limited[0])):
        return "give the client's machine a faster link or more memory, or run clients on several (--dask)"
    return "run the client on another machine or with more --workers"


def _of_client(result: Result) -> list[Utilisation]:
    """What is known of how full the client was."""
    return [each for each in result.utilisations if each.resource == "client"]


def _cell(result: Result) -> str:
    if result.application:
        return result.workload
    return f"{result.operation} {format_size(result.object_bytes)} x {result.objects_per_session}"
