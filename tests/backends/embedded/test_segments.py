"""Records, blocks and their checksums: the binary formats of the store."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from awscrt import checksums
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import Damaged
from backends.embedded.core.files import digests
from backends.embedded.core.files import segments as segments_module
from backends.embedded.core.files.digests import BLOCK_BYTES, Digests, first_damaged_block
from backends.embedded.core.files.segments import RecordHeader, SegmentFile, Segments, block_span
from backends.embedded.core.files.written import Written

numbers = st.integers(0, (1 << 64) - 1)


@given(
    st.binary(max_size=40),
    st.binary(max_size=40),
    numbers,
    numbers,
    numbers,
    st.integers(0, (1 << 32) - 1),
    st.binary(max_size=30),
)
def test_header_reads_back_and_ignores_trailing_bytes(
    bucket: bytes, key: bytes, sequence: int, commit: int, size: int, crc: int, trailing: bytes
) -> None:
    header = RecordHeader(bucket, key, sequence, commit, size, crc)
    encoded = header.encode()
    assert len(encoded) == RecordHeader.length(len(bucket) + len(key)) == header.header_bytes
    assert RecordHeader.decode(encoded + trailing) == header


def test_changed_or_truncated_header_decodes_to_none() -> None:
    encoded = RecordHeader(b"bucket", b"key", 1, 2, 3, 4).encode()
    for position in range(len(encoded)):
        assert RecordHeader.decode(encoded[:position]) is None
        changed = bytearray(encoded)
        changed[position] ^= 0x40
        assert RecordHeader.decode(bytes(changed)) is None


@given(st.lists(st.binary(max_size=70), max_size=20))
def test_digests_do_not_depend_on_how_the_bytes_arrive(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    fed = Digests(tuple(digests.CHECKSUM_KINDS))
    for piece in pieces:
        fed.update(piece)
    assert fed.size_bytes == len(whole)
    assert fed.md5() == hashlib.md5(whole).digest()
    assert fed.of_kind("sha256") == hashlib.sha256(whole).digest()
    assert fed.of_kind("crc32c") == checksums.crc32c(whole).to_bytes(4, "big")
    assert first_damaged_block(whole, fed.block_crcs(), 0) is None


@pytest.mark.parametrize("size", [2047, 2048, 8192, 64 << 10, (64 << 10) + 1])
def test_digests_cover_all_small_and_large_pieces(size: int) -> None:
    data = os.urandom(size)
    fed = Digests(tuple(digests.CHECKSUM_KINDS))
    fed.update(data)
    fed.update(data[:3000])
    whole = data + data[:3000]
    assert fed.size_bytes == len(whole)
    assert fed.md5() == hashlib.md5(whole).digest()
    assert fed.of_kind("sha256") == hashlib.sha256(whole).digest()
    assert fed.of_kind("crc32c") == checksums.crc32c(whole).to_bytes(4, "big")


@pytest.mark.parametrize("size", [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1, 3 * BLOCK_BYTES + 5])
@pytest.mark.parametrize("piece_bytes", [700_001, 1 << 20, 5 << 20])
def test_every_block_has_its_own_crc(size: int, piece_bytes: int) -> None:
    data = os.urandom(size)
    fed = Digests()
    for start in range(0, size, piece_bytes):
        fed.update(data[start : start + piece_bytes])
    assert fed.of_kind("crc32c") == checksums.crc32c(data).to_bytes(4, "big")
    crcs = fed.block_crcs()
    assert len(crcs) == 4 * -(-size // BLOCK_BYTES)
    for start in range(0, size, BLOCK_BYTES):
        number = start // BLOCK_BYTES
        damaged = bytearray(data)
        damaged[start] ^= 1
        assert first_damaged_block(damaged, crcs, 0) == number
        assert first_damaged_block(data[start:], crcs, number) is None


@pytest.mark.parametrize(
    ("start", "length", "size", "span"),
    [
        (0, 10, 10, (0, 10)),
        (5, 1, 10, (0, 10)),
        (BLOCK_BYTES - 1, 2, 3 * BLOCK_BYTES, (0, 2 * BLOCK_BYTES)),
        (BLOCK_BYTES, BLOCK_BYTES, 3 * BLOCK_BYTES, (BLOCK_BYTES, 2 * BLOCK_BYTES)),
        (2 * BLOCK_BYTES + 7, 1, 2 * BLOCK_BYTES + 9, (2 * BLOCK_BYTES, 2 * BLOCK_BYTES + 9)),
    ],
)
def test_a_range_reads_the_whole_blocks_that_it_touches(
    start: int, length: int, size: int, span: tuple[int, int]
) -> None:
    assert block_span(start, length, size) == span


def test_partial_write_continues_where_the_system_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_write = os.pwritev

    def seven_bytes_at_most(descriptor: int, buffers: list[bytes], offset: int) -> int:
        first = bytes(buffers[0])[:7] or bytes(buffers[1])[:7]
        return system_write(descriptor, [first], offset)

    monkeypatch.setattr(os, "pwritev", seven_bytes_at_most)
    file = SegmentFile(tmp_path / "segment", os.O_RDWR | os.O_CREAT, Written())
    assert file.write([b"0123456789", b"", b"abcdefghij" * 3], 3) == 43
    assert (tmp_path / "segment").read_bytes()[3:] == b"0123456789" + b"abcdefghij" * 3


def test_large_write_is_split_by_number_of_buffers_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system_write = os.pwritev
    calls: list[tuple[int, int]] = []

    def counted(descriptor: int, buffers: list[bytes], offset: int) -> int:
        calls.append((len(buffers), sum(map(len, buffers))))
        return system_write(descriptor, buffers, offset)

    monkeypatch.setattr(os, "pwritev", counted)
    file = SegmentFile(tmp_path / "segment", os.O_RDWR | os.O_CREAT, Written())
    buffers = [os.urandom(size) for size in (*[700_000] * 10, *[1] * 2500, 3 << 20, 5)]
    assert file.write(buffers, 9) == 9 + sum(map(len, buffers))
    assert (tmp_path / "segment").read_bytes()[9:] == b"".join(buffers)
    assert max(count for count, _ in calls) <= 1000
    assert max(size for count, size in calls if count > 1) <= 2 << 20
    assert file.write([], 0) == 0


def test_read_past_the_end_of_a_segment_raises_damaged(tmp_path: Path) -> None:
    segments = Segments(tmp_path / "segments")
    number, file = segments.create()
    file.write([b"short"], 0)
    with pytest.raises(Damaged, match=r"00000001\.seg ends at byte 5"):
        segments.file(number).read(bytearray(10), 0)


def test_open_reader_can_read_a_deleted_segment(tmp_path: Path) -> None:
    segments = Segments(tmp_path / "segments")
    number, file = segments.create()
    file.write([b"content"], 0)
    reader = segments.file(number)
    segments.remove(number)
    buffer = bytearray(7)
    reader.read(buffer, 0)
    assert buffer == b"content"
    with pytest.raises(Damaged, match="cannot be opened"):
        segments.file(number)


def test_segment_deleted_during_its_open_is_not_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = Segments(tmp_path / "segments")
    number, file = segments.create()
    file.write([b"content"], 0)
    system_open = os.open

    def deleted_by_the_writer_meanwhile(*arguments: Any) -> int:
        descriptor = system_open(*arguments)
        segments.remove(number)
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", deleted_by_the_writer_meanwhile)
        reader = segments.file(number)
    buffer = bytearray(7)
    reader.read(buffer, 0)
    assert buffer == b"content"
    with pytest.raises(Damaged, match="cannot be opened"):  # It is not open for the next reader.
        segments.file(number)


def test_segment_can_be_removed_while_another_thread_opens_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    segments = Segments(tmp_path / "segments")
    for _ in range(3):
        segments.create()
    monkeypatch.setattr(segments_module, "OPEN_FILES_MAX", 2)
    remover = threading.Thread(target=segments.remove, args=(1,))

    class SwitchesThreads(dict[int, SegmentFile]):
        def __iter__(self) -> Iterator[int]:
            iterator = super().__iter__()
            if remover.ident is None:
                remover.start()
                remover.join(0.1)  # not longer: it may have to wait for this thread
            return iterator

    segments.file(1), segments.file(2)
    segments._open = SwitchesThreads(segments._open)
    assert segments.file(3).path == segments.path(3)
    remover.join()
    assert set(segments._open) == {2, 3}
