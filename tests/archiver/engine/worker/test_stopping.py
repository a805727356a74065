"""Test when the measured part of a phase ends, with a simulated clock."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.engine.worker.stopping import NO_END_NS, MeasuredSpan, SessionStop, SharedWindow, WindowStop
from scenarios.reading.reader import read_scenario
from scenarios.work.sessions import InWindow, Sessions, UntilPrecise

RULE = UntilPrecise(
    seconds_min=3.0, seconds_max=10.0, bytes_max=10**9, precision=0.05, sessions_min=3, warm_up_sessions=1
)
WINDOW = InWindow(seconds=3.0, client_bytes_max=10**6, warm_up_seconds=0.5)
SESSION_BYTES = 1000
SECOND = 10**9
START_NS = 5 * SECOND


def sessions_until_stop(seconds: list[float], rule: UntilPrecise = RULE) -> SessionStop:
    """End sessions of these durations until the rule wants no more. The last duration repeats."""
    stop = SessionStop(rule, SESSION_BYTES, rule.sessions_max(SESSION_BYTES))
    now_ns, session = START_NS, 0
    while stop.wants_session(now_ns):
        closed_ns = now_ns + int(seconds[min(session, len(seconds) - 1)] * SECOND)
        stop.session_ended(now_ns, closed_ns)
        now_ns, session = closed_ns, session + 1
        assert session < 100_000
    return stop


def measured(stop: SessionStop) -> float:
    return (stop.measured_to_ns - stop.measured_from_ns) / SECOND


@pytest.mark.parametrize(
    ("rule", "times", "seconds", "settled"),
    [
        ({}, [9.0, 0.375], 3.0, True),  # one warm-up session, then steady state: seconds_min
        ({}, [9.0, 0.25], 3.0, True),
        ({}, [9.0, 1.0], 8.0, True),  # autocorrelation needs eight sessions
        ({}, [9.0, 4.0], 12.0, False),  # at least three sessions
        ({}, [9.0, 60.0], 180.0, False),  # also beyond seconds_max
        ({"sessions_min": 2}, [9.0, 60.0], 120.0, False),
        ({"warm_up_sessions": 0}, [0.375], 3.0, True),
        ({"warm_up_sessions": 2}, [9.0, 8.0, 0.375], 3.0, True),
        ({}, [1.0, *[0.5, 1.5] * 20], 10.0, False),  # does not settle: seconds_max
        ({"precision": 2.0}, [1.0, *[0.5, 1.5] * 20], 8.0, True),
        ({"precision": 0.3}, [1.0, *[0.25, 0.75] * 20], 10.0, True),  # settles at the second look, at the limit
        ({"warm_up_seconds": 4.0}, [3.0, 2.0, 0.375], 3.0, True),  # two sessions are in the warm-up
        ({"warm_up_seconds": 60.0, "bytes_max": 25_000}, [0.375], 3.0, True),  # two sessions: a tenth of the objects
        ({"bytes_max": 5000}, [1.0, *[0.5, 1.5] * 20], 4.5, False),  # bytes_max
        ({"bytes_max": 1}, [1.0, 2.0], 6.0, False),  # sessions_min has priority
        ({"seconds_max": 3.0}, [1.0, *[0.5, 1.5] * 20], 4.0, False),  # the running session is finished
    ],
)
def test_one_client_is_measured_in_whole_sessions(
    rule: dict[str, Any], times: list[float], seconds: float, settled: bool
) -> None:
    stop = sessions_until_stop(times, replace(RULE, **rule))
    assert measured(stop) == pytest.approx(seconds)
    assert stop.settled is settled


@pytest.mark.parametrize(("large_session", "sessions_min"), [("99999B", 2), ("100000B", 3)])
def test_large_sessions_have_a_minimum_of_their_own(large_session: str, sessions_min: int) -> None:
    stop = ("sessions_min=3", "large_sessions_min=2", f"large_session={large_session}")
    overrides = ["object_sizes=1000B", "objects_per_session=100", "clients=1", *(f"stop.{each}" for each in stop)]
    works = [phase.workloads[0].work for phase in read_scenario("dr550", overrides=overrides).phases]
    rules = [work.stop for work in works if isinstance(work, Sessions)]
    assert {rule.sessions_min for rule in rules if isinstance(rule, UntilPrecise)} == {sessions_min}


def test_warm_up_sessions_count_for_nothing() -> None:
    assert measured(sessions_until_stop([60.0, 0.375])) == measured(sessions_until_stop([0.001, 0.375])) == 3.0


def test_warm_up_uses_at_most_a_tenth_of_the_objects() -> None:
    stop = SessionStop(replace(RULE, warm_up_seconds=60.0), SESSION_BYTES, 30)
    now_ns = START_NS
    while not stop.measured_from_ns:
        assert stop.wants_session(now_ns)
        if not stop.measured_from_ns:
            stop.session_ended(now_ns, now_ns + SECOND)
            now_ns += SECOND
    assert stop.measured_from_ns == START_NS + 3 * SECOND


def test_the_measured_time_starts_when_the_first_measured_session_opens() -> None:
    stop = SessionStop(RULE, SESSION_BYTES, 1 << 60)
    assert stop.wants_session(START_NS)
    assert stop.measured == MeasuredSpan(NO_END_NS, NO_END_NS)  # sessions that ended so far are warm-up
    stop.session_ended(START_NS, START_NS + SECOND)
    assert stop.measured_to_ns == 0
    assert stop.wants_session(START_NS + 2 * SECOND)
    assert stop.measured_from_ns == START_NS + 2 * SECOND
    assert stop.measured == MeasuredSpan(START_NS + 2 * SECOND, NO_END_NS)
    stop.session_ended(START_NS + 2 * SECOND, START_NS + 3 * SECOND)
    assert stop.wants_session(START_NS + 4 * SECOND)
    assert stop.measured_from_ns == START_NS + 2 * SECOND  # the value is set once
    assert stop.measured_to_ns == START_NS + 3 * SECOND


def test_client_that_runs_out_is_measured_to_its_last_session_end() -> None:
    stop = SessionStop(RULE, SESSION_BYTES, 1 << 60)
    stop.session_ended(START_NS, START_NS + SECOND)
    stop.wants_session(START_NS + SECOND)
    stop.session_ended(START_NS + SECOND, START_NS + 2 * SECOND)
    stop.ran_out(START_NS + 9 * SECOND)
    assert stop.measured_to_ns == START_NS + 2 * SECOND
    assert not stop.settled


def test_end_of_the_phase_does_not_judge_a_client_again_that_a_limit_ended() -> None:
    stop = sessions_until_stop([1.0, *[0.5, 1.5] * 20], replace(RULE, seconds_min=10.0))  # one look, at the limit
    assert not stop.settled
    found = stop.half_width
    stop.ran_out(stop.measured_to_ns + SECOND)
    assert stop.half_width == found < math.inf


def test_client_without_further_objects_knows_how_precise_its_sessions_were() -> None:
    stop = SessionStop(replace(RULE, seconds_min=30.0, seconds_max=60.0), SESSION_BYTES, sessions_assigned=20)
    at_ns = START_NS
    while stop.wants_session(at_ns) and at_ns < START_NS + 20 * SECOND:
        stop.session_ended(at_ns, at_ns + SECOND)
        at_ns += SECOND
    assert stop.half_width == math.inf
    stop.ran_out(at_ns)
    assert stop.half_width == 0.0
    assert not stop.settled, "it is precise, but ended before its minimum time"


@given(
    st.lists(st.floats(0.001, 20), min_size=1, max_size=80),
    st.integers(1, 5),
    st.integers(1, 20_000),
    st.sampled_from([0.0, 0.5, 30.0]),
)
def test_session_byte_and_time_limits_apply_for_any_session_times(
    times: list[float], sessions_min: int, bytes_max: int, warm_up_seconds: float
) -> None:
    rule = replace(RULE, sessions_min=sessions_min, bytes_max=bytes_max, warm_up_seconds=warm_up_seconds)
    stop = SessionStop(rule, SESSION_BYTES, rule.sessions_max(SESSION_BYTES))
    now_ns, ended, sessions = START_NS, 0, 0
    while stop.wants_session(now_ns):
        took_ns = int(times[ended % len(times)] * SECOND)
        stop.session_ended(now_ns, now_ns + took_ns)
        now_ns, ended = now_ns + took_ns, ended + 1
        sessions += stop.measured_from_ns > 0
    assert sessions >= sessions_min
    assert ended <= Sessions("archive", SESSION_BYTES, rule).sessions_per_client_max(1)  # the bound in the ledger
    last_opened_ns = stop.measured_to_ns - took_ns
    if sessions > sessions_min:
        assert last_opened_ns - stop.measured_from_ns < rule.seconds_max * SECOND


def window(clients: int, stop: InWindow = WINDOW) -> list[WindowStop]:
    """Return the stop decisions of clients that share a window of 3 s after 0.5 s."""
    shared = SharedWindow(stop, START_NS, clients)
    return [WindowStop(shared) for _ in range(clients)]


def at(seconds: float) -> int:
    """Return an instant by its seconds after the start."""
    return START_NS + int(seconds * SECOND)


def end_sessions(stop: WindowStop, *ends: float) -> None:
    """End sessions at these seconds after the start."""
    for seconds in ends:
        stop.session_ended(at(seconds - 0.1), at(seconds))


def test_each_client_is_measured_between_its_own_session_ends() -> None:
    one, other = window(2)
    end_sessions(one, 0.4)
    assert one.measured == MeasuredSpan(NO_END_NS, NO_END_NS)  # its first session ended during the warm-up
    end_sessions(one, 0.9, 2.0, 3.4)
    assert one.measured == MeasuredSpan(at(0.9), NO_END_NS)
    end_sessions(one, 3.7)
    assert one.measured == MeasuredSpan(at(0.9), at(3.7))
    end_sessions(other, 2.5, 4.0)
    assert other.measured == MeasuredSpan(at(2.5), NO_END_NS)  # one session is too few, although the window has ended
    end_sessions(other, 6.0)
    assert other.measured == MeasuredSpan(at(2.5), at(6.0))
    assert one.settled
    assert other.settled


def test_a_client_keeps_up_the_load_until_all_are_measured() -> None:
    one, other = window(2)
    end_sessions(one, 0.6, 2.6, 3.6)
    assert one.wants_session(at(3.6))
    end_sessions(one, 4.6)
    assert one.measured == MeasuredSpan(at(0.6), at(3.6))  # later sessions count as drain
    end_sessions(other, 0.6, 2.0, 5.0)
    assert not one.wants_session(at(5.0))
    assert not other.wants_session(at(5.0))


def test_sessions_longer_than_the_window_are_measured_whole() -> None:
    (one,) = window(1)
    end_sessions(one, 9.0)
    assert one.wants_session(at(9.0))
    end_sessions(one, 18.0, 27.0)
    assert one.measured == MeasuredSpan(at(9.0), at(27.0))


def test_the_first_client_to_run_out_ends_the_window_for_all() -> None:
    one, other = window(2)
    end_sessions(one, 0.6, 1.6)
    end_sessions(other, 0.7, 1.7)
    one.ran_out(at(1.8))
    one.client_ended()
    assert one.measured == MeasuredSpan(at(0.6), at(1.6))
    assert other.wants_session(at(1.8))  # its running session is finished, and is its last
    end_sessions(other, 2.7)
    assert other.measured == MeasuredSpan(at(0.7), at(2.7))
    assert not other.wants_session(at(2.7))
    assert not one.settled
    assert not other.settled


def test_client_that_runs_out_after_its_measured_time_stays_settled() -> None:
    one, other = window(2)
    end_sessions(one, 0.6, 2.6, 3.6)
    one.ran_out(at(3.7))
    one.client_ended()
    end_sessions(other, 0.6, 2.0, 4.0)
    assert one.settled
    assert (one.measured.to_ns, other.measured.to_ns) == (at(3.6), at(4.0))


def test_client_without_measured_session_does_not_delay_others() -> None:
    one, other = window(2)
    one.client_ended()
    end_sessions(other, 0.6, 2.6, 3.6)
    assert not other.wants_session(at(3.6))
