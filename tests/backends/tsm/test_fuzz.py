"""The client library against arbitrary answers of a server: it does not crash, leak or hang."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.backends.tsm.compiling import SANITIZED, Compiler

SOURCE = Path(__file__).with_name("fuzz.c")
INPUTS = 5000
SECONDS_MAX = 300  # reached only if the library hangs


@pytest.fixture(scope="module")
def fuzz(compiler: Compiler) -> Path:
    return compiler.compile("fuzz", SANITIZED, [SOURCE])


@pytest.mark.parametrize(
    ("seed", "inputs"), [(1, INPUTS // 4), *(pytest.param(seed, INPUTS, marks=pytest.mark.long) for seed in (1, 2))]
)
def test_random_server_answers_cause_no_crash_leak_or_hang(fuzz: Path, tmp_path: Path, seed: int, inputs: int) -> None:
    done = subprocess.run(
        [str(fuzz), str(tmp_path), str(inputs), str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
