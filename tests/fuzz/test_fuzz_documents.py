"""Damaged small inputs: prices, size histograms, metrics pages and names files, password files, server addresses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.errors import UsageError
from archiver.watch.prometheus import builtin, read_names
from backends.exposition import MetricsAddress, ScrapeError
from backends.tsm.library.configuration import parse_server, read_password
from results.planning.size_histogram import read_size_histogram
from results.prices.prices import Demand, bill, read_prices
from tests.fuzz.hostile import damaged, damaged_text, tried, tries

PRICES = """currency = "USD"
[[part]]
item = "storage node"
quantity = 3
list_price = 9000
support_years = 3
support_price_per_year = 900
[cloud]
per_gb_month = 0.02
egress_per_gb = 0.09
per_1000_requests = { put = 0.005, get = 0.0004, head = 0.0004 }
"""
SIZES = '[[size]]\nsize = "8KiB"\nshare = "25%"\n[[size]]\nsize = "1MiB"\nshare = 0.75\n'
CSV = "size,share\n8KiB,0.25\n1MiB,75%\n"
DEEP = f"a = {'[' * 5000}{']' * 5000}\n"
LONG = f"quantity = {'9' * 5000}\n"


def prices(path: Path) -> None:
    bill(read_prices(path), Demand(years=5, platforms=2, gb_months=1e6, requests={"put": 1e9}, egress_gb=5))


READERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "prices.toml": (prices, PRICES),
    "sizes.toml": (read_size_histogram, SIZES),
    "sizes.csv": (read_size_histogram, CSV),
    "names.toml": (read_names, builtin("embedded").read_text()),
}


@pytest.mark.parametrize("name", READERS)
def test_damaged_file_is_read_or_refused_with_its_path(name: str, tmp_path: Path) -> None:
    read, text = READERS[name]
    path = tmp_path / name

    @tries(40)
    @given(
        (damaged_text(text) | st.sampled_from([DEEP, LONG, text + LONG])).map(
            lambda each: each.encode(errors="replace")
        )
        | damaged(text.encode())
    )
    def check(data: bytes) -> None:
        path.write_bytes(data)
        _, words = tried(UsageError, read, path)
        assert not words or words.startswith(str(path))

    check()


PAGE = b"""# HELP reads Reads
# TYPE reads counter
reads{disk="a",path="C:\\\\x\\"y"} 3 1700000000000
reads{disk="b"} 4.5e3
# TYPE wait histogram
wait_bucket{le="+Inf"} 2
writes NaN
"""


class Page(MetricsAddress):
    """A metrics page with given bytes."""

    content = b""

    def _page(self) -> bytes:
        return self.content


@tries(60)
@given(damaged(PAGE) | st.binary(max_size=60))
def test_damaged_page_gives_series_or_short_error_with_url(data: bytes) -> None:
    page = Page("http://127.0.0.1:9/metrics")
    page.content = data
    found, words = tried(ScrapeError, page.scrape, ["reads", "wait_bucket", "writes"])
    if words:
        assert words.startswith(page.url)
        assert len(words) < 300
    else:
        assert set(found) <= {"reads", "wait_bucket", "writes"}
        assert all(isinstance(value, float) for series in found.values() for _, value in series)


@tries(60)
@given(st.text(max_size=40) | st.sampled_from(["host:1500", "[::1]:1500", "ONE"]).flatmap(damaged_text).map(str.rstrip))
def test_tsm_server_is_parsed_to_host_and_port_or_refused(server: str) -> None:
    found, _ = tried(UsageError, parse_server, server)
    assert found is None or (found[0] and 0 < found[1] < 65536)


def test_password_file_gives_one_line_or_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.touch(mode=0o600)

    @tries(60)
    @given(damaged(b"a password\nmore\n") | st.binary(max_size=100))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        password, words = tried(UsageError, read_password, path)
        if words:
            assert str(path) in words
            return
        assert 0 < len(password.encode()) <= 64
        assert "\n" not in password

    check()
