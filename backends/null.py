"""The null backend: sessions that do nothing, to measure the engine itself.

Its rates are the upper limit of every other result: a result near them measured the engine and not the platform.
backends/s3/null_responder.py, a real process that answers at once, measures the limit of the wire path.
"""

from __future__ import annotations

import asyncio
import time

from archiver.values.clock import now_seconds
from archiver.values.platform import PlatformProfile
from archiver.values.record import Operation, Recorder
from archiver.values.retention import Lock, Retention, RetentionMode, RetentionWish
from backends.base import (
    MOVES_WHOLE,
    Batch,
    Capabilities,
    Location,
    LockReading,
    PhaseSetting,
    RemovalReport,
    RunPlan,
)


class NullSession:
    """Opens, performs and closes without doing anything."""

    is_open = True

    async def open(self, record: Recorder, due_ns: int) -> bool:
        await asyncio.sleep(0)  # let the other clients and the engine's timers run
        now_ns = time.monotonic_ns()
        record.row(Operation.OPEN, 0, due_ns, now_ns, now_ns, now_ns, 0)
        return True

    async def perform(self, batch: Batch, record: Recorder) -> None:
        due_ns = batch.due_ns if batch.due_ns is not None else time.monotonic_ns()
        for index, (operation, number) in enumerate(zip(batch.operation, batch.number, strict=True)):
            moved_bytes = batch.size_bytes[index] if operation in MOVES_WHOLE else 0
            if operation is Operation.RANGE_RETRIEVE:
                assert batch.range is not None
                moved_bytes = batch.range[index][1]
            now_ns = time.monotonic_ns()
            record.row(operation, number, due_ns, now_ns, now_ns, now_ns, moved_bytes)
            due_ns = now_ns

    async def close(self, record: Recorder) -> None:
        now_ns = time.monotonic_ns()
        record.row(Operation.CLOSE, 0, now_ns, now_ns, now_ns, now_ns, 0)


class NullBackend:
    """Needs no platform and stores nothing."""

    name = "null"
    capabilities = Capabilities(
        retention_modes=("GOVERNANCE", "COMPLIANCE"),
        legal_hold=True,
        event_hold=True,
        stores_content=False,
        operations=tuple(operation for operation in Operation if operation >= Operation.ARCHIVE),
        locks=tuple(Lock),
    )

    def profile(self) -> PlatformProfile:
        return PlatformProfile(
            "null", self.name, (), None, tls=False, shares_host=False, durability="none", server_clock_offset_seconds=0
        )

    def retention_for(self, wish: RetentionWish) -> Retention:
        return wish.resolved(RetentionMode.GOVERNANCE)

    def second_place(self) -> NullBackend:
        return self

    def locate(self, plan: RunPlan) -> Location:
        return Location(endpoint="null", region="", bucket="", bucket_created=False, prefix=plan.run_id)

    def prepare(self) -> None:
        pass

    def attach(self, location: Location, retention: Retention) -> None:
        pass

    def check_place(self, plan: RunPlan) -> None:
        pass

    def set_default_lock(self, retention: Retention | None) -> None:
        pass

    @property
    def server_now(self) -> float:
        return now_seconds()

    def read_lock(self, number: int, retention: Retention, earliest: float | None, latest: float | None) -> LockReading:
        return LockReading(None, None, False, None)

    def object_name(self, number: int) -> str:
        return str(number)

    def worker_setting(self) -> None:
        return None

    @classmethod
    def in_worker(cls, setting: None) -> NullBackend:
        return cls()

    def set_phase(self, setting: PhaseSetting) -> None:
        pass

    def session(self, client: int) -> NullSession:
        return NullSession()

    async def end_phase(self) -> None:
        pass

    def remove(
        self, location: Location, numbers: range | None, *, bypass_governance: bool, release_holds: bool
    ) -> RemovalReport:
        return RemovalReport()
