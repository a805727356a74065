"""What the client library reads of files and callers, made of any bytes: nothing crashes, and what it takes fits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.backends.tsm.compiling import SANITIZED, Compiler
from tests.fuzz.hostile import TIMES

SOURCE = Path(__file__).parent / "shim" / "texts.c"
PARTS = ("dates.c", "environment.c", "names.c", "options.c", "password_file.c", "patterns.c", "text_file.c")
INPUTS = 800
SECONDS_MAX = 120 * TIMES  # only a library that hangs gets there


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Compiler.of_session(tmp_path_factory).compile("texts", SANITIZED, [SOURCE], PARTS)


def test_no_text_does_harm(texts: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(texts), str(tmp_path), str(INPUTS * TIMES), "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
