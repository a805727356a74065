"""What one client's thread does with its objects: transactions of archives, and lists of retrieves.

One idea: a client's structures are made once, and from object to object only a name, a length and an address change
in them, so that what an object costs is its calls. Nothing here raises for a platform's answer: it is in what returns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from ctypes import POINTER, byref, cast
from dataclasses import dataclass
from time import monotonic_ns

from archiver.content import LAST_BLOCK_BYTES, Content, ContentCheck, LengthCheck
from archiver.record import TSM_ERROR, Status
from backends.tsm import structures as abi
from backends.tsm.api import Library, halves
from backends.tsm.codes import Code, describe
from backends.tsm.setting import OBJECTS_PER_GROUP, WorkerSetting, high_level

SAMPLE_EVERY = 16  # --verify sample checks every sixteenth object number
BUFFER_BYTES = 256 * 1024  # a retrieved object is checked in pieces of this size, which stay in the processor's cache
_NEED_A_NEW_TRANSACTION = (Code.NEEDTO_ENDTXN, Code.NEEDTO_ENDTXN_DEDUP_SIZE_EXCEEDED)

Check = ContentCheck | LengthCheck


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something did not succeed."""

    status: int
    reason: str
    message: str
    outcome_unknown: bool = False


@dataclass(slots=True)
class Transaction:
    """One transaction as it went; ``sent_ns`` has the beginning of each of its objects."""

    numbers: list[int]
    sizes: list[int]
    sent_ns: list[int]
    began_ns: int = 0
    voted_ns: int = 0
    done_ns: int = 0
    failure: Failure | None = None
    session_over: bool = False  # the connection is lost, or no transaction can begin


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One retrieved object as it went."""

    number: int
    size_bytes: int
    sent_ns: int
    first_byte_ns: int
    done_ns: int
    failure: Failure | None


class Transfer:
    """The structures of one client, in one thread at a time."""

    def __init__(self, library: Library, setting: WorkerSetting, content: Content, verify: str) -> None:
        self._library = library
        self._setting = setting
        self._content = content
        self._verify = verify
        self._group = self._size_bytes = -1  # that the name and the attributes have now
        self._name = abi.dsmObjName(fs=setting.space.encode(), objType=abi.DSM_OBJ_FILE)
        self._name_ref = byref(self._name)
        self._attributes = abi.ObjAttr(stVersion=abi.ObjAttrVersion, objCompressed=abi.bTrue)
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
        self._reason = abi.dsUint16_t()
        self._reason_ref = byref(self._reason)

    # Archiving.

    def archive(
        self, handle: int, numbers: Sequence[int], sizes: Sequence[int], stopped: Callable[[], bool]
    ) -> list[Transaction]:
        """Archive objects in transactions of as many as are allowed, one after another.

        A transaction that was refused is no reason not to try the next; what comes after one that ends the session is
        not tried.
        """
        done: list[Transaction] = []
        at = 0
        while at < len(numbers) and not stopped():
            last = min(at + self._setting.objects_per_transaction, len(numbers))
            one = self._transaction(handle, numbers[at:last], sizes[at:last], stopped)
            done.append(one)
            at += len(one.numbers)
            if one.session_over:
                break
        return done

    def _transaction(
        self, handle: int, numbers: Sequence[int], sizes: Sequence[int], stopped: Callable[[], bool]
    ) -> Transaction:
        """One transaction of as many of these objects as the server takes into it, at least one."""
        functions = self._library.functions
        one = Transaction([], [], [], began_ns=monotonic_ns())
        code = functions.dsmBeginTxn(handle)
        failed_in = "dsmBeginTxn" if code else ""
        if code:
            one.numbers.append(numbers[0])
            one.sizes.append(sizes[0])
            one.sent_ns.append(one.began_ns)
        else:
            for number, size_bytes in zip(numbers, sizes, strict=True):
                if stopped():
                    break
                sent_ns = monotonic_ns()
                failed_in, code = self._send(handle, number, size_bytes)
                if code in _NEED_A_NEW_TRANSACTION and one.numbers:
                    failed_in, code = "", 0
                    break
                one.numbers.append(number)
                one.sizes.append(size_bytes)
                one.sent_ns.append(sent_ns)
                if code:
                    break
        one.voted_ns = monotonic_ns()
        self._end(handle, one, failed_in, code, stopped())
        one.done_ns = monotonic_ns()
        lost = one.failure is not None and one.failure.status == Status.CONNECTION_LOST
        one.session_over = lost or failed_in == "dsmBeginTxn"
        return one

    def _send(self, handle: int, number: int, size_bytes: int) -> tuple[str, int]:
        """Send one object; the function that failed and its return code, 0 where none did."""
        functions, name, block = self._library.functions, self._name, self._block
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
        content = self._content
        last = content.last_block(number, size_bytes)
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

    def _end(self, handle: int, one: Transaction, failed_in: str, code: int, stopped: bool) -> None:
        """Vote, and say why the transaction failed where it did."""
        functions, reason = self._library.functions, self._reason
        reason.value = 0
        if code < 0:
            one.failure = self._failure(failed_in, code)  # never voted for, so nothing of it is there
            return
        if (code and code != Code.WILL_ABORT) or stopped:
            if failed_in != "dsmBeginTxn":
                functions.dsmEndTxn(handle, abi.DSM_VOTE_ABORT, self._reason_ref)
            one.failure = self._failure(failed_in or "dsmEndTxn", code or Code.ABORT_BY_CLIENT)
            return
        voted = functions.dsmEndTxn(handle, abi.DSM_VOTE_COMMIT, self._reason_ref)
        if voted == Code.CHECK_REASON_CODE or (voted == Code.OK and reason.value):
            one.failure = self._failure("dsmEndTxn", reason.value or voted)
        elif voted:
            # No answer to a vote for it: the transaction may be there or not, unless it was lost before.
            one.failure = self._failure("dsmEndTxn", voted, outcome_unknown=code != Code.WILL_ABORT)
        elif code:
            one.failure = self._failure(failed_in, code, outcome_unknown=True)  # committed after all, but not all of it

    # Retrieving.

    def retrieve(
        self,
        handle: int,
        wanted: Iterable[tuple[int, int, int]],
        stopped: Callable[[], bool],
    ) -> list[Retrieved]:
        """Retrieve objects, given as (object id, number, size), in this order.

        The first that fails ends its list, and those after it are asked for in another; a connection that is lost ends
        it all.
        """
        done: list[Retrieved] = []
        left = list(wanted)
        while left and not stopped():
            chunk = left[: abi.DSM_MAX_GET_OBJ]
            got = self._get_list(handle, chunk, stopped)
            if not got:
                break  # stopped before the first
            done += got
            left = left[len(got) :]
            failure = got[-1].failure
            if failure is not None and failure.status == Status.CONNECTION_LOST:
                break
        return done

    def _get_list(
        self,
        handle: int,
        chunk: Sequence[tuple[int, int, int]],
        stopped: Callable[[], bool],
    ) -> list[Retrieved]:
        functions = self._library.functions
        done: list[Retrieved] = []
        sent_ns = monotonic_ns()
        ids = (abi.ObjID * len(chunk))(*(halves(object_id) for object_id, _, _ in chunk))
        get_list = abi.dsmGetList(abi.dsmGetListVersion, len(chunk), cast(ids, POINTER(abi.ObjID)))
        code = functions.dsmBeginGetData(handle, abi.bTrue, abi.gtArchive, byref(get_list))
        if code:
            now_ns = monotonic_ns()
            failure = self._failure("dsmBeginGetData", code)
            _, number, size_bytes = chunk[0]
            return [Retrieved(number, size_bytes, sent_ns, now_ns, now_ns, failure)]
        for object_id, number, size_bytes in chunk:
            if stopped():
                break
            one = self._get(handle, object_id, number, sent_ns, self._check(number, size_bytes))
            done.append(one)
            if one.failure is not None and one.failure.status != Status.DAMAGED:
                break
            sent_ns = one.done_ns
        functions.dsmEndGetData(handle)
        return done

    def _get(self, handle: int, object_id: int, number: int, sent_ns: int, check: Check) -> Retrieved:
        """Retrieve and check one object of the list."""
        functions, block, wanted = self._library.functions, self._block, self._id
        wanted.hi, wanted.lo = object_id >> 32, object_id & 0xFFFFFFFF
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
                failure = self._failure(function, code)
            elif not check.finish():
                failure = Failure(Status.DAMAGED, "damaged", "the bytes are not those that were archived")
        else:
            failure = self._failure(function, code)
        return Retrieved(number, check.size_bytes, sent_ns, first_byte_ns, monotonic_ns(), failure)

    def _check(self, number: int, size_bytes: int) -> Check:
        """What looks at the retrieved bytes of this object."""
        if self._verify == "all" or (self._verify == "sample" and number % SAMPLE_EVERY == 0):
            return ContentCheck(self._content, number, size_bytes)
        return LengthCheck(size_bytes)

    def _failure(self, function: str, code: int, *, outcome_unknown: bool = False) -> Failure:
        status = Status.CONNECTION_LOST if code < 0 else TSM_ERROR + code
        return Failure(status, describe(code), f"{function}: {self._library.message(code)}", outcome_unknown)
