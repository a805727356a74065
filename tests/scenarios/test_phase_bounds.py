"""For any scenario file, batches never archive more than the planned bounds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.engine.numbers import Kept, LockedTimes, ObjectNumbers
from archiver.engine.work.mixed.arrivals import due_times
from archiver.engine.work.mixed.batches import BatchSource
from archiver.engine.work.mixed.data_set import DataSet
from archiver.engine.work.mixed.shares import mix_of, share_mixes
from archiver.values.record import Operation, Recorder
from backends.base import Batch
from scenarios.model import Phase, Workload
from scenarios.reading.reader import read_scenario
from scenarios.work.mix import CHANGES
from tests.scenarios.files import toml
from tests.support.examples import share_of

WRITES = (Operation.ARCHIVE, Operation.COPY, Operation.NEW_VERSION)
NOW, LATER = 1000.0, 1e9
SESSIONS = 150  # per client, for workloads without arrivals


class Platform:
    """A simulated platform that accepts every request and counts what is written."""

    def __init__(self) -> None:
        self.numbers = ObjectNumbers(seed=3)
        self.written: Counter[str] = Counter()
        self.written_bytes: Counter[str] = Counter()

    def carry_out(self, phase: Phase, workers: int) -> None:
        self.written.clear()
        self.written_bytes.clear()
        kept: list[Kept] = []
        for share in share_mixes(phase, self.numbers, LockedTimes(NOW, NOW + 10, LATER), workers):
            changed = {w.data for w in phase.workloads if w.work.does & CHANGES}
            data = {name: DataSet(members, is_changed=name in changed) for name, members in share.data.items()}
            for mine in share.mixes:
                workload = phase.workloads[mine.workload]
                grows = phase.reads(workload.data)
                batch_source = BatchSource(workload, mine, data[workload.data], has_markers=True, grows=grows)
                for batch in self._batches(workload, batch_source, mine.clients, _sessions(workload, mine)):
                    kept += self._write(workload, batch, set(mine.aside.numbers.tolist()))
        for each in kept:
            self.numbers.keep(each)

    def _batches(self, workload: Workload, batch_source: BatchSource, clients: tuple[int, ...], sessions: int) -> Any:
        record = Recorder(batch_source.batch_max * 2)
        for session in range(sessions):
            batch = batch_source.batch(clients[session % len(clients)], None)
            if batch is None:
                return
            for operation, number, size_bytes in zip(batch.operation, batch.number, batch.size_bytes, strict=True):
                record.row(operation, number, 0, 0, 0, 1, size_bytes)
            batch_source.settle(batch, record, 0)
            record.folded = record.used
            record.clear()
            yield batch

    def _write(self, workload: Workload, batch: Batch, beside: set[int]) -> list[Kept]:
        kept = []
        for operation, number, size_bytes in zip(batch.operation, batch.number, batch.size_bytes, strict=True):
            if operation in WRITES:
                self.written[workload.name] += 1
                self.written_bytes[workload.name] += size_bytes
            if operation in (Operation.ARCHIVE, Operation.COPY):
                aside = mix_of(workload).aside
                of = aside.data if aside is not None and number in beside else workload.data
                until = NOW - 1 if workload.retain_for_seconds is not None else LATER
                kept.append(Kept(size_bytes, number, number, until, until, of))
            if operation in (Operation.DELETE, Operation.DELETE_MARKER, Operation.NEW_VERSION):
                self.numbers.change(operation.label, size_bytes, number, number)
        return kept


def _sessions(workload: Workload, mine: Any) -> int:
    mix = mix_of(workload)
    arrivals, seconds = mix.arrivals, mix.planned_seconds
    if arrivals is not None and seconds is not None:
        return len(due_times(arrivals, seconds, mine.arrivals_seed, mine.part, mine.parts))
    return SESSIONS * len(mine.clients)


SIZES = st.one_of(
    st.sampled_from(["8KiB", 700]),
    st.fixed_dictionaries({"uniform": st.just(["1KiB", "20KiB"])}),
    st.fixed_dictionaries({"median": st.just("20KiB"), "sigma": st.floats(0.1, 2), "largest": st.just("64KiB")}),
    st.fixed_dictionaries(
        {"histogram": st.dictionaries(st.sampled_from(["512", "4KiB", "32KiB"]), st.integers(1, 30), min_size=1)}
    ),
)
STEPS = st.lists(
    st.sampled_from(["retrieve", "archive", "delete", "delete-marker", "new-version", "copy", "query"]),
    min_size=1, max_size=3,
)  # fmt: skip
TRANSACTIONS = st.lists(st.fixed_dictionaries({"steps": STEPS, "share": st.integers(1, 20)}), min_size=1, max_size=4)
ARRIVALS = st.one_of(
    st.fixed_dictionaries({"kind": st.sampled_from(["constant", "poisson"]), "per_second": st.floats(1, 30)}),
    st.fixed_dictionaries({"kind": st.just("ramp"), "per_second": st.floats(0, 30), "to_per_second": st.floats(1, 30)}),
    st.fixed_dictionaries(
        {"kind": st.just("bursts"), "per_second": st.floats(0, 30), "burst_sessions": st.integers(1, 20),
         "every": st.just("1500ms")}
    ),
)  # fmt: skip
ASIDE = st.fixed_dictionaries(
    {"name": st.just("log"), "data": st.just("log"), "sizes": SIZES, "per_operation": st.floats(0.01, 2)}
)
WRITING = {"archive", "new-version", "copy"}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a scenario that fills a data set and then runs a mix on it."""
    sizes = draw(SIZES)
    transactions: list[dict[str, Any]] = draw(TRANSACTIONS)
    aside = draw(st.none() | ASIDE)
    mix = {
        "name": "mix", "clients": draw(st.integers(1, 5)), "data": "d", "seconds": "3s",
        "objects_per_session": draw(st.integers(1, 7)), "transactions": transactions,
    }  # fmt: skip
    steps = {step for transaction in transactions for step in transaction["steps"]}
    if steps & WRITING:
        mix["sizes"] = draw(st.just(sizes) | SIZES)
    if aside is not None:
        mix["aside"] = aside
    if draw(st.booleans()):
        mix["arrivals"] = draw(ARRIVALS)
    elif steps & WRITING or aside is not None:
        mix["bytes_max"] = "500KiB"
    load = {"name": "load", "operation": "archive", "data": "d", "sizes": sizes, "objects_per_session": 50}
    phases = [
        {"name": "load", "workload": [{**load, "clients": 3, "fill": draw(st.integers(20, 200))},
                                      {**load, "name": "trash", "clients": 2, "objects": 30, "retain_for": "2s"}]},
        {"name": "mix", "workload": [mix]},
    ]  # fmt: skip
    return {"name": "b", "title": "b", "phase": phases}


@settings(max_examples=share_of(40))
@given(documents(), st.integers(1, 3))
def test_workloads_never_archive_more_than_planned_bounds(
    tmp_path_factory: Any, document: dict[str, Any], workers: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "bounds.toml"
    Path(path).write_text(toml(document))
    scenario = read_scenario(str(path), repetitions=2)
    platform = Platform()
    objects = size_bytes = 0
    for phase in scenario.phases:
        platform.carry_out(phase, workers)
        for workload in phase.workloads:
            objects_max, bytes_max = workload.archived_max
            assert platform.written[workload.name] <= objects_max, workload.name
            assert platform.written_bytes[workload.name] <= bytes_max, workload.name
        objects += platform.written.total()
        size_bytes += platform.written_bytes.total()
    assert objects <= scenario.archived_max()[0]
    assert size_bytes <= scenario.archived_max()[1]
