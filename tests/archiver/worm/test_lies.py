"""Test the S3 checks on platforms that lie in one way each: exactly the checks for that lie fail.

The store is real and correct. A lie is a layer in front of it, so a check sees what such a platform would show.
Locks are shorter here than in real runs, so that checks that wait end within seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest

from archiver.worm import checks
from archiver.worm.case import COMPLIANCE, GOVERNANCE, ObjectLock, Version, iso, lock_configuration, md5_of
from archiver.worm.checks import (
    CHECKS,
    clock,
    default_retention,
    hold,
    overwrite,
    races,
    retention,
    retrieval,
    side_doors,
)
from archiver.worm.requests.checksums import KINDS, checksum_of
from archiver.worm.requests.exchange import Answer
from archiver.worm.suite import CheckResult
from archiver.worm.verdict import CheckVerdict
from backends.embedded import process
from tests.archiver.worm.checked_platform import CheckedPlatform, of, reasons
from tests.support.servers.lying_client import (
    BYPASS,
    DENIED,
    GONE,
    HOLD,
    MODE,
    NOT_FOUND,
    UNTIL,
    YES,
    Asked,
    Lie,
    Store,
    is_governance,
    lying,
    shown_with,
)

checks.load()

# Left out unless a lie names them: these checks wait, or send hundreds of requests or megabytes.
LONG = {
    "BAT-03", "CLK-01", "CLK-02", "CLK-03", "CLK-04", "CLK-10", "DEL-12", "DFT-08", "ING-10", "ING-11", "ING-14",
    "LH-02", "LH-10", "OVR-04", "OVR-05", "RET-02", "RET-04", "RET-05", "RET-12", "RET-15", "RET-16", "RET-17",
    "VER-03", "VER-04", "VER-05", "VER-06", "VER-09", *(each for each in CHECKS if each.startswith("RAC")),
}  # fmt: skip


class Platform(CheckedPlatform):
    """A store, and the suite of checks run on it."""

    def results(self, lie: Lie, *words: str) -> list[CheckResult]:
        """Return the results of the named checks and families. Families are tried without LONG."""
        client = lying(self.client, lie, self.bucket)
        ids = [each for each in CHECKS if each in words or (each not in LONG and each.partition("-")[0] in words)]
        assert ids
        return self.run(ids, client)


@pytest.fixture(scope="module")
def platform(checked_store: process.StoreProcess) -> Platform:
    return Platform(checked_store)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    changes_of: dict[ModuleType, dict[str, Any]] = {
        retention: {"SOON_SECONDS": 1.0, "GRACE_SECONDS": 0.2},
        hold: {"SOON_SECONDS": 0.8, "GRACE_SECONDS": 0.2, "OBJECTS": 20},
        clock: {
            "SHORT_SECONDS": 1.2, "GRACE_LOCAL_SECONDS": 0.2, "DATE_STEP_SECONDS": 0.2, "FLIP_SECONDS": 0.1,
            "EARLY_SECONDS": (0.5, 0.4), "WATCH_SECONDS": 0.3,
        },
        default_retention: {"APART_SECONDS": 2.2},
        overwrite: {"_DATE_SECONDS": 0.0},
        races: {"PAIRS": 60, "RATE_MAX": 0.15, "SETTLED_SECONDS": 0.0},
        retrieval: {"PAGE_ENTRIES_MAX": 20, "PUTS": 30, "CLOCK_SECONDS": 1.1},
        side_doors: {"WATCHED_SECONDS": 0.1},
    }  # fmt: skip
    for module, changes in changes_of.items():
        for name, value in changes.items():
            monkeypatch.setattr(module, name, value)


# ---- deleting


def deletes_under_governance(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403 and asked.client.credentials == store.owner.client.credentials:
        return store.owner.delete(asked.version, bypass=True)
    return answer


def deletes_and_says_no(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403 and is_governance(store.owner.state(asked.version).lock):
        store.owner.delete(asked.version, bypass=True)
    return answer


def hides_what_is_under_compliance(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403 and store.owner.state(asked.version).mode == COMPLIANCE:
        store.hidden.add(store.current(asked))
        return GONE
    return answer


def bypasses_compliance(asked: Asked, store: Store) -> Answer:
    return hides_what_is_under_compliance(asked, store) if BYPASS in asked.headers else asked.pass_on()


def says_yes_and_deletes_nothing(asked: Asked, _: Store) -> Answer:
    return GONE if asked.is_delete else asked.pass_on()


def deletes_by_key_what_is_locked(asked: Asked, store: Store) -> Answer:
    if asked.method == "DELETE" and asked.key and not asked.query:
        current = store.current(asked)
        answer = asked.pass_on()
        if current.id:
            store.destroy(current)
        return answer
    return asked.pass_on()


def forgets_locks_under_newer_versions(asked: Asked, store: Store) -> Answer:
    if asked.is_delete and store.is_locked(asked.version):
        newest = store.owner.client.send("GET", asked.bucket, asked.key)
        if newest.version_id != asked.version.id:
            store.destroy(asked.version)
    return asked.pass_on()


def gives_in_at_the_thirtieth_attempt(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403:
        version = store.current(asked)
        store.told[version] = store.told.get(version, 0) + 1
        if store.told[version] == 30:
            store.destroy(version)
    return answer


def obeys_a_condition_before_the_lock(asked: Asked, store: Store) -> Answer:
    if asked.is_delete and asked.headers.get("if-match") == "*":
        store.destroy(asked.version)
    return asked.pass_on()


def obeys_force(asked: Asked, store: Store) -> Answer:
    if asked.method == "DELETE" and asked.key and "x-minio-force-delete" in asked.headers:
        listed = store.owner.client.send("GET", asked.bucket, query=(("versions", None), ("prefix", asked.key)))
        for element in listed.elements("VersionId"):
            store.destroy(Version(asked.bucket, listed.text_of("Key"), element.text or "", b""))
        return GONE
    return asked.pass_on()


def trims_version_ids(asked: Asked, store: Store) -> Answer:
    if asked.is_delete and asked.version.id != asked.version.id.strip():
        store.destroy(asked.version._replace(id=asked.version.id.strip()))
        return GONE
    return asked.pass_on()


# ---- retention


def takes_a_shorter_period(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.status == 403 and BYPASS not in asked.headers and asked.lock:
        return store.relock(asked.version, asked.lock)
    return answer


def takes_a_second_off(asked: Asked, store: Store) -> Answer:
    """Accept a date that is one second earlier."""
    before = store.owner.state(asked.version).until if asked.sets("retention") else None
    answer = asked.pass_on()
    if asked.lock and before and answer.status == 403 and before - asked.lock.until == timedelta(seconds=1):
        return store.relock(asked.version, asked.lock)
    return answer


def shortens_compliance_with_bypass(asked: Asked, store: Store) -> Answer:
    """Report a shortened COMPLIANCE date. The store cannot shorten it, but reads can show it."""
    answer = asked.pass_on()
    if asked.sets("retention") and BYPASS in asked.headers and asked.lock and asked.lock.mode == COMPLIANCE:
        store.told[store.current(asked)] = iso(asked.lock.until)
        return YES
    if asked.is_read and asked.version._replace(body=b"") in store.told:
        return shown_with(answer, until=store.told[asked.version._replace(body=b"")])
    return answer


def _shortens_compliance(asked: Asked, store: Store, accepts: Callable[[timedelta, bool], bool]) -> Answer:
    """Report a shortened COMPLIANCE date. The store cannot shorten it, but reads can show it.

    ``accepts`` gets the amount, and whether the date was shortened before.
    """
    named = asked.version._replace(body=b"")
    if asked.sets("retention") and asked.lock and asked.lock.mode == COMPLIANCE:
        before = store.told.get(named) or store.owner.state(asked.version).until
        if before and asked.lock.until < before and accepts(before - asked.lock.until, named in store.told):
            store.told[named] = asked.lock.until
            return YES
    answer = asked.pass_on()
    return shown_with(answer, until=iso(store.told[named])) if asked.is_read and named in store.told else answer


def shortens_compliance_at_will(asked: Asked, store: Store) -> Answer:
    return _shortens_compliance(asked, store, lambda amount, again: True)


def shortens_compliance_again_and_again(asked: Asked, store: Store) -> Answer:
    return _shortens_compliance(asked, store, lambda amount, again: amount <= timedelta(seconds=1))


def shortens_compliance_by_one_second_once(asked: Asked, store: Store) -> Answer:
    return _shortens_compliance(asked, store, lambda amount, again: amount <= timedelta(seconds=1) and not again)


def shortens_compliance_within_a_second(asked: Asked, store: Store) -> Answer:
    return _shortens_compliance(asked, store, lambda amount, again: amount < timedelta(seconds=0.5))


def removes_retention_when_asked(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and BYPASS not in asked.headers and asked.lock is None and b"Retention" in asked.body:
        return store.owner.set_retention(asked.version, None, bypass=True)
    return answer


def turns_compliance_into_governance(asked: Asked, store: Store) -> Answer:
    """Show GOVERNANCE in HEAD after a refused change, so that the owner could bypass it."""
    answer = asked.pass_on()
    named = asked.version._replace(body=b"")
    if asked.sets("retention") and answer.status == 403 and is_governance(asked.lock):
        store.told[named] = GOVERNANCE
        return YES
    return shown_with(answer, mode=GOVERNANCE) if asked.is_read and named in store.told else answer


def keeps_compliance_as_governance(asked: Asked, store: Store) -> Answer:
    """Store COMPLIANCE as GOVERNANCE, but report COMPLIANCE."""
    if asked.is_put and asked.headers.get(MODE) == COMPLIANCE:
        answer = asked.changed({**asked.headers, MODE: GOVERNANCE})
        store.told[asked.version._replace(id=answer.version_id or "", body=b"")] = COMPLIANCE
        return answer
    answer = asked.pass_on()
    if answer.ok and asked.version._replace(body=b"") in store.told:
        if "retention" in asked.query:
            return replace(answer, body=answer.body.replace(GOVERNANCE.encode(), COMPLIANCE.encode()))
        return shown_with(answer, mode=COMPLIANCE) if asked.is_read and answer.headers.get(MODE) else answer
    return answer


def shows_extensions_that_it_does_not_keep(asked: Asked, store: Store) -> Answer:
    named = asked.version._replace(body=b"")
    if asked.sets("retention") and asked.lock and BYPASS not in asked.headers:
        now = store.owner.state(asked.version).until
        if now is not None and now < asked.lock.until:
            store.told[named] = iso(asked.lock.until)
            return YES
    answer = asked.pass_on()
    if answer.ok and named in store.told and not asked.is_delete:
        if "retention" in asked.query and asked.method == "GET":
            date = f"<RetainUntilDate>{store.told[named]}</RetainUntilDate>".encode()
            return replace(answer, body=re.sub(b"<RetainUntilDate>.*</RetainUntilDate>", date, answer.body))
        return shown_with(answer, until=store.told[named]) if asked.is_read else answer
    return answer


def sets_a_second_less(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.ok and is_governance(asked.lock) and asked.lock:
        version = store.current(asked)
        store.relock(version, ObjectLock(GOVERNANCE, asked.lock.until - timedelta(seconds=1)))
    return answer


def locks_the_version_below_too(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.ok and asked.lock and not asked.version.id:
        for version in _versions(store, asked):
            store.relock(version, asked.lock)
    return answer


def _versions(store: Store, asked: Asked) -> list[Version]:
    """Return every version of a key, or of every key in the bucket if none is given."""
    query = (("versions", None), *((("prefix", asked.key),) if asked.key else ()))
    listed = store.owner.client.send("GET", asked.bucket, query=query)
    fields = [{each.tag.rpartition("}")[2]: each.text or "" for each in entry} for entry in listed.elements("Version")]
    return [Version(asked.bucket, each["Key"], each["VersionId"], b"") for each in fields]


def modifies_by_locking(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.ok:
        store.told[store.current(asked)] = "Mon, 01 Jan 2035 00:00:00 GMT"
    told = store.told.get(asked.version._replace(body=b"")) if asked.is_read else None
    return replace(answer, headers={**answer.headers, "last-modified": told}) if told and answer.ok else answer


def takes_retention_without_keeping_it(asked: Asked, _: Store) -> Answer:
    return YES if asked.sets("retention") else asked.pass_on()


def locks_only_once(asked: Asked, store: Store) -> Answer:
    until = store.owner.state(asked.version).until if asked.sets("retention") else None
    return DENIED if until and until < store.owner.now() else asked.pass_on()


def locks_what_is_below_a_marker(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.status == 405 and asked.lock:
        for version in _versions(store, asked):
            store.owner.set_retention(version, asked.lock)
        return YES
    return answer


def locks_the_marker(asked: Asked, store: Store) -> Answer:
    named = asked.version._replace(body=b"")
    if asked.is_delete and named in store.told:
        return DENIED
    answer = asked.pass_on()
    if asked.sets("retention") and answer.status == 405 and named.id:
        store.told[named] = True
        return YES
    return answer


def locks_nothing_and_says_yes(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    nowhere = asked.sets("retention") and answer.status in (400, 404) and asked.lock and asked.lock.mode == GOVERNANCE
    return YES if nowhere else answer


def takes_half_a_retention_for_none(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.status == 400 and b"<Mode>GOVERNANCE</Mode></Retention>" in asked.body:
        return store.owner.set_retention(asked.version, None, bypass=True)
    return answer


# ---- legal holds


def ignores_holds(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403:
        state = store.owner.state(asked.version)
        if state.hold == "ON" and (state.mode is None or (state.until and state.until < store.owner.now())):
            store.destroy(asked.version)
            return GONE
    return answer


def bypasses_holds(asked: Asked, store: Store) -> Answer:
    return ignores_holds(asked, store) if BYPASS in asked.headers else asked.pass_on()


def ends_holds_with_retention(asked: Asked, store: Store) -> Answer:
    state = store.owner.state(asked.version) if asked.is_delete else None
    if state and state.until and state.until < store.owner.now():
        store.owner.set_hold(asked.version, "OFF")
    return asked.pass_on()


def loses_the_hold_when_retention_changes(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.ok:
        store.owner.set_hold(store.current(asked), "OFF")
    return answer


def loses_retention_with_the_hold(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("legal-hold") and answer.ok and b"OFF" in asked.body:
        store.owner.set_retention(store.current(asked), None, bypass=True)
    return answer


def shows_holds_that_it_does_not_keep(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("legal-hold") and answer.ok:
        version = store.current(asked)
        store.told[version] = "ON" if b"ON" in asked.body else "OFF"
        store.owner.set_hold(version, "OFF")
    told = store.told.get(asked.version._replace(body=b"")) if asked.method in ("GET", "HEAD") else None
    if told is None or not answer.ok:
        return answer
    if "legal-hold" in asked.query:
        return replace(answer, body=f"<LegalHold><Status>{told}</Status></LegalHold>".encode())
    return shown_with(answer, hold=told)


def never_releases(asked: Asked, _: Store) -> Answer:
    return YES if asked.sets("legal-hold") and b"OFF" in asked.body else asked.pass_on()


def holds_every_version_of_the_key(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("legal-hold") and answer.ok and b"ON" in asked.body:
        for version in _versions(store, asked):
            store.owner.set_hold(version, "ON")
    return answer


def misses_one_hold_of_many(asked: Asked, _: Store) -> Answer:
    if asked.sets("legal-hold") and b"ON" in asked.body and asked.key.endswith("/007"):
        return YES
    return asked.pass_on()


def takes_any_word_for_off(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("legal-hold") and answer.status == 400 and b"MAYBE" in asked.body:
        return store.owner.set_hold(asked.version, "OFF")
    return answer


def lets_everybody_lift_holds(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("legal-hold") and answer.status == 403:
        return store.owner.set_hold(asked.version, "OFF" if b"OFF" in asked.body else "ON")
    return answer


def shows_no_hold(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    return shown_with(answer, hold="OFF") if asked.is_read and HOLD in answer.headers else answer


# ---- bypass


def takes_any_word_for_the_bypass(asked: Asked, store: Store) -> Answer:
    if asked.headers.get(BYPASS) == "false":
        return asked.changed({**asked.headers, BYPASS: "true"})
    return asked.pass_on()


def lets_everybody_bypass(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if answer.status == 403 and asked.headers.get(BYPASS) == "true":
        if asked.is_delete:
            return store.owner.delete(asked.version, bypass=True)
        if asked.sets("retention"):
            return store.owner.set_retention(asked.version, asked.lock, bypass=True)
    return answer


def lets_everybody_shorten(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.status == 403 and asked.headers.get(BYPASS) == "true" and asked.lock:
        return store.relock(asked.version, asked.lock) if is_governance(asked.lock) else answer
    return answer


def shortens_by_any_word_for_the_bypass(asked: Asked, store: Store) -> Answer:
    return takes_any_word_for_the_bypass(asked, store) if asked.sets("retention") else asked.pass_on()


def lets_nobody_bypass(asked: Asked, _: Store) -> Answer:
    return DENIED if BYPASS in asked.headers else asked.pass_on()


def drops_the_lock_of_whom_it_does_not_let_lock(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    return asked.without(MODE, UNTIL, HOLD) if asked.is_put and answer.status == 403 else answer


def lets_everybody_lock(asked: Asked, store: Store) -> Answer:
    answer = locks_for_whom_it_does_not_let_lock(asked, store)
    if asked.sets("retention") and answer.status == 403 and asked.lock:
        return store.owner.set_retention(asked.version, asked.lock)
    return answer


def locks_for_whom_it_does_not_let_lock(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_put and answer.status == 403 and asked.lock:
        return store.owner.put(asked.key, asked.body, lock=asked.lock, bucket=asked.bucket)[0]
    return answer


def locks_for_whom_it_does_not_let_lock_without_a_default(asked: Asked, store: Store) -> Answer:
    is_plain = asked.is_put and not _has_default(asked, store)
    return locks_for_whom_it_does_not_let_lock(asked, store) if is_plain else asked.pass_on()


# ---- overwriting locked objects


def keeps_one_version_of_a_key(asked: Asked, store: Store) -> Answer:
    before = store.current(asked) if asked.is_put else None
    answer = asked.pass_on()
    if before and before.id and answer.ok:
        store.destroy(before)
    return answer


def _writes_over(store: Store, asked: Asked, version: Version) -> Answer:
    store.told[version._replace(body=b"")] = asked.body
    return replace(YES, headers={"x-amz-version-id": version.id})


def _read_over(store: Store, asked: Asked) -> Answer:
    answer = asked.pass_on()
    told = store.told.get(asked.version._replace(body=b"")) if asked.is_read and asked.method == "GET" else None
    return replace(answer, body=told) if told is not None and answer.ok else answer


def overwrites_in_place(asked: Asked, store: Store) -> Answer:
    if asked.is_put and asked.version.id and "x-amz-replication-status" not in asked.headers:
        return _writes_over(store, asked, asked.version)
    return _read_over(store, asked)


def overwrites_as_a_replica(asked: Asked, store: Store) -> Answer:
    if asked.is_put and asked.version.id and "x-minio-source-replication-request" in asked.headers:
        return _writes_over(store, asked, asked.version)
    return _read_over(store, asked)


def appends_to_what_is_locked(asked: Asked, store: Store) -> Answer:
    if asked.method == "PUT" and ("append" in asked.query or "x-amz-write-offset-bytes" in asked.headers):
        return _writes_over(store, asked, store.current(asked))
    return _read_over(store, asked)


def renames(asked: Asked, store: Store) -> Answer:
    if asked.method == "PUT" and "renameObject" in asked.query:
        bucket, _, key = asked.headers["x-amz-rename-source"].removeprefix("/").partition("/")
        for version in _versions(store, replace(asked, bucket=bucket, key=key)):
            store.hidden.add(version)
        return YES
    return asked.pass_on()


def keeps_nothing_under_an_upload(asked: Asked, store: Store) -> Answer:
    return keeps_one_version_of_a_key(asked, store) if asked.way == "upload" else asked.pass_on()


def keeps_nothing_under_a_copy(asked: Asked, store: Store) -> Answer:
    return keeps_one_version_of_a_key(asked, store) if asked.way == "copy" else asked.pass_on()


def locks_copies_as_their_source(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.way == "copy" and answer.ok:
        store.owner.set_hold(asked.version._replace(id=answer.version_id or ""), "ON")
    return answer


def ignores_if_none_match(asked: Asked, _: Store) -> Answer:
    return asked.without("if-none-match") if asked.is_put else asked.pass_on()


# ---- batches


def deletes_locked_versions_in_batches(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_batch and answer.ok:
        for entry in asked.entries:
            if entry.id and is_governance(store.owner.state(entry).lock) and not store.is_held(entry):
                store.destroy(entry)
    return answer


def keeps_quiet_about_refusals(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    is_quiet = asked.is_batch and b"<Quiet>true" in asked.body
    return replace(answer, body=b"<DeleteResult></DeleteResult>") if is_quiet else answer


def deletes_what_is_listed_twice(asked: Asked, store: Store) -> Answer:
    if asked.is_batch:
        for entry in asked.entries:
            if entry.id and asked.entries.count(entry) > 1:
                store.destroy(entry)
    return asked.pass_on()


def destroys_folders_in_batches(asked: Asked, store: Store) -> Answer:
    """Delete every version under a key that ends in /, as if it were a folder."""
    if asked.is_batch:
        for entry in asked.entries:
            if not entry.id and entry.key.endswith("/"):
                for version in _versions(store, replace(asked, key=entry.key)):
                    store.destroy(version)
    return asked.pass_on()


def takes_batches_of_any_length(asked: Asked, store: Store) -> Answer:
    if asked.is_batch and len(asked.entries) > 1000:
        store.owner.delete_many(asked.bucket, [(each.key, each.id or None) for each in asked.entries[:3]])
        return YES
    return asked.pass_on()


def bypasses_holds_in_batches(asked: Asked, store: Store) -> Answer:
    if asked.is_batch and BYPASS in asked.headers and asked.client.credentials == store.owner.client.credentials:
        for entry in asked.entries:
            if store.is_held(entry):
                store.destroy(entry)
    return asked.pass_on()


def lets_everybody_bypass_in_batches(asked: Asked, store: Store) -> Answer:
    if asked.is_batch and BYPASS in asked.headers and asked.client.credentials != store.owner.client.credentials:
        store.owner.delete_many(
            asked.bucket, [(each.key, each.id) for each in asked.entries], headers=[(BYPASS, "true")]
        )
    return asked.pass_on()


# ---- storing with a lock


def drops_the_lock(asked: Asked, _: Store) -> Answer:
    return asked.without(MODE, UNTIL) if asked.is_put and MODE in asked.headers else asked.pass_on()


def drops_the_hold(asked: Asked, _: Store) -> Answer:
    return asked.without(HOLD) if asked.is_put and HOLD in asked.headers else asked.pass_on()


def stores_a_date_a_second_sooner(asked: Asked, _: Store) -> Answer:
    if asked.is_put and asked.lock and asked.headers.get(MODE) == GOVERNANCE:
        return asked.changed({**asked.headers, UNTIL: iso(asked.lock.until - timedelta(seconds=1))})
    return asked.pass_on()


def drops_what_it_does_not_understand(asked: Asked, _: Store) -> Answer:
    """Store an object without its invalid lock."""
    answer = asked.pass_on()
    if asked.is_put and answer.status == 400 and asked.headers.keys() & {MODE, UNTIL, HOLD}:
        again = asked.without(MODE, UNTIL, HOLD)
        return again if again.ok else answer
    return answer


def drops_the_lock_of_nothing(asked: Asked, store: Store) -> Answer:
    return asked.without(MODE, UNTIL) if asked.is_put and not asked.body else asked.pass_on()


def does_not_look_at_checksums(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    names = [name for name in asked.headers if name.startswith("x-amz-checksum-")]
    if asked.is_put and answer.status == 400 and names:
        return asked.changed(
            {name: value for name, value in asked.headers.items() if name not in names}
            | {"x-amz-checksum-sha256": checksum_of("sha256", asked.body)}
        )
    return answer


def does_not_look_at_digests_of_calls(asked: Asked, _: Store) -> Answer:
    if "content-md5" in asked.headers and not asked.is_put:
        return asked.changed({**asked.headers, "content-md5": md5_of(asked.body)})
    return asked.pass_on()


def drops_the_lock_of_uploads(asked: Asked, _: Store) -> Answer:
    return asked.without(MODE, UNTIL, HOLD) if asked.way == "upload" else asked.pass_on()


def drops_the_lock_of_copies(asked: Asked, _: Store) -> Answer:
    return asked.without(MODE, UNTIL, HOLD) if asked.way == "copy" else asked.pass_on()


def knows_no_checksum_headers(asked: Asked, _: Store) -> Answer:
    names = {f"x-amz-checksum-{kind}" for kind in KINDS}
    kept = {name: value for name, value in asked.headers.items() if name not in names}
    is_told = asked.is_put and len(kept) < len(asked.headers)
    answer = asked.changed({**kept, "content-md5": md5_of(asked.body)}) if is_told else asked.pass_on()
    return replace(answer, headers={name: value for name, value in answer.headers.items() if name not in names})


def names_no_copied_version(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    named = {name: value for name, value in answer.headers.items() if name != "x-amz-version-id"}
    return replace(answer, headers=named) if asked.way == "copy" else answer


# ---- keys that end in /


def keeps_no_versions_of_folders(asked: Asked, store: Store) -> Answer:
    """Keep one version, named null, of a key that ends in /. While it is locked, no client can overwrite or delete
    it."""
    if not asked.key.endswith("/"):
        for entry in asked.entries if asked.is_batch else ():
            if entry.key.endswith("/") and store.is_locked(store.current(replace(asked, key=entry.key, query={}))):
                return replace(
                    YES, body=f"<R><Error><Key>{entry.key}</Key><Code>AccessDenied</Code></Error></R>".encode()
                )
        answer = asked.pass_on()
        if asked.query.get("prefix", "").endswith("/"):
            return replace(answer, body=re.sub(b"<VersionId>.*?</", b"<VersionId>null</", answer.body))
        return answer
    current = store.current(replace(asked, query={}))
    if current.id and (asked.is_put or asked.method == "DELETE"):
        if BYPASS not in asked.headers and store.is_locked(current):
            return DENIED
        store.owner.delete(current, bypass=True)
    if asked.method == "DELETE":
        return GONE
    query = asked.query if asked.is_put else {**asked.query, "versionId": current.id or "none"}
    answer = replace(asked, query=query).changed(asked.headers)
    return replace(answer, headers={name: each for name, each in answer.headers.items() if name != "x-amz-version-id"})


def keeps_no_bytes_of_folders(asked: Asked, store: Store) -> Answer:
    if asked.is_put and asked.key.endswith("/"):
        kept = {name: value for name, value in asked.headers.items() if name != "x-amz-content-sha256"}
        asked = replace(asked, headers={**kept, "content-md5": md5_of(b"")}, body=b"")
    return keeps_no_versions_of_folders(asked, store)


def shows_no_bytes_by_the_id_null(asked: Asked, store: Store) -> Answer:
    answer = keeps_no_versions_of_folders(asked, store)
    return replace(answer, body=b"") if asked.is_read and asked.version.id == "null" else answer


def shows_no_lock_by_the_id_null(asked: Asked, store: Store) -> Answer:
    is_about = asked.method == "HEAD" or "retention" in asked.query
    return NOT_FOUND if is_about and asked.version.id == "null" else keeps_no_versions_of_folders(asked, store)


def shows_no_lock_of_folders(asked: Asked, store: Store) -> Answer:
    if asked.key.endswith("/") and "retention" in asked.query:
        return NOT_FOUND
    answer = keeps_no_versions_of_folders(asked, store)
    return shown_with(answer, mode=None, until=None) if asked.is_read and asked.key.endswith("/") else answer


def drops_the_lock_of_folders(asked: Asked, store: Store) -> Answer:
    if asked.is_put and asked.key.endswith("/"):
        asked = replace(
            asked, headers={name: value for name, value in asked.headers.items() if name not in (MODE, UNTIL)}
        )
    return keeps_no_versions_of_folders(asked, store)


# ---- default retention of a bucket


def _has_default(asked: Asked, store: Store) -> bool:
    return bool(store.owner.client.send("GET", asked.bucket, query=(("object-lock", None),)).text_of("Days"))


def _unstamped(asked: Asked, store: Store, when: Callable[[Asked], bool]) -> Answer:
    answer = asked.pass_on()
    if asked.is_put and answer.ok and MODE not in asked.headers and when(asked) and _has_default(asked, store):
        version = asked.version._replace(id=answer.version_id or "")
        store.owner.set_retention(version, None, bypass=True)
    return answer


def forgets_the_default(asked: Asked, store: Store) -> Answer:
    return _unstamped(asked, store, lambda _: True)


def forgets_the_default_of_empty_objects(asked: Asked, store: Store) -> Answer:
    return _unstamped(asked, store, lambda asked: not asked.body)


def forgets_the_default_of_copies(asked: Asked, store: Store) -> Answer:
    return _unstamped(asked, store, lambda asked: asked.way == "copy")


def forgets_the_default_of_uploads(asked: Asked, store: Store) -> Answer:
    return _unstamped(asked, store, lambda asked: asked.way == "upload")


def forgets_the_default_beside_a_hold(asked: Asked, store: Store) -> Answer:
    return _unstamped(asked, store, lambda asked: HOLD in asked.headers)


def forgets_the_default_of_whom_it_does_not_let_lock(asked: Asked, store: Store) -> Answer:
    return _unstamped(asked, store, lambda asked: asked.client.credentials != store.owner.client.credentials)


def lets_the_default_win(asked: Asked, store: Store) -> Answer:
    if asked.is_put and MODE in asked.headers and _has_default(asked, store):
        return asked.without(MODE, UNTIL)
    return asked.pass_on()


def unlocks_when_the_default_is_cleared(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("object-lock") and answer.ok and b"Rule" not in asked.body:
        for version in _versions(store, asked):
            store.unlock(version)
    return answer


def locks_what_is_older_than_the_default(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("object-lock") and answer.ok and b"Rule" in asked.body:
        for version in _versions(store, asked):
            store.owner.set_retention(version, store.owner.lock(seconds=86_400))
    return answer


def counts_from_the_rule(asked: Asked, store: Store) -> Answer:
    if asked.sets("object-lock") and b"Rule" in asked.body:
        store.told[asked.version._replace(body=b"")] = store.owner.lock(seconds=86_400)
    answer = asked.pass_on()
    lock = store.told.get(Version(asked.bucket, "", "", b""))
    if asked.is_put and answer.ok and lock and MODE not in asked.headers:
        store.relock(asked.version._replace(id=answer.version_id or ""), lock)
    return answer


# ---- bucket settings


def makes_buckets_without_lock(asked: Asked, _: Store) -> Answer:
    return asked.without("x-amz-bucket-object-lock-enabled")


def suspends_versioning(asked: Asked, store: Store) -> Answer:
    bucket = Version(asked.bucket, "", "", b"")
    answer = asked.pass_on()
    if asked.sets("versioning") and answer.status == 409:
        store.told[bucket] = True
        return YES
    is_told = asked.method == "GET" and "versioning" in asked.query and bucket in store.told
    return replace(answer, body=answer.body.replace(b"Enabled", b"Suspended")) if is_told else answer


def takes_any_default(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    return YES if asked.sets("object-lock") and answer.status == 400 and b"<Rule>" in asked.body else answer


def keeps_a_default_without_a_period(asked: Asked, store: Store) -> Answer:
    bucket, rule = Version(asked.bucket, "", "", b""), b"<Mode>GOVERNANCE</Mode></DefaultRetention>"
    if asked.sets("object-lock"):
        store.told.pop(bucket, None)
        if rule in asked.body:
            store.told[bucket] = asked.body
            return YES
    is_told = asked.method == "GET" and "object-lock" in asked.query and bucket in store.told
    return replace(YES, body=store.told[bucket]) if is_told else asked.pass_on()


def takes_no_period_for_a_day(asked: Asked, store: Store) -> Answer:
    answer = keeps_a_default_without_a_period(asked, store)
    if asked.sets("object-lock") and Version(asked.bucket, "", "", b"") in store.told:
        return store.owner.set_default(asked.bucket)
    return answer


def locks_nothing_older_than_object_lock(asked: Asked, _: Store) -> Answer:
    return YES if asked.sets("retention") and asked.version.id == "null" else asked.pass_on()


def calls_unversioned_buckets_locked(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    bucket = Version(asked.bucket, "", "", b"")
    if asked.sets("object-lock") and answer.status == 409:
        store.told[bucket] = lock_configuration("").encode()
        return YES
    is_told = asked.method == "GET" and "object-lock" in asked.query and bucket in store.told
    return replace(YES, body=store.told[bucket]) if is_told else answer


def takes_an_empty_configuration_for_none(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("object-lock") and answer.status == 400 and b"Disabled" in asked.body:
        return store.owner.set_default(asked.bucket, days=None)
    return answer


def deletes_buckets_by_force(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.method == "DELETE" and not asked.key and "x-minio-force-delete" in asked.headers:
        for version in _versions(store, asked):
            store.destroy(version)
        return GONE
    return answer


def deletes_buckets_that_look_empty(asked: Asked, store: Store) -> Answer:
    """Delete a bucket that has no current objects."""
    if asked.method == "DELETE" and not asked.key:
        current = store.owner.client.send("GET", asked.bucket, query=(("list-type", "2"),))
        if not current.elements("Contents"):
            for version in _versions(store, asked):
                store.destroy(version)
    return asked.pass_on()


# ---- clock


def ends_locks_early(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403:
        until = store.owner.state(asked.version).until
        if until and until - store.owner.now() < timedelta(seconds=0.35):
            return store.owner.delete(asked.version, bypass=True)
    return answer


def cuts_fractions_off(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403:
        until = store.owner.state(asked.version).until
        if until and until.replace(microsecond=0) < store.owner.now():
            return store.owner.delete(asked.version, bypass=True)
    return answer


def never_lets_go(asked: Asked, store: Store) -> Answer:
    return DENIED if asked.is_delete and store.owner.state(asked.version).mode else asked.pass_on()


def takes_every_zone_for_its_own(asked: Asked, _: Store) -> Answer:
    date = asked.headers.get(UNTIL, "")
    if asked.is_put and "+" in date:
        return asked.changed({**asked.headers, UNTIL: date.partition("+")[0] + "Z"})
    return asked.pass_on()


def forgets_what_day_it_is(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    store.told[Version("", "", "", b"")] = count = store.told.get(Version("", "", "", b""), 0) + 1
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30 * count))
    return replace(answer, headers={**answer.headers, "date": date})


def ignores_the_date_of_requests(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    return store.owner.delete(asked.version) if asked.is_delete and answer.code == "RequestTimeTooSkewed" else answer


def removes_what_has_expired(asked: Asked, store: Store) -> Answer:
    until = store.owner.state(asked.version).until if asked.is_read and asked.version.id else None
    if until and until < store.owner.now():
        store.destroy(asked.version)
    return asked.pass_on()


# ---- reading back


def with_last_byte_changed(answer: Answer) -> Answer:
    """Invert a bit, so that the bytes differ whatever random content the object has."""
    return replace(answer, body=answer.body[:-1] + bytes([answer.body[-1] ^ 1]))


def gives_the_wrong_range(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    return with_last_byte_changed(answer) if answer.status == 206 and len(answer.body) == 20 else answer


def unlocks_while_it_locks(asked: Asked, store: Store) -> Answer:
    if asked.sets("retention") and asked.lock and store.owner.state(asked.version).mode == GOVERNANCE:
        store.owner.set_retention(asked.version, None, bypass=True)
        time.sleep(0.02)
    return asked.pass_on()


def lists_wrong_sizes(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    return replace(answer, body=answer.body.replace(b"<Size>", b"<Size>1")) if "versions" in asked.query else answer


def damages_large_objects(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    return with_last_byte_changed(answer) if asked.is_read and len(answer.body) > 131_072 else answer


def tells_a_wrong_checksum(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    name = "x-amz-checksum-crc32c"
    return replace(answer, headers={**answer.headers, name: "AAAAAA=="}) if name in answer.headers else answer


def lists_no_markers(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    if "versions" in asked.query:
        return replace(answer, body=re.sub(b"<DeleteMarker>.*?</DeleteMarker>", b"", answer.body))
    return answer


def lists_half_of_many_versions(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    if "versions" not in asked.query or b"VER-05" not in answer.body:
        return answer
    parts = answer.body.split(b"<Version>")
    return replace(answer, body=b"<Version>".join(parts[: len(parts) // 2]) + b"</ListVersionsResult>")


def loses_the_versions_of_a_key(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_put and asked.body == b"one of many" and answer.version_id and asked.key.endswith("/1"):
        store.destroy(asked.version._replace(id=answer.version_id))
    return answer


def obeys_the_last_of_two_headers(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    says_both = asked.is_delete and answer.status == 403 and asked.headers.get(BYPASS) == "true"
    is_root = asked.client.credentials == store.owner.client.credentials
    return store.owner.delete(asked.version, bypass=True) if says_both and is_root else answer


def forgets_metadata_when_it_locks(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    named = asked.version._replace(body=b"")
    if asked.sets("retention") and answer.ok:
        store.told[named] = True
    if asked.is_read and answer.ok and named in store.told:
        return replace(answer, headers={k: v for k, v in answer.headers.items() if not k.startswith("x-amz-meta-")})
    return answer


def gives_ids_twice(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_put and answer.ok and asked.body == b"one of many":
        first = store.told.setdefault(Version("", "", "", b""), answer.version_id or "")
        return replace(answer, headers={**answer.headers, "x-amz-version-id": first})
    return answer


# ---- ways around the lock


def obeys_unsigned_headers(asked: Asked, store: Store) -> Answer:
    """Obey a bypass header that the signature does not cover."""
    answer = asked.pass_on()
    is_unsigned = BYPASS in asked.headers and BYPASS not in asked.headers.get("authorization", "")
    is_header_signed = "authorization" in asked.headers
    return (
        store.owner.delete(asked.version, bypass=True)
        if asked.is_delete and is_unsigned and is_header_signed
        else answer
    )


def takes_unsigned_locks(asked: Asked, _: Store) -> Answer:
    """Sign a PUT again, with headers that its signature does not cover."""
    is_unsigned = MODE in asked.headers and MODE not in asked.headers.get("authorization", MODE)
    return asked.changed(asked.headers) if asked.is_put and is_unsigned else asked.pass_on()


def resolves_dot_segments(asked: Asked, store: Store) -> Answer:
    """Lose the locked versions of the key that a path with a dot segment leads to."""
    if asked.method in ("PUT", "DELETE") and "/./" in asked.key and "versionId" not in asked.query:
        for version in _versions(store, replace(asked, key=asked.key.replace("/./", "/"))):
            store.destroy(version)
    return asked.pass_on()


def lists_no_key_that_was_written_with_two_slashes(asked: Asked, store: Store) -> Answer:
    if asked.method == "PUT" and "//" in asked.key:
        store.told[Version(asked.bucket, asked.key.replace("//", "/"), "", b"")] = True
    answer = asked.pass_on()
    is_hidden = Version(asked.bucket, asked.query.get("prefix", ""), "", b"") in store.told
    return replace(answer, body=re.sub(b"<Version>.*</Version>", b"", answer.body)) if is_hidden else answer


def locks_copies_for_anybody(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.way != "copy" or answer.status != 403:
        return answer
    headers = [
        (name, value) for name, value in asked.headers.items() if name.startswith(("content-md5", "x-amz-object"))
    ]
    return store.owner.client.send("PUT", asked.bucket, asked.key, headers=headers, body=asked.body)


def takes_any_trailer(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    if "x-amz-trailer" not in asked.headers or answer.status != 400:
        return answer
    body = asked.body.partition(b"\r\n")[2].partition(b"\r\n")[0]
    headers = {name: value for name, value in asked.headers.items() if name.startswith("x-amz-object")}
    return replace(asked, headers={}, body=body).changed({**headers, "content-md5": md5_of(body)})


def keeps_how_a_body_was_sent(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if "x-amz-trailer" in asked.headers and answer.ok:
        store.told[asked.version._replace(id=answer.version_id or "", body=b"")] = True
    is_told = asked.is_read and asked.version._replace(body=b"") in store.told
    return replace(answer, headers={**answer.headers, "content-encoding": "aws-chunked"}) if is_told else answer


def loses_the_second_upload(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    first = store.told.setdefault(Version(asked.bucket, "", "", b""), asked.key) if asked.way == "upload" else asked.key
    if asked.key != first and answer.version_id:
        store.destroy(asked.version._replace(id=answer.version_id))
    return answer


def keeps_one_set_of_bytes_for_a_copy(asked: Asked, store: Store) -> Answer:
    """Lose the bytes of a version with those of its copy, or the other way round."""
    if asked.is_delete:
        for version in store.told.pop(asked.version._replace(body=b""), []):
            store.destroy(version)
    older = _versions(store, asked) if asked.way == "copy" else []
    answer = asked.pass_on()
    for each in older:
        newer = each._replace(id=answer.version_id or "")
        store.told |= {newer: [each], each: [newer]}
    return answer


def overwrites_with_bypass(asked: Asked, store: Store) -> Answer:
    if asked.is_put and BYPASS in asked.headers:
        for version in _versions(store, asked):
            store.destroy(version)
    return asked.pass_on()


def ignores_event_holds(asked: Asked, _: Store) -> Answer:
    return asked.without("x-amz-object-lock-event-hold") if asked.is_put else asked.pass_on()


def shows_any_event_hold(asked: Asked, store: Store) -> Answer:
    answer = ignores_event_holds(asked, store)
    if asked.is_put and answer.ok and "x-amz-object-lock-event-hold" in asked.headers:
        store.told[asked.version._replace(id=answer.version_id or "", body=b"")] = asked.headers
    told = store.told.get(asked.version._replace(body=b"")) if asked.is_read else None
    name = "x-amz-object-lock-event-hold"
    return replace(answer, headers={**answer.headers, name: told[name]}) if told else answer


def keeps_default_event_holds_only(asked: Asked, store: Store) -> Answer:
    bucket = Version(asked.bucket, "", "", b"")
    if asked.sets("object-lock") and b"DefaultEventHold" in asked.body:
        store.told[bucket] = asked.body
        return YES
    if asked.method == "GET" and "object-lock" in asked.query and bucket in store.told:
        return replace(YES, body=store.told[bucket])
    return ignores_event_holds(asked, store)


def lets_strangers_delete(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and "authorization" not in asked.headers:
        return store.owner.delete(asked.version)
    return answer


def unlocks_by_policy(asked: Asked, store: Store) -> Answer:
    bucket = Version(asked.bucket, "", "", b"")
    if asked.sets("policy"):
        store.told[bucket] = True
        return GONE
    if bucket in store.told and "authorization" not in asked.headers and asked.is_delete:
        store.destroy(asked.version)
        return GONE
    return asked.pass_on()


def takes_policies_without_effect(asked: Asked, _: Store) -> Answer:
    return GONE if asked.sets("policy") else asked.pass_on()


def expires_what_is_locked(asked: Asked, store: Store) -> Answer:
    if not asked.sets("lifecycle"):
        return asked.pass_on() if "lifecycle" not in asked.query else NOT_FOUND
    if b"<Date>" in asked.body:
        for version in _versions(store, asked):
            store.destroy(version)
    return YES


# ---- races


def looks_before_it_deletes(asked: Asked, store: Store) -> Answer:
    """Check the lock before the deletion, and ignore a lock placed in between."""
    if asked.is_delete and not store.is_locked(asked.version):
        time.sleep(0.02)
        store.destroy(asked.version)
        return GONE
    return asked.pass_on()


def _decides_late(asked: Asked, store: Store, decide: Callable[[], Answer]) -> Answer:
    """Call ``decide`` if a version was unlocked when its deletion arrived and was locked a moment later."""
    if asked.is_delete and not store.is_locked(asked.version):
        time.sleep(0.02)
        if store.is_locked(asked.version):
            return decide()
    return asked.pass_on()


def destroys_a_version_locked_meanwhile(asked: Asked, store: Store) -> Answer:
    def decide() -> Answer:
        store.destroy(asked.version)
        return GONE

    return _decides_late(asked, store, decide)


def unlocks_a_version_locked_meanwhile(asked: Asked, store: Store) -> Answer:
    def decide() -> Answer:
        store.unlock(asked.version)
        return GONE

    return _decides_late(asked, store, decide)


def reports_a_deletion_that_it_did_not_make(asked: Asked, store: Store) -> Answer:
    return _decides_late(asked, store, lambda: GONE)


def does_each_in_turn(asked: Asked, store: Store) -> Answer:
    """Use all three end states in turn. Most versions survive with their locks."""
    if asked.is_delete:
        turn = store.told[Version("", "", "", b"")] = store.told.get(Version("", "", "", b""), 0) + 1
        if turn % 5 == 0:
            return destroys_a_version_locked_meanwhile(asked, store)
        if turn % 5 == 1:
            return unlocks_a_version_locked_meanwhile(asked, store)
    return reports_a_deletion_that_it_did_not_make(asked, store)


def shows_a_version_late(asked: Asked, store: Store) -> Answer:
    """Answer 404 to the first read after a refused deletion, except after the first such deletion."""
    named, first = asked.version._replace(body=b""), Version("", "", "", b"")
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403:
        store.told[named] = first in store.told
        store.told[first] = True
    return NOT_FOUND if asked.is_read and store.told.pop(named, False) else answer


def writes_back_what_it_read(asked: Asked, store: Store) -> Answer:
    """Keep retention and legal hold in one record, so that a change of one overwrites the other."""
    if asked.sets("retention"):
        version = store.current(asked)
        was_held = store.is_held(version)
        time.sleep(0.02)
        answer = asked.pass_on()
        store.owner.set_hold(version, "ON" if was_held else "OFF")
        return answer
    return asked.pass_on()


def lets_the_last_extension_win(asked: Asked, store: Store) -> Answer:
    """Check whether a date is an extension before a delay, and then set it."""
    before = store.owner.state(asked.version).until if asked.sets("retention") else None
    if before and asked.lock and before < asked.lock.until:
        time.sleep(0.01)
        return store.relock(asked.version, asked.lock)
    return asked.pass_on()


# ---- lies behind error answers and unchecked side effects


def deletes_and_answers_500(asked: Asked, store: Store) -> Answer:
    answer = deletes_and_says_no(asked, store)
    return Answer(500, {}, b"") if asked.is_delete and answer.status == 403 else answer


def deletes_in_batches_and_answers_500(asked: Asked, store: Store) -> Answer:
    if not asked.is_batch:
        return asked.pass_on()
    for version in asked.entries:
        store.destroy(version)
    return Answer(500, {}, b"")


def deletes_and_says_nothing(asked: Asked, store: Store) -> Answer:
    answer = deletes_and_says_no(asked, store)
    if asked.is_delete and answer.status == 403:
        raise ConnectionResetError("the connection was reset")
    return answer


def weakens_and_answers_503(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("retention") and answer.status == 403:
        store.unlock(asked.version)
        return Answer(503, {}, b"")
    return answer


def releases_for_anybody_and_answers_500(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.sets("legal-hold") and answer.status == 403:
        store.owner.set_hold(asked.version, "OFF")
        return Answer(500, {}, b"")
    return answer


def fails_at_what_it_may_do(asked: Asked, store: Store) -> Answer:
    """Carry out the change, but answer 500."""
    answer = asked.pass_on()
    is_change = asked.is_delete or asked.is_batch or asked.sets("retention") or asked.sets("legal-hold")
    return Answer(500, {}, b"") if is_change and answer.ok else answer


def fails_and_does_nothing(asked: Asked, store: Store) -> Answer:
    is_change = asked.is_delete or asked.is_batch or asked.sets("retention") or asked.sets("legal-hold")
    return Answer(503, {}, b"") if is_change else asked.pass_on()


def _weaken(store: Store, version: Version) -> None:
    lock = store.owner.state(version).lock
    if lock and is_governance(lock):
        store.relock(version, ObjectLock(GOVERNANCE, lock.until - timedelta(seconds=30)))


def shortens_when_it_refuses(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_delete and answer.status == 403:
        _weaken(store, asked.version)
    return answer


def shortens_under_a_marker(asked: Asked, store: Store) -> Answer:
    current = store.current(asked) if asked.method == "DELETE" and asked.key and not asked.query else None
    answer = asked.pass_on()
    if current and current.id:
        _weaken(store, current)
    return answer


def releases_in_batches_what_is_retained_too(asked: Asked, store: Store) -> Answer:
    answer = asked.pass_on()
    if asked.is_batch:
        for entry in asked.entries:
            if entry.id and store.owner.state(entry).mode:
                store.owner.set_hold(entry, "OFF")
    return answer


def stores_without_the_lock_and_does_not_list_it(asked: Asked, store: Store) -> Answer:
    answer = drops_what_it_does_not_understand(asked, store)
    is_list = "versions" in asked.query
    return replace(answer, body=re.sub(b"<Version>.*?</Version>", b"", answer.body)) if is_list else answer


# The lie, the checks and families to try, and the checks that fail
LIES: list[tuple[Lie, str, str]] = [
    (
        deletes_under_governance,
        "DEL GOV-01 LH-01 LH-03 RET-01 RET-10",
        "DEL-02 DEL-07 DEL-09 DEL-10 GOV-01 LH-03 RET-01 RET-10",
    ),
    (deletes_and_says_no, "DEL GOV-01 LH-03", "DEL-02 DEL-07 DEL-09 DEL-10 GOV-01 LH-03"),
    (hides_what_is_under_compliance, "DEL BAT-07 RET-07", "DEL-03 DEL-04 RET-07"),
    (bypasses_compliance, "DEL BAT-07 RET-06 RET-07 RET-09", "DEL-04 RET-06 RET-07 RET-09"),
    (says_yes_and_deletes_nothing, "DEL LH-04", "DEL-01 DEL-06 DEL-08 LH-04"),
    (deletes_by_key_what_is_locked, "DEL BAT-06", "DEL-05 DEL-06 DEL-07"),
    (forgets_locks_under_newer_versions, "DEL OVR-01", "DEL-07"),
    (gives_in_at_the_thirtieth_attempt, "DEL", "DEL-10"),
    (obeys_a_condition_before_the_lock, "DEL", "DEL-09"),
    (obeys_force, "DEL DEL-12 CFG-12", "DEL-12"),
    (trims_version_ids, "DEL", "DEL-11"),
    (takes_a_shorter_period, "RET RET-04 GOV-03 GOV-05", "RET-04 RET-08"),
    (takes_a_second_off, "RET RET-04", "RET-04"),
    (shortens_compliance_with_bypass, "RET RET-05", "RET-05"),
    (removes_retention_when_asked, "RET GOV", "RET-10"),
    (turns_compliance_into_governance, "RET", "RET-06"),
    (keeps_compliance_as_governance, "RET-06 RET-07 RET-09 DEL BAT-07", "BAT-07 DEL-04 RET-06 RET-07"),
    (shows_extensions_that_it_does_not_keep, "RET RET-02", "RET-02 RET-06"),
    (sets_a_second_less, "RET", "RET-01 RET-03 RET-13"),
    (locks_the_version_below_too, "RET", "RET-13"),
    (modifies_by_locking, "RET-01 RET-03 RET-17 VER-06", "RET-17 VER-06"),
    (takes_retention_without_keeping_it, "RET GOV-04 LH-05", "GOV-04 RET-01 RET-09 RET-11 RET-13 RET-14"),
    (locks_nothing_and_says_yes, "RET RET-15", "RET-15"),
    (takes_half_a_retention_for_none, "RET RET-12", "RET-12"),
    (ignores_holds, "LH DEL", "LH-01 LH-05"),
    (bypasses_holds, "LH BAT-07", "LH-01"),
    (ends_holds_with_retention, "LH LH-02", "LH-02"),
    (loses_the_hold_when_retention_changes, "LH RET-11", "LH-05"),
    (loses_retention_with_the_hold, "LH", "LH-03 LH-05"),
    (shows_holds_that_it_does_not_keep, "LH", "LH-01 LH-05"),
    (holds_every_version_of_the_key, "LH", "LH-06"),
    (misses_one_hold_of_many, "LH LH-10", "LH-10"),
    (takes_any_word_for_off, "LH", "LH-07"),
    (lets_everybody_lift_holds, "LH", "LH-09"),
    (shows_no_hold, "ING-01 ING-02 ING-14 VER-07", "ING-02"),
    (takes_any_word_for_the_bypass, "GOV", "GOV-05"),
    (lets_everybody_bypass, "GOV BAT-08", "GOV-02 GOV-03 GOV-06 GOV-11"),
    (lets_everybody_shorten, "GOV", "GOV-03 GOV-11"),
    (shortens_by_any_word_for_the_bypass, "GOV", "GOV-05"),
    (lets_nobody_bypass, "GOV RET-11 RET-09", "GOV-04 GOV-06 RET-09 RET-11"),
    (drops_the_lock_of_whom_it_does_not_let_lock, "GOV LH-09", "GOV-08 LH-09 GOV-12 GOV-11"),
    (keeps_one_version_of_a_key, "OVR-01 OVR-10 DEL-07 VER-01", "DEL-07 OVR-01 VER-01"),
    (overwrites_in_place, "OVR OVR-04 OVR-05", "OVR-04"),
    (overwrites_as_a_replica, "OVR OVR-05", "OVR-05"),
    (appends_to_what_is_locked, "OVR", "OVR-08"),
    (renames, "OVR", "OVR-09"),
    (ignores_if_none_match, "OVR", "OVR-10"),
    (deletes_locked_versions_in_batches, "BAT", "BAT-01 BAT-02 BAT-05 BAT-08"),
    (keeps_quiet_about_refusals, "BAT", "BAT-02"),
    (deletes_what_is_listed_twice, "BAT", "BAT-05"),
    (destroys_folders_in_batches, "BAT", "BAT-06"),
    (takes_batches_of_any_length, "BAT", "BAT-04"),
    (bypasses_holds_in_batches, "BAT", "BAT-07"),
    (lets_everybody_bypass_in_batches, "BAT", "BAT-08"),
    (drops_the_lock, "ING ING-10 ING-14", "ING-01 ING-03 ING-04 ING-05 ING-06 ING-07 ING-10 ING-14"),
    (drops_the_hold, "ING ING-10", "ING-02 ING-05 ING-06 ING-10"),
    (stores_a_date_a_second_sooner, "ING ING-10 ING-14", "ING-01 ING-10 ING-14"),
    (drops_what_it_does_not_understand, "ING CLK-07", "CLK-07 ING-03 ING-04 ING-05 ING-06 ING-07"),
    (drops_the_lock_of_nothing, "ING ING-14", "ING-14"),
    (does_not_look_at_checksums, "ING", "ING-08"),
    (does_not_look_at_digests_of_calls, "ING", "ING-09"),
    (forgets_the_default, "DFT GOV-08", "DFT-01"),
    (forgets_the_default_of_empty_objects, "DFT", "DFT-02"),
    (forgets_the_default_beside_a_hold, "DFT", "DFT-03"),
    (forgets_the_default_of_whom_it_does_not_let_lock, "DFT GOV-08", "GOV-08"),
    (lets_the_default_win, "DFT", "DFT-04"),
    (unlocks_when_the_default_is_cleared, "DFT", "DFT-05"),
    (locks_what_is_older_than_the_default, "DFT", "DFT-05 DFT-06"),
    (counts_from_the_rule, "DFT DFT-08", "DFT-08"),
    (makes_buckets_without_lock, "CFG", "CFG-01"),
    (suspends_versioning, "CFG", "CFG-02"),
    (takes_an_empty_configuration_for_none, "CFG", "CFG-04"),
    (deletes_buckets_by_force, "CFG", "CFG-12"),
    (deletes_buckets_that_look_empty, "CFG", "CFG-11"),
    (ends_locks_early, "CLK-01 CLK-02", "CLK-01"),
    (cuts_fractions_off, "CLK-01 CLK-02", "CLK-01"),
    (never_lets_go, "CLK-02 CLK-10 GOV-04", "CLK-02 GOV-04"),
    (takes_every_zone_for_its_own, "CLK-06 CLK-07", "CLK-06"),
    (forgets_what_day_it_is, "CLK-05", "CLK-05"),
    (ignores_the_date_of_requests, "CLK-07 CLK-08", "CLK-08"),
    (damages_large_objects, "VER", "VER-01"),
    (tells_a_wrong_checksum, "VER", "VER-02"),
    (lists_no_markers, "VER-04 VER-07 CFG-11", "VER-04"),
    (gives_ids_twice, "VER-05 VER-07", "VER-05"),
    (shows_any_event_hold, "SID", "SID-10"),
    (keeps_default_event_holds_only, "SID", "SID-10"),
    (lets_strangers_delete, "SID", "SID-06"),
    (locks_copies_for_anybody, "GOV-12 GOV-08", "GOV-12"),
    (takes_any_trailer, "ING-17 ING-08", "ING-17"),
    (keeps_how_a_body_was_sent, "ING-17 ING-01", "ING-17"),
    (loses_the_second_upload, "ING-18", "ING-18"),
    (keeps_one_set_of_bytes_for_a_copy, "OVR", "OVR-13"),
    (overwrites_with_bypass, "OVR", "OVR-14"),
    (obeys_unsigned_headers, "GOV GOV-11", "GOV-11"),
    (takes_unsigned_locks, "GOV GOV-11", "GOV-11"),
    (resolves_dot_segments, "OVR OVR-12", "OVR-12"),
    (lists_no_key_that_was_written_with_two_slashes, "OVR OVR-12", "OVR-12"),
    (unlocks_by_policy, "SID", "SID-05"),
    (expires_what_is_locked, "SID", "SID-02"),
    (drops_the_lock_of_uploads, "ING ING-10 OVR-02 DFT-03", "DFT-03 ING-05 ING-06 ING-10"),
    (drops_the_lock_of_copies, "ING-06 OVR DFT", "DFT-03 ING-06 OVR-07"),
    (forgets_the_default_of_copies, "DFT", "DFT-02 DFT-03"),
    (forgets_the_default_of_uploads, "DFT", "DFT-02 DFT-03"),
    (keeps_nothing_under_an_upload, "OVR", "OVR-02 OVR-14"),
    (keeps_nothing_under_a_copy, "OVR", "OVR-03 OVR-13 OVR-14"),
    (locks_copies_as_their_source, "OVR", "OVR-06"),
    (takes_any_default, "CFG", "CFG-05 CFG-06"),
    (locks_nothing_older_than_object_lock, "CFG", "CFG-09"),
    (calls_unversioned_buckets_locked, "CFG", "CFG-07"),
    (removes_what_has_expired, "CLK-02 CLK-10", "CLK-10"),
    (gives_the_wrong_range, "VER VER-03", "VER-03"),
    (unlocks_while_it_locks, "VER-07 VER-09 LH-05", "VER-09"),
    (lists_wrong_sizes, "VER VER-04", "VER-04 VER-07"),
    (locks_only_once, "RET RET-16", "RET-16"),
    (locks_what_is_below_a_marker, "RET", "RET-14"),
    (never_releases, "LH", "LH-04 LH-08"),
    (lets_the_last_extension_win, "RAC-06", "RAC-06"),
    (looks_before_it_deletes, "RAC-01 RAC-02 DEL-01", "RAC-01 RAC-02"),
    (writes_back_what_it_read, "RAC-05 LH-05", "RAC-05"),
    (shortens_when_it_refuses, "DEL-02 DEL-05", "DEL-02"),
    (shortens_under_a_marker, "DEL-05 DEL-02", "DEL-05"),
    (releases_in_batches_what_is_retained_too, "BAT-07 BAT-01", "BAT-07"),
    (stores_without_the_lock_and_does_not_list_it, "ING-03 ING-01", "ING-03"),
    (deletes_and_answers_500, "DEL-02 DEL-01 DEL-05 GOV-02", "DEL-02 GOV-02"),
    (deletes_in_batches_and_answers_500, "BAT-01 BAT-02 BAT-08", "BAT-01 BAT-02 BAT-08"),
    (deletes_and_says_nothing, "DEL-02 DEL-05", "DEL-02"),
    (weakens_and_answers_503, "RET-10 RET-01 GOV-03", "RET-10 GOV-03"),
    (releases_for_anybody_and_answers_500, "LH-09 LH-08", "LH-09"),
]


of_every_lie = pytest.mark.parametrize(("lie", "tried", "caught"), LIES, ids=[lie.__name__ for lie, _, _ in LIES])


@of_every_lie
def test_faulty_platform_fails_exactly_the_expected_checks(
    lie: Lie, tried: str, caught: str, platform: Platform
) -> None:
    """Tries each lie on the checks that it fails and on related ones, without whole families."""
    exactly_fails(platform, lie, {each for each in f"{tried} {caught}".split() if each in CHECKS}, caught)


@pytest.mark.long
@of_every_lie
def test_faulty_platform_fails_no_other_check_of_the_family(
    lie: Lie, tried: str, caught: str, platform: Platform
) -> None:
    exactly_fails(platform, lie, set(tried.split()), caught)


def exactly_fails(platform: Platform, lie: Lie, tried: set[str], caught: str) -> None:
    results = platform.results(lie, *tried)
    assert "broke off" not in reasons(results)
    assert of(CheckVerdict.FAIL, results) == set(caught.split()), reasons(results)


@pytest.mark.parametrize(
    ("lie", "severity", "words"),
    [
        (destroys_a_version_locked_meanwhile, "S1", "gone though the lock was acknowledged (S1); one of the worst:"),
        (
            unlocks_a_version_locked_meanwhile,
            "S2",
            "there without the lock that was acknowledged (S2); one of the worst:",
        ),
        (
            reports_a_deletion_that_it_did_not_make,
            "S3",
            "there and locked though the deletion was acknowledged (S3); one of the worst:",
        ),
    ],
)
@pytest.mark.parametrize("identifier", ["RAC-01", "RAC-02"])
def test_severity_of_race_depends_on_the_remaining_version(
    lie: Lie, severity: str, words: str, identifier: str, platform: Platform
) -> None:
    [result] = platform.results(lie, identifier)
    assert result.verdict is CheckVerdict.FAIL, result.reason
    assert words in result.reason
    assert (result.severity, result.is_violation) == (severity, severity != "S3")


@pytest.mark.parametrize(
    ("lie", "severity", "first"),
    [
        (shortens_compliance_at_will, "S1", "to the past:"),
        (shortens_compliance_again_and_again, "S1", "by 1 s, three times:"),
        (shortens_compliance_by_one_second_once, "S2", "by 1 s:"),
        (shortens_compliance_within_a_second, "S3", "by 1 ms within the same second:"),
    ],
)
def test_severity_of_shortened_date_depends_on_the_amount(
    lie: Lie, severity: str, first: str, platform: Platform
) -> None:
    [result] = platform.results(lie, "RET-05")
    assert result.verdict is CheckVerdict.FAIL, result.reason
    assert result.reason.startswith(first), result.reason
    assert (result.severity, result.is_violation) == (severity, severity != "S3")


@pytest.mark.parametrize(
    ("lie", "identifier", "severity"),
    [
        (drops_the_lock, "ING-10", "S2"),
        (names_no_copied_version, "OVR-03", "S3"),
        (takes_retention_without_keeping_it, "RET-14", "S2"),
        (locks_the_marker, "RET-14", "S3"),
        (locks_what_is_below_a_marker, "RET-14", "S3"),
        (keeps_a_default_without_a_period, "CFG-05", "S2"),
        (takes_no_period_for_a_day, "CFG-05", "S3"),
        (takes_any_default, "CFG-05", "S3"),
        (locks_for_whom_it_does_not_let_lock, "GOV-08", "S2"),  # the lock is shorter than the bucket's default of a day
        (locks_for_whom_it_does_not_let_lock_without_a_default, "GOV-08", "S3"),
        (drops_the_lock_of_whom_it_does_not_let_lock, "GOV-08", "S2"),
        (keeps_no_bytes_of_folders, "BAT-06", "S3"),
        (keeps_nothing_under_a_copy, "OVR-03", "S1"),
        (forgets_metadata_when_it_locks, "RET-17", "S1"),
        (lists_half_of_many_versions, "VER-05", "S3"),
        (loses_the_versions_of_a_key, "VER-05", "S1"),
    ],
)
def test_severity_depends_on_what_happened_to_the_record(
    lie: Lie, identifier: str, severity: str, platform: Platform
) -> None:
    [result] = platform.results(lie, identifier)
    assert (result.verdict, result.severity) == (CheckVerdict.FAIL, severity), result.reason


@pytest.mark.parametrize(
    ("lie", "severity", "words"),
    [
        (keeps_no_bytes_of_folders, "S1", "9 bytes was accepted, but its bytes are not kept"),
        (shows_no_bytes_by_the_id_null, "S3", "is shown with 0 bytes, which differ; without a version id they are"),
        (shows_no_lock_by_the_id_null, "S3", "which only reads without a version id show, not those by the id null"),
        (
            shows_no_lock_of_folders,
            "S3",
            "which no read shows, with a version id or without; deleting it by the id null was answered 403",
        ),
        (
            drops_the_lock_of_folders,
            "S2",
            "and no read shows it, with a version id or without; deleting it by the id null was answered 204",
        ),
    ],
)
def test_key_without_versions_is_graded_by_its_stored_bytes_and_lock(
    lie: Lie, severity: str, words: str, platform: Platform
) -> None:
    [result] = platform.results(lie, "ING-14")
    assert (result.verdict, result.severity) == (CheckVerdict.FAIL, severity), result.reason
    assert words in result.reason


def test_locked_key_without_versions_fails_only_where_delete_must_be_allowed(platform: Platform) -> None:
    [result] = platform.results(keeps_no_versions_of_folders, "BAT-06")
    assert result.severity == "S3"
    assert result.reason == "a key that ends in /: deleting a key without a version must be allowed: AccessDenied"


def test_bytes_never_stored_are_not_reported_as_lost_by_deletion(platform: Platform) -> None:
    [batch, default] = platform.results(keeps_no_bytes_of_folders, "BAT-06", "DFT-02")
    assert default.verdict is not CheckVerdict.FAIL, default.reason
    assert "/ is shown with other bytes than were sent; see ING-14" in default.reason
    assert "other bytes than were stored" not in batch.reason


def test_batch_check_skips_a_key_that_is_not_shown_as_locked(platform: Platform) -> None:
    [result] = platform.results(shows_no_lock_by_the_id_null, "BAT-06")
    assert "a key that ends in '/' is not shown with its bytes and its lock; see ING-14" in result.reason
    assert result.verdict is not CheckVerdict.FAIL, result.reason


def test_two_bypass_headers_that_differ_are_a_deviation_for_who_has_the_right(platform: Platform) -> None:
    [result] = platform.results(obeys_the_last_of_two_headers, "GOV-05")
    assert result.verdict is CheckVerdict.DEVIATION, result.reason
    assert "deleting with the bypass header false and true was answered 204" in result.reason


def test_check_is_inconclusive_if_limited_credential_may_lock(platform: Platform) -> None:
    [result] = platform.results(lets_everybody_lock, "GOV-08")
    assert result.verdict is CheckVerdict.INCONCLUSIVE, result.reason
    assert "PutObjectRetention by this credential was answered 200" in result.reason


def test_copy_without_version_id_is_found_in_the_version_list(platform: Platform) -> None:
    [result] = platform.results(names_no_copied_version, "OVR-07")
    assert result.verdict is CheckVerdict.DEVIATION, result.reason


def test_note_about_a_part_of_a_check_is_reported_as_note(platform: Platform) -> None:
    [result] = platform.results(takes_policies_without_effect, "SID-05")
    assert "a policy that lets every client delete: NOTE: no other client can delete unlocked" in result.reason


def test_ignored_checksum_header_is_no_failure_if_the_header_is_unknown(platform: Platform) -> None:
    [result] = platform.results(knows_no_checksum_headers, "ING-08")
    assert result.verdict is not CheckVerdict.FAIL, result.reason
    assert "x-amz-checksum-crc32c is not known" in result.reason


def refuses_in_other_words(asked: Asked, _: Store) -> Answer:
    answer = asked.pass_on()
    is_denied = answer.status == 403 and (asked.is_delete or asked.sets("retention"))
    return Answer(400, {}, b"<Error><Code>InvalidRequest</Code></Error>") if is_denied else answer


def test_deviation_mentions_amazon_only_with_a_source(platform: Platform) -> None:
    results = {each.id: each for each in platform.results(refuses_in_other_words, "RET-08", "RET-10", "GOV-01")}
    assert of(CheckVerdict.DEVIATION, list(results.values())) == set(results)
    assert results["GOV-01"].reason.endswith("400 InvalidRequest; Amazon answers 403 AccessDenied")
    assert results["RET-08"].reason.endswith("400 InvalidRequest; expected 403 AccessDenied")
    retention, deletion = results["RET-10"].reason.split("; deleting")
    assert "expected 403 AccessDenied" in retention
    assert "Amazon answers 403 AccessDenied" in deletion  # every deletion uses the source of DEL-02


def dates_in_utc_without_a_zone(asked: Asked, _: Store) -> Answer:
    text = asked.headers.get(UNTIL, "")
    return (
        asked.changed({**asked.headers, UNTIL: f"{text}Z"}) if text[-3:-2] == ":" and "T" in text else asked.pass_on()
    )


def test_date_without_a_zone_taken_as_utc_passes(platform: Platform) -> None:
    [result] = platform.results(dates_in_utc_without_a_zone, "CLK-07")
    assert result.verdict is CheckVerdict.PASS, result.reason
    assert "is taken for UTC" in result.reason


def test_race_result_counts_each_end_state_and_quotes_the_worst(platform: Platform) -> None:
    [result] = platform.results(does_each_in_turn, "RAC-01")
    counted = re.search(
        r"explains (\d+) of \d+ pairs, a rate of .+ \(95%\): (\d+) gone .+\(S1\), (\d+) there without .+\(S2\), "
        r"(\d+) there and locked .+"
        r"\(S3\); one of the worst: .*: nothing: it is gone; ",
        result.reason,
    )
    assert counted is not None, result.reason
    every, *each = map(int, counted.groups())
    assert every == sum(each)
    assert result.severity == "S1"


def test_race_without_enough_pairs_is_not_shown(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races, "RATE_MAX", 0.005)
    monkeypatch.setattr(races, "PAIRS", 10)
    [result] = platform.results(lambda asked, _: asked.pass_on(), "RAC-05")
    assert result.verdict is CheckVerdict.INCONCLUSIVE, result.reason
    assert re.match(r"not shown: none of \d+ overlapping pairs failed, a rate of 0\.00% to \d+", result.reason)


def test_failed_race_names_its_rate_with_an_interval(platform: Platform) -> None:
    [result] = platform.results(looks_before_it_deletes, "RAC-01")
    assert re.search(r"explains \d+ of \d+ pairs, a rate of [\d.]+% to [\d.]+% \(95%\): ", result.reason), result.reason


@pytest.mark.parametrize(
    ("failed", "tried", "low", "high"), [(0, 0, 0.0, 1.0), (0, 100, 0.0, 0.0370), (5, 100, 0.0215, 0.1118)]
)
def test_interval_of_a_rate_is_that_of_wilson(failed: int, tried: int, low: float, high: float) -> None:
    assert races.rate_interval(failed, tried) == pytest.approx((low, high), abs=5e-5)


def test_version_that_appears_late_is_not_reported_as_gone(platform: Platform) -> None:
    [result] = platform.results(shows_a_version_late, "RAC-01")
    assert result.verdict is CheckVerdict.PASS, result.reason


@pytest.mark.parametrize("tried", [LONG, pytest.param(set(CHECKS), marks=pytest.mark.long)], ids=["long", "all"])
def test_same_checks_fail_nothing_on_a_correct_store(tried: set[str], platform: Platform) -> None:
    """Checks that wait have shorter waits here. test_suite tries the other checks on the same store."""
    catching = tried & set(" ".join(caught for _, _, caught in LIES).split())
    results = platform.results(lambda asked, _: asked.pass_on(), *catching)
    assert of(CheckVerdict.FAIL, results) == set(), reasons(results)


def test_event_holds_neither_kept_nor_shown_are_not_offered(platform: Platform) -> None:
    [result] = platform.results(ignores_event_holds, "SID-10")
    assert result.verdict is CheckVerdict.NOT_OFFERED, result.reason
    assert "nothing shows that event holds are known" in result.reason


@pytest.mark.parametrize("lie", [fails_at_what_it_may_do, fails_and_does_nothing])
def test_server_errors_alone_fail_no_check(lie: Lie, platform: Platform) -> None:
    ids = ["DEL-02", "DEL-03", "BAT-01", "GOV-01", "GOV-04", "LH-01", "LH-04", "RET-10", "RET-11", "SID-06"]
    results = platform.results(lie, *ids)
    assert of(CheckVerdict.FAIL, results) == set(), reasons(results)
    assert of(CheckVerdict.INCONCLUSIVE, results) >= {"GOV-04", "LH-04", "RET-11"}, reasons(results)
