"""Compare the verdicts on real platforms, and on a mock, with the expected ones."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from archiver.platforms.programs import PROGRAMS
from archiver.worm.verdict import CheckVerdict
from tests.archiver.worm.expected_verdicts import (
    ALL,
    PLATFORMS,
    QUICK,
    Verdicts,
    changed,
    declared_version,
    expected,
    found,
)
from tests.support.servers import real


def changed_twice(name: str, first: Verdicts) -> dict[str, str]:
    """Return the verdicts that are not expected, neither in the first nor in a second try.

    A check that is inconclusive on a busy machine has no other verdict.
    """
    again = changed(name, first)
    second = changed(name, found([name], list(again))[name]) if again else {}
    return {each: verdict for each, verdict in second.items() if verdict != CheckVerdict.INCONCLUSIVE}


@pytest.fixture(scope="module")
def quick() -> Mapping[str, Verdicts]:
    """Return the verdicts of the quick checks on every installed platform."""
    return found([name for name in PLATFORMS if PROGRAMS[name].is_installed()], QUICK)


@pytest.mark.platforms
@pytest.mark.parametrize("name", PLATFORMS)
def test_verdicts_of_quick_checks_are_as_expected(name: str, request: pytest.FixtureRequest) -> None:
    real.need(name)
    assert changed_twice(name, request.getfixturevalue("quick")[name]) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", PLATFORMS)
def test_verdicts_of_all_checks_are_as_expected(name: str) -> None:
    real.need(name)
    assert changed_twice(name, found([name], ALL)[name]) == {}


@pytest.mark.parametrize("name", real.STORES)
def test_verdicts_are_declared_for_the_pinned_version(name: str) -> None:
    assert declared_version(name) == PROGRAMS[name].version


@pytest.mark.parametrize("name", PLATFORMS)
def test_declared_checks_exist(name: str) -> None:
    assert set(expected(name)) == set(ALL)
