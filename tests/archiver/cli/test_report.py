"""`archiver report`: everything from the database, and the same every time."""

from __future__ import annotations

import json
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
    assert Path("figures/figure-6-server-cpu.png") in names
    assert Path("tables/server-resources.csv") in names
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_what_the_server_counted_is_shown_beside_what_was_sent(home: Path, tmp_path: Path) -> None:
    ran = archiver("run", "dr550", *TINY)
    assert ran.returncode == 0, ran.stderr
    for title in ("Resource usage", "What limits", "Per object", "Requests: counted by the server, sent by the client"):
        assert ran.stdout.count(f"\n{title}\n") == 1
    for title in ("Service times", "Server resources, phase by phase"):  # long: in the report
        assert f"\n{title}\n" not in ran.stdout
    assert archiver("report", "latest", "--out", str(tmp_path)).returncode == 0
    requests = json.loads((tmp_path / "results.json").read_text())["requests"]
    sent = {each["operation"]: each["sent"] for each in requests if each["sent"]}
    assert {"PutObject", "GetObject", "HeadBucket"} <= sent.keys()
    assert {each["operation"]: each["counted"] for each in requests if each["sent"]} == sent


def test_module_and_script_are_the_same_command() -> None:
    script = subprocess.run(
        [Path(sys.executable).with_name("archiver"), "--version"], capture_output=True, text=True, check=True
    )
    assert archiver("--version").stdout == script.stdout
