"""Programs of real platforms: their versions, where they are stored, and how to build them.

One idea: a program's version is part of its path, so a program that is found has the requested version. The Go
toolchain builds it from the module at that version into a cache outside the source tree.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from archiver.values.errors import PlatformError


@dataclass(frozen=True, slots=True)
class Program:
    """A Go program at a pinned version."""

    name: str
    module: str
    version: str

    @property
    def path(self) -> Path:
        """Its path once it is installed."""
        return cache_folder() / f"{self.name}-{self.version}" / self.name


PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        Program("minio", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c"),
        Program("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"),
    )
}


def cache_folder() -> Path:
    """Return the folder of built programs; its contents can be built again."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "archiver" / "platforms"


def find(name: str) -> Path:
    """Return the path of the installed program. Raises PlatformError with the command that installs it."""
    program = PROGRAMS[name]
    if not os.access(program.path, os.X_OK):
        raise PlatformError(
            f"{name} {program.version} is not installed ({program.path}); install it: archiver platform install {name}"
        )
    return program.path


def install(name: str) -> Path:
    """Build the program if it is missing, which takes minutes. Raises PlatformError."""
    program = PROGRAMS[name]
    if os.access(program.path, os.X_OK):
        return program.path
    go = shutil.which("go")
    if go is None:
        raise PlatformError(
            f"{name} is built with the Go toolchain, and there is no `go`; install Go (https://go.dev/dl)"
        )
    try:
        program.path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise PlatformError(f"{program.path.parent} cannot be made: {failed.strerror}; set XDG_CACHE_HOME") from failed
    with tempfile.TemporaryDirectory(dir=program.path.parent) as unfinished:
        done = subprocess.run(
            [go, "install", f"{program.module}@{program.version}"],
            env={**os.environ, "GOBIN": unfinished, "GOFLAGS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise PlatformError(f"{name} {program.version} could not be built: {done.stderr.strip()[-500:]}")
        (Path(unfinished) / name).replace(program.path)
    return program.path
