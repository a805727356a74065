"""What is read from ESG's reports, beside what they print themselves."""

from __future__ import annotations

import pytest

from results.mixed.published import (
    ds5020,
    email_limits_ms,
    guidelines,
    mailbox_rates,
    small_latency_limit_ms,
    storwize_v7000,
)


def test_what_a_mailbox_asks_for_and_how_long_it_may_take() -> None:
    assert mailbox_rates() == {8192: 0.5, 32768: 0.12}
    assert email_limits_ms() == (20, 5)
    assert small_latency_limit_ms() == 10


def test_printed_users_are_operations_over_those_of_a_mailbox() -> None:
    for line in ds5020().email:
        assert line.operations_per_second is not None
        assert line.mailboxes == line.operations_per_second / mailbox_rates()[8192]
    assert [line.tiles for line in ds5020().email] == [1, 2, 3, 4]


def test_only_totals_that_are_the_sum_of_their_table_are_taken() -> None:
    """The reports print 3,593 and 4,144 elsewhere for the small rate, and 4,551 for the web's."""
    study = ds5020()
    *tiles, whole = study.database
    assert whole.small_per_second == sum(line.small_per_second for line in tiles) == 3539
    assert whole.large_megabytes_per_second == sum(line.large_megabytes_per_second for line in tiles) == 433
    *webs, web = study.web_scan
    assert web.web_per_second == sum(line.web_per_second for line in webs) == 3317
    assert web.scan_mebibytes_per_second == sum(line.scan_mebibytes_per_second or 0 for line in webs) == 374


def test_rates_per_drive_follow_from_the_printed_totals() -> None:
    known = guidelines()
    assert (known.email.per_disk, known.database_small.per_disk, known.database_large.per_disk) == (100, 30, 20)
    for guideline, total in ((known.email, 4340), (known.database_small, 3539)):
        assert guideline.drives is not None
        assert guideline.measured_per_drive == total // guideline.drives


def test_what_our_copy_does_not_say_of_the_v7000_is_not_made_up() -> None:
    study = storwize_v7000()
    assert study.tiles is None
    assert [(line.tiles, line.mailboxes) for line in study.email] == [(1, 29417), (4, 54208)]
    assert all(line.operations_per_second is None for line in study.email)
    assert study.web_scan[0].scan_mebibytes_per_second is None
    assert study.web_scan[0].scan_as_printed == 644


@pytest.mark.parametrize("study", [ds5020(), storwize_v7000()], ids=lambda study: study.name)
def test_a_published_study_says_whose_it_is(study: object) -> None:
    assert str(getattr(study, "name", "")).startswith("ESG")
    assert "ESG Lab" in str(getattr(study, "source", ""))
