"""What may be deleted and what a lock may become: the tables of Amazon's answers, without a server."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from backends.embedded.core.rules import locks
from backends.embedded.core.rules.locks import DefaultRetention, Lock, Mode, Retention
from backends.embedded.core.rules.refusals import BadRetainUntil, LegallyHeld, Refusal, Retained

NOW = 1_800_000_000_000
SOON = NOW + 60_000
LATER = NOW + 120_000
G, C = Mode.GOVERNANCE, Mode.COMPLIANCE


@pytest.mark.parametrize(
    ("lock", "bypass", "refusal"),
    [
        (Lock(), False, None),
        (Lock(Retention(G, SOON)), False, Retained),
        (Lock(Retention(G, SOON)), True, None),
        (Lock(Retention(C, SOON)), False, Retained),
        (Lock(Retention(C, SOON)), True, Retained),  # nobody bypasses COMPLIANCE
        (Lock(Retention(G, NOW + 1)), False, Retained),  # refused while now < until ...
        (Lock(Retention(G, NOW)), False, None),  # ... and not at the instant itself
        (Lock(Retention(C, NOW)), False, None),
        (Lock(Retention(C, NOW - 1)), False, None),
        (Lock(legal_hold=True), False, LegallyHeld),
        (Lock(legal_hold=True), True, LegallyHeld),  # no bypass lifts a hold
        (Lock(legal_hold=False), False, None),
        (Lock(Retention(C, NOW - 1), legal_hold=True), True, LegallyHeld),  # nor does a date
        (Lock(Retention(G, SOON), legal_hold=True), True, LegallyHeld),
        (Lock(Retention(G, SOON), legal_hold=False), False, Retained),
    ],
)
def test_delete_of_a_version(lock: Lock, bypass: bool, refusal: type[Refusal] | None) -> None:
    if refusal is None:
        locks.check_delete(lock, NOW, bypass=bypass)
    else:
        with pytest.raises(refusal):
            locks.check_delete(lock, NOW, bypass=bypass)


@pytest.mark.parametrize(
    ("current", "wanted", "without_bypass", "with_bypass"),
    [
        (None, Retention(G, SOON), "allowed", "allowed"),
        (None, Retention(C, SOON), "allowed", "allowed"),
        (Retention(G, SOON), Retention(G, LATER), "allowed", "allowed"),
        (Retention(C, SOON), Retention(C, LATER), "allowed", "allowed"),
        (Retention(G, SOON), Retention(G, SOON), "allowed", "allowed"),  # sent again
        (Retention(C, SOON), Retention(C, SOON), "allowed", "allowed"),
        (Retention(G, LATER), Retention(G, SOON), "refused", "allowed"),
        (Retention(G, LATER), Retention(G, LATER - 1), "refused", "allowed"),
        (Retention(G, SOON), None, "refused", "allowed"),
        (Retention(G, SOON), Retention(C, SOON), "refused", "allowed"),  # a change of mode, not an extension
        (Retention(G, SOON), Retention(C, LATER), "refused", "allowed"),
        (Retention(C, LATER), Retention(C, SOON), "refused", "refused"),
        (Retention(C, SOON), Retention(G, LATER), "refused", "refused"),
        (Retention(C, SOON), None, "refused", "refused"),
        (Retention(C, NOW), Retention(G, SOON), "allowed", "allowed"),  # what has passed may become anything
        (Retention(C, NOW), None, "allowed", "allowed"),
        (Retention(G, NOW - 1), None, "allowed", "allowed"),
    ],
)
def test_change_of_retention(
    current: Retention | None, wanted: Retention | None, without_bypass: str, with_bypass: str
) -> None:
    for bypass, expected in ((False, without_bypass), (True, with_bypass)):
        if expected == "allowed":
            locks.check_retention_change(current, wanted, NOW, bypass=bypass)
        else:
            with pytest.raises(Retained):
                locks.check_retention_change(current, wanted, NOW, bypass=bypass)


@pytest.mark.parametrize("until_ms", [NOW, NOW - 1, 0, NOW + 101 * 366 * 86_400_000])
def test_a_lock_begins_in_the_future_and_ends_within_a_hundred_years(until_ms: int) -> None:
    with pytest.raises(BadRetainUntil):
        locks.check_new_retention(Retention(G, until_ms), NOW)
    with pytest.raises(BadRetainUntil):
        locks.check_retention_change(None, Retention(G, until_ms), NOW, bypass=True)


@pytest.mark.parametrize(
    ("created", "default", "until"),
    [
        ("2026-11-21T10:00:00.250Z", DefaultRetention(G, days=1), "2026-11-22T10:00:00.250Z"),
        ("2026-11-21T10:00:00.250Z", DefaultRetention(C, years=1), "2027-11-21T10:00:00.250Z"),
        ("2028-02-28T10:00:00.000Z", DefaultRetention(C, days=365), "2029-02-27T10:00:00.000Z"),
        ("2028-02-29T10:00:00.000Z", DefaultRetention(C, years=1), "2029-03-01T10:00:00.000Z"),
        ("2028-02-29T10:00:00.000Z", DefaultRetention(C, years=4), "2032-02-29T10:00:00.000Z"),
    ],
)
def test_default_retention_counts_from_creation(created: str, default: DefaultRetention, until: str) -> None:
    retention = default.starting(_milliseconds(created))
    assert retention == Retention(default.mode, _milliseconds(until))


def _milliseconds(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
