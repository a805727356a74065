"""Size histograms of a load, read from files, and invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from archiver.values.errors import UsageError
from results.planning.size_histogram import read_size_histogram


def histogram_of(folder: Path, text: str, name: str = "sizes.csv") -> list[tuple[int, float]]:
    path = folder / name
    path.write_text(text)
    return read_size_histogram(path)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sizes.csv", "size,share\n1MiB,30%\n8KiB,70%\n"),
        ("sizes.csv", "\ufeffsize, share\r\n\r\n8KiB, 0.7\r\n1048576, 0.3\r\n"),
        ("sizes.toml", '[[size]]\nsize = "8KiB"\nshare = 0.7\n[[size]]\nsize = 1048576\nshare = "30%"\n'),
    ],
)
def test_sizes_are_sorted_with_their_shares(name: str, text: str, tmp_path: Path) -> None:
    sizes, shares = zip(*histogram_of(tmp_path, text, name), strict=True)
    assert sizes == (8192, 1 << 20)
    assert shares == pytest.approx((0.7, 0.3))


def test_rounded_shares_are_scaled_to_sum_to_one(tmp_path: Path) -> None:
    found = histogram_of(tmp_path, "size,share\n8KiB,33.3%\n16KiB,33.3%\n32KiB,33.3%\n")
    assert sum(share for _, share in found) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "first line must be size,share"),
        ("a.csv", "8KiB,1\n", "first line must be size,share"),
        ("a.csv", "size,share\n", "no sizes"),
        ("a.csv", "size,share\n8KiB,0.5\n", "the shares sum to 0.5, not to 1"),
        ("a.csv", "size,share\n8KiB,70\n16KiB,30\n", "line 2: 70 is not a share"),
        ("a.csv", "size,share\n8KiB,-1\n", "line 2: -1 is not a share"),
        ("a.csv", "size,share\n8KiB,nan\n", "line 2: nan is not a share"),
        ("a.csv", "size,share\n8KiB,half\n", "line 2: 'half' is not a share"),
        ("a.csv", "size,share\n8 parsecs,1\n", "line 2: '8 parsecs': unknown size unit"),
        ("a.csv", "size,share\n0,1\n", "line 2: an object of 0 bytes"),
        ("a.csv", "size,share\n8KiB,0.5\n8192,0.5\n", "line 3: size 8192 occurs twice"),
        ("a.csv", "size,share\n8KiB;1\n", "line 2: 1 fields"),
        ("a.toml", "[[size]", "not TOML"),
        ("a.toml", "size = 3", "the file may contain only [[size]] tables"),
        ("a.toml", 'color = "blue"', "the file may contain only [[size]] tables"),
        ("a.toml", '[[size]]\nsize = "8KiB"', "[[size]] 1: write size and share"),
    ],
)
def test_invalid_histogram_is_refused_with_file_and_place(name: str, text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        histogram_of(tmp_path, text, name)
    assert str(tmp_path / name) in str(refused.value)
    assert words in str(refused.value)


def test_size_histogram_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "sizes.csv"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        read_size_histogram(path)
