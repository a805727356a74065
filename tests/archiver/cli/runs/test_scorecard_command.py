"""Test `archiver scorecard`: what it announces, what it measures, and which points it reports as missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import archiver, archiver_within
from tests.support.runs import TINY, left_in

_SECONDS_MAX = 300.0  # for ten measurements


def points_measured(document: dict[str, Any]) -> list[tuple[str, int]]:
    (card,) = document["platforms"]
    return [(point["operation"], point["clients"]) for point in card["points"]]


def test_scorecard_dry_run_announces_locks_and_duration(home: Path) -> None:
    done = archiver("scorecard", "--platform", "embedded", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "conformance checks of embedded: about 4m" in done.stdout
    assert "in mode COMPLIANCE for at most 25s" in done.stdout
    assert "archive 1MiB x 5, 16 clients" in done.stdout
    assert "a phase that starts now asks for no lock beyond" in done.stdout
    assert "takes at most 30m: rounds of 10 phases" in done.stdout
    assert left_in(home) == []


def test_scorecard_without_run_and_platform_is_refused_with_remedy(home: Path) -> None:
    done = archiver("scorecard")
    assert done.returncode == 2
    assert "name one, or a platform to measure with --platform" in done.stderr


def test_runs_of_one_platform_are_combined_in_one_scorecard(home: Path, tmp_path: Path) -> None:
    measured = archiver("run", "scorecard", *TINY, "--quiet")
    assert measured.returncode == 0, measured.stderr
    checked = archiver("worm", "--check", "DEL-02")
    assert checked.returncode == 0, checked.stderr
    runs = sorted(path.name for path in (home / "runs").iterdir())
    done = archiver("scorecard", *runs, "--json", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert points_measured(document) == [("archive", 1), ("retrieve", 1)]
    (card,) = document["platforms"]
    assert (card["label"], sorted(card["runs"])) == ("embedded", runs)
    assert card["conformance"]["violations"] == []
    assert [cost["lock"] for cost in card["lock_costs"]] == ["lock header"]
    assert card["syncs_per_object"] > 0
    (missing,) = document["missing"]
    assert missing["part"].startswith("rates and latency (archive 8KiB, 16 clients;")
    text = (tmp_path / "scorecard.md").read_text()
    assert text.startswith("# Scorecard: embedded\n\nNo check could lose, alter or unlock a record on embedded.")


@pytest.mark.long
def test_scorecard_measures_only_points_missing_from_named_runs(home: Path) -> None:
    checked = archiver("worm", "--check", "DEL-02")
    assert checked.returncode == 0, checked.stderr
    lacking = ("scorecard", "latest", "--platform", "embedded", "--quick", "--repeat", "1", "--json")
    done = archiver_within(_SECONDS_MAX, lacking, {})
    assert done.returncode == 0, done.stderr
    assert "conformance checks" not in done.stderr
    document = json.loads(done.stdout)
    assert len(points_measured(document)) == 8
    assert document["missing"] == []
    assert "left on the platform: " in done.stderr
    assert "remove them: archiver cleanup " in done.stderr
