"""The coordinator of one phase: it assigns object numbers, starts all workers at once and merges their reports.

One idea: everything is a sum over intervals. A phase's result is the sum of the tallies in its measured time, from
every client, worker and host.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from archiver.engine.numbers import LockedTimes, ObjectNumbers
from archiver.engine.probing import Tried
from archiver.engine.work.kinds import Measured, Sharing, own_fields
from archiver.engine.work.kinds import share as share_phase
from archiver.engine.work.mixed.shares import part_result
from archiver.engine.work.sessions import nothing_to_do
from archiver.engine.worker.assignment import Assignment
from archiver.engine.workers.contract import OnReport, Workers
from archiver.machine import caches
from archiver.measure.bottleneck import failures_of, judge
from archiver.measure.client_usage import client_usage, incomplete, worker_rows
from archiver.measure.histogram import Histogram, merged
from archiver.measure.merging import Merge, Window, merge_of
from archiver.measure.reports import (
    INTERVAL_NS,
    Change,
    InfrastructureReport,
    IntervalReport,
    PartTally,
    PhaseReport,
    Tally,
)
from archiver.measure.server_usage import ServerView, read_bytes, server_usage
from archiver.values.clock import now_seconds
from archiver.values.record import NO_LOCAL_PORT_REASON, ErrorKind, Operation
from archiver.values.retention import DATE_TOLERANCE_SECONDS, DateMaker, Retention
from archiver.watch.sampler import ResourceSampler
from backends.base import ExpectedLock
from results.measures.statistics import relative_half_width
from results.recorded.database import (
    ArchivedRange,
    HistogramRow,
    IntervalRow,
    ObjectChange,
    PartRow,
    PhaseTimes,
    ProbeRow,
    WorkerRow,
)
from results.recorded.model import Ceiling, ClientUsage, CriterionResult, FirstError, PartResult, Result, ServerUsage
from scenarios.model import Phase, Workload
from scenarios.work.base import Trait
from scenarios.work.mix import EVENT_HOLDS, RETRIEVES, WRITES_CONTENT


@dataclass(frozen=True, slots=True)
class RunSetting:
    """Settings that all phases of a run share."""

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
    has_markers: bool = False  # the platform can hide retained objects behind a delete marker
    share_cores: bool = False  # there are more workers than cores
    polls_busily: bool = False  # the workers' event loops never sleep
    op_log_dir: Path | None = None
    second_setting: Any = field(default=None, repr=False)  # of the backend of the second place, if there is one
    server: ServerView = field(default_factory=ServerView)


@dataclass(frozen=True, slots=True)
class Fill:
    """Fill level of the platform when a phase began."""

    store_bytes: int | None = None  # on the disk, of the store's files and folders; None if they are not visible
    archived_bytes: int = 0  # by this run


class ClientCeiling(NamedTuple):
    """Rate that this client reached in one workload against a platform that does nothing."""

    platform: str  # description of that platform
    objects_per_second: float

    def of(self, rate: float) -> Ceiling | None:
        """Return the ceiling, and a rate in objects/s as a share of it; None if the ceiling is zero."""
        most = self.objects_per_second
        return Ceiling(self.platform, most, rate / most) if most else None


@dataclass(slots=True)
class PhaseOutcome:
    """A finished phase, merged."""

    phase: Phase
    times: PhaseTimes
    results: list[Result]
    intervals: list[IntervalRow]
    histograms: list[HistogramRow]
    archived: list[ArchivedRange]
    changes: list[Change]  # other changes of objects
    errors: list[FirstError]
    archives_unknown: int  # failed archives whose object the platform may still have stored
    gave_up: str | None
    event_holds_unknown: int = 0  # failed requests that may have placed or released an event hold
    parts: list[PartRow] = field(default_factory=list)
    infrastructures: list[InfrastructureReport] = field(default_factory=list)
    whole: PartResult | None = None  # all workloads except infrastructure operations, each in its measured time
    criteria: list[CriterionResult] = field(default_factory=list)
    workers: list[WorkerRow] = field(default_factory=list)
    incomplete: str | None = None  # reason why the phase was not carried out as planned
    probes: list[ProbeRow] = field(default_factory=list)
    last_archived: list[tuple[int, int]] = field(default_factory=list)  # see Merge.last_archived
    wrong_lock: ErrorKind | None = None  # the first failure in which the platform showed a wrong lock

    def take_probes(self, probes: Sequence[Tried]) -> None:
        """Add the probe objects to what the phase archived. They appear in no result of the phase."""
        for tried in probes:
            self.archived += tried.archived
            self.changes += tried.changes
            if tried.archived:  # otherwise the outcome already has the probe's errors
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
    def is_counted(self) -> bool:
        """Return whether every worker reported what it left on the platform."""
        return not any(worker.lost for worker in self.workers)

    @property
    def changed(self) -> list[ObjectChange]:
        """Return the other changes of objects, by all workloads."""
        return [ObjectChange(each.operation, each.object_bytes, each.first, each.last) for each in self.changes]

    def copied(self, workloads: Collection[int]) -> tuple[int, int]:
        """Return (objects, bytes) that these workloads archived without numbers of their own: copies, new versions."""
        sizes = [
            (change.last - change.first + 1, change.object_bytes)
            for change in self.changes
            if change.workload in workloads and change.operation in ("copy", "new-version")
        ]
        return sum(count for count, _ in sizes), sum(count * size for count, size in sizes)

    def unknown_objects(self) -> int:
        """Return the number of unacknowledged archives that the platform may have stored.

        These are archives with an unknown outcome, and attempts that were sent again.
        """
        names = {workload.name for workload in self.phase.workloads if workload.work.does & WRITES_CONTENT}
        rows = [row for row in self.intervals if row.workload in names]
        # The attempts include other operations on objects, and failed attempts are not repetitions, so failures of all
        # operations on objects are subtracted.
        failures = sum(error.count for error in self.errors if error.operation in _ON_OBJECTS)
        sent_again = sum(row.attempts - row.objects for row in rows) - failures
        return self.archives_unknown + max(0, sent_again)


class Coordinator:
    """Runner of phases on workers."""

    def __init__(self, setting: RunSetting, workers: Workers, sampler: ResourceSampler) -> None:
        self._setting = setting
        self._workers = workers
        self._sampler = sampler

    @property
    def setting(self) -> RunSetting:
        return self._setting

    def reach(self, backend_setting: Any, second_setting: Any) -> None:
        """Make the workers use these settings for the platform, and for the second place if there is one."""
        self._setting = replace(self._setting, backend_setting=backend_setting, second_setting=second_setting)

    def run_phase(
        self,
        phase: Phase,
        numbers: ObjectNumbers,
        dates: Mapping[float | None, DateMaker],
        on_report: OnReport,
        fill: Fill,
        server_now: float = 0.0,
        ceilings: Mapping[str, ClientCeiling] = MappingProxyType({}),
        expected: Sequence[ExpectedLock] = (),
    ) -> PhaseOutcome:
        """Carry out one phase and return its outcome, with complete results.

        ``server_now`` is the platform's clock, which decides when locks expire. ``ceilings`` maps each workload to the
        rate that this client reached against a platform that does nothing. ``expected`` are the locks that answers must
        show.

        The phase ends early if ``on_report`` returns False. Raises RunFailed if the run loses a worker that it cannot
        continue without; ``on_report`` has then received all reports of that worker.
        """
        merge = merge_of(phase)

        def take(report: IntervalReport) -> bool | None:
            merge.take(report)
            return on_report(report)

        assignments = self._assign(phase, numbers, dates, server_now, expected)
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
            errors=[error for error in merge.first_errors() if error.count],
            archives_unknown=merge.outcomes_unknown(WRITES_CONTENT),
            event_holds_unknown=merge.outcomes_unknown(EVENT_HOLDS),
            gave_up=next((report.gave_up for report in reports if report.gave_up), nothing_to_do(assignments)),
            parts=merge.part_rows(),
            incomplete=incomplete(carried),
            last_archived=merge.last_archived(),
            wrong_lock=merge.wrong_lock(),
        )
        outcome.workers = worker_rows(carried, merge, start_ns, measured_ns)
        totals = merge.totals(windows)
        nothing = not totals[0][0].attempts and not outcome.errors and outcome.gave_up is None
        if nothing and all(workload.work.measured_time == "sessions" for workload in phase.workloads):
            outcome.gave_up = "no session was left to measure after the warm-up: too few objects of this size"
        outcome.whole = _sum_of_workloads(phase, totals, (measured_ns[1] - measured_ns[0]) / 1e9)
        without_port = sum(each.count for each in outcome.errors if each.reason == NO_LOCAL_PORT_REASON)
        cache_state = self._cache_state(outcome, fill)
        seen: dict[tuple[int, int], tuple[ServerUsage | None, ClientUsage]] = {}
        for index, (workload, (tally, outside)) in enumerate(zip(phase.workloads, totals, strict=True)):
            window = windows[index]
            edges = (window.from_ns, window.to_ns)
            if edges not in seen:
                work = merge.work(window, start_ns)
                host, view = self._sampler.client_timeline(), self._setting.server
                seen[edges] = (
                    server_usage(self._sampler.timelines(), view, work, *edges),
                    client_usage(
                        reports,
                        window,
                        work.objects,
                        host,
                        without_port,
                        closed_loop_clients=_closed_loop_clients(phase),
                        shares_host=view.shares_host,
                    ),
                )
            usage, client = seen[edges]
            stages = [stage for report in reports for stage in report.stages if stage.workload == index]
            done = [each for report in reports for each in report.infrastructures if each.workload == index]
            outcome.infrastructures += done
            if "replay" in workload.work.traits:
                tally.histograms["lateness"] = merged(stage.lateness for stage in stages)
            measured = Measured(
                tally=tally,
                outside=outside,
                counts=_measured_counts(workload.name, outcome.intervals, window, start_ns),
                window=window,
                start_ns=start_ns,
                stages=stages,
                infrastructures=done,
            )
            outcome.results.append(
                self._result(
                    phase,
                    workload,
                    measured,
                    server=usage,
                    client=client,
                    fill=fill,
                    cache_state=cache_state,
                    ceiling=ceilings.get(workload.name),
                    incomplete=outcome.incomplete,
                    first_errors=tuple(merge.first_errors(index)),
                    failed_time_share=_failed_time_share(reports, index),
                )
            )
            outcome.histograms += [_histogram_row(workload.name, name, h) for name, h in _histograms(tally)]
        return outcome

    def _cache_state(self, outcome: PhaseOutcome, fill: Fill) -> str:
        """Return the cache state of retrieved objects (cold, warm or unknown) from the bytes that the device read."""
        if fill.store_bytes is None or any(workload.work.archives for workload in outcome.phase.workloads):
            return "unknown"  # no device is visible, or the reads of several workloads cannot be separated
        read = read_bytes(self._sampler.timelines(), self._setting.server, outcome.times.start_ns, outcome.times.end_ns)
        return caches.temperature(read, sum(row.bytes for row in outcome.intervals))

    def refused(self, phase: Phase, tried: Tried, started_at: float, start_ns: int) -> PhaseOutcome:
        """Return the outcome of a phase that started no client, because the platform did not archive its probe.

        The probe's workload has a result without objects, with the errors of the probe.
        """
        end_ns = time.monotonic_ns()
        window = Window(start_ns, end_ns, None, None, settled=False, seconds=(end_ns - start_ns) / 1e9)
        workload = phase.workloads[tried.probe.workload]
        merge = Merge(phase)
        merge.take(IntervalReport({}, [], tried.errors))
        errors = merge.first_errors()
        tally = Tally(attempts=tried.tries, errors=sum(error.count for error in errors))
        result = self._result(
            phase,
            workload,
            Measured(tally, {"warm-up": 0, "drain": 0, "errors": 0}, (), window, start_ns, (), ()),
            server=None,
            client=client_usage((), window, 0),
            fill=Fill(),
            cache_state="unknown",
            first_errors=tuple(errors),
        )
        return PhaseOutcome(
            phase=phase,
            times=_times(phase, started_at, (start_ns, end_ns), (start_ns, end_ns)),
            results=[result],
            intervals=[],
            histograms=[],
            archived=[],
            changes=[],
            errors=errors,
            archives_unknown=tried.unlisted,
            gave_up=f"the platform archived no probe object in {tried.tries} tries",
        )

    def _assign(
        self,
        phase: Phase,
        numbers: ObjectNumbers,
        dates: Mapping[float | None, DateMaker],
        server_now: float,
        expected: Sequence[ExpectedLock],
    ) -> list[Assignment]:
        """Return each worker's assignment: its share of the clients, mixes and objects."""
        setting = self._setting
        run = dates.get(None)
        sharing = Sharing(
            workers=len(self._workers),
            times=[
                LockedTimes.of_phase(server_now, phase.seconds_max, dates.get(workload.retain_for_seconds))
                for workload in phase.workloads
            ],
            second_setting=setting.second_setting,
            earliest=run.retain_until(server_now) - DATE_TOLERANCE_SECONDS if run is not None else None,
        )
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
                expected=expected,
                mixes=share.mixes,
                replays=share.replays,
                infrastructures=share.infrastructures,
                data=share.data,
                has_markers=setting.has_markers,
                shares_core=setting.share_cores,
                polls_busily=setting.polls_busily,
            )
            for worker, share in enumerate(share_phase(phase, numbers, sharing))
        ]

    def _op_log(self, phase: Phase, worker: int) -> Path | None:
        folder = self._setting.op_log_dir
        return None if folder is None else folder / f"{self._setting.run_id}-{phase.position:04d}-{worker}.parquet"

    def _result(
        self,
        phase: Phase,
        workload: Workload,
        measured: Measured,
        *,
        server: ServerUsage | None,
        client: ClientUsage,
        fill: Fill,
        cache_state: str,
        ceiling: ClientCeiling | None = None,
        incomplete: str | None = None,
        first_errors: tuple[FirstError, ...] = (),
        failed_time_share: float = 0.0,
    ) -> Result:
        """Return the complete result of one workload."""
        setting = self._setting
        tally, outside, seconds = measured.tally, measured.outside, measured.seconds
        retention = setting.retention.locked_by(workload.lock, workload.retain_for_seconds)
        histograms = tally.histograms
        errors = tally.errors + outside["errors"]
        objects = tally.objects + outside["warm-up"] + outside["drain"]
        failures = failures_of(objects, errors, first_errors, failed_time_share)
        verdict = judge(client, server, failures, shares_host=setting.server.shares_host)
        archives, retrieves = workload.work.operation_label == "archive", bool(workload.work.does & RETRIEVES)
        per_transaction = setting.objects_per_transaction_max if archives else None
        rate = tally.objects / seconds if seconds else 0.0

        def latency(quantity: str) -> Any:
            return histograms[quantity].latency() if quantity in histograms else None

        fields: dict[str, Any] = {
            "phase": phase.name,
            "workload": workload.name,
            "operation": workload.work.operation_label,
            "object_bytes": workload.work.mean_bytes,
            "objects_per_session": workload.objects_per_session,
            "clients": workload.clients,
            "repetition": phase.repetition,
            "position": phase.position,
            "session_kind": setting.session_kind,
            "session_open": setting.session_open,
            "temperature": cache_state if retrieves else None,
            "checksum": workload.checksum or setting.checksum,
            "payload_signing": setting.payload_signing,
            "retention_mode": retention.mode.value,
            "legal_hold": retention.legal_hold,
            "verified": setting.verify if retrieves else "none",
            "sessions": tally.sessions,
            "objects": tally.objects,
            "bytes": tally.bytes,
            "attempts": tally.attempts,
            "errors": errors,
            "refusals": tally.refusals,
            "seconds": seconds,
            "warm_up_objects": outside["warm-up"],
            "drained_objects": outside["drain"],
            "store_bytes_before": fill.store_bytes,
            "archived_bytes_before": fill.archived_bytes,
            "objects_per_second": rate,
            "megabytes_per_second": tally.bytes / seconds / 1e6 if seconds else 0.0,
            "mebibytes_per_second": tally.bytes / seconds / (1 << 20) if seconds else 0.0,
            **{f"{name}_ms": latency(name) for name in _LATENCIES},
            "lock_ms": latency("lock"),
            "server": server,
            "client": client,
            "limited_by": verdict.limited_by,
            "settled": measured.window.settled,
            "session_half_width": _finite(measured.window.half_width),
            "rate_half_width": _finite(relative_half_width(measured.counts)),
            "unsteady": None,
            "achieved_per_second": rate,
            "objects_per_transaction": per_transaction and min(per_transaction, workload.objects_per_session),
            "utilisations": verdict.utilisations,
            "confidence": verdict.confidence,
            "first_errors": first_errors,
            "retries": sum(error.retried for error in first_errors),
            "variant": workload.variant,
            "lock": workload.lock.value if workload.lock is not None else None,
            "ceiling": ceiling.of(rate) if ceiling is not None else None,
            "incomplete": incomplete,
            "connections_per_session": 1 + tally.reconnects / tally.sessions if tally.sessions else None,
            "requests_per_connection": tally.requests_before_close / tally.reconnects if tally.reconnects else None,
        }
        return Result(**fields | own_fields(phase, workload, measured))


_LATENCIES = (
    "session_service", "session", "session_open", "session_close", "object_service", "object",
    "first_byte", "transaction_send", "transaction_commit", "attempt", "reconnect",
)  # fmt: skip
_NOT_CLOSED: frozenset[Trait] = frozenset(("open loop", "replay", "infrastructure"))
_ON_OBJECTS = {operation.label for operation in Operation if operation >= Operation.ARCHIVE}


def _times(phase: Phase, started_at: float, ran_ns: tuple[int, int], measured_ns: tuple[int, int]) -> PhaseTimes:
    """Return the times of a phase without preparation."""
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


def _sum_of_workloads(phase: Phase, totals: Sequence[tuple[Tally, dict[str, int]]], seconds: float) -> PartResult:
    """Return the sum of all workloads except infrastructure operations."""
    whole = PartTally("mixed")
    for workload, (tally, outside) in zip(phase.workloads, totals, strict=True):
        if "infrastructure" not in workload.work.traits:
            whole.add(
                PartTally(
                    "mixed", tally.objects, tally.bytes, tally.attempts, tally.errors + outside["errors"],
                    tally.missed_deadlines, tally.histograms,
                )
            )  # fmt: skip
    return part_result("", whole, seconds)


def _measured_counts(workload: str, rows: Sequence[IntervalRow], window: Window, start_ns: int) -> list[int]:
    """Return the objects of each whole interval of the time in which all clients were measured."""
    first = -(-(window.from_ns - start_ns) // INTERVAL_NS)
    last = (window.to_ns - start_ns) // INTERVAL_NS
    objects: dict[int, int] = {}
    for row in rows:
        if row.workload == workload and first <= row.interval < last:
            objects[row.interval] = objects.get(row.interval, 0) + row.objects
    return [objects.get(interval, 0) for interval in range(first, last)]


def _failed_time_share(reports: Sequence[PhaseReport], workload: int) -> float:
    """Return the share of a workload's session time, over all workers, that sessions without an object took."""
    times = [each for report in reports if (each := report.failed_session_ns.get(workload)) is not None]
    return sum(failed for failed, _ in times) / max(1, sum(total for _, total in times))


def _closed_loop_clients(phase: Phase) -> int:
    """Return the clients of a phase whose only workload is a closed loop; 0 otherwise."""
    traits = {trait for workload in phase.workloads for trait in workload.work.traits}
    return phase.clients if len(phase.workloads) == 1 and not traits & _NOT_CLOSED else 0


def _finite(half_width: float | None) -> float | None:
    return None if half_width is None or math.isinf(half_width) else half_width


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
    """Yield all histograms of a tally; those of its parts are named quantity:part."""
    yield from tally.histograms.items()
    for name, part in tally.parts.items():
        for quantity, histogram in part.histograms.items():
            yield f"{quantity}:{name}", histogram
