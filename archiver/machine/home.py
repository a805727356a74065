"""Paths of Archiver's state: ``$ARCHIVER_HOME``, or ``archiver`` in the XDG data folder. No function creates them."""

from __future__ import annotations

import os
from pathlib import Path

from archiver.values.errors import ResultsError, UsageError


def archiver_home() -> Path:
    """Return the folder of all state."""
    explicit = os.environ.get("ARCHIVER_HOME")
    if explicit:
        return Path(explicit).expanduser().resolve()
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(data).expanduser() / "archiver"


def store_dir() -> Path:
    """Return the folder of the embedded store."""
    return archiver_home() / "store"


def runs_dir() -> Path:
    """Return the folder that has one folder for each run."""
    return archiver_home() / "runs"


def find_run(run: str) -> Path:
    """Return the path of a run named by id, folder, file or `latest`.

    Raises UsageError for an unknown name, and ResultsError if there is no latest run.
    """
    if run == "latest":
        folders = sorted(path for path in runs_dir().glob("*") if path.is_dir())
        if not folders:
            raise ResultsError(f"{runs_dir()}: has no runs yet; make one with: archiver run dr550 --quick")
        return folders[-1]
    found = next((path for path in (Path(run), runs_dir() / run) if path.exists()), None)
    if found is None:
        raise UsageError(f"{run}: no such run, here or in {runs_dir()}; name its id, its folder, or `latest`")
    return found


def ledger_path() -> Path:
    """Return the path of the ledger."""
    return archiver_home() / "ledger.db"
