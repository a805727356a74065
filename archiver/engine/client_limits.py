"""Limits of one machine on clients and sessions: open files, ports and threads.

One idea: a client has one connection at a time, and through TSM also a thread of its own. The needs of a run can
therefore be computed before anything is touched. The engine raises the limit of open files as far as the system allows
a process. If the limit is still too low, one message names the number of clients that fit; otherwise thousands of
clients would fail to connect.

Each session that ends leaves its port in TIME_WAIT for a minute. The ports therefore also limit the sessions that can
begin in that time.
"""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from archiver.values.errors import UsageError
from archiver.values.record import NO_LOCAL_PORT_REASON
from scenarios.model import Phase, Workload

# Open files of a worker apart from client connections: libraries, pipes, traces, connections being closed.
DESCRIPTORS_BESIDE = 256
_PORTS_RESERVED = 1000  # ports for other programs
_THREADS_RESERVED = 500
_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TIME_WAIT_MAX = Path("/proc/sys/net/ipv4/tcp_max_tw_buckets")
_REUSE = Path("/proc/sys/net/ipv4/tcp_tw_reuse")
_REUSE_DELAY = Path("/proc/sys/net/ipv4/tcp_tw_reuse_delay")  # milliseconds; Linux 6.14 and later
_TIME_WAIT_SECONDS = 60.0  # TCP_TIMEWAIT_LEN of Linux
_REUSE_SECONDS = 1.0
_THREADS_OF_ALL = (Path("/proc/sys/kernel/threads-max"), Path("/proc/sys/kernel/pid_max"))


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Largest number of concurrent clients, by limit; None: unlimited."""

    descriptors_per_worker: int
    ports_per_endpoint: int | None
    threads: int | None  # of all workers; each client is one thread
    port_seconds: float = _TIME_WAIT_SECONDS  # time that the port of a closed session stays in use
    loopback_port_seconds: float = _REUSE_SECONDS  # the same over loopback
    time_wait_max: int | None = None  # connections in TIME_WAIT at once; None: not known

    def most(self, workers: int, endpoints: int, *, threads: bool) -> int:
        """Return the number of clients that fit on this many workers with this many addresses to connect to."""
        found = [max(0, self.descriptors_per_worker - DESCRIPTORS_BESIDE) * workers]
        if self.ports_per_endpoint is not None and endpoints:
            found.append(self.ports_per_endpoint * endpoints)
        if threads and self.threads is not None:
            found.append(self.threads)
        return min(found)


def limits_here() -> ClientLimits:
    """Return the limits of this machine."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    descriptors = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    reuse, delay = _number(_REUSE), _number(_REUSE_DELAY)
    soon = delay / 1000 if delay is not None else _REUSE_SECONDS
    return ClientLimits(
        descriptors,
        _ports(),
        _threads(),
        port_seconds=soon if reuse == 1 else _TIME_WAIT_SECONDS,
        loopback_port_seconds=soon if reuse in (1, 2) else _TIME_WAIT_SECONDS,
        time_wait_max=_number(_TIME_WAIT_MAX),
    )


def make_room(clients: int, workers: int, endpoints: int, *, threads: bool, limits: ClientLimits | None = None) -> None:
    """Ensure that this many clients can be connected at once. Call this before the workers start.

    ``endpoints``: number of addresses that they connect to; 0 for none.
    ``threads``: whether each client is a thread.

    Raises UsageError if the clients do not fit.
    """
    limits = limits or limits_here()
    each = math.ceil(clients / workers) + DESCRIPTORS_BESIDE
    if endpoints and each > limits.descriptors_per_worker:
        fit = max(0, limits.descriptors_per_worker - DESCRIPTORS_BESIDE) * workers
        raise UsageError(
            f"{_clients(clients)}: each of {workers} workers needs {each:,} open files, and this system allows "
            f"{limits.descriptors_per_worker:,}; {_clients(fit)} fit: use more --workers, or raise the limit "
            f"(ulimit -Hn {each})"
        )
    if endpoints and limits.ports_per_endpoint is not None and clients > limits.ports_per_endpoint * endpoints:
        raise UsageError(
            f"{_clients(clients)}: this system has {limits.ports_per_endpoint:,} ports to connect from, for each "
            f"address of the platform, so {_clients(limits.ports_per_endpoint * endpoints)} fit; name more of its "
            "addresses (--endpoint), or widen net.ipv4.ip_local_port_range"
        )
    if threads and limits.threads is not None and clients > limits.threads:
        raise UsageError(
            f"{_clients(clients)}: through TSM each is a thread, and this system allows {limits.threads:,} more; raise "
            "the limit (ulimit -u, or the service's TasksMax), or take fewer"
        )
    if endpoints:
        _allow(each)


def port_warning(phases: Sequence[Phase], endpoints: Sequence[str], limits: ClientLimits | None = None) -> str | None:
    """Return a warning if the sessions of a phase may use up the ports; None if they cannot.

    The warning names the phase that may need the most ports. ``endpoints`` are URLs; every session opens a new
    connection to one of them. The rate of a closed loop is not known in advance, so the number of planned sessions
    bounds it.
    """
    limits = limits or limits_here()
    ports = limits.ports_per_endpoint
    if ports is None or not endpoints or (limits.time_wait_max is not None and limits.time_wait_max <= ports):
        return None  # above that number the kernel frees ports at once
    is_near = all(map(_is_loopback, endpoints))
    kept_seconds = limits.loopback_port_seconds if is_near else limits.port_seconds
    needs = [
        (sum(_sessions_within(each, kept_seconds) for each in phase.workloads) / shared, phase)
        for phase in phases
        if (shared := min(len(endpoints), phase.clients))
    ]
    most, phase = max(needs, key=lambda need: need[0], default=(0.0, None))
    if phase is None or most <= ports:
        return None
    return (
        f"{phase.label}: up to {most:,.0f} sessions within {kept_seconds:g} s to one address, each of which keeps its "
        f"port for that time, and this system has {ports:,} ports: if the platform is that fast, sessions fail with "
        f"{NO_LOCAL_PORT_REASON!r}; set net.ipv4.tcp_tw_reuse=1, widen net.ipv4.ip_local_port_range, name more of the "
        "platform's addresses (--endpoint), or use --keep-sessions-open"
    )


def _sessions_within(workload: Workload, seconds: float) -> float:
    """Upper bound of the sessions that a workload begins in this many seconds; 0 if no bound is known."""
    return workload.work.sessions_within(seconds, workload.clients, workload.objects_per_session)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _allow(descriptors: int) -> None:
    """Raise the soft limit of open files, often 1,024, for this process and for processes that it starts later."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))


def _clients(count: int) -> str:
    return f"{count:,} client{'' if count == 1 else 's'}"


def _ports() -> int | None:
    try:
        first, last = map(int, _PORTS.read_text().split())
    except (OSError, ValueError):
        return None
    return max(0, last - first + 1 - _PORTS_RESERVED)


def _threads() -> int | None:
    """Return the lowest thread limit of the system, the user and the control group."""
    found = [_number(path) for path in (*_THREADS_OF_ALL, _tasks_limit())]
    soft, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    found.append(None if soft == resource.RLIM_INFINITY or os.geteuid() == 0 else soft)
    known = [each for each in found if each is not None]
    return max(0, min(known) - _THREADS_RESERVED) if known else None


def _tasks_limit() -> Path:
    """Return the file in which this process's control group states its task limit."""
    try:
        group = Path("/proc/self/cgroup").read_text().strip().rpartition("::")[2]
    except OSError:
        group = ""
    return Path("/sys/fs/cgroup") / group.lstrip("/") / "pids.max"


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # missing file, or "max"
        return None
