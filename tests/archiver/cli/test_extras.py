"""Test commands without the package of an extra: a command that needs it names the extra, and others work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_WITHOUT = "import sys; sys.modules[sys.argv.pop(1)] = None; from archiver.cli import main; main()"


def without(package: str, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process that cannot import this package."""
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT, package, *arguments],
        env={**os.environ, "ARCHIVER_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("pyarrow", "traces", ["trace", "info", "some.parquet"]),
        ("pyarrow", "traces", ["replay", "some.parquet", "--backend", "null"]),
        ("pyarrow", "traces", ["run", "dr550", "--quick", "--backend", "null", "--op-log", "operations"]),
        ("distributed", "dask", ["run", "dr550", "--quick", "--backend", "null", "--dask", "local:2"]),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    package: str, extra: str, arguments: list[str], tmp_path: Path
) -> None:
    done = without(package, tmp_path, *arguments)
    assert done.returncode == 2
    assert f"this needs {package}, which is not installed" in done.stderr
    assert f"'archiver-worm[{extra}]'" in done.stderr
    assert list(tmp_path.glob("runs/*")) == []


def test_run_and_html_report_need_no_extra(tmp_path: Path) -> None:
    cells = ("object_sizes=8KiB", "objects_per_session=1", "stop.seconds_min=0.02s", "stop.seconds_max=0.05s")
    words = (word for cell in cells for word in ("--set", cell))
    done = without("pyarrow", tmp_path, "run", "dr550", "--quick", "--backend", "null", *words)
    assert done.returncode == 0, done.stderr
    page = without("pyarrow", tmp_path, "report", "latest", "--format", "html")
    assert page.returncode == 0, page.stderr
