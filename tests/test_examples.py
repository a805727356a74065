"""Every help example runs as written."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from tests.archiver.traces.made import write_example_files
from tests.test_docs import ALL, example


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(line)
    assert words[0] == "archiver"
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=170, check=False
    )


def test_help_examples_run_as_written(tmp_path: Path) -> None:
    # In an order in which a newcomer would try them: report, audit and cleanup need a run, and bundle one of worm.
    first = ["archiver run", "archiver report", "archiver audit", "archiver cleanup", "archiver worm"]
    # Examples that need a platform's program run in tests/archiver/cli/test_platform.py, with a program in its place;
    # a comparison needs two runs, by their names: tests/archiver/cli/test_compare.py; and only a run that broke off can
    # be gone on with: tests/archiver/cli/test_resume.py.
    elsewhere = ["archiver serve", "archiver compare", "archiver resume", "archiver capture"]
    elsewhere += [name for name in ALL if name.startswith("archiver platform")]
    rest = [name for name in ALL if name not in first and name not in elsewhere]
    (tmp_path / "sizes.csv").write_text("size,share\n8KiB,70%\n1MiB,30%\n")  # for archiver plan size
    write_example_files(tmp_path)  # for archiver trace
    for name in [*first, *rest]:
        done = run(example(name), tmp_path)
        assert done.returncode == 0, f"{example(name)}\n{done.stdout}\n{done.stderr}"


def test_the_serve_example_serves_until_ctrl_c(tmp_path: Path) -> None:
    words = shlex.split(example("archiver serve").replace("/tmp/worm-store", str(tmp_path / "worm-store")))
    process = subprocess.Popen(
        [sys.executable, "-m", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert process.stdout is not None
    assert "listens on http://127.0.0.1:" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
