"""Reads the catalogue of conformance checks.

What differs from Amazon is a deviation on every platform. "Amazon answers" needs a source in the catalogue.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from archiver.values.typed import typed
from results.recorded.model import VIOLATIONS, Harm

_BY_HAND = "only requests made by hand; no SDK sends one"
_BY_SDK = "SDKs and command lines for S3"
_BY_API = "programs that use the TSM API"


class CatalogueHarm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The harm of a violation, as the catalogue has it."""

    lost: str
    who: str
    in_race: bool = False
    workaround: str = ""


class CatalogueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One check, whether or not a client can try it."""

    id: str
    family: str
    tries: str
    must: str
    rules: tuple[str, ...]
    severity: str  # of a finding that states none, S1 to S4; "-" for a control
    needs: tuple[str, ...]
    answer: str = ""  # expected
    harm: CatalogueHarm | None = None  # of each check with severity S1 or S2
    sources: dict[str, str] = {}  # what Amazon or IBM answers or does -> name of the source that says so

    @property
    def is_violation(self) -> bool:
        """Return whether a failure means that a record can be lost or altered, or has no lock."""
        return self.severity in VIOLATIONS

    @property
    def recorded_harm(self) -> Harm | None:
        """The harm of a violation, for the record of a check; None if the check finds no violations."""
        if self.harm is None:
            return None
        clients = _BY_API if self.family == "TSM" else _BY_HAND if "R" in self.needs else _BY_SDK
        return Harm(self.harm.lost, self.harm.who, self.harm.in_race, clients, self.harm.workaround, self.severity)

    @property
    def source(self) -> str:
        """Answers and behaviour of Amazon or IBM, each with its source; empty if there is no source."""
        return "; ".join(f"{claim}: {_catalogue().sources[name]}" for claim, name in self.sources.items())


class _Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file."""

    sources: dict[str, str]  # by name: title and address
    check: tuple[CatalogueEntry, ...]
    generated: tuple[CatalogueEntry, ...]  # families of findings of generated sequences


@cache
def _catalogue() -> _Catalogue:
    text = files("archiver.worm").joinpath("catalogue.toml").read_text(encoding="utf-8")
    return typed(tomllib.loads(text), _Catalogue)


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """Return every check by its id, in the catalogue's order."""
    return {entry.id: entry for entry in _catalogue().check}


@cache
def generated_families() -> dict[str, CatalogueEntry]:
    """Return the families of findings of generated sequences by name, GEN-DELETE and so on."""
    return {entry.id: entry for entry in _catalogue().generated}


def entry_of(identifier: str) -> CatalogueEntry:
    """Return the check with this id, or the family of a generated finding: GEN-DELETE of GEN-DELETE-0a1b2c."""
    found = catalogue().get(identifier)
    return found if found is not None else generated_families()["-".join(identifier.split("-")[:2])]


def severity_rank(severity: str) -> str:
    """Return a key that sorts the worst severity first, and a control last."""
    return severity.replace("-", "S9")


def expectation(identifier: str, answer: str) -> str:
    """Return ``Amazon answers 409 BucketNotEmpty`` if the check has a source for that; else ``expected 409 ...``."""
    return f"{'Amazon answers' if answer in entry_of(identifier).sources else 'expected'} {answer}"


def is_tsm(identifier: str) -> bool:
    """Return whether this is a check of the TSM protocol; the others are of S3."""
    return catalogue()[identifier].family == "TSM"
