"""Management classes: their retention periods, and that no class becomes weaker."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import UsageError
from backends.embedded.core.rules import policy
from backends.embedded.core.rules.policy import BUILT_IN, DAYS_MAX, ManagementClass
from backends.embedded.core.rules.refusals import ArchiveHeld, ArchiveRetained
from backends.embedded.core.store import Store

DAY = 86_400
lengths = st.integers(0, DAYS_MAX * DAY)
instants = st.integers(0, 1 << 45)
creation_classes = st.builds(lambda length: ManagementClass("C", "creation", length), st.none() | lengths)
event_classes = st.builds(lambda ver, least: ManagementClass("C", "event", ver, least), lengths, lengths)
classes = creation_classes | event_classes


@given(lengths, instants, st.none() | instants)
def test_a_creation_class_counts_from_archiving(length: int, archived: int, event: int | None) -> None:
    assert ManagementClass("C", "creation", length).expires_ms(archived, event) == archived + length * 1000


@given(instants, st.none() | instants)
def test_unlimited_class_never_expires(archived: int, event: int | None) -> None:
    assert ManagementClass("C", "creation", None).expires_ms(archived, event) is None


@given(lengths, lengths, instants, st.integers(0, 1 << 40))
def test_event_class_expires_at_the_later_of_event_period_and_minimum(
    retver: int, retmin: int, archived: int, later: int
) -> None:
    kept_by = ManagementClass("C", "event", retver, retmin)
    assert kept_by.expires_ms(archived, None) is None
    expires = kept_by.expires_ms(archived, archived + later)
    assert expires is not None
    assert expires >= archived + retmin * 1000
    assert expires >= archived + later + retver * 1000
    assert expires in (archived + retmin * 1000, archived + later + retver * 1000)


@given(event_classes, instants, st.lists(st.integers(0, 1 << 40), min_size=2, max_size=2))
def test_a_later_event_never_means_an_earlier_expiry(
    kept_by: ManagementClass, archived: int, events: list[int]
) -> None:
    earlier, later = (kept_by.expires_ms(archived, archived + event) for event in sorted(events))
    assert earlier is not None
    assert later is not None
    assert earlier <= later


@given(classes, instants, st.none() | st.integers(0, 1 << 40), st.integers(-2, 2), st.booleans())
def test_delete_is_refused_until_the_exact_expiry_and_while_held(
    kept_by: ManagementClass, archived: int, event: int | None, around: int, held: bool
) -> None:
    event = None if event is None else archived + event
    expires = kept_by.expires_ms(archived, event)
    now = (1 << 62) if expires is None else expires + around
    may_go = not held and expires is not None and around >= 0
    with nullcontext() if may_go else pytest.raises(ArchiveHeld if held else ArchiveRetained):
        policy.check_delete(kept_by, archived, event, held, now)


@given(classes, classes, instants, st.none() | st.integers(0, 1 << 40))
def test_replacement_class_never_shortens_retention(
    known: ManagementClass, wanted: ManagementClass, archived: int, event: int | None
) -> None:
    try:
        policy.tightened(known, wanted)
    except UsageError:
        return
    event = None if event is None else archived + event
    before, after = known.expires_ms(archived, event), wanted.expires_ms(archived, event)
    assert after is None or (before is not None and after >= before)


def creation(retver: int | None) -> ManagementClass:
    return ManagementClass("C", "creation", retver)


def event(retver: int, retmin: int) -> ManagementClass:
    return ManagementClass("C", "event", retver, retmin)


@pytest.mark.parametrize(
    ("known", "wanted", "refused"),
    [
        (creation(10), creation(10), None),
        (creation(10), creation(11), None),
        (creation(10), creation(None), None),
        (creation(None), creation(None), None),
        (creation(10), creation(9), "retver is 10s and can only grow"),
        (creation(None), creation(10**9), "retver is nolimit and can only grow"),
        (creation(10), event(10, 10), "retinit is creation and cannot change"),
        (event(1, 2), creation(None), "retinit is event and cannot change"),
        (event(1, 2), event(1, 2), None),
        (event(1, 2), event(2, 3), None),
        (event(1, 2), event(0, 3), "retver is 1s and can only grow"),
        (event(1, 2), event(2, 1), "retmin is 2s and can only grow"),
    ],
)
def test_a_class_becomes_stricter_and_never_weaker(
    known: ManagementClass, wanted: ManagementClass, refused: str | None
) -> None:
    if refused is None:
        assert policy.tightened(known, wanted) == wanted
    else:
        with pytest.raises(UsageError, match=f"management class C: {refused}"):
            policy.tightened(known, wanted)


@pytest.mark.parametrize(
    ("seconds", "days"),
    [(0, 0), (1, 1), (DAY - 1, 1), (DAY, 1), (DAY + 1, 2), (DAYS_MAX * DAY, DAYS_MAX), (None, 65_535)],
)
def test_retention_days_for_clients_are_rounded_up(seconds: int | None, days: int) -> None:
    assert policy.days(seconds) == days


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("a:retver=30d", ManagementClass("A", "creation", 30 * DAY)),
        ("Ten.Years-1:RETVER=10y,RETINIT=Creation", ManagementClass("TEN.YEARS-1", "creation", 3650 * DAY)),
        ("n:retver=nolimit", ManagementClass("N", "creation", None)),
        ("z:retver=0", ManagementClass("Z", "creation", 0)),
        ("e:retinit=event,retver=0s,retmin=10m", ManagementClass("E", "event", 0, 600)),
        ("e:retver=1h,retinit=event", ManagementClass("E", "event", 3600, 0)),
        ("m:retver=30000d", ManagementClass("M", "creation", 30_000 * DAY)),
        ("a" * 30 + ":retver=1s", ManagementClass("A" * 30, "creation", 1)),
    ],
)
def test_class_request_is_parsed_from_one_line(text: str, made: ManagementClass) -> None:
    assert policy.parse_request(text) == made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a name has 1 to 30"),
        (":retver=1d", "a name has 1 to 30"),
        ("a" * 31 + ":retver=1d", "a name has 1 to 30"),
        ("two words:retver=1d", "a name has 1 to 30"),
        ("a", "write NAME:retver="),
        ("a:", "write NAME:retver="),
        ("a:retmin=1d", "write NAME:retver="),
        ("a:retver=1d,retver=2d", "write NAME:retver="),
        ("a:retver=1d,until=2d", "write NAME:retver="),
        ("a:retver=1d,retinit=now", "retinit is creation or event"),
        ("a:retver=1d,retmin=1d", "retmin belongs to retinit=event"),
        ("a:retver=nolimit,retinit=event", "retver must have an end"),
        ("a:retver=30001d", "at most 30000 days"),
        ("a:retver=0,retinit=event,retmin=30001d", "at most 30000 days"),
        ("a:retver=500ms", "whole seconds"),
        ("a:retver=7", "a duration needs a unit"),
        ("a:retver=", "duration"),
        ("a:retver=-1d", "duration"),
        ("a:retver=0,retinit=event,retmin=nolimit", "duration"),
    ],
)
def test_invalid_class_request_is_refused_with_a_remedy(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        policy.parse_request(text)


def opened(folder: Path, *requests: str) -> list[ManagementClass]:
    """Open a store once with these requests. Returns its classes."""
    store = Store.open(folder, management_classes=[policy.parse_request(each) for each in requests])
    try:
        assert list(policy.load(folder).values()) == list(store.management_classes.values())
        return list(store.management_classes.values())
    finally:
        store.close()


def test_a_store_keeps_its_classes_and_their_order(data_dir: Path) -> None:
    assert opened(data_dir) == list(BUILT_IN)
    made = opened(data_dir, "z:retver=1d", "a:retver=1d")
    assert [each.name for each in made] == ["STANDARD", "SHORT", "NONE", "EVENT", "Z", "A"]
    assert opened(data_dir) == made
    stricter = opened(data_dir, "a:retver=2d", "none:retver=1s")
    assert [each.name for each in stricter] == [each.name for each in made]
    assert [each.retver_seconds for each in stricter] == [300, 10, 1, 0, DAY, 2 * DAY]


@pytest.mark.parametrize("weaker", ["standard:retver=299s", "event:retver=0,retinit=event,retmin=299s"])
def test_store_does_not_open_with_a_weaker_class_and_stays_unchanged(data_dir: Path, weaker: str) -> None:
    before = opened(data_dir, "new:retver=1d")
    with pytest.raises(UsageError, match="can only grow"):
        opened(data_dir, "other:retver=1d", "new:retver=2d", weaker)
    assert opened(data_dir) == before
