"""A run that fails during a search says why the search ended."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from archiver.engine import execution
from scenarios.reading.reader import read_scenario


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("worker archiver-worker-1 died", "tiles 1 failed: worker archiver-worker-1 died"),
        (None, "the run was interrupted"),
    ],
)
def test_search_of_a_run_that_ends_early_states_the_reason(
    monkeypatch: pytest.MonkeyPatch, failure: str | None, reason: str
) -> None:
    monkeypatch.setattr(execution, "_too_much", lambda *_: None)
    run = Mock()
    run.outcome.failure, run.outcome.criteria, run.outcome.results = None, [], []
    traces = Mock()
    traces.read.side_effect = lambda phases: phases
    phases = execution.searched(read_scenario("tiles", searches=True), traces, [run])
    next(phases)
    run.outcome.failure = failure
    if failure is None:
        phases.close()
    else:
        assert list(phases)  # the rest of the step's phases, which the run skips
    assert run.outcome.search.ended_because == reason
    run.database.set_search.assert_called_once_with(run.outcome.search)
