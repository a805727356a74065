"""The C header, the ctypes structures and the return codes are one ABI, and the compiler is the judge."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.tsm import structures
from backends.tsm.codes import NAMES, Code, describe

INCLUDE = Path(structures.__file__).parent / "shim" / "include"
HEADER = (INCLUDE / "archiver_tsm.h").read_text()
RC_HEADER = (INCLUDE / "archiver_tsm_rc.h").read_text()
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{INCLUDE}")

STRUCTURES: dict[str, Any] = {
    name: value
    for name, value in vars(structures).items()
    if value not in (ctypes.Structure, ctypes.Union) and hasattr(value, "_fields_")
}
CONSTANTS = {name: value for name, value in vars(structures).items() if isinstance(value, int)}

# The sizes of level 8.2.1 on x86-64 Linux, as programs that were compiled elsewhere have them.
SIZES = {
    "dsStruct64_t": 8,
    "dsUint160_t": 20,
    "dsmDate": 8,
    "PartialObjData": 20,
    "dsmApiVersion": 6,
    "dsmApiVersionEx": 16,
    "dsmAppVersion": 10,
    "envSetUp": 4120,
    "dsmInitExIn_t": 128,
    "dsmInitExOut_t": 216,
    "dsmObjName": 2308,
    "ObjAttr": 112,
    "DataBlk": 32,
    "sndArchiveData": 16,
    "mcBindKey": 108,
    "dsmEndSendObjExIn_t": 8,
    "dsmEndSendObjExOut_t": 48,
    "dsmEndTxnExIn_t": 12,
    "dsmEndTxnExOut_t": 16,
    "dsmEndGetDataExIn_t": 8,
    "dsmEndGetDataExOut_t": 12,
    "dsmGetList": 24,
    "qryArchiveData": 64,
    "qryRespArchiveData": 4532,
    "qryMCData": 24,
    "archDetailCG": 88,
    "backupDetailCG": 88,
    "qryRespMCData": 290,
    "qryRespMCDetailData": 468,
    "qryFSData": 16,
    "dsmUnixFSAttrib": 502,
    "dsmDosFSAttrib": 504,
    "dsmFSAttr": 504,
    "qryRespFSData": 1672,
    "regFSData": 544,
    "dsmFSUpd": 536,
    "ApiSessInfo": 2028,
    "optStruct": 3732,
    "delBack": 24,
    "delArch": 12,
    "delBackID": 12,
    "dsmDelInfo": 24,
    "dsmObjList_t": 16,
    "dsmRetentionEventIn_t": 32,
    "dsmRetentionEventOut_t": 2,
    "logInfo": 16,
    "dsmLogExIn_t": 80,
    "dsmLogExOut_t": 2,
    "dsmRenameIn_t": 1320,
    "dsmRenameOut_t": 2,
    "dsmUpdateObjExIn_t": 56,
    "dsmUpdateObjExOut_t": 2,
    "requestBufferIn_t": 8,
    "requestBufferOut_t": 24,
    "releaseBufferIn_t": 24,
    "releaseBufferOut_t": 2,
    "getBufferDataIn_t": 8,
    "getBufferDataOut_t": 24,
    "sendBufferDataIn_t": 32,
    "sendBufferDataOut_t": 2,
    "dsmGroupHandlerIn_t": 64,
    "dsmGroupHandlerOut_t": 2,
    "qryRespAccessData": 2448,
    "qryBackupData": 40,
    "reservedInfo_t": 12,
    "qryRespBackupData": 4600,
    "qryABackupData": 16,
    "qryARespBackupData": 4180,
    "qryBackupGroups": 56,
    "qryProxyNodeData": 16,
    "qryRespProxyNodeData": 262,
}

# Names that the vendor's programs include.
FORWARDING = ("dsmapitd.h", "dsmapifp.h", "dsmapips.h", "dsmrc.h", "dapint64.h")

PROGRAM = """
int main(void)
{
    static qryRespArchiveData answer;
    DataBlk block = {DataBlkVersion, sizeof answer, 0, (char *)&answer, 0, 0};
    return dsmGetNextQObj(1, &block) == DSM_RC_MORE_DATA ? bTrue : bFalse;
}
"""


def compiler(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"no {name} on this machine")
    return path


def compile_c(*arguments: str | Path) -> None:
    done = subprocess.run([compiler("gcc"), "-std=c11", *STRICT, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def fields(structure: Any) -> Iterator[str]:
    return (field[0] for field in structure._fields_)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the compiler makes of the header: C expression -> value."""
    expressions = [
        *(f"sizeof({name})" for name in STRUCTURES),
        *(f"offsetof({name}, {field})" for name, one in STRUCTURES.items() for field in fields(one)),
        *(f"sizeof((({name} *)0)->{field})" for name, one in STRUCTURES.items() for field in fields(one)),
        *CONSTANTS,
        *(f"DSM_RC_{name}" for name in NAMES.values()),
    ]
    folder = tmp_path_factory.mktemp("abi")
    lines = "\n".join(f'    printf("%s=%ld\\n", "{one}", (long)({one}));' for one in expressions)
    source = folder / "layout.c"
    source.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "archiver_tsm.h"\nint main(void)\n{{\n{lines}\n}}\n'
    )
    compile_c(source, "-o", folder / "layout")
    printed = subprocess.run([folder / "layout"], capture_output=True, text=True, check=True).stdout
    return {name: int(value) for name, value in (line.split("=") for line in printed.splitlines())}


@pytest.mark.parametrize("name", STRUCTURES)
def test_every_field_lies_where_the_compiler_puts_it(name: str, compiled: dict[str, int]) -> None:
    structure = STRUCTURES[name]
    for field in fields(structure):
        there = (compiled[f"offsetof({name}, {field})"], compiled[f"sizeof((({name} *)0)->{field})"])
        here = getattr(structure, field)
        assert (here.offset, here.size) == there, field
    assert ctypes.sizeof(structure) == compiled[f"sizeof({name})"]


@pytest.mark.parametrize(("name", "size_bytes"), SIZES.items())
def test_sizes_are_those_of_the_vendors_library(name: str, size_bytes: int, compiled: dict[str, int]) -> None:
    assert ctypes.sizeof(STRUCTURES[name]) == size_bytes
    assert compiled[f"sizeof({name})"] == size_bytes


def test_the_header_and_python_have_the_same_structures() -> None:
    typedefs = set(re.findall(r"^typedef (?:struct|union) (\w+)", HEADER, re.MULTILINE))
    assert typedefs == set(STRUCTURES) - {"ObjID"} == set(SIZES)


def test_constants_have_the_values_of_the_header(compiled: dict[str, int]) -> None:
    assert {name: compiled[name] for name in CONSTANTS} == CONSTANTS


def test_return_codes_have_the_numbers_of_the_header(compiled: dict[str, int]) -> None:
    assert {name: compiled[f"DSM_RC_{name}"] for name in NAMES.values()} == {code.name: code.value for code in Code}


def test_the_header_names_no_code_that_python_does_not_know() -> None:
    named = dict(re.findall(r"^#define DSM_RC_(\w+) \(?(-?\d+)\)?$", RC_HEADER, re.MULTILINE))
    assert named.pop("SUCCESSFUL") == "0"
    assert {int(number): name for name, number in named.items()} == NAMES


def test_reasons_are_return_codes_under_another_name() -> None:
    reasons = re.findall(r"^#define DSM_RS_(\w+) DSM_RC_(\w+)$", RC_HEADER, re.MULTILINE)
    assert all(reason == code for reason, code in reasons)
    assert {code for _, code in reasons} == {name for name in NAMES.values() if name.startswith("ABORT_")}


def test_a_code_is_described_by_number_and_name() -> None:
    assert describe(Code.ABORT_DELETE_NOT_ALLOWED) == "248 ABORT_DELETE_NOT_ALLOWED"
    assert describe(-50) == "-50 TCPIP_FAILURE"
    assert describe(19) == "19"


def c_type(one: Any) -> str:
    """The C type of an argument or a result; enumerations are int, which C converts."""
    plain = {
        None: "void",
        ctypes.c_int: "int",
        ctypes.c_int16: "short",
        ctypes.c_uint8: "unsigned char",
        ctypes.c_uint16: "unsigned short",
        ctypes.c_uint32: "unsigned int",
        ctypes.c_char_p: "char *",
        ctypes.c_void_p: "void *",
    }
    if one in plain:
        return plain[one]
    return one.__name__ if one in STRUCTURES.values() else f"{c_type(one._type_)} *"


def test_all_functions_take_in_c_what_python_passes(tmp_path: Path) -> None:
    """Each is called with values of the types in PROTOTYPES; -Wconversion refuses to lose bits on the way."""
    assert set(structures.PROTOTYPES) == set(re.findall(r"^extern \w+ (\w+)\(", HEADER, re.MULTILINE))
    assert len(structures.PROTOTYPES) == 47
    lines = ['#include "archiver_tsm.h"']
    for name, (result, arguments) in structures.PROTOTYPES.items():
        taken = ", ".join(f"{c_type(one)} a{place}" for place, one in enumerate(arguments))
        passed = ", ".join(f"a{place}" for place in range(len(arguments)))
        lines.append(f"{c_type(result)} call_{name}({taken});")
        lines.append(f"{c_type(result)} call_{name}({taken}) {{ {'return ' if result else ''}{name}({passed}); }}")
        lines.append(f"extern __typeof__({name}) *address_of_{name};\n__typeof__({name}) *address_of_{name} = {name};")
    source = tmp_path / "calls.c"
    source.write_text("\n".join(lines) + "\n")
    compile_c("-Wconversion", "-Wno-sign-conversion", "-c", source, "-o", tmp_path / "calls.o")


def test_the_union_of_a_deletion_travels_by_value(tmp_path: Path) -> None:
    """The only argument that is neither a number nor a pointer: it goes over the stack, whole."""
    source = tmp_path / "deletion.c"
    source.write_text(
        '#include "archiver_tsm.h"\n'
        "dsInt16_t dsmDeleteObj(dsUint32_t dsmHandle, dsmDelType delType, dsmDelInfo delInfo)\n{\n"
        "    return (dsInt16_t)(dsmHandle + delType * 10 + delInfo.archInfo.stVersion * 100 +\n"
        "                       delInfo.archInfo.objId.hi * 1000 + delInfo.archInfo.objId.lo * 10000);\n}\n"
    )
    compile_c("-fPIC", "-shared", source, "-o", tmp_path / "deletion.so")
    function = ctypes.CDLL(str(tmp_path / "deletion.so")).dsmDeleteObj
    function.restype, function.argtypes = structures.PROTOTYPES["dsmDeleteObj"]
    deletion = structures.dsmDelInfo(archInfo=structures.delArch(stVersion=4, objId=structures.ObjID(hi=3, lo=2)))
    assert function(6, 5, deletion) == 23456


@pytest.mark.parametrize("header", ["archiver_tsm.h", *FORWARDING])
@pytest.mark.parametrize(("name", "language"), [("gcc", ("c", "c11")), ("g++", ("c++", "c++17"))])
def test_each_header_alone_serves_a_program(name: str, language: tuple[str, str], header: str, tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_text(f'#include "{header}"\n{PROGRAM}')
    kind, standard = language
    arguments = ["-x", kind, f"-std={standard}", *STRICT, "-fsyntax-only", str(source)]
    done = subprocess.run([compiler(name), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
