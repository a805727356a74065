"""Build two plain shared libraries into the packages. Builds are reproducible when SOURCE_DATE_EPOCH is set.

The TSM client library is backends/tsm/libApiTSM64.so; the MD5 library of the embedded store is
backends/embedded/core/files/libmd5.so. Without a C compiler the installation goes on without them. Then
`--backend tsm` reports what is missing, and the store hashes with `hashlib`.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

SHIM = Path("backends/tsm/shim")
TSM_LIBRARY = "backends.tsm.libApiTSM64"
MD5_LIBRARY = "backends.embedded.core.files.libmd5"
HARDENED = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong"]
COMPILE_ARGS = ["-std=gnu11", "-O2", "-fvisibility=hidden", "-pthread", f"-ffile-prefix-map={Path.cwd()}=.", *HARDENED]
LINK_ARGS = ["-Wl,-z,relro", "-Wl,-z,now"]  # addresses of functions are read-only after loading


class BuildLibrary(build_ext):
    """Build a library under the name that programs load, without symbols of a Python extension."""

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []


class WheelForEveryPython(bdist_wheel):
    """A wheel for one platform and every Python 3, because its libraries do not use Python's API."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


class SameSdist(sdist):
    """A reproducible sdist: permissions, owners and times do not depend on who packs it."""

    def make_archive(self, base_name: Any, format: str, root_dir: Any = None, base_dir: Any = None, **_: Any) -> str:
        """Pack the folder `base_dir`; the only format is gztar."""
        instant = os.environ.get("SOURCE_DATE_EPOCH")

        def same(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.uid = member.gid = 0
            member.uname = member.gname = "root"
            member.mtime = int(member.mtime if instant is None else instant)
            return member

        path = f"{base_name}.tar.gz"
        with (
            open(path, "wb") as file,
            gzip.GzipFile("", "wb", fileobj=file, mtime=None if instant is None else int(instant)) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            archive.add(base_dir, filter=same)  # in the order of names
        return path


os.umask(0o022)  # permissions of built files do not depend on the builder's umask
setup(
    cmdclass={"bdist_wheel": WheelForEveryPython, "build_ext": BuildLibrary, "sdist": SameSdist},
    ext_modules=[
        Extension(
            TSM_LIBRARY,
            sources=sorted(str(path) for path in SHIM.glob("*.c")),
            depends=sorted(str(path) for path in SHIM.rglob("*.h")),
            include_dirs=[str(SHIM), str(SHIM / "include")],
            extra_compile_args=COMPILE_ARGS,
            extra_link_args=["-pthread", "-ldl", "-Wl,-soname,libApiTSM64.so", *LINK_ARGS],
            optional=True,
        ),
        Extension(
            MD5_LIBRARY,
            sources=["backends/embedded/core/files/md5.c"],
            extra_compile_args=COMPILE_ARGS,
            extra_link_args=LINK_ARGS,
            optional=True,
        ),
    ],
)
