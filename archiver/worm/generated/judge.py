"""Judges a record by its state: bytes, lock, place in the list of versions, and what a read of its key returns.

One idea: the answer to an attack says nothing. What the rules require of the record is compared with what it is.
"""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from archiver.worm.case import Case, VersionState, iso, words_of
from archiver.worm.generated.rules import ExpectedRecord
from archiver.worm.listing import ListedVersion, versions
from archiver.worm.verdict import Failed, Inconclusive

_PRECISION = timedelta(seconds=1)  # some platforms keep or show whole seconds
LISTING = "GEN-LISTING"  # family of the harms that leave bytes and lock as they were


class RecordHarm(NamedTuple):
    """What became of a record that it must not become."""

    kind: str  # short: combinations with different kinds have different causes
    severity: str
    words: str

    @property
    def is_only_shown(self) -> bool:
        """Whether bytes and lock are as they must be, and the platform shows something else."""
        return self.kind not in ("gone", "altered", "released", "mode", "shorter")


def harm_to(case: Case, record: ExpectedRecord) -> RecordHarm | None:
    """Return the worst harm to the record; None if it is as the rules require.

    Raises Inconclusive if a read has no definite answer, or if the lock expired before it was read.
    """
    state = case.state(record.version)
    if not record.is_protected(case.now()):
        raise Inconclusive("the lock expired before the record was read again")
    return _of_bytes(state, record) or _of_lock(state, record) or _of_reads(case, record) or _of_list(case, record)


def _of_bytes(state: VersionState, record: ExpectedRecord) -> RecordHarm | None:
    if state.body is None:
        return RecordHarm("gone", "S1", "the version is gone")
    return RecordHarm("altered", "S1", "the version has other bytes") if state.body != record.version.body else None


def _of_lock(state: VersionState, record: ExpectedRecord) -> RecordHarm | None:
    severity = "S1" if record.weakening_is_s1 else "S2"
    if record.is_held and state.hold != "ON":
        return RecordHarm("released", "S2", f"its hold is gone: it has {words_of(state)}")
    if record.until is None:
        return None
    required = f"{record.mode} until at least {iso(record.until)} is required, and it has {words_of(state)}"
    if state.mode != record.mode:
        return RecordHarm("mode", severity, required)
    is_short = state.until is None or state.until < record.until - _PRECISION
    return RecordHarm("shorter", severity, required) if is_short else None


def _of_reads(case: Case, record: ExpectedRecord) -> RecordHarm | None:
    if not record.is_current:
        return None
    answer = case.client.send("GET", record.version.bucket, record.version.key)
    if answer.ok and answer.body == record.version.body:
        return None
    seen = "other bytes" if answer.ok else str(answer)
    return RecordHarm("hidden", "S2", f"it is the current version, and a read of its key returns {seen}")


def _of_list(case: Case, record: ExpectedRecord) -> RecordHarm | None:
    version = record.version
    try:
        pages = versions(case, version.bucket, version.key)
    except Failed as failed:
        return RecordHarm("endless list", "S2", str(failed))
    found = [each for page in pages for each in page if (each.key, each.id) == (version.key, version.id)]
    if not found:
        return RecordHarm("not listed", "S2", "the list of versions does not show it")
    return _of_entry(found, record)


def _of_entry(found: list[ListedVersion], record: ExpectedRecord) -> RecordHarm | None:
    entry = found[0]
    if len(found) > 1:
        return RecordHarm("listed twice", "S3", f"the list of versions shows it {len(found)} times")
    if entry.is_marker:
        return RecordHarm("listed as a marker", "S2", "the list of versions shows it as a delete marker")
    if entry.bytes is not None and entry.bytes != len(record.version.body):
        return RecordHarm("listed size", "S3", f"the list of versions shows {entry.bytes} bytes")
    if record.is_current and not entry.is_latest:
        return RecordHarm(
            "not latest", "S3", "it is the current version, and the list of versions does not show it as such"
        )
    return None
