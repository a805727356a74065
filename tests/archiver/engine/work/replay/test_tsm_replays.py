"""Test that a program's work through our TSM library is replayed with the same objects in the same transactions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from archiver.traces.format import SCHEMA, Trace, TracedOperation, rows_of
from archiver.traces.tsm import import_journals
from backends.embedded import process as embedded
from backends.tsm.library import api
from backends.tsm.library.configuration import private_configuration
from tests.support.commands import archiver

ROOT = Path(__file__).parents[5]
LIBRARY = api.OWN_LIBRARY
PROGRAM = ROOT / "tests" / "backends" / "tsm" / "traced_program.py"
SECONDS_MAX = 60  # reached only if the program hangs
IN_TRANSACTIONS = ("archive", "hold", "release")

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason="our TSM library was not built: no C compiler")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.StoreProcess]:
    with embedded.start(tmp_path_factory.mktemp("tsm") / "store") as running:
        yield running


def recorded(store: embedded.StoreProcess, what: str, folder: Path) -> Path:
    """Return the trace of a run of traced_program.py."""
    journal = folder / f"{what}.journal"
    assert store.node_password is not None
    with private_configuration(store.tsm_host, store.tsm_port) as configuration:
        done = subprocess.run(
            [sys.executable, PROGRAM, what, LIBRARY, configuration],
            env={
                **os.environ,
                "TSM_NODE": store.node,
                "TSM_PASSWORD": store.node_password,
                "PYTHONPATH": str(ROOT),
                "ARCHIVER_TSM_TRACE": str(journal),
            },
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    import_journals(folder / f"{what}.parquet", [journal])
    return folder / f"{what}.parquet"


def replayed(
    path: Path, store: embedded.StoreProcess, folder: Path, *options: str
) -> tuple[dict[str, Any], list[TracedOperation]]:
    """Return the result, and the rows of the operation log in the order in which they were written."""
    password = folder / "password"
    password.touch(0o600)
    password.write_text(f"{store.node_password}\n")
    done = archiver(
        "replay", str(path), "--backend", "tsm", "--tsm-server", f"{store.tsm_host}:{store.tsm_port}",
        "--tsm-node", store.node, "--tsm-password-file", str(password), "--op-log", str(folder / "log"),
        "--management-class", "NONE", "--tolerance", "30s", "--json", "--quiet", *options,
    )  # fmt: skip
    # A busy machine may need longer than the trace.
    assert done.returncode == 0 or done.stderr.startswith("criterion missed: replay_margin_seconds"), done.stderr
    (result,) = [each for each in json.loads(done.stdout)["results"] if not each["is_load"]]
    log = max((folder / "log").glob("*.parquet"), key=lambda log: log.name)
    return result, [row for batch in pq.read_table(log, schema=SCHEMA).to_batches() for row in rows_of(batch)]


def transactions(rows: Sequence[TracedOperation]) -> list[list[tuple[str, int | None]]]:
    """Return the operations of each successful transaction, with sizes of archives, in the order of their ends."""
    done = [
        row for row in rows if row.operation.replace("new-version", "archive") in IN_TRANSACTIONS and not row.status
    ]
    return [
        [
            (operation, row.size_bytes if operation == "archive" else None)
            for row in together
            for operation in [row.operation.replace("new-version", "archive")]
        ]
        for _, together in groupby(done, lambda row: (row.client, row.session, row.done_ns))
    ]


def test_each_transaction_is_replayed_as_one_transaction(store: embedded.StoreProcess, tmp_path: Path) -> None:
    path = recorded(store, "night", tmp_path)
    was = list(Trace.open(path).operations())
    result, now = replayed(path, store, tmp_path)
    assert [len(each) for each in transactions(was)] == [20, 20, 20, 20, 20, 5, 5, 4]
    assert transactions(now) == transactions(was)
    committed = [row.size_bytes for row in was if row.operation == "transaction" and not row.status]
    assert [row.size_bytes for row in now if row.operation == "transaction"] == committed
    assert (result["errors"], result["verified"], result["transaction_commit_ms"]["count"]) == (0, "all", 8)
    assert (result["replayed"]["operations"], result["replayed"]["begun"]) == (120, 120)
    assert dict(result["replayed"]["left_out"])["failed in the trace"] == 2  # the aborted transaction
    assert {part["operation"]: part["objects"] for part in result["parts"]} == {
        "archive": 102, "new-version": 2, "hold": 5, "release": 5, "retrieve": 6
    }  # fmt: skip
    # All operations of a transaction are due when its first object was due.
    firsts = [min(row.due_ns for row in rows) for rows in together(was)]
    again = [{row.due_ns for row in rows} for rows in together(now)]
    began_ns = min(again[0]) - firsts[0]
    assert again == [{first + began_ns} for first in firsts]


def together(rows: Sequence[TracedOperation]) -> list[list[TracedOperation]]:
    sent = [row for row in rows if row.operation in ("archive", "new-version") and not row.status]
    return [list(each) for _, each in groupby(sent, lambda row: (row.client, row.session, row.done_ns))]


@pytest.mark.parametrize("how", [(), ("--workers", "2"), ("--speed", "4")])
def test_sessions_of_several_threads_keep_their_transactions(
    store: embedded.StoreProcess, tmp_path: Path, how: tuple[str, ...]
) -> None:
    path = recorded(store, "some_transactions", tmp_path)
    result, now = replayed(path, store, tmp_path, *how)
    assert result["errors"] == 0
    assert (result["objects"], result["transaction_commit_ms"]["count"]) == (400, 80)
    if "--workers" not in how:  # each worker has a log of its own
        assert [len(each) for each in together(now)] == [5] * 80


def test_operation_log_of_a_replay_keeps_its_transactions(store: embedded.StoreProcess, tmp_path: Path) -> None:
    path = recorded(store, "night", tmp_path)
    _, now = replayed(path, store, tmp_path)
    log = max((tmp_path / "log").glob("*.parquet"), key=lambda log: log.name)
    assert archiver("trace", "sort", str(tmp_path / "again.parquet"), str(log)).returncode == 0
    (tmp_path / "second").mkdir()
    _, again = replayed(tmp_path / "again.parquet", store, tmp_path / "second")
    assert transactions(again) == transactions(now)


def test_smaller_transaction_limit_splits_transactions(store: embedded.StoreProcess, tmp_path: Path) -> None:
    path = recorded(store, "night", tmp_path)
    result, now = replayed(path, store, tmp_path, "--objects-per-transaction", "6")
    assert result["errors"] == 0
    assert [len(each) for each in together(now)] == [*[6, 6, 6, 2] * 5, 4]
