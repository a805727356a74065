"""The binding: a library with the ABI of the TSM client API, loaded, prototyped and made to speak Python.

One idea: what happens once per run raises a TsmError that says all the library knows of it; what happens once per
object (transfer.py) calls the same functions with structures made beforehand, and looks at plain return codes.
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

from archiver.errors import PlatformError
from backends.tsm import structures as abi
from backends.tsm.codes import Code, describe

FILE_NAME = "libApiTSM64.so"
APPLICATION = b"Archiver"
NO_LIMIT_DAYS = 65_535
RESPONSE_VERSION = 6  # of an archived object: has all that is looked at, and older libraries know no later one


class TsmError(Exception):
    """A call that did not succeed, with the library's own words for it."""

    def __init__(self, function: str, code: int, text: str, reason: int = 0, reason_text: str = "") -> None:
        self.function = function
        self.code = code
        self.reason = reason
        self.text = reason_text or text
        shown = describe(code) + (f", reason {describe(reason)}" if reason else "")
        super().__init__(f"{function}: {shown}: {self.text}")

    @property
    def deciding_code(self) -> int:
        """The reason where there is one: it says what the code only announces."""
        return self.reason or self.code

    @property
    def lost(self) -> bool:
        """The server cannot be reached, or no longer."""
        return self.code < 0


def default_library_path() -> Path:
    """Our own library, made when the package was installed. Raises PlatformError where it was not."""
    path = Path(__file__).with_name(FILE_NAME)
    if not path.exists():
        raise PlatformError(
            f"{path}: our library for the TSM API was not built when Archiver was installed, for want of a C compiler; "
            "install one (gcc or clang) and install Archiver again, or name IBM's with --tsm-library, for example "
            "/opt/tivoli/tsm/client/api/bin64/libApiTSM64.so"
        )
    return path


@dataclass(frozen=True, slots=True)
class ManagementClass:
    """A class as the policy set has it. ``retver_days`` None: no limit."""

    name: str
    description: str
    archives: bool  # it has an archive copy group
    retver_days: int | None
    retmin_days: int
    by_event: bool  # retention begins with an event, not with the archiving


@dataclass(frozen=True, slots=True)
class ArchivedObject:
    """One answer to a query. Dates are the server's local time, in seconds as if it were UTC; None: never."""

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


class Library:
    """One loaded library. Its functions are attributes by their own names, with prototypes."""

    def __init__(self, path: str) -> None:
        """Raises PlatformError where ``path`` is no loadable library, or none of this API."""
        self.path = path
        try:
            self.functions: Any = ctypes.CDLL(path)
        except OSError as error:
            raise PlatformError(f"--tsm-library {path}: cannot be loaded: {error}") from error
        self.missing = [name for name in abi.PROTOTYPES if not hasattr(self.functions, name)]
        if not self.exports:
            raise PlatformError(f"--tsm-library {path}: is no library of the TSM API: it has none of its functions")
        for name in abi.PROTOTYPES.keys() - set(self.missing):
            function = getattr(self.functions, name)
            function.restype, function.argtypes = abi.PROTOTYPES[name]

    @property
    def exports(self) -> int:
        """How many of the API's functions it has."""
        return len(abi.PROTOTYPES) - len(self.missing)

    def version(self) -> tuple[int, int, int, int]:
        """The library's own version."""
        found = abi.dsmApiVersionEx(stVersion=abi.apiVersionExVer)
        self.functions.dsmQueryApiVersionEx(byref(found))
        return found.version, found.release, found.level, found.subLevel

    def caller_version(self) -> tuple[int, int, int, int]:
        """Return the version to sign on as: ours, or the library's if it is older, because it refuses newer callers."""
        ours = abi.DSM_API_VERSION, abi.DSM_API_RELEASE, abi.DSM_API_LEVEL, abi.DSM_API_SUBLEVEL
        return min(ours, self.version())

    def message(self, code: int) -> str:
        """The library's text for a return code."""
        text = create_string_buffer(abi.DSM_MAX_RC_MSG_LENGTH + 1)
        if self.functions.dsmRCMsg(0, code, text) != Code.OK:
            return "the library has no text for this code"
        return text.value.decode(errors="replace").strip().removesuffix(".")

    def check(self, function: str, code: int, reason: int = 0) -> None:
        """Raise TsmError unless ``code`` and ``reason`` are those of a success."""
        if code != Code.OK or reason:
            said = self.message(reason) if reason else ""
            raise TsmError(function, code, self.message(code), reason, said)

    def set_up(self, configuration: Path | None) -> None:
        """Allow several sessions, and read option files from a folder (None: where DSMI_CONFIG and DSMI_DIR say)."""
        with _set_up_lock:
            if _set_up.get(self.path, ...) == configuration:
                return
            environment = abi.envSetUp(stVersion=abi.envSetUpVersion)  # blank: as the variables say
            if configuration is not None:
                environment.dsmiDir = str(configuration).encode()
                environment.dsmiConfig = str(configuration / "dsm.opt").encode()
                environment.dsmiLog = str(configuration).encode()
            code = self.functions.dsmSetUp(abi.DSM_MULTITHREAD, byref(environment))
            self.check("dsmSetUp", code)
            _set_up[self.path] = configuration


_set_up_lock = threading.Lock()
_set_up: dict[str, Path | None] = {}  # what dsmSetUp was told, for the process


class SignOn:
    """What dsmInitEx is told, filled once and used for every session. Holds the password."""

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
        """A new session's return code and handle."""
        handle = abi.dsUint32_t()
        out = abi.dsmInitExOut_t(stVersion=abi.dsmInitExOutVersion)
        code = self._library.functions.dsmInitEx(byref(handle), self._in_ref, byref(out))
        return code, handle.value

    def open(self) -> ApiSession:
        """A session, for what happens once per run. Raises TsmError."""
        code, handle = self.attempt()
        session = ApiSession(self._library, handle)
        if code != Code.OK:
            session.terminate()  # an expired password leaves a handle behind
            self._library.check("dsmInitEx", code)
        return session


class ApiSession:
    """One session of the API, used by one thread at a time; leaving the ``with`` block ends it."""

    def __init__(self, library: Library, handle: int) -> None:
        self._library = library
        self._functions = library.functions
        self.handle = handle

    def __enter__(self) -> ApiSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    def terminate(self) -> None:
        """End the session, whatever it was doing."""
        self._functions.dsmTerminate(self.handle)

    def information(self) -> Any:
        """What the server says of itself and of this session (ApiSessInfo)."""
        found = abi.ApiSessInfo(stVersion=abi.ApiSessInfoVersion)
        self._library.check("dsmQuerySessInfo", self._functions.dsmQuerySessInfo(self.handle, byref(found)))
        return found

    def options(self) -> Any:
        """The options in force (optStruct)."""
        found = abi.optStruct()
        self._library.check("dsmQuerySessOptions", self._functions.dsmQuerySessOptions(self.handle, byref(found)))
        return found

    def is_encrypted(self) -> bool | None:
        """Whether what the session sends is encrypted on its way; None where the library does not tell, as the API has
        no call for it and only ours has one of its own."""
        name = "archiverQueryEncryption"
        ask = getattr(self._functions, name, None)
        if ask is None:
            return None
        found = abi.dsmBool_t()
        self._library.check(name, ask(self.handle, byref(found)))
        return bool(found.value)

    def management_classes(self) -> dict[str, ManagementClass]:
        """The classes of the active policy set, by name."""
        query = abi.qryMCData(abi.qryMCDataVersion, b"", abi.bTrue)
        response = abi.qryRespMCDetailData(stVersion=abi.qryRespMCDetailDataVersion)
        found = {}
        for _ in self._query(abi.qtMC, query, response):
            group, name = response.archDet, response.mcName.decode()
            found[name] = ManagementClass(
                name=name,
                description=response.mcDesc.decode(errors="replace"),
                archives=bool(group.cgName),
                retver_days=None if group.retainVers == NO_LIMIT_DAYS else group.retainVers,
                retmin_days=group.retainMin,
                by_event=group.retainInit == abi.ARCH_RETINIT_EVENT,
            )
        return found

    def has_space(self, space: str) -> bool:
        """Whether the node has a file space of that name."""
        query = abi.qryFSData(abi.qryFSDataVersion, space.encode())
        response = abi.qryRespFSData(stVersion=abi.qryRespFSDataVersion)
        return space.encode() in [response.fsName for _ in self._query(abi.qtFilespace, query, response)]

    def register_space(self, space: str) -> None:
        """Make a file space; one that is there already is as good."""
        data = abi.regFSData(stVersion=abi.regFSDataVersion, fsName=space.encode(), fsType=APPLICATION)
        code = self._functions.dsmRegisterFS(self.handle, byref(data))
        if code != Code.FS_ALREADY_REGED:
            self._library.check("dsmRegisterFS", code)

    def delete_space(self, space: str) -> None:
        """Delete a file space and all in it that may be deleted."""
        code = self._functions.dsmDeleteFS(self.handle, space.encode(), abi.DSM_REPOS_ALL)
        self._library.check("dsmDeleteFS", code)

    def archives(self, space: str, high_level: str, low_level: str = "*") -> Iterator[ArchivedObject]:
        """The archived objects of these names; both levels may have the wildcards * and ?."""
        name = abi.dsmObjName(space.encode(), high_level.encode(), low_level.encode(), abi.DSM_OBJ_ANY_TYPE)
        query = abi.qryArchiveData(stVersion=abi.qryArchiveDataVersion, objName=ctypes.pointer(name), descr=b"*")
        query.insDateUpperBound.year = query.expDateUpperBound.year = abi.DATE_PLUS_INFINITE
        response = abi.qryRespArchiveData(stVersion=RESPONSE_VERSION)
        for _ in self._query(abi.qtArchive, query, response):
            yield archived_object(response)

    def delete(self, ids: Sequence[int]) -> None:
        """Delete archived objects in one transaction: all of them, or none and a TsmError."""
        self._library.check("dsmBeginTxn", self._functions.dsmBeginTxn(self.handle))
        for one in ids:
            which = abi.dsmDelInfo(archInfo=abi.delArch(abi.delArchVersion, halves(one)))
            code = self._functions.dsmDeleteObj(self.handle, abi.dtArchive, which)
            self._in_transaction("dsmDeleteObj", code)
        self._commit()

    def release(self, ids: Sequence[int]) -> None:
        """Release the holds of archived objects in one transaction: of all of them, or of none and a TsmError."""
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
        """Raise TsmError for a call that failed, after giving its transaction up."""
        if code == Code.OK:
            return
        reason = abi.dsUint16_t()
        if code == Code.WILL_ABORT:  # the vote tells why
            self._commit()
        self._functions.dsmEndTxn(self.handle, abi.DSM_VOTE_ABORT, byref(reason))
        self._library.check(function, code)

    def _commit(self) -> None:
        reason = abi.dsUint16_t()
        code = self._functions.dsmEndTxn(self.handle, abi.DSM_VOTE_COMMIT, byref(reason))
        self._library.check("dsmEndTxn", code, reason.value)

    def _query(self, kind: int, query: ctypes.Structure, response: ctypes.Structure) -> Iterator[None]:
        """Fill ``response`` with one answer after another."""
        code = self._functions.dsmBeginQuery(self.handle, kind, cast(ctypes.pointer(query), c_void_p))
        self._library.check("dsmBeginQuery", code)
        block = abi.DataBlk(stVersion=abi.DataBlkVersion, bufferLen=sizeof(response))
        block.bufferPtr = ctypes.addressof(response)
        block_ref = byref(block)
        try:
            while True:
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
    """An integer as the API has it: its high half first."""
    return abi.dsStruct64_t(value >> 32, value & 0xFFFFFFFF)


def whole(struct64: Any) -> int:
    """Such a pair of halves as an integer."""
    return int(struct64.hi) << 32 | int(struct64.lo)


def archived_object(response: Any) -> ArchivedObject:
    """What a qryRespArchiveData says."""
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
    )


def _restore_order(order: Any) -> int:
    value = 0
    for part in (order.top, order.hi_hi, order.hi_lo, order.lo_hi, order.lo_lo):
        value = value << 32 | part
    return value


def seconds_of(date: Any) -> int | None:
    """A date as seconds, as if the server's local time were UTC; None for no date and for never."""
    if date.year in (abi.DATE_MINUS_INFINITE, abi.DATE_PLUS_INFINITE):
        return None
    return calendar.timegm((date.year, date.month, date.day, date.hour, date.minute, date.second))
