"""Backends: our code that speaks one protocol to a platform, one file or folder per protocol.

``load(name)`` finds a backend among the entry points of the group ``archiver.backends``, so that third parties add
theirs by installing a package.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import cast

from archiver.values.errors import UsageError
from backends.base import Backend

GROUP = "archiver.backends"


def names() -> list[str]:
    """The installed backends."""
    return sorted(point.name for point in entry_points(group=GROUP))


def load(name: str) -> type[Backend]:
    """The backend class of that name. Raises UsageError listing the installed ones."""
    for point in entry_points(group=GROUP, name=name):
        return cast(type[Backend], point.load())
    raise UsageError(f"no backend named {name!r} is installed; there are: {', '.join(names())}")
