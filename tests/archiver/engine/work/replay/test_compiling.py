"""Test compiling of traces: every row of a replay is what the trace's own store would have done."""

from __future__ import annotations

import errno
import hashlib
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.engine.work.replay.compile import compiling
from archiver.engine.work.replay.compile.compiled import CompiledTrace
from archiver.engine.work.replay.compile.compiling import compile_trace
from archiver.traces import format as trace_format
from archiver.traces.format import OPERATIONS, Origin, TracedOperation, TraceWriter
from archiver.values.content import VERSIONS_MAX
from archiver.values.errors import UsageError
from archiver.values.record import Operation
from tests.archiver.engine.work.replay import modelled
from tests.archiver.traces.made import write
from tests.support.examples import share_of

SECOND = 10**9
Compile = Callable[..., CompiledTrace]


def row(
    operation: str, key: str | None = "a", size: int | None = 100, *, due_ns: int = 0, **columns: Any
) -> TracedOperation:
    """Return a row of client 0 and session 0, unless ``columns`` has others."""
    return TracedOperation(due_ns, operation=operation, key=key, size_bytes=size, **columns)


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Return a function that compiles rows. Rows without a time are due one after another."""

    def carry_out(*rows: TracedOperation, name: str = "trace", **options: Any) -> CompiledTrace:
        timed = [each if each.due_ns else each._replace(due_ns=i) for i, each in enumerate(rows)]
        path = tmp_path / f"{name}.parquet"
        path.unlink(missing_ok=True)
        return compile_trace(write(path, timed), tmp_path / "compiled", **options)

    return carry_out


def labels(trace: CompiledTrace) -> list[str]:
    return [Operation(code).label for code in trace.operation.tolist()]


# Objects, versions, content


def test_archive_of_an_existing_object_becomes_a_new_version(compiled: Compile) -> None:
    trace = compiled(
        row("new-version", "a", 10), row("archive", "a", 20), row("retrieve", "a", 999), row("archive", "b", 5),
        row("retrieve", "p", 7), row("archive", "p", 8),
    )  # fmt: skip
    assert labels(trace) == ["archive", "new-version", "retrieve", "archive", "retrieve", "new-version"]
    assert trace.object.tolist() == [2, 2, 2, 1, 0, 0]  # the prepared object is 0, then by size: b of 5, a of 10 bytes
    assert trace.version.tolist() == [1, 2, 2, 1, 1, 2]
    assert trace.size_bytes.tolist() == [10, 20, 20, 5, 7, 8]
    assert trace.content.tolist() == trace.object.tolist()
    assert trace.source.tolist() == [-1] * 6
    assert trace.sizes.tolist() == [7, 5, 10]
    assert trace.facts.prepared == ((7, 1),)
    assert trace.facts.written == ((5, 1), (10, 1))
    assert trace.facts.replaced == ((8, 1), (20, 1))
    assert trace.facts.changes_prepared


def test_version_numbers_wrap_without_repeating_in_a_row(compiled: Compile) -> None:
    trace = compiled(*(row("archive") for _ in range(VERSIONS_MAX + 2)))
    assert trace.version[0] == 1
    assert trace.version.max() == VERSIONS_MAX
    assert trace.version[-2:].tolist() == [1, 2]
    assert (np.diff(trace.version) != 0).all()


def test_copy_has_the_content_of_its_source_at_that_time(compiled: Compile) -> None:
    trace = compiled(
        row("archive", "a", 10), row("copy", "b", None, source="a"), row("archive", "a", 30),
        row("copy", "c", None, source="b"), row("copy", "b", 5, source="a"), row("retrieve", "c"),
        row("retrieve", "b"), row("archive", "b", 7), row("retrieve", "b"),
    )  # fmt: skip
    a, b, c = 0, 1, 2
    assert labels(trace)[-2:] == ["new-version", "retrieve"]
    assert trace.object.tolist() == [a, b, a, c, b, c, b, b, b]
    assert trace.content.tolist() == [a, a, a, a, a, a, a, b, b]
    assert trace.version.tolist() == [1, 1, 2, 1, 2, 1, 2, 3, 3]
    assert trace.size_bytes.tolist() == [10, 10, 30, 10, 30, 10, 30, 7, 7]
    assert trace.source.tolist() == [-1, a, -1, b, a, -1, -1, -1, -1]
    assert trace.sizes.tolist() == [10, 10, 10]
    assert trace.facts.written == ((10, 3),)
    assert trace.facts.replaced == ((7, 1), (30, 2))


def test_copy_onto_itself_keeps_the_version_that_is_read(compiled: Compile) -> None:
    trace = compiled(row("archive"), row("copy", "a", source="a"), row("retrieve"))
    assert trace.source.tolist() == [-1, 0, -1]
    assert trace.version.tolist() == [1, 1, 1]


def test_copy_of_unknown_source_is_left_out_and_prepared_if_read(compiled: Compile) -> None:
    trace = compiled(row("copy", "b", 4096), row("retrieve", "b", 4096), row("copy", "c"))
    assert labels(trace) == ["retrieve"]
    assert trace.facts.left_out == (("copy: its source is not known", 2),)
    assert trace.facts.prepared == ((4096, 1),)


def test_audit_is_replayed_as_a_retrieve(compiled: Compile) -> None:
    assert labels(compiled(row("audit"))) == ["retrieve"]


# Sizes


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (
            [row("head", "p", None), row("retrieve", "p", 50), row("range-retrieve", "p", 10, offset=60, length=10)],
            [70],
        ),
        ([row("retrieve", "p", 50), row("archive", "p", 900), row("retrieve", "p", 900)], [50]),
        ([row("head", "p", None), row("retrieve", "q", 10), row("retrieve", "r", 21)], [10, 16, 21]),
        ([row("query", "p", None)], [compiling.OBJECT_BYTES_UNKNOWN]),
        ([row("copy", "b", 33, source="p")], [33, 33]),
        ([row("copy", "b", None, source="p"), row("retrieve", "b", 44)], [44, 44]),
        ([row("archive", "a", None), row("retrieve", "a", 44), row("retrieve", "p", 5)], [5, 44]),
        ([row("archive", "a", None), row("retrieve", "p", 5)], [5, 5]),
    ],
    ids=["largest", "before it is written", "mean", "unknown", "copied", "read of a copy", "read later", "never read"],
)
def test_object_sizes_are_derived_from_the_rows(
    compiled: Compile, rows: list[TracedOperation], sizes: list[int]
) -> None:
    assert compiled(*rows).sizes.tolist() == sizes


@pytest.mark.parametrize(
    ("lies_there_bytes", "prepared"),
    [
        (None, ((10, 1), (40, 1))),
        (50, ((10, 1), (40, 1))),
        (51, ((10, 1), (25, 1), (40, 1))),
        (110, ((10, 1), (25, 3), (40, 1))),
    ],
)
def test_fillers_are_prepared_up_to_the_requested_capacity(
    compiled: Compile, lies_there_bytes: int | None, prepared: tuple[tuple[int, int], ...]
) -> None:
    trace = compiled(row("retrieve", "p", 40), row("retrieve", "q", 10), row("archive", "a", 5),
                     lies_there_bytes=lies_there_bytes)  # fmt: skip
    assert trace.facts.prepared == prepared
    count = sum(many for _, many in prepared)
    assert trace.object.tolist() == [count - 1, 0, count]
    assert trace.sizes.tolist() == [*(size for size, many in prepared for _ in range(many)), 5]


def test_fillers_have_1_mib_if_no_object_is_prepared(compiled: Compile) -> None:
    trace = compiled(row("archive"), lies_there_bytes=(3 << 20) - 1)
    assert trace.facts.prepared == ((1 << 20, 3),)
    assert trace.object.tolist() == [3]


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [
        (10, 20, ("range-retrieve", 10, 20)),
        (None, 20, ("range-retrieve", 0, 20)),
        (90, 20, ("range-retrieve", 90, 10)),
        (90, None, ("range-retrieve", 90, 10)),
        (100, 1, ("retrieve", 0, 0)),
        (10, 0, ("retrieve", 0, 0)),
        (None, None, ("retrieve", 0, 0)),
        (2**62, 2**62, ("retrieve", 0, 0)),
    ],
)
def test_a_range_stays_within_its_object(
    compiled: Compile, offset: int | None, length: int | None, expected: tuple[str, int, int]
) -> None:
    trace = compiled(row("archive"), row("range-retrieve", size=5, offset=offset, length=length))
    assert (labels(trace)[1], int(trace.offset[1]), int(trace.length[1])) == expected
    assert trace.facts.operations == (("archive", 1), (expected[0], 1))


def test_part_size_is_kept_only_if_smaller_than_the_object(compiled: Compile) -> None:
    trace = compiled(
        row("archive", "a", length=30), row("archive", "b", length=100), row("archive", "c"),
        row("archive", "a", 31, length=30),
    )  # fmt: skip
    assert trace.length.tolist() == [30, 0, 0, 30]
    assert trace.offset.tolist() == [0] * 4


# Deletes and hidden objects


def test_objects_deleted_later_are_archived_without_a_lock(compiled: Compile) -> None:
    trace = compiled(
        row("archive", "a"), row("archive", "a"), row("head", "a"), row("delete", "a"), row("archive", "a"),
        row("archive", "b"), row("copy", "c", source="b"), row("delete", "c"),
    )  # fmt: skip
    assert trace.unlocked.tolist() == [False, True, False, False, False, False, True, False]
    assert trace.version.tolist()[:5] == [1, 2, 2, 2, 3]
    assert trace.facts.deletes


@pytest.mark.parametrize("later", ["retrieve", "extend", "delete-marker", "refused-delete"])
def test_delete_of_an_object_used_later_is_left_out(compiled: Compile, later: str) -> None:
    trace = compiled(row("archive"), row("delete"), row(later))
    assert labels(trace) == ["archive", later]
    assert not trace.unlocked.any()
    assert not trace.facts.deletes
    assert trace.facts.left_out == (("delete: its object is used later, so the trace deleted an older version", 1),)


def test_delete_of_an_object_copied_later_is_left_out(compiled: Compile) -> None:
    assert labels(compiled(row("archive"), row("delete"), row("copy", "b", source="a"))) == ["archive", "copy"]
    assert labels(compiled(row("archive"), row("delete"), row("copy", "a", source="a"))) == ["archive", "copy"]


def test_only_the_last_of_several_deletes_is_replayed(compiled: Compile) -> None:
    trace = compiled(row("archive"), row("delete"), row("delete"))
    assert labels(trace) == ["archive", "delete"]
    assert trace.due_ns.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("before", "is_replayed"),
    [
        (["extend"], False),
        (["refused-delete"], False),
        (["hold"], False),
        (["hold", "release"], True),
        (["hold", "release", "hold"], False),
        (["extend", "archive"], True),
    ],
)
def test_delete_is_not_replayed_while_the_trace_locks_the_object(
    compiled: Compile, before: list[str], is_replayed: bool
) -> None:
    trace = compiled(row("archive"), *(row(operation) for operation in before), row("delete"))
    assert ("delete" in labels(trace)) == is_replayed
    assert trace.unlocked.any() == is_replayed


def test_prepared_objects_deleted_later_are_prepared_without_a_lock(compiled: Compile) -> None:
    trace = compiled(
        row("retrieve", "p", 30), row("retrieve", "q", 20), row("delete", "p", None), row("retrieve", "r", 10),
        row("archive", "r"), row("delete", "r"), row("delete", "s", 5), row("archive", "s"),
        lies_there_bytes=200,
    )  # fmt: skip
    assert trace.facts.prepared == ((5, 1), (10, 1), (16, 9), (20, 1), (30, 1))  # s, r, fillers, q, p
    assert trace.prepared_unlocked.tolist() == [0, 12]
    assert trace.unlocked.tolist() == [False, False, False, False, True, False, False, False]


def test_operations_on_hidden_objects_are_left_out(compiled: Compile) -> None:
    trace = compiled(
        row("archive", "a"), row("delete-marker", "a"), row("retrieve", "a"), row("delete-marker", "a"),
        row("delete", "a"), row("copy", "b", source="a"), row("retrieve", "b", 70), row("archive", "a", 50),
        row("retrieve", "a"),
    )  # fmt: skip
    assert labels(trace) == ["archive", "delete-marker", "retrieve", "new-version", "retrieve"]
    assert trace.facts.left_out == (("its object was hidden before", 4),)
    assert trace.facts.prepared == ((70, 1),)  # b, because its copy is left out
    assert trace.size_bytes.tolist() == [100, 100, 70, 50, 50]


# Rows that are left out


def test_left_out_operations_are_counted_by_reason(compiled: Compile) -> None:
    trace = compiled(
        row("archive"), row("list", "a/"), row("list", None), row("other"), row("retrieve", status=404),
        row("retrieve", None), row("lock"), row("close", None), row("session", None, status=5),
        row("transaction", None), row("open", None, status=5), row("archive", status=5),
        row("event-hold"), row("event-release", status=403),
    )  # fmt: skip
    assert labels(trace) == ["archive"]
    assert trace.facts.left_out == (
        ("event-hold, event-release: there is no consent to event holds", 2),
        ("failed in the trace", 2),
        ("list: nothing to compare it with", 2),
        ("other: it has no counterpart", 1),
        ("without a key", 1),
    )
    assert trace.facts.operations == (("archive", 1),)


def test_a_trace_without_anything_to_replay_is_refused(compiled: Compile, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"odd\.parquet: nothing in it can be replayed: failed in the trace \(2\); list"
    ):
        compiled(row("retrieve", status=1), row("head", status=1), row("list"), row("open", None), name="odd")
    with pytest.raises(UsageError, match=r"it is empty"):
        compiled()
    assert not list((tmp_path / "compiled").glob("*.partial"))


def test_failed_compilation_removes_the_earlier_compiled_trace(compiled: Compile, tmp_path: Path) -> None:
    compiled(row("archive"))
    with pytest.raises(UsageError):
        compiled(row("list"))
    with pytest.raises(UsageError, match="has no complete compiled trace"):
        CompiledTrace.open(tmp_path / "compiled")


def test_an_object_too_large_for_memory_is_refused(compiled: Compile) -> None:
    rows = {"retrieve": row("retrieve", size=2**30 + 1), "archive": row("archive", size=2**31)}
    for each in (*rows.values(), row("range-retrieve", size=None, offset=2**30, length=1)):
        with pytest.raises(
            UsageError, match=r"big\.parquet: has an object of [12],.* bytes.*archiver trace scale.*--sizes 0\."
        ):
            compiled(row("archive", "small"), row("archive", "small"), each, name="big")
    with pytest.raises(UsageError, match="has an object of"):
        compiled(row("archive"), row("archive", size=None), row("head", size=2**30 + 1))
    with pytest.raises(UsageError, match="has an object of"):
        compiled(row("range-retrieve", size=None, offset=2**62, length=2**62))
    assert compiled(row("archive", size=2**30)).sizes.tolist() == [2**30]


def test_rows_out_of_order_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", [row("archive", due_ns=5), row("archive", due_ns=4)])
    with pytest.raises(UsageError, match=r"t\.parquet: row 2: is due before"):
        compile_trace(path, tmp_path / "out")


def test_folder_without_a_compiled_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no complete compiled trace"):
        CompiledTrace.open(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        compile_trace(write(tmp_path / "t.parquet", [row("archive")]), tmp_path / "file")


def test_full_disk_for_the_key_tables_is_reported(compiled: Compile, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(file: int, first: int, size_bytes: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", is_full)
    with pytest.raises(UsageError, match="compiled: cannot be written: No space left on device"):
        compiled(row("archive"))


def test_key_and_session_tables_are_kept_in_files(tmp_path: Path) -> None:
    rows = (2 * trace_format.ROW_GROUP_ROWS, 6 * trace_format.ROW_GROUP_ROWS)
    peaks_bytes = []
    for count in rows:
        each_its_own = (row("archive", f"k/{i}", due_ns=i, session=i) for i in range(count))
        path = write(tmp_path / f"{count}.parquet", each_its_own)
        tracemalloc.start()
        try:
            compile_trace(path, tmp_path / str(count))
            peaks_bytes.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert (peaks_bytes[1] - peaks_bytes[0]) / (rows[1] - rows[0]) < 100  # bytes a key and session; 180 without files


# Time, sessions, lanes, groups


def test_due_times_scale_with_the_replay_speed(compiled: Compile) -> None:
    rows = [
        row("list", due_ns=1),
        row("archive", "a", due_ns=7),
        row("archive", "b", due_ns=8),
        row("head", due_ns=SECOND + 7),
    ]
    assert compiled(*rows).due_ns.tolist() == [7, 8, SECOND + 7]
    trace = compiled(*rows, speed=4)
    assert trace.due_ns.tolist() == [1, 2, SECOND // 4 + 1]
    assert trace.facts.seconds == pytest.approx(0.25)


def session(client: int, number: int, *seconds: float) -> list[TracedOperation]:
    return [row("head", due_ns=1 + int(at * SECOND), client=client, session=number) for at in seconds]


@pytest.mark.parametrize(
    ("sessions", "streams", "ends"),
    [
        ([*session(7, 0, 0, 1), *session(7, 1, 2, 3)], [0, 0, 0, 0], [1, 3]),
        ([*session(7, 0, 0, 2), *session(7, 1, 1, 3)], [0, 1, 0, 1], [2, 3]),
        (
            [*session(7, 0, 0, 3), *session(7, 1, 1, 2), *session(7, 2, 2.5, 4), *session(7, 3, 5)],
            [0, 1, 1, 1, 0, 1, 0],
            [2, 4, 5, 6],
        ),
        ([*session(7, 0, 0, 5, 10, 15.1)], [0, 0, 0, 0], [2, 3]),
        ([*session(1, 0, 0), *session(2, 0, 1), *session(1, 1, 2)], [0, 1, 0], [0, 1, 2]),
    ],
    ids=["one after another", "two at once", "the lowest that is free", "silence", "two clients"],
)
def test_sessions_reuse_the_lowest_free_stream(
    compiled: Compile, sessions: list[TracedOperation], streams: list[int], ends: list[int]
) -> None:
    trace = compiled(*sorted(sessions))
    assert trace.stream.tolist() == streams
    assert np.flatnonzero(trace.ends_session).tolist() == ends
    assert trace.facts.streams == max(streams) + 1 == len(trace.groups)


def test_silence_that_ends_a_session_is_measured_in_replay_time(compiled: Compile) -> None:
    rows = session(1, 0, 0, 8)
    assert compiled(*rows).ends_session.tolist() == [True, True]
    assert compiled(*rows, speed=2).ends_session.tolist() == [False, True]


def test_open_begins_a_session_and_has_no_object(compiled: Compile) -> None:
    trace = compiled(row("open", None), row("archive"), row("open", None, 0), row("head"))
    assert labels(trace) == ["open", "archive", "open", "head"]
    assert trace.object.tolist() == [-1, 0, -1, 0]
    assert trace.content.tolist() == [-1, 0, -1, 0]
    assert trace.size_bytes.tolist() == [0, 100, 0, 100]
    assert trace.ends_session.tolist() == [False, True, False, True]
    assert trace.facts.operations == (("archive", 1), ("head", 1))


def test_streams_that_change_a_shared_object_are_in_one_group(compiled: Compile) -> None:
    trace = compiled(
        row("archive", "a", client=0), row("retrieve", "p", client=1), row("retrieve", "p", client=2),
        row("archive", "b", client=3), row("retrieve", "a", client=4), row("copy", "c", source="b", client=1),
        row("archive", "d", client=5), row("hold", "a", client=3),
    )  # fmt: skip
    assert trace.ordered.tolist() == [True, False, False, True, True, True, False, True]
    # Streams 0, 3 and 4 use a. Stream 1 copies b, which stream 3 archived.
    assert trace.groups.tolist() == [0, 0, 1, 0, 0, 2]


def test_read_only_objects_need_no_ordering(compiled: Compile) -> None:
    trace = compiled(row("retrieve", client=0), row("query", client=1), row("copy", "b", source="a", client=2))
    assert not trace.ordered.any()
    assert trace.groups.tolist() == [0, 1, 2]


def test_single_copy_onto_itself_needs_no_ordering(compiled: Compile) -> None:
    assert not compiled(row("copy", "a", source="a")).ordered.any()
    assert compiled(row("copy", "a", source="a"), row("head", "a")).ordered.all()


# Stored columns


def test_facts_and_columns_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "day.one.parquet"
    origins = [Origin("operation-log", "run-7"), Origin("capture", "")]
    with TraceWriter(path, 0, origins, changes=["scaled: speed 2, sizes 1"], anonymised=True) as writer:
        writer.add(row("archive"))
        writer.add(row("delete", due_ns=2 * SECOND))
    trace = compile_trace(path, tmp_path / "folder" / "within")
    again = CompiledTrace.open(tmp_path / "folder" / "within")
    assert again.facts == trace.facts
    assert trace.facts.name == "day.one"
    assert trace.facts.origin == "operation-log run-7, capture; scaled: speed 2, sizes 1"
    assert trace.facts.anonymised
    assert trace.facts.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert again.due_ns.tolist() == [0, 2 * SECOND]
    assert isinstance(again.due_ns, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        again.due_ns[0] = 1
    assert not list((tmp_path / "folder" / "within").glob("*.partial"))


# Compared with a store that is a dictionary

_KEYS = ("a", "b", "c", "d")
_OFTEN = ("copy", "copy", "copy", "archive", "delete", "delete", "delete")


def _row(columns: dict[str, Any]) -> TracedOperation:
    return TracedOperation(**columns)


_rows = st.fixed_dictionaries(
    {
        "due_ns": st.sampled_from((0, 1, 2 * SECOND, 6 * SECOND)),  # time since the previous row
        "operation": st.sampled_from((*OPERATIONS, *_OFTEN)),
        "key": st.sampled_from((*_KEYS, *_KEYS, None)),
        "source": st.sampled_from((*_KEYS, *_KEYS, None)),
        "size_bytes": st.none() | st.integers(0, 40),
        "offset": st.none() | st.integers(0, 40),
        "length": st.none() | st.integers(0, 40),
        "client": st.integers(0, 2),
        "session": st.integers(0, 2),
        "status": st.sampled_from((0, 0, 0, 0, 0, 0, 404)),
    }
).map(_row)


@given(rows=st.lists(_rows, min_size=1, max_size=60), batch_rows=st.sampled_from((3, 1000)))
@settings(max_examples=share_of(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_compiled_columns_match_a_model_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[TracedOperation], batch_rows: int
) -> None:
    monkeypatch.setattr(trace_format, "ROW_GROUP_ROWS", batch_rows)
    monkeypatch.setattr(compiling, "ROW_GROUP_ROWS", batch_rows)
    due_ns = 0
    for place, each in enumerate(rows):
        due_ns += each.due_ns
        rows[place] = each._replace(due_ns=due_ns)
    store = modelled.Store(rows)
    path = tmp_path / "trace.parquet"
    path.unlink(missing_ok=True)
    write(path, rows)
    if all(each.operation == Operation.OPEN for each in store.expected):
        with pytest.raises(UsageError, match="nothing in it can be replayed"):
            compile_trace(path, tmp_path / "out")
        return
    _check(compile_trace(path, tmp_path / "out"), store)


def _check(trace: CompiledTrace, store: modelled.Store) -> None:
    expected = store.expected
    prepared, written = store.objects(prepared=True), store.objects(prepared=False)
    numbers = {key: number for number, key in enumerate([*prepared, *written])}
    assert trace.sizes.tolist() == [store.held[key].first.bytes for key in (*prepared, *written)]
    assert sum(count for _, count in trace.facts.left_out) == store.left_out
    assert trace.due_ns.tolist() == [each.row.due_ns for each in expected]
    streams, ends = modelled.lanes([each.row for each in expected])
    assert trace.stream.tolist() == streams
    assert trace.ends_session.tolist() == ends
    ordered = {key for key in numbers if store.is_ordered(key)}
    meetings = [(stream, key) for stream, each in zip(streams, expected, strict=True) for key in each.keys & ordered]
    assert trace.groups.tolist() == modelled.groups(max(streams) + 1, meetings)
    deleted = {each.row.key for each in expected if each.operation == Operation.DELETE}
    assert trace.facts.deletes == bool(deleted)
    unlocked = [key for key in prepared if key in deleted and _first_of(expected, key) == Operation.DELETE]
    assert trace.prepared_unlocked.tolist() == sorted(numbers[key] for key in unlocked)
    replaced = sorted(each.content.bytes for each in expected if each.content and _replaces(each))
    assert [size for size, count in trace.facts.replaced for _ in range(count)] == replaced
    for place, each in enumerate(expected):
        assert bool(trace.ordered[place]) == bool(each.keys & ordered)
        assert bool(trace.unlocked[place]) == each.unlocked
        if each.content is None:
            assert trace.operation[place] == Operation.OPEN
            continue
        size = each.content.bytes
        assert trace.object[place] == numbers[each.row.key or ""]
        assert trace.content[place] == numbers[each.content.key]
        assert trace.version[place] == each.content.version
        assert trace.size_bytes[place] == size
        assert trace.source[place] == (numbers[each.source] if each.source is not None else -1)
        part = (int(trace.offset[place]), int(trace.length[place]))
        if each.operation == Operation.RANGE_RETRIEVE:
            wanted = range(size)[each.row.offset or 0 :][: each.row.length]
            if len(wanted) and (each.row.offset, each.row.length) != (None, None):
                assert part == (wanted[0], len(wanted))
                assert trace.operation[place] == Operation.RANGE_RETRIEVE
                continue
            assert trace.operation[place] == Operation.RETRIEVE
        else:
            assert trace.operation[place] == each.operation
        is_sent = each.operation in (Operation.ARCHIVE, Operation.NEW_VERSION)
        assert part == (0, each.row.length if is_sent and 0 < (each.row.length or 0) < size else 0)


def _replaces(each: modelled.Expected) -> bool:
    return each.operation in modelled.WRITES and not each.first


def _first_of(expected: list[modelled.Expected], key: str) -> Operation | None:
    """Return the first operation that removes or writes the object."""
    for each in expected:
        if each.row.key == key and each.operation in (*modelled.WRITES, Operation.DELETE):
            return each.operation
    return None
