"""What is tried on a record, each as a function that sends the requests and returns the last answer.

One idea: an attack knows the record and a client, and judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from archiver.worm.case import COMPLIANCE, GOVERNANCE, ROOT, Case, ObjectLock, Version, lock_configuration, md5_of
from archiver.worm.generated import writing
from archiver.worm.generated.dimensions import Attack, PriorEvent
from archiver.worm.generated.names import TWINS
from archiver.worm.generated.rules import ExpectedRecord
from archiver.worm.generated.writing import WritePlace, Writer
from archiver.worm.requests.exchange import Answer, S3Client

MANY = 299  # other entries of a long batch
LIFECYCLE = (
    '<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Rule><ID>all</ID><Filter><Prefix/>'
    "</Filter><Status>Enabled</Status><Expiration><Days>1</Days></Expiration><NoncurrentVersionExpiration>"
    "<NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>"
)
_ENCRYPTION = f'<ObjectEncryption xmlns="{ROOT}"><SSE-S3/></ObjectEncryption>'
_RESTORATION = f'<RestoreRequest xmlns="{ROOT}"><Days>1</Days></RestoreRequest>'


def versioning_configuration(status: str) -> str:
    """Return the body of PutBucketVersioning."""
    return f'<VersioningConfiguration xmlns="{ROOT}"><Status>{status}</Status></VersioningConfiguration>'


@dataclass(frozen=True, slots=True)
class AttackTarget:
    """The record that an attack is about, and the client that attacks it."""

    case: Case
    client: S3Client
    record: ExpectedRecord
    etag: str

    @property
    def version(self) -> Version:
        return self.record.version

    def send(
        self, method: str, *, on: str | None = None, headers: tuple[tuple[str, str], ...] = (), xml: str = "",
        version_id: str | None = None,
    ) -> Answer:  # fmt: skip
        """Send a request about this version, or about its sub-resource ``on``."""
        query = [(on, None)] if on is not None else []
        body = xml.encode()
        digest = [("Content-MD5", md5_of(body))] if body else []
        return self.client.send(
            method, self.version.bucket, self.version.key, body=body, headers=[*digest, *headers],
            query=[*query, ("versionId", self.version.id if version_id is None else version_id)],
        )  # fmt: skip

    def configure(self, what: str, xml: str) -> Answer:
        """PUT a configuration of the bucket."""
        body = xml.encode()
        return self.client.send(
            "PUT", self.version.bucket, query=((what, None),), body=body, headers=[("Content-MD5", md5_of(body))]
        )


def _delete_twin(event: PriorEvent, target: AttackTarget) -> Answer:
    version = target.version
    return target.case.delete(version._replace(key=TWINS[event](version.key)), client=target.client)


def _batch(
    target: AttackTarget, *, quiet: bool = False, times: int = 1, others: int = 0, by_key: bool = False
) -> Answer:  # fmt: skip
    """Delete the version in a batch with an unlocked one, after ``others`` that do not exist."""
    version, case = target.version, target.case
    _, unlocked = case.put(case.key(), bucket=version.bucket)
    entries: list[tuple[str, str | None]] = [(f"{version.key}-{number}", None) for number in range(others)]
    entries += [(unlocked.key, unlocked.id), *[(version.key, None if by_key else version.id)] * times]
    return case.delete_many(version.bucket, entries, quiet=quiet, client=target.client)


def _write(writer: Writer, target: AttackTarget) -> Answer:
    version = target.version
    return writer(target.case, WritePlace(target.client, version.bucket, version.key))[0]


def _overwrite_version(target: AttackTarget) -> Answer:
    return _write(partial(writing.put, query=(("versionId", target.version.id),)), target)


def _overwrite_if_match(target: AttackTarget) -> Answer:
    return _write(partial(writing.put, headers=(("If-Match", target.etag),)), target)


def _append(target: AttackTarget) -> Answer:
    return _write(partial(writing.put, headers=(("x-amz-write-offset-bytes", str(len(target.version.body))),)), target)


def _overwrite_itself(target: AttackTarget) -> Answer:
    version = target.version
    return writing.copy_of(target.case, WritePlace(target.client, version.bucket, version.key), version)[0]


def _rename(target: AttackTarget) -> Answer:
    version = target.version
    source = (("x-amz-rename-source", f"/{version.bucket}/{version.key}"),) if version.key.isascii() else ()
    return target.client.send(
        "PUT", version.bucket, target.case.key(), query=(("renameObject", None),), headers=source
    )  # fmt: skip


def _shorten(seconds: float | None, target: AttackTarget) -> Answer:
    """Set the retention to this many seconds before its date; None: to a minute ago."""
    record, case = target.record, target.case
    now = case.now()
    until = (record.until or now) - timedelta(seconds=seconds) if seconds is not None else now - timedelta(minutes=1)
    return case.set_retention(target.version, ObjectLock(record.mode or GOVERNANCE, until), client=target.client)


def _shorten_to_seconds(target: AttackTarget) -> Answer:
    """Set the retention to three seconds from now."""
    lock = target.case.lock(target.record.mode or GOVERNANCE, 3.0)
    return target.case.set_retention(target.version, lock, client=target.client)


def _weaken_mode(target: AttackTarget) -> Answer:
    assert target.record.mode == COMPLIANCE
    assert target.record.until is not None
    lock = ObjectLock(GOVERNANCE, target.record.until)
    return target.case.set_retention(target.version, lock, client=target.client)


def _suspend(target: AttackTarget) -> Answer:
    return target.configure("versioning", versioning_configuration("Suspended"))


def _disable_lock(target: AttackTarget) -> Answer:
    return target.configure("object-lock", lock_configuration("").replace("Enabled<", "Disabled<"))


def _delete_bucket(target: AttackTarget, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
    return target.client.send("DELETE", target.version.bucket, headers=headers)


ATTACKS: Mapping[Attack, Callable[[AttackTarget], Answer]] = {
    Attack.DELETE: lambda target: target.send("DELETE"),
    Attack.DELETE_KEY: lambda target: target.case.delete_key(
        target.version.bucket, target.version.key, client=target.client
    ),
    Attack.DELETE_IF_MATCH: lambda target: target.send("DELETE", headers=(("If-Match", target.etag),)),
    Attack.DELETE_TWIN: partial(_delete_twin, PriorEvent.TWIN_SLASHES),
    Attack.DELETE_DOT_TWIN: partial(_delete_twin, PriorEvent.TWIN_DOT),
    Attack.DELETE_UPLOAD: lambda target: target.client.send(
        "DELETE",
        target.version.bucket,
        target.version.key,
        query=(("uploadId", target.version.id), ("versionId", target.version.id)),
    ),
    Attack.DELETE_PADDED_ID: lambda target: target.send("DELETE", version_id=target.version.id + " "),
    Attack.BATCH: _batch,
    Attack.BATCH_QUIET: partial(_batch, quiet=True),
    Attack.BATCH_TWICE: partial(_batch, times=2),
    Attack.BATCH_MANY: partial(_batch, others=MANY),
    Attack.BATCH_KEYS: partial(_batch, by_key=True),
    Attack.OVERWRITE: partial(_write, writing.put),
    Attack.OVERWRITE_VERSION: _overwrite_version,
    Attack.OVERWRITE_IF_MATCH: _overwrite_if_match,
    Attack.OVERWRITE_EMPTY: partial(_write, writing.put_of_nothing),
    Attack.OVERWRITE_CHUNKS: partial(_write, writing.put_chunks),
    Attack.OVERWRITE_TRAILER: partial(_write, writing.put_trailer),
    Attack.OVERWRITE_PARTS: partial(_write, lambda case, place: writing.upload(case, place, 1000)),
    Attack.OVERWRITE_COPY: partial(_write, writing.copy),
    Attack.OVERWRITE_ITSELF: _overwrite_itself,
    Attack.OVERWRITE_FORM: partial(_write, writing.post_form),
    Attack.APPEND: _append,
    Attack.RENAME: _rename,
    Attack.SHORTEN: _shorten_to_seconds,
    Attack.SHORTEN_A_LITTLE: partial(_shorten, 2.0),
    Attack.PAST_DATE: partial(_shorten, None),
    Attack.REMOVE_RETENTION: lambda target: target.case.set_retention(target.version, None, client=target.client),
    Attack.WEAKEN_MODE: _weaken_mode,
    Attack.DELETE_RETENTION: lambda target: target.send("DELETE", on="retention"),
    Attack.RELEASE: lambda target: target.case.set_hold(target.version, "OFF", client=target.client),
    Attack.DELETE_HOLD: lambda target: target.send("DELETE", on="legal-hold"),
    Attack.DELETE_TAGS: lambda target: target.send("DELETE", on="tagging"),
    Attack.RESTORE: lambda target: target.send("POST", on="restore", xml=_RESTORATION),
    Attack.ENCRYPT: lambda target: target.send("PUT", on="encryption", xml=_ENCRYPTION),
    Attack.SUSPEND: _suspend,
    Attack.DISABLE_LOCK: _disable_lock,
    Attack.REMOVE_RULE: lambda target: target.configure("object-lock", lock_configuration("")),
    Attack.EXPIRE: lambda target: target.configure("lifecycle", LIFECYCLE),
    Attack.DELETE_BUCKET: _delete_bucket,
    Attack.FORCE_BUCKET: partial(_delete_bucket, headers=(("x-minio-force-delete", "true"),)),
}
