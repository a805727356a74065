"""The figures of a tile run, numbered as in ESG's report.

They are client utilisation (10), aggregate rate by tiles (11), throughput spikes (12), mailboxes (13) and e-mail's
response time (14) by tiles. A line connects the medians over trials, and a bar shows the range.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from results.document.drawing import COLOURS, GREY, MARKERS, STYLE
from results.figures.log_axes import label_log_axis, plain_number
from results.figures.phases import Caption, label_y, place_legend, set_frame
from results.measures.metrics import pooled_mean_ms
from results.measures.phases import phases_of
from results.mixed.mailboxes import all_mailboxes, highest_limit_ms
from results.mixed.programme import MEGABYTES, OBJECTS, PEAK_SECONDS, Course, Spike, spikes, summary
from results.mixed.tiles import LOG, RETRIEVE, Scale, part_of
from results.recorded.model import Result

CLIENT_UTILISATION = "figure-10-client-utilisation"
AGGREGATE_RATE = "figure-11-aggregate-rate"
SPIKES = "figure-12-throughput-spikes"
MAILBOXES = "figure-13-mailboxes"
EMAIL_RESPONSE = "figure-14-email-response"
LATENESS_LIMIT_MS = 2.0  # a larger scheduling delay of the client would distort response times
SPIKE_BAND = "#f3d9b1"
_SPIKES_MAX = 8  # spikes listed in a caption
_LEGEND_LEFT = 0.805
_LEGEND_WIDTH = 18  # characters
_MARGIN = 0.35  # of a tile, to the left and right of the first and last

_Points = Mapping[float, Sequence[float]]  # values of each trial, by scale


def tile_figures(
    results: Sequence[Result],
    scales: Sequence[Scale],
    courses: Sequence[Course],
    caption: Caption,
    scale_name: str = "tiles",
) -> dict[str, Figure]:
    """Return every figure for which this run has data, by the stem of its file name.

    The spikes are of the largest scale. ``courses`` are those of the measured phases, without phases that only archived
    the data.
    """
    figures = {
        CLIENT_UTILISATION: client_figure(results, caption, scale_name),
        AGGREGATE_RATE: rate_figure(courses, caption, scale_name),
        SPIKES: spikes_figure(max(courses, key=_scale_of), caption, scale_name) if courses else None,
        MAILBOXES: mailboxes_figure(scales, caption),
        EMAIL_RESPONSE: email_response_figure(scales, caption),
    }
    return {name: figure for name, figure in figures.items() if figure is not None}


def client_figure(results: Sequence[Result], caption: Caption, scale_name: str) -> Figure | None:
    """Return Figure 10: CPU use of the client and its scheduling delay. Each phase shows its worst workload."""
    phases = [phase for phase in phases_of(results, ()) if phase.scale is not None]
    if not phases:
        return None

    def worst(of: Callable[[Result], float]) -> _Points:
        found: dict[float, list[float]] = {}
        for phase in phases:
            found.setdefault(phase.scale or 0.0, []).append(max(map(of, phase.results)))
        return found

    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 5.6))
        busy, late = figure.subplots(2, 1, sharex=True, height_ratios=(1.6, 1), gridspec_kw={"hspace": 0.14})
        _draw(busy, worst(lambda r: r.client.cpu_percent), 0, "all workers together, % of one core")
        _draw(busy, worst(lambda r: r.client.busiest_worker_percent), 1, "busiest worker, % of its time")
        busy.axhline(100, color=GREY, linestyle=":", linewidth=1.4, label="one core or one worker fully used")
        _draw(late, worst(lambda r: r.client.lateness_p99_ms), 2, "scheduling delay of its timers, p99")
        late.axhline(
            LATENESS_LIMIT_MS, color=COLOURS[3], linestyle=":", linewidth=1.6, label=f"limit: {LATENESS_LIMIT_MS:g} ms"
        )
        _scale_axis(late, sorted({phase.scale or 0.0 for phase in phases}), scale_name)
        _from_zero(busy, late)
        label_y(busy, "processor, %")
        label_y(late, "p99, ms")
        _legend(figure, [busy, late])
        facts = [f"each phase shows its largest value over workloads; {_trial_words(worst(lambda r: 0.0))}"]
        set_frame(figure, f"Client utilisation by {scale_name}", facts, caption, right=_LEGEND_LEFT - 0.015)
    return figure


def rate_figure(courses: Sequence[Course], caption: Caption, scale_name: str) -> Figure | None:
    """Return Figure 11: peak and steady rate of all workloads together, MB/s above and objects/s below."""
    known = [course for course in courses if course.scale is not None and summary(course, MEGABYTES)]
    if not known:
        return None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 6.2))
        panels = list(figure.subplots(2, 1, sharex=True, gridspec_kw={"hspace": 0.12}))
        for axes, quantity in zip(panels, (MEGABYTES, OBJECTS), strict=True):
            peaks: dict[float, list[float]] = {}
            steadies: dict[float, list[float]] = {}
            for course in known:
                rate = summary(course, quantity)
                if rate is not None:
                    peaks.setdefault(_scale_of(course), []).append(rate.peak)
                    steadies.setdefault(_scale_of(course), []).append(rate.steady)
            _draw(axes, peaks, 1, f"peak: best {PEAK_SECONDS:g} s")
            _draw(axes, steadies, 0, "steady: median outside spikes")
        label_y(panels[0], "MB per second, 10⁶ bytes")
        label_y(panels[1], "objects per second")
        _from_zero(*panels)
        _scale_axis(panels[1], sorted(set(map(_scale_of, known))), scale_name)
        _legend(figure, panels)
        set_frame(
            figure,
            f"Aggregate rate by {scale_name}: peak and steady state",
            [f"sum of all workloads; {_trial_words(peaks)}"],
            caption,
            right=_LEGEND_LEFT - 0.015,
        )
    return figure


def spikes_figure(course: Course, caption: Caption, scale_name: str) -> Figure | None:
    """Return Figure 12, the time line of one phase: rates with spikes, response times below, and the programme."""
    rates = {quantity: summary(course, quantity) for quantity in (MEGABYTES, OBJECTS)}
    if rates[MEGABYTES] is None:
        return None
    found = spikes(course)
    applications = course.applications
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 9.6))
        programme_height = 0.35 + 0.14 * len(applications)
        panels = list(
            figure.subplots(
                4, 1, sharex=True, height_ratios=(1.1, 0.8, 1.3, programme_height), gridspec_kw={"hspace": 0.13}
            )
        )
        for axes, quantity, text in zip(
            panels, (MEGABYTES, OBJECTS), ("MB per second", "objects per second"), strict=False
        ):
            _draw_rate(axes, course, quantity)
            label_y(axes, text)
        _draw_responses(panels[2], course)
        label_y(panels[2], "mean response, ms (log)")
        _draw_programme(panels[3], course)
        for place, spike in enumerate(found, 1):
            _mark(panels, spike, place)
        panels[3].set_xlim(0, course.window[1] * course.bin_seconds)
        panels[3].set_xlabel("seconds since the phase began")
        panels[3].xaxis.set_major_formatter(FuncFormatter(plain_number))
        _legend(figure, panels[:3])
        where = f", {course.scale:g} {scale_name}" if course.scale is not None else ""
        title = f"Throughput spikes, and the response of all workloads{where}"
        set_frame(figure, title, _spike_words(found), caption, right=_LEGEND_LEFT - 0.015)
    return figure


def mailboxes_figure(scales: Sequence[Scale], caption: Caption) -> Figure | None:
    """Return Figure 13: mailboxes that all tiles support.

    A cross marks a failed criterion, at the number from the rate alone.
    """
    found = {scale.tiles: all_mailboxes(scale) for scale in scales}
    held = {tiles: each.supported for tiles, each in found.items() if each.supported is not None}
    missed = {t: each.possible for t, each in found.items() if each.supported is None and each.possible is not None}
    if not held and not missed:
        return None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 4.8))
        axes = figure.subplots()
        axes.plot(
            list(held),
            list(held.values()),
            color=COLOURS[0],
            marker="o",
            markersize=7,
            linewidth=1.8,
            label="supported",
        )
        for tiles, count in held.items():
            axes.annotate(
                f"{count:,}", (tiles, count), xytext=(0, 8), textcoords="offset points", horizontalalignment="center"
            )
        if missed:
            axes.plot(
                list(missed),
                list(missed.values()),
                "x",
                color=COLOURS[1],
                markersize=9,
                markeredgewidth=2,
                label="none: a criterion failed (drawn at the number from the rate alone)",
            )
        _from_zero(axes)
        _scale_axis(axes, sorted(found), "tiles")
        label_y(axes, "mailboxes, all tiles")
        _legend(figure, [axes])
        facts = ["mailboxes: database operations/s / operations/s of one mailbox, if e-mail meets every criterion"]
        set_frame(figure, "Mailboxes by tiles", facts, caption, right=_LEGEND_LEFT - 0.015)
    return figure


def email_response_figure(scales: Sequence[Scale], caption: Caption) -> Figure | None:
    """Return Figure 14: e-mail's mean retrieve and mean log archive, each with its limit dotted; points are tiles."""
    chosen = [scale for scale in scales if any(tile.email for tile in scale.all_tiles)]
    if not chosen:
        return None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(10, 4.8))
        axes = figure.subplots()
        for place, (part, words) in enumerate(((RETRIEVE, "mean retrieve"), (LOG, "mean log archive"))):
            points: dict[float, list[float]] = {}
            for scale in chosen:
                for tile in scale.all_tiles:
                    mean = pooled_mean_ms([part_of(tile.email, part)])
                    if mean is not None:
                        points.setdefault(scale.tiles, []).append(mean)
            _draw(axes, points, place, words)
            limits = [highest_limit_ms(part, scale) for scale in chosen]
            axes.plot(
                [chosen[0].tiles - _MARGIN, *(scale.tiles for scale in chosen), chosen[-1].tiles + _MARGIN],
                [limits[0], *limits, limits[-1]],
                color=COLOURS[place],
                linestyle=":",
                linewidth=1.8,
                label=f"its limit: {limits[-1]:g} ms",
            )
        _from_zero(axes)
        _scale_axis(axes, [scale.tiles for scale in chosen], "tiles")
        label_y(axes, "mean response time, ms")
        _legend(figure, [axes])
        facts = ["medians over tiles and trials, bars from minimum to maximum"]
        set_frame(figure, "E-mail: response time by tiles", facts, caption, right=_LEGEND_LEFT - 0.015)
    return figure


def _scale_of(course: Course) -> float:
    return course.scale or 0.0


def _draw(axes: Axes, points: _Points, place: int, label: str) -> None:
    """Draw a line through the medians, with a bar from minimum to maximum if there are several values."""
    colour, marker = COLOURS[place], MARKERS[place]
    middles = {scale: median(values) for scale, values in sorted(points.items())}
    axes.plot(
        list(middles),
        list(middles.values()),
        color=colour,
        marker=marker,
        markersize=6,
        linewidth=1.8,
        label=textwrap.fill(label, _LEGEND_WIDTH),
    )
    many = {scale: values for scale, values in points.items() if len(values) > 1}
    axes.vlines(list(many), [min(each) for each in many.values()], [max(each) for each in many.values()], color=colour)


def _scale_axis(axes: Axes, scales: Sequence[float], name: str) -> None:
    """Set whole numbers, with a tick for each scale if there are few."""
    axes.set_xlim(scales[0] - _MARGIN * _step(scales), scales[-1] + _MARGIN * _step(scales))
    if len(scales) <= 10 and _step(scales) * 25 >= scales[-1] - scales[0]:
        axes.set_xticks(list(scales), [f"{scale:,g}" for scale in scales])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(plain_number))
    axes.set_xlabel(name)


def _step(scales: Sequence[float]) -> float:
    """Return the smallest distance between two scales."""
    return min((high - low for low, high in pairwise(scales)), default=1.0)


def _from_zero(*panels: Axes) -> None:
    for axes in panels:
        axes.margins(y=0.12)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(plain_number))


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    for axes in panels:
        for artist in axes.lines:
            if not str(artist.get_label()).startswith("_"):
                artist.set_label(textwrap.fill(" ".join(str(artist.get_label()).split()), _LEGEND_WIDTH))
    place_legend(figure, panels, None, left=_LEGEND_LEFT)


def _trial_words(points: _Points) -> str:
    most = max(map(len, points.values()), default=1)
    return "one trial each" if most == 1 else f"medians of up to {most} trials, bars from minimum to maximum"


def _draw_rate(axes: Axes, course: Course, quantity: str) -> None:
    rate = summary(course, quantity)
    first, last = course.window
    values = course.rates(quantity)[first:last]
    edges = [place * course.bin_seconds for place in range(first, last + 1)]
    axes.step(
        edges, [*values, values[-1]], where="post", color=COLOURS[6], linewidth=1.1, label="all workloads together"
    )
    if rate is not None:
        axes.axhline(rate.steady, color=GREY, linestyle="--", linewidth=1.3, label="steady: median outside spikes")
        axes.axhline(rate.peak, color=GREY, linestyle=":", linewidth=1.6, label=f"peak: best {rate.peak_seconds:g} s")
    _from_zero(axes)


def _draw_responses(axes: Axes, course: Course) -> None:
    """Draw the mean response time of every bin of each workload. A line breaks where the workload did nothing."""
    first, last = course.window
    for place, application in enumerate(course.applications):
        means = [
            amount.response_total_ns / amount.objects / 1e6
            if amount.objects and amount.response_total_ns
            else float("nan")
            for amount in course.bins[application][first:last]
        ]
        axes.plot(
            [(first + index + 0.5) * course.bin_seconds for index in range(len(means))],
            means,
            color=_colour(place),
            linestyle=_dash(place),
            linewidth=1.5,
            label=application,
        )
    axes.set_yscale("log")
    label_log_axis(axes.yaxis)


def _draw_programme(axes: Axes, course: Course) -> None:
    """Draw a bar for each workload while it ran. An edge marks a change of the outstanding requests."""
    names = course.applications
    for place, application in enumerate(names):
        bars = sorted({(round(s.begins, 1), round(s.ends, 1)) for s in course.spans if s.application == application})
        axes.broken_barh(
            [(begins, ends - begins) for begins, ends in _merged(bars)],
            (place - 0.36, 0.72),
            facecolor=_colour(place),
            edgecolor="white",
            linewidth=0.8,
        )
    axes.yaxis.tick_right()  # long names fit below the legend
    axes.tick_params(axis="y", length=0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")


def _merged(bars: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Merge the bars of copies that ran at the same time, within a second."""
    found: list[tuple[float, float]] = []
    for begins, ends in bars:
        if found and begins < found[-1][1] - 1.0:
            found[-1] = (found[-1][0], max(found[-1][1], ends))
        else:
            found.append((begins, ends))
    return found


def _mark(panels: Sequence[Axes], spike: Spike, place: int) -> None:
    """Draw a band through all panels, with its number above."""
    for axes in panels:
        axes.axvspan(spike.begins, spike.ends, color=SPIKE_BAND, linewidth=0, zorder=0)
    panels[0].text(
        (spike.begins + spike.ends) / 2,
        1.02,
        f"{place}",
        transform=panels[0].get_xaxis_transform(),
        horizontalalignment="center",
        fontweight="bold",
        color=GREY,
    )


def _spike_words(found: Sequence[Spike]) -> list[str]:
    if not found:
        return ["no spike"]
    lines = [f"spike {place}: {spike.cause.replace(';', ',')}" for place, spike in enumerate(found[:_SPIKES_MAX], 1)]
    return [*lines, *([f"{len(found) - _SPIKES_MAX} more spikes in the table"] if len(found) > _SPIKES_MAX else [])]


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _dash(place: int) -> str:
    """Return a dash pattern, so that crossing lines are distinguishable without colour."""
    return ("-", "--", "-.", ":")[place % 4]
