"""Make plans of each kind of load from the values that a test gives."""

from __future__ import annotations

from typing import Any

from results.planning.loads import BackupLoad, MailLoad, PlannedLoad, PlanRequest, RetrieveLoad, SizeLoad, VideoLoad
from results.planning.plan import CapacityPlan, make_plan
from results.planning.rate_surface import RateSurface

_OF_REQUEST = ("course", "limits", "clients", "prices", "retrieved_share")


def request_of(kind: type[PlannedLoad], **given: Any) -> PlanRequest:
    """Return the request for a load; ``given`` has fields of the load and of the request itself."""
    own = {name: value for name, value in given.items() if name not in _OF_REQUEST}
    return PlanRequest(load=kind(**own), **{name: given[name] for name in _OF_REQUEST if name in given})


def plan_mail(surface: RateSurface, **given: Any) -> CapacityPlan:
    return make_plan(surface, request_of(MailLoad, **given))


def plan_video(surface: RateSurface, **given: Any) -> CapacityPlan:
    return make_plan(surface, request_of(VideoLoad, **given))


def plan_retrieve(surface: RateSurface, **given: Any) -> CapacityPlan:
    return make_plan(surface, request_of(RetrieveLoad, **given))


def plan_size(surface: RateSurface, **given: Any) -> CapacityPlan:
    return make_plan(surface, request_of(SizeLoad, **given))


def plan_backup(surface: RateSurface, **given: Any) -> CapacityPlan:
    return make_plan(surface, request_of(BackupLoad, **given))
