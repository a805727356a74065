"""Retention of archived objects: classes, events and holds, with a clock that the test moves."""

from __future__ import annotations

from pathlib import Path

import pytest

from archiver.values.errors import UsageError
from backends.embedded.core.rules import policy
from backends.embedded.core.store import Store
from tests.backends.embedded.running_server import Clock, RunningTsmServer
from tests.backends.embedded.tsm_client import ACTIVATE, HOLD, NEVER, RELEASE, Client, Row

DAY = 86_400
CLASSES = ("month:retver=30d", "never:retver=nolimit", "event:retinit=event,retver=10d,retmin=30d")
REFUSED, HELD_ALREADY, WRONG_EVENT = 248, 250, 47


def archive(client: Client, name: str, class_name: str, **said: bytes) -> Row:
    """Archive one object of that class. Returns its row in a query."""
    space = client.space()
    ll = b"/" + name.encode()
    assert client.archive(space, ll, name.encode(), class_index=client.class_index(class_name), **said) == 0
    return client.query(space, ll=ll)[-1]


def row(client: Client, of: Row) -> Row:
    """Return the current row of an object."""
    (found,) = [each for each in client.query(client.space(), of.hl, of.ll) if each.id == of.id]
    return found


def test_creation_class_refuses_deletion_until_the_expiry_millisecond(
    tsm_server: RunningTsmServer, tsm: Client
) -> None:
    kept = archive(tsm, "o", "SHORT")
    assert kept.expires_ms == kept.archived_ms + 10_000 == tsm_server.clock.now_ms + 10_000
    assert kept.initiated == 1
    for passed in (0, 5, 4.5, 0.499):
        tsm_server.clock.seconds += passed
        assert tsm.delete(kept.id) == REFUSED
    assert tsm.get(kept.id)[0].content == b"o"
    tsm_server.clock.seconds += 0.001
    assert row(tsm, kept) == kept  # expired, but not deleted
    assert tsm.get(kept.id)[0].content == b"o"
    assert tsm.delete(kept.id) == 0
    assert tsm.query(tsm.space()) == []


def test_object_of_an_unlimited_class_never_expires(data_dir: Path) -> None:
    with RunningTsmServer(data_dir, classes=CLASSES) as tsm_server, tsm_server.sign_on() as client:
        kept = archive(client, "o", "NEVER")
        assert kept.expires_ms == NEVER
        assert client.welcome is not None
        assert client.welcome.classes[kept.class_index][3:] == (0, 65_535, 0, "EMBEDDED")
        tsm_server.clock.seconds += 300 * 365 * DAY
        assert client.delete(kept.id) == REFUSED


@pytest.mark.parametrize(
    ("event_day", "expires_day"),
    [(0, 30), (5, 30), (20, 30), (21, 31), (40, 50)],  # day 30 or 10 days after the event, whichever is later
)
def test_event_class_expires_after_its_event_and_its_minimum(data_dir: Path, event_day: int, expires_day: int) -> None:
    with RunningTsmServer(data_dir, classes=CLASSES) as tsm_server, tsm_server.sign_on() as client:
        start = tsm_server.clock.seconds
        kept = archive(client, "o", "EVENT")
        assert (kept.initiated, kept.expires_ms) == (2, NEVER)
        tsm_server.clock.seconds = start + event_day * DAY
        assert client.delete(kept.id) == REFUSED
        assert client.event(ACTIVATE, kept.id) == 0
        started = row(client, kept)
        assert started == kept._replace(initiated=1, expires_ms=int((start + expires_day * DAY) * 1000))
        tsm_server.clock.seconds = start + expires_day * DAY - 0.001
        assert client.delete(kept.id) == REFUSED
        tsm_server.clock.seconds += 0.001
        assert client.delete(kept.id) == 0


def test_event_class_without_its_event_never_expires(tsm_server: RunningTsmServer, tsm: Client) -> None:
    kept = archive(tsm, "o", "EVENT")
    tsm_server.clock.seconds += 300 * 365 * DAY
    assert tsm.delete(kept.id) == REFUSED


def test_a_second_event_does_not_change_the_expiry(tsm_server: RunningTsmServer, tsm: Client) -> None:
    kept = archive(tsm, "o", "EVENT")
    assert tsm.event(ACTIVATE, kept.id) == 0
    started = row(tsm, kept)
    tsm_server.clock.seconds += 1000
    assert tsm.event(ACTIVATE, kept.id) == 0
    assert row(tsm, kept) == started
    assert tsm.delete(kept.id) == 0


@pytest.mark.parametrize("class_name", ["STANDARD", "SHORT", "NONE"])
def test_event_for_a_creation_class_is_refused(tsm: Client, class_name: str) -> None:
    kept, waiting = archive(tsm, "o", class_name), archive(tsm, "event", "EVENT")
    assert tsm.event(ACTIVATE, waiting.id, kept.id) == WRONG_EVENT
    assert (row(tsm, kept), row(tsm, waiting)) == (kept, waiting)  # Both changes are refused.


@pytest.mark.parametrize("class_name", ["STANDARD", "EVENT", "NONE"])
def test_a_hold_is_set_once_and_released_once(tsm: Client, class_name: str) -> None:
    kept, other = archive(tsm, "o", class_name), archive(tsm, "other", class_name)
    assert kept.held == 1
    assert tsm.event(RELEASE, other.id, kept.id) == WRONG_EVENT
    assert tsm.event(HOLD, kept.id) == 0
    assert row(tsm, kept) == kept._replace(held=2)
    assert tsm.event(HOLD, other.id, kept.id) == HELD_ALREADY
    assert tsm.event(RELEASE, kept.id, other.id) == WRONG_EVENT
    assert (row(tsm, kept), row(tsm, other)) == (kept._replace(held=2), other)
    assert tsm.event(RELEASE, kept.id) == 0
    assert row(tsm, kept) == kept


def test_hold_refuses_deletion_after_expiry(tsm_server: RunningTsmServer, tsm: Client) -> None:
    kept = archive(tsm, "o", "NONE")
    assert tsm.event(HOLD, kept.id) == 0
    tsm_server.clock.seconds += 300 * 365 * DAY
    assert tsm.delete(kept.id) == REFUSED
    assert tsm.get(kept.id)[0].content == b"o"
    assert tsm.event(RELEASE, kept.id) == 0
    assert tsm.get(kept.id)[0].content == b"o"
    assert tsm.delete(kept.id) == 0


@pytest.mark.parametrize(("released_day", "refused_until_day"), [(2, 30), (35, 35)])
def test_a_hold_does_not_lengthen_retention(data_dir: Path, released_day: int, refused_until_day: int) -> None:
    with RunningTsmServer(data_dir, classes=CLASSES) as tsm_server, tsm_server.sign_on() as client:
        start = tsm_server.clock.seconds
        kept = archive(client, "o", "MONTH")
        tsm_server.clock.seconds = start + DAY
        assert client.event(HOLD, kept.id) == 0
        tsm_server.clock.seconds = start + released_day * DAY
        assert client.delete(kept.id) == REFUSED
        assert client.event(RELEASE, kept.id) == 0
        assert row(client, kept) == kept
        if released_day < refused_until_day:
            assert client.delete(kept.id) == REFUSED
            tsm_server.clock.seconds = start + refused_until_day * DAY
        assert client.delete(kept.id) == 0


def test_deletion_needs_both_the_event_and_the_release(tsm_server: RunningTsmServer, tsm: Client) -> None:
    kept = archive(tsm, "o", "EVENT")
    assert tsm.event(HOLD, kept.id) == 0
    tsm_server.clock.seconds += 300  # the minimum of its class
    assert tsm.delete(kept.id) == REFUSED
    assert tsm.event(ACTIVATE, kept.id) == 0
    assert (row(tsm, kept).initiated, row(tsm, kept).held) == (1, 2)
    assert tsm.delete(kept.id) == REFUSED
    assert tsm.event(RELEASE, kept.id) == 0
    assert tsm.delete(kept.id) == 0


def test_a_released_object_still_waits_for_its_event(tsm_server: RunningTsmServer, tsm: Client) -> None:
    kept = archive(tsm, "o", "EVENT")
    assert tsm.event(HOLD, kept.id) == 0
    assert tsm.event(RELEASE, kept.id) == 0
    tsm_server.clock.seconds += DAY
    assert row(tsm, kept) == kept
    assert tsm.delete(kept.id) == REFUSED


def test_expiry_uses_the_current_definition_of_the_class(data_dir: Path) -> None:
    clock = Clock()
    with (
        RunningTsmServer(data_dir, clock=clock, classes=("c:retver=10s",)) as tsm_server,
        tsm_server.sign_on() as client,
    ):
        kept = archive(client, "o", "C")
        assert kept.expires_ms == kept.archived_ms + 10_000
    with pytest.raises(UsageError, match="management class C: retver is 10s and can only grow"):
        Store.open(data_dir, management_classes=[policy.parse_request("c:retver=9s")])
    with (
        RunningTsmServer(data_dir, clock=clock, classes=("c:retver=20s",)) as tsm_server,
        tsm_server.sign_on() as client,
    ):
        assert row(client, kept) == kept._replace(expires_ms=kept.archived_ms + 20_000)
        clock.seconds += 19
        assert client.delete(kept.id) == REFUSED
        clock.seconds += 1
        assert client.delete(kept.id) == 0


def test_holds_events_and_dates_survive_a_restart(data_dir: Path) -> None:
    clock = Clock()
    with RunningTsmServer(data_dir, clock=clock) as tsm_server, tsm_server.sign_on() as client:
        held, started, pending = (archive(client, name, "EVENT") for name in ("held", "started", "pending"))
        clock.seconds += 400
        assert client.event(HOLD, held.id) == 0
        assert client.event(ACTIVATE, held.id, started.id) == 0
        before = client.query(client.space())
        spaces = client.query_spaces()
    clock.seconds += 1
    with (
        RunningTsmServer(data_dir, clock=clock, classes=("another:retver=1d",)) as tsm_server,
        tsm_server.sign_on() as client,
    ):
        assert client.query(client.space()) == before
        assert client.query_spaces() == spaces
        assert client.delete(pending.id) == client.delete(held.id) == REFUSED
        assert client.delete(started.id) == 0


def test_setting_the_hosts_clock_back_does_not_shorten_retention(data_dir: Path) -> None:
    clock = Clock()
    with RunningTsmServer(data_dir, clock=clock) as tsm_server, tsm_server.sign_on() as client:
        kept = archive(client, "o", "SHORT")
    clock.seconds -= 1000
    with RunningTsmServer(data_dir, clock=clock) as tsm_server, tsm_server.sign_on() as client:
        assert client.ping() >= kept.archived_ms
        clock.seconds += 9.9
        assert client.delete(kept.id) == REFUSED


def test_deleting_a_space_removes_only_expired_objects(tsm_server: RunningTsmServer, tsm: Client) -> None:
    kept, waiting, held = archive(tsm, "kept", "SHORT"), archive(tsm, "waiting", "EVENT"), archive(tsm, "held", "NONE")
    archive(tsm, "expired", "NONE")
    assert tsm.event(HOLD, held.id) == 0
    assert tsm.delete_space(b"/fs") == (0, 3)
    assert {each.ll for each in tsm.query(tsm.space())} == {b"/kept", b"/waiting", b"/held"}
    assert [each.content for each in tsm.get(kept.id, waiting.id, held.id)] == [b"kept", b"waiting", b"held"]
    tsm_server.clock.seconds += 300
    assert tsm.event(ACTIVATE, waiting.id) == 0
    assert tsm.delete_space(b"/fs") == (0, 1)
    assert [each.ll for each in tsm.query(tsm.space())] == [b"/held"]
    assert tsm.event(RELEASE, held.id) == 0
    number = tsm.space()
    assert tsm.delete_space(b"/fs") == (0, 0)
    assert tsm.find_space(b"/fs") == (2061, 0)
    assert tsm.delete_space(b"/fs") == (2060, 0)
    assert tsm.query_spaces() == []
    assert tsm.get(held.id) == [(2, b"", 0)]
    assert tsm_server.store.statistics().objects == 0
    code, again = tsm.register_space(b"/fs")
    assert code == 0
    assert again != number  # A session with the old number must not reach the new space.
