"""A figure as part of a page: SVG with the page's colours, a description, and unique ids.

The SVG is matplotlib's own, with only ids and colours renamed. A figure therefore looks the same in a page as in its
file, and is also readable on a dark background.
"""

from __future__ import annotations

import csv
import io
import re
from html import escape
from math import isfinite

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from results.document.drawing import COLOURS, GREY, svg_bytes

# Replacements of colours: page.css defines a light and a dark value for each.
_VARIABLES = {
    **{colour: f"--line-{place}" for place, colour in enumerate(COLOURS)},
    "#000000": "--ink",
    GREY: "--muted",
    "#dddddd": "--grid",
    "#ffffff": "--paper",
    "#f3d9b1": "--band-0",
    "#c9dff0": "--band-1",
    "#d9ecd0": "--band-2",
    "#ead3e6": "--band-3",
    "#e3e3e3": "--band-4",
}
_ID = re.compile(r'(\bid="|url\(#|href="#)')
_COLOUR = re.compile("|".join(_VARIABLES))
_PREAMBLE = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_ELEMENT = re.compile(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>')


def inline_svg(name: str, figure: Figure) -> str:
    """Return the <svg> element of a figure, with ids made unique by the figure's name."""
    text = _METADATA.sub("", _PREAMBLE.sub("", svg_bytes(figure).decode()))
    text = _ID.sub(rf"\g<1>{name}-", text)
    text = _COLOUR.sub(lambda found: f"var({_VARIABLES[found[0]]})", text)
    title, words = escape(figure.get_suptitle()), escape(describe(figure))
    head = (
        rf'<svg viewBox="\g<1>" role="img" aria-labelledby="{name}-title {name}-words" xmlns="http://www.w3.org/2000/svg"'
        rf' xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    named = f'<title id="{name}-title">{title}</title><desc id="{name}-words">{words}</desc>'
    opened = _ELEMENT.search(text)
    assert opened is not None, "matplotlib writes one svg element"
    return opened.expand(head) + named + text[opened.end() :].strip()


def describe(figure: Figure) -> str:
    """Describe a figure for screen readers: each panel's scale, its lines and their ranges."""
    said = []
    scale = ""  # a panel without a scale shares that of the previous panel
    for axes in figure.axes:
        scale = axes.get_ylabel() or scale
        values = [float(y) for _, points in _series(axes) for _, y in points if isfinite(y)]
        if not scale or not values:
            continue
        panel = ": ".join(text for text in (axes.get_title(loc="left"), scale) if text)
        names = ", ".join(label for label, _ in _series(axes))
        said.append(f"{panel}, from {min(values):,.4g} to {max(values):,.4g} ({names}).")
    return " ".join([*said, "The numbers are linked beneath the figure."])


def figure_csv(figure: Figure) -> str:
    """Return the points that a figure draws, one per row, for programs."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["panel", "line", "x", "y"])
    for place, axes in enumerate(figure.axes, 1):
        panel = axes.get_ylabel() or str(place)
        for label, points in _series(axes):
            writer.writerows([panel, label, f"{x:.8g}", f"{y:.8g}" if isfinite(y) else ""] for x, y in points)
    return file.getvalue()


def _series(axes: Axes) -> list[tuple[str, list[tuple[float, float]]]]:
    """Return the lines and bars of a panel that its legend names, with their points."""
    found = [
        (str(line.get_label()), [(x, y) for x, y in np.asarray(line.get_xydata(), float).tolist()])
        for line in axes.lines
        if not str(line.get_label()).startswith("_")
    ]
    bars = [
        (str(each.get_label()), [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in each])
        for each in axes.containers
        if not str(each.get_label()).startswith("_") and hasattr(each, "patches")
    ]
    return [(" ".join(label.split()), points) for label, points in found + bars]
