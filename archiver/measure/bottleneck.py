"""Rule that decides which resource limited a result, as the DR550 study did by looking at its figures.

One idea: each resource is judged by the measure that best shows its saturation, and the resource nearest to saturation
is the limit. By the utilisation law, a resource at utilisation U can carry at most 1/U times the load. If the client
was the limit, the rule makes no statement about the server, because the server was not measured. Before all resources
come failures: where many attempts fail, no resource explains the rate. The thresholds below are the whole rule.
Failures are judged by attempts and by time, because a silent platform costs few attempts and much time. A worker that
is ready to run but has no core counts as busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archiver.values.record import NO_LOCAL_PORT_REASON
from results.recorded.model import FAILURES, ClientUsage, DiskUsage, FirstError, LinkUsage, ServerUsage, Utilisation

# Of the attempts, retried ones included, or of the time of all sessions. A platform that is silent costs few attempts
# and much time. Above this share failures limit a result, and no resource.
FAILED_SHARE_MAX = 0.1
CLIENT_BUSY_PERCENT = 85.0  # of the busiest worker's time: on a core, or ready to run without one
# Late timers delay objects. A machine that is busy with something else for a moment also delays some of them. Timers
# therefore show a limit only if they are late for a share of the time, and if the workers had work for most of it.
CLIENT_LATE_SHARE = 0.1
CLIENT_LATE_BUSY_PERCENT = 50.0
# At 10 ms for each page of 4 KiB from a disk, a worker waits for a quarter of its time.
CLIENT_SWAP_MEGABYTES_PER_SECOND = 0.1
SATURATED_SHARE = 0.9
# Busy time shows that a disk had work, not that it could do no more. Only a queue shows that.
DISK_BUSY_PERCENT = 90.0
DISK_QUEUE_REQUESTS = 4.0
STEAL_PERCENT = 5.0  # of the host's time: another virtual machine disturbed the measurement
# Of a host's cores, by programs other than client and server. Below it is what the system itself does for these two.
FOREIGN_SHARE_MIN = 0.15
OVERLAP_MIN = 0.7  # of the sampled time: below it, warm-up or drain has too large a share


class Verdict(NamedTuple):
    """What limited a result.

    ``limited_by`` is failures, client, server cpu, server disk, network or None (latency). If all cores of a machine
    that client and server share are busy, it may be host cpu, with other programs at work, or shared cpu, without.
    """

    limited_by: str | None
    utilisations: tuple[Utilisation, ...]  # nearest to saturation first
    confidence: str | None  # high, or medium or low with the reason; None without data of the server


def failures_of(
    objects: int, errors: int, kinds: Sequence[FirstError], failed_time_share: float = 0.0
) -> Utilisation | None:
    """Return the share of the attempts, or of the session time, of a whole phase that failed, and the main reason.

    The larger share counts. Attempts that were sent again count. ``failed_time_share`` is that of sessions without an
    object. Failures of the client itself, which found no local port, are attempts and no
    failures. Returns None if nothing else failed.
    """
    retried = sum(kind.retried for kind in kinds)
    own = sum(kind.count for kind in kinds if kind.reason == NO_LOCAL_PORT_REASON)
    of_platform = [kind for kind in kinds if kind.reason != NO_LOCAL_PORT_REASON]
    if not of_platform:
        return None
    most = max(of_platform, key=lambda kind: kind.count + kind.retried)
    failed_share = (errors - own + retried) / max(1, objects + errors + retried)
    return Utilisation(FAILURES, most.reason, max(failed_share, failed_time_share), True)


def judge(
    client: ClientUsage, server: ServerUsage | None, failures: Utilisation | None = None, *, shares_host: bool
) -> Verdict:
    """Return the verdict on one result. ``shares_host``: client and server run on one machine."""
    fullest, is_full = _client(client)
    found = (
        [fullest]
        if server is None
        else [fullest, *_cpu(client, server, shares_host), *_disks(server), *_links(server.links)]
    )
    found.sort(key=lambda each: -each.share)
    if failures is not None and failures.share > FAILED_SHARE_MAX:
        return Verdict(FAILURES, (failures, *found), "high")
    limit = None
    if is_full:
        limit = "client"
    else:
        full = next((each for each in found if each.decisive and each.share >= SATURATED_SHARE), None)
        if full is not None:
            limit = _kind(full.resource)
    return Verdict(limit, tuple(found), None if server is None else _confidence(server, shares_host, found))


def _client(client: ClientUsage) -> tuple[Utilisation, bool]:
    """Return the client's measure that is nearest to its limit, and whether the limit is reached."""
    if client.sessions_without_port:  # they fail at once, which keeps the worker busy and delays its timers
        return Utilisation("client", NO_LOCAL_PORT_REASON, 1.0, True), True
    worker = client.busiest_worker_percent / 100
    measures = [("busiest worker", worker, worker >= CLIENT_BUSY_PERCENT / 100)]
    late_share = client.late_share or 0.0
    if late_share >= CLIENT_LATE_SHARE and worker >= CLIENT_LATE_BUSY_PERCENT / 100:
        measures.append((f"its timers came late {late_share:.0%} of the time", 1.0, True))
    links = _links(client.links)
    measures += [(f"its {link.resource}", link.share, link.share >= SATURATED_SHARE) for link in links]
    swapped = (client.swap_in_megabytes_per_second or 0.0) + (client.swap_out_megabytes_per_second or 0.0)
    if swapped >= CLIENT_SWAP_MEGABYTES_PER_SECOND:
        measures.append(("its memory: it swapped", 1.0, True))
    by, share, is_full = max(measures, key=lambda each: (each[2], each[1]))
    return Utilisation("client", by, share, True), is_full


def _cpu(client: ClientUsage, server: ServerUsage, shares_host: bool) -> Iterator[Utilisation]:
    """Judge by total, busiest thread, busiest core and quota: one thread saturates its server at half of two cores."""
    measures: list[tuple[str, float | None, bool]] = []
    limit = server.cpu_limit_percent
    if limit and server.cpu_percent is not None:
        cores = limit / 100
        measures.append(
            (f"its processes, of {cores:g} core{'s' if cores != 1 else ''}", server.cpu_percent / limit, True)
        )
    threads = server.busiest_thread_percent
    measures.append(("busiest thread", threads and threads / 100, True))
    if server.host_cpu_percent is not None and not shares_host:
        measures.append(("all cores", server.host_cpu_percent / 100, True))
    # Work that moves between threads can saturate a core although others are free. Without data on threads, a saturated
    # core is the only evidence.
    core = server.busiest_core_percent
    measures.append(("busiest core", core and core / 100, threads is None))
    if server.throttled_percent:
        measures.append(("throttled by its quota", server.throttled_percent / 100, True))
    known = [Utilisation("server cpu", by, share, decisive) for by, share, decisive in measures if share is not None]
    # One line for the resource: the decisive measure that is nearest to saturation.
    if known:
        yield max(known, key=lambda each: (each.decisive, each.share))
    if shares_host and server.host_cpu_percent is not None:
        foreign = _foreign_share(client, server)
        is_own = foreign is not None and foreign < FOREIGN_SHARE_MIN
        by = "all cores" if foreign is None else f"all cores, {max(0.0, foreign):.0%} for other programs, busy"
        yield Utilisation("shared cpu" if is_own else "host cpu", by, server.host_cpu_percent / 100, True)


def _foreign_share(client: ClientUsage, server: ServerUsage) -> float | None:
    """Return the share of the host's cores that neither client nor server used; None if a part is not known."""
    if server.host_cpu_percent is None or server.cpu_percent is None or not server.host_cores:
        return None
    return (server.host_cpu_percent - (server.cpu_percent + client.cpu_percent) / server.host_cores) / 100


def _disks(server: ServerUsage) -> Iterator[Utilisation]:
    """Judge each device by its sustained speed and by its queue; the most saturated device decides.

    Many small requests saturate a disk far below its sustained speed.
    """
    for disk in server.disks:
        name = f"{disk.role} disk {disk.device}".strip()
        measures = []
        if disk.share_of_speed is not None:
            measures.append(Utilisation(name, "share of its speed", disk.share_of_speed, True))
        if disk.busy_percent is not None:
            measures.append(Utilisation(name, _busy_words(disk), disk.busy_percent / 100, _is_full(disk)))
        if measures:
            yield max(measures, key=lambda each: (each.decisive, each.share))


def _busy_words(disk: DiskUsage) -> str:
    return "busy time" if disk.queue is None else f"busy time, queue {disk.queue:.1f}"


def _is_full(disk: DiskUsage) -> bool:
    return (disk.busy_percent or 0.0) >= DISK_BUSY_PERCENT and (disk.queue or 0.0) >= DISK_QUEUE_REQUESTS


def _links(links: Sequence[LinkUsage]) -> Iterator[Utilisation]:
    """Judge by the share of the rated speed in the busier direction."""
    for link in links:
        if link.speed_megabytes_per_second:
            busier = max(link.receive_megabytes_per_second, link.send_megabytes_per_second)
            yield Utilisation(
                f"network {link.interface}", "share of its speed", busier / link.speed_megabytes_per_second, True
            )


def _kind(resource: str) -> str:
    if " disk " in f" {resource}":
        return "server disk"
    return "network" if resource.startswith("network ") else resource


def _confidence(server: ServerUsage, shares_host: bool, found: list[Utilisation]) -> str:
    if server.overlap < OVERLAP_MIN:
        return f"low: only {server.overlap:.0%} of the time between the samples was measured; measure longer"
    if (server.steal_percent or 0.0) >= STEAL_PERCENT:
        return f"low: {server.steal_percent:.0f}% of the host's time was stolen by other virtual machines"
    if not any(each.resource == "server cpu" for each in found):
        return "low: the server's processor was not watched"
    if shares_host:
        return "medium: client and server share this host"
    if any(each.share >= SATURATED_SHARE and not each.decisive for each in found):
        return "medium: a disk was busy nearly all the time, which alone does not prove saturation"
    return "high"
