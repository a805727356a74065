"""What happens to a record between its lock and the attack, each as a function.

One idea: the owner does only what the rules allow. An event may make another version current, and may extend the
retention; it says so in the expected record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from archiver.worm import multipart
from archiver.worm.case import GOVERNANCE, ROOT, Case, ObjectLock, Version, lock_configuration, md5_of
from archiver.worm.generated import writing
from archiver.worm.generated.attacks import LIFECYCLE, versioning_configuration
from archiver.worm.generated.dimensions import PriorEvent
from archiver.worm.generated.names import TWINS
from archiver.worm.generated.rules import ExpectedRecord
from archiver.worm.generated.writing import WritePlace
from archiver.worm.requests.exchange import Answer

EXTENSION_SECONDS = 8.0  # a COMPLIANCE lock of a sequence stays within COMPLIANCE_SECONDS
_NEWER = 20
_TAGS = f'<Tagging xmlns="{ROOT}"><TagSet><Tag><Key>case</Key><Value>4711</Value></Tag></TagSet></Tagging>'
_DAY = "<Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>1</Days></DefaultRetention></Rule>"


@dataclass(frozen=True, slots=True)
class Scene:
    """A record whose life goes on: its case, and what the rules require of it."""

    case: Case
    record: ExpectedRecord

    @property
    def version(self) -> Version:
        return self.record.version

    @property
    def place(self) -> WritePlace:
        """The record's key, for writes by the owner."""
        return WritePlace(self.case.client, self.version.bucket, self.version.key)

    def put(self, key: str | None = None) -> tuple[Answer, Version]:
        """PUT another object, by default a newer version of the record."""
        if key is None or key == self.version.key:
            self.record.newer += 1
            key = self.version.key
        return writing.put(self.case, self.place._replace(key=key))

    def remove(self, answer: Answer, newer: Version) -> None:
        """Delete a newer version of the record, or its delete marker."""
        if answer.ok and newer.id and self.case.delete(newer).ok:
            self.record.newer -= 1


def _marker(scene: Scene, *, removed: bool) -> None:
    scene.record.newer += 1
    answer = scene.case.delete_key(scene.version.bucket, scene.version.key)
    if removed:
        scene.remove(answer, scene.version._replace(id=answer.version_id or ""))


def _newer(scene: Scene, times: int = 1, *, removed: bool = False) -> None:
    for _ in range(times):
        answer, newer = scene.put()
    if removed:
        scene.remove(answer, newer)


def _newer_locked(scene: Scene) -> None:
    _, newer = scene.put()
    scene.case.set_hold(newer, "ON")
    scene.case.set_hold(newer, "OFF")


def _replaced_and_deleted(scene: Scene) -> None:
    scene.record.newer += 1
    scene.remove(*writing.copy_of(scene.case, scene.place, scene.version))


def _copied(scene: Scene) -> None:
    answer, copied = writing.copy_of(scene.case, scene.place._replace(key=scene.case.key()), scene.version)
    if answer.ok:
        scene.case.delete(copied)


def _neighbour(scene: Scene, *, batch: bool) -> None:
    stem = scene.version.key.rstrip("/").rpartition("/")[0]
    neighbours = [scene.put(f"{stem}/neighbour-{number}")[1] for number in range(3 if batch else 1)]
    if batch:
        scene.case.delete_many(scene.version.bucket, [(each.key, None) for each in neighbours])
        scene.case.delete_many(scene.version.bucket, [(each.key, each.id) for each in neighbours])
    else:
        scene.case.delete(neighbours[0])


def _twin(event: PriorEvent, scene: Scene) -> None:
    answer, twin = scene.put(TWINS[event](scene.version.key))
    if event is PriorEvent.TWIN_DELETED and answer.ok and twin.key != scene.version.key:
        scene.case.delete_key(twin.bucket, twin.key)


def _sub_resource(method: str, what: str, xml: str, scene: Scene) -> None:
    scene.case.client.send(
        method, scene.version.bucket, scene.version.key, query=((what, None), ("versionId", scene.version.id)),
        body=xml.encode(), headers=[("Content-MD5", md5_of(xml.encode()))] if xml else [], unsure=True,
    )  # fmt: skip


def _untagged(scene: Scene) -> None:
    _sub_resource("PUT", "tagging", _TAGS, scene)
    _sub_resource("DELETE", "tagging", "", scene)


def _acl(scene: Scene) -> None:
    scene.case.client.send(
        "PUT", scene.version.bucket, scene.version.key, query=(("acl", None), ("versionId", scene.version.id)),
        headers=(("x-amz-acl", "private"),), unsure=True,
    )  # fmt: skip


def _configure(what: str, xml: str, scene: Scene) -> None:
    scene.case.configure(scene.version.bucket, what, xml)


def _rule_removed(scene: Scene) -> None:
    _configure("object-lock", lock_configuration(_DAY), scene)
    _configure("object-lock", lock_configuration(""), scene)


def _bucket_again(scene: Scene) -> None:
    scene.case.client.send("PUT", scene.version.bucket, headers=(("x-amz-bucket-object-lock-enabled", "true"),))


def _bucket_deletion(scene: Scene) -> None:
    scene.case.client.send("DELETE", scene.version.bucket)


def _upload(scene: Scene, *, aborted: bool) -> None:
    answer, started = multipart.start(scene.case, scene.version.key, bucket=scene.version.bucket)
    if answer.ok:
        multipart.part(scene.case, started, 1, writing.new_body(scene.case))
    if answer.ok and aborted:
        multipart.abort(scene.case, started)


def _upload_twice(scene: Scene) -> None:
    answer, started = multipart.start(scene.case, scene.version.key, bucket=scene.version.bucket)
    if not answer.ok:
        return
    scene.record.newer += 1
    part = multipart.part(scene.case, started, 1, writing.new_body(scene.case))
    for _ in range(2):
        multipart.complete(scene.case, started, [part.headers.get("etag", "")])


def _retention_set(seconds: float, scene: Scene) -> None:
    """Set the retention again, this much later."""
    record = scene.record
    if record.until is None:
        return
    lock = ObjectLock(record.mode or GOVERNANCE, record.until + timedelta(seconds=seconds))
    if scene.case.set_retention(record.version, lock).ok:
        record.until = lock.until


def _hold_toggled(scene: Scene) -> None:
    scene.case.set_hold(scene.version, "ON")
    scene.case.set_hold(scene.version, "OFF")


def _refused_write(scene: Scene) -> None:
    wrong = (("Content-MD5", md5_of(b"other bytes")),)
    answer = scene.case.client.send("PUT", scene.version.bucket, scene.version.key, headers=wrong, body=b"wrong bytes")
    if answer.ok:
        scene.record.newer += 1


def _refused_deletion(scene: Scene) -> None:
    scene.case.delete(scene.version)


def _range_read(scene: Scene) -> None:
    scene.case.client.send(
        "GET", scene.version.bucket, scene.version.key, query=(("versionId", scene.version.id),),
        headers=(("Range", "bytes=0-3"),),
    )  # fmt: skip


EVENTS: Mapping[PriorEvent, Callable[[Scene], None]] = {
    PriorEvent.NOTHING: lambda scene: None,
    PriorEvent.NEWER: _newer,
    PriorEvent.MARKER: partial(_marker, removed=False),
    PriorEvent.MARKER_REMOVED: partial(_marker, removed=True),
    PriorEvent.NEWER_DELETED: partial(_newer, removed=True),
    PriorEvent.MANY_NEWER: partial(_newer, times=_NEWER),
    PriorEvent.NEWER_LOCKED: _newer_locked,
    PriorEvent.REPLACED_AND_DELETED: _replaced_and_deleted,
    PriorEvent.COPIED: _copied,
    PriorEvent.NEIGHBOUR_DELETED: partial(_neighbour, batch=False),
    PriorEvent.NEIGHBOURS_EMPTIED: partial(_neighbour, batch=True),
    **{event: partial(_twin, event) for event in TWINS},
    PriorEvent.TAGGED: partial(_sub_resource, "PUT", "tagging", _TAGS),
    PriorEvent.UNTAGGED: _untagged,
    PriorEvent.ACL: _acl,
    PriorEvent.VERSIONING_AGAIN: partial(_configure, "versioning", versioning_configuration("Enabled")),
    PriorEvent.SUSPENSION: partial(_configure, "versioning", versioning_configuration("Suspended")),
    PriorEvent.RULE_SET: partial(_configure, "object-lock", lock_configuration(_DAY)),
    PriorEvent.RULE_REMOVED: _rule_removed,
    PriorEvent.LIFECYCLE: partial(_configure, "lifecycle", LIFECYCLE),
    PriorEvent.BUCKET_AGAIN: _bucket_again,
    PriorEvent.BUCKET_DELETION: _bucket_deletion,
    PriorEvent.UPLOAD_BEGUN: partial(_upload, aborted=False),
    PriorEvent.UPLOAD_ABORTED: partial(_upload, aborted=True),
    PriorEvent.UPLOAD_TWICE: _upload_twice,
    PriorEvent.EXTENDED: partial(_retention_set, EXTENSION_SECONDS),
    PriorEvent.SAME_AGAIN: partial(_retention_set, 0.0),
    PriorEvent.HOLD_TOGGLED: _hold_toggled,
    PriorEvent.REFUSED_WRITE: _refused_write,
    PriorEvent.REFUSED_DELETION: _refused_deletion,
    PriorEvent.RESTORED: partial(_sub_resource, "POST", "restore", ""),
    PriorEvent.RANGE_READ: _range_read,
}
