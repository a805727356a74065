"""Test that `archiver run --disclose` stores the disclosure and every document made of the run shows it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import archiver
from tests.support.runs import TINY

SYSTEM = 'system = "Example <Archive> 4000"\nusable_tb = 0.5\nnodes = 3\n'


@pytest.fixture
def system(tmp_path: Path) -> Path:
    path = tmp_path / "system.toml"
    path.write_text(SYSTEM)
    return path


def printed(*arguments: str) -> dict[str, Any]:
    done = archiver(*arguments)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_disclosure_appears_in_reports_plans_comparisons_and_bundles(home: Path, tmp_path: Path, system: Path) -> None:
    disclosed = {"system": "Example <Archive> 4000", "usable_tb": 0.5, "nodes": 3}
    run = printed("run", "dr550", *TINY, "--disclose", str(system), "--json")
    assert run["disclosure"] == disclosed
    system.unlink()  # the run has its own copy

    folder = tmp_path / "report"
    assert archiver("report", run["run"], "--format", "html", "--out", str(folder)).returncode == 0
    assert "Example &lt;Archive&gt; 4000" in (folder / "report.html").read_text()

    asked = ("plan", "mail", "--users", "50", "--messages", "2", "--mean-size", "8KiB", "--out", str(tmp_path / "plan"))
    plan = printed(*asked, "--json")
    assert plan["disclosure"] == disclosed
    assert plan["question"]["usable_bytes"] == 500_000_000_000
    assert "Example &lt;Archive&gt; 4000" in (tmp_path / "plan" / "plan.html").read_text()

    other = printed("run", "dr550", *TINY, "--json")
    assert other["disclosure"] is None
    compared = archiver("compare", run["run"], other["run"], "--tables", "all")
    assert compared.returncode == 0, compared.stderr
    row = next(line for line in compared.stdout.splitlines() if line.startswith("nodes"))
    assert row.split()[1:] == ["3", "not", "disclosed"]

    bundle = tmp_path / "audit.zip"
    assert archiver("bundle", "make", run["run"], str(bundle)).returncode == 0
    with zipfile.ZipFile(bundle) as packed:
        assert json.loads(packed.read("environment.json"))["disclosure"] == disclosed
        assert "system,Example <Archive> 4000" in packed.read("report/tables/disclosure.csv").decode()
        report = packed.read("report/report.md").decode()
        assert "| system | Example <Archive> 4000 |" in report
        assert "| firmware and software | not disclosed |" in report
    assert archiver("bundle", "verify", str(bundle)).returncode == 0
    assert home.exists()


def test_invalid_disclosure_is_refused_before_the_run(home: Path, system: Path) -> None:
    system.write_text("usable = 5")
    for command in (("run", "dr550"), ("replay", "day.parquet")):
        refused = archiver(*command, "--disclose", str(system))
        assert refused.returncode == 2
        assert "unknown key 'usable'; the keys are system, nodes" in " ".join(refused.stderr.split())
    assert not (home / "runs").exists()
