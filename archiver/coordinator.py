"""The coordinator of one phase: hands out object numbers, starts the workers together, merges what they report.

One idea: everything is a sum over intervals. A phase's result is made from the tallies that ended in its measured
time, whichever client, worker or host they came from.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from archiver.assignment import (
    INTERVAL_NS,
    Assignment,
    Change,
    ClientAssignment,
    IntervalReport,
    PhaseReport,
    StageReport,
    Tally,
    TallyKey,
)
from archiver.bottleneck import judge
from archiver.histogram import Histogram
from archiver.mixed.shares import RETRIEVES, WorkerShare, deal, mixed_result
from archiver.numbers import LockedTimes, ObjectNumbers
from archiver.processes import WorkerProcesses
from archiver.record import ErrorKind
from archiver.retention import DateMaker, Retention
from archiver.sampler import ResourceSampler
from archiver.server_usage import ServerView, Work, server_usage
from archiver.steadiness import unsteady_because
from results.database import HistogramRow, IntervalRow, PartRow
from results.model import ClientUsage, CriterionResult, FirstError, Result, ServerUsage
from scenarios.mix import WRITES_CONTENT
from scenarios.model import Phase, Workload

START_DELAY_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class RunSetting:
    """What is the same for all phases of a run."""

    run_id: str
    content_seed: int
    backend: str
    backend_setting: Any
    retention: Retention
    verify: str
    session_kind: str
    session_open: str
    checksum: str
    payload_signing: bool
    objects_per_transaction_max: int | None = None
    has_markers: bool = False  # the platform can hide behind a marker what it must keep
    op_log_dir: Path | None = None
    server: ServerView = field(default_factory=ServerView)


@dataclass(frozen=True, slots=True)
class Fill:
    """How full the platform was when a phase began."""

    store_bytes: int | None = None  # in the store's files; None where they cannot be seen
    archived_bytes: int = 0  # by this run


class ArchivedRange(NamedTuple):
    """Objects ``first`` to ``last`` that a phase archived."""

    object_bytes: int
    first: int
    last: int
    data: str
    workload: int

    @property
    def objects(self) -> int:
        return self.last - self.first + 1


@dataclass(slots=True)
class PhaseOutcome:
    """A finished phase, merged."""

    phase: Phase
    started_at: float
    seconds: float
    results: list[Result]
    intervals: list[IntervalRow]
    histograms: list[HistogramRow]
    archived: list[ArchivedRange]
    changes: list[Change]  # what else became of objects
    errors: list[FirstError]
    archives_unknown: int  # failures after which the platform may hold the object all the same
    gave_up: str | None
    start_ns: int  # CLOCK_MONOTONIC
    end_ns: int
    measured_from_ns: int
    measured_to_ns: int
    parts: list[PartRow] = field(default_factory=list)
    criteria: list[CriterionResult] = field(default_factory=list)

    @property
    def changed(self) -> list[tuple[str, int, int, int]]:
        """(operation, object bytes, first, last) of what else became of objects."""
        return [(each.operation, each.object_bytes, each.first, each.last) for each in self.changes]

    def copied(self, workloads: Collection[int]) -> tuple[int, int]:
        """(objects, bytes) that these workloads archived beside what has numbers of its own: copies, new versions."""
        sizes = [
            (change.last - change.first + 1, change.object_bytes)
            for change in self.changes
            if change.workload in workloads and change.operation in ("copy", "new-version")
        ]
        return sum(count for count, _ in sizes), sum(count * size for count, size in sizes)

    def unknown_objects(self) -> int:
        """Archives that the platform may hold although it did not say so: those whose outcome is unknown, and attempts
        that were sent again."""
        failures = sum(error.count for error in self.errors if error.operation in WRITES_CONTENT)
        names = {workload.name for workload in self.phase.workloads if workload.does & WRITES_CONTENT}
        rows = [row for row in self.intervals if row.workload in names]
        if self.phase.is_mixed:  # whose other operations may have been sent again, too
            sent_again = sum(row.attempts - row.objects for row in rows) - sum(e.count for e in self.errors)
        else:
            sent_again = sum(row.attempts for row in rows) - sum(row.objects for row in rows) - failures
        return self.archives_unknown + max(0, sent_again)


class Coordinator:
    """Runs phases on worker processes."""

    def __init__(self, setting: RunSetting, workers: WorkerProcesses, sampler: ResourceSampler, count: int) -> None:
        self._setting = setting
        self._workers = workers
        self._sampler = sampler
        self._worker_count = count

    @property
    def setting(self) -> RunSetting:
        return self._setting

    def run_phase(
        self,
        phase: Phase,
        numbers: ObjectNumbers,
        dates: Mapping[float | None, DateMaker],
        on_report: Callable[[IntervalReport], bool | None],
        fill: Fill,
        server_now: float = 0.0,
    ) -> PhaseOutcome:
        """Carry out one phase; ``server_now`` is the platform's clock, by which things expire.

        Where ``on_report`` returns False the phase ends before its time. Raises RunFailed when a worker dies;
        ``on_report`` has then seen all it had reported.
        """
        merge = _Merge(phase)

        def take(report: IntervalReport) -> bool | None:
            merge.take(report)
            return on_report(report)

        assignments = self._assign(phase, numbers, dates, server_now)
        started_at, start_ns = time.time(), 0

        def start() -> int:
            nonlocal started_at, start_ns
            self._sampler.take()
            started_at, start_ns = time.time(), time.monotonic_ns() + START_DELAY_NS
            return start_ns

        reports = self._workers.run(assignments, start, take)
        end_ns = time.monotonic_ns()
        self._sampler.take()
        windows = merge.windows(reports, start_ns)
        outcome = PhaseOutcome(
            phase=phase,
            started_at=started_at,
            seconds=(end_ns - start_ns) / 1e9,
            results=[],
            intervals=merge.interval_rows(windows),
            histograms=[],
            archived=merge.archived_ranges(),
            changes=merge.changes(),
            errors=merge.first_errors(),
            archives_unknown=merge.archives_unknown(),
            gave_up=next((report.gave_up for report in reports if report.gave_up), _nothing_to_do(assignments)),
            start_ns=start_ns,
            end_ns=end_ns,
            measured_from_ns=min(window.from_ns for window in windows),
            measured_to_ns=max(window.to_ns for window in windows),
            parts=merge.part_rows(),
        )
        totals = merge.totals(windows)
        nothing = not totals[0][0].attempts and not outcome.errors and outcome.gave_up is None
        if phase.clients == 1 and not phase.is_mixed and nothing:
            outcome.gave_up = "no session was left to measure after the warm-up: too few objects of this size"
        seen: dict[tuple[int, int], tuple[ServerUsage | None, ClientUsage]] = {}
        for index, (workload, (tally, outside)) in enumerate(zip(phase.workloads, totals, strict=True)):
            window = windows[index]
            edges = (window.from_ns, window.to_ns)
            if edges not in seen:
                work = merge.work(window, start_ns)
                seen[edges] = (
                    server_usage(self._sampler.timelines(), self._setting.server, work, *edges),
                    _client_usage(reports, window, work.objects),
                )
            usage, client = seen[edges]
            counts = _measured_counts(workload.name, outcome.intervals)
            result = self._result(phase, workload, tally, outside, counts, window, usage, client)
            result = replace(
                result,
                store_bytes_before=fill.store_bytes,
                archived_bytes_before=fill.archived_bytes,
                first_errors=tuple(merge.first_errors(index)),
            )
            if workload.mix is not None:
                stages = [stage for report in reports for stage in report.stages if stage.workload == index]
                result = mixed_result(result, phase, workload, tally, stages, window.from_ns - start_ns)
            outcome.results.append(result)
            outcome.histograms += [_histogram_row(workload.name, name, h) for name, h in _histograms(tally)]
        return outcome

    def _assign(
        self, phase: Phase, numbers: ObjectNumbers, dates: Mapping[float | None, DateMaker], server_now: float
    ) -> list[Assignment]:
        """Give every client, or every worker's part of a mix, its share of objects."""
        setting = self._setting
        times = {
            workload: LockedTimes.of_phase(
                server_now, phase.stop.seconds_max, dates.get(phase.workloads[workload].retain_for_seconds)
            )
            for workload in range(len(phase.workloads))
        }
        if phase.is_mixed:
            shares = deal(phase, numbers, times[0], self._worker_count)
        else:
            shares = self._shares(phase, numbers, times)
        return [
            Assignment(
                run_id=setting.run_id,
                content_seed=setting.content_seed,
                backend=setting.backend,
                backend_setting=setting.backend_setting,
                phase=phase,
                clients=share.clients,
                dates=dates,
                verify=setting.verify,
                op_log=self._op_log(phase, worker),
                mixes=share.mixes,
                data=share.data,
                has_markers=setting.has_markers,
            )
            for worker, share in enumerate(shares)
        ]

    def _shares(self, phase: Phase, numbers: ObjectNumbers, times: Mapping[int, LockedTimes]) -> list[WorkerShare]:
        """Numbers for every client of a sweep's cell, and the clients spread over the workers."""
        clients: list[ClientAssignment] = []
        for index, workload in enumerate(phase.workloads):
            share = phase.objects_max(workload) // workload.clients
            if workload.operation == "archive":
                mine: list[tuple[int, int] | NDArray[np.int64]] = [
                    numbers.fresh(share) for _ in range(workload.clients)
                ]
            else:
                wanted = share * workload.clients
                pool = numbers.sample(workload.object_bytes, wanted, phase.position, workload.operation, times[index])
                each = len(pool) // workload.clients
                mine = [pool[i * each : (i + 1) * each] for i in range(workload.clients)]
            clients += [ClientAssignment(len(clients) + i, index, part) for i, part in enumerate(mine)]
        workers = min(self._worker_count, len(clients))
        return [WorkerShare(clients=tuple(clients[worker::workers])) for worker in range(workers)]

    def _op_log(self, phase: Phase, worker: int) -> Path | None:
        folder = self._setting.op_log_dir
        return None if folder is None else folder / f"{self._setting.run_id}-{phase.position:04d}-{worker}.parquet"

    def _result(
        self,
        phase: Phase,
        workload: Workload,
        tally: Tally,
        outside: dict[str, int],
        counts: Sequence[int],
        window: Window,
        usage: ServerUsage | None,
        client: ClientUsage,
    ) -> Result:
        setting = self._setting
        seconds = (window.to_ns - window.from_ns) / 1e9
        retention = setting.retention.locked_by(workload.lock, workload.retain_for_seconds)
        histograms = tally.histograms
        verdict = judge(client, usage, shares_host=setting.server.shares_host)
        archives, retrieves = workload.operation == "archive", bool(workload.does & RETRIEVES)
        per_transaction = setting.objects_per_transaction_max if archives else None

        def latency(quantity: str) -> Any:
            return histograms[quantity].latency() if quantity in histograms else None

        return Result(
            phase=phase.name,
            workload=workload.name,
            operation=workload.operation,
            object_bytes=workload.object_bytes,
            objects_per_session=workload.objects_per_session,
            clients=workload.clients,
            repetition=phase.repetition,
            position=phase.position,
            session_kind=setting.session_kind,
            session_open=setting.session_open,
            temperature="unknown" if retrieves else None,
            checksum=workload.checksum or setting.checksum,
            payload_signing=setting.payload_signing,
            retention_mode=retention.mode.value,
            legal_hold=retention.legal_hold,
            verified=setting.verify if retrieves else "none",
            sessions=tally.sessions,
            objects=tally.objects,
            bytes=tally.bytes,
            attempts=tally.attempts,
            errors=tally.errors + outside["errors"],
            refusals=tally.refusals,
            seconds=seconds,
            warm_up_objects=outside["warm-up"],
            drained_objects=outside["drain"],
            store_bytes_before=None,
            archived_bytes_before=0,
            objects_per_second=tally.objects / seconds if seconds else 0.0,
            megabytes_per_second=tally.bytes / seconds / 1e6 if seconds else 0.0,
            mebibytes_per_second=tally.bytes / seconds / (1 << 20) if seconds else 0.0,
            session_service_ms=latency("session_service"),
            session_response_ms=latency("session_response"),
            session_open_ms=latency("session_open"),
            session_close_ms=latency("session_close"),
            object_service_ms=latency("object_service"),
            object_response_ms=latency("object_response"),
            first_byte_ms=latency("first_byte"),
            server=usage,
            client=client,
            limited_by=verdict.limited_by,
            settled=window.settled,
            unsteady=unsteady_because(counts) if workload.mix is None else None,  # others come and go beside it
            achieved_per_second=tally.objects / seconds if seconds else 0.0,
            objects_per_transaction=per_transaction and min(per_transaction, workload.objects_per_session),
            transaction_send_ms=latency("transaction_send"),
            transaction_commit_ms=latency("transaction_commit"),
            utilisations=verdict.utilisations,
            confidence=verdict.confidence,
            variant=workload.variant,
            lock=workload.lock.value if workload.lock is not None else None,
            lock_ms=latency("lock"),
        )


@dataclass(frozen=True, slots=True)
class Window:
    """The measured time of a workload. ``first`` and ``last`` bound its intervals where it is a window of time."""

    from_ns: int
    to_ns: int
    first: int | None
    last: int | None
    settled: bool

    def part(self, key: TallyKey) -> str:
        """warm-up, measured or drain."""
        if self.first is None or self.last is None:
            return "warm-up" if key.warm_up else "measured"
        if key.interval < self.first:
            return "warm-up"
        return "measured" if key.interval < self.last else "drain"


class _Merge:
    """What the workers of one phase reported."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._tallies: dict[TallyKey, Tally] = {}
        self._errors: dict[tuple[int, str, str], ErrorKind] = {}
        self._changed: list[Change] = []

    def take(self, report: IntervalReport) -> None:
        for key, tally in report.tallies.items():
            self._tallies.setdefault(key, Tally()).add(tally)
        for error in report.errors:
            known = self._errors.setdefault((error.workload, error.operation, error.reason), error)
            if known is not error:
                known.count += error.count
                known.outcomes_unknown += error.outcomes_unknown
        self._changed += report.changed

    def windows(self, reports: Sequence[PhaseReport], start_ns: int) -> list[Window]:
        """The time that counts, of each workload."""
        if not self._phase.is_mixed:
            return [self._window(reports, start_ns)] * len(self._phase.workloads)
        return [
            self._stage_window(
                workload, [stage for report in reports for stage in report.stages if stage.workload == index], start_ns
            )
            for index, workload in enumerate(self._phase.workloads)
        ]

    def _stage_window(self, workload: Workload, stages: Sequence[StageReport], start_ns: int) -> Window:
        """Of a timed workload the time that all workers measured, in whole intervals; of others all it took."""
        assert workload.mix is not None
        if not stages:
            return Window(start_ns, start_ns, None, None, False)
        settled = not any(stage.ended_early for stage in stages)
        if not workload.mix.is_timed:
            from_ns = min(stage.measured_from_ns for stage in stages)
            return Window(from_ns, max(from_ns, *(stage.measured_to_ns for stage in stages)), None, None, settled)
        from_ns = max(stage.measured_from_ns for stage in stages)
        first = -(-(from_ns - start_ns) // INTERVAL_NS)
        last = max(first, (min(stage.measured_to_ns for stage in stages) - start_ns) // INTERVAL_NS)
        return Window(start_ns + first * INTERVAL_NS, start_ns + last * INTERVAL_NS, first, last, settled)

    def _window(self, reports: Sequence[PhaseReport], start_ns: int) -> Window:
        """All workers' warm-up is over, and no client has run out of its share."""
        from_ns = max((report.measured_from_ns for report in reports), default=start_ns)
        to_ns = min((report.measured_to_ns for report in reports), default=start_ns)
        settled = all(report.settled for report in reports)
        if self._phase.clients == 1:
            return Window(from_ns, max(from_ns, to_ns), None, None, settled)
        first = (from_ns - start_ns) // INTERVAL_NS
        last = (to_ns - start_ns) // INTERVAL_NS
        if (last - first) * INTERVAL_NS < self._phase.stop.seconds_min * 1e9:
            settled = False  # a client ran out of its share before the time asked for
        if last <= first:
            # The shares were used up within the warm-up: all there is to show is the whole, marked as unsettled.
            ended_ns = max([start_ns + 1, *(report.ended_ns for report in reports)])
            return Window(start_ns, ended_ns, 0, math.ceil((ended_ns - start_ns) / INTERVAL_NS), False)
        return Window(start_ns + first * INTERVAL_NS, start_ns + last * INTERVAL_NS, first, last, settled)

    def totals(self, windows: Sequence[Window]) -> list[tuple[Tally, dict[str, int]]]:
        """For each workload its measured tally, and how many objects and errors fell outside."""
        totals = [(Tally(), {"warm-up": 0, "drain": 0, "errors": 0}) for _ in self._phase.workloads]
        for key, tally in self._tallies.items():
            measured, outside = totals[key.workload]
            part = windows[key.workload].part(key)
            if part == "measured":
                measured.add(tally)
            else:
                outside[part] += tally.objects
                outside["errors"] += tally.errors
                mix = self._phase.workloads[key.workload].mix
                if part == "drain" and mix is not None and mix.arrivals is not None:
                    # Sessions of an open loop that were due in the measured time are judged by how long they took,
                    # even where they ended after it: a stall at the end would else be seen by nobody.
                    measured.add_times(tally)
        return totals

    def work(self, window: Window, start_ns: int) -> Work:
        """What was done between two instants, over all workloads: whole intervals, and what ended in the measured time
        of a phase that has no others."""
        moved = Counter[str]()
        objects = 0
        for key, tally in self._tallies.items():
            if self._phase.is_mixed:
                at_ns = start_ns + key.interval * INTERVAL_NS
                counts = window.from_ns - INTERVAL_NS < at_ns < window.to_ns
            else:
                counts = window.part(key) == "measured"
            if counts:
                objects += tally.objects
                workload = self._phase.workloads[key.workload]
                parts = [(part.operation, part.bytes) for part in tally.parts.values()]
                for operation, size in parts or [(workload.operation, tally.bytes)]:
                    moved["retrieve" if operation in RETRIEVES else operation] += size
        return Work(objects, moved["archive"] + moved["new-version"], moved["retrieve"])

    def interval_rows(self, windows: Sequence[Window]) -> list[IntervalRow]:
        rows: dict[tuple[int, str, str], Tally] = {}
        for key, tally in self._tallies.items():
            name = self._phase.workloads[key.workload].name
            rows.setdefault((key.interval, name, windows[key.workload].part(key)), Tally()).add(tally)
        return [_interval_row(*key, tally) for key, tally in sorted(rows.items(), key=lambda item: item[0])]

    def part_rows(self) -> list[PartRow]:
        """Of the whole phase, by workload and part."""
        whole: dict[int, Tally] = {}
        for key, tally in self._tallies.items():
            whole.setdefault(key.workload, Tally()).add(tally)
        return [
            PartRow(
                self._phase.workloads[index].name, name, part.operation, part.objects, part.bytes, part.attempts,
                part.errors,
            )
            for index, tally in whole.items()
            for name, part in tally.parts.items()
        ]  # fmt: skip

    def archived_ranges(self) -> list[ArchivedRange]:
        """In order, neighbours joined."""
        joined: list[ArchivedRange] = []
        for change in sorted(self._changed):
            if change.operation != "archive":
                continue
            mix = self._phase.workloads[change.workload].mix
            data = "" if mix is None else mix.aside.data if change.is_beside and mix.aside is not None else mix.data
            new = ArchivedRange(change.object_bytes, change.first, change.last, data, change.workload)
            if joined and joined[-1][3:] == new[3:] and joined[-1][0] == new[0] and joined[-1].last + 1 == new.first:
                joined[-1] = joined[-1]._replace(last=new.last)
            else:
                joined.append(new)
        return joined

    def changes(self) -> list[Change]:
        """All else that became of objects."""
        return [change for change in self._changed if change.operation != "archive"]

    def first_errors(self, workload: int | None = None) -> list[FirstError]:
        """The first failure of each kind, of one workload or of all."""
        found: dict[tuple[str, str], FirstError] = {}
        for e in self._errors.values():
            if workload in (None, e.workload):
                known = found.get((e.operation, e.reason))
                count = e.count + (known.count if known is not None else 0)
                first = known or FirstError(e.operation, e.reason, 0, e.message, e.request_id, e.object_name)
                found[e.operation, e.reason] = replace(first, count=count)
        return list(found.values())

    def archives_unknown(self) -> int:
        return sum(e.outcomes_unknown for e in self._errors.values() if e.operation in WRITES_CONTENT)


def _interval_row(interval: int, workload: str, part: str, tally: Tally) -> IntervalRow:
    times = tally.histograms["object_response"].part() if "object_response" in tally.histograms else None
    return IntervalRow(
        interval, workload, part, tally.sessions, tally.objects, tally.bytes, tally.attempts, tally.errors,
        times.total_ns if times is not None else 0, times.max_ns if times is not None else 0,
    )  # fmt: skip


def _histograms(tally: Tally) -> Iterator[tuple[str, Histogram]]:
    """All of a tally, those of its parts as quantity:part."""
    yield from tally.histograms.items()
    for name, part in tally.parts.items():
        for quantity, histogram in part.histograms.items():
            yield f"{quantity}:{name}", histogram


def _nothing_to_do(assignments: Sequence[Assignment]) -> str | None:
    """Why a phase could do nothing: its sessions were for objects that are not there."""
    for assignment in assignments:
        for client in assignment.clients:
            workload = assignment.phase.workloads[client.workload]
            if not isinstance(client.numbers, tuple) and len(client.numbers) < workload.objects_per_session:
                return _TOO_FEW.get(workload.operation, "too few objects of this size were archived for one session")
    return None


_TOO_FEW = {
    "release": "too few objects of this size are under a hold for one session; a hold sweep comes before it",
    "delete": "too few objects of this size have expired for one session; an archive sweep with a short retain_for "
    "comes before it",
    "extend": "too few objects of this size have a lock that outlasts the phase and ends before the new date for one "
    "session; --retain-for locks them longer",
    "query": "too few objects of this size have a lock for one session",
    "refused-delete": "too few objects of this size are locked for as long as the phase may take; --retain-for locks "
    "them longer",
}


def _measured_counts(workload: str, rows: Sequence[IntervalRow]) -> list[int]:
    """Objects of each whole interval of the measured time; the first and the last may be cut, so they are left out."""
    measured = {row.interval: row.objects for row in rows if row.workload == workload and row.part == "measured"}
    if len(measured) < 3:
        return []
    return [measured.get(interval, 0) for interval in range(min(measured) + 1, max(measured))]


def _client_usage(reports: Sequence[PhaseReport], window: Window, objects: int) -> ClientUsage:
    """What the workers spent in the window: their counters, interpolated at its edges."""
    seconds = (window.to_ns - window.from_ns) / 1e9
    edges = (window.from_ns, window.to_ns)
    used, busy = [0.0], [0.0]
    lateness = Histogram()
    for report in reports:
        at = [sample.at_ns for sample in report.cpu]
        on_core = np.diff(np.interp(edges, at, [sample.used_seconds for sample in report.cpu]))[0]
        waiting = np.diff(np.interp(edges, at, [sample.waited_seconds for sample in report.cpu]))[0]
        used.append(float(on_core))
        busy.append(float(on_core + waiting))
        lateness.add(report.lateness.part())
    late = lateness.latency()
    return ClientUsage(
        cpu_percent=sum(used) / seconds * 100 if seconds else 0.0,
        busiest_worker_percent=max(busy) / seconds * 100 if seconds else 0.0,
        cpu_microseconds_per_object=sum(used) / objects * 1e6 if objects else None,
        lateness_p99_ms=late.p99 if late is not None else 0.0,
    )


def _histogram_row(workload: str, quantity: str, histogram: Histogram) -> HistogramRow:
    part = histogram.part()
    return HistogramRow(
        workload,
        quantity,
        part.total_ns,
        part.max_ns,
        part.indices.astype("<i8").tobytes(),
        part.counts.astype("<i8").tobytes(),
    )
