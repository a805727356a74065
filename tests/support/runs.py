"""Options of small runs, clients and keys of their stores, and access to what runs leave behind."""

from __future__ import annotations

import functools
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import boto3
import botocore.loaders
import botocore.session

from backends.embedded.process import StoreProcess

_SHORT_WARM_UP = ("--set", "stop.warm_up_seconds=20ms")
TINY = (
    "--quick", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2", "--set", "clients=1",
    "--set", "stop.seconds_min=20ms", "--set", "stop.seconds_max=40ms", *_SHORT_WARM_UP,
)  # fmt: skip

TINY_LOCK_COST = (
    "--legal-hold", "--quick", "--order", "paper", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2",
    "--set", "stop.seconds_min=20ms", "--set", "stop.seconds_max=50ms", "--set", "expiring.retain_for=2s",
    *_SHORT_WARM_UP,
)  # fmt: skip


# Six phases: four archive (the third repeats the first cell, for drift), and two retrieve.
SIX_PHASES = (
    "run", "dr550", "--quick", "--order", "paper", "--set", "object_sizes=8KiB", "--set", "objects_per_session=2",
    "--set", "archive.objects_per_session=1,2", "--set", "archive.drift_check=true", "--set", "clients=1",
    "--set", "stop.seconds_min=20ms", "--set", "stop.seconds_max=40ms", "--retain-for", "20s", *_SHORT_WARM_UP,
)  # fmt: skip

PHASE_TABLES = (
    "phase", "result", "interval", "histogram", "object_range", "object_change", "error", "worker", "criterion",
)  # fmt: skip


def keys_of(store: StoreProcess, name: str = "default") -> dict[str, str]:
    """Return one credential of the store, as environment variables."""
    credential = store.credentials[name]
    return {"AWS_ACCESS_KEY_ID": credential.access_key, "AWS_SECRET_ACCESS_KEY": credential.secret_key}


@functools.cache
def _loader() -> botocore.loaders.Loader:
    """Return botocore's descriptions of services. They are cached: reading them takes 0.1 s for each client."""
    return botocore.loaders.create_loader()


def s3(store: StoreProcess) -> Any:
    """Return a boto3 client with the keys of the store's owner."""
    session = botocore.session.Session()
    session.register_component("data_loader", _loader())
    return boto3.session.Session(botocore_session=session).client(
        "s3",
        endpoint_url=store.endpoint,
        region_name="us-east-1",
        aws_access_key_id=store.access_key,
        aws_secret_access_key=store.secret_key,
    )


def left_in(home: Path) -> list[sqlite3.Row]:
    """Return the ledger's rows of objects that were not removed. The list is empty until the ledger has its tables."""
    if not (home / "ledger.db").exists():
        return []
    with sqlite3.connect(home / "ledger.db") as db:
        db.row_factory = sqlite3.Row
        has_tables = db.execute("SELECT 1 FROM sqlite_schema WHERE name = 'placement'").fetchone()
        rows = db.execute("SELECT * FROM placement WHERE removed_at IS NULL").fetchall() if has_tables else []
    db.close()
    return rows


def ask(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Return rows of a database that another process writes. The list is empty until the database exists."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            return db.execute(statement).fetchall()
    except sqlite3.OperationalError:
        return []


def shorten(home: Path, before: str, after: str) -> None:
    """Replace a time in the recorded scenario of the only run, so that the resumed run takes less time.

    A run that a test interrupts has a phase of one hour: even on a slow machine it cannot end before the signal.
    """
    (path,) = home.glob("runs/*/run.db")
    with closing(sqlite3.connect(path)) as db, db:
        statement = "UPDATE run SET scenario_json = replace(scenario_json, json_quote(?), json_quote(?))"
        db.execute(statement, (before, after))


def break_off(home: Path, position: int) -> None:
    """Change the record of the only run, which has ended, as if the run had been killed in this phase."""
    (path,) = home.glob("runs/*/run.db")
    with closing(sqlite3.connect(path)) as db, db:
        for table in PHASE_TABLES:
            db.execute(f"DELETE FROM {table} WHERE position >= ?", (position,))
        db.execute("UPDATE run SET verdict = NULL, ended_at = NULL")


def verdict_of_missed(document: dict[str, Any]) -> str:
    """Return the expected verdict of a run that missed a criterion.

    It is "void" if the client, or other programs, were the limit in each phase that missed one, otherwise "fail".
    """
    missed = {each["position"] for each in document["criteria"] if not each["passed"]}
    limited = {each["position"] for each in document["results"] if each["limited_by"] in ("client", "host cpu")}
    assert missed
    return "fail" if missed - limited else "void"


def begun(runs: Path) -> int:
    """Return how many phases of the only run in a folder have begun."""
    return sum(len(ask(path, "SELECT position FROM begun")) for path in runs.glob("*/run.db"))
