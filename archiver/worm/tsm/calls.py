"""Calls of the TSM client API and their results, recorded as the evidence of a TSM check.

One idea: nothing is hidden and nothing is repaired. The session records every call with its arguments, its return code
and its output; only secrets are removed. A refusal by the server is a result like any other. A lost connection or a
full server gives no result and ends the check.
"""

from __future__ import annotations

import ctypes
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, byref, c_void_p, cast, sizeof
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from archiver.worm.verdict import Inconclusive, NotOffered
from backends.tsm.library import structures as abi
from backends.tsm.library.api import APPLICATION, Library, halves, seconds_of, whole
from backends.tsm.library.codes import Code, describe

Plain = str | int | None
_Value = TypeVar("_Value")

_RESPONSE_VERSION = 6  # of an archived object: has all fields that the checks use; older libraries know no later one
_BUFFER_BYTES = 256 * 1024
_IDS_SHOWN = 10
_NO_LICENCE = (Code.ABORT_LICENSE_VIOLATION, Code.SERVER_DOWNLEVEL_FUNC)
# Codes of a server or a machine in trouble: they are not refusals.
_TROUBLE = (
    Code.ABORT_SYSTEM_ERROR, Code.ABORT_NODE_IN_USE, Code.ABORT_DATA_OFFLINE, Code.ABORT_NO_REPOSIT_SPACE,
    Code.ABORT_MOUNT_NOT_POSSIBLE, Code.ABORT_RETRY, Code.ABORT_NO_LOG_SPACE, Code.ABORT_NO_DB_SPACE,
    Code.ABORT_NO_MEMORY, Code.ABORT_WAIT_FOR_SPACE, Code.ABORT_NO_STOR_SPACE_STOP, Code.ABORT_RESTORE_IN_PROGRESS,
    Code.ABORT_EXCEED_MAX_MP, Code.ABORT_PVR_ERROR, Code.REJECT_NO_RESOURCES, Code.REJECT_SERVER_DISABLED,
    Code.REJECT_ID_IN_USE, Code.REJECT_NO_MEMORY, Code.REJECT_NO_DB_SPACE, Code.REJECT_NO_LOG_SPACE,
    Code.REJECT_INTERNAL_ERROR, Code.REJECT_LASTSESS_CANCELED, Code.NO_MEMORY, Code.DISK_FULL, Code.UNKNOWN_ERROR,
    Code.UNEXPECTED_ERROR, Code.SYSTEM_ERROR, Code.NO_SERVER_RESOURCES, Code.COMM_PROTOCOL_ERROR, Code.KILLED,
    Code.ABORT_LOCK_CONFLICT, Code.INVALID_DS_HANDLE, Code.APISYSTEM_ERROR,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call of the API, without secrets."""

    at: float  # epoch seconds of our clock
    function: str
    arguments: Mapping[str, Plain]
    code: int  # return code
    reason: int  # of a vote; 0 if there is none
    seconds: float
    answer: Mapping[str, Plain] = field(default_factory=dict)  # output: an object's state, a hash of bytes

    @property
    def document(self) -> dict[str, Any]:
        """Return it as plain JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class CallResult:
    """The result of an operation: the call that decided it, its return code, and the reason of a vote."""

    function: str
    code: int
    reason: int = 0

    @property
    def ok(self) -> bool:
        return self.code == Code.OK and not self.reason

    @property
    def deciding_code(self) -> int:
        """The reason of the vote if there is one, else the return code."""
        return self.reason or self.code

    def __str__(self) -> str:
        return f"{self.function}: {describe(self.code)}" + (f", reason {describe(self.reason)}" if self.reason else "")

    def checked(self) -> CallResult:
        """Return this result if the server answered. Raises Inconclusive for trouble, NotOffered without a licence."""
        if self.code < 0 or self.deciding_code in _TROUBLE:
            raise Inconclusive(f"no answer: {self}")
        if self.deciding_code in _NO_LICENCE:
            raise NotOffered(f"the server has no licence for it, or is too old: {self}")
        return self


@dataclass(frozen=True, slots=True)
class Row:
    """An archived object in a query. Dates are seconds of the server's local time; None: never."""

    id: int
    high_level: str
    low_level: str
    owner: str
    management_class: str
    archived: int
    expires: int | None
    initiated: int  # DSM_ARCH_RETINIT_...
    held: int  # DSM_ARCH_HELD_...
    size_bytes: int


@dataclass(frozen=True, slots=True)
class TsmClient:
    """One node's access to one server, through a library whose ``set_up`` is done.

    Its sessions append every call to ``record``.
    """

    library: Library
    node: str | None
    password: str | None = field(repr=False)
    options: str = ""
    record: list[ApiCall] = field(default_factory=list)

    def recording(self, record: list[ApiCall]) -> TsmClient:
        """Return the same client with another record."""
        return replace(self, record=record)

    def sign_on(self, *, owner: str | None = None, options: str | None = None) -> tuple[CallResult, RecordingSession]:
        """Open a session; ``options`` replace those of the client."""
        words = self.options if options is None else options
        version = abi.dsmApiVersionEx(abi.apiVersionExVer, *self.library.caller_version())
        given = abi.dsmInitExIn_t(stVersion=abi.dsmInitExInVersion, apiVersionExP=ctypes.pointer(version))
        given.clientNodeNameP = self.node.encode() if self.node else None
        given.clientOwnerNameP = owner.encode() if owner else None
        given.clientPasswordP = self.password.encode() if self.password else None
        given.applicationTypeP = APPLICATION
        given.options = words.encode() if words else None
        handle, out = abi.dsUint32_t(), abi.dsmInitExOut_t(stVersion=abi.dsmInitExOutVersion)
        session = RecordingSession(self.library, self.record)
        code = session.call(
            "dsmInitEx", {"node": self.node, "owner": owner, "options": words}, byref(handle), byref(given), byref(out),
            answer=lambda: {"session": handle.value, "server": out.adsmServerName.decode(errors="replace")},
        )  # fmt: skip
        session.handle = handle.value
        return CallResult("dsmInitEx", code).checked(), session


class RecordingSession:
    """One session for one thread at a time. It appends every call to ``record``."""

    def __init__(self, library: Library, record: list[ApiCall]) -> None:
        self.library = library
        self.record = record
        self.handle = 0

    def call(
        self,
        function: str,
        arguments: Mapping[str, Plain],
        *given: Any,
        reason: Any = None,
        answer: Callable[[], Mapping[str, Plain]] | None = None,
    ) -> int:
        """Make one call and record it; ``answer`` is called afterwards and returns the call's output."""
        at, clock = time.time(), time.monotonic()
        code = int(getattr(self.library.functions, function)(*given))
        seconds = time.monotonic() - clock
        shown = {"session": self.handle, **arguments} if self.handle else arguments
        gave = answer() if answer is not None else {}
        self.record.append(ApiCall(at, function, shown, code, reason.value if reason is not None else 0, seconds, gave))
        return code

    def _result(self, function: str, arguments: Mapping[str, Plain], *given: Any) -> CallResult:
        """Make a call that decides alone."""
        return CallResult(function, self.call(function, arguments, *given)).checked()

    def terminate(self) -> None:
        """End the session in any state. May be called twice."""
        if self.handle:
            self.call("dsmTerminate", {}, self.handle)
            self.handle = 0

    def information(self) -> Any:
        """Return what the server reports of itself and of this session (ApiSessInfo). Raises Inconclusive."""
        found = abi.ApiSessInfo(stVersion=abi.ApiSessInfoVersion)
        code = self.call(
            "dsmQuerySessInfo", {}, self.handle, byref(found),
            answer=lambda: {
                "archiveRetentionProtection": int(found.archiveRetentionProtection),
                "archDel": found.archDel,
                "maxObjPerTxn": found.maxObjPerTxn,
                "serverDate": seconds_of(found.serverDate),
            },
        )  # fmt: skip
        if code != Code.OK:
            raise Inconclusive(f"the server returned no session information: {CallResult('dsmQuerySessInfo', code)}")
        return found

    # ---- file spaces

    def register_space(self, space: str) -> CallResult:
        data = abi.regFSData(stVersion=abi.regFSDataVersion, fsName=space.encode(), fsType=APPLICATION)
        return self._result("dsmRegisterFS", {"space": space}, self.handle, byref(data))

    def delete_space(self, space: str) -> CallResult:
        """dsmDeleteFS with all objects in the file space."""
        return self._result("dsmDeleteFS", {"space": space}, self.handle, space.encode(), abi.DSM_REPOS_ALL)

    def has_space(self, space: str) -> bool:
        query = abi.qryFSData(abi.qryFSDataVersion, space.encode())
        response = abi.qryRespFSData(stVersion=abi.qryRespFSDataVersion)
        names = self._query(
            abi.qtFilespace, {"space": space}, query, response,
            lambda: response.fsName.decode(errors="replace"), lambda name: {"space": name},
        )  # fmt: skip
        return space in names

    # ---- transactions: each method begins one, votes and ends it

    def send(
        self,
        name: Any,
        body: bytes,
        class_name: str | None,
        *,
        is_backup: bool = False,
    ) -> CallResult:
        """Send one object in one transaction. A backup is sent even if no management class accepts it."""
        send_type = abi.stBackup if is_backup else abi.stArchive
        about: dict[str, Plain] = {"object": _words(name), "send_type": send_type}
        key, described = abi.mcBindKey(stVersion=abi.mcBindKeyVersion), abi.sndArchiveData(abi.sndArchiveDataVersion)
        buffer = ctypes.create_string_buffer(body, len(body))
        attributes = abi.ObjAttr(stVersion=abi.ObjAttrVersion, sizeEstimate=halves(len(body)), objCompressed=abi.bTrue)
        attributes.mcNameP = class_name.encode() if class_name else None
        block = abi.DataBlk(stVersion=abi.DataBlkVersion, bufferLen=len(body), bufferPtr=ctypes.addressof(buffer))
        what = cast(ctypes.pointer(described), c_void_p) if not is_backup else None
        sent: dict[str, Plain] = {
            **about,
            "class": class_name,
            "bytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        bound = self.call("dsmBindMC", about, self.handle, byref(name), send_type, byref(key))
        if bound != Code.OK and not is_backup:
            return CallResult("dsmBindMC", bound).checked()
        return self._transaction(
            ("dsmSendObj", sent, (send_type, what, byref(name), byref(attributes), byref(block))),
            ("dsmEndSendObj", {}, ()),
        )

    def delete(self, ids: Sequence[int]) -> CallResult:
        """Delete archived objects in one transaction."""
        infos = [abi.dsmDelInfo(archInfo=abi.delArch(abi.delArchVersion, halves(one))) for one in ids]
        return self._transaction(
            *(("dsmDeleteObj", {"id": one}, (abi.dtArchive, info)) for one, info in zip(ids, infos, strict=True))
        )

    def event(self, event: str, ids: Sequence[int]) -> CallResult:
        """Activate, hold or release objects in one transaction; ``event`` is that verb."""
        types = {"activate": abi.eventRetentionActivate, "hold": abi.eventHoldObj, "release": abi.eventReleaseObj}
        array = (abi.ObjID * len(ids))(*map(halves, ids))
        objects = abi.dsmObjList_t(abi.dsmObjlistVersion, len(ids), cast(array, POINTER(abi.ObjID)))
        given = abi.dsmRetentionEventIn_t(abi.dsmRetentionEventInVersion, self.handle, types[event], objects)
        out = abi.dsmRetentionEventOut_t(abi.dsmRetentionEventOutVersion)
        shown = " ".join(map(str, ids[:_IDS_SHOWN])) + (" ..." if len(ids) > _IDS_SHOWN else "")
        about: dict[str, Plain] = {"event": event, "objects": len(ids), "ids": shown}
        return self._transaction(("dsmRetentionEvent", about, (byref(given), byref(out))))

    def rename(self, name: Any, number: int, new_low_level: str) -> CallResult:
        """Change the low-level name of an archived object."""
        given = abi.dsmRenameIn_t(
            abi.dsmRenameInVersion, self.handle, abi.DSM_ARCHIVE_REP, ctypes.pointer(name), name.hl,
            new_low_level.encode(), abi.bFalse, halves(number),
        )  # fmt: skip
        out = abi.dsmRenameOut_t(abi.dsmRenameOutVersion)
        about: dict[str, Plain] = {"object": _words(name), "id": number, "new_low_level": new_low_level}
        return self._transaction(("dsmRenameObj", about, (byref(given), byref(out))))

    def _transaction(self, *steps: tuple[str, Mapping[str, Plain], tuple[Any, ...]]) -> CallResult:
        """Begin, make these calls, and vote: commit, or abort if a call failed."""
        function, code = "dsmBeginTxn", self.call("dsmBeginTxn", {}, self.handle)
        if code != Code.OK:
            return CallResult(function, code).checked()
        for function, about, given in steps:
            with_handle = given if function in _HANDLE_INSIDE else (self.handle, *given)
            code = self.call(function, about, *with_handle)
            if code != Code.OK:
                break
        if code == Code.WILL_ABORT and function == "dsmSendObj":
            self.call("dsmEndSendObj", {}, self.handle)
        gives_up = code not in (Code.OK, Code.WILL_ABORT)
        vote, reason = (abi.DSM_VOTE_ABORT if gives_up else abi.DSM_VOTE_COMMIT), abi.dsUint16_t()
        voted = self.call("dsmEndTxn", {"vote": vote}, self.handle, vote, byref(reason), reason=reason)
        decided = CallResult("dsmEndTxn", voted, reason.value)
        return (CallResult(function, code) if gives_up or (decided.ok and code) else decided).checked()

    # ---- reading

    def archives(self, name: Any) -> list[Row]:
        """Return the archived objects with this name; both levels may have the wildcards * and ?."""
        query = abi.qryArchiveData(abi.qryArchiveDataVersion, ctypes.pointer(name), descr=b"*")
        query.insDateUpperBound.year = query.expDateUpperBound.year = abi.DATE_PLUS_INFINITE
        response = abi.qryRespArchiveData(stVersion=_RESPONSE_VERSION)
        return self._query(abi.qtArchive, {"object": _words(name)}, query, response, lambda: _row(response), asdict)

    def backups(self, name: Any) -> int:
        """Return the number of backups of this name; 0 if the server has no such query."""
        query = abi.qryBackupData(abi.qryBackupDataVersion, ctypes.pointer(name), objState=abi.DSM_ANY_MATCH)
        response = abi.qryRespBackupData(stVersion=abi.qryRespBackupDataVersion)
        found = self._query(
            abi.qtBackup, {"object": _words(name)}, query, response,
            lambda: whole(response.objId), lambda number: {"id": number},
        )  # fmt: skip
        return len(found)

    def _query(
        self,
        kind: int,
        about: Mapping[str, Plain],
        query: ctypes.Structure,
        response: ctypes.Structure,
        read: Callable[[], _Value],
        shown: Callable[[_Value], Mapping[str, Plain]],
    ) -> list[_Value]:
        """Return what ``read`` finds in ``response`` after each answer; the record has it as ``shown``.

        Raises Inconclusive only if the server is in trouble.
        """
        found: list[_Value] = []

        def one() -> Mapping[str, Plain]:
            if not block.numBytes:
                return {}
            found.append(read())
            return shown(found[-1])

        pointer = cast(ctypes.pointer(query), c_void_p)
        code = self.call("dsmBeginQuery", {"query": kind, **about}, self.handle, kind, pointer)
        if code != Code.OK:
            CallResult("dsmBeginQuery", code).checked()
            return found
        block = abi.DataBlk(stVersion=abi.DataBlkVersion, bufferLen=sizeof(response))
        block.bufferPtr = ctypes.addressof(response)
        code = int(Code.MORE_DATA)
        while code == Code.MORE_DATA:
            block.numBytes = 0
            code = self.call("dsmGetNextQObj", {}, self.handle, byref(block), answer=one)
        self.call("dsmEndQuery", {}, self.handle)
        if code not in (Code.FINISHED, Code.ABORT_NO_MATCH):
            raise Inconclusive(f"a query failed: {CallResult('dsmGetNextQObj', code)}")
        return found

    def retrieve(self, number: int) -> tuple[bytes | None, CallResult]:
        """Return the bytes of an archived object, or None, and the result of the calls."""
        wanted = (abi.ObjID * 1)(halves(number))
        objects = abi.dsmGetList(abi.dsmGetListVersion, 1, cast(wanted, POINTER(abi.ObjID)))
        given = (self.handle, abi.bTrue, abi.gtArchive, byref(objects))
        function, code = "dsmBeginGetData", self.call("dsmBeginGetData", {"id": number}, *given)
        if code != Code.OK:
            return None, CallResult(function, code).checked()
        buffer, content = ctypes.create_string_buffer(_BUFFER_BYTES), bytearray()
        block = abi.DataBlk(stVersion=abi.DataBlkVersion, bufferPtr=ctypes.addressof(buffer))

        def piece() -> Mapping[str, Plain]:
            got = ctypes.string_at(buffer, block.numBytes)
            content.extend(got)
            return {"bytes": len(got), "sha256": hashlib.sha256(got).hexdigest()}

        function, code = "dsmGetObj", int(Code.MORE_DATA)
        before: tuple[Any, ...] = (byref(wanted[0]),)
        while code == Code.MORE_DATA:
            block.bufferLen, block.numBytes = _BUFFER_BYTES, 0
            code = self.call(function, {"id": number}, self.handle, *before, byref(block), answer=piece)
            outcome = CallResult(function, code)
            function, before = "dsmGetData", ()
        if code == Code.FINISHED:
            outcome = CallResult("dsmEndGetObj", self.call("dsmEndGetObj", {}, self.handle))
        self.call("dsmEndGetData", {}, self.handle)
        return (bytes(content) if outcome.ok else None), outcome.checked()


_HANDLE_INSIDE = ("dsmRetentionEvent", "dsmRenameObj")  # their structure has the session handle


def name_of(space: str, high_level: str, low_level: str) -> Any:
    """Return an object's name as a structure of the API."""
    return abi.dsmObjName(space.encode(), high_level.encode(), low_level.encode(), abi.DSM_OBJ_FILE)


def _words(name: Any) -> str:
    return bytes(name.fs + name.hl + name.ll).decode(errors="replace")


def _row(response: Any) -> Row:
    return Row(
        id=whole(response.objId),
        high_level=response.objName.hl.decode(errors="replace"),
        low_level=response.objName.ll.decode(errors="replace"),
        owner=response.owner.decode(errors="replace"),
        management_class=response.mcName.decode(errors="replace"),
        archived=seconds_of(response.insDate) or 0,
        expires=seconds_of(response.expDate),
        initiated=response.retentionInitiated,
        held=response.objHeld,
        size_bytes=whole(response.sizeEstimate),
    )
