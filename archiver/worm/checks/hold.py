"""LH: legal holds.

One idea: a hold is independent. No mode, date, bypass or expiry releases it, and it changes none of them. It is on
exactly the version on which it was set.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

from archiver.worm.case import ROOT, Case, ObjectLock, Version, words_of
from archiver.worm.checks import check
from archiver.worm.requests.exchange import Answer
from archiver.worm.verdict import Failed, Inconclusive

SOON_SECONDS = 4.0  # of locks that a check waits for
GRACE_SECONDS = 1.0
OBJECTS = 100
AT_ONCE = 10
REFUSED = "403 AccessDenied"
MALFORMED = "400 MalformedXML"


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
        raise Inconclusive("the same retention without a hold did not run out in time; see CLK-02")

    def part(bypass: bool) -> None:
        answer = case.delete(held[bypass], bypass=bypass)
        case.must_refuse_delete(held[bypass], answer, "deleting a version on hold whose retention has run out")

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
def hold_and_retention_apart(case: Case) -> None:
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
        case.must_refuse_delete(version, case.delete(version), "deleting a version that only the hold is left on")


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
            raise Failed(f"it was answered {answer}, and the version has {words_of(state)}")
        case.must_refuse(answer, "hold ON without the right to it", REFUSED)

    def clear_it() -> None:
        version = case.stored(hold="ON")
        before = case.state(version)
        answer = case.set_hold(version, "OFF", client=limited)
        case.must_keep(version, before, answer, "hold OFF without the right to it", REFUSED)

    def store_with_it() -> None:
        answer, version = case.put(hold="ON", client=limited)
        if answer.ok:
            raise Failed(f"it was answered {answer}, and the version has {words_of(case.state(version))}")
        if case.client.send("GET", version.bucket, version.key).ok:
            raise Failed(f"it was answered {answer}, and the object was stored")
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
        if missing := [version.key for version in versions if version.id not in listed]:
            raise Failed(f"{len(missing)} of {OBJECTS} objects on hold were deleted, {missing[0]} for one")
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
            raise Failed(f"{what} of {version.key}, one of {OBJECTS}, was answered {answer}")


def _must_be(case: Case, pool: ThreadPoolExecutor, versions: list[Version], hold: str) -> None:
    """Fail unless HEAD of each version shows this hold."""
    states = list(pool.map(case.state, versions))
    missed = [each for each, state in zip(versions, states, strict=True) if (state.hold or "OFF") != hold]
    if missed:
        raise Failed(f"after hold {hold} of {OBJECTS} objects, {len(missed)} are not {hold}, {missed[0].key} for one")


def _listed(case: Case, prefix: str) -> set[str]:
    """Return the version ids under a prefix."""
    answer = case.client.send("GET", case.bucket, query=(("versions", None), ("prefix", prefix)))
    return {
        field.text or ""
        for element in answer.elements("Version")
        for field in element
        if field.tag.rpartition("}")[2] == "VersionId"
    }
