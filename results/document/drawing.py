"""How figures are drawn: colours, markers, style, and the bytes of a finished figure."""

from __future__ import annotations

import io
from typing import Any

import matplotlib
from matplotlib.figure import Figure

# Okabe and Ito's palette is distinguishable with any colour vision. Black replaces yellow, which is too faint on white.
# Markers distinguish the lines without colour. There is one more marker than colours, so an eighth line differs from
# the first.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#666666"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # included with matplotlib, so that every machine draws the same
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",  # text stays text, so readers can search and copy it and screen readers can read it
    "svg.hashsalt": "archiver",
    "text.parse_math": False,  # a platform's name may contain dollars
}


def svg_bytes(figure: Figure) -> bytes:
    """Return an SVG with text as text. The same figure gives the same bytes."""
    return _saved(figure, "svg", {"Date": None, "Creator": None})


def png_bytes(figure: Figure) -> bytes:
    """Return a PNG with 144 dots per inch. The same figure gives the same bytes."""
    return _saved(figure, "png", {"Software": None})


def _saved(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format=kind, dpi=144, metadata=metadata)
    return file.getvalue()
