"""RET: changing the retention of a stored version.

One idea: a platform may show a date that it does not enforce. A check reads a changed lock by HEAD and by
GetObjectRetention. If it can wait, it also deletes the version when only the right lock refuses.
"""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

from archiver.worm.case import (
    ANY_REFUSAL,
    COMPLIANCE,
    COMPLIANCE_SECONDS,
    GOVERNANCE,
    LOCK_SECONDS,
    ROOT,
    Case,
    ObjectLock,
    Version,
    VersionState,
    iso,
    same_instant,
    words_of,
)
from archiver.worm.checks import check
from archiver.worm.requests.exchange import Answer
from archiver.worm.verdict import Failed, Inconclusive

SOON_SECONDS = 5.0  # of locks whose end a check waits for
GRACE_SECONDS = 1.0  # added to a date before it counts as passed: some platforms keep whole seconds
REFUSED = "403 AccessDenied"
MALFORMED = "400 MalformedXML"
NO_CONFIGURATION = "404 NoSuchObjectLockConfiguration"


class Shown(NamedTuple):
    """A version as HEAD and GetObjectRetention show it."""

    state: VersionState
    called: ObjectLock | None

    @property
    def locks(self) -> tuple[object, ...]:
        return self.state.mode, self.state.until, self.state.hold, self.called

    def __str__(self) -> str:
        if self.called is None or self.called == self.state.lock:
            return words_of(self.state)
        return f"{words_of(self.state)} ({self.called.mode} until {iso(self.called.until)} by GetObjectRetention)"


class _Amount(NamedTuple):
    """Amount by which a check shortens a lock."""

    name: str
    dates: Callable[[Case, datetime], Sequence[datetime]]  # to send in turn, from the current date; last counts
    severity: str | None  # if it is accepted; None: the catalogue's
    aws: str = REFUSED


_AMOUNTS = (
    _Amount("to the past", lambda case, _: [case.now() - timedelta(minutes=1)], None, ANY_REFUSAL),
    _Amount(f"to {SOON_SECONDS:.0f} s from now", lambda case, _: [case.lock(GOVERNANCE, SOON_SECONDS).until], None),
    _Amount("by 1 s, three times", lambda _, until: [until - timedelta(seconds=n) for n in (1, 2, 3)], None),
    _Amount("by 1 s", lambda _, until: [until - timedelta(seconds=1)], "S2"),
    _Amount("by 1 ms within the same second", lambda _, until: [until - timedelta(milliseconds=1)], "S3"),
)


# ---- changes that must be allowed


@check("RET-01")
def add(case: Case) -> None:
    version, lock = case.stored(), case.lock()
    _must_take(case, version, lock, case.set_retention(version, lock), "retention on an unlocked version")
    case.must_refuse_delete(version, case.delete(version), "deleting a version that was locked after it was stored")
    if case.retention_of(version) is None:
        raise Failed("the version is locked, and GetObjectRetention shows no retention")


@check("RET-02")
def extend(case: Case) -> None:
    def part(mode: str, seconds: float) -> None:
        first = case.lock(mode, SOON_SECONDS)
        version, later = case.stored(lock=first), case.lock(mode, seconds)
        with _while_locked(case, later):
            _must_take(case, version, later, case.set_retention(version, later), f"extending {mode}")
            case.wait_until(first.until + timedelta(seconds=GRACE_SECONDS))
            answer = case.delete(version)
            case.must_refuse_delete(version, answer, f"deleting between the first date and the extended one, {mode}")

    case.try_all(
        (GOVERNANCE, partial(part, GOVERNANCE, LOCK_SECONDS)),
        (COMPLIANCE, partial(part, COMPLIANCE, COMPLIANCE_SECONDS)),
    )


@check("RET-03")
def send_again(case: Case) -> None:
    lock = case.lock()
    version = case.stored(lock=lock)
    _must_take(case, version, lock, case.set_retention(version, lock), "sending the same mode and date again")
    head = case.state(version).lock
    if head is not None and head != lock:
        answer = case.set_retention(version, head)
        case.notes.append(f"HEAD shows {iso(head.until)} for {iso(lock.until)}; sending that was answered {answer}")


@check("RET-09")
def governance_to_compliance_with_bypass(case: Case) -> None:
    compliance = case.lock(COMPLIANCE)
    version = case.stored(lock=ObjectLock(GOVERNANCE, compliance.until))
    with _while_locked(case, compliance):
        answer = case.set_retention(version, compliance, bypass=True)
        _must_take(case, version, compliance, answer, "GOVERNANCE to COMPLIANCE with bypass")
        answer = case.delete(version, bypass=True)
        case.must_refuse_delete(version, answer, "deleting, with bypass, a version that became COMPLIANCE")


@check("RET-11")
def remove_with_bypass(case: Case) -> None:
    version = case.locked()
    case.must_allow(case.set_retention(version, None, bypass=True), "removing GOVERNANCE with bypass")
    after = _shown(case, version)
    if after.state.mode is not None or after.called is not None:
        raise Failed(f"removing GOVERNANCE with bypass was accepted, but the version still has {after}")
    answer = case.client.send(
        "GET", version.bucket, version.key, query=(("retention", None), ("versionId", version.id))
    )
    if str(answer) != NO_CONFIGURATION:
        case.deviate(f"GetObjectRetention after removal was answered {answer}; {case.expected(NO_CONFIGURATION)}")
    case.must_allow(case.delete(version), "deleting a version whose retention was removed", "204")
    case.must_be_gone(version, "deleting a version whose retention was removed")


@check("RET-16")
def lock_again(case: Case) -> None:
    """Each of the four changes of mode after the first lock has expired."""
    changes = [(old, new) for old in (GOVERNANCE, COMPLIANCE) for new in (GOVERNANCE, COMPLIANCE)]
    if not case.may_use_compliance:
        case.notes.append("only GOVERNANCE to GOVERNANCE: COMPLIANCE needs --compliance")
        changes = changes[:1]
    first = {old: case.lock(old, SOON_SECONDS) for old, _ in changes}
    versions = [case.stored(lock=first[old]) for old, _ in changes]
    case.wait_until(max(lock.until for lock in first.values()) + timedelta(seconds=GRACE_SECONDS))

    def part(version: Version, new: str) -> None:
        lock = case.lock(new)
        with _while_locked(case, lock):
            _must_take(
                case, version, lock, case.set_retention(version, lock), "a new lock after the old one had expired"
            )
            case.must_refuse_delete(version, case.delete(version), "deleting a version that was locked again")

    case.try_all(
        *(
            (f"{old}, expired, to {new}", partial(part, version, new))
            for version, (old, new) in zip(versions, changes, strict=True)
        )
    )


# ---- changes that must be refused


@check("RET-04")
def shorten_governance(case: Case) -> None:
    _shorten(case, GOVERNANCE, LOCK_SECONDS, (False,))
    case.notes.append("shortened by more than a minute, not by a day: no lock of this check lasts a day")


@check("RET-05")
def shorten_compliance(case: Case) -> None:
    _shorten(case, COMPLIANCE, COMPLIANCE_SECONDS, (False, True))
    case.control_bypass()


@check("RET-06")
def compliance_to_governance(case: Case) -> None:
    def part(bypass: bool) -> None:
        lock = case.lock(COMPLIANCE)
        version = case.stored(lock=lock)
        before = _shown(case, version)
        later = ObjectLock(GOVERNANCE, lock.until + timedelta(seconds=SOON_SECONDS))
        with _while_locked(case, lock):
            answer = case.set_retention(version, later, bypass=bypass)
            _must_stay(case, version, before, answer, "COMPLIANCE to GOVERNANCE with a later date", REFUSED)
            answer = case.delete(version, bypass=True)
            case.must_refuse_delete(version, answer, "deleting with bypass after the attempt")

    case.try_all(("without bypass", partial(part, False)), ("with bypass", partial(part, True)))
    case.control_bypass()


@check("RET-07")
def remove_compliance(case: Case) -> None:
    lock = case.lock(COMPLIANCE)
    version = case.stored(lock=lock)
    before = _shown(case, version)
    with _while_locked(case, lock):
        answer = case.set_retention(version, None, bypass=True)
        _must_stay(case, version, before, answer, "an empty Retention on COMPLIANCE, with bypass", REFUSED)
        case.must_refuse_delete(version, case.delete(version, bypass=True), "deleting with bypass after the attempt")
    case.control_bypass()


@check("RET-08")
def governance_to_compliance(case: Case) -> None:
    compliance = case.lock(COMPLIANCE)  # for seconds, in case the platform accepts it
    version = case.stored(lock=ObjectLock(GOVERNANCE, compliance.until))
    before = _shown(case, version)
    with _while_locked(case, compliance):
        answer = case.set_retention(version, compliance)
        _must_stay(case, version, before, answer, "GOVERNANCE to COMPLIANCE without bypass", REFUSED)


@check("RET-10")
def remove_governance(case: Case) -> None:
    version = case.locked()
    before = _shown(case, version)
    answer = case.set_retention(version, None)
    _must_stay(case, version, before, answer, "an empty Retention on GOVERNANCE without bypass", REFUSED)
    case.must_refuse_delete(version, case.delete(version), "deleting after the attempt")


@check("RET-12")
def malformed(case: Case) -> None:
    """Malformed bodies with the current date and mode: a platform that guesses their meaning changes nothing."""

    def part(name: str, body: Callable[[str], str], aws: str, bypass: bool) -> None:
        lock = case.lock()
        version = case.stored(lock=lock)
        before = _shown(case, version)
        headers = (("x-amz-bypass-governance-retention", "true"),) if bypass else ()
        answer = case.put_xml(version, "retention", body(iso(lock.until)), headers)
        _must_stay(case, version, before, answer, f"retention of {name}", aws)

    past = iso(case.now() - timedelta(minutes=1))
    bodies: tuple[tuple[str, Callable[[str], str], str], ...] = (
        ("a past date", lambda _: _retention(_mode(GOVERNANCE) + _date(past)), "400 InvalidArgument"),
        ("only a mode", lambda _: _retention(_mode(GOVERNANCE)), MALFORMED),
        ("only a date", lambda until: _retention(_date(until)), MALFORMED),
        ("an unknown mode", lambda until: _retention(_mode("STRICT") + _date(until)), MALFORMED),
        ("a mode in lower case", lambda until: _retention(_mode("governance") + _date(until)), MALFORMED),
        ("another root", lambda until: f'<Lock xmlns="{ROOT}">{_mode(GOVERNANCE)}{_date(until)}</Lock>', MALFORMED),
        ("an empty body", lambda _: "", MALFORMED),
        ("no XML", lambda until: f"GOVERNANCE until {until}", MALFORMED),
    )
    case.try_all(
        *(
            (f"{name}{' with bypass' if bypass else ''}", partial(part, name, body, aws, bypass))
            for name, body, aws in bodies
            for bypass in (False, True)
        )
    )


# ---- the version that a request changes


@check("RET-13")
def without_version_id(case: Case) -> None:
    def part(named: bool) -> None:
        locked = case.lock()
        older = case.stored(lock=None if named else locked)
        current = case.stored(older.key, lock=locked if named else None)
        target, other = (older, current) if named else (current, older)
        before = _shown(case, other)
        lock = ObjectLock(GOVERNANCE, locked.until + timedelta(seconds=SOON_SECONDS))
        answer = case.set_retention(target if named else target._replace(id=""), lock)
        case.must_allow(answer, "retention")
        after = _shown(case, other)
        if after.locks != before.locks:
            raise Failed(f"the other version was changed: {before} became {after}")
        _must_take(case, target, lock, answer, "retention")

    case.try_all(
        ("without a version id, for the current version", partial(part, False)),
        ("with the older version's id", partial(part, True)),
    )


@check("RET-14")
def on_a_marker(case: Case) -> None:
    aws = "405 MethodNotAllowed"

    def part(named: bool) -> None:
        version = case.stored()
        identifier = case.delete_key(version.bucket, version.key).version_id
        if not identifier:
            raise Inconclusive("the answer to a delete by key names no delete marker")
        marker = version._replace(id=identifier)
        answer = case.set_retention(marker if named else version._replace(id=""), case.lock())
        below = _shown(case, version)
        if below.state.mode is not None:
            raise Failed(f"was answered {answer}, and the version below the marker now has {below}", "S3", [answer])
        shown = case.retention_of(marker)
        deleting = case.delete(marker)
        if shown is not None or not deleting.ok:
            what = f"{shown.mode} until {iso(shown.until)}" if shown else "no retention"
            words = f"was answered {answer}; the marker shows {what}, and deleting it was answered {deleting}"
            raise Failed(words, "S3", [answer])
        if answer.ok:
            words = f"was answered {answer}, and neither the marker nor the version below is locked"
            raise Failed(words, "S2", [answer])
        case.must_refuse(answer, "retention on a delete marker", aws)
        if not case.client.send("GET", version.bucket, version.key).ok:
            raise Failed("the marker was deleted, but the object is not current again", "S3")

    case.try_all(("by the marker's version id", partial(part, True)), ("by key", partial(part, False)))


@check("RET-15")
def where_no_lock_can_be(case: Case) -> None:
    def missing_key(what: str) -> None:
        nothing = Version(case.bucket, case.key(), "", b"")
        answer = _lock(case, nothing, what)
        if answer.ok or case.client.send("GET", nothing.bucket, nothing.key).ok:
            raise Failed(f"was answered {answer}, though there is no object to lock")
        case.must_refuse(answer, f"{what} on a missing key", "404 NoSuchKey")

    def missing_version(what: str) -> None:
        kept, deleted = (case.stored(key) for key in [case.key()] * 2)
        case.must_allow(case.delete(deleted), "deleting an unlocked version", "204")
        answer = _lock(case, deleted, what)
        state = case.state(kept)
        if state.mode is not None or state.hold == "ON":
            raise Failed(f"was answered {answer}, and another version of the key now has {words_of(state)}")
        if answer.ok:
            raise Failed(f"was answered {answer}, though there is no version to lock")
        case.must_refuse(answer, f"{what} on a missing version", "404 NoSuchVersion")

    def plain(what: str) -> None:
        bucket, key = case.new_bucket(lock=False), case.key()
        answer, version = case.put(key, bucket=bucket)
        if not answer.ok:
            raise Inconclusive(f"an object could not be prepared: PUT answered {answer}")
        _must_not_pretend(case, version._replace(id=""), what, "a plain bucket")

    def versioned(what: str) -> None:
        bucket = case.new_bucket(lock=False)
        answer = case.configure(
            bucket, "versioning", f'<VersioningConfiguration xmlns="{ROOT}"><Status>Enabled</Status>'
            "</VersioningConfiguration>",
        )  # fmt: skip
        if not answer.ok:
            raise Inconclusive(f"versioning could not be enabled on a bucket without Object Lock: {answer}")
        _must_not_pretend(case, case.stored(bucket=bucket), what, "a versioned bucket without Object Lock")

    places = (
        ("missing key", missing_key), ("missing version", missing_version),
        ("plain bucket", plain), ("versioned bucket without Object Lock", versioned),
    )  # fmt: skip
    case.try_all(*((f"{what}, {name}", partial(part, what)) for name, part in places for what in ("retention", "hold")))


@check("RET-17")
def nothing_else_changes(case: Case) -> None:
    body = b"a record with a description"
    checksum = base64.b64encode(hashlib.sha256(body).digest()).decode()
    headers = (
        ("Content-Type", "text/x-record"), ("x-amz-meta-ledger", "1934"), ("x-amz-checksum-sha256", checksum),
    )  # fmt: skip
    version = case.stored(body=body, headers=headers)
    before = _described(case, version)
    time.sleep(1.1)  # Last-Modified has whole seconds
    lock = case.lock(seconds=LOCK_SECONDS - SOON_SECONDS)
    changes: tuple[tuple[str, Callable[[], Answer]], ...] = (
        ("setting retention", lambda: case.set_retention(version, lock)),
        ("extending it", lambda: case.set_retention(version, case.lock())),
        ("hold ON", lambda: case.set_hold(version, "ON")),
        ("hold OFF", lambda: case.set_hold(version, "OFF")),
        ("shortening it with bypass", lambda: case.set_retention(version, lock, bypass=True)),
        ("removing it with bypass", lambda: case.set_retention(version, None, bypass=True)),
    )
    done: list[str] = []

    def must_change_the_lock_alone(name: str, change: Callable[[], Answer]) -> None:
        nonlocal before
        answer = change()
        if not answer.ok:
            case.notes.append(f"{name} was answered {answer}")
            return
        done.append(name)
        after, earlier = _described(case, version), before
        before = after
        if after != earlier:
            names = sorted(name for name in earlier.keys() | after.keys() if earlier.get(name) != after.get(name))
            words = ", ".join(f"{n} {earlier.get(n, 'none')} became {after.get(n, 'none')}" for n in names)
            only_dates = all(name == "last-modified" or name.startswith("listed version ") for name in names)
            raise Failed(words, "S3" if only_dates else "S1")  # a record is altered
        case.must_survive(version, unlocked=True)

    case.try_all(*((name, partial(must_change_the_lock_alone, name, change)) for name, change in changes))
    if not done:
        raise Inconclusive("no change of a lock was accepted")


# ---- how the result is read


@contextmanager
def _while_locked(case: Case, lock: ObjectLock) -> Iterator[None]:
    """Make the result of the block inconclusive if a short lock expired meanwhile: the platform may only be slow."""
    try:
        yield
    except Failed as failed:
        if case.now() > lock.until - timedelta(seconds=GRACE_SECONDS):
            raise Inconclusive(f"the platform was too slow for a lock of seconds: {failed}") from failed
        raise


def _shown(case: Case, version: Version) -> Shown:
    return Shown(case.state(version), case.retention_of(version))


def _must_take(case: Case, version: Version, lock: ObjectLock, answer: Answer, what: str) -> None:
    """Fail unless the request was accepted and the lock is shown as requested, to the second."""
    case.must_allow(answer, what)
    after = _shown(case, version)
    for found in (after.state.lock, after.called or after.state.lock):
        if found is None or found.mode != lock.mode or not same_instant(found.until, lock.until):
            raise Failed(f"{what} ({lock.mode} until {iso(lock.until)}) was answered {answer}, and left {after}")


def _must_stay(case: Case, version: Version, before: Shown, answer: Answer, what: str, aws: str) -> None:
    """Fail unless bytes and lock are unchanged, by HEAD and by GetObjectRetention."""
    after = _shown(case, version)
    if after.locks != before.locks:
        raise Failed(f"{what} was answered {answer}: {before} became {after}")
    case.must_keep(version, before.state, answer, what, aws)


def _shorten(case: Case, kind: str, seconds: float, bypasses: tuple[bool, ...]) -> None:
    """Try to shorten locks by each amount, each on its own version. The amount decides the severity."""

    def part(bypass: bool, amount: _Amount) -> None:
        whole = ObjectLock(kind, case.lock(kind, seconds).until.replace(microsecond=500_000))
        version = case.stored(lock=whole)
        with _while_locked(case, whole):
            for until in amount.dates(case, whole.until):
                before = _shown(case, version)
                answer = case.set_retention(version, ObjectLock(kind, until), bypass=bypass)
            try:
                _must_stay(case, version, before, answer, f"shortening {kind}", amount.aws)
            except Failed as failed:
                raise Failed(str(failed), amount.severity, failed.answers) from failed
            if until < case.now() + timedelta(seconds=SOON_SECONDS):
                case.wait_until(until + timedelta(seconds=GRACE_SECONDS))
                case.must_refuse_delete(version, case.delete(version), "deleting after the date that was refused")

    case.try_all(
        *(
            (f"{amount.name}{' with bypass' if bypass else ''}", partial(part, bypass, amount))
            for bypass in bypasses
            for amount in _AMOUNTS
        )
    )


def _lock(case: Case, version: Version, what: str) -> Answer:
    return case.set_retention(version, case.lock()) if what == "retention" else case.set_hold(version, "ON")


def _must_not_pretend(case: Case, version: Version, what: str, where: str) -> None:
    """Fail if the platform accepts retention or hold in a bucket without Object Lock and does not apply it."""
    answer = _lock(case, version, what)
    query = (("versionId", version.id),) if version.id else ()
    if answer.ok:
        shown = case.state(version)
        deleted = case.client.send("DELETE", version.bucket, version.key, query=query)
        if not case.client.send("GET", version.bucket, version.key, query=query).ok:
            words = f"was answered {answer} in {where}, and the object, shown with {words_of(shown)}, was then deleted"
            raise Failed(f"{words} ({deleted})", "S1" if shown.lock is not None or shown.hold == "ON" else "S2")
        if what == "hold":
            case.set_hold(version, "OFF")
        case.deviate(f"{what} in {where} was answered {answer}, and kept; {case.expected('400 InvalidRequest')}")
        return
    case.must_refuse(answer, f"{what} in {where}", "400 InvalidRequest")


def _described(case: Case, version: Version) -> dict[str, str]:
    """Return what HEAD and the list of versions show of a version except its lock."""
    answer = case.client.send(
        "HEAD", version.bucket, version.key,
        query=(("versionId", version.id),), headers=(("x-amz-checksum-mode", "ENABLED"),),
    )  # fmt: skip
    described = {
        name: value
        for name, value in answer.headers.items()
        if name in ("etag", "last-modified", "content-type", "content-length", "x-amz-version-id")
        or name.startswith(("x-amz-meta-", "x-amz-checksum-"))
    }
    listed = case.client.send("GET", version.bucket, query=(("versions", None), ("prefix", version.key)))
    for element in listed.elements("Version"):
        fields = {field.tag.rpartition("}")[2]: field.text or "" for field in element}
        described[f"listed version {fields.get('VersionId')}"] = f"of {fields.get('LastModified')}"
    return described


def _retention(inner: str) -> str:
    return f'<Retention xmlns="{ROOT}">{inner}</Retention>'


def _mode(name: str) -> str:
    return f"<Mode>{name}</Mode>"


def _date(text: str) -> str:
    return f"<RetainUntilDate>{text}</RetainUntilDate>"
