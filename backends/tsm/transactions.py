"""One client's transactions: begin, put objects into them, vote, and record the result.

The server refuses a transaction as a whole and only at its end. So one function determines the result for any kind of
operation. Answers of the platform are returned, not raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import byref
from dataclasses import dataclass, field
from time import monotonic_ns

from archiver.values.record import TSM_ERROR, Status
from backends.base import Failure
from backends.tsm.index import Target
from backends.tsm.library import structures as abi
from backends.tsm.library.api import Library
from backends.tsm.library.codes import Code, describe

_NEED_A_NEW_TRANSACTION = (Code.NEEDTO_ENDTXN, Code.NEEDTO_ENDTXN_DEDUP_SIZE_EXCEEDED)

# Puts one object into the open transaction of a session handle; returns the deciding call and its return code.
Put = Callable[[int, Target], tuple[str, int]]
# Puts these objects into the transaction with a single call.
PutAll = Callable[[int, Sequence[Target]], tuple[str, int]]
Stopped = Callable[[], bool]


def failure_of(library: Library, function: str, code: int, *, outcome_unknown: bool = False) -> Failure:
    """Return the failure for a return code or for the reason of a vote."""
    # Only the first call that meets the loss has a negative code; later ones do not know the handle.
    is_lost = code < 0 or code == Code.INVALID_DS_HANDLE
    status: int = Status.CONNECTION_LOST if is_lost else TSM_ERROR + code
    if code == Code.COMM_PROTOCOL_ERROR:
        status = Status.PROTOCOL_ERROR
    return Failure(status, describe(code), f"{function}: {library.message(code)}", outcome_unknown)


def ends_session(failure: Failure | None) -> bool:
    """Return whether the failure makes further calls useless: connection lost, or protocol violated."""
    return failure is not None and failure.status in (Status.CONNECTION_LOST, Status.PROTOCOL_ERROR)


@dataclass(slots=True)
class SentTransaction:
    """The result of one transaction; ``sent_ns`` has the start of each of its objects."""

    began_ns: int
    objects: list[Target] = field(default_factory=list)
    sent_ns: list[int] = field(default_factory=list)
    voted_ns: int = 0
    done_ns: int = 0
    failure: Failure | None = None
    session_over: bool = False  # the connection is lost, or no transaction can begin


class Transactions:
    """Transactions of one client, of at most ``objects_max`` objects, for one thread at a time."""

    def __init__(self, library: Library, objects_max: int) -> None:
        self._library = library
        self._objects_max = objects_max
        self._reason = abi.dsUint16_t()
        self._reason_ref = byref(self._reason)

    def each(self, handle: int, objects: Sequence[Target], put: Put, stopped: Stopped) -> list[SentTransaction]:
        """Put objects, one by one, into transactions of as many objects as allowed.

        After a refused transaction the next is tried. After one that ends the session, none is tried.
        """
        done: list[SentTransaction] = []
        at = 0
        while at < len(objects) and not stopped():
            one = self._one(handle, objects[at : at + self._objects_max], put, stopped)
            done.append(one)
            at += len(one.objects)
            if one.session_over:
                break
        return done

    def all_at_once(
        self, handle: int, objects: Sequence[Target], put_all: PutAll, stopped: Stopped
    ) -> list[SentTransaction]:
        """Do the same as ``each`` for operations that the API applies to all objects of a transaction with one call."""
        done: list[SentTransaction] = []
        at = 0
        while at < len(objects) and not stopped():
            chunk = objects[at : at + self._objects_max]
            at += len(chunk)
            one = SentTransaction(monotonic_ns())
            failed_in, code = "dsmBeginTxn", self._library.functions.dsmBeginTxn(handle)
            one.objects += chunk[:1] if code else chunk
            one.sent_ns = [monotonic_ns()] * len(one.objects)
            if not code:
                failed_in, code = put_all(handle, chunk)
            self._finish(handle, one, failed_in, code, stopped=False)
            done.append(one)
            if one.session_over:
                break
        return done

    def _one(self, handle: int, objects: Sequence[Target], put: Put, stopped: Stopped) -> SentTransaction:
        """Run one transaction of as many of these objects as the server accepts, at least one."""
        one = SentTransaction(monotonic_ns())
        code = self._library.functions.dsmBeginTxn(handle)
        failed_in = "dsmBeginTxn" if code else ""
        if code:
            one.objects.append(objects[0])
            one.sent_ns.append(one.began_ns)
        else:
            for target in objects:
                if stopped():
                    break
                sent_ns = monotonic_ns()
                failed_in, code = put(handle, target)
                if code in _NEED_A_NEW_TRANSACTION and one.objects:
                    failed_in, code = "", 0
                    break
                one.objects.append(target)
                one.sent_ns.append(sent_ns)
                if code:
                    break
        self._finish(handle, one, failed_in, code, stopped())
        return one

    def _finish(self, handle: int, one: SentTransaction, failed_in: str, code: int, stopped: bool) -> None:
        """Vote, and record the times and the result."""
        one.voted_ns = monotonic_ns()
        one.failure = self._vote(handle, failed_in, code, stopped)
        one.done_ns = monotonic_ns()
        one.session_over = ends_session(one.failure) or (code != 0 and failed_in == "dsmBeginTxn")

    def _vote(self, handle: int, failed_in: str, code: int, stopped: bool) -> Failure | None:
        """Vote unless the connection is lost; return the failure, None if the transaction was committed."""
        functions, reason, library = self._library.functions, self._reason, self._library
        reason.value = 0
        if code < 0:
            return failure_of(library, failed_in, code)  # no vote, so the server keeps nothing of it
        if (code and code != Code.WILL_ABORT) or stopped:
            if failed_in != "dsmBeginTxn":
                functions.dsmEndTxn(handle, abi.DSM_VOTE_ABORT, self._reason_ref)
            return failure_of(library, failed_in or "dsmEndTxn", code or Code.ABORT_BY_CLIENT)
        voted = functions.dsmEndTxn(handle, abi.DSM_VOTE_COMMIT, self._reason_ref)
        if voted == Code.CHECK_REASON_CODE or (voted == Code.OK and reason.value):
            return failure_of(library, "dsmEndTxn", reason.value or voted)
        if voted:
            # The vote was not answered: the server may have committed, unless the transaction was lost before.
            return failure_of(library, "dsmEndTxn", voted, outcome_unknown=code != Code.WILL_ABORT)
        if code:
            return failure_of(library, failed_in, code, outcome_unknown=True)  # committed, but not all of it
        return None
