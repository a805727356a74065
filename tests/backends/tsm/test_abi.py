"""Python reads the C headers as a C compiler does: layouts, constants, return codes and prototypes."""

from __future__ import annotations

import ast
import ctypes
import importlib.util
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from backends.tsm.library import structures
from backends.tsm.library.codes import NAMES, Code, describe

ROOT = Path(__file__).parents[3]
HEADER = (structures.INCLUDE / "archiver_tsm.h").read_text()
RC_HEADER = (structures.INCLUDE / "archiver_tsm_rc.h").read_text()
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{structures.INCLUDE}")

DECLARED: dict[str, Any] = {name: getattr(structures, name) for name in structures.read(HEADER)}
STRUCTURES = {name: value for name, value in DECLARED.items() if hasattr(value, "_fields_") and value.__name__ == name}
CONSTANTS = {name: value for name, value in DECLARED.items() if isinstance(value, int)}

# Sizes at level 8.2.1 on x86-64 Linux, as programs that were compiled elsewhere expect them.
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
FORWARDING = ("dsmapitd.h", "dsmapifp.h", "dsmapips.h", "dsmrc.h", "dapint64.h", "release.h")

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
    """Return the values that the compiler computes from the header: C expression -> value."""
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
def test_ctypes_field_layout_matches_compiler(name: str, compiled: dict[str, int]) -> None:
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
    assert typedefs == set(STRUCTURES) == set(SIZES)


def test_every_definition_and_enumerator_is_a_constant() -> None:
    defined = re.findall(r"^#define (\w+) \S", HEADER, re.MULTILINE)
    enumerated = re.findall(r"(?:[{,]\s*)(\w+) = ", HEADER)
    assert {*defined, *enumerated} == set(CONSTANTS)


def test_constants_have_the_values_of_the_header(compiled: dict[str, int]) -> None:
    assert {name: compiled[name] for name in CONSTANTS} == CONSTANTS


def test_return_codes_have_the_numbers_of_the_header(compiled: dict[str, int]) -> None:
    assert {name: compiled[f"DSM_RC_{name}"] for name in NAMES.values()} == {code.name: code.value for code in Code}


def test_every_return_code_of_the_header_has_one_name_in_python() -> None:
    named = re.findall(r"^#define DSM_RC_(\w+)", RC_HEADER, re.MULTILINE)
    assert sorted(named) == sorted([*NAMES.values(), "SUCCESSFUL"])  # SUCCESSFUL is OK


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


def test_c_functions_accept_types_passed_by_python(tmp_path: Path) -> None:
    """Each is called with the types in PROTOTYPES. -Wconversion refuses conversions that lose bits."""
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


def test_union_of_a_deletion_is_passed_by_value(tmp_path: Path) -> None:
    """It is the only argument that is neither a number nor a pointer, and is passed whole on the stack."""
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


@pytest.mark.parametrize(
    ("declaration", "error", "message"),
    [
        ("typedef struct one { dsWide_t wide; } one;", KeyError, "dsWide_t"),
        ("typedef struct one { int flags : 3; } one;", ValueError, "int flags : 3"),
        ("typedef struct one { char name[LENGTH]; } one;", ValueError, "LENGTH"),
        ("extern void call(int (*back)(void));", ValueError, "back"),
        ("extern char *call(void);", ValueError, "call"),
        ("typedef struct one *two;", ValueError, "two"),
        ("#define SHIFTED 1 << 3", ValueError, "1 << 3"),
    ],
)
def test_a_declaration_that_python_cannot_read_is_refused(
    declaration: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        structures.read(declaration)


def test_all_names_in_use_are_declared() -> None:
    """mypy cannot check them, because they are not in a Python file."""
    declared = {"abi": DECLARED, "Code": Code.__members__}
    used = 0
    for path in (path for top in ("archiver", "backends") for path in (ROOT / top).rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "import structures as abi" in text or "import Code" in text else ():
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in declared:
                used += 1
                assert node.attr in declared[node.value.id], f"{path}:{node.lineno}"
    assert used > 200


def test_the_command_line_does_not_read_the_header() -> None:
    script = """
from archiver.cli import main
from backends.tsm.library import structures
main(["--help"], standalone_mode=False)
print("PROTOTYPES" in vars(structures), structures.PROTOTYPES is vars(structures)["PROTOTYPES"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "False True"


@pytest.fixture
def unused() -> Any:
    """The module as it is before the first use of a name."""
    spec = importlib.util.spec_from_file_location("unused_structures", structures.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_name_that_the_header_does_not_declare_is_refused(unused: Any) -> None:
    for _ in ("first use", "later use"):
        with pytest.raises(AttributeError, match="dsmObjNmae"):
            _ = unused.dsmObjNmae


def test_names_are_plain_module_attributes_after_the_first_use(unused: Any) -> None:
    """The cost of a call depends on it: Python caches the attributes of modules without __getattr__, and compares
    interned names by address.
    """
    names = [name for name, _ in unused.ObjID._fields_]
    assert not hasattr(unused, "__getattr__")
    assert all(name is sys.intern(name) for name in names)


def test_concurrent_first_uses_of_a_name_give_the_same_class(unused: Any) -> None:
    barrier = threading.Barrier(8)

    def first_use(_: int) -> Any:
        barrier.wait()
        return unused.ObjID

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            assert len(set(threads.map(first_use, range(8)))) == 1
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("header", ["archiver_tsm.h", *FORWARDING])
@pytest.mark.parametrize(("name", "language"), [("gcc", ("c", "c11")), ("g++", ("c++", "c++17"))])
def test_each_header_compiles_alone(name: str, language: tuple[str, str], header: str, tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_text(f'#include "{header}"\n{PROGRAM}')
    kind, standard = language
    arguments = ["-x", kind, f"-std={standard}", *STRICT, "-fsyntax-only", str(source)]
    done = subprocess.run([compiler(name), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
