"""The TSM client API in Python: its constants, structures and prototypes, with the names they have in C.

The C header shim/include/archiver_tsm.h is the only place that declares them. This module reads it when the first name
is used, so a program that does not use TSM does not pay for it. ctypes aligns fields as the C compiler does; a test
compares every offset and every constant with the compiler's.

What a caller must know, because neither the compiler nor ctypes checks it:

- Set `stVersion` to the ...Version constant of the structure. This includes output structures and structures inside
  others. The constant determines how many bytes it may read and write.
- A pointer in a structure does not keep its target alive. Keep names, buffers and arrays of ids until the call returns.
- `c_char` arrays stop at the first NUL. Fields of the C type `dsmBytes` may contain NULs: in Python they are arrays of
  `c_ubyte` or plain addresses, and another field has their length.
- `dsStruct64_t` is two halves, the high one first: `value = hi << 32 | lo`.
- Every function needs its entry of PROTOTYPES: a return code has 16 bits, and the bits above it are undefined.
"""

from __future__ import annotations

import re
import sys
import threading
from ctypes import (
    POINTER,
    Structure,
    Union,
    c_char,
    c_char_p,
    c_int,
    c_int16,
    c_long,
    c_ubyte,
    c_uint,
    c_uint16,
    c_ulong,
    c_void_p,
)
from pathlib import Path
from typing import Any

Prototype = tuple[type[Any] | None, tuple[type[Any], ...]]  # types of the result and of the arguments

INCLUDE = Path(__file__).parent.with_name("shim") / "include"

_TYPES: dict[str, Any] = {
    "void": None,
    "char": c_char,
    "unsigned char": c_ubyte,
    "short": c_int16,
    "unsigned short": c_uint16,
    "int": c_int,
    "unsigned int": c_uint,
    "long": c_long,
    "unsigned long": c_ulong,
    "dsmBytes": c_ubyte,  # char in C
}
_POINTERS = {None: c_void_p, c_char: c_char_p, c_ubyte: c_void_p}  # other types: POINTER

# Patterns are compiled on first use.
_COMMENT = r"(?s)/\*.*?\*/"
_STATEMENT = (
    r"(?m)^#define (?P<constant>\w+) (?P<value>.*\S)"
    r"|^typedef (?P<type>[\w ]+) (?P<alias>\w+);"
    r"|^typedef (?P<kind>struct|union|enum) (?P<name>\w+) \{(?P<body>[^}]*)\} (?P=name);"
    r"|^extern (?P<result>[\w ]+) (?P<function>\w+)\((?P<parameters>[^;]*)\);"
    r'|^(?P<unknown>(?!extern "C")[^#\s}].*)'
)
_DECLARATION = r"\s*(?P<type>[\w ]+) (?P<stars>\**)(?P<name>\w+)(?:\[(?P<length>[^]]+)\])?"
_lock = threading.Lock()


def __getattr__(name: str) -> Any:
    """Read the header, then return the constant, type or PROTOTYPES of that name."""
    if name.startswith("__"):  # the import system asks for __path__
        raise AttributeError(name)
    path = INCLUDE / "archiver_tsm.h"
    with _lock:  # a second reading would make other classes with the same names
        if "__getattr__" in globals():
            globals().update(read(path.read_text()))
            del globals()["__getattr__"]  # Python caches the attributes only of modules without it
    if name not in globals():
        raise AttributeError(f"{path} does not declare {name}", name=name)
    return globals()[name]


def read(header: str) -> dict[str, Any]:
    """Return what a C header declares: numbers, ctypes classes, and PROTOTYPES of its functions by name.

    It reads only the C that our header uses. Raises ValueError for another kind of declaration, KeyError for a type
    that is not declared before.
    """
    names = dict(_TYPES)
    prototypes: dict[str, Prototype] = {}

    def number(expression: str) -> int:
        return sum(names[term] if term in names else int(term, 0) for term in expression.split(" + "))

    def declared(text: str) -> tuple[str, Any]:
        part = re.fullmatch(_DECLARATION, text)
        if part is None:
            raise ValueError(f"not `type name` or `type name[length]`: {text.strip()}")
        kind = names[part["type"]]
        for _ in part["stars"]:
            kind = _POINTERS[kind] if kind in _POINTERS else POINTER(kind)
        # ctypes finds interned names faster; this decides what filling a structure costs.
        return sys.intern(part["name"]), kind * number(part["length"]) if part["length"] else kind

    for found in re.finditer(_STATEMENT, re.sub(_COMMENT, "", header)):
        if found["unknown"]:
            raise ValueError(f"not a declaration that Python can read: {found['unknown']}")
        if found["constant"]:
            names[found["constant"]] = number(found["value"])
        elif found["alias"]:
            names.setdefault(found["alias"], names[found["type"]])
        elif found["kind"] == "enum":
            names[found["name"]] = c_int
            names.update((label, number(value)) for label, value in re.findall(r"(\w+) = (\w+)", found["body"]))
        elif found["kind"]:
            base = Structure if found["kind"] == "struct" else Union
            fields = [declared(field) for field in found["body"].rstrip().removesuffix(";").split(";")]
            names[found["name"]] = type(found["name"], (base,), {"_fields_": fields})
        else:
            parameters = [declared(parameter)[1] for parameter in found["parameters"].split(",")]
            prototypes[found["function"]] = names[found["result"]], tuple(parameters)
    return {name: value for name, value in names.items() if name not in _TYPES} | {"PROTOTYPES": prototypes}
