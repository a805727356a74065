"""What a TSM check works with: sessions, its own names, the retention calls, and ways to judge an answer.

One idea: as with S3, the state after a call decides, not the answer. After every attempt a check reads the object
twice: a query shows class, date, event and hold, a retrieve returns the bytes. The vote's result is only compared.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from archiver.worm.check_run import CheckRun
from archiver.worm.tsm.calls import ApiCall, CallResult, RecordingSession, Row, TsmClient, name_of
from archiver.worm.verdict import CheckEnded, Failed, Inconclusive, NotTried
from backends.tsm.library import structures as abi
from backends.tsm.library.api import seconds_of
from backends.tsm.library.codes import Code, describe

LASTING_SECONDS_MIN = 60.0  # longer than any check
WAIT_SECONDS_MAX = 30.0
BODY_BYTES = 1000
_LOOKS_AT_CLOCK_MAX = 10


@dataclass(frozen=True, slots=True)
class ArchiveClass:
    """A management class under which checks may archive, because the user agreed to its retention."""

    name: str
    retver_seconds: float
    by_event: bool = False
    retmin_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """Retention from the archive operation, or from an event that follows at once."""
        return max(self.retver_seconds, self.retmin_seconds)


class Stored(NamedTuple):
    """One archived object that a check created."""

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
    read: CallResult  # result of the retrieve

    @property
    def held(self) -> bool:
        return self.row is not None and self.row.held == abi.DSM_ARCH_HELD_TRUE

    @property
    def expires(self) -> int | None:
        return self.row.expires if self.row is not None else None


@dataclass(slots=True)
class TsmCase(CheckRun):
    """One run of one check over TSM.

    ``space`` is shared with other checks: a check may use only names of ``new_name`` in it, and archive only under
    ``classes``. ``close`` ends its sessions; ``tidy`` releases and deletes its objects as far as the server lets it.
    """

    client: TsmClient
    space: str
    classes: Sequence[ArchiveClass]
    make_space: Callable[[], str]  # a file space for one check; enters it into the ledger first
    other: TsmClient | None = None  # another node of the same server
    plain_options: str | None = None  # options of a session without retention protection
    wait: Callable[[float], None] = time.sleep
    _own: RecordingSession | None = None
    _sessions: list[RecordingSession] = field(default_factory=list)
    _made: list[Stored] = field(default_factory=list)
    _controlled: bool = False

    @property
    def record(self) -> list[ApiCall]:
        return self.client.record

    # ---- sessions and clock

    @property
    def session(self) -> RecordingSession:
        """The check's own session, which sees objects of all owners of its node."""
        if self._own is None:
            self._own = self.sign_on()
        return self._own

    def sign_on(self, client: TsmClient | None = None, *, owner: str | None = None) -> RecordingSession:
        """Open another session. Raises Inconclusive if the server refuses it."""
        outcome, session = (client or self.client).recording(self.record).sign_on(owner=owner)
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
        """Return the server's clock in whole seconds of its local time, as its dates are."""
        return seconds_of(self.session.information().serverDate) or 0

    def wait_past(self, instant: float) -> None:
        """Wait until the server's clock has passed ``instant``. Its dates are cut to whole seconds."""
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
        """Return the shortest creation-based class that outlasts the check. Raises NotTried."""
        found = self._by_creation(LASTING_SECONDS_MIN, float("inf"))
        return _first(found, f"needs a management class with RETVER of at least {LASTING_SECONDS_MIN:.0f} s")

    def brief_class(self) -> ArchiveClass:
        """Return a creation-based class that expires within seconds, but not too early to test. Raises NotTried."""
        found = self._by_creation(2, WAIT_SECONDS_MAX)
        return _first(found, "needs a management class with a RETVER of seconds, which this server lacks")

    def expired_class(self) -> ArchiveClass | None:
        """Return a class under which objects expire at once, or None."""
        return next((each for each in self.classes if not each.by_event and not each.retver_seconds), None)

    def event_classes(self) -> list[ArchiveClass]:
        """Return the event-based classes, shortest first. Raises NotTried if there is none."""
        found = sorted((each for each in self.classes if each.by_event), key=lambda each: each.seconds)
        _first(found, "needs a management class with RETINIT=EVENT")
        return found

    def brief_event_class(self) -> ArchiveClass:
        """Return an event-based class that retains for seconds after the event. Raises NotTried."""
        found = [each for each in self.event_classes() if each.seconds <= WAIT_SECONDS_MAX]
        return _first(found, "needs an event-based management class with RETVER and RETMIN of seconds")

    def _by_creation(self, least: float, most: float) -> list[ArchiveClass]:
        found = [each for each in self.classes if not each.by_event and least <= each.retver_seconds <= most]
        return sorted(found, key=lambda each: each.retver_seconds)

    # ---- objects

    def new_name(self, space: str | None = None) -> Any:
        """Return a new name that no other check uses."""
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
        """Archive an object under a class, by default ``lasting_class``. Raises Inconclusive if that fails."""
        used, wanted = session or self.session, name if name is not None else self.new_name()
        content = body if body is not None else secrets.token_bytes(BODY_BYTES)
        class_name = (kept_by or self.lasting_class()).name
        known = {each.id for each in self._made}
        outcome = used.send(wanted, content, class_name)
        if not outcome.ok:
            raise Inconclusive(f"an object could not be archived under class {class_name}: {outcome}")
        rows = [row for row in self.session.archives(wanted) if row.id not in known]
        if not rows:
            raise Inconclusive("an object was archived, but no query shows it")
        stored = Stored(rows[-1].id, wanted, content)
        self._made.append(stored)
        if rows[-1].management_class != class_name:
            raise Inconclusive(f"{stored} was archived under {class_name}, but is under {rows[-1].management_class}")
        return stored

    def expired(self, session: RecordingSession | None = None) -> Stored:
        """Return an object that has expired. Raises NotTried if no class expires within seconds."""
        stored = self.archived(self.expired_class() or self.brief_class(), session=session)
        self.wait_for_expiry(stored)
        return stored

    def wait_for_expiry(self, stored: Stored) -> None:
        """Wait until the date that the server shows has passed."""
        state = self.state(stored)
        if state.expires is None:
            raise Inconclusive(f"{stored} has no date of expiry")
        # An object that expired when it was archived needs no waiting: the server gave it a date in the past.
        if state.row is not None and state.row.archived != state.row.expires:
            self.wait_past(state.expires)

    def held(self, stored: Stored) -> ArchivedState:
        """Put a hold on an object to prepare a check. Raises Inconclusive if that fails."""
        outcome = self.event("hold", stored)
        state = self.state(stored)
        if not outcome.ok or not state.held:
            raise Inconclusive(f"{stored} could not be held ({outcome})")
        return state

    def state(self, stored: Stored) -> ArchivedState:
        """Read the object again: its query and its bytes."""
        rows = {row.id: row for row in self.session.archives(stored.name)}
        body, read = self.session.retrieve(stored.id)
        return ArchivedState(stored, rows.get(stored.id), body, read)

    def delete(self, *objects: Stored, session: RecordingSession | None = None) -> CallResult:
        """Delete objects in one transaction."""
        return (session or self.session).delete([each.id for each in objects])

    def event(self, event: str, *objects: Stored, session: RecordingSession | None = None) -> CallResult:
        """Activate, hold or release objects in one transaction."""
        return (session or self.session).event(event, [each.id for each in objects])

    # ---- judging

    def must_survive(self, *objects: Stored) -> None:
        """Fail unless a query shows each object and a retrieve returns its bytes."""
        for stored in objects:
            self._intact(self.state(stored))

    def must_keep(self, *befores: ArchivedState) -> None:
        """Fail if an object is gone or less protected than ``before``: class, date, hold, pending event."""
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
                weaker = "has a date of expiry, but had none before"
            elif is_pending(before) and not is_pending(after):
                weaker = "no longer waits for its event"
            else:
                continue
            raise Failed(f"{before.stored} {weaker}")

    def must_refuse(self, outcome: CallResult, what: str, codes: Sequence[int], *befores: ArchivedState) -> None:
        """Fail if an object changed. A code other than IBM's is a deviation; without ``codes`` any error is right."""
        self.must_keep(*befores)
        self._compare(outcome, what, codes)

    def must_refuse_delete(self, outcome: CallResult, what: str, *befores: ArchivedState) -> None:
        """Check a refusal with IBM's 248 at the vote; then check that this node can delete an expired object."""
        self.must_refuse(outcome, what, (Code.ABORT_DELETE_NOT_ALLOWED,), *befores)
        if outcome.code == Code.ABORT_DELETE_NOT_ALLOWED:
            self.deviate(f"{what} was refused by {outcome.function} already; IBM's server refuses it at the vote")
        self.control(outcome)

    def must_allow(self, outcome: CallResult, what: str) -> None:
        if not outcome.ok:
            raise Failed(f"{what} must be allowed, and was answered {outcome}")

    def must_be_gone(self, stored: Stored, what: str) -> None:
        """Fail if a query shows a deleted object or a retrieve returns it."""
        state = self.state(stored)
        if state.row is not None or state.body is not None:
            raise Failed(f"{what} was accepted, but {stored} is still there")

    def control(self, refusal: CallResult) -> None:
        """Check that this node can delete an expired object. Raises Inconclusive; without it a refusal proves nothing.

        If no class lets an object expire in time, a refusal with the code of retention is enough if the node may delete
        archives.
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
        expected = " or ".join(map(describe, codes)) or "with an error"
        if outcome.ok:
            self.deviate(f"{what} was accepted, though nothing changed; IBM's server answers {expected}")
        elif codes and outcome.deciding_code not in codes:
            self.deviate(f"{what} was answered {outcome}; IBM's server answers {expected}")

    # ---- afterwards

    def tidy(self) -> None:
        """Release, activate and delete the check's objects as far as the server lets it; the rest expires by itself.

        ``notes`` names objects that would stay forever.
        """
        self.close()
        if not self._made:
            return
        evidence, self.client = self.client, self.client.recording([])
        try:
            for stored in self._made:
                self._release_and_delete(stored)
        except CheckEnded as ended:
            self.notes.append(f"clean-up stopped: {ended}")
        finally:
            self.close()
            self.client = evidence

    def _release_and_delete(self, stored: Stored) -> None:
        row = next((row for row in self.session.archives(stored.name) if row.id == stored.id), None)
        if row is None:
            return
        wanted = [("release", row.held == abi.DSM_ARCH_HELD_TRUE)]
        wanted.append(("activate", row.initiated == abi.DSM_ARCH_RETINIT_PENDING))
        for event, is_due in wanted:
            outcome = self.event(event, stored) if is_due else None
            if outcome is not None and not outcome.ok:
                self.notes.append(f"{stored} stays permanently: {event} was answered {outcome}")
        self.delete(stored)  # refused before its date; then it expires by itself


def is_pending(state: ArchivedState) -> bool:
    """Return whether the object waits for its event."""
    return state.row is not None and state.row.initiated == abi.DSM_ARCH_RETINIT_PENDING


def _first(found: Sequence[ArchiveClass], otherwise: str) -> ArchiveClass:
    if not found:
        raise NotTried(otherwise)
    return found[0]
