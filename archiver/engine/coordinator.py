"""The coordinator of one phase: hands out object numbers, starts the workers together, merges what they report.

One idea: everything is a sum over intervals. A phase's result is made from the tallies that ended in its measured
time, whichever client, worker or host they came from.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archiver.engine.numbers import LockedTimes, ObjectNumbers
from archiver.engine.probing import Tried
from archiver.engine.work.mixed.shares import deal, mixed_result, part_result
from archiver.engine.work.replay.shares import beside_result, deal_replays, replay_result
from archiver.engine.worker.assignment import Assignment, ClientAssignment, WorkerShare
from archiver.engine.workers.contract import OnReport, Workers
from archiver.measure.bottleneck import judge
from archiver.measure.client_usage import client_usage, incomplete, worker_rows
from archiver.measure.histogram import Histogram
from archiver.measure.merging import Merge, ReplayMerge, Window
from archiver.measure.reports import Change, InfrastructureReport, IntervalReport, PartTally, StageReport, Tally
from archiver.measure.server_usage import ServerView, server_usage
from archiver.measure.steadiness import unsteady_because
from archiver.values.clock import now_seconds
from archiver.values.record import NO_LOCAL_PORT_REASON
from archiver.values.retention import DATE_TOLERANCE_SECONDS, DateMaker, Retention
from archiver.watch.sampler import ResourceSampler
from results.database import (
    ArchivedRange,
    HistogramRow,
    IntervalRow,
    ObjectChange,
    PartRow,
    PhaseTimes,
    ProbeRow,
    WorkerRow,
)
from results.model import ClientUsage, CriterionResult, FirstError, PartResult, Result, ServerUsage
from scenarios.mix import RETRIEVES, WRITES_CONTENT
from scenarios.model import Phase, Workload


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
    second_setting: Any = field(default=None, repr=False)  # of the backend of the second place, where there is one
    server: ServerView = field(default_factory=ServerView)


@dataclass(frozen=True, slots=True)
class Fill:
    """How full the platform was when a phase began."""

    store_bytes: int | None = None  # in the store's files; None where they cannot be seen
    archived_bytes: int = 0  # by this run


@dataclass(slots=True)
class PhaseOutcome:
    """A finished phase, merged."""

    phase: Phase
    times: PhaseTimes
    results: list[Result]
    intervals: list[IntervalRow]
    histograms: list[HistogramRow]
    archived: list[ArchivedRange]
    changes: list[Change]  # what else became of objects
    errors: list[FirstError]
    archives_unknown: int  # failures after which the platform may hold the object all the same
    gave_up: str | None
    parts: list[PartRow] = field(default_factory=list)
    infrastructures: list[InfrastructureReport] = field(default_factory=list)
    whole: PartResult | None = None  # of all workloads but infrastructure operations, each in its measured time
    criteria: list[CriterionResult] = field(default_factory=list)
    workers: list[WorkerRow] = field(default_factory=list)
    incomplete: str | None = None  # why it was not carried out as it was meant to be
    probes: list[ProbeRow] = field(default_factory=list)

    def take_probes(self, probes: Sequence[Tried]) -> None:
        """Add the probe objects to what the phase archived; they are in none of its results."""
        for tried in probes:
            self.archived += tried.archived
            if tried.archived:  # else its errors are the outcome's own
                self.archives_unknown += tried.unlisted
            self.probes.append(
                ProbeRow(
                    tried.probe.lock.value if tried.probe.lock is not None else None,
                    tried.probe.object_bytes,
                    tried.tries,
                    sum(each.objects for each in tried.archived),
                )
            )

    @property
    def changed(self) -> list[ObjectChange]:
        """What else became of objects, by whichever workload."""
        return [ObjectChange(each.operation, each.object_bytes, each.first, each.last) for each in self.changes]

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
    """Runs phases on workers."""

    def __init__(self, setting: RunSetting, workers: Workers, sampler: ResourceSampler) -> None:
        self._setting = setting
        self._workers = workers
        self._sampler = sampler

    @property
    def setting(self) -> RunSetting:
        return self._setting

    def reach(self, backend_setting: Any, second_setting: Any) -> None:
        """Have the workers reach the platform, and the second place where there is one, by these settings."""
        self._setting = replace(self._setting, backend_setting=backend_setting, second_setting=second_setting)

    def run_phase(
        self,
        phase: Phase,
        numbers: ObjectNumbers,
        dates: Mapping[float | None, DateMaker],
        on_report: OnReport,
        fill: Fill,
        server_now: float = 0.0,
    ) -> PhaseOutcome:
        """Carry out one phase; ``server_now`` is the platform's clock, by which things expire.

        Where ``on_report`` returns False the phase ends before its time. Raises RunFailed when a worker is lost that
        the run is not to go on without; ``on_report`` has then seen all it had reported.
        """
        merge = ReplayMerge(phase) if phase.replays else Merge(phase)

        def take(report: IntervalReport) -> bool | None:
            merge.take(report)
            return on_report(report)

        assignments = self._assign(phase, numbers, dates, server_now)
        started_at, start_ns = now_seconds(), 0

        def start(delay_ns: int) -> int:
            nonlocal started_at, start_ns
            self._sampler.take()
            started_at, start_ns = now_seconds(), time.monotonic_ns() + delay_ns
            return start_ns

        carried = self._workers.run(assignments, start, take)
        reports = carried.reports
        end_ns = time.monotonic_ns()
        self._sampler.take()
        windows = merge.windows(reports, start_ns)
        measured_ns = min(window.from_ns for window in windows), max(window.to_ns for window in windows)
        outcome = PhaseOutcome(
            phase=phase,
            times=_times(phase, started_at, (start_ns, end_ns), measured_ns),
            results=[],
            intervals=merge.interval_rows(windows),
            histograms=[],
            archived=merge.archived_ranges(),
            changes=merge.changes(),
            errors=merge.first_errors(),
            archives_unknown=merge.archives_unknown(),
            gave_up=next((report.gave_up for report in reports if report.gave_up), _nothing_to_do(assignments)),
            parts=merge.part_rows(),
            incomplete=incomplete(carried),
        )
        outcome.workers = worker_rows(carried, merge, start_ns, measured_ns)
        totals = merge.totals(windows)
        nothing = not totals[0][0].attempts and not outcome.errors and outcome.gave_up is None
        if phase.clients == 1 and not phase.is_mixed and nothing:
            outcome.gave_up = "no session was left to measure after the warm-up: too few objects of this size"
        outcome.whole = _together(phase, totals, (measured_ns[1] - measured_ns[0]) / 1e9)
        without_port = sum(each.count for each in outcome.errors if each.reason == NO_LOCAL_PORT_REASON)
        seen: dict[tuple[int, int], tuple[ServerUsage | None, ClientUsage]] = {}
        for index, (workload, (tally, outside)) in enumerate(zip(phase.workloads, totals, strict=True)):
            window = windows[index]
            edges = (window.from_ns, window.to_ns)
            if edges not in seen:
                work = merge.work(window, start_ns)
                host, view = self._sampler.client_timeline(), self._setting.server
                seen[edges] = (
                    server_usage(self._sampler.timelines(), view, work, *edges),
                    client_usage(reports, window, work.objects, host, without_port, shares_host=view.shares_host),
                )
            usage, client = seen[edges]
            counts = _measured_counts(workload.name, outcome.intervals)
            result = self._result(phase, workload, tally, outside, counts, window, usage, client)
            result = replace(
                result,
                store_bytes_before=fill.store_bytes,
                archived_bytes_before=fill.archived_bytes,
                incomplete=outcome.incomplete,
                first_errors=tuple(merge.first_errors(index)),
            )
            if workload.mix is not None:
                stages = [stage for report in reports for stage in report.stages if stage.workload == index]
                result = mixed_result(result, phase, workload, tally, stages, window.from_ns - start_ns)
            elif workload.replay is not None:
                stages = [stage for report in reports for stage in report.stages if stage.workload == index]
                ended_ns = max((stage.ended_ns for stage in stages), default=start_ns)
                tally.histograms["lateness"] = _lateness(stages)
                took_ns = ended_ns - start_ns - int(workload.replay.begins_seconds * 1e9)
                result = replay_result(result, phase, workload, tally, stages, took_ns)
            elif workload.infrastructure is not None:
                done = [each for report in reports for each in report.infrastructures if each.workload == index]
                result = beside_result(result, phase, workload, done)
                outcome.infrastructures += done
            outcome.results.append(result)
            outcome.histograms += [_histogram_row(workload.name, name, h) for name, h in _histograms(tally)]
        return outcome

    def refused(self, phase: Phase, tried: Tried, started_at: float, start_ns: int) -> PhaseOutcome:
        """The outcome of a phase whose probe the platform did not archive: no client started.

        A workload of a sweep has a result without objects, whose errors are those of the probe.
        """
        end_ns = time.monotonic_ns()
        window = Window(start_ns, end_ns, None, None, settled=False)
        workload = phase.workloads[tried.probe.workload]
        merge = Merge(phase)
        merge.take(IntervalReport({}, [], tried.errors))
        errors = merge.first_errors()
        results = []
        if workload.mix is None and workload.replay is None and workload.infrastructure is None:
            tally = Tally(attempts=tried.tries, errors=sum(error.count for error in errors))
            client = client_usage((), window, 0)
            outside = {"warm-up": 0, "drain": 0, "errors": 0}
            result = self._result(phase, workload, tally, outside, (), window, None, client)
            results.append(replace(result, first_errors=tuple(errors)))
        return PhaseOutcome(
            phase=phase,
            times=_times(phase, started_at, (start_ns, end_ns), (start_ns, end_ns)),
            results=results,
            intervals=[],
            histograms=[],
            archived=[],
            changes=[],
            errors=errors,
            archives_unknown=tried.unlisted,
            gave_up=f"the platform archived no probe object in {tried.tries} tries",
        )

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
        if phase.replays:
            run = dates.get(None)
            earliest = run.retain_until(server_now) - DATE_TOLERANCE_SECONDS if run is not None else None
            shares = deal_replays(phase, numbers, len(self._workers), setting.second_setting, earliest)
        elif phase.is_mixed:
            shares = deal(phase, numbers, times[0], len(self._workers))
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
                replays=share.replays,
                infrastructures=share.infrastructures,
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
        workers = min(len(self._workers), len(clients))
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
            unsteady=unsteady_because(counts) if not phase.is_mixed else None,  # others come and go beside it
            achieved_per_second=tally.objects / seconds if seconds else 0.0,
            objects_per_transaction=per_transaction and min(per_transaction, workload.objects_per_session),
            transaction_send_ms=latency("transaction_send"),
            transaction_commit_ms=latency("transaction_commit"),
            utilisations=verdict.utilisations,
            confidence=verdict.confidence,
            variant=workload.variant,
            lock=workload.lock.value if workload.lock is not None else None,
            lock_ms=latency("lock"),
            attempt_ms=latency("attempt"),
            reconnect_ms=latency("reconnect"),
            connections_per_session=1 + tally.reconnects / tally.sessions if tally.sessions else None,
            requests_per_connection=tally.requests_before_close / tally.reconnects if tally.reconnects else None,
        )


def _times(phase: Phase, started_at: float, ran_ns: tuple[int, int], measured_ns: tuple[int, int]) -> PhaseTimes:
    """The times of a phase before which nothing was prepared."""
    return PhaseTimes(
        position=phase.position,
        label=phase.label,
        started_at=started_at,
        seconds=(ran_ns[1] - ran_ns[0]) / 1e9,
        start_ns=ran_ns[0],
        end_ns=ran_ns[1],
        measured_from_ns=measured_ns[0],
        measured_to_ns=measured_ns[1],
        prepared_ns=ran_ns[0],
    )


def _together(phase: Phase, totals: Sequence[tuple[Tally, dict[str, int]]], seconds: float) -> PartResult:
    """All workloads but infrastructure operations, as if they were one."""
    whole = PartTally("mixed")
    for workload, (tally, outside) in zip(phase.workloads, totals, strict=True):
        if workload.infrastructure is None:
            whole.add(
                PartTally(
                    "mixed", tally.objects, tally.bytes, tally.attempts, tally.errors + outside["errors"],
                    tally.missed_deadlines, tally.histograms,
                )
            )  # fmt: skip
    return part_result("", whole, seconds)


def _lateness(stages: Sequence[StageReport]) -> Histogram:
    """How late the client was, over all workers."""
    lateness = Histogram()
    for stage in stages:
        lateness.add(stage.lateness.part())
    return lateness


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


def _histograms(tally: Tally) -> Iterator[tuple[str, Histogram]]:
    """All of a tally, those of its parts as quantity:part."""
    yield from tally.histograms.items()
    for name, part in tally.parts.items():
        for quantity, histogram in part.histograms.items():
            yield f"{quantity}:{name}", histogram
