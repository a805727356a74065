"""Arbitrary bytes in the files and strings that the TSM client library reads cause no crash and no overflow."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.backends.tsm.compiling import SANITIZED, Compiler
from tests.fuzz.hostile import TIMES

SOURCE = Path(__file__).parent / "shim" / "texts.c"
PARTS = (
    "dates.c",
    "environment.c",
    "logging.c",
    "names.c",
    "options.c",
    "password_file.c",
    "patterns.c",
    "text_file.c",
)
INPUTS = 800
SECONDS_MAX = 120 * TIMES  # reached only if the library hangs


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Compiler.of_session(tmp_path_factory).compile("texts", SANITIZED, [SOURCE], PARTS)


def test_arbitrary_texts_cause_no_sanitizer_error(texts: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(texts), str(tmp_path), str(INPUTS * TIMES), "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
