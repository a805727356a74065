"""The server's resources over the run's time, with its phases marked.

Figures 6 to 8 are those of the paper: processor, database disks, object disks. The paper has no figure of the network.

The figures show the reported values between one sample and the next. A line breaks at a gap between samples. A limit
far above the values is stated in the caption, so that it does not flatten the curves.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, groupby
from math import isnan
from typing import NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from results.figures.phases import COLOURS, GREY, STYLE, Caption, label_y, place_legend, plain_number, set_frame
from results.reference.published import NAME, dr550
from results.resources import Timeline
from results.tables.watched import Curve, Watched

LIMIT_IN_SIGHT = 2.5  # a limit up to this multiple of the highest value is drawn
MINUTES_FROM_SECONDS = 300  # longer runs are drawn in minutes
_BANDS = ("#f3d9b1", "#c9dff0", "#d9ecd0", "#ead3e6", "#e3e3e3")  # backgrounds of archive, retrieve ...: by sweep
_DATABASE_ROLES = {"catalogue", "database"}
_RIGHT = 0.795
_LEGEND_WIDTH = 20  # characters
_CHARACTER_WIDTH = 0.008  # of a panel's width


class _DrawnCurve(NamedTuple):
    label: str
    curve: Curve
    colour: str
    width: float = 1.2


class _Limit(NamedTuple):
    label: str
    value: float


class _Panel(NamedTuple):
    label: str  # label of its y axis
    lines: Sequence[_DrawnCurve]
    limits: Sequence[_Limit] = ()
    height: float = 1.0


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
        lines.append(_DrawnCurve("the store's processes", own, next(colours), 1.6))
    for timeline in _first(watched, "thread_cpu_seconds"):
        busiest = watched.curve(timeline, max, "thread_cpu_seconds", "thread_wait_seconds")
        lines.append(_DrawnCurve("their busiest thread, its waits for a core included", busiest, next(colours), 0.8))
    for timeline in _first(watched, "process_cpu_limit_cores"):
        cores = sum(timeline.last("process_cpu_limit_cores", watched.span_ns[1]).values())
        limits.append(_Limit(f"what they may use: {100 * cores:,.0f}%", 100 * cores))
    if not lines or not watched.shares_host:
        whole = "the host, client included" if watched.shares_host else "the host, all cores"
        for place, timeline in enumerate(watched.sources("cpu_user_seconds").values(), 1):
            busy = watched.curve(timeline, sum, "cpu_user_seconds", "cpu_system_seconds")
            lines.append(_DrawnCurve(whole if place == 1 else f"{whole} ({place})", busy, next(colours)))
    if not lines:
        return None
    panel = _Panel("CPU, % of one core", [_scaled(line, 100) for line in lines], limits)
    published = f"published, {NAME}, Figure 6: server CPU {dr550().resources.server_cpu}"
    return _draw("Server CPU over the run", [panel], watched, caption, [published])


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
    """Draw the busy time of each disk, and below it the queue, because busy time alone proves nothing."""
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
        _Panel("time busy, %", [_scaled(_DrawnCurve(labels[disk], busy[disk], colours[disk]), 100) for disk in chosen]),
        _Panel(
            "requests in queue",
            [_DrawnCurve(labels[disk], queues[disk], colours[disk]) for disk in chosen if disk in queues],
            height=0.5,
        ),
    ]
    facts = ["a disk that takes many requests at once is busy long before it is full: see its queue", published]
    if any(_has_database(roles[disk]) and _has_objects(roles[disk]) for disk in chosen):
        facts.insert(0, "one disk holds database and objects, so Figures 7 and 8 both show it")
    if not all(roles[disk] for disk in chosen):
        facts.insert(0, "the role of some disks is unknown; name it with --disk-role")
    if len(chosen) < len(found):
        facts.insert(0, f"{len(chosen)} of {len(found)} disks: those with a role, then the busiest")
    title = f"{title} over the run: time busy, and requests in the queue"
    return _draw(title, [panel for panel in panels if panel.lines], watched, caption, facts)


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
        lines.append(_DrawnCurve(f"{interface} sends", sent[interface], next(colours)))
        if not watched.shares_host:  # loopback receives the same bytes that it sends
            lines.append(_DrawnCurve(f"{interface} receives", received[interface], next(colours)))
        speed = watched.link_speed_bytes_per_second or speeds.get(interface)
        if speed is not None:
            limits.append(_Limit(f"{interface}'s rated speed: {speed / 1e6:,.0f} MB/s", speed / 1e6))
    panel = _Panel("MB per second, 10⁶ bytes", [_scaled(line, 1e-6) for line in lines], limits)
    published = f"published, {NAME}, in its text: {dr550().resources.of_network}"
    return _draw("Network over the run", [panel], watched, caption, [published])


RESOURCE_FIGURES: Mapping[str, Callable[[Watched, Caption], Figure | None]] = {
    "figure-6-server-cpu": processor_figure,
    "figure-7-database-disks": database_disk_figure,
    "figure-8-object-disks": object_disk_figure,
    "figure-16-network": network_figure,
}


def _first(watched: Watched, quantity: str) -> list[Timeline]:
    """Return the source that reports a quantity, if any. Of several the first counts, as everywhere."""
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


def _scaled(line: _DrawnCurve, factor: float) -> _DrawnCurve:
    values = [value * factor for value in line.curve.values]
    return line._replace(curve=Curve(line.curve.seconds, values))


def _draw(title: str, panels: Sequence[_Panel], watched: Watched, caption: Caption, facts: Sequence[str]) -> Figure:
    out_of_sight: list[str] = []
    from_ns, to_ns = watched.span_ns
    unit, seconds = ("minutes", 60.0) if to_ns - from_ns > MINUTES_FROM_SECONDS * 1e9 else ("seconds", 1.0)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 3.6 + sum(panel.height for panel in panels)))
        heights = [panel.height for panel in panels]
        axes: list[Axes] = list(
            figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
        )
        for each, panel in zip(axes, panels, strict=True):
            _draw_lines(each, panel, seconds)
            out_of_sight += _draw_limits(each, panel)
            each.set_ylim(bottom=0)
            each.yaxis.set_major_formatter(FuncFormatter(plain_number))
            label_y(each, panel.label)
        axes[-1].set_xlim(0, (to_ns - from_ns) / 1e9 / seconds)
        axes[-1].set_xlabel(f"{unit} since the first phase began")
        _mark_phases(axes, watched, seconds)
        place_legend(figure, axes, None, left=_RIGHT + 0.01)
        set_frame(figure, title, [*out_of_sight, *facts], caption, right=_RIGHT)
    return figure


def _draw_lines(axes: Axes, panel: _Panel, seconds: float) -> None:
    """Draw steps: each value is a mean over the time before its moment.

    The first line lies on top; long runs have thin lines.
    """
    thin = 1.0 if seconds == 1 else 0.6
    for place, line in enumerate(panel.lines):
        axes.plot(
            [at / seconds for at in line.curve.seconds],
            line.curve.values,
            color=line.colour,
            linewidth=thin * line.width,
            zorder=3 - place / 100,
            drawstyle="steps-pre",
            label=textwrap.fill(line.label, _LEGEND_WIDTH),
        )


def _draw_limits(axes: Axes, panel: _Panel) -> list[str]:
    """Draw the limits near the values. Returns caption text for the others."""
    values = [value for line in panel.lines for value in line.curve.values if not isnan(value)]
    highest = max(values, default=0.0)
    unseen = []
    for limit in panel.limits:
        if limit.value <= LIMIT_IN_SIGHT * highest:
            axes.axhline(
                limit.value, color=GREY, linestyle="--", linewidth=1, label=textwrap.fill(limit.label, _LEGEND_WIDTH)
            )
        else:
            unseen.append(f"at most {highest / limit.value:.0%} of {limit.label}")
    return unseen


def _mark_phases(panels: Sequence[Axes], watched: Watched, seconds: float) -> None:
    """Draw a band behind each phase in the colour of its sweep.

    The sweep's name appears above its bands if there is room, else in the legend.
    """
    start_ns, end_ns = watched.span_ns
    sweeps = [watched.sweeps.get(phase.position, phase.label) for phase in watched.phases]
    colours = dict(zip(dict.fromkeys(sweeps), cycle(_BANDS), strict=False))
    named = set()
    for sweep, group in groupby(zip(sweeps, watched.phases, strict=True), key=lambda each: each[0]):
        phases = [phase for _, phase in group]
        begins, ends = phases[0].start_ns - start_ns, phases[-1].end_ns - start_ns
        if (ends - begins) / (end_ns - start_ns) > _CHARACTER_WIDTH * len(sweep):
            named.add(sweep)
            middle = (begins + ends) / 2e9 / seconds
            above = panels[0].get_xaxis_transform()
            panels[0].text(middle, 1.02, sweep, transform=above, horizontalalignment="center", fontsize=8, color=GREY)
    for sweep, phase in zip(sweeps, watched.phases, strict=True):
        label = None if sweep in named else sweep
        named.add(sweep)
        for axes in panels:
            axes.axvspan(
                (phase.start_ns - start_ns) / 1e9 / seconds,
                (phase.end_ns - start_ns) / 1e9 / seconds,
                color=colours[sweep],
                linewidth=0,
                zorder=0,
                label=label,
            )
            label = None
