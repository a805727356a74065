"""Request counts of client and server: equal counts agree, and differences are reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from archiver.measure.histogram import part_of
from results.measures.requests import RequestCount, request_counts, request_differences
from results.recorded.database import HistogramRow, IntervalRow
from results.recorded.model import FirstError, Result
from results.recorded.resources import SampleRow
from results.recorded.run import RecordedRun
from tests.results.watched_run import BOOT, PLATFORM, SECOND, phase_record, sample, ten_seconds, two_phases

MakeResult = Callable[..., Result]
MakeRun = Callable[..., RecordedRun]
END_NS = BOOT + 9 * SECOND


def counts(recorded: RecordedRun) -> dict[str, RequestCount]:
    return {each.operation: each for each in request_counts(recorded, recorded.timelines)}


@pytest.fixture
def watched_run(make_run: MakeRun, make_result: MakeResult) -> Callable[..., RecordedRun]:
    """Return a function that makes a run with these samples: 1,000 objects archived and 1,000 retrieved in 40 sessions
    each.
    """

    def make(samples: list[SampleRow], **record: Any) -> RecordedRun:
        return make_run(two_phases(make_result(), make_result("retrieve", position=2)), samples, **record)

    return make


def with_heads(samples: list[SampleRow], heads: int, **more: float) -> list[SampleRow]:
    """Return samples in which the server also counted HeadBucket, and ``more``, by the end of the last phase."""

    def added(each: SampleRow) -> SampleRow:
        if each.source != "minio" or each.monotonic_ns < END_NS:
            return each
        return replace(each, reading={"requests": {**each.reading["requests"], "HeadBucket": heads, **more}})

    return [added(each) for each in samples]


def test_equal_counts_of_client_and_server_agree(watched_run: Callable[..., RecordedRun]) -> None:
    database = watched_run(with_heads(ten_seconds(), 80, HeadObject=1))
    assert [(each.operation, each.counted, each.sent, each.difference) for each in counts(database).values()] == [
        ("PutObject", 1000, 1000, 0),
        ("GetObject", 1000, 1000, 0),
        ("HeadBucket", 80, 80, 0),
        ("HeadObject", 1, None, None),
    ]
    assert request_differences(database) == []


def test_sent_count_includes_warm_up_drain_and_failed_requests(make_run: MakeRun, make_result: MakeResult) -> None:
    rows = [
        IntervalRow(0, "archive", "warm-up", 1, 10, 0, 10, 0),
        IntervalRow(1, "archive", "measured", 1, 8, 0, 12, 2),  # two failed, two needed two attempts
        IntervalRow(2, "archive", "drain", 1, 3, 0, 3, 0),
    ]
    database = make_run([phase_record(1, make_result(), 1, 4, intervals=rows)], ten_seconds(archived=25, retrieved=0))
    assert counts(database)["PutObject"] == RequestCount("PutObject", 25, 25)


@pytest.mark.parametrize(
    ("archived", "doubt"),
    [
        (1000, None),
        (1003, "the server counted 1,003 PutObject, 3 more than the 1,000 that were sent: another client used"),
        (999, "the server counted 999 PutObject, 1 fewer than the 1,000 that were sent: another node or a proxy"),
    ],
)
def test_request_count_difference_is_reported(
    watched_run: Callable[..., RecordedRun], archived: int, doubt: str | None
) -> None:
    found = request_differences(watched_run(with_heads(ten_seconds(archived=archived), 80)))
    assert len(found) == (doubt is not None)
    assert all(sentence.startswith(str(doubt)) for sentence in found)


def test_request_type_missing_on_server_differs_by_full_count(watched_run: Callable[..., RecordedRun]) -> None:
    (missing,) = request_differences(watched_run(ten_seconds()))  # no HeadBucket
    assert missing.startswith("the server counted 0 HeadBucket, 80 fewer than the 80 that were sent")


@pytest.mark.parametrize(
    "settings",
    [
        {"session_kind": "kept", "session_open": "head-bucket"},  # one opening for many sessions
        {"session_kind": "opened", "session_open": "connect"},  # opening sends no request
    ],
)
def test_opening_requests_of_unknown_number_are_not_compared(
    watched_run: Callable[..., RecordedRun], settings: dict[str, str]
) -> None:
    database = watched_run(with_heads(ten_seconds(), 80), settings=settings)
    assert counts(database)["HeadBucket"].sent is None


def test_opening_requests_are_not_compared_after_failure(make_run: MakeRun, make_result: MakeResult) -> None:
    lost = FirstError("open", "read timeout", 1, "", "", "")
    database = make_run([phase_record(1, make_result(), 1, 9, errors=[lost])], with_heads(ten_seconds(), 80))
    assert counts(database)["HeadBucket"].sent is None
    assert counts(database)["PutObject"].sent == 1000


@pytest.mark.parametrize(
    ("failed", "retries", "sent"),
    [
        (False, 0, 1000),
        (True, 0, None),  # for failed objects no lock was requested
        (False, 3, None),  # retries of the two requests are not counted separately
    ],
)
def test_separate_lock_requests_are_counted_only_when_exact(
    make_run: MakeRun, make_result: MakeResult, failed: bool, retries: int, sent: int | None
) -> None:
    lost = [FirstError("archive", "503 SlowDown", 1, "", "", "")] if failed else []
    platform = replace(PLATFORM, details={"retries": retries})
    archive = make_result(lock="separate", variant="lock separate")
    samples = with_heads(ten_seconds(), 40, PutObjectRetention=1000)
    database = make_run([phase_record(1, archive, 1, 9, errors=lost)], samples, platform=platform)
    assert counts(database)["PutObject"].sent == 1000
    found = counts(database)["PutObjectRetention"]
    assert (found.counted, found.sent) == (1000, sent)


def test_lock_configuration_requests_count_as_openings(watched_run: Callable[..., RecordedRun]) -> None:
    settings = {"session_kind": "opened", "session_open": "lock-config"}
    database = watched_run(with_heads(ten_seconds(), 0, GetBucketObjectLockConfig=80), settings=settings)
    assert counts(database)["GetBucketObjectLockConfig"].difference == 0


def test_tsm_server_counts_are_compared(watched_run: Callable[..., RecordedRun]) -> None:
    samples = with_heads(ten_seconds(0, 0), 0, **{"TSM OBJECT": 1000, "TSM GET": 999, "TSM HELLO": 81})
    database = watched_run(samples, platform=replace(PLATFORM, protocol="tsm"), settings={"session_open": "sign-on"})
    assert [(name, each.sent, each.difference) for name, each in counts(database).items()] == [
        ("TSM OBJECT", 1000, 0),
        ("TSM GET", 1000, -1),
        ("TSM HELLO", None, None),
    ]


def test_counts_of_unknown_protocol_are_not_compared(watched_run: Callable[..., RecordedRun]) -> None:
    database = watched_run(ten_seconds(), platform=replace(PLATFORM, protocol="none"))
    assert [each.sent for each in counts(database).values()] == [None, None]


@pytest.mark.parametrize(
    ("first", "last"),
    [(2, 10), (0, 8)],  # sampling began after the first phase; sampling ended before the last request
)
def test_server_not_sampled_over_whole_run_is_not_compared(
    watched_run: Callable[..., RecordedRun], first: int, last: int
) -> None:
    kept = [each for each in ten_seconds() if first * SECOND <= each.monotonic_ns - BOOT <= last * SECOND]
    assert counts(watched_run(kept)) == {}


def test_no_counts_without_server_samples_or_phases(watched_run: Callable[..., RecordedRun], make_run: MakeRun) -> None:
    assert counts(watched_run([each for each in ten_seconds() if each.source != "minio"])) == {}
    assert counts(make_run([], ten_seconds())) == {}


def test_counts_before_server_restart_are_kept(watched_run: Callable[..., RecordedRun]) -> None:
    restarted = ten_seconds()
    for place, each in enumerate(restarted):
        if each.source == "minio" and each.monotonic_ns >= BOOT + 5 * SECOND:
            gets = each.reading["requests"]["GetObject"]
            restarted[place] = replace(each, reading={"requests": {"GetObject": gets}})
    assert counts(watched_run(restarted))["PutObject"].counted == 1000


def test_first_byte_shares_are_compared_at_bounds_of_server(make_run: MakeRun, make_result: MakeResult) -> None:
    """The server answered 990 of 1,000 requests within 50 ms; the client received 970 first bytes within 50 ms."""
    values = np.array([40_000_000] * 970 + [70_000_000] * 30, dtype=np.int64)
    part = part_of(values)
    row = HistogramRow(
        "archive", "first_byte", part.total_ns, part.max_ns, part.indices.tobytes(), part.counts.tobytes()
    )
    phase = phase_record(1, make_result(), 1, 4, histograms=[row])
    seen = {"PutObject 0.01": 500, "PutObject 0.05": 990, "PutObject 0.1": 1000, "PutObject inf": 1000, "Other 0.01": 9}
    samples = [
        sample("minio", 0, requests={"PutObject": 0}, first_byte_requests=dict.fromkeys(seen, 0)),
        sample("minio", 1, requests={"PutObject": 0}, first_byte_requests=dict.fromkeys(seen, 0)),
        sample("minio", 4, requests={"PutObject": 1000}, first_byte_requests=seen),
    ]
    found = counts(make_run([phase], samples))["PutObject"]
    assert (found.first_byte_seconds_max, found.server_first_byte_share) == (0.05, 0.99)
    assert found.client_first_byte_share == 0.97
    assert found.document()["difference"] == 0


@pytest.mark.parametrize("value_ns", [0, 1, 1023, 1024, 2047, 2048, 50_000_000, 3_600_000_000_000])
def test_histogram_indices_agree_with_hdr_histogram(make_run: MakeRun, make_result: MakeResult, value_ns: int) -> None:
    part = part_of(np.array([value_ns], dtype=np.int64))
    row = HistogramRow("archive", "first_byte", 0, 0, part.indices.tobytes(), part.counts.tobytes())
    least = HdrHistogram(1, 24 * 3600 * 10**9, 3).get_value_from_index(int(part.indices[0])) / 1e9
    shares = []
    for bound in (least * (1 - 1e-9) - 1e-12, least):  # just below, and just within
        seen = {f"PutObject {bound:.15g}": 1000}
        samples = [
            sample("minio", 1, requests={"PutObject": 0}, first_byte_requests=dict.fromkeys(seen, 0)),
            sample("minio", 4, requests={"PutObject": 1000}, first_byte_requests=seen),
        ]
        database = make_run([phase_record(1, make_result(), 1, 4, histograms=[row])], samples)
        shares.append(counts(database)["PutObject"].client_first_byte_share)
    assert shares == [0.0, 1.0]


def test_requests_of_interrupted_phase_are_not_compared(watched_run: Callable[..., RecordedRun]) -> None:
    samples = [
        each if each.source != "minio" or each.monotonic_ns <= END_NS else replace(
            each, reading={"requests": {name: count + 99 for name, count in each.reading["requests"].items()}}
        )
        for each in ten_seconds()
    ]  # fmt: skip
    assert counts(watched_run(samples, phases_planned=3))["PutObject"].difference == 0
    assert counts(watched_run(samples, phases_planned=2))["PutObject"].difference == 99


def test_total_of_all_requests_is_not_compared(make_run: MakeRun, make_result: MakeResult) -> None:
    samples = [sample("ceph", second, requests=5000.0 + second) for second in range(6)]
    assert request_differences(make_run([phase_record(1, make_result(), 1, 3)], samples)) == []
