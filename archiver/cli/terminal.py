"""What commands print, on its way to a terminal.

One idea: text of others (servers, files, names) must not control the terminal. All of it passes the standard streams,
which show hidden characters. Only `live/console.py`, which draws with colours, writes past them.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from io import TextIOWrapper
from types import TracebackType
from typing import Any, TextIO

from archiver.values.visible import visible


class VisibleStream:
    """A text stream that shows hidden characters. It takes no bytes, and is otherwise the stream behind it."""

    def __init__(self, stream: TextIO) -> None:
        self.behind = stream

    def write(self, text: str) -> int:
        return self.behind.write(visible(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.behind.writelines(map(visible, lines))

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.behind, name)


def show_hidden_characters() -> None:
    """Let everything that this process prints from now on pass a VisibleStream. A second call changes nothing."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, VisibleStream):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # for terminals without Unicode
            setattr(sys, name, VisibleStream(stream))
    sys.excepthook = _print_exception


def _print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback without the colours that newer versions of Python add on a terminal."""
    sys.stderr.write("".join(traceback.format_exception(kind, error, trace)))
