"""CFG: the configuration of a bucket with Object Lock, and changes to it that must be refused.

One idea: the configuration of a bucket protects its locks. After every request, whatever the answer, a check reads the
bucket's versioning and Object Lock again. A locked version must still be there and locked.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from archiver.worm.case import BYPASS, GOVERNANCE, ROOT, Case, Version, lock_configuration, words_of
from archiver.worm.checks import check
from archiver.worm.listing import with_id
from archiver.worm.requests.exchange import Answer, Headers
from archiver.worm.verdict import Failed, Inconclusive, NotOffered

LONGEST_DAYS, LONGEST_YEARS = 36_500, 100

# Headers and queries by which vendors delete a bucket with all its objects.
FORCES: dict[str, tuple[Headers, tuple[tuple[str, str], ...]]] = {
    "x-minio-force-delete (MinIO, Storj)": ((("x-minio-force-delete", "true"),), ()),
    "x-rustfs-force-delete (RustFS)": ((("x-rustfs-force-delete", "true"),), ()),
    "x-amz-force-delete-bucket (FrostFS)": ((("x-amz-force-delete-bucket", "true"),), ()),
    "?force_delete=true (Wasabi)": ((), (("force_delete", "true"),)),
    "the bypass header": (BYPASS, ()),
}


class BucketLockConfiguration(NamedTuple):
    """Object Lock and default retention as a bucket shows them, as text; empty if there are none."""

    enabled: bool
    mode: str = ""
    days: str = ""
    years: str = ""

    def is_weaker_than(self, before: BucketLockConfiguration) -> bool:
        return (before.enabled and not self.enabled) or self._default_days() < before._default_days()

    def _default_days(self) -> int:
        if not self.mode:
            return 0
        return int(self.days) if self.days.isdigit() else 365 * int(self.years) if self.years.isdigit() else 0

    def __str__(self) -> str:
        period = " ".join(f"{length} {unit}" for length, unit in ((self.days, "days"), (self.years, "years")) if length)
        default = f"default {self.mode or 'without a mode'} {period}" if self.mode or period else "no default"
        return f"Object Lock {'enabled' if self.enabled else 'not enabled'}, {default}"


def bucket_lock(case: Case, bucket: str) -> BucketLockConfiguration:
    """GetObjectLockConfiguration; a bucket that answers 404 has none. Raises Inconclusive if it cannot be read."""
    answer = case.client.send("GET", bucket, query=(("object-lock", None),))
    if not answer.ok and answer.status != 404 and "ObjectLockConfigurationNotFound" not in answer.code:
        raise Inconclusive(f"the lock configuration of a bucket could not be read: {answer}")
    if not answer.ok:
        return BucketLockConfiguration(False)
    return BucketLockConfiguration(
        answer.text_of("ObjectLockEnabled") == "Enabled",
        answer.text_of("Mode"),
        answer.text_of("Days"),
        answer.text_of("Years"),
    )


def versioning_of(case: Case, bucket: str) -> str:
    """Return Enabled, Suspended or "never enabled". Raises Inconclusive if it cannot be read."""
    answer = case.client.send("GET", bucket, query=(("versioning", None),))
    if not answer.ok:
        raise Inconclusive(f"the versioning of a bucket could not be read: {answer}")
    return answer.text_of("Status") or "never enabled"


def set_versioning(case: Case, bucket: str, status: str) -> Answer:
    """PutBucketVersioning with Enabled or Suspended."""
    inner = f"<Status>{status}</Status>"
    return case.configure(
        bucket, "versioning", f'<VersioningConfiguration xmlns="{ROOT}">{inner}</VersioningConfiguration>'
    )


def lock_bucket(case: Case) -> str:
    """Create a bucket and check that it has Object Lock and versioning. Raises Inconclusive."""
    bucket = case.new_bucket()
    status, lock = versioning_of(case, bucket), bucket_lock(case, bucket)
    if status != "Enabled" or not lock.enabled:
        raise Inconclusive(f"no bucket could be prepared: it has versioning {status}, {lock}; see CFG-01")
    return bucket


def versioned_bucket(case: Case) -> str:
    """Create a bucket with versioning and without Object Lock. Raises NotOffered."""
    bucket = case.new_bucket(lock=False)
    _enable_versioning(case, bucket)
    return bucket


def prepare_default(case: Case, bucket: str) -> None:
    """Set a default of one day under GOVERNANCE, the shortest possible. Raises Inconclusive."""
    answer, lock = case.set_default(bucket), bucket_lock(case, bucket)
    if not answer.ok or (lock.mode, lock.days) != (GOVERNANCE, "1"):
        raise Inconclusive(f"no default retention could be prepared: {answer}, and the bucket has {lock}; see DFT-01")


def _prepare_rules(case: Case) -> str:
    """Create a bucket without a default that accepts and shows a correct one. Raises Inconclusive."""
    bucket = lock_bucket(case)
    prepare_default(case, bucket)
    case.set_default(bucket, days=None)
    if bucket_lock(case, bucket) != BucketLockConfiguration(True):
        raise Inconclusive("no bucket could be prepared: a default cannot be cleared; see DFT-05")
    return bucket


def default_rule(mode: str, unit: str, length: int) -> str:
    """Return a Rule element; ``unit`` is Days or Years."""
    return _rule(f"<Mode>{mode}</Mode><{unit}>{length}</{unit}>")


def _rule(inner: str) -> str:
    return f"<Rule><DefaultRetention>{inner}</DefaultRetention></Rule>"


def _enable_versioning(case: Case, bucket: str) -> None:
    answer = set_versioning(case, bucket, "Enabled")
    status = versioning_of(case, bucket)
    if status != "Enabled":
        raise NotOffered(f"a bucket without Object Lock keeps no versions: {answer}, versioning {status}")


@check("CFG-01")
def create_with_lock(case: Case) -> None:
    bucket = case.new_bucket()
    status, lock = versioning_of(case, bucket), bucket_lock(case, bucket)
    if status != "Enabled" or not lock.enabled:
        raise Failed(f"a bucket was created with Object Lock, but it has versioning {status}, {lock}")


@check("CFG-02")
def suspend_versioning(case: Case) -> None:
    bucket = lock_bucket(case)
    version = case.stored(bucket=bucket, lock=case.lock())
    answer = set_versioning(case, bucket, "Suspended")
    status = versioning_of(case, bucket)
    if status != "Enabled":
        raise Failed(f"suspending versioning was answered {answer}, and the bucket now has versioning {status}")
    written, newer = case.put(version.key, bucket=bucket)
    case.must_survive(version)
    if written.ok and newer.id in ("", "null"):
        raise Failed(f"suspending versioning was answered {answer}; a new write gets no version of its own")
    case.must_refuse(answer, "suspending versioning", "409 InvalidBucketState", version)


@check("CFG-03")
def enable_versioning_again(case: Case) -> None:
    bucket = lock_bucket(case)
    case.must_allow(set_versioning(case, bucket, "Enabled"), "setting versioning to Enabled again")
    status = versioning_of(case, bucket)
    if status != "Enabled":
        raise Failed(f"after setting versioning to Enabled again it is {status}")


@check("CFG-04")
def disable_lock(case: Case) -> None:
    bucket = lock_bucket(case)
    prepare_default(case, bucket)
    version = case.stored(bucket=bucket, lock=case.lock())
    disabled = "<ObjectLockEnabled>Disabled</ObjectLockEnabled>"
    root = f'<ObjectLockConfiguration xmlns="{ROOT}">%s</ObjectLockConfiguration>'
    documents = {
        "status Disabled": root % disabled,
        "status Disabled with a rule": root % (disabled + default_rule(GOVERNANCE, "Days", 1)),
        "an empty status": root % "<ObjectLockEnabled></ObjectLockEnabled>",
        "no status": root % default_rule(GOVERNANCE, "Days", 1),
        "an empty configuration": root % "",
        "no configuration": "",
    }
    case.try_all(*((name, partial(_disable, case, version, xml)) for name, xml in documents.items()))


def _disable(case: Case, version: Version, xml: str) -> None:
    bucket = version.bucket
    before = bucket_lock(case, bucket)
    answer = case.configure(bucket, "object-lock", xml)
    after, status = bucket_lock(case, bucket), versioning_of(case, bucket)
    if after.is_weaker_than(before) or status != "Enabled":
        case.set_default(bucket)  # so that the next document has a default to remove
        raise Failed(f"was answered {answer}, and {before} became {after}, versioning {status}")
    case.must_refuse_delete(version, case.delete(version), "deleting a locked version after it")
    case.must_refuse(answer, "an invalid lock configuration", "400 MalformedXML")


@check("CFG-05")
def malformed_default(case: Case) -> None:
    bucket = _prepare_rules(case)
    rules = {
        "both Days and Years": "<Mode>GOVERNANCE</Mode><Days>1</Days><Years>1</Years>",
        "no period": "<Mode>GOVERNANCE</Mode>",
        "no mode": "<Days>1</Days>",
        "nothing": "",
        "an unknown mode": "<Mode>LOCKED</Mode><Days>1</Days>",
        "a lower-case mode": "<Mode>governance</Mode><Days>1</Days>",
    }
    case.try_all(*((f"a rule with {name}", partial(_set_malformed, case, bucket, rules[name])) for name in rules))


def _set_malformed(case: Case, bucket: str, inner: str) -> None:
    answer = case.configure(bucket, "object-lock", lock_configuration(_rule(inner)))
    after = bucket_lock(case, bucket)
    try:
        if after == BucketLockConfiguration(True) and not answer.ok:
            case.must_refuse(answer, "a malformed default rule", "400 MalformedXML")
        elif answer.ok and "governance" in inner and _stamps_governance(case, bucket):
            case.deviate(f"a lower-case mode is taken for the same mode; {case.expected('400 MalformedXML')}")
        else:
            raise _misunderstood(case, bucket, answer, after)
    finally:
        if after != BucketLockConfiguration(True):
            case.set_default(bucket, days=None)


def _misunderstood(case: Case, bucket: str, answer: Answer, after: BucketLockConfiguration) -> Failed:
    """Judge a malformed rule that was not refused. A rule without a period may lock nothing."""
    words = f"was answered {answer}, and the bucket now has {after}"
    if not answer.ok or not after.mode or after.days or after.years:
        return Failed(words, "S3")
    written, version = case.put(bucket=bucket)
    if not written.ok:
        return Failed(f"{words}; a PUT was answered {written}", "S3")
    state = case.state(with_id(case, version))
    return Failed(f"{words}; a PUT stored {words_of(state)}", "S2" if state.lock is None else "S3")


def _stamps_governance(case: Case, bucket: str) -> bool:
    answer, version = case.put(bucket=bucket)
    return answer.ok and case.state(version).mode == GOVERNANCE


@check("CFG-06")
def default_out_of_range(case: Case) -> None:
    bucket = _prepare_rules(case)
    periods = [("Days", 0), ("Days", -1), ("Days", LONGEST_DAYS + 1)]
    periods += [("Years", 0), ("Years", -1), ("Years", LONGEST_YEARS + 1)]
    case.try_all(
        *((f"{length} {unit}", partial(_set_out_of_range, case, bucket, unit, length)) for unit, length in periods)
    )


def _set_out_of_range(case: Case, bucket: str, unit: str, length: int) -> None:
    answer = case.configure(bucket, "object-lock", lock_configuration(default_rule(GOVERNANCE, unit, length)))
    after = bucket_lock(case, bucket)
    if after != BucketLockConfiguration(True):
        case.set_default(bucket, days=None)
    shown = after.days if unit == "Days" else after.years
    if after == BucketLockConfiguration(True) and not answer.ok:
        case.must_refuse(answer, f"a default of {length} {unit}", "400 InvalidArgument")
    elif answer.ok and length > 0 and after.mode == GOVERNANCE and shown == str(length):
        # Retention is not shorter than requested: the platform only lacks this limit.
        case.deviate(f"a default of {length} {unit} is accepted; {case.expected('400 InvalidArgument')}")
    else:
        raise Failed(f"was answered {answer}, and the bucket now has {after}")


@check("CFG-07")
def lock_without_versioning(case: Case) -> None:
    case.try_all(
        ("a bucket that never had versioning", lambda: _lock_unversioned(case, case.new_bucket(lock=False))),
        ("a bucket with versioning suspended", lambda: _lock_unversioned(case, _suspended_bucket(case))),
    )


def _suspended_bucket(case: Case) -> str:
    bucket = versioned_bucket(case)
    answer = set_versioning(case, bucket, "Suspended")
    if versioning_of(case, bucket) != "Suspended":
        raise NotOffered(f"the versioning of a bucket without Object Lock cannot be suspended: {answer}")
    return bucket


def _lock_unversioned(case: Case, bucket: str) -> None:
    before = bucket_lock(case, bucket)
    if before.enabled:
        raise Inconclusive(f"no bucket without Object Lock could be prepared: it has {before}; see CFG-10")
    answer = case.configure(bucket, "object-lock", lock_configuration(""))
    lock, status = bucket_lock(case, bucket), versioning_of(case, bucket)
    if lock.enabled and status != "Enabled":
        raise Failed(f"enabling Object Lock was answered {answer}, and the bucket has {lock}, but versioning {status}")
    if answer.ok and not lock.enabled:
        raise Failed(f"enabling Object Lock was answered {answer}, but the bucket has {lock}")
    if lock.enabled:
        case.deviate(
            f"enabling Object Lock was answered {answer} and enabled versioning; "
            f"{case.expected('409 InvalidBucketState')}"
        )
        return
    case.must_refuse(answer, "Object Lock on a bucket without versioning", "409 InvalidBucketState")


@check("CFG-08")
def lock_existing_bucket(case: Case) -> None:
    bucket = versioned_bucket(case)
    _lock_existing(case, bucket)
    status = versioning_of(case, bucket)
    if status != "Enabled":
        raise Failed(f"Object Lock was enabled on an existing bucket, and its versioning became {status}")
    answer, version = case.put(bucket=bucket, lock=case.lock())
    case.must_allow(answer, "storing a locked object in a bucket whose Object Lock was enabled later")
    state = case.state(version)
    if state.mode != GOVERNANCE:
        raise Failed(f"Object Lock was enabled later, and an object stored with a lock has {words_of(state)}")
    case.must_refuse_delete(version, case.delete(version), "deleting a locked version where it was enabled later")


def _lock_existing(case: Case, bucket: str) -> None:
    """Enable Object Lock on a bucket that was created without it. Raises NotOffered."""
    answer = case.configure(bucket, "object-lock", lock_configuration(""))
    lock = bucket_lock(case, bucket)
    if answer.ok and not lock.enabled:
        raise Failed(f"enabling Object Lock on an existing bucket was answered {answer}, but it has {lock}")
    if not answer.ok:
        raise NotOffered(f"Object Lock cannot be enabled on an existing bucket: {answer}")


@check("CFG-09")
def lock_older_versions(case: Case) -> None:
    bucket = case.new_bucket(lock=False)
    answer, unversioned = case.put(bucket=bucket)
    if not answer.ok:
        raise Inconclusive(f"an object could not be prepared: PUT answered {answer}")
    _enable_versioning(case, bucket)
    versioned = case.stored(bucket=bucket)
    _lock_existing(case, bucket)
    case.try_all(
        ("a version with an id", partial(_lock_and_delete, case, versioned)),
        ("the version null", partial(_lock_and_delete, case, unversioned._replace(id="null"))),
    )


def _lock_and_delete(case: Case, version: Version) -> None:
    lock = case.lock()
    answer = case.set_retention(version, lock)
    if answer.refused and version.id == "null":
        case.deviate(f"locking the version null by that id was answered {answer}; {case.expected('200')}")
        answer = case.set_retention(version._replace(id=""), lock)  # it is the current version
    case.must_allow(answer, "locking a version written before Object Lock was enabled")
    deleting = case.delete(version)
    case.put(version.key, bucket=version.bucket)  # some platforms show version null in full only if it is not current
    state = case.state(version)
    if state.mode != lock.mode:
        raise Failed(
            f"locking it was accepted; after an attempt to delete it and one to overwrite it: {words_of(state)}"
        )
    case.must_refuse_delete(version, deleting, "deleting it after that")
    case.must_refuse_delete(version, case.delete(version), "deleting it under a newer version")


@check("CFG-10")
def read_lock_of_plain_bucket(case: Case) -> None:
    bucket = case.new_bucket(lock=False)
    answer = case.client.send("GET", bucket, query=(("object-lock", None),))
    if answer.ok and answer.text_of("ObjectLockEnabled") == "Enabled":
        raise Failed("a bucket created without Object Lock is reported to have it")
    case.must_refuse(answer, "reading a plain bucket's Object Lock", "404 ObjectLockConfigurationNotFoundError")


@check("CFG-11")
def delete_bucket(case: Case) -> None:
    empty = case.new_bucket()
    answer = case.client.send("DELETE", empty)
    if not answer.ok:
        raise Inconclusive(f"the control failed: this credential cannot delete an empty bucket either ({answer})")
    case.try_all(
        ("a bucket with a locked version", partial(_delete_bucket_of_version, case, covered=False)),
        ("a bucket with a locked version under a marker", partial(_delete_bucket_of_version, case, covered=True)),
        ("a bucket with only a marker", partial(_delete_bucket_of_marker, case)),
    )


def _delete_bucket_of_version(case: Case, *, covered: bool) -> None:
    bucket = case.new_bucket()
    version = case.stored(bucket=bucket, lock=case.lock())
    if covered and not case.delete_key(bucket, version.key).ok:
        raise Inconclusive("no delete marker could be prepared; see DEL-05")
    answer = case.client.send("DELETE", bucket)
    case.must_refuse(answer, "deleting a bucket with a locked version", "409 BucketNotEmpty", version)


def _delete_bucket_of_marker(case: Case) -> None:
    bucket = case.new_bucket()
    version = case.stored(bucket=bucket)
    if not case.delete_key(bucket, version.key).ok or not case.delete(version).ok:
        raise Inconclusive("no delete marker could be prepared; see DEL-01 and DEL-05")
    listed = case.client.send("GET", bucket, query=(("versions", None),))
    if not listed.elements("DeleteMarker") or listed.elements("Version"):
        raise Inconclusive("no delete marker could be prepared: a listing of versions does not show only it")
    answer = case.client.send("DELETE", bucket)
    listed = case.client.send("GET", bucket, query=(("versions", None),))
    if not listed.elements("DeleteMarker"):
        # The bucket had no record, so nothing was lost.
        case.deviate(
            f"deleting a bucket with only a marker was answered {answer}; {case.expected('409 BucketNotEmpty')}"
        )
        return
    case.must_refuse(answer, "deleting a bucket with only a marker", "409 BucketNotEmpty")


@check("CFG-12")
def delete_bucket_by_force(case: Case) -> None:
    case.try_all(*((f"with {name}", partial(_force, case, *FORCES[name])) for name in FORCES))


def _force(case: Case, headers: Headers, query: tuple[tuple[str, str], ...]) -> None:
    bucket = lock_bucket(case)
    retained = case.stored(bucket=bucket, lock=case.lock())
    held = case.stored(bucket=bucket, hold="ON")
    answer = case.client.send("DELETE", bucket, headers=headers, query=query)
    case.must_survive(retained, held)
    if answer.ok:
        case.deviate(f"deleting a bucket by force was answered {answer}, though its locked versions are still there")
    status, lock = versioning_of(case, bucket), bucket_lock(case, bucket)
    if status != "Enabled" or not lock.enabled:
        raise Failed(f"was answered {answer}, and the bucket now has versioning {status}, {lock}")
