"""`archiver report`: everything from the database, and the same every time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.archiver.cli.test_run import TINY, archiver


def test_a_report_can_be_made_again_with_the_same_bytes(home: Path, tmp_path: Path) -> None:
    assert archiver("run", "dr550", *TINY, "--quiet").returncode == 0
    (run,) = (home / "runs").iterdir()
    for folder in ("one", "two"):
        made = archiver("report", run.name, "--out", str(tmp_path / folder))
        assert made.returncode == 0, made.stderr
    names = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*") if path.is_file())
    assert Path("report.md") in names
    assert Path("figures/figure-1-archive-objects-per-second.png") in names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_module_and_script_are_the_same_command() -> None:
    script = subprocess.run(
        [Path(sys.executable).with_name("archiver"), "--version"], capture_output=True, text=True, check=True
    )
    assert archiver("--version").stdout == script.stdout
