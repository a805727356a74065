"""The server's resources over the run's time, with its phases marked.

Figures 6 to 8 are those of the paper: processor, database disks, object disks. The paper has no figure of the network.

The figures show the reported values between one sample and the next. A line breaks at a gap between samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import cycle
from math import isnan

from matplotlib.figure import Figure

from results.document.drawing import COLOURS
from results.figures.phases import Caption
from results.figures.timelines import DrawnCurve, TimelineLimit, TimelinePanel, draw_timelines
from results.measures.watched import Curve, Watched
from results.recorded.resources import Timeline
from results.reference.published import NAME, dr550

_DATABASE_ROLES = {"catalogue", "database"}


def build_resource_figures(watched: Watched, caption: Caption) -> dict[str, Figure]:
    """Return every figure for which the samples have data, by the stem of its file name, in their order."""
    figures = {name: draw(watched, caption) for name, draw in RESOURCE_FIGURES.items()}
    return {name: figure for name, figure in figures.items() if figure is not None}


def processor_figure(watched: Watched, caption: Caption) -> Figure | None:
    """Return Figure 6: the server's processor. Returns None without samples.

    The figure shows the host as a whole if the client is on another host, or if the server's processes are unknown.
    """
    colours = cycle(COLOURS)
    lines, limits = [], []
    for timeline in _first(watched, "process_cpu_seconds"):
        own = watched.curve(timeline, sum, "process_cpu_seconds")
        lines.append(DrawnCurve("the store's processes", own, next(colours), 1.6))
    for timeline in _first(watched, "thread_cpu_seconds"):
        busiest = watched.curve(timeline, max, "thread_cpu_seconds", "thread_wait_seconds")
        lines.append(DrawnCurve("their busiest thread, including waits for a core", busiest, next(colours), 0.8))
    for timeline in _first(watched, "process_cpu_limit_cores"):
        cores = sum(timeline.last("process_cpu_limit_cores", watched.span_ns[1]).values())
        limits.append(TimelineLimit(f"their limit: {100 * cores:,.0f}%", 100 * cores))
    if not lines or not watched.shares_host:
        whole = "the host, client included" if watched.shares_host else "the host, all cores"
        for place, timeline in enumerate(watched.sources("cpu_user_seconds").values(), 1):
            busy = watched.curve(timeline, sum, "cpu_user_seconds", "cpu_system_seconds")
            lines.append(DrawnCurve(whole if place == 1 else f"{whole} ({place})", busy, next(colours)))
    if not lines:
        return None
    panel = TimelinePanel("CPU, % of one core", [_scaled(line, 100) for line in lines], limits)
    published = f"published, {NAME}, Figure 6: server CPU {dr550().resources.server_cpu}"
    return draw_timelines("Server CPU over the run", [panel], watched, caption, [published])


def database_disk_figure(watched: Watched, caption: Caption) -> Figure | None:
    """Return Figure 7: the disks with the server's database or catalogue. Returns None if no such disk was sampled."""
    title, published = "Database disks", dr550().resources.of_database_disks
    return _disk_figure(watched, caption, title, _has_database, f"published, {NAME}, Figure 7: {published}")


def object_disk_figure(watched: Watched, caption: Caption) -> Figure | None:
    """Return Figure 8: the disks with the objects, or of unknown role. Returns None if no such disk was sampled."""
    title, published = "Object disks", dr550().resources.of_object_disks
    return _disk_figure(watched, caption, title, _has_objects, f"published, {NAME}, Figure 8: {published}")


def _has_database(role: str) -> bool:
    return not _DATABASE_ROLES.isdisjoint(role.split())


def _has_objects(role: str) -> bool:
    return "object" in role.split() or not _has_database(role)


def _disk_figure(
    watched: Watched, caption: Caption, title: str, belongs: Callable[[str], bool], published: str
) -> Figure | None:
    """Draw the busy time of each disk, and below it the queue, because busy time does not prove saturation."""
    busy, queues = (_by_item(watched, quantity) for quantity in ("disk_busy_seconds", "disk_request_seconds"))
    roles = {disk: watched.disk_roles.get(disk.partition(" ")[0], "") for disk in busy}
    found = sorted(
        (disk for disk in busy if belongs(roles[disk])), key=lambda disk: (not roles[disk], -_mean(busy[disk]))
    )
    chosen = found[: len(COLOURS)]
    if not chosen:
        return None
    labels = {disk: f"{roles[disk]} disk {disk}".strip() for disk in chosen}
    colours = dict(zip(chosen, COLOURS, strict=False))
    panels = [
        TimelinePanel(
            "time busy, %", [_scaled(DrawnCurve(labels[disk], busy[disk], colours[disk]), 100) for disk in chosen]
        ),
        TimelinePanel(
            "requests in queue",
            [DrawnCurve(labels[disk], queues[disk], colours[disk]) for disk in chosen if disk in queues],
            height=0.5,
        ),
    ]
    facts = ["a disk that serves requests in parallel is busy before it is full: see its queue", published]
    if any(_has_database(roles[disk]) and _has_objects(roles[disk]) for disk in chosen):
        facts.insert(0, "one disk stores database and objects, so Figures 7 and 8 both show it")
    if not all(roles[disk] for disk in chosen):
        facts.insert(0, "the role of some disks is unknown; name it with --disk-role")
    if len(chosen) < len(found):
        facts.insert(0, f"{len(chosen)} of {len(found)} disks: those with a role, then the busiest")
    title = f"{title} over the run: time busy, and requests in the queue"
    return draw_timelines(title, [panel for panel in panels if panel.lines], watched, caption, facts)


def network_figure(watched: Watched, caption: Caption) -> Figure | None:
    """Return Figure 16: the throughput of each network interface, with its rated speed; None without samples."""
    sent, received = (_by_item(watched, f"network_{way}_bytes") for way in ("send", "receive"))
    loopback = {interface for interface in sent if interface.partition(" ")[0] == "lo"}
    ours = sent.keys() & loopback if watched.shares_host else sent.keys() - loopback
    moved = {interface: _mean(sent[interface]) + _mean(received[interface]) for interface in ours & received.keys()}
    # The bridges and unused interfaces of a host would only fill the legend.
    chosen = sorted(interface for interface, mean in moved.items() if mean > 0.01 * max(moved.values()))
    if not chosen:
        return None
    colours, speeds = cycle(COLOURS), _rated_speeds(watched)
    lines, limits = [], []
    for interface in chosen:
        lines.append(DrawnCurve(f"{interface} sends", sent[interface], next(colours)))
        if not watched.shares_host:  # loopback receives the same bytes that it sends
            lines.append(DrawnCurve(f"{interface} receives", received[interface], next(colours)))
        speed = watched.link_speed_bytes_per_second or speeds.get(interface)
        if speed is not None:
            limits.append(TimelineLimit(f"{interface}'s rated speed: {speed / 1e6:,.0f} MB/s", speed / 1e6))
    panel = TimelinePanel("MB per second, 10⁶ bytes", [_scaled(line, 1e-6) for line in lines], limits)
    published = f"published, {NAME}, in its text: {dr550().resources.of_network}"
    return draw_timelines("Network over the run", [panel], watched, caption, [published])


RESOURCE_FIGURES: Mapping[str, Callable[[Watched, Caption], Figure | None]] = {
    "figure-6-server-cpu": processor_figure,
    "figure-7-database-disks": database_disk_figure,
    "figure-8-object-disks": object_disk_figure,
    "figure-16-network": network_figure,
}


def _first(watched: Watched, quantity: str) -> list[Timeline]:
    """Return the first source that reports a quantity, if any."""
    return list(watched.sources(quantity).values())[:1]


def _by_item(watched: Watched, quantity: str) -> dict[str, Curve]:
    """Return every item of every source."""
    return {
        _named(item, place): curve
        for place, timeline in enumerate(watched.sources(quantity).values(), 1)
        for item, curve in watched.curves(timeline, quantity).items()
    }


def _rated_speeds(watched: Watched) -> dict[str, float]:
    """Return the bytes per second of each interface with known speed."""
    return {
        _named(interface, place): speed
        for place, timeline in enumerate(watched.sources("network_send_bytes").values(), 1)
        for interface, speed in timeline.last("network_speed_bytes_per_second", watched.span_ns[1]).items()
    }


def _named(item: str, place: int) -> str:
    """Return the item's name. Items of sources after the first include the name of their host."""
    return item if place == 1 else f"{item} of host {place}"


def _mean(curve: Curve) -> float:
    known = [value for value in curve.values if not isnan(value)]
    return sum(known) / len(known) if known else 0.0


def _scaled(line: DrawnCurve, factor: float) -> DrawnCurve:
    values = [value * factor for value in line.curve.values]
    return line._replace(curve=Curve(line.curve.seconds, values))
