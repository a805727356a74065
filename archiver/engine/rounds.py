"""A run with a time budget: rounds of all phases, and then of those whose rates are not known well enough.

One idea: noise is between repetitions more than within them, so many short measurements say more than a few long ones
(Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time", 2013). A round measures every cell once, in an order of
its own, on all platforms in turn. A cell is left out once its rate is known within PRECISION on every platform. So
rounds consist of pairs, and the time goes where it is needed.

A rule that looks after each round finds an interval that is narrow by chance too often. Therefore a cell is measured
CONFIRMING_ROUNDS times more after it became known: of the 95% intervals 94% to 96% then contain the true rate instead
of 92% to 95% (``python -m benchmarks method``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from itertools import groupby

from archiver.engine.run import Run
from archiver.values.errors import UsageError
from archiver.values.sizes import format_duration
from results.measures.statistics import estimate
from results.recorded.database import RunDatabase
from scenarios.model import Phase, Scenario, archived_max

ROUNDS_MIN = 5
CONFIRMING_ROUNDS = 3
ROUNDS_MAX = 100
PRECISION = 0.10  # half of the 95% interval of a rate, as a share of the rate
PLANNED_SHARE = 0.9  # of the limit of locked bytes; the rest is for probe objects and for a phase that is resumed
SET_UP_SECONDS = 0.5  # of a phase, before its clients begin; 0.2 to 0.6 s on the embedded store


def planned_seconds(phases: Sequence[Phase], platforms: int) -> float:
    """Return how long these phases take on all platforms in turn, set-up included, as far as that is known."""
    return platforms * sum(phase.expected_seconds + SET_UP_SECONDS for phase in phases)


def rounds_max(scenario: Scenario, seconds: float, platforms: int, locked_bytes_max: int) -> int:
    """Return the largest number of rounds that a run can have within its time and its limit of locked bytes.

    ``scenario`` has one repetition. Because later rounds leave cells out, twice as many are allowed for as fit if none
    is left out. Raises UsageError if not even one round fits.
    """
    round_seconds = planned_seconds(scenario.phases, platforms)
    if round_seconds > seconds:
        raise UsageError(
            f"--for {format_duration(seconds)}: measuring everything once takes about "
            f"{format_duration(round_seconds)}, and intervals need {ROUNDS_MIN} rounds; give it "
            f"{format_duration(ROUNDS_MIN * round_seconds)} or more"
        )
    size_bytes = archived_max(scenario.phases).bytes
    in_space = max(1, int(PLANNED_SHARE * locked_bytes_max / size_bytes)) if size_bytes else ROUNDS_MAX
    return min(int(2 * seconds / round_seconds), in_space, ROUNDS_MAX)


def rounds(
    scenario: Scenario, seconds: float, runs: Sequence[Run], now: Callable[[], float] = time.monotonic
) -> Generator[Phase, None, None]:
    """Yield the phases of each round until every rate is known, ``seconds`` are over or ``scenario`` has no more.

    The first round is always whole. Runs that end so have finished what was planned.
    """
    yield from _chosen(scenario, seconds, runs, now)
    for run in runs:
        if run.outcome.failure is None:
            run.database.set_planned_as_finished()


def _chosen(
    scenario: Scenario, seconds: float, runs: Sequence[Run], now: Callable[[], float]
) -> Generator[Phase, None, None]:
    ends = now() + seconds
    for repetition, phases in groupby(scenario.phases, key=lambda phase: phase.repetition):
        chosen = list(phases)
        if repetition > ROUNDS_MIN + CONFIRMING_ROUNDS:
            unknown = _unknown([run.database for run in runs if run.outcome.failure is None])
            if not unknown:
                return
            if scenario.is_reordered:  # other phases make the data of one another, so their rounds are whole
                chosen = [phase for phase in chosen if phase.label in unknown]
        for phase in chosen:
            if repetition > 1 and now() + planned_seconds([phase], len(runs)) > ends:
                return
            yield phase


def _unknown(databases: Sequence[RunDatabase]) -> set[str]:
    """Return the labels of the phases with a rate that is not known within PRECISION on a platform."""
    found = set()
    for database in databases:
        labels = {times.position: times.label for times in database.phases()}
        rates: dict[tuple[str, str], list[float]] = {}
        for each in database.results():
            if not each.is_load:
                rates.setdefault((labels[each.position], each.workload), []).append(each.objects_per_second)
        found |= {label for (label, _), measured in rates.items() if not is_known(measured)}
    return found


def is_known(rates: Sequence[float]) -> bool:
    """Return whether the median of these repetitions was known within PRECISION before the last CONFIRMING_ROUNDS."""
    before = rates[:-CONFIRMING_ROUNDS]
    if len(before) < ROUNDS_MIN:
        return False
    within = estimate(before).within
    return within is not None and within <= PRECISION
