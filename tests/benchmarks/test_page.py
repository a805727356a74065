"""The page of results is made from JSON documents, and other pages quote it unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import page
from benchmarks.__main__ import MODULES, main
from benchmarks.tables import labelled, plain, spread
from results.table import Table

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / "docs" / "benchmarks.md"


def made_module() -> ModuleType:
    module = ModuleType("made", "How it was measured.")
    table = Table("made", "Costs", labelled(("",), "µs"), ((*plain("archive"), spread([3.0, 1.0, 2.0], 1)),))
    module.__dict__.update(
        TITLE="What it costs",
        measure=lambda small: {"small": small, "rounds": 5, "seconds": 77.0},  # 77 s of measuring
        tables=lambda document: [table],
        notes=lambda document: ["goal: met"],
        headline=lambda document: "2.0 µs",
    )
    return module


def test_page_shows_results_date_command_and_machine() -> None:
    modules = {"made": made_module()}
    document = page.document_of(modules["made"], small=True)
    text = page.page(modules, {"made": document})
    for expected in (
        "## What it costs", "How it was measured.", "`python -m benchmarks made`", "| archive | 2.0 (1.0–3.0) |",
        "goal: met", "load average", "| processor |", "| kernel |", "| Archiver |", "| boto3 |",
    ):  # fmt: skip
        assert expected in text, expected
    assert "`python -m benchmarks made`: 0 s, 5 rounds; load average" in text
    assert re.search(r"\| date \| \d{4}-\d\d-\d\d \d\d:\d\d UTC \|", text)


def test_only_quotes_of_given_benchmarks_are_replaced() -> None:
    text = (
        "before\n<!-- benchmark made -->\nold\n<!-- end -->\nbetween\n<!-- benchmark other -->\nstays\n<!-- end -->\n"
    )
    new = page.with_quotes(text, {"made": "2.0 µs\nof CPU"})
    assert page.quoted(new) == {"made": "2.0 µs\nof CPU", "other": "stays"}
    assert new == text.replace("old", "2.0 µs\nof CPU")
    assert page.with_quotes(new, {}) == new


def test_small_run_writes_page_and_keeps_quotes_unchanged(tmp_path: Path) -> None:
    before = {path: path.read_text() for path in page.quoting()}
    out = tmp_path / "page.md"
    done = CliRunner().invoke(main, ["all", "sampling", "--small", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert f"## {MODULES['sampling'].TITLE}" in out.read_text()
    assert {path: path.read_text() for path in page.quoting()} == before


def test_every_benchmark_has_parts_required_by_page() -> None:
    for name, module in MODULES.items():
        assert module.__doc__, name
        for part in ("TITLE", "measure", "tables", "notes"):
            assert hasattr(module, part), f"{name} has no {part}"


QUOTING = {path.relative_to(ROOT).as_posix(): path.read_text() for path in page.quoting()}
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
