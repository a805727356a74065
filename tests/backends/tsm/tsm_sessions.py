"""The data plane of one worker for tests: its setting, its sessions, and the rows that they record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from archiver.values.content import Content
from archiver.values.record import Operation, Recorder
from archiver.values.retention import Retention, RetentionWish
from backends.base import Batch, ExpectedLock, Location, PhaseSetting, RunPlan
from backends.embedded.process import StoreProcess
from backends.tsm.backend import TsmBackend, TsmOptions
from backends.tsm.data_plane import TsmDataPlane
from backends.tsm.library.configuration import private_configuration
from backends.tsm.setting import TsmWorkerSetting

RUN_ID = "20261121-run"
SIZE = 8192
CONTENT = Content(RUN_ID, 7, 1 << 20)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a Recorder."""

    operation: int
    status: int
    number: int
    bytes: int
    due_ns: int
    sent_ns: int
    first_byte_ns: int
    done_ns: int


def rows_of(record: Recorder) -> list[Row]:
    return [Row(*(getattr(record, name)[i] for name in Row.__slots__)) for i in range(record.used)]


def of(operation: Operation, rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.operation == operation]


def archives(*numbers: int, size_bytes: int = SIZE) -> Batch:
    return batch(Operation.ARCHIVE, *numbers, size_bytes=size_bytes)


def retrieves(*numbers: int, size_bytes: int = SIZE) -> Batch:
    return batch(Operation.RETRIEVE, *numbers, size_bytes=size_bytes)


def batch(operation: Operation, *numbers: int, size_bytes: int = SIZE) -> Batch:
    return Batch([operation] * len(numbers), numbers, [size_bytes] * len(numbers))


@dataclass(frozen=True, slots=True)
class Server:
    """A store process, and what is needed to reach its TSM server with a library."""

    store: StoreProcess
    library: Path
    configuration: Path

    def options(self, **changes: Any) -> TsmOptions:
        values: dict[str, Any] = {
            "library": str(self.library),
            "server": f"{self.store.tsm_host}:{self.store.tsm_port}",
            "node": self.store.node,
            "password": self.store.node_password,
            "configuration": self.configuration,
        }
        return TsmOptions(**{**values, **changes})

    def backend(self, **changes: Any) -> TsmBackend:
        return TsmBackend(self.options(**changes))

    def prepared(self, run_id: str = RUN_ID, **changes: Any) -> tuple[TsmBackend, Location]:
        """Return a backend that is ready for its first phase, and the location of its objects."""
        backend = self.backend(**changes)
        backend.profile()
        location = backend.locate(RunPlan(run_id, self.retention(backend)))
        backend.prepare()
        return backend, location

    def retention(self, backend: TsmBackend) -> Retention:
        return backend.retention_for(RetentionWish())


@contextmanager
def reached(store: StoreProcess, library: Path) -> Iterator[Server]:
    with private_configuration(store.tsm_host, store.tsm_port) as configuration:
        yield Server(store, library, configuration)


def data_plane(
    setting: TsmWorkerSetting,
    *,
    reads: tuple[int, ...] = (),
    clients: tuple[int, ...] = (0,),
    verify: str = "all",
    content: Content = CONTENT,
    expected: Sequence[ExpectedLock] = (),
) -> TsmDataPlane:
    """A worker's data plane, ready for a phase."""
    plane = TsmBackend.in_worker(setting)
    numbers = [np.array(reads, dtype=np.int64)] if reads else []
    plane.set_phase(PhaseSetting(content, {}, verify, (SIZE,), clients, numbers, expected=expected))
    return plane


def record_of_sessions(plane: TsmDataPlane, *batches: Batch) -> Recorder:
    """Run one session for each batch, by one client, as the engine does, and return the record."""
    record = Recorder(20_000)

    async def work() -> None:
        for batch in batches:
            session = plane.session(0)
            if await session.open(record, 1):
                await session.perform(batch, record)
            await session.close(record)
        await plane.end_phase()

    uvloop.run(work())
    return record


def archived(backend: TsmBackend, *numbers: int) -> None:
    """Archive these objects, and check that none failed."""
    record = record_of_sessions(data_plane(backend.worker_setting()), archives(*numbers))
    assert record.errors == {}
