"""A console that draws on standard error with colours and cursor movements of its own.

It shows hidden characters in every text that it draws, and then writes past the stream that would show its own ones.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from archiver.cli.terminal import VisibleStream
from archiver.values.visible import visible


def console() -> Console:
    """Return a console on standard error."""
    return _VisibleConsole(file=sys.stderr.behind if isinstance(sys.stderr, VisibleStream) else sys.stderr)


class _VisibleConsole(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))
