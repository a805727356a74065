"""Test the ledger: objects are on disk before they are archived, and remain known until they are removed."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.ledger.event_holds import EventHoldRange, EventHolds
from archiver.ledger.ledger import Ledger, NumberRange, Placement
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
    """Return the placements that another process reads at this moment."""
    ledger = Ledger(path)
    try:
        return ledger.placements(run)
    finally:
        ledger.close()


def test_a_bound_is_on_disk_when_the_call_returns(path: Path) -> None:
    ledger = Ledger(path)
    ledger.open_placement(PLACEMENT)
    assert placements(path) == [PLACEMENT]  # the first ledger is still open, as in a killed run
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
def test_every_column_is_read_back_unchanged(path: Path, other: Placement) -> None:
    ledger = Ledger(path)
    ledger.open_placement(other)
    ledger.close()
    assert placements(path) == [other]


def test_removed_run_is_not_listed_but_still_known(path: Path) -> None:
    ledger = Ledger(path)
    for run in ("run-1", "run-2"):
        ledger.open_placement(replace(PLACEMENT, run=run))
    ledger.mark_removed("run-1", PLACEMENT.bucket)
    assert ledger.placements("run-1") == []
    assert ledger.knows("run-1")
    assert ledger.placements("run-2") == [replace(PLACEMENT, run="run-2")]
    assert not ledger.knows("run-3")
    ledger.close()


@pytest.mark.parametrize("version", [1, 5, 7])
def test_ledger_of_another_version_is_refused_and_not_changed(path: Path, version: int) -> None:
    ledger = Ledger(path)
    ledger.open_placement(PLACEMENT)
    ledger._db.execute(f"PRAGMA user_version = {version}")
    ledger.close()
    before = path.read_bytes()
    words = f"has format version {version}, and this Archiver reads only 6; use the Archiver that wrote it"
    with pytest.raises(ResultsError, match=words) as refused:
        Ledger(path)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == before


def test_damaged_ledger_is_refused_with_remedy_and_not_changed(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"this is no database " * 100)
    with pytest.raises(ResultsError, match=r"the record of locked objects, cannot be used: .*; restore it") as refused:
        Ledger(path)
    assert str(path) in str(refused.value)
    assert path.read_bytes() == b"this is no database " * 100


def test_placements_written_during_a_removal_stay_known(path: Path) -> None:
    ledger = Ledger(path)
    first = ledger.open_placement(PLACEMENT)
    under_way = ledger.open_placement(replace(PLACEMENT, phase="under way"))
    ledger.open_placement(replace(PLACEMENT, phase="since then"))
    ledger.mark_rows_removed([first, under_way])
    assert [each.phase for each in ledger.placements()] == ["since then"]
    ledger.close_placement(under_way, 5, 40_960)  # that phase continued after the removal
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
    ledger.record_release([other], None)  # the date of a released legal hold stays
    assert ledger.placements()[1].locked_until == PLACEMENT.latest_retain_until
    ledger.close()


def archived(ledger: Ledger, first: int, count: int, **changes: Any) -> int:
    """Write a row of an ended phase that archived these objects."""
    row = ledger.open_placement(replace(PLACEMENT, objects_max=count, first_number=first, **changes))
    ledger.close_placement(row, count, count * 8192, [NumberRange(8192, first, first + count - 1)])
    return row


def began(ledger: Ledger, **changes: Any) -> None:
    """Write the first row of a run, which has no objects."""
    ledger.close_placement(ledger.open_placement(replace(PLACEMENT, phase="prepare", objects_max=0, **changes)), 0, 0)


def test_possible_event_holds_are_recorded_before_the_requests(path: Path) -> None:
    ledger = Ledger(path)
    began(ledger)
    archived(ledger, 0, 10)
    ledger.open_event_holds("run-1", EventHoldRange(0, 9, None), 30)
    ledger.close()  # without a result, as when the run is killed
    prepare, row = placements(path)
    assert not prepare.is_open_ended
    assert row.is_open_ended
    with closing(Ledger(path)) as ledger:
        assert [held for _, held in ledger.event_held("run-1")] == [0, 10]


def test_release_is_recorded_with_its_latest_date_before_the_request(path: Path) -> None:
    ledger = Ledger(path)
    began(ledger, event_hold_days=1)
    archived(ledger, 0, 10, event_hold_days=1)
    until = PLACEMENT.latest_retain_until or 0.0
    bound = ledger.open_event_holds("run-1", EventHoldRange(0, 9, None, None, until + 7200), None)
    assert placements(path)[1].locked_until == until + 7200
    released = EventHoldRange(0, 3, False, until + 100, until + 200)
    ledger.close_event_holds(bound, "run-1", [released], is_exact=True)
    row = ledger.placements("run-1")[1]
    assert (row.locked_until, row.is_open_ended) == (until + 200, True)  # six are still under hold
    assert [held for _, held in ledger.event_held("run-1")] == [0, 6]
    bound = ledger.open_event_holds("run-1", EventHoldRange(0, 9, None, None, until + 9000), None)
    ledger.close_event_holds(bound, "run-1", [released._replace(first=4, last=9, latest=until + 300)], is_exact=True)
    row = ledger.placements("run-1")[1]
    assert (row.locked_until, row.is_open_ended) == (until + 300, False)
    ledger.close()


def test_event_holds_stay_recorded_when_an_answer_is_missing(path: Path) -> None:
    ledger = Ledger(path)
    began(ledger)
    archived(ledger, 0, 10)
    bound = ledger.open_event_holds("run-1", EventHoldRange(0, 9, None), 1)
    ledger.close_event_holds(bound, "run-1", [EventHoldRange(0, 4, True)], is_exact=False)
    assert [state and state.is_on for _, _, state in ledger.event_holds("run-1").parts(0, 12)] == [True, None, None]
    assert [held for _, held in ledger.event_held("run-1")] == [0, 10]
    bound = ledger.open_event_holds("run-1", EventHoldRange(0, 9, None, None, 2e9), None)
    ledger.close_event_holds(bound, "run-1", [EventHoldRange(0, 4, False, 1e9, 2e9)], is_exact=True)
    assert [held for _, held in ledger.event_held("run-1")] == [0, 5]
    (row,) = (each for each in ledger.placements("run-1") if each.objects)
    assert row.id is not None
    ledger.record_release([row.id], 2e9)  # as a clean-up does
    assert [held for _, held in ledger.event_held("run-1")] == [0, 0]
    assert not any(each.is_open_ended for each in ledger.placements("run-1"))
    ledger.close()


def test_release_in_one_place_keeps_the_event_holds_of_another_place(path: Path) -> None:
    ledger = Ledger(path)
    began(ledger)
    archived(ledger, 0, 10)
    bound = ledger.open_event_holds("run-1", EventHoldRange(0, 9, None), 1)
    ledger.close_event_holds(bound, "run-1", [EventHoldRange(0, 4, True)], is_exact=True)
    copies = archived(ledger, 10, 10, bucket="second")
    ledger.record_release([copies], None)
    assert [held for _, held in ledger.event_held("run-1")] == [0, 5, 0]
    ledger.close()


def test_phase_without_event_holds_leaves_none_recorded(path: Path) -> None:
    ledger = Ledger(path)
    began(ledger)
    archived(ledger, 0, 10)
    bound = ledger.open_event_holds("run-1", EventHoldRange(0, 9, None), 1)
    ledger.close_event_holds(bound, "run-1", [], is_exact=True)
    assert not any(each.is_open_ended for each in ledger.placements("run-1"))
    ledger.close()


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from([True, False, None])), max_size=12),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_last_event_hold_record_of_an_object_applies(
    written: list[tuple[int, int, bool | None]], first: int, more: int
) -> None:
    ranges = [EventHoldRange(first, first + more, is_on) for first, more, is_on in written]
    model = {number: each for each in ranges for number in range(each.first, each.last + 1)}
    parts = list(EventHolds(ranges).parts(first, first + more))
    found = {number: state for begin, end, state in parts for number in range(begin, end + 1)}
    assert found == {number: model.get(number) for number in range(first, first + more + 1)}
    assert sum(end - begin + 1 for begin, end, _ in parts) == more + 1


def test_ledgers_made_at_once_are_one(path: Path) -> None:
    with ThreadPoolExecutor(4) as threads:
        for opened in threads.map(lambda _: Ledger(path), range(4)):
            opened.open_placement(PLACEMENT)
            opened.close()
    assert placements(path) == [PLACEMENT] * 4


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Open databases read-only, as on a read-only file system. Root could write otherwise."""
    connect = sqlite3.connect

    def opened(name: str, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(name.replace("?mode=rwc", "?mode=ro"), **options)
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


@pytest.mark.parametrize("where", ["file/in/the/way/ledger.db", "folder.db"])
def test_a_ledger_that_cannot_be_opened_names_the_remedy(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(ResultsError, match=r"cannot be opened: .*; make .*; or .* ARCHIVER_HOME"):
        Ledger(tmp_path / where)


def test_damaged_page_is_reported_when_it_is_read(path: Path) -> None:
    ledger = Ledger(path)
    for number in range(60):
        ledger.open_placement(replace(PLACEMENT, phase=f"archive {number}"))
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))  # the first pages are intact
    ledger = Ledger(path)
    for read in (ledger.placements, ledger.latest_run, lambda: ledger.placements("run-1")):
        with pytest.raises(ResultsError, match=r"the record of locked objects, cannot be used: .*; restore it"):
            read()
    ledger.close()


def test_incomplete_ledger_file_is_completed(path: Path) -> None:
    path.parent.mkdir()
    half = sqlite3.connect(path)
    half.execute("PRAGMA user_version = 0")
    half.commit()
    half.close()
    ledger = Ledger(path)
    ledger.open_placement(PLACEMENT)
    ledger.close()
    assert placements(path) == [PLACEMENT]


def test_strengthen_records_later_dates_and_holds_of_one_run(path: Path) -> None:
    ledger = Ledger(path)
    ledger.close_placement(ledger.open_placement(replace(PLACEMENT, phase="prepare", objects_max=0)), 0, 0)
    ledger.open_placement(PLACEMENT)
    ledger.open_placement(replace(PLACEMENT, phase="undated", retention_mode="none", latest_retain_until=None))
    ledger.open_placement(replace(PLACEMENT, phase="a day", latest_retain_until=1_800_086_400.0))
    ledger.open_placement(replace(PLACEMENT, run="run-2"))
    ledger.strengthen("run-1", until=1_800_001_000.0)
    later = [(each.phase, each.latest_retain_until, each.legal_hold) for each in placements(path)]
    assert later == [
        ("prepare", 1_800_000_300.0, False),  # a row without objects
        (PLACEMENT.phase, 1_800_001_000.0, False),
        ("undated", 1_800_001_000.0, False),
        ("a day", 1_800_086_400.0, False),  # a date is never moved earlier
    ]
    ledger.strengthen("run-1", legal_hold=True)
    ledger.close()
    assert [each.legal_hold for each in placements(path)] == [False, True, True, True]
    assert [each.latest_retain_until for each in placements(path)] == [until for _, until, _ in later]
    assert placements(path, "run-2") == [replace(PLACEMENT, run="run-2")]


@pytest.mark.parametrize(("known", "kept"), [(1_800_000_100.0, 1_800_000_100.0), (1_900_000_000.0, 1_800_000_300.0)])
def test_ended_phase_may_lower_its_latest_date_but_never_raise_it(path: Path, known: float, kept: float) -> None:
    ledger = Ledger(path)
    ledger.close_placement(ledger.open_placement(PLACEMENT), 10, 81920, latest_retain_until=known)
    assert [each.latest_retain_until for each in ledger.placements("run-1")] == [kept]
    ledger.close_placement(ledger.open_placement(replace(PLACEMENT, latest_retain_until=None)), 1, 1)
    assert ledger.placements("run-1")[1].latest_retain_until is None
    ledger.close()
