"""The server's resource usage during a phase, computed from the samples of its sources.

One idea: sources overlap (the host, the store's processes, the store's own counters), and each value comes from the
most exact source. A value without a source is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from results.recorded.model import DiskUsage, LinkUsage, ServerUsage
from results.recorded.resources import QUANTITIES, Timeline

_BUSY = ("cpu_user_seconds", "cpu_system_seconds")
_ALL = (*_BUSY, "cpu_iowait_seconds", "cpu_steal_seconds", "cpu_idle_seconds")
LOOPBACK = "lo"
# Devices and interfaces with these names count bytes that the disks and links below them count, too.
_ABOVE_DISKS = re.compile(r"dm-|md|bcache|loop|ram|zram|sr\d|fd\d")
_ABOVE_LINKS = re.compile(r"bond|team|br-|br\d|bridge|veth|docker|virbr|cni|flannel|tun|tap|vlan|dummy|ifb|.+\.\d+$")


@dataclass(frozen=True, slots=True)
class ServerView:
    """Facts about the server that are known before sampling."""

    shares_host: bool = False  # client and server run on one host
    client_cores: Sequence[int] = ()  # cores that workers are pinned to; empty: none
    disk_roles: Mapping[str, str] = field(default_factory=dict)  # device -> object, catalogue ...
    disk_speeds: Mapping[str, float] = field(default_factory=dict)  # device -> sustained bytes per second
    link_speed_bytes_per_second: float | None = None  # rated speed; None: as the interface reports it


@dataclass(frozen=True, slots=True)
class WorkDone:
    """Successful operations in the time."""

    objects: int
    archived_bytes: int
    retrieved_bytes: int


def server_usage(
    timelines: Mapping[str, Timeline], view: ServerView, work: WorkDone, from_ns: int, to_ns: int
) -> ServerUsage | None:
    """Return the usage between two instants; None if no source covers them."""
    covering = {name: each for name, each in timelines.items() if each.covers(from_ns, to_ns)}
    if not covering:
        return None
    span = _Span(covering, from_ns, to_ns)
    disks = span.disks(view)
    known = any(disk.role for disk in disks)
    data_disks = [disk for disk in disks if disk.role or not known]
    read = sum(disk.read_bytes for disk in data_disks) if data_disks else None
    written = sum(disk.write_bytes for disk in data_disks) if data_disks else None
    links = span.links(view)
    moved = sum(link.receive_megabytes_per_second + link.send_megabytes_per_second for link in links) if links else None
    processes = span.total("process_cpu_seconds")
    busy, everything = span.cores(_BUSY), span.cores(_ALL)
    own = processes if processes is not None or view.shares_host else sum(busy.values()) if busy else None
    worked_bytes = work.archived_bytes + work.retrieved_bytes
    resident = span.gauge("process_resident_bytes", max)
    return ServerUsage(
        cpu_percent=span.percent(processes),
        host_cpu_percent=_percent(sum(busy.values()), sum(everything.values())),
        busiest_core_percent=_busiest_core(busy, everything, view),
        disk_busy_percent=max((d.busy_percent for d in data_disks if d.busy_percent is not None), default=None),
        disk_read_bytes=None if read is None else round(read),
        disk_write_bytes=None if written is None else round(written),
        network_megabytes_per_second=moved,
        cpu_limit_percent=_scaled(span.gauge("process_cpu_limit_cores", max), 100),
        busiest_thread_percent=span.percent(span.busiest_thread()),
        iowait_percent=_percent(sum(span.cores(("cpu_iowait_seconds",)).values()), sum(everything.values())),
        steal_percent=_percent(sum(span.cores(("cpu_steal_seconds",)).values()), sum(everything.values())),
        throttled_percent=span.percent(span.total("process_throttled_seconds")),
        resident_bytes=None if resident is None else round(resident),
        cpu_milliseconds_per_object=_ratio(_scaled(own, 1000), work.objects),
        write_amplification=_ratio(written, work.archived_bytes),
        cache_share=None if read is None or not work.retrieved_bytes else max(0.0, 1 - read / work.retrieved_bytes),
        network_bytes_per_byte=_ratio(_scaled(moved, 1e6 * span.seconds), worked_bytes),
        store_written_bytes=span.used("store_written_bytes"),
        store_syncs=span.used("store_syncs"),
        disks=tuple(disks),
        links=tuple(links),
        host_cores=len(busy) or None,
        overlap=min(timeline.overlap(from_ns, to_ns) for timeline in covering.values()),
    )


def usage_throughout(timelines: Mapping[str, Timeline], view: ServerView) -> ServerUsage | None:
    """Return the usage in the time that all these timelines cover; None if there is none."""
    reaching = {name: timeline for name, timeline in timelines.items() if len(timeline)}
    from_ns = max((timeline.begin_ns for timeline in reaching.values()), default=0)
    to_ns = min((timeline.end_ns for timeline in reaching.values()), default=0)
    return server_usage(reaching, view, WorkDone(0, 0, 0), from_ns, to_ns) if from_ns < to_ns else None


def read_bytes(timelines: Mapping[str, Timeline], view: ServerView, from_ns: int, to_ns: int) -> int | None:
    """Return the bytes read by the devices of the store's data; None if they are unknown or were not sampled."""
    if not view.disk_roles:
        return None
    usage = server_usage(timelines, view, WorkDone(0, 0, 0), from_ns, to_ns)
    return usage.disk_read_bytes if usage is not None else None


@dataclass(frozen=True, slots=True)
class _Span:
    """Several sources over one time. The position of a source distinguishes items of the same name."""

    timelines: Mapping[str, Timeline]
    from_ns: int
    to_ns: int

    @property
    def seconds(self) -> float:
        return (self.to_ns - self.from_ns) / 1e9

    def used(self, quantity: str) -> dict[str, float]:
        """Return usage by item from the first kind of source that has the quantity, over all sources of that kind.

        Other kinds count the same processes again.
        """
        found: dict[str, float] = {}
        kind = None
        for name, timeline in self.timelines.items():
            grown = timeline.used(quantity, self.from_ns, self.to_ns)
            if grown and kind in (None, _kind(name)):
                kind = _kind(name)
                for item, value in grown.items():
                    found[item] = found.get(item, 0.0) + value
        return found

    def total(self, quantity: str) -> float | None:
        grown = self.used(quantity)
        return sum(grown.values()) if grown else None

    def busiest_thread(self) -> float | None:
        """Return seconds in which the busiest thread had a core, or was ready to run without one."""
        waited = self.used("thread_wait_seconds")
        busy = (ran + waited.get(thread, 0.0) for thread, ran in self.used("thread_cpu_seconds").items())
        return max(busy, default=None)

    def percent(self, seconds: float | None) -> float | None:
        return None if seconds is None else seconds / self.seconds * 100

    def gauge(self, quantity: str, fold: Callable[[list[float]], float]) -> float | None:
        """Return a gauge folded over time, and summed over items and sources as in ``used``."""
        assert not QUANTITIES[quantity].counter
        total, kind = None, None
        for name, timeline in self.timelines.items():
            steps = timeline.series(quantity, self.from_ns, self.to_ns)
            values = [sum(step.values.values()) for step in steps if step.values]
            if values and kind in (None, _kind(name)):
                kind, total = _kind(name), (total or 0.0) + fold(values)
        return total

    def cores(self, quantities: Sequence[str]) -> dict[str, float]:
        """Return the seconds of each core of each host in these states, summed."""
        seconds: dict[str, float] = {}
        for quantity in quantities:
            for place, grown in enumerate(self._each(quantity)):
                for core, value in grown.items():
                    seconds[_named(core, place)] = seconds.get(_named(core, place), 0.0) + value
        return seconds

    def disks(self, view: ServerView) -> list[DiskUsage]:
        found = []
        for place, timeline in enumerate(
            t for t in self.timelines.values() if t.used("disk_busy_seconds", self.from_ns, self.to_ns)
        ):
            by = {
                quantity: timeline.used(quantity, self.from_ns, self.to_ns)
                for quantity in QUANTITIES
                if quantity.startswith("disk_")
            }
            for device, busy in by["disk_busy_seconds"].items():
                if _ABOVE_DISKS.match(device) and device not in view.disk_roles:
                    continue
                moved = by["disk_read_bytes"].get(device, 0.0) + by["disk_write_bytes"].get(device, 0.0)
                requests = by["disk_reads"].get(device, 0.0) + by["disk_writes"].get(device, 0.0)
                waited = by["disk_request_seconds"].get(device)
                found.append(
                    DiskUsage(
                        device=_named(device, place),
                        role=view.disk_roles.get(device, ""),
                        busy_percent=min(100.0, busy / self.seconds * 100),
                        read_bytes=by["disk_read_bytes"].get(device, 0.0),
                        write_bytes=by["disk_write_bytes"].get(device, 0.0),
                        queue=None if waited is None else waited / self.seconds,
                        await_ms=_ratio(_scaled(waited, 1000), requests),
                        share_of_speed=_ratio(moved / self.seconds, view.disk_speeds.get(device, 0.0)),
                    )
                )
        return found

    def links(self, view: ServerView) -> list[LinkUsage]:
        """Return loopback if client and server share the host, else every other interface."""
        found = []
        for place, timeline in enumerate(
            t for t in self.timelines.values() if t.used("network_send_bytes", self.from_ns, self.to_ns)
        ):
            sent = timeline.used("network_send_bytes", self.from_ns, self.to_ns)
            received = timeline.used("network_receive_bytes", self.from_ns, self.to_ns)
            speeds = timeline.last("network_speed_bytes_per_second", self.to_ns)
            for interface in sent:
                if (interface == LOOPBACK) is not view.shares_host or _ABOVE_LINKS.match(interface):
                    continue
                speed = view.link_speed_bytes_per_second or speeds.get(interface)
                # Loopback receives all bytes that it sends, so one direction is the whole traffic.
                found.append(
                    LinkUsage(
                        interface=_named(interface, place),
                        receive_megabytes_per_second=0.0
                        if interface == LOOPBACK
                        else received.get(interface, 0.0) / self.seconds / 1e6,
                        send_megabytes_per_second=sent[interface] / self.seconds / 1e6,
                        speed_megabytes_per_second=_scaled(speed, 1e-6),
                    )
                )
        return found

    def _each(self, quantity: str) -> list[dict[str, float]]:
        """Return the values of every source that has the quantity."""
        every = (timeline.used(quantity, self.from_ns, self.to_ns) for timeline in self.timelines.values())
        return [grown for grown in every if grown]


def _kind(source: str) -> str:
    """Return the kind of a source; pid and name are one kind: processes of this machine."""
    kind = source.partition(":")[0]
    return "pid" if kind == "name" else kind


def _named(item: str, place: int) -> str:
    """Return an item's name: unchanged for the first source, with the host for others."""
    return item if place == 0 else f"{item} of host {place + 1}"


def _busiest_core(busy: Mapping[str, float], everything: Mapping[str, float], view: ServerView) -> float | None:
    taken = {str(core) for core in view.client_cores} if view.shares_host else set()
    servers = busy.keys() - taken or busy.keys()
    return max((_percent(busy[core], everything[core]) or 0.0 for core in servers), default=None)


def _percent(part: float, whole: float) -> float | None:
    return min(100.0, part / whole * 100) if whole else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _ratio(value: float | None, base: float) -> float | None:
    return None if value is None or not base else value / base
