"""Test generated sequences on stores with one fault each: the rows of the array with the fault's value find it.

No check knows these faults. Each is a line of a table: the value of a dimension, which request triggers it, and what
then becomes of the locked versions of the bucket. The store behind the fault is correct.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from urllib.parse import unquote

import pytest

from archiver.worm.case import COMPLIANCE, md5_of
from archiver.worm.generated import trial
from archiver.worm.generated.dimensions import (
    Asking,
    Attack,
    AttackTiming,
    Combination,
    Locking,
    Naming,
    PriorEvent,
    Writing,
)
from archiver.worm.generated.names import ENDINGS
from archiver.worm.generated.rules import FAR
from archiver.worm.requests import limited
from archiver.worm.verdict import CheckVerdict
from backends.embedded import process
from tests.archiver.worm.generated_platform import (
    Fault,
    GeneratedPlatform,
    Trigger,
    alters,
    destroys,
    locked_versions,
    rows_with,
    shortens,
    shows,
    unlocks,
)
from tests.support.servers.lying_client import BYPASS, HOLD, MODE, UNTIL, Asked, Store

SEED = 11
ROWS_MAX = 60

# ---- triggers: which request it takes


def writes(asked: Asked) -> bool:
    """Whether the request stores an object, with all of it at once."""
    return asked.is_put and "x-amz-copy-source" not in asked.headers


def writes_locked(asked: Asked) -> bool:
    return writes(asked) and (MODE in asked.headers or HOLD in asked.headers)


def with_header(name: str, value: str | None = None) -> Trigger:
    return lambda asked: (
        writes(asked) and name in asked.headers and asked.headers[name] == (value or asked.headers[name])
    )


def of_size(least: int, most: int) -> Trigger:
    return lambda asked: writes(asked) and least <= len(asked.body) <= most


def completes(asked: Asked) -> bool:
    return asked.method == "POST" and "uploadId" in asked.query


def parts_of(asked: Asked) -> int:
    return asked.body.count(b"<PartNumber>")


def source_of(asked: Asked) -> str:
    return unquote(asked.headers.get("x-amz-copy-source", "")).partition("?versionId=")[0]


def copies(asked: Asked) -> bool:
    return asked.method == "PUT" and bool(source_of(asked))


def onto_itself(asked: Asked) -> bool:
    return copies(asked) and source_of(asked) == f"/{asked.bucket}/{asked.key}"


def posts_form(asked: Asked) -> bool:
    return asked.method == "POST" and not asked.key and not asked.query


def named(naming: Naming) -> Trigger:
    """A write of a key that ends so."""
    return lambda asked: not asked.method.startswith(("GET", "HEAD")) and asked.key.endswith(ENDINGS[naming])


def on(method: str, sub_resource: str) -> Trigger:
    return lambda asked: asked.method == method and sub_resource in asked.query


def configures(what: str, words: bytes = b"") -> Trigger:
    return lambda asked: asked.method == "PUT" and not asked.key and what in asked.query and words in asked.body


def puts_below(pattern: str) -> Trigger:
    return lambda asked: writes(asked) and re.search(pattern, asked.key) is not None


def puts_unlocked(asked: Asked) -> bool:
    return writes(asked) and MODE not in asked.headers and HOLD not in asked.headers


def deletes_key(asked: Asked) -> bool:
    return asked.method == "DELETE" and bool(asked.key) and not asked.query


def attacks_with(name: str, value: str | None = None) -> Trigger:
    """A request that changes something, with this header."""
    return lambda asked: (
        asked.method != "GET"
        and name in asked.headers
        and value in (None, asked.headers[name])
        and asked.method != "HEAD"
    )


def without(right: str) -> Trigger:
    """A request that changes something, by a credential without this right."""
    return lambda asked: asked.method not in ("GET", "HEAD") and asked.client.sender == limited.described(right)


def destroys_near_its_date(asked: Asked, store: Store) -> None:
    for version in locked_versions(asked, store):
        until = store.owner.state(version).until
        if until is not None and until - store.owner.now() < timedelta(seconds=2):
            store.destroy(version)


def changes(asked: Asked) -> bool:
    """A request about an object that changes something and is signed by a header."""
    return asked.method not in ("GET", "HEAD") and bool(asked.key)


def signed_otherwise(*, old: bool) -> Trigger:
    def trigger(asked: Asked) -> bool:
        signature = asked.headers.get("authorization", "")
        unsigned = BYPASS in asked.headers and BYPASS not in signature and signature.startswith("AWS4")
        return changes(asked) and (signature.startswith("AWS ") if old else unsigned)

    return trigger


def is_unsigned(asked: Asked) -> bool:
    return changes(asked) and "authorization" not in asked.headers and "X-Amz-Signature" not in asked.query


def wrong_digest(asked: Asked) -> bool:
    return writes(asked) and asked.headers.get("content-md5", md5_of(asked.body)) != md5_of(asked.body)


def deletes_version(asked: Asked) -> bool:
    return asked.is_delete and set(asked.query) == {"versionId"}


def batch(*, quiet: bool = False, entries: int = 2) -> Trigger:
    return lambda asked: (
        asked.is_batch and len(asked.entries) >= entries and (b"<Quiet>true" in asked.body) is quiet
    )  # fmt: skip


def sets_retention(asked: Asked) -> bool:
    return asked.sets("retention")


FAULTS = [
    # How it was written.
    Fault("forgets the lock of a PUT with a CRC32", Writing.CRC32, with_header("x-amz-checksum-crc32"), unlocks),
    Fault("forgets the lock of a PUT with a CRC32C", Writing.CRC32C, with_header("x-amz-checksum-crc32c"), unlocks),
    Fault("alters what has a CRC64NVME", Writing.CRC64NVME, with_header("x-amz-checksum-crc64nvme"), alters),
    Fault("forgets the lock of a PUT with a SHA-1", Writing.SHA1, with_header("x-amz-checksum-sha1"), unlocks),
    Fault("loses what has a SHA-256", Writing.SHA256, with_header("x-amz-checksum-sha256"), destroys),
    Fault("alters what came in chunks", Writing.CHUNKS, with_header("content-encoding", "aws-chunked"), alters),
    Fault("forgets the lock of a PUT with a trailer", Writing.TRAILER, with_header("x-amz-trailer"), unlocks),
    Fault("forgets the lock of a conditional PUT", Writing.CONDITIONAL, with_header("if-none-match"), unlocks),
    Fault("shortens the lock of what has tags", Writing.TAGS, with_header("x-amz-tagging"), shortens),
    Fault("loses what has metadata", Writing.METADATA, with_header("x-amz-meta-case"), destroys),
    Fault("unpacks what has an encoding", Writing.ENCODING, with_header("content-encoding", "gzip"), alters),
    Fault("forgets the lock in a class", Writing.STORAGE_CLASS, with_header("x-amz-storage-class"), unlocks),
    Fault("forgets the lock after 100-continue", Writing.EXPECT, with_header("expect"), unlocks),
    Fault("does not lock what is empty", Writing.EMPTY, of_size(0, 0), unlocks),
    Fault("does not lock a single byte", Writing.ONE_BYTE, of_size(1, 1), unlocks),
    Fault("alters more than 128 KiB", Writing.OVER_128_KIB, of_size(128 << 10, 1 << 20), alters),
    Fault("alters more than 1 MiB", Writing.OVER_1_MIB, of_size(1 << 20, 4 << 20), alters),
    Fault("forgets the lock of more than 8 MiB", Writing.OVER_8_MIB, of_size(8 << 20, 16 << 20), unlocks),
    Fault("forgets the lock of one part", Writing.ONE_PART, lambda a: completes(a) and parts_of(a) == 1, unlocks),
    Fault("forgets the lock of two parts", Writing.TWO_PARTS, lambda a: completes(a) and parts_of(a) == 2, unlocks),
    Fault("alters a copied part", Writing.COPIED_PART, completes, alters),
    Fault("forgets the lock of a copy", Writing.COPY, copies, unlocks),
    Fault(
        "forgets a copy across buckets",
        Writing.COPY_ACROSS,
        lambda a: copies(a) and a.bucket not in source_of(a),
        unlocks,
    ),
    Fault("forgets the lock of a copy onto itself", Writing.COPY_ONTO_ITSELF, onto_itself, unlocks),
    Fault("forgets the lock in a form", Writing.FORM, posts_form, unlocks),
    Fault(
        "forgets the lock in a presigned PUT",
        Writing.PRESIGNED,
        lambda a: "X-Amz-Signature" in a.query and bool(a.key),
        unlocks,
    ),
    # How it was locked.
    Fault(
        "keeps COMPLIANCE as GOVERNANCE",
        Locking.COMPLIANCE,
        with_header(MODE.lower(), COMPLIANCE),
        shows(mode="GOVERNANCE"),
    ),
    Fault("ignores the header of a hold", Locking.HOLD, with_header(HOLD), unlocks),
    Fault("does not stamp the default rule", Locking.DEFAULT, puts_unlocked, unlocks),
    Fault("forgets a retention set later", Locking.SET_LATER, sets_retention, unlocks),
    Fault("weakens what is set later", Locking.COMPLIANCE_SET_LATER, sets_retention, shows(mode="GOVERNANCE")),
    Fault("forgets a hold set later", Locking.HOLD_SET_LATER, on("PUT", "legal-hold"), unlocks),
    Fault(
        "takes one lock of two", Locking.WITH_HOLD, lambda a: writes_locked(a) and HOLD in a.headers, shows(hold="OFF")
    ),
    Fault("stamps no rule under a hold", Locking.DEFAULT_WITH_HOLD, with_header(HOLD), shows(mode=None, until=None)),
    Fault("counts seconds in 31 bits", Locking.TO_2039, writes_locked, shows(until="2038-01-19T03:14:07Z")),
    Fault("counts seconds in 32 bits", Locking.TO_2107, writes_locked, shows(until="2106-02-07T06:28:15Z")),
    Fault("misreads a zone", Locking.IN_A_ZONE, lambda a: a.headers.get(UNTIL, "").endswith("+02:00"), shortens),
    Fault("misreads whole seconds", Locking.WHOLE_SECONDS, lambda a: "." not in a.headers.get(UNTIL, "."), shortens),
    # Its name.
    Fault("folds the case of names", Naming.MIXED_CASE, named(Naming.MIXED_CASE), destroys),
    Fault("decomposes names", Naming.COMPOSED, named(Naming.COMPOSED), destroys),
    Fault("composes names", Naming.DECOMPOSED, named(Naming.DECOMPOSED), destroys),
    Fault("resolves .", Naming.DOT_SEGMENT, named(Naming.DOT_SEGMENT), destroys),
    Fault("resolves ..", Naming.PARENT_SEGMENT, named(Naming.PARENT_SEGMENT), destroys),
    Fault("joins slashes", Naming.DOUBLE_SLASH, named(Naming.DOUBLE_SLASH), unlocks),
    Fault("decodes names twice", Naming.ENCODED_SLASH, named(Naming.ENCODED_SLASH), destroys),
    Fault("takes + for a space", Naming.SPACE_AND_PLUS, named(Naming.SPACE_AND_PLUS), unlocks),
    Fault("locks no folders", Naming.TRAILING_SLASH, named(Naming.TRAILING_SLASH), unlocks),
    Fault("cuts a dot at the end", Naming.TRAILING_DOT, named(Naming.TRAILING_DOT), unlocks),
    Fault("cuts a space at the end", Naming.TRAILING_SPACE, named(Naming.TRAILING_SPACE), unlocks),
    Fault("cuts long names", Naming.LONGEST, lambda a: changes(a) and len(a.key.encode()) == 1024, unlocks),
    Fault("has UCS-2 names", Naming.BEYOND_BMP, named(Naming.BEYOND_BMP), destroys),
    Fault("escapes names", Naming.MARKUP, named(Naming.MARKUP), unlocks),
    Fault("reads a query in names", Naming.QUERY_LIKE, named(Naming.QUERY_LIKE), unlocks),
    Fault("takes a backslash for a slash", Naming.BACKSLASH, named(Naming.BACKSLASH), unlocks),
    Fault("locks no hidden files", Naming.HIDDEN, named(Naming.HIDDEN), unlocks),
    # What happened next.
    Fault("moves the lock to the newer version", PriorEvent.NEWER, puts_unlocked, unlocks),
    Fault("deletes all versions of a key", PriorEvent.MARKER, deletes_key, destroys),
    Fault("unlocks below a removed marker", PriorEvent.MARKER_REMOVED, deletes_version, unlocks),
    Fault("alters what becomes current again", PriorEvent.NEWER_DELETED, deletes_version, alters),
    Fault("keeps fifteen versions", PriorEvent.MANY_NEWER, puts_unlocked, destroys, times=15),
    Fault("releases all versions at once", PriorEvent.NEWER_LOCKED, on("PUT", "legal-hold"), unlocks, times=2),
    Fault("shares the bytes of a copy onto itself", PriorEvent.REPLACED_AND_DELETED, onto_itself, alters),
    Fault("moves instead of copying", PriorEvent.COPIED, copies, destroys),
    Fault("deletes a prefix", PriorEvent.NEIGHBOUR_DELETED, lambda a: a.is_delete and "/neighbour" in a.key, destroys),
    Fault("deletes a prefix in batches", PriorEvent.NEIGHBOURS_EMPTIED, lambda a: b"/neighbour" in a.body, destroys),
    Fault("turns an object into a folder", PriorEvent.BELOW, puts_below("/below$"), destroys),
    Fault("resolves . of others", PriorEvent.TWIN_DOT, puts_below(r"/\./[^/]+/?$"), destroys),
    Fault("resolves .. of others", PriorEvent.TWIN_PARENT, puts_below(r"/x/\.\./"), destroys),
    Fault("joins slashes of others", PriorEvent.TWIN_SLASHES, puts_below("//"), destroys),
    Fault("cuts slashes of others", PriorEvent.TWIN_TRAILING_SLASH, puts_below("/$"), alters),
    Fault("cuts spaces of others", PriorEvent.TWIN_TRAILING_SPACE, puts_below(" $"), alters),
    Fault("folds the case of others", PriorEvent.TWIN_CASE, puts_below("ECORD$"), alters),
    Fault("normalises names of others", PriorEvent.TWIN_NORMAL_FORM, puts_below("\u0307$"), destroys),
    Fault(
        "deletes what has two slashes", PriorEvent.TWIN_DELETED, lambda a: deletes_key(a) and "//" in a.key, destroys
    ),
    Fault("stores tags in place of the lock", PriorEvent.TAGGED, on("PUT", "tagging"), unlocks),
    Fault("deletes the lock with the tags", PriorEvent.UNTAGGED, on("DELETE", "tagging"), unlocks),
    Fault("stores an ACL in place of the lock", PriorEvent.ACL, on("PUT", "acl"), unlocks),
    Fault("starts over with versioning", PriorEvent.VERSIONING_AGAIN, configures("versioning", b"Enabled"), unlocks),
    Fault("unlocks as versioning ends", PriorEvent.SUSPENSION, configures("versioning", b"Suspended"), unlocks),
    Fault("applies a rule to what is there", PriorEvent.RULE_SET, configures("object-lock", b"<Days>"), unlocks),
    Fault("takes the rule's removal for all", PriorEvent.RULE_REMOVED, configures("object-lock"), unlocks, times=2),
    Fault("empties a bucket made again", PriorEvent.BUCKET_AGAIN, lambda a: a.method == "PUT" and not a.key, destroys),
    Fault(
        "empties what it cannot delete",
        PriorEvent.BUCKET_DELETION,
        lambda a: a.method == "DELETE" and not a.key,
        destroys,
    ),
    Fault("replaces by an upload begun", PriorEvent.UPLOAD_BEGUN, on("POST", "uploads"), destroys),
    Fault("removes the key with the upload", PriorEvent.UPLOAD_ABORTED, on("DELETE", "uploadId"), destroys),
    Fault("alters by a second completion", PriorEvent.UPLOAD_TWICE, completes, alters, times=2),
    Fault("extends by removing first", PriorEvent.EXTENDED, sets_retention, unlocks),
    Fault("shortens what is set again", PriorEvent.SAME_AGAIN, sets_retention, shortens),
    Fault("releases the retention with a hold", PriorEvent.HOLD_TOGGLED, on("PUT", "legal-hold"), unlocks, times=2),
    Fault("keeps what it refused to write", PriorEvent.REFUSED_WRITE, wrong_digest, alters),
    Fault("deletes at the second attempt", PriorEvent.REFUSED_DELETION, deletes_version, unlocks),
    Fault("truncates after a range was read", PriorEvent.RANGE_READ, lambda a: "range" in a.headers, alters),
    # Who asks.
    Fault("asks for no right to bypass", Asking.NO_BYPASS, without(limited.BYPASS), destroys),
    Fault("asks for no right to retain", Asking.NO_RETENTION, without(limited.RETENTION), unlocks),
    Fault("asks for no right to hold", Asking.NO_HOLD, without(limited.HOLD), unlocks),
    Fault("asks for no right to delete", Asking.NO_DELETE, without(limited.DELETE), destroys),
    Fault("trusts anybody", Asking.ANONYMOUS, is_unsigned, destroys),
    Fault("trusts a URL", Asking.PRESIGNED, lambda a: changes(a) and "X-Amz-Signature" in a.query, destroys),
    Fault("trusts an old signature", Asking.OLD_SIGNATURE, signed_otherwise(old=True), destroys),
    Fault("bypasses everything", Asking.BYPASS, attacks_with(BYPASS, "true"), destroys),
    Fault("takes false for true", Asking.BYPASS_FALSE, attacks_with(BYPASS, "false"), destroys),
    Fault("obeys an unsigned bypass", Asking.UNSIGNED_BYPASS, signed_otherwise(old=False), destroys),
    Fault(
        "trusts an unsigned payload",
        Asking.UNSIGNED_PAYLOAD,
        attacks_with("x-amz-content-sha256", "UNSIGNED-PAYLOAD"),
        unlocks,
    ),
    Fault("obeys a method override", Asking.METHOD_OVERRIDE, attacks_with("x-http-method-override"), destroys),
    Fault("trusts a replica", Asking.REPLICATION, attacks_with("x-minio-source-replication-request"), destroys),
    Fault("obeys force", Asking.FORCE, attacks_with("x-minio-force-delete"), destroys),
    Fault(
        "confuses two version ids",
        Asking.SECOND_VERSION,
        lambda a: changes(a) and a.query.get("versionId") == "null",
        destroys,
    ),
    # What is tried.
    Fault("deletes a version", Attack.DELETE, deletes_version, destroys),
    Fault(
        "deletes by a condition", Attack.DELETE_IF_MATCH, lambda a: a.is_delete and "if-match" in a.headers, destroys
    ),
    Fault("deletes an id under any name", Attack.DELETE_TWIN, lambda a: a.is_delete and "//" in a.key, destroys),
    Fault("resolves . in deletions", Attack.DELETE_DOT_TWIN, lambda a: a.is_delete and "/./" in a.key, destroys),
    Fault("aborts a version", Attack.DELETE_UPLOAD, on("DELETE", "uploadId"), destroys),
    Fault("trims version ids", Attack.DELETE_PADDED_ID, lambda a: a.query.get("versionId", "").endswith(" "), destroys),
    Fault("deletes in batches", Attack.BATCH, batch(), destroys),
    Fault("deletes in quiet batches", Attack.BATCH_QUIET, batch(quiet=True), destroys),
    Fault("deletes what is named twice", Attack.BATCH_TWICE, batch(entries=3), destroys),
    Fault("checks 256 entries", Attack.BATCH_MANY, batch(entries=257), destroys),
    Fault("purges keys in batches", Attack.BATCH_KEYS, batch(), unlocks),
    Fault("overwrites in place", Attack.OVERWRITE, puts_unlocked, alters),
    Fault("overwrites a version", Attack.OVERWRITE_VERSION, lambda a: a.is_put and "versionId" in a.query, alters),
    Fault("overwrites by a condition", Attack.OVERWRITE_IF_MATCH, with_header("if-match"), alters),
    Fault("truncates", Attack.OVERWRITE_EMPTY, of_size(0, 0), alters),
    Fault("overwrites by chunks", Attack.OVERWRITE_CHUNKS, with_header("content-encoding", "aws-chunked"), alters),
    Fault("overwrites by a trailer", Attack.OVERWRITE_TRAILER, with_header("x-amz-trailer"), destroys),
    Fault("overwrites by parts", Attack.OVERWRITE_PARTS, completes, destroys),
    Fault("overwrites by a copy", Attack.OVERWRITE_COPY, copies, destroys),
    Fault("overwrites by a copy of itself", Attack.OVERWRITE_ITSELF, onto_itself, unlocks),
    Fault("overwrites by a form", Attack.OVERWRITE_FORM, posts_form, destroys),
    Fault("appends", Attack.APPEND, with_header("x-amz-write-offset-bytes"), alters),
    Fault("shortens a retention", Attack.SHORTEN, sets_retention, shortens),
    Fault("shortens by seconds", Attack.SHORTEN_A_LITTLE, sets_retention, shortens),
    Fault("takes a past date", Attack.PAST_DATE, sets_retention, unlocks),
    Fault("removes a retention", Attack.REMOVE_RETENTION, sets_retention, unlocks),
    Fault("weakens the mode", Attack.WEAKEN_MODE, sets_retention, shows(mode="GOVERNANCE")),
    Fault("releases for anybody", Attack.RELEASE, on("PUT", "legal-hold"), shows(hold="OFF")),
    Fault("deletes tags with the lock", Attack.DELETE_TAGS, on("DELETE", "tagging"), unlocks),
    Fault("suspends versioning", Attack.SUSPEND, configures("versioning", b"Suspended"), unlocks),
    Fault("disables locks", Attack.DISABLE_LOCK, configures("object-lock", b"Disabled"), unlocks),
    Fault("forgets locks with the rule", Attack.REMOVE_RULE, configures("object-lock"), unlocks, times=2),
    Fault("deletes a full bucket", Attack.DELETE_BUCKET, lambda a: a.method == "DELETE" and not a.key, destroys),
    Fault("deletes a bucket by force", Attack.FORCE_BUCKET, attacks_with("x-minio-force-delete"), destroys),
    # When.
    Fault("gives in", AttackTiming.AGAIN_AND_AGAIN, deletes_version, destroys, times=25),
    Fault("gives in to a crowd", AttackTiming.TOGETHER, changes, destroys, at_once=4),
    Fault("expires early", AttackTiming.NEAR_THE_DATE, changes, destroys_near_its_date),
]


@pytest.fixture(scope="module")
def platform(checked_store: process.StoreProcess) -> GeneratedPlatform:
    return GeneratedPlatform(checked_store)


@pytest.fixture(autouse=True)
def short_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "NEAR_SECONDS", 2.5)
    monkeypatch.setattr(trial, "BEFORE_SECONDS", 1.7)


def rows_for(fault: Fault) -> Iterator[Combination]:
    """Yield rows of the array with the fault's value, without those that wait for something else."""
    for row in rows_with(fault.value, SEED)[:ROWS_MAX]:
        waits = row.timing is AttackTiming.NEAR_THE_DATE and fault.value is not AttackTiming.NEAR_THE_DATE
        if not waits and (row.locking not in FAR or fault.value in FAR):
            yield row


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_found_by_the_rows_with_its_value(platform: GeneratedPlatform, fault: Fault) -> None:
    tried = []
    for row in rows_for(fault):
        with platform.trials(replace(fault)) as carry_out:
            found = carry_out(row)
        if found.harm is not None:
            assert found.verdict is CheckVerdict.FAIL
            assert found.harm.severity in ("S1", "S2")
            return
        tried.append(f"{found.verdict} {row.words}: {found.reason}")
    raise AssertionError("\n".join(tried))


def test_every_dimension_has_faults() -> None:
    assert len(FAULTS) >= 100
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert len({type(fault.value) for fault in FAULTS}) == 7
