"""The long answers of the TSM door: queries and gets, as pieces of output one after another.

One idea: a stream is an async iterator of buffers. It knows the store and one session's node and owner; pace, stopping
and the end are the session's.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

from archiver.errors import Damaged, StoreError

from . import tsm_codes, tsm_frames
from .archives import FIND_AT_ONCE, Archive, after
from .digests import BLOCK_BYTES, Buffer
from .store import Store
from .tsm_frames import ArchiveQuery, Kind, Wanted

_ROWS_AT_ONCE = 100
_LOOK_AT_ONCE = 500
_SMALL_BYTES = 64 << 10  # objects up to here travel together
_TOGETHER_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom a stream is: `owner` empty sees all of the node's objects."""

    node: str
    owner: bytes


class StreamFailed(Exception):
    """The stream ends with a code of its own."""

    def __init__(self, code: int) -> None:
        self.code = code


async def archives(store: Store, caller: Caller, query: ArchiveQuery) -> AsyncIterator[Buffer]:
    """ARCHIVES frames. Raises StreamFailed with NO_MATCH where there is nothing."""
    space = store.spaces.get(query.space)
    if space is None or space.node != caller.node:
        raise StreamFailed(tsm_codes.NO_MATCH)
    classes = store.management_classes
    indexes = {number: index for index, number in enumerate(classes)}
    rows: list[bytes] = []
    found = False
    for looked_at, archive in enumerate(store.queries.archives.of_space(space.id, *_bounds(query.hl, query.ll)), 1):
        if not looked_at % _LOOK_AT_ONCE:
            await asyncio.sleep(0)  # others wait for this thread, too
        kept_by = classes[archive.class_id]
        if not _matches(query, archive, kept_by.expires_ms(archive.archived_ms, archive.event_ms), caller):
            continue
        found = True
        rows.append(tsm_frames.archive_row(archive, kept_by, indexes[archive.class_id]))
        if len(rows) >= _ROWS_AT_ONCE:
            yield tsm_frames.rows_frame(Kind.ARCHIVES, rows)
            rows = []
    if not found:
        raise StreamFailed(tsm_codes.NO_MATCH)
    if rows:
        yield tsm_frames.rows_frame(Kind.ARCHIVES, rows)


def _matches(query: ArchiveQuery, archive: Archive, expires_ms: int | None, caller: Caller) -> bool:
    expires = tsm_frames.NEVER_MS if expires_ms is None else expires_ms
    return (
        (query.type in (0xFE, 0xFF) or query.type == archive.type)
        and query.archived_from <= archive.archived_ms <= query.archived_to
        and query.expires_from <= expires <= query.expires_to
        and (not caller.owner or archive.owner == caller.owner)
        and (not query.owner or archive.owner == query.owner)
        and (not query.description or matches(query.description, archive.description))
        and matches(query.hl, archive.hl)
        and matches(query.ll, archive.ll)
    )


_patterns: dict[bytes, re.Pattern[bytes]] = {}


def matches(pattern: bytes, value: bytes) -> bool:
    """Whether `value` fits a pattern in which `*` is any bytes and `?` any one."""
    if pattern == value:
        return True
    if b"*" not in pattern and b"?" not in pattern:
        return False
    compiled = _patterns.get(pattern)
    if compiled is None:
        if len(_patterns) > 100:
            _patterns.clear()
        # What follows a star is taken where it first fits, for good: going back could only find less room for the
        # rest, and with many stars would take for ever.
        first, *others = (
            b"".join(b"." if part == b"?" else re.escape(part) for part in re.split(rb"(\?)", literal))
            for literal in re.split(rb"\*+", pattern)
        )
        middle = b"".join(b"(?>.*?" + each + b")" for each in others[:-1])
        last = b".*" + others[-1] if others else b""
        compiled = _patterns[pattern] = re.compile(first + middle + last, re.DOTALL)
    return compiled.fullmatch(value) is not None


def _bounds(hl: bytes, ll: bytes) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """Between which names everything lies that the patterns can match."""
    hl_start, ll_start = _literal_start(hl), _literal_start(ll)
    if hl_start != hl:
        return (hl_start, b""), (after(hl_start), b"")
    return (hl, ll_start), (hl, ll + b"\0" if ll_start == ll else after(ll_start))


def _literal_start(pattern: bytes) -> bytes:
    return re.split(rb"[*?]", pattern, maxsplit=1)[0]


async def spaces(store: Store, caller: Caller, pattern: bytes) -> AsyncIterator[Buffer]:
    """SPACES frames. Raises StreamFailed with NO_MATCH where there is nothing."""
    mine = (space for space in store.spaces.values() if space.node == caller.node and matches(pattern, space.name))
    found = sorted(mine, key=lambda space: space.name)
    if not found:
        raise StreamFailed(tsm_codes.NO_MATCH)
    for first in range(0, len(found), _ROWS_AT_ONCE):
        rows = [tsm_frames.space_row(space) for space in found[first : first + _ROWS_AT_ONCE]]
        yield tsm_frames.rows_frame(Kind.SPACES, rows)


async def objects(
    store: Store, caller: Caller, wanted: Sequence[Wanted], served: Callable[[int], None]
) -> AsyncIterator[Buffer]:
    """The objects of a GET, small ones together. `served` is told of each with the code of its answer."""
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
                code = tsm_codes.reason(failed) if isinstance(failed, Damaged) else tsm_codes.NO_MATCH
        served(code)
        together += (tsm_frames.object_head(index, code, len(content), len(content)), content)
        size += len(content) + 32
        if size >= _TOGETHER_BYTES:
            yield b"".join(together)
            together, size = [], 0
    if together:
        yield b"".join(together)


def _found(store: Store, caller: Caller, wanted: Sequence[Wanted]) -> Iterator[tuple[int, Wanted, Archive | None]]:
    """Each entry with its index and the object, where the caller may see one."""
    for first in range(0, len(wanted), FIND_AT_ONCE):
        part = wanted[first : first + FIND_AT_ONCE]
        found = store.queries.archives.find([entry.number for entry in part])
        for index, entry in enumerate(part, first):
            archive = found.get(entry.number)
            if archive is not None:
                space = store.spaces.get(archive.space)
                if space is None or space.node != caller.node or (caller.owner and archive.owner != caller.owner):
                    archive = None
            yield index, entry, archive


def _extent(entry: Wanted, archive: Archive | None) -> tuple[int, int]:
    """A code, and how many bytes from the offset on are meant."""
    if archive is None:
        return tsm_codes.NO_MATCH, 0
    if entry.offset > archive.size:
        return tsm_codes.INVALID_OFFSET, 0
    if entry.offset + entry.length > archive.size:
        return tsm_codes.INVALID_LENGTH, 0
    return 0, entry.length or archive.size - entry.offset


async def _large(
    store: Store, index: int, entry: Wanted, archive: Archive, length: int, served: Callable[[int], None]
) -> AsyncIterator[Buffer]:
    yield tsm_frames.object_head(index, 0, length)
    try:
        async for block in store.read_blocks(archive, entry.offset, length):
            assert len(block) <= BLOCK_BYTES
            yield tsm_frames.frame_header(Kind.OBJECT_DATA, len(block))
            yield block
        served(0)
    except StoreError as failed:
        code = tsm_codes.reason(failed) if isinstance(failed, Damaged) else tsm_codes.NO_MATCH
        served(code)
        yield tsm_frames.object_failed(code)
