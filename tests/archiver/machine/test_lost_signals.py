"""Test that signals end a run between two steps, never within one, even if their exception was lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest

from archiver.engine.execution import carry_through
from archiver.machine import interruption

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def default_signals() -> Iterator[None]:
    """Reset signals that nohup(1) set to be ignored: a command leaves an ignored signal ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Python's default
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def receive_and_lose(number: signal.Signals) -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(number)


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("receive", [signal.raise_signal, receive_and_lose])
def test_lost_signal_ends_a_run_before_its_next_phase(
    receive: Callable[[signal.Signals], None], number: signal.Signals
) -> None:
    run = Mock()
    run.outcome.failure = None
    ended: list[str] = []

    def carry_out(phase: str) -> None:
        receive(number)
        ended.append(phase)

    run.carry_out.side_effect = carry_out

    def phases(runs: Sequence[Any]) -> Generator[Any, None, None]:
        yield from ("first", "second")

    with interruption.handled():
        (outcome,) = carry_through([lambda: run], phases)
    assert ended == ["first"]
    assert outcome.interrupted == number
    run.finish.assert_called_once()


def test_signal_of_a_command_does_not_affect_the_next_command() -> None:
    with interruption.handled():
        receive_and_lose(signal.SIGTERM)
        with pytest.raises(interruption.Terminated):
            interruption.check()
    interruption.check()
    with interruption.handled():
        interruption.check()


def receive_deferred(times: int, reached: list[str]) -> None:
    """Receive SIGINT this many times while it is deferred."""
    with interruption.deferred():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        reached.append("end of the block")


@pytest.mark.parametrize(("times", "expected"), [(1, ["end of the block"]), (2, [])])
def test_first_sigint_is_deferred_and_second_one_raises_at_once(times: int, expected: list[str]) -> None:
    reached: list[str] = []
    with interruption.handled(), pytest.raises(KeyboardInterrupt):
        receive_deferred(times, reached)
    assert reached == expected


def test_a_nested_deferral_ends_with_the_outermost_one() -> None:
    reached: list[str] = []

    def receive_in_the_inner_block() -> None:
        with interruption.deferred():
            receive_deferred(1, reached)
            reached.append("end of the outer block")

    with interruption.handled(), pytest.raises(KeyboardInterrupt):
        receive_in_the_inner_block()
    assert reached == ["end of the block", "end of the outer block"]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_wait_for_a_call_that_does_not_return(number: signal.Signals) -> None:
    may_return, has_returned = Event(), Event()

    def call() -> None:
        os.kill(os.getpid(), number)
        assert may_return.wait(60)
        has_returned.set()

    with interruption.handled(), interruption.deferred():
        with pytest.raises(KeyboardInterrupt) as raised:
            interruption.interruptible(call)
        assert interruption.signal_of(raised.value) == number
        assert not has_returned.is_set()
        may_return.set()
        assert has_returned.wait(60)


def test_an_interruptible_call_returns_and_raises_as_the_call_does() -> None:
    assert interruption.interruptible(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        interruption.interruptible(divmod, 7, 0)
