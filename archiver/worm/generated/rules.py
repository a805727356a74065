"""The rules of Object Lock for a record: what it must be at least, and which combinations test that.

One idea: a combination is worth trying only if the rules forbid that its attack weakens the record. Then the record
must be as it was, whatever the platform answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from archiver.worm.case import COMPLIANCE, Version
from archiver.worm.generated.dimensions import (
    Asking,
    Attack,
    AttackTiming,
    Combination,
    Locking,
    Naming,
    PriorEvent,
    Writing,
)

Row = Mapping[type[Enum], Enum]  # values of some or all dimensions

HELD = frozenset({Locking.HOLD, Locking.HOLD_SET_LATER, Locking.WITH_HOLD, Locking.DEFAULT_WITH_HOLD})
HELD_ONLY = frozenset({Locking.HOLD, Locking.HOLD_SET_LATER})
IN_COMPLIANCE = frozenset({Locking.COMPLIANCE, Locking.COMPLIANCE_SET_LATER})
BY_DEFAULT = frozenset({Locking.DEFAULT, Locking.DEFAULT_WITH_HOLD})
FAR = frozenset({Locking.TO_2039, Locking.TO_2107})  # allowed in one bucket, which no trial configures
_CAN_BE_BYPASSED = frozenset(Locking) - HELD - IN_COMPLIANCE

DELETIONS = frozenset(each for each in Attack if each.name.startswith(("DELETE", "BATCH"))) - {
    Attack.DELETE_RETENTION, Attack.DELETE_HOLD, Attack.DELETE_TAGS, Attack.DELETE_BUCKET,
}  # fmt: skip
OVERWRITES = frozenset({each for each in Attack if each.name.startswith("OVERWRITE")} | {Attack.APPEND, Attack.RENAME})
ON_RETENTION = frozenset({
    Attack.SHORTEN, Attack.SHORTEN_A_LITTLE, Attack.PAST_DATE, Attack.REMOVE_RETENTION, Attack.WEAKEN_MODE,
    Attack.DELETE_RETENTION,
})  # fmt: skip
ON_HOLD = frozenset({Attack.RELEASE, Attack.DELETE_HOLD})
ON_BUCKET = frozenset({
    Attack.SUSPEND, Attack.DISABLE_LOCK, Attack.REMOVE_RULE, Attack.EXPIRE, Attack.DELETE_BUCKET, Attack.FORCE_BUCKET,
})  # fmt: skip
CHANGES_BUCKET = frozenset({
    PriorEvent.VERSIONING_AGAIN, PriorEvent.SUSPENSION, PriorEvent.RULE_SET, PriorEvent.RULE_REMOVED,
    PriorEvent.LIFECYCLE, PriorEvent.BUCKET_AGAIN, PriorEvent.BUCKET_DELETION,
})  # fmt: skip
MAY_WRITE_ABOVE = frozenset({Attack.DELETE_KEY, Attack.BATCH_KEYS, Attack.EXPIRE, Attack.ENCRYPT}) | OVERWRITES
_SIGNS_ITSELF = frozenset({Attack.OVERWRITE_CHUNKS, Attack.OVERWRITE_TRAILER, Attack.OVERWRITE_FORM})
_ONE_DELETE = frozenset({Attack.DELETE, Attack.DELETE_IF_MATCH, Attack.DELETE_RETENTION, Attack.DELETE_TAGS,
                         Attack.DELETE_HOLD})  # fmt: skip
_MAY_NOT_RELEASE = frozenset({Asking.NO_HOLD, Asking.ANONYMOUS})
_LONG = frozenset({PriorEvent.MANY_NEWER, PriorEvent.UPLOAD_TWICE})  # take seconds on a slow platform
_PLAIN_LOCKS = frozenset({Locking.GOVERNANCE, Locking.COMPLIANCE})


@dataclass(slots=True)
class ExpectedRecord:
    """What the rules require of one record at the moment: at least this lock, and these bytes."""

    version: Version
    mode: str | None = None
    until: datetime | None = None  # the record is retained at least until then
    is_held: bool = False
    newer: int = 0  # versions and delete markers of its key that may be above it

    @property
    def is_current(self) -> bool:
        """Whether a read of the key without a version id must return the record."""
        return self.newer == 0

    def is_protected(self, now: datetime) -> bool:
        """Return whether nobody may delete or weaken the record for another second."""
        return self.is_held or (self.until is not None and self.until > now + timedelta(seconds=1))

    @property
    def weakening_is_s1(self) -> bool:
        """Return whether a weaker lock is of severity S1: no credential may weaken COMPLIANCE."""
        return self.mode == COMPLIANCE


def is_sensible(row: Row) -> bool:
    """Return whether the rules forbid the attack of this row to weaken its record.

    A row of some dimensions is sensible unless these values alone are not.
    """
    attack, asking, locking, event, timing = (
        row.get(each) for each in (Attack, Asking, Locking, PriorEvent, AttackTiming)
    )
    return (
        (attack is None or locking is None or _concerns(attack, locking))
        and (attack is None or asking is None or _can_be_sent(attack, asking))
        and (event is None or locking is None or _can_happen(event, locking))
        and not (
            asking is Asking.BYPASS
            and (
                (attack in DELETIONS and locking in _CAN_BE_BYPASSED)
                or (attack in ON_RETENTION and locking not in (None, *IN_COMPLIANCE))
            )
        )
        and not (event is PriorEvent.HOLD_TOGGLED and attack in ON_HOLD)
        and not (locking in FAR and (attack in ON_BUCKET or event in CHANGES_BUCKET))
        and not (timing is AttackTiming.NEAR_THE_DATE and _lasts(row))
        and not (timing is AttackTiming.AFTER_OTHERS and (locking in IN_COMPLIANCE or attack is Attack.WEAKEN_MODE))
        and not (timing is AttackTiming.AGAIN_AND_AGAIN and attack is Attack.BATCH_MANY)
        and not (row.get(Writing) is Writing.FORM and row.get(Naming) is Naming.LONGEST)
    )


def _concerns(attack: Enum, locking: Enum) -> bool:
    """Return whether the attack is about a lock that the record has."""
    if attack is Attack.WEAKEN_MODE:
        return locking in IN_COMPLIANCE
    if attack is Attack.REMOVE_RULE:
        return locking in BY_DEFAULT
    return locking in HELD if attack in ON_HOLD else locking not in HELD_ONLY or attack not in ON_RETENTION


def _can_be_sent(attack: Enum, asking: Enum) -> bool:
    """Return whether this form of the request exists, and gives no right to carry the attack out."""
    if attack is Attack.RELEASE:
        return asking in _MAY_NOT_RELEASE
    if attack in _SIGNS_ITSELF:
        return asking is Asking.OWNER
    if asking is Asking.METHOD_OVERRIDE:
        return attack in _ONE_DELETE
    if asking is Asking.SECOND_VERSION:
        return attack in (Attack.DELETE, Attack.OVERWRITE_VERSION, Attack.SHORTEN, Attack.REMOVE_RETENTION)
    return asking is not Asking.PRESIGNED or attack not in ON_BUCKET


def _can_happen(event: Enum, locking: Enum) -> bool:
    """Return whether the event leaves the lock as it is, or makes it longer."""
    if event is PriorEvent.HOLD_TOGGLED:
        return locking not in HELD
    return event not in (PriorEvent.EXTENDED, PriorEvent.SAME_AGAIN) or locking not in HELD_ONLY


def _lasts(row: Row) -> bool:
    """Return whether the sequence would not meet a date that is seconds away, or has no such date."""
    return (
        row.get(Locking, Locking.GOVERNANCE) not in _PLAIN_LOCKS
        or row.get(PriorEvent) in _LONG | {PriorEvent.EXTENDED, PriorEvent.SAME_AGAIN}
        or row.get(Writing) in (Writing.OVER_8_MIB, Writing.TWO_PARTS)
        or row.get(Attack) in ON_HOLD | {Attack.BATCH_MANY, Attack.REMOVE_RULE}
    )


def is_sensible_combination(of: Combination) -> bool:
    """Return whether the rules forbid the attack of a combination, which may have several events or none."""
    values = [each for each in (of.writing, of.locking, of.naming, of.asking, of.attack, of.timing) if each is not None]
    row: dict[type[Enum], Enum] = {type(value): value for value in values}
    return all(is_sensible({**row, PriorEvent: event}) for event in of.events or (PriorEvent.NOTHING,))
