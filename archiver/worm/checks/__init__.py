"""The checks of the catalogue, one function each, by family; ``CHECKS`` has them by id.

One idea: a check returns where the platform did as it must and raises one of the ends of ``archiver.worm.verdict``
otherwise; what it notes on the way is in its case. Importing a family registers it.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from importlib import import_module

from archiver.worm.case import Case
from archiver.worm.verdict import CheckEnded, Failed, Inconclusive

CheckFunction = Callable[[Case], None]
CHECKS: dict[str, CheckFunction] = {}


def check(identifier: str) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as the check of this id."""

    def register(function: CheckFunction) -> CheckFunction:
        assert identifier not in CHECKS, identifier
        CHECKS[identifier] = partial(_without_loss, function)
        return function

    return register


def _without_loss(function: CheckFunction, case: Case) -> None:
    """An answer that tells nothing may have done harm: what it left is looked at all the same."""
    try:
        function(case)
    except Inconclusive as ended:
        try:
            case.must_have_lost_nothing()
        except Failed as failed:
            raise Failed(f"{ended}; and {failed}") from failed
        except CheckEnded:
            pass  # it cannot be read either
        raise


def load() -> None:
    """Import every family, so that CHECKS is complete."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
