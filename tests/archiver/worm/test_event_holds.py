"""Test the event hold checks on platforms that each lose event holds in one way, and on one without event holds."""

from __future__ import annotations

from datetime import timedelta

import pytest

from archiver.worm import checks
from archiver.worm.case import ObjectLock
from archiver.worm.checks import hold
from archiver.worm.requests.exchange import Answer
from archiver.worm.suite import CheckResult
from archiver.worm.verdict import CheckVerdict
from backends.embedded import process
from tests.archiver.worm.checked_platform import CheckedPlatform, of, reasons
from tests.support.servers.lying_client import GONE, MODE, UNTIL, YES, Asked, Lie, Store, lying, shown_with

checks.load()

HEADERS = (hold.EVENT_HOLD, hold.EVENT_HOLD_DAYS, f"{hold.EVENT_HOLD}-duration-years")
MALFORMED = Answer(400, {}, b"<Error><Code>MalformedXML</Code></Error>")
IDS = tuple(f"EVH-0{number}" for number in range(1, 10))


class Platform(CheckedPlatform):
    """A store, and the checks of event holds run on it."""

    def results(self, lie: Lie) -> list[CheckResult]:
        return self.run(IDS, lying(self.client, lie, self.bucket), compliance=False)


@pytest.fixture(scope="module")
def platform(checked_store: process.StoreProcess) -> Platform:
    return Platform(checked_store)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hold, "HELD_SECONDS", 0.4)
    monkeypatch.setattr(hold, "MOVED_SECONDS_MIN", 0.3)


def places(asked: Asked) -> bool:
    """Return whether a retention request places an event hold."""
    return asked.sets("retention") and b"<EventHold>ON" in asked.body


def releases(asked: Asked) -> bool:
    return asked.sets("retention") and b"<EventHold>OFF" in asked.body


def a_day_from_now(store: Store) -> ObjectLock:
    return ObjectLock("GOVERNANCE", store.owner.now() + timedelta(days=1))


def without_event_hold(asked: Asked) -> dict[str, str]:
    return {name: value for name, value in asked.headers.items() if name not in HEADERS}


def forgets_the_holds_of_uploads(asked: Asked, store: Store) -> Answer:
    if asked.is_put and hold.EVENT_HOLD in asked.headers:
        return asked.changed({**without_event_hold(asked), **dict(a_day_from_now(store).headers)})
    return asked.pass_on()


def deletes_what_is_held(asked: Asked, store: Store) -> Answer:
    if asked.is_delete and store.owner.state(asked.version).headers.get(hold.EVENT_HOLD) == "ON":
        store.destroy(asked.version)
        return GONE
    return asked.pass_on()


def lets_go_at_the_release(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if releases(asked) and answer.ok:
        store.unlock(asked.version)
    return answer


def counts_the_period_from_the_placement(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    version = asked.version._replace(body=b"")
    if places(asked) and answer.ok:
        store.told[version] = asked.lock or a_day_from_now(store)
    if releases(asked) and answer.ok:
        store.unlock(version)
        store.relock(version, store.told[version])
    return answer


def shows_the_first_date_of_a_hold(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_read and answer.headers.get(hold.EVENT_HOLD) == "ON":
        first = store.told.setdefault(asked.version._replace(body=b""), answer.headers[UNTIL])
        return shown_with(answer, until=first)
    return answer


def forgets_the_date_beside_a_hold(asked: Asked, store: Store) -> Answer:
    if places(asked) and asked.lock is not None:
        return store.owner.put_xml(
            asked.version, "retention", hold._retention(f"<Mode>GOVERNANCE</Mode>{hold._PLACED}")
        )
    return asked.pass_on()


def removes_holds_without_bypass(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.status == 403 and b"<Mode>" not in asked.body:
        return store.owner.set_retention(asked.version, None, bypass=True)
    return answer


def stores_without_the_hold_that_it_does_not_understand(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_put and hold.EVENT_HOLD in asked.headers and answer.status == 400:
        return asked.without(MODE, *HEADERS)
    return answer


def lets_everybody_release(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if releases(asked) and answer.status == 403:
        return store.owner.put_xml(asked.version, "retention", asked.body.decode())
    return answer


def forgets_the_default(asked: Asked, _: Store) -> Answer:
    return YES if asked.sets("object-lock") and b"DefaultEventHold" in asked.body else asked.pass_on()


def lacks_event_holds(asked: Asked, store: Store) -> Answer:
    """Ignore unknown headers and elements, and require a mode with a date."""
    if asked.sets("retention") and b"EventHold" in asked.body:
        return MALFORMED if asked.lock is None else store.owner.set_retention(asked.version, asked.lock)
    if asked.sets("object-lock") and b"DefaultEventHold" in asked.body:
        return MALFORMED
    return asked.without(*HEADERS) if asked.is_put else asked.pass_on()


def accepts_and_forgets_event_holds(asked: Asked, store: Store) -> Answer:
    """Answer every request with success, but show no event hold."""
    if asked.sets("object-lock") and b"DefaultEventHold" in asked.body:
        return YES
    if asked.sets("retention") and b"EventHold" in asked.body:
        return YES
    return forgets_the_holds_of_uploads(asked, store)


LIES: list[tuple[Lie, str]] = [
    (forgets_the_holds_of_uploads, "EVH-01 EVH-07"),
    (deletes_what_is_held, "EVH-02"),
    (lets_go_at_the_release, "EVH-03 EVH-05"),
    (counts_the_period_from_the_placement, "EVH-03"),
    (shows_the_first_date_of_a_hold, "EVH-04"),
    (forgets_the_date_beside_a_hold, "EVH-05"),
    (removes_holds_without_bypass, "EVH-06"),
    (stores_without_the_hold_that_it_does_not_understand, "EVH-07"),
    (lets_everybody_release, "EVH-08"),
    (forgets_the_default, "EVH-09"),
]


@pytest.mark.parametrize(("lie", "caught"), LIES, ids=[lie.__name__ for lie, _ in LIES])
def test_platform_with_faulty_event_holds_fails_the_expected_checks(lie: Lie, caught: str, platform: Platform) -> None:
    results = platform.results(lie)
    assert of(CheckVerdict.FAIL, results) == set(caught.split()), reasons(results)
    assert "broke off" not in reasons(results)


@pytest.mark.parametrize("lie", [lacks_event_holds, accepts_and_forgets_event_holds])
def test_a_platform_that_shows_no_event_hold_does_not_offer_them(lie: Lie, platform: Platform) -> None:
    results = platform.results(lie)
    assert of(CheckVerdict.NOT_OFFERED, results) == set(IDS), reasons(results)


def test_platform_with_correct_event_holds_passes_all_checks(platform: Platform) -> None:
    results = platform.results(lambda asked, _: asked.pass_on())
    assert of(CheckVerdict.PASS, results) == set(IDS), reasons(results)
