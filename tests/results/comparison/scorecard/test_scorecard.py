"""A scorecard: the runs of each platform, its verdicts and rates, and the parts that were not measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from archiver.values.errors import ResultsError, UsageError
from results.comparison.compare import MeasuredRun
from results.comparison.conformance import ConformanceRun
from results.comparison.scorecard.cards import POINTS, Point, ScoredRun, scorecard_of, scored_run
from results.comparison.scorecard.page import write_scorecard
from results.comparison.scorecard.tables import (
    conformance_tables,
    durability_tables,
    failures_by_severity,
    lock_cost_tables,
    rate_tables,
)
from results.comparison.scorecard.verdicts import answers, conditions, findings, kill_words, missing_parts, worst_words
from results.document.table import Table
from results.recorded.database import RunDatabase
from results.recorded.run import RecordedRun
from tests.results.comparison.compared_runs import MakeResult, MakeRun, measured_run
from tests.results.comparison.scored_runs import ALL_CELLS, SMALL, STARTED, check, checked_run, with_all_points
from tests.results.report.reported_runs import HOSTILE

MakeChecked = Callable[..., ConformanceRun]


@pytest.fixture
def make_measured(make_result: MakeResult) -> MakeRun:
    return partial(measured_run, make_result, settings=STARTED)


@pytest.fixture
def make_checked(make_database: Callable[..., RunDatabase]) -> MakeChecked:
    return partial(checked_run, make_database)


def column(table: Table, name: str) -> dict[str, str]:
    place = [each.name for each in table.columns].index(name)
    return {row[0].text: row[place].text for row in table.rows}


def test_runs_are_grouped_by_platform_and_version(make_measured: MakeRun, make_checked: MakeChecked) -> None:
    runs: list[ScoredRun] = [
        make_measured("minio"), make_measured("embedded"), make_checked("minio", check("DEL-02", "PASS"), version="2"),
        make_checked("embedded", check("DEL-02", "PASS")),
    ]  # fmt: skip
    cards = {card.label: card for card in scorecard_of(runs).cards}
    assert list(cards) == ["minio 1", "embedded", "minio 2"]
    assert cards["embedded"].side is not None
    assert cards["embedded"].conformance is not None
    assert cards["minio 1"].conformance is None
    assert cards["minio 2"].side is None


def test_latest_conformance_run_is_used(make_checked: MakeChecked) -> None:
    old = make_checked("minio", check("DEL-02", "FAIL"), started_at=1.0)
    new = make_checked("minio", check("DEL-02", "PASS"), started_at=2.0, id="new")
    (card,) = scorecard_of([new, old]).cards
    assert card.conformance is new


def test_empty_duplicate_and_missing_runs_are_refused(
    make_run: Callable[..., RecordedRun], make_measured: MakeRun
) -> None:
    with pytest.raises(ResultsError, match="neither results nor conformance checks"):
        scored_run(make_run())
    with pytest.raises(UsageError, match="named twice"):
        scorecard_of([make_measured("minio"), make_measured("minio")])
    with pytest.raises(UsageError, match="--platform"):
        scorecard_of([])


def test_point_is_same_cell_on_every_platform(make_measured: MakeRun) -> None:
    short, long = ("archive", SMALL, 25), ("archive", SMALL, 100)
    first = make_measured("first", {short: (900.0,), long: (950.0,)})
    second = make_measured("second", {short: (400.0,)})
    points = [card.points for card in scorecard_of([first, second]).cards]
    assert [each[Point("archive", SMALL, 1)].key.objects_per_session for each in points] == [25, 25]
    (alone,) = scorecard_of([first]).cards
    assert alone.points[Point("archive", SMALL, 1)].key.objects_per_session == 100


def test_rates_without_lock_are_not_used_as_points(make_measured: MakeRun) -> None:
    (card,) = scorecard_of([make_measured("minio", retention_mode="none")]).cards
    assert card.points == {}


def test_rate_has_its_grade_and_cautions(make_measured: MakeRun) -> None:
    made = scorecard_of([make_measured("minio", session_half_width=0.12, limited_by="client", errors=2)])
    (rate,) = [row[1] for row in rate_tables(made)[0].rows]
    assert (rate.text, rate.grade) == ("500", "B")
    assert rate.notes == ("disturbed by errors", "limited by the client")
    care = answers(made)[-1]
    assert care.startswith("Read the rates with care")
    assert all(note in care for note in rate.notes)


def test_rate_with_too_wide_an_interval_is_not_known(make_measured: MakeRun) -> None:
    made = scorecard_of([make_measured("minio", session_half_width=0.9)])
    (rate,) = [row[1] for row in rate_tables(made)[0].rows]
    assert (rate.text, rate.number) == ("not known", None)


def test_scorecard_begins_with_verdict_on_locks(
    make_measured: MakeRun, make_checked: MakeChecked, tmp_path: Path
) -> None:
    made = scorecard_of(
        [
            make_checked("good", check("DEL-02", "PASS")),
            make_checked("bad", check("RET-04", "FAIL", "S2"), check("DEL-03", "FAIL", reason=HOSTILE)),
            make_checked("silent", check("DEL-02", "NOT TRIED")),
            make_measured("good", seconds=10.0),
        ]
    )
    assert answers(made)[0] == (
        "A record could be lost, altered or unlocked before its time on bad. No check could lose, alter or unlock a "
        "record on good. Nothing is known about the locks of silent."
    )
    assert [(each.about, each.state) for each in findings(made)] == [
        ("good", "good"),
        ("bad", "bad"),
        ("silent", "care"),
    ]
    text = write_scorecard(tmp_path, made, "html").read_text()
    places = [text.index(part) for part in ("A record could be lost", "Worst: S1 DEL-03", 'id="table-severities"')]
    assert places == sorted(places)
    assert "alert(1)</script>" not in text
    markdown = write_scorecard(tmp_path, made, "markdown").read_text()
    assert markdown.startswith("# Scorecard: good, bad and silent\n\nA record could be lost")
    assert "This scorecard is evidence, not a certificate." in markdown


def test_worst_finding_has_highest_severity(make_checked: MakeChecked) -> None:
    checks = [
        check("RET-04", "FAIL", "S2", reason="shortened"), check("DEL-03", "FAIL", "S1", reason="gone"),
        check("DEL-03", "FAIL", "S2", "under load", "gone"), check("GOV-07", "DEVIATION", "S4"),
    ]  # fmt: skip
    assert worst_words(checks) == "S1 DEL-03: delete a locked version: gone"
    assert failures_by_severity(checks) == {"S1": 1, "S2": 1, "S3": 0, "S4": 0}
    severities, requirements = conformance_tables(scorecard_of([make_checked("minio", *checks)]))
    assert column(severities, "S1 failed") == {"minio": "1"}
    assert column(severities, "worst finding") == {"minio": "S1 DEL-03"}
    assert column(requirements, "minio")["17a-4(f)(2)(i)(B)"] == "2 FAIL: DEL-03 (S1), RET-04 (S2); 1 other"


def test_kill_round_reports_fate_of_acknowledged_records(make_checked: MakeChecked) -> None:
    killed = make_checked(
        "minio",
        check("VER-08", "FAIL", round_="after restart", reason="3 of 900 objects are gone"),
        check("DEL-02", "PASS", round_="after restart"),
    )
    made = scorecard_of([killed])
    assert kill_words(made.cards[0]) == (
        "VER-08 after restart: FAIL: 3 of 900 objects are gone; 1 checks were repeated, 0 failed"
    )
    assert column(durability_tables(made)[0], "after kill -9")["minio"].startswith("VER-08 after restart: FAIL")


def test_missing_parts_are_listed_with_their_command(make_measured: MakeRun, make_checked: MakeChecked) -> None:
    rates, checks = make_measured("minio", ALL_CELLS), make_checked("embedded", check("DEL-02", "PASS"))
    missing = {(each.platform, each.part): each.command for each in missing_parts(scorecard_of([rates, checks]))}
    assert missing["minio", "conformance"] == "archiver worm --platform minio"
    assert missing["minio", "lock cost"] == "archiver run scorecard --platform minio --repeat 3"
    (points,) = [part for platform, part in missing if platform == "minio" and part.startswith("rates")]
    assert "archive 8KiB, 16 clients" in points
    assert "1 client;" not in points
    assert ("embedded", "rates and latency") in missing
    assert ("embedded", "acknowledged records after a kill") in missing
    remote = replace(checks.row.platform, endpoints=("https://worm.example.org",))
    there = replace(checks, row=replace(checks.row, platform=remote, settings={}))
    commands = [each.command for each in missing_parts(scorecard_of([there]))]
    assert "archiver run scorecard --endpoint https://worm.example.org --repeat 3" in commands


def test_platform_with_every_part_has_no_missing_parts(
    make_measured: MakeRun, make_checked: MakeChecked, make_result: MakeResult
) -> None:
    whole = with_all_points(make_measured, "minio")
    costs = [
        make_result(objects_per_second=rate, phase="lock", variant=f"lock {lock}", lock=lock, retention_mode=mode)
        for lock, mode, rate in (("none", "none", 500.0), ("header", "GOVERNANCE", 400.0))
    ]
    whole = replace(whole, results=[*whole.results, *costs])
    checked = make_checked("minio", check("VER-08", "PASS", round_="after restart"), check("DEL-02", "PASS"))
    made = scorecard_of([whole, checked])
    assert missing_parts(made) == []
    assert set(made.cards[0].points) == set(POINTS)
    assert column(lock_cost_tables(made)[0], "minio") == {"lock header, archive 8KiB, 1 client": "+20.0"}


@pytest.mark.parametrize(
    ("locked", "sentence"),
    [
        ((400.0, 404.0, 408.0), "The lock costs this share of the objects/s: minio +19.2% (95%: "),
        ((400.0, 500.0, 600.0), "No cost of the lock in objects/s is shown on minio "),
    ],
)
def test_lock_cost_is_stated_only_if_interval_excludes_zero(
    locked: tuple[float, ...], sentence: str, make_measured: MakeRun, make_result: MakeResult
) -> None:
    results = [
        make_result(objects_per_second=rate, phase="lock", variant=f"lock {lock}", lock=lock, retention_mode=mode,
                    repetition=repetition)
        for lock, mode, rates in (("none", "none", (500.0, 500.0, 500.0)), ("header", "GOVERNANCE", locked))
        for repetition, rate in enumerate(rates, 1)
    ]  # fmt: skip
    run = make_measured("minio")
    found = answers(scorecard_of([replace(run, results=[*run.results, *results])]))
    assert [each.startswith(sentence) for each in found if "lock" in each and "objects/s" in each] == [True]


def test_platforms_not_measured_in_turn_are_marked(make_measured: MakeRun) -> None:
    together = [make_measured("one"), make_measured("other")]
    apart = [replace(run, row=replace(run.row, comparison=None)) for run in together]
    assert not any("not measured in turn" in each for each in conditions(scorecard_of(together)))
    assert any("not measured in turn" in each for each in conditions(scorecard_of(apart)))


def test_scorecard_names_date_and_machine_but_not_host_name(make_measured: MakeRun, tmp_path: Path) -> None:
    run = make_measured("minio", started_at=1_800_000_000.0)
    host = {"host": "secret-name", "processor": "AMD EPYC", "cores": 2, "archiver": "0.1.0"}
    made = scorecard_of([replace(run, row=replace(run.row, host=host))])
    told = conditions(made)
    assert "Measured on 2027-01-15; client machine: processor AMD EPYC, cores 2, Archiver 0.1.0." in told
    text = write_scorecard(tmp_path, made, "markdown").read_text()
    assert all(each in text for each in told)
    assert "secret-name" not in text


def test_rates_are_grouped_by_acknowledgement_and_ranked_where_intervals_tell(make_measured: MakeRun) -> None:
    def run(name: str, rate: float, durability: str) -> MeasuredRun:
        cells = {("archive", SMALL, 25): (rate, 1.01 * rate, 0.99 * rate)}
        made = make_measured(name, cells, clients=16)
        return replace(made, row=replace(made.row, platform=replace(made.row.platform, durability=durability)))

    runs = [run("slow", 300.0, "fsync"), run("fast", 900.0, "fsync"), run("near", 895.0, "fsync"),
            run("memory", 2000.0, "none: in memory"), run("other", 50.0, "unknown")]  # fmt: skip
    _, rates, meaning, *_ = answers(scorecard_of(runs))
    assert rates == (
        "Archive, objects/s of 8KiB with 16 clients: acknowledged on disk: fast 900 (A), near 895 (A) > slow 300 (A); "
        "acknowledged in memory: memory 2,000 (A); acknowledged, unknown where: other 50 (A)."
    )
    assert meaning == "Between two rates, > means that their 95% intervals do not overlap."
