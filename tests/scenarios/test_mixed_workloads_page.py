"""The page on workloads side by side says what the reader reads: every key, word, metric and example."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from click.testing import CliRunner

from archiver.cli import main
from archiver.retention import Lock
from scenarios.criteria import metrics_table
from scenarios.mix import ArrivalKind, Keys, OperationName
from scenarios.phases import (
    SCALED,
    ArrivalsTable,
    AsideTable,
    PhaseTable,
    ScaleTable,
    SearchTable,
    SizesTable,
    TransactionTable,
    WorkloadTable,
)
from scenarios.reader import read_scenario
from tests.test_docs import command_of, words_of, written_commands

PAGE = "docs/mixed-workloads.md"
TEXT = (Path(__file__).parents[2] / PAGE).read_text()


def rows() -> dict[str, str]:
    """The defaults in the tables of keys, by key."""
    found = {}
    for line in TEXT.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 5:
            found.update({key.strip("` "): cells[2] for key in cells[1].split(",") if key.strip().startswith("`")})
    return found


@pytest.mark.parametrize(
    ("table", "prefix"),
    [(PhaseTable, ""), (WorkloadTable, ""), (ArrivalsTable, ""), (ScaleTable, "scale."), (SearchTable, "search.")],
)
def test_every_key_has_a_row_with_its_default(table: type[msgspec.Struct], prefix: str) -> None:
    documented = rows()
    for field in msgspec.structs.fields(table):
        if field.name in ("quick", "workload"):  # a section of their own each
            continue
        default = documented[prefix + field.name]
        if field.required:
            assert default.startswith("required"), field.name
        elif isinstance(field.default, bool):
            assert default == f"`{str(field.default).lower()}`", field.name
        elif isinstance(field.default, int):
            assert default == (str(field.default) if field.default else default), field.name
        elif isinstance(field.default, str):
            assert default == f'`"{field.default}"`', field.name
        else:
            assert not default.startswith("`") or default == '`"0s"`', field.name


@pytest.mark.parametrize("table", [SizesTable, TransactionTable, AsideTable])
def test_every_key_within_a_table_stands_in_an_example(table: type[msgspec.Struct]) -> None:
    for name in table.__struct_fields__:
        assert re.search(rf"\b{name} = ", TEXT), name


@pytest.mark.parametrize("words", [OperationName, Keys, ArrivalKind])
def test_every_word_is_there(words: Any) -> None:
    for word in get_args(words):
        assert re.search(rf'`"?{word}"?`', TEXT), word


def test_every_lock_and_every_key_that_grows_is_there() -> None:
    for word in (*(lock.value for lock in Lock), *SCALED):
        assert f"`{word}`" in TEXT, word


def test_the_metrics_are_those_that_there_are() -> None:
    assert metrics_table() in TEXT


def examples() -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_examples_can_be_read(tmp_path: Path) -> None:
    whole, scale = examples()
    path = tmp_path / "web.toml"
    path.write_text(whole)
    assert [phase.label for phase in read_scenario(str(path)).phases] == ["load", "mix"]
    growing = whole.replace("per_second = 200", 'per_second = "0.25 users"')
    path.write_text(growing.replace("[[criterion]]", f"{scale}\n[[criterion]]", 1))
    assert len(read_scenario(str(path)).phases) == 6
    found = read_scenario(str(path), searches=True).search
    assert found is not None
    assert (found.first, found.last, found.step, found.repeat) == (50, 3200, 50, 3)


@pytest.mark.parametrize("line", written_commands(PAGE))
def test_every_run_of_the_page_has_a_plan(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHIVER_HOME", str(tmp_path))
    command, arguments = command_of(words_of(line))
    command.make_context(line, arguments)
    done = CliRunner().invoke(main, [*words_of(line)[1:], *([] if "--dry-run" in line else ["--dry-run"])])
    assert done.exit_code == 0, done.output
    assert "archives at most" in done.output
