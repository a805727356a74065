"""Pages quote results of benchmarks unchanged."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import page
from benchmarks.__main__ import ON_PAGE, main
from benchmarks.benchmark import Benchmark, Experiment, Goal, medians

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "docs" / "benchmarks.md"
MADE = Benchmark(
    "made",
    "What it costs.",
    lambda small: [Experiment("made", "Costs", ("",), [nullcontext({("archive",): lambda: {"µs": 2.5}})], rounds=5)],
    goals=(Goal("cost", medians("made", "µs"), "at most", 3),),
    quote=lambda results: "2.5 µs",
)


def test_results_have_command_rounds_tables_and_notes() -> None:
    outcome = MADE.run(small=True)
    quotes = page.quotes([outcome])
    assert quotes["made"] == "2.5 µs"
    assert "| archive | 2.50 (2.50–2.50) |" in quotes["made-tables"]
    for expected in (
        "`python -m benchmarks made`: 0 s, 5 rounds; load average", "2.5 µs", "### Costs",
        "- cost: 2.50 (goal: at most 3: met)", quotes["made-tables"],
    ):  # fmt: skip
        assert expected in quotes["made-results"], expected
    machine = page.machine_table([outcome])
    assert re.search(r"\| date \| \d{4}-\d\d-\d\d \d\d:\d\d UTC \|", machine)
    assert all(f"| {name} |" in machine for name in ("processor", "kernel", "Archiver", "boto3"))


def test_only_quotes_of_given_benchmarks_are_replaced() -> None:
    text = (
        "before\n<!-- benchmark made -->\nold\n<!-- end -->\nbetween\n<!-- benchmark other -->\nstays\n<!-- end -->\n"
    )
    new = page.with_quotes(text, {"made": "2.0 µs\nof CPU"})
    assert page.quoted(new) == {"made": "2.0 µs\nof CPU", "other": "stays"}
    assert new == text.replace("old", "2.0 µs\nof CPU")
    assert page.with_quotes(new, {}) == new


def test_small_run_keeps_pages_unchanged() -> None:
    before = {path: path.read_text() for path in page.quoting()}
    done = CliRunner().invoke(main, ["all", "sampling", "--small"])
    assert done.exit_code == 0, done.output
    assert {path: path.read_text() for path in page.quoting()} == before


def test_results_page_quotes_the_machine_and_every_benchmark() -> None:
    assert set(page.quoted(RESULTS.read_text())) == {"machine", *(f"{name}-results" for name in ON_PAGE)}


QUOTING = {path.relative_to(ROOT).as_posix(): path.read_text() for path in page.quoting() if path != RESULTS}
SECTIONS = [
    (name, section)
    for name, text in QUOTING.items()
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE)
    if page.quoted(section)
]


@pytest.mark.parametrize("name", QUOTING)
def test_quoted_results_are_on_results_page(name: str) -> None:
    results = RESULTS.read_text()
    for benchmark, text in page.quoted(QUOTING[name]).items():
        assert text, f"{name} has nothing of {benchmark} yet: make bench"
        assert text in results, f"{name}: what it quotes of {benchmark} is not in docs/benchmarks.md: make bench"


@pytest.mark.parametrize(
    ("name", "section"), SECTIONS, ids=[f"{name}-{text.splitlines()[0]}" for name, text in SECTIONS]
)
def test_quoting_sections_contain_only_published_numbers(name: str, section: str) -> None:
    known = numbers(RESULTS.read_text())
    missing = [number for number in numbers(section) if number not in known]
    assert not missing, f"{name}: {', '.join(missing)} not in docs/benchmarks.md"


def numbers(text: str) -> dict[str, Any]:
    """Return the numbers of a text in order, without those within a word such as 8KiB or S3."""
    return dict.fromkeys(
        number.replace(",", "") for number in re.findall(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])", text)
    )
