"""Test which violation is the gravest, and what a person reads about it."""

from __future__ import annotations

import itertools

import pytest

from archiver.worm.suite import Round, result_of
from archiver.worm.verdict import CheckVerdict
from results.comparison.scorecard.verdicts import worst_words
from results.recorded.model import CheckRecord
from results.worm.findings import checks_sentence, findings_of, harm_table
from results.worm.harm import harm_words


def failed(identifier: str, severity: str | None = None) -> CheckRecord:
    return result_of(identifier, CheckVerdict.FAIL, "seen", Round.ALONE, 0.0, severity=severity).record


GRAVEST_FIRST = (
    failed("SID-06"),  # a record, by anyone
    failed("DEL-02"),  # a record, by those who may delete
    failed("RAC-01"),  # the same, in a race
    failed("SID-05"),  # a record, by an administrator
    failed("OVR-03"),  # metadata
    failed("LH-02", "S2"),  # a lock
    failed("DFT-01"),  # a lock that is missing
    failed("RET-17", "S3"),
)


@pytest.mark.parametrize("order", list(itertools.islice(itertools.permutations(GRAVEST_FIRST), 0, 40_320, 5003)))
def test_gravest_violation_comes_first(order: tuple[CheckRecord, ...]) -> None:
    assert [each.id for each in findings_of(order)] == [each.id for each in GRAVEST_FIRST]
    assert "(SID-06, DEL-02, RAC-01 ...)" in checks_sentence("store", order, None)
    assert [row[0].text for row in harm_table(order).rows] == [each.id for each in GRAVEST_FIRST[:-1]]
    assert worst_words(order).startswith("S1 SID-06: A locked record can be deleted or replaced before its date. Who: ")


def test_harm_names_what_is_lost_who_can_and_a_workaround() -> None:
    assert harm_words(failed("RAC-01")) == (
        "A locked record can be deleted or replaced before its date. Who: any client that may delete versions, with two"
        " requests at the same time. Sent by: SDKs and command lines for S3. Workaround: send the lock with the PUT"
        " that stores the record, not in a later request."
    )
    assert "only requests made by hand; no SDK sends one. No workaround is known." in harm_words(failed("DEL-11"))
    assert "a lock can be removed" in harm_words(failed("LH-02", "S2")).lower()
    assert not harm_words(failed("LH-02", "S3"))
