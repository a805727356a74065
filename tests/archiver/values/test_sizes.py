"""Test units of options: what is accepted, its value, and the message for invalid input."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.values.sizes import (
    format_bytes,
    format_clock_offset,
    format_duration,
    format_instant,
    format_size,
    parse_count,
    parse_duration,
    parse_instant,
    parse_rate,
    parse_size,
    parse_size_with_unit,
)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("8192", 8192),
        ("8192B", 8192),
        ("0", 0),
        ("8K", 8 * 1024),  # K without B is 1024, as in the DR550 paper
        ("8KiB", 8 * 1024),
        ("8KB", 8 * 1000),
        ("8kb", 8 * 1000),
        ("1M", 1 << 20),
        ("1MiB", 1 << 20),
        ("1MB", 10**6),
        ("1.5MiB", 3 << 19),
        ("1.001KB", 1001),  # exact, although no float is
        ("2GiB", 2 << 30),
        ("3G", 3 << 30),
        ("3GB", 3 * 10**9),
        ("1TiB", 1 << 40),
        ("1TB", 10**12),
        (" 64 KiB ", 64 << 10),
    ],
)
def test_size_is_parsed(text: str, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("", "a size such as 8KiB, 8KB or 8192"),
        ("KiB", "a size such as 8KiB, 8KB or 8192"),
        ("-8KiB", "a size such as 8KiB, 8KB or 8192"),
        ("8KiB 8KiB", "a size such as 8KiB, 8KB or 8192"),
        ("1e6", "a size such as 8KiB, 8KB or 8192"),
        ("8KX", "use B, KiB, MiB, GiB, KB, MB or GB"),
        ("8s", "use B, KiB, MiB, GiB, KB, MB or GB"),
        ("1.5", "not a whole number of bytes"),
        ("0.0001KiB", "not a whole number of bytes"),
    ],
)
def test_invalid_size_is_refused_with_remedy(text: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy) as refused:
        parse_size(text)
    assert repr(text) in str(refused.value)


def test_size_on_command_line_needs_a_unit_unless_it_is_zero() -> None:
    assert [parse_size_with_unit(text) for text in ("8KiB", "8 B", "0")] == [8192, 8, 0]
    with pytest.raises(ValueError, match="'8 ': a size needs a unit: write 8KiB or 8B"):
        parse_size_with_unit("8 ")


@given(st.integers(0, 1 << 80) | st.builds(lambda n, shift: n << shift, st.integers(0, 5000), st.integers(0, 40)))
def test_a_formatted_size_parses_back_to_the_same_number(size_bytes: int) -> None:
    assert parse_size(format_size(size_bytes)) == size_bytes


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0B"), (1000, "1000B"), (8192, "8KiB"), (1 << 20, "1MiB"), (3 << 19, "1536KiB"), (1 << 30, "1GiB")],
)
def test_size_is_formatted_in_the_largest_unit_that_divides_it(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (1.6e9, "1.6 GB"), (2.5e12, "2.5 TB")]
)
def test_byte_count_is_formatted_in_decimal_units(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("90s", 90), ("1.5s", 1.5), ("5m", 300), ("5min", 300), ("1h", 3600), ("7d", 604800),
     ("2y", 2 * 365 * 86400), ("0s", 0), ("5M", 300)],
)  # fmt: skip
def test_duration_is_parsed(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("90", "needs a unit: ms, s, m, h, d or y"),  # a missing unit is not guessed
        ("90 weeks", "needs a unit: ms, s, m, h, d or y"),
        ("-5s", "a duration such as 90s, 5m or 1h"),
        ("soon", "a duration such as 90s, 5m or 1h"),
    ],
)
def test_invalid_duration_is_refused_with_remedy(text: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy) as refused:
        parse_duration(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (90, "90s"), (119, "119s"), (120, "2m"), (150, "2m 30s"), (3600, "1h"), (5400, "1h 30m")],
)
def test_duration_is_formatted_in_readable_units(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize("seconds", [7198.6, -7198.6, 7200.0, 7201.4])
def test_clock_offset_is_rounded_to_minutes(seconds: float) -> None:
    assert format_clock_offset(seconds) == "2h"


@pytest.mark.parametrize("text", ["2026-11-21T18:00:00Z", "2026-11-21T19:00:00+01:00", " 2026-11-21T18:00:00+00:00 "])
def test_an_instant_is_the_same_in_any_zone(text: str) -> None:
    assert parse_instant(text) == datetime(2026, 11, 21, 18, tzinfo=UTC)
    assert parse_instant(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2026-11-21T18:00:00", "has no time zone"),
        ("2026-11-21", "has no time zone"),
        ("tomorrow", "is not a date"),
        ("2026-13-01T00:00:00Z", "is not a date"),
    ],
)
def test_instant_without_zone_is_refused_with_an_example(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=f"{problem}; write it like 2026-11-21T18:00:00Z"):
        parse_instant(text)


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1)).map(lambda t: t.replace(microsecond=0)),
    st.integers(-12, 14),
)
def test_a_formatted_instant_parses_back_to_the_same_second(naive: datetime, offset_hours: int) -> None:
    instant = naive.replace(tzinfo=timezone(timedelta(hours=offset_hours)))
    assert parse_instant(format_instant(instant.timestamp())) == instant


@pytest.mark.parametrize(
    ("text", "per_second"), [("500/s", 500.0), ("500", 500.0), (" 0.5 / s ", 0.5), ("30/m", 0.5), ("3600/h", 1.0)]
)
def test_rate_is_parsed_to_a_value_per_second(text: str, per_second: float) -> None:
    assert parse_rate(text) == per_second


@pytest.mark.parametrize("text", ["", "/s", "500/", "500/x", "s/500", "1/2", "0", "0/s", "-5/s", "nan", "inf"])
def test_invalid_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a rate"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "+1", "1.5", "1e3", "²", "one", "9" * 5000])
def test_invalid_count_is_refused(text: str) -> None:
    assert parse_count(" 16 ") == 16
    with pytest.raises(ValueError, match="is not a whole number of at least 1"):
        parse_count(text)
