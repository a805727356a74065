"""The summary of a run: its answer, numbers, limits, warnings and verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from results.measures.doubts import doubts
from results.measures.stored_times import NO_TIMES
from results.recorded.database import RunDatabase
from results.recorded.model import CriterionResult, Result, SearchOutcome, SearchStep
from results.recorded.run import read_run
from results.report.answer import SHARED_HOST
from results.report.numbers import NUMBERS_MAX, key_numbers
from results.report.summary import RunSummary, summary, summary_lines
from tests.results.conftest import MakeDatabase, MakeResult
from tests.results.report.reported_runs import CHECK
from tests.results.watched_run import phase_record

SOUND: dict[str, Any] = {"seconds": 10.0, "steadiness": "steady"}


def of(database: RunDatabase) -> RunSummary:
    recorded = read_run(database.path)
    return summary(recorded, doubts(recorded))


def run_of(make_database: MakeDatabase, *results: Result, **record: Any) -> RunDatabase:
    """Make a finished run with these results, each in a separate phase."""
    placed = [replace(result, position=place) for place, result in enumerate(results, 1)]
    phases = [phase_record(each.position, each, each.position, each.position + 0.5) for each in placed]
    database = make_database(phases, phases_planned=len(phases), **record)
    database.finish(99.0, "none")
    return database


def test_answer_has_rate_size_clients_and_limit(make_database: MakeDatabase, make_result: MakeResult) -> None:
    database = run_of(
        make_database,
        make_result("archive", 8192, 100, 870.0, **SOUND),
        make_result("archive", 8192, 100, 1510.0, clients=4, phase="archive-parallel", **SOUND),
        make_result("retrieve", 8192, 100, 2000.0, **SOUND),
    )
    found = of(database)
    assert found.answer == (
        "minio archives 870 objects/s of 8KiB with 1 client, 1,510 with 4 (100 objects a session) and retrieves 2,000 "
        "objects/s of 8KiB with 1 client (100 objects a session); the server's processor limits archiving."
    )
    assert found.limits[0] == (
        "archive 8KiB x 100, 4 clients: the server's processor limits it (busiest thread 91%, confidence high)."
    )
    assert found.quality == "Quality: A. The archive rate is known within 4%, the retrieve rate known within 4%."
    assert (found.state, found.verdict) == ("good", "finished: all 3 phases are in these numbers")


def test_number_has_interval_conditions_and_measured_time(make_database: MakeDatabase, make_result: MakeResult) -> None:
    rates = (950.0, 1000.0, 1050.0)
    results = [
        make_result("archive", 8192, 100, rate, repetition=place, **SOUND) for place, rate in enumerate(rates, 1)
    ]
    first = of(run_of(make_database, *results)).numbers[0]
    assert (first.name, first.value, first.unit) == ("archive", "1,000", "objects/s")
    assert first.interval == "95%: 882 to 1,131"
    assert first.basis == "grade B; 95%: 882 to 1,131; 8KiB x 100, 1 client; measured for 10.00 s"


def test_number_has_its_grade_and_cautions(make_database: MakeDatabase, make_result: MakeResult) -> None:
    found = of(run_of(make_database, make_result(seconds=1.0, session_half_width=0.3, limited_by="client")))
    assert (found.numbers[0].grade, found.numbers[0].cautions) == ("C", ("limited by the client",))
    assert found.numbers[0].basis.endswith("measured for 1.00 s; limited by the client")
    assert "the client limits archiving, so the platform may be faster" in found.answer
    assert found.quality == (
        "Quality: C. The archive rate is known within 35%; the archive rate was limited by the client."
    )


def test_batching_sentence_follows_from_session_time_fit(make_database: MakeDatabase, make_result: MakeResult) -> None:
    """With T = 5 ms + n x 1 ms, sessions of 5 objects reach half of 1,000 objects/s."""
    results = [make_result("archive", 8192, n, 1000 * n / (5 + n), **SOUND) for n in (1, 10, 100)]
    found = of(run_of(make_database, *results))
    assert found.batching == (
        "a session of objects of 8KiB takes 5 ms to set up and 1 ms for each object (T = a + b n), so sessions of 5 "
        "objects reach half of the 1,000 objects/s of long ones."
    )
    assert any(line.startswith("batching: a session of") for line in summary_lines(found))
    disturbed = of(run_of(make_database, *(replace(each, errors=1) for each in results)))
    assert disturbed.batching.endswith("of long ones (disturbed by errors).")
    assert of(run_of(make_database, results[0])).batching == "", "one point is no line"


def test_summary_has_at_most_six_numbers(make_database: MakeDatabase, make_result: MakeResult) -> None:
    results = [
        make_result(operation, size, count, 1000 * count / (5 + count), **SOUND)
        for operation in ("archive", "retrieve")
        for size in (8192, 65536)
        for count in (1, 10, 100)
    ]
    found = of(run_of(make_database, *results))
    assert len(found.numbers) == NUMBERS_MAX
    assert [each.name for each in found.numbers] == [
        "archive", "retrieve", "archive, p50 of an object", "archive, p99 of an object",
        "archive, set-up of a session", "archive",
    ]  # fmt: skip
    assert found.numbers[4].value == "5"  # T = 5 ms + 1 ms x objects
    assert found.numbers[5].unit == "MB/s"


def test_imprecise_cell_of_several_clients_is_in_the_answer_with_its_grade(
    make_database: MakeDatabase, make_result: MakeResult
) -> None:
    database = run_of(
        make_database,
        make_result("archive", 8192, 100, 870.0, **SOUND),
        make_result("archive", 8192, 100, 1510.0, clients=4, phase="archive-parallel", session_half_width=0.3, **SOUND),
    )
    found = of(database)
    assert "870 objects/s of 8KiB with 1 client, 1,510 with 4" in found.answer
    assert found.quality.startswith("Quality: C. The archive rate is known within 35%")


def test_answer_of_lock_cost_scenario_is_cost_of_lock(make_database: MakeDatabase, make_result: MakeResult) -> None:
    results = [
        make_result("archive", 8192, 1, rate, repetition=repetition, lock=lock, variant=f"lock {lock}", **SOUND)
        for repetition, base in enumerate((1000.0, 1010.0, 990.0), 1)
        for lock, rate in (("none", base), ("header", 0.9 * base), ("separate", 0.5 * base))
    ]
    found = of(run_of(make_database, *results, scenario="lock-cost"))
    assert found.answer.startswith(
        "Archiving with lock header costs +10.0% of the objects/s of minio compared with lock none (95%: +10.0 to"
    )
    assert "cost of the lock" in [each.name for each in found.numbers]


def workload(make_result: MakeResult, name: str, **more: Any) -> Result:
    return make_result(workload=f"tile 1 {name}", application=name, phase="tiles", scale=1.0, **SOUND, **more)


def test_answer_of_search_is_largest_passing_scale(make_database: MakeDatabase, make_result: MakeResult) -> None:
    database = run_of(make_database, workload(make_result, "e-mail"))
    steps = (SearchStep(1, (1,), True), SearchStep(2, (2,), False))
    database.set_search(SearchOutcome("tiles", steps, 1, 2, 1, "95%", "the edge was found"))
    found = of(database)
    assert found.answer == "minio met every criterion with 1 tile and missed one with 2."
    assert (found.numbers[0].name, found.numbers[0].value) == ("tiles", "1")


def test_criterion_without_a_measured_value_in_one_repetition_is_missed(make_result: MakeResult) -> None:
    results = [replace(workload(make_result, "e-mail"), position=position) for position in (1, 2)]
    found = key_numbers(
        results,
        [],
        [
            CriterionResult("object_ms.mean <= 20", "tile 1 e-mail", 1, 20.0, 19.0, True),
            CriterionResult("object_ms.mean <= 20", "tile 1 e-mail", 2, 20.0, None, False),
        ],
        None,
        NO_TIMES,
    )
    assert [(each.value, each.basis) for each in found[3:]] == [("–", "criterion missed")]


def test_missed_criteria_are_in_answer_and_before_met_ones(
    make_database: MakeDatabase, make_result: MakeResult
) -> None:
    mail, database_ = workload(make_result, "e-mail"), workload(make_result, "database")
    criteria = [
        CriterionResult("errors == 0", "tile 1 e-mail", 1, 0.0, 0.0, True),
        CriterionResult("object_ms.mean <= 20", "tile 1 e-mail", 1, 20.0, 19.0, True),
        CriterionResult("object_ms.mean <= 20", "tile 1 database", 1, 20.0, 90.0, False),
    ]
    results = [replace(mail, position=1), replace(database_, position=1)]
    phase = phase_record(1, results[0], 1, 2, results=results, criteria=criteria)
    database = make_database([phase], phases_planned=1)
    database.finish(99.0, "fail")
    found = of(database)
    assert found.answer == "minio missed 1 of 3 criteria and completed 1,000 objects/s of 2 simultaneous workloads."
    assert [each.basis for each in found.numbers[3:]] == ["criterion missed", "criterion met", "criterion met"]
    assert [each.value for each in found.numbers[3:]] == ["90", "19", "0"]
    assert [(each.name, each.value) for each in found.numbers[:3]] == [
        ("throughput", "1,000"), ("throughput", "8.19"), ("p99 of a response", "6"),
    ]  # fmt: skip
    assert (found.state, found.verdict) == ("bad", "failed: its one phase is in these numbers")


def test_each_phase_of_single_workload_has_a_number(make_database: MakeDatabase, make_result: MakeResult) -> None:
    results = [
        make_result(application="bench", workload="bench", phase=name, objects_per_second=rate, **SOUND)
        for name, rate in (("archive 8KiB", 500.0), ("retrieve 8KiB", 250.0), ("mixed", 125.0), ("last", 50.0))
    ]
    found = of(run_of(make_database, *results))
    assert found.answer == (
        "minio completed 500 objects/s of archive 8KiB, 250 objects/s of retrieve 8KiB and 125 objects/s of mixed, and "
        "ran further phases."
    )
    assert [each.value for each in found.numbers] == ["500", "250", "125"]
    assert found.numbers[1].conditions == "retrieve 8KiB; 2.05 MB/s, p99 of a response 12 ms"


def test_void_run_proves_nothing_about_platform(make_database: MakeDatabase, make_result: MakeResult) -> None:
    short = make_result(**SOUND)
    short = replace(short, client=replace(short.client, sessions_without_port=3))
    database = make_database([phase_record(1, short, 1, 2)], phases_planned=1)
    database.finish(99.0, "void")
    assert of(database).answer == (
        "This run proves nothing about minio: VOID: archive: the client had no local port free for some of its "
        "sessions."
    )


def test_summary_of_run_without_results_states_no_measurement(make_database: MakeDatabase) -> None:
    found = of(make_database())
    assert found.answer == "No phase finished, so nothing was measured."
    assert found.numbers == ()
    assert found.verdict == "not finished: 0 of 2 phases are in these numbers"


def test_answer_of_conformance_run_names_violations(make_database: MakeDatabase) -> None:
    settings = {"catalogue": {"checks": 170, "rules": ["R1"]}}
    bad, good = make_database(settings=settings), make_database(settings=settings)
    bad.add_check(CHECK, [])
    good.add_check(replace(CHECK, verdict="PASS"), [])
    good.add_check(replace(CHECK, verdict="PASS", round="under load"), [])
    for database in (bad, good):
        database.finish(9.0, "none")
    assert of(bad).answer == (
        "minio violates its locks: a record could be lost, altered or unlocked before its time in 1 check (DEL-01); "
        "this run made 1 of 170 checks."
    )
    refused = "minio refused every request that could lose, alter or unlock a record"
    assert of(good).answer == f"{refused}, in 1 of 170 checks."
    assert [(each.name, each.value) for each in of(good).numbers] == [("violations", "0"), ("pass", "2")]


def test_summary_lines_are_complete_within_terminal_width(make_database: MakeDatabase, make_result: MakeResult) -> None:
    database = run_of(
        make_database, make_result(errors=2, session_half_width=0.3, limited_by="client", seconds=0.5), shared_host=True
    )
    found = of(database)
    lines = summary_lines(found, 80)
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    assert f"{found.answer} {found.quality}" in text
    assert all(each.basis in text for each in found.numbers)
    assert text.count("warning: ") == 4  # three warnings, and the number of the others
    assert "and 1 more in the report" in text
    assert lines[-1] == "run: finished with errors: its one phase is in these numbers"
    assert SHARED_HOST in found.quality
