"""The C library and the embedded store have the same frames, limits and return codes."""

from __future__ import annotations

import re
import subprocess

import pytest

from backends.embedded.core.changes.access import RULES_MAX
from backends.embedded.tsm import codes as tsm_codes
from backends.embedded.tsm import frames as tsm_frames
from backends.embedded.tsm.nodes import ITERATIONS_MAX, PASSWORD_LENGTH_MIN
from backends.tsm.library import structures as abi
from backends.tsm.library.codes import NAMES
from tests.backends.tsm.compiling import PROGRAM, SHIM, Compiler

HEADER = (SHIM / "protocol.h").read_text()
FRAMES = {name: int(number, 16) for name, number in re.findall(r"^    FRAME_(\w+) = (\w+),", HEADER, re.MULTILINE)}

# The definitions of protocol.h, as the store has them.
DEFINITIONS = {
    "PROTOCOL_VERSION": tsm_frames.PROTOCOL_VERSION,
    "FRAME_HEADER": tsm_frames.HEADER_BYTES,
    "FRAME_BODY_MAX": tsm_frames.BODY_BYTES_MAX,
    "DATA_BODY_MAX": tsm_frames.BODY_BYTES_MAX - 8192,  # the rest is for the fields in front of the data
    "FRAME_LAST": tsm_frames.LAST,
    "ITERATIONS_MAX": ITERATIONS_MAX,
    "NONCE_SIZE": tsm_frames.NONCE_BYTES,
    "PASSWORD_LENGTH_MIN": PASSWORD_LENGTH_MIN,
    "ACCESS_RULES_MAX": RULES_MAX,
    "DATE_NONE": 0,
    "DATE_NEVER": tsm_frames.NEVER_MS,
}


def test_both_sides_have_the_same_frame_types() -> None:
    assert {kind.name: kind.value for kind in tsm_frames.FrameKind} == FRAMES


def test_both_sides_have_the_same_protocol_constants(compiler: Compiler) -> None:
    assert set(re.findall(r"^#define (\w+) ", HEADER, re.MULTILINE)) == set(DEFINITIONS)
    lines = "".join(f'    printf("{name} %llu\\n", (unsigned long long)({name}));\n' for name in DEFINITIONS)
    includes = '#include <stdint.h>\n#include <stdio.h>\n#include "protocol.h"\n'
    source = compiler.folder / "definitions.c"
    source.write_text(f"{includes}int main(void)\n{{\n{lines}    return 0;\n}}\n")
    program = compiler.compile("definitions", PROGRAM, [source], ["sha256.c"])  # one small part, not the whole library
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert {name: int(number) for name, number in map(str.split, printed.splitlines())} == DEFINITIONS


@pytest.mark.parametrize(
    ("store", "api"),
    [
        ("NODE_BYTES_MAX", "DSM_MAX_NODE_LENGTH"),
        ("OWNER_BYTES_MAX", "DSM_MAX_OWNER_LENGTH"),
        ("APPLICATION_BYTES_MAX", "DSM_MAX_PLATFORM_LENGTH"),
        ("SPACE_BYTES_MAX", "DSM_MAX_FSNAME_LENGTH"),
        ("HL_BYTES_MAX", "DSM_MAX_HL_LENGTH"),
        ("LL_BYTES_MAX", "DSM_MAX_LL_LENGTH"),
        ("DESCRIPTION_BYTES_MAX", "DSM_MAX_DESCR_LENGTH"),
        ("INFO_BYTES_MAX", "DSM_MAX_EXT_OBJINFO_LENGTH"),
        ("GET_OBJECTS_MAX", "DSM_MAX_GET_OBJ"),
    ],
)
def test_store_limits_equal_api_limits(store: str, api: str) -> None:
    assert getattr(tsm_frames, store) == getattr(abi, api)


def test_return_codes_of_the_store_have_the_numbers_of_the_api() -> None:
    codes = {name: number for name, number in vars(tsm_codes).items() if isinstance(number, int)}
    api_names = {"NO_SPACE": "ABORT_FS_NOT_DEFINED"}  # the store's name is not the end of the API's name
    assert codes
    assert {name: NAMES[codes[name]] for name in api_names} == api_names
    assert [name for name in codes.keys() - api_names if not NAMES[codes[name]].endswith(name)] == []
