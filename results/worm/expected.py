"""Expected failures: checks that a vendor knows to fail, each with a reason and a link."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from archiver.values.errors import UsageError
from archiver.values.typed import typed
from results.document.table import Column, Table, TableSpec
from results.recorded.database import StoredRun
from results.recorded.model import CheckRecord


class ExpectedFailure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the file: the check, why it fails, and a link to its issue."""

    check: str
    reason: str
    link: str


class _ExpectedFile(msgspec.Struct, forbid_unknown_fields=True):
    expected: tuple[ExpectedFailure, ...] = ()


class Expectation(NamedTuple):
    """An expected failure, and its verdicts in a run."""

    failure: ExpectedFailure
    verdicts: str  # of all rounds
    is_mended: bool  # the check passed in every round that tried it

    @property
    def words(self) -> str:
        return "mended: remove it" if self.is_mended else self.verdicts


def read_expected(path: Path, known: Collection[str]) -> dict[str, ExpectedFailure]:
    """Return the expected failures of a TOML file by check. Raises UsageError that names the faulty entry.

    ``known`` are the checks and the families of generated sequences: GEN-DELETE allows an entry for GEN-DELETE-0a1b2c.
    """
    try:
        entries = typed(tomllib.loads(path.read_text(encoding="utf-8")), _ExpectedFile).expected
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}; an [[expected]] entry has check, reason and link") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    found: dict[str, ExpectedFailure] = {}
    for number, entry in enumerate(entries, 1):
        if entry.check not in known and entry.check.rpartition("-")[0] not in known:
            raise UsageError(f"{path}: entry {number}: there is no check {entry.check!r}")
        if entry.check in found:
            raise UsageError(f"{path}: entry {number}: {entry.check} already has an entry")
        for name in ("reason", "link"):
            if not getattr(entry, name).strip():
                raise UsageError(f"{path}: entry {number}: {entry.check} has no {name}")
        found[entry.check] = entry
    return found


def expected_of(run: StoredRun) -> dict[str, ExpectedFailure]:
    """Return the expected failures that a run recorded."""
    return {entry["check"]: ExpectedFailure(**entry) for entry in run.settings.get("expected", ())}


def expectations(checks: Sequence[CheckRecord], expected: Mapping[str, ExpectedFailure]) -> list[Expectation]:
    """Return the expected failures that a run tried, with their verdicts."""
    found = []
    for identifier, failure in expected.items():
        verdicts = [check.verdict for check in checks if check.id == identifier]
        if verdicts:
            mended = "PASS" in verdicts and not any(each.is_finding for each in checks if each.id == identifier)
            found.append(Expectation(failure, ", ".join(dict.fromkeys(verdicts)), mended))
    return found


def expected_table(found: Sequence[Expectation]) -> Table:
    """Return the expected failures, and which of them passed."""
    return _EXPECTED.table(found)


def expected_documents(found: Sequence[Expectation]) -> list[dict[str, Any]]:
    """Return plain JSON values."""
    return [{**msgspec.structs.asdict(each.failure), "mended": each.is_mended} for each in found]


_EXPECTED = TableSpec(
    "expected",
    "Expected failures",
    (
        Column("check", of=lambda each: each.failure.check, label=True),
        Column("result", of=lambda each: each.words, label=True),
        Column("reason", of=lambda each: each.failure.reason, words=True),
        Column("link", of=lambda each: each.failure.link, words=True),
    ),
)
