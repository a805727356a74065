"""The compliance clock, with time as an argument."""

from __future__ import annotations

from backends.embedded.core.compliance_clock import ComplianceClock


class Host:
    """A host whose wall clock and elapsed time the test sets."""

    def __init__(self, wall: float) -> None:
        self.wall = wall
        self.elapsed = 50.0

    def clock(self, high_water_ms: int = 0) -> ComplianceClock:
        return ComplianceClock(high_water_ms, lambda: self.wall, lambda: self.elapsed)


def test_the_clock_starts_at_the_hosts_time() -> None:
    assert Host(1_000_000.5).clock().now_ms() == 1_000_000_500


def test_the_clock_starts_no_earlier_than_the_highest_committed_time() -> None:
    assert Host(1_000_000.0).clock(high_water_ms=2_000_000_000).now_ms() == 2_000_000_000


def test_the_clock_advances_by_elapsed_time() -> None:
    host = Host(1_000_000.0)
    clock = host.clock(high_water_ms=2_000_000_000)
    host.elapsed += 1.5
    assert clock.now_ms() == 2_000_001_500


def test_setting_the_hosts_clock_changes_nothing_in_either_direction() -> None:
    host = Host(1_000_000.0)
    clock = host.clock()
    for wall in (0.0, 9_000_000.0):
        host.wall = wall
        assert clock.now_ms() == 1_000_000_000


def test_clock_never_goes_backwards_even_if_elapsed_time_does() -> None:
    host = Host(1_000_000.0)
    clock = host.clock()
    host.elapsed += 10
    before = clock.now_ms()
    host.elapsed -= 5
    assert clock.now_ms() == before


def test_http_date_follows_the_clock() -> None:
    host = Host(1_795_255_200.0)
    clock = host.clock()
    assert clock.http_date() == "Sat, 21 Nov 2026 10:00:00 GMT"
    host.elapsed += 1
    assert clock.http_date() == "Sat, 21 Nov 2026 10:00:01 GMT"
