"""Go programs that are built for the comparison, into the cache of platforms' programs.

One idea: a folder of ``go_modules/`` has ``go.mod`` and ``go.sum``, which pin the version and the checksum of every
module. The Go toolchain refuses any other code. Changed files are another version.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from archiver.platforms.programs import GoProgram, Program, install_program, run_go
from archiver.values.errors import PlatformError

_MODULES = Path(__file__).with_name("go_modules")


@dataclass(frozen=True, slots=True)
class PinnedProgram(GoProgram):
    """A program that is built in ``sources``, a folder of ``go_modules/``: its ``package``, with ``module``."""

    module_version: str
    package: str
    sources: Path

    def build(self, folder: Path) -> None:
        run_go(self, ["build", "-C", str(self.sources), "-buildvcs=false", "-o", str(folder / self.name), self.package])


def pinned_program(name: str, module: str, package: str = ".") -> PinnedProgram:
    """Return the program of ``go_modules/NAME``; its version begins with that of ``module`` there."""
    sources = _MODULES / name.replace("-", "_")
    found = re.search(rf"{re.escape(module)} (v\S+)", (sources / "go.mod").read_text())
    assert found is not None
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources.iterdir()))).hexdigest()
    return PinnedProgram(name, f"{found[1]}-{digest[:12]}", module, found[1], package, sources)


def install(program: Program) -> None:
    """Build a program if it is missing, and print its path or why it cannot be built."""
    try:
        print(install_program(program))
    except PlatformError as failed:
        print(failed)
