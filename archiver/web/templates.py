"""The HTML of the pages: templates of this package, with the tables and the style of the reports.

Links are relative, so that no page contains the token of its own address.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from archiver.values.sizes import format_clock, format_instant, format_milliseconds, format_percent, format_rate
from archiver.values.visible import visible
from archiver.web.live_state import LiveState

STATIC_FILES = {  # name in the address: package, path of the file in it, and media type
    "page.css": ("results.document", "pages/page.css", "text/css"),
    "page.js": ("results.document", "pages/page.js", "text/javascript"),
    "web.css": ("archiver.web", "pages/web.css", "text/css"),
    "web.js": ("archiver.web", "pages/web.js", "text/javascript"),
}
_CHART_WIDTH, _CHART_HEIGHT = 300, 40
_SILENT_SECONDS = 5.0  # for a process that writes its state once a second


def render(template: str, **values: Any) -> str:
    """Return a page, or a part of one. It shows hidden characters."""
    return visible(_environment().get_template(template).render(**values))


@cache
def static_file(name: str) -> bytes:
    """Return the content of one of ``STATIC_FILES``."""
    package, path, _ = STATIC_FILES[name]
    return files(package).joinpath(path).read_bytes()


def live_view(state: LiveState | None, now: float) -> dict[str, Any] | None:
    """Return the template's values of a live state; None without one. ``now`` is in epoch seconds."""
    if state is None:
        return None
    age = now - state.written_at
    return {
        "state": state,
        "rows": [*state.finished, *([state.current] if state.current is not None else [])],
        "silent_seconds": round(age) if age > _SILENT_SECONDS else None,
        "chart": _chart(state.objects_by_second),
        "chart_width": _CHART_WIDTH,
        "chart_height": _CHART_HEIGHT,
        "chart_maximum": max(state.objects_by_second, default=0),
    }


def _chart(counts: Sequence[int]) -> str:
    """Return the points of a line from zero to the maximum; empty for fewer than two counts."""
    if len(counts) < 2:
        return ""
    step, maximum = _CHART_WIDTH / (len(counts) - 1), max(counts) or 1
    return " ".join(f"{at * step:.1f},{_CHART_HEIGHT * (1 - count / maximum):.1f}" for at, count in enumerate(counts))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("archiver.web", "pages"), PackageLoader("results.document", "pages")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {
        "clock": format_clock,
        "instant": format_instant,
        "milliseconds": format_milliseconds,
        "percent": format_percent,
        "rate": format_rate,
    }
    return environment
