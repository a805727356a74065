"""A new user follows README.md: installs, measures, plans and compares, in a fresh environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import real

ROOT = Path(__file__).parent.parent


class NewUser:
    """Runs commands in an environment that has only what README.md installs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "AWS_"))}
        self._environment = {**kept, "ARCHIVER_HOME": str(self.home), "PATH": f"{folder}/venv/bin:{os.environ['PATH']}"}

    def installs(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], check=True)
        pip = [str(self.folder / "venv/bin/pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--constraint", ROOT / "requirements-dev.lock", ROOT], env=self._environment, check=True)

    def types(self, line: str) -> str:
        done = subprocess.run(
            line, shell=True, cwd=self.folder, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def latest(self) -> Path:
        return max((self.home / "runs").iterdir())


@pytest.mark.long
def test_a_new_user_reaches_report_plan_and_comparison(tmp_path: Path) -> None:
    real.need("minio")
    user = NewUser(tmp_path)
    user.installs()
    assert "run: finished" in user.types("archiver run dr550 --quick")
    embedded = user.latest
    user.types("archiver report latest --format html")
    assert (embedded / "report/report.html").stat().st_size > 100_000
    user.types("archiver bench --platform minio --size 8KiB --clients 1,4 --duration 3s")
    plan = user.types(
        f"archiver plan mail --users 30000 --messages 30 --mean-size 20KiB --usable 300TB --retention 7y "
        f"--from {embedded.name} --out plan"
    )
    assert "platforms" in plan
    assert (tmp_path / "plan/plan.html").exists()
    user.types("archiver run dr550 --quick --platform minio")
    user.types(f"archiver compare {embedded.name} latest --format html --out comparison")
    assert "minio" in (tmp_path / "comparison/comparison.html").read_text()
    user.types("archiver cleanup latest --bypass-governance")
