"""Query of one object by its name.

The structures of the query are made once; only the name changes from object to object.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p, cast, sizeof
from dataclasses import dataclass
from time import monotonic_ns

from archiver.values.record import TSM_ERROR
from backends.base import Failure
from backends.tsm.index import firsts
from backends.tsm.library import structures as abi
from backends.tsm.library.api import RESPONSE_VERSION, ArchivedObject, Library, archived_object
from backends.tsm.library.codes import Code, describe
from backends.tsm.setting import TsmWorkerSetting, high_level, low_level
from backends.tsm.transactions import failure_of

NO_SUCH_OBJECT = Failure(
    TSM_ERROR + Code.ABORT_NO_MATCH,
    describe(Code.ABORT_NO_MATCH),
    "dsmGetNextQObj: the server has no such object",
)


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The result of one query. ``found`` is None if and only if there is a failure."""

    sent_ns: int
    first_byte_ns: int
    done_ns: int
    found: ArchivedObject | None
    failure: Failure | None


class ObjectQuery:
    """The query of one client, for one thread at a time."""

    def __init__(self, library: Library, setting: TsmWorkerSetting) -> None:
        self._library = library
        self._space, self._prefix = setting.space, setting.prefix
        self._name = abi.dsmObjName(fs=setting.space.encode(), objType=abi.DSM_OBJ_FILE)
        self._query = abi.qryArchiveData(abi.qryArchiveDataVersion, ctypes.pointer(self._name), descr=b"*")
        self._query.insDateUpperBound.year = self._query.expDateUpperBound.year = abi.DATE_PLUS_INFINITE
        self._query_pointer = cast(ctypes.pointer(self._query), c_void_p)
        self._response = abi.qryRespArchiveData(stVersion=RESPONSE_VERSION)
        self._block = abi.DataBlk(stVersion=abi.DataBlkVersion, bufferLen=sizeof(self._response))
        self._block.bufferPtr = ctypes.addressof(self._response)
        self._block_ref = byref(self._block)

    def ask(self, handle: int, number: int, version: int) -> QueryResult:
        """Query the archive of object ``number`` that has this content version."""
        functions, block = self._library.functions, self._block
        self._name.hl = high_level(self._prefix, number).encode()
        self._name.ll = low_level(number).encode()
        found: list[ArchivedObject] = []
        sent_ns = monotonic_ns()
        first_byte_ns = 0
        function, code = "dsmBeginQuery", functions.dsmBeginQuery(handle, abi.qtArchive, self._query_pointer)
        if code == Code.OK:
            function, code = "dsmGetNextQObj", Code.MORE_DATA
            while code == Code.MORE_DATA:
                block.numBytes = 0
                code = functions.dsmGetNextQObj(handle, self._block_ref)
                first_byte_ns = first_byte_ns or monotonic_ns()
                if code == Code.MORE_DATA or (code == Code.FINISHED and block.numBytes):
                    found.append(archived_object(self._response))
            functions.dsmEndQuery(handle)
        done_ns = monotonic_ns()
        failure, wanted = None, None
        if code not in (Code.FINISHED, Code.ABORT_NO_MATCH):
            failure = failure_of(self._library, function, code)
        else:
            wanted = firsts(found, self._space, self._prefix).get((number, version))
            failure = NO_SUCH_OBJECT if wanted is None else None
        return QueryResult(sent_ns, first_byte_ns or done_ns, done_ns, wanted, failure)
