"""Short calls of multipart uploads through the store's core, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from backends.embedded.core.changes.uploads import BeginUpload, Completed, CompleteUpload, Listed, PutPart
from backends.embedded.core.files.digests import Digests
from backends.embedded.core.rules.locks import VersionLock
from backends.embedded.core.store import Store


def part(upload: int, number: int, content: bytes, key: str = "k", bucket: str = "b") -> PutPart:
    digests = Digests()
    digests.update(content)
    return PutPart(bucket, key, upload, number, [content], len(content), digests.block_crcs(), digests.md5().hex())


def listed(pieces: Sequence[bytes]) -> list[Listed]:
    """Return the part list of these contents, numbered from 1."""
    return [Listed(number, hashlib.md5(piece).hexdigest(), {}) for number, piece in enumerate(pieces, 1)]


async def begun(store: Store, pieces: Sequence[bytes], key: str = "k", lock: VersionLock | None = None) -> int:
    """Start an upload and store these parts, without completing it."""
    upload = await store.change(BeginUpload("b", key, lock=lock or VersionLock()))
    for number, piece in enumerate(pieces, 1):
        await store.put_part(part(upload, number, piece, key))
    return upload


async def completed(store: Store, upload: int, pieces: Sequence[bytes], key: str = "k") -> Completed:
    return await store.change(CompleteUpload("b", key, upload, listed(pieces)))
