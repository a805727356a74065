"""The phases of a run: grouping, numbering of repetitions, and why a phase is void."""

from __future__ import annotations

from typing import Any

from results.measures.phases import phases_of, repetitions_of
from results.measures.verdict import CLIENT_LIMIT
from results.recorded.model import CriterionResult, Result
from tests.results.conftest import MakeResult


def worked(make_result: MakeResult, position: int, scale: float, **more: Any) -> Result:
    return make_result(application="mail", workload="mail", phase="load", position=position, scale=scale, **more)


def test_phases_are_in_order_of_position_without_sweeps_and_preparation(make_result: MakeResult) -> None:
    results = [
        worked(make_result, 3, 2.0),
        worked(make_result, 2, 1.0),
        worked(make_result, 1, 1.0, is_load=True),
        make_result(position=4),
    ]
    assert [(phase.position, phase.scale) for phase in phases_of(results, ())] == [(2, 1.0), (3, 2.0)]


def test_scale_tried_again_is_numbered_and_declared_repetitions_are_kept(make_result: MakeResult) -> None:
    tried = [worked(make_result, position, scale) for position, scale in ((1, 1.0), (2, 2.0), (3, 1.0))]
    assert [phase.repetition for phase in phases_of(tried, ())] == [1, 1, 2]
    declared = [worked(make_result, position, 1.0, repetition=position + 1) for position in (1, 2)]
    assert [phase.repetition for phase in phases_of(declared, ())] == [2, 3]
    groups = repetitions_of(phases_of(tried, ()))
    assert [[phase.position for phase in group] for group in groups] == [[1, 3], [2]]


def test_phase_has_its_own_criteria_and_is_void_at_client_limit(make_result: MakeResult) -> None:
    results = [worked(make_result, position, 1.0, limited_by="client") for position in (1, 2)]
    criteria = [
        CriterionResult("object_ms.p99 <= 20", "mail", position, 20.0, measured, measured <= 20)
        for position, measured in ((1, 30.0), (2, 10.0))
    ]
    missed, met = phases_of(results, criteria)
    assert (missed.void, missed.verdict, missed.criteria) == ((CLIENT_LIMIT,), "void", (criteria[0],))
    assert (met.void, met.verdict) == ((), "pass")
