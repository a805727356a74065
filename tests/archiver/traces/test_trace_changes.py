"""Test merging, sorting, cutting, scaling and anonymising: what changes and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archiver.traces import format as trace_format
from archiver.traces import merging
from archiver.traces.anonymising import PARTS_MAX, anonymise, anonymiser, read_secret
from archiver.traces.changing import TraceSelection, cut, scale
from archiver.traces.format import Trace, TracedOperation
from archiver.traces.merging import merge, sort
from archiver.traces.summary import Unwritten, summarise
from archiver.values.errors import UsageError
from tests.archiver.traces.made import BEGAN_AT_NS, read, rows, write
from tests.support.examples import share_of

SLOW = settings(max_examples=share_of(25), suppress_health_check=[HealthCheck.function_scoped_fixture])


_files = st.tuples(st.integers(0, 50), st.lists(rows.map(lambda row: row._replace(client=row.client % 3)), max_size=12))


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use row groups of two and sorted runs of four, so that everything goes through files."""
    monkeypatch.setattr(trace_format, "ROW_GROUP_ROWS", 2)
    monkeypatch.setattr(merging, "RUN_ROWS", 4)


@pytest.mark.usefixtures("little_memory")
@given(st.lists(rows.map(lambda row: row._replace(due_ns=row.due_ns % 7)), max_size=40))
@SLOW
def test_sort_is_stable_and_keeps_every_row(tmp_path: Path, operations: list[TracedOperation]) -> None:
    path = tmp_path / "trace.parquet"
    path.unlink(missing_ok=True)
    write(path, operations)
    info = sort(tmp_path / "sorted.parquet", path, overwrite=True)
    assert info.rises
    assert read(tmp_path / "sorted.parquet") == sorted(operations, key=lambda row: row.due_ns)
    assert {each.name for each in tmp_path.iterdir()} <= {"trace.parquet", "sorted.parquet"}


@pytest.mark.usefixtures("little_memory")
@given(st.lists(_files, min_size=1, max_size=4))
@SLOW
def test_merge_orders_rows_on_one_clock_and_renumbers_streams(
    tmp_path: Path, files: list[tuple[int, list[TracedOperation]]]
) -> None:
    paths = [tmp_path / f"{place}.parquet" for place in range(len(files))]
    for path, (later_ns, operations) in zip(paths, files, strict=True):
        path.unlink(missing_ok=True)
        write(path, operations, began_at_ns=BEGAN_AT_NS + later_ns)
    info = merge(tmp_path / "all.parquet", paths, overwrite=True)
    merged = read(tmp_path / "all.parquet")
    expected = sorted(
        (
            (later_ns + row.due_ns, place, row)
            for place, (later_ns, operations) in enumerate(files)
            for row in sorted(operations, key=lambda row: row.due_ns)
        ),
        key=lambda each: each[:2],
    )
    began_ns = min(later_ns for later_ns, _ in files)
    assert info.began_at_ns == BEGAN_AT_NS + began_ns
    assert [row.due_ns for row in merged] == [due_ns - began_ns for due_ns, _, _ in expected]
    assert [row._replace(due_ns=0, sent_ns=0, first_byte_ns=0, done_ns=0, client=0) for row in merged] == [
        row._replace(due_ns=0, sent_ns=0, first_byte_ns=0, done_ns=0, client=0) for _, _, row in expected
    ]
    numbers: dict[tuple[int, int], int] = {}
    assert [row.client for row in merged] == [
        numbers.setdefault((place, row.client), len(numbers)) for _, place, row in expected
    ]
    for row, (_, place, was) in zip(merged, expected, strict=True):
        if was.done_ns is not None and row.done_ns is not None:
            assert row.done_ns - row.due_ns == was.done_ns - was.due_ns, place


def test_anonymised_and_clear_traces_are_not_merged(tmp_path: Path) -> None:
    clear = write(tmp_path / "clear.parquet", [TracedOperation(1, key="a")])
    hidden = write(tmp_path / "hidden.parquet", [TracedOperation(1, key="b")], anonymised=True)
    with pytest.raises(UsageError, match=r"clear\.parquet: its keys are in clear"):
        merge(tmp_path / "all.parquet", [hidden, clear])
    assert not (tmp_path / "all.parquet").exists()


def test_cut_trace_begins_at_the_start_of_the_cut(tmp_path: Path) -> None:
    operations = [
        TracedOperation(i * 10**9, done_ns=i * 10**9 + 5, operation=("archive", "head")[i % 2], client=i % 3)
        for i in range(12)
    ]
    path, out = write(tmp_path / "trace.parquet", operations), tmp_path / "cut.parquet"
    info = cut(out, path, TraceSelection(from_seconds=2, to_seconds=8, clients={0, 2}, operations={"archive"}))
    assert [(row.due_ns, row.done_ns, row.client) for row in read(out)] == [
        (0, 5, 2), (4 * 10**9, 4 * 10**9 + 5, 0)
    ]  # fmt: skip
    assert info.began_at_ns == BEGAN_AT_NS + 2 * 10**9
    assert info.changes == ("cut: from 2 s; to 8 s; 2 clients; archive",)
    for part, message in (
        (TraceSelection(from_seconds=100), "it has no operation in that part"),
        (TraceSelection(from_seconds=3, to_seconds=3), "--from 3s is not before --to 3s"),
        (TraceSelection(operations={"frobnicate"}), "--operations frobnicate: there is no operation of that name"),
    ):
        with pytest.raises(UsageError, match=message):
            cut(tmp_path / "none.parquet", path, part)
    assert not list(tmp_path.glob("none*"))


@given(rows, st.sampled_from([0.001, 0.3, 0.5, 1.0, 2.0, 7.3]), st.sampled_from([0.1, 1.0, 3.0]))
@SLOW
def test_scaling_keeps_durations_ranges_within_objects_and_nonzero_sizes(
    tmp_path: Path, row: TracedOperation, sizes: float, speed: float
) -> None:
    row = row._replace(
        size_bytes=None if row.size_bytes is None else row.size_bytes % 2**40,
        offset=None if row.offset is None else row.offset % 2**30,
        length=None if row.length is None else row.length % 2**30,
    )
    path = tmp_path / "trace.parquet"
    path.unlink(missing_ok=True)
    write(path, [row])
    scale(tmp_path / "scaled.parquet", path, speed=speed, sizes=sizes, overwrite=True)
    (scaled,) = read(tmp_path / "scaled.parquet")
    assert scaled.due_ns == int(row.due_ns / speed)
    for before, after in ((row.sent_ns, scaled.sent_ns), (row.done_ns, scaled.done_ns)):
        assert (before is None) == (after is None)
        assert before is None or after is None or after - scaled.due_ns == before - row.due_ns
    for before, after in ((row.size_bytes, scaled.size_bytes), (row.length, scaled.length)):
        assert (before is None) == (after is None)
        assert bool(before) == bool(after)
    if row.size_bytes is not None:
        assert scaled.size_bytes == max(int(row.size_bytes * sizes), min(row.size_bytes, 1))
        was_within = (row.offset or 0) + (row.length or 0) <= row.size_bytes and (row.offset or 0) < row.size_bytes
        if was_within and scaled.size_bytes:
            assert (scaled.offset or 0) + (scaled.length or 0) <= scaled.size_bytes
            assert (scaled.offset or 0) < scaled.size_bytes
    if sizes == speed == 1.0:
        assert scaled == row


@pytest.mark.parametrize("factor", [0, -1, float("nan"), float("inf"), 1e9])
def test_invalid_scaling_factor_is_refused(tmp_path: Path, factor: float) -> None:
    path = write(tmp_path / "trace.parquet", [TracedOperation(1)])
    with pytest.raises(UsageError, match="--speed"):
        scale(tmp_path / "out.parquet", path, speed=factor)
    with pytest.raises(UsageError, match="--sizes"):
        scale(tmp_path / "out.parquet", path, sizes=factor)


SECRET = bytes(range(32))
_keys = st.lists(st.text(alphabet="ab/é\0", max_size=12), max_size=4).map("/".join)


@given(_keys, _keys)
def test_anonymised_keys_share_the_same_folder_prefixes(one: str, other: str) -> None:
    name_of = anonymiser(SECRET)
    first, second = name_of(one).split("/"), name_of(other).split("/")
    assert len(first) == len(one.split("/"))
    assert [not part for part in first] == [not part for part in one.split("/")]

    def shared(these: list[str], those: list[str]) -> int:
        same = [a == b for a, b in zip(these, those, strict=False)]
        return [*same, False].index(False)

    assert shared(first, second) == shared(one.split("/"), other.split("/"))
    assert (name_of(one) == name_of(other)) == (one == other)


def test_anonymised_keys_depend_on_the_secret_and_the_folder_and_stay_short() -> None:
    name_of = anonymiser(SECRET)
    assert name_of("a/x") != anonymiser(SECRET[::-1])("a/x")
    assert name_of("a/x").rpartition("/")[2] != name_of("b/x").rpartition("/")[2]
    deep = "/".join("d" * (PARTS_MAX + 400))
    assert len(name_of(deep)) < 1024
    assert name_of(deep) != name_of(deep + "/e")
    assert name_of("secret.pdf") == anonymiser(SECRET)("secret.pdf")
    assert "." not in name_of("secret.pdf")


def test_anonymised_trace_contains_no_names_and_no_secret(tmp_path: Path) -> None:
    secret = tmp_path / "trace.key"
    secret.write_bytes(b"correct horse battery staple")
    secret.chmod(0o600)
    operations = [TracedOperation(i, key=f"clients/Miller/{i}.pdf", source="clients/Smith/1.pdf") for i in range(5)]
    path, out = write(tmp_path / "trace.parquet", [*operations, TracedOperation(9)]), tmp_path / "out.parquet"
    info = anonymise(out, path, secret)
    assert info.anonymised
    assert [(origin.kind, origin.name) for origin in info.origins] == [("capture", "")]
    found = read(out)
    assert len({row.key for row in found}) == 6
    assert found[-1].key is None
    assert {str(row.key).rpartition("/")[0] for row in found[:-1]} == {str(found[0].key).rpartition("/")[0]}
    assert str(found[0].source).partition("/")[0] == str(found[0].key).partition("/")[0]
    content = out.read_bytes()
    assert not any(word in content for word in (b"Miller", b"pdf", b"Smith", b"horse", b"trace.key"))


def test_short_or_readable_key_file_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "trace.key"
    with pytest.raises(UsageError, match=r"No such file.*head -c 32"):
        read_secret(secret)
    secret.write_bytes(b"x" * 15)
    secret.chmod(0o600)
    with pytest.raises(UsageError, match="has 15 bytes"):
        read_secret(secret)
    secret.write_bytes(b"x" * 16)
    secret.chmod(0o640)
    with pytest.raises(UsageError, match="chmod 600"):
        read_secret(secret)


_uses = st.builds(
    lambda label, key, source, status: TracedOperation(0, operation=label, key=key, source=source, status=status),
    st.sampled_from(["archive", "retrieve", "copy", "head", "delete", "list", "session"]),
    st.sampled_from("abcde"), st.none() | st.sampled_from("abcde"), st.sampled_from([0, 0, 0, 404]),
)  # fmt: skip


@pytest.mark.usefixtures("little_memory")
@given(st.lists(_uses, max_size=30))
@SLOW
def test_objects_read_but_not_written_are_found(tmp_path: Path, uses: list[TracedOperation]) -> None:
    path = tmp_path / "trace.parquet"
    path.unlink(missing_ok=True)
    write(path, uses)
    there: set[str] = set()
    missing: set[str] = set()
    for row in uses:
        assert row.key is not None
        needed = [row.key] if row.operation in {"retrieve", "head", "delete"} else []
        needed += [row.source] if row.source is not None else []
        for key in needed if row.status == 0 else ():
            if key not in there:
                missing.add(key)
                there.add(key)
        if row.operation in {"archive", "copy"} and row.status == 0:
            there.add(row.key)
    unwritten = Unwritten()
    found = [key for batch in Trace.open(path).batches() for key, _ in unwritten.of(batch)]
    assert sorted(found) == sorted(missing)
    assert summarise(path).unwritten == len(missing)


def test_object_known_only_by_a_range_extends_to_its_end(tmp_path: Path) -> None:
    path = write(
        tmp_path / "trace.parquet",
        [TracedOperation(0, operation="range-retrieve", key="a", size_bytes=10, offset=100, length=10)],
    )
    assert [each for batch in Trace.open(path).batches() for each in Unwritten().of(batch)] == [("a", 110)]


def test_summary_counts_operations_streams_sessions_and_sizes(tmp_path: Path) -> None:
    path = write(
        tmp_path / "trace.parquet",
        [
            TracedOperation(0, operation="session", client=1),
            TracedOperation(0, operation="archive", key="a", size_bytes=1000, client=1),
            TracedOperation(10**9, operation="archive", key="b", size_bytes=3000, length=500, client=1, status=503),
            TracedOperation(2 * 10**9, operation="range-retrieve", key="a", size_bytes=1000, offset=0, length=10),
            TracedOperation(2 * 10**9, operation="retrieve", key="c", client=1, session=1),
        ],
    )
    found = summarise(path)
    assert (found.operations, found.streams, found.sessions, found.unwritten) == (4, 2, 3, 1)
    assert (found.seconds, found.operations_per_second, found.read_share()) == (2.0, 2.0, 0.5)
    assert found.rises
    archives = found.kinds["archive"]
    assert (archives.operations, archives.failed, archives.bytes, archives.unknown_sizes) == (2, 1, 1000, 0)
    assert (archives.size(0), archives.size(100)) == (1000, 3000)
    assert found.kinds["range-retrieve"].bytes == 10
    assert found.kinds["retrieve"].unknown_sizes == 1
