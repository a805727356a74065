"""Reads the catalogue of conformance checks."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from results.model import VIOLATIONS


class CatalogueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One check, whether or not a client can try it."""

    id: str
    family: str
    tries: str
    must: str
    rules: tuple[str, ...]
    severity: str  # of the worst finding, S1 to S4; "-" for a control
    needs: tuple[str, ...]
    answer: str = ""  # Amazon's, or IBM's

    @property
    def is_violation(self) -> bool:
        """Return whether a failure means that a record can be lost or altered, or has no lock."""
        return self.severity in VIOLATIONS


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """Return every check by its id, in the catalogue's order."""
    text = files("archiver.worm").joinpath("catalogue.toml").read_text(encoding="utf-8")
    entries = msgspec.convert(tomllib.loads(text)["check"], list[CatalogueEntry])
    return {entry.id: entry for entry in entries}
