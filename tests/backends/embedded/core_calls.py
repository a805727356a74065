"""Calls of the store's core, short enough for tests, and a disk whose free space the test says."""

from __future__ import annotations

from backends.embedded.core.changes.objects import Put
from backends.embedded.core.files.digests import Digests
from backends.embedded.core.rules.locks import Lock
from backends.embedded.core.store import Store

PLENTY = 1 << 40


class Disk:
    """Free space as the test says it is."""

    free = PLENTY


def put(key: str, content: bytes = b"content", lock: Lock | None = None, bucket: str = "b") -> Put:
    digests = Digests()
    digests.update(content)
    return Put(bucket, key, [content], len(content), digests.block_crcs(), digests.md5().hex(), lock=lock or Lock())


async def content_of(store: Store, key: str) -> bytes:
    version = store.queries.object(store.bucket("b"), key, None)
    return bytes(await store.read(version, 0, version.size))
