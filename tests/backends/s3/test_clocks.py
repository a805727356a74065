"""The clock of a platform, or of this machine, is set during a run: the signed times and lock dates that follow."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import pytest

from archiver.values.record import Recorder, Status
from archiver.values.retention import DateMaker, Retention, RetentionMode
from backends.base import PhaseSetting
from backends.s3 import data_plane as data_plane_module
from backends.s3.wire import connection
from backends.s3.wire import session as session_module
from tests.backends.s3.conftest import Scripted
from tests.backends.s3.s3_sessions import CONTENT, SIZE, archives, data_plane, in_loop, record_of_sessions, rows_of
from tests.backends.s3.scripted_answers import OK
from tests.support.servers.scripted import HANG_SECONDS, Conversation, Request, read, send, serve
from tests.support.waiting import SECONDS_MAX

RETAIN_SECONDS = 300.0
SKEW_SECONDS = 900  # that S3 allows
HUGE_ZONE = "Sat, 21 Nov 2026 18:00:00 +99999999999999999999"
_GOVERNANCE = Retention(RetentionMode.GOVERNANCE, RETAIN_SECONDS)


class Platform:
    """Refuses requests that were signed by another clock than its own, without a body, as for HEAD."""

    def __init__(self) -> None:
        self.set_forward_seconds = 0.0
        self.locked_until: list[float] = []

    @property
    def now(self) -> float:
        return time.time() + self.set_forward_seconds

    def answer(self, request: Request) -> bytes:
        date = format_datetime(datetime.fromtimestamp(self.now, UTC), usegmt=True)
        signed = datetime.strptime(request.headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
        status = "200 OK" if abs(signed - self.now) < SKEW_SECONDS else "403 Forbidden"
        if status == "200 OK":
            until = request.headers["x-amz-object-lock-retain-until-date"]
            self.locked_until.append(datetime.fromisoformat(until).timestamp())
        return f"HTTP/1.1 {status}\r\nDate: {date}\r\nETag: e\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.fixture
def platform() -> Platform:
    return Platform()


@pytest.fixture
def url(platform: Platform, scripted: Scripted) -> str:
    return scripted(then=[serve(platform.answer)]).url


@pytest.mark.parametrize("forward_seconds", [-7200.0, 7200.0])
def test_requests_follow_the_new_time_after_the_platform_clock_is_set(
    platform: Platform, url: str, forward_seconds: float
) -> None:
    plane = data_plane(url, retention=_GOVERNANCE)
    began = time.time()
    assert [row.status for row in rows_of(record_of_sessions(plane, archives(1)))] == [0] * 3
    platform.set_forward_seconds = forward_seconds
    refused, *others = [row for row in rows_of(record_of_sessions(plane, archives(2, 3, 4, 5))) if row.number]
    assert refused.status == 403  # counted under its own reason, as every refusal
    assert [row.status for row in others][-2:] == [
        Status.OK
    ] * 2  # the second was signed before the answer to the first
    latest = time.time() + RETAIN_SECONDS
    ours, theirs = platform.locked_until[0], platform.locked_until[1:]
    assert began + RETAIN_SECONDS - 1 <= ours <= latest
    # By the new clock no lock is longer than requested, and by the old one none ends later than promised.
    assert all(until <= latest + min(0.0, forward_seconds) for until in theirs)


def test_platform_date_never_extends_a_lock_beyond_the_ledger(platform: Platform, url: str) -> None:
    plane = data_plane(url, retention=_GOVERNANCE)
    latest = float(int(time.time()) + 310)
    plane.set_phase(PhaseSetting(CONTENT, {None: DateMaker(_GOVERNANCE, latest)}, "none", (SIZE,)))
    platform.set_forward_seconds = 20 * 365 * 86400.0
    record_of_sessions(plane, archives(1, 2, 3, 4))
    assert platform.locked_until
    assert max(platform.locked_until) <= latest


@pytest.mark.parametrize("date", ["", "yesterday", "Sat, 99 Foo 2026 99:99:99 GMT", HUGE_ZONE])
def test_refusal_without_a_valid_date_keeps_the_clock_offset(date: str) -> None:
    plane = data_plane("http://127.0.0.1:9")
    before = plane._clock_offset_seconds
    plane.note_refusal({b"date": date.encode()} if date else {})
    assert plane._clock_offset_seconds == before


_SETS_THE_CLOCK = """
import time
real = time.time
time.time = lambda: real() + forward
forward = 0.0
from archiver.values.clock import now_seconds
before = now_seconds()
for forward in (7200.0, -7200.0):
    assert abs(time.time() - real() - forward) < 60
    assert abs(now_seconds() - before) < 60, forward
forward = 0.0
assert abs(now_seconds() - time.time()) < 60
from archiver.values import clock
clock.follow(clock.began_seconds() + 3600.0)  # as a worker follows its coordinator
assert abs(now_seconds() - time.time() - 3600.0) < 60
"""


def test_process_clock_ignores_changes_of_the_machine_clock(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SETS_THE_CLOCK],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_request_made_before_a_long_exchange_is_made_again(
    monkeypatch: pytest.MonkeyPatch, platform: Platform, scripted: Scripted
) -> None:
    """As in a process that was suspended for 16 minutes after it had signed the next request."""
    now = [time.time()]

    def answer(request: Request) -> bytes:
        if platform.locked_until == []:
            now[0] += 960
            platform.set_forward_seconds = 960.0
            platform.locked_until.append(0.0)
            return OK
        return platform.answer(request)

    monkeypatch.setattr(data_plane_module, "now_seconds", lambda: now[0])
    monkeypatch.setattr(session_module, "OUTDATED_NS", 0)
    record = record_of_sessions(data_plane(scripted(then=[serve(answer)]).url, retention=_GOVERNANCE), archives(1, 2))
    assert record.errors == {}
    assert abs(platform.locked_until[1] - now[0] - RETAIN_SECONDS) <= 1


def test_answer_that_came_while_the_process_was_suspended_is_read(
    monkeypatch: pytest.MonkeyPatch, scripted: Scripted
) -> None:
    monkeypatch.setattr(connection, "STANDSTILL_NS", 10**8)
    answered = threading.Event()

    def answer(conversation: Conversation) -> None:
        read(conversation)
        send(OK)(conversation)
        answered.set()

    plane, record = data_plane(scripted([answer]).url, read_timeout_seconds=0.2), Recorder(10)

    async def work() -> None:
        session = plane.session(0)
        assert await session.open(record, 1)
        done = asyncio.ensure_future(session.perform(archives(1), record))
        await asyncio.sleep(0)
        assert answered.wait(HANG_SECONDS)
        time.sleep(0.5)  # noqa: ASYNC251 - the event loop stands still beyond the time-out
        assert session._connection is not None
        session._connection._check_progress()  # after SIGCONT its timer comes first
        await done
        await session.close(record)

    in_loop(work)
    assert record.errors == {}
