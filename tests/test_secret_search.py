"""The search for secrets finds them in every encoding."""

from __future__ import annotations

import base64
import gzip
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.secret_search import Search

SECRET = "kQ/7+vT9&zW<3mR8-pL2_xY6nB5hJ4dG1sA0fE"
WRITTEN = {
    "as it is": SECRET.encode(),
    "only its end": b"..." + SECRET.encode()[-24:],
    "hexadecimal": SECRET.encode().hex().encode(),
    "percent": quote(SECRET, safe="").encode(),
    "utf-16": SECRET.encode("utf-16"),
    "upper case": SECRET.upper().encode(),
    **{f"base64 after {n}": base64.b64encode(b"x" * n + SECRET.encode() + b"yy") for n in range(4)},
    **{f"url-safe base64 after {n}": base64.urlsafe_b64encode(b"x" * n + SECRET.encode()) for n in range(4)},
}


@pytest.fixture
def search(tmp_path: Path) -> Search:
    search = Search(tmp_path / "root")
    search.root.mkdir()
    search.plant("the key", SECRET)
    return search


@pytest.mark.parametrize("form", WRITTEN)
def test_secret_is_found_in_every_encoding_and_container(search: Search, form: str) -> None:
    content = b"before " + WRITTEN[form] + b" after"
    (search.root / "plain").write_bytes(content)
    (search.root / "packed").write_bytes(gzip.compress(content))
    with zipfile.ZipFile(search.root / "archive", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.gz", gzip.compress(content))
    table = pa.table({"key": [content.decode("latin-1")]}) if content.isascii() else None
    if table is not None:
        pq.write_table(table, search.root / "columns", compression="zstd")
    with closing(sqlite3.connect(search.root / "database")) as db, db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE kept (value BLOB)")
        db.execute("INSERT INTO kept VALUES (?)", (b" " * 4000 + content,))
    expected = {"plain", "packed", "archive", "database"} | ({"columns"} if table is not None else set())
    assert search.found() == sorted(f"the key in {name}" for name in expected)


def test_text_other_than_secret_is_not_found(search: Search) -> None:
    (search.root / "plain").write_text(SECRET[:12] + " " + SECRET[14:28])
    assert search.found() == []


def test_process_arguments_are_searched_but_given_environment_is_not(search: Search) -> None:
    search.run("run", "no-such-scenario", SECRET, status=2)
    assert [place.split(" (")[1] for place in search.found() if "arguments" in place] != []
    search.seen.clear()
    search.run("scenarios", "list", environment={"GIVEN": SECRET})
    assert search.found() == []  # the test itself set it, and no process passed it on in another way
