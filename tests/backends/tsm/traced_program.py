"""A program that archives through the client library: ``traced_program.py WHAT LIBRARY CONFIGURATION``.

It takes node and password from TSM_NODE and TSM_PASSWORD, and runs one of the functions below. Tests wait for its
output, or compare with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, addressof, byref, cast, create_string_buffer
from pathlib import Path
from typing import Any

from backends.tsm.library import structures as abi
from backends.tsm.library.api import ApiSession, Library, SignOn, halves
from backends.tsm.library.codes import Code

SPACE = "/traced"
COMMIT, ABORT = abi.DSM_VOTE_COMMIT, abi.DSM_VOTE_ABORT


class Program:
    """One session, and the calls in it."""

    def __init__(self, session: ApiSession, library: Library) -> None:
        self.session = session
        self.functions: Any = library.functions

    def begin(self) -> None:
        assert self.functions.dsmBeginTxn(self.session.handle) == Code.OK

    def vote(self, vote: int = COMMIT) -> int:
        reason = abi.dsUint16_t()
        self.functions.dsmEndTxn(self.session.handle, vote, byref(reason))
        return int(reason.value)

    def send(self, high: bytes, low: bytes, content: bytes, class_name: bytes | None = None, end: bool = True) -> None:
        handle = self.session.handle
        name = abi.dsmObjName(SPACE.encode(), high, low, abi.DSM_OBJ_FILE)
        key = abi.mcBindKey(stVersion=abi.mcBindKeyVersion)
        assert self.functions.dsmBindMC(handle, byref(name), abi.stArchive, byref(key)) == Code.OK
        attributes = abi.ObjAttr(stVersion=abi.ObjAttrVersion, sizeEstimate=halves(2 * len(content)))
        attributes.mcNameP = class_name
        half = len(content) // 2
        block = _block(content[:half])
        code = self.functions.dsmSendObj(handle, abi.stArchive, None, byref(name), byref(attributes), byref(block))
        assert code == Code.OK, code
        block = _block(content[half:])
        assert self.functions.dsmSendData(handle, byref(block)) == Code.OK
        if end:
            assert self.functions.dsmEndSendObj(handle) == Code.OK

    def delete(self, one: int) -> None:
        which = abi.dsmDelInfo(archInfo=abi.delArch(abi.delArchVersion, halves(one)))
        assert self.functions.dsmDeleteObj(self.session.handle, abi.dtArchive, which) == Code.OK

    def event(self, kind: int, ids: Sequence[int]) -> None:
        array = (abi.ObjID * len(ids))(*map(halves, ids))
        objects = abi.dsmObjList_t(abi.dsmObjlistVersion, len(ids), cast(array, POINTER(abi.ObjID)))
        event = abi.dsmRetentionEventIn_t(abi.dsmRetentionEventInVersion, self.session.handle, kind, objects)
        out = abi.dsmRetentionEventOut_t(abi.dsmRetentionEventOutVersion)
        assert self.functions.dsmRetentionEvent(byref(event), byref(out)) == Code.OK

    def get(
        self, ids: Sequence[int], parts: Sequence[tuple[int, int]] = (), stop_after: int = sys.maxsize
    ) -> list[int]:
        """Return the bytes received of each object. A failed object ends the list with its negative code."""
        handle, came = self.session.handle, []
        array = (abi.ObjID * len(ids))(*map(halves, ids))
        wanted = abi.dsmGetList(abi.dsmGetListVersion, len(ids), cast(array, POINTER(abi.ObjID)))
        if parts:
            extents = [abi.PartialObjData(abi.PartialObjDataVersion, *map(halves, part)) for part in parts]
            wanted.stVersion = abi.dsmGetListPORVersion
            wanted.partialObjData = cast((abi.PartialObjData * len(parts))(*extents), POINTER(abi.PartialObjData))
        assert self.functions.dsmBeginGetData(handle, abi.bTrue, abi.gtArchive, byref(wanted)) == Code.OK
        for one in ids:
            block = _block(bytes(500))
            code = self.functions.dsmGetObj(handle, byref(halves(one)), byref(block))
            if code not in (Code.MORE_DATA, Code.FINISHED):
                came.append(-code)
                break
            size = block.numBytes
            while code == Code.MORE_DATA and size < stop_after:
                code = self.functions.dsmGetData(handle, byref(block))
                size += block.numBytes
            assert self.functions.dsmEndGetObj(handle) == Code.OK
            came.append(size)
        assert self.functions.dsmEndGetData(handle) == Code.OK
        return came

    def ids(self, high: str = "*", low: str = "*") -> dict[bytes, int]:
        return {each.high_level + each.low_level: each.id for each in self.session.archives(SPACE, high, low)}


def _block(content: bytes) -> Any:
    memory = create_string_buffer(content, max(1, len(content)))
    block = abi.DataBlk(stVersion=abi.DataBlkVersion, bufferLen=len(content), bufferPtr=addressof(memory))
    block.memory = memory  # lives as long as the block
    return block


def everything(sign_on: SignOn, library: Library) -> None:
    """Perform every operation at least once, successful and failed. Prints the ids of objects."""
    with sign_on.open() as session:
        program = Program(session, library)
        session.register_space(SPACE)
        session.has_space(SPACE)
        session.management_classes()
        program.begin()
        program.send(b"/in", b"/a", bytes(1000), b"NONE")
        program.send(b"/in", b"/b", bytes(3000))
        program.send(b"/in", b'/\xff"\\\n', bytes(2))
        assert program.vote() == 0
        program.begin()
        program.send(b"/in", b"/c", bytes(500))
        program.send(b"/in", b"/d", bytes(700), end=False)
        assert program.vote(ABORT) == Code.ABORT_BY_CLIENT
        ids = program.ids("/in")
        a, b = ids[b"/in/a"], ids[b"/in/b"]
        assert program.get([a, b]) == [1000, 3000]
        assert program.get([b, b], [(100, 300), (2500, 0)]) == [300, 500]
        assert program.get([b], stop_after=600) == [1000]
        assert program.get([1 << 40])[0] < 0
        for kind in (abi.eventHoldObj, abi.eventReleaseObj, abi.eventRetentionActivate):
            program.begin()
            program.event(kind, [a, b])
            program.vote()
        program.begin()
        program.delete(a)
        assert program.vote() == 0
        program.begin()
        program.delete(b)
        assert program.vote() == Code.ABORT_DELETE_NOT_ALLOWED
        assert program.functions.dsmChangePW(session.handle, b"not-the-old-one", b"not-the-new-one") != Code.OK
    other = sign_on.open()
    assert Program(other, library).get([b]) == [3000]
    Program(other, library).begin()
    Program(other, library).send(b"/in", b"/e", bytes(10))
    other.terminate()
    print(a, b)


def refused(sign_on: SignOn, library: Library) -> None:
    """A sign-on with the wrong password."""
    code, _ = sign_on.attempt()
    assert code == Code.AUTH_FAILURE


def transactions(sign_on: SignOn, library: Library) -> None:
    """Perform transactions of two objects until the program is killed. Prints each number after its vote."""
    with sign_on.open() as session:
        session.register_space(SPACE)
        program = Program(session, library)
        for number in range(100_000):
            program.begin()
            for object_number in range(2):
                program.send(b"/%d" % os.getpid(), b"/%d-%d" % (number, object_number), bytes(100), b"NONE")
            assert program.vote() == 0
            print(number, flush=True)


def some_transactions(sign_on: SignOn, library: Library) -> None:
    """Perform 40 transactions in each of two threads."""

    def work(thread: int) -> None:
        with sign_on.open() as session:
            program = Program(session, library)
            for number in range(40):
                program.begin()
                for object_number in range(5):
                    low = b"/%d-%d-%d" % (thread, number, object_number)
                    program.send(b"/%d" % os.getpid(), low, bytes(100), b"NONE")
                assert program.vote() == 0

    with sign_on.open() as session:
        session.register_space(SPACE)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))


def night(sign_on: SignOn, library: Library) -> None:
    """Perform a backup: transactions of many objects, one aborted, one that also archives known names again, holds and
    reads.
    """
    with sign_on.open() as session:
        session.register_space(SPACE)
        program = Program(session, library)
        for number in range(5):
            program.begin()
            for object_number in range(20):
                size_bytes = 1000 * number + 10 * object_number + 2
                program.send(b"/night", b"/%d-%d" % (number, object_number), bytes(size_bytes), b"NONE")
            assert program.vote() == 0
        program.begin()
        program.send(b"/night", b"/aborted", bytes(600))
        program.send(b"/night", b"/1-1", bytes(600))
        assert program.vote(ABORT) == Code.ABORT_BY_CLIENT
        ids = [program.ids("/night")[b"/night/%d-%d" % (number, 7)] for number in range(5)]
        program.get(ids)
        for kind in (abi.eventHoldObj, abi.eventReleaseObj):
            program.begin()
            program.event(kind, ids)
            assert program.vote() == 0
        program.begin()
        for low in (b"/0-0", b"/new", b"/4-19", b"/newer"):
            program.send(b"/night", low, bytes(9000), b"NONE")
        assert program.vote() == 0
        program.get([program.ids("/night", "/newer")[b"/night/newer"]])


if __name__ == "__main__":
    what, path, configuration = sys.argv[1:]
    loaded = Library(path)
    loaded.set_up(Path(configuration))
    signing_on = SignOn(loaded, os.environ["TSM_NODE"], os.environ["TSM_PASSWORD"], "")
    each = (everything, refused, transactions, some_transactions, night)
    {function.__name__: function for function in each}[what](signing_on, loaded)
