"""dsmRCMsg: a text for every return code, in the format that existing programs parse."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from typing import Any

import pytest

from backends.tsm.library import structures
from backends.tsm.library.codes import NAMES, Code

SOURCE = structures.INCLUDE.parent / "messages.c"
ROOM = 128
CANARY = b"\xa5"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("no gcc on this machine")
    built = tmp_path_factory.mktemp("messages") / "messages.so"
    warnings = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
    command = [gcc, "-std=gnu11", *warnings, "-fvisibility=hidden", "-fPIC", "-shared", str(SOURCE), "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(built))


@pytest.fixture(scope="module")
def dsm_rc_msg(library: ctypes.CDLL) -> Any:
    function = library.dsmRCMsg
    function.restype, function.argtypes = structures.PROTOTYPES["dsmRCMsg"]
    return function


def asked(dsm_rc_msg: Any, code: int, handle: int = 0) -> tuple[int, bytes]:
    """Return the answer and the whole buffer, which is longer than any text."""
    buffer = ctypes.create_string_buffer(CANARY * (2 * ROOM), 2 * ROOM)
    return dsm_rc_msg(handle, code, buffer), buffer.raw


@pytest.mark.parametrize("code", NAMES)
def test_every_code_has_one_line_of_text(code: int, dsm_rc_msg: Any) -> None:
    answer, buffer = asked(dsm_rc_msg, code)
    assert answer == Code.OK
    text, end, rest = buffer.partition(b"\0")
    assert end
    assert len(text) < ROOM
    assert rest.strip(CANARY) == b""
    match = re.fullmatch(r"(?:ANS\d{4}[IWES]|-{8}) (\(RC(-?\d+)\) *)(\S.*\.)\n", text.decode("ascii"))
    assert match, text
    field, number, _ = match.groups()
    assert int(number) == code
    assert len(field) == 9


@pytest.mark.parametrize(
    ("code", "begins"),
    [
        (Code.OK, "ANS0302I (RC0)    S"),
        (Code.FINISHED, "ANS0272I (RC121)  T"),
        (Code.CHECK_REASON_CODE, "ANS0266I (RC2302) T"),
        (Code.SHM_FAILURE, "-------- (RC-451) S"),
    ],
)
def test_the_text_begins_in_the_nineteenth_column(code: int, begins: str, dsm_rc_msg: Any) -> None:
    assert asked(dsm_rc_msg, code)[1].startswith(begins.encode())


def test_every_code_has_a_different_text(dsm_rc_msg: Any) -> None:
    texts = [asked(dsm_rc_msg, code)[1].partition(b"\0")[0][18:] for code in NAMES]
    assert len(set(texts)) == len(NAMES)


@pytest.mark.parametrize("handle", [0, 1, 0xFFFFFFFF])
def test_handle_does_not_change_the_text(handle: int, dsm_rc_msg: Any) -> None:
    assert asked(dsm_rc_msg, Code.ABORT_DELETE_NOT_ALLOWED, handle) == asked(dsm_rc_msg, Code.ABORT_DELETE_NOT_ALLOWED)


@pytest.mark.parametrize("code", [-32768, -453, -49, -2, 19, 259, 2003, 6301, 6303, 32767])
def test_a_number_without_a_text_is_refused_and_nothing_written(code: int, dsm_rc_msg: Any) -> None:
    assert asked(dsm_rc_msg, code) == (Code.INVALID_RETCODE, CANARY * (2 * ROOM))


@pytest.mark.parametrize("code", [Code.OK, 19])
def test_message_lookup_without_buffer_returns_null_msg(code: int, dsm_rc_msg: Any) -> None:
    assert dsm_rc_msg(0, code, None) == Code.NULL_MSG


def test_only_the_function_of_the_interface_is_visible(library: ctypes.CDLL) -> None:
    assert hasattr(library, "dsmRCMsg")
    assert not hasattr(library, "message_for")
