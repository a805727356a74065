"""Go programs that are built for the comparison, into the cache of platforms' programs.

One idea: a folder of ``go_modules/`` has ``go.mod`` and ``go.sum``, which pin the version and the checksum of every
module. The Go toolchain refuses any other code. Changed files are another version.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from archiver.platforms.programs import Program, install_program, run_go
from archiver.values.errors import PlatformError

_MODULES = Path(__file__).with_name("go_modules")


@dataclass(frozen=True, slots=True)
class PinnedProgram(Program):
    """A program of a module in ``go_modules/``: its main ``package``."""

    package: str
    sources: Path

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def build(self, folder: Path) -> None:
        run_go(self, ["build", "-C", str(self.sources), "-buildvcs=false", "-o", str(folder / self.name), self.package])


def pinned_program(name: str, module: str, package: str = ".") -> PinnedProgram:
    """Return the program of ``go_modules/NAME``; its version is that of ``module`` there."""
    sources = _MODULES / name.replace("-", "_")
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources.iterdir()))).hexdigest()
    return PinnedProgram(name, f"{module_version(name, module)}-{digest[:12]}", package, sources)


def module_version(name: str, module: str) -> str:
    """Return the pinned version of a module of ``go_modules/NAME``."""
    text = (_MODULES / name.replace("-", "_") / "go.mod").read_text()
    found = re.search(rf"{re.escape(module)} (v\S+)", text)
    assert found is not None
    return found[1]


def install(program: Program) -> None:
    """Build a program if it is missing, and print its path or why it cannot be built."""
    try:
        print(install_program(program))
    except PlatformError as failed:
        print(failed)
