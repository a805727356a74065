"""Checksums continued from the state of a window equal those that other libraries compute of the whole object."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import pytest
from awscrt import checksums as crt
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.content import LAST_BLOCK_BYTES, WINDOWS, Content
from backends.s3.wire.checksums import HEADER, WindowChecksums

SIZE_MAX = 5000
CONTENT = Content("20261121-run", 7, SIZE_MAX)
PLAIN: dict[str, Callable[[bytes], bytes]] = {
    "crc32c": lambda data: crt.crc32c(data).to_bytes(4, "big"),
    "crc64nvme": lambda data: crt.crc64nvme(data).to_bytes(8, "big"),
    "md5": lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
    "sha256": lambda data: hashlib.sha256(data).digest(),
}


@pytest.mark.parametrize("algorithm", PLAIN)
@given(
    number=st.integers(0, 10**12 - 1),
    size_bytes=st.one_of(st.integers(1, 2 * LAST_BLOCK_BYTES), st.integers(1, SIZE_MAX)),
)
def test_a_continued_checksum_is_that_of_the_whole_object(algorithm: str, number: int, size_bytes: int) -> None:
    whole = CONTENT.whole(number, size_bytes)
    assert len(whole) == size_bytes
    checksums = WindowChecksums(algorithm, CONTENT, size_bytes)
    last_block = CONTENT.last_block(number, size_bytes)
    expected = PLAIN[algorithm](whole)
    assert checksums.base64(number, last_block) == base64.b64encode(expected)
    assert checksums.hex(number, last_block) == expected.hex().encode()


@pytest.mark.parametrize("algorithm", PLAIN)
@given(number=st.integers(0, 10**12 - 1), size_bytes=st.integers(1, 300), data=st.data())
def test_range_checksum_equals_the_checksum_of_its_bytes(
    algorithm: str, number: int, size_bytes: int, data: st.DataObject
) -> None:
    offset = data.draw(st.integers(0, size_bytes - 1))
    length = data.draw(st.integers(1, size_bytes - offset))
    window_bytes = max(0, size_bytes - LAST_BLOCK_BYTES)
    last_block = CONTENT.last_block(number, size_bytes)
    of_block = last_block[max(0, offset - window_bytes) : max(0, offset + length - window_bytes)]
    checksums = WindowChecksums(algorithm, CONTENT, size_bytes, (offset, length))
    expected = PLAIN[algorithm](CONTENT.whole(number, size_bytes)[offset : offset + length])
    assert checksums.base64(number, of_block) == base64.b64encode(expected)


@pytest.mark.parametrize("algorithm", PLAIN)
def test_checksums_of_large_objects_are_computed_on_first_use(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backends.s3.wire.checksums.EAGER_BYTES_MAX", 199)
    checksums = WindowChecksums(algorithm, CONTENT, 200)
    for number in (3, 3 + WINDOWS, 3):
        value = checksums.hex(number, CONTENT.last_block(number, 200))
        assert value == PLAIN[algorithm](CONTENT.whole(number, 200)).hex().encode()


@pytest.mark.parametrize("algorithm", PLAIN)
def test_checksums_of_successive_objects_are_independent(algorithm: str) -> None:
    checksums = WindowChecksums(algorithm, CONTENT, 200)
    numbers = [*range(WINDOWS + 3), 0, 5, 5]
    values = [checksums.hex(number, CONTENT.last_block(number, 200)) for number in numbers]
    assert values == [PLAIN[algorithm](CONTENT.whole(number, 200)).hex().encode() for number in numbers]
    assert values[5] == values[-1] == values[-2]
    assert values[0] != values[WINDOWS]  # the same window, another last block


# The catalogues of CRC algorithms and RFC 1321 / FIPS 180-4 give these for the nine bytes "123456789".
@pytest.mark.parametrize(
    ("algorithm", "value"),
    [
        ("crc32c", "e3069283"),
        ("crc64nvme", "ae8b14860a799888"),
        ("md5", "25f9e794323b453885f5181f1b624d0b"),
        ("sha256", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
    ],
)
def test_checksums_equal_the_published_check_values(algorithm: str, value: str) -> None:
    assert WindowChecksums(algorithm, CONTENT, 9).hex(1, b"123456789") == value.encode()


def test_checksum_headers_have_the_names_s3_expects() -> None:
    assert HEADER == {"crc32c": "x-amz-checksum-crc32c", "crc64nvme": "x-amz-checksum-crc64nvme", "md5": "content-md5"}
