"""Short calls of the store's core for tests, and a disk whose free space the test sets."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from backends.embedded.core.changes.objects import ChangeGroup, PutVersion
from backends.embedded.core.files.digests import Digests
from backends.embedded.core.rules.locks import VersionLock
from backends.embedded.core.store import Store

PLENTY = 1 << 40


class Disk:
    """A disk whose free space the test sets."""

    free = PLENTY


@dataclass(frozen=True, slots=True)
class CopyFolder:
    """A change that copies the store's folder. Nothing else writes there while the store's writer applies it."""

    folder: Path
    copy: Path

    def apply(self, group: ChangeGroup) -> None:
        # The log's index (-shm) is locked. SQLite rebuilds it.
        shutil.copytree(self.folder, self.copy, ignore=shutil.ignore_patterns("*-shm"))


def put(key: str, content: bytes = b"content", lock: VersionLock | None = None, bucket: str = "b") -> PutVersion:
    digests = Digests()
    digests.update(content)
    return PutVersion(
        bucket, key, [content], len(content), digests.block_crcs(), digests.md5().hex(), lock=lock or VersionLock()
    )


async def content_of(store: Store, key: str) -> bytes:
    version = store.queries.object(store.bucket("b"), key, None)
    return bytes(await store.read(version, 0, version.size))
