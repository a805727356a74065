"""Compiles the C library, and C programs with it. No other module has the command line.

In a test session each source is compiled once for each set of flags, by the first pytest-xdist worker that needs it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

SOURCES = sorted((Path(__file__).parent / "program").glob("*.c"))  # of the program that checks every rule of the API
SHIM = Path(__file__).parents[3] / "backends" / "tsm" / "shim"
_WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror")
_FLAGS = ("-std=gnu11", "-fvisibility=hidden", "-pthread", f"-I{SHIM}", f"-I{SHIM / 'include'}", *_WARNINGS)

PROGRAM = ("-O2", "-g1", "-fPIC")  # as for the library, to share its object files
SHARED = (*PROGRAM, "-shared")
SANITIZED = ("-g1", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True, slots=True)
class Compiler:
    """Compiles into `folder`. Files that exist are not compiled again."""

    folder: Path

    @classmethod
    def of_session(cls, folders: pytest.TempPathFactory) -> Compiler:
        """Return the compiler of this test session."""
        base = folders.getbasetemp()
        folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "compiled"
        folder.mkdir(exist_ok=True)
        return cls(folder)

    def compile(self, name: str, flags: Sequence[str], sources: Sequence[Path] = (), parts: Sequence[str] = ()) -> Path:
        """Compile the library's sources (or only ``parts``) and ``sources`` to a library or program of that name.

        Skips the test without a compiler, or without its sanitizers if ``flags`` require them.
        """
        command = shutil.which("cc") or shutil.which("gcc")
        if command is None:
            pytest.skip("needs a C compiler")
        output = self.folder / name
        if flags == SANITIZED and not _has_sanitizers(command):
            pytest.skip("needs the C compiler's sanitizers")
        files = [*sources, *(SHIM / part for part in parts)] if parts else [*sources, *sorted(SHIM.glob("*.c"))]
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not output.exists():
                objects = [self._object(command, flags, file) for file in files]
                _carry_out([command, *_FLAGS, *flags, *map(str, objects), "-o", str(output)])
        return output

    def _object(self, command: str, flags: Sequence[str], source: Path) -> Path:
        compiling = [flag for flag in flags if flag != "-shared" and not flag.startswith("-Wl,")]
        made_of = hashlib.sha256(repr((compiling, str(source))).encode()).hexdigest()[:16]
        found = self.folder / f"{source.stem}-{made_of}.o"
        if not found.exists():
            _carry_out([command, *_FLAGS, *compiling, "-c", str(source), "-o", str(found)])
        return found


def _carry_out(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@cache
def _has_sanitizers(command: str) -> bool:
    program = "int main(void) { return 0; }"
    made = subprocess.run(
        [command, *SANITIZED, "-x", "c", "-", "-o", "/dev/null"], input=program, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return made.returncode == 0
