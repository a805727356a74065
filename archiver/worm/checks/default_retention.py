"""DFT: the default retention that a bucket applies to objects stored without a retention.

One idea: the platform applies a default once. A version gets mode and date when it is created, counted from its own
creation, whichever request stored it, and keeps both when the rule changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial

from archiver.worm import multipart
from archiver.worm.case import GOVERNANCE, Case, Version, VersionState, md5_of, same_instant, words_of
from archiver.worm.checks import check
from archiver.worm.checks.configuration import bucket_lock, prepare_default
from archiver.worm.checks.ingest import post_form
from archiver.worm.listing import versions
from archiver.worm.requests.exchange import Answer
from archiver.worm.verdict import Failed, Inconclusive, NotOffered, NotTried

DAY = timedelta(days=1)
EARLY_SECONDS = 1.0  # Last-Modified has whole seconds, and some platforms' retain-until dates too
LATE_SECONDS = 5.0
APART_SECONDS = 5.0  # between two versions whose dates must differ by as much
LONGER_SECONDS = 24.5 * 3600  # longer than the default; no lock of the suite is longer

Way = Callable[[Case, str], tuple[Answer, Version]]  # stores an object without a retention in a bucket


def must_be_stamped(case: Case, version: Version) -> None:
    """Fail unless the version is under GOVERNANCE for a day from its creation and cannot be deleted."""
    state = case.state(version)
    if state.body is None:
        raise Failed("the stored object cannot be read")
    if state.mode != GOVERNANCE or state.until is None:
        answer = case.delete(version)
        outcome = "can be deleted" if case.state(version).body is None else f"deleting it was answered {answer}"
        raise Failed(f"was stored with {words_of(state)} under a default of 1 day in GOVERNANCE mode, and {outcome}")
    late_seconds = (state.until - (_created(case, state) + DAY)).total_seconds()
    if late_seconds < -EARLY_SECONDS:
        raise Failed(f"is protected for 1 day less {-late_seconds:.1f} s from its creation, under a default of 1 day")
    if late_seconds > LATE_SECONDS:
        case.deviate(f"a default of 1 day protects for {late_seconds:.1f} s more")
    if state.body != version.body:
        case.notes.append(f"{version.key} is shown with other bytes than were sent; see ING-14")
    kept = version._replace(body=state.body)
    case.must_refuse_delete(kept, case.delete(kept), "deleting a version under a default retention")


def _created(case: Case, state: VersionState) -> datetime:
    shown = state.headers.get("last-modified")
    return parsedate_to_datetime(shown) if shown is not None else case.now()


def _default_bucket(case: Case) -> str:
    bucket = case.new_bucket()
    prepare_default(case, bucket)
    return bucket


def _stamped(case: Case, bucket: str, key: str | None = None) -> Version:
    """Store a version by a plain PUT and check that the default applies. Raises Inconclusive."""
    answer, version = case.put(key, bucket=bucket)
    if not answer.ok or case.state(version).mode != GOVERNANCE:
        raise Inconclusive(f"a PUT under a default was answered {answer}, and the version has no retention; see DFT-01")
    return version


def _must_be_unchanged(case: Case, version: Version, before: VersionState, after_what: str) -> None:
    after = case.state(version)
    if after.lock != before.lock:
        raise Failed(f"{after_what}, an older version had {words_of(before)} and has {words_of(after)}")


@check("DFT-01")
def stamp_a_put(case: Case) -> None:
    bucket = case.new_bucket()
    answer = case.set_default(bucket)
    case.must_allow(answer, "setting a default of 1 day in GOVERNANCE mode")
    shown = bucket_lock(case, bucket)
    if (shown.enabled, shown.mode, shown.days) != (True, GOVERNANCE, "1"):
        raise Failed(f"a default of 1 day in GOVERNANCE mode was answered {answer}, and the bucket has {shown}")
    answer, version = case.put(bucket=bucket)
    case.must_allow(answer, "a plain PUT under a default")
    must_be_stamped(case, version)


# ---- by every kind of request


def _put_empty(case: Case, bucket: str, ending: str = "") -> tuple[Answer, Version]:
    key = case.key(ending)
    answer = case.client.send("PUT", bucket, key, headers=[("Content-MD5", md5_of(b""))])
    return answer, Version(bucket, key, answer.version_id or "", b"")


def _put_presigned(case: Case, bucket: str) -> tuple[Answer, Version]:
    key, body = case.key(), b"by a URL that carries its signature"
    headers = [("Content-MD5", md5_of(body))]
    answer = case.client.send_presigned("PUT", bucket, key, signed=headers, headers=headers, body=body)
    return answer, Version(bucket, key, answer.version_id or "", body)


def _post(case: Case, bucket: str) -> tuple[Answer, Version]:
    return post_form(replace(case, bucket=bucket), {"Content-Type": "text/plain"})


def _copy(case: Case, bucket: str, hold: str | None = None) -> tuple[Answer, Version]:
    return case.copy(case.stored(), hold=hold, bucket=bucket)


def _upload_in_parts(case: Case, bucket: str, hold: str | None = None) -> tuple[Answer, Version]:
    return multipart.uploaded(case, [b"the only part"], hold=hold, bucket=bucket)


def _put(case: Case, bucket: str, hold: str) -> tuple[Answer, Version]:
    return case.put(hold=hold, bucket=bucket)


WAYS: dict[str, Way] = {
    "a multipart upload": _upload_in_parts,
    "a copy": _copy,
    "a browser POST": _post,
    "a presigned PUT": _put_presigned,
    "a PUT of 0 bytes": _put_empty,
    "a PUT to a key with / at its end": lambda case, bucket: case.put(case.key("/"), bucket=bucket),
    "a PUT of 0 bytes to a key with / at its end": lambda case, bucket: _put_empty(case, bucket, "/"),
}


def _made(case: Case, bucket: str, way: Way) -> Version:
    """Store a version in this way. Raises NotOffered if the platform refuses it without a default too."""
    answer, version = way(case, bucket)
    if not answer.ok:
        elsewhere, _ = way(case, case.bucket)
        if not elsewhere.ok:
            raise NotOffered(f"was answered {elsewhere} without a default too")
        raise Failed(f"was answered {answer} under a default, and {elsewhere} without")
    if version.id:
        return version
    found = [entry for page in versions(case, bucket, version.key) for entry in page if entry.key == version.key]
    if not found:
        raise Failed(f"was answered {answer}, and nothing was stored")
    return version._replace(id=found[0].id)


@check("DFT-02")
def stamp_by_every_way(case: Case) -> None:
    bucket = _default_bucket(case)
    _stamped(case, bucket)

    def judge(way: Way) -> None:
        must_be_stamped(case, _made(case, bucket, way))

    case.try_all(*((name, partial(judge, way)) for name, way in WAYS.items()))


@check("DFT-03")
def stamp_with_a_hold(case: Case) -> None:
    bucket = _default_bucket(case)
    _stamped(case, bucket)

    def judge(way: Callable[[Case, str, str], tuple[Answer, Version]], hold: str) -> None:
        version = _made(case, bucket, lambda case, bucket: way(case, bucket, hold))
        must_be_stamped(case, version)
        shown = case.state(version).hold
        if (shown == "ON") != (hold == "ON"):
            raise Failed(f"was stored with hold {shown or 'not set'}")

    ways = {"a PUT": _put, "a multipart upload": _upload_in_parts, "a copy": _copy}
    case.try_all(
        *(
            (f"{name} with hold {hold}", partial(judge, way, hold))
            for name, way in ways.items()
            for hold in ("ON", "OFF")
        )
    )


@check("DFT-04")
def explicit_retention_wins(case: Case) -> None:
    bucket = _default_bucket(case)

    def judge(seconds: float | None) -> None:
        lock = case.lock(seconds=seconds)
        answer, version = case.put(bucket=bucket, lock=lock)
        case.must_allow(answer, "a PUT with a retention of its own under a default")
        state = case.state(version)
        if state.mode != lock.mode or not same_instant(state.until, lock.until):
            raise Failed(f"requested {words_of(VersionState(b'', *lock))}, but was stored with {words_of(state)}")

    case.try_all(("shorter than the default", partial(judge, None)), ("longer", partial(judge, LONGER_SECONDS)))


# ---- after a change of the rule


@check("DFT-05")
def change_the_default(case: Case) -> None:
    bucket = _default_bucket(case)
    answer, version = case.put(bucket=bucket)
    before = case.state(version)
    case.delete(version)
    if not answer.ok or before.body is None or case.state(version).body is None:
        raise Inconclusive(f"no object under a default could be prepared: PUT was answered {answer}; see DFT-01")
    for what, days in (("lengthened to 2 days", 2), ("shortened to 1 day", 1), ("cleared", None)):
        answer = case.set_default(bucket, days=days)
        if not answer.ok:
            raise NotOffered(f"the default of a bucket with objects cannot be {what}: {answer}")
        shown = bucket_lock(case, bucket)
        if shown.days != ("" if days is None else str(days)):
            raise Inconclusive(f"the default was not {what}: {answer}, and the bucket has {shown}")
        _must_be_unchanged(case, version, before, f"after the default was {what}")
        answer = case.delete(version)
        if case.state(version).body is None:
            raise Failed(f"after the default was {what}, an older version that it had protected could be deleted")
        if before.mode is not None:  # a default that is not applied fails DFT-01
            case.must_refuse_delete(version, answer, f"deleting an older version after the default was {what}")


@check("DFT-06")
def older_than_the_rule(case: Case) -> None:
    bucket = case.new_bucket()
    version = case.stored(bucket=bucket)
    prepare_default(case, bucket)
    state = case.state(version)
    if state.mode is not None:
        raise Failed(f"an object written before the default was set has {words_of(state)}")
    case.must_allow(case.delete(version), "deleting an object written before the default was set", "204")
    case.must_be_gone(version, "deleting an object written before the default was set")


@check("DFT-07")
def compliance_default(case: Case) -> None:
    raise NotTried("needs a disposable platform: a default has whole days, and no credential can undo COMPLIANCE")


@check("DFT-08")
def count_from_creation(case: Case) -> None:
    bucket = _default_bucket(case)
    older = _stamped(case, bucket)
    before = case.state(older)
    case.wait_until(case.now() + timedelta(seconds=APART_SECONDS))
    must_be_stamped(case, _stamped(case, bucket, older.key))
    _must_be_unchanged(case, older, before, f"{APART_SECONDS:.0f} s and a newer version later")
