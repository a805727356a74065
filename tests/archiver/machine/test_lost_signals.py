"""A signal whose exception is lost where it was raised, as in a finalizer, still ends a run."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from typing import Any
from unittest.mock import Mock

import pytest

from archiver.engine.execution import carry_through
from archiver.machine import interruption

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def default_signals() -> Iterator[None]:
    """Undo what nohup(1) ignores: a command leaves an ignored signal ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as Python starts
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def receive_and_lose(number: signal.Signals) -> None:
    with suppress(KeyboardInterrupt):
        signal.raise_signal(number)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_run_ends_before_its_next_phase(number: signal.Signals) -> None:
    run = Mock()
    run.outcome.failure = None
    run.carry_out.side_effect = lambda phase: receive_and_lose(number)

    def phases(runs: Sequence[Any]) -> Generator[Any, None, None]:
        yield from ("first", "second")

    with interruption.heard():
        (outcome,) = carry_through([lambda: run], phases)
    assert [call.args for call in run.carry_out.call_args_list] == [("first",)]
    assert outcome.interrupted == number
    run.finish.assert_called_once()


def test_a_command_hears_only_its_own_signals() -> None:
    with interruption.heard():
        receive_and_lose(signal.SIGTERM)
        with pytest.raises(interruption.Terminated):
            interruption.raise_lost()
    interruption.raise_lost()
    with interruption.heard():
        interruption.raise_lost()


def receive_deferred(times: int, reached: list[str]) -> None:
    """Receive SIGINT this many times while it is deferred."""
    with interruption.put_off():
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        reached.append("end of the block")


@pytest.mark.parametrize(("times", "expected"), [(1, ["end of the block"]), (2, [])])
def test_first_sigint_is_deferred_and_second_one_raises_at_once(times: int, expected: list[str]) -> None:
    reached: list[str] = []
    with interruption.heard(), pytest.raises(KeyboardInterrupt):
        receive_deferred(times, reached)
    assert reached == expected
