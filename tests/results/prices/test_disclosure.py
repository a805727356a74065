"""The disclosure of the tested configuration: it is validated, and shown with its missing values."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from archiver.values.errors import UsageError
from results.prices.disclosure import (
    NOT_DISCLOSED,
    Disclosure,
    disclosed,
    disclosure_table,
    disclosure_tables,
    read_disclosure,
)
from tests.results.conftest import MakeResult, MakeRun
from tests.results.watched_run import phase_record
from tests.support.documented import ROOT

EXAMPLE = re.findall(r"^```toml\n(.*?)^```", (ROOT / "docs/disclosure.md").read_text(), re.MULTILINE | re.DOTALL)[0]


def read(folder: Path, text: str) -> Disclosure:
    path = folder / "system.toml"
    path.write_text(text)
    return read_disclosure(path)


def test_example_of_disclosure_page_has_every_key(tmp_path: Path) -> None:
    found = read(tmp_path, EXAMPLE)
    assert set(found.document) == set(Disclosure.__struct_fields__)
    assert found.usable_bytes == 290 * 10**12
    json.dumps(found.document)
    table = disclosure_table({"minio": found})
    assert len(table.rows) == len(Disclosure.__struct_fields__)
    assert NOT_DISCLOSED not in [row[1].text for row in table.rows]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('sytem = "x"', "unknown key 'sytem'; the keys are system, nodes, processors"),
        ('raw_tb = "384 TB"', "raw_tb: Expected `float"),
        ("raw_tb = -1.0", "raw_tb: -1 is not possible"),
        ("raw_tb = inf", "raw_tb: inf is not possible"),
        ("nodes = 0", "nodes: 0 is not possible"),
        ("raw_tb = 100.0\nusable_tb = 101.0", "usable_tb: 101 is more than raw_tb, 100"),
        ("usable_tb = 100.0\nused_tb = 200.0", "used_tb: 200 is more than usable_tb, 100"),
        ('firmware = " "', "firmware: the value is empty"),
        ("list_price = 5.0", "currency: a list price needs a currency"),
        ('price_date = "yesterday"', "price_date: Invalid RFC3339"),
        ("[", "not TOML"),
    ],
)
def test_invalid_disclosure_is_refused_with_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert words in str(refused.value)
    assert "system.toml" in str(refused.value)


def test_disclosed_used_capacity_may_be_zero(tmp_path: Path) -> None:
    assert read(tmp_path, "used_tb = 0").used_tb == 0


def test_missing_values_are_shown_as_not_disclosed_per_platform() -> None:
    table = disclosure_table({"ours": Disclosure(system="A", raw_tb=2000.0), "theirs": None})
    rows = {row[0].text: [cell.text for cell in row[1:]] for row in table.rows}
    assert rows["system"] == ["A", NOT_DISCLOSED]
    assert rows["raw capacity (TB)"] == ["2,000", NOT_DISCLOSED]
    assert rows["firmware and software"] == [NOT_DISCLOSED, NOT_DISCLOSED]
    assert "notes" not in rows


def test_no_disclosure_gives_single_row() -> None:
    (row,) = disclosure_table({"ours": None, "theirs": None}).rows
    assert [cell.text for cell in row] == ["all of it", NOT_DISCLOSED, NOT_DISCLOSED]


def test_run_discloses_values_of_its_request(make_run: MakeRun, make_result: MakeResult) -> None:
    phases = [phase_record(1, make_result(), 1, 2)]
    given = make_run(phases, request=json.dumps({"disclosure": {"nodes": 2, "price_date": "2026-10-01"}}))
    found = disclosed(given.run)
    assert found is not None
    assert found.document == {"nodes": 2, "price_date": "2026-10-01"}
    assert [table.name for table in disclosure_tables(given)] == ["disclosure"]
    assert disclosed(make_run(phases, request="{}").run) is None
    assert disclosure_tables(make_run(phases)) == []  # a conformance run has no request
    assert disclosure_tables(make_run(request="{}")) == []
