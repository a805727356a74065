"""Damaged and forged results databases and bundles are reported, or refused in one line that names the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from archiver.cli import main
from results.bundle.audit import read_audit_bundle, write_audit_bundle
from results.bundle.database_copy import copy_database
from results.recorded.model import Result
from tests.fuzz.hostile import damaged, tries
from tests.results.conftest import make_result
from tests.results.report.reported_runs import whole_run

__all__ = ["make_result"]  # a fixture
PAGE_BYTES = 4096


@pytest.fixture(scope="module")
def whole(make_result: Callable[..., Result], tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the database of a run as one file, without a WAL."""
    folder = tmp_path_factory.mktemp("whole")
    database = whole_run(folder / "run.db", make_result)
    database.close()
    copy_database(folder / "run.db", folder / "one-file.db")
    return (folder / "one-file.db").read_bytes()


def said_or_refused(path: Path, *command: str) -> None:
    done = CliRunner().invoke(main, [*command])
    assert done.exception is None or isinstance(done.exception, SystemExit), (done.exc_info, command)
    assert done.exit_code in (0, 1, 2), done.output
    if done.exit_code:
        assert str(path) in done.output or "damaged" in done.output
        assert len(done.output.splitlines()) == 1


Damage = tuple[str, int, int, bytes]
DAMAGES = st.tuples(
    st.sampled_from(["bytes", "bytes", "bytes", "zeros", "swap", "cut off"]),
    st.integers(0, 10_000),
    st.integers(0, 10_000),
    st.binary(min_size=1, max_size=20),
)


def damaged_pages(good: bytes, damages: list[Damage]) -> bytes:
    """Damage a database as disks and copies do: wrong bytes, and pages that are empty, swapped or missing."""
    data = bytearray(good)
    for what, first, second, noise in damages:
        pages = max(1, len(data) // PAGE_BYTES)
        page, other = first % pages * PAGE_BYTES, second % pages * PAGE_BYTES
        if what == "bytes":
            at = (page + second) % len(data)
            data[at : at + len(noise)] = noise[: len(data) - at]
        elif what == "zeros":
            data[page : page + PAGE_BYTES] = bytes(PAGE_BYTES)
        elif what == "swap":
            held = data[page : page + PAGE_BYTES]
            data[page : page + PAGE_BYTES] = data[other : other + PAGE_BYTES]
            data[other : other + PAGE_BYTES] = held
        else:
            del data[page + 1 :]
    return bytes(data)


def test_damaged_database_is_reported_or_refused(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.db"

    @tries(8)
    @given(st.lists(DAMAGES, min_size=1, max_size=3))
    def check(damages: list[Damage]) -> None:
        path.unlink(missing_ok=True)  # an earlier traceback may still have the old file open
        path.write_bytes(damaged_pages(whole, damages))
        said_or_refused(path, "report", str(path), "--format", "json")

    check()


VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=8), st.binary(max_size=8),
    st.sampled_from(["{}", "[]", "null", "1", '"x"', '{"name": 1}', "[[1]]", '{"a": ' * 50, "NaN", "1e999",
    "9" * 5000]),
)  # fmt: skip


def test_forged_database_is_reported_or_refused(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    path.write_bytes(whole)
    with closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        columns = [(table, row[1]) for table in tables for row in database.execute(f"PRAGMA table_info({table})")]

    @tries(12)
    @given(st.lists(st.tuples(st.sampled_from(columns), VALUES), min_size=1, max_size=2))
    def check(changes: list[tuple[tuple[str, str], object]]) -> None:
        path.unlink(missing_ok=True)
        path.write_bytes(whole)
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA ignore_check_constraints = ON")
            for (table, column), value in changes:
                try:
                    database.execute(
                        f"UPDATE {table} SET {column} = ? WHERE rowid = (SELECT min(rowid) FROM {table})", [value]
                    )
                except sqlite3.Error:  # the schema itself refuses it
                    pass
            database.commit()
        said_or_refused(path, "report", str(path), "--format", "json")

    check()


CONTENTS = {"run.db": b"pages" * 300, "results.json": b'{"a": 1}' * 50, "report.md": b"# words\n" * 20}


@pytest.mark.parametrize("compression", [ZIP_STORED, ZIP_DEFLATED])
def test_damaged_bundle_with_published_hash_has_unchanged_contents(compression: int, tmp_path: Path) -> None:
    path, into = tmp_path / "audit.zip", tmp_path / "into"
    into.mkdir()
    write_audit_bundle(path, "run-1", CONTENTS)
    published = read_audit_bundle(path, into).sha256
    if compression == ZIP_STORED:
        with ZipFile(path) as bundle:
            contents = {name: bundle.read(name) for name in bundle.namelist()}
        with ZipFile(path, "w", ZIP_STORED) as bundle:
            for name, content in contents.items():
                bundle.writestr(name, content)
    good = path.read_bytes()

    @tries(25)
    @given(damaged(good))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        read = read_audit_bundle(path, into)
        if not read.wrong and read.sha256 == published:
            assert read.documents == {name: content for name, content in CONTENTS.items() if name != "run.db"}
            assert (into / "run.db").read_bytes() == CONTENTS["run.db"]
        assert {each.name for each in tmp_path.rglob("*")} <= {"audit.zip", "into", "run.db"}

    check()
