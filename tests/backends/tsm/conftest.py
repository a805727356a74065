"""The C library, compiled once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.tsm.compiling import SANITIZED, SHARED, SOURCES, Compiler


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler.of_session(tmp_path_factory)


@pytest.fixture(scope="session")
def shim(compiler: Compiler) -> Path:
    """libApiTSM64.so as it is installed."""
    return compiler.compile("libApiTSM64.so", SHARED)


@pytest.fixture(scope="session")
def sanitized(compiler: Compiler) -> Path:
    """The program that checks every rule of the API, with the library, under the sanitizers."""
    return compiler.compile("program-sanitized", SANITIZED, SOURCES)
