"""TSM: a server with archive retention protection, through the TSM client API. Any node can run these checks."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable

from archiver.worm.checks import check
from archiver.worm.tsm.calls import CallResult, RecordingSession
from archiver.worm.tsm.case import ArchiveClass, ArchivedState, Stored, TsmCase, is_pending
from archiver.worm.verdict import CheckEnded, Failed, Inconclusive, NotOffered, NotTried
from backends.tsm.library import structures as abi
from backends.tsm.library.codes import Code, describe

EVENT_CLASSES_TRIED = 3
HELD_SECONDS = 2.0  # long enough to change dates of whole seconds
LARGE_BYTES = 600_000  # more than one buffer
KEEPER, STRANGER = "keeper", "stranger"
_ENABLES = "-ENABLEARCHIVERETENTIONPROTECTION"
_NOT_THE_OWNERS = (Code.ABORT_NODE_NOT_AUTHORIZED, Code.ABORT_NOT_AUTHORIZED)


@check("TSM-01")
def says_it_is_protected(case: TsmCase) -> None:
    if not case.session.information().archiveRetentionProtection:
        raise Failed("the server says that its archive retention protection is off")


@check("TSM-02")
def sign_on_without_the_option(case: TsmCase) -> None:
    if not case.session.information().archiveRetentionProtection:
        raise NotOffered("the server is not protected, so it requires no option")
    options = case.plain_options
    if options is None:
        options = re.sub(rf"\s*{_ENABLES}=\w+", "", case.client.options, flags=re.IGNORECASE) + f" {_ENABLES}=no"
    outcome, session = case.client.sign_on(options=options)
    session.terminate()
    if outcome.ok and case.plain_options is None:
        raise NotTried("needs a stanza without ENABLEARCHIVERETENTIONPROTECTION: dsm.sys overrides a session")
    if outcome.ok:
        raise Failed("a client that does not enable archive retention protection was accepted")
    if outcome.code >= Code.INVALID_OPT:
        raise Inconclusive(f"the library did not contact the server: {outcome}")
    if outcome.code != Code.CLIENT_NOT_ARCHRETPROT:
        case.deviate(
            f"signing on without the option was answered {outcome}; IBM's server answers "
            f"{describe(Code.CLIENT_NOT_ARCHRETPROT)}"
        )


@check("TSM-03")
def send_a_backup(case: TsmCase) -> None:
    name = case.new_name()
    outcome = case.session.send(name, secrets.token_bytes(100), None, is_backup=True)
    if outcome.ok or case.session.backups(name):
        raise Failed("a backup was accepted")
    if outcome.deciding_code != Code.ABORT_INSERT_NOT_ALLOWED:
        case.deviate(f"a backup was answered {outcome}; IBM's server answers {describe(Code.ABORT_INSERT_NOT_ALLOWED)}")
    case.archived()  # the same session may archive
    case.notes.append("the API has no call that sends a space-managed object")


@check("TSM-04")
def delete_before_expiry(case: TsmCase) -> None:
    before = case.state(case.archived())
    case.must_refuse_delete(case.delete(before.stored), "deleting an object before its expiry", before)


@check("TSM-05")
def delete_expired_and_unexpired(case: TsmCase) -> None:
    expired, kept = case.state(case.expired()), case.state(case.archived())
    outcome = case.delete(expired.stored, kept.stored)
    case.must_refuse_delete(outcome, "deleting an expired and an unexpired object at once", expired, kept)
    case.must_allow(case.delete(expired.stored), "deleting the expired object alone")
    case.must_be_gone(expired.stored, "deleting the expired object alone")
    case.must_survive(kept.stored)


@check("TSM-06")
def delete_file_space(case: TsmCase) -> None:
    space = case.make_space()
    befores = [case.state(case.archived(name=case.new_name(space)))]
    try:
        under_hold = case.expired_class() or case.lasting_class()
        befores.append(case.held(case.archived(under_hold, name=case.new_name(space))))
    except NotOffered as lacking:
        case.notes.append(f"not tried with a held object: {lacking}")
    outcome = case.session.delete_space(space)
    case.must_keep(*befores)
    if not case.session.has_space(space):
        raise Failed(f"file space {space} is gone, though its objects are not")
    empty = case.make_space()
    control = case.session.delete_space(empty)
    if not control.ok or case.session.has_space(empty):
        raise Inconclusive(f"the control failed: this node cannot delete an empty file space either ({control})")
    case.notes.append(f"deleting a file space with protected objects was answered {outcome}")


@check("TSM-07")
def rename_object(case: TsmCase) -> None:
    before = case.state(case.archived())
    stored = before.stored
    new_name = case.new_name()
    outcome = case.session.rename(stored.name, stored.id, new_name.ll.decode())
    case.must_refuse(outcome, "renaming an object", (), before)
    new_name.hl = stored.name.hl
    if case.session.archives(new_name):
        raise Failed(f"{stored} has its new name too")


@check("TSM-08")
def archive_again_under_the_same_name(case: TsmCase) -> None:
    first = case.state(case.archived())
    second = case.archived(name=first.stored.name)
    case.must_keep(first)
    case.must_survive(second)


@check("TSM-09")
def delete_held(case: TsmCase) -> None:
    kept_by = _ending_class(case)
    stored = case.archived(kept_by)
    case.must_allow(case.event("hold", stored), "holding an object")
    before = case.state(stored)
    if not before.held:
        raise Failed(f"the hold of {stored} was accepted, and a query does not show it")
    case.must_refuse_delete(case.delete(stored), "deleting a held object", before)
    if kept_by is None:
        case.notes.append("not tried after expiry: no class lets an object expire in seconds")
        return
    case.wait_for_expiry(stored)
    case.must_refuse_delete(case.delete(stored), "deleting a held object after its expiry", before)


@check("TSM-10")
def hold_twice(case: TsmCase) -> None:
    before = case.held(case.archived())
    outcome = case.event("hold", before.stored)
    case.must_refuse(outcome, "holding a held object", (Code.ABORT_OBJECT_ALREADY_HELD,), before)


@check("TSM-11")
def release(case: TsmCase) -> None:
    first = case.state(case.archived())
    case.held(first.stored)
    case.wait(HELD_SECONDS)
    _release(case, first.stored)
    released = case.state(first.stored)
    case.must_keep(first)
    if first.expires is not None and (released.expires is None or released.expires > first.expires):
        raise Failed(f"a hold extended the period of {first.stored}")
    case.must_refuse_delete(case.delete(first.stored), "deleting a released object before its expiry", released)
    kept_by = _ending_class(case)
    if kept_by is None:
        case.notes.append("not tried after expiry: no class lets an object expire in seconds")
        return
    second = case.archived(kept_by)
    case.held(second)
    case.wait_for_expiry(second)
    _release(case, second)
    what = "deleting an object that was released after its expiry"
    case.must_allow(case.delete(second), what)
    case.must_be_gone(second, what)


@check("TSM-12")
def release_what_is_not_held(case: TsmCase) -> None:
    before = case.state(case.archived())
    outcome = case.event("release", before.stored)
    case.must_refuse(outcome, "releasing an object that is not held", (), before)


@check("TSM-13")
def delete_before_the_event(case: TsmCase) -> None:
    kept_by = case.event_classes()[0]
    before = case.state(case.archived(kept_by))
    _must_show(case, before, abi.DSM_ARCH_RETINIT_PENDING)
    case.must_refuse_delete(case.delete(before.stored), "deleting an object that waits for its event", before)
    try:
        brief = case.brief_event_class()
    except NotTried as lacking:
        case.notes.append(f"not tried that age alone starts no period: {lacking}")
        return
    aged = before if brief == kept_by else case.state(case.archived(brief))
    assert aged.row is not None
    case.wait_past(aged.row.archived + brief.seconds + 1)
    what = "deleting an object that waits for its event, RETVER and RETMIN after archiving"
    case.must_refuse_delete(case.delete(aged.stored), what, aged)


@check("TSM-14")
def activate(case: TsmCase) -> None:
    tried = case.event_classes()[:EVENT_CLASSES_TRIED]
    for kept_by in tried:
        _activate(case, kept_by)
    case.notes.append(f"tried with {', '.join(each.name for each in tried)}")


def _activate(case: TsmCase, kept_by: ArchiveClass) -> None:
    stored = case.archived(kept_by)
    earliest = case.now()
    case.must_allow(case.event("activate", stored), "activating the event of an object")
    latest = case.now()
    started = case.state(stored)
    if started.row is None or started.expires is None:
        raise Failed(f"{stored} has no date of expiry after its event")
    _must_show(case, started, abi.DSM_ARCH_RETINIT_STARTED)
    archived = started.row.archived
    least = max(earliest + kept_by.retver_seconds, archived + kept_by.retmin_seconds)
    most = max(latest + kept_by.retver_seconds, archived + kept_by.retmin_seconds) + 1
    if started.expires < least:
        raise Failed(f"{stored} expires {least - started.expires:.0f} s earlier than RETVER and RETMIN require")
    if started.expires > most:
        case.deviate(f"{stored} expires {started.expires - most:.0f} s later than RETVER and RETMIN require")
    outcome = case.delete(stored)
    if case.now() < started.expires:
        case.must_refuse_delete(outcome, "deleting an object after its event and before its expiry", started)


@check("TSM-15")
def activate_in_vain(case: TsmCase) -> None:
    before = case.state(case.archived())
    outcome = case.event("activate", before.stored)
    case.must_refuse(outcome, "activating an event of a class that counts from creation", (), before)
    case.must_refuse_delete(case.delete(before.stored), "deleting it after that, before its expiry", before)
    try:
        # If RETMIN is longer than RETVER, a second event would not change the date.
        kept_by = max(case.event_classes(), key=lambda each: each.retver_seconds - each.retmin_seconds)
    except NotTried as lacking:
        case.notes.append(f"activating twice was not tried: {lacking}")
        return
    stored = case.archived(kept_by)
    if not case.event("activate", stored).ok or (once := case.state(stored)).expires is None:
        raise Inconclusive(f"{stored} could not be activated once")
    case.wait(HELD_SECONDS)
    again = case.event("activate", stored)
    case.must_keep(once)
    longer = (case.state(stored).expires or 0) - (once.expires or 0)
    moved = f", and the date moved by {longer} s" if longer > 0 else ", and the date stayed"
    case.notes.append(f"activating twice was answered {again}{moved}")


@check("TSM-16")
def hold_and_event(case: TsmCase) -> None:
    kept_by = case.brief_event_class()
    waiting = case.state(case.archived(kept_by))
    case.held(waiting.stored)
    _release(case, waiting.stored)
    case.must_refuse_delete(case.delete(waiting.stored), "deleting a released object that waits for its event", waiting)
    stored = case.archived(kept_by)
    case.must_allow(case.event("activate", stored), "activating the event of an object")
    held = case.held(stored)
    case.wait_for_expiry(stored)
    case.must_refuse_delete(case.delete(stored), "deleting a held object after its event and its expiry", held)
    _release(case, stored)
    what = "deleting an object after its event, its expiry and its release"
    case.must_allow(case.delete(stored), what)
    case.must_be_gone(stored, what)


@check("TSM-17")
def more_than_a_transaction_takes(case: TsmCase) -> None:
    before = case.state(case.archived())
    limit = case.session.information().maxObjPerTxn
    # The list names this object many times: other objects may have another owner and a hold.
    outcome = case.event("hold", *[before.stored] * (limit + 1))
    if outcome.ok or case.state(before.stored).held:
        case.deviate(
            f"a hold of more objects than the {limit} of a transaction was answered {outcome}; IBM's server answers "
            f"{describe(Code.ABORT_TXN_LIMIT_EXCEEDED)}"
        )
        case.must_keep(before)
    else:
        codes = (Code.ABORT_TXN_LIMIT_EXCEEDED,)
        case.must_refuse(outcome, f"a hold of more objects than the {limit} of a transaction", codes, before)
    case.notes.append("tried with a list of holds")


@check("TSM-18")
def another_node_or_owner(case: TsmCase) -> None:
    strangers = _strangers(case)
    rightful = case.session
    if any(words.startswith("another owner") for words, _ in strangers):
        rightful = case.sign_on(owner=KEEPER)
    objects = _TrialObjects(case, rightful)
    for words, session in strangers:
        for event, stored in objects.by_event():
            before = case.state(stored)
            outcome = case.event(event, stored, session=session)
            case.must_refuse(outcome, f"{event} by {words}", _NOT_THE_OWNERS, before)
            # No refused request of another node may have had an effect.
            after = case.state(stored)
            if after.held != before.held or is_pending(after) != is_pending(before):
                raise Failed(f"{event} by {words} took effect on {stored}")
        if objects.due is not None:
            before = case.state(objects.due)
            outcome = case.delete(objects.due, session=session)
            case.must_refuse(outcome, f"delete by {words}", _NOT_THE_OWNERS, before)
        _stranger_control(case, words, session, holds=objects.held is not None)
    objects.control()


class _TrialObjects:
    """The objects that other nodes try to change: one for each event, and one that its owner could delete."""

    def __init__(self, case: TsmCase, rightful: RecordingSession) -> None:
        self._case = case
        self._rightful = rightful
        self.kept = case.archived(session=rightful)
        self.held: Stored | None = None
        try:
            self.held = case.held(case.archived(session=rightful)).stored
        except NotOffered as lacking:
            case.notes.append(f"holds were not tried: {lacking}")
        self.pending = self._or_none(lambda: case.archived(case.event_classes()[0], session=rightful))
        self.due = self._or_none(lambda: case.expired(rightful))

    def _or_none(self, make: Callable[[], Stored]) -> Stored | None:
        try:
            return make()
        except NotTried as lacking:
            self._case.notes.append(str(lacking))
            return None

    def by_event(self) -> list[tuple[str, Stored]]:
        """Return each event with the object that it could apply to."""
        found = [("activate", self.pending), ("release", self.held)]
        if self.held is not None:
            found.append(("hold", self.kept))
        return [(event, stored) for event, stored in found if stored is not None]

    def control(self) -> None:
        """Check that the owner can do all of it. Raises Inconclusive."""
        outcomes = [self._case.event(event, stored, session=self._rightful) for event, stored in self.by_event()]
        if self.due is not None:
            outcomes.append(self._case.delete(self.due, session=self._rightful))
        if not outcomes:
            raise NotTried("needs holds, an event-based class, or a class with a RETVER of seconds")
        refused = [outcome for outcome in outcomes if not outcome.ok]
        if refused:
            raise Inconclusive(f"the control failed: the owner cannot do it either ({refused[0]})")


def _strangers(case: TsmCase) -> list[tuple[str, RecordingSession]]:
    """Return sessions without rights to the check's objects. Raises NotTried if there can be none."""
    found = []
    try:
        found.append(("another owner of the same node", case.sign_on(owner=STRANGER)))
    except CheckEnded as refused:
        case.notes.append(f"another owner was not tried: {refused}")
    if case.other is not None:
        found.append(("another node", case.sign_on(case.other)))
    else:
        case.notes.append("another node was not tried: none was named")
    if not found:
        raise NotTried("needs a session with another owner or another node")
    return found


def _stranger_control(case: TsmCase, words: str, session: RecordingSession, *, holds: bool) -> None:
    """Check that the other node can do all of it with its own object. Raises Inconclusive."""
    kept_by = case.expired_class()
    if kept_by is None:
        case.notes.append(f"no control of {words}: no class lets an object expire at once")
        return
    is_new = session.register_space(case.space).ok  # every node has its own file spaces
    name = case.new_name()
    outcomes = [session.send(name, secrets.token_bytes(100), kept_by.name)]
    own = [row.id for row in session.archives(name)]
    if own and holds:
        outcomes += [session.event("hold", own), session.event("release", own)]
    if own:
        outcomes.append(session.delete(own))
    if is_new:
        outcomes.append(session.delete_space(case.space))
    refused = [outcome for outcome in outcomes if not outcome.ok]
    if refused or not own:
        raise Inconclusive(f"the control failed: {words} cannot do that with its own objects either ({refused})")


@check("TSM-21")
def retrieve_before_during_and_after_a_hold(case: TsmCase) -> None:
    body = secrets.token_bytes(LARGE_BYTES)
    stored = case.archived(body=body)
    case.must_survive(stored)
    case.held(stored)
    case.must_survive(stored)
    _release(case, stored)
    case.must_survive(stored)
    case.notes.append(f"{LARGE_BYTES} bytes, SHA-256 {hashlib.sha256(body).hexdigest()}; the API shows no CRC")


@check("TSM-22")
def delete_after_expiry(case: TsmCase) -> None:
    stored = case.archived(_ending_class(case) or case.brief_class())
    case.wait_for_expiry(stored)
    case.must_survive(stored)
    case.must_allow(case.delete(stored), "deleting an expired object")
    case.must_be_gone(stored, "deleting an expired object")


@check("TSM-23")
def holds_are_licensed(case: TsmCase) -> None:
    outcome = case.event("hold", case.archived())  # NOT OFFERED without a licence
    if not outcome.ok:
        raise Inconclusive(f"a hold was refused, but not because of a missing licence: {outcome}")
    case.notes.append("holds are licensed")


def _ending_class(case: TsmCase) -> ArchiveClass | None:
    """Return a creation-based class whose end a check can wait for, preferably in the future; None if there is none."""
    try:
        return case.brief_class()
    except NotTried:
        return case.expired_class()


def _release(case: TsmCase, stored: Stored) -> CallResult:
    outcome = case.event("release", stored)
    case.must_allow(outcome, "releasing a held object")
    if case.state(stored).held:
        raise Failed(f"the release of {stored} was accepted, and a query still shows its hold")
    return outcome


def _must_show(case: TsmCase, state: ArchivedState, initiated: int) -> None:
    """Fail unless a query shows whether the retention period has begun."""
    assert state.row is not None
    words = {abi.DSM_ARCH_RETINIT_STARTED: "started", abi.DSM_ARCH_RETINIT_PENDING: "pending"}
    shown = state.row.initiated
    if shown == abi.DSM_ARCH_RETINIT_UNKNOWN:
        case.deviate(f"a query does not show whether the period of {state.stored} is {words[initiated]}")
    elif shown != initiated:
        raise Failed(f"the period of {state.stored} is shown as {words.get(shown, str(shown))}, not {words[initiated]}")
