"""The pages on mixed workloads and on replays agree with the code: keys, words, metrics, examples and commands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from click.testing import CliRunner

from archiver.cli import main
from archiver.values.retention import Lock
from archiver.values.sizes import parse_duration
from scenarios.criteria import metrics_table
from scenarios.notation.units import Seconds
from scenarios.reading.phases import (
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
from scenarios.reading.reader import read_scenario
from scenarios.reading.replay_phases import ReplayingTable, ReplayTable
from scenarios.work.infrastructure import InfrastructureTable
from scenarios.work.mix import ArrivalKind, Keys, OperationName
from tests.docs.page_tables import rows
from tests.support.documented import command_of, words_of, written_commands

PAGE, REPLAY_PAGE = "docs/mixed-workloads.md", "docs/replay.md"
ROOT = Path(__file__).parents[2]
TEXT, REPLAY_TEXT = (ROOT / PAGE).read_text(), (ROOT / REPLAY_PAGE).read_text()
OF_REPLAYS = set(ReplayingTable.__struct_fields__) - {"name"}


@pytest.mark.parametrize(
    ("table", "prefix", "text"),
    [
        (PhaseTable, "", TEXT),
        (WorkloadTable, "", TEXT),
        (ArrivalsTable, "", TEXT),
        (ScaleTable, "scale.", TEXT),
        (SearchTable, "search.", TEXT),
        (ReplayingTable, "", REPLAY_TEXT),
        (ReplayTable, "replay.", REPLAY_TEXT),
        (InfrastructureTable, "infrastructure.", REPLAY_TEXT),
    ],
)
def test_every_key_is_documented_with_its_default(table: type[msgspec.Struct], prefix: str, text: str) -> None:
    documented = rows(text)
    elsewhere = {"quick", "workload"}  # each has its own section
    elsewhere |= OF_REPLAYS if table is PhaseTable else {"name"} if table is ReplayingTable else set()
    for field in msgspec.structs.fields(table):
        if field.name in elsewhere:
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
        elif isinstance(field.default, Seconds):
            assert default.startswith('`"'), field.name
            assert parse_duration(default.strip('`"')) == field.default, field.name
        elif isinstance(field.default, float):
            assert default == f"{field.default:g}", field.name
        else:
            assert not default.startswith("`"), field.name


@pytest.mark.parametrize("table", [SizesTable, TransactionTable, AsideTable])
def test_every_table_key_appears_in_an_example(table: type[msgspec.Struct]) -> None:
    for name in table.__struct_fields__:
        assert re.search(rf"\b{name} = ", TEXT), name


@pytest.mark.parametrize("words", [OperationName, Keys, ArrivalKind])
def test_every_keyword_is_documented(words: Any) -> None:
    for word in get_args(words):
        assert re.search(rf'`"?{word}"?`', TEXT), word


def test_every_lock_and_scaled_key_is_documented() -> None:
    for word in (*(lock.value for lock in Lock), *SCALED):
        assert f"`{word}`" in TEXT, word


def test_metrics_table_matches_code() -> None:
    assert metrics_table() in TEXT


def examples(text: str = TEXT) -> list[str]:
    return re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_examples_of_mixed_workloads_page_are_readable(tmp_path: Path) -> None:
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


def test_example_of_replay_page_is_readable(tmp_path: Path) -> None:
    (whole,) = examples(REPLAY_TEXT)
    path = tmp_path / "office.toml"
    path.write_text(whole)
    assert [phase.label for phase in read_scenario(str(path)).phases] == [
        "office preparation, 1 office",
        "office, 1 office",
    ]
    counts = [len(read_scenario(str(path), overrides=[f'criteria="{each}"']).criteria) for each in ("3.8", "3.2.12")]
    assert counts == [2, 1]
    assert read_scenario(str(path), searches=True).search is not None


def test_criteria_of_application_sets_equal_documented_table() -> None:
    (table,) = re.findall(r"^\| \| 3\.8 \| 3\.2\.12 \|\n\|.*\n((?:\|.*\n)+)", REPLAY_TEXT, re.MULTILINE)
    columns = list(zip(*([cell.strip() for cell in line.split("|")[2:4]] for line in table.splitlines()), strict=True))
    for name, cells in zip(("3.8", "3.2.12"), columns, strict=True):
        criteria = read_scenario("application-sets", overrides=[f'criteria="{name}"']).criteria
        assert len(criteria) == sum(bool(cell) for cell in cells)
        limits = {f"within {each.limit:g} ms" for each in criteria if each.metric == "object_ms"}
        assert limits == {cell for cell in cells if cell.endswith(" ms")}


@pytest.mark.parametrize("line", written_commands(REPLAY_PAGE))
def test_every_command_of_replay_page_parses(line: str) -> None:
    command, arguments = command_of(words_of(line))
    command.make_context(line, arguments)


@pytest.mark.parametrize("line", written_commands(PAGE))
def test_every_run_of_mixed_workloads_page_passes_dry_run(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHIVER_HOME", str(tmp_path))
    monkeypatch.setattr("archiver.engine.plan.check_space", lambda *_: None)  # this machine's disk may be smaller
    command, arguments = command_of(words_of(line))
    command.make_context(line, arguments)
    done = CliRunner().invoke(main, [*words_of(line)[1:], *([] if "--dry-run" in line else ["--dry-run"])])
    assert done.exit_code == 0, done.output
    assert "archives at most" in done.output
