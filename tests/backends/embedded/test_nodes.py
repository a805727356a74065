"""The nodes of a store: their file, their names, and the keys of their passwords."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from archiver.values.errors import StoreError, UsageError
from backends.embedded.core.files import owner_file
from backends.embedded.core.rules.refusals import WriteFailed
from backends.embedded.tsm import nodes
from backends.embedded.tsm.nodes import Nodes

SALT = bytes(range(16))


def test_first_use_creates_a_node_file_readable_by_its_owner_only(tmp_path: Path) -> None:
    made = Nodes(tmp_path, ["second"])
    assert stat.S_IMODE((tmp_path / "nodes.json").stat().st_mode) == 0o600
    default, second = made.get(b"ARCHIVER"), made.get(b"SECOND")
    assert default is not None
    assert second is not None
    assert default.password is not None
    assert len(default.password) == 40
    assert default.password != second.password
    assert default.key == nodes.key_of(default.password, default.salt, default.iterations)


def test_later_uses_keep_existing_nodes(tmp_path: Path) -> None:
    Nodes(tmp_path, ["second"])
    first = nodes.load(tmp_path)
    Nodes(tmp_path)
    Nodes(tmp_path, ["SECOND", "third"])
    again = nodes.load(tmp_path)
    assert again.pop("THIRD").password
    assert again == first


def test_names_are_case_insensitive(tmp_path: Path) -> None:
    made = Nodes(tmp_path, ["Mixed.Case-1"])
    found = made.get(b"mIXED.cASE-1")
    assert found is not None
    assert found.name == "MIXED.CASE-1"
    assert made.get("ärchiver".encode()) is None
    assert made.get(b"") is None


def test_the_password_that_a_node_chooses_is_not_stored(tmp_path: Path) -> None:
    made = Nodes(tmp_path)
    before = made.get(b"ARCHIVER")
    assert before is not None
    made.change_key("ARCHIVER", SALT, 7, b"k" * 32, now_ms=5)
    for there in (made.get(b"archiver"), nodes.load(tmp_path)["ARCHIVER"]):
        assert there == nodes.Node("ARCHIVER", SALT, 7, b"k" * 32, None, 5)
    assert before.password is not None
    assert before.password not in (tmp_path / "nodes.json").read_text()
    assert stat.S_IMODE((tmp_path / "nodes.json").stat().st_mode) == 0o600


def test_a_change_that_cannot_be_written_has_no_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Nodes(tmp_path)
    before = made.get(b"ARCHIVER")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(owner_file, "_write", full)
    with pytest.raises(WriteFailed, match=r"nodes\.json cannot be written: .*No space"):
        made.change_key("ARCHIVER", SALT, 7, b"k" * 32, now_ms=5)
    assert made.get(b"ARCHIVER") == before == nodes.load(tmp_path)["ARCHIVER"]


def test_repr_shows_neither_key_nor_password(tmp_path: Path) -> None:
    made = Nodes(tmp_path).get(b"ARCHIVER")
    assert made is not None
    assert made.password is not None
    assert made.password not in repr(made)
    assert repr(made.key) not in repr(made)


@pytest.mark.parametrize("text", ["", "two words", "a" * 65, "ä", "tab\t", "a/b"])
def test_an_illegal_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="a name has 1 to 64 letters, digits"):
        nodes.parse_name(text)


@pytest.mark.parametrize(
    "document", ['{"nodes": [{"name": "X", "password": "hush"', '{"nodes": [{"password": "hush"}]}', "[]"]
)
def test_damaged_file_is_named_without_its_content(tmp_path: Path, document: str) -> None:
    (tmp_path / "nodes.json").write_text(document)
    with pytest.raises(StoreError, match=r"nodes\.json is not a nodes file") as raised:
        Nodes(tmp_path)
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_file_of_an_older_store_is_read(tmp_path: Path) -> None:
    """As stores wrote it before they used msgspec."""
    entry = {"name": "ARCHIVER", "password": None, "salt": "AAEC", "iterations": 7, "key": "//79"}
    (tmp_path / "nodes.json").write_text(json.dumps({"nodes": [entry]}, indent=1) + "\n")
    assert nodes.load(tmp_path) == {"ARCHIVER": nodes.Node("ARCHIVER", b"\0\1\2", 7, b"\xff\xfe\xfd", None)}
    Nodes(tmp_path, ["other"])
    assert json.loads((tmp_path / "nodes.json").read_text())["nodes"][0] == {**entry, "password_set_ms": 0}


def test_key_that_is_not_base64_is_refused(tmp_path: Path) -> None:
    Nodes(tmp_path)
    path = tmp_path / "nodes.json"
    document = json.loads(path.read_text())
    document["nodes"][0]["key"] = "!"
    path.write_text(json.dumps(document))
    with pytest.raises(StoreError, match="is not a nodes file"):
        nodes.load(tmp_path)


def test_chosen_password_is_set_once_and_not_stored(tmp_path: Path) -> None:
    first = Nodes(tmp_path, ["mine"], {"mine": "Of my choice"}, 5).get(b"MINE")
    assert first is not None
    assert first.key == nodes.key_of("of MY choice", first.salt, first.iterations)
    assert first.iterations > 1000
    assert (first.password, first.password_set_ms) == (None, 5)
    assert "choice" not in (tmp_path / "nodes.json").read_text().lower()
    assert Nodes(tmp_path, ["mine"], {"mine": "Of my choice"}, 9).get(b"MINE") == first
    second = Nodes(tmp_path, ["mine"], {"mine": "another one"}, 9).get(b"MINE")
    assert second is not None
    assert second.password_set_ms == 9
    with pytest.raises(UsageError, match="the password of node MINE: it must have at least 8 characters"):
        Nodes(tmp_path, ["mine"], {"mine": "1234567"})
    assert nodes.load(tmp_path)["MINE"] == second
