"""The long answers of the TSM server, to queries and gets, as streams of buffers.

One idea: a stream is an async iterator of buffers. It uses the store and one session's node and owner. The session
handles pace, stopping and the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing

from archiver.values.errors import Damaged, StoreError

from ..core.files.digests import BLOCK_BYTES, Buffer
from ..core.store import Store
from ..core.tables.archives import FIND_AT_ONCE, Archive
from . import codes, frames
from .access import Caller, Sight, may_read_any, own_rules, seen_spaces, sight
from .frames import ArchiveQuery, FrameKind, Wanted
from .patterns import bounds, matches

_ROWS_AT_ONCE = 100
_LOOK_AT_ONCE = 500
_SMALL_BYTES = 64 << 10  # objects up to this size share buffers
_TOGETHER_BYTES = 256 << 10


class StreamFailed(Exception):
    """The stream ends with this code."""

    def __init__(self, code: int) -> None:
        self.code = code


async def archives(store: Store, caller: Caller, query: ArchiveQuery) -> AsyncGenerator[Buffer, None]:
    """Yield ARCHIVES frames. Raises StreamFailed with NO_MATCH if nothing matches."""
    space = store.spaces.get(query.space)
    sees = None if space is None else sight(store, caller, space)
    if space is None or sees is None:
        raise StreamFailed(codes.NO_MATCH)
    classes = store.management_classes
    indexes = {number: index for index, number in enumerate(classes)}
    rows: list[bytes] = []
    found = False
    for looked_at, archive in enumerate(store.queries.archives.of_space(space.id, *bounds(query.hl, query.ll)), 1):
        if not looked_at % _LOOK_AT_ONCE:
            await asyncio.sleep(0)  # let other sessions run
        kept_by = classes[archive.class_id]
        if not _matches(query, archive, kept_by.expires_ms(archive.archived_ms, archive.event_ms), sees):
            continue
        found = True
        rows.append(frames.archive_row(archive, kept_by, indexes[archive.class_id]))
        if len(rows) >= _ROWS_AT_ONCE:
            yield frames.rows_frame(FrameKind.ARCHIVES, rows)
            rows = []
    if not found:
        raise StreamFailed(codes.NO_MATCH)
    if rows:
        yield frames.rows_frame(FrameKind.ARCHIVES, rows)


def _matches(query: ArchiveQuery, archive: Archive, expires_ms: int | None, sees: Sight) -> bool:
    expires = frames.NEVER_MS if expires_ms is None else expires_ms
    return (
        (query.type in (0xFE, 0xFF) or query.type == archive.type)
        and query.archived_from <= archive.archived_ms <= query.archived_to
        and query.expires_from <= expires <= query.expires_to
        and sees(archive)
        and (not query.owner or archive.owner == query.owner)
        and (not query.description or matches(query.description, archive.description))
        and matches(query.hl, archive.hl)
        and matches(query.ll, archive.ll)
    )


async def has_archives(store: Store, caller: Caller, space: int, hl: bytes, ll: bytes) -> bool:
    """Return whether the caller may see any object of a file space that matches the patterns."""
    anything = ArchiveQuery(space, 0xFF, 0, frames.NEVER_MS, 0, frames.NEVER_MS, hl, ll, b"", b"")
    async with aclosing(archives(store, caller, anything)) as found:
        try:
            await anext(found)
        except StreamFailed:
            return False
    return True


async def spaces(store: Store, caller: Caller, pattern: bytes) -> AsyncIterator[Buffer]:
    """Yield SPACES frames. Raises StreamFailed with NO_MATCH if nothing matches."""
    if not may_read_any(store, caller):
        raise StreamFailed(codes.NO_AUTHORIZATION)
    matching = (space for space in seen_spaces(store, caller) if matches(pattern, space.name))
    found = sorted(matching, key=lambda space: space.name)
    if not found:
        raise StreamFailed(codes.NO_MATCH)
    for first in range(0, len(found), _ROWS_AT_ONCE):
        rows = [frames.space_row(space) for space in found[first : first + _ROWS_AT_ONCE]]
        yield frames.rows_frame(FrameKind.SPACES, rows)


async def rules(store: Store, caller: Caller) -> AsyncIterator[Buffer]:
    """Yield RULES frames. Raises StreamFailed with NO_MATCH if there are no rules."""
    found = [(rule, store.spaces.get(rule.space)) for rule in own_rules(store, caller)]
    rows = [frames.rule_row(rule, space) for rule, space in found if space is not None]
    if not rows:
        raise StreamFailed(codes.NO_MATCH)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        yield frames.rows_frame(FrameKind.RULES, rows[first : first + _ROWS_AT_ONCE])


async def objects(
    store: Store, caller: Caller, wanted: Sequence[Wanted], served: Callable[[int], None]
) -> AsyncIterator[Buffer]:
    """Yield the objects of a GET; small ones share buffers. `served` gets the code of each object's answer."""
    together: list[Buffer] = []
    size = 0
    for index, entry, archive in _found(store, caller, wanted):
        code, length = _extent(entry, archive)
        if archive is not None and not code and length > _SMALL_BYTES:
            if together:
                yield b"".join(together)
                together, size = [], 0
            async for piece in _large(store, index, entry, archive, length, served):
                yield piece
            continue
        content: Buffer = b""
        if archive is not None and not code:
            try:
                content = await store.read(archive, entry.offset, length)
            except StoreError as failed:
                code = codes.reason(failed) if isinstance(failed, Damaged) else codes.NO_MATCH
        served(code)
        together += (frames.object_head(index, code, len(content), len(content)), content)
        size += len(content) + 32
        if size >= _TOGETHER_BYTES:
            yield b"".join(together)
            together, size = [], 0
    if together:
        yield b"".join(together)


def _found(store: Store, caller: Caller, wanted: Sequence[Wanted]) -> Iterator[tuple[int, Wanted, Archive | None]]:
    """Yield each entry with its index and the object; None if the caller may not see it or it does not exist."""
    for first in range(0, len(wanted), FIND_AT_ONCE):
        part = wanted[first : first + FIND_AT_ONCE]
        found = store.queries.archives.find([entry.number for entry in part])
        spaces = {archive.space: store.spaces.get(archive.space) for archive in found.values()}
        sights = {number: space and sight(store, caller, space) for number, space in spaces.items()}
        for index, entry in enumerate(part, first):
            archive = found.get(entry.number)
            if archive is not None:
                sees = sights[archive.space]
                if sees is None or not sees(archive):
                    archive = None
            yield index, entry, archive


def _extent(entry: Wanted, archive: Archive | None) -> tuple[int, int]:
    """Return a code (0: success) and how many bytes to send from the entry's offset."""
    if archive is None:
        return codes.NO_MATCH, 0
    if entry.offset > archive.size:
        return codes.INVALID_OFFSET, 0
    if entry.offset + entry.length > archive.size:
        return codes.INVALID_LENGTH, 0
    return 0, entry.length or archive.size - entry.offset


async def _large(
    store: Store, index: int, entry: Wanted, archive: Archive, length: int, served: Callable[[int], None]
) -> AsyncIterator[Buffer]:
    yield frames.object_head(index, 0, length)
    try:
        async for block in store.read_blocks(archive, entry.offset, length):
            assert len(block) <= BLOCK_BYTES
            yield frames.frame_header(FrameKind.OBJECT_DATA, len(block))
            yield block
        served(0)
    except StoreError as failed:
        code = codes.reason(failed) if isinstance(failed, Damaged) else codes.NO_MATCH
        served(code)
        yield frames.object_failed(code)
