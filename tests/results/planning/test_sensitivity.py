"""The sensitivity of an answer to its assumptions."""

from __future__ import annotations

import pytest

from results.planning.loads import LoadCourse, MailLoad, PlanRequest, PlatformLimits, RetrieveLoad
from results.planning.measured_rates import published_surface
from results.planning.sensitivity import Sensitivity, sensitivities

DR550 = published_surface("reference:dr550")
TB = 10**12


def mail(**given: object) -> PlanRequest:
    load = MailLoad(users=30_000, messages=30, mean_bytes=20 << 10)
    return PlanRequest(**{"load": load, "course": LoadCourse(1, 0.0, 0.2), **given})  # type: ignore[arg-type]


def named(found: list[Sensitivity]) -> dict[str, Sensitivity]:
    return {each.assumption: each for each in found}


def test_platform_count_is_inversely_proportional_to_rate() -> None:
    rate = named(sensitivities(DR550, mail()))["rate of a platform"]
    assert rate.lower is not None
    assert rate.higher is not None
    assert rate.lower.value == pytest.approx(rate.base.value / 0.75)
    assert rate.higher.value == pytest.approx(rate.base.value / 1.25)
    assert rate.effect_share == pytest.approx(1 / 3)


def test_assumptions_are_sorted_by_effect_without_those_of_none() -> None:
    found = sensitivities(DR550, mail(limits=PlatformLimits(usable_bytes=TB)))  # 6.7 TB: capacity decides
    effects = [each.effect_share for each in found]
    assert effects == sorted(effects, reverse=True)
    assert min(effects) > 0
    assert "usable capacity of a platform" in named(found)
    assert not {"window", "rate of a platform"} & set(named(found))


def test_assumption_can_change_deciding_reason() -> None:
    limits = PlatformLimits(usable_bytes=57 * TB)  # needs 0.15 platforms; the archive rate needs 0.13
    rate = named(sensitivities(DR550, mail(limits=limits)))["rate of a platform"]
    reasons = [each.need.reason if each and each.need else None for each in (rate.lower, rate.base, rate.higher)]
    assert reasons == ["archive rate", "capacity", "capacity"]


def test_sensitivity_end_beyond_measured_range_is_none() -> None:
    smallest = MailLoad(users=10, messages=30, mean_bytes=2 << 10)  # a quarter of the smallest measured size
    found = named(sensitivities(DR550, mail(load=smallest, limits=PlatformLimits(usable_bytes=1_000_000))))
    size = found["mean size of a message"]
    assert size.lower is None
    assert size.higher is not None


def test_retrieval_time_depends_on_retrieved_size() -> None:
    found = named(sensitivities(DR550, PlanRequest(load=RetrieveLoad(size_bytes=1 << 30))))
    size = found["size of what is retrieved"]
    assert size.base.value == pytest.approx(100.4, abs=0.05)
    assert size.higher is not None
    assert size.higher.value == pytest.approx(125.5, abs=0.05)
