"""Traces for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hypothesis import strategies as st

from archiver.traces.format import MODES, OPERATIONS, Origin, Trace, TracedOperation, TraceWriter

HERE = Path(__file__).parent
ORIGIN = Origin("capture", "made")
BEGAN_AT_NS = 1_770_336_000 * 10**9


def write(
    path: Path, operations: Iterable[TracedOperation], *, began_at_ns: int = BEGAN_AT_NS, anonymised: bool = False
) -> Path:
    """Write a trace of these rows."""
    with TraceWriter(path, began_at_ns, [ORIGIN], anonymised=anonymised) as writer:
        for operation in operations:
            writer.add(operation)
    return path


def read(path: Path) -> list[TracedOperation]:
    return list(Trace.open(path).operations())


def write_example_files(folder: Path) -> None:
    """Write the files that the examples in the help of `archiver trace` read."""
    operations = [
        TracedOperation(i * 10**8, operation=("archive", "retrieve")[i % 2], key=f"mails/{i // 2}", size_bytes=8192)
        for i in range(20)
    ]
    write(folder / "day.parquet", operations)
    write(folder / "other.parquet", operations, began_at_ns=BEGAN_AT_NS + 10**9)
    (folder / "access.log").write_bytes((HERE / "logs" / "nginx.log").read_bytes())
    (folder / "trace.key").write_bytes(bytes(range(32)))
    (folder / "trace.key").chmod(0o600)


_count = st.integers(0, 2**53)
_maybe_count = st.none() | _count
_key = st.none() | st.text(max_size=20)
rows = st.builds(
    TracedOperation,
    due_ns=st.integers(0, 10**6),
    sent_ns=st.none() | st.integers(-(10**6), 2**60),
    first_byte_ns=_maybe_count,
    done_ns=_maybe_count,
    operation=st.sampled_from(OPERATIONS),
    key=_key,
    source=_key,
    size_bytes=_maybe_count,
    offset=_maybe_count,
    length=_maybe_count,
    retention_mode=st.none() | st.sampled_from(MODES),
    retain_for_seconds=st.none() | st.floats(0, 1e10),
    legal_hold=st.none() | st.booleans(),
    client=st.integers(0, 2**31 - 1),
    session=st.integers(0, 2**63 - 1),
    endpoint=st.integers(0, 2**15 - 1),
    status=st.integers(0, 2**15 - 1),
    attempts=st.integers(0, 2**15 - 1),
)
