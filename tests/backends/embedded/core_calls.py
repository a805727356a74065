"""Calls of the store's core, short enough for tests, and a disk whose free space the test says."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from backends.embedded.changes import Group, Put
from backends.embedded.digests import Digests
from backends.embedded.rules import Lock
from backends.embedded.store import Store

PLENTY = 1 << 40


class Disk:
    """Free space as the test says it is."""

    free = PLENTY


@dataclass(frozen=True, slots=True)
class CopyFolder:
    """A change that copies the store's folder, which nothing else writes while the store's writer is at it."""

    folder: Path
    copy: Path

    def apply(self, group: Group) -> None:
        # The index of the log (-shm) is locked; SQLite makes it anew.
        shutil.copytree(self.folder, self.copy, ignore=shutil.ignore_patterns("*-shm"))


def put(key: str, content: bytes = b"content", lock: Lock | None = None, bucket: str = "b") -> Put:
    digests = Digests()
    digests.update(content)
    return Put(bucket, key, [content], len(content), digests.block_crcs(), digests.md5().hex(), lock=lock or Lock())


async def content_of(store: Store, key: str) -> bytes:
    version = store.queries.object(store.bucket("b"), key, None)
    return bytes(await store.read(version, 0, version.size))
