"""What a TSM check has to work with: sessions, names of its own, the retention calls, and the ways to judge an answer.

One idea: as for S3, an answer is judged by the state it leaves. After every attempt an object is asked for twice, with
a query for its class, date, event and hold, and with a retrieve for its bytes; what the vote said is only compared.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archiver.worm.tsm.calls import ApiCall, CallResult, RecordingSession, Row, TsmClient, name_of
from archiver.worm.verdict import CheckEnded, Failed, Inconclusive, NotTried
from backends.tsm.library import structures as abi
from backends.tsm.library.api import ReportedManagementClass, seconds_of
from backends.tsm.library.codes import Code, describe

DAY_SECONDS = 86_400
LASTING_SECONDS_MIN = 60.0  # outlasts any check
WAIT_SECONDS_MAX = 30.0
BODY_BYTES = 1000
_LOOKS_AT_CLOCK_MAX = 10


@dataclass(frozen=True, slots=True)
class ArchiveClass:
    """A management class that checks may archive under, because its user agreed to what it locks."""

    name: str
    retver_seconds: float
    by_event: bool = False
    retmin_seconds: float = 0.0
    slack_seconds: float = 0.0  # by which its lengths, as they are known, may be too long

    @classmethod
    def told(cls, found: ReportedManagementClass) -> ArchiveClass | None:
        """As a server tells it, in whole days, rounded up; None where it archives nothing, or for good."""
        if not found.archives or found.retver_days is None:
            return None
        retver, retmin = found.retver_days * DAY_SECONDS, found.retmin_days * DAY_SECONDS
        return cls(found.name, retver, found.by_event, retmin, DAY_SECONDS)

    @property
    def seconds(self) -> float:
        """From archiving, and from an event that follows at once."""
        return max(self.retver_seconds, self.retmin_seconds)


class Stored(NamedTuple):
    """One archived object that a check made."""

    id: int
    name: Any  # dsmObjName
    body: bytes

    def __str__(self) -> str:
        return f"object {self.id} ({bytes(self.name.fs + self.name.hl + self.name.ll).decode()})"


@dataclass(frozen=True, slots=True)
class ArchivedState:
    """An object as the server shows it."""

    stored: Stored
    row: Row | None  # None: no query shows it
    body: bytes | None  # None: it cannot be retrieved
    read: CallResult  # how retrieving it ended

    @property
    def held(self) -> bool:
        return self.row is not None and self.row.held == abi.DSM_ARCH_HELD_TRUE

    @property
    def expires(self) -> int | None:
        return self.row.expires if self.row is not None else None


@dataclass(slots=True)
class TsmCase:
    """One run of one TSM check.

    ``space`` is shared with other checks: only names of ``new_name`` may be used in it. ``classes`` are those that may
    be archived under. ``close`` ends its sessions; ``tidy`` lets go what it can of what the check made.
    """

    check_id: str
    client: TsmClient
    space: str
    classes: Sequence[ArchiveClass]
    make_space: Callable[[], str]  # a file space for one check alone, known to the ledger before it is registered
    other: TsmClient | None = None  # another node of the same server
    plain_options: str | None = None  # with which a session certainly does not enable retention protection
    wait: Callable[[float], None] = time.sleep
    record: list[ApiCall] = field(default_factory=list)
    deviations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _own: RecordingSession | None = None
    _sessions: list[RecordingSession] = field(default_factory=list)
    _made: list[Stored] = field(default_factory=list)
    _controlled: bool = False

    # ---- sessions and clock

    @property
    def session(self) -> RecordingSession:
        """The check's own session, for all owners of its node."""
        if self._own is None:
            self._own = self.sign_on()
        return self._own

    def sign_on(self, client: TsmClient | None = None, *, owner: str | None = None) -> RecordingSession:
        """Another session. Raises Inconclusive where it is refused."""
        outcome, session = (client or self.client).sign_on(self.record, owner=owner)
        self._sessions.append(session)
        if not outcome.ok:
            raise Inconclusive(f"could not sign on: {outcome}")
        return session

    def close(self) -> None:
        """End every session."""
        self._own = None
        while self._sessions:
            self._sessions.pop().terminate()

    def now(self) -> int:
        """The server's clock: whole seconds of its local time, in which its dates are."""
        return seconds_of(self.session.information().serverDate) or 0

    def wait_past(self, instant: float) -> None:
        """Until the server's clock has certainly passed it: dates are cut to whole seconds."""
        for _ in range(_LOOKS_AT_CLOCK_MAX):
            left = instant + 1 - self.now()
            if left <= 0:
                return
            if left > WAIT_SECONDS_MAX:
                raise NotTried(f"would have to wait for {left:.0f} s")
            self.wait(left)
        raise Inconclusive("the server's clock does not advance")

    # ---- classes

    def lasting_class(self) -> ArchiveClass:
        """The shortest from creation that outlasts the check. Raises NotTried."""
        found = self._by_creation(LASTING_SECONDS_MIN, float("inf"))
        return _first(found, f"needs a management class with RETVER of at least {LASTING_SECONDS_MIN:.0f} s")

    def brief_class(self) -> ArchiveClass:
        """One from creation whose end can be waited for, but not missed. Raises NotTried."""
        found = [each for each in self._by_creation(2, WAIT_SECONDS_MAX) if not each.slack_seconds]
        return _first(found, "needs a management class with a RETVER of seconds, which this server has not")

    def expired_class(self) -> ArchiveClass | None:
        """One under which objects have expired when they are archived."""
        return next((each for each in self.classes if not each.by_event and not each.retver_seconds), None)

    def event_classes(self) -> list[ArchiveClass]:
        """Those that wait for an event, shortest first. Raises NotTried where there is none."""
        found = sorted((each for each in self.classes if each.by_event), key=lambda each: each.seconds)
        _first(found, "needs a management class with RETINIT=EVENT")
        return found

    def brief_event_class(self) -> ArchiveClass:
        """One that waits for an event, and then for seconds. Raises NotTried."""
        found = [each for each in self.event_classes() if each.seconds <= WAIT_SECONDS_MAX and not each.slack_seconds]
        return _first(found, "needs an event-based management class with RETVER and RETMIN of seconds")

    def _by_creation(self, least: float, most: float) -> list[ArchiveClass]:
        found = [each for each in self.classes if not each.by_event and least <= each.retver_seconds <= most]
        return sorted(found, key=lambda each: each.retver_seconds)

    # ---- objects

    def new_name(self, space: str | None = None) -> Any:
        """A name that nobody else uses."""
        high_level = f"/worm/{self.check_id}/{secrets.token_hex(4)}"
        return name_of(space or self.space, high_level, f"/{secrets.token_hex(4)}")

    def archived(
        self,
        kept_by: ArchiveClass | None = None,
        *,
        name: Any = None,
        body: bytes | None = None,
        session: RecordingSession | None = None,
    ) -> Stored:
        """An object under a class, the lasting one by default. Raises Inconclusive where it cannot be archived."""
        used, wanted = session or self.session, name if name is not None else self.new_name()
        content = body if body is not None else secrets.token_bytes(BODY_BYTES)
        class_name = (kept_by or self.lasting_class()).name
        known = {each.id for each in self._made}
        outcome = used.send(wanted, content, class_name)
        if not outcome.ok:
            raise Inconclusive(f"an object could not be archived under class {class_name}: {outcome}")
        rows = [row for row in self.session.archives(wanted) if row.id not in known]
        if not rows:
            raise Inconclusive("an object was archived, and no query shows it")
        stored = Stored(rows[-1].id, wanted, content)
        self._made.append(stored)
        if rows[-1].management_class != class_name:
            raise Inconclusive(f"{stored} was archived under {class_name}, and is under {rows[-1].management_class}")
        return stored

    def expired(self, session: RecordingSession | None = None) -> Stored:
        """An object whose time has passed. Raises NotTried where no class makes one in seconds."""
        stored = self.archived(self.expired_class() or self.brief_class(), session=session)
        self.wait_for_expiry(stored)
        return stored

    def wait_for_expiry(self, stored: Stored) -> None:
        """Until the date that the server shows has passed."""
        state = self.state(stored)
        if state.expires is None:
            raise Inconclusive(f"{stored} has no date of expiry")
        # What expired as it was archived needs no waiting: its date was in the past when the server made it.
        if state.row is not None and state.row.archived != state.row.expires:
            self.wait_past(state.expires)

    def held(self, stored: Stored) -> ArchivedState:
        """Put a hold on it, as something to go on from. Raises Inconclusive where that is not possible."""
        outcome = self.event("hold", stored)
        state = self.state(stored)
        if not outcome.ok or not state.held:
            raise Inconclusive(f"{stored} could not be held ({outcome})")
        return state

    def state(self, stored: Stored) -> ArchivedState:
        """What the server shows of it now, and the bytes it gives."""
        rows = {row.id: row for row in self.session.archives(stored.name)}
        body, read = self.session.retrieve(stored.id)
        return ArchivedState(stored, rows.get(stored.id), body, read)

    def delete(self, *objects: Stored, session: RecordingSession | None = None) -> CallResult:
        """Delete them in one transaction."""
        return (session or self.session).delete([each.id for each in objects])

    def event(self, event: str, *objects: Stored, session: RecordingSession | None = None) -> CallResult:
        """activate, hold or release, in one transaction."""
        return (session or self.session).event(event, [each.id for each in objects])

    # ---- judging

    def must_survive(self, *objects: Stored) -> None:
        """Each is there, byte for byte, in queries and for retrieving."""
        for stored in objects:
            self._intact(self.state(stored))

    def must_keep(self, *befores: ArchivedState) -> None:
        """Each is there, and kept by no less than ``before``: class, date, hold, the event it waits for."""
        for before in befores:
            after = self.state(before.stored)
            self._intact(after)
            assert before.row is not None
            assert after.row is not None
            if after.row.management_class != before.row.management_class:
                weaker = f"is under {after.row.management_class}, no longer {before.row.management_class}"
            elif before.held and not after.held:
                weaker = "is no longer held"
            elif before.expires is not None and after.expires is not None and after.expires < before.expires:
                weaker = f"expires {before.expires - after.expires} s earlier than before"
            elif before.expires is None and after.expires is not None:
                weaker = "has a date of expiry, and had none"
            elif is_pending(before) and not is_pending(after):
                weaker = "waits for its event no longer"
            else:
                continue
            raise Failed(f"{before.stored} {weaker}")

    def must_refuse(self, outcome: CallResult, what: str, codes: Sequence[int], *befores: ArchivedState) -> None:
        """The objects are as they were; an answer with another code than IBM's (none: any) is a deviation."""
        self.must_keep(*befores)
        self._compare(outcome, what, codes)

    def must_refuse_delete(self, outcome: CallResult, what: str, *befores: ArchivedState) -> None:
        """As ``must_refuse``, with IBM's 248 at the vote, and this node is seen to delete what has expired."""
        self.must_refuse(outcome, what, (Code.ABORT_DELETE_NOT_ALLOWED,), *befores)
        if outcome.code == Code.ABORT_DELETE_NOT_ALLOWED:
            self.deviate(f"{what} was refused by {outcome.function} already; IBM's server refuses it at the vote")
        self.control(outcome)

    def must_allow(self, outcome: CallResult, what: str) -> None:
        if not outcome.ok:
            raise Failed(f"{what} must be allowed, and was answered {outcome}")

    def must_be_gone(self, stored: Stored, what: str) -> None:
        """What was deleted is neither shown nor given any more."""
        state = self.state(stored)
        if state.row is not None or state.body is not None:
            raise Failed(f"{what} was accepted, but {stored} is still there")

    def deviate(self, words: str) -> None:
        """The state is right, the answer is not IBM's."""
        self.deviations.append(words)

    def control(self, refusal: CallResult) -> None:
        """The same node deletes an expired object; else a refusal proves nothing. Raises Inconclusive.

        Where no class lets an object expire in time, a refusal by a node that may delete archives, with the very code
        of retention, has to do.
        """
        if self._controlled:
            return
        try:
            doomed = self.expired()
        except NotTried:
            may_delete = self.session.information().archDel == abi.ARCHDEL_YES
            if not may_delete or refusal.deciding_code != Code.ABORT_DELETE_NOT_ALLOWED:
                raise Inconclusive(
                    f"no class lets an object expire in seconds, so nothing shows that {refusal} is about retention"
                ) from None
            self.notes.append("no control: no class lets an object expire in seconds")
            self._controlled = True
            return
        outcome = self.delete(doomed)
        if not outcome.ok or self.state(doomed).row is not None:
            raise Inconclusive(f"the control failed: this node cannot delete an expired object either ({outcome})")
        self._controlled = True

    def _intact(self, state: ArchivedState) -> None:
        stored = state.stored
        if state.row is None and state.body is None:
            raise Failed(f"{stored} is gone")
        if state.row is None:
            raise Failed(f"{stored} is no longer shown by a query")
        if state.body is None:
            raise Failed(f"{stored} can no longer be retrieved ({state.read})")
        if state.body != stored.body:
            raise Failed(f"{stored} has other bytes than were archived")

    def _compare(self, outcome: CallResult, what: str, codes: Sequence[int]) -> None:
        theirs = " or ".join(map(describe, codes)) or "with an error"
        if outcome.ok:
            self.deviate(f"{what} was accepted, though nothing changed; IBM's server answers {theirs}")
        elif codes and outcome.deciding_code not in codes:
            self.deviate(f"{what} was answered {outcome}; IBM's server answers {theirs}")

    # ---- afterwards

    def tidy(self) -> None:
        """Release, activate and delete what the check made, as far as the server lets; the rest expires by itself.

        In a session of its own, and no evidence. What would stay for good is said in ``notes``.
        """
        self.close()
        if not self._made:
            return
        evidence, self.record = self.record, []
        try:
            for stored in self._made:
                self._let_go(stored)
        except CheckEnded as ended:
            self.notes.append(f"not tidied up: {ended}")
        finally:
            self.close()
            self.record = evidence

    def _let_go(self, stored: Stored) -> None:
        row = next((row for row in self.session.archives(stored.name) if row.id == stored.id), None)
        if row is None:
            return
        wanted = [("release", row.held == abi.DSM_ARCH_HELD_TRUE)]
        wanted.append(("activate", row.initiated == abi.DSM_ARCH_RETINIT_PENDING))
        for event, is_due in wanted:
            outcome = self.event(event, stored) if is_due else None
            if outcome is not None and not outcome.ok:
                self.notes.append(f"{stored} stays for good: {event} was answered {outcome}")
        self.delete(stored)  # refused before its time, and then it expires by itself


def is_pending(state: ArchivedState) -> bool:
    """Whether it waits for its event."""
    return state.row is not None and state.row.initiated == abi.DSM_ARCH_RETINIT_PENDING


def _first(found: Sequence[ArchiveClass], otherwise: str) -> ArchiveClass:
    if not found:
        raise NotTried(otherwise)
    return found[0]
