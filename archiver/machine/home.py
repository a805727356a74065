"""Where Archiver keeps its state: ``$ARCHIVER_HOME``, or ``archiver`` in the XDG data folder. Creates nothing."""

from __future__ import annotations

import os
from pathlib import Path

from archiver.values.errors import ResultsError


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


def find_run(run: str) -> Path:
    """The path of a run named by id, folder, file, or `latest`. Raises ResultsError where there is no latest."""
    if run == "latest":
        folders = sorted(path for path in runs_dir().glob("*") if path.is_dir())
        if not folders:
            raise ResultsError(f"{runs_dir()}: there is no run yet; make one with: archiver run dr550 --quick")
        return folders[-1]
    given = Path(run)
    return given if given.exists() else runs_dir() / run


def ledger_path() -> Path:
    """The one ledger over all runs."""
    return archiver_home() / "ledger.db"
