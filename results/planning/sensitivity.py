"""The assumptions that change a plan's answer most.

The module changes each assumption alone and plans again: growth and headroom by ten percentage points, every other
assumption by a quarter of its value. The effect is the change of the unrounded number of platforms, because rounding
to whole platforms hides small changes. It is at the slow end of the range, like the number of platforms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from archiver.values.errors import ArchiverError
from results.planning.loads import INPUTS, PlanRequest, written
from results.planning.plan import CapacityPlan, make_plan
from results.planning.rate_surface import RateSurface
from results.planning.sizing import Need

SHARE = 0.25
POINTS = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The answer with one changed assumption."""

    assumed: str
    need: Need | None  # of a plan that archives, in its last year
    seconds: float | None  # of a plan that only retrieves

    @property
    def value(self) -> float:
        """The number whose change is the effect: platforms before rounding, or seconds."""
        return self.need.deciding if self.need is not None else self.seconds or 0.0


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The answers for a lower and a higher value of one assumption. None: the value is too far from measured rates."""

    assumption: str
    base: Outcome
    lower: Outcome | None
    higher: Outcome | None

    @property
    def effect_share(self) -> float:
        """The larger of the two changes, relative to the answer."""
        found = [outcome.value for outcome in (self.lower, self.higher) if outcome is not None]
        return max((abs(value - self.base.value) for value in found), default=0.0) / self.base.value


_ASSUMPTIONS: Mapping[str, tuple[str, ...]] = {  # part of a request -> fields that are changed
    "load": (
        "users", "messages", "mean_bytes", "cameras", "bytes_per_second", "objects_per_day", "full_bytes",
        "change_share", "size_bytes", "objects_per_session", "window_seconds", "discovery_users", "discovery_messages",
        "discovery_seconds",
    ),
    "course": ("growth_share", "headroom_share", "retention_years", "lock_years", "held_share", "extend_every_days"),
    "limits": ("usable_bytes", "redundancy", "footprint", "reduction", "objects_max", "restore_seconds",
               "restore_bytes"),
}  # fmt: skip


def sensitivities(surface: RateSurface, request: PlanRequest) -> list[Sensitivity]:
    """Return the sensitivity of the answer to each assumption with an effect, the largest effect first."""
    base = _outcome("", make_plan(surface, request))
    found = [_to_the_rate(surface, request, base), *_to_the_inputs(surface, request, base)]
    return sorted((each for each in found if each.effect_share > 0), key=lambda each: -each.effect_share)


def _to_the_rate(surface: RateSurface, request: PlanRequest, base: Outcome) -> Sensitivity:
    lower, higher = (
        _outcome(f"{factor:.0%} of the measured", make_plan(surface.scaled(factor), request))
        for factor in (1 - SHARE, 1 + SHARE)
    )
    return Sensitivity("rate of a platform", replace(base, assumed="as measured"), lower, higher)


def _to_the_inputs(surface: RateSurface, request: PlanRequest, base: Outcome) -> Iterator[Sensitivity]:
    for place, fields in _ASSUMPTIONS.items():
        part: Any = getattr(request, place)
        for field in fields:
            value = getattr(part, field, None)
            if value is not None:
                ends = []
                for changed in _changed(place, field, value):
                    changes: dict[str, Any] = {place: replace(part, **{field: changed})}
                    ends.append(_tried(surface, written(field, changed), replace(request, **changes)))
                yield Sensitivity(INPUTS[field], replace(base, assumed=written(field, value)), *ends)


def _changed(place: str, field: str, value: float) -> tuple[float, float]:
    """Return a lower and a higher value: ten points for growth and headroom, a quarter for anything else."""
    if place == "course" and field.endswith("_share"):
        return max(0.0, value - POINTS), min(0.9, value + POINTS)
    if field in ("redundancy", "footprint", "reduction"):
        return max(1.0, value * (1 - SHARE)), value * (1 + SHARE)
    if isinstance(value, int):
        return max(1, round(value * (1 - SHARE))), round(value * (1 + SHARE))
    return value * (1 - SHARE), value * (1 + SHARE)


def _tried(surface: RateSurface, assumed: str, request: PlanRequest) -> Outcome | None:
    try:
        return _outcome(assumed, make_plan(surface, request))
    except ArchiverError:
        return None


def _outcome(assumed: str, plan: CapacityPlan) -> Outcome:
    if plan.archiving is not None:
        return Outcome(assumed, plan.archiving.last_year.decided_by, None)
    assert plan.retrieval is not None
    return Outcome(assumed, None, plan.retrieval.seconds.value)
