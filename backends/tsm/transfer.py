"""Archive and retrieve operations of one client's thread: transactions of archives, get lists of retrieves.

A client's structures are made once; only a name, a length and an address change from object to object. So the cost of
an object is the cost of its calls. Answers of the platform are returned, not raised.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, cast
from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

from archiver.values.content import LAST_BLOCK_BYTES, Content, ContentCheck, LengthCheck
from archiver.values.record import Status
from backends.base import Failure, check_of
from backends.tsm.index import Target, description
from backends.tsm.library import structures as abi
from backends.tsm.library.api import Library, halves
from backends.tsm.library.codes import Code
from backends.tsm.setting import OBJECTS_PER_GROUP, TsmWorkerSetting, high_level
from backends.tsm.transactions import SentTransaction, Stopped, Transactions, ends_session, failure_of

BUFFER_BYTES = 256 * 1024  # retrieved data is checked in pieces of this size, which fit in the processor's cache

Check = ContentCheck | LengthCheck


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The result of retrieving or querying one object. ``size_bytes``: its expected bytes, 0 if none were requested."""

    number: int
    size_bytes: int
    sent_ns: int
    first_byte_ns: int
    done_ns: int
    failure: Failure | None


class Transfer:
    """The structures of one client, for one thread at a time."""

    def __init__(self, library: Library, setting: TsmWorkerSetting, content: Content, verify: str) -> None:
        self._library = library
        self._setting = setting
        self._content = content
        self._verify = verify
        self._group = self._size_bytes = -1  # in the name and in the attributes now
        self._version = 1  # in the description now
        self._name = abi.dsmObjName(fs=setting.space.encode(), objType=abi.DSM_OBJ_FILE)
        self._name_ref = byref(self._name)
        self._attributes = abi.ObjAttr(stVersion=setting.attributes_version, objCompressed=abi.bTrue)
        self._attributes.disableDeduplication = abi.bTrue
        if setting.management_class is not None:
            self._attributes.mcNameP = setting.management_class.encode()
        self._attributes_ref = byref(self._attributes)
        self._described = abi.sndArchiveData(stVersion=abi.sndArchiveDataVersion)
        self._described_ref = byref(self._described)
        self._key = abi.mcBindKey(stVersion=abi.mcBindKeyVersion)
        self._key_ref = byref(self._key)
        self._block = abi.DataBlk(stVersion=abi.DataBlkVersion)
        self._block_ref = byref(self._block)
        self._id = abi.ObjID()
        self._id_ref = byref(self._id)
        self._pool_address = cast(ctypes.c_char_p(content.pool), ctypes.c_void_p).value or 0
        self._last_block = bytearray(LAST_BLOCK_BYTES)
        self._last_address = ctypes.addressof(ctypes.c_char.from_buffer(self._last_block))
        self._buffer = bytearray(BUFFER_BYTES)
        self._buffer_address = ctypes.addressof(ctypes.c_char.from_buffer(self._buffer))
        self._buffer_view = memoryview(self._buffer)
        self._transactions = Transactions(library, setting.objects_per_transaction)

    # Archiving.

    def archive(self, handle: int, objects: Sequence[Target], stopped: Stopped) -> list[SentTransaction]:
        """Archive objects in transactions of as many objects as allowed, one after another.

        After a refused transaction the next is tried. After one that ends the session, none is tried.
        """
        return self._transactions.each(handle, objects, self._send, stopped)

    def _send(self, handle: int, target: Target) -> tuple[str, int]:
        """Send one object; return the deciding function and its return code, 0 if none failed."""
        functions, name, block = self._library.functions, self._name, self._block
        number, size_bytes, version = target.number, target.size_bytes, target.version
        if number // OBJECTS_PER_GROUP != self._group:
            name.hl = high_level(self._setting.prefix, number).encode()
            self._group = number // OBJECTS_PER_GROUP
        name.ll = b"/%012d" % number
        code = functions.dsmBindMC(handle, self._name_ref, abi.stArchive, self._key_ref)
        if code:
            return "dsmBindMC", code
        if size_bytes != self._size_bytes:
            self._attributes.sizeEstimate = halves(size_bytes)
            self._size_bytes = size_bytes
        if version != self._version:
            self._described.descr = description(version)
            self._version = version
        content = self._content
        last = content.last_block(number, size_bytes, version)
        self._last_block[: len(last)] = last
        window_bytes = size_bytes - len(last)
        if window_bytes:
            block.bufferPtr, block.bufferLen = self._pool_address + content.window_start(number), window_bytes
        else:
            block.bufferPtr, block.bufferLen = self._last_address, len(last)
        code = functions.dsmSendObj(
            handle, abi.stArchive, self._described_ref, self._name_ref, self._attributes_ref, self._block_ref
        )
        if code:
            return "dsmSendObj", code
        if window_bytes:
            block.bufferPtr, block.bufferLen = self._last_address, len(last)
            code = functions.dsmSendData(handle, self._block_ref)
            if code:
                if code == Code.WILL_ABORT:
                    functions.dsmEndSendObj(handle)
                return "dsmSendData", code
        return "dsmEndSendObj", functions.dsmEndSendObj(handle)

    # Retrieving.

    def retrieve(self, handle: int, wanted: Sequence[Target], stopped: Stopped) -> list[Retrieved]:
        """Retrieve objects in this order: all of them whole, or a part of each.

        An object that fails ends its get list; the objects after it go into another. A lost connection ends the whole
        operation.
        """
        done: list[Retrieved] = []
        while len(done) < len(wanted) and not stopped():
            limit = abi.DSM_MAX_GET_OBJ if wanted[0].extent is None else abi.DSM_MAX_PARTIAL_GET_OBJ
            got = self._get_list(handle, wanted[len(done) : len(done) + limit], self._verify, stopped)
            if not got:
                break  # stopped before the first
            done += got
            if ends_session(got[-1].failure):
                break
        return done

    def retrieve_whole(self, handle: int, target: Target) -> Retrieved:
        """Retrieve one object and compare every byte, for any --verify."""
        (one,) = self._get_list(handle, [target], "all", lambda: False)
        return one

    def _get_list(self, handle: int, chunk: Sequence[Target], verify: str, stopped: Stopped) -> list[Retrieved]:
        functions = self._library.functions
        done: list[Retrieved] = []
        sent_ns = monotonic_ns()
        get_list = _list_of(chunk)
        code = functions.dsmBeginGetData(handle, abi.bTrue, abi.gtArchive, byref(get_list))
        if code:
            now_ns = monotonic_ns()
            failure = failure_of(self._library, "dsmBeginGetData", code)
            return [Retrieved(chunk[0].number, 0, sent_ns, now_ns, now_ns, failure)]
        for target in chunk:
            if stopped():
                break
            one = self._get(handle, target, sent_ns, self._check(target, verify))
            done.append(one)
            if one.failure is not None and one.failure.status != Status.DAMAGED:
                break
            sent_ns = one.done_ns
        functions.dsmEndGetData(handle)
        return done

    def _get(self, handle: int, target: Target, sent_ns: int, check: Check) -> Retrieved:
        """Retrieve and check one object of the get list."""
        functions, block, wanted = self._library.functions, self._block, self._id
        wanted.hi, wanted.lo = target.id >> 32, target.id & 0xFFFFFFFF
        block.bufferPtr, block.bufferLen, block.numBytes = self._buffer_address, BUFFER_BYTES, 0
        function = "dsmGetObj"
        code = functions.dsmGetObj(handle, self._id_ref, self._block_ref)
        first_byte_ns = monotonic_ns()
        while code in (Code.MORE_DATA, Code.FINISHED):
            if block.numBytes:
                check.feed(self._buffer_view[: block.numBytes])
            if code == Code.FINISHED:
                break
            function = "dsmGetData"
            block.bufferLen, block.numBytes = BUFFER_BYTES, 0
            code = functions.dsmGetData(handle, self._block_ref)
        failure = None
        if code == Code.FINISHED:
            code = functions.dsmEndGetObj(handle)
            function = "dsmEndGetObj"
            if code:
                failure = failure_of(self._library, function, code)
            elif not check.finish():
                failure = Failure(Status.DAMAGED, "damaged", "the bytes are not those that were archived")
        else:
            failure = failure_of(self._library, function, code)
        return Retrieved(target.number, check.size_bytes, sent_ns, first_byte_ns, monotonic_ns(), failure)

    def _check(self, target: Target, verify: str) -> Check:
        """Return the check for the retrieved bytes of this object."""
        return check_of(
            self._content,
            verify,
            target.number,
            target.size_bytes,
            version=target.version,
            part=target.extent,
            content_number=target.content,
        )


def _list_of(chunk: Sequence[Target]) -> Any:
    """Return the dsmGetList for these objects, or for these parts of objects."""
    ids = (abi.ObjID * len(chunk))(*(halves(target.id) for target in chunk))
    get_list = abi.dsmGetList(abi.dsmGetListVersion, len(chunk), cast(ids, POINTER(abi.ObjID)))
    extents = [target.extent for target in chunk if target.extent is not None]
    if extents:
        assert len(extents) == len(chunk)
        version = abi.PartialObjDataVersion
        parts = [abi.PartialObjData(version, halves(offset), halves(length)) for offset, length in extents]
        get_list.stVersion = abi.dsmGetListPORVersion
        get_list.partialObjData = cast((abi.PartialObjData * len(parts))(*parts), POINTER(abi.PartialObjData))
    return get_list
