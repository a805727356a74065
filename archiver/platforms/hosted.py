"""A store that runs on this host, as the engine sees it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol


class HostedStore(Protocol):
    """A store that runs on this host: what can be watched, measured and dropped from memory."""

    @property
    def platform(self) -> str:
        """The name by which Archiver can start it again."""

    @property
    def pid(self) -> int:
        """Its process."""

    @property
    def data_dir(self) -> Path:
        """The folder that holds its data."""

    @property
    def endpoint(self) -> str:
        """Its address."""

    def data_files(self) -> Sequence[Path]:
        """The files that hold objects."""

    def disk_roles(self) -> Mapping[str, str]:
        """What it keeps on which disk: device -> object, catalogue."""
