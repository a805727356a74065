"""Conditions that fail a build: their grammar, what they judge, and the sentences about them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from archiver.values.errors import UsageError
from results.comparison.compare import Comparison, MeasuredRun, compare_runs
from results.comparison.gate import gate_sentences, judge, parse_condition
from tests.results.comparison.compared_runs import MakeResult, MakeRun, measured_run

SMALL, LARGE, LOCKED = ("archive", 8192, 500), ("archive", 1 << 20, 25), ("archive, lock header", 8192, 500)
RATES = {SMALL: (100, 101, 102), LARGE: (10, 10.1, 10.2), ("retrieve", 8192, 500): (300, 302, 301)}


@pytest.fixture
def make_run(make_result: MakeResult) -> MakeRun:
    return partial(measured_run, make_result, temperature="cold")


@pytest.fixture
def slower(make_run: MakeRun) -> Comparison:
    """Compare two platforms. Archiving 8 KiB is 20% slower on b; all other cells are equal."""
    other = {**RATES, SMALL: (80, 81, 80.5)}
    return compare_runs([make_run("a", RATES), make_run("b", other)])


def failing(comparison: Comparison, *conditions: str) -> list[str]:
    judgements = judge(comparison, [parse_condition(condition) for condition in conditions])
    return [sentence for sentence in gate_sentences(judgements) if sentence.startswith("fails")]


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("archive.8KiB.500.objects_per_second < 0.9", True),
        ("archive.8KiB.500.objects_per_second<0.9", True),
        ("archive.8KiB.500.1.objects_per_second <= 0.9", True),
        ("archive.8KiB.500.megabytes_per_second < 0.9", True),
        ("archive.8KiB.500.objects_per_second < 0.7", False),
        ("archive.1MiB.25.objects_per_second < 0.9", False),
        ("*.8KiB.*.objects_per_second < 0.9", True),
        ("*.*.*.*.objects_per_second < 0.9", True),
        ("retrieve.*.*.objects_per_second < 0.9", False),
        ("archive.8KiB.500.object_service_ms.p50 > 1.1", True),
        ("archive.8KiB.500.object_service_ms.p99 > 1.1", True),
        ("archive.8KiB.500.object_ms.mean >= 1.1", True),
        ("archive.8KiB.500.object_service_ms.p99 > 1.4", False),
        ("archive.8KiB.500.errors > 0", False),
        ("archive.8KiB.500.errors >= 0", True),
    ],
)
def test_condition_applies_to_ratio_of_candidate_to_first(slower: Comparison, condition: str, fails: bool) -> None:
    assert bool(failing(slower, condition)) == fails


def test_failure_shows_cell_and_interval_and_pass_shows_nearest_cell(slower: Comparison) -> None:
    conditions = [parse_condition("*.*.*.objects_per_second < 0.9"), parse_condition("*.*.*.objects_per_second < 0.7")]
    first, second = gate_sentences(judge(slower, conditions))
    assert first == "fails: *.*.*.objects_per_second < 0.9: b, archive.8KiB.500: 0.797 [95% 0.767 to 0.828]"
    assert second.startswith("passes: *.*.*.objects_per_second < 0.7: b, 3 cells, the nearest archive.8KiB.500: 0.797")


def test_condition_judges_estimate_and_notes_uncertain_result(make_run: MakeRun) -> None:
    """A condition fails with one pair as with thirty; otherwise fewer repetitions would pass more easily."""
    once = compare_runs([make_run("a", {SMALL: (100,)}), make_run("b", {SMALL: (80,)})])
    (sentence,) = failing(once, "archive.8KiB.500.objects_per_second < 0.9")
    assert sentence.endswith("0.800 (no verdict: 1 pair; no interval from 1 pair)")
    wide = compare_runs([make_run("a", {SMALL: (100, 100, 100)}), make_run("b", {SMALL: (70, 100, 85)})])
    (sentence,) = failing(wide, "archive.8KiB.500.objects_per_second < 0.9")
    assert "the interval contains the threshold: repeat more often for a stable result" in sentence


def test_error_condition_counts_errors_of_candidate(make_run: MakeRun) -> None:
    good, bad = make_run("a", {SMALL: (100, 101)}), make_run("b", {SMALL: (100, 101)}, errors=2)
    (sentence,) = failing(compare_runs([good, bad]), "archive.8KiB.500.errors > 3")
    assert sentence.endswith("b, archive.8KiB.500: 4")
    assert not failing(compare_runs([bad, good]), "archive.8KiB.500.errors > 0")


def test_condition_judges_each_candidate_platform(make_run: MakeRun) -> None:
    sides = [make_run("a", {SMALL: (100,)}), make_run("b", {SMALL: (100,)}), make_run("c", {SMALL: (80,)})]
    (sentence,) = failing(compare_runs(sides), "archive.8KiB.500.objects_per_second < 0.9")
    assert ": c, archive" in sentence


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"objects_per_second": 0.0}, "cannot be judged (a rate of zero)"),
        ({"limited_by": "client"}, "0.799 [95% 0.796 to 0.802] (no verdict: limited by the client)"),
        ({"errors": 1}, "0.799 [95% 0.796 to 0.802] (no verdict: errors)"),
    ],
)
def test_cell_without_verdict_fails_with_reason(make_run: MakeRun, change: dict[str, Any], words: str) -> None:
    first, other = make_run("a", {SMALL: (100, 101, 102)}), make_run("b", {SMALL: (80, 80.6, 81.4)})
    spoilt = replace(other, results=[replace(other.results[0], **change), *other.results[1:]])
    (sentence,) = failing(compare_runs([first, spoilt]), "archive.8KiB.500.objects_per_second < 0.9")
    assert sentence.endswith(words)


def test_judgement_of_unlike_runs_notes_no_verdict(make_run: MakeRun) -> None:
    runs = [make_run("a", settings={"verify": "all"}), make_run("b", settings={"verify": "none"})]
    (judgement,) = judge(compare_runs(runs, force=True), [parse_condition("*.*.*.objects_per_second < 0.9")])
    assert not judgement.fails
    assert "no verdict: unlike runs" in judgement.notes


def test_cell_missing_on_candidate_fails(make_run: MakeRun) -> None:
    """Otherwise a run that ended early could pass with its few cells."""
    comparison = compare_runs([make_run("a", RATES), make_run("b", {SMALL: (100, 101, 102)})])
    sentences = failing(comparison, "archive.*.*.objects_per_second < 0.9")
    assert sentences == [
        "fails: archive.*.*.objects_per_second < 0.9: b, archive.1MiB.25: cannot be judged (not measured on b)"
    ]


def test_missing_latency_fails_condition(make_run: MakeRun) -> None:
    runs = [make_run("a", {SMALL: (100, 101, 102)}), make_run("b", {SMALL: (100, 101, 102)}, object_service_ms=None)]
    (sentence,) = failing(compare_runs(runs), "archive.8KiB.500.object_service_ms.p99 > 1.1")
    assert "cannot be judged (no p99 service time measured)" in sentence


def test_conditions_name_variants_and_client_counts(make_result: MakeResult) -> None:
    def run(platform: str, rate: float) -> MeasuredRun:
        made = measured_run(make_result, platform, {SMALL: ()})
        results = [
            make_result(*SMALL, 100.0, variant="lock header", phase="locked"),
            *(make_result(*SMALL, rate * each, clients=each, phase="parallel") for each in (1, 2)),
        ]
        return replace(made, results=results)

    comparison = compare_runs([run("a", 100), run("b", 80)])
    assert not failing(comparison, "archive, lock header.8KiB.500.objects_per_second < 0.9")
    assert len(failing(comparison, "archive.8KiB.500.objects_per_second < 0.9")) == 1
    assert failing(comparison, "archive.8KiB.500.2.objects_per_second < 0.9")[0].count("archive.8KiB.500.2: 0.800") == 1
    assert len(failing(comparison, "archive.8KiB.500.*.objects_per_second < 0.9")) == 2


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("objects_per_second < 0.9", "is not a condition; write NAME.QUANTITY COMPARISON NUMBER, for example"),
        ("archive.8KiB.500.objects_per_second = 0.9", "'=' is not a comparison; write one of <="),
        ("archive.8KiB.500.objects_per_second < 90%", "the limit '90%' is not a number"),
        ("archive.8KiB.500.objects_per_second < -1", "no ratio or number of errors is judged by < -1; write NAME"),
        ("archive.8KiB.500.errors < -1", "is judged by < -1"),
        ("archive.8KiB.500.objects_per_second == 0.9", "is judged by == 0.9; write NAME"),
        ("archive.8KiB.500.objects_per_second < nan", "a limit of nan decides nothing"),
        ("", "is not a condition"),
        ("archive.8KiB.500.object_service_ms_p99 > 1.1", "did you mean 'object_service_ms.p99'"),
        (
            "archive.8KiB.500.object_response_ms.p99 > 1.1",
            "there is no quantity 'object_response_ms.p99'; did you mean",
        ),
        ("archive.8KiB.500.speed < 0.9", "there is no quantity 'speed'; known here: errors, .*, score, session"),
        ("archive.8KiB.500.object_service_ms.p99 > 50", "is the ratio to the first platform.*write for example 0.9"),
        ("archive.8KiB.500.objects_per_second < 0.01", "10 times worse would pass"),
    ],
)
def test_invalid_condition_is_refused_with_valid_form(condition: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_condition(condition)


@pytest.mark.parametrize(
    "cell", ["archive.16KiB.500", "hold.*.*", "archive.8KiB.500.4", "archive.8KiB.7", "archive.8KiB", "archive.8KX.500"]
)
def test_unknown_cell_is_refused_with_known_cells(slower: Comparison, cell: str) -> None:
    words = (
        r"a has no cell or workload '.*' with objects_per_second; it has archive\.8KiB\.500, archive\.1MiB\.25, retr"
    )
    with pytest.raises(UsageError, match=words):
        judge(slower, [parse_condition(f"{cell}.objects_per_second < 0.9")])
