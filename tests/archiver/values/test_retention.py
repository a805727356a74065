"""Test the guards and the computation of dates: no object is locked longer than the user agreed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import SafetyRefused, UsageError
from archiver.values.retention import (
    PHASE_SECONDS_MAX,
    DateMaker,
    Guards,
    Lock,
    Retention,
    RetentionMode,
    RetentionWish,
    check,
    latest_date,
)
from archiver.values.sizes import format_instant

NOW = 1_800_000_000.25  # the server's clock
G, C, NONE = RetentionMode.GOVERNANCE, RetentionMode.COMPLIANCE, RetentionMode.NONE
CLASS = RetentionMode.CLASS


def retain(mode: RetentionMode, seconds: float | None = 300.0, until: float | None = None) -> Retention:
    return Retention(mode, None if until is not None else seconds, until)


@pytest.mark.parametrize(
    ("retention", "guards", "locked_bytes", "refusal"),
    [
        (retain(G), {}, 10**9, None),
        (retain(G, 3600), {}, 10**9, None),
        (retain(G, 3601), {}, 10**9, "--max-retain"),
        (retain(G, 10 * 365 * 86400), {}, 10**9, "--max-retain"),
        (retain(G, 7200), {"max_retain_seconds": 7200}, 10**9, None),
        (retain(G, until=NOW + 3600), {}, 10**9, None),
        (retain(G, until=NOW + 3601), {}, 10**9, "--max-retain"),
        (retain(G, until=NOW), {}, 10**9, "not in the future"),
        (retain(G, until=NOW - 1), {}, 10**9, "not in the future"),
        (retain(G, 0), {}, 10**9, "not in the future"),
        (retain(G), {}, 40 * 10**9, None),
        (retain(G), {}, 40 * 10**9 + 1, "--max-locked-bytes"),
        (retain(G), {"max_locked_bytes": 5}, 6, "--max-locked-bytes"),
        (retain(C), {}, 10**9, "--accept-locked-until"),  # COMPLIANCE locks cannot be removed: consent is required
        (retain(C), {}, 10**9, f"--accept-locked-until {format_instant(NOW + 300 + PHASE_SECONDS_MAX)}"),
        (retain(C, until=NOW + 60), {}, 10**9, f"until {format_instant(NOW + 60)}; "),
        (retain(C, until=NOW + 60), {}, 10**9, f"--accept-locked-until {format_instant(NOW + 60)}"),
        (retain(C), {"accept_locked_until": NOW + 299}, 10**9, "--accept-locked-until"),
        (retain(C), {"accept_locked_until": NOW + 300}, 10**9, None),
        (retain(C, until=NOW + 60), {"accept_locked_until": NOW + 59}, 10**9, "--accept-locked-until"),
        (retain(C, until=NOW + 60), {"accept_locked_until": NOW + 60}, 10**9, None),
        (retain(C, 3601), {"accept_locked_until": NOW + 10**6}, 10**9, "--max-retain"),  # other guards still apply
        (retain(C), {"accept_locked_until": NOW + 300}, 41 * 10**9, "--max-locked-bytes"),
        (retain(NONE, None), {}, 10**15, None),  # no object is locked
        (Retention(NONE, None, legal_hold=True), {}, 10**9, None),
        (Retention(NONE, None, legal_hold=True), {}, 41 * 10**9, "--max-locked-bytes"),  # a legal hold locks, too
        (Retention(G, 300.0, event_hold_days=1), {}, 10**9, "--max-retain"),  # a day of retention after the release
        (Retention(G, 300.0, event_hold_days=2), {"max_retain_seconds": 86400}, 10**9, "for 2d after the release"),
        (Retention(G, 300.0, event_hold_days=1), {"max_retain_seconds": 86400}, 10**9, None),
        (
            Retention(C, 300.0, event_hold_days=1),
            {"max_retain_seconds": 86400, "accept_locked_until": NOW + 10**9},
            10**9,
            "mode COMPLIANCE",
        ),
        (Retention(NONE, None, event_hold_days=1), {"max_retain_seconds": 86400}, 10**9, "needs a mode"),
        (retain(CLASS, 3600), {}, 10**9, None),
        (retain(CLASS, 0), {}, 10**9, None),  # a class may have no retention period
        (retain(CLASS, 86400), {}, 10**9, "--max-retain"),
        (retain(CLASS, 86400), {}, 10**9, "--management-class"),
        (retain(CLASS, 86400), {"max_retain_seconds": 86400}, 10**9, None),
        (retain(CLASS, 300), {}, 41 * 10**9, "--max-locked-bytes"),
    ],
)
def test_guards_refuse_locks_beyond_their_limits(
    retention: Retention, guards: dict[str, Any], locked_bytes: int, refusal: str | None
) -> None:
    if refusal is None:
        check(retention, Guards(**guards), locked_bytes, NOW)
    else:
        with pytest.raises(SafetyRefused, match=refusal):
            check(retention, Guards(**guards), locked_bytes, NOW)


@pytest.mark.parametrize(
    ("wish", "retention"),
    [
        (RetentionWish(), Retention(G, 300.0)),
        (RetentionWish(C), Retention(C, 300.0)),
        (RetentionWish(G, 60.0, event_hold_days=3), Retention(G, 60.0, event_hold_days=3)),
        (RetentionWish(C, 60.0), Retention(C, 60.0)),
        (RetentionWish(retain_until=NOW), Retention(G, None, NOW)),
        (RetentionWish(NONE, 60.0, legal_hold=True), Retention(NONE, None, legal_hold=True)),
        (RetentionWish(NONE, retain_until=NOW), Retention(NONE, None, None)),
    ],
)
def test_unset_retention_wishes_take_the_defaults(wish: RetentionWish, retention: Retention) -> None:
    assert wish.resolved(G) == retention


@pytest.mark.parametrize(
    ("lock", "retain_for_seconds", "days"),
    [
        (None, None, 3),
        (Lock.HEADER, None, 3),
        (Lock.HEADER_AND_HOLD, None, 3),
        (Lock.SEPARATE, None, None),  # the archive request has no lock headers
        (Lock.BUCKET_DEFAULT, None, None),
        (Lock.NONE, None, None),
        (None, 10.0, None),  # the object must expire during the run
    ],
)
def test_event_holds_are_placed_by_headers_only_on_objects_that_stay(
    lock: Lock | None, retain_for_seconds: float | None, days: int | None
) -> None:
    held = Retention(G, 300.0, event_hold_days=3)
    assert held.locked_by(lock, retain_for_seconds).event_hold_days == days
    by_operation = replace(held, event_hold_by_operation=True).locked_by(lock, retain_for_seconds)
    assert by_operation == replace(held.locked_by(lock, retain_for_seconds), event_hold_days=None)


def test_guard_refusal_is_a_usage_error() -> None:
    assert issubclass(SafetyRefused, UsageError)
    assert SafetyRefused.exit_status == 2


@pytest.mark.parametrize(
    ("retention", "accept_until", "latest"),
    [
        (retain(NONE, None), None, None),
        (retain(G, until=NOW + 60), None, NOW + 60),
        (retain(G, 300), None, int(NOW + 300 + PHASE_SECONDS_MAX)),
        (retain(C, 300), NOW + 10**6, int(NOW + 300 + PHASE_SECONDS_MAX)),
        (retain(C, 300), NOW + 400, NOW + 400),  # never later than the agreed date
        (retain(CLASS, 300), None, int(NOW + 300 + PHASE_SECONDS_MAX)),
        (replace(retain(CLASS, 300), late_seconds=60), None, int(NOW + 360 + PHASE_SECONDS_MAX)),
        (retain(G, 300), NOW + 400, int(NOW + 300 + PHASE_SECONDS_MAX)),  # the consent applies only to COMPLIANCE
    ],
)
def test_latest_date_of_a_phase_is_bounded_by_retention_and_consent(
    retention: Retention, accept_until: float | None, latest: float | None
) -> None:
    assert latest_date(retention, Guards(accept_locked_until=accept_until), NOW) == latest


instants = st.floats(1.6e9, 4e9, allow_nan=False)


@given(instants, st.floats(1, 3600), st.floats(0, 10 * 86400), st.sampled_from([G, C]), st.floats(0, 7200))
def test_retain_until_date_is_never_later_than_the_latest_date(
    start: float, seconds: float, later: float, mode: RetentionMode, accepted_after: float
) -> None:
    retention, guards = retain(mode, seconds), Guards(accept_locked_until=start + accepted_after)
    latest = latest_date(retention, guards, start)
    assert latest is not None
    date = DateMaker(retention, latest).retain_until(start + later)
    assert isinstance(date, int)  # whole seconds: some servers refuse fractions
    assert date <= latest
    assert date <= start + later + seconds
    if mode is C:
        assert date <= start + accepted_after


@given(instants, st.floats(0, PHASE_SECONDS_MAX - 1), st.floats(1, 3600))
def test_retain_until_date_is_server_time_plus_retention_period(start: float, later: float, seconds: float) -> None:
    retention = retain(G, seconds)
    latest = latest_date(retention, Guards(), start)
    assert latest is not None
    assert DateMaker(retention, latest).retain_until(start + later) == int(start + later + seconds)


@given(instants, instants)
def test_fixed_retain_until_date_does_not_depend_on_the_clock(now: float, until: float) -> None:
    retention = retain(C, until=until)
    latest = latest_date(retention, Guards(), now)
    assert latest == until
    assert DateMaker(retention, until).retain_until(now) == int(until) <= until
