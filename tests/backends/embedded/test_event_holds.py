"""Event holds: when the period starts, and answers of the S3 server according to botocore's model of S3."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.embedded.core.changes.objects import CreateBucket, Delete, SetRetention
from backends.embedded.core.rules import locks
from backends.embedded.core.rules.locks import RELEASED, EventHold, Mode, Period, VersionLock, VersionRetention
from backends.embedded.core.rules.refusals import BadRetainUntil, NoEventHold, Retained
from backends.embedded.core.store import Store
from tests.backends.embedded.boto3_uploads import uploaded
from tests.backends.embedded.core_calls import PLENTY, content_of, put
from tests.support.examples import ALL, share_of

NOW = 1_800_000_000_000
DAY_MS = 86_400_000
G, C = Mode.GOVERNANCE, Mode.COMPLIANCE
THREE_DAYS = EventHold(Period(days=3))

periods = st.builds(Period, days=st.integers(1, locks.LONGEST_RETENTION_DAYS)) | st.builds(
    Period, years=st.integers(1, locks.LONGEST_RETENTION_YEARS)
)
dates = st.just(0) | st.integers(NOW + 1, NOW + 90 * 365 * DAY_MS)
requests = st.none() | st.builds(
    VersionRetention, st.sampled_from(Mode), dates, st.none() | st.just(RELEASED) | st.builds(EventHold, periods)
)


@settings(max_examples=share_of(3 * ALL))
@given(period=periods, waited_days=st.integers(0, 4000), date=dates)
def test_the_period_starts_at_the_release(period: Period, waited_days: int, date: int) -> None:
    held = locks.changed_retention(None, VersionRetention(C, date, EventHold(period)), NOW, bypass=False)
    assert held is not None
    released_ms = NOW + waited_days * DAY_MS
    after = locks.changed_retention(held, VersionRetention(C, event_hold=RELEASED), released_ms, bypass=False)
    assert after == VersionRetention(C, max(date, period.after(released_ms)), RELEASED)
    assert after.ends_ms(released_ms + 10 * DAY_MS) == after.until_ms  # the date is fixed now


@settings(max_examples=share_of(5 * ALL))
@given(steps=st.lists(st.tuples(st.integers(0, 50 * DAY_MS), requests), max_size=8))
def test_no_request_brings_a_compliance_date_forward(steps: list[tuple[int, VersionRetention | None]]) -> None:
    current: VersionRetention | None = VersionRetention(C, 0, THREE_DAYS)
    now_ms = NOW
    for waited_ms, wanted in steps:
        now_ms += waited_ms
        if current is None or now_ms >= current.ends_ms(now_ms):
            return  # It expired, so any change is allowed.
        before_ms = current.ends_ms(now_ms)
        try:
            current = locks.changed_retention(current, wanted, now_ms, bypass=True)
        except (Retained, BadRetainUntil, NoEventHold):
            continue
        assert current is not None
        assert current.mode is C
        assert current.ends_ms(now_ms) >= before_ms


@pytest.mark.parametrize("mode", Mode)
def test_a_held_version_is_not_deleted_however_long_the_hold_lasts(mode: Mode) -> None:
    lock = VersionLock(VersionRetention(mode, event_hold=THREE_DAYS))
    for years in (0, 1, 500):
        with pytest.raises(Retained):
            locks.check_delete(lock, NOW + years * 365 * DAY_MS, bypass=False)
    if mode is G:
        locks.check_delete(lock, NOW, bypass=True)


@pytest.mark.parametrize(
    ("current", "wanted", "bypass", "expected"),
    [
        # A shorter period does not bring the date forward.
        (
            VersionRetention(G, 0, THREE_DAYS),
            VersionRetention(G, 0, EventHold(Period(days=1))),
            False,
            VersionRetention(G, NOW + 3 * DAY_MS, EventHold(Period(days=1))),
        ),
        # A caller that bypasses GOVERNANCE may shorten it.
        (
            VersionRetention(G, 0, THREE_DAYS),
            VersionRetention(G, 0, EventHold(Period(days=1))),
            True,
            VersionRetention(G, 0, EventHold(Period(days=1))),
        ),
        # A hold on a retained version keeps its date.
        (
            VersionRetention(C, NOW + 9 * DAY_MS),
            VersionRetention(C, 0, THREE_DAYS),
            False,
            VersionRetention(C, NOW + 9 * DAY_MS, THREE_DAYS),
        ),
        # A request that names no event hold leaves it as it is.
        (
            VersionRetention(C, 0, THREE_DAYS),
            VersionRetention(C, NOW + 9 * DAY_MS),
            False,
            VersionRetention(C, NOW + 9 * DAY_MS, THREE_DAYS),
        ),
        (VersionRetention(C, 0, THREE_DAYS), VersionRetention(G, 0, THREE_DAYS), True, None),
        (VersionRetention(C, 0, THREE_DAYS), None, True, None),
        (VersionRetention(G, 0, THREE_DAYS), None, False, None),
        (VersionRetention(G, 0, THREE_DAYS), VersionRetention(C, 0, THREE_DAYS), False, None),
    ],
)
def test_change_of_an_event_hold_follows_mode_and_bypass(
    current: VersionRetention, wanted: VersionRetention | None, bypass: bool, expected: VersionRetention | None
) -> None:
    if expected is None:
        with pytest.raises(Retained):
            locks.changed_retention(current, wanted, NOW, bypass=bypass)
    else:
        assert locks.changed_retention(current, wanted, NOW, bypass=bypass) == expected


async def test_a_released_version_can_be_deleted_after_its_period_and_not_before(data_dir: Path) -> None:
    seconds = [1_800_000_000.0]

    def opened() -> Store:
        return Store.open(
            data_dir, wall_seconds=lambda: seconds[0], elapsed_seconds=lambda: seconds[0], free_bytes=lambda: PLENTY
        )

    store = opened()
    await store.change(CreateBucket("b", object_lock=True))
    stored = await store.put(put("k", b"contract", VersionLock(VersionRetention(C, event_hold=THREE_DAYS))))
    delete = Delete("b", "k", stored.version_id, bypass=True)
    seconds[0] += 1000 * 86_400.0
    store.close()
    store = opened()  # the hold is in the catalogue, not in memory
    with pytest.raises(Retained):
        await store.change(delete)
    await store.change(SetRetention("b", "k", stored.version_id, VersionRetention(C, event_hold=RELEASED), False))
    seconds[0] += 3 * 86_400.0 - 1.0
    with pytest.raises(Retained):
        await store.change(delete)
    assert await content_of(store, "k") == b"contract"
    seconds[0] += 1.0
    await store.change(delete)
    store.close()


# Over HTTP, with botocore's client: its model names every header and element.


def days_from_now(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def assert_ends_in(answer_date: datetime, days: float) -> None:
    assert abs(answer_date - days_from_now(days)) < timedelta(minutes=10)


def retention(s3: Any, bucket: str, key: str = "k") -> dict[str, Any]:
    answer: dict[str, Any] = s3.get_object_retention(Bucket=bucket, Key=key)["Retention"]
    return answer


def put_held(s3: Any, bucket: str, **lock: Any) -> None:
    arguments = {"ObjectLockMode": "GOVERNANCE", "ObjectLockEventHold": "ON", **lock}
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ChecksumAlgorithm="CRC32C", **arguments)


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ClientError) as raised:
        call()
    answer = raised.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def upload_multipart(s3: Any, bucket: str, **lock: Any) -> None:
    uploaded(s3, bucket, [b"x"], **lock)


def copy(s3: Any, bucket: str, **lock: Any) -> None:
    s3.put_object(Bucket=bucket, Key="source", Body=b"x")
    s3.copy_object(Bucket=bucket, Key="k", CopySource=f"{bucket}/source", **lock)


def upload_whole(s3: Any, bucket: str, **lock: Any) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ChecksumAlgorithm="CRC32C", **lock)


@pytest.mark.parametrize("upload", [upload_whole, upload_multipart, copy])
@pytest.mark.parametrize("period", [{"Days": 30}, {"Years": 7}])
def test_an_upload_places_a_hold_that_every_read_shows(
    s3: Any, bucket: str, upload: Callable[..., None], period: dict[str, int]
) -> None:
    ((unit, number),) = period.items()
    named = {f"ObjectLockEventHoldDuration{unit}": number}
    upload(s3, bucket, ObjectLockMode="GOVERNANCE", ObjectLockEventHold="ON", **named)
    days = number if unit == "Days" else number * 365.25
    for read in (s3.head_object, s3.get_object):
        answer = read(Bucket=bucket, Key="k")
        assert (answer["ObjectLockMode"], answer["ObjectLockEventHold"]) == ("GOVERNANCE", "ON")
        assert {key: value for key, value in answer.items() if "HoldDuration" in key} == named
        assert abs(answer["ObjectLockRetainUntilDate"] - days_from_now(days)) < timedelta(days=2)
    shown = retention(s3, bucket)
    assert (shown["Mode"], shown["EventHold"], shown["EventHoldDuration"]) == ("GOVERNANCE", "ON", period)


def test_a_release_starts_the_period_and_is_shown(s3: Any, bucket: str) -> None:
    put_held(s3, bucket, ObjectLockEventHoldDurationDays=2)
    version = s3.head_object(Bucket=bucket, Key="k")["VersionId"]
    s3.put_object_retention(Bucket=bucket, Key="k", Retention={"Mode": "GOVERNANCE", "EventHold": "OFF"})
    shown = retention(s3, bucket)
    assert shown["EventHold"] == "OFF"
    assert "EventHoldDuration" not in shown
    assert_ends_in(shown["RetainUntilDate"], 2)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["ObjectLockEventHold"] == "OFF"
    assert not [key for key in head if "HoldDuration" in key]  # "Only returned when the event hold is enabled."
    assert refusal(lambda: s3.delete_object(Bucket=bucket, Key="k", VersionId=version)) == (403, "AccessDenied")
    s3.delete_object(Bucket=bucket, Key="k", VersionId=version, BypassGovernanceRetention=True)


def test_a_release_with_a_later_date_keeps_the_version_until_then(s3: Any, bucket: str) -> None:
    put_held(s3, bucket, ObjectLockEventHoldDurationDays=2)
    wanted = {"Mode": "GOVERNANCE", "EventHold": "OFF", "RetainUntilDate": days_from_now(9)}
    s3.put_object_retention(Bucket=bucket, Key="k", Retention=wanted)
    assert_ends_in(retention(s3, bucket)["RetainUntilDate"], 9)


def test_an_existing_version_gets_a_hold(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    hold = {"Mode": "COMPLIANCE", "EventHold": "ON", "EventHoldDuration": {"Days": 1}}
    s3.put_object_retention(Bucket=bucket, Key="k", Retention=hold)
    version = s3.head_object(Bucket=bucket, Key="k")["VersionId"]
    delete = {"Bucket": bucket, "Key": "k", "VersionId": version, "BypassGovernanceRetention": True}
    assert refusal(lambda: s3.delete_object(**delete)) == (403, "AccessDenied")
    assert refusal(lambda: s3.put_object_retention(
        Bucket=bucket, Key="k", Retention={}, BypassGovernanceRetention=True
    )) == (403, "AccessDenied")  # fmt: skip


@pytest.mark.parametrize("retention_days", [None, 5])
def test_a_bucket_places_a_hold_on_new_objects(s3: Any, bucket: str, retention_days: int | None) -> None:
    rule: dict[str, Any] = {"Mode": "GOVERNANCE", "DefaultEventHold": {"Days": 1}}
    if retention_days is not None:
        rule["Days"] = retention_days
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": rule}}
    s3.put_object_lock_configuration(Bucket=bucket, ObjectLockConfiguration=configuration)
    assert s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"] == configuration
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ChecksumAlgorithm="CRC32C")
    shown = retention(s3, bucket)
    assert (shown["EventHold"], shown["EventHoldDuration"]) == ("ON", {"Days": 1})
    assert_ends_in(shown["RetainUntilDate"], retention_days or 1)
    own = {"ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": days_from_now(3)}
    s3.put_object(Bucket=bucket, Key="own", Body=b"x", ChecksumAlgorithm="CRC32C", **own)
    assert "EventHold" not in retention(s3, bucket, "own")  # a request's own lock replaces the bucket's


@pytest.mark.parametrize(
    "lock",
    [
        {"ObjectLockEventHold": "ON", "ObjectLockEventHoldDurationDays": 1},  # no mode
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockEventHold": "ON"},  # no duration
        {
            "ObjectLockMode": "GOVERNANCE",
            "ObjectLockEventHold": "ON",
            "ObjectLockEventHoldDurationDays": 1,
            "ObjectLockEventHoldDurationYears": 1,
        },
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockEventHoldDurationDays": 1},  # no status
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockEventHold": "OFF"},  # no date
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockEventHold": "OFF", "ObjectLockEventHoldDurationDays": 1},
        {"ObjectLockMode": "GOVERNANCE", "ObjectLockEventHold": "MAYBE", "ObjectLockEventHoldDurationDays": 1},
        *(
            {"ObjectLockMode": "GOVERNANCE", "ObjectLockEventHold": "ON", f"ObjectLockEventHoldDuration{unit}": number}
            for unit, number in (("Days", 0), ("Days", 36_501), ("Days", -1), ("Years", 0), ("Years", 101))
        ),
    ],
)
def test_an_upload_with_an_impossible_hold_is_refused(s3: Any, bucket: str, lock: dict[str, Any]) -> None:
    status, _ = refusal(lambda: upload_whole(s3, bucket, **lock))
    assert status == 400
    assert s3.list_object_versions(Bucket=bucket).get("Versions", []) == []


@pytest.mark.parametrize(
    "wanted",
    [
        {"EventHold": "ON", "EventHoldDuration": {"Days": 1}},
        {"Mode": "GOVERNANCE", "EventHold": "ON"},
        {"Mode": "GOVERNANCE", "EventHold": "ON", "EventHoldDuration": {}},
        {"Mode": "GOVERNANCE", "EventHold": "ON", "EventHoldDuration": {"Days": 1, "Years": 1}},
        {"Mode": "GOVERNANCE", "EventHoldDuration": {"Days": 1}},
        {"Mode": "GOVERNANCE", "EventHold": "OFF", "EventHoldDuration": {"Days": 1}},
        {"Mode": "GOVERNANCE", "EventHold": "OFF"},  # of a version that has no hold
        {"Mode": "GOVERNANCE", "EventHold": "on", "EventHoldDuration": {"Days": 1}},
        {"Mode": "GOVERNANCE", "EventHold": "ON", "EventHoldDuration": {"Days": 0}},
    ],
)
def test_a_retention_with_an_impossible_hold_is_refused(s3: Any, bucket: str, wanted: dict[str, Any]) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    status, _ = refusal(lambda: s3.put_object_retention(Bucket=bucket, Key="k", Retention=wanted))
    assert status == 400
    assert "ObjectLockMode" not in s3.head_object(Bucket=bucket, Key="k")


def test_a_credential_without_the_right_to_retention_cannot_release_a_hold(
    s3: Any, bucket: str, as_credential: Callable[[str], Any]
) -> None:
    put_held(s3, bucket, ObjectLockEventHoldDurationDays=1)
    limited = as_credential("no-retention")
    release = {"Mode": "GOVERNANCE", "EventHold": "OFF"}
    call = limited.put_object_retention
    assert refusal(lambda: call(Bucket=bucket, Key="k", Retention=release)) == (403, "AccessDenied")
    assert retention(s3, bucket)["EventHold"] == "ON"
