"""The S3 server's credentials file."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from archiver.values.errors import StoreError, UsageError
from backends.embedded.s3 import credentials


def test_first_use_makes_a_random_credential_that_only_its_owner_can_read(tmp_path: Path) -> None:
    made = credentials.ensure(tmp_path)["default"]
    assert stat.S_IMODE((tmp_path / "credentials.json").stat().st_mode) == 0o600
    assert len(made.secret_key) == 40
    assert made.without == frozenset()
    (tmp_path / "other").mkdir()
    assert credentials.ensure(tmp_path / "other")["default"].secret_key != made.secret_key


def test_later_uses_keep_the_keys(tmp_path: Path) -> None:
    first = credentials.ensure(tmp_path, ["limited:without=bypass"])
    again = credentials.ensure(tmp_path)
    assert again == first
    assert not again["limited"].may("bypass")
    assert again["limited"].may("delete")


def test_repeated_credential_request_changes_rights_but_keeps_keys(tmp_path: Path) -> None:
    before = credentials.ensure(tmp_path, ["auditor:without=delete"])["auditor"]
    after = credentials.ensure(tmp_path, ["auditor:without=delete,hold"])["auditor"]
    assert (after.access_key, after.secret_key) == (before.access_key, before.secret_key)
    assert after.without == {"delete", "hold"}


def test_repr_does_not_show_the_secret(tmp_path: Path) -> None:
    made = credentials.ensure(tmp_path)
    assert made["default"].secret_key not in repr(made)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "write NAME"),
        (":without=bypass", "write NAME"),
        ("name:", "write NAME"),
        ("name:with=bypass", "write NAME"),
        ("name:without=", "write NAME"),
        ("name:without=everything", "no right is called 'everything'; there are: bypass, retention, hold, delete"),
    ],
)
def test_invalid_request_is_refused_with_a_remedy(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        credentials.parse_request(text)


def test_file_of_an_older_store_is_read(tmp_path: Path) -> None:
    """As stores wrote it before they used msgspec."""
    entry = {"name": "d\u00e9fault", "access_key": "K", "secret_key": "s", "without": ["bypass", "delete"]}
    (tmp_path / "credentials.json").write_text(json.dumps({"credentials": [entry]}, indent=1) + "\n")
    assert credentials.load(tmp_path) == {
        "d\u00e9fault": credentials.Credential("d\u00e9fault", "K", "s", frozenset(("bypass", "delete")))
    }
    credentials.ensure(tmp_path)
    assert json.loads((tmp_path / "credentials.json").read_text("utf-8"))["credentials"][0] == entry


@pytest.mark.parametrize(
    "document",
    [
        '{"credentials": [{"name": "x", "secret_key": "hush"',
        '{"credentials": [{"name": "x", "access_key": "K", "secret_key": "hush", "witout": ["bypass"]}]}',
        '{"credentials": [{"name": "x", "access_key": "K", "secret_key": ["hush"], "without": []}]}',
    ],
)
def test_damaged_file_is_named_without_its_content(tmp_path: Path, document: str) -> None:
    (tmp_path / "credentials.json").write_text(document)
    with pytest.raises(StoreError, match=r"credentials\.json is not a credentials file") as raised:
        credentials.ensure(tmp_path)
    assert "hush" not in str(raised.value)
    assert raised.value.__cause__ is None
