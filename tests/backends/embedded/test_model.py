"""The store and a plain model of the rules execute the same steps and agree on every answer, listing, content and lock.

The model is dicts and conditions, written from the rules and not from the store. Both use the same clocks, which only
the steps change: time passes, a step sets the host's clock, the store restarts.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from backends.embedded.core import commits
from backends.embedded.core.changes import uploads as upload_changes
from backends.embedded.core.changes.objects import (
    CreateBucket,
    Delete,
    PutVersion,
    SetLegalHold,
    SetLockConfiguration,
    SetRetention,
    SetVersioning,
)
from backends.embedded.core.changes.uploads import AbortUpload, BeginUpload, CompleteUpload, Listed
from backends.embedded.core.rules import locks
from backends.embedded.core.rules.locks import DefaultRetention, Mode, Period, VersionLock, VersionRetention
from backends.embedded.core.rules.refusals import Locked, Refusal
from backends.embedded.core.store import Store
from backends.embedded.core.tables.catalogue import VersionRow
from backends.embedded.s3.calls import pages
from backends.embedded.s3.calls.copy import copy_content
from tests.backends.embedded.core_calls import PLENTY, put
from tests.backends.embedded.upload_calls import listed, part
from tests.support.examples import share_of

START_SECONDS = 2_000_000_000
DAY = 86_400
LOCKED, PLAIN = "locked", "plain"

buckets = st.sampled_from([LOCKED, LOCKED, LOCKED, PLAIN])
keys = st.sampled_from(["a", "ä"])
which = st.none() | st.integers(0, 30)  # the newest version, or any that was ever made
modes = st.sampled_from(Mode)
seconds = st.sampled_from([0, 1, 2, 3, 60, 2 * DAY])
retentions = st.none() | st.tuples(modes, seconds)
holds = st.none() | st.booleans()


@dataclass(eq=False)
class Made:
    """A version or marker in the model; instants are seconds."""

    key: str
    content: bytes | None  # None: a delete marker
    is_null: bool
    mode: str | None = None
    until: int | None = None
    hold: bool | None = None
    version_id: str = ""  # the id that the store assigned


@dataclass(eq=False)
class Upload:
    """A multipart upload. `made` is the version that it was completed to."""

    id: int
    bucket: str
    key: str
    mode: str | None
    until: int | None
    hold: bool | None
    parts: dict[int, bytes] = field(default_factory=dict)
    made: Made | None = None
    is_open: bool = True


@dataclass
class Bucket:
    versioning: str
    object_lock: bool
    default: tuple[str, int] | None = None  # mode and days
    versions: list[Made] = field(default_factory=list)  # oldest first

    def newest(self, key: str) -> Made | None:
        return next((each for each in reversed(self.versions) if each.key == key), None)


class Model:
    """Amazon's rules. Each call answers "ok" or the name of the refusal."""

    def __init__(self) -> None:
        self.now = START_SECONDS
        self.buckets = {LOCKED: Bucket("Enabled", True), PLAIN: Bucket("Off", False)}
        self.uploads: list[Upload] = []

    def refuses_delete(self, version: Made, bypass: bool) -> bool:
        if version.hold:
            return True
        if version.until is None or self.now >= version.until:
            return False
        return version.mode == "COMPLIANCE" or not bypass

    def put(self, name: str, made: Made) -> str:
        refusal = self.refuses_lock(name, made)
        if refusal is None:
            self._stamp_and_add(name, made)
        return refusal or "ok"

    def refuses_lock(self, name: str, wanted: Made | Upload) -> str | None:
        if not self.buckets[name].object_lock and (wanted.mode or wanted.hold is not None):
            return "NotLockBucket"
        return "BadRetainUntil" if wanted.until is not None and wanted.until <= self.now else None

    def complete(self, upload: Upload, numbers: list[int]) -> str:
        """Complete with these parts in this order. A repeated completion succeeds while the version exists."""
        there = upload.made in self.buckets[upload.bucket].versions
        if not upload.is_open and not there:
            return "NoSuchUpload"
        for index, number in enumerate(numbers):
            if index and number <= numbers[index - 1]:
                return "PartsOutOfOrder"
            if number not in upload.parts:
                return "NoSuchPart"
        if upload.is_open:
            upload.parts = {number: upload.parts[number] for number in numbers}
            is_null = self.buckets[upload.bucket].versioning != "Enabled"
            content = b"".join(upload.parts.values())
            upload.made = Made(upload.key, content, is_null, upload.mode, upload.until, upload.hold)
            self._stamp_and_add(upload.bucket, upload.made)
            upload.is_open = False
        return "ok"

    def _stamp_and_add(self, name: str, made: Made) -> None:
        bucket = self.buckets[name]
        if made.mode is None and bucket.default is not None:
            made.mode, made.until = bucket.default[0], self.now + bucket.default[1] * DAY
        self._add(bucket, made)

    def put_marker(self, name: str, key: str) -> str:
        bucket = self.buckets[name]
        if bucket.versioning == "Off":
            bucket.versions = [each for each in bucket.versions if each.key != key]
        else:
            self._add(bucket, Made(key, None, bucket.versioning != "Enabled"))
        return "ok"

    def _add(self, bucket: Bucket, made: Made) -> None:
        if made.is_null:  # The new null version replaces the old one.
            bucket.versions = [each for each in bucket.versions if each.key != made.key or not each.is_null]
        bucket.versions.append(made)

    def delete(self, name: str, version: Made, bypass: bool) -> str:
        bucket = self.buckets[name]
        if version in bucket.versions:
            if self.refuses_delete(version, bypass):
                return "Locked"
            bucket.versions.remove(version)
        return "ok"

    def target(self, name: str, key: str, version: Made | None) -> Made | str:
        """Return the version that a call about locks names, or the name of the refusal."""
        bucket = self.buckets[name]
        if not bucket.object_lock:
            return "NotLockBucket"
        found = bucket.newest(key) if version is None else version
        if found is None:
            return "NoSuchKey"
        if found not in bucket.versions:
            return "NoSuchVersion"
        return "IsDeleteMarker" if found.content is None else found

    def set_retention(self, version: Made, wanted: tuple[str, int] | None, bypass: bool) -> str:
        if wanted is not None and wanted[1] <= self.now:
            return "BadRetainUntil"
        if version.until is not None and self.now < version.until:
            extends = wanted is not None and wanted[0] == version.mode and wanted[1] >= version.until
            if not extends and (version.mode == "COMPLIANCE" or not bypass):
                return "Locked"
        version.mode, version.until = wanted or (None, None)
        return "ok"


class StoreAndModel(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="archiver-model-"))
        self.segments = mock.patch.object(commits, "ROLL_BYTES", 4000)  # so that objects are moved, too
        self.segments.start()
        self.small_parts = mock.patch.object(upload_changes, "PART_BYTES_MIN", 0)
        self.small_parts.start()
        self.loop = asyncio.new_event_loop()
        self.wall = self.elapsed = START_SECONDS
        self.model = Model()
        self.made: list[tuple[str, Made]] = []
        self._open()
        self._do(self.store.change(CreateBucket(LOCKED, object_lock=True)))
        self._do(self.store.change(CreateBucket(PLAIN, object_lock=False)))

    def _open(self) -> None:
        self.store = Store.open(
            self.folder, wall_seconds=lambda: self.wall, elapsed_seconds=lambda: self.elapsed, free_bytes=lambda: PLENTY
        )

    def teardown(self) -> None:
        if not hasattr(self, "store"):
            return
        try:
            for upload in [each for each in self.model.uploads if each.is_open]:
                self._agreed(self._do(self.store.change(AbortUpload(upload.bucket, upload.key, upload.id))), "ok")
                upload.is_open = False
            for bypass in (False, True):
                self._delete_everything(bypass)
            self._pass(101 * 366 * DAY)  # Now only legal holds lock anything.
            self._delete_everything(bypass=False)
            self.agree()
        finally:
            self.store.close()
            self.loop.close()
            self.segments.stop()
            self.small_parts.stop()
            shutil.rmtree(self.folder)

    def _do(self, call: Coroutine[Any, Any, Any]) -> Any:
        """Return the core's answer, or the name of its refusal."""
        try:
            return self.loop.run_until_complete(call)
        except Locked:
            return "Locked"
        except Refusal as refusal:
            return type(refusal).__name__

    def _agreed(self, answer: Any, expected: str) -> None:
        assert (answer if isinstance(answer, str) else "ok") == expected

    def _pick(self, bucket: str, number: int | None) -> Made | None:
        """Pick a version: mostly a stored one, sometimes one that may have been deleted."""
        made = self.model.buckets[bucket].versions if number and number % 5 else []
        made = made or [each for name, each in self.made if name == bucket]
        return None if number is None or not made else made[number % len(made)]

    def _retention(self, wanted: tuple[Mode, int] | None) -> tuple[VersionRetention | None, tuple[str, int] | None]:
        """Return the same retention for the store and for the model. `wanted`: mode, and seconds from now."""
        if wanted is None:
            return None, None
        until = self.model.now + wanted[1]
        return VersionRetention(wanted[0], until * 1000), (wanted[0].value, until)

    def _remember(self, name: str, stored: Any, made: Made | None) -> None:
        if made is not None:
            made.version_id = "null" if made.is_null else stored.version_id
            self.made.append((name, made))

    @rule(bucket=buckets, key=keys, content=st.binary(max_size=20), repeat=st.sampled_from([0, 1, 100]),
          wanted=retentions, hold=holds)  # fmt: skip
    def put(
        self, bucket: str, key: str, content: bytes, repeat: int, wanted: tuple[Mode, int] | None, hold: bool | None
    ) -> None:
        retention, (mode, until) = self._retention(wanted)[0], self._retention(wanted)[1] or (None, None)
        made = Made(key, content * repeat, self.model.buckets[bucket].versioning != "Enabled", mode, until, hold)
        expected = self.model.put(bucket, made)
        answer = self._do(self.store.put(put(key, content * repeat, VersionLock(retention, hold), bucket)))
        self._agreed(answer, expected)
        if expected == "ok":
            self._remember(bucket, answer, made)

    @rule(bucket=buckets, key=keys, number=st.integers(0, 30), wanted=retentions, hold=holds, start=st.integers(0, 5))
    def copy(
        self, bucket: str, key: str, number: int, wanted: tuple[Mode, int] | None, hold: bool | None, start: int
    ) -> None:
        """Copy a stored version from an offset on. The lock of the source is not copied."""
        here = [(name, each) for name in (LOCKED, PLAIN) for each in self.model.buckets[name].versions if each.content]
        if not here:
            return
        name, source = here[number % len(here)]
        version = self.store.queries.by_id(self.store.bucket(name), source.key, source.version_id)
        assert version is not None
        assert source.content is not None
        content = source.content[start:]
        copied = self._do(
            copy_content(self.store, version, version.size - len(content), len(content), "crc32", bucket, key)
        )
        retention, (mode, until) = self._retention(wanted)[0], self._retention(wanted)[1] or (None, None)
        made = Made(key, content, self.model.buckets[bucket].versioning != "Enabled", mode, until, hold)
        expected = self.model.put(bucket, made)
        answer = self._do(self.store.put(PutVersion(
            bucket, key, copied.content, copied.size, copied.block_crcs, copied.etag, lock=VersionLock(retention, hold)
        )))  # fmt: skip
        self._agreed(answer, expected)
        if expected == "ok":
            self._remember(bucket, answer, made)

    @rule(bucket=buckets, key=keys, wanted=retentions, hold=holds)
    def begin_upload(self, bucket: str, key: str, wanted: tuple[Mode, int] | None, hold: bool | None) -> None:
        retention, (mode, until) = self._retention(wanted)[0], self._retention(wanted)[1] or (None, None)
        upload = Upload(0, bucket, key, mode, until, hold)
        answer = self._do(self.store.change(BeginUpload(bucket, key, lock=VersionLock(retention, hold))))
        refusal = self.model.refuses_lock(bucket, upload)
        self._agreed(answer, refusal or "ok")
        if refusal is None:
            upload.id = answer
            self.model.uploads.append(upload)

    def _upload(self, number: int) -> Upload | None:
        """Pick an upload: mostly an open one, sometimes one that ended."""
        uploads = [each for each in self.model.uploads if each.is_open] if number % 4 else []
        uploads = uploads or self.model.uploads
        return uploads[number % len(uploads)] if uploads else None

    @rule(number=st.integers(0, 30), part_number=st.integers(1, 3), content=st.binary(max_size=9),
          repeat=st.sampled_from([1, 100]))  # fmt: skip
    def put_part(self, number: int, part_number: int, content: bytes, repeat: int) -> None:
        upload = self._upload(number)
        if upload is None:
            return
        sent = part(upload.id, part_number, content * repeat, upload.key, upload.bucket)
        self._agreed(self._do(self.store.put_part(sent)), "ok" if upload.is_open else "NoSuchUpload")
        if upload.is_open:
            upload.parts[part_number] = content * repeat

    @rule(number=st.integers(0, 30), numbers=st.lists(st.integers(1, 3), min_size=1, max_size=3), sort=st.booleans())
    def complete(self, number: int, numbers: list[int], sort: bool) -> None:
        """Complete mostly with uploaded parts in order, sometimes with unknown parts or in a wrong order."""
        upload = self._upload(number)
        if upload is None:
            return
        if sort:
            numbers = sorted(set(numbers) & upload.parts.keys() or upload.parts.keys() or {1})
        said = [Listed(each, listed([upload.parts.get(each, b"none")])[0].etag, {}) for each in numbers]
        was_open = upload.is_open
        answer = self._do(self.store.change(CompleteUpload(upload.bucket, upload.key, upload.id, said)))
        self._agreed(answer, self.model.complete(upload, numbers))
        if was_open and upload.made is not None:
            self._remember(upload.bucket, answer.stored, upload.made)

    @rule(number=st.integers(0, 30))
    def abort(self, number: int) -> None:
        upload = self._upload(number)
        if upload is not None:
            answer = self._do(self.store.change(AbortUpload(upload.bucket, upload.key, upload.id)))
            self._agreed(answer, "ok" if upload.is_open else "NoSuchUpload")
            upload.is_open = False

    @rule(bucket=buckets, key=keys)
    def delete_by_key(self, bucket: str, key: str) -> None:
        answer = self._do(self.store.change(Delete(bucket, key, None, bypass=False)))
        self._agreed(answer, self.model.put_marker(bucket, key))
        if self.model.buckets[bucket].versioning != "Off":
            self._remember(bucket, answer, self.model.buckets[bucket].newest(key))

    @rule(bucket=buckets, number=st.integers(0, 30), bypass=st.booleans())
    def delete_version(self, bucket: str, number: int, bypass: bool) -> None:
        version = self._pick(bucket, number)
        # Each new null version takes over the id "null". Any other id names one version forever.
        if version is not None and (not version.is_null or version in self.model.buckets[bucket].versions):
            self._delete(bucket, version, bypass)

    def _delete(self, bucket: str, version: Made, bypass: bool) -> None:
        answer = self._do(self.store.change(Delete(bucket, version.key, version.version_id, bypass)))
        self._agreed(answer, self.model.delete(bucket, version, bypass))

    def _delete_everything(self, bypass: bool) -> None:
        for name, bucket in self.model.buckets.items():
            for version in list(bucket.versions):
                self._delete(name, version, bypass)

    @rule(bucket=buckets, key=keys, number=which, wanted=retentions, bypass=st.booleans())
    def set_retention(
        self, bucket: str, key: str, number: int | None, wanted: tuple[Mode, int] | None, bypass: bool
    ) -> None:
        """Add, extend, shorten or remove a retention, or change its mode."""
        version = self._pick(bucket, number)
        if version is not None and version.is_null and version not in self.model.buckets[bucket].versions:
            return
        retention, plain = self._retention(wanted)
        named: tuple[str, str | None] = (version.key, version.version_id) if version else (key, None)
        answer = self._do(self.store.change(SetRetention(bucket, *named, retention, bypass)))
        target = self.model.target(bucket, key, version)
        self._agreed(answer, target if isinstance(target, str) else self.model.set_retention(target, plain, bypass))

    @rule(bucket=buckets, key=keys, number=which, on=st.booleans())
    def set_hold(self, bucket: str, key: str, number: int | None, on: bool) -> None:
        version = self._pick(bucket, number)
        if version is not None and version.is_null and version not in self.model.buckets[bucket].versions:
            return
        named: tuple[str, str | None] = (version.key, version.version_id) if version else (key, None)
        answer = self._do(self.store.change(SetLegalHold(bucket, *named, on)))
        target = self.model.target(bucket, key, version)
        if isinstance(target, Made):
            target.hold = on
        self._agreed(answer, target if isinstance(target, str) else "ok")

    def _may_delete(self, version: VersionRow, bypass: bool) -> bool:
        try:
            locks.check_delete(version.lock, self.store.clock.now_ms(), bypass=bypass)
        except Locked:
            return False
        return True

    @rule(bucket=buckets, default=st.none() | st.tuples(modes, st.integers(1, 3)))
    def set_default(self, bucket: str, default: tuple[Mode, int] | None) -> None:
        """Set the default retention, which also enables Object Lock."""
        stored = None if default is None else DefaultRetention(default[0], Period(days=default[1]))
        answer = self._do(self.store.change(SetLockConfiguration(bucket, stored)))
        there = self.model.buckets[bucket]
        if there.versioning != "Enabled":
            self._agreed(answer, "WrongBucketState")
            return
        self._agreed(answer, "ok")
        there.object_lock, there.default = True, None if default is None else (default[0].value, default[1])

    @rule(bucket=buckets, versioning=st.sampled_from(["Enabled", "Suspended"]))
    def set_versioning(self, bucket: str, versioning: str) -> None:
        answer = self._do(self.store.change(SetVersioning(bucket, versioning)))
        there = self.model.buckets[bucket]
        if there.object_lock and versioning == "Suspended":
            self._agreed(answer, "WrongBucketState")
            return
        self._agreed(answer, "ok")
        there.versioning = versioning

    @rule(passed=st.sampled_from([1, 2, 3, 60, DAY]))
    def time_passes(self, passed: int) -> None:
        self._pass(passed)

    def _pass(self, passed: int) -> None:
        self.elapsed += passed
        self.wall += passed
        self.model.now += passed

    @rule(by=st.integers(-10 * DAY, 10 * DAY))
    def somebody_sets_the_hosts_clock(self, by: int) -> None:
        self.wall += by

    @rule()
    def restart(self) -> None:
        """After a restart, a host clock that was set forward takes effect. One that was set back never does."""
        self._do(self.store.change(Delete(LOCKED, "none", "0" * 32, bypass=False)))  # commits the time it is
        self.store.close()
        self._open()
        self.model.now = max(self.model.now, self.wall)

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "store"):
            return
        assert self.store.clock.now_ms() == self.model.now * 1000
        for upload in self.model.uploads:
            alive = upload.is_open or upload.made in self.model.buckets[upload.bucket].versions
            stored_parts = self.store.queries.uploads.parts(upload.id)
            assert [(each.number, each.size) for each in stored_parts] == (
                sorted((number, len(content)) for number, content in upload.parts.items()) if alive else []
            )
            assert (self.store.queries.uploads.find(upload.id) is not None) is upload.is_open
        for name, bucket in self.model.buckets.items():
            newest_first = bucket.versions[::-1]
            newest_first.sort(key=lambda each: each.key.encode())
            queries, stored = self.store.queries, self.store.bucket(name)
            page = pages.list_versions(queries, stored, "", "", "", "", 1000)
            assert [
                (each.key, queries.version_id(each), each.mode, each.until_ms, each.legal_hold, bool(each.is_marker))
                for each in page.versions
            ] == [
                (
                    each.key,
                    each.version_id,
                    each.mode,
                    each.until and each.until * 1000,
                    each.hold,
                    each.content is None,
                )
                for each in newest_first
            ]
            assert page.latest == [bucket.newest(each.key) is each for each in newest_first]
            current = [each for each in newest_first if bucket.newest(each.key) is each and each.content is not None]
            listed = pages.list_objects(queries, stored, "", "", "", 1000)
            assert [queries.version_id(each) for each in listed.versions] == [each.version_id for each in current]
            for version, made in zip(page.versions, newest_first, strict=True):
                for bypass in (False, True):
                    assert self._may_delete(version, bypass) is not self.model.refuses_delete(made, bypass)
                if made.content is not None:
                    read = self._do(self.store.read(version, 0, version.size)) if version.size else b""
                    assert bytes(read) == made.content


StoreAndModel.TestCase.settings = settings(max_examples=share_of(100), stateful_step_count=50)
TestStoreAndModel = StoreAndModel.TestCase
