"""The binding to any library that has the TSM client API: loading, prototypes, and calls made once per run.

Calls made once per run raise a TsmError with the library's text. Calls made once per object (transfer.py) use the same
functions, reuse their structures, and look at plain return codes.
"""

from __future__ import annotations

import calendar
import ctypes
import threading
from collections.abc import Iterator, Sequence
from ctypes import POINTER, byref, c_void_p, cast, create_string_buffer, sizeof
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archiver.values.errors import PlatformError
from backends.tsm.library import structures as abi
from backends.tsm.library.codes import Code, describe

FILE_NAME = "libApiTSM64.so"
APPLICATION = b"Archiver"
NO_LIMIT_DAYS = 65_535
OLDER_ATTRIBUTES_VERSION = 3  # of ObjAttr: it lacks only the flag for longer information, which we never set
PROBLEM_BYTES = 1024  # longest text of archiverQueryProblem
RESPONSE_VERSION = 6  # of qryRespArchiveData: has all fields we read; older libraries refuse later versions


class TsmError(Exception):
    """A call that failed, with the library's text for it, and the place and kind of a problem if it gives them."""

    def __init__(
        self, function: str, code: int, text: str, reason: int = 0, reason_text: str = "", problem: str = ""
    ) -> None:
        self.function = function
        self.code = code
        self.reason = reason
        self.text = reason_text or text
        self.problem = problem
        shown = describe(code) + (f", reason {describe(reason)}" if reason else "")
        super().__init__(f"{function}: {shown}: {self.text}" + (f": {problem}" if problem else ""))

    @property
    def deciding_code(self) -> int:
        """Return the reason of the vote if there is one, otherwise the return code."""
        return self.reason or self.code

    @property
    def lost(self) -> bool:
        """Whether the connection to the server failed or was lost."""
        return self.code < 0 or self.code == Code.INVALID_DS_HANDLE


OWN_LIBRARY = Path(__file__).parent.with_name(FILE_NAME)  # there if it was built when the package was installed


def default_library_path() -> Path:
    """Return the path of our own library. Raises PlatformError if it was not built when the package was installed."""
    path = OWN_LIBRARY
    if not path.exists():
        raise PlatformError(
            f"{path}: our library for the TSM API was not built when Archiver was installed, because there was no C "
            "compiler; install one (gcc or clang) and install Archiver again, or name IBM's with --tsm-library, for "
            "example /opt/tivoli/tsm/client/api/bin64/libApiTSM64.so"
        )
    return path


@dataclass(frozen=True, slots=True)
class ReportedManagementClass:
    """A management class of the active policy set. ``retver_days`` None: no limit."""

    name: str
    description: str
    archives: bool  # it has an archive copy group
    retver_days: int | None
    retmin_days: int
    by_event: bool  # retention begins with an event instead of with the archive operation


@dataclass(frozen=True, slots=True)
class ArchivedObject:
    """One answer to a query. Dates are the server's local time, in epoch seconds as if it were UTC; None: never."""

    high_level: bytes
    low_level: bytes
    id: int
    restore_order: int
    size_bytes: int
    management_class: str
    archived: int
    expires: int | None
    held: bool
    description: bytes = b""
    space: bytes = b""


class Library:
    """One loaded library. ``functions`` has its functions by name, with their prototypes set."""

    def __init__(self, path: str) -> None:
        """Load ``path``. Raises PlatformError if it cannot be loaded or has no function of the API."""
        self.path = path
        try:
            self.functions: Any = ctypes.CDLL(path)
        except OSError as error:
            raise PlatformError(f"--tsm-library {path}: cannot be loaded: {error}") from error
        self.missing = [name for name in abi.PROTOTYPES if not hasattr(self.functions, name)]
        if not self.exports:
            raise PlatformError(f"--tsm-library {path}: is not a library of the TSM API: it has none of its functions")
        for name in abi.PROTOTYPES.keys() - set(self.missing):
            function = getattr(self.functions, name)
            function.restype, function.argtypes = abi.PROTOTYPES[name]

    @property
    def exports(self) -> int:
        """Return how many functions of the API the library has."""
        return len(abi.PROTOTYPES) - len(self.missing)

    def version(self) -> tuple[int, int, int, int]:
        """Return the library's version, release, level and sublevel."""
        found = abi.dsmApiVersionEx(stVersion=abi.apiVersionExVer)
        self.functions.dsmQueryApiVersionEx(byref(found))
        return found.version, found.release, found.level, found.subLevel

    def caller_version(self) -> tuple[int, int, int, int]:
        """Return the version to sign on as: ours, or the library's if it is older, because it refuses newer callers."""
        ours = abi.DSM_API_VERSION, abi.DSM_API_RELEASE, abi.DSM_API_LEVEL, abi.DSM_API_SUBLEVEL
        return min(ours, self.version())

    def message(self, code: int) -> str:
        """Return the library's text for a return code."""
        text = create_string_buffer(abi.DSM_MAX_RC_MSG_LENGTH + 1)
        if self.functions.dsmRCMsg(0, code, text) != Code.OK:
            return "the library has no text for this code"
        return text.value.decode(errors="replace").strip().removesuffix(".")

    def problem(self) -> str:
        """Return why the last sign-on of this thread failed: file, line and option, for example.

        "" if its return code tells, or if the library has no function for it: only our own has.
        """
        ask = getattr(self.functions, "archiverQueryProblem", None)
        text = create_string_buffer(PROBLEM_BYTES)
        return text.value.decode(errors="replace") if ask is not None and ask(text, len(text)) == Code.OK else ""

    def check(self, function: str, code: int, reason: int = 0, problem: str = "") -> None:
        """Raise TsmError unless ``code`` is OK and ``reason`` is 0."""
        if code != Code.OK or reason:
            reason_text = self.message(reason) if reason else ""
            raise TsmError(function, code, self.message(code), reason, reason_text, problem)

    def set_up(self, configuration: Path | None) -> None:
        """Call dsmSetUp once: allow several sessions, and read option files from ``configuration``.

        None leaves DSMI_CONFIG and DSMI_DIR in force. Raises TsmError.
        """
        with _set_up_lock:
            if _set_up.get(self.path, ...) == configuration:
                return
            environment = abi.envSetUp(stVersion=abi.envSetUpVersion)  # empty fields leave the variables in force
            if configuration is not None:
                environment.dsmiDir = str(configuration).encode()
                environment.dsmiConfig = str(configuration / "dsm.opt").encode()
                environment.dsmiLog = str(configuration).encode()
            code = self.functions.dsmSetUp(abi.DSM_MULTITHREAD, byref(environment))
            self.check("dsmSetUp", code)
            _set_up[self.path] = configuration


_set_up_lock = threading.Lock()
_set_up: dict[str, Path | None] = {}  # folder last given to dsmSetUp, by library path; dsmSetUp is process-wide


class SignOn:
    """The input of dsmInitEx, filled once and used for every session. It contains the password."""

    def __init__(self, library: Library, node: str | None, password: str | None, options: str) -> None:
        self._library = library
        self._version = abi.dsmApiVersionEx(abi.apiVersionExVer, *library.caller_version())
        self._in = abi.dsmInitExIn_t(stVersion=abi.dsmInitExInVersion)
        self._in.apiVersionExP = ctypes.pointer(self._version)
        self._in.clientNodeNameP = node.encode() if node else None
        self._in.clientPasswordP = password.encode() if password else None
        self._in.applicationTypeP = APPLICATION
        self._in.options = options.encode() if options else None
        self._in_ref = byref(self._in)

    def __repr__(self) -> str:
        return "SignOn()"

    def attempt(self) -> tuple[int, int]:
        """Open a session; return the return code and the handle."""
        handle = abi.dsUint32_t()
        out = abi.dsmInitExOut_t(stVersion=abi.dsmInitExOutVersion)
        code = self._library.functions.dsmInitEx(byref(handle), self._in_ref, byref(out))
        return code, handle.value

    def open(self) -> ApiSession:
        """Open a session for calls made once per run. Raises TsmError."""
        code, handle = self.attempt()
        session = ApiSession(self._library, handle)
        if code != Code.OK:
            problem = self._library.problem()
            session.terminate()  # an expired password gives a handle, too
            self._library.check("dsmInitEx", code, problem=problem)
        return session


class ApiSession:
    """One session of the API, for one thread at a time. Leaving the ``with`` block ends it."""

    def __init__(self, library: Library, handle: int) -> None:
        self._library = library
        self._functions = library.functions
        self.handle = handle

    def __enter__(self) -> ApiSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def terminate(self) -> None:
        """End the session in any state."""
        self._functions.dsmTerminate(self.handle)

    def information(self) -> Any:
        """Return the ApiSessInfo: the server, the node and this session. Raises TsmError."""
        found = abi.ApiSessInfo(stVersion=abi.ApiSessInfoVersion)
        self._library.check("dsmQuerySessInfo", self._functions.dsmQuerySessInfo(self.handle, byref(found)))
        return found

    def options(self) -> Any:
        """Return the optStruct: the options in force. Raises TsmError."""
        found = abi.optStruct()
        self._library.check("dsmQuerySessOptions", self._functions.dsmQuerySessOptions(self.handle, byref(found)))
        return found

    def is_encrypted(self) -> bool | None:
        """Return whether the session is encrypted, None if unknown: only our own library has a function for it."""
        name = "archiverQueryEncryption"
        ask = getattr(self._functions, name, None)
        if ask is None:
            return None
        found = abi.dsmBool_t()
        self._library.check(name, ask(self.handle, byref(found)))
        return bool(found.value)

    def management_classes(self) -> dict[str, ReportedManagementClass]:
        """Return the management classes of the active policy set by name. Raises TsmError."""
        query = abi.qryMCData(abi.qryMCDataVersion, b"", abi.bTrue)
        response = abi.qryRespMCDetailData(stVersion=abi.qryRespMCDetailDataVersion)
        found = {}
        for _ in self._query(abi.qtMC, query, response):
            group, name = response.archDet, response.mcName.decode()
            found[name] = ReportedManagementClass(
                name=name,
                description=response.mcDesc.decode(errors="replace"),
                archives=bool(group.cgName),
                retver_days=None if group.retainVers == NO_LIMIT_DAYS else group.retainVers,
                retmin_days=group.retainMin,
                by_event=group.retainInit == abi.ARCH_RETINIT_EVENT,
            )
        return found

    def has_space(self, space: str) -> bool:
        """Return whether the node has a file space of that name. Raises TsmError."""
        query = abi.qryFSData(abi.qryFSDataVersion, space.encode())
        response = abi.qryRespFSData(stVersion=abi.qryRespFSDataVersion)
        return space.encode() in [response.fsName for _ in self._query(abi.qtFilespace, query, response)]

    def register_space(self, space: str) -> None:
        """Register a file space, if it does not exist. Raises TsmError."""
        data = abi.regFSData(stVersion=abi.regFSDataVersion, fsName=space.encode(), fsType=APPLICATION)
        code = self._functions.dsmRegisterFS(self.handle, byref(data))
        if code != Code.FS_ALREADY_REGED:
            self._library.check("dsmRegisterFS", code)

    def delete_space(self, space: str) -> None:
        """Delete a file space and every object in it that may be deleted. Raises TsmError."""
        code = self._functions.dsmDeleteFS(self.handle, space.encode(), abi.DSM_REPOS_ALL)
        self._library.check("dsmDeleteFS", code)

    def archives(self, space: str, high_level: str, low_level: str = "*") -> Iterator[ArchivedObject]:
        """Yield the archived objects of these names. Both levels may have the wildcards * and ?. Raises TsmError."""
        name = abi.dsmObjName(space.encode(), high_level.encode(), low_level.encode(), abi.DSM_OBJ_ANY_TYPE)
        query = abi.qryArchiveData(stVersion=abi.qryArchiveDataVersion, objName=ctypes.pointer(name), descr=b"*")
        query.insDateUpperBound.year = query.expDateUpperBound.year = abi.DATE_PLUS_INFINITE
        response = abi.qryRespArchiveData(stVersion=RESPONSE_VERSION)
        for _ in self._query(abi.qtArchive, query, response):
            yield archived_object(response)

    def attributes_version(self) -> int:
        """Return the version of ObjAttr that the library accepts: ours, or the older one.

        The server does not see the attempt: its file space does not exist, and the transaction is aborted.
        Raises TsmError.
        """
        name = abi.dsmObjName(b"/archiver-attributes-version", b"/attempt", b"/1", abi.DSM_OBJ_FILE)
        attributes = abi.ObjAttr(stVersion=abi.ObjAttrVersion, sizeEstimate=halves(1))
        described = abi.sndArchiveData(stVersion=abi.sndArchiveDataVersion)
        key, reason = abi.mcBindKey(stVersion=abi.mcBindKeyVersion), abi.dsUint16_t()
        functions = self._functions
        self._library.check("dsmBeginTxn", functions.dsmBeginTxn(self.handle))
        functions.dsmBindMC(self.handle, byref(name), abi.stArchive, byref(key))
        code = functions.dsmSendObj(self.handle, abi.stArchive, byref(described), byref(name), byref(attributes), None)
        functions.dsmEndTxn(self.handle, abi.DSM_VOTE_ABORT, byref(reason))
        return OLDER_ATTRIBUTES_VERSION if code == Code.WRONG_VERSION_PARM else int(abi.ObjAttrVersion)

    def delete(self, ids: Sequence[int]) -> None:
        """Delete archived objects in one transaction. Raises TsmError if the server deleted none of them."""
        self._library.check("dsmBeginTxn", self._functions.dsmBeginTxn(self.handle))
        for one in ids:
            which = abi.dsmDelInfo(archInfo=abi.delArch(abi.delArchVersion, halves(one)))
            code = self._functions.dsmDeleteObj(self.handle, abi.dtArchive, which)
            self._in_transaction("dsmDeleteObj", code)
        self._commit()

    def release(self, ids: Sequence[int]) -> None:
        """Release the holds of archived objects in one transaction. Raises TsmError if the server released none."""
        self._library.check("dsmBeginTxn", self._functions.dsmBeginTxn(self.handle))
        array = (abi.ObjID * len(ids))(*map(halves, ids))
        event = abi.dsmRetentionEventIn_t(
            abi.dsmRetentionEventInVersion,
            self.handle,
            abi.eventReleaseObj,
            abi.dsmObjList_t(abi.dsmObjlistVersion, len(ids), cast(array, POINTER(abi.ObjID))),
        )
        out = abi.dsmRetentionEventOut_t(abi.dsmRetentionEventOutVersion)
        self._in_transaction("dsmRetentionEvent", self._functions.dsmRetentionEvent(byref(event), byref(out)))
        self._commit()

    def _in_transaction(self, function: str, code: int) -> None:
        """Abort the transaction and raise TsmError if a call in it failed."""
        if code == Code.OK:
            return
        reason = abi.dsUint16_t()
        if code == Code.WILL_ABORT:  # the vote returns the reason
            self._commit()
        self._functions.dsmEndTxn(self.handle, abi.DSM_VOTE_ABORT, byref(reason))
        self._library.check(function, code)

    def _commit(self) -> None:
        reason = abi.dsUint16_t()
        code = self._functions.dsmEndTxn(self.handle, abi.DSM_VOTE_COMMIT, byref(reason))
        self._library.check("dsmEndTxn", code, reason.value)

    def _query(self, kind: int, query: ctypes.Structure, response: ctypes.Structure) -> Iterator[None]:
        """Run a query; yield after each answer that ``response`` was filled with. Raises TsmError."""
        code = self._functions.dsmBeginQuery(self.handle, kind, cast(ctypes.pointer(query), c_void_p))
        self._library.check("dsmBeginQuery", code)
        block = abi.DataBlk(stVersion=abi.DataBlkVersion, bufferLen=sizeof(response))
        block.bufferPtr = ctypes.addressof(response)
        block_ref = byref(block)
        try:
            while True:
                block.numBytes = 0  # a library need not set it when it has no further answer
                code = self._functions.dsmGetNextQObj(self.handle, block_ref)
                if code == Code.MORE_DATA or (code == Code.FINISHED and block.numBytes):
                    yield
                if code in (Code.FINISHED, Code.ABORT_NO_MATCH):
                    return
                if code != Code.MORE_DATA:
                    self._library.check("dsmGetNextQObj", code)
        finally:
            self._functions.dsmEndQuery(self.handle)


def halves(value: int) -> Any:
    """Return an integer as a dsStruct64_t."""
    return abi.dsStruct64_t(value >> 32, value & 0xFFFFFFFF)


def whole(struct64: Any) -> int:
    """Return a dsStruct64_t as an integer."""
    return int(struct64.hi) << 32 | int(struct64.lo)


def archived_object(response: Any) -> ArchivedObject:
    """Return the fields of a qryRespArchiveData."""
    return ArchivedObject(
        high_level=response.objName.hl,
        low_level=response.objName.ll,
        id=whole(response.objId),
        restore_order=_restore_order(response.restoreOrderExt),
        size_bytes=whole(response.sizeEstimate),
        management_class=response.mcName.decode(),
        archived=seconds_of(response.insDate) or 0,
        expires=seconds_of(response.expDate),
        held=response.objHeld == abi.DSM_ARCH_HELD_TRUE,
        description=response.descr,
        space=response.objName.fs,
    )


def _restore_order(order: Any) -> int:
    value = 0
    for part in (order.top, order.hi_hi, order.hi_lo, order.lo_hi, order.lo_lo):
        value = value << 32 | part
    return value


def seconds_of(date: Any) -> int | None:
    """Return a dsmDate in epoch seconds, as if the server's local time were UTC; None for no date and for never."""
    if date.year in (abi.DATE_MINUS_INFINITE, abi.DATE_PLUS_INFINITE):
        return None
    return calendar.timegm((date.year, date.month, date.day, date.hour, date.minute, date.second))
