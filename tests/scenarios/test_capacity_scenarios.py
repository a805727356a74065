"""The capacity exercises: their load at each scale, and small runs that search, fail and are compared with a plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from archiver.engine.work.mixed.shares import mix_of
from results.planning.capacity import capacity_tables
from results.planning.measured_rates import RATES_PHASE
from results.recorded.database import RunDatabase
from scenarios.model import Phase, Scenario, Workload
from scenarios.reading.reader import phases_at, read_scenario
from tests.support.commands import archiver
from tests.support.runs import verdict_of_missed

DEFAULT_LOCKED_BYTES_MAX = 40e9


def phase(phases: tuple[Phase, ...], name: str) -> Phase:
    return next(each for each in phases if each.name == name)


def workload(phases: tuple[Phase, ...], name: str) -> Workload:
    return next(each for one in phases for each in one.workloads if each.name == name)


@pytest.fixture(params=["mail", "video"])
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return read_scenario(request.param)


def test_capacity_scenario_searches_by_default(scenario: Scenario) -> None:
    assert scenario.search is not None
    assert scenario.search.first < scenario.search.last
    assert {each.scale for each in scenario.phases} == {scenario.search.first}


def test_lone_rates_are_measured_one_after_another(scenario: Scenario) -> None:
    first, *others = phase(scenario.phases, RATES_PHASE).workloads
    before = first.name
    for each in others:
        mix = mix_of(each)
        assert (mix.waits_for, mix.starts_seconds) == (before, 0.0)
        before = each.name


def test_first_step_stays_below_tenth_of_locked_bytes_limit(scenario: Scenario) -> None:
    for quick in (False, True):
        _, size_bytes = read_scenario(scenario.name, quick=quick).archived_max()
        assert size_bytes < DEFAULT_LOCKED_BYTES_MAX / 10


@pytest.mark.parametrize("users", [20, 260])
def test_every_user_has_one_session_of_thirty_messages(users: int) -> None:
    night = workload(phases_at(read_scenario("mail"), users, 1), "nightly archive")
    assert (night.objects_per_session, mix_of(night).objects) == (30, 30 * users)
    assert mix_of(night).arrivals is None


def test_mail_lone_rates_use_sizes_and_sessions_of_night() -> None:
    phases = read_scenario("mail").phases
    night, alone = workload(phases, "nightly archive"), workload(phases, "archive alone 8")
    assert alone.objects_per_session == night.objects_per_session
    assert alone.clients == night.clients
    assert alone.work.mean_bytes == pytest.approx(night.work.mean_bytes, rel=0.01)  # the mean
    assert alone.work.mean_bytes == workload(phases, "messages alike").work.mean_bytes
    for single, wanted in (("message alone", "single retrieval"), ("discovery alone", "discovery")):
        assert workload(phases, single).objects_per_session == workload(phases, wanted).objects_per_session


def test_retrievals_continue_until_nightly_archive_ends() -> None:
    phases = read_scenario("mail").phases
    for name in ("discovery", "single retrieval"):
        mix = mix_of(workload(phases, name))
        assert mix.ends_with == "nightly archive"
        assert mix.arrivals is not None


@pytest.mark.parametrize("cameras", [10, 250])
def test_each_camera_has_chunk_every_two_seconds_with_two_second_deadline(cameras: int) -> None:
    streams = workload(phases_at(read_scenario("video"), cameras, 1), "camera streams")
    mix = mix_of(streams)
    assert mix.arrivals is not None
    chunk_seconds = cameras / mix.arrivals.per_second
    assert (chunk_seconds, mix.deadline_seconds) == (2.0, 2.0)
    assert streams.work.mean_bytes * 8 / chunk_seconds == 4_000_000
    assert (streams.clients, streams.objects_per_session) == (cameras, 1)


def test_video_lone_rates_use_chunks_and_films_of_shift() -> None:
    phases = read_scenario("video").phases
    assert workload(phases, "archive alone 1").work.mean_bytes == workload(phases, "camera streams").work.mean_bytes
    assert workload(phases, "film alone 2").objects_per_session == workload(phases, "editors").objects_per_session
    assert workload(phases, "film alone 2").clients == workload(phases, "editors").clients


def test_chunks_of_16_mb_are_multipart_uploads() -> None:
    """These are the settings that a comment of the scenario file gives for chunks of 16 s at 8 Mbit/s."""
    larger = read_scenario(
        "video",
        overrides=[
            "films.sizes=16MB", "archive alone.sizes=16MB", "camera streams.sizes=16MB",
            "camera streams.arrivals.per_second=0.0625 cameras", "camera streams.deadline=16s",
            "camera streams.seconds=2m", "playback.seconds=2m", "editors.seconds=2m",
        ],
    )  # fmt: skip
    streams = workload(larger.phases, "camera streams")
    part_bytes = mix_of(streams).part_bytes
    assert part_bytes is not None
    assert part_bytes < streams.work.mean_bytes == 16_000_000


def run(home: Path, name: str, *settings: str, backend: str = "s3") -> tuple[int, dict[str, Any], RunDatabase]:
    """Do a small run of an exercise; return its exit status, its JSON document and its database."""
    sets = [word for setting in settings for word in ("--set", setting)]
    done = archiver("run", name, "--backend", backend, "--quick", "--json", *sets, ARCHIVER_HOME=str(home))
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    return done.returncode, document, RunDatabase.open(next(home.glob("runs/*/run.db")))


SMALL_MAIL = (
    "last night.fill=60", "messages alike.fill=60", "archive alone.clients=[1, 2]", "archive alone.objects=60",
    "message alone.seconds=600ms", "discovery alone.seconds=600ms",
)  # fmt: skip


def test_mail_search_passes_and_is_compared_with_plan(tmp_path: Path) -> None:
    code, document, database = run(
        tmp_path, "mail", *SMALL_MAIL, "search.first=1", "search.last=2", "search.step=1", "search.repeat=1",
        "window.that=seconds <= 20", "patience.that=session_ms.p90 <= 20000",
    )  # fmt: skip
    assert code == 0
    assert [step["scale"] for step in document["search"]["steps"]] == [1, 2]
    assert "all up to users 2 passed" in document["search"]["ended_because"], [
        each for each in document["criteria"] if not each["passed"]
    ]
    (table,) = capacity_tables(database.results(), database.criteria())
    database.close()
    rows = {(row[0].text, row[1].text): row for row in table.rows}
    assert rows["users in 20 s", "1 client"][2].text == "2"
    night = next(r for r in document["results"] if r["application"] == "nightly archive" and r["scale"] == 2)
    assert night["objects"] == 60
    assert rows["a night of 2 users (s)", "2 clients"][2].number == pytest.approx(night["seconds"])
    assert all(row[3].number is not None for row in table.rows)


def test_unreachable_window_criterion_ends_search_at_first_step(tmp_path: Path) -> None:
    code, document, database = run(
        tmp_path, "mail", *SMALL_MAIL, "search.first=2", "search.last=4", "search.step=1",
        "window.that=seconds <= 0.0001", backend="null",
    )  # fmt: skip
    (table,) = capacity_tables(database.results(), database.criteria())
    database.close()
    verdict = verdict_of_missed(document)
    assert (code, document["verdict"]) == (1, verdict)
    assert document["search"]["largest"] is None
    ended, bound = {
        "fail": ({"users 2, the smallest, failed: lower first, or relax the criteria"}, "failed"),
        "void": (
            {
                "client limit reached at users 2: more client machines needed",
                "other programs kept this machine busy at users 2: search again while it is idle",
            },
            "was void: the platform was not the limit",
        ),
    }[verdict]
    assert document["search"]["ended_because"] in ended
    assert table.rows[0][2].notes == (f"2, the fewest tried, {bound}; other values are from there",)


def test_video_run_passes_and_is_compared_with_plan(tmp_path: Path) -> None:
    code, document, database = run(
        tmp_path, "video", "films.fill=30", "archive alone.clients=[1, 2]", "search.first=2", "search.last=2",
        "search.step=1", "camera streams.seconds=2s", "playback.seconds=2s", "editors.seconds=2s",
        "playback.arrivals.per_second=2", "keeping up.that=object_ms.p90 <= 20000", "camera streams.deadline=20s",
        "playback.deadline=20s",
        "archive alone.objects=10", "chunk alone.seconds=600ms", "film alone.seconds=600ms",
    )  # fmt: skip
    (table,) = capacity_tables(database.results(), database.criteria())
    database.close()
    assert code == 0
    streams = next(r for r in document["results"] if r["application"] == "camera streams")
    assert (streams["missed_deadlines"], streams["offered"]["sessions"]) == (0, 2)
    rows = {(row[0].text, row[1].text): row for row in table.rows}
    assert rows["cameras", "1 client"][2].text == "2"
    assert {what for what, _ in rows} == {"cameras", "one chunk back (ms)", "2 films of 30 chunks at once (ms)"}
    assert all(row[3].number is not None for row in table.rows)
