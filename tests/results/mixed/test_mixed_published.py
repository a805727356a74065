"""The values read from ESG's reports agree with the values and totals that the reports print."""

from __future__ import annotations

import pytest

from results.mixed.published import (
    ds5020,
    email_limits_ms,
    guidelines,
    mailbox_rates,
    sizing_class,
    small_latency_limit_ms,
    storwize_v7000,
)
from results.reference.esg_peaks import published_peaks


def test_published_mailbox_rates_and_latency_limits() -> None:
    assert mailbox_rates() == {8192: 0.5, 32768: 0.12}
    assert email_limits_ms() == (20, 5)
    assert small_latency_limit_ms() == 10


def test_published_mailboxes_are_operations_divided_by_mailbox_rate() -> None:
    for line in ds5020().email:
        assert line.operations_per_second is not None
        assert line.mailboxes == line.operations_per_second / mailbox_rates()[8192]
    assert [line.tiles for line in ds5020().email] == [1, 2, 3, 4]


def test_published_totals_are_sums_of_their_tables() -> None:
    """Elsewhere the reports print 3,593 and 4,144 for the small rate, and 4,551 for the web rate."""
    study = ds5020()
    *tiles, whole = study.database
    assert whole.small_per_second == sum(line.small_per_second for line in tiles) == 3539
    assert whole.large_megabytes_per_second == sum(line.large_megabytes_per_second for line in tiles) == 433
    *webs, web = study.web_scan
    assert web.web_per_second == sum(line.web_per_second for line in webs) == 3317
    assert web.scan_mebibytes_per_second == sum(line.scan_mebibytes_per_second or 0 for line in webs) == 374


def test_published_rates_per_drive_follow_from_published_totals() -> None:
    known = guidelines()
    assert (known.email.per_disk, known.database_small.per_disk, known.database_large.per_disk) == (100, 30, 20)
    for guideline, total in ((known.email, 4340), (known.database_small, 3539)):
        assert guideline.drives is not None
        assert guideline.measured_per_drive == total // guideline.drives


def test_v7000_results_are_of_four_tiles_and_in_mebibytes() -> None:
    """The V7000 ran sixteen virtual machines. Iometer measured the backup; its MB are MiB, as in the DS5020 report."""
    study = storwize_v7000()
    assert study.tiles == 4
    assert [(line.tiles, line.mailboxes) for line in study.email] == [(1, 29417), (4, 54208)]
    assert all(line.operations_per_second is None for line in study.email)
    assert study.web_scan[0].scan_mebibytes_per_second == 644


def test_peaks_are_those_that_the_reports_print() -> None:
    ds5020_peaks, v7000_peaks = published_peaks()
    assert (ds5020_peaks.reads_gigabytes_per_second, ds5020_peaks.reads_from_cache_percent) == (3.1, 42)
    assert (v7000_peaks.reads_gigabytes_per_second, v7000_peaks.reads_from_cache_percent) == (2.98, None)
    assert [each.mixed_gigabytes_per_second for each in published_peaks()] == [1.21, 1.9]
    assert [each.tiles for each in published_peaks()] == [4, 4]
    assert (ds5020_peaks.operations_per_second_peak, ds5020_peaks.operations_per_second_steady) == (19046, 12688)
    assert (v7000_peaks.operations_per_second_peak, v7000_peaks.operations_per_second_steady) == (20343, None)


@pytest.mark.parametrize(
    ("small", "large", "expected"),
    [
        (999, 5000, "below low"), (1000, 200, "low"), (5000, 599, "low"), (5015, 849, "medium"), (10000, 1000, "high"),
        (None, 200, ""), (3539, 433, "low"),
    ],
)  # fmt: skip
def test_a_class_is_reached_by_both_rates(small: float | None, large: float | None, expected: str) -> None:
    assert sizing_class(small, large) == expected


@pytest.mark.parametrize("study", [ds5020(), storwize_v7000()], ids=lambda study: study.name)
def test_published_study_names_esg_as_source(study: object) -> None:
    assert str(getattr(study, "name", "")).startswith("ESG")
    assert "ESG Lab" in str(getattr(study, "source", ""))
