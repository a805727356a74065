"""Merging of the reports of all workers of one phase.

One idea: everything is a sum over intervals, so the order of reports does not matter. A phase may take an hour with
hundreds of workloads. Its histograms are then summed at once, and each interval keeps only its amounts and two
percentiles. The work of each worker is counted per interval too, so that work by host and work of the run are two
counts, which a test compares.
"""

from __future__ import annotations

import math
import pickle
import zlib
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from archiver.measure.histogram import Histogram, percentiles
from archiver.measure.reports import (
    INTERVAL_NS,
    Change,
    IntervalReport,
    PartOfPhase,
    PhaseReport,
    StageReport,
    Tally,
    TallyKey,
    joined,
)
from archiver.measure.server_usage import WorkDone
from archiver.values.record import ErrorKind
from results.measures.statistics import BATCHES_MAX, relative_half_width
from results.recorded.database import ArchivedRange, IntervalRow, PartRow
from results.recorded.model import FirstError
from scenarios.model import Phase
from scenarios.work.mix import RETRIEVES


@dataclass(frozen=True, slots=True)
class Window:
    """The measured time of a workload: the time in which all of its clients are measured.

    ``first`` and ``last`` bound its intervals if it is a window of time. Otherwise each client is measured in whole
    sessions of its own.
    """

    from_ns: int
    to_ns: int
    first: int | None
    last: int | None
    settled: bool
    seconds: float  # divisor of the rates: mean measured time of a client
    half_width: float | None = None  # relative, of the mean session time; None: its stop rule has no precision

    def part(self, key: TallyKey) -> PartOfPhase:
        """Return the part of the phase (warm-up, measured or drain) that a tally belongs to."""
        if self.first is None or self.last is None:
            return key.part
        if key.interval < self.first:
            return "warm-up"
        return "measured" if key.interval < self.last else "drain"


NO_INTERVAL = 1 << 40  # above all interval numbers
PACK_AT = 4_096  # tallies in memory; without packing, a phase of hours would keep gigabytes of small arrays
OPEN_INTERVALS = 40  # 10 s; a worker reports every second
JOIN_AT = 20_000  # changes in memory, before adjacent ones are joined


class _Course:
    """Work of one worker by interval: objects, bytes, errors. Takes 24 bytes for each interval."""

    def __init__(self) -> None:
        self._done = array("q")  # three values for each interval

    def add(self, interval: int, tally: Tally) -> None:
        at = 3 * interval
        if at >= len(self._done):
            self._done.extend([0] * (at + 3 - len(self._done)))
        self._done[at] += tally.objects
        self._done[at + 1] += tally.bytes
        self._done[at + 2] += tally.errors

    def between(self, first: int, last: int) -> tuple[int, int, int]:
        """Return (objects, bytes, errors) of intervals ``first`` to ``last`` - 1."""
        done = self._done[3 * first : 3 * last]
        return sum(done[::3]), sum(done[1::3]), sum(done[2::3])


class Merge:
    """Merged reports of the workers of one phase."""

    def __init__(self, phase: Phase) -> None:
        self._phase = phase
        self._in_whole_sessions = all(each.work.measured_time == "sessions" for each in phase.workloads)
        self._courses: dict[tuple[int, bool], _Course] = {}  # by worker, and whether measured
        self._shows_all = False  # no session was measured, so the result covers the whole time
        self._tallies: dict[TallyKey, Tally] = {}
        self._summed_to = 0  # the tallies of all earlier intervals were summed up
        self._packed: list[bytes] = []  # older tallies; a key may be in several, since everything is a sum
        self._moved: dict[int, Counter[str]] | None = None  # see ``_moved_by_interval``
        self._errors: dict[tuple[int, str, str], ErrorKind] = {}
        self._changed: list[Change] = []
        self._last_archived: dict[tuple[int, int], tuple[int, int]] = {}
        self._join_at = JOIN_AT

    def take(self, report: IntervalReport) -> None:
        for key, tally in report.tallies.items():
            self._take_tally(key, tally)
            of = report.worker, not self._in_whole_sessions or key.part == "measured"
            if of not in self._courses:
                self._courses[of] = _Course()
            self._courses[of].add(max(0, key.interval), tally)
        if len(self._tallies) >= PACK_AT:
            self._packed.append(zlib.compress(pickle.dumps(self._tallies, pickle.HIGHEST_PROTOCOL), 1))
            self._tallies = {}
        latest = max((key.interval for key in report.tallies), default=0)
        if latest - 2 * OPEN_INTERVALS >= self._summed_to:
            self._sum_up(latest - OPEN_INTERVALS)
        for error in report.errors:
            known = self._errors.setdefault((error.workload, error.operation, error.reason), error)
            if known is not error:
                known.count += error.count
                known.outcomes_unknown += error.outcomes_unknown
                known.retried += error.retried
        self._changed += report.changed
        for place, last in report.last_archived.items():
            self._last_archived[place] = max(last, self._last_archived.get(place, last))
        if len(self._changed) > self._join_at:
            self._changed = joined(self._changed)
            self._join_at = max(JOIN_AT, 2 * len(self._changed))

    def windows(self, reports: Sequence[PhaseReport], start_ns: int) -> list[Window]:
        """Return the measured time of each workload."""
        return [
            self._window(
                index, [stage for report in reports for stage in report.stages if stage.workload == index], start_ns
            )
            for index in range(len(self._phase.workloads))
        ]

    def _window(self, index: int, stages: Sequence[StageReport], start_ns: int) -> Window:
        """Return the measured time of a workload, over all workers."""
        if not stages:
            return Window(start_ns, start_ns, None, None, False, 0.0)
        settled = not any(stage.ended_early for stage in stages)
        starts, ends = [each.measured_from_ns for each in stages], [each.measured_to_ns for each in stages]
        match self._phase.workloads[index].work.measured_time:
            case "sessions":
                return self._of_sessions(index, stages, settled, start_ns)
            case "all":
                from_ns, to_ns = min(starts), max(min(starts), *ends)
                return Window(from_ns, to_ns, None, None, settled, (to_ns - from_ns) / 1e9)
            case "intervals":
                first = -(-(max(starts) - start_ns) // INTERVAL_NS)
                last = max(first, (min(ends) - start_ns) // INTERVAL_NS)
                from_ns, to_ns = start_ns + first * INTERVAL_NS, start_ns + last * INTERVAL_NS
                return Window(from_ns, to_ns, first, last, settled, (to_ns - from_ns) / 1e9)

    def _of_sessions(self, index: int, stages: Sequence[StageReport], settled: bool, start_ns: int) -> Window:
        """Return the measured time of clients that are measured in whole sessions."""
        workload = self._phase.workloads[index]
        seconds = sum(stage.client_ns for stage in stages) / workload.clients / 1e9
        if not seconds and workload.clients > 1:
            # The clients used up their shares within the warm-up. The result covers the whole time, marked as
            # unsettled.
            ended_ns = max(start_ns + 1, *(stage.ended_ns for stage in stages))
            last = math.ceil((ended_ns - start_ns) / INTERVAL_NS)
            self._shows_all = True
            return Window(start_ns, ended_ns, 0, last, False, (ended_ns - start_ns) / 1e9)
        measured = [stage for stage in stages if stage.client_ns] or stages
        starts, ends = ([each.measured_from_ns for each in measured], [each.measured_to_ns for each in measured])
        from_ns, to_ns = max(starts), min(ends)
        if from_ns >= to_ns:  # sessions take longer than the window, so all clients are never measured at one time
            from_ns, to_ns = min(starts), max(ends)
        half_width = stages[0].half_width
        if half_width is None:
            half_width = self._session_half_width(index, (to_ns - from_ns) / 1e9)
            settled = settled and half_width <= workload.work.precision
        return Window(from_ns, to_ns, None, None, settled, seconds, half_width)

    def _session_half_width(self, workload: int, seconds: float) -> float:
        """Return the relative half-width of the mean session time of several clients (batch means).

        Sessions of several clients overlap in time and share its events. A batch is therefore the sessions that ended
        in a part of the time that is at least as long as a mean session.
        """
        times: dict[int, tuple[int, int]] = {}  # by interval: sessions, nanoseconds
        for key, tally in self._all():
            service = tally.histograms.get("session_service")
            if key.workload == workload and key.part == "measured" and service is not None:
                sessions, total_ns = times.get(key.interval, (0, 0))
                times[key.interval] = (sessions + service.count, total_ns + service.total_ns)
        if not times:
            return math.inf
        sessions, total_ns = (sum(column) for column in zip(*times.values(), strict=True))
        batches = min(BATCHES_MAX, len(times), int(seconds / (total_ns / sessions / 1e9)))
        if batches < 2:
            return math.inf
        in_order = np.array([times[interval] for interval in sorted(times)])
        sums = [part.sum(axis=0).tolist() for part in np.array_split(in_order, batches)]
        return relative_half_width([total_ns / sessions for sessions, total_ns in sums])

    def totals(self, windows: Sequence[Window]) -> list[tuple[Tally, dict[str, int]]]:
        """Return each workload's measured tally, and its objects and errors outside the measured time."""
        totals = [(Tally(), {"warm-up": 0, "drain": 0, "errors": 0}) for _ in self._phase.workloads]
        for key, tally in self._all():
            measured, outside = totals[key.workload]
            part = windows[key.workload].part(key)
            if part == "measured":
                measured.add(tally)
            else:
                outside[part] += tally.objects
                outside["errors"] += tally.errors
                if part == "drain" and "open loop" in self._phase.workloads[key.workload].work.traits:
                    # Response times count for sessions of an open loop that were due in the measured time, even if they
                    # ended after it. Otherwise a stall at the end would be invisible (coordinated omission).
                    measured.add_times(tally)
        return totals

    def work(self, window: Window, start_ns: int) -> WorkDone:
        """Return the work between two instants, over all workers.

        This is the work of whole intervals. For a single client in whole sessions, it is the work that ended in its
        measured time.
        """
        moved = Counter[str]()
        if self._in_whole_sessions and self._phase.clients == 1:
            for key, tally in self._all():
                if window.part(key) == "measured":
                    moved.update(self._bytes_of(key, tally), objects=tally.objects)
        else:
            for interval, done in self._moved_by_interval().items():
                if window.from_ns - INTERVAL_NS < start_ns + interval * INTERVAL_NS < window.to_ns:
                    moved.update(done)
        return WorkDone(moved["objects"], moved["archive"] + moved["new-version"], moved["retrieve"])

    def done_by(self, worker: int, start_ns: int, edges: tuple[int, int]) -> tuple[int, int, int]:
        """Return (objects, bytes, errors) of one worker in the intervals that overlap the time between two instants.

        If clients are measured in whole sessions, return those of their measured time.
        """
        first, last = (edges[0] - start_ns) // INTERVAL_NS, -(-(edges[1] - start_ns) // INTERVAL_NS)
        if self._in_whole_sessions:
            first, last = 0, NO_INTERVAL
        courses = [self._courses.get((worker, True)), self._courses.get((worker, False)) if self._shows_all else None]
        done = [course.between(max(0, first), max(0, last)) for course in courses if course is not None]
        objects, size_bytes, errors = (sum(column) for column in zip((0, 0, 0), *done, strict=True))
        return objects, size_bytes, errors

    def interval_rows(self, windows: Sequence[Window]) -> list[IntervalRow]:
        rows: dict[tuple[int, str, str], Tally] = {}
        for key, tally in self._all():
            name = self._phase.workloads[key.workload].name
            rows.setdefault((key.interval, name, windows[key.workload].part(key)), Tally()).add(tally)
        return [
            _with_percentiles(_interval_row(*key, tally), tally.histograms.get("object"))
            for key, tally in sorted(rows.items(), key=lambda item: item[0])
        ]

    def part_rows(self) -> list[PartRow]:
        """Return the rows of the whole phase, by workload and part."""
        return [
            PartRow(
                self._phase.workloads[index].name, name, part.operation, part.objects, part.bytes, part.attempts,
                part.errors,
            )
            for index, tally in self._wholes().items()
            for name, part in tally.parts.items()
        ]  # fmt: skip

    def _take_tally(self, key: TallyKey, tally: Tally) -> None:
        if key not in self._tallies:
            self._tallies[key] = Tally()
        self._tallies[key].add(tally)

    def _sum_up(self, to: int) -> None:
        """Merge the histograms of the intervals before ``to``, for which no more reports are expected."""
        for key, tally in self._tallies.items():
            if self._summed_to <= key.interval < to:
                tally.sum_up()
        self._summed_to = to

    def _all(self) -> Iterator[tuple[TallyKey, Tally]]:
        for packed in self._packed:
            yield from pickle.loads(zlib.decompress(packed)).items()
        yield from self._tallies.items()

    def _moved_by_interval(self) -> dict[int, Counter[str]]:
        """Return objects, and bytes of each operation, by interval. Call this only after all reports."""
        if self._moved is None:
            self._moved = {}
            for key, tally in self._all():
                done = self._moved.setdefault(key.interval, Counter())
                done.update(self._bytes_of(key, tally), objects=tally.objects)
        return self._moved

    def _wholes(self) -> dict[int, Tally]:
        """Return the sum of each workload over all times."""
        whole: dict[int, Tally] = {}
        for key, tally in self._all():
            whole.setdefault(key.workload, Tally()).add(tally)
        return whole

    def _bytes_of(self, key: TallyKey, tally: Tally) -> Counter[str]:
        """Return the bytes that each operation moved. All kinds of retrieve count as one."""
        moved = Counter[str]()
        parts = [(part.operation, part.bytes) for part in tally.parts.values()]
        for operation, size in parts or [(self._phase.workloads[key.workload].work.operation_label, tally.bytes)]:
            moved["retrieve" if operation in RETRIEVES else operation] += size
        return moved

    def archived_ranges(self) -> list[ArchivedRange]:
        """Return the archived ranges in order, adjacent ones joined."""
        ranges: list[ArchivedRange] = []
        for change in joined(self._changed):
            if change.operation == "archive":
                workload = self._phase.workloads[change.workload]
                data = workload.work.aside_data_set if change.is_aside else workload.data
                ranges.append(ArchivedRange(change.object_bytes, change.first, change.last, data, change.workload))
        return ranges

    def last_archived(self) -> list[tuple[int, int]]:
        """Return (workload, object number) of the object that each workload archived last at each endpoint."""
        return [(workload, number) for (workload, _), (_, number) in sorted(self._last_archived.items())]

    def wrong_lock(self) -> ErrorKind | None:
        """Return the first failure in which the platform showed a lock that was not requested."""
        return next((error for error in self._errors.values() if error.lock is not None), None)

    def changes(self) -> list[Change]:
        """Return all other changes of objects."""
        return [change for change in self._changed if change.operation != "archive"]

    def first_errors(self, workload: int | None = None) -> list[FirstError]:
        """Return the first failure of each kind, of one workload or of all; kinds that retries absorbed come last."""
        found: dict[tuple[str, str], FirstError] = {}
        for e in self._errors.values():
            if workload in (None, e.workload):
                first = found.get((e.operation, e.reason))
                first = first or FirstError(e.operation, e.reason, 0, e.message, e.request_id, e.object_name)
                counted = replace(first, count=first.count + e.count, retried=first.retried + e.retried)
                found[e.operation, e.reason] = counted
        return sorted(found.values(), key=lambda error: not error.count)

    def outcomes_unknown(self, operations: Collection[str]) -> int:
        """Return how many of these operations failed in such a way that the platform may have done them."""
        return sum(e.outcomes_unknown for e in self._errors.values() if e.operation in operations)


class ReplayMerge(Merge):
    """Merged reports of a phase that replays traces, which is measured as a whole.

    It may be an hour of hundreds of workloads, so only the latest intervals keep their histograms.
    """

    def __init__(self, phase: Phase) -> None:
        super().__init__(phase)
        self._whole: dict[int, Tally] = {}  # by workload
        self._rows: dict[tuple[int, int], IntervalRow] = {}  # by interval and workload
        self._responses: dict[tuple[int, int], Histogram] = {}  # latest intervals, without percentiles yet
        self._open_from = 0  # the percentiles of all earlier intervals are final
        self._moved: dict[int, Counter[str]] = {}

    def _take_tally(self, key: TallyKey, tally: Tally) -> None:
        self._whole.setdefault(key.workload, Tally()).add(tally)
        at = (key.interval, key.workload)
        row = _interval_row(key.interval, self._phase.workloads[key.workload].name, "measured", tally)
        self._rows[at] = _sum(self._rows[at], row) if at in self._rows else row
        response = tally.histograms.get("object")
        if response is not None and key.interval >= self._open_from:
            self._responses.setdefault(at, Histogram()).add_all(response)
            if key.interval - OPEN_INTERVALS > self._open_from:
                self._close(key.interval - OPEN_INTERVALS)
        self._moved.setdefault(key.interval, Counter()).update(self._bytes_of(key, tally), objects=tally.objects)

    def totals(self, windows: Sequence[Window]) -> list[tuple[Tally, dict[str, int]]]:
        nothing = {"warm-up": 0, "drain": 0, "errors": 0}
        return [(self._whole.get(index, Tally()), nothing) for index in range(len(self._phase.workloads))]

    def _close(self, open_from: int) -> None:
        """Compute the percentiles of all intervals before ``open_from``, and drop their histograms."""
        self._open_from = open_from
        for at in [at for at in self._responses if at[0] < self._open_from]:
            self._rows[at] = _with_percentiles(self._rows[at], self._responses.pop(at))

    def interval_rows(self, windows: Sequence[Window]) -> list[IntervalRow]:
        self._close(NO_INTERVAL)
        return sorted(self._rows.values(), key=lambda row: (row.interval, row.workload))

    def _wholes(self) -> dict[int, Tally]:
        return self._whole


def merge_of(phase: Phase) -> Merge:
    """Return the object that merges the reports of a phase."""
    is_replay = any("replay" in workload.work.traits for workload in phase.workloads)
    return ReplayMerge(phase) if is_replay else Merge(phase)


def _sum(row: IntervalRow, other: IntervalRow) -> IntervalRow:
    """Return the sum of two workers' parts of one interval of one workload, without percentiles."""
    return replace(
        row,
        sessions=row.sessions + other.sessions,
        objects=row.objects + other.objects,
        bytes=row.bytes + other.bytes,
        attempts=row.attempts + other.attempts,
        errors=row.errors + other.errors,
        response_total_ns=row.response_total_ns + other.response_total_ns,
        response_max_ns=max(row.response_max_ns, other.response_max_ns),
        response_p50_ns=None,
        response_p99_ns=None,
    )


def _with_percentiles(row: IntervalRow, responses: Histogram | None) -> IntervalRow:
    """Return a row with the percentiles of these response times; unchanged if there are none."""
    if responses is None or not responses.count:
        return row
    p50_ms, p99_ms = percentiles([responses.part()], (50, 99))
    return replace(row, response_p50_ns=round(p50_ms * 1e6), response_p99_ns=round(p99_ms * 1e6))


def _interval_row(interval: int, workload: str, part: str, tally: Tally) -> IntervalRow:
    times = tally.histograms.get("object")
    return IntervalRow(
        interval, workload, part, tally.sessions, tally.objects, tally.bytes, tally.attempts, tally.errors,
        times.total_ns if times is not None else 0, times.max_ns if times is not None else 0,
    )  # fmt: skip
