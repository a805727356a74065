"""The tables of a replay: hand-computed numbers, verdicts, published values, prices, and runs with few results."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from archiver.values.errors import UsageError
from results.document.table import Cell, Table
from results.document.text import render_csv, render_markdown, render_text
from results.mixed.replay.contents import REPORT_TABLES, SECTIONS, replay_document, replay_tables
from results.mixed.replay.detail_tables import applications_table, method_table, sets_table, trace_facts_table
from results.mixed.replay.price import priced
from results.mixed.replay.published import infrastructure_score, published_reports
from results.mixed.replay.result_tables import (
    WITHHELD,
    infrastructure_table,
    passing_table,
    phases_table,
    score_cell,
    summary_table,
)
from results.mixed.replay.trials import ReplayedRun
from results.prices.prices import CloudPrices, PricedPart, PriceList
from results.recorded.model import CriterionResult, Result, SearchOutcome, SearchStep
from results.recorded.run import read_run
from results.report.mixed_contents import mixed_run, mixed_tables
from tests.results.mixed.replay.replayed_sets import EIGHT, ReplayedSets, beside, criterion

TIMES = {"retrieve": [2.0, 4.0], "head": [6.0], "archive": [10.0, 30.0, 50.0], "delete": [1.0]}
OF_ALL = "object_ms.p70 <= 20 (all)"
MARK = "capacity ratio not held (2% of the full capacity)"
FILE = PriceList(currency="USD", part=(PricedPart(item="array", quantity=1, list_price=752_000.0),))


def row(table: Table, *labels: str) -> list[Cell]:
    """Return the cells after these labels of the only row that has them."""
    (found,) = [list(each) for each in table.rows if tuple(cell.text for cell in each[: len(labels)]) == labels]
    return found[len(labels) :]


def column(table: Table, name: str, unit: str = "") -> list[str]:
    (place,) = [at for at, each in enumerate(table.columns) if (each.name, each.unit) == (name, unit)]
    return [each[place].text for each in table.rows]


def infrastructure(sets: ReplayedSets, clones: int = 7, migrations: int = 4) -> list[Result]:
    kinds = (beside("clone and deploy", clones, 6), beside("storage migration", migrations, 3))
    return [sets.infrastructure(each) for each in kinds]


def held(results: list[Result], **given: object) -> list[CriterionResult]:
    """Return met criteria: 70% of all responses, and the mean of every application."""
    means = [
        criterion("object_ms.mean <= 30", 30, each.object_ms.mean, True, workload=each.workload, **given)
        for each in results
        if each.replayed is not None and each.object_ms is not None
    ]
    return [criterion(OF_ALL, 20, 10.0, True, **given), *means]


# Responses


def test_summary_means_of_reads_and_writes_cover_all_applications(sets: ReplayedSets) -> None:
    slow = {"range-retrieve": [9.0], "copy": [70.0], "new-version": [90.0], "query": [1.0], "hold": [18.0]}
    results = [sets.application("mail", 1, TIMES), sets.application("web", 1, slow)]
    table = summary_table(sets.run(results, held(results)))
    reads, writes = 2 + 4 + 6 + 9 + 1, 10 + 30 + 50 + 70 + 90
    assert row(table, "mean read", "ms")[0].number == pytest.approx(reads / 5)
    assert row(table, "mean write", "ms")[0].number == pytest.approx(writes / 5)
    assert row(table, "mean response", "ms")[0].number == pytest.approx((reads + writes + 1 + 18) / 12)
    within = [1, 2, 4, 6, 9, 1, 10, 18]  # of 12, up to 20 ms
    assert row(table, "responses within 20 ms", "%")[0].number == pytest.approx(100 * len(within) / 12)
    assert row(table, "applications", "")[0].text == "2"


def test_response_share_uses_limit_of_overall_criterion(sets: ReplayedSets) -> None:
    results = sets.sets(1, TIMES)
    asked = [criterion("object_ms.p70 <= 30 (all)", 30, 30.0, True), criterion("object_ms.mean <= 40", 40, 1.0, True)]
    table = summary_table(sets.run(results, asked))
    assert row(table, "responses within 30 ms", "%")[0].number == pytest.approx(100 * 5 / 7)  # 30.0 ms may be above
    assert [cell.text for cell in row(table, "responses within 30 ms", "%")[1:]] == ["–", "–"]  # published for 20 ms
    assert row(summary_table(sets.run(results)), "responses within 20 ms", "%")[0].number == pytest.approx(100 * 5 / 7)


def test_sets_are_counted_and_applications_have_one_row_each(sets: ReplayedSets) -> None:
    run = sets.run(sets.sets(3, TIMES), held([]))
    summary, table = summary_table(run), applications_table(run)
    assert [row(summary, name, "")[0].text for name in ("application sets", "applications")] == ["3", "24"]
    assert sorted(column(table, "application")) == sorted([*EIGHT, "all applications"])
    assert set(column(table, "begun")) == {"21", "168"}
    assert set(column(table, "p70", "ms")) == {"10.00"}  # rank 15 of 21: 1, 2, 4, 6 and 10, three times each
    assert set(column(table, "p99", "ms")) == {"50.00"}
    assert set(column(table, "done", "/s")) == {"0.2", "1.7"}  # 21 and 168 in 100 s
    assert len(sets_table(run).rows) == 24


def test_application_row_shows_errors_waits_and_skipped_operations(sets: ReplayedSets) -> None:
    first = sets.application(
        "mail", 1, TIMES, what={"waited": 3, "left_out": (("deleted by nobody we know", 2),)}, errors=1
    )
    second = sets.application("mail", 2, TIMES, what={"waited": 4, "left_out": (("list", 5),), "begun": 6})
    table = applications_table(sets.run([first, second]))
    (only,) = table.rows  # a single application has no row of the total
    assert [cell.text for cell in only[-5:]] == ["71.4", "1", "0.200", "7", "7"]
    assert only[-1].notes == ("left out: deleted by nobody we know", "left out: list")
    assert column(table, "begun") == ["13"]


# Verdicts


def test_reduced_capacity_is_noted_with_every_verdict(sets: ReplayedSets) -> None:
    results = sets.sets(1, TIMES, what={"capacity_scale": 0.02})
    passed = sets.run(results, held(results))
    assert row(summary_table(passed), "verdict", "")[0].text == f"pass; {MARK}"
    assert passing_table(passed).rows[0][-1].text == f"pass; {MARK}"
    assert replay_document(passed)["verdict"] == f"pass; {MARK}"
    assert "Capacity ratio not held (2%" in trace_facts_table(passed).caption
    missed = sets.run(results, [criterion(OF_ALL, 20, 31.0, False)])
    assert missed.result.verdict == f"fail: 1 of 1 criteria missed; {MARK}"
    assert sets.run(results).result.verdict == f"none: there was no criterion; {MARK}"
    whole = sets.sets(1, TIMES)
    assert sets.run(whole, held(whole)).result.verdict == "pass"


def test_one_application_with_reduced_capacity_marks_verdict(sets: ReplayedSets) -> None:
    results = sets.sets(2, TIMES)
    results[5] = sets.application(EIGHT[5], 1, TIMES, what={"capacity_scale": 0.5}, scale=2.0)
    run = sets.run(results, held(results))
    assert run.result.verdict == "pass; capacity ratio not held (50% of the full capacity)"


def test_void_replay_shows_void_and_reasons_first_despite_met_criteria(sets: ReplayedSets) -> None:
    late = {"void": "the client was 40 ms late, beyond 10 ms", "capacity_scale": 0.02}
    results = [sets.application("mail", 1, TIMES, what=late), sets.application("web", 1, TIMES)]
    run = sets.run(results, held(results), verdict="void")
    told = f"VOID: set 1 mail: the client was 40 ms late, beyond 10 ms; {MARK}"
    assert row(summary_table(run), "verdict", "")[0].text == told
    table = passing_table(run)
    assert [[cell.text for cell in each] for each in table.rows[:2]] == [
        ["VERDICT", "all applications", "", "", told],
        ["replay in time", "all applications", "", "", "VOID: set 1 mail: the client was 40 ms late, beyond 10 ms"],
    ]
    assert not run.result.held
    assert [cell.text for cell in row(sets_table(run), "2", "1", "1", "mail")][-1] == late["void"]


def test_many_void_replays_are_abbreviated_in_verdict(sets: ReplayedSets) -> None:
    results = [
        sets.application("mail", copy, TIMES, what={"void": f"late by {copy} s"}, scale=5.0) for copy in range(1, 6)
    ]
    run = sets.run(results)
    assert run.result.verdict == (
        "VOID: set 1 mail: late by 1 s; set 2 mail: late by 2 s; set 3 mail: late by 3 s; and 2 more"
    )
    assert len(passing_table(run).rows) == 1 + 5
    alike = [sets.application("mail", copy, TIMES, what={"void": "late"}, scale=5.0) for copy in range(1, 6)]
    assert sets.run(alike).result.verdict == "VOID: set 1 mail, set 2 mail, set 3 mail and 2 more: late"


def test_errors_and_infrastructure_findings_fail_replay(sets: ReplayedSets) -> None:
    failed = [sets.application("mail", 1, TIMES, errors=2), *infrastructure(sets)]
    assert sets.run(failed, held(failed)).result.verdict == "fail: 2 operations failed"
    lost = beside("storage migration", 4, 3, findings=("a legal hold was lost",))
    results = [sets.application("mail", 1, TIMES), sets.infrastructure(lost)]
    run = sets.run(results, held(results))
    assert run.result.verdict == "fail: 1 findings of infrastructure operations"
    assert infrastructure_table(run).rows[0][-1].text == "a legal hold was lost"


def test_passing_detail_has_criteria_with_limit_and_worst_set(sets: ReplayedSets) -> None:
    results = [sets.application("mail", copy, TIMES, scale=2.0) for copy in (1, 2)]
    results += [sets.application("web", copy, TIMES, scale=2.0) for copy in (1, 2)]
    name = "object_ms.mean <= 30"
    judged = [
        criterion(OF_ALL, 20, 10.5, True),
        criterion(name, 30, 12.0, True, workload="set 1 mail"),
        criterion(name, 30, 31.0, False, workload="set 2 mail"),
        criterion(name, 30, None, False, workload="set 1 web"),
        criterion(name, 30, 3.0, True, workload="set 2 web"),
    ]
    table = passing_table(sets.run(results, judged))
    assert [cell.text for cell in row(table, OF_ALL)] == ["all applications", "10.5", "20", "yes"]
    mail, web = row(table, name, "mail"), row(table, name, "web")
    assert [cell.text for cell in mail] == ["31", "30", "1 of 2"]
    assert mail[0].notes == ("worst in set 2",)
    assert [cell.text for cell in web] == ["–", "30", "1 of 2"]


# Which phase is the result


def steps(sets: ReplayedSets, means: dict[int, list[float]]) -> tuple[list[Result], list[CriterionResult]]:
    """Return results and criteria of a phase for each mean, by number of sets. Means up to 20 ms pass."""
    results, judged = [], []
    position = 1
    for count, each in means.items():
        for mean in each:
            position += 1
            given: dict[str, Any] = {"position": position, "scale": float(count)}
            results += sets.sets(count, {"archive": [mean]}, **given)
            judged.append(criterion("object_ms.mean <= 20 (all)", 20, mean, mean <= 20, **given))
    return results, judged


def test_result_is_slowest_trial_of_most_sets_that_passed(sets: ReplayedSets) -> None:
    run = sets.run(*steps(sets, {1: [5.0], 2: [8.0, 9.0, 7.0], 3: [12.0, 21.0]}))
    assert (run.result.sets, run.result.position) == (2.0, 4)
    table = phases_table(run)
    assert column(table, "sets") == ["1", "2", "2", "2", "3", "3"]
    assert column(table, "verdict") == ["pass"] * 5 + ["fail: 1 of 1 criteria missed"]
    assert column(table, "mean", "ms")[-1] == "21.00"


def test_result_without_passing_trial_is_that_of_fewest_sets(sets: ReplayedSets) -> None:
    assert sets.run(*steps(sets, {1: [25.0], 2: [30.0]})).result.sets == 1.0


def test_search_outcome_decides_number_of_sets(sets: ReplayedSets) -> None:
    results, judged = steps(sets, {1: [5.0], 2: [8.0], 3: [9.0]})
    outcome = SearchOutcome(
        "sets", (SearchStep(2, (3,), True),), largest=2, failed_at=3, held=1, confidence="sure", ended_because="edge"
    )
    database = sets.database(results, judged)
    database.set_search(outcome)
    found = mixed_run(read_run(database.path))
    assert found is not None
    assert found.replay is not None
    assert found.replay.result.sets == 2.0


def test_single_phase_has_empty_phases_table(sets: ReplayedSets) -> None:
    assert not phases_table(sets.run(sets.sets(2, TIMES))).rows


# Infrastructure and score


@pytest.mark.parametrize(("clones", "migrations", "published"), [(7, 5, 2.24), (7, 4, 1.41)])
def test_infrastructure_score_reproduces_published_scores(clones: int, migrations: int, published: float) -> None:
    assert round(infrastructure_score(clones, migrations), 2) == published
    assert (clones, migrations, published) in [(r.clones, r.migrations, r.score) for r in published_reports()]


def test_summary_has_infrastructure_rates_ratios_and_inferred_score(sets: ReplayedSets) -> None:
    results = [*sets.sets(1, TIMES), *infrastructure(sets, 7, 4)]
    run = sets.run(results)
    table = summary_table(run)
    assert [cell.text for cell in row(table, "clone and deploy", "per hour")] == ["7.00", "7", "7"]
    assert row(table, "clone and deploy / minimum of 6", "")[0].number == pytest.approx(7 / 6)
    assert row(table, "storage migration / minimum of 3", "")[0].number == pytest.approx(4 / 3)
    ours, *theirs = row(table, "infrastructure score (inferred)", "")
    assert (ours.text, [cell.text for cell in theirs]) == ("1.41", ["2.24", "1.41"])
    assert ours.notes[0].startswith("formula inferred")


def test_half_hour_is_extrapolated_to_one_hour_and_noted(sets: ReplayedSets) -> None:
    kinds = (
        beside("clone and deploy", 5, 6, seconds=1800.0, failed=1),
        beside("storage migration", 3, 3, seconds=1800.0),
    )
    run = sets.run([*sets.sets(1, TIMES), *map(sets.infrastructure, kinds)])
    first, second = run.result.infrastructure
    assert (first.per_hour, second.per_hour) == (10.0, 6.0)
    assert score_cell(run.result).text == "withheld"
    ours = row(summary_table(run), "clone and deploy", "per hour")[0]
    assert ours.notes == ("5 in 1,800 s, extrapolated to one hour",)
    assert column(infrastructure_table(run), "failed") == ["1", "0"]


def test_score_of_short_or_reduced_capacity_run_is_withheld(sets: ReplayedSets) -> None:
    """In a quick run, 4 clones in 20 s would be 720 per hour, and the score 714; the published one is 2.24."""
    quick = [beside("clone and deploy", 4, 6, seconds=20.0), beside("storage migration", 3, 3, seconds=20.0)]
    short = sets.run([*sets.sets(1, TIMES), *map(sets.infrastructure, quick)])
    small = sets.run([*sets.sets(1, TIMES, what={"capacity_scale": 0.0002}), *infrastructure(sets, 7, 4)])
    for run in (short, small):
        ours, *theirs = row(summary_table(run), "infrastructure score (inferred)", "")
        assert (ours.text, ours.number, ours.notes) == ("withheld", None, (WITHHELD,))
        assert [cell.text for cell in theirs] == ["2.24", "1.41"]


@pytest.mark.parametrize(("version", "count", "is_told"), [("3.8", 1, True), ("3.8", 21, False), ("3.2.12", 1, False)])
def test_minima_applied_below_required_sets_are_noted(
    sets: ReplayedSets, version: str, count: int, is_told: bool
) -> None:
    scenario = json.dumps({"criteria": version, "scale": {"name": "sets"}})
    run = sets.run([*sets.sets(count, TIMES), *infrastructure(sets, 7, 4)], scenario_json=scenario)
    assert ("from 21 sets on" in infrastructure_table(run).caption) is is_told


def test_result_below_minimum_has_no_score(sets: ReplayedSets) -> None:
    run = sets.run([*sets.sets(1, TIMES), *infrastructure(sets, 0, 9)])
    cell = score_cell(run.result)
    assert (cell.text, cell.number) == ("none", None)
    assert score_cell(sets.run([*sets.sets(1, TIMES), infrastructure(sets)[0]]).result).text == "–"


def test_operations_never_begun_show_dashes_without_division_by_zero(sets: ReplayedSets) -> None:
    nothing = beside("clone and deploy", 0, 6, seconds=0.0, mean_seconds=None)
    table = infrastructure_table(sets.run([*sets.sets(1, TIMES), sets.infrastructure(nothing)]))
    assert [cell.text for cell in table.rows[0][3:10]] == ["0", "0", "0.0", "0.00", "6", "0.00", "–"]


# Prices


def test_published_prices_per_application_follow_from_price_tables() -> None:
    found = [(report.price, report.applications, report.price_per_application) for report in published_reports()]
    assert found == [(752_000.0, 1600, 470.0), (25_866.0, 56, 461.89)]
    for report in published_reports():
        total = sum(amount for _, _, amount in report.price_lines)
        assert total == report.price
        assert round(total / report.applications, 2) == report.price_per_application


def test_price_per_application_is_total_over_replayed_applications(sets: ReplayedSets) -> None:
    seven = sets.run(sets.sets(7, {"archive": [1.0]}), [criterion(OF_ALL, 20, 1.0, True)])
    parts = tuple(
        PricedPart(item=item, quantity=quantity, list_price=amount / quantity)
        for item, quantity, amount in published_reports()[1].price_lines
    )
    run = priced(seven, PriceList(currency="USD", part=parts), years=3)
    table = summary_table(run)
    assert [cell.text for cell in row(table, "price", "USD")] == ["25,866.00", "752,000.00", "25,866.00"]
    assert [cell.text for cell in row(table, "price per application", "USD")] == ["461.89", "470.00", "461.89"]
    found = {each.name: each for each in replay_tables(run)}
    assert [cell.text for cell in row(found["price-per-unit"], "application")] == ["461.89", "–", "–"]
    assert row(found["price-per-unit"], "application set")[0].number == pytest.approx(25_866 / 7)
    assert [cell.text for cell in row(found["prices"], "HP 15K SFF 300 GB Disk Module")[:3]] == [
        "24.00", "649.00", "15,576.00",
    ]  # fmt: skip
    assert found["price-per-unit"].caption.endswith("Verdict of the result: pass.")


def test_price_of_200_sets_is_470_per_application(sets: ReplayedSets) -> None:
    many = sets.run(sets.sets(200, {"archive": [1.0]}, what={"capacity_scale": 0.02}), [])
    run = priced(many, FILE, years=3)
    assert row(summary_table(run), "price per application", "USD")[0].number == 470.0
    caption = next(each.caption for each in replay_tables(run) if each.name == "price-per-unit")
    assert caption.startswith("The total price divided by the 1,600 applications")
    assert MARK in caption


def test_published_prices_show_their_currency_if_it_differs(sets: ReplayedSets) -> None:
    run = priced(sets.run(sets.sets(1, TIMES)), replace_currency(FILE, "EUR"), years=3)
    assert [cell.text for cell in row(summary_table(run), "price", "EUR")] == [
        "752,000.00", "USD 752,000.00", "USD 25,866.00",
    ]  # fmt: skip


def replace_currency(prices: PriceList, currency: str) -> PriceList:
    return PriceList(currency=currency, part=prices.part)


def test_prices_of_single_trace_or_cloud_service_are_refused(sets: ReplayedSets) -> None:
    with pytest.raises(UsageError, match="replayed one trace and no application sets"):
        priced(sets.run([sets.application("mail", None, TIMES)]), FILE, years=3)
    service = PriceList(currency="USD", cloud=CloudPrices(per_gb_month=0.02))
    with pytest.raises(UsageError, match="has no \\[\\[part\\]\\]"):
        priced(sets.run(sets.sets(1, TIMES)), service, years=3)


# Runs with few results


def every_form(tables: list[Table]) -> str:
    return "".join(render_text(each) + render_markdown(each) + render_csv(each) for each in tables)


def test_idle_run_shows_dashes_without_division_by_zero(sets: ReplayedSets) -> None:
    idle = {
        "trace_seconds": 0.0, "replay_seconds": 0.0, "allowed_seconds": 1.0, "lateness_ms": None, "operations": 0,
        "begun": 0,
    }  # fmt: skip
    results = [
        sets.application(name, 1, {}, what=idle, objects_per_second=0.0, object_ms=None, seconds=0.0)
        for name in ("mail", "web")
    ]
    run = priced(sets.run(results), FILE, years=3)
    table = summary_table(run)
    for label in ("mean response", "mean read", "mean write"):
        assert row(table, label, "ms")[0].text == "–"
    assert row(table, "responses within 20 ms", "%")[0].text == "–"
    assert "nan" not in every_form(replay_tables(run))
    assert replay_document(run)["share_within_limit"] is None


def test_run_without_reads_has_no_mean_read(sets: ReplayedSets) -> None:
    table = summary_table(sets.run(sets.sets(1, {"archive": [3.0, 5.0]})))
    assert [row(table, f"mean {kind}", "ms")[0].text for kind in ("read", "write")] == ["–", "4.00"]


def test_result_without_parts_counts_as_its_single_operation(sets: ReplayedSets) -> None:
    result = replace(sets.application("mail", 1, {"retrieve": [4.0]}), parts=(), operation="retrieve")
    table = summary_table(sets.run([result]))
    assert [row(table, f"mean {kind}", "ms")[0].text for kind in ("read", "write")] == ["4.00", "–"]


def test_single_trace_has_no_published_columns_and_no_score(sets: ReplayedSets) -> None:
    run = sets.run([sets.application("mail.parquet", None, TIMES)])
    table = summary_table(run)
    assert [each.name for each in table.columns] == ["", "unit", "this run"]
    labels = [each[0].text for each in table.rows]
    assert labels[:3] == ["verdict", "applications", "mean response"]
    assert not [label for label in labels if "score" in label or "price" in label or "clone" in label]
    names = [each.name for each in replay_tables(run)]
    assert names == [
        "replay-identifiers", "replay-traces", "replay-summary", "replay-passing", "replay-configuration",
        "replay-trace-facts", "replay-applications", "replay-sets", "replay-method",
    ]  # fmt: skip


def test_preparation_phase_is_excluded_from_result(sets: ReplayedSets) -> None:
    prepared = sets.application("mail", 1, {"archive": [900.0]}, position=1, is_load=True)
    run = sets.run([prepared, sets.application("mail", 1, TIMES)])
    assert [trial.position for trial in run.trials] == [2]


# Complete runs


def whole(sets: ReplayedSets) -> ReplayedRun:
    modelled = {"trace": "mail model", "origin": "model", "capacity_scale": 0.02}
    results = [*sets.sets(2, TIMES, what=modelled), *infrastructure(sets)]
    return priced(sets.run(results, held(results)), FILE, years=3)


def test_method_table_names_models_and_void_tolerance(sets: ReplayedSets) -> None:
    told = {name.text: text.text for name, text in method_table(whole(sets)).rows}
    assert told["our models"].startswith("mail model: made by Archiver's documented models")
    assert "within 10 ms" in told["tolerance"]
    assert "VOID" in told["tolerance"]
    assert told["capacity"] == f"C{MARK[1:]}."
    captured = {each[0].text for each in method_table(sets.run(sets.sets(1, TIMES))).rows}
    assert "our models" not in captured


def test_every_table_has_report_section_and_published_source(sets: ReplayedSets) -> None:
    tables = replay_tables(whole(sets))
    placed = [name for _, _, names in SECTIONS for name in names]
    assert {each.name for each in tables} <= set(placed)
    assert len(placed) == len(set(placed))
    assert set(REPORT_TABLES) <= set(placed)
    for table in tables:
        theirs = [each for each in table.columns if "V9000" in each.name or "MSA" in each.name]
        assert all("published" in each.name and "block storage" in each.name for each in theirs)
    text = every_form(tables)
    assert "VM-151205-a" in text
    assert "a0" * 32 in text


def test_summary_csv_has_plain_numbers_and_verdict(sets: ReplayedSets) -> None:
    lines = render_csv(summary_table(whole(sets))).splitlines()
    assert any(line.startswith("application sets,,2,200,7") for line in lines)
    assert any(line.startswith(f"verdict,,pass; {MARK}") for line in lines)


def test_replay_tables_precede_general_workload_tables(sets: ReplayedSets) -> None:
    results = sets.sets(2, TIMES)
    names = [each.name for each in mixed_tables(sets.mixed(results, held(results)))]
    assert names[:3] == ["replay-identifiers", "replay-traces", "replay-summary"]
    assert "workloads" in names
    assert "criteria" not in names  # the passing detail shows them
    several = mixed_tables(sets.mixed(*steps(sets, {1: [5.0], 2: [8.0]})))
    (judged,) = [each for each in several if each.name == "criteria"]
    assert column(judged, "workload") == ["all applications"] * 2
