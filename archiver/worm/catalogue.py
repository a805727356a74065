"""The catalogue of conformance checks, as data."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import msgspec


class CatalogueEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One check, whether it can be tried from outside or not."""

    id: str
    family: str
    tries: str
    must: str
    rules: tuple[str, ...]
    severity: str  # S1 to S4; "-" for a control
    needs: tuple[str, ...]
    answer: str = ""  # Amazon's, or IBM's

    @property
    def is_violation(self) -> bool:
        """Whether failing it means that a record can be lost, altered, or is without its lock."""
        return self.severity in ("S1", "S2")


@cache
def catalogue() -> dict[str, CatalogueEntry]:
    """Every check by its id, in order."""
    text = files("archiver.worm").joinpath("catalogue.toml").read_text(encoding="utf-8")
    entries = msgspec.convert(tomllib.loads(text)["check"], list[CatalogueEntry])
    return {entry.id: entry for entry in entries}
