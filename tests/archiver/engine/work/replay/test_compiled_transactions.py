"""Test compiling for a platform that commits transactions: each transaction is one batch, and order is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.engine.work.replay.compile import compiling, transactions
from archiver.engine.work.replay.compile.compiled import COLUMNS, CompiledTrace
from archiver.engine.work.replay.compile.compiling import compile_trace
from archiver.engine.worker.op_log import KIND
from archiver.traces import format as trace_format
from archiver.traces.format import Origin, TracedOperation, TraceWriter
from archiver.values.record import Operation
from tests.support.examples import share_of

Compile = Callable[..., CompiledTrace]
NEW = {"archive": "send", "new-version": "send", "hold": "hold", "release": "release", "delete": "delete"}


def written(path: Path, rows: Sequence[TracedOperation], kind: str = KIND) -> Path:
    with TraceWriter(path, 0, [Origin(kind, "a run")], overwrite=True) as writer:
        for row in rows:
            writer.add(row)
    return path


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    def carry_out(*rows: TracedOperation, kind: str = KIND, commits: bool = True, speed: float = 1.0) -> CompiledTrace:
        path = written(tmp_path / "trace.parquet", rows, kind)
        return compile_trace(path, tmp_path / "compiled", commits=commits, speed=speed)

    return carry_out


def op(due_ns: int, operation: str, key: str | None, done_ns: int | None = None, **more: Any) -> TracedOperation:
    """Return an operation whose size equals its due time, to identify its compiled row."""
    return TracedOperation(due_ns, operation=operation, key=key, done_ns=done_ns, size_bytes=due_ns, **more)


# Two sessions whose transactions overlap, as an operation log has them.
OVERLAPPING = [
    op(10, "open", None),
    op(11, "transaction", None, 50),
    op(12, "archive", "a", 50),
    op(13, "archive", "x", 60, client=1),
    op(14, "archive", "b", 50),
    op(15, "archive", "y", 60, client=1),
    op(16, "archive", "c", 50),
    op(17, "archive", "d", 55),  # in no transaction
    op(18, "retrieve", "z", 55, client=2),
]


def test_operations_of_one_transaction_are_adjacent_and_due_with_the_first(compiled: Compile) -> None:
    trace = compiled(*OVERLAPPING)
    assert trace.due_ns.tolist() == [10, 12, 12, 12, 13, 13, 17, 18]
    assert trace.size_bytes.tolist() == [0, 12, 14, 16, 13, 15, 17, 18]
    assert trace.with_previous.tolist() == [False, False, True, True, False, True, False, False]
    assert trace.stream.tolist() == [0, 0, 0, 0, 1, 1, 0, 2]
    assert trace.ends_session.tolist() == [False, False, False, False, False, True, True, True]
    assert trace.batches_max() == {0: 3, 1: 2}
    assert compiled(*OVERLAPPING, speed=2).due_ns.tolist() == [5, 6, 6, 6, 6, 6, 8, 9]


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 4])
def test_transaction_may_span_several_row_groups(
    compiled: Compile, monkeypatch: pytest.MonkeyPatch, batch_rows: int
) -> None:
    for module in (trace_format, compiling, transactions):
        monkeypatch.setattr(module, "ROW_GROUP_ROWS", batch_rows)
    trace = compiled(*OVERLAPPING)
    assert trace.size_bytes.tolist() == [0, 12, 14, 16, 13, 15, 17, 18]
    assert trace.with_previous.tolist() == [False, False, True, True, False, True, False, False]


@pytest.mark.parametrize("how", [{"commits": False}, {"kind": "capture"}, {"kind": "aws"}])
def test_rows_keep_their_order_without_transactions(compiled: Compile, how: dict[str, object]) -> None:
    trace = compiled(*OVERLAPPING, **how)
    assert trace.due_ns.tolist() == [row.due_ns for row in OVERLAPPING if row.operation != "transaction"]
    assert not trace.with_previous.any()
    assert trace.batches_max() == {}


def test_aborted_transactions_are_left_out(compiled: Compile) -> None:
    aborted = [op(12, "archive", "a", 50, status=10_003), op(13, "archive", "b", 50, status=10_003)]
    trace = compiled(*aborted, op(60, "archive", "a", 90), op(61, "archive", "c", 90))
    assert trace.size_bytes.tolist() == [60, 61]
    assert trace.with_previous.tolist() == [False, True]
    assert trace.facts.left_out == (("failed in the trace", 2),)


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ([op(11, "retrieve", "p", 12)], [False, False, False]),
        ([op(11, "hold", "p", 12)], [False, False, False]),
        ([op(11, "archive", "p")], [False, False, False]),
        ([op(11, "archive", "p", 12)], [False, False, False]),
        ([op(11, "archive", "p", 30, length=5)], [False, False, False]),  # in parts of another size
        ([op(11, "archive", "p", 30, session=1)], [False, True, False]),
        ([op(11, "archive", "p", 30)], [False, True, True]),
        ([op(11, "list", "p", 30)], [False, True]),
    ],
)
def test_only_uninterrupted_operations_of_one_stream_are_grouped(
    compiled: Compile, between: list[TracedOperation], expected: list[bool]
) -> None:
    trace = compiled(op(10, "archive", "a", 30), *between, op(20, "archive", "b", 30))
    assert trace.with_previous.tolist() == expected


def test_holds_and_releases_of_one_transaction_are_grouped_by_kind(compiled: Compile) -> None:
    rows = [op(due, kind, key, 30) for due, (kind, key) in enumerate(
        [("hold", "a"), ("hold", "b"), ("release", "a"), ("release", "b")], start=1)]  # fmt: skip
    assert compiled(*rows).with_previous.tolist() == [False, True, False, True]


def test_grouping_never_moves_an_archive_ahead_of_another_clients_read(compiled: Compile) -> None:
    trace = compiled(
        op(1, "archive", "b", 5),
        op(10, "archive", "a", 40),
        op(20, "retrieve", "b", 25, client=1),  # reads the old version
        op(30, "archive", "b", 40),  # must stay after the read
        op(31, "archive", "c", 40),
    )
    assert trace.size_bytes.tolist() == [1, 10, 31, 1, 30]
    assert trace.due_ns.tolist() == [1, 10, 10, 20, 30]
    assert trace.with_previous.tolist() == [False, False, True, False, False]
    assert [Operation(code).label for code in trace.operation.tolist()] == [
        "archive", "archive", "archive", "retrieve", "new-version"
    ]  # fmt: skip


def test_object_written_twice_keeps_its_version_order(compiled: Compile) -> None:
    trace = compiled(op(1, "archive", "a", 9), op(2, "archive", "b", 9), op(3, "archive", "a", 9), op(10, "head", "a"))
    assert trace.with_previous.tolist() == [False, True, True, False]
    assert trace.version.tolist() == [1, 1, 2, 2]
    assert trace.size_bytes.tolist() == [1, 2, 3, 3]


# Compared with a model in plain Python


def brought_together(rows: Sequence[TracedOperation]) -> tuple[list[TracedOperation], list[int]]:
    """Return the rows in the order of a replay, and the transaction of each."""
    kept = [row for row in rows if row.status == 0 and (row.operation == "open" or row.key is not None)]
    place_of = list(range(len(kept)))
    latest: dict[tuple[int, int], int] = {}
    for place, row in enumerate(kept):
        before = latest.get((row.client, row.session))
        latest[row.client, row.session] = place
        if before is not None and row.operation in NEW and row.done_ns is not None:
            other = kept[before]
            if (NEW.get(other.operation), other.done_ns) == (NEW[row.operation], row.done_ns):
                place_of[place] = place_of[before]
    changed = True
    while changed:
        changed = False
        for place, row in enumerate(kept):
            for earlier in range(place):
                if kept[earlier].key == row.key is not None and place_of[earlier] > place_of[place]:
                    place_of[place], changed = place, True
    order = sorted(range(len(kept)), key=lambda place: (place_of[place], place))
    return [kept[place]._replace(due_ns=kept[place_of[place]].due_ns) for place in order], [place_of[p] for p in order]


def _row(columns: dict[str, Any]) -> TracedOperation:
    return TracedOperation(**columns)


_rows = st.fixed_dictionaries(
    {
        "due_ns": st.integers(0, 2),  # time since the previous row
        "operation": st.sampled_from(
            ("archive", "archive", "archive", "new-version", "retrieve", "hold", "open", "list")
        ),
        "key": st.sampled_from("abcd"),
        "done_ns": st.sampled_from((None, 500, 500, 600)),
        "size_bytes": st.integers(1, 9),
        "client": st.integers(0, 1),
        "session": st.integers(0, 1),
        "status": st.sampled_from((0, 0, 0, 0, 10_003)),
    }
).map(_row)


@given(rows=st.lists(_rows, min_size=1, max_size=40), batch_rows=st.sampled_from((3, 1000)))
@settings(max_examples=share_of(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_compiled_transactions_equal_the_reordered_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[TracedOperation], batch_rows: int
) -> None:
    for module in (trace_format, compiling, transactions):
        monkeypatch.setattr(module, "ROW_GROUP_ROWS", batch_rows)
    due_ns = 0
    for place, row in enumerate(rows):
        due_ns += row.due_ns
        key = None if row.operation == "open" else row.key
        rows[place] = row._replace(due_ns=due_ns, key=key)
    rows.append(TracedOperation(due_ns, operation="archive", key="last", size_bytes=10))
    expected, places = brought_together([row for row in rows if row.operation != "list"])
    trace = compile_trace(written(tmp_path / "t.parquet", rows), tmp_path / "out", commits=True)
    found = {name: getattr(trace, name).tolist() for name in COLUMNS}
    # The reordered trace compiles to the same rows, except that object numbers follow the first use of each object.
    other = compile_trace(written(tmp_path / "o.parquet", expected), tmp_path / "other")
    for name in ("due_ns", "operation", "stream", "ends_session", "size_bytes", "version", "ordered", "unlocked"):
        assert found[name] == getattr(other, name).tolist(), name
    assert other.groups.tolist() == trace.groups.tolist()
    sizes = defaultdict(set)
    for mine, its in zip(found["object"], other.object.tolist(), strict=True):
        sizes[its].add(mine)
    assert all(len(same) == 1 for same in sizes.values())
    assert found["with_previous"] == [place > 0 and places[place] == places[place - 1] for place in range(len(places))]
    with_previous = np.flatnonzero(trace.with_previous)
    assert (trace.due_ns[with_previous] == trace.due_ns[with_previous - 1]).all()
    assert (trace.stream[with_previous] == trace.stream[with_previous - 1]).all()
