"""The one thing that setup.cfg cannot say: the TSM client library is a plain shared library, not a Python module.

It is built into the package as backends/tsm/libApiTSM64.so. Where there is no C compiler the installation goes on
without it, and `--backend tsm` then says what is missing.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

SHIM = Path("backends/tsm/shim")
LIBRARY = "backends.tsm.libApiTSM64"


class BuildLibrary(build_ext):
    """Builds a library that is named as programs look for it, and exports no symbol of Python's."""

    def get_ext_filename(self, fullname: str) -> str:
        return fullname.replace(".", "/") + ".so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []


setup(
    cmdclass={"build_ext": BuildLibrary},
    ext_modules=[
        Extension(
            LIBRARY,
            sources=sorted(str(path) for path in SHIM.glob("*.c")),
            depends=sorted(str(path) for path in SHIM.rglob("*.h")),
            include_dirs=[str(SHIM), str(SHIM / "include")],
            extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden", "-pthread"],
            extra_link_args=["-pthread", "-Wl,-soname,libApiTSM64.so"],
            optional=True,
        )
    ],
)
