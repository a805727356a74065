"""The checks of the catalogue, one function each, one module for each family; ``CHECKS`` has them by id.

One idea: a check returns if the platform did what it must, and otherwise raises an exception of
``archiver.worm.verdict``. It writes notes and deviations to its case. Importing a family registers its checks.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from archiver.worm.check_run import CheckRun
from archiver.worm.verdict import CheckEnded, Failed, Inconclusive

CheckFunction = Callable[[Any], None]  # of the case of its protocol
CHECKS: dict[str, CheckFunction] = {}


def check(identifier: str) -> Callable[[CheckFunction], CheckFunction]:
    """Register a function as the check with this id."""

    def register(function: CheckFunction) -> CheckFunction:
        assert identifier not in CHECKS, identifier
        CHECKS[identifier] = partial(_without_loss, function)
        return function

    return register


def _without_loss(function: CheckFunction, case: CheckRun) -> None:
    """Run a check. If it is inconclusive, look for damage all the same: the requests may have done harm."""
    try:
        function(case)
    except Inconclusive as ended:
        try:
            case.must_have_lost_nothing()
        except Failed as failed:
            raise Failed(f"{ended}; and {failed}", failed.severity, failed.answers) from failed
        except CheckEnded:
            pass  # the versions cannot be read either
        raise


def load() -> None:
    """Import every family, so that CHECKS is complete."""
    for module in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
