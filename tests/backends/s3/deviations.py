"""Deviations of servers from Amazon's answers, each with its evidence.

A row without a declaration must get Amazon's answer, and a row with one must get exactly the declared answer. "!!"
marks deviations by which a record can be lost or stored unprotected. The others are only other codes. "Source" names
the file of the server's source that shows the deviation. "Seen" is what the pinned version answered.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.backends.s3.answers import (
    BAD_ARGUMENT,
    BAD_REQUEST,
    CRASHED,
    MALFORMED,
    NO_CONTENT,
    NO_KEY,
    NO_VERSION,
    OK,
    Answer,
)

# The declarations apply to these versions.
VERSIONS = {"minio": "v0.0.0-20260212201848-7aac2a2c5b7c", "versitygw": "v1.8.0"}

# Server, evidence, row, and the answer that differs from Amazon's.
ANSWERS: Mapping[str, Mapping[str, Mapping[str, Answer]]] = {
    "embedded": {},
    "moto": {
        "seen: it knows no rights, enforces no lock when retention is put, and checks little": {
            "delete: GOVERNANCE, bypass without the right": NO_CONTENT,
            "delete: GOVERNANCE, bypass header false": NO_CONTENT,
            "delete: without the right": NO_CONTENT,
            "delete: a malformed version id": NO_CONTENT,
            "delete: bypass header in a plain bucket": NO_CONTENT,
            "delete: bypass header false in a plain bucket": NO_CONTENT,
            "delete: a bucket with only a marker": NO_CONTENT,
            "retention: shorten GOVERNANCE": OK,
            "retention: remove GOVERNANCE": OK,
            "retention: GOVERNANCE to COMPLIANCE": OK,
            "retention: shorten COMPLIANCE, bypass": OK,
            "retention: COMPLIANCE to GOVERNANCE, later, bypass": OK,
            "retention: remove COMPLIANCE, bypass": OK,
            "retention: a date in the past": OK,
            "retention: an unknown mode": OK,
            "retention: only a mode": OK,
            "retention: only a date": OK,
            "retention: without the right": OK,
            "retention: bypass without the right": OK,
            "hold: a bad status": OK,
            "hold: without the right": OK,
            "hold: read, never set": OK,
            "upload: a date in the past": OK,
            "upload: a mode without a date": OK,
            "upload: a date without a mode": OK,
            "upload: an unknown mode": OK,
            "upload: an unknown hold": OK,
            "upload: a lock without the right": OK,
            "upload: a hold without the right": OK,
            "upload: a wrong Content-MD5": OK,
            "upload: a malformed Content-MD5": OK,
            "upload: a wrong checksum": OK,
            "upload: a key above 1024 bytes": OK,
            "upload: metadata above 2 KiB": OK,
            "bucket: made twice": OK,
            "bucket: a bad name": OK,
            "bucket: neither days nor years": OK,
            "bucket: an unknown mode": OK,
            "bucket: an empty rule": OK,
            "bucket: no days": OK,
            "bucket: too many days": OK,
            "bucket: too many years": OK,
            "bucket: lock disabled": OK,
            "bucket: versioning suspended under lock": OK,
            "bucket: versioning nonsense": OK,
            "bucket: 1001 deletes": OK,
            "retention: on a missing key": CRASHED,
            "retention: on a missing version": CRASHED,
            "retention: on a malformed version id": CRASHED,
            "retention: on a delete marker": CRASHED,
            "retention: where the newest is a marker": CRASHED,
            "retention: read, never set": CRASHED,
            "retention: read, under hold only": CRASHED,
            "hold: no status": CRASHED,
            "hold: on a missing key": CRASHED,
            "hold: on a delete marker": CRASHED,
            "retention: read in a plain bucket": NO_KEY,
            "hold: read in a plain bucket": NO_KEY,
            "retention: read on a marker": NO_VERSION,
            "read: a malformed version": NO_VERSION,
            "read: a marker by its id": NO_VERSION,
            "bucket: lock on, versioning off": (400, "InvalidBucketState"),
            "bucket: lock on, versioning suspended": (400, "InvalidBucketState"),
            "bucket: an empty default": (400, "MissingRequestBodyError"),
        }
    },
    "minio": {
        "source cmd/api-errors.go, ErrObjectLocked: every refusal by a lock is InvalidRequest": {
            "delete: GOVERNANCE": BAD_REQUEST,
            "delete: GOVERNANCE, bypass header false": BAD_REQUEST,
            "delete: COMPLIANCE": BAD_REQUEST,
            "delete: COMPLIANCE, bypass": BAD_REQUEST,
            "delete: legal hold": BAD_REQUEST,
            "delete: legal hold, bypass": BAD_REQUEST,
            "retention: shorten GOVERNANCE": BAD_REQUEST,
            "retention: remove GOVERNANCE": BAD_REQUEST,
            "retention: GOVERNANCE to COMPLIANCE": BAD_REQUEST,
            "retention: shorten COMPLIANCE, bypass": BAD_REQUEST,
            "retention: COMPLIANCE to GOVERNANCE, later, bypass": BAD_REQUEST,
            "retention: remove COMPLIANCE, bypass": BAD_REQUEST,
        },
        "!! source cmd/auth-handler.go, isPutRetentionAllowed: with the bypass header the right to set retention "
        "is enough to weaken GOVERNANCE": {"retention: bypass without the right": OK},
        "source cmd/api-errors.go, ErrNoSuchObjectLockConfiguration is 400": {
            "retention: read, never set": (400, "NoSuchObjectLockConfiguration"),
            "retention: read, under hold only": (400, "NoSuchObjectLockConfiguration"),
            "hold: read, never set": (400, "NoSuchObjectLockConfiguration"),
        },
        "seen: the bypass header is passed over where there is no Object Lock": {
            "delete: bypass header in a plain bucket": NO_CONTENT,
            "delete: bypass header false in a plain bucket": NO_CONTENT,
        },
        "seen: delete markers do not keep a bucket": {"delete: a bucket with only a marker": NO_CONTENT},
        "seen: a retention that cannot be read is malformed; no date is too far": {
            "retention: a date in the past": MALFORMED,
        },
        "source internal/bucket/object/lock/lock.go: bad lock headers are InvalidRequest, and case does not matter": {
            "upload: a date in the past": BAD_REQUEST,
            "upload: a mode without a date": BAD_REQUEST,
            "upload: a date without a mode": BAD_REQUEST,
            "upload: an unknown mode": OK,
            "upload: an unknown hold": OK,
        },
        "seen: it has codes of its own": {
            "upload: a wrong checksum": (400, "XAmzContentChecksumMismatch"),
            "bucket: versioning nonsense": (400, "IllegalVersioningConfigurationException"),
        },
        "seen: what stands between two slashes of a key is a file name, 255 bytes at most": {
            "upload: a key of 1024 bytes": (400, "XMinioInvalidObjectName")
        },
        "seen: Object Lock cannot be turned on later": {"bucket: lock on, versioning on": (409, "InvalidBucketState")},
        "seen: a lock configuration that cannot be is InvalidArgument": {
            "bucket: days and years": BAD_ARGUMENT,
            "bucket: neither days nor years": BAD_ARGUMENT,
            "bucket: an unknown mode": BAD_ARGUMENT,
            "bucket: no mode": BAD_ARGUMENT,
            "bucket: an empty default": BAD_ARGUMENT,
            "bucket: lock disabled": BAD_ARGUMENT,
            "bucket: lock not said": BAD_ARGUMENT,
        },
        "seen: it fails over an empty rule": {"bucket: an empty rule": (500, "InternalError")},
        "seen: a state that Object Lock rules out is 400": {
            "bucket: versioning suspended under lock": (400, "InvalidBucketState")
        },
    },
    "versitygw": {
        "source backend/posix: a version id is a ULID, so 32 zeros are malformed": {
            "delete: a version that is not there": BAD_ARGUMENT,
            "retention: on a missing version": BAD_ARGUMENT,
            "read: a missing version": BAD_ARGUMENT,
        },
        "versity/versitygw issue 1218: the bypass header is passed over where there is no Object Lock": {
            "delete: bypass header in a plain bucket": NO_CONTENT,
            "delete: bypass header false in a plain bucket": NO_CONTENT,
        },
        "seen: delete markers do not keep a bucket": {"delete: a bucket with only a marker": NO_CONTENT},
        "source auth/object_lock.go, ParseObjectLockRetentionInput: a retention has a future date; none is too far, "
        "and it is never removed": {
            "retention: remove GOVERNANCE": BAD_ARGUMENT,
            "retention: remove GOVERNANCE, bypass": BAD_ARGUMENT,
            "retention: remove COMPLIANCE, bypass": BAD_ARGUMENT,
            "retention: bypass without the right": BAD_ARGUMENT,  # The row removes it. Shortening gets AccessDenied.
            "retention: only a mode": BAD_ARGUMENT,
        },
        "seen: NoSuchObjectLockConfiguration is 400": {
            "retention: read, never set": (400, "NoSuchObjectLockConfiguration"),
            "retention: read, under hold only": (400, "NoSuchObjectLockConfiguration"),
            "hold: read, never set": (400, "NoSuchObjectLockConfiguration"),
        },
        "seen: it looks for the key before it looks for Object Lock": {
            "retention: in a plain bucket": NO_KEY,
            "retention: read in a plain bucket": NO_KEY,
            "hold: in a plain bucket": NO_KEY,
            "hold: read in a plain bucket": NO_KEY,
        },
        "seen: a delete marker counts as an object": {"upload: if absent, after a marker": (412, "PreconditionFailed")},
        "seen: what stands between two slashes of a key is a file name, 255 bytes at most": {
            "upload: a key of 1024 bytes": (400, "KeyTooLongError")
        },
        "seen: it looks for the key before it looks for the version": {"read: a version id of another key": NO_KEY},
        "seen: it has one region": {"bucket: made with a location": (400, "InvalidLocationConstraint")},
        "source auth/object_lock.go, ParseBucketLockConfigurationInput: a rule may be empty": {
            "bucket: neither days nor years": OK,
            "bucket: an empty rule": OK,
        },
        "seen: a state that Object Lock rules out is 400": {
            "bucket: versioning suspended under lock": (400, "InvalidBucketState")
        },
        "seen: a batch has no limit": {"bucket: 1001 deletes": OK},
    },
}

# Server, test, and the deviation with its evidence.
STATES: Mapping[str, Mapping[str, str]] = {
    "embedded": {},
    "moto": {
        "test_batch_delete_refuses_each_locked_version_individually": "seen: its refusals do not name the version",
        "test_a_quiet_batch_delete_names_refusals_only": "seen: it has no quiet mode",
        "test_a_batch_delete_needs_the_right": "seen: it knows no rights",
        "test_default_retention_is_stamped_at_creation_and_stays": "seen: it takes a default for empty buckets only",
        "test_a_hold_does_not_replace_the_default_retention": "seen: it takes a default for empty buckets only",
        "test_deleting_the_marker_brings_the_object_back": "seen: it does not say that what it deleted was a marker",
    },
    "minio": {
        "test_a_hold_does_not_replace_the_default_retention": (
            "!! pgsty/silo issue 165: a hold header keeps the bucket's default retention away"
        )
    },
    "versitygw": {
        "test_a_quiet_batch_delete_names_refusals_only": "seen: it has no quiet mode",
        "test_removed_retention_is_gone": "source auth/object_lock.go: a retention is never removed",
        "test_default_retention_is_stamped_at_creation_and_stays": (
            "!! source auth/object_lock.go, loadObjectLockState: a default is never stamped; it protects while the "
            "configuration stays, and until the configuration's own date plus the period"
        ),
        "test_a_hold_does_not_replace_the_default_retention": (
            "!! source auth/object_lock.go, loadObjectLockState: a default is never stamped"
        ),
        "test_a_version_that_is_not_the_newest_shows_its_lock": (
            "seen: HEAD of an older version is silent about its lock, which is enforced"
        ),
        "test_a_listing_in_pages_names_each_version_once": "seen: the last version of a page is the next one's first",
        "test_a_hold_outlives_the_retention": (
            "!! source auth/object_lock.go, checkObject: where retention has expired the hold is not looked at"
        ),
    },
}


def answer_of(server: str, row: str) -> Answer | None:
    """Return the declared answer, or None for Amazon's."""
    return next((answers[row] for answers in ANSWERS[server].values() if row in answers), None)


def reason_of(server: str, test: str) -> str | None:
    """Return why the test fails on this server, or None if it must pass."""
    return STATES[server].get(test)
