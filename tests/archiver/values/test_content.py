"""Test object content: derived only from run id and seed, different for every object, and fully verified."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.content import (
    LAST_BLOCK_BYTES,
    VERSIONS_MAX,
    WINDOW_STRIDE_BYTES,
    WINDOWS,
    Content,
    ContentCheck,
    LengthCheck,
)

MAX_BYTES = 16 << 10
CONTENT = Content("run-1", 7, MAX_BYTES)
numbers = st.integers(0, 10**18 - 1)
sizes = st.integers(LAST_BLOCK_BYTES, MAX_BYTES)
any_sizes = st.integers(1, MAX_BYTES)


def accepts(pieces: list[bytes], number: int, size_bytes: int) -> bool:
    check = ContentCheck(CONTENT, number, size_bytes)
    for piece in pieces:
        check.feed(memoryview(piece))
    return check.finish()


@given(numbers, any_sizes)
def test_object_consists_of_a_window_of_the_pool_and_a_last_block(number: int, size_bytes: int) -> None:
    whole = CONTENT.whole(number, size_bytes)
    start = CONTENT.window_start(number)
    window_bytes = max(0, size_bytes - LAST_BLOCK_BYTES)
    assert len(whole) == size_bytes
    assert whole[:window_bytes] == CONTENT.window(number, size_bytes) == CONTENT.pool[start : start + window_bytes]
    assert whole[window_bytes:] == CONTENT.last_block(number, size_bytes)


def test_windows_are_right_beyond_the_cache_size() -> None:
    content, again = Content("run-1", 7, MAX_BYTES), Content("run-1", 7, MAX_BYTES)
    for size_bytes in range(1, 3001):
        assert (
            content.window(size_bytes, size_bytes)
            == again.pool[again.window_start(size_bytes) :][: max(0, size_bytes - LAST_BLOCK_BYTES)]
        )
    assert content.whole(2999, 2999) == Content("run-1", 7, MAX_BYTES).whole(2999, 2999)
    assert len(content._windows) <= 1024


def test_the_definition_of_content_never_changes() -> None:
    """Objects that were locked years ago are verified with this definition. A new definition needs a new name, not a
    new digest here."""
    whole = Content("golden", 7, 8 << 10).whole(12345, 8 << 10)
    assert hashlib.sha256(whole).hexdigest() == "26286fd8825de4bd4ae50a190042096e254124fb86dc63ab54a9a1e099ebfda9"
    assert whole[-LAST_BLOCK_BYTES:] == b"archiver golden                         v0001 000000000000012345"


versions = st.integers(1, VERSIONS_MAX)


def test_versions_differ_only_in_four_digits_of_the_last_block() -> None:
    first, later = (Content("golden", 7, 8 << 10).whole(12345, 8 << 10, version) for version in (1, 42))
    assert later[:-LAST_BLOCK_BYTES] == first[:-LAST_BLOCK_BYTES]
    assert later[-LAST_BLOCK_BYTES:] == b"archiver golden                         v0042 000000000000012345"


def test_version_number_is_limited_to_four_digits() -> None:
    assert len(CONTENT.last_block(1, 8192, VERSIONS_MAX)) == LAST_BLOCK_BYTES
    with pytest.raises(AssertionError, match="four digits"):
        CONTENT.last_block(1, 8192, VERSIONS_MAX + 1)


@given(numbers, st.integers(23, MAX_BYTES), versions, versions)
def test_version_content_is_accepted_only_for_that_version(number: int, size_bytes: int, one: int, other: int) -> None:
    check = ContentCheck(CONTENT, number, size_bytes, other)
    check.feed(CONTENT.whole(number, size_bytes, one))
    assert check.finish() == (one == other)


@given(numbers, any_sizes, versions)
def test_last_block_gives_object_number_and_version(number: int, size_bytes: int, version: int) -> None:
    whole = CONTENT.whole(number, size_bytes, version)
    assert CONTENT.named_in(whole[-LAST_BLOCK_BYTES:]) == ((number, version) if size_bytes >= 23 else None)


@given(st.binary(max_size=LAST_BLOCK_BYTES))
def test_other_bytes_give_no_object_number(end: bytes) -> None:
    assert CONTENT.named_in(end) is None
    assert Content("run-2", 7, 100).named_in(CONTENT.last_block(5, 100)) is None


def test_content_can_be_extended_to_a_larger_size() -> None:
    assert CONTENT.reaching(MAX_BYTES) is CONTENT
    farther = CONTENT.reaching(3 * MAX_BYTES)
    assert farther.whole(5, MAX_BYTES) == CONTENT.whole(5, MAX_BYTES)
    assert len(farther.whole(5, 3 * MAX_BYTES)) == 3 * MAX_BYTES


@given(numbers, any_sizes, versions, st.data())
def test_range_is_verified_in_any_pieces(number: int, size_bytes: int, version: int, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, size_bytes - 1))
    length = data.draw(st.integers(1, size_bytes - offset))
    part = CONTENT.whole(number, size_bytes, version)[offset : offset + length]
    cut = data.draw(st.integers(0, length))
    at = data.draw(st.integers(0, length - 1))
    flipped = part[:at] + bytes([part[at] ^ 1]) + part[at + 1 :]

    def accepted(*pieces: bytes) -> bool:
        check = ContentCheck(CONTENT, number, size_bytes, version, (offset, length))
        for piece in pieces:
            check.feed(memoryview(piece))
        return check.finish()

    assert accepted(part[:cut], part[cut:])
    assert not accepted(flipped)
    assert not accepted(part[:-1])
    assert not accepted(part, b"x")


@given(numbers, any_sizes, st.text("abcdef0123456789t-", min_size=1, max_size=30), st.integers(0, 2**62), sizes)
def test_content_depends_only_on_run_id_and_seed(
    number: int, size_bytes: int, run_id: str, seed: int, other_size_bytes: int
) -> None:
    first = Content(run_id, seed, MAX_BYTES)
    first.window(number, other_size_bytes)  # earlier content and the largest size have no effect
    again = Content(run_id, seed, size_bytes)
    assert first.whole(number, size_bytes) == again.whole(number, size_bytes)


@given(numbers, numbers, sizes)
def test_no_two_objects_of_a_run_are_equal(one: int, other: int, size_bytes: int) -> None:
    assert (CONTENT.whole(one, size_bytes) == CONTENT.whole(other, size_bytes)) == (one == other)


@pytest.mark.parametrize(("one", "other"), [(0, WINDOWS), (5, 5 + 7 * WINDOWS)])
def test_objects_with_the_same_window_differ_only_in_the_last_block(one: int, other: int) -> None:
    assert CONTENT.whole(one, 8192)[:-LAST_BLOCK_BYTES] == CONTENT.whole(other, 8192)[:-LAST_BLOCK_BYTES]
    assert CONTENT.last_block(one, 8192) != CONTENT.last_block(other, 8192)


def test_content_differs_between_runs_and_seeds() -> None:
    assert CONTENT.whole(1, 8192) != Content("run-2", 7, MAX_BYTES).whole(1, 8192)
    assert CONTENT.whole(1, 8192) != Content("run-1", 8, MAX_BYTES).whole(1, 8192)


def test_different_windows_share_no_aligned_512_byte_block() -> None:
    """Otherwise a platform that deduplicates aligned 512-byte blocks would store less than was archived."""
    assert WINDOW_STRIDE_BYTES % 2 == 1
    blocks = [
        CONTENT.whole(number, 4096)[at : at + 512] for number in range(WINDOWS) for at in range(0, 4096 - 512, 512)
    ]
    assert len(set(blocks)) == len(blocks)


@pytest.mark.parametrize("size_bytes", range(1, LAST_BLOCK_BYTES))
def test_object_smaller_than_the_last_block_is_its_tail(size_bytes: int) -> None:
    whole = CONTENT.whole(123456789, size_bytes)
    assert whole == CONTENT.last_block(123456789, LAST_BLOCK_BYTES)[-size_bytes:]
    assert accepts([whole], 123456789, size_bytes)
    assert not accepts([whole], 123456788, size_bytes)


@given(numbers, any_sizes, st.data())
def test_archived_bytes_are_accepted_in_any_pieces(number: int, size_bytes: int, data: st.DataObject) -> None:
    whole = CONTENT.whole(number, size_bytes)
    cuts = sorted(data.draw(st.lists(st.integers(0, size_bytes), max_size=8)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, size_bytes], strict=True)]
    assert accepts(pieces, number, size_bytes)


@pytest.mark.parametrize("size_bytes", [1, 63, 64, 65, 200, 4096])
def test_archived_bytes_are_accepted_byte_by_byte(size_bytes: int) -> None:
    whole = CONTENT.whole(99, size_bytes)
    assert accepts([whole[i : i + 1] for i in range(size_bytes)], 99, size_bytes)


@given(numbers, any_sizes, st.data())
def test_one_flipped_bit_anywhere_is_found(number: int, size_bytes: int, data: st.DataObject) -> None:
    damaged = bytearray(CONTENT.whole(number, size_bytes))
    damaged[data.draw(st.integers(0, size_bytes - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = data.draw(st.integers(0, size_bytes))
    assert not accepts([bytes(damaged[:cut]), bytes(damaged[cut:])], number, size_bytes)


@pytest.mark.parametrize("at", [0, 135, 136, 150, 198, 199])  # window, its last byte, last block, its last bytes
def test_flipped_byte_around_window_end_is_found(at: int) -> None:
    damaged = bytearray(CONTENT.whole(3, 200))
    damaged[at] ^= 0xFF
    assert not accepts([bytes(damaged)], 3, 200)


@given(numbers, any_sizes, st.data())
def test_a_missing_or_an_extra_byte_is_found(number: int, size_bytes: int, data: st.DataObject) -> None:
    whole = CONTENT.whole(number, size_bytes)
    cut = data.draw(st.integers(0, size_bytes - 1))
    assert not accepts([whole[:cut], whole[cut + 1 :]], number, size_bytes)
    assert not accepts([whole[:cut]], number, size_bytes)
    assert not accepts([whole, b"x"], number, size_bytes)
    assert not accepts([whole + CONTENT.pool[:1]], number, size_bytes)
    assert not accepts([whole[:cut], b"\0", whole[cut:]], number, size_bytes)


@given(numbers, numbers, any_sizes)
def test_another_objects_bytes_are_refused(asked: int, got: int, size_bytes: int) -> None:
    whole = CONTENT.whole(got, size_bytes)
    assert accepts([whole], asked, size_bytes) == (whole == CONTENT.whole(asked, size_bytes))


def test_empty_answer_is_not_accepted() -> None:
    assert not accepts([], 1, 8192)


@pytest.mark.parametrize(("pieces", "good"), [([b"abc", b"de"], True), ([b"abcd"], False), ([b"abc", b"def"], False)])
def test_only_the_length_is_checked_without_verification(pieces: list[bytes], good: bool) -> None:
    check = LengthCheck(5)
    for piece in pieces:
        check.feed(piece)
    assert check.finish() is good
