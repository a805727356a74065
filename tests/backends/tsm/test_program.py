"""The C program that checks every rule of the API: under the sanitizers, plain, and under valgrind.

The sanitizers find more, with the same expectations, so only `make test-long` runs the program without them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.embedded import process
from backends.embedded.process import StoreProcess
from tests.backends.tsm.compiling import PROGRAM, SOURCES, Compiler
from tests.backends.tsm.program_options import OTHER_NODE, SECONDS_MAX, run, settings


@pytest.fixture(scope="session")
def plain(compiler: Compiler) -> Path:
    return compiler.compile("program", PROGRAM, SOURCES)


@pytest.fixture
def environment(tmp_path: Path, own_store: StoreProcess) -> dict[str, str]:
    return settings(tmp_path / "options", own_store)


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[StoreProcess]:
    """An empty store, as the program expects it."""
    with process.start(tmp_path / "store", nodes=[OTHER_NODE]) as running:
        yield running


@pytest.mark.long
def test_api_program_passes(plain: Path, environment: dict[str, str]) -> None:
    run([str(plain)], environment)


def test_api_program_passes_under_sanitizers(sanitized: Path, environment: dict[str, str]) -> None:
    run([str(sanitized)], {**environment, "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0"})


@pytest.mark.long
def test_api_program_passes_under_valgrind(plain: Path, environment: dict[str, str]) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("needs valgrind")
    leaks = ("--leak-check=full", "--errors-for-leak-kinds=definite")
    run([valgrind, "--quiet", "--error-exitcode=9", *leaks, str(plain)], environment)


@pytest.mark.parametrize("build", ["sanitized", pytest.param("plain", marks=pytest.mark.long)])
def test_store_crash_ends_sessions_and_discards_open_transaction(
    build: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    program: Path = request.getfixturevalue(build)
    with process.start(tmp_path / "store") as store:
        environment = settings(tmp_path / "options", store)
        with subprocess.Popen(
            [str(program), "lost"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout is not None
            first = running.stdout.readline()
            store.kill()
            output, _ = running.communicate("go on\n", timeout=SECONDS_MAX)
    assert (first, output, running.returncode) == ("ready\n", "", 0)
    with process.start(tmp_path / "store") as store:
        run([str(program), "found"], settings(tmp_path / "options-again", store))
