"""The lock rules, from tables of Amazon's answers, without a server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backends.embedded.core.rules import locks
from backends.embedded.core.rules.locks import DefaultRetention, Mode, Period, VersionLock, VersionRetention
from backends.embedded.core.rules.refusals import BadRetainUntil, LegallyHeld, Refusal, Retained

NOW = 1_800_000_000_000
SOON = NOW + 60_000
LATER = NOW + 120_000
G, C = Mode.GOVERNANCE, Mode.COMPLIANCE


@pytest.mark.parametrize(
    ("lock", "bypass", "refusal"),
    [
        (VersionLock(), False, None),
        (VersionLock(VersionRetention(G, SOON)), False, Retained),
        (VersionLock(VersionRetention(G, SOON)), True, None),
        (VersionLock(VersionRetention(C, SOON)), False, Retained),
        (VersionLock(VersionRetention(C, SOON)), True, Retained),  # COMPLIANCE cannot be bypassed
        (VersionLock(VersionRetention(G, NOW + 1)), False, Retained),  # refused while now < until
        (VersionLock(VersionRetention(G, NOW)), False, None),  # allowed at the instant itself
        (VersionLock(VersionRetention(C, NOW)), False, None),
        (VersionLock(VersionRetention(C, NOW - 1)), False, None),
        (VersionLock(legal_hold=True), False, LegallyHeld),
        (VersionLock(legal_hold=True), True, LegallyHeld),  # no bypass lifts a hold
        (VersionLock(legal_hold=False), False, None),
        (VersionLock(VersionRetention(C, NOW - 1), legal_hold=True), True, LegallyHeld),  # nor does a date
        (VersionLock(VersionRetention(G, SOON), legal_hold=True), True, LegallyHeld),
        (VersionLock(VersionRetention(G, SOON), legal_hold=False), False, Retained),
    ],
)
def test_delete_follows_retention_hold_and_bypass(
    lock: VersionLock, bypass: bool, refusal: type[Refusal] | None
) -> None:
    if refusal is None:
        locks.check_delete(lock, NOW, bypass=bypass)
    else:
        with pytest.raises(refusal):
            locks.check_delete(lock, NOW, bypass=bypass)


@pytest.mark.parametrize(
    ("current", "wanted", "without_bypass", "with_bypass"),
    [
        (None, VersionRetention(G, SOON), "allowed", "allowed"),
        (None, VersionRetention(C, SOON), "allowed", "allowed"),
        (VersionRetention(G, SOON), VersionRetention(G, LATER), "allowed", "allowed"),
        (VersionRetention(C, SOON), VersionRetention(C, LATER), "allowed", "allowed"),
        (VersionRetention(G, SOON), VersionRetention(G, SOON), "allowed", "allowed"),  # sent again
        (VersionRetention(C, SOON), VersionRetention(C, SOON), "allowed", "allowed"),
        (VersionRetention(G, LATER), VersionRetention(G, SOON), "refused", "allowed"),
        (VersionRetention(G, LATER), VersionRetention(G, LATER - 1), "refused", "allowed"),
        (VersionRetention(G, SOON), None, "refused", "allowed"),
        (
            VersionRetention(G, SOON),
            VersionRetention(C, SOON),
            "refused",
            "allowed",
        ),  # a change of mode, not an extension
        (VersionRetention(G, SOON), VersionRetention(C, LATER), "refused", "allowed"),
        (VersionRetention(C, LATER), VersionRetention(C, SOON), "refused", "refused"),
        (VersionRetention(C, SOON), VersionRetention(G, LATER), "refused", "refused"),
        (VersionRetention(C, SOON), None, "refused", "refused"),
        (
            VersionRetention(C, NOW),
            VersionRetention(G, SOON),
            "allowed",
            "allowed",
        ),  # a passed date may change to anything
        (VersionRetention(C, NOW), None, "allowed", "allowed"),
        (VersionRetention(G, NOW - 1), None, "allowed", "allowed"),
    ],
)
def test_retention_change_follows_mode_date_and_bypass(
    current: VersionRetention | None, wanted: VersionRetention | None, without_bypass: str, with_bypass: str
) -> None:
    for bypass, expected in ((False, without_bypass), (True, with_bypass)):
        if expected == "allowed":
            locks.changed_retention(current, wanted, NOW, bypass=bypass)
        else:
            with pytest.raises(Retained):
                locks.changed_retention(current, wanted, NOW, bypass=bypass)


@pytest.mark.parametrize("until_ms", [NOW, NOW - 1, 0])
def test_retain_until_date_must_be_in_the_future(until_ms: int) -> None:
    with pytest.raises(BadRetainUntil):
        locks.check_new_retention(VersionRetention(G, until_ms), NOW)
    with pytest.raises(BadRetainUntil):
        locks.changed_retention(None, VersionRetention(G, until_ms), NOW, bypass=True)


def test_date_of_one_object_may_be_more_than_a_hundred_years_away() -> None:
    far = VersionRetention(G, NOW + 201 * 366 * 86_400_000)
    assert locks.changed_retention(None, far, NOW, bypass=False) == far


@pytest.mark.parametrize(
    ("created", "default", "until"),
    [
        ("2026-11-21T10:00:00.250Z", DefaultRetention(G, Period(days=1)), "2026-11-22T10:00:00.250Z"),
        ("2026-11-21T10:00:00.250Z", DefaultRetention(C, Period(years=1)), "2027-11-21T10:00:00.250Z"),
        ("2028-02-28T10:00:00.000Z", DefaultRetention(C, Period(days=365)), "2029-02-27T10:00:00.000Z"),
        ("2028-02-29T10:00:00.000Z", DefaultRetention(C, Period(years=1)), "2029-03-01T10:00:00.000Z"),
        ("2028-02-29T10:00:00.000Z", DefaultRetention(C, Period(years=4)), "2032-02-29T10:00:00.000Z"),
    ],
)
def test_default_retention_counts_from_creation(created: str, default: DefaultRetention, until: str) -> None:
    retention = default.starting(_milliseconds(created))
    assert retention == VersionRetention(default.mode, _milliseconds(until))


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
