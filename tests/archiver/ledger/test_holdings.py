"""Test holdings: the state and amounts of ledger rows and the cost of keeping them, against sums by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archiver.ledger.holdings import GB_BYTES, MONTH_SECONDS, Holding, HoldingState, gather, total
from archiver.ledger.ledger import Placement

NOW = 1_800_000_000.0
PLACEMENT = Placement(
    run="run-1",
    phase="archive",
    backend="s3",
    platform=None,
    endpoint="http://127.0.0.1:9000",
    region="us-east-1",
    bucket="archiver-run-1",
    bucket_created=True,
    prefix="run-1/",
    retention_mode="GOVERNANCE",
    latest_retain_until=NOW + 300,
    legal_hold=False,
    objects_max=1000,
    bytes_max=8_192_000,
    objects=10,
    bytes=81_920,
    id=1,
    written_at=NOW - 100,
)
LOCKED = PLACEMENT
PAST = replace(PLACEMENT, latest_retain_until=NOW - 1)
FREE = replace(PLACEMENT, latest_retain_until=None, retention_mode="none")
HELD = replace(FREE, legal_hold=True)
EMPTY = replace(HELD, phase="prepare", objects_max=0, bytes_max=0, objects=0, bytes=0)


def never_ended(placement: Placement) -> Placement:
    return replace(placement, objects=None, bytes=None)


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ((LOCKED,), HoldingState.LOCKED),
        ((PAST,), HoldingState.EXPIRED),
        ((FREE,), HoldingState.EXPIRED),
        ((HELD,), HoldingState.HELD),
        ((EMPTY,), HoldingState.EXPIRED),  # a placement without objects locks nothing
        ((EMPTY, LOCKED), HoldingState.LOCKED),
        ((PAST, LOCKED), HoldingState.LOCKED),
        ((LOCKED, HELD), HoldingState.HELD),
        ((replace(PAST, legal_hold=True),), HoldingState.HELD),
        ((never_ended(LOCKED),), HoldingState.UNKNOWN),
        ((never_ended(HELD),), HoldingState.UNKNOWN),
        ((PAST, never_ended(LOCKED)), HoldingState.UNKNOWN),
        ((LOCKED, never_ended(LOCKED)), HoldingState.LOCKED),
        ((never_ended(PAST),), HoldingState.EXPIRED),  # the amount is unknown, but nothing is locked
        ((replace(PLACEMENT, latest_retain_until=NOW),), HoldingState.EXPIRED),  # a lock ends at its date
    ],
)
def test_holding_state_follows_from_dates_holds_and_counts(rows: tuple[Placement, ...], state: HoldingState) -> None:
    assert Holding(rows).state(NOW) is state
    assert Holding(rows).may_be_locked(NOW) is (state is not HoldingState.EXPIRED)


def test_holding_has_expired_when_all_its_dates_are_past() -> None:
    assert Holding((replace(PAST, legal_hold=True),)).has_expired(NOW)
    assert Holding((FREE,)).has_expired(NOW)
    assert not Holding((PAST, LOCKED)).has_expired(NOW)
    assert not Holding((never_ended(LOCKED),)).has_expired(NOW)


def test_amounts_are_upper_bounds_if_a_phase_never_ended() -> None:
    counted = Holding((EMPTY, PLACEMENT, PLACEMENT))
    assert (counted.objects, counted.bytes, counted.exact) == (20, 163_840, True)
    bound = Holding((PLACEMENT, never_ended(PLACEMENT)))
    assert (bound.objects, bound.bytes, bound.exact) == (1010, 8_273_920, False)


def test_modes_and_locked_until_ignore_empty_placements() -> None:
    later = replace(EMPTY, latest_retain_until=NOW + 9999)
    holding = Holding((later, PLACEMENT, FREE))
    assert holding.modes == ("GOVERNANCE", "none")
    assert holding.locked_until == NOW + 300
    assert Holding((FREE,)).locked_until is None
    assert Holding((EMPTY,)).modes == ("none",)


def test_a_run_has_a_holding_for_each_place_ordered_by_date() -> None:
    def row(**changes: Any) -> Placement:
        return replace(PLACEMENT, **changes)

    found = gather(
        [
            row(run="run-2", bucket="b", written_at=NOW - 10),
            row(run="run-1", bucket="a", written_at=NOW - 30),
            row(run="run-2", bucket="b", written_at=NOW - 5, phase="second"),
            row(run="run-2", bucket="c", written_at=NOW - 20),
            row(run="run-2", bucket="b", endpoint="http://other:1", written_at=NOW - 1),
        ]
    )
    assert [(each.first.run, each.first.bucket, len(each.placements)) for each in found] == [
        ("run-1", "a", 1), ("run-2", "c", 1), ("run-2", "b", 2), ("run-2", "b", 1),
    ]  # fmt: skip


def test_platform_started_by_archiver_is_one_holding_on_any_port() -> None:
    first = replace(PLACEMENT, platform="minio")
    assert len(gather([first, replace(first, endpoint="http://127.0.0.1:9001")])) == 1


def test_gb_months_count_each_phase_until_its_own_date() -> None:
    month = replace(PLACEMENT, bytes=3 * GB_BYTES, latest_retain_until=NOW + MONTH_SECONDS)
    half = replace(PLACEMENT, bytes=GB_BYTES, latest_retain_until=NOW + MONTH_SECONDS / 2)
    past = replace(PLACEMENT, bytes=50 * GB_BYTES, latest_retain_until=NOW - MONTH_SECONDS)
    holding = Holding((month, half, past, replace(FREE, bytes=GB_BYTES)))
    assert holding.gb_months(NOW) == pytest.approx(3.5)
    assert holding.gb == 55
    assert Holding((month, HELD)).gb_months(NOW) is None
    assert pytest.approx(30.4375 * 86_400) == MONTH_SECONDS


def test_totals_are_sums_of_the_holdings() -> None:
    holdings = [Holding((LOCKED,)), Holding((FREE, PAST)), Holding((never_ended(LOCKED),))]
    found = total(holdings)
    assert (found.holdings, found.objects, found.bytes) == (3, 10 + 20 + 1000, 81_920 * 3 + 8_192_000)
    assert (found.exact, found.locked_until) == (False, NOW + 300)
    assert total([]).locked_until is None
    assert total([]).exact
