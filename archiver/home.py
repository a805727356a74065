"""Where Archiver keeps its state: ``$ARCHIVER_HOME``, or ``archiver`` in the XDG data folder. Creates nothing."""

from __future__ import annotations

import os
from pathlib import Path


def archiver_home() -> Path:
    """The folder of all state."""
    explicit = os.environ.get("ARCHIVER_HOME")
    if explicit:
        return Path(explicit).expanduser().resolve()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "archiver"


def store_dir() -> Path:
    """The embedded store."""
    return archiver_home() / "store"


def runs_dir() -> Path:
    """One folder per run."""
    return archiver_home() / "runs"


def ledger_path() -> Path:
    """The one ledger over all runs."""
    return archiver_home() / "ledger.db"
