"""The ledger: what may be out there is on disk before it happens, and stays known until it is gone."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from archiver.errors import ResultsError
from archiver.ledger import Ledger, Placement

PLACEMENT = Placement(
    run="run-1",
    phase="archive 8KiB x 25, 1 client",
    backend="s3",
    platform=None,
    endpoint="http://127.0.0.1:9000",
    region="us-east-1",
    bucket="archiver-run-1",
    bucket_created=True,
    prefix="run-1/",
    retention_mode="GOVERNANCE",
    latest_retain_until=1_800_000_300.0,
    legal_hold=False,
    objects_max=1000,
    bytes_max=8_192_000,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "ledger.db"


def placements(path: Path, run: str = "run-1") -> list[Placement]:
    """What somebody else reads at this moment."""
    ledger = Ledger(path)
    try:
        return ledger.placements(run)
    finally:
        ledger.close()


def test_a_bound_is_on_disk_when_the_call_returns(path: Path) -> None:
    ledger = Ledger(path)
    ledger.open_placement(PLACEMENT)
    assert placements(path) == [PLACEMENT]  # the first one is still open, as it is when a run is killed
    ledger.close()


def test_the_ledger_is_written_with_full_sync(path: Path) -> None:
    ledger = Ledger(path)
    assert ledger._db.execute("PRAGMA synchronous").fetchone()[0] == 2
    ledger.close()


def test_exact_counts_replace_the_bound_when_a_phase_ends(path: Path) -> None:
    ledger = Ledger(path)
    first = ledger.open_placement(PLACEMENT)
    ledger.open_placement(replace(PLACEMENT, phase="killed"))
    ledger.close_placement(first, 750, 6_144_000)
    ledger.close()
    assert placements(path) == [
        replace(PLACEMENT, objects=750, bytes=6_144_000),
        replace(PLACEMENT, phase="killed"),  # still open: list the prefix
    ]


@pytest.mark.parametrize(
    "other",
    [
        replace(PLACEMENT, platform="embedded"),
        replace(PLACEMENT, bucket_created=False),
        replace(PLACEMENT, legal_hold=True, retention_mode="none", latest_retain_until=None),
    ],
)
def test_every_column_comes_back_as_it_was(path: Path, other: Placement) -> None:
    ledger = Ledger(path)
    ledger.open_placement(other)
    ledger.close()
    assert placements(path) == [other]


def test_what_was_removed_is_listed_no_more_but_still_known(path: Path) -> None:
    ledger = Ledger(path)
    for run in ("run-1", "run-2"):
        ledger.open_placement(replace(PLACEMENT, run=run))
    ledger.mark_removed("run-1", PLACEMENT.bucket)
    assert ledger.placements("run-1") == []
    assert ledger.knows("run-1")
    assert ledger.placements("run-2") == [replace(PLACEMENT, run="run-2")]
    assert not ledger.knows("run-3")
    ledger.close()


def test_a_newer_ledger_is_refused_and_left_alone(path: Path) -> None:
    ledger = Ledger(path)
    ledger.open_placement(PLACEMENT)
    ledger._db.execute("PRAGMA user_version = 2")
    ledger.close()
    before = path.read_bytes()
    with pytest.raises(ResultsError, match=r"newer Archiver \(ledger version 2\); upgrade") as refused:
        Ledger(path)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before


def test_a_damaged_ledger_says_what_it_is_and_what_to_do(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database " * 100)
    with pytest.raises(ResultsError, match=r"the record of what is locked, cannot be read: .*; restore it") as refused:
        Ledger(path)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == b"this is no database " * 100


def test_a_ledger_whose_making_was_cut_short_is_made_whole(path: Path) -> None:
    path.parent.mkdir()
    half = sqlite3.connect(path)
    half.execute("PRAGMA user_version = 0")
    half.execute("CREATE TABLE other (id INTEGER)")
    half.commit()
    half.close()
    ledger = Ledger(path)
    ledger.open_placement(PLACEMENT)
    ledger.close()
    assert placements(path) == [PLACEMENT]
