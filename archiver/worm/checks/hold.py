"""LH and EVH: legal holds and event holds.

One idea: a legal hold is independent. No mode, date, bypass or expiry releases it, and it changes none of them. It is
on exactly the version on which it was set. An event hold is a part of the retention: while it is on, the retain-until
date moves with the time, and its release starts a period. The shortest period is a day, so the checks place event holds
under GOVERNANCE only, and the clean-up bypasses them. What is expected follows botocore's model of S3 and Amazon's user
guide ("Object Lock considerations"). A platform whose versions show no event hold does not offer them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial

from archiver.worm.case import (
    GOVERNANCE,
    ROOT,
    Case,
    ObjectLock,
    Version,
    VersionState,
    iso,
    lock_configuration,
    words_of,
)
from archiver.worm.checks import check
from archiver.worm.multipart import uploaded
from archiver.worm.requests.exchange import Answer, S3Client
from archiver.worm.verdict import Failed, Inconclusive, NotOffered

SOON_SECONDS = 4.0  # of locks that a check waits for
GRACE_SECONDS = 1.0
OBJECTS = 100
AT_ONCE = 10
REFUSED = "403 AccessDenied"
MALFORMED = "400 MalformedXML"
EVENT_HOLD = "x-amz-object-lock-event-hold"
EVENT_HOLD_DAYS = f"{EVENT_HOLD}-duration-days"
_PLACED = "<EventHold>ON</EventHold><EventHoldDuration><Days>1</Days></EventHoldDuration>"
_PLACED_HEADERS = (("x-amz-object-lock-mode", GOVERNANCE), (EVENT_HOLD, "ON"), (EVENT_HOLD_DAYS, "1"))
PERIOD = timedelta(days=1)
LATER = timedelta(days=1, minutes=30)  # a retain-until date after the end of the period
CLOCK_SECONDS = 5.0  # by which a date may miss: clocks differ, and dates have whole seconds
HELD_SECONDS = 5.0  # how long a check leaves an event hold on to see its date move ...
MOVED_SECONDS_MIN = 3.0  # ... by at least this


# ---- what a hold forbids


@check("LH-01")
def delete_held(case: Case) -> None:
    def part(at_once: bool, bypass: bool) -> None:
        version = case.stored(hold="ON") if at_once else _held(case)
        answer = case.delete(version, bypass=bypass)
        case.must_refuse_delete(version, answer, "deleting a version on hold")

    case.try_all(
        *(
            (f"hold set {how}, {'with' if bypass else 'without'} bypass", partial(part, at_once, bypass))
            for how, at_once in (("by PUT", True), ("afterwards", False))
            for bypass in (False, True)
        )
    )
    case.control_bypass()


@check("LH-02")
def delete_held_after_expiry(case: Case) -> None:
    lock = case.lock(seconds=SOON_SECONDS)
    held = {bypass: case.stored(lock=lock, hold="ON") for bypass in (False, True)}
    free = case.stored(lock=lock)
    case.wait_until(lock.until + timedelta(seconds=GRACE_SECONDS))
    if not case.delete(free).ok or case.state(free).body is not None:
        raise Inconclusive("the same retention without a hold did not expire in time; see CLK-02")

    def part(bypass: bool) -> None:
        answer = case.delete(held[bypass], bypass=bypass)
        case.must_refuse_delete(held[bypass], answer, "deleting a version on hold whose retention has expired")

    case.try_all(("without bypass", partial(part, False)), ("with bypass", partial(part, True)))


@check("LH-03")
def release_under_retention(case: Case) -> None:
    def released() -> None:
        version = case.locked(hold="ON")
        before = case.state(version)
        answer = case.set_hold(version, "OFF")
        after = case.state(version)
        if after.lock != before.lock:
            raise Failed(f"releasing the hold was answered {answer}: {words_of(before)} became {words_of(after)}")
        if after.hold == "ON":
            raise Inconclusive(f"releasing the hold was answered {answer}, and it is still ON; see LH-04")
        case.must_refuse_delete(version, case.delete(version), "deleting a version under GOVERNANCE, hold released")

    def stored_without() -> None:
        version = case.locked(hold="OFF")
        case.must_refuse_delete(version, case.delete(version), "deleting a version stored under GOVERNANCE, hold OFF")

    case.try_all(("ON, then OFF", released), ("stored with OFF", stored_without))


@check("LH-04")
def delete_released(case: Case) -> None:
    version = _held(case)
    case.must_allow(case.set_hold(version, "OFF"), "releasing a hold")
    case.must_allow(case.delete(version), "deleting a version whose hold was released", "204")
    case.must_be_gone(version, "deleting a version whose hold was released")


# ---- what a hold does not change


@check("LH-05")
def hold_and_retention_are_independent(case: Case) -> None:
    lock = case.lock()
    version = case.stored(lock=lock)
    longer = lock._replace(until=lock.until + timedelta(seconds=SOON_SECONDS))

    def set_hold(status: str) -> None:
        before = case.state(version)
        answer = case.set_hold(version, status)
        after = case.state(version)
        if after.lock != before.lock:
            raise Failed(f"hold {status} was answered {answer}: {words_of(before)} became {words_of(after)}")
        if (after.hold or "OFF") != status:
            raise Inconclusive(f"hold {status} was answered {answer}, and the version has {words_of(after)}; see LH-04")

    def set_retention(wanted: ObjectLock | None, bypass: bool, what: str) -> bool:
        before = case.state(version)
        answer = case.set_retention(version, wanted, bypass=bypass)
        after = case.state(version)
        if after.hold != "ON":
            raise Failed(f"{what} was answered {answer}: {words_of(before)} became {words_of(after)}")
        if not answer.ok:
            case.notes.append(f"{what} was answered {answer}")
        return answer.ok

    set_hold("ON")
    set_retention(longer, False, "extending retention")
    set_retention(lock, True, "shortening retention with bypass")
    set_hold("OFF")
    set_hold("ON")
    if set_retention(None, True, "removing retention with bypass"):
        case.must_refuse_delete(version, case.delete(version), "deleting a version that only the hold protects")


@check("LH-06")
def hold_on_one_version(case: Case) -> None:
    def part(named: bool) -> None:
        key = case.key()
        versions = [case.stored(key) for _ in range(3)]
        held = versions[1] if named else versions[2]
        case.must_allow(case.set_hold(held if named else held._replace(id=""), "ON"), "hold ON")
        state = case.state(held)
        if state.hold != "ON":
            raise Failed(f"hold ON was accepted, and the version has {words_of(state)}")
        for version in versions:
            if version != held:
                case.must_allow(case.delete(version), "deleting another version of a key with a version on hold", "204")
                case.must_be_gone(version, "deleting another version of the key")
        case.must_survive(held)

    case.try_all(("by version id", partial(part, True)), ("without version id", partial(part, False)))


# ---- how a hold is set, shown and refused


@check("LH-07")
def malformed(case: Case) -> None:
    """Malformed bodies, none of which requests OFF: a platform that guesses their meaning changes nothing."""

    def part(name: str, xml: str) -> None:
        version = case.stored(hold="ON")
        before = case.state(version)
        case.must_keep(version, before, case.put_xml(version, "legal-hold", xml), f"a hold of {name}", MALFORMED)

    def status(text: str) -> str:
        return f'<LegalHold xmlns="{ROOT}"><Status>{text}</Status></LegalHold>'

    bodies = (
        ("status MAYBE", status("MAYBE")), ("status on", status("on")), ("status 0", status("0")),
        ("status empty", status("")), ("no status", f'<LegalHold xmlns="{ROOT}"></LegalHold>'),
        ("empty body", ""), ("no XML", "OFF please"),
    )  # fmt: skip
    case.try_all(*((name, partial(part, name, xml)) for name, xml in bodies))


@check("LH-08")
def show(case: Case) -> None:
    version = case.stored()
    never = _shown(case, version)
    if never.text_of("Status") == "ON":
        raise Failed("GetObjectLegalHold shows ON for a version that never had a hold")
    _expect(case, never, "GetObjectLegalHold of a version that never had a hold", "404 NoSuchObjectLockConfiguration")
    for wanted in ("ON", "OFF"):
        case.must_allow(case.set_hold(version, wanted), f"hold {wanted}")
        answer = _shown(case, version)
        found = answer.text_of("Status")
        if found != wanted and (found or wanted == "ON"):
            raise Failed(f"after hold {wanted} GetObjectLegalHold was answered {answer} and shows {found or 'none'}")
        _expect(case, answer, f"GetObjectLegalHold after {wanted}", "200")


@check("LH-09")
def without_the_right(case: Case) -> None:
    limited = case.without_right("hold")
    case.control(limited)
    able = case.stored()
    answer = case.set_retention(able, case.lock(), client=limited)
    if not answer.ok:
        case.notes.append(f"the same credential may not set retention either ({answer})")

    def set_it() -> None:
        version = case.stored()
        answer = case.set_hold(version, "ON", client=limited)
        state = case.state(version)
        if answer.ok or state.hold == "ON":
            raise Failed(f"was answered {answer}, and the version has {words_of(state)}", "S3")
        case.must_refuse(answer, "hold ON without the right to it", REFUSED)

    def clear_it() -> None:
        version = case.stored(hold="ON")
        before = case.state(version)
        answer = case.set_hold(version, "OFF", client=limited)
        case.must_keep(version, before, answer, "hold OFF without the right to it", REFUSED)

    def store_with_it() -> None:
        answer, version = case.put(hold="ON", client=limited)
        if answer.ok:
            raise Failed(f"was answered {answer}, and the version has {words_of(case.state(version))}", "S3")
        if case.client.send("GET", version.bucket, version.key).ok:
            raise Failed(f"was answered {answer}, and the object was stored", "S3")
        case.must_refuse(answer, "PUT with a hold without the right to it", REFUSED)

    case.try_all(("set", set_it), ("clear", clear_it), ("PUT with a hold", store_with_it))


@check("LH-10")
def many(case: Case) -> None:
    """Hold many versions, then release all, as in a legal case: the platform may miss none."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        prefix = case.key("/")
        keys = [f"{prefix}{number:03d}" for number in range(OBJECTS)]
        versions = list(pool.map(lambda key: _stored_plain(case, key), keys))
        _each(pool, versions, lambda version: case.set_hold(version, "ON"), "hold ON")
        _must_be(case, pool, versions, "ON")
        refusals = list(pool.map(case.delete, versions))
        listed = _listed(case, prefix)
        if missing := [version for version in versions if version.id not in listed]:
            case.state(missing[0])  # last, as evidence
            raise Failed(f"{len(missing)} of {OBJECTS} objects on hold were deleted, such as {missing[0].key}")
        for version, answer in zip(versions, refusals, strict=True):
            case.must_refuse(answer, f"deleting one of {OBJECTS} objects on hold", REFUSED, version)
        _each(pool, versions, lambda version: case.set_hold(version, "OFF"), "hold OFF")
        _must_be(case, pool, versions, "OFF")
        _each(pool, versions, case.delete, "deleting after release")
    if left := _listed(case, prefix):
        raise Failed(f"{len(left)} of {OBJECTS} objects are still there after their release and deletion")
    case.notes.append(f"{OBJECTS} objects, {AT_ONCE} at a time")


def _held(case: Case) -> Version:
    """Set a hold by PutObjectLegalHold. Raises Failed if it was accepted without effect."""
    version = case.stored()
    answer = case.set_hold(version, "ON")
    case.must_allow(answer, "hold ON")
    state = case.state(version)
    if state.hold != "ON":
        raise Failed(f"hold ON was answered {answer}, and the version has {words_of(state)}")
    return version


def _shown(case: Case, version: Version) -> Answer:
    """GetObjectLegalHold."""
    query = (("legal-hold", None), ("versionId", version.id))
    return case.client.send("GET", version.bucket, version.key, query=query)


def _expect(case: Case, answer: Answer, what: str, aws: str) -> None:
    if str(answer) != aws:
        case.deviate(f"{what} was answered {answer}; {case.expected(aws)}")


def _stored_plain(case: Case, key: str) -> Version:
    answer, version = case.put(key)
    if not answer.ok or not version.id:
        raise Inconclusive(f"an object could not be prepared: PUT answered {answer}")
    return version


def _each(pool: ThreadPoolExecutor, versions: list[Version], call: Callable[[Version], Answer], what: str) -> None:
    for version, answer in zip(versions, pool.map(call, versions), strict=True):
        if not answer.ok:
            raise Failed(f"{what} of {version.key}, one of {OBJECTS}, was answered {answer}", None, [answer])


def _must_be(case: Case, pool: ThreadPoolExecutor, versions: list[Version], hold: str) -> None:
    """Fail unless HEAD of each version shows this hold."""
    states = list(pool.map(case.state, versions))
    missed = [each for each, state in zip(versions, states, strict=True) if (state.hold or "OFF") != hold]
    if missed:
        case.state(missed[0])  # last, as evidence
        raise Failed(f"after hold {hold} of {OBJECTS} objects, {len(missed)} are not {hold}, such as {missed[0].key}")


def _listed(case: Case, prefix: str) -> set[str]:
    """Return the version ids under a prefix."""
    answer = case.client.send("GET", case.bucket, query=(("versions", None), ("prefix", prefix)))
    return {
        field.text or ""
        for element in answer.elements("Version")
        for field in element
        if field.tag.rpartition("}")[2] == "VersionId"
    }


# ---- event holds


@check("EVH-01")
def place_event_hold(case: Case) -> None:
    ways: dict[str, Callable[[], tuple[Answer, Version]]] = {
        "PUT": lambda: case.put(headers=_PLACED_HEADERS),
        "CopyObject": lambda: case.copy(case.stored(), headers=_PLACED_HEADERS),
        "CreateMultipartUpload": lambda: uploaded(case, [b"event hold"], headers=_PLACED_HEADERS),
        "PutObjectRetention": lambda: _retained_held(case, case.stored()),
    }
    placed = {name: way() for name, way in ways.items()}
    states = {name: case.state(version) for name, (answer, version) in placed.items() if answer.ok}
    if not any(map(_is_on, states.values())):
        raise NotOffered(f"no version shows an event hold; {', '.join(f'{n}: {a}' for n, (a, _) in placed.items())}")
    for name, (answer, version) in placed.items():
        if not answer.ok:
            case.deviate(f"{name} with an event hold was answered {answer}; {case.expected('200')}")
            continue
        state = states[name]
        if not _is_on(state):
            raise Failed(f"{name} with an event hold was answered {answer}, and the version shows none")
        _must_end(case, state, case.now() + PERIOD, f"{name} with an event hold of a day")
        shown = _retention_of(case, version)
        if (shown.text_of("EventHold"), shown.text_of("Days")) != ("ON", "1"):
            raise Failed(f"{name}: HEAD shows the event hold, but GetObjectRetention does not show it with its day")


@check("EVH-02")
def delete_event_held(case: Case) -> None:
    def by_id() -> None:
        version = _event_held(case)
        case.must_refuse_delete(version, case.delete(version), "deleting a version under an event hold")

    def in_a_batch() -> None:
        version = _event_held(case)
        case.delete_many(version.bucket, [(version.key, version.id)])
        case.must_survive(version)

    def without_the_right_to_bypass() -> None:
        client = case.without_right("bypass")
        version = _event_held(case)
        answer = case.delete(version, bypass=True, client=client)
        case.must_refuse_delete(version, answer, "deleting a version under an event hold without the right", client)

    case.try_all(
        ("by version id", by_id),
        ("in a batch", in_a_batch),
        ("with the bypass header, without the right to it", without_the_right_to_bypass),
    )


@check("EVH-03")
def release_event_hold(case: Case) -> None:
    version = _event_held(case)
    placed = case.state(version)
    case.wait_until(case.now() + timedelta(seconds=HELD_SECONDS))
    case.must_allow(_release(case, version), "releasing an event hold")
    state = case.state(version)
    if _is_on(state):
        raise Failed("the release of an event hold was accepted, and it is still ON")
    if state.mode is None or not _moved(placed, state):
        raise Failed(
            f"{words_of(placed)} became {words_of(state)} by a release {HELD_SECONDS:.0f} s later: the period of a day"
            " does not start at the release"
        )
    case.must_refuse_delete(version, case.delete(version), "deleting a version after the release of its event hold")


@check("EVH-04")
def date_of_event_hold(case: Case) -> None:
    version = _event_held(case)
    first = case.state(version)
    case.wait_until(case.now() + timedelta(seconds=HELD_SECONDS))
    if not _moved(first, case.state(version)):
        raise Failed(f"under an event hold the date does not move: {words_of(case.state(version))}")
    case.must_allow(_release(case, version), "releasing an event hold")
    released = case.state(version)
    case.wait_until(case.now() + timedelta(seconds=HELD_SECONDS))
    if case.state(version).until != released.until:
        raise Failed(f"after the release of an event hold: {words_of(released)} became {words_of(case.state(version))}")


@check("EVH-05")
def event_hold_with_a_date(case: Case) -> None:
    until = case.now() + LATER
    version = _event_held(case, until)
    _must_end(case, case.state(version), until, "an event hold of a day with a later date")
    case.must_allow(_release(case, version), "releasing an event hold")
    _must_end(case, case.state(version), until, "the release of an event hold with a later date")


@check("EVH-06")
def weaken_event_hold(case: Case) -> None:
    def part(inner: str, what: str) -> None:
        version = _event_held(case, case.now() + LATER)
        before = case.state(version)
        answer = case.put_xml(version, "retention", _retention(inner))
        after = case.state(version)
        if not _is_on(after) or before.until is None or after.until is None or after.until < before.until:
            raise Failed(f"{what} was answered {answer}: {words_of(before)} became {words_of(after)}")

    sooner = f"<Mode>{GOVERNANCE}</Mode><RetainUntilDate>{iso(case.lock().until)}</RetainUntilDate>"
    case.try_all(
        ("removing it", partial(part, "", "an empty retention without bypass")),
        ("an earlier date", partial(part, sooner, "an earlier date without bypass")),
        ("the hold again, without its date", partial(part, f"<Mode>{GOVERNANCE}</Mode>{_PLACED}", "the hold again")),
    )


@check("EVH-07")
def malformed_event_hold(case: Case) -> None:
    _event_held(case)
    mode, on, day = _PLACED_HEADERS
    year = (f"{EVENT_HOLD}-duration-years", "1")
    requests = {
        "no mode": (on, day),
        "no duration": (mode, on),
        "a duration in days and years": (mode, on, day, year),
        "OFF with a duration": (mode, (EVENT_HOLD, "OFF"), day),
        "OFF without a date": (mode, (EVENT_HOLD, "OFF")),
        "a status MAYBE": (mode, (EVENT_HOLD, "MAYBE"), day),
        "0 days": (mode, on, (EVENT_HOLD_DAYS, "0")),
        "36,501 days": (mode, on, (EVENT_HOLD_DAYS, "36501")),
    }

    def part(name: str, headers: tuple[tuple[str, str], ...]) -> None:
        answer, version = case.put(headers=headers)
        if answer.ok:
            shown = case.state(version).headers.get(EVENT_HOLD, "none")
            raise Failed(f"PUT with {name} was answered {answer}; the version shows the event hold {shown}")
        case.must_refuse(answer, f"PUT with {name}", "400")

    case.try_all(*((name, partial(part, name, headers)) for name, headers in requests.items()))


@check("EVH-08")
def event_hold_without_the_right(case: Case) -> None:
    limited = case.without_right("retention")
    case.control(limited)
    version = _event_held(case)
    plain = case.stored()

    def release() -> None:
        answer = _release(case, version, limited)
        if not _is_on(case.state(version)):
            raise Failed(f"the release of an event hold without the right to retention was answered {answer}")
        case.must_refuse(answer, "the release of an event hold without the right to retention", REFUSED, version)

    def place() -> None:
        answer, _ = _retained_held(case, plain, client=limited)
        if _is_on(case.state(plain)):
            raise Failed(f"an event hold without the right to retention was answered {answer}, and it is on")
        case.must_refuse(answer, "an event hold without the right to retention", REFUSED)

    case.try_all(("release", release), ("place", place))


@check("EVH-09")
def default_event_hold(case: Case) -> None:
    _event_held(case)
    bucket = case.new_bucket()
    hold = "<DefaultEventHold><Days>1</Days></DefaultEventHold>"
    rule = f"<Rule><DefaultRetention><Mode>{GOVERNANCE}</Mode>{hold}</DefaultRetention></Rule>"
    answer = case.configure(bucket, "object-lock", lock_configuration(rule))
    if not answer.ok:
        raise NotOffered(f"a default event hold was answered {answer}")
    stored, version = case.put(bucket=bucket)
    state = case.state(version)
    if not stored.ok or not _is_on(state):
        raise Failed(f"a default event hold was answered {answer}; a new object ({stored}) has {words_of(state)}")
    _must_end(case, state, case.now() + PERIOD, "a default event hold of a day")
    if not case.client.send("GET", bucket, query=(("object-lock", None),)).elements("DefaultEventHold"):
        case.deviate("GetObjectLockConfiguration does not show the default event hold, though it takes effect")
    own = case.lock()
    other = case.state(case.put(bucket=bucket, lock=own)[1])
    if _is_on(other):
        case.deviate("a default event hold is placed on an object whose request has a lock of its own")


def _retention(inner: str) -> str:
    return f'<Retention xmlns="{ROOT}">{inner}</Retention>'


def _retained_held(
    case: Case, version: Version, until: datetime | None = None, client: S3Client | None = None
) -> tuple[Answer, Version]:
    """PutObjectRetention with an event hold of a day, and with a date if there is one."""
    date = "" if until is None else f"<RetainUntilDate>{iso(until)}</RetainUntilDate>"
    xml = _retention(f"<Mode>{GOVERNANCE}</Mode>{date}{_PLACED}")
    return case.put_xml(version, "retention", xml, client=client), version


def _event_held(case: Case, until: datetime | None = None) -> Version:
    """Store a version and place an event hold of a day on it. Raises NotOffered if the platform shows none."""
    answer, version = _retained_held(case, case.stored(), until)
    if not _is_on(case.state(version)):
        raise NotOffered(f"an event hold by PutObjectRetention was answered {answer}, and the version shows none")
    return version


def _release(case: Case, version: Version, client: S3Client | None = None) -> Answer:
    xml = _retention(f"<Mode>{GOVERNANCE}</Mode><EventHold>OFF</EventHold>")
    return case.put_xml(version, "retention", xml, client=client)


def _is_on(state: VersionState) -> bool:
    return state.headers.get(EVENT_HOLD) == "ON"


def _moved(before: VersionState, after: VersionState) -> bool:
    if before.until is None or after.until is None:
        return False
    return (after.until - before.until).total_seconds() >= MOVED_SECONDS_MIN


def _must_end(case: Case, state: VersionState, end: datetime, what: str) -> None:
    """Fail if the version's date is earlier than ``end``; a later date is a deviation."""
    misses = None if state.until is None else (state.until - end).total_seconds()
    if misses is None or misses < -CLOCK_SECONDS:
        raise Failed(f"{what} gave {words_of(state)}, not a lock until {iso(end)}")
    if misses > CLOCK_SECONDS:
        case.deviate(f"{what} gave {words_of(state)}, later than {iso(end)}")


def _retention_of(case: Case, version: Version) -> Answer:
    """GetObjectRetention."""
    query = (("retention", None), ("versionId", version.id))
    return case.client.send("GET", version.bucket, version.key, query=query)
