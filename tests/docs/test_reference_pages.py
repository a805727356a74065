"""The reference pages agree with the code: commands, tables, scenario keys, metrics, and the tests that they name."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import get_args

import click
import msgspec
import pytest
from click.testing import CliRunner

from archiver.cli import main
from archiver.cli.live.metrics_page import _RunCollector
from archiver.values.content import Checksum
from archiver.values.retention import Lock
from docs.generate import PAGES, all_commands, generated
from scenarios.reading import file_tables
from scenarios.reading.reader import read_scenario
from tests.archiver.cli.live.metered_run import Run
from tests.docs.page_tables import rows

ROOT = Path(__file__).parents[2]
SCENARIOS = (PAGES / "reference" / "scenarios.md").read_text()


def section(text: str, heading: str) -> str:
    """Return the text below a heading, up to the next heading of the same level."""
    level = heading.partition(" ")[0]
    return text.partition(f"\n{heading}\n")[2].partition(f"\n{level} ")[0]


@pytest.mark.parametrize("name", ["index", "reference/commands", "reference/json", "reference/database"])
def test_generated_reference_pages_are_current(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()
    assert "<!-- begin " in text
    assert generated(text) == text, f"docs/{name}.md is old; `make docs` writes it anew"


def test_commands_page_has_row_for_every_option() -> None:
    text = (PAGES / "reference" / "commands.md").read_text()
    for name, command in all_commands():
        found = section(text, f"## {name}")
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        assert all(re.search(rf"^\| `[^`]*{each.opts[0]}\b", found, re.MULTILINE) for each in options), name


@pytest.mark.parametrize(
    ("heading", "schema"), [("run.db", "results/recorded/schema.sql"), ("ledger.db", "archiver/ledger/ledger.sql")]
)
def test_database_page_has_tables_and_columns_of_schema(heading: str, schema: str) -> None:
    database = sqlite3.connect(":memory:")
    database.executescript((ROOT / schema).read_text())
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    page = section((PAGES / "reference" / "database.md").read_text(), f"## {heading}")
    assert re.findall(r"^### (\w+)", page, re.MULTILINE) == tables
    for table in tables:
        told = re.findall(r"^\| `(\w+)` \| (\w+)", section(page, f"### {table}"), re.MULTILINE)
        columns = database.execute(f"PRAGMA table_info({table})").fetchall()
        assert told == [(name, kind.lower()) for _, name, kind, *_ in columns], table
    database.close()


@pytest.mark.parametrize(
    ("group", "heading"),
    [("", "Measure"), *((group, "Commands") for group in ("bundle", "plan", "platform", "scenarios", "trace", "worm"))],
)
def test_command_lists_truncate_no_description(group: str, heading: str) -> None:
    shown = CliRunner().invoke(main, [*group.split(), "--help"], terminal_width=80).output
    assert f"{heading}:" in shown
    assert "..." not in shown.partition(f"{heading}:")[2]


@pytest.mark.parametrize(
    ("table", "heading"),
    [
        (file_tables.FileTable, "## The file"),
        (file_tables.SweepTable, "## [[sweep]]"),
        (file_tables.StopTable, "## stop"),
    ],
)
def test_scenario_page_has_every_key_and_marks_required_ones(table: type[msgspec.Struct], heading: str) -> None:
    documented = rows(section(SCENARIOS, heading))
    if table is file_tables.FileTable:
        assert documented.pop("stop")  # copied into the sweeps before the file table is decoded
    assert set(documented) == set(table.__struct_fields__)
    for field in msgspec.structs.fields(table):
        default = "`false`" if field.default is False else documented[field.name]
        assert documented[field.name] == ("required" if field.required else default), field.name
        assert field.required or documented[field.name] != "required", field.name


def test_every_sweep_value_is_documented() -> None:
    for word in (*get_args(file_tables.SweepOperation), *(each.value for each in (*Lock, *Checksum))):
        assert f"`{word}`" in section(SCENARIOS, "## [[sweep]]"), word


def test_example_scenario_of_page_is_readable(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```", SCENARIOS, re.MULTILINE | re.DOTALL)
    path = tmp_path / "statements.toml"
    path.write_text(example)
    assert len(read_scenario(str(path)).phases) == 2 * 2 * 2 + 2 * 2
    assert len(read_scenario(str(path), quick=True).phases) == 2 * 2 + 2


def test_metrics_of_a_run_equal_documented_metrics() -> None:
    text = (PAGES / "reference" / "metrics.md").read_text()
    told = dict(re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", text, re.MULTILINE))
    run = Run()
    run.begin(1)
    run.second((25, 4))
    served = {}
    for family in _RunCollector(run.meter).collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        served[name] = (
            ", ".join(each for each in family.samples[0].labels if each != "le") or "none"
            if family.samples
            else told[name]
        )
    assert told == served


def test_tests_named_in_method_page_exist() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (PAGES / "method.md").read_text())
    assert len(named) > 30
    for file, test in named:
        assert re.search(rf"^(async )?def {test}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{test}"
