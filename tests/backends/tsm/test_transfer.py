"""Transfers with a scripted library: what a client does after every answer other than success."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from archiver.values.content import Content
from archiver.values.record import TSM_ERROR, Status
from backends.base import SAMPLE_EVERY
from backends.tsm.index import Target
from backends.tsm.library.api import whole
from backends.tsm.library.codes import Code
from backends.tsm.library.structures import (
    DSM_MAX_GET_OBJ,
    DSM_MAX_PARTIAL_GET_OBJ,
    DSM_VOTE_ABORT,
    DSM_VOTE_COMMIT,
    dsmGetListPORVersion,
)
from backends.tsm.setting import TsmWorkerSetting
from backends.tsm.transactions import SentTransaction
from backends.tsm.transfer import BUFFER_BYTES, Retrieved, Transfer

SIZE = 8192
CONTENT = Content("run-1", 7, 3 * BUFFER_BYTES)
HANDLE = 1
LOST = Code.TCPIP_FAILURE


class ScriptedLibrary:
    """Records archived objects and calls. ``answers`` gives return codes other than success, by call.

    The answers of a call are used one after another. None and the end of the list mean success.
    """

    def __init__(
        self, reason: int = 0, *, ends_with_data: bool = False, ignores_parts: bool = False, **answers: list[int | None]
    ) -> None:
        self.functions = SimpleNamespace(
            **{name: self._call(name) for name in dir(self) if name.startswith("dsm")}  # the methods below
        )
        self.calls: list[str] = []
        self.committed: dict[bytes, bytes] = {}
        self.votes: list[int] = []
        self.stored: dict[int, bytes] = {}
        self._pending: dict[bytes, bytes] = {}
        self._name = b""
        self._reason = reason
        self._answers = {name: list(codes) for name, codes in answers.items()}
        self._ends_with_data = ends_with_data
        self._ignores_parts = ignores_parts
        self._left = b""
        self._parts: dict[int, tuple[int, int]] = {}
        self.lists: list[list[int]] = []
        self.descriptions: list[bytes | None] = []

    def message(self, code: int) -> str:
        return f"text of {code}"

    def _call(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            self.calls.append(name)
            script = self._answers.get(name, [])
            code = script.pop(0) if script else None
            return code if code is not None else getattr(self, name)(*arguments)

        return call

    def dsmBeginTxn(self, handle: int) -> int:
        self._pending = {}
        return 0

    def dsmBindMC(self, handle: int, name: Any, kind: int, key: Any) -> int:
        return 0

    def dsmSendObj(self, handle: int, kind: int, described: Any, name: Any, attributes: Any, block: Any) -> int:
        given, size = name._obj, whole(attributes._obj.sizeEstimate)
        self.descriptions.append(described._obj.descr)
        self._name = given.fs + given.hl + given.ll + b" %d " % size + attributes._obj.mcNameP
        self._pending[self._name] = _bytes(block)
        return 0

    def dsmSendData(self, handle: int, block: Any) -> int:
        self._pending[self._name] += _bytes(block)
        return 0

    def dsmEndSendObj(self, handle: int) -> int:
        return 0

    def dsmEndTxn(self, handle: int, vote: int, reason: Any) -> int:
        self.votes.append(vote)
        reason._obj.value = self._reason if vote == DSM_VOTE_COMMIT else Code.ABORT_BY_CLIENT
        if reason._obj.value:
            return int(Code.CHECK_REASON_CODE)
        self.committed |= self._pending
        return 0

    def dsmBeginGetData(self, handle: int, wait: int, kind: int, get_list: Any) -> int:
        found = get_list._obj
        self.lists.append([whole(found.objId[i]) for i in range(found.numObjId)])
        self._parts = {}
        if found.stVersion == dsmGetListPORVersion and not self._ignores_parts:
            parts = found.partialObjData[: found.numObjId]
            extents = [(whole(part.partialObjOffset), whole(part.partialObjLength)) for part in parts]
            self._parts = dict(zip(self.lists[-1], extents, strict=True))
        return 0

    def dsmGetObj(self, handle: int, which: Any, block: Any) -> int:
        number = whole(which._obj)
        offset, length = self._parts.get(number, (0, 0))
        self._left = self.stored[number][offset:][: length or None]
        return self.dsmGetData(handle, block)

    def dsmGetData(self, handle: int, block: Any) -> int:
        piece, self._left = self._left[: block._obj.bufferLen], self._left[block._obj.bufferLen :]
        ctypes.memmove(block._obj.bufferPtr, piece, len(piece))
        block._obj.numBytes = len(piece)
        finished = not self._left if self._ends_with_data else not piece
        return int(Code.FINISHED if finished else Code.MORE_DATA)

    def dsmEndGetObj(self, handle: int) -> int:
        return 0

    def dsmEndGetData(self, handle: int) -> int:
        return 0


def answering(call: str, *codes: int | None) -> dict[str, Any]:
    """The argument of ``ScriptedLibrary`` that scripts the answers to one call."""
    return {call: list(codes)}


def _bytes(block: Any) -> bytes:
    return ctypes.string_at(block._obj.bufferPtr, block._obj.bufferLen)


def transfer(library: ScriptedLibrary, *, per_transaction: int = 4096, verify: str = "all") -> Transfer:
    setting = TsmWorkerSetting("lib", None, "", "NODE", "secret", "/space", "run-1", "STANDARD", per_transaction, 4)
    return Transfer(library, setting, CONTENT, verify)  # type: ignore[arg-type]


def targets(*numbers: int, size_bytes: int = SIZE, **changes: Any) -> list[Target]:
    return [Target(number, size_bytes, id=100 + number, **changes) for number in numbers]


def never() -> bool:
    return False


def archive(library: ScriptedLibrary, count: int, size_bytes: int = SIZE, **changes: Any) -> list[SentTransaction]:
    return transfer(library, **changes).archive(HANDLE, targets(*range(count), size_bytes=size_bytes), never)


def outcome(one: SentTransaction) -> tuple[list[int], int, str, bool]:
    failure = one.failure
    return (
        [target.number for target in one.objects],
        failure.status if failure else Status.OK,
        failure.reason if failure else "",
        failure.outcome_unknown if failure else False,
    )


# Archiving.


@pytest.mark.parametrize("size_bytes", [1, 63, 64, 65, SIZE, 2 * BUFFER_BYTES])
def test_archive_stores_content_under_object_name_and_class(size_bytes: int) -> None:
    library = ScriptedLibrary()
    one = transfer(library)
    (done,) = one.archive(HANDLE, targets(999, 1000, 2_000_001, size_bytes=size_bytes), never)
    assert library.committed == {
        b"/space/run-1/%06d/%012d %d STANDARD" % (number // 1000, number, size_bytes): CONTENT.whole(number, size_bytes)
        for number in (999, 1000, 2_000_001)
    }
    assert outcome(done) == ([999, 1000, 2_000_001], Status.OK, "", False)
    assert done.began_ns <= done.sent_ns[0] < done.sent_ns[2] < done.voted_ns < done.done_ns


def test_objects_of_several_sizes_are_sent_with_their_own_size() -> None:
    library = ScriptedLibrary()
    transfer(library).archive(HANDLE, [Target(1, 100), Target(2, 200), Target(3, 100)], never)
    assert [len(data) for data in library.committed.values()] == [100, 200, 100]
    assert [int(name.split()[1]) for name in library.committed] == [100, 200, 100]


def test_later_archive_records_content_version() -> None:
    library = ScriptedLibrary()
    one = transfer(library)
    one.archive(HANDLE, [Target(1, SIZE), Target(1, SIZE, 2), Target(2, SIZE, 13), Target(2, SIZE)], never)
    assert library.descriptions == [None, b"content version 2", b"content version 13", None]


@pytest.mark.parametrize(("limit", "transactions"), [(1, [1] * 5), (2, [2, 2, 1]), (5, [5]), (4096, [5])])
def test_a_transaction_has_as_many_objects_as_are_allowed(limit: int, transactions: list[int]) -> None:
    library = ScriptedLibrary()
    done = archive(library, 5, per_transaction=limit)
    assert [len(one.objects) for one in done] == transactions
    assert library.votes == [DSM_VOTE_COMMIT] * len(transactions)
    assert len(library.committed) == 5


def test_an_object_that_needs_a_new_transaction_gets_one() -> None:
    library = ScriptedLibrary(dsmSendObj=[None, None, Code.NEEDTO_ENDTXN])
    done = archive(library, 5)
    assert [outcome(one) for one in done] == [([0, 1], 0, "", False), ([2, 3, 4], 0, "", False)]
    assert len(library.committed) == 5


def test_object_no_transaction_accepts_fails_and_next_is_tried() -> None:
    library = ScriptedLibrary(dsmSendObj=[Code.NEEDTO_ENDTXN])
    done = archive(library, 3)
    assert [outcome(one)[:2] for one in done] == [([0], TSM_ERROR + 2070), ([1, 2], 0)]
    assert len(library.committed) == 2


@pytest.mark.parametrize("call", ["dsmSendObj", "dsmSendData", "dsmEndSendObj"])
def test_will_abort_reports_server_reason_and_fails_all_objects(call: str) -> None:
    library = ScriptedLibrary(Code.ABORT_NO_REPOSIT_SPACE, **answering(call, None, Code.WILL_ABORT))
    done = archive(library, 4)
    assert outcome(done[0]) == ([0, 1], TSM_ERROR + 11, "11 ABORT_NO_REPOSIT_SPACE", False)
    assert library.votes[0] == DSM_VOTE_COMMIT
    if call == "dsmSendData":  # an object is open, and is closed before the vote
        assert library.calls[library.calls.index("dsmEndTxn") - 1] == "dsmEndSendObj"
    assert library.committed == {}


def test_commit_after_will_abort_counts_as_failure() -> None:
    library = ScriptedLibrary(dsmSendObj=[None, Code.WILL_ABORT])
    done = archive(library, 2)
    assert outcome(done[0]) == ([0, 1], TSM_ERROR + 157, "157 WILL_ABORT", True)


def test_a_refused_vote_fails_its_objects_and_no_others() -> None:
    library = ScriptedLibrary(dsmEndTxn=[None, Code.CHECK_REASON_CODE])
    done = archive(library, 6, per_transaction=2)
    assert [one.failure is None for one in done] == [True, False, True]
    assert outcome(done[1])[0] == [2, 3]
    assert len(library.committed) == 4


@pytest.mark.parametrize("call", ["dsmBindMC", "dsmSendObj", "dsmSendData", "dsmEndSendObj"])
def test_failed_call_aborts_transaction_and_next_is_tried(call: str) -> None:
    library = ScriptedLibrary(**answering(call, None, Code.INVALID_OBJNAME))
    done = archive(library, 4)
    assert outcome(done[0]) == ([0, 1], TSM_ERROR + 2017, "2017 INVALID_OBJNAME", False)
    assert done[0].failure is not None
    assert done[0].failure.message == f"{call}: text of 2017"
    assert outcome(done[1]) == ([2, 3], 0, "", False)
    assert library.votes == [DSM_VOTE_ABORT, DSM_VOTE_COMMIT]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (Code.ABORT_NODE_NOT_AUTHORIZED, TSM_ERROR + Code.ABORT_NODE_NOT_AUTHORIZED),
        (Code.INVALID_DS_HANDLE, Status.CONNECTION_LOST),  # an earlier call met the loss
    ],
)
def test_failed_transaction_begin_casts_no_vote_and_ends_session(code: int, status: int) -> None:
    library = ScriptedLibrary(dsmBeginTxn=[None, code])
    done = archive(library, 6, per_transaction=2)
    assert [outcome(one)[:2] for one in done] == [([0, 1], 0), ([2], status)]
    assert library.votes == [DSM_VOTE_COMMIT]


@pytest.mark.parametrize("call", ["dsmBeginTxn", "dsmBindMC", "dsmSendObj", "dsmSendData", "dsmEndSendObj"])
def test_a_connection_lost_before_the_vote_leaves_nothing_and_ends_the_session(call: str) -> None:
    library = ScriptedLibrary(**answering(call, LOST))
    (done,) = archive(library, 4)
    assert outcome(done) == ([0], Status.CONNECTION_LOST, "-50 TCPIP_FAILURE", False)
    assert library.votes == []


@pytest.mark.parametrize("code", [LOST, Code.COMM_PROTOCOL_ERROR, Code.REJECT_LASTSESS_CANCELED])
def test_vote_without_an_answer_has_an_unknown_outcome(code: int) -> None:
    library = ScriptedLibrary(dsmEndTxn=[code])
    done = archive(library, 2, per_transaction=2)
    assert outcome(done[0])[0] == [0, 1]
    assert outcome(done[0])[3] is True


@pytest.mark.parametrize("after", [0, 1, 3])
def test_stop_aborts_the_open_transaction(after: int) -> None:
    library = ScriptedLibrary()

    def stopped() -> bool:
        return library.calls.count("dsmEndSendObj") >= after

    transfer(library).archive(HANDLE, targets(*range(10)), stopped)
    assert library.calls.count("dsmSendObj") == after
    assert library.votes == ([DSM_VOTE_ABORT] if after else [])
    assert library.committed == {}


# Retrieving.


def stored(*numbers: int, size_bytes: int = SIZE, **changes: Any) -> ScriptedLibrary:
    library = ScriptedLibrary(**changes)
    library.stored = {100 + number: CONTENT.whole(number, size_bytes) for number in numbers}
    return library


def retrieve(library: ScriptedLibrary, *numbers: int, size_bytes: int = SIZE, **changes: Any) -> list[Retrieved]:
    return transfer(library, **changes).retrieve(HANDLE, targets(*numbers, size_bytes=size_bytes), never)


@pytest.mark.parametrize("ends_with_data", [False, True])
@pytest.mark.parametrize("size_bytes", [1, 64, SIZE, BUFFER_BYTES, BUFFER_BYTES + 1, 3 * BUFFER_BYTES])
def test_both_ways_to_end_an_object_are_accepted(size_bytes: int, ends_with_data: bool) -> None:
    library = stored(5, 6, size_bytes=size_bytes, ends_with_data=ends_with_data)
    done = retrieve(library, 6, 5, size_bytes=size_bytes)
    assert [(one.number, one.failure) for one in done] == [(6, None), (5, None)]
    assert library.lists == [[106, 105]]
    assert library.calls[-1] == "dsmEndGetData"
    assert done[0].sent_ns <= done[0].first_byte_ns <= done[0].done_ns <= done[1].sent_ns


@pytest.mark.parametrize(
    ("held", "verify", "damaged"),
    [
        (CONTENT.whole(5, SIZE)[:-1] + b"x", "all", True),
        (CONTENT.whole(6, SIZE), "all", True),
        (CONTENT.whole(5, SIZE)[:-1], "none", True),
        (CONTENT.whole(5, SIZE) + b"x", "none", True),
        (CONTENT.whole(6, SIZE), "none", False),
        (CONTENT.whole(6, SIZE), "sample", False),
        (b"", "none", True),
    ],
)
def test_retrieved_content_is_compared_per_verify_mode(held: bytes, verify: str, damaged: bool) -> None:
    library = stored(7)
    library.stored[105] = held
    first, second = retrieve(library, 5, 7, verify=verify)
    assert (first.failure.status if first.failure else 0) == (Status.DAMAGED if damaged else 0)
    assert second.failure is None  # damage ends neither list nor session
    assert len(library.lists) == 1


def test_a_sample_compares_every_sixteenth() -> None:
    library = stored()
    library.stored[100 + SAMPLE_EVERY] = CONTENT.whole(1, SIZE)
    (one,) = retrieve(library, SAMPLE_EVERY, verify="sample")
    assert one.failure is not None


@pytest.mark.parametrize("call", ["dsmGetObj", "dsmGetData", "dsmEndGetObj"])
def test_failed_object_ends_list_and_rest_use_new_list(call: str) -> None:
    library = stored(1, 2, 3, **answering(call, None, Code.ABORT_DATA_UNAVAILABLE))
    done = retrieve(library, 1, 2, 3)
    assert [(one.number, one.failure.reason if one.failure else "") for one in done] == [
        (1, ""), (2, "14 ABORT_DATA_UNAVAILABLE"), (3, ""),
    ]  # fmt: skip
    assert library.lists == [[101, 102, 103], [103]]


def test_refused_list_fails_first_object_and_rest_is_requested_again() -> None:
    library = stored(1, 2, dsmBeginGetData=[Code.OBJID_NOTFOUND])
    done = retrieve(library, 1, 2)
    assert [one.failure is None for one in done] == [False, True]
    assert library.lists == [[102]]


@pytest.mark.parametrize("call", ["dsmBeginGetData", "dsmGetObj", "dsmGetData", "dsmEndGetObj"])
def test_a_connection_lost_while_retrieving_ends_the_session(call: str) -> None:
    library = stored(1, 2, 3, **answering(call, LOST))
    (one,) = retrieve(library, 1, 2, 3)
    assert one.failure is not None
    assert (one.number, one.failure.status, one.failure.outcome_unknown) == (1, Status.CONNECTION_LOST, False)


def test_objects_beyond_list_limit_use_several_lists() -> None:
    numbers = range(DSM_MAX_GET_OBJ + 1)
    library = stored(*numbers, size_bytes=1)
    done = retrieve(library, *numbers, size_bytes=1)
    assert [len(ids) for ids in library.lists] == [DSM_MAX_GET_OBJ, 1]
    assert [one.number for one in done if one.failure is None] == list(numbers)


def test_parts_beyond_list_limit_use_several_lists() -> None:
    numbers = range(DSM_MAX_PARTIAL_GET_OBJ + 1)
    library = stored(*numbers, size_bytes=100)
    wanted = targets(*numbers, size_bytes=100, extent=(30, 60))
    done = transfer(library).retrieve(HANDLE, wanted, never)
    assert [len(ids) for ids in library.lists] == [DSM_MAX_PARTIAL_GET_OBJ, 1]
    assert [one.number for one in done if one.failure is None and one.size_bytes == 60] == list(numbers)


@pytest.mark.parametrize("verify", ["all", "none"])
def test_more_data_than_requested_part_is_damaged(verify: str) -> None:
    library = stored(1, 2, ignores_parts=True)
    done = transfer(library, verify=verify).retrieve(HANDLE, targets(1, 2, extent=(0, 10)), never)
    assert [one.failure.status for one in done if one.failure is not None] == [Status.DAMAGED] * 2


def test_stop_ends_a_list_after_the_current_object() -> None:
    library = stored(1, 2, 3)
    done = transfer(library).retrieve(HANDLE, targets(1, 2, 3), lambda: "dsmEndGetObj" in library.calls)
    assert [one.number for one in done] == [1]
    assert library.calls[-1] == "dsmEndGetData"
