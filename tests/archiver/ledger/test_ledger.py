"""The ledger: what may be out there is on disk before it happens, and stays known until it is gone."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from archiver.ledger.ledger import Ledger, Placement
from archiver.values.errors import ResultsError

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
    ledger._db.execute("PRAGMA user_version = 5")
    ledger.close()
    before = path.read_bytes()
    with pytest.raises(ResultsError, match=r"newer Archiver \(ledger version 5\); upgrade") as refused:
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


def test_what_is_written_while_something_is_removed_stays_known(path: Path) -> None:
    ledger = Ledger(path)
    first = ledger.open_placement(PLACEMENT)
    under_way = ledger.open_placement(replace(PLACEMENT, phase="under way"))
    ledger.open_placement(replace(PLACEMENT, phase="since then"))
    ledger.mark_rows_removed([first, under_way])
    assert [each.phase for each in ledger.placements()] == ["since then"]
    ledger.close_placement(under_way, 5, 40_960)  # that phase went on after the removal
    ledger.close()
    assert [(each.phase, each.objects) for each in placements(path)] == [("under way", 5), ("since then", None)]


def test_an_event_hold_has_no_end_until_its_release_is_recorded(path: Path) -> None:
    ledger = Ledger(path)
    row = ledger.open_placement(replace(PLACEMENT, event_hold_days=30))
    other = ledger.open_placement(replace(PLACEMENT, legal_hold=True))
    assert [each.is_open_ended for each in ledger.placements()] == [True, True]
    assert PLACEMENT.latest_retain_until is not None
    until = PLACEMENT.latest_retain_until + 30 * 86_400
    ledger.record_release([row], until)
    released, held = ledger.placements()
    assert (released.is_held, released.locked_until) == (False, until)
    assert held.is_held
    ledger.record_release([other], None)  # the date of a released legal hold stays as it was
    assert ledger.placements()[1].locked_until == PLACEMENT.latest_retain_until
    ledger.close()


# What version 1 had, and no more.
VERSION_1 = """
CREATE TABLE placement (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL, phase TEXT NOT NULL, backend TEXT NOT NULL, platform TEXT,
    endpoint TEXT NOT NULL, region TEXT NOT NULL, bucket TEXT NOT NULL, bucket_created INTEGER NOT NULL,
    prefix TEXT NOT NULL, retention_mode TEXT NOT NULL, latest_retain_until REAL, legal_hold INTEGER NOT NULL,
    objects_max INTEGER NOT NULL, bytes_max INTEGER NOT NULL, objects INTEGER, bytes INTEGER,
    written_at REAL NOT NULL, removed_at REAL
);
INSERT INTO placement VALUES (1, 'run-1', 'archive', 's3', NULL, 'http://h:1', 'us-east-1', 'b', 1, 'run-1/',
    'GOVERNANCE', 1800000300.0, 0, 10, 81920, 5, 40960, 1700000000.0, NULL);
PRAGMA user_version = 1;
"""


def write_version_1(path: Path) -> None:
    path.parent.mkdir()
    old = sqlite3.connect(path)
    old.executescript(VERSION_1)
    old.close()


def test_a_ledger_of_version_1_is_brought_up_to_date_with_all_it_knows(path: Path) -> None:
    write_version_1(path)
    (row,) = placements(path)
    assert (row.run, row.objects, row.bytes, row.written_at) == ("run-1", 5, 40960, 1_700_000_000.0)
    assert (row.content_seed, row.first_number, row.earliest_retain_until) == (None, 0, None)
    assert (row.seen_mode, row.seen_until, row.seen_hold) == (None, None, False)


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a file system that takes no writes, which root would otherwise be free to do."""
    connect = sqlite3.connect

    def opened(path: Path, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(f"{path.as_uri()}?mode=ro", uri=True, **options)
        return connection

    monkeypatch.setattr(sqlite3, "connect", opened)


def test_a_ledger_that_cannot_be_written_is_read_and_refuses_removal(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(path)
    ledger.open_placement(PLACEMENT)
    ledger.check_writable()
    ledger.close()
    read_only(monkeypatch)
    assert placements(path) == [PLACEMENT]
    ledger = Ledger(path)
    with pytest.raises(ResultsError, match=r"ledger\.db, .* cannot be written: .*; nothing was removed"):
        ledger.check_writable()
    ledger.close()


def test_an_old_ledger_that_cannot_be_written_says_why_it_cannot_be_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_version_1(path)
    read_only(monkeypatch)
    with pytest.raises(ResultsError, match=r"written by an older Archiver, .*; make it yours to write"):
        Ledger(path)


@pytest.mark.parametrize("where", ["file/in/the/way/ledger.db", "folder.db"])
def test_a_ledger_that_cannot_be_opened_names_the_remedy(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(
        ResultsError, match=r"cannot be opened: .*; make its folder yours to write, or .* ARCHIVER_HOME"
    ):
        Ledger(tmp_path / where)


def test_a_page_that_is_damaged_later_on_is_no_traceback(path: Path) -> None:
    ledger = Ledger(path)
    for number in range(60):
        ledger.open_placement(replace(PLACEMENT, phase=f"archive {number}"))
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))  # what makes it a database is intact
    ledger = Ledger(path)
    for read in (ledger.placements, ledger.latest_run, lambda: ledger.placements("run-1")):
        with pytest.raises(ResultsError, match=r"the record of what is locked, cannot be read: .*; restore it"):
            read()
    ledger.close()


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


def test_what_is_extended_or_held_later_is_known_before_it_happens(path: Path) -> None:
    ledger = Ledger(path)
    ledger.close_placement(ledger.open_placement(replace(PLACEMENT, phase="prepare", objects_max=0)), 0, 0)
    ledger.open_placement(PLACEMENT)
    ledger.open_placement(replace(PLACEMENT, phase="undated", retention_mode="none", latest_retain_until=None))
    ledger.open_placement(replace(PLACEMENT, phase="a day", latest_retain_until=1_800_086_400.0))
    ledger.open_placement(replace(PLACEMENT, run="run-2"))
    ledger.strengthen("run-1", until=1_800_001_000.0)
    later = [(each.phase, each.latest_retain_until, each.legal_hold) for each in placements(path)]
    assert later == [
        ("prepare", 1_800_000_300.0, False),  # of no object
        (PLACEMENT.phase, 1_800_001_000.0, False),
        ("undated", 1_800_001_000.0, False),
        ("a day", 1_800_086_400.0, False),  # never sooner than it was
    ]
    ledger.strengthen("run-1", legal_hold=True)
    ledger.close()
    assert [each.legal_hold for each in placements(path)] == [False, True, True, True]
    assert [each.latest_retain_until for each in placements(path)] == [until for _, until, _ in later]
    assert placements(path, "run-2") == [replace(PLACEMENT, run="run-2")]


@pytest.mark.parametrize(("known", "kept"), [(1_800_000_100.0, 1_800_000_100.0), (1_900_000_000.0, 1_800_000_300.0)])
def test_a_phase_that_ended_may_know_its_latest_date_better_but_never_later(
    path: Path, known: float, kept: float
) -> None:
    ledger = Ledger(path)
    ledger.close_placement(ledger.open_placement(PLACEMENT), 10, 81920, latest_retain_until=known)
    assert [each.latest_retain_until for each in ledger.placements("run-1")] == [kept]
    ledger.close_placement(ledger.open_placement(replace(PLACEMENT, latest_retain_until=None)), 1, 1)
    assert ledger.placements("run-1")[1].latest_retain_until is None
    ledger.close()
