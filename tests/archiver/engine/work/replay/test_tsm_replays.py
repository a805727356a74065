"""Test that the operation log of TSM sessions is replayed with the same objects in the same transactions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from archiver.engine.worker.op_log import KIND
from archiver.traces.format import SCHEMA, Origin, TracedOperation, TraceWriter, rows_of
from archiver.values.record import TSM_ERROR
from backends.embedded import process as embedded
from backends.tsm.library import api
from backends.tsm.library.codes import Code
from tests.support.commands import archiver

MS = 10**6
ABORTED = TSM_ERROR + Code.ABORT_BY_CLIENT
IN_TRANSACTIONS = ("archive", "hold", "release")

pytestmark = pytest.mark.skipif(not api.OWN_LIBRARY.exists(), reason="our TSM library was not built: no C compiler")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[embedded.StoreProcess]:
    with embedded.start(tmp_path_factory.mktemp("tsm") / "store") as running:
        yield running


class Log:
    """The rows of an operation log. Each operation begins 1 ms after the previous one has ended."""

    def __init__(self) -> None:
        self.rows: list[TracedOperation] = []
        self._now_ns = 0

    def transaction(self, operation: str, sizes: Mapping[str, int], status: int = 0, client: int = 0) -> None:
        """Add one operation per key and the transaction that commits all of them."""
        began_ns = self._now_ns
        done_ns = began_ns + (len(sizes) + 2) * MS
        committed = 0 if status or operation != "archive" else sum(sizes.values())
        self._add(began_ns, done_ns, "transaction", None, committed, status, client)
        for place, (key, size_bytes) in enumerate(sizes.items(), start=1):
            self._add(began_ns + place * MS, done_ns, operation, key, size_bytes, status, client)
        self._now_ns = done_ns + MS

    def retrieve(self, sizes: Mapping[str, int]) -> None:
        for key, size_bytes in sizes.items():
            self._add(self._now_ns, self._now_ns + MS, "retrieve", key, size_bytes, 0, 0)
            self._now_ns += 2 * MS

    def _add(
        self, due_ns: int, done_ns: int, operation: str, key: str | None, size_bytes: int, status: int, client: int
    ) -> None:
        self.rows.append(
            TracedOperation(
                due_ns, due_ns, None, done_ns, operation, key, size_bytes=size_bytes, client=client, status=status
            )
        )

    def write(self, path: Path) -> Path:
        with TraceWriter(path, 0, [Origin(KIND, "a run")]) as writer:
            for row in self.rows:
                writer.add(row)
        return path


def night() -> Log:
    """Return a backup: transactions of many objects, one aborted, one that also archives known names again, holds and
    reads.
    """
    log = Log()
    for number in range(5):
        log.transaction("archive", {f"{number}-{place}": 1000 * number + 10 * place + 2 for place in range(20)})
    log.transaction("archive", {"aborted": 600, "1-1": 600}, ABORTED)
    some = {f"{number}-7": 1000 * number + 72 for number in range(5)}
    log.retrieve(some)
    for operation in ("hold", "release"):
        log.transaction(operation, some)
    log.transaction("archive", dict.fromkeys(("0-0", "new", "4-19", "newer"), 9000))
    log.retrieve({"newer": 9000})
    return log


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
    was = night().rows
    result, now = replayed(night().write(tmp_path / "night.parquet"), store, tmp_path, "--legal-hold")
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
def test_sessions_of_several_clients_keep_their_transactions(
    store: embedded.StoreProcess, tmp_path: Path, how: tuple[str, ...]
) -> None:
    log = Log()
    for number in range(40):
        for client in range(2):
            log.transaction("archive", {f"{client}-{number}-{place}": 100 for place in range(5)}, client=client)
    result, now = replayed(log.write(tmp_path / "log.parquet"), store, tmp_path, *how)
    assert result["errors"] == 0
    assert (result["objects"], result["transaction_commit_ms"]["count"]) == (400, 80)
    if "--workers" not in how:  # each worker has a log of its own
        assert [len(each) for each in together(now)] == [5] * 80


def test_operation_log_of_a_replay_keeps_its_transactions(store: embedded.StoreProcess, tmp_path: Path) -> None:
    _, now = replayed(night().write(tmp_path / "night.parquet"), store, tmp_path, "--legal-hold")
    log = max((tmp_path / "log").glob("*.parquet"), key=lambda log: log.name)
    assert archiver("trace", "sort", str(tmp_path / "again.parquet"), str(log)).returncode == 0
    (tmp_path / "second").mkdir()
    _, again = replayed(tmp_path / "again.parquet", store, tmp_path / "second", "--legal-hold")
    assert transactions(again) == transactions(now)


def test_smaller_transaction_limit_splits_transactions(store: embedded.StoreProcess, tmp_path: Path) -> None:
    path = night().write(tmp_path / "night.parquet")
    result, now = replayed(path, store, tmp_path, "--objects-per-transaction", "6", "--legal-hold")
    assert result["errors"] == 0
    assert [len(each) for each in together(now)] == [*[6, 6, 6, 2] * 5, 4]
