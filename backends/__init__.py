"""Backends: our code for each protocol, one file or folder for each.

``load(name)`` finds a backend among the entry points of the group ``archiver.backends``, so installing a package adds
third-party backends.
"""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from typing import cast

from archiver.values.errors import UsageError
from backends.base import Backend

GROUP = "archiver.backends"


def names() -> list[str]:
    """Return the names of the installed backends."""
    return sorted(point.name for point in entry_points(group=GROUP))


@functools.cache  # the search reads the metadata of every installed package
def load(name: str) -> type[Backend]:
    """Return the backend class of that name. Raises UsageError with a list of the installed ones."""
    for point in entry_points(group=GROUP, name=name):
        return cast(type[Backend], point.load())
    raise UsageError(f"no backend named {name!r} is installed; there are: {', '.join(names())}")
