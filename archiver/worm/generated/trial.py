"""Carries out one combination: writes and locks a record, lets things happen to it, attacks it, and judges its state.

One idea: a trial has two halves, so that an attack may come after other trials. Each ends in one verdict. No answer of
the attack is a proof: an error of the server leaves the trial inconclusive, unless the record was harmed.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import NoReturn

from archiver.worm.case import COMPLIANCE, GOVERNANCE, LOCK_SECONDS, Case, ObjectLock, instant_of, iso, lock_headers
from archiver.worm.generated.asking import CONTROLLED, NOT_IN_SCRIPTS, asking_client
from archiver.worm.generated.attacks import ATTACKS, AttackTarget
from archiver.worm.generated.dimensions import AttackTiming, Combination, Locking, Writing
from archiver.worm.generated.events import EVENTS, Scene
from archiver.worm.generated.judge import LISTING, RecordHarm, harm_to
from archiver.worm.generated.names import named
from archiver.worm.generated.rules import (
    BY_DEFAULT,
    CHANGES_BUCKET,
    DELETIONS,
    FAR,
    HELD,
    HELD_ONLY,
    IN_COMPLIANCE,
    MAY_WRITE_ABOVE,
    ON_BUCKET,
    ON_HOLD,
    ON_RETENTION,
    OVERWRITES,
    ExpectedRecord,
)
from archiver.worm.generated.writing import WRITERS, WritePlace
from archiver.worm.listing import with_id
from archiver.worm.requests.exchange import Answer, Headers
from archiver.worm.verdict import CheckEnded, CheckVerdict, Failed, Inconclusive, NotOffered

COMPLIANCE_LOCK_SECONDS = 15.0  # an event may extend it
LONG_LOCK_SECONDS = 900.0  # of records that are attacked after others
NEAR_SECONDS, BEFORE_SECONDS = 8.0, 3.0  # locks that nearly expire: their length, and how long before it the attack is
TIMES, AT_THE_SAME_TIME = 30, 8
_DEFAULT_SECONDS = 86_400.0 - 120.0  # a default of a day, by a clock that may differ
_DATES = {Locking.TO_2039: datetime(2039, 2, 1, tzinfo=UTC), Locking.TO_2107: datetime(2107, 2, 1, tzinfo=UTC)}
_SET_LATER = frozenset({Locking.SET_LATER, Locking.COMPLIANCE_SET_LATER})


class Bench:
    """What some trials share: how a case starts, and buckets that none of them configures."""

    def __init__(self, start: Callable[[str], Case]) -> None:
        self.start = start
        self._buckets: dict[str, str] = {}
        self._making: threading.Lock = threading.Lock()

    def with_lock(self, case: Case) -> str:
        """Return the bucket with Object Lock and no default rule."""
        return self._shared("lock", case.new_bucket)

    def by_default(self, case: Case) -> str:
        """Return the bucket whose default rule locks for a day."""
        return self._shared("default", lambda: _with_rule(case))

    def without_lock(self, case: Case) -> str:
        """Return the bucket without Object Lock, for sources of copies."""
        return self._shared("plain", lambda: case.new_bucket(lock=False))

    def _shared(self, name: str, make: Callable[[], str]) -> str:
        with self._making:
            if name not in self._buckets:
                self._buckets[name] = make()
            return self._buckets[name]


def family_of(combination: Combination) -> str:
    """Return the public name of the attack's family."""
    attack = combination.attack
    if attack is None:
        return "GEN-STORE"
    kinds = {"GEN-DELETE": DELETIONS, "GEN-OVERWRITE": OVERWRITES, "GEN-SHORTEN": ON_RETENTION, "GEN-RELEASE": ON_HOLD,
             "GEN-BUCKET": ON_BUCKET}  # fmt: skip
    return next((name for name, attacks in kinds.items() if attack in attacks), "GEN-SUBRESOURCE")


@dataclass(slots=True)
class Trial:
    """One combination on one platform. ``verdict`` is None until it has ended."""

    bench: Bench
    combination: Combination
    verdict: CheckVerdict | None = None
    reason: str = ""
    harm: RecordHarm | None = None
    family: str = ""
    was_attacked: bool = False
    was_kept: bool = False  # the record was judged after the attack, and was as it must be
    case: Case = field(init=False)
    _record: ExpectedRecord = field(init=False)
    _etag: str = ""

    def __post_init__(self) -> None:
        self.family = family_of(self.combination)
        self.case = self.bench.start(self.family)

    def run(self) -> Trial:
        """Carry out both halves and return the trial."""
        self.prepare()
        self.attack()
        return self

    def prepare(self) -> None:
        """Write and lock the record, and let things happen to it."""
        self._until_ended(self._prepare)

    def attack(self) -> None:
        """Attack the record and judge it, if it could be prepared."""
        if self.verdict is None:
            self._until_ended(self._attack)
        if self.verdict is None:
            self.verdict = CheckVerdict.PASS
        self.case.tidy()

    def _until_ended(self, half: Callable[[], None]) -> None:
        try:
            half()
        except CheckEnded as ended:
            self.verdict, self.reason = ended.verdict, str(ended)
        except Exception:  # noqa: BLE001 - an unforeseen answer must not end the run
            last = traceback.format_exc(limit=-2).strip().replace("\n", " | ")
            self.verdict, self.reason = CheckVerdict.INCONCLUSIVE, f"the trial itself ended with an error: {last}"

    # ---- the first half

    def _prepare(self) -> None:
        self._record = self._stored()
        self._judge("GEN-STORE", "after it was written and locked", self._last_change())
        for event in self.combination.events:
            EVENTS[event](Scene(self.case, self._record))
        if self.combination.events:
            self._judge("GEN-HISTORY", f"after {self.combination.events[-1].value}", self._last_change())

    def _last_change(self) -> list[Answer]:
        """Return the answer to the last request that may have changed something."""
        changes = [each for each in self.case.record if each.method not in ("GET", "HEAD")]
        return [Answer(each.status or 0, {}, b"", each) for each in changes[-1:]]

    def _stored(self) -> ExpectedRecord:
        """Write and lock the record. Raises NotOffered if the platform refuses, as far as the state allows that."""
        case, locking = self.case, self.combination.locking
        bucket = self._bucket()
        lock = self._lock()
        headers: Headers = ()
        if locking not in _SET_LATER | {Locking.HOLD_SET_LATER}:
            headers = self._dated(lock_headers(lock, "ON" if locking in HELD else None))
        place = WritePlace(
            case.client, bucket, named(case.key(), self.combination.naming), headers, self._other_bucket()
        )
        before = case.now()
        answer, version = WRITERS[self.combination.writing](case, place)
        if not answer.ok:
            raise NotOffered(f"writing the record was answered {answer}")
        try:
            version = with_id(case, version)
        except Failed as failed:
            self._fail(RecordHarm("no version", "S2", str(failed)), "GEN-STORE", "after it was written", [answer])
        if locking in _SET_LATER:
            assert lock is not None
            answer = case.set_retention(version, lock)
        elif locking is Locking.HOLD_SET_LATER:
            answer = case.set_hold(version, "ON")
        if not answer.ok:
            raise NotOffered(f"locking the record was answered {answer}")
        self._etag = answer.headers.get("etag", "*")
        if locking in BY_DEFAULT:
            lock = ObjectLock(GOVERNANCE, before + timedelta(seconds=_DEFAULT_SECONDS))
        mode, until = lock if lock is not None else (None, None)
        return ExpectedRecord(version, mode, until, is_held=locking in HELD)

    def _bucket(self) -> str:
        case, of = self.case, self.combination
        if of.attack in ON_BUCKET or CHANGES_BUCKET.intersection(of.events):
            return _with_rule(case) if of.locking in BY_DEFAULT else case.new_bucket()
        if of.locking in FAR:
            return case.bucket  # the ledger knows that its locks may be far
        return self.bench.by_default(case) if of.locking in BY_DEFAULT else self.bench.with_lock(case)

    def _other_bucket(self) -> str:
        return self.bench.without_lock(self.case) if self.combination.writing is Writing.COPY_ACROSS else ""

    def _lock(self) -> ObjectLock | None:
        """Return the retention that the record shall have, unless the bucket's rule or a hold locks it."""
        locking, timing = self.combination.locking, self.combination.timing
        if locking in BY_DEFAULT | HELD_ONLY:
            return None
        if locking in _DATES:
            return ObjectLock(GOVERNANCE, _DATES[locking])
        seconds = NEAR_SECONDS if timing is AttackTiming.NEAR_THE_DATE else LOCK_SECONDS
        seconds = LONG_LOCK_SECONDS if timing is AttackTiming.AFTER_OTHERS else seconds
        if locking not in IN_COMPLIANCE:
            return self.case.lock(GOVERNANCE, seconds)
        return self.case.lock(COMPLIANCE, min(seconds, COMPLIANCE_LOCK_SECONDS))

    def _dated(self, headers: Headers) -> Headers:
        """Return the headers with the date in the form of the combination."""

        def form(value: str) -> str:
            until = instant_of(value)
            if until is None or self.combination.locking is Locking.GOVERNANCE:
                return value
            if self.combination.locking is Locking.IN_A_ZONE:
                return until.astimezone(timezone(timedelta(hours=2))).isoformat(timespec="seconds")
            if self.combination.locking is Locking.WHOLE_SECONDS:
                return iso(until).partition(".")[0] + "Z"
            return value

        return [(name, form(value) if name.endswith("-date") else value) for name, value in headers]

    # ---- the second half

    def _attack(self) -> None:
        attack, case, record = self.combination.attack, self.case, self._record
        if attack is None:
            return
        self.was_attacked = True
        client = asking_client(case, self.combination.asking)
        if self.combination.asking in NOT_IN_SCRIPTS:
            case.has_all = False
        target = AttackTarget(case, client, record, self._etag)
        if self.combination.timing is AttackTiming.NEAR_THE_DATE:
            assert record.until is not None
            case.wait_until(record.until - timedelta(seconds=BEFORE_SECONDS))
        record.newer += attack in MAY_WRITE_ABOVE
        answers, ends = self._answers(lambda: ATTACKS[attack](target))
        self._judge(self.family, "after the attack", answers)
        self.was_kept = True
        if ends:
            raise ends[0]
        if self.combination.asking in CONTROLLED and attack in DELETIONS:
            case.control(client)  # a refusal proves nothing if this credential can delete nothing

    def _answers(self, attack: Callable[[], Answer]) -> tuple[list[Answer], list[CheckEnded]]:
        """Carry the attack out as often as its time says. Return the answers to show, and failures to answer."""
        ends: list[CheckEnded] = []

        def one() -> Answer | None:
            try:
                return attack()
            except CheckEnded as ended:
                ends.append(ended)
                return None

        if self.combination.timing is AttackTiming.TOGETHER:
            with ThreadPoolExecutor(AT_THE_SAME_TIME) as pool:
                found = list(pool.map(lambda _: one(), range(AT_THE_SAME_TIME)))
        else:
            times = TIMES if self.combination.timing is AttackTiming.AGAIN_AND_AGAIN else 1
            found = [one() for _ in range(times)][-1:]
        return [each for each in found if each is not None], ends

    def _judge(self, family: str, when: str, answers: list[Answer]) -> None:
        """Raise Failed, with the finding noted, if the record is not as the rules require."""
        harm = harm_to(self.case, self._record)
        if harm is not None:
            self._fail(harm, family, when, answers)
        if family == "GEN-STORE" and self.combination.locking in BY_DEFAULT:
            self._record.until = self.case.state(self._record.version).until  # events may set it again

    def _fail(self, harm: RecordHarm, family: str, when: str, answers: list[Answer]) -> NoReturn:
        """Note the finding and raise Failed."""
        self.harm = harm
        self.family = LISTING if harm.is_only_shown else family
        words = f"{when}, {harm.words}"
        self.case.mark(CheckVerdict.FAIL, words, harm.severity, answers)
        raise Failed(words, harm.severity, answers)


def _with_rule(case: Case) -> str:
    """Create a bucket whose default rule locks for a day."""
    bucket = case.new_bucket()
    answer = case.set_default(bucket)
    if not answer.ok:
        raise Inconclusive(f"the bucket's default rule was answered {answer}")
    return bucket
