"""Test the plan that `archiver run --dry-run` prints for concurrent workloads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from archiver.cli import main
from archiver.cli.runs.dry_run import duration_lines
from scenarios.reading.reader import read_scenario
from tests.scenarios.files import toml

DOCUMENT: dict[str, Any] = {
    "name": "mine",
    "title": "Mine",
    "scale": {"name": "tiles", "each": "tile", "values": [1, 3]},
    "search": {"first": 2, "last": 8, "step": 2, "repeat": 5},
    "criterion": [{"that": "errors == 0"}],
    "phase": [
        {"name": "load", "load": True, "copies": "tiles", "workload": [
            {"name": "pages", "operation": "archive", "data": "d", "sizes": "8KiB", "clients": 1, "fill": 1000},
            {"name": "rest", "operation": "archive", "data": "d", "sizes": "8KiB", "clients": 2, "objects": 500},
        ]},
        {"name": "mix", "copies": "tiles", "workload": [
            {"name": "small", "clients": [1, 2, 4, 8], "data": "d", "sizes": "8KiB", "seconds": "3s", "warm_up": "1s",
             "transactions": [{"steps": ["retrieve"], "share": 7}, {"steps": ["archive"], "share": 3}],
             "bytes_max": "1MB", "begins": "2s"},
            {"name": "check", "operation": "retrieve", "clients": 2, "data": "d", "keys": "each-once",
             "after": "small"},
            {"name": "scan", "operation": "retrieve", "clients": 1, "data": "d", "after": "check", "seconds": "4s"},
            {"name": "web", "operation": "retrieve", "clients": 3, "data": "d", "seconds": "60s", "until": "check",
             "arrivals": {"kind": "ramp", "per_second": 1, "to_per_second": "5 tiles"}},
        ]},
    ],
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the scenario and Archiver's home."""
    monkeypatch.setenv("ARCHIVER_HOME", str(tmp_path / "home"))
    (tmp_path / "mine.toml").write_text(toml(DOCUMENT))
    return tmp_path


def planned(home: Path, *options: str) -> list[str]:
    """Return the lines of the plan with single spaces."""
    done = CliRunner().invoke(main, ["run", str(home / "mine.toml"), "--dry-run", *options])
    assert done.exit_code == 0, done.output
    assert not (home / "home").exists()
    return [" ".join(line.split()) for line in done.stdout.splitlines()]


def test_plan_shows_clients_times_and_amounts_of_each_workload(home: Path) -> None:
    lines = planned(home)
    assert lines[0] == "Mine: 4 phases, in this order"
    assert lines[2:9] == [
        "1 load, 1 tile 1,500 12.3 MB",
        "pages: archive, 1 client, from 0s until there are 1,000 1,000 8.2 MB",
        "rest: archive, 2 clients, from 0s until 500 are archived 500 4.1 MB",
        "2 mix, 1 tile, about 78s 488 4.0 MB",
        "small: mixed, 1, 2 ... 8 clients in turn, from 2s for 3s each, 1s of it warm-up 488 4.0 MB",
        "check: retrieve, 2 clients, from 14s until all is read - -",
        "scan: retrieve, 1 client, after check for 4s - -",
    ]
    assert lines[9] == ("web: retrieve, 3 clients, 1 to 5 sessions/s (ramp), from 0s for 60s or until check ends - -")


def test_plan_repeats_workloads_only_if_they_differ(home: Path) -> None:
    lines = planned(home)
    assert lines[10] == "3 load, 3 tiles, 3 copies of each 3,500 28.7 MB"  # objects of the first load remain
    assert lines[11] == "4 mix, 3 tiles, about 78s, 3 copies of each 1,464 12.0 MB"
    assert "web: retrieve, 3 clients, 1 to 15 sessions/s (ramp)" in lines[15]
    rows = [re.search(r"([\d,]+) [\d.]+ MB$", line) for line in lines if re.match(r"\d+ ", line)]
    total = sum(int(row[1].replace(",", "")) for row in rows if row)
    assert lines[16] == f"archives at most {total:,} objects, 57.0 MB"


def test_plan_of_search_shows_range_and_bytes_of_each_step(home: Path) -> None:
    lines = planned(home, "--search")
    assert (
        lines[0] == "Mine: a search of tiles from 2 to 8 by 2, with 5 trials at the edge; the first step has 2 phases"
    )
    assert lines[2] == "1 load, 2 tiles, 2 copies of each 3,000 24.6 MB"
    assert "a step at 2 tiles archives at most 3,976 objects, 32.6 MB" in lines
    assert "a step at 8 tiles archives at most 15,904 objects, 130.3 MB" in lines
    assert "steps that together exceed the disk or --max-locked-bytes are not tried" in lines


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_invalid_phase_is_refused_before_the_run(home: Path, options: list[str]) -> None:
    done = CliRunner().invoke(main, ["run", str(home / "mine.toml"), "--set", "web.data=absent", *options])
    assert done.exit_code == 2
    assert "workload 'web': data: no workload archives 'tile 1 absent' before it" in done.output
    assert not (home / "home").exists()


def times(*command: str) -> list[str]:
    """Return the lines of a dry run about the duration of the run."""
    done = CliRunner().invoke(main, [*command, "--backend", "null", "--dry-run"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    return lines[next(i for i, line in enumerate(lines) if line.startswith(("locks ", "places "))) + 1 :]


def test_plan_shows_duration_and_work_without_time_limit(home: Path) -> None:
    assert times("run", str(home / "mine.toml")) == [
        # Each mix has 14 s: `small` runs four times for 3 s from 2 s on. `check`, and `scan` after it, have no time
        # limit. Four phases are set up.
        "takes about 30s with the set-up of its phases; the clients work at most 28s",
        "not in these times: work that ends when all is done, in load, 1 tile; mix, 1 tile; load, 3 tiles; and 1 more",
    ]


def test_plan_of_search_shows_duration_of_first_step(home: Path) -> None:
    said = times("run", str(home / "mine.toml"), "--search")
    assert said[0].startswith(
        "a step at 2 tiles takes about 15s with the set-up of its phases; the clients work at most"
    )
    assert said[-1] == "how many steps the search takes depends on the platform"


def test_plan_of_sweeps_shows_duration(home: Path) -> None:
    small = ("--set", "object_sizes=8KiB", "--set", "objects_per_session=2", "--set", "stop.warm_up_seconds=1s",
             "--set", "stop.seconds_min=2s")  # fmt: skip
    one = (*small, "--set", "clients=1", "--set", "stop.seconds_max=6s")
    assert times("run", "dr550", *one) == [  # four cells of 1 s warm-up and 2 to 6 s
        "takes about 22s with the set-up of its phases; the clients work at most 28s, unless a cell's fewest sessions "
        "take longer"
    ]
    several = (*small, "--set", "clients=2")
    assert times("run", "dr550", *several) == [
        "takes about 14s with the set-up of its phases; the clients work at most 12s"
    ]
    assert times("run", "dr550", *several, "--repeat", "3") == [
        "takes about 42s with the set-up of its phases; the clients work at most 36s"
    ]


def test_planned_duration_is_multiplied_by_number_of_platforms() -> None:
    scenario = read_scenario("dr550", overrides=["clients=2", "stop.seconds_min=2s"], quick=True)
    (one,), (two,) = (list(duration_lines(scenario, platforms, None)) for platforms in (1, 2))
    seconds = [[int(each) for each in re.findall(r"(\d+)s", line)] for line in (one, two)]
    assert seconds[1] == [2 * each for each in seconds[0]]


def test_plan_of_replays_shows_duration(home: Path) -> None:
    model = {"streams": 2, "per_second": 5, "operations": {"archive": 1}, "sizes": "8KiB"}
    (home / "traces.toml").write_text(toml({
        "name": "traces", "title": "Traces",
        "phase": [{"name": "replay", "seconds": "40s", "replay": [{"name": "mail", "model": model, "capacity": "1MB"}],
                   "infrastructure": [{"kind": "clone and deploy", "capacity": "1MB", "minimum_per_hour": 6,
                                       "seconds": "90s"}]}],
    }))  # fmt: skip
    done = CliRunner().invoke(main, ["run", str(home / "traces.toml"), "--dry-run", "--platform", "embedded"])
    assert "takes about 91s with the set-up of its phases; the clients work at most 90s" in done.output
    assert "not in these times: work that ends when all is done, in replay preparation" in done.output


def test_plan_of_work_without_time_limit_shows_no_duration(home: Path) -> None:
    load = DOCUMENT["phase"][0]
    (home / "load.toml").write_text(toml({"name": "load", "title": "Load", "phase": [{**load, "copies": 1}]}))
    assert times("run", str(home / "load.toml")) == [
        "takes as long as the platform needs: work that ends when all is done, in load"
    ]
