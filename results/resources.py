"""Server resource usage: what each source said, sample by sample, and what was used between any two instants.

One idea: a source's words are kept as they came, mostly counters that only grow. What was used in a phase is a sum of
their increments, the pieces at its edges in proportion; so phases need not be aligned with the sampling, a restart of
the server takes nothing back, and every figure can be made again from the database.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

LOCAL = "local"  # the source that shows this host, where the server runs on it
CLIENT = "client"  # the same of the client's host, where the server runs elsewhere

Reading = Mapping[str, Mapping[str, float]]  # quantity -> item (core, device, interface ...; "" for a whole) -> value

# What a counter grew in the few milliseconds between two samples is mostly its own grain.
STEP_SECONDS_MIN = 0.5
SILENCE_SECONDS_MAX = 3.0  # between two samples of a source: longer, and nobody knows when what happened


class Quantity(NamedTuple):
    """What a name in a Reading means. The unit is in the name."""

    item: str  # what its items are: core, device, interface ...; "" where there is only the whole
    counter: bool  # only grows, from an unknown beginning; else it is what it is at that moment
    begins_at_zero: bool = False  # an item that was not there before has counted from nothing since


QUANTITIES: Mapping[str, Quantity] = {
    # The host. Busy is what is neither idle, iowait nor steal.
    "cpu_user_seconds": Quantity("core", True),
    "cpu_system_seconds": Quantity("core", True),
    "cpu_iowait_seconds": Quantity("core", True),
    "cpu_steal_seconds": Quantity("core", True),
    "cpu_idle_seconds": Quantity("core", True),
    "memory_used_bytes": Quantity("", False),
    "memory_total_bytes": Quantity("", False),
    "swap_in_bytes": Quantity("", True),
    "swap_out_bytes": Quantity("", True),
    "disk_busy_seconds": Quantity("device", True),
    "disk_read_bytes": Quantity("device", True),
    "disk_write_bytes": Quantity("device", True),
    "disk_reads": Quantity("device", True),
    "disk_writes": Quantity("device", True),
    "disk_request_seconds": Quantity("device", True),  # of all requests together: their rate is the mean queue
    "network_receive_bytes": Quantity("interface", True),
    "network_send_bytes": Quantity("interface", True),
    "network_speed_bytes_per_second": Quantity("interface", False),
    # The server's processes.
    "process_cpu_seconds": Quantity("", True),
    "process_cpu_limit_cores": Quantity("", False),  # cores it may use at once: by affinity and by cgroup quota
    "process_throttled_seconds": Quantity("", True),  # kept waiting by its cgroup's quota
    "thread_cpu_seconds": Quantity("thread", True, True),
    "thread_wait_seconds": Quantity("thread", True, True),  # ready to run, but without a core
    "process_resident_bytes": Quantity("", False),
    "process_read_bytes": Quantity("", True),
    "process_write_bytes": Quantity("", True),
    "process_open_files": Quantity("", False),
    "process_context_switches": Quantity("", True),
    # What a store counts itself. Requests by the name that the platform has for the operation.
    "requests": Quantity("operation", True, True),
    "request_errors": Quantity("operation", True, True),
    "first_byte_requests": Quantity("operation and seconds at most", True, True),  # "PutObject 0.05", cumulative
    "store_written_bytes": Quantity("part", True),  # catalogue, segments
    "store_syncs": Quantity("part", True),
}


@dataclass(frozen=True, slots=True)
class SampleRow:
    """What one source said at one instant."""

    source: str  # local, pid:123, minio, prometheus:http://...
    at: float  # epoch seconds
    monotonic_ns: int  # the run's clock
    reading: Reading


class SourceProblem(NamedTuple):
    """Why a source could not be read, the first time."""

    source: str
    at: float  # epoch seconds
    problem: str


class Spread(NamedTuple):
    """One quantity of one item over a time: of its rate per second for a counter, of itself otherwise."""

    mean: float
    p95: float
    max: float


class Step(NamedTuple):
    """Values that hold from one instant to another."""

    from_ns: int
    to_ns: int
    values: dict[str, float]


class Timeline:
    """The samples of one source, in order."""

    def __init__(self, samples: Iterable[SampleRow] = ()) -> None:
        self._samples: list[SampleRow] = sorted(samples, key=lambda sample: sample.monotonic_ns)
        self._at = [sample.monotonic_ns for sample in self._samples]

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: SampleRow) -> None:
        """The next sample."""
        self._samples.append(sample)
        self._at.append(sample.monotonic_ns)

    @property
    def begin_ns(self) -> int:
        """The first sample's instant."""
        return self._at[0]

    @property
    def end_ns(self) -> int:
        """The last sample's instant."""
        return self._at[-1]

    def reaches(self, from_ns: int, to_ns: int) -> bool:
        """Whether there are samples at both ends of this time, whatever lies between."""
        return bool(self._samples) and self._at[0] <= from_ns < to_ns <= self._at[-1]

    def covers(self, from_ns: int, to_ns: int) -> bool:
        """Whether the samples reach over this time without a silence: else nobody knows when what happened."""
        return self.reaches(from_ns, to_ns) and all(
            b.monotonic_ns - a.monotonic_ns <= SILENCE_SECONDS_MAX * 1e9 for a, b in self._pairs(from_ns, to_ns)
        )

    def overlap(self, from_ns: int, to_ns: int) -> float:
        """The share of this time in the time between the samples around it, 0-1: 1 where both its ends were sampled.

        What was used in the rest of that time is told apart by proportion only.
        """
        if not self.covers(from_ns, to_ns):
            return 0.0
        first, last = self._around(from_ns, to_ns)
        return (to_ns - from_ns) / (max(last, to_ns) - first)

    def used(self, quantity: str, from_ns: int, to_ns: int) -> dict[str, float]:
        """How much each item of a counter grew; empty where the samples do not reach or have no such quantity."""
        return self._grown(quantity, from_ns, to_ns) if self.covers(from_ns, to_ns) else {}

    def _grown(self, quantity: str, from_ns: int, to_ns: int) -> dict[str, float]:
        grown: dict[str, float] = {}
        for a, b in self._pairs(from_ns, to_ns):
            share = (min(b.monotonic_ns, to_ns) - max(a.monotonic_ns, from_ns)) / (b.monotonic_ns - a.monotonic_ns)
            for item, increment in _increments(quantity, a, b).items():
                grown[item] = grown.get(item, 0.0) + share * increment
        return grown

    def counted(self, quantity: str, from_ns: int, to_ns: int) -> dict[str, float]:
        """As ``used``, but from the last sample before to the first one after: whole numbers, where nothing was under
        way at either end. A silence between loses nothing of a counter."""
        if not self.reaches(from_ns, to_ns):
            return {}
        return self._grown(quantity, *self._around(from_ns, to_ns))

    def spread(self, quantity: str, from_ns: int, to_ns: int) -> dict[str, Spread]:
        """Mean, 95th percentile and maximum per item, from sample to sample; empty as for ``used``."""
        if not self.covers(from_ns, to_ns):
            return {}
        seconds = (to_ns - from_ns) / 1e9
        if QUANTITIES[quantity].counter:
            means = {item: grown / seconds for item, grown in self.used(quantity, from_ns, to_ns).items()}
        else:
            means = {}
        seen: dict[str, list[float]] = {}
        for step in self.series(quantity, from_ns, to_ns):
            for item, value in step.values.items():
                seen.setdefault(item, []).append(value)
        return {
            item: Spread(means.get(item, sum(values) / len(values)), percentile_95(values), max(values))
            for item, values in seen.items()
        }

    def series(self, quantity: str, from_ns: int, to_ns: int) -> list[Step]:
        """Values per item from sample to sample: rates per second of a counter, a gauge as it was at each sample."""
        if QUANTITIES[quantity].counter:
            return self._steps(quantity, from_ns, to_ns)
        here = slice(max(0, bisect_right(self._at, from_ns) - 1), bisect_right(self._at, to_ns))
        return [
            Step(max(at, from_ns), max(at, from_ns), dict(sample.reading.get(quantity, {})))
            for at, sample in zip(self._at[here], self._samples[here], strict=True)
        ]

    def _steps(self, quantity: str, from_ns: int, to_ns: int) -> list[Step]:
        """Samples that lie close together (a phase's edge beside a second) make one step."""
        pieces: list[tuple[int, int, dict[str, float]]] = []
        for a, b in self._pairs(from_ns, to_ns):
            increments = _increments(quantity, a, b)
            last = pieces[-1] if pieces else None
            if last is None or last[1] - last[0] >= STEP_SECONDS_MIN * 1e9:
                pieces.append((a.monotonic_ns, b.monotonic_ns, increments))
            else:
                pieces[-1] = _joined(last, b.monotonic_ns, increments)
        if len(pieces) > 1 and pieces[-1][1] - pieces[-1][0] < STEP_SECONDS_MIN * 1e9:
            _, ended_ns, increments = pieces.pop()
            pieces[-1] = _joined(pieces[-1], ended_ns, increments)
        return [_step(begun_ns, ended_ns, grown, from_ns, to_ns) for begun_ns, ended_ns, grown in pieces]

    def last(self, quantity: str, at_ns: int) -> dict[str, float]:
        """What a quantity was in the newest sample not after an instant that has it."""
        for sample in reversed(self._samples[: bisect_right(self._at, at_ns)]):
            if quantity in sample.reading:
                return dict(sample.reading[quantity])
        return {}

    def _around(self, from_ns: int, to_ns: int) -> tuple[int, int]:
        """The instants of the last sample before and of the first one after."""
        before = max(0, bisect_right(self._at, from_ns) - 1)
        after = min(bisect_left(self._at, to_ns), len(self._at) - 1)
        return self._at[before], self._at[after]

    def _pairs(self, from_ns: int, to_ns: int) -> Iterator[tuple[SampleRow, SampleRow]]:
        """Neighbouring samples whose time between them touches this one."""
        first, last = max(0, bisect_right(self._at, from_ns) - 1), bisect_left(self._at, to_ns)
        for a, b in zip(self._samples[first:last], self._samples[first + 1 : last + 1], strict=False):
            if b.monotonic_ns > a.monotonic_ns:
                yield a, b


def _joined(
    piece: tuple[int, int, dict[str, float]], ended_ns: int, increments: Mapping[str, float]
) -> tuple[int, int, dict[str, float]]:
    begun_ns, _, grown = piece
    items = dict.fromkeys([*grown, *increments])
    return begun_ns, ended_ns, {item: grown.get(item, 0.0) + increments.get(item, 0.0) for item in items}


def _step(begun_ns: int, ended_ns: int, grown: Mapping[str, float], from_ns: int, to_ns: int) -> Step:
    rates = {item: increment / (ended_ns - begun_ns) * 1e9 for item, increment in grown.items()}
    return Step(max(begun_ns, from_ns), min(ended_ns, to_ns), rates)


def percentile_95(values: Sequence[float]) -> float:
    """The smallest value that at least 95% do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, -(-len(ranked) * 95 // 100) - 1)]


def _increments(quantity: str, a: SampleRow, b: SampleRow) -> dict[str, float]:
    """What each item counted from a to b; a counter that fell has begun anew."""
    before, after = a.reading.get(quantity), b.reading.get(quantity)
    if after is None or (before is None and not QUANTITIES[quantity].begins_at_zero):
        return {}
    before = before or {}
    begins_at_zero = QUANTITIES[quantity].begins_at_zero
    return {
        item: value - before[item] if value >= before.get(item, value) else value
        for item, value in after.items()
        if item in before
    } | ({item: value for item, value in after.items() if item not in before} if begins_at_zero else {})
