"""What conformance checks say about further regimes: DORA, NIS2, 21 CFR Part 11, HIPAA and GDPR.

The provisions are data in regimes.toml. Each names its requirements or checks, and what no check can show.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import msgspec

from archiver.values.typed import typed
from results.document.table import Column, Table, TableSpec, columns_of
from results.recorded.model import CheckRecord
from results.worm.findings import DISCLAIMER, VERDICT_COUNTS, failed_checks


class Provision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One paragraph of a regime, and the checks that concern it."""

    regime: str
    source: str  # the paragraph, as it is cited
    requires: str
    left: str  # what no check can show
    rules: tuple[str, ...] = ()  # tags of requirements: every check that has one of them
    checks: tuple[str, ...] = ()  # ids of single checks

    def concerns(self, check: CheckRecord) -> bool:
        return check.id in self.checks or not set(self.rules).isdisjoint(check.rules)


class _Evidence(NamedTuple):
    """A provision with the checks of a run that concern it."""

    provision: Provision
    checks: Sequence[CheckRecord]


@cache
def provisions() -> tuple[Provision, ...]:
    """Return every provision, in the order of regimes.toml."""
    text = files("results.worm").joinpath("regimes.toml").read_text(encoding="utf-8")
    return typed(tomllib.loads(text)["provision"], tuple[Provision, ...])


def regime_table(checks: Sequence[CheckRecord]) -> Table:
    """Return a row for each provision: verdicts of the checks that concern it, and what no check can show."""
    return _REGIMES.table(_Evidence(each, [check for check in checks if each.concerns(check)]) for each in provisions())


_REGIMES = TableSpec(
    "regimes",
    "Further regimes",
    (
        Column("regime", of=lambda found: found.provision.regime, label=True),
        Column("source", of=lambda found: found.provision.source, words=True),
        Column("requires", of=lambda found: found.provision.requires, words=True),
        *columns_of(lambda found: found.checks, VERDICT_COUNTS),
        Column("failed", of=lambda found: failed_checks(found.checks, "not tried in this run"), words=True),
        Column("what no check can show", of=lambda found: found.provision.left, words=True),
    ),
    "Checks that concern these provisions. Archiver's authors chose them; no authority did. " + DISCLAIMER,
)
