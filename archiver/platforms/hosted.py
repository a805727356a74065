"""The interface of a store that runs on this host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class HostedStore(Protocol):
    """A store on this host: it can be watched and measured, and its files dropped from the page cache."""

    @property
    def platform(self) -> str:
        """Return the name by which Archiver can start it again."""

    @property
    def pid(self) -> int:
        """Return its process id."""

    @property
    def data_dir(self) -> Path:
        """Return the folder of its data."""

    @property
    def endpoint(self) -> str:
        """Return its URL."""

    def data_files(self) -> Sequence[Path]:
        """Return the files that contain objects."""

    def disk_roles(self) -> Mapping[str, str]:
        """Return device -> kind of data on it: object, catalogue."""
