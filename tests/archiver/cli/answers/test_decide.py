"""Test `archiver decide` on a measured run and a conformance run of the embedded store."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tests.support.commands import archiver
from tests.support.runs import TINY

NEED = """
years = 3
must = ["check RET-05", "no S1", "at most 9 platforms"]
[[load]]
kind = "mail"
users = 100
messages = 30
mean-size = "8KiB"
objects-per-session = 2
retention = "365d"
"""


def test_decision_quotes_existing_runs_and_names_their_hashes(home: Path, tmp_path: Path) -> None:
    need = tmp_path / "need.toml"
    need.write_text(NEED)
    assert archiver("run", "dr550", *TINY, "--quiet").returncode == 0
    assert archiver("worm", "--platform", "embedded", "--check", "RET-05").returncode == 0
    runs = sorted(path.name for path in (home / "runs").iterdir())
    done = archiver("decide", str(need), *runs, "--json", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (platform,) = document["platforms"]
    assert {text: judged["outcome"] for text, judged in platform["must"].items()} == {
        "check RET-05": "met", "no S1": "not known", "at most 9 platforms": "met",
    }  # fmt: skip
    assert document["recommended"] is None
    assert document["answer"][0] == "No platform is shown to meet every must-have."
    for run, found in document["sha256_of_databases"].items():
        assert found == hashlib.sha256((home / "runs" / run / "run.db").read_bytes()).hexdigest()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "decision.html", "decision.json", "decision.md",
    ]  # fmt: skip
    assert json.loads((tmp_path / "out" / "decision.json").read_text()) == document


def test_unknown_must_have_is_refused_before_any_run_is_read(home: Path, tmp_path: Path) -> None:
    need = tmp_path / "need.toml"
    need.write_text(NEED.replace("no S1", "fast"))
    done = archiver("decide", str(need), "no-such-run")
    assert done.returncode == 2
    assert f"{need}: must: 'fast' is not known; there are: no S1, check RET-05" in done.stderr
