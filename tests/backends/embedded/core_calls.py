"""Short calls of the store's core for tests, and a disk whose free space the test sets."""

from __future__ import annotations

from backends.embedded.core.changes.objects import PutVersion
from backends.embedded.core.files.digests import Digests
from backends.embedded.core.rules.locks import VersionLock
from backends.embedded.core.store import Store

PLENTY = 1 << 40


class Disk:
    """Free space as the test says it is."""

    free = PLENTY


def put(key: str, content: bytes = b"content", lock: VersionLock | None = None, bucket: str = "b") -> PutVersion:
    digests = Digests()
    digests.update(content)
    return PutVersion(
        bucket, key, [content], len(content), digests.block_crcs(), digests.md5().hex(), lock=lock or VersionLock()
    )


async def content_of(store: Store, key: str) -> bytes:
    version = store.queries.object(store.bucket("b"), key, None)
    return bytes(await store.read(version, 0, version.size))
