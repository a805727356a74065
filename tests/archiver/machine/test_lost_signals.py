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


@pytest.fixture(autouse=True)
def default_signals() -> Iterator[None]:
    """Undo what nohup(1) ignores: a command leaves an ignored signal ignored."""
    before = {number: signal.signal(number, signal.SIG_DFL) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def receive_and_lose(number: signal.Signals) -> None:
    with suppress(interruption.Terminated):
        signal.raise_signal(number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
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
    with interruption.heard():
        interruption.raise_lost()
