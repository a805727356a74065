"""Holds, releases and deletions of archived objects, in one client's thread.

The server refuses a transaction as a whole. Operations that should succeed use transactions of as many objects as the
server accepts. Operations that should be refused use one transaction for each object, so that a refusal concerns one
object.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import POINTER, byref, cast

from archiver.values.record import TSM_ERROR, Status
from backends.base import Failure
from backends.tsm.index import Target
from backends.tsm.library import structures as abi
from backends.tsm.library.api import Library, halves
from backends.tsm.library.codes import Code
from backends.tsm.transactions import SentTransaction, Stopped, Transactions

_REFUSED = TSM_ERROR + Code.ABORT_DELETE_NOT_ALLOWED
_DELETED_LOCKED = Failure(
    Status.DELETED_LOCKED, "deleted what was locked", "dsmEndTxn: the server deleted an object that it must keep"
)


class Lifecycle:
    """The structures of one client, for one thread at a time. Targets need their ids."""

    def __init__(self, library: Library, objects_per_transaction: int) -> None:
        self._functions = library.functions
        self._transactions = Transactions(library, objects_per_transaction)
        self._single = Transactions(library, 1)

    def hold(self, handle: int, objects: Sequence[Target], stopped: Stopped) -> list[SentTransaction]:
        """Hold objects of any class."""
        return self._transactions.all_at_once(handle, objects, self._hold, stopped)

    def release(self, handle: int, objects: Sequence[Target], stopped: Stopped) -> list[SentTransaction]:
        """Release objects under a hold."""
        return self._transactions.all_at_once(handle, objects, self._release, stopped)

    def delete(self, handle: int, objects: Sequence[Target], stopped: Stopped) -> list[SentTransaction]:
        """Delete objects that have expired."""
        return self._transactions.each(handle, objects, self._delete, stopped)

    def refused_delete(self, handle: int, objects: Sequence[Target], stopped: Stopped) -> list[SentTransaction]:
        """Try to delete locked objects. A transaction succeeds only if the server refuses it because of the lock."""
        done = self._single.each(handle, objects, self._delete, stopped)
        for one in done:
            if one.failure is None:
                one.failure = _DELETED_LOCKED
            elif one.failure.status == _REFUSED:
                one.failure = None
        return done

    def _hold(self, handle: int, objects: Sequence[Target]) -> tuple[str, int]:
        return self._event(handle, abi.eventHoldObj, objects)

    def _release(self, handle: int, objects: Sequence[Target]) -> tuple[str, int]:
        return self._event(handle, abi.eventReleaseObj, objects)

    def _event(self, handle: int, event: int, objects: Sequence[Target]) -> tuple[str, int]:
        ids = (abi.ObjID * len(objects))(*(halves(target.id) for target in objects))
        listed = abi.dsmObjList_t(abi.dsmObjlistVersion, len(objects), cast(ids, POINTER(abi.ObjID)))
        given = abi.dsmRetentionEventIn_t(abi.dsmRetentionEventInVersion, handle, event, listed)
        out = abi.dsmRetentionEventOut_t(abi.dsmRetentionEventOutVersion)
        return "dsmRetentionEvent", self._functions.dsmRetentionEvent(byref(given), byref(out))

    def _delete(self, handle: int, target: Target) -> tuple[str, int]:
        which = abi.dsmDelInfo(archInfo=abi.delArch(abi.delArchVersion, halves(target.id)))
        return "dsmDeleteObj", self._functions.dsmDeleteObj(handle, abi.dtArchive, which)
